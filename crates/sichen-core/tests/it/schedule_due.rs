//! Claims about `due`: what runs, what is skipped, and how far the mark moves.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use sichen_core::schedule::cron::Dialect;
use sichen_core::schedule::{CatchUp, DueInput, DuePlan, Reason, Schedule, due};

fn at(text: &str) -> Timestamp {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn cron(text: &str, zone: &str) -> Schedule {
    Schedule::cron(text, Dialect::of(text), zone, None, Timestamp::UNIX_EPOCH)
        .expect("a good schedule")
}

fn every(seconds: i64, anchor: &str) -> Schedule {
    Schedule::every(SignedDuration::from_secs(seconds), at(anchor)).expect("a good period")
}

fn minutes(count: i64) -> SignedDuration {
    SignedDuration::from_mins(count)
}

/// The plan in short: planned instants, then skips as (first, last, count, reason).
fn check(input: &DueInput<'_>, runs: &[&str], skips: &[(&str, &str, u64, &str)]) -> DuePlan {
    let plan = due(input);
    let found: Vec<_> = plan.runs.iter().map(|run| run.planned).collect();
    let wanted: Vec<_> = runs.iter().map(|text| at(text)).collect();
    assert_eq!(found, wanted, "runs of {input:?}");
    let found: Vec<_> = plan
        .skips
        .iter()
        .map(|skip| (skip.from, skip.to, skip.count, skip.reason.as_str()))
        .collect();
    let wanted: Vec<_> = skips
        .iter()
        .map(|(from, to, count, reason)| (at(from), at(to), *count, *reason))
        .collect();
    assert_eq!(found, wanted, "skips of {input:?}");
    accounts_for_everything(input, &plan);
    plan
}

/// Every instant up to the new mark is in exactly one run or skip, and what is coalesced is so into a
/// run of this plan.
fn accounts_for_everything(input: &DueInput<'_>, plan: &DuePlan) {
    for skip in &plan.skips {
        if let Reason::Coalesced { into } = skip.reason {
            let runs = plan.runs.iter().any(|run| run.planned == into);
            assert!(runs, "{skip:?} of {input:?}: {plan:?}");
        }
    }
    let covered = plan.runs.len() as u64 + plan.missed();
    if let ([schedule], None) = (input.schedules, input.pending) {
        assert_eq!(
            covered,
            schedule.count(input.high_water, plan.high_water),
            "of {input:?}: {plan:?}"
        );
    }
    assert!(plan.high_water >= input.high_water);
    if let Some(wake) = plan.next_wake {
        assert!(plan.more || wake > plan.high_water);
    }
}

#[test]
fn what_is_on_time_runs_under_every_policy() {
    let schedules = [cron("*/15 * * * *", "UTC")];
    for catch_up in [
        CatchUp::None,
        CatchUp::Latest,
        CatchUp::All(3),
        CatchUp::Coalesce,
    ] {
        let mut input = DueInput::new(
            &schedules,
            at("2026-04-02T09:15:00Z"),
            at("2026-04-02T09:30:00.2Z"),
        );
        input.catch_up = catch_up;
        let plan = check(&input, &["2026-04-02T09:30:00Z"], &[]);
        assert_eq!(plan.next_wake, Some(at("2026-04-02T09:45:00Z")));
        assert_eq!(plan.high_water, input.now);
        assert!(!plan.runs[0].late);
        assert_eq!(plan.runs[0].period_start, at("2026-04-02T09:15:00Z"));
        assert_eq!(plan.runs[0].period_end, at("2026-04-02T09:30:00Z"));
    }
}

#[test]
fn nothing_is_due_before_its_time_nor_twice() {
    let schedules = [cron("*/15 * * * *", "UTC")];
    check(
        &DueInput::new(
            &schedules,
            at("2026-04-02T09:15:00Z"),
            at("2026-04-02T09:29:59.999Z"),
        ),
        &[],
        &[],
    );
    check(
        &DueInput::new(
            &schedules,
            at("2026-04-02T09:30:00Z"),
            at("2026-04-02T09:30:01Z"),
        ),
        &[],
        &[],
    );
    // MISS-005: the clock stepped back; the mark stays and nothing repeats.
    let plan = check(
        &DueInput::new(
            &schedules,
            at("2026-04-02T09:30:00Z"),
            at("2026-04-02T09:10:00Z"),
        ),
        &[],
        &[],
    );
    assert_eq!(plan.high_water, at("2026-04-02T09:30:00Z"));
    assert_eq!(plan.next_wake, Some(at("2026-04-02T09:45:00Z")));
}

#[test]
fn hundreds_of_missed_minutes_follow_the_policy() {
    // MISS-001: down from 00:00:30 to 08:20:30, 500 planned times.
    let schedules = [cron("* * * * *", "UTC")];
    let mut input = DueInput::new(
        &schedules,
        at("2026-02-03T00:00:30Z"),
        at("2026-02-03T08:20:30Z"),
    );
    input.catch_up = CatchUp::None;
    check(
        &input,
        &[],
        &[(
            "2026-02-03T00:01:00Z",
            "2026-02-03T08:20:00Z",
            500,
            "catch_up",
        )],
    );
    input.catch_up = CatchUp::Latest;
    check(
        &input,
        &["2026-02-03T08:20:00Z"],
        &[(
            "2026-02-03T00:01:00Z",
            "2026-02-03T08:19:00Z",
            499,
            "catch_up",
        )],
    );
    input.catch_up = CatchUp::All(50);
    let plan = due(&input);
    assert_eq!(plan.runs.len(), 50);
    assert_eq!(plan.runs[0].planned, at("2026-02-03T07:31:00Z"));
    assert_eq!(plan.runs[49].planned, at("2026-02-03T08:20:00Z"));
    assert_eq!(plan.missed(), 450);
    accounts_for_everything(&input, &plan);
    input.catch_up = CatchUp::Coalesce;
    let plan = check(
        &input,
        &["2026-02-03T08:20:00Z"],
        &[(
            "2026-02-03T00:01:00Z",
            "2026-02-03T08:19:00Z",
            499,
            "coalesced",
        )],
    );
    assert_eq!(plan.runs[0].covers, 500);
    assert_eq!(plan.runs[0].period_start, at("2026-02-03T00:00:00Z"));
    assert_eq!(plan.runs[0].period_end, at("2026-02-03T08:20:00Z"));
}

#[test]
fn a_small_limit_hands_out_the_same_runs_in_pieces() {
    let schedules = [cron("* * * * *", "UTC")];
    let mut input = DueInput::new(
        &schedules,
        at("2026-02-03T00:00:30Z"),
        at("2026-02-03T08:20:30Z"),
    );
    input.catch_up = CatchUp::All(50);
    let whole = due(&input);
    input.limit = 7;
    let mut runs = Vec::new();
    let mut missed = 0;
    loop {
        let plan = due(&input);
        accounts_for_everything(&input, &plan);
        assert!(plan.runs.len() <= 7);
        runs.extend(plan.runs.iter().copied());
        missed += plan.missed();
        input.high_water = plan.high_water;
        if !plan.more {
            break;
        }
    }
    assert_eq!(runs, whole.runs);
    assert_eq!(missed, whole.missed());
}

#[test]
fn time_spent_paused_is_recorded_as_such() {
    // MISS-002
    let schedules = [cron("*/15 * * * *", "UTC")];
    let mut input = DueInput::new(
        &schedules,
        at("2026-04-10T09:05:00Z"),
        at("2026-04-13T10:07:20Z"),
    );
    input.paused = true;
    let plan = check(
        &input,
        &[],
        &[(
            "2026-04-10T09:15:00Z",
            "2026-04-13T10:00:00Z",
            292,
            "paused",
        )],
    );
    assert_eq!(plan.next_wake, Some(at("2026-04-13T10:15:00Z")));
    // MISS-011: created paused with a start, daily.
    let daily = [cron("0 0 * * *", "UTC")
        .within(Some(at("2018-01-01T00:00:00Z")), None)
        .expect("bounds")];
    let mut input = DueInput::new(
        &daily,
        at("2017-06-01T00:00:00Z"),
        at("2018-11-19T00:05:00Z"),
    );
    input.paused = true;
    let plan = check(
        &input,
        &[],
        &[(
            "2018-01-01T00:00:00Z",
            "2018-11-19T00:00:00Z",
            323,
            "paused",
        )],
    );
    assert_eq!(plan.next_wake, Some(at("2018-11-20T00:00:00Z")));
    input.paused = false;
    check(
        &input,
        &["2018-11-19T00:00:00Z"],
        &[(
            "2018-01-01T00:00:00Z",
            "2018-11-18T00:00:00Z",
            322,
            "catch_up",
        )],
    );
    let interval = [every(86_400, "2018-01-01T00:00:00Z")
        .within(Some(at("2018-01-01T00:00:00Z")), None)
        .expect("bounds")];
    input.schedules = &interval;
    check(
        &input,
        &["2018-11-19T00:00:00Z"],
        &[(
            "2018-01-01T00:00:00Z",
            "2018-11-18T00:00:00Z",
            322,
            "catch_up",
        )],
    );
}

#[test]
fn an_edit_never_runs_the_past() {
    // MISS-003: the new revision's mark is the edit.
    let new = [cron("0 23 * * wed,sun", "UTC")];
    let mut input = DueInput::new(&new, at("2024-02-02T08:05:00Z"), at("2024-02-02T08:05:01Z"));
    input.window = Some(SignedDuration::from_hours(7 * 24));
    let plan = check(&input, &[], &[]);
    assert_eq!(plan.next_wake, Some(at("2024-02-04T23:00:00Z")));
    // MISS-004: the old revision's segment ends at the edit; its 23:00 is not decided in it.
    let old = [cron("0 23 * * *", "UTC")];
    let mut input = DueInput::new(&old, at("2025-03-13T23:00:00Z"), at("2025-03-14T23:30:00Z"));
    input.until = Some(at("2025-03-14T12:00:00Z"));
    let plan = check(&input, &[], &[]);
    assert_eq!(plan.high_water, at("2025-03-14T12:00:00Z"));
    assert_eq!(plan.next_wake, None);
}

#[test]
fn the_window_is_inclusive_and_between_instants() {
    // MISS-016
    let schedules = [cron("0 12 * * *", "UTC")];
    let mut input = DueInput::new(
        &schedules,
        at("2026-05-01T00:00:00Z"),
        at("2026-05-01T12:00:59.9Z"),
    );
    input.window = Some(SignedDuration::from_secs(60));
    check(&input, &["2026-05-01T12:00:00Z"], &[]);
    input.now = at("2026-05-01T12:01:00Z");
    check(&input, &["2026-05-01T12:00:00Z"], &[]);
    input.now = at("2026-05-01T12:01:00.1Z");
    check(
        &input,
        &[],
        &[(
            "2026-05-01T12:00:00Z",
            "2026-05-01T12:00:00Z",
            1,
            "deadline",
        )],
    );
    // MISS-013
    let schedules = [cron("0 15 * * *", "UTC")];
    let mut input = DueInput::new(
        &schedules,
        at("2026-05-01T14:57:00Z"),
        at("2026-05-01T15:03:00Z"),
    );
    input.window = Some(minutes(10));
    check(&input, &["2026-05-01T15:00:00Z"], &[]);
    input.now = at("2026-05-01T15:11:00Z");
    check(
        &input,
        &[],
        &[(
            "2026-05-01T15:00:00Z",
            "2026-05-01T15:00:00Z",
            1,
            "deadline",
        )],
    );
    // MISS-021
    let schedules = [cron("30 9 * * *", "Asia/Tokyo")];
    let mut input = DueInput::new(
        &schedules,
        at("2026-02-02T00:29:00Z"),
        at("2026-02-02T00:32:00Z"),
    );
    input.window = Some(SignedDuration::from_secs(300));
    check(&input, &["2026-02-02T00:30:00Z"], &[]);
    input.now = at("2026-02-02T00:36:00Z");
    check(
        &input,
        &[],
        &[(
            "2026-02-02T00:30:00Z",
            "2026-02-02T00:30:00Z",
            1,
            "deadline",
        )],
    );
    // MISS-009: each Sunday down; the window keeps the last one only.
    let schedules = [cron("0 3 * * 0", "UTC")];
    let mut input = DueInput::new(
        &schedules,
        at("2026-03-01T00:00:00Z"),
        at("2026-03-22T07:00:00Z"),
    );
    input.catch_up = CatchUp::None;
    check(
        &input,
        &[],
        &[(
            "2026-03-01T03:00:00Z",
            "2026-03-22T03:00:00Z",
            4,
            "catch_up",
        )],
    );
    input.catch_up = CatchUp::Latest;
    input.window = Some(SignedDuration::from_hours(6));
    check(
        &input,
        &["2026-03-22T03:00:00Z"],
        &[(
            "2026-03-01T03:00:00Z",
            "2026-03-15T03:00:00Z",
            3,
            "deadline",
        )],
    );
}

#[test]
fn a_window_and_a_policy_divide_what_was_missed() {
    let schedules = [cron("0 * * * *", "UTC")];
    let mut input = DueInput::new(
        &schedules,
        at("2026-05-01T00:30:00Z"),
        at("2026-05-01T12:30:00Z"),
    );
    input.window = Some(SignedDuration::from_hours(4));
    input.catch_up = CatchUp::All(2);
    check(
        &input,
        &["2026-05-01T11:00:00Z", "2026-05-01T12:00:00Z"],
        &[
            (
                "2026-05-01T01:00:00Z",
                "2026-05-01T08:00:00Z",
                8,
                "deadline",
            ),
            (
                "2026-05-01T09:00:00Z",
                "2026-05-01T10:00:00Z",
                2,
                "catch_up",
            ),
        ],
    );
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the claim is that it takes no time"
)]
fn a_year_of_missed_seconds_is_decided_by_arithmetic() {
    let schedules = [cron("* * * * * *", "America/New_York")];
    for catch_up in [
        CatchUp::None,
        CatchUp::Latest,
        CatchUp::All(100),
        CatchUp::Coalesce,
    ] {
        let mut input = DueInput::new(
            &schedules,
            at("2025-01-01T00:00:00Z"),
            at("2026-01-01T00:00:00Z"),
        );
        input.catch_up = catch_up;
        let begin = Instant::now();
        let plan = due(&input);
        let took = begin.elapsed();
        assert!(
            took < Duration::from_millis(500),
            "{took:?} for {catch_up:?}"
        );
        accounts_for_everything(&input, &plan);
        assert_eq!(plan.missed() + plan.runs.len() as u64, 365 * 86_400);
        assert!(!plan.more);
    }
    // MISS-007: from the epoch to today.
    let schedules = [every(5, "1970-01-01T00:00:00Z")];
    let mut input = DueInput::new(
        &schedules,
        at("1970-01-01T00:00:10Z"),
        at("2026-01-01T00:00:00Z"),
    );
    input.catch_up = CatchUp::All(10);
    let plan = due(&input);
    assert_eq!(plan.runs.len(), 10);
    accounts_for_everything(&input, &plan);
}

