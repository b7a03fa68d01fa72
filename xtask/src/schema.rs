//! Writes docs/schema/job-v1.json from the types that a document is read into.
//!
//! # Invariant
//! - The file is what the binary prints; a test fails while the file in the tree is another.

use anyhow::{Context, Result, bail};
use sichen_core::document;

use crate::workspace;

const FILE: &str = "docs/schema/job-v1.json";

/// Writes the file, or with `check` compares it with what is in the tree.
///
/// # Errors
/// The file can't be written; with `check`, it is stale.
pub fn run(check: bool) -> Result<()> {
    let path = workspace::root().join(FILE);
    let fresh = serde_json::to_string_pretty(&document::schema())? + "\n";
    if std::fs::read_to_string(&path).is_ok_and(|old| old == fresh) {
        return Ok(());
    }
    if check {
        bail!("{FILE} is not what the document's types say; run `cargo xtask schema`");
    }
    std::fs::create_dir_all(path.parent().context("a file has a directory")?)?;
    std::fs::write(&path, fresh).with_context(|| format!("write {FILE}"))
}

#[cfg(test)]
mod tests {
    //! Claims about the published schema.

    #[test]
    fn the_published_schema_is_the_one_of_the_reader() {
        super::run(true).unwrap();
    }
}
