//! Claims about working days, with the holidays that China announced for 2026.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;
use sichen_core::schedule::calendar::{Calendar, Use};
use sichen_core::schedule::cron::Dialect;
use sichen_core::schedule::{Days, Error, Schedule};

/// As an iCalendar file: folded lines, an exclusive end, work days marked in the summary.
const CN_2026: &str = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\n\
BEGIN:VEVENT\r\nSUMMARY:元旦 休\r\nDTSTART;VALUE=DATE:20260101\r\nDTEND;VALUE=DATE:20260104\r\nEND:VEVENT\r\n\
BEGIN:VEVENT\r\nSUMMARY:元旦 班\r\nDTSTART;VALUE=DATE:20260104\r\nEND:VEVENT\r\n\
BEGIN:VEVENT\r\nSUMMARY:春节\r\n  休\r\nDTSTART;VALUE=DATE:20260215\r\nDTEND;VALUE=DATE:20260224\r\nEND:VEVENT\r\n\
BEGIN:VEVENT\r\nSUMMARY:春节 班\r\nDTSTART;VALUE=DATE:20260214\r\nEND:VEVENT\r\n\
BEGIN:VEVENT\r\nSUMMARY:春节 班\r\nDTSTART;VALUE=DATE:20260228\r\nEND:VEVENT\r\n\
END:VCALENDAR\r\n";

