//! Jobs whose runs are followed by the next one: `after` and `continuous`.

use std::cell::RefCell;

use futures::executor::block_on;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sichen_check::audit::Records;
use sichen_check::{Invariant, Options, check_dump};
use sichen_core::ids::{JobUid, Occasion, SessionId};
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::Job;
use sichen_core::name::JobName;
use sichen_engine::control::{Control, Turn};

use crate::fixture::{Cluster, Node, document, report, start};

struct Stage {
    cluster: Cluster,
    node: Node,
    control: Control,
    job: JobUid,
    sessions: RefCell<Vec<SessionId>>,
}

fn at(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

fn spec(schedule: Value, more: Value) -> Value {
    let mut spec = json!({
        "run": { "handler": "h" }, "schedules": [schedule], "retry": { "maxAttempts": 1 },
    });
    for (key, value) in more.as_object().expect("an object") {
        spec[key] = value.clone();
    }
    spec
}

impl Stage {
    fn new(schedule: Value, more: Value) -> Stage {
        let cluster = Cluster::new();
        let node = cluster.node("n1");
        node.coordinate(&cluster);
        let control = Control::new(node.engine.context.clone());
        let document = document("j", spec(schedule, more));
        let job = block_on(control.apply("user", &document)).unwrap().uid;
        Stage {
            cluster,
            node,
            control,
            job,
            sessions: RefCell::default(),
        }
    }

    fn row(&self) -> Job {
        block_on(self.cluster.store.get_job_by_uid(self.job))
            .unwrap()
            .unwrap()
    }

    fn name() -> JobName {
        JobName::new("default", "j").unwrap()
    }

    /// Lets what is due at `seconds` be decided; how many runs were written.
    fn tick(&self, seconds: i64) -> usize {
        self.cluster
            .pass(at(seconds).duration_since(self.cluster.now()).as_secs());
        self.node.coordinate(&self.cluster);
        self.node.trigger(&self.cluster).runs
    }

    /// A worker takes what is ready and ends it.
    fn work(&self, ending: Ending) {
        let name = format!("w{}", self.cluster.now().as_second());
        let session = self.node.worker(&self.cluster, &name, 5);
        self.sessions.borrow_mut().push(session);
        self.node.coordinate(&self.cluster);
        // An earlier worker may have been given it as it was written.
        self.node.dispatch(&self.cluster);
        let mut taken = 0;
        for session in self.sessions.borrow().iter() {
            for work in self.node.grants(*session) {
                taken += 1;
                let end = report(work.shard.key, work.shard.token, ending);
                self.node.report(&self.cluster, end);
            }
        }
        assert_eq!(taken, 1);
    }

    fn turn(&self, turn: Turn) {
        block_on(self.control.set_paused("user", &Self::name(), turn)).unwrap();
    }

    fn edit(&self, schedule: Value, more: Value) {
        let document = document("j", spec(schedule, more));
        block_on(self.control.apply("user", &document)).unwrap();
    }

    /// Planned times with a run, and those without one, with the reason; in seconds.
    fn told(&self) -> Vec<(i64, String)> {
        let dump = block_on(self.cluster.store.dump()).unwrap();
        let since = |at: Timestamp| at.duration_since(start()).as_secs();
        let runs = dump.runs.iter().filter_map(|run| match run.occasion {
            Occasion::Planned { at, .. } => Some((since(at), run.state.word().to_owned())),
            Occasion::Manual { .. } => None,
        });
        let decisions = dump.decisions.iter();
        let decisions = decisions.map(|(_, d)| (since(d.from), d.reason.clone()));
        let mut told: Vec<_> = runs.chain(decisions).collect();
        told.sort();
        told
    }

    /// Nobody who looks at the records finds anything wrong with them.
    fn is_sound(&self) {
        let dump = block_on(self.cluster.store.dump()).unwrap();
        let records = Records::of(&dump);
        let now = Some(self.cluster.now());
        let audited = records.audit(self.job, None, now, None).unwrap();
        assert_eq!(audited.report.findings, []);
        assert_eq!(audited.report.unjudged, []);
        let options = Options {
            seq_is_commit_order: true,
            oracle: Some(Box::new(records)),
            demand: vec![Invariant::I2, Invariant::I3],
            ..Options::default()
        };
        let verdict = check_dump(&dump, options, &[]);
        assert!(verdict.is_ok(), "{verdict}");
    }
}

fn told(list: &[(i64, &str)]) -> Vec<(i64, String)> {
    list.iter()
        .map(|(at, what)| (*at, (*what).into()))
        .collect()
}

#[test]
fn a_fixed_delay_counts_from_the_end_of_the_last_run() {
    let stage = Stage::new(json!({ "after": "10m" }), json!({}));
    assert_eq!(stage.tick(1), 1, "the first is due at once");
    stage.tick(300);
    assert_eq!(stage.row().next_due, None, "its end makes the next");
    stage.work(Ending::Succeeded);
    assert_eq!(stage.row().next_due, Some(at(900)));
    assert_eq!(stage.tick(899), 0);
    assert_eq!(stage.tick(900), 1);
    let runs = block_on(stage.cluster.store.dump()).unwrap().runs;
    let period = runs[1].period.unwrap();
    assert_eq!((period.start, period.end), (at(1), at(900)));
    stage.work(Ending::FailedForGood);
    assert_eq!(stage.tick(1500), 1);
    let expect = told(&[(1, "succeeded"), (900, "failed"), (1500, "scheduled")]);
    assert_eq!(stage.told(), expect);
    stage.is_sound();
}

#[test]
fn a_job_that_is_kept_running_starts_again_at_once_and_backs_off_after_failures() {
    let stage = Stage::new(json!({ "continuous": {} }), json!({}));
    let mut starts = Vec::new();
    let mut fails = vec![false, false, true, true, true, false];
    for second in 1..20 {
        if stage.tick(second) == 1 {
            starts.push(second);
            let failed = !fails.is_empty() && fails.remove(0);
            stage.work(if failed {
                Ending::FailedForGood
            } else {
                Ending::Succeeded
            });
        }
    }
    assert_eq!(
        starts,
        [1, 2, 3, 4, 6, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]
    );
    stage.is_sound();
}

/// What becomes of an instant that nobody could decide when it came.
#[test]
fn an_instant_missed_while_down_follows_the_catch_up_policy_and_the_chain_goes_on() {
    let rows = [
        (
            json!("none"),
            told(&[(1, "succeeded"), (601, "catch_up")]),
            Some(4200),
        ),
        (
            json!("latest"),
            told(&[(1, "succeeded"), (601, "scheduled")]),
            None,
        ),
        (
            json!({ "all": 5 }),
            told(&[(1, "succeeded"), (601, "scheduled")]),
            None,
        ),
        (
            json!("coalesce"),
            told(&[(1, "succeeded"), (601, "scheduled")]),
            None,
        ),
    ];
    for (policy, expect, next) in rows {
        let more = json!({ "catchUp": { "policy": policy } });
        let stage = Stage::new(json!({ "after": "10m" }), more);
        stage.tick(1);
        stage.work(Ending::Succeeded);
        stage.tick(3600);
        assert_eq!(stage.told(), expect, "{policy}");
        assert_eq!(stage.row().next_due, next.map(at), "{policy}");
        stage.is_sound();
    }
}

#[test]
fn an_instant_that_finds_a_run_active_is_skipped_and_that_run_makes_the_next() {
    let stage = Stage::new(json!({ "after": "1m" }), json!({}));
    stage.tick(1);
    stage.work(Ending::Succeeded);
    stage.cluster.run(stage.job, "by hand");
    assert_eq!(stage.tick(61), 0);
    assert_eq!(stage.told(), told(&[(1, "succeeded"), (61, "overlap")]));
    assert_eq!(stage.row().next_due, None);
    stage.work(Ending::Succeeded);
    assert_eq!(stage.row().next_due, Some(at(121)));
    stage.is_sound();
}

#[test]
fn a_pause_records_what_came_in_it_and_a_resume_goes_on() {
    for (catch_up, expect, next) in [
        (None, told(&[(1, "succeeded"), (61, "paused")]), Some(660)),
        (
            Some(true),
            told(&[(1, "succeeded"), (61, "scheduled")]),
            None,
        ),
    ] {
        let stage = Stage::new(json!({ "after": "1m" }), json!({}));
        stage.tick(1);
        stage.turn(Turn::Pause);
        stage.work(Ending::Succeeded);
        assert_eq!(stage.tick(600), 0, "paused");
        stage.turn(Turn::Resume { catch_up });
        assert_eq!(stage.told(), expect);
        assert_eq!(stage.row().next_due, next.map(at));
        stage.is_sound();
    }
    let stage = Stage::new(json!({ "after": "10m" }), json!({}));
    stage.tick(1);
    stage.work(Ending::Succeeded);
    stage.turn(Turn::Pause);
    stage.tick(60);
    stage.turn(Turn::Resume { catch_up: None });
    assert_eq!(stage.row().next_due, Some(at(601)), "it has not come yet");
    stage.is_sound();
}

#[test]
fn an_edit_changes_the_wait_and_never_what_has_come() {
    let stage = Stage::new(json!({ "after": "10m" }), json!({}));
    stage.tick(1);
    stage.work(Ending::Succeeded);
    stage.edit(json!({ "after": "20m" }), json!({}));
    assert_eq!(stage.row().next_due, Some(at(1201)));
    stage.tick(1202);
    stage.edit(json!({ "after": "5m" }), json!({}));
    assert_eq!(stage.row().next_due, None, "a run is open");
    stage.work(Ending::Succeeded);
    assert_eq!(stage.row().next_due, Some(at(1502)));
    // Nobody looked when it came: the old text decides it.
    stage.cluster.pass(600);
    stage.edit(json!({ "every": "1h" }), json!({}));
    let expect = told(&[(1, "succeeded"), (1201, "succeeded"), (1502, "scheduled")]);
    assert_eq!(stage.told(), expect);
    assert_eq!(stage.row().chain, None);
    stage.work(Ending::Succeeded);
    assert_eq!(
        stage.row().next_due,
        Some(at(3600)),
        "no run is followed any more"
    );
    stage.edit(json!({ "continuous": {} }), json!({}));
    assert_eq!(stage.tick(1900), 1, "it begins at once");
    stage.is_sound();
}

#[test]
fn a_deleted_job_is_not_followed_and_leaves_nothing_undecided() {
    let stage = Stage::new(json!({ "after": "1m" }), json!({}));
    stage.tick(1);
    stage.work(Ending::Succeeded);
    stage.cluster.pass(100);
    block_on(stage.control.delete("user", &Stage::name())).unwrap();
    assert_eq!(stage.told(), told(&[(1, "succeeded"), (61, "deleted")]));
    stage.is_sound();
    let stage = Stage::new(json!({ "after": "1m" }), json!({}));
    stage.tick(1);
    block_on(stage.control.delete("user", &Stage::name())).unwrap();
    stage.work(Ending::Succeeded);
    assert_eq!(stage.tick(500), 0);
    stage.is_sound();
}

#[test]
fn beside_a_cron_schedule_both_give_instants_and_one_that_is_the_same_counts_once() {
    let stage = Stage::new(json!({ "after": "59s" }), json!({ "overlap": "allow" }));
    let both = json!([{ "after": "59s" }, { "cron": "* * * * *" }]);
    stage.edit(json!({}), json!({ "overlap": "allow", "schedules": both }));
    stage.tick(1);
    stage.work(Ending::Succeeded);
    assert_eq!(stage.row().next_due, Some(at(60)), "both name it");
    assert_eq!(stage.tick(60), 1);
    assert_eq!(stage.tick(120), 1, "cron alone: the run of 60 is open");
    assert_eq!(stage.row().pending(), None);
    stage.is_sound();
}

/// The checker and the audit see what they are there for.
#[test]
fn a_chain_that_breaks_is_a_violation_and_a_finding() {
    let stage = Stage::new(json!({ "after": "1m" }), json!({}));
    stage.tick(1);
    stage.work(Ending::Succeeded);
    stage.tick(61);
    stage.work(Ending::Succeeded);
    let dump = block_on(stage.cluster.store.dump()).unwrap();
    let judge = |dump| {
        let options = Options {
            seq_is_commit_order: true,
            ..Options::default()
        };
        check_dump(dump, options, &[]).to_string()
    };
    // The row lost what follows.
    let mut stopped = dump.clone();
    stopped.jobs[0].chain.as_mut().unwrap().pending = None;
    let verdict = judge(&stopped);
    assert!(
        verdict.contains("nothing follows the last one"),
        "{verdict}"
    );
    // The step of the mark that passed it does not name it.
    let mut passed = dump.clone();
    let key = Occasion::Planned {
        at: at(61),
        rerun: 0,
    }
    .key();
    for event in &mut passed.events {
        event.data = event.data.replace(&format!("\"{key}\""), "");
    }
    let verdict = judge(&passed);
    assert!(
        verdict.contains("follows a run and is passed over"),
        "{verdict}"
    );
    // The run itself is gone.
    let mut gone = dump.clone();
    gone.runs
        .retain(|run| run.occasion.planned_at() != Some(at(61)));
    let audited = Records::of(&gone)
        .audit(stage.job, None, None, None)
        .unwrap();
    assert_eq!(
        audited.report.findings.len(),
        1,
        "{:?}",
        audited.report.findings
    );
}
