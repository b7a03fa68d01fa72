//! Every state of the catch-up matrix, against a table that was written by hand.
//!
//! `docs/guide/catch-up.md` and its Chinese twin show that table: `SICHEN_BLESS=1` writes the pages
//! anew from it, never the table from the code.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use sichen_core::schedule::cron::Dialect;
use sichen_core::schedule::overlap::{Active, Overlap, Verdict, judge};
use sichen_core::schedule::{CatchUp, DueInput, DuePlan, Rate, Schedule, due};

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

fn rows<const CELLS: usize>(table: &str) -> Vec<[String; CELLS]> {
    let path = file(&format!("testdata/schedule/{table}.txt"));
    let text = std::fs::read_to_string(path).expect("the table");
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| {
            let cells: Vec<_> = line.split('|').map(|cell| cell.trim().to_owned()).collect();
            cells
                .try_into()
                .unwrap_or_else(|_| panic!("{CELLS} cells: {line}"))
        })
        .collect()
}

fn at(text: &str) -> Timestamp {
    format!("2026-05-01T{text}Z").parse().expect("an instant")
}

fn hourly() -> Schedule {
    let zero = Timestamp::UNIX_EPOCH;
    Schedule::cron("0 * * * *", Dialect::Crontab, "UTC", None, zero).expect("good")
}

fn policy_of(word: &str) -> CatchUp {
    match word {
        "none" => CatchUp::None,
        "latest" => CatchUp::Latest,
        "coalesce" => CatchUp::Coalesce,
        "all(2)" => CatchUp::All(2),
        "all(5)" => CatchUp::All(5),
        other => panic!("{other}"),
    }
}

fn window_of(word: &str) -> Option<SignedDuration> {
    (word != "none").then(|| SignedDuration::from_mins(150))
}

fn hour(at: Timestamp) -> String {
    at.to_string()[11..13].to_owned()
}

/// The skips of a plan, in the tables' words.
fn skipped(plan: &DuePlan) -> Vec<String> {
    let told = plan.skips.iter().map(|skip| {
        let (from, to) = (hour(skip.from), hour(skip.to));
        let range = if from == to {
            from
        } else {
            format!("{from}-{to}")
        };
        format!("{} {range} ({})", skip.reason.as_str(), skip.count)
    });
    told.collect()
}

/// What is decided, in the table's words.
fn decide(cause: &str, policy: &str, window: &str, overlap: &str, active: &str) -> String {
    let schedules = [hourly()];
    let (mark, now) = match cause {
        "on-time" => ("00:30:00", "01:00:05"),
        "created" | "edited" => ("06:30:00", "06:30:01"),
        "stepped" => ("06:30:00", "03:00:00"),
        _ => ("00:30:00", "06:30:00"),
    };
    let mut input = DueInput::new(&schedules, at(mark), at(now));
    input.paused = cause == "paused";
    input.catch_up = policy_of(policy);
    input.window = window_of(window);
    let overlap = match overlap {
        "allow" => Overlap::Allow,
        "forbid" => Overlap::Forbid,
        "replace" => Overlap::Replace,
        _ => Overlap::Queue { limit: 1 },
    };
    let plan = due(&input);
    let active: &[&str] = if active == "yes" { &["a run"] } else { &[] };
    let planned: Vec<_> = plan.runs.iter().map(|run| run.planned).collect();
    let mut said = skipped(&plan);
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
    let rows = rows::<6>("catch_up");
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
fn every_step_of_a_paced_catch_up_holds() {
    let schedules = [hourly()];
    for row in rows::<7>("catch_up_rate") {
        let [policy, rate, window, mark, now, expect, again] = &row;
        let mark = format!("{mark}:00");
        let mut input = DueInput::new(&schedules, at(&mark), at(now));
        input.catch_up = policy_of(policy);
        input.window = window_of(window);
        input.rate = Some(Rate {
            per_minute: rate.parse().expect("a number"),
            spread: false,
        });
        let plan = due(&input);
        let mut said = skipped(&plan);
        said.extend(
            plan.runs
                .iter()
                .map(|run| format!("run {}", hour(run.planned))),
        );
        assert_eq!(said.join("; "), *expect, "{row:?}");
        assert_eq!(plan.next_wake, Some(at(again)), "{row:?}");
        let last = plan.runs.last().map(|run| run.planned);
        let rest = plan.more.then_some(plan.high_water);
        assert!(rest.is_none() || rest == last, "the rest waits: {row:?}");
    }
}

/// Where nothing may stay undecided, as at an edit, all runs are written and their starts spread.
#[test]
fn a_catch_up_that_is_decided_at_once_starts_at_its_rate() {
    let schedules = [hourly()];
    let mut input = DueInput::new(&schedules, at("00:30:00"), at("06:30:00"));
    input.catch_up = CatchUp::All(5);
    let starts = |input: &DueInput<'_>| {
        let plan = due(input);
        assert!(!plan.more);
        let after = |run: &sichen_core::schedule::PlannedRun| {
            run.ready_at.duration_since(input.now).as_secs().max(0)
        };
        plan.runs.iter().map(after).collect::<Vec<_>>()
    };
    assert_eq!(starts(&input), [0; 5]);
    let mut spread = |per_minute| {
        input.rate = Some(Rate {
            per_minute,
            spread: true,
        });
        starts(&input)
    };
    assert_eq!(spread(1), [0, 60, 120, 180, 240]);
    assert_eq!(spread(20), [0, 3, 6, 9, 12]);
    assert_eq!(spread(120), [0, 0, 1, 1, 2]);
}

