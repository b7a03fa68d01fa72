//! What the duties wrote, judged by the second evaluator.

use futures::executor::block_on;
use jiff::{SignedDuration, Timestamp, ToSpan};
use serde_json::{Value, json};
use sichen_audit::ledger::{Finding, Record};
use sichen_check::audit::{Audited, Records};
use sichen_check::{Invariant, Options, check_dump};
use sichen_core::document::CalendarDocument;
use sichen_core::ids::{JobUid, Occasion};
use sichen_core::model::{Decision, Dump};
use sichen_core::name::JobName;
use sichen_core::schedule::zones::{Taken, Zones};
use sichen_engine::context::Context;
use sichen_engine::control::{Control, Turn};

use crate::fixture::{Cluster, Node, document};

const SCHEDULES: [&str; 18] = [
    r#"[{"after": "20m"}]"#,
    r#"[{"continuous": {}}, {"cron": "*/17 * * * *"}]"#,
    r#"[{"cron": "0,30 1-3 * * *", "gap": "skip"}, {"every": "40m"}]"#,
    r#"[{"cron": "30 2 * * *"}]"#,
    r#"[{"cron": "30 2 * * *", "gap": "skip", "fold": "both"}]"#,
    r#"[{"cron": "15 1,2 * * 0", "gap": "shift"}]"#,
    r#"[{"cron": "*/7 * * * *"}]"#,
    r#"[{"cron": "0 0 9 ? * 2#1", "dialect": "quartz"}, {"every": "5h", "phase": "17m"}]"#,
    r#"[{"cron": "5,35 1-2 1/1 * ?", "dialect": "kubernetes"}]"#,
    r#"[{"every": "1h 30m"}, {"cron": "0 */3 * * *"}]"#,
    r#"[{"cron": "H H * * *"}, {"cron": "H/20 3 LW * *"}]"#,
    r#"[{"at": "2026-03-29T01:30:00+01:00"}, {"cron": "30 0-3 * * *", "gap": "skip"}]"#,
    r#"[{"cron": "*/20 * * * * *", "until": "2026-03-02T00:00:00.5Z"}]"#,
    r#"[{"cron": "0 12 * * *", "from": "2026-03-05T12:00:00Z", "timeZone": "Asia/Kathmandu"}]"#,
    r#"[{"cron": "0,30 */2 * * *", "calendars": [{"name": "h", "use": "working-days"}]}]"#,
    r#"[{"cron": "30 2 * * *", "calendars": [{"name": "h", "use": "roll-forward"}]}]"#,
    r#"[{"every": "50m", "calendars": [{"name": "h", "use": "days-off"}]}, {"cron": "7 7 * * 6",
        "calendars": [{"name": "h", "use": "roll-back"}]}]"#,
    "[]",
];
const ZONES: [&str; 5] = [
    "America/New_York",
    "Europe/London",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "UTC",
];
const CATCH_UP: [&str; 4] = [
    r#"{"policy": "none"}"#,
    r#"{"policy": "latest", "startingDeadline": "2h"}"#,
    r#"{"policy": {"all": 7}}"#,
    r#"{"policy": "coalesce"}"#,
];

const OVERLAP: [&str; 2] = ["allow", "forbid"];

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }

    /// A few days off and a few made up for, in the weeks that a history goes through.
    fn calendar(&mut self) -> CalendarDocument {
        let mut list = |days: [i64; 2]| -> Vec<String> {
            let of = (0..self.roll(7)).map(|_| days[0] + 2 * self.roll(30) as i64 + days[1]);
            let first = jiff::civil::date(2026, 3, 1);
            of.map(|day| first.saturating_add(day.days()).to_string())
                .collect()
        };
        // No date is in both: one list has even days, the other odd ones.
        let spec = json!({ "daysOff": list([0, 0]), "workingDays": list([0, 1]) });
        let document = json!({
            "apiVersion": "sichen/v1", "kind": "Calendar", "metadata": { "name": "h" }, "spec": spec,
        });
        serde_json::from_value(document).unwrap()
    }

    fn spec(&mut self) -> Value {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        json!({
            "run": { "handler": "h" },
            "schedules": read(SCHEDULES[self.roll(SCHEDULES.len())]),
            "timeZone": ZONES[self.roll(ZONES.len())],
            "catchUp": read(CATCH_UP[self.roll(CATCH_UP.len())]),
            "overlap": OVERLAP[self.roll(2)],
        })
    }
}

