//! Backfills: a past range run again, in a lane of its own (MISS-017, SCALE-007).

use std::collections::{BTreeMap, BTreeSet};

use futures::executor::block_on;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sichen_check::audit::Records;
use sichen_check::{Invariant, Options, check_dump};
use sichen_core::backfill::check::{CheckState, Verify};
use sichen_core::backfill::{Action, Backfill, Mode, Order, State, Turn, Wanted};
use sichen_core::ids::{BackfillId, Occasion, RunId};
use sichen_core::lifecycle::RunState;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::{Progress, Run};
use sichen_core::name::{JobName, Name};
use sichen_core::port::{Page, RunFilter};
use sichen_engine::control::{Control, Turn as JobTurn};

use crate::fixture::{Cluster, Node, document, report, start};

struct Stage {
    cluster: Cluster,
    node: Node,
    control: Control,
    name: JobName,
}

fn hours(n: i64) -> Timestamp {
    start() + SignedDuration::from_hours(n)
}

fn wanted(from: Timestamp, to: Timestamp) -> Wanted {
    Wanted {
        from,
        to,
        mode: Mode::OnlyMissing,
        order: Order::Oldest,
        parallelism: 1,
        rate: None,
        verify: None,
        reason: String::new(),
    }
}

impl Stage {
    fn new(spec: serde_json::Value) -> Self {
        let cluster = Cluster::new();
        let node = cluster.node("n1");
        node.coordinate(&cluster);
        let mut whole = json!({ "run": { "handler": "h" } });
        let fields = spec.as_object().unwrap().clone();
        whole.as_object_mut().unwrap().extend(fields);
        cluster.apply("j", whole);
        let control = Control::new(node.engine.context.clone());
        let name = JobName::new("default", "j").unwrap();
        Self {
            cluster,
            node,
            control,
            name,
        }
    }

    fn tick(&self, seconds: i64) -> usize {
        self.cluster.pass(seconds);
        self.node.coordinate(&self.cluster);
        self.node.trigger(&self.cluster).runs
    }

    fn ask(&self, key: &str, wanted: Wanted) -> BackfillId {
        let asked = self
            .control
            .start_backfill("user", &self.name, key.to_owned(), wanted);
        let (backfill, created) = block_on(asked).unwrap();
        assert!(created, "{key} is new");
        backfill.id
    }

    fn get(&self, id: BackfillId) -> Backfill {
        block_on(self.control.backfill(id)).unwrap()
    }

    fn go_on(&self) -> u32 {
        let now = self.cluster.now();
        let pass = self.node.engine.backfiller.run_once(now);
        block_on(pass).unwrap().started
    }

    fn runs(&self) -> Vec<Run> {
        let page = Page {
            after: None,
            limit: 1_000,
        };
        let runs = block_on(self.cluster.store.list_runs(RunFilter::default(), page));
        runs.unwrap()
    }

    /// The first run of each instant; two would be one too many.
    fn by_instant(&self) -> BTreeMap<Timestamp, Run> {
        let mut found = BTreeMap::new();
        for run in self.runs() {
            if let Occasion::Planned { at, rerun: 0 } = run.occasion {
                assert!(found.insert(at, run).is_none(), "{at} has two runs");
            }
        }
        found
    }

    fn run(&self, at: Timestamp) -> Run {
        self.by_instant().remove(&at).unwrap()
    }

    fn open_of(&self, id: BackfillId) -> Vec<RunId> {
        let runs = self.runs().into_iter();
        let open = runs.filter(|run| run.backfill == Some(id) && !run.state.is_closed());
        open.map(|run| run.id).collect()
    }

    /// A worker does all that it is given, once.
    fn work(&self, slots: u32, ending: impl Fn(&Run) -> Ending) -> Vec<RunId> {
        let session = self.node.worker(&self.cluster, "w", slots);
        self.node.dispatch(&self.cluster);
        let mut done = Vec::new();
        for work in self.node.grants(session) {
            let run = self.cluster.get(work.shard.key.run);
            let said = report(work.shard.key, work.shard.token, ending(&run));
            self.node.report(&self.cluster, said);
            done.push(run.id);
        }
        done
    }

