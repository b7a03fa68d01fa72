//! What happens to planned and manual runs while others of their job are active.

use std::cell::RefCell;

use futures::executor::block_on;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, json};
use sichen_check::audit::Records;
use sichen_check::{Invariant, Options, check_dump};
use sichen_core::ids::{JobUid, RunId, SessionId, ShardKey, Token};
use sichen_core::lifecycle::RunState;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::Decision;
use sichen_core::name::JobName;
use sichen_core::port::{EventFilter, Page, RunFilter};
use sichen_core::schedule::overlap::Overlap;
use sichen_engine::control::{Control, Error, StartRun, Which};
use sichen_engine::sessions::BeatAnswer;
use sichen_engine::work::Work;

use crate::fixture::{Cluster, Node, report, start};

struct Stage {
    cluster: Cluster,
    node: Node,
    session: SessionId,
    job: JobUid,
    /// What the worker runs.
    held: RefCell<Vec<(ShardKey, Token)>>,
}

impl Stage {
    /// A job that is due each minute, and one worker.
    fn new(overlap: serde_json::Value, more: serde_json::Value) -> Self {
        let cluster = Cluster::new();
        let node = cluster.node("n1");
        node.coordinate(&cluster);
        let mut spec = json!({
            "run": { "handler": "h" }, "schedules": [{ "every": "1m" }], "overlap": overlap,
        });
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let job = cluster.apply("j", spec);
        let session = node.worker(&cluster, "w1", 10);
        Self {
            cluster,
            node,
            session,
            job,
            held: RefCell::default(),
        }
    }

    /// Time passes, the worker beats, the schedule fires, what may start is granted.
    fn pass(&self, seconds: i64) -> Vec<Work> {
        for _ in 0..seconds {
            self.cluster.pass(1);
            self.node.coordinate(&self.cluster);
            self.node.beat(self.session, &self.held.borrow(), 1_000);
        }
        self.node.trigger(&self.cluster);
        self.node.dispatch(&self.cluster);
        let works = self.node.grants(self.session);
        let keys = works.iter().map(|work| (work.shard.key, work.shard.token));
        self.held.borrow_mut().extend(keys);
        works
    }

    fn end(&self, work: &Work, ending: Ending) {
        let report = report(work.shard.key, work.shard.token, ending);
        self.node.report(&self.cluster, report);
        self.held
            .borrow_mut()
            .retain(|(key, _)| *key != work.shard.key);
    }

    fn decisions(&self) -> Vec<Decision> {
        block_on(self.cluster.store.list_decisions(self.job, start(), 100)).unwrap()
    }

    fn runs(&self) -> Vec<(Timestamp, RunState, String)> {
        let page = Page {
            after: None,
            limit: 100,
        };
        let runs = block_on(self.cluster.store.list_runs(RunFilter::default(), page)).unwrap();
        let rows = runs.into_iter().rev();
        rows.map(|r| (r.occasion.planned_at().unwrap(), r.state, r.reason))
            .collect()
    }

    fn cause_of_release(&self, run: RunId) -> String {
        let filter = EventFilter {
            run: Some(run),
            ..EventFilter::default()
        };
        let page = Page {
            after: None,
            limit: 100,
        };
        let events = block_on(self.cluster.store.list_events(filter, page)).unwrap();
        let release = events.iter().find(|e| e.kind.word() == "run_released");
        release.unwrap().cause.clone()
    }
}

fn minute(n: i64) -> Timestamp {
    start() + SignedDuration::from_mins(n)
}

/// SCALE-004: what one run blocks is one record, however many steps of the mark decide it.
#[test]
fn an_hour_of_blocked_seconds_is_one_record_that_grows() {
    let seconds = json!({ "schedules": [{ "every": "1s" }] });
    let mut stage = Stage::new(json!("forbid"), seconds);
    let at = |n: i64| start() + SignedDuration::from_secs(n);
    let told = |stage: &Stage| -> Vec<_> {
        let kept = stage.decisions().into_iter();
        kept.map(|d| (d.from, d.to, d.count, d.reason, d.reference))
            .collect()
    };
    let blocked = |from: i64, to: i64, by: &Work| {
        let (count, reason) = ((to - from + 1) as u64, "overlap".to_owned());
        (at(from), at(to), count, reason, by.run.id.to_string())
    };
    let first = stage.pass(1).pop().unwrap();
    for _ in 0..3_600 {
        assert!(stage.pass(1).is_empty(), "the first still runs");
    }
    assert_eq!(told(&stage), [blocked(2, 3_601, &first)]);
    stage.end(&first, Ending::Succeeded);
    let second = stage.pass(1).pop().unwrap();
    for _ in 0..60 {
        stage.pass(1);
    }
    let mut expect = vec![blocked(2, 3_601, &first), blocked(3_603, 3_662, &second)];
    assert_eq!(told(&stage), expect);
    // Another owner does not know how the record before it came about: it begins its own.
    stage.node = stage.cluster.node("n2");
    stage.cluster.pass(10);
    stage.node.coordinate(&stage.cluster);
    for _ in 0..3 {
        stage.cluster.pass(1);
        stage.node.coordinate(&stage.cluster);
        stage.node.trigger(&stage.cluster);
    }
    expect.push(blocked(3_663, 3_675, &second));
    assert_eq!(told(&stage), expect);

    let dump = block_on(stage.cluster.store.dump()).unwrap();
    let records = Records::of(&dump);
    let report = records.audit(stage.job, None, None, None).unwrap().report;
    assert_eq!(report.findings, []);
    assert_eq!((report.with_run, report.with_decision), (2, 3_673));
    let options = Options {
        seq_is_commit_order: true,
        oracle: Some(Box::new(records)),
        demand: vec![Invariant::I2, Invariant::I3],
        ..Options::default()
    };
    let verdict = check_dump(&dump, options, &[]);
    assert!(verdict.is_ok(), "{verdict}");
}

