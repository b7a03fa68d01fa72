//! Documents of other programs: any YAML or JSON, as values whose places are known.
//!
//! # Not here
//! What they mean (importers).

use serde_json::{Map, Value};

use super::tree::{self, Node};
use super::{MAX_TEXT_BYTES, Problem, unreadable};

/// One document.
#[derive(Debug)]
pub struct Foreign {
    /// All of it. Of a key that is there twice, the last.
    pub value: Value,
    tree: Node,
}

impl Foreign {
    /// The line at which the value at `path` (such as `spec.items[0].name`) stands, or the nearest
    /// one around it.
    #[must_use]
    pub fn line_of(&self, path: &str) -> u64 {
        self.tree.place_of(&tree::steps(path)).line
    }
}

/// Reads all documents of `text`; empty ones are left out.
///
/// # Errors
/// The text is too long, or no YAML.
pub fn read_foreign(text: &str) -> Result<Vec<Foreign>, Problem> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(Problem::whole(format!(
            "SC1035: the text has {} bytes, the limit is {MAX_TEXT_BYTES}; split it",
            text.len()
        )));
    }
    let trees = tree::parse(text).map_err(|error| unreadable::problem(text, &error))?;
    let documents = trees.into_iter().map(|tree| Foreign {
        value: value(&tree),
        tree,
    });
    Ok(documents.collect())
}

fn value(node: &Node) -> Value {
    match &node.value {
        tree::Value::Null => Value::Null,
        tree::Value::Bool(value) => (*value).into(),
        tree::Value::Unsigned(number) => (*number).into(),
        tree::Value::Signed(number) => (*number).into(),
        tree::Value::Float(number) => (*number).into(),
        tree::Value::Text(text) => text.as_str().into(),
        tree::Value::List(items) => items.iter().map(value).collect(),
        tree::Value::Map(entries) => {
            let entries = entries.iter().map(|e| (e.key.clone(), value(&e.node)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
    }
}