    /// The backfill goes on and its runs succeed until it is over; how many ran.
    fn to_its_end(&self, id: BackfillId) -> usize {
        let mut done = 0;
        for _ in 0..10_000 {
            self.go_on();
            if self.get(id).state == State::Finished {
                return done;
            }
            self.node.coordinate(&self.cluster);
            done += self.work(1_000, |_| Ending::Succeeded).len();
        }
        panic!("it does not end: {:?}", self.get(id));
    }

    fn verdict(&self) {
        let dump = block_on(self.cluster.store.dump()).unwrap();
        let records = Records::of(&dump);
        for (uid, ..) in records.jobs() {
            let audited = records.audit(uid, None, None, None).unwrap();
            assert_eq!(audited.report.findings, [], "no difference");
            assert_eq!(audited.report.unjudged, [], "all is judged");
        }
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

/// An hourly job of which the hours 1 to 5 ran, 3 of them failed, and 6 to 9 were missed.
fn after_an_outage() -> Stage {
    let stage = Stage::new(json!({
        "schedules": [{ "cron": "0 * * * *" }], "catchUp": { "policy": "none" },
        "retry": { "maxAttempts": 1 },
    }));
    for n in 1..=5 {
        assert_eq!(stage.tick(3_600), 1);
        let ending = if n == 3 {
            Ending::FailedForGood
        } else {
            Ending::Succeeded
        };
        assert_eq!(stage.work(1, |_| ending).len(), 1);
    }
    assert_eq!(stage.tick(4 * 3_600 + 1_800), 0);
    stage
}

/// MISS-017: only what has no run gets one, two at a time, while the live run starts on time; the
/// same again does nothing.
#[test]
fn a_backfill_creates_exactly_what_is_missing_beside_the_live_runs() {
    let stage = after_an_outage();
    let range = Wanted {
        parallelism: 2,
        ..wanted(hours(1), hours(9) + SignedDuration::from_secs(1))
    };
    let preview = stage
        .control
        .preview_backfill(&stage.name, &range, None, 100);
    let preview = block_on(preview).unwrap();
    assert_eq!(
        (preview.instants, preview.waiting, preview.next),
        (9, 0, None)
    );
    let creates = preview
        .items
        .iter()
        .filter(|(_, action)| *action == Action::Create);
    let creates: Vec<_> = creates.map(|(facts, _)| facts.at).collect();
    assert_eq!(
        creates,
        Vec::from_iter((6..=9).map(hours)),
        "the dry run says it exactly"
    );

    let id = stage.ask("first", range.clone());
    assert_eq!(stage.go_on(), 2);
    assert_eq!(stage.open_of(id).len(), 2);
    assert_eq!(stage.go_on(), 0, "two are open");
    // The live run of 10:00 is not blocked, although the job forbids overlap.
    assert_eq!(stage.tick(1_800), 1);
    assert_eq!(stage.run(hours(10)).backfill, None);
    let mut ran = stage.work(9, |_| Ending::Succeeded).len();
    while stage.get(id).state != State::Finished {
        stage.go_on();
        assert!(stage.open_of(id).len() <= 2);
        ran += stage.work(9, |_| Ending::Succeeded).len();
    }
    assert_eq!(ran, 5);
    let counts = stage.get(id).counts;
    assert_eq!((counts.created, counts.filled, counts.left), (4, 4, 5));
    assert_eq!(stage.by_instant().len(), 10);

    let again = stage.ask("second", range.clone());
    assert_eq!(
        stage.to_its_end(again),
        0,
        "the second submission creates nothing new"
    );
    assert_eq!(stage.get(again).counts.left, 9);
    // The same request again is the same backfill.
    let same = stage
        .control
        .start_backfill("user", &stage.name, "first".to_owned(), range);
    let (same, created) = block_on(same).unwrap();
    assert_eq!((same.id, created), (id, false));
    stage.verdict();
}

#[test]
fn only_failed_retries_the_very_run_and_no_other() {
    let stage = after_an_outage();
    let failed = stage.run(hours(3));
    assert_eq!(failed.state, RunState::Failed);
    let range = Wanted {
        mode: Mode::OnlyFailed,
        ..wanted(hours(0), hours(20))
    };
    let id = stage.ask("k", range);
    assert_eq!(stage.go_on(), 1);
    let row = stage.cluster.get(failed.id);
    assert_eq!(
        (row.state, row.round, row.backfill),
        (RunState::Running, 2, Some(id))
    );
    assert_eq!(stage.work(9, |_| Ending::Succeeded), [failed.id]);
    stage.go_on();
    assert_eq!(
        stage.get(id).state,
        State::Running,
        "hours 10 to 19 have not come"
    );
    assert_eq!(stage.by_instant().len(), 5);
    assert_eq!(stage.get(id).counts.reopened, 1);
    stage.verdict();
}

#[test]
fn all_runs_again_what_has_run_and_newest_goes_first() {
    let stage = after_an_outage();
    let range = Wanted {
        mode: Mode::All,
        order: Order::Newest,
        parallelism: 3,
        ..wanted(hours(1), hours(9) + SignedDuration::from_secs(1))
    };
    let id = stage.ask("k", range);
    assert_eq!(stage.go_on(), 3);
    let open: BTreeSet<_> = stage.open_of(id).into_iter().collect();
    let newest: BTreeSet<_> = (7..=9).map(|n| stage.run(hours(n)).id).collect();
    assert_eq!(open, newest);
    assert_eq!(stage.to_its_end(id), 9);
    let counts = stage.get(id).counts;
    assert_eq!((counts.created, counts.reruns, counts.left), (4, 5, 0));
    let reruns = stage
        .runs()
        .into_iter()
        .filter(|run| matches!(run.occasion, Occasion::Planned { rerun: 1, .. }));
    let reruns: Vec<Run> = reruns.collect();
    assert_eq!(reruns.len(), 5);
    assert!(
        reruns
            .iter()
            .all(|run| run.period.is_some() && run.nominal.is_some())
    );
    stage.verdict();
}

/// The rest of a range waits until the mark has passed it, whichever end goes first.
#[test]
fn what_is_not_decided_yet_waits_for_the_mark() {
    for order in [Order::Oldest, Order::Newest] {
        let stage = after_an_outage();
        let range = Wanted {
            order,
            mode: Mode::All,
            parallelism: 100,
            ..wanted(hours(8), hours(12))
        };
        let id = stage.ask("k", range);
        assert_eq!(stage.go_on(), 2, "8 and 9");
        assert_eq!(stage.work(100, |_| Ending::Succeeded).len(), 2);
        assert_eq!(stage.go_on(), 0);
        assert_eq!(
            block_on(stage.control.remaining(&stage.get(id))).unwrap(),
            2
        );
        for n in 10..=11 {
            assert_eq!(stage.tick(if n == 10 { 1_800 } else { 3_600 }), 1);
            stage.work(100, |_| Ending::Succeeded);
            assert_eq!(stage.go_on(), 1, "{n} has run, and runs again");
            stage.work(100, |_| Ending::Succeeded);
        }
        stage.go_on();
        assert_eq!(stage.get(id).state, State::Running, "12:00 is not decided");
        assert_eq!(stage.tick(3_600), 1);
        stage.go_on();
        assert_eq!(stage.get(id).state, State::Finished);
        assert_eq!(stage.get(id).runs.succeeded, 4);
        stage.verdict();
    }
}

/// A server dies between any two steps: the next one goes on from the row, and each instant has one
/// run.
#[test]
fn a_crash_between_steps_neither_doubles_nor_loses_an_instant() {
    let stage = Stage::new(json!({
        "schedules": [{ "every": "1m" }], "catchUp": { "policy": "none" },
    }));
    stage.tick(3 * 3_600);
    let range = Wanted {
        parallelism: 7,
        ..wanted(start(), hours(3) - SignedDuration::from_secs(30))
    };
    let id = stage.ask("k", range);
    let mut node = stage.cluster.node("n2");
    for n in 0..400 {
        // The node before is gone with all that it knew; its lease runs out.
        node = stage.cluster.node(&format!("n{}", n + 3));
        stage.cluster.pass(20);
        node.coordinate(&stage.cluster);
        let now = stage.cluster.now();
        // Two nodes at once, of which one still believes that the duty is its own.
        let _ = block_on(stage.node.engine.backfiller.run_once(now));
        block_on(node.engine.backfiller.run_once(now)).unwrap();
        if stage.get(id).state == State::Finished {
            break;
        }
        assert!(stage.open_of(id).len() <= 7);
        let session = node.worker(&stage.cluster, &format!("w{n}"), 7);
        node.dispatch(&stage.cluster);
        for work in node.grants(session) {
            let said = report(work.shard.key, work.shard.token, Ending::Succeeded);
            node.report(&stage.cluster, said);
        }
    }
    drop(node);
    let row = stage.get(id);
    assert_eq!(row.state, State::Finished);
    assert_eq!(row.counts.passed(), 180, "{row:?}");
    let planned = stage.by_instant();
    for n in 0..180 {
        let at = start() + SignedDuration::from_mins(n);
        assert_eq!(planned[&at].state, RunState::Succeeded, "{at}");
    }
    stage.verdict();
}

#[test]
fn two_backfills_over_one_range_make_one_run_of_each_instant() {
    let stage = after_an_outage();
    let both = ["a", "b"].map(|key| {
        let range = Wanted {
            parallelism: 2,
            order: if key == "a" {
                Order::Oldest
            } else {
                Order::Newest
            },
            ..wanted(hours(1), hours(9) + SignedDuration::from_secs(1))
        };
        stage.ask(key, range)
    });
    assert_eq!(stage.go_on(), 4);
    for id in both {
        stage.to_its_end(id);
    }
    let created = both.map(|id| stage.get(id).counts.created);
    assert_eq!(created.iter().sum::<u64>(), 4);
    assert_eq!(stage.by_instant().len(), 9);
    stage.verdict();
}

#[test]
fn a_paused_backfill_starts_nothing_and_a_cancelled_one_never_again() {
    let stage = after_an_outage();
    let id = stage.ask("k", wanted(hours(1), hours(9)));
    let turn = |turn| block_on(stage.control.turn_backfill("user", id, turn));
    assert!(turn(Turn::Pause).unwrap());
    assert_eq!(stage.go_on(), 0);
    assert!(turn(Turn::Resume).unwrap());
    assert!(!turn(Turn::Resume).unwrap(), "it was running already");
    assert_eq!(stage.go_on(), 1);
    assert!(turn(Turn::Cancel).unwrap());
    assert_eq!(
        stage.work(9, |_| Ending::Succeeded).len(),
        1,
        "what had started goes on"
    );
    assert_eq!(stage.go_on(), 0);
    let refused = turn(Turn::Resume).unwrap_err().to_string();
    assert!(refused.starts_with("SC5041"), "{refused}");
    assert_eq!(stage.get(id).runs.succeeded, 1);
    stage.verdict();
}

#[test]
fn a_rate_bounds_the_starts_of_each_minute() {
    let stage = after_an_outage();
    let range = Wanted {
        rate: Some(2),
        parallelism: 100,
        ..wanted(hours(5), hours(9) + SignedDuration::from_secs(1))
    };
    stage.ask("k", range);
    let mut started = Vec::new();
    for s in 0..150 {
        for _ in 0..stage.go_on() {
            started.push(s);
        }
        stage.cluster.pass(1);
        stage.node.coordinate(&stage.cluster);
    }
    assert_eq!(started, [0, 30, 60, 90]);
}

/// The job's pause stops its schedules, not what was asked for; its deletion ends its backfills.
#[test]
fn a_backfill_outlives_a_pause_of_its_job_and_not_its_deletion() {
    let stage = after_an_outage();
    let id = stage.ask("k", wanted(hours(1), hours(9)));
    block_on(
        stage
            .control
            .set_paused("user", &stage.name, JobTurn::Pause),
    )
    .unwrap();
    assert_eq!(stage.go_on(), 1);
    block_on(stage.control.delete("user", &stage.name)).unwrap();
    assert_eq!(stage.go_on(), 0);
    let row = stage.get(id);
    assert_eq!(
        (row.state, row.cause.as_str()),
        (State::Cancelled, "its job was deleted")
    );
    assert_eq!(stage.work(9, |_| Ending::Succeeded).len(), 1);
    assert_eq!(stage.get(id).runs.succeeded, 1);
    stage.verdict();
}

/// Instants are those that the job had; what runs is its newest revision.
#[test]
fn an_edit_changes_what_runs_and_not_which_instants_there_were() {
    let stage = after_an_outage();
    let edited = document(
        "j",
        json!({
            "run": { "handler": "h" }, "schedules": [{ "cron": "30 */3 * * *" }],
            "catchUp": { "policy": "none" }, "parameters": { "fixed": true },
        }),
    );
    let id = stage.ask(
        "k",
        Wanted {
            parallelism: 100,
            ..wanted(hours(0) - SignedDuration::from_hours(4), hours(14))
        },
    );
    block_on(stage.control.apply("user", &edited)).unwrap();
    stage.go_on();
    let mut planned = stage.by_instant();
    planned.retain(|_, run| run.backfill == Some(id));
    // Before the job was there, the schedule in force now is the only one.
    let first = hours(-3) + SignedDuration::from_mins(30);
    let expected: Vec<_> = [first].into_iter().chain((6..=9).map(hours)).collect();
    assert_eq!(planned.keys().copied().collect::<Vec<_>>(), expected);
    assert!(
        planned
            .values()
            .all(|run| run.revision.0 == 2 && run.terms.parameters.contains("fixed"))
    );
    // 12:30 is behind the edit, and of the new revision.
    assert_eq!(stage.tick(3 * 3_600), 1);
    stage.verdict();
}

#[test]
fn a_cancelled_run_of_a_backfill_is_counted_and_does_not_stop_it() {
    let stage = after_an_outage();
    let id = stage.ask("k", wanted(hours(1), hours(9)));
    assert_eq!(stage.go_on(), 1);
    let run = stage.open_of(id)[0];
    block_on(stage.control.cancel("user", run)).unwrap();
    assert_eq!(stage.to_its_end(id), 2);
    let runs = stage.get(id).runs;
    assert_eq!((runs.cancelled, runs.succeeded), (1, 2));
    stage.verdict();
}

/// A backfill never has more runs waiting than its parallelism, so a live run waits for no more
/// than these; and they wait for no live run that comes after them.
#[test]
fn a_live_run_amid_a_big_backfill_is_next_and_the_backfill_goes_on() {
    let stage = Stage::new(json!({
        "schedules": [{ "every": "1s" }], "catchUp": { "policy": "none" },
    }));
    stage.tick(10_000);
    let live = stage
        .cluster
        .apply("live", json!({ "run": { "handler": "h" } }));
    let range = Wanted {
        parallelism: 4,
        ..wanted(start(), start() + SignedDuration::from_secs(9_900))
    };
    let id = stage.ask("k", range);
    assert_eq!(
        block_on(stage.control.remaining(&stage.get(id))).unwrap(),
        9_900
    );
    let session = stage.node.worker(&stage.cluster, "w", 4);
    let mut turns = Vec::new();
    let mut started = BTreeMap::new();
    for round in 0..200 {
        stage.go_on();
        if round % 10 == 0 {
            let run = stage.cluster.run(live, &format!("live {round}"));
            started.insert(run, round);
        }
        stage.node.dispatch(&stage.cluster);
        let granted = stage.node.grants(session);
        assert!(!granted.is_empty(), "round {round}");
        for work in granted {
            let run = work.shard.key.run;
            if let Some(asked) = started.remove(&run) {
                turns.push(round - asked);
            }
            let said = report(work.shard.key, work.shard.token, Ending::Succeeded);
            stage.node.report(&stage.cluster, said);
        }
    }
    assert!(turns.iter().all(|waited| *waited <= 1), "{turns:?}");
    assert_eq!(turns.len(), 20);
    assert!(
        stage.get(id).runs.succeeded > 500,
        "{:?}",
        stage.get(id).runs
    );
}

/// SCALE-007: a year of minutes is counted at once and shown page by page; no list of it is made.
#[test]
fn a_year_of_minutes_is_counted_at_once_and_paged() {
    let stage = Stage::new(json!({
        "schedules": [{ "cron": "* * * * *" }], "catchUp": { "policy": "none" },
    }));
    let year: Wanted = wanted(
        "2025-01-01T00:00:00Z".parse().unwrap(),
        "2026-01-01T00:00:00Z".parse().unwrap(),
    );
    let id = stage.ask(
        "k",
        Wanted {
            parallelism: 10,
            ..year.clone()
        },
    );
    assert_eq!(
        block_on(stage.control.remaining(&stage.get(id))).unwrap(),
        525_600
    );
    assert_eq!(
        stage.go_on(),
        10,
        "as many as may run at once are written, and no more"
    );
    assert_eq!(stage.runs().len(), 10);
    let (mut seen, mut after, mut last) = (0, None, None);
    loop {
        let page = stage
            .control
            .preview_backfill(&stage.name, &year, after, 500);
        let page = block_on(page).unwrap();
        assert_eq!((page.instants, page.waiting), (525_600, 0));
        assert!(page.items.len() <= 500);
        for (facts, _) in &page.items {
            assert!(last.is_none_or(|last| last < facts.at));
            last = Some(facts.at);
        }
        seen += page.items.len();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, 525_600);
    block_on(stage.control.turn_backfill("user", id, Turn::Cancel)).unwrap();
}

/// The runs of a backfill are checked by a job's runs, no faster than the rate, also where the server
/// dies between a start and the note of it; the backfill is over when the last one has counted.
#[test]
fn the_runs_of_a_backfill_are_checked_at_their_rate() {
    let stage = Stage::new(json!({
        "schedules": [{ "cron": "0 * * * *" }], "catchUp": { "policy": "none" },
    }));
    stage
        .cluster
        .apply("count", json!({ "run": { "handler": "h" } }));
    let verify = Verify {
        job: Name::new("count").unwrap(),
        rate: 6,
    };
    let range = Wanted {
        parallelism: 5,
        verify: Some(verify),
        ..wanted(hours(-5), hours(0))
    };
    let id = stage.ask("k", range);
    let counting = |ended: &Run| match ended.job_name.name.as_str() {
        "count" => Ending::Succeeded,
        _ if ended.occasion.planned_at() == Some(hours(-3)) => Ending::FailedForGood,
        _ => Ending::Succeeded,
    };
    assert_eq!(stage.go_on(), 5);
    assert_eq!(stage.work(5, counting).len(), 5);
    assert_eq!(stage.get(id).checks.due, 4, "the failed one is not checked");
    // One each ten seconds.
    for n in 1..=4 {
        stage.go_on();
        stage.go_on();
        let checks = stage.get(id).checks;
        assert_eq!((checks.due, checks.open), (4 - n, n as u32));
        stage.tick(10);
    }
    let store = &*stage.cluster.store;
    let page = Page {
        after: None,
        limit: 10,
    };
    let open = block_on(store.list_checks(id, Some(CheckState::Open), page)).unwrap();
    let key = |n: usize| Occasion::Manual {
        key: format!("check/{id}/{}/1", open[n].run),
    };
    let (by, _) = block_on(store.get_run(open[0].by.unwrap()))
        .unwrap()
        .unwrap();
    let of = block_on(store.get_run(open[0].run)).unwrap().unwrap().0;
    assert_eq!((by.period, &by.occasion), (of.period, &key(0)));
    let told: serde_json::Value = serde_json::from_str(&by.terms.parameters).unwrap();
    assert_eq!(told["run"], open[0].run.0);
    assert_eq!(
        told["planned_at"],
        of.occasion.planned_at().unwrap().to_string()
    );
    // They report 3 of 3, 2 of 3, 3 of an unknown number; the last fails.
    let session = stage.node.worker(&stage.cluster, "c", 10);
    stage.node.dispatch(&stage.cluster);
    for (n, work) in stage.node.grants(session).into_iter().enumerate() {
        let ending = match n {
            3 => Ending::FailedForGood,
            _ => Ending::Succeeded,
        };
        let mut said = report(work.shard.key, work.shard.token, ending);
        said.progress = Some(Progress {
            done: [3, 2, 3, 3][n],
            expected: [Some(3), Some(3), None, Some(3)][n],
            rate_milli: 0,
            waiting_on: String::new(),
        });
        stage.node.report(&stage.cluster, said);
    }
    for _ in 0..3 {
        stage.go_on();
    }
    let backfill = stage.get(id);
    let checks = backfill.checks;
    assert_eq!((checks.agree, checks.differ, checks.uncounted), (1, 1, 2));
    assert_eq!((backfill.state, checks.pending()), (State::Finished, 0));
    stage.verdict();
}

/// What stands in the way of checks is said of each, and the backfill ends all the same.
#[test]
fn a_check_that_cannot_be_made_says_why() {
    let stage = Stage::new(json!({
        "schedules": [{ "cron": "0 * * * *" }], "catchUp": { "policy": "none" },
    }));
    let range = || Wanted {
        verify: Some(Verify {
            job: Name::new("count").unwrap(),
            rate: 6_000,
        }),
        ..wanted(hours(-2), hours(0))
    };
    let refused = stage
        .control
        .start_backfill("user", &stage.name, "k".to_owned(), range());
    let refused = block_on(refused).unwrap_err().to_string();
    assert!(
        refused.contains("SC5044") && refused.contains("verify.job"),
        "{refused}"
    );
    let count = json!({ "run": { "handler": "h" }, "overlap": "forbid", "maxActiveRuns": 1 });
    stage.cluster.apply("count", count);
    let id = stage.ask("k", range());
    stage.go_on();
    stage.work(1, |_| Ending::Succeeded);
    stage.go_on();
    let name = JobName::new("default", "count").unwrap();
    block_on(stage.control.delete("user", &name)).unwrap();
    stage.to_its_end(id);
    let page = Page {
        after: None,
        limit: 10,
    };
    let checks = block_on(stage.control.checks(id, None, page)).unwrap();
    let why: Vec<_> = checks.iter().map(|check| check.why.as_str()).collect();
    assert_eq!(why[0], "its check reported no counts");
    assert!(why[1].starts_with("SC5001: there is no job"), "{why:?}");
}

/// More than one pass takes: those behind have their turn too, though none of the first is done.
#[test]
fn none_of_many_running_backfills_is_left_out() {
    let s = Stage::new(json!({}));
    let names: Vec<JobName> = (0..502)
        .map(|n| {
            let name = format!("many-{n}");
            let spec = json!({ "run": { "handler": "h" }, "schedules": [{ "cron": "0 * * * *" }] });
            s.cluster.apply(&name, spec);
            JobName::new("default", &name).unwrap()
        })
        .collect();
    let mut asked = Vec::new();
    for name in &names {
        let range = wanted(hours(-5), hours(-2));
        let made = s
            .control
            .start_backfill("user", name, "k".to_owned(), range);
        asked.push(block_on(made).unwrap().0.id);
    }
    let pass = || block_on(s.node.engine.backfiller.run_once(s.cluster.now())).unwrap();
    let first = pass();
    assert_eq!((first.started, first.running), (500, 500));
    assert_eq!(first.next, Some(s.cluster.now()), "the rest is next");
    let second = pass();
    assert_eq!((second.started, second.running), (2, 502));
    assert_eq!(s.get(asked[501]).runs.open, 1);
    assert_eq!(pass().running, 500, "a new round");
}