#[test]
fn a_queue_is_worked_off_in_order_and_never_beyond_its_limit() {
    let stage = Stage::new(json!({ "queue": { "limit": 2 } }), json!({}));
    let first = stage.pass(60).pop().unwrap();
    for _ in 0..3 {
        assert!(stage.pass(60).is_empty(), "the first still runs");
    }
    let skipped = stage.decisions();
    assert_eq!(skipped.len(), 1);
    assert_eq!(
        (skipped[0].from, skipped[0].reason.as_str()),
        (minute(4), "overlap")
    );
    assert_eq!(skipped[0].reference, first.run.id.to_string());
    let mut last = first;
    for n in 2..=3 {
        stage.end(&last, Ending::Succeeded);
        last = stage.pass(1).pop().unwrap();
        assert_eq!(last.run.occasion.planned_at(), Some(minute(n)));
        assert_eq!(stage.cause_of_release(last.run.id), "confirmed");
    }
    stage.end(&last, Ending::Succeeded);
    assert!(stage.pass(1).is_empty());
    assert!(
        stage
            .runs()
            .iter()
            .all(|(_, state, _)| *state == RunState::Succeeded)
    );
}

/// MISS-016: a run that waited too long is not started, and says why.
#[test]
fn who_waits_beyond_the_starting_deadline_is_cancelled_and_says_so() {
    let catch_up = json!({ "catchUp": { "startingDeadline": "90s" } });
    let stage = Stage::new(json!({ "queue": { "limit": 5 } }), catch_up);
    let first = stage.pass(60).pop().unwrap();
    stage.pass(60);
    stage.pass(60);
    // The trigger's sweep finds the one of minute 2 before anything leaves the queue.
    stage.pass(31);
    let late = (
        minute(2),
        RunState::Cancelled,
        "starting_deadline".to_owned(),
    );
    assert_eq!(stage.runs()[1], late);
    stage.end(&first, Ending::Succeeded);
    let next = stage.pass(1).pop().unwrap();
    assert_eq!(next.run.occasion.planned_at(), Some(minute(3)));
}

#[test]
fn the_newest_replaces_the_one_that_runs_once_its_worker_confirms() {
    let stage = Stage::new(json!("replace"), json!({}));
    let old = stage.pass(60).pop().unwrap();
    assert!(stage.pass(60).is_empty(), "the old one is not gone yet");
    let held = [(old.shard.key, old.shard.token)];
    let BeatAnswer::Alive { stop, .. } = stage.node.beat(stage.session, &held, 9) else {
        panic!("the session lives")
    };
    assert_eq!(stop.len(), 1, "its worker is told to stop");
    stage.end(&old, Ending::Cancelled);
    let new = stage.pass(1).pop().unwrap();
    assert_eq!(new.run.occasion.planned_at(), Some(minute(2)));
    assert_eq!(stage.cause_of_release(new.run.id), "confirmed");
    let (_, state, reason) = &stage.runs()[0];
    assert_eq!(*state, RunState::Cancelled);
    assert_eq!(*reason, format!("replaced by {}", new.run.occasion.key()));
}

/// Its worker is silent: the next one starts at session expiry + grace + 5 s, and the event says it.
#[test]
fn a_replaced_run_of_a_silent_worker_is_over_when_nothing_of_it_can_live() {
    let stage = Stage::new(json!("replace"), json!({}));
    let old = stage.pass(60).pop().unwrap();
    stage.pass(59);
    // Its worker falls silent one second before the next instant.
    let expires = stage.cluster.now() + SignedDuration::from_secs(15);
    let other = stage.node.worker(&stage.cluster, "w2", 10);
    let mut started = None;
    for _ in 0..60 {
        stage.cluster.pass(1);
        stage.node.coordinate(&stage.cluster);
        stage.node.beat(other, &[], 0);
        stage.node.trigger(&stage.cluster);
        stage.node.reap(&stage.cluster);
        stage.node.dispatch(&stage.cluster);
        if let Some(work) = stage.node.grants(other).pop() {
            started = Some((stage.cluster.now(), work.run.id));
            break;
        }
    }
    let (at, run) = started.unwrap();
    assert_eq!(stage.cluster.get(old.run.id).state, RunState::Cancelled);
    assert_eq!(at, expires + SignedDuration::from_secs(15));
    assert_eq!(stage.cause_of_release(run), "expired");
}

