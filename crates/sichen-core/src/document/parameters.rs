//! What parameters of a job or run may be: small enough to travel with every grant, and such that a
//! process gets what was written.
//!
//! # Not here
//! Which parameters a job declares ([`super::resolve`]).

use serde_json::{Map, Value};

use super::Problem;

/// The most that the parameters of a job or run may have as JSON, in bytes.
pub const MAX_PARAMETERS_BYTES: usize = 65_536;

/// Numbers that are no 64-bit integer are kept as doubles; from here on these leave integers out.
const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;

/// What is wrong with `parameters`, which stand at `path`: too much, or a value that could not be
/// handed to a process as it was written.
pub(super) fn check(parameters: &Map<String, Value>, path: &str) -> Vec<Problem> {
    let problem = |path: String, message: String| Problem { path, message };
    let mut found = Vec::new();
    let bytes = serde_json::to_string(parameters).map_or(0, |text| text.len());
    if bytes > MAX_PARAMETERS_BYTES {
        let message = format!("SC1008: has {bytes} bytes, the limit is {MAX_PARAMETERS_BYTES}");
        found.push(problem(path.to_owned(), message));
        return found;
    }
    for (name, value) in parameters {
        let bad = if name.contains('\0') {
            Some(NUL)
        } else {
            fault(value)
        };
        if let Some(bad) = bad {
            found.push(problem(
                format!("{path}.{name}").replace('\0', "\u{fffd}"),
                bad.to_owned(),
            ));
        }
    }
    found
}

/// What is said of a text with a NUL in it, in parameters as in whole documents.
pub const NUL: &str = "SC1036: there is a NUL character (U+0000), which databases and processes can't \
                   take; leave it out";
const INEXACT: &str = "SC1059: is a number that can't be kept exactly; write it as text, in quotes";

/// The first thing in `value` that would not arrive as it was written.
fn fault(value: &Value) -> Option<&'static str> {
    match value {
        Value::Null | Value::Bool(_) => None,
        Value::Number(number) => {
            let double = number.is_f64().then(|| number.as_f64()).flatten();
            double.filter(|n| n.abs() >= EXACT_BELOW).map(|_| INEXACT)
        }
        Value::String(text) => text.contains('\0').then_some(NUL),
        Value::Array(items) => items.iter().find_map(fault),
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            if name.contains('\0') {
                Some(NUL)
            } else {
                fault(value)
            }
        }),
    }
}

#[cfg(test)]
mod tests;
