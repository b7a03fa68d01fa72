//! What the trigger costs with a million registered jobs of which 10,000 are due each minute: its
//! share of one core, and the memory of the process.
//!
//! `cargo run --release -p sichen-engine --example trigger -- fill DIR [jobs]`, once, then
//! `… -- run DIR [minutes]`, which prints JSON and fails above 20 % of a core or 500 MiB. The clock is
//! stepped from pass to pass, so the minutes take as long as the work in them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measuring tool"
)]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use futures::executor::block_on;
use jiff::{SignedDuration, Timestamp};
use sichen_core::document::{Calendars, Document};
use sichen_core::ids::{JobUid, OpId, SessionId};
use sichen_core::port::{ApplyJob, ApplyVerdict, Op, Store, TimeStore};
use sichen_engine::context::{IdSource, RandomIds};
use sichen_engine::courier::{Courier, ToWorker};
use sichen_engine::driver::{Engine, Settings};
use sichen_store::clock::ManualClock;
use sichen_store::sqlite::SqliteStore;

/// Each job is due once in so many minutes.
const MINUTES: i64 = 100;

struct Nobody;

impl Courier for Nobody {
    fn deliver(&self, _: SessionId, _: ToWorker) -> bool {
        false
    }
}

/// The first instant of the measured time: a whole number of rounds from the grid's beginning.
fn start() -> Timestamp {
    Timestamp::from_second(1_780_002_000 / (MINUTES * 60) * MINUTES * 60).unwrap()
}

fn fill(store: &dyn Store, jobs: i64) {
    for n in 0..jobs {
        let document: Document = serde_json::from_value(serde_json::json!({
            "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": format!("job-{n}") },
            "spec": {
                "run": { "handler": "h" }, "overlap": "allow",
                "schedules": [{ "every": format!("{MINUTES}m"), "phase": format!("{}m", n % MINUTES) }],
            },
        }))
        .unwrap();
        let uid = JobUid(RandomIds.uuid());
        let job = ApplyJob {
            zones: None,
            name: document.job_name().unwrap(),
            new_uid: uid,
            expected_ver: None,
            document: serde_json::to_string(&document).unwrap(),
            high_water: start(),
            next_due: document
                .timing(uid, &Calendars::default())
                .unwrap()
                .next(start()),
            follow: None,
            counted: true,
            closing: None,
            calendars: Vec::new(),
            uses: sichen_core::capacity::Uses::default(),
            cause: String::new(),
        };
        let op = Op {
            id: OpId(RandomIds.uuid()),
            actor: "user bench".to_owned(),
            hold: None,
        };
        let applied = block_on(store.apply_job(op, job)).unwrap();
        assert!(matches!(applied, ApplyVerdict::Created(_)));
    }
}

/// Seconds of processor time that this process has used, all threads.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}

fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        / 1_024
}

fn measure(clock: &ManualClock, store: Arc<SqliteStore>, minutes: i64) -> ExitCode {
    let settings = Settings::new("bench".into());
    let engine = Engine::new(
        store.clone(),
        Arc::new(RandomIds),
        Arc::new(Nobody),
        settings,
    );
    let (mut runs, mut passes, mut longest) = (0, 0_u32, 0.0_f64);
    let begun = processor_seconds();
    for second in 1..=minutes * 60 {
        clock.set(start() + SignedDuration::from_secs(second));
        let now = block_on(store.now()).unwrap();
        block_on(engine.coordinator.run_once(now)).unwrap();
        let begin = Instant::now();
        // As the driver does: again at once while the pass says that more is due.
        loop {
            let pass = block_on(engine.trigger.run_once(now)).unwrap();
            (runs, passes) = (runs + pass.runs, passes + 1);
            if pass.next.is_none_or(|next| next > now) {
                break;
            }
        }
        longest = longest.max(begin.elapsed().as_secs_f64());
    }
    let share = (processor_seconds() - begun) / (minutes * 60) as f64;
    let answer = serde_json::json!({
        "minutes": minutes, "runs": runs, "runs_a_minute": runs as f64 / minutes as f64,
        "passes": passes, "share_of_a_core": share, "longest_second_s": longest,
        "peak_mib": peak_mib(),
    });
    println!("{answer:#}");
    if share <= 0.20 && peak_mib() <= 500 && runs > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, dir, rest @ ..] = args.as_slice() else {
        println!("trigger fill DIR [jobs] | trigger run DIR [minutes]");
        return ExitCode::FAILURE;
    };
    std::fs::create_dir_all(dir).unwrap();
    let clock = Arc::new(ManualClock::new(start()));
    let store = Arc::new(SqliteStore::open(Path::new(dir), clock.clone()).unwrap());
    let number = |default| rest.first().map_or(default, |n| n.parse().unwrap());
    if what == "fill" {
        fill(&*store, number(1_000_000));
        return ExitCode::SUCCESS;
    }
    measure(&clock, store, number(3))
}
