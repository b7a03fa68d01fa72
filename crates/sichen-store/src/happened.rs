//! What a store says of a change, beside whose it is: the same for every store.
//!
//! # Not here
//! The event's row: each store writes its own.

use sichen_core::event::Kind;
use sichen_core::ids::Token;

/// What an event says beside its entity and version.
pub(crate) struct Happened<'a> {
    pub kind: Kind,
    pub from: &'a str,
    pub to: &'a str,
    pub attempt: Option<u32>,
    pub token: Option<Token>,
    pub cause: &'a str,
    pub data: serde_json::Value,
}

impl<'a> Happened<'a> {
    pub fn new(kind: Kind, from: &'a str, to: &'a str) -> Self {
        Self {
            kind,
            from,
            to,
            attempt: None,
            token: None,
            cause: "",
            data: serde_json::Value::Object(serde_json::Map::new()),
        }
    }
}