/// Lets everything that is due be decided.
fn decide(cluster: &Cluster, node: &Node) {
    node.coordinate(cluster);
    for _ in 0..10_000 {
        let pass = node.trigger(cluster);
        if pass.next.is_none_or(|next| next > cluster.now()) {
            return;
        }
    }
    panic!("the trigger finds no end");
}

/// Weeks in the life of a few jobs: due on time and late, edited, paused, resumed, deleted.
fn history(seed: u64, steps: usize) -> (Cluster, Dump) {
    let mut dice = Dice(seed);
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    let context = Context::new(cluster.store.clone(), cluster.ids.clone());
    let control = Control::new(context);
    decide(&cluster, &node);
    block_on(control.apply_calendar("user", &dice.calendar())).unwrap();
    for _ in 0..steps {
        if dice.roll(8) == 0 {
            block_on(control.apply_calendar("user", &dice.calendar())).unwrap();
        }
        let name = format!("job-{}", dice.roll(6));
        let job = JobName::new("default", &name).unwrap();
        match dice.roll(12) {
            0..=2 => {
                let document = document(&name, dice.spec());
                block_on(control.apply("user", &document)).unwrap();
            }
            3 => drop(block_on(control.set_paused("user", &job, Turn::Pause))),
            n @ (4 | 5) => {
                let catch_up = Some(n == 4);
                let turn = Turn::Resume { catch_up };
                drop(block_on(control.set_paused("user", &job, turn)));
            }
            6 if dice.roll(6) == 0 => drop(block_on(control.delete("user", &job))),
            7 => cluster.pass(86_400 * (1 + dice.roll(9) as i64)),
            8 => cluster
                .clock
                .advance(SignedDuration::from_micros(1_234_567)),
            _ => cluster.pass(dice.roll(20_000) as i64),
        }
        if dice.roll(3) > 0 {
            decide(&cluster, &node);
        }
    }
    decide(&cluster, &node);
    let dump = block_on(cluster.store.dump()).unwrap();
    (cluster, dump)
}

fn audit(records: &Records, through: Option<Timestamp>) -> Vec<Audited> {
    let jobs: Vec<JobUid> = records.jobs().map(|(uid, ..)| uid).collect();
    let audit = |uid| records.audit(uid, None, through, None).unwrap();
    jobs.into_iter().map(audit).collect()
}

#[test]
fn what_the_duties_write_has_no_findings() {
    let (mut expected, mut gaps, mut edits) = (0, 0, 0);
    for seed in 0..24 {
        let (cluster, dump) = history(seed, 120);
        let records = Records::of(&dump);
        for audited in audit(&records, Some(cluster.now())) {
            let report = audited.report;
            assert_eq!(report.findings, [], "seed {seed}, job {}", audited.uid);
            assert_eq!(report.unjudged, [], "seed {seed}, job {}", audited.uid);
            expected += report.expected;
        }
        gaps += dump
            .decisions
            .iter()
            .filter(|(_, d)| d.reason == "gap")
            .count();
        edits += dump.revisions.len() - dump.jobs.len();
        // The checker, asking the same evaluator, decides what it could not decide by itself.
        let options = Options {
            seq_is_commit_order: true,
            oracle: Some(Box::new(records)),
            demand: vec![Invariant::I2, Invariant::I3],
            ..Options::default()
        };
        let verdict = check_dump(&dump, options, &[]);
        assert!(verdict.is_ok(), "seed {seed}: {verdict}");
    }
    // The histories have in them what they are about.
    assert!(expected > 50_000, "only {expected} planned times");
    assert!(gaps > 5 && edits > 50, "{gaps} gaps, {edits} edits");
}

