//! The document's JSON Schema, for editors and other tools.
//!
//! # Invariants
//! - It is generated from the very types that a document is read into, so no field is in one and not
//!   in the other.
//! - Whatever the reader takes is valid by it. The reverse is not promised: what needs more than one
//!   field, or the text of one, to be judged is judged by [`super::check`] alone.
//!
//! # Not here
//! Reading a document (`sichen-server`).

use serde_json::Value;

use super::{CalendarDocument, CapacityDocument, Document};

/// JSON Schema (draft 2020-12) of a job document.
#[must_use]
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Document);
    schema.insert("$id".to_owned(), "sichen/v1/job".into());
    schema.insert("title".to_owned(), "A job of Sichen".into());
    schema.to_value()
}

/// JSON Schema (draft 2020-12) of a calendar document.
#[must_use]
pub fn calendar_schema() -> Value {
    let mut schema = schemars::schema_for!(CalendarDocument);
    schema.insert("$id".to_owned(), "sichen/v1/calendar".into());
    schema.insert("title".to_owned(), "A calendar of Sichen".into());
    schema.to_value()
}

/// JSON Schema (draft 2020-12) of a capacity document.
#[must_use]
pub fn capacity_schema() -> Value {
    let mut schema = schemars::schema_for!(CapacityDocument);
    schema.insert("$id".to_owned(), "sichen/v1/capacity".into());
    schema.insert("title".to_owned(), "A capacity of Sichen".into());
    schema.to_value()
}
