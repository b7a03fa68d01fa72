//! `sichen verify`, `sichen export`: does the recorded history keep the promises?
//!
//! # Not here
//! The judgement (`sichen-check`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use sichen_check::audit::Shared;
use sichen_check::{Checker, FinalRow, Options, Outcome, Sight, Verdict};
use sichen_core::event::Event;
use sichen_core::model::Dump;
use sichen_server::rest::export::{self, Line};
use tokio::sync::{mpsc, oneshot};

use crate::client::{Client, Connection};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::output::{self, Output};
use crate::store_at::StoreAt;

/// Check the recorded history against the promises: nothing lost, nothing double, no stale write
/// accepted, every outcome explained.
#[derive(Debug, Args)]
pub struct Verify {
    /// Check the data directory of a server that is stopped, without writing to it.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "store"])]
    data: Option<PathBuf>,
    /// Check a database itself, by its URL.
    #[arg(long, value_name = "URL", conflicts_with = "file")]
    store: Option<StoreAt>,
    /// Check what `sichen export` wrote.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Only the events of the last so long, such as `24h`, against all rows. What an entity was
    /// before its first event there is taken as given.
    #[arg(long, value_name = "DURATION", value_parser = length)]
    since: Option<SignedDuration>,
    /// Nothing is under way any more: a run that is still open is a violation.
    #[arg(long)]
    quiescent: bool,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

fn length(text: &str) -> Result<SignedDuration, String> {
    match text.parse::<SignedDuration>() {
        Ok(length) if length > SignedDuration::ZERO => Ok(length),
        Ok(_) => Err("it must be longer than nothing".to_owned()),
        Err(e) => Err(format!("{e}; write a length of time such as 24h or 90m")),
    }
}

/// Write the event log and all rows as JSON lines: a backup of the history, and what `sichen verify
/// --file` checks.
#[derive(Debug, Args)]
pub struct Export {
    /// The events alone.
    #[arg(long)]
    no_rows: bool,
    #[command(flatten)]
    connection: Connection,
}

/// The verdict for programs.
#[derive(Debug, Serialize)]
struct View {
    outcome: &'static str,
    violation_count: u64,
    violations: Vec<ViolationView>,
    undecided: Vec<UndecidedView>,
    seen: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct ViolationView {
    invariant: &'static str,
    promise: &'static str,
    entity: String,
    message: String,
    witness: Vec<String>,
}

#[derive(Debug, Serialize)]
struct UndecidedView {
    invariant: &'static str,
    promise: &'static str,
    reason: String,
}

/// What is asked of the checker.
#[derive(Clone, Copy, Debug)]
struct Question {
    quiescent: bool,
    /// Only what is as young as this.
    since: Option<Timestamp>,
    seq_is_commit_order: bool,
}

impl Question {
    fn options(self) -> Options {
        Options {
            quiescent: self.quiescent,
            partial: self.since.is_some(),
            seq_is_commit_order: self.seq_is_commit_order,
            seq_is_lock_order: true,
            minimums: vec![(Sight::Event, 1)],
            ..Options::default()
        }
    }