#[test]
fn a_fixed_rate_keeps_its_anchor() {
    // CRON-026
    let schedules = [every(3_600, "2026-03-01T10:00:00Z")];
    let mut mark = at("2026-03-01T10:00:00Z");
    let mut planned = Vec::new();
    for restart in [
        "2026-03-01T10:55:00Z",
        "2026-03-01T11:15:00Z",
        "2026-03-01T14:59:59Z",
        "2026-03-01T15:00:01Z",
    ] {
        let mut input = DueInput::new(&schedules, mark, at(restart));
        input.catch_up = CatchUp::All(100);
        let plan = due(&input);
        planned.extend(plan.runs.iter().map(|run| run.planned));
        mark = plan.high_water;
    }
    let wanted: Vec<_> = (11..=15)
        .map(|hour| at(&format!("2026-03-01T{hour}:00:00Z")))
        .collect();
    assert_eq!(planned, wanted);
}

#[test]
fn several_schedules_share_an_instant_once() {
    let schedules = [
        cron("0 * * * *", "UTC"),
        cron("0 0 * * *", "UTC"),
        every(1_800, "2026-01-01T00:00:00Z"),
    ];
    let mut input = DueInput::new(
        &schedules,
        at("2026-01-01T22:45:00Z"),
        at("2026-01-02T00:30:05Z"),
    );
    input.catch_up = CatchUp::All(10);
    check(
        &input,
        &[
            "2026-01-01T23:00:00Z",
            "2026-01-01T23:30:00Z",
            "2026-01-02T00:00:00Z",
            "2026-01-02T00:30:00Z",
        ],
        &[],
    );
    input.catch_up = CatchUp::None;
    check(
        &input,
        &["2026-01-02T00:30:00Z"],
        &[(
            "2026-01-01T23:00:00Z",
            "2026-01-02T00:00:00Z",
            3,
            "catch_up",
        )],
    );
}

