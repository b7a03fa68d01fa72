//! What the program is made of: a CycloneDX document from what cargo knows, without a network.
//!
//! # Invariants
//! - It has what the program is built from and with, by the features of a release; nothing of tests.
//! - The same lock file gives the same bytes: no time, no random number.
//!
//! # Not here
//! The packages of the console, which are built into it: they stand in `console/package-lock.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::workspace;

/// What it is of.
const PROGRAM: &str = "sichen";

/// The document.
///
/// # Errors
/// When cargo fails, or a package has no checksum and is none of ours.
pub fn document() -> Result<Value> {
    let lock = std::fs::read_to_string(workspace::root().join("Cargo.lock"))?;
    let metadata = workspace::full_metadata()?;
    build(&metadata, &checksums(&lock), &used()?)
}

/// Name and version of each package that the program is built from.
fn used() -> Result<BTreeSet<(String, String)>> {
    let mut command = Command::new(workspace::cargo());
    command.args(["tree", "--locked", "--offline", "--package", PROGRAM]);
    command.args([
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    command.current_dir(workspace::root()).stdin(Stdio::null());
    let out = command.output().context("cargo tree")?;
    if !out.status.success() {
        bail!("cargo tree: {}", String::from_utf8_lossy(&out.stderr));
    }
    let text = String::from_utf8(out.stdout).context("cargo tree answered no UTF-8")?;
    let of_line = |line: &str| {
        let mut words = line.split(' ');
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        Some((name.to_owned(), version.to_owned()))
    };
    Ok(text.lines().filter_map(of_line).collect())
}

/// The checksums of a lock file.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |package: &str, key: &str| {
        let line = package.lines().find_map(|l| l.strip_prefix(key))?;
        Some(line.trim_start_matches(" = ").trim_matches('"').to_owned())
    };
    let of = |package: &str| {
        let id = (value(package, "name")?, value(package, "version")?);
        Some((id, value(package, "checksum")?))
    };
    lock.split("[[package]]").filter_map(of).collect()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn build(
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
    used: &BTreeSet<(String, String)>,
) -> Result<Value> {
    let all = metadata["packages"].as_array().context("no packages")?;
    let id = |p: &Value| (text(p, "name").to_owned(), text(p, "version").to_owned());
    let mut by_id: BTreeMap<&str, (&Value, String)> = BTreeMap::new();
    for package in all.iter().filter(|p| used.contains(&id(p))) {
        let url = format!(
            "pkg:cargo/{}@{}",
            text(package, "name"),
            text(package, "version")
        );
        by_id.insert(text(package, "id"), (package, url));
    }
    let mut components = BTreeMap::new();
    let mut program = None;
    for (package, url) in by_id.values() {
        let mut component = json!({
            "type": "library",
            "bom-ref": url,
            "name": text(package, "name"),
            "version": text(package, "version"),
            "purl": url,
            "licenses": [{ "expression": text(package, "license").replace('/', " OR ") }],
        });
        match checksums.get(&id(package)) {
            Some(sum) => component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]),
            None if package["source"].is_null() => {}
            None => bail!("{url} has no checksum"),
        }
        if text(package, "name") == PROGRAM {
            component["type"] = json!("application");
            program = Some(component);
        } else {
            components.insert(url.clone(), component);
        }
    }
    let nodes = metadata["resolve"]["nodes"].as_array();
    let mut dependencies = BTreeMap::new();
    for node in nodes.context("no graph")? {
        let Some((_, url)) = by_id.get(text(node, "id")) else {
            continue;
        };
        let deps = node["deps"].as_array().into_iter().flatten();
        let for_tests = |dep: &Value| {
            let mut kinds = dep["dep_kinds"].as_array().into_iter().flatten();
            kinds.all(|kind| kind["kind"] == "dev")
        };
        let on = deps.filter(|dep| !for_tests(dep));
        let on: BTreeSet<&str> = on
            .filter_map(|dep| Some(by_id.get(text(dep, "pkg"))?.1.as_str()))
            .collect();
        dependencies.insert(url.clone(), json!({ "ref": url, "dependsOn": on }));
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": program.context("the program is none of the packages")? },
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies.into_values().collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_s_own_parts_are_all_there_and_those_of_its_tests_are_not() {
        let document = document().unwrap();
        let components = document["components"].as_array().unwrap();
        let names: BTreeSet<&str> = components.iter().map(|c| text(c, "name")).collect();
        for name in [
            "rustls",
            "tokio-postgres",
            "rusqlite",
            "jiff",
            "sichen-core",
        ] {
            assert!(names.contains(name), "{name}");
        }
        for name in ["proptest", "insta", "sichen-sim", "sichen-testdb", "xtask"] {
            assert!(!names.contains(name), "{name}");
        }
        assert_eq!(document["metadata"]["component"]["name"], PROGRAM);
        for component in components {
            let ours = text(component, "name").starts_with("sichen-");
            let license = text(&component["licenses"][0], "expression");
            assert!(!license.is_empty() && !license.contains('/'), "{component}");
            let sum = component["hashes"][0]["content"].as_str();
            assert_eq!(sum.map(str::len), (!ours).then_some(64), "{component}");
        }
        let known: BTreeSet<&str> = components.iter().map(|c| text(c, "bom-ref")).collect();
        let dependencies = document["dependencies"].as_array().unwrap();
        assert_eq!(dependencies.len(), components.len() + 1);
        for on in dependencies
            .iter()
            .flat_map(|d| d["dependsOn"].as_array().unwrap())
        {
            assert!(known.contains(on.as_str().unwrap()), "{on}");
        }
        assert_eq!(document, super::document().unwrap(), "the same each time");
    }

    #[test]
    fn a_package_from_elsewhere_without_a_checksum_is_refused() {
        let package = |name: &str, source: Value| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT", "source": source });
        let elsewhere = json!("git+https://example.org/x");
        let metadata = json!({
            "packages": [package(PROGRAM, Value::Null), package("x", elsewhere)],
            "resolve": { "nodes": [] },
        });
        let used = [PROGRAM, "x"].map(|name| (name.to_owned(), "1.0.0".to_owned()));
        let refused = build(&metadata, &BTreeMap::new(), &used.into()).unwrap_err();
        assert!(refused.to_string().contains("x@1.0.0"), "{refused}");
    }
}