    fn covers(self, event: &Event) -> bool {
        self.since.is_none_or(|since| event.at >= since)
    }
}

/// Carries out `sichen verify`: 0 only if the history is accepted.
pub async fn check(args: Verify) -> Result<ExitCode, Failure> {
    let since = args.since.map(|span| clock::now().saturating_sub(span));
    let since = since.map(|at| at.unwrap_or(Timestamp::MIN));
    let question = Question {
        quiescent: args.quiescent,
        since,
        seq_is_commit_order: false,
    };
    let at = args.store.clone();
    let at = at.or_else(|| args.data.clone().map(StoreAt::Directory));
    let verdict = match (&at, &args.file) {
        (Some(at), _) => of_store(at, question).await?,
        (None, Some(path)) => of_file(path.clone(), question).await?,
        (None, None) => of_server(&args.connection, question).await?,
    };
    let ok = verdict.is_ok();
    args.output
        .show(&view(&verdict), |view| output::prose(&text(view)))?;
    Ok(if ok {
        ExitCode::SUCCESS
    } else {
        Exit::Failed.into()
    })
}

/// Chunks of the log that may wait for the checker.
const MAX_CHUNKS: usize = 4;

/// Reads and judges at the same time: the log goes from one thread to the other in chunks and is
/// nowhere whole.
async fn of_store(at: &StoreAt, question: Question) -> Result<Verdict, Failure> {
    let question = Question {
        seq_is_commit_order: at.seq_is_commit_order(),
        ..question
    };
    let (log, mut events) = mpsc::channel::<Vec<Event>>(MAX_CHUNKS);
    let (rows, rest) = oneshot::channel::<Dump>();
    let judged = tokio::task::spawn_blocking(move || {
        let mut reader = Reader::new(question);
        while let Some(chunk) = events.blocking_recv() {
            for event in &chunk {
                reader.event(event);
            }
        }
        let dump = rest.blocking_recv().ok()?;
        reader.records.0.borrow_mut().rows(&dump);
        reader.checker.dump(&dump);
        Some(reader.checker.finish())
    });
    let dump = at.dump_along(question.since, log).await?;
    let _ = rows.send(dump);
    let judged = judged.await;
    let judged = judged.map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
    judged.ok_or_else(|| Failure::new(Exit::Failed, "the check broke off".to_owned()))
}

/// A checker that is handed the lines of an export, with the schedules' instants as the second
/// evaluator has them.
struct Reader {
    question: Question,
    checker: Checker,
    records: Shared,
}

impl Reader {
    fn new(question: Question) -> Self {
        let records = Shared::default();
        let oracle = Some(Box::new(records.clone()) as _);
        Self {
            question,
            checker: Checker::new(Options {
                oracle,
                ..question.options()
            }),
            records,
        }
    }

    fn event(&mut self, event: &Event) {
        if self.question.covers(event) {
            self.records.0.borrow_mut().event(event);
            self.checker.event(event);
        }
    }