#[test]
fn a_gap_runs_once_and_keeps_its_wall_clock_time() {
    // DST-001
    let schedules = [cron("30 2 * * *", "Europe/Zurich")];
    let input = DueInput::new(
        &schedules,
        at("2022-03-27T00:50:00Z"),
        at("2022-03-27T01:00:01Z"),
    );
    let plan = check(&input, &["2022-03-27T01:00:00Z"], &[]);
    assert_eq!(plan.runs[0].civil.to_string(), "2022-03-27T02:30:00");
    assert_eq!(plan.next_wake, Some(at("2022-03-28T00:30:00Z")));
    // DST-003: once in a fold, also when asked again between the two passes.
    let schedules = [cron("30 1 * * *", "America/New_York")];
    let input = DueInput::new(
        &schedules,
        at("2026-11-01T05:00:00Z"),
        at("2026-11-01T05:30:01Z"),
    );
    let plan = check(&input, &["2026-11-01T05:30:00Z"], &[]);
    let input = DueInput::new(&schedules, plan.high_water, at("2026-11-01T07:00:00Z"));
    check(&input, &[], &[]);
}

#[test]
fn one_shot_and_fixed_delay_fire_once() {
    let schedules = [Schedule::at(at("2026-06-01T10:00:00Z"))];
    let input = DueInput::new(
        &schedules,
        at("2026-06-01T09:00:00Z"),
        at("2026-06-01T10:00:01Z"),
    );
    let plan = check(&input, &["2026-06-01T10:00:00Z"], &[]);
    assert_eq!(plan.next_wake, None);
    let schedules = [Schedule::after(minutes(10)).expect("a good delay")];
    let mut input = DueInput::new(
        &schedules,
        at("2026-06-01T09:00:00Z"),
        at("2026-06-01T10:00:01Z"),
    );
    assert_eq!(due(&input).next_wake, None);
    input.pending = Some(at("2026-06-01T10:00:00Z"));
    input.before_pending = Some(at("2026-06-01T09:40:00Z"));
    let plan = check(&input, &["2026-06-01T10:00:00Z"], &[]);
    assert_eq!(
        plan.next_wake, None,
        "the end of this run makes the next one"
    );
    let run = plan.runs[0];
    assert_eq!(run.schedule, Some(0));
    assert_eq!(run.period_start, at("2026-06-01T09:40:00Z"));
    assert_eq!(run.period_end, run.planned);
}

