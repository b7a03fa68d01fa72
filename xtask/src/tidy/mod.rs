//! House rules that the compiler and clippy can't see, each message naming the replacement.
//!
//! A rule is a function from the [`Tree`] to findings. The tree is read once; the rules touch no
//! disk, so `tests.rs` plants a violation of each in a tree of its own.
//!
//! # Not here
//! Forbidden calls that types resolve (clippy.toml), formatting (rustfmt), licences (deny.toml).

use anyhow::{Result, bail};

use crate::workspace;

mod cases;
mod crates;
mod docs;
mod rust;
mod source;
mod sql;
#[cfg(test)]
mod tests;
mod text;
mod tree;
mod twins;

pub use tree::Tree;

/// What a rule has to say about one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub path: String,
    /// Counted from 1; 0 is the file as a whole.
    pub line: usize,
    pub rule: &'static str,
    pub say: String,
    /// A warning is printed and passes.
    pub warning: bool,
}

impl Finding {
    pub fn new(rule: &'static str, path: &str, line: usize, say: impl Into<String>) -> Finding {
        Finding {
            path: path.to_owned(),
            line,
            rule,
            say: say.into(),
            warning: false,
        }
    }

    pub fn warning(mut self) -> Finding {
        self.warning = true;
        self
    }
}

type Rule = fn(&Tree) -> Vec<Finding>;

/// Every rule, in the order in which their findings are printed.
const RULES: &[Rule] = &[
    crates::directions,
    crates::outside_crates,
    crates::audit_stands_alone,
    rust::file_sizes,
    rust::module_headers,
    rust::test_layout,
    rust::type_names,
    text::forbidden_in_code,
    text::leftovers,
    text::forbidden_words,
    sql::twins,
    sql::no_case_on_state,
    sql::no_stray_clock,
    docs::paths_exist,
    docs::commands_exist,
    docs::error_codes,
    twins::in_step,
    cases::complete,
];

/// All findings of all rules.
pub fn check(tree: &Tree) -> Vec<Finding> {
    RULES.iter().flat_map(|rule| rule(tree)).collect()
}

/// Checks the workspace and prints the findings.
///
/// # Errors
/// When a rule is broken, or the workspace can't be read.
pub fn run(subcommands: Vec<String>) -> Result<()> {
    let tree = Tree::of_workspace(subcommands)?;
    let findings = check(&tree);
    for finding in &findings {
        let Finding {
            path,
            line,
            rule,
            say,
            warning,
        } = finding;
        let kind = if *warning { "warning" } else { "error" };
        println!("{kind}: {path}:{line}: [{rule}] {say}");
    }
    let errors = findings.iter().filter(|finding| !finding.warning).count();
    let warnings = findings.len() - errors;
    let files = tree.files.len();
    println!("tidy: {files} files, {errors} errors, {warnings} warnings");
    if errors > 0 {
        bail!("{errors} tidy errors in {}", workspace::root().display());
    }
    Ok(())
}
