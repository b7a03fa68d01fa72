//! `sichen schema`: the JSON Schema of what people write.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use sichen_core::document;

use crate::failure::{Exit, Failure};
use crate::output;

/// Print the JSON Schema of job, calendar or capacity documents, for editors and other tools.
#[derive(Debug, Args)]
pub struct Schema {
    /// Of which documents.
    #[arg(value_enum, default_value = "job")]
    kind: Kind,
}

/// A kind of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// `kind: Job`.
    Job,
    /// `kind: Calendar`.
    Calendar,
    /// `kind: Capacity`.
    Capacity,
}

/// Carries out `sichen schema`.
pub fn print(args: &Schema) -> Result<ExitCode, Failure> {
    let schema = match args.kind {
        Kind::Job => document::schema(),
        Kind::Calendar => document::calendar_schema(),
        Kind::Capacity => document::capacity_schema(),
    };
    let text = serde_json::to_string_pretty(&schema);
    let text = text.map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
    output::print(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}