#[test]
fn what_follows_a_run_is_missed_like_any_instant() {
    let schedules = [Schedule::after(minutes(10)).expect("a good delay")];
    let late = |catch_up| {
        let (mark, now) = (at("2026-06-01T09:00:00Z"), at("2026-06-01T12:00:00Z"));
        let mut input = DueInput::new(&schedules, mark, now);
        input.pending = Some(at("2026-06-01T10:00:00Z"));
        input.catch_up = catch_up;
        due(&input)
    };
    let missed = late(CatchUp::None);
    assert!(missed.runs.is_empty());
    assert_eq!(missed.skips[0].reason, Reason::CatchUp);
    for catch_up in [CatchUp::Latest, CatchUp::All(3), CatchUp::Coalesce] {
        let plan = late(catch_up);
        assert_eq!(plan.runs[0].planned, at("2026-06-01T10:00:00Z"));
        assert!(plan.skips.is_empty());
    }
}

#[test]
fn jitter_delays_the_start_and_not_the_identity() {
    let schedules = [cron("* * * * *", "UTC")];
    let mut input = DueInput::new(
        &schedules,
        at("2026-06-01T09:00:30Z"),
        at("2026-06-01T10:00:30Z"),
    );
    input.catch_up = CatchUp::All(100);
    input.jitter = SignedDuration::from_secs(30);
    input.jitter_seed = 42;
    let plan = due(&input);
    assert_eq!(plan.runs.len(), 60);
    let delays: Vec<_> = plan
        .runs
        .iter()
        .map(|run| run.not_before.duration_since(run.planned))
        .collect();
    assert!(
        delays
            .iter()
            .all(|delay| !delay.is_negative() && *delay <= input.jitter)
    );
    assert!(
        delays.iter().any(|delay| *delay != delays[0]),
        "each run has its own share"
    );
    assert_eq!(plan, due(&input), "the same share each time");
    // The window counts from planned + jitter.
    input.window = Some(minutes(5));
    let plan = due(&input);
    for run in &plan.runs {
        assert!(input.now.duration_since(run.not_before) <= minutes(5));
    }
    assert!(
        plan.skips
            .iter()
            .all(|skip| skip.reason == Reason::Deadline)
    );
    accounts_for_everything(&input, &plan);
}

