//! An export: the event log as JSON lines, in the form that the history checker reads, then all
//! rows. Written here, and read again here by whoever has the lines checked.
//!
//! # Invariants
//! - Events and rows are of one moment.
//! - What was written is read again as it was.
//!
//! # Not here
//! Judging it (`sichen-check`).

mod rows;

use std::io::BufRead;

use axum::body::Bytes;
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::{JobUid, OpId, Revision, Term, Token};
use sichen_core::model::{Decision, Dump, Duty, Job, Run, Session, Shard};

use super::{convert, wire};
use rows::Row;

/// About how many bytes go out at once.
const CHUNK_BYTES: usize = 64 << 10;

/// One line of an export.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// An event. All events come before the first row.
    Event(Event),
    /// A job; deleted ones too.
    Job(Job),
    /// The document of a revision of a job.
    Revision(JobUid, Revision, String),
    /// A run.
    Run(Run),
    /// A shard.
    Shard(Shard),
    /// A session; ended ones too.
    Session(Session),
    /// A duty.
    Duty(Duty),
    /// A decision of a job.
    Decision(JobUid, Decision),
}

/// Why a line was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SC8010: this is no line of an export: {0}")]
pub struct Error(String);

impl Error {
    fn new(reason: impl ToString) -> Self {
        Self(reason.to_string())
    }
}

/// Reads one line.
///
/// # Errors
/// [`Error`] says what is not understood.
pub fn parse(line: &str) -> Result<Line, Error> {
    let value: serde_json::Value = serde_json::from_str(line).map_err(Error::new)?;
    if value.get("row").is_some() {
        let row: Row = serde_json::from_value(value).map_err(Error::new)?;
        return row.into_line().map_err(Error);
    }
    let line: wire::Event = serde_json::from_value(value).map_err(Error::new)?;
    event(line).map(Line::Event)
}

/// Reads a whole export.
///
/// # Errors
/// [`Error`] names the first line that is not understood or can't be read.
pub fn read(input: impl BufRead) -> Result<Dump, Error> {
    let mut dump = Dump::default();
    for (number, line) in (1u64..).zip(input.lines()) {
        let placed = |error: Error| Error(format!("line {number}: {}", error.0));
        let line = line.map_err(Error::new).map_err(placed)?;
        match parse(&line).map_err(placed)? {
            Line::Event(event) => dump.events.push(event),
            Line::Job(job) => dump.jobs.push(job),
            Line::Revision(job, revision, document) => {
                dump.revisions.push((job, revision, document));
            }
            Line::Run(run) => dump.runs.push(run),
            Line::Shard(shard) => dump.shards.push(shard),
            Line::Session(session) => dump.sessions.push(session),
            Line::Duty(duty) => dump.duties.push(duty),
            Line::Decision(job, decision) => dump.decisions.push((job, decision)),
        }
    }
    Ok(dump)
}

fn event(line: wire::Event) -> Result<Event, Error> {
    let entity = Entity::parse(&line.entity, &line.id)
        .ok_or_else(|| Error(format!("entity {} {}", line.entity, line.id)))?;
    let kind = Kind::parse(&line.kind).ok_or_else(|| Error(format!("kind {}", line.kind)))?;
    Ok(Event {
        seq: line.seq,
        entity,
        ver: line.ver,
        at: line.at.parse().map_err(Error::new)?,
        op: OpId(line.op.parse().map_err(Error::new)?),
        actor: line.actor,
        duty: line.duty.zip(line.term.map(Term)),
        kind,
        from: line.from,
        to: line.to,
        attempt: line.attempt,
        token: line.token.map(Token),
        cause: line.cause,
        data: match line.data {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        },
    })
}

/// Lines to come.
pub(super) type Lines = Box<dyn Iterator<Item = String> + Send>;

/// The lines of `dump`; `rows` says whether the rows are among them.
pub(super) fn lines(dump: Dump, rows: bool) -> Lines {
    let events = dump.events.into_iter();
    let events = events.map(|event| line(&convert::event(&event)));
    if !rows {
        return Box::new(events);
    }
    let jobs = dump.jobs.into_iter().map(Row::job);
    let revisions = dump.revisions.into_iter().map(Row::revision);
    let runs = dump.runs.into_iter().map(Row::run);
    let shards = dump.shards.into_iter().map(Row::shard);
    let sessions = dump.sessions.into_iter().map(Row::session);
    let duties = dump.duties.into_iter().map(Row::duty);
    let decisions = dump.decisions.into_iter();
    let decisions = decisions.map(|(job, decision)| Row::decision(job, decision));
    let rows = jobs
        .chain(revisions)
        .chain(runs)
        .chain(shards)
        .chain(sessions);
    let rows = rows.chain(duties).chain(decisions);
    Box::new(events.chain(rows.map(|row| line(&row))))
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
