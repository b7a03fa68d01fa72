//! What differs between two documents, field by field.
//!
//! # Invariants
//! - Two documents that mean the same to the reader do not differ: what is left out is compared as
//!   what stands for it.
//!
//! # Not here
//! Showing it.

use serde_json::Value;

use super::Document;

/// A field that is not the same in both.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Where, such as `spec.retry.maxAttempts`.
    pub path: String,
    /// Its value in the first; `None` if it has none there.
    pub old: Option<Value>,
    /// Its value in the second.
    pub new: Option<Value>,
}

/// All that differs from `old` to `new`, in the order of the fields' names.
#[must_use]
pub fn differences(old: &Document, new: &Document) -> Vec<Difference> {
    differences_of(old, new)
}

/// The same, of documents of any kind.
#[must_use]
pub fn differences_of<T: serde::Serialize>(old: &T, new: &T) -> Vec<Difference> {
    let value = |document: &T| serde_json::to_value(document).unwrap_or_default();
    let mut found = Vec::new();
    compare(
        String::new(),
        Some(&value(old)),
        Some(&value(new)),
        &mut found,
    );
    found
}

fn compare(path: String, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<Difference>) {
    match (old, new) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let dot = if path.is_empty() { "" } else { "." };
                compare(
                    format!("{path}{dot}{name}"),
                    a.get(name),
                    b.get(name),
                    found,
                );
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for i in 0..a.len().max(b.len()) {
                compare(format!("{path}[{i}]"), a.get(i), b.get(i), found);
            }
        }
        (old, new) if old == new => {}
        (old, new) => found.push(Difference {
            path,
            old: old.cloned(),
            new: new.cloned(),
        }),
    }
}

#[cfg(test)]
mod tests;