/// One job, hourly through a week with an outage of a day in it.
fn week() -> (JobUid, Dump) {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    decide(&cluster, &node);
    let spec = json!({
        "run": { "handler": "h" }, "schedules": [{ "cron": "0 * * * *" }], "overlap": "allow",
        "catchUp": { "policy": "latest" }, "timeZone": "Europe/London",
    });
    let job = cluster.apply("j", spec);
    for hour in 0..168 {
        cluster.pass(3_600);
        if !(40..64).contains(&hour) {
            decide(&cluster, &node);
        }
    }
    (job, block_on(cluster.store.dump()).unwrap())
}

fn findings(job: JobUid, dump: &Dump) -> Vec<Finding> {
    let audited = Records::of(dump).audit(job, None, None, None).unwrap();
    let report = audited.report;
    assert_eq!(report.finding_count, report.findings.len() as u64);
    report.findings
}

#[test]
fn a_record_deleted_one_added_and_one_moved_by_a_second_are_exactly_these_three() {
    let (job, mut dump) = week();
    assert_eq!(findings(job, &dump), []);
    let us = |text: &str| text.parse::<Timestamp>().unwrap().as_microsecond();
    let planned = |text: &str| Occasion::Planned {
        at: text.parse().unwrap(),
        rerun: 0,
    };
    let place = |dump: &Dump, text: &str| {
        let wanted = planned(text);
        dump.runs
            .iter()
            .position(|run| run.occasion == wanted)
            .unwrap()
    };
    let deleted = place(&dump, "2026-03-02T05:00:00Z");
    dump.runs.remove(deleted);
    let mut added = dump.runs[3].clone();
    added.id.0 = 999;
    added.occasion = planned("2026-03-04T11:20:00Z");
    dump.runs.push(added);
    let moved = place(&dump, "2026-03-06T20:00:00Z");
    dump.runs[moved].occasion = planned("2026-03-06T20:00:01Z");
    let run = dump.runs[moved].id.0;
    let missing = Finding::Missing {
        at_us: us("2026-03-02T05:00:00Z"),
        revision: 1,
    };
    let extra = Finding::Extra {
        at_us: us("2026-03-04T11:20:00Z"),
        record: Record::Run(999),
    };
    let moved = Finding::Moved {
        planned_us: us("2026-03-06T20:00:00Z"),
        recorded_us: us("2026-03-06T20:00:01Z"),
        record: Record::Run(run),
    };
    assert_eq!(findings(job, &dump), [missing, extra, moved]);
}

#[test]
fn the_same_is_found_among_the_records_of_what_did_not_run() {
    let (job, whole) = week();
    // The outage of a day is one range.
    let at = whole
        .decisions
        .iter()
        .position(|(_, d)| d.count > 1)
        .unwrap();
    let with = |change: &dyn Fn(&mut Decision)| {
        let mut dump = whole.clone();
        change(&mut dump.decisions[at].1);
        findings(job, &dump)
    };
    let second = SignedDuration::from_secs(1);
    let fewer = with(&|d| d.count -= 1);
    assert!(
        matches!(fewer[..], [Finding::Miscounted { .. }]),
        "{fewer:?}"
    );
    let moved = with(&|d| d.to += second);
    assert!(matches!(moved[..], [Finding::Moved { .. }]), "{moved:?}");
    let mut gone = whole.clone();
    let count = gone.decisions.remove(at).1.count as usize;
    let gone = findings(job, &gone);
    assert_eq!(gone.len(), count);
    assert!(gone.iter().all(|f| matches!(f, Finding::Missing { .. })));
}

