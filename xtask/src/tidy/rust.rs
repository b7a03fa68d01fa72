//! How a Rust file is built: its length, its header, where its tests stand, what its types are
//! called.

use super::{Finding, Tree};

/// From here on a file looks for a seam.
const LINES_WARN: usize = 600;
/// From here on tidy fails.
const LINES_FAIL: usize = 1_000;

/// A file has one noun; beyond 1,000 lines without tests it has several.
pub fn file_sizes(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, views) in tree.rust_files().filter(|(file, _)| !file.is_test()) {
        let lines = views.lines_without_tests();
        let say = format!("{lines} lines without tests; give each noun a module of its own");
        let finding = Finding::new("file-size", &file.path, 0, say);
        if lines > LINES_FAIL {
            findings.push(finding);
        } else if lines > LINES_WARN {
            findings.push(finding.warning());
        }
    }
    findings
}

/// Each file says its purpose before its first item.
pub fn module_headers(tree: &Tree) -> Vec<Finding> {
    tree.rust_files()
        .filter(|(file, _)| !file.text.trim().is_empty())
        .filter(|(file, _)| !first_words(&file.text).starts_with("//!"))
        .map(|(file, _)| {
            let say = "no module header; begin with `//!`: purpose, invariants, what is not here";
            Finding::new("module-header", &file.path, 1, say)
        })
        .collect()
}

/// The first line that is neither blank nor an inner attribute.
fn first_words(text: &str) -> &str {
    text.lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with("#!["))
        .unwrap_or("")
}

/// One integration binary per crate, unit tests in a sibling `tests.rs`.
pub fn test_layout(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, views) in tree.rust_files() {
        let parts: Vec<&str> = file.path.split('/').collect();
        if let ["crates", krate, "tests", name] = parts.as_slice() {
            let say = format!(
                "a second integration binary; make `{name}` a module of crates/{krate}/tests/it/"
            );
            findings.push(Finding::new("test-layout", &file.path, 0, say));
        }
        for (index, line) in views.code.lines().enumerate() {
            let inline = line.trim_start().starts_with("mod tests {");
            if inline && file.path.starts_with("crates/") {
                let say = "tests inside the file; move them to a sibling tests.rs (`mod tests;`)";
                findings.push(Finding::new("test-layout", &file.path, index + 1, say));
            }
            if line.trim_start().starts_with("#[ignore]") {
                let say = "a test ignored in silence; give a reason: #[ignore = \"…\"]";
                findings.push(Finding::new("test-layout", &file.path, index + 1, say));
            }
        }
    }
    findings
}

/// Names that say nothing.
const EMPTY_NAMES: &[&str] = &[
    "Manager", "Helper", "Helpers", "Util", "Utils", "Data", "Info",
];

/// A type is called by what it is.
pub fn type_names(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, views) in tree.rust_files() {
        for (index, line) in views.product.lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let declares = words
                .by_ref()
                .any(|word| ["struct", "enum", "trait"].contains(&word));
            let Some(name) = words.find(|word| !word.is_empty()).filter(|_| declares) else {
                continue;
            };
            if let Some(empty) = EMPTY_NAMES.iter().find(|empty| name.ends_with(**empty)) {
                let say = format!("`{name}`: name it by what it is or does, not `{empty}`");
                findings.push(Finding::new("type-name", &file.path, index + 1, say));
            }
        }
        // A test binary may allow them as a whole; see CONTRIBUTING.md.
        let compact: String = views.product.split_whitespace().collect();
        if !file.is_test() && compact.contains("allow(clippy::disallowed") {
            let say = "`allow` outlives its reason; use #[expect(…, reason = \"…\")]";
            findings.push(Finding::new("opt-out", &file.path, 0, say));
        }
    }
    findings
}