/// One of the two guides that show the tables, and its words for what is no word of the product.
struct Guide {
    path: &'static str,
    states: [&'static str; 6],
    steps: [&'static str; 7],
    any: &'static str,
    yes: &'static str,
    no: &'static str,
    nothing: &'static str,
}

const GUIDES: [Guide; 2] = [
    Guide {
        path: "docs/guide/catch-up.md",
        states: [
            "cause",
            "policy",
            "window",
            "overlap",
            "a run is active",
            "outcome",
        ],
        steps: [
            "policy",
            "rate",
            "window",
            "decided up to",
            "now",
            "outcome",
            "asked again",
        ],
        any: "any",
        yes: "yes",
        no: "no",
        nothing: "nothing",
    },
    Guide {
        path: "docs/guide/catch-up.zh.md",
        states: ["原因", "策略", "期限", "重叠", "有运行在进行", "结果"],
        steps: [
            "策略",
            "速率",
            "期限",
            "已决定到",
            "现在",
            "结果",
            "何时再问",
        ],
        any: "任意",
        yes: "是",
        no: "否",
        nothing: "无",
    },
];

impl Guide {
    /// One of its tables, from the rows of the table's file.
    fn shown<const CELLS: usize>(&self, table: &str, heads: [&str; CELLS]) -> String {
        let mut text = format!("\n| {} |\n|{}\n", heads.join(" | "), " --- |".repeat(CELLS));
        for row in rows::<CELLS>(table) {
            let cells = row.each_ref().map(|cell| match cell.as_str() {
                "*" => self.any,
                "yes" => self.yes,
                "no" => self.no,
                "nothing" => self.nothing,
                word => word,
            });
            let cells = cells.join(" | ").replace(',', ", ");
            writeln!(text, "| {cells} |").expect("a string takes it");
        }
        text
    }
}

#[test]
fn both_guides_show_the_tables() {
    for guide in GUIDES {
        let path = file(guide.path);
        let page = std::fs::read_to_string(&path).expect("the guide");
        let mark =
            |table: &str| format!("<!-- the table, from testdata/schedule/{table}.txt -->\n");
        let (states, steps) = (mark("catch_up"), mark("catch_up_rate"));
        let (head, rest) = page.split_once(&steps).expect("the page holds the mark");
        let (_, between) = rest.split_once("\n\n").expect("text follows the table");
        let (between, _) = between
            .split_once(&states)
            .expect("the page holds the mark");
        let paced = guide.shown("catch_up_rate", guide.steps);
        let all = guide.shown("catch_up", guide.states);
        let right = format!("{head}{steps}{paced}\n{between}{states}{all}");
        if std::env::var_os("SICHEN_BLESS").is_some() {
            std::fs::write(&path, right).expect("the guide can be written");
            continue;
        }
        assert_eq!(page, right, "run once with SICHEN_BLESS=1");
    }
}
