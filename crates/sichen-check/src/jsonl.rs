//! The event log as JSON lines: one object a line, the form of exports and simulation traces.
//!
//! # Not here
//! Compression, files; callers bring readers and writers.

use std::io::{self, BufRead, Write};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::{OpId, Term, Token};

/// The longest line that is read, in bytes.
pub const MAX_LINE_BYTES: usize = 1 << 20;

#[derive(Serialize, Deserialize)]
struct Line {
    seq: u64,
    entity: String,
    id: String,
    ver: u32,
    at: Timestamp,
    op: String,
    actor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duty: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    term: Option<u64>,
    kind: String,
    #[serde(default)]
    from: String,
    #[serde(default)]
    to: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
    #[serde(default)]
    cause: String,
    #[serde(default)]
    data: serde_json::Value,
}

/// Why a line was not understood.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading failed.
    #[error("reading the export failed: {0}")]
    Io(#[from] io::Error),
    /// A line is no event.
    #[error("line {line} of the export is no event: {reason}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
}

/// Writes one event as a line.
///
/// # Errors
/// What the writer says.
pub fn write(out: &mut impl Write, event: &Event) -> io::Result<()> {
    let data = serde_json::from_str(&event.data).unwrap_or_else(|_| event.data.clone().into());
    let line = Line {
        seq: event.seq,
        entity: event.entity.kind().to_owned(),
        id: event.entity.id(),
        ver: event.ver,
        at: event.at,
        op: event.op.to_string(),
        actor: event.actor.clone(),
        duty: event.duty.as_ref().map(|(key, _)| key.clone()),
        term: event.duty.as_ref().map(|(_, term)| term.0),
        kind: event.kind.word().to_owned(),
        from: event.from.clone(),
        to: event.to.clone(),
        attempt: event.attempt,
        token: event.token.map(|t| t.0),
        cause: event.cause.clone(),
        data,
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

/// Reads events until the end, handing each to `take`. An export's first line is about itself and is
/// passed over.
///
/// # Errors
/// [`Error`] names the line; events before it were handed over.
pub fn read(input: impl BufRead, mut take: impl FnMut(Event)) -> Result<u64, Error> {
    let mut count = 0;
    for (number, line) in (1u64..).zip(input.lines()) {
        let line = line?;
        if line.is_empty() || (number == 1 && is_head(&line)) {
            continue;
        }
        if line.len() > MAX_LINE_BYTES {
            let reason = format!("{} bytes; the limit is {MAX_LINE_BYTES}", line.len());
            return Err(Error::Line {
                line: number,
                reason,
            });
        }
        take(parse(&line).map_err(|reason| Error::Line {
            line: number,
            reason,
        })?);
        count += 1;
    }
    Ok(count)
}

fn is_head(line: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(line).is_ok_and(|v| v.get("format").is_some())
}

fn parse(line: &str) -> Result<Event, String> {
    let l: Line = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let entity = Entity::parse(&l.entity, &l.id);
    Ok(Event {
        seq: l.seq,
        entity: entity.ok_or_else(|| format!("unknown entity {} {}", l.entity, l.id))?,
        ver: l.ver,
        at: l.at,
        op: OpId(
            l.op.parse()
                .map_err(|e| format!("operation id {}: {e}", l.op))?,
        ),
        actor: l.actor,
        duty: l.duty.zip(l.term).map(|(key, term)| (key, Term(term))),
        kind: Kind::parse(&l.kind).ok_or_else(|| format!("unknown kind {}", l.kind))?,
        from: l.from,
        to: l.to,
        attempt: l.attempt,
        token: l.token.map(Token),
        cause: l.cause,
        data: match l.data {
            serde_json::Value::String(text) => text,
            serde_json::Value::Null => "{}".to_owned(),
            other => other.to_string(),
        },
    })
}
