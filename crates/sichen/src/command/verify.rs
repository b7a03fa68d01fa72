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
use serde::Serialize;
use sichen_check::audit::{Records, Shared};
use sichen_check::{Checker, FinalRow, Options, Outcome, Sight, Verdict, check_dump};
use sichen_server::rest::export::{self, Line};

use crate::client::{Client, Connection};
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
    /// Nothing is under way any more: a run that is still open is a violation.
    #[arg(long)]
    quiescent: bool,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
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

/// Carries out `sichen verify`: 0 only if the history is accepted.
pub async fn check(args: Verify) -> Result<ExitCode, Failure> {
    let options = Options {
        quiescent: args.quiescent,
        minimums: vec![(Sight::Event, 1)],
        ..Options::default()
    };
    let at = args.store.clone();
    let at = at.or_else(|| args.data.clone().map(StoreAt::Directory));
    let verdict = match (&at, &args.file) {
        (Some(at), _) => of_store(at, options).await?,
        (None, Some(path)) => of_file(path.clone(), options).await?,
        (None, None) => of_server(&args.connection, options).await?,
    };
    let ok = verdict.is_ok();
    args.output.show(&view(&verdict), text)?;
    Ok(if ok {
        ExitCode::SUCCESS
    } else {
        Exit::Failed.into()
    })
}

async fn of_store(at: &StoreAt, options: Options) -> Result<Verdict, Failure> {
    let options = Options {
        seq_is_commit_order: at.seq_is_commit_order(),
        ..options
    };
    let dump = at.dump().await?;
    let options = Options {
        oracle: Some(Box::new(Records::of(&dump))),
        ..options
    };
    Ok(check_dump(&dump, options, &[]))
}

/// A checker that is handed the lines of an export, with the schedules' instants as the second
/// evaluator has them.
struct Reader {
    checker: Checker,
    records: Shared,
}

impl Reader {
    fn new(options: Options) -> Self {
        let records = Shared::default();
        let oracle = Some(Box::new(records.clone()) as _);
        Self {
            checker: Checker::new(Options { oracle, ..options }),
            records,
        }
    }

    fn take(&mut self, line: &str) -> Result<(), export::Error> {
        let mut records = self.records.0.borrow_mut();
        let checker = &mut self.checker;
        match export::parse(line)? {
            Line::Head(head) => checker.seq_is_commit_order(head.seq_is_commit_order()),
            Line::Event(event) => {
                records.event(&event);
                checker.event(&event);
            }
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
        }
        Ok(())
    }
}

async fn of_file(path: PathBuf, options: Options) -> Result<Verdict, Failure> {
    let unreadable =
        |e: String| Failure::usage(format!("SC7005: {} can't be read: {e}", path.display()));
    let file = File::open(&path).map_err(|e| unreadable(e.to_string()))?;
    let mut reader = Reader::new(options);
    for (number, line) in (1u64..).zip(BufReader::new(file).lines()) {
        let line = line.map_err(|e| unreadable(e.to_string()))?;
        reader
            .take(&line)
            .map_err(|e| unreadable(format!("line {number}: {e}")))?;
    }
    Ok(reader.checker.finish())
}

async fn of_server(connection: &Connection, options: Options) -> Result<Verdict, Failure> {
    let client = Client::new(connection)?;
    let mut lines = client.stream(&["export"], Vec::new()).await?;
    let mut reader = Reader::new(options);
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