/// What waits for the rate of its catch-up is not missing, what nobody looks at any more is.
#[test]
fn a_paced_catch_up_makes_so_many_runs_a_minute_and_what_waits_is_not_missing() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    decide(&cluster, &node);
    let spec = json!({
        "run": { "handler": "h" }, "schedules": [{ "every": "1m" }], "overlap": "allow",
        "catchUp": { "policy": { "all": 30 }, "rate": 4 },
    });
    let job = cluster.apply("j", spec);
    cluster.pass(20 * 60 + 30);
    let runs = || block_on(cluster.store.dump()).unwrap().runs.len();
    let findings = || {
        let records = Records::of(&block_on(cluster.store.dump()).unwrap());
        let overdue = cluster.now() - SignedDuration::from_secs(10);
        let audited = records.audit(job, None, None, Some(overdue)).unwrap();
        audited.report.findings.len()
    };
    assert_eq!(findings(), 20, "nobody has looked yet");
    for n in 1..=12 {
        decide(&cluster, &node);
        decide(&cluster, &node);
        assert_eq!(runs(), n, "one every fifteen seconds");
        assert_eq!(findings(), 0, "the rest waits");
        cluster.pass(15);
    }
    cluster.pass(600);
    assert!(findings() > 20, "it was not looked at in time");
}

/// A release brings newer zone data: the wall clock of the job steps at its mark, and no civil date is
/// repeated or lost. The second evaluator says so too.
#[test]
fn newer_zone_data_neither_repeats_nor_loses_a_civil_date() {
    // By the data of this release Shanghai is eight hours ahead; the mark is at 08:00 there.
    let check = |hours: i32, cron: &str, civil: &[&str]| {
        let cluster = Cluster::new();
        let node = cluster.node("n1");
        node.coordinate(&cluster);
        let zone = "Asia/Shanghai";
        let spec = json!({
            "run": {"handler": "h"}, "timeZone": zone, "schedules": [{"cron": cron}],
            "overlap": "allow",
        });
        let taken = Taken {
            offset: hours * 3_600,
            change: None,
        };
        let zones = Zones {
            data: "2000a".to_owned(),
            taken: [(zone.to_owned(), taken)].into(),
            ..Zones::default()
        };
        let job = cluster.apply_in("j", spec, Some(zones));
        for _ in 0..5 {
            node.coordinate(&cluster);
            node.trigger(&cluster);
            cluster.pass(8 * 3_600);
        }
        node.coordinate(&cluster);
        node.trigger(&cluster);
        let dump = block_on(cluster.store.dump()).unwrap();
        let mut runs: Vec<String> = dump
            .runs
            .iter()
            .map(|run| run.nominal.as_ref().unwrap().civil.to_string())
            .collect();
        runs.sort();
        let name = format!("{hours} h before, {cron}");
        assert_eq!(runs, civil, "{name}");
        let row = dump.jobs.iter().find(|row| row.uid == job).unwrap();
        let kept = row.zones.as_ref().unwrap();
        assert_eq!(kept.data, sichen_core::schedule::zone_data_version());
        assert_eq!(kept.steps.len(), usize::from(hours != 8), "{name}");
        let audited = Records::of(&dump).audit(job, None, None, None).unwrap();
        assert_eq!(audited.report.findings, [], "{name}");
        assert_eq!(audited.report.unjudged, [], "{name}");
        assert_eq!(audited.report.expected, runs.len() as u64, "{name}");
        let verdict = check_dump(&dump, Options::default(), &[]);
        assert_eq!(verdict.violations, [], "{name}");
    };
    // The old data had 07:00 at the mark: 07:30 would be lost.
    check(
        7,
        "30 7 * * *",
        &["2026-03-01T07:30:00", "2026-03-02T07:30:00"],
    );
    // It had 09:00 there: 08:30 has run already.
    check(9, "30 8 * * *", &["2026-03-02T08:30:00"]);
    check(
        8,
        "30 8 * * *",
        &["2026-03-01T08:30:00", "2026-03-02T08:30:00"],
    );
    check(9, "0 9 * * *", &["2026-03-02T09:00:00"]);
    check(
        9,
        "1 9 * * *",
        &["2026-03-01T09:01:00", "2026-03-02T09:01:00"],
    );
}