fn ask(stage: &Stage, key: &str, overlap: Option<Overlap>) -> Result<RunId, Error> {
    let control = Control::new(stage.node.engine.context.clone());
    let wanted = StartRun {
        job: JobName::new("default", "j").unwrap(),
        which: Which::Manual(key.to_owned()),
        parameters: Map::new(),
        period: None,
        overlap,
        digest: String::new(),
        not_before: None,
    };
    block_on(control.start_run("user test", wanted)).map(|started| started.run)
}

/// QUEUE-014: over the limit a caller waits or is refused, as it asked; nothing fails.
#[test]
fn over_the_limit_a_manual_run_waits_or_is_refused() {
    let stage = Stage::new(
        json!("forbid"),
        json!({ "maxActiveRuns": 5, "schedules": [] }),
    );
    let queue = Some(Overlap::Queue { limit: 10 });
    let waiting: Vec<RunId> = (0..8)
        .map(|n| ask(&stage, &format!("wait-{n}"), queue).unwrap())
        .collect();
    let waits = |run: &RunId| stage.cluster.get(*run).waits.is_some();
    assert_eq!(waiting.iter().filter(|run| waits(run)).count(), 3);
    let control = Control::new(stage.node.engine.context.clone());
    let (_, why) = block_on(control.explain(waiting[7])).unwrap();
    assert_eq!(why[0].word, "queued");
    let behind = format!("behind run {}", waiting[0]);
    assert!(why[0].text.contains(&behind), "{why:?}");
    for n in 0..3 {
        let refused = ask(&stage, &format!("refuse-{n}"), Some(Overlap::Forbid));
        let Err(Error::Refused(text)) = refused else {
            panic!("{refused:?}")
        };
        assert!(text.starts_with("SC5016"), "{text}");
    }
    // The same key again is the same run, however many are active.
    assert_eq!(
        ask(&stage, "wait-0", Some(Overlap::Forbid)).unwrap(),
        waiting[0]
    );
    let mut done = 0;
    while done < 8 {
        let works = stage.pass(1);
        assert!(works.len() <= 5 && !works.is_empty());
        done += works.len();
        works
            .iter()
            .for_each(|work| stage.end(work, Ending::Succeeded));
    }
    let states = waiting.iter().map(|run| stage.cluster.get(*run).state);
    assert!(states.into_iter().all(|state| state == RunState::Succeeded));
}

/// A manual run starts beside a planned one, and blocks the planned ones after it.
#[test]
fn a_manual_run_is_never_in_the_way_of_itself() {
    let stage = Stage::new(json!("forbid"), json!({}));
    stage.pass(60);
    let manual = ask(&stage, "now", None).unwrap();
    assert_eq!(stage.cluster.get(manual).waits, None);
    let works = stage.pass(1);
    assert_eq!(works.len(), 1);
    stage.pass(59);
    assert_eq!(stage.decisions().len(), 1, "minute 2 is blocked");
}

#[test]
fn a_run_that_finds_no_worker_in_time_is_not_started_late() {
    let more = json!({ "catchUp": { "startingDeadline": "10s" } });
    let stage = Stage::new(json!("allow"), more);
    for seconds in [60, 10] {
        stage.cluster.pass(seconds);
        stage.node.coordinate(&stage.cluster);
        stage.node.trigger(&stage.cluster);
    }
    assert_eq!(
        stage.runs()[0].1,
        RunState::Scheduled,
        "at the very deadline it may start"
    );
    stage.cluster.pass(1);
    stage.node.coordinate(&stage.cluster);
    let session = stage.node.worker(&stage.cluster, "w2", 10);
    assert_eq!(stage.node.dispatch(&stage.cluster), 0);
    stage.node.trigger(&stage.cluster);
    let late = (
        minute(1),
        RunState::Cancelled,
        "starting_deadline".to_owned(),
    );
    assert_eq!(stage.runs(), [late]);
    assert!(stage.node.grants(session).is_empty());
}

#[test]
fn the_active_deadline_fails_a_run_that_takes_too_long() {
    let more = json!({ "timeouts": { "activeDeadline": "20s" } });
    let stage = Stage::new(json!("allow"), more);
    let run = stage.pass(60).pop().unwrap();
    stage.pass(20);
    assert_eq!(
        stage.cluster.get(run.run.id).stop,
        None,
        "at the very deadline it may end"
    );
    stage.pass(1);
    assert!(stage.cluster.get(run.run.id).stop.is_some());
    stage.end(&run, Ending::Cancelled);
    let (_, state, reason) = stage.runs()[0].clone();
    assert_eq!((state, reason.as_str()), (RunState::Failed, "deadline"));
}