#[test]
fn a_natural_day_stays_whole_across_clock_changes() {
    let schedules = [cron("30 2 * * *", "America/New_York")];
    let mut input = DueInput::new(
        &schedules,
        at("2026-03-08T00:00:00Z"),
        at("2026-03-08T07:00:01Z"),
    );
    input.period = sichen_core::schedule::PeriodRule::CivilDay;
    let plan = check(&input, &["2026-03-08T07:00:00Z"], &[]);
    assert_eq!(plan.runs[0].period_start, at("2026-03-07T05:00:00Z"));
    assert_eq!(plan.runs[0].period_end, at("2026-03-08T05:00:00Z"));
    input = {
        let mut next = input.clone();
        next.high_water = at("2026-03-09T00:00:00Z");
        next.now = at("2026-03-09T06:30:01Z");
        next
    };
    let plan = check(&input, &["2026-03-09T06:30:00Z"], &[]);
    let run = plan.runs[0];
    assert_eq!(
        run.period_end.duration_since(run.period_start),
        SignedDuration::from_hours(23)
    );
}

#[test]
fn a_skipped_local_time_leaves_a_record() {
    // DST-001
    use sichen_core::schedule::cron::{Fold, Gap};
    let schedules = [cron("15,30 2 * * *", "Europe/Zurich").with_policy(Gap::Skip, Fold::First)];
    let input = DueInput::new(
        &schedules,
        at("2022-03-27T00:50:00Z"),
        at("2022-03-27T12:00:00Z"),
    );
    let plan = check(
        &input,
        &[],
        &[("2022-03-27T01:00:00Z", "2022-03-27T01:00:00Z", 2, "gap")],
    );
    assert_eq!(plan.missed(), 0);
    // Once: the next decision begins after it.
    let input = DueInput::new(&schedules, plan.high_water, at("2022-03-27T23:00:00Z"));
    check(&input, &[], &[]);
}

