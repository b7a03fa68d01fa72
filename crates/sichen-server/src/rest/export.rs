//! An export: a line about itself, the event log as JSON lines, in the form that the history checker
//! reads, then all rows. Written here, and read again here by whoever has the lines checked.
//!
//! # Invariants
//! - Events and rows are of one moment.
//! - What was written is read again as it was.
//!
//! # Not here
//! Judging it (`sichen-check`).

mod backfills;
mod rows;

use std::io::{BufRead, ErrorKind, Read as _};

use axum::body::Bytes;
use sichen_core::backfill::Backfill;
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::{JobUid, OpId, Revision, Term, Token};
use sichen_core::model::{Decision, Dump, Duty, Hold, Job, Run, Session, Shard};
use sichen_core::name::JobName;

use super::{convert, wire};
use rows::Row;

/// About how many bytes go out at once.
const CHUNK_BYTES: usize = 64 << 10;

/// The longest line that is read, in bytes: a document's text, escaped, with what stands around it.
pub const MAX_LINE_BYTES: usize = 8 << 20;

/// The form of the lines: raised when a reader of the form before would misunderstand them.
const FORMAT: u32 = 1;

/// What an export says of itself, in its first line. Those from before there was one begin with an
/// event.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Head {
    /// The form of the lines that follow.
    pub format: u32,
    /// What kind of store they are from: `sqlite`, `postgres`.
    pub store: String,
}

impl Head {
    fn of(store: &str) -> Self {
        Self {
            format: FORMAT,
            store: store.to_owned(),
        }
    }

    /// Whether the events' places are in the order of commits, as those of SQLite are. Places that
    /// PostgreSQL gives are not: two transactions may commit in the other order.
    #[must_use]
    pub fn seq_is_commit_order(&self) -> bool {
        self.store == "sqlite"
    }
}

/// One line of an export.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// The export itself. Comes first, if at all.
    Head(Head),
    /// An event. All events come before the first row.
    Event(Event),
    /// A job; deleted ones too.
    Job(Job),
    /// The document of a revision of a job.
    Revision(JobUid, Revision, String),
    /// The document of a version of a calendar; deleted ones too.
    Calendar(JobName, u32, String),
    /// A run.
    Run(Run),
    /// A shard.
    Shard(Shard),
    /// A session; ended ones too.
    Session(Session),
    /// A duty.
    Duty(Duty),
    /// A backfill.
    Backfill(Backfill),
    /// A decision of a job.
    Decision(JobUid, Decision),
    /// What is held of a capacity.
    Hold(Hold),
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

/// The lines of an export, as far as they can be read.
pub fn bounded(mut input: impl BufRead) -> impl Iterator<Item = std::io::Result<String>> {
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        let mut longest = (&mut input).take(MAX_LINE_BYTES as u64 + 1);
        match longest.read_until(b'\n', &mut line) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => return Some(Err(error)),
        }
        if line.pop_if(|end| *end == b'\n').is_none() && line.len() > MAX_LINE_BYTES {
            let message = format!("a line of more than {MAX_LINE_BYTES} bytes");
            return Some(Err(std::io::Error::new(ErrorKind::InvalidData, message)));
        }
        let line = String::from_utf8(line);
        Some(line.map_err(|e| std::io::Error::new(ErrorKind::InvalidData, e)))
    })
}

/// Reads one line.
///
/// # Errors
/// [`Error`] says what is not understood.
pub fn parse(line: &str) -> Result<Line, Error> {
    let value: serde_json::Value = serde_json::from_str(line).map_err(Error::new)?;
    if value.get("format").is_some() {
        return head(value).map(Line::Head);
    }
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
    for (number, line) in (1u64..).zip(bounded(input)) {
        let placed = |error: Error| Error(format!("line {number}: {}", error.0));
        let line = line.map_err(Error::new).map_err(placed)?;
        match parse(&line).map_err(placed)? {
            Line::Head(_) => {}
            Line::Event(event) => dump.events.push(event),
            Line::Job(job) => dump.jobs.push(job),
            Line::Revision(job, revision, document) => {
                dump.revisions.push((job, revision, document));
            }
            Line::Calendar(name, version, document) => {
                dump.calendars.push((name, version, document));
            }
            Line::Run(run) => dump.runs.push(run),
            Line::Shard(shard) => dump.shards.push(shard),
            Line::Session(session) => dump.sessions.push(session),
            Line::Duty(duty) => dump.duties.push(duty),
            Line::Backfill(backfill) => dump.backfills.push(backfill),
            Line::Decision(job, decision) => dump.decisions.push((job, decision)),
            Line::Hold(hold) => dump.holds.push(hold),
        }
    }
    Ok(dump)
}

fn head(value: serde_json::Value) -> Result<Head, Error> {
    let head: Head = serde_json::from_value(value).map_err(Error::new)?;
    if head.format > FORMAT {
        let format = head.format;
        return Err(Error(format!(
            "the export has format {format}, and this release reads up to {FORMAT}; read it with \
             the release that wrote it"
        )));
    }
    Ok(head)
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

/// The lines of `dump`, which is of a `store` of this kind; `rows` says whether the rows are among
/// them.
pub(super) fn lines(dump: Dump, store: &str, rows: bool) -> Lines {
    let head = std::iter::once(line(&Head::of(store)));
    let events = dump.events.into_iter();
    let events = head.chain(events.map(|event| line(&convert::event(&event))));
    if !rows {
        return Box::new(events);
    }
    let jobs = dump.jobs.into_iter().map(Row::job);
    let revisions = dump.revisions.into_iter().map(Row::revision);
    let calendars = dump.calendars.into_iter().map(Row::calendar);
    let runs = dump.runs.into_iter().map(Row::run);
    let shards = dump.shards.into_iter().map(Row::shard);
    let sessions = dump.sessions.into_iter().map(Row::session);
    let duties = dump.duties.into_iter().map(Row::duty);
    let backfills = dump.backfills.into_iter();
    let backfills = backfills.map(|b| Row::Backfill(Box::new(backfills::BackfillRow::of(b))));
    let decisions = dump.decisions.into_iter();
    let decisions = decisions.map(|(job, decision)| Row::decision(job, decision));
    let rows = jobs
        .chain(revisions)
        .chain(calendars)
        .chain(runs)
        .chain(shards)
        .chain(sessions);
    let holds = dump.holds.into_iter().map(Row::hold);
    let rows = rows
        .chain(duties)
        .chain(backfills)
        .chain(decisions)
        .chain(holds);
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
