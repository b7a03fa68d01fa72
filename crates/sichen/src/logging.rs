//! What the program logs, to the error output; it may change while it runs.
//!
//! # Not here
//! Who changes it ([`crate::live`]).

use std::io::IsTerminal as _;
use std::sync::OnceLock;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// What is logged if nothing else is said.
pub const DEFAULT: &str = "info";

/// Puts another filter in force.
type Change = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

static CHANGE: OnceLock<Change> = OnceLock::new();

/// Logs from here on by `filter`.
pub fn begin(filter: EnvFilter) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A line that can't be written is lost. Saying so to the same output would panic, and end whatever logged.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_filter_reloading();
    let handle = builder.reload_handle();
    builder.init();
    let change = move |filter| handle.reload(filter).map_err(|error| error.to_string());
    // It is begun once.
    let _ = CHANGE.set(Box::new(change));
}

/// Logs from here on by what `text` says.
///
/// # Errors
/// As [`parsed`].
pub fn change(text: &str) -> Result<(), String> {
    let filter = parsed(text)?;
    match CHANGE.get() {
        Some(change) => change(filter),
        None => Ok(()),
    }
}

/// A level, or levels of parts of the program: `debug`, `warn,sichen_engine=debug`.
///
/// # Errors
/// What is not understood. A word alone is a level: as the name of a part it would be the whole of its
/// log, and most are misspelt levels.
pub fn parsed(text: &str) -> Result<EnvFilter, String> {
    let levels = "off, error, warn, info, debug, trace";
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    for part in &parts {
        let alone = !part.contains(['=', '[']);
        if part.is_empty() || alone && part.parse::<LevelFilter>().is_err() {
            return Err(format!(
                "{part:?} is none of {levels}; for a part of the program write PART=LEVEL"
            ));
        }
    }
    EnvFilter::try_new(parts.join(",")).map_err(|error| format!("{text:?}: {error}"))
}

#[cfg(test)]
mod tests;
