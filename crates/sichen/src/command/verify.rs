//! `sichen verify`: does the recorded history keep the promises?
//!
//! # Not here
//! The judgement (`sichen-check`).

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use sichen_check::{Checker, Options, Outcome, Sight, Verdict, check_dump, jsonl};
use sichen_core::port::Store;
use sichen_store::clock::SystemClock;
use sichen_store::sqlite::SqliteStore;

use crate::client::{Client, Connection};
use crate::failure::{Exit, Failure};
use crate::output::{self, Output};

/// Check the recorded history against the promises: nothing lost, nothing double, no stale write
/// accepted, every outcome explained.
#[derive(Debug, Args)]
pub struct Verify {
    /// Check the data directory of a server that is stopped: the events and every row.
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    data: Option<PathBuf>,
    /// Check an export: the events as JSON lines.
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

/// The verdict for programs.
#[derive(Debug, Serialize)]
struct View {
    outcome: &'static str,
    rows_compared: bool,
    violation_count: u64,
    violations: Vec<ViolationView>,
    undecided: Vec<UndecidedView>,
    seen: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct ViolationView {
    invariant: &'static str,
    entity: String,
    message: String,
    witness: Vec<String>,
}

#[derive(Debug, Serialize)]
struct UndecidedView {
    invariant: &'static str,
    reason: String,
}

/// Carries out `sichen verify`: 0 only if the history is accepted.
pub async fn check(args: Verify) -> Result<ExitCode, Failure> {
    let options = Options {
        // Of memory and SQLite; PostgreSQL will say otherwise.
        seq_is_commit_order: true,
        quiescent: args.quiescent,
        minimums: vec![(Sight::Event, 1)],
        ..Options::default()
    };
    let (verdict, rows_compared) = match (&args.data, &args.file) {
        (Some(dir), _) => (of_data(dir.clone(), options).await?, true),
        (None, Some(path)) => (of_file(path.clone(), options).await?, false),
        (None, None) => (of_server(&args.connection, options).await?, false),
    };
    let ok = verdict.is_ok();
    args.output.show(&view(&verdict, rows_compared), text)?;
    Ok(if ok {
        ExitCode::SUCCESS
    } else {
        Exit::Failed.into()
    })
}

async fn of_data(dir: PathBuf, options: Options) -> Result<Verdict, Failure> {
    if !dir.is_dir() {
        let text = format!("SC7005: {} is no data directory", dir.display());
        return Err(Failure::usage(text));
    }
    let open = SqliteStore::open(&dir, Arc::new(SystemClock));
    let store = open.map_err(|e| Failure::new(Exit::Unavailable, e.to_string()))?;
    let dump = store.dump().await;
    let dump = dump.map_err(|e| Failure::new(Exit::Unavailable, e.to_string()))?;
    Ok(check_dump(&dump, options, &[]))
}

async fn of_file(path: PathBuf, options: Options) -> Result<Verdict, Failure> {
    let unreadable =
        |e: String| Failure::usage(format!("SC7005: {} can't be read: {e}", path.display()));
    let file = std::fs::File::open(&path).map_err(|e| unreadable(e.to_string()))?;
    let mut checker = Checker::new(options);
    jsonl::read(BufReader::new(file), |event| checker.event(&event))
        .map_err(|e| unreadable(e.to_string()))?;
    Ok(checker.finish())
}

async fn of_server(connection: &Connection, options: Options) -> Result<Verdict, Failure> {
    let client = Client::new(connection)?;
    let query = vec![("rows", "false".to_owned())];
    let mut lines = client.stream(&["export"], query).await?;
    let mut checker = Checker::new(options);
    while let Some(line) = lines.next().await? {
        let read = jsonl::read(line.as_slice(), |event| checker.event(&event));
        read.map_err(|e| Failure::new(Exit::Failed, format!("SC7004: {e}")))?;
    }
    Ok(checker.finish())
}

fn view(verdict: &Verdict, rows_compared: bool) -> View {
    let outcome = match verdict.outcome {
        Outcome::Ok => "ok",
        Outcome::Violated => "violated",
        Outcome::Unknown => "unknown",
    };
    let violations = verdict.violations.iter().map(|v| ViolationView {
        invariant: v.invariant.id(),
        entity: v.entity.to_string(),
        message: v.message.clone(),
        witness: v.witness.iter().map(ToString::to_string).collect(),
    });
    let undecided = verdict.unknown.iter().map(|u| UndecidedView {
        invariant: u.invariant.id(),
        reason: u.reason.clone(),
    });
    let seen = verdict.counts.iter();
    View {
        outcome,
        rows_compared,
        violation_count: verdict.violation_count,
        violations: violations.collect(),
        undecided: undecided.collect(),
        seen: seen.map(|(s, n)| (format!("{s:?}"), *n)).collect(),
    }
}

fn text(view: &View) -> String {
    let seen = |name: &str| view.seen.get(name).copied().unwrap_or(0);
    let mut text = match view.outcome {
        "ok" => "The history is accepted: no promise is broken.\n".to_owned(),
        "violated" => format!(
            "The history is REFUSED: {} broken promises.\n",
            view.violation_count
        ),
        _ => "The history is UNDECIDED: too little was seen.\n".to_owned(),
    };
    let rows = if view.rows_compared {
        format!("{} rows compared", output::grouped(seen("Row")))
    } else {
        "rows not compared (events alone; --data compares them)".to_owned()
    };
    text.push_str(&format!(
        "  {} events; {rows}\n  {} runs settled, {} attempts, {} takeovers, {} reports refused\n",
        output::grouped(seen("Event")),
        output::grouped(seen("RunSettled")),
        output::grouped(seen("Granted")),
        output::grouped(seen("Takeover")),
        output::grouped(seen("Refused")),
    ));
    for v in &view.violations {
        text.push_str(&format!("{} {}: {}\n", v.invariant, v.entity, v.message));
        for step in &v.witness {
            text.push_str(&format!("    {step}\n"));
        }
    }
    for u in &view.undecided {
        text.push_str(&format!("  undecided {}: {}\n", u.invariant, u.reason));
    }
    text
}
