//! Expressions of schedules that nobody meant.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sichen_core::schedule::cron::{Cron, Dialect};

const WORDS: &[&str] = &[
    "*",
    "/",
    "-",
    ",",
    "?",
    "L",
    "LW",
    "L-3",
    "15W",
    "5L",
    "5#3",
    "H",
    "H(0-29)",
    "H/15",
    "@daily",
    "@every ",
    "5m",
    "MON",
    "FRI-SUN",
    "JAN",
    " ",
    "0",
    "59",
    "7",
    "CRON_TZ=",
    "Asia/Shanghai ",
];

/// An expression is refused, or its instants rise and are found from both sides.
#[test]
fn cron() {
    let zones =
        ["America/New_York", "Australia/Lord_Howe", "UTC"].map(|name| TimeZone::get(name).unwrap());
    let dialects = [
        Dialect::Crontab,
        Dialect::CrontabPlain,
        Dialect::Seconds,
        Dialect::Kubernetes,
        Dialect::Quartz,
    ];
    let start: Timestamp = "2026-03-07T12:34:56Z".parse().unwrap();
    sichen_fuzz::fuzz("cron", WORDS, &[], |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let mut told = String::new();
        for dialect in dialects {
            let cron = match Cron::parse(&text, dialect, Some(7)) {
                Ok(cron) => cron,
                Err(error) => {
                    told.push_str(&error.to_string());
                    continue;
                }
            };
            for zone in &zones {
                let mut last = start;
                for _ in 0..3 {
                    let Some(next) = cron.next(last, zone) else {
                        told.push_str("ends");
                        break;
                    };
                    assert!(next > last, "{text:?} {dialect:?}: {next} after {last}");
                    let back = cron.prev(next, zone);
                    assert!(
                        back.is_none_or(|back| back <= last),
                        "{text:?} {dialect:?}: {back:?}"
                    );
                    last = next;
                }
            }
            told.push_str(&format!("{:?} {}", cron.class(), cron.is_never()));
        }
        told
    });
}