/// A small generator, the same everywhere.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// Each instant's window begins at its own share of the jitter: an older one may be in time where a
/// newer one is not, and no policy may choose one that is not.
#[test]
fn a_policy_chooses_among_those_that_are_in_time_by_their_own_share() {
    let schedules = [every(600, "2026-01-01T00:00:00Z")];
    let start = at("2026-03-01T00:00:00Z");
    let mut random = numbers(14);
    let mut older_than_an_expired_one = 0;
    for seed in 0..1_000 {
        let now = start + SignedDuration::from_secs(10_000 + random(9_000) as i64);
        let mut input = DueInput::new(&schedules, start, now);
        input.jitter = minutes(30);
        input.jitter_seed = seed;
        input.catch_up = CatchUp::All(10_000);
        input.limit = 10_000;
        let window = SignedDuration::from_secs(random(600) as i64);
        let all = due(&input).runs;
        let late = |planned: Timestamp| now.duration_since(planned) > input.on_time;
        let in_time = |not_before: Timestamp| now.duration_since(not_before) <= window;
        let alive: Vec<Timestamp> = all
            .iter()
            .filter(|run| in_time(run.not_before))
            .map(|run| run.planned)
            .collect();
        let newest_expired = all.iter().rfind(|run| !in_time(run.not_before));
        let newest_expired = newest_expired.map(|run| run.planned);
        older_than_an_expired_one +=
            u32::from(alive.last().is_some_and(|at| newest_expired > Some(*at)));
        input.window = Some(window);
        for catch_up in [
            CatchUp::None,
            CatchUp::Latest,
            CatchUp::All(2),
            CatchUp::Coalesce,
        ] {
            input.catch_up = catch_up;
            let plan = due(&input);
            accounts_for_everything(&input, &plan);
            let newest = |n: usize| alive[alive.len().saturating_sub(n)..].to_vec();
            let on_time = alive.iter().copied().filter(|at| !late(*at)).collect();
            let wanted = match catch_up {
                CatchUp::None => on_time,
                CatchUp::Latest => newest(1),
                CatchUp::All(n) => newest(n as usize),
                CatchUp::Coalesce if alive.iter().any(|at| late(*at)) => newest(1),
                CatchUp::Coalesce => on_time,
            };
            let runs: Vec<Timestamp> = plan.runs.iter().map(|run| run.planned).collect();
            assert_eq!(runs, wanted, "{input:?}: {plan:?}");
        }
    }
    assert!(older_than_an_expired_one > 5, "{older_than_an_expired_one}");
}