fn at(text: &str) -> Timestamp {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn cn() -> Arc<Calendar> {
    Arc::new(Calendar::from_ics("cn-2026", CN_2026, "班").expect("a good calendar"))
}

fn schedule(expr: &str, usage: Use) -> Schedule {
    Schedule::cron(
        expr,
        Dialect::Crontab,
        "Asia/Shanghai",
        None,
        Timestamp::UNIX_EPOCH,
    )
    .and_then(|schedule| schedule.on(cn(), usage))
    .expect("a good schedule")
}

/// The next dates at their local time; going back finds the same, and counting agrees.
fn check(expr: &str, usage: Use, from: &str, expect: &[&str]) {
    let schedule = schedule(expr, usage);
    let mut found = Vec::new();
    let mut last = at(from);
    for _ in expect {
        last = schedule.next(last).expect("one more");
        found.push(last);
    }
    let local: Vec<_> = found
        .iter()
        .map(|at| at.display_with_offset(jiff::tz::offset(8)).to_string()[..16].to_owned())
        .collect();
    assert_eq!(local, expect, "{expr} {usage:?}");
    for pair in found.windows(2) {
        assert_eq!(
            schedule.prev(pair[1]),
            Some(pair[0]),
            "{expr} {usage:?}: prev undoes next"
        );
    }
    assert_eq!(
        schedule.count(at(from), last),
        expect.len() as u64,
        "{expr} {usage:?}: count agrees"
    );
}

#[test]
fn a_calendar_file_says_which_days_are_worked() {
    let calendar = cn();
    let works = |text: &str| calendar.is_working(text.parse::<Date>().expect("a date"));
    for date in [
        "2026-01-04",
        "2026-02-14",
        "2026-02-28",
        "2026-02-24",
        "2026-01-05",
    ] {
        assert!(works(date), "{date}");
    }
    for date in [
        "2026-01-01",
        "2026-01-03",
        "2026-02-15",
        "2026-02-23",
        "2026-03-01",
    ] {
        assert!(!works(date), "{date}");
    }
    assert_eq!(
        calendar
            .known_through()
            .map(|date| date.to_string())
            .as_deref(),
        Some("2026-02-28")
    );
}

#[test]
fn only_working_days_count() {
    check(
        "0 9 * * *",
        Use::WorkingDays,
        "2026-02-12T12:00:00+08:00",
        &[
            "2026-02-13T09:00",
            "2026-02-14T09:00",
            "2026-02-24T09:00",
            "2026-02-25T09:00",
        ],
    );
    // Every half hour, also of an interval.
    check(
        "*/30 23 * * *",
        Use::WorkingDays,
        "2026-02-14T23:10:00+08:00",
        &["2026-02-14T23:30", "2026-02-24T23:00", "2026-02-24T23:30"],
    );
}

#[test]
fn only_days_off_count() {
    check(
        "30 10 * * *",
        Use::DaysOff,
        "2026-01-01T00:00:00+08:00",
        &[
            "2026-01-01T10:30",
            "2026-01-02T10:30",
            "2026-01-03T10:30",
            "2026-01-10T10:30",
        ],
    );
}

#[test]
fn a_time_on_a_day_off_rolls() {
    // The 15th to the 23rd are off; the 16th rolls to the 24th or back to the 14th, a worked Saturday.
    check(
        "0 8 16 * *",
        Use::RollForward,
        "2026-02-01T00:00:00+08:00",
        &[
            "2026-02-24T08:00",
            "2026-03-16T08:00",
            "2026-04-16T08:00",
            "2026-05-18T08:00",
        ],
    );
    check(
        "0 8 16 * *",
        Use::RollBack,
        "2026-02-01T00:00:00+08:00",
        &[
            "2026-02-14T08:00",
            "2026-03-16T08:00",
            "2026-04-16T08:00",
            "2026-05-15T08:00",
        ],
    );
    // Several days roll onto one: once.
    check(
        "0 8 * * *",
        Use::RollForward,
        "2026-02-14T00:00:00+08:00",
        &["2026-02-14T08:00", "2026-02-24T08:00", "2026-02-25T08:00"],
    );
}

#[test]
fn what_cannot_work_is_refused() {
    let interval = Schedule::cron(
        "*/5 * * * *",
        Dialect::Crontab,
        "UTC",
        None,
        Timestamp::UNIX_EPOCH,
    );
    let refused = interval.and_then(|schedule| schedule.on(cn(), Use::RollForward));
    assert!(matches!(refused, Err(Error::Rolled)));
    let mut calendar = Calendar::new("bad");
    calendar.weekend = (0..7).collect();
    assert!(calendar.check().is_err());
    let mut calendar = Calendar::new("bad");
    let date: Date = "2026-05-04".parse().expect("a date");
    calendar.off.insert(date);
    calendar.work.insert(date);
    assert!(calendar.check().is_err());
    let mut calendar = Calendar::new("bad");
    calendar.off = date.series(jiff::ToSpan::days(1)).take(70).collect();
    assert!(calendar.check().is_err());
    assert!(Calendar::from_ics("bad", "BEGIN:VEVENT\nDTSTART:soon\nEND:VEVENT", "").is_err());
}

#[test]
fn a_calendar_that_leaves_nothing_ends_the_search() {
    // Weekdays alone, on days off alone, with no holiday left.
    let schedule = schedule("0 9 * * 1-5", Use::DaysOff);
    assert_eq!(schedule.next(at("2026-03-01T00:00:00Z")), None);
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the claim is about how long it takes"
)]
fn no_search_is_long() {
    let zone = "America/New_York";
    let build = |expr: &str, dialect| {
        Schedule::cron(expr, dialect, zone, None, Timestamp::UNIX_EPOCH).expect("a good schedule")
    };
    let on = |expr: &str, usage| {
        build(expr, Dialect::Crontab)
            .on(cn(), usage)
            .expect("it can roll")
    };
    let schedules = [
        build("0 0 29 2 */7", Dialect::Crontab),
        build("59 59 23 31 12 ? 2099", Dialect::Quartz),
        // Over and done with.
        build("0 0 12 1 1 ? 1999", Dialect::Quartz),
        build("0 0 12 ? 2 SUN#5 1970-2025", Dialect::Quartz),
        on("0 8 29 2 *", Use::RollForward),
        on("0 8 29 2 *", Use::RollBack),
        on("0 8 29 2 *", Use::DaysOff),
        on("30 2 L 2 *", Use::RollForward),
    ];
    for schedule in &schedules {
        for from in [
            "2026-03-01T00:00:00Z",
            "2026-11-01T05:59:59Z",
            "2097-01-01T00:00:00Z",
            "0001-01-01T00:00:00Z",
        ] {
            let begin = std::time::Instant::now();
            let next = schedule.next(at(from));
            let prev = schedule.prev(at(from));
            let took = begin.elapsed();
            // Unoptimized and beside other tests; the promise is 50 ms for one optimized search.
            assert!(
                took.as_millis() < 500,
                "{took:?} for {schedule:?} from {from}"
            );
            assert!(next.is_none_or(|next| next > at(from)));
            assert!(prev.is_none_or(|prev| prev < at(from)));
        }
    }
}

#[test]
fn a_rolled_time_stands_for_itself_also_in_summer_time() {
    // A Saturday in May, long after the clocks went forward.
    let weekends = Arc::new(Calendar::new("weekends"));
    let schedule = Schedule::cron(
        "30 2 2 5 *",
        Dialect::Crontab,
        "America/New_York",
        None,
        Timestamp::UNIX_EPOCH,
    );
    let schedule = schedule.and_then(|s| s.on(weekends, Use::RollForward));
    let schedule = schedule.expect("a good schedule");
    let rolled = schedule.next(at("2026-04-01T00:00:00Z")).expect("one more");
    assert_eq!(rolled, at("2026-05-04T02:30:00-04:00"));
    assert_eq!(schedule.nominal(rolled).to_string(), "2026-05-04T02:30:00");
}

