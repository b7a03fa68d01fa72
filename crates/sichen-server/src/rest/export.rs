//! The event log as JSON lines, in the form that the history checker reads.
//!
//! # Not here
//! Judging it (`sichen-check`).

use axum::body::Bytes;
use sichen_core::model::Dump;

use super::convert;

/// About how many bytes go out at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Lines to come.
pub(super) type Lines = Box<dyn Iterator<Item = String> + Send>;

/// The lines of `dump`.
pub(super) fn lines(dump: Dump, _rows: bool) -> Lines {
    let events = dump.events.into_iter();
    Box::new(events.map(|event| line(&convert::event(&event))))
}

fn line(value: &impl serde::Serialize) -> String {
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    line
}

/// The next lines together; `None` at the end.
pub(super) fn chunk(lines: &mut Lines) -> Option<Bytes> {
    let mut text = String::new();
    while text.len() < CHUNK_BYTES
        && let Some(line) = lines.next()
    {
        text.push_str(&line);
    }
    (!text.is_empty()).then(|| text.into())
}