#[test]
fn however_often_it_is_asked_each_instant_is_decided_once() {
    let mut random = numbers(7);
    let lists: [&[Schedule]; 4] = [
        &[cron("*/7 * * * *", "America/New_York")],
        &[
            cron("30 1,2 * * *", "Europe/London"),
            every(5_400, "2026-01-01T00:00:10Z"),
        ],
        &[cron("*/20 * * * * *", "Australia/Lord_Howe")],
        &[
            cron("0 * * * *", "UTC"),
            cron("0 0 * * 1-5", "Asia/Tokyo"),
            Schedule::at(at("2026-03-29T00:30:30Z")),
        ],
    ];
    for round in 0..200 {
        let schedules = lists[round % lists.len()];
        let start = at("2026-03-28T00:00:00Z");
        let mut input = DueInput::new(schedules, start, start);
        let mut outcomes = Vec::new();
        while input.high_water < at("2026-03-30T00:00:00Z") {
            if input.high_water >= input.now {
                input.now += SignedDuration::from_secs(1 + random(40_000) as i64);
            }
            input.catch_up = [
                CatchUp::None,
                CatchUp::Latest,
                CatchUp::All(5),
                CatchUp::Coalesce,
            ][random(4) as usize];
            input.window = [None, Some(minutes(random(300) as i64))][random(2) as usize];
            input.limit = 1 + random(9) as u32;
            let plan = due(&input);
            let again = due(&input);
            assert_eq!(plan, again, "the same facts, the same decision");
            accounts_for_everything(&input, &plan);
            outcomes.extend(plan.runs.iter().map(|run| (run.planned, run.planned, 1)));
            outcomes.extend(
                plan.skips
                    .iter()
                    .map(|skip| (skip.from, skip.to, skip.count)),
            );
            assert!(
                plan.high_water > input.high_water,
                "a decision moves the mark: {input:?}"
            );
            assert!(plan.runs.iter().all(|run| run.planned <= input.now));
            input.high_water = plan.high_water;
        }
        // Walked one by one, every instant stands in exactly one outcome.
        outcomes.sort_unstable();
        let mut walked = start;
        for (from, to, count) in outcomes {
            for _ in 0..count {
                walked = schedules
                    .iter()
                    .filter_map(|schedule| schedule.next(walked))
                    .min()
                    .expect("one more");
                assert!(from <= walked && walked <= to, "{walked} in {from}..{to}");
            }
        }
        let next = schedules
            .iter()
            .filter_map(|schedule| schedule.next(walked))
            .min();
        assert!(
            next.is_none_or(|next| next > input.high_water),
            "{next:?} was left undecided"
        );
    }
}

