//! `sichen next` never takes long, whatever it is asked.

use std::time::{Duration, Instant};

use crate::program::command;

/// Many times what an answer takes: this finds searches without an end, not slow machines.
const PATIENCE: Duration = Duration::from_secs(5);

#[test]
fn no_expression_zone_or_date_makes_it_long() {
    let long = format!("{} * * * *", ["1"; 500].join(","));
    let crons = [
        "0 0 29 2 1",
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "0 0 29 2 *",
        "59 59 23 31 12 ?",
        "0 0 L-30 2 5#5",
        "0 0 31W 2 *",
        "* * * * * *",
        "30 2 8-14 3 *",
        "@every 100d",
        long.as_str(),
    ];
    let zones = [
        "Africa/Casablanca",
        "Pacific/Apia",
        "Antarctica/Troll",
        "UTC",
    ];
    let dates = [
        "0001-01-01T00:00:00Z",
        "2026-03-08T06:59:59Z",
        "9998-12-31T23:59:59Z",
    ];
    let mut slowest = (Duration::ZERO, String::new());
    for cron in crons {
        for zone in zones {
            for after in dates {
                let began = Instant::now();
                let words = ["next", "--cron", cron, "--tz", zone, "--after", after];
                let output = command(&words).output().unwrap();
                let took = began.elapsed();
                assert!(took < PATIENCE, "{words:?} took {took:?}");
                assert!(
                    matches!(output.status.code(), Some(0 | 2)),
                    "{words:?}: {output:?}"
                );
                if took > slowest.0 {
                    slowest = (took, format!("{words:?}"));
                }
            }
        }
    }
    println!("slowest of all, with the program's start: {slowest:?}");
}
