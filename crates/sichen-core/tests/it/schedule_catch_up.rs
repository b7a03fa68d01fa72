//! Every state of the catch-up matrix, against a table that was written by hand.
//!
//! `docs/guide/catch-up.md` shows that table: `SICHEN_BLESS=1` writes the page anew from it, never
//! the table from the code.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use sichen_core::schedule::cron::Dialect;
use sichen_core::schedule::overlap::{Active, Overlap, Verdict, judge};
use sichen_core::schedule::{CatchUp, DueInput, Schedule, due};

const CAUSES: [&str; 7] = [
    "on-time", "down", "resumed", "paused", "created", "edited", "stepped",
];
const POLICIES: [&str; 4] = ["none", "latest", "all(2)", "coalesce"];
const WINDOWS: [&str; 2] = ["none", "2h30m"];
const OVERLAPS: [&str; 4] = ["allow", "forbid", "replace", "queue"];
const ACTIVE: [&str; 2] = ["no", "yes"];

fn file(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}

fn rows() -> Vec<[String; 6]> {
    let text = std::fs::read_to_string(file("testdata/schedule/catch_up.txt")).expect("the table");
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| {
            let cells: Vec<_> = line.split('|').map(|cell| cell.trim().to_owned()).collect();
            cells
                .try_into()
                .unwrap_or_else(|_| panic!("six cells: {line}"))
        })
        .collect()
}

fn at(text: &str) -> Timestamp {
    format!("2026-05-01T{text}Z").parse().expect("an instant")
}

/// What is decided, in the table's words.
fn decide(cause: &str, policy: &str, window: &str, overlap: &str, active: &str) -> String {
    let schedules = [Schedule::cron(
        "0 * * * *",
        Dialect::Crontab,
        "UTC",
        None,
        Timestamp::UNIX_EPOCH,
    )
    .expect("good")];
    let (mark, now) = match cause {
        "on-time" => ("00:30:00", "01:00:05"),
        "created" | "edited" => ("06:30:00", "06:30:01"),
        "stepped" => ("06:30:00", "03:00:00"),
        _ => ("00:30:00", "06:30:00"),
    };
    let mut input = DueInput::new(&schedules, at(mark), at(now));
    input.paused = cause == "paused";
    input.catch_up = match policy {
        "none" => CatchUp::None,
        "latest" => CatchUp::Latest,
        "coalesce" => CatchUp::Coalesce,
        _ => CatchUp::All(2),
    };
    input.window = (window != "none").then(|| SignedDuration::from_mins(150));
    let overlap = match overlap {
        "allow" => Overlap::Allow,
        "forbid" => Overlap::Forbid,
        "replace" => Overlap::Replace,
        _ => Overlap::Queue { limit: 1 },
    };
    let plan = due(&input);
    let active: &[&str] = if active == "yes" { &["a run"] } else { &[] };
    let planned: Vec<_> = plan.runs.iter().map(|run| run.planned).collect();
    let hour = |at: Timestamp| at.to_string()[11..13].to_owned();
    let mut said: Vec<String> = plan
        .skips
        .iter()
        .map(|skip| {
            let (from, to) = (hour(skip.from), hour(skip.to));
            let range = if from == to {
                from
            } else {
                format!("{from}-{to}")
            };
            format!("{} {range} ({})", skip.reason.as_str(), skip.count)
        })
        .collect();
    said.extend(
        planned
            .iter()
            .zip(judge(overlap, 1, Active::all(active, 0), &planned))
            .map(|(at, verdict)| {
                let word = match verdict {
                    Verdict::Run => "run",
                    Verdict::Skip { .. } => "overlap",
                    Verdict::Replace { .. } => "replace",
                    Verdict::Queue { .. } => "queue",
                };
                format!("{word} {}", hour(*at))
            }),
    );
    if said.is_empty() {
        "nothing".into()
    } else {
        said.join("; ")
    }
}

#[test]
fn every_state_of_the_catch_up_matrix_holds() {
    let rows = rows();
    let mut states = 0;
    for cause in CAUSES {
        for policy in POLICIES {
            for window in WINDOWS {
                for overlap in OVERLAPS {
                    for active in ACTIVE {
                        let state = [cause, policy, window, overlap, active];
                        let fits = |row: &&[String; 6]| {
                            state.iter().zip(row.iter()).all(|(value, cell)| {
                                cell == "*" || cell.split(',').any(|choice| choice == *value)
                            })
                        };
                        let matching: Vec<_> = rows.iter().filter(fits).collect();
                        assert_eq!(matching.len(), 1, "{state:?} has exactly one row");
                        assert_eq!(
                            decide(cause, policy, window, overlap, active),
                            matching[0][5],
                            "{state:?}"
                        );
                        states += 1;
                    }
                }
            }
        }
    }
    assert_eq!(states, 7 * 4 * 2 * 4 * 2);
}

#[test]
fn the_guide_shows_the_table() {
    const MARK: &str = "<!-- the table, from testdata/schedule/catch_up.txt -->\n";
    let path = file("docs/guide/catch-up.md");
    let page = std::fs::read_to_string(&path).expect("the guide");
    let (head, shown) = page.split_once(MARK).expect("the page holds the mark");
    let mut table =
        String::from("\n| cause | policy | window | overlap | a run is active | outcome |\n");
    table.push_str("| --- | --- | --- | --- | --- | --- |\n");
    for row in rows() {
        let cells: Vec<_> = row
            .iter()
            .map(|cell| if cell == "*" { "any" } else { cell })
            .collect();
        writeln!(table, "| {} |", cells.join(" | ").replace(',', ", ")).expect("a string takes it");
    }
    if std::env::var_os("SICHEN_BLESS").is_some() {
        std::fs::write(&path, format!("{head}{MARK}{table}")).expect("the guide can be written");
        return;
    }
    assert_eq!(shown, table, "run once with SICHEN_BLESS=1");
}
