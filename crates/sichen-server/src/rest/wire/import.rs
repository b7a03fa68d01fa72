//! What was read of another scheduler's jobs, on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Jobs of another scheduler as documents. Nothing was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Imported {
    /// All documents as one YAML text, each below what its source says; empty if there is none.
    pub text: String,
    /// The jobs, in the order of the source.
    pub jobs: Vec<ImportedJob>,
    /// What there is to say about lines and fields.
    pub remarks: Vec<ImportRemark>,
}

/// A job that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImportedJob {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The line at which the source says it, from 1.
    pub line: u64,
    /// Whether it is switched off at its source: it is to be paused before it has a schedule.
    pub paused: bool,
    /// Its next times that were compared with those of its source: all the same.
    pub proved: u32,
    /// Its document as JSON, to be applied without its schedules before it is paused.
    #[schema(value_type = Object)]
    pub document: serde_json::Value,
}

/// What there is to say about a line or field of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImportRemark {
    /// The line, from 1.
    pub line: u64,
    /// `refused` (not imported), `warning` (imported, with a difference) or `note`.
    pub level: String,
    /// The field, such as `spec.suspend`, or empty.
    pub field: String,
    /// For people.
    pub message: String,
}
