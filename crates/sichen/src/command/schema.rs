//! `sichen schema`: the JSON Schema of what people write.

use std::process::ExitCode;

use clap::Args;
use sichen_core::document;

use crate::failure::{Exit, Failure};
use crate::output;

/// Print the JSON Schema of job documents, for editors and other tools.
#[derive(Debug, Args)]
pub struct Schema {}

/// Carries out `sichen schema`.
pub fn print(_: &Schema) -> Result<ExitCode, Failure> {
    let text = serde_json::to_string_pretty(&document::schema());
    let text = text.map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
    output::print(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}