#[test]
fn what_a_calendar_takes_away_or_moves_is_told_with_its_reason() {
    let told = |expr: &str, usage| {
        let schedule = schedule(expr, usage);
        let (from, to) = (
            at("2026-02-13T12:00:00+08:00"),
            at("2026-02-25T12:00:00+08:00"),
        );
        let found = schedule.displaced(from, to, 3);
        let shown = found.iter().map(|one| {
            let day = one
                .why
                .calendar
                .names
                .get(&"2026-02-15".parse().expect("a date"));
            assert_eq!(day, None, "this file names no days");
            let to = one.to.map(|to| to.to_string());
            (one.own.to_string(), one.count, to, one.why.working)
        });
        shown.collect::<Vec<_>>()
    };
    let own = |day| format!("2026-02-{day}T01:00:00Z");
    let moved = Some("2026-02-24T01:00:00Z".to_owned());
    assert_eq!(
        told("0 9 * * *", Use::WorkingDays),
        [15, 16, 17].map(|day| (own(day), 1, None, false))
    );
    assert_eq!(
        told("0 9,10 * * *", Use::WorkingDays)[0],
        (own(15), 2, None, false)
    );
    assert_eq!(
        told("0 9 * * *", Use::RollForward),
        [15, 16, 17].map(|day| (own(day), 1, moved.clone(), false))
    );
    assert_eq!(told("0 9 * * *", Use::DaysOff)[0], (own(14), 1, None, true));
}

#[test]
fn several_calendars_are_asked_together() {
    let calendar = |name: &str, off: &[&str]| {
        let mut calendar = Calendar::new(name);
        calendar.off = off.iter().map(|day| day.parse().expect("a date")).collect();
        Arc::new(calendar)
    };
    let (cn, co) = (
        calendar("cn", &["2026-03-04"]),
        calendar("co", &["2026-03-05"]),
    );
    let next = |filters: Vec<(Arc<Calendar>, Use)>| {
        let schedule = Schedule::cron(
            "0 9 * * *",
            Dialect::Crontab,
            "UTC",
            None,
            Timestamp::UNIX_EPOCH,
        );
        let days = Days::new(filters).map_err(Error::from);
        let kept = days.and_then(|days| schedule?.on_days(days));
        kept.map(|s| s.next(at("2026-03-03T12:00:00Z")).expect("one").to_string())
    };
    let both = |a, b| next(vec![(cn.clone(), a), (co.clone(), b)]);
    let day = |day| Ok(format!("2026-03-{day}T09:00:00Z"));
    assert_eq!(both(Use::WorkingDays, Use::WorkingDays), day("06"));
    assert_eq!(both(Use::DaysOff, Use::WorkingDays), day("04"));
    assert_eq!(both(Use::WorkingDays, Use::DaysOff), day("05"));
    assert_eq!(both(Use::RollForward, Use::WorkingDays), day("06"));
    assert!(both(Use::RollForward, Use::RollBack).is_err());
    assert!(both(Use::RollForward, Use::DaysOff).is_err());
    let mut never = Calendar::new("never");
    never.weekend = [1, 2, 3, 4, 5].into();
    assert!(
        next(vec![
            (cn, Use::RollForward),
            (Arc::new(never), Use::WorkingDays)
        ])
        .is_err()
    );
}

/// A weekday is never off by the weekend: only a listed date can count, however far it is, and where
/// none is left the search ends at once instead of at the end of time.
#[test]
fn what_no_weekday_can_match_goes_by_the_listed_dates_alone() {
    let mut calendar = Calendar::new("c");
    let day = |year, month, day| jiff::civil::date(year, month, day);
    calendar.off.extend([day(2026, 2, 16), day(1805, 2, 15)]);
    let calendar = Arc::new(calendar);
    let schedule = |cron: &str| {
        let zero = Timestamp::UNIX_EPOCH;
        let built = Schedule::cron(cron, Dialect::Crontab, "UTC", None, zero).expect("good");
        built.on(calendar.clone(), Use::DaysOff).expect("good")
    };
    let nearest = schedule("0 0 15W 2 *");
    let at = |text: &str| text.parse::<Timestamp>().expect("an instant");
    let found = |at: Option<Timestamp>| at.map(|at| at.to_string()[..10].to_owned());
    let next = |from: &str| found(nearest.next(at(from)));
    let prev = |from: &str| found(nearest.prev(at(from)));
    assert_eq!(
        next("-009000-01-01T00:00:00Z").as_deref(),
        Some("1805-02-15")
    );
    assert_eq!(next("1805-02-15T00:00:00Z").as_deref(), Some("2026-02-16"));
    assert_eq!(next("2026-02-16T00:00:00Z"), None);
    assert_eq!(prev("9000-01-01T00:00:00Z").as_deref(), Some("2026-02-16"));
    assert_eq!(prev("2026-02-16T00:00:00Z").as_deref(), Some("1805-02-15"));
    assert_eq!(prev("1805-02-15T00:00:00Z"), None);
}
