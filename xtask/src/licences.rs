//! Holds the locked dependencies to the licences and bans of deny.toml, with nothing installed.
//!
//! # Invariants
//! - deny.toml is the one list; `cargo deny check bans licenses sources` reads the same.
//!
//! # Not here
//! Advisories, which need the network. Sources, which only cargo-deny knows to judge.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::workspace;

/// Checks every package that the lock file names.
///
/// # Errors
/// A licence that the list does not allow, a banned crate, or cargo can't resolve the lock file.
pub fn run() -> Result<()> {
    let path = workspace::root().join("deny.toml");
    let rules = Rules::of(&std::fs::read_to_string(path).context("read deny.toml")?);
    let metadata = workspace::full_metadata()?;
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let wrong: Vec<String> = packages
        .iter()
        .filter_map(|package| rules.wrong(package))
        .collect();
    for say in &wrong {
        println!("error: {say}");
    }
    println!(
        "licences: {} packages, {} refused",
        packages.len(),
        wrong.len()
    );
    if packages.is_empty() || !wrong.is_empty() {
        bail!(
            "{} of {} packages refused by deny.toml",
            wrong.len(),
            packages.len()
        );
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Rules {
    allowed: Vec<String>,
    /// Crate and why it is banned.
    banned: Vec<(String, String)>,
}

impl Rules {
    /// Reads the two lists out of deny.toml: `allow = [ "…" ]` and `{ crate = "…", reason = "…" }`.
    fn of(text: &str) -> Rules {
        let mut rules = Rules::default();
        let mut allowing = false;
        for line in text.lines().map(str::trim) {
            let quoted: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
            if line.starts_with("{ crate =") {
                let [krate, reason, ..] = quoted.as_slice() else {
                    continue;
                };
                rules
                    .banned
                    .push(((*krate).to_owned(), (*reason).to_owned()));
            } else if line == "allow = [" {
                allowing = true;
            } else if line == "]" {
                allowing = false;
            } else if allowing {
                rules
                    .allowed
                    .extend(quoted.first().map(|id| (*id).to_owned()));
            }
        }
        rules
    }

    fn wrong(&self, package: &Value) -> Option<String> {
        let name = package["name"].as_str().unwrap_or_default();
        let version = package["version"].as_str().unwrap_or_default();
        if let Some((_, reason)) = self.banned.iter().find(|(krate, _)| krate == name) {
            return Some(format!("{name} {version} is banned: {reason}"));
        }
        let Some(licence) = package["license"].as_str() else {
            return Some(format!(
                "{name} {version} names no licence; take another crate"
            ));
        };
        (!self.allows(licence)).then(|| {
            format!(
                "{name} {version} is under `{licence}`; deny.toml allows {:?}",
                self.allowed
            )
        })
    }

    /// Whether an SPDX expression can be met by allowed licences alone. `/` is the old `OR`.
    fn allows(&self, expression: &str) -> bool {
        let spaced = expression
            .replace('(', " ( ")
            .replace(')', " ) ")
            .replace('/', " OR ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut at = 0;
        let met = self.any(&words, &mut at);
        met && at == words.len()
    }

    fn any(&self, words: &[&str], at: &mut usize) -> bool {
        let mut met = self.all(words, at);
        while words.get(*at) == Some(&"OR") {
            *at += 1;
            met |= self.all(words, at);
        }
        met
    }

    fn all(&self, words: &[&str], at: &mut usize) -> bool {
        let mut met = self.one(words, at);
        while words.get(*at) == Some(&"AND") {
            *at += 1;
            met &= self.one(words, at);
        }
        met
    }

    fn one(&self, words: &[&str], at: &mut usize) -> bool {
        let Some(word) = words.get(*at) else {
            return false;
        };
        *at += 1;
        if *word == "(" {
            let met = self.any(words, at);
            let closed = words.get(*at) == Some(&")");
            *at += 1;
            return met && closed;
        }
        let mut id = (*word).to_owned();
        if words.get(*at) == Some(&"WITH") {
            id = format!("{id} WITH {}", words.get(*at + 1).unwrap_or(&""));
            *at += 2;
        }
        self.allowed.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DENY: &str = "[licenses]\nallow = [\n    \"MIT\",\n    \"Apache-2.0\",\n    \"BSD-3-Clause\",\n]\n\
                        [bans]\ndeny = [\n    { crate = \"openssl-sys\", reason = \"TLS is rustls\" },\n]\n";

    #[test]
    fn an_expression_is_met_by_allowed_licences_alone() {
        let rules = Rules::of(DENY);
        for met in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "(MIT OR X) AND BSD-3-Clause",
        ] {
            assert!(rules.allows(met), "{met}");
        }
        for unmet in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "Apache-2.0 WITH LLVM-exception",
            "(MIT",
            "",
        ] {
            assert!(!rules.allows(unmet), "{unmet}");
        }
    }

    #[test]
    fn a_banned_crate_is_refused_with_its_reason() {
        let package = json!({"name": "openssl-sys", "version": "1.0.0", "license": "MIT"});
        let say = Rules::of(DENY).wrong(&package).expect("it is banned");
        assert!(say.contains("TLS is rustls"), "{say}");
        let unlicensed = json!({"name": "x", "version": "1.0.0", "license": null});
        assert!(Rules::of(DENY).wrong(&unlicensed).is_some());
        let fine = json!({"name": "x", "version": "1.0.0", "license": "MIT"});
        assert_eq!(Rules::of(DENY).wrong(&fine), None);
    }
}