#[test]
fn several_schedules_are_counted_together_without_walking() {
    let off = |schedule: Schedule| {
        use sichen_core::schedule::calendar::{Calendar, Use};
        let calendar = std::sync::Arc::new(Calendar::new("weekends"));
        schedule
            .on(calendar, Use::WorkingDays)
            .expect("an interval may be left out")
    };
    let lists: [&[Schedule]; 3] = [
        &[
            cron("*/7 * * * * *", "America/New_York"),
            every(11, "2026-01-01T00:00:03Z"),
        ],
        &[
            off(cron("* * * * *", "Pacific/Apia")),
            cron("30 2 * * *", "Europe/London"),
            every(600, "1970-01-01T00:00:00Z"),
        ],
        &[
            cron("*/20 * * * * *", "Australia/Lord_Howe")
                .within(
                    Some(at("2026-04-02T10:00:00.5Z")),
                    Some(at("2026-04-09T00:00:00Z")),
                )
                .expect("bounds"),
            cron("15 1,2 * * *", "Australia/Lord_Howe").with_policy(
                sichen_core::schedule::cron::Gap::Shift,
                sichen_core::schedule::cron::Fold::Both,
            ),
            Schedule::at(at("2026-04-05T03:03:03Z")),
        ],
    ];
    for schedules in lists {
        let mut input = DueInput::new(
            schedules,
            at("2026-04-01T00:00:00Z"),
            at("2026-04-08T06:00:00Z"),
        );
        input.catch_up = CatchUp::None;
        let plan = due(&input);
        let mut walked = 0;
        let mut mark = input.high_water;
        while let Some(next) = schedules
            .iter()
            .filter_map(|schedule| schedule.next(mark))
            .min()
            .filter(|next| *next <= input.now)
        {
            walked += 1;
            mark = next;
        }
        assert!(
            walked > 5_000,
            "long enough that it is not walked: {walked}"
        );
        assert_eq!(
            plan.missed() + plan.runs.len() as u64,
            walked,
            "{schedules:?}"
        );
        assert!(!plan.more);
    }
}