    fn take(&mut self, line: &str) -> Result<(), export::Error> {
        let line = match export::parse(line)? {
            Line::Event(event) => {
                self.event(&event);
                return Ok(());
            }
            line => line,
        };
        let mut records = self.records.0.borrow_mut();
        let checker = &mut self.checker;
        match line {
            Line::Head(head) => checker.seq_is_commit_order(head.seq_is_commit_order()),
            Line::Event(_) => {}
            Line::Job(job) => {
                records.row(&FinalRow::Job(&job));
                checker.state(&FinalRow::Job(&job));
            }
            Line::Revision(job, revision, document) => records.revision(job, revision, &document),
            Line::Calendar(name, version, document) => records.calendar(&name, version, &document),
            Line::Run(run) => checker.state(&FinalRow::Run(&run)),
            Line::Shard(shard) => checker.state(&FinalRow::Shard(&shard)),
            Line::Session(session) => checker.state(&FinalRow::Session(&session)),
            Line::Duty(duty) => checker.state(&FinalRow::Duty(&duty)),
            Line::Backfill(backfill) => checker.state(&FinalRow::Backfill(&backfill)),
            Line::Decision(job, decision) => checker.state(&FinalRow::Decision(job, &decision)),
            Line::Hold(hold) => checker.state(&FinalRow::Hold(&hold)),
        }
        Ok(())
    }
}

/// How a SQLite database begins.
const SQLITE: &[u8] = b"SQLite format 3\0";

async fn of_file(path: PathBuf, question: Question) -> Result<Verdict, Failure> {
    let unreadable =
        |e: String| Failure::usage(format!("SC7005: {} can't be read: {e}", path.display()));
    let mut file = BufReader::new(File::open(&path).map_err(|e| unreadable(e.to_string()))?);
    let begin = file.fill_buf().map_err(|e| unreadable(e.to_string()))?;
    if begin.starts_with(SQLITE) {
        return Err(Failure::usage(format!(
            "SC7005: {0} is a SQLite database, such as a backup, and no export\n  a backup is checked \
             whole by `sichen restore {0} --check`; its history by `sichen restore {0} --data NEW`, then \
             `sichen verify --data NEW`",
            path.display()
        )));
    }
    let mut reader = Reader::new(question);
    for (number, line) in (1u64..).zip(export::bounded(file)) {
        let line = line.map_err(|e| unreadable(format!("line {number}: {e}")))?;
        reader
            .take(&line)
            .map_err(|e| unreadable(format!("line {number}: {e}")))?;
    }
    Ok(reader.checker.finish())
}

async fn of_server(connection: &Connection, question: Question) -> Result<Verdict, Failure> {
    let client = Client::new(connection)?;
    let mut lines = client.stream(&["export"], Vec::new()).await?;
    let mut reader = Reader::new(question);
    while let Some(line) = lines.next().await? {
        let bad = |e: String| Failure::new(Exit::Failed, format!("SC7004: {e}"));
        let line = std::str::from_utf8(&line).map_err(|e| bad(e.to_string()))?;
        reader.take(line).map_err(|e| bad(e.to_string()))?;
    }
    Ok(reader.checker.finish())
}

/// Carries out `sichen export`.
pub async fn export(args: Export) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let query = vec![("rows", (!args.no_rows).to_string())];
    let mut lines = client.stream(&["export"], query).await?;
    while let Some(line) = lines.next().await? {
        let mut line = String::from_utf8_lossy(&line).into_owned();
        line.push('\n');
        if output::print_or_gone(&line)? {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn view(verdict: &Verdict) -> View {
    let outcome = match verdict.outcome {
        Outcome::Ok => "ok",
        Outcome::Violated => "violated",
        Outcome::Unknown => "unknown",
    };
    let violations = verdict.violations.iter().map(|v| ViolationView {
        invariant: v.invariant.id(),
        promise: v.invariant.promise(),
        entity: v.entity.to_string(),
        message: v.message.clone(),
        witness: v.witness.iter().map(ToString::to_string).collect(),
    });
    let undecided = verdict.unknown.iter().map(|u| UndecidedView {
        invariant: u.invariant.id(),
        promise: u.invariant.promise(),
        reason: u.reason.clone(),
    });
    let seen = verdict.counts.iter();
    View {
        outcome,
        violation_count: verdict.violation_count,
        violations: violations.collect(),
        undecided: undecided.collect(),
        seen: seen.map(|(s, n)| (format!("{s:?}"), *n)).collect(),
    }
}

fn text(view: &View) -> String {
    let seen = |name: &str| view.seen.get(name).copied().unwrap_or(0);
    let counted = |name: &str, one: &str| output::count(seen(name), one);
    let mut text = match view.outcome {
        "ok" => "ACCEPTED: this history breaks no promise.\n".to_owned(),
        "violated" => format!(
            "REFUSED: this history breaks {}.\n",
            output::count(view.violation_count, "promise")
        ),
        _ => "UNDECIDED: there is too little to judge.\n".to_owned(),
    };
    text.push_str(&format!(
        "  seen: {}, {} compared with them, {} settled, {},\n        {}, {}\n",
        counted("Event", "event"),
        counted("Row", "row"),
        counted("RunSettled", "run"),
        counted("Granted", "attempt"),
        counted("Takeover", "takeover"),
        counted("Refused", "refused report"),
    ));
    for v in &view.violations {
        text.push_str(&format!(
            "\n{} is broken by {}: {}\n  {}\n",
            v.invariant, v.entity, v.promise, v.message
        ));
        for step in &v.witness {
            text.push_str(&format!("    {step}\n"));
        }
    }
    let more = view.violation_count - view.violations.len() as u64;
    if more > 0 {
        text.push_str(&format!("… and {more} more\n"));
    }
    for u in &view.undecided {
        text.push_str(&format!(
            "  not judged: {}, {} ({})\n",
            u.invariant, u.promise, u.reason
        ));
    }
    text + "docs/verify.md says what each promise is and how it is judged.\n"
}
