//! Writes docs/schema/job-v1.json, calendar-v1.json and capacity-v1.json from the types that documents are
//! read into.
//!
//! # Invariant
//! - The files are what the binary prints; a test fails while one in the tree is another.

use anyhow::{Context, Result, bail};
use sichen_core::document;

use crate::workspace;

/// Writes the files, or with `check` compares them with what is in the tree.
///
/// # Errors
/// A file can't be written; with `check`, it is stale.
pub fn run(check: bool) -> Result<()> {
    one("docs/schema/job-v1.json", &document::schema(), check)?;
    one(
        "docs/schema/calendar-v1.json",
        &document::calendar_schema(),
        check,
    )?;
    one(
        "docs/schema/capacity-v1.json",
        &document::capacity_schema(),
        check,
    )
}

fn one(file: &str, schema: &serde_json::Value, check: bool) -> Result<()> {
    let path = workspace::root().join(file);
    let fresh = serde_json::to_string_pretty(schema)? + "\n";
    if std::fs::read_to_string(&path).is_ok_and(|old| old == fresh) {
        return Ok(());
    }
    if check {
        bail!("{file} is not what the document's types say; run `cargo xtask schema`");
    }
    std::fs::create_dir_all(path.parent().context("a file has a directory")?)?;
    std::fs::write(&path, fresh).with_context(|| format!("write {file}"))
}

#[cfg(test)]
mod tests {
    //! Claims about the published schema.

    #[test]
    fn the_published_schema_is_the_one_of_the_reader() {
        super::run(true).unwrap();
    }
}
