//! Backfills: what one step does in one transaction, and what keeps it from being done twice.

use jiff::Timestamp;
use sichen_core::backfill::{
    Advance, AdvanceVerdict, Backfill, Facts, LastRun, MAX_OPEN_BACKFILLS, Mode, NewBackfill,
    NewVerdict, Order, Outcomes, Place, Record, Start, State, Turn, TurnVerdict, Wanted,
};
use sichen_core::ids::{BackfillId, JobUid, Occasion, Revision, RunId, ShardKey};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, WaitsFor};
use sichen_core::model::{Decision, DutyKey, PARTITIONS, Waits, partition_of};
use sichen_core::port::{
    AdvanceVerdict as Advanced, ApplyJob, ApplyVerdict, Fence, NewRun, Page, RunFilter,
};

use crate::bench::{Bench, at, wait};

pub fn wanted(parallelism: u32) -> Wanted {
    Wanted {
        from: at(0),
        to: at(1_000),
        mode: Mode::OnlyMissing,
        order: Order::Oldest,
        parallelism,
        rate: None,
        verify: None,
        reason: "the disk was full".to_owned(),
    }
}

fn ask(b: &Bench, job: JobUid, key: &str, parallelism: u32) -> NewVerdict {
    let new = NewBackfill {
        job,
        key: key.to_owned(),
        wanted: wanted(parallelism),
    };
    wait(b.store.create_backfill(b.op(), new))
}

pub fn start(b: &Bench, job: JobUid, parallelism: u32) -> BackfillId {
    match ask(b, job, &format!("key {parallelism}"), parallelism) {
        NewVerdict::Created(id) => id,
        other => panic!("{other:?}"),
    }
}

fn get(b: &Bench, id: BackfillId) -> Backfill {
    wait(b.store.get_backfill(id)).expect("it is there")
}

/// A step that fits, one second farther.
pub fn step(b: &Bench, id: BackfillId, starts: Vec<Start>) -> Advance {
    let backfill = get(b, id);
    Advance {
        id,
        ver: backfill.ver,
        revision: b.get_job(backfill.job).revision,
        place: Place::at(backfill.place.settled + jiff::SignedDuration::from_secs(1)),
        next_at: None,
        left: 0,
        starts,
        finish: false,
    }
}

fn advance(b: &Bench, fence: &Fence, step: Advance) -> AdvanceVerdict {
    wait(b.store.advance_backfill(b.op(), fence.clone(), step))
}

fn write(b: &Bench, job: JobUid, s: i64, rerun: u32) -> Start {
    let occasion = Occasion::Planned { at: at(s), rerun };
    Start::Write(Box::new(NewRun {
        occasion,
        ..b.planned_run(job, at(s))
    }))
}

/// One run of the job in the lane of a backfill.
pub fn one_run_of(b: &Bench, job: JobUid) {
    let (id, fence) = (start(b, job, 1), b.trigger(job));
    let step = step(b, id, vec![write(b, job, 5, 0)]);
    assert_eq!(advance(b, &fence, step), AdvanceVerdict::Advanced(1));
}

fn find(b: &Bench, job: JobUid, s: i64, rerun: u32) -> RunId {
    let occasion = Occasion::Planned { at: at(s), rerun };
    wait(b.store.find_run(job, occasion)).expect("it has a run")
}

fn facts(b: &Bench, job: JobUid, s: i64) -> Facts {
    wait(b.store.list_instants(job, vec![at(s)])).remove(0)
}

fn lane(b: &Bench, id: BackfillId) -> Vec<RunId> {
    let filter = RunFilter {
        backfill: Some(id),
        ..RunFilter::default()
    };
    let page = Page {
        after: None,
        limit: 100,
    };
    let runs = wait(b.store.list_runs(filter, page));
    runs.into_iter().map(|run| run.id).collect()
}

/// Runs a run's shard to its end.
fn work(b: &Bench, pool: &Fence, run: RunId, ending: Ending) -> Option<RunState> {
    b.attempt(pool, ShardKey::new(run, 0), b.session(5), ending)
}

/// A step of the job's mark to `to` that skips `[from, to]`.
fn skip(b: &Bench, job: JobUid, fence: &Fence, decision: Decision, to: Timestamp) {
    let mut item = b.step(job, to);
    item.decisions = vec![decision];
    let verdicts = wait(
        b.store
            .advance_schedules(b.op(), vec![fence.clone()], vec![item]),
    );
    assert_eq!(verdicts, [Advanced::Advanced(Vec::new())]);
}

pub fn one_key_is_one_backfill(b: &Bench) {
    let job = b.job("j");
    let first = ask(b, job, "k", 2);
    let NewVerdict::Created(id) = first else {
        panic!("{first:?}")
    };
    assert_eq!(ask(b, job, "k", 2), NewVerdict::Exists(id));
    assert_eq!(ask(b, job, "k", 3), NewVerdict::OtherRequest(id));
    assert!(matches!(
        ask(b, b.job("other"), "k", 2),
        NewVerdict::Created(_)
    ));
    let row = get(b, id);
    assert_eq!(row.wanted, wanted(2));
    assert_eq!(
        (row.state, row.ver, row.actor.as_str()),
        (State::Running, 1, "test")
    );
    assert_eq!(row.place, Place::at(at(0)));
    let gone = b.job("gone");
    assert!(wait(b.store.delete_job(b.op(), gone, None, 1)));
    assert_eq!(ask(b, gone, "k", 2), NewVerdict::NoJob);
}

pub fn a_step_writes_its_runs_in_its_own_lane(b: &Bench) {
    let job = b.job("j");
    let (id, fence) = (start(b, job, 2), b.trigger(job));
    let starts = vec![write(b, job, 5, 0), write(b, job, 6, 0)];
    let mut wish = step(b, id, starts);
    wish.left = 3;
    assert_eq!(advance(b, &fence, wish), AdvanceVerdict::Advanced(2));
    let row = get(b, id);
    assert_eq!(
        (row.counts.created, row.counts.left, row.runs.open),
        (2, 3, 2)
    );
    assert_eq!(row.place, Place::at(at(1)));
    assert_eq!(
        b.get_job(job).active_runs,
        0,
        "they do not count among the live ones"
    );
    let live = b.create(b.new_run(job, "live", vec![Descriptor::Whole]));
    assert_eq!(b.get_job(job).active_runs, 1);
    let open = RunFilter {
        job: Some(job),
        open: true,
        ..RunFilter::default()
    };
    let page = Page {
        after: None,
        limit: 10,
    };
    let open = wait(b.store.list_runs(open, page));
    assert_eq!(open.iter().map(|run| run.id).collect::<Vec<_>>(), [live]);
    let (older, newer) = (find(b, job, 5, 0), find(b, job, 6, 0));
    assert_eq!(lane(b, id), [newer, older]);
    assert_eq!(b.run(older).backfill, Some(id));
    // No room is left.
    let more = step(b, id, vec![write(b, job, 7, 0)]);
    assert_eq!(advance(b, &fence, more), AdvanceVerdict::Conflict);
}

pub fn a_run_fills_the_record_of_its_instant(b: &Bench) {
    let job = b.job("j");
    b.pass(100);
    let (id, fence) = (start(b, job, 5), b.trigger(job));
    let long = Decision {
        to: at(30),
        count: 3,
        ..Decision::single(at(10), "catch_up", String::new())
    };
    skip(b, job, &fence, long, at(35));
    skip(
        b,
        job,
        &fence,
        Decision::single(at(40), "overlap", "7".to_owned()),
        at(50),
    );
    assert_eq!(facts(b, job, 20).record, Some(Record::Skipped));
    assert_eq!(facts(b, job, 35).record, None);
    let starts = vec![
        write(b, job, 20, 0),
        write(b, job, 40, 0),
        write(b, job, 60, 0),
    ];
    assert_eq!(
        advance(b, &fence, step(b, id, starts)),
        AdvanceVerdict::Advanced(3)
    );
    assert_eq!(get(b, id).counts.filled, 2);
    let by = |s| Some(find(b, job, s, 0));
    let decisions = wait(b.store.list_decisions(job, at(0), 10));
    let filled: Vec<_> = decisions.iter().map(|d| (d.filled, d.filled_by)).collect();
    assert_eq!(filled, [(1, by(20)), (1, by(40))]);
    // Who asks for an instant by name fills its record too.
    let asked = b.create(b.planned_run(job, at(30)));
    let decisions = wait(b.store.list_decisions(job, at(0), 1));
    assert_eq!(
        (decisions[0].filled, decisions[0].filled_by),
        (2, Some(asked))
    );
}

pub fn a_step_that_saw_another_state_writes_nothing(b: &Bench) {
    let job = b.job("j");
    let (id, fence) = (start(b, job, 5), b.trigger(job));
    let fits = || step(b, id, vec![write(b, job, 5, 0)]);
    let conflict = |step| assert_eq!(advance(b, &fence, step), AdvanceVerdict::Conflict);
    let wrong = Advance { ver: 9, ..fits() };
    conflict(wrong);
    conflict(Advance {
        revision: Revision(9),
        ..fits()
    });
    let old = fits();
    assert_eq!(
        wait(
            b.store
                .turn_backfill(b.op(), None, id, Turn::Pause, "x".to_owned())
        ),
        TurnVerdict::Done
    );
    conflict(old);
    conflict(fits());
    assert_eq!(
        wait(
            b.store
                .turn_backfill(b.op(), None, id, Turn::Resume, "x".to_owned())
        ),
        TurnVerdict::Done
    );
    let other = partition_of(job);
    let other = b.fence(DutyKey::Trigger((other + 1) % PARTITIONS));
    assert_eq!(advance(b, &other, fits()), AdvanceVerdict::OldTerm);
    let taken = b.take_over(&fence);
    assert_eq!(advance(b, &fence, fits()), AdvanceVerdict::OldTerm);
    assert!(lane(b, id).is_empty());
    assert_eq!(advance(b, &taken, fits()), AdvanceVerdict::Advanced(1));
    assert!(wait(b.store.delete_job(
        b.op(),
        job,
        None,
        b.get_job(job).ver
    )));
    let gone = Advance {
        starts: Vec::new(),
        ..fits()
    };
    assert_eq!(advance(b, &taken, gone), AdvanceVerdict::Conflict);
}

pub fn an_instant_that_has_its_run_is_left(b: &Bench) {
    let job = b.job("j");
    let fence = b.trigger(job);
    let (one, two) = (start(b, job, 5), start(b, job, 6));
    let starts = || vec![write(b, job, 5, 0), write(b, job, 6, 0)];
    assert_eq!(
        advance(b, &fence, step(b, one, starts())),
        AdvanceVerdict::Advanced(2)
    );
    assert_eq!(
        advance(b, &fence, step(b, two, starts())),
        AdvanceVerdict::Advanced(0)
    );
    assert_eq!(
        (get(b, two).counts.left, get(b, two).counts.created),
        (2, 0)
    );
    assert_eq!(lane(b, two), []);
    // The same step again finds another version.
    let again = Advance {
        ver: 1,
        ..step(b, one, starts())
    };
    assert_eq!(advance(b, &fence, again), AdvanceVerdict::Conflict);
}

pub fn a_failed_run_is_retried_in_the_lane(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let (id, fence) = (start(b, job, 2), b.trigger(job));
    let run = b.create(b.planned_run(job, at(5)));
    assert_eq!(b.get_job(job).active_runs, 1);
    let reopen = |round| step(b, id, vec![Start::Reopen(run, round)]);
    assert_eq!(
        advance(b, &fence, reopen(1)),
        AdvanceVerdict::Advanced(0),
        "it is open"
    );
    work(b, &pool, run, Ending::FailedForGood);
    let last = LastRun {
        id: run,
        rerun: 0,
        state: RunState::Failed,
        round: 1,
    };
    assert_eq!(facts(b, job, 5).run, Some(last));
    assert_eq!(
        advance(b, &fence, reopen(2)),
        AdvanceVerdict::Advanced(0),
        "another round"
    );
    assert_eq!(advance(b, &fence, reopen(1)), AdvanceVerdict::Advanced(1));
    assert_eq!(b.get_job(job).active_runs, 0);
    let row = get(b, id);
    assert_eq!(
        (row.counts.reopened, row.counts.left, row.runs.open),
        (1, 2, 1)
    );
    assert_eq!((b.run(run).round, b.run(run).backfill), (2, Some(id)));
    // Its second failure is the backfill's; a retry of it by a person stays in the lane.
    work(b, &pool, run, Ending::FailedForGood);
    assert_eq!(
        get(b, id).runs,
        Outcomes {
            failed: 1,
            ..Outcomes::default()
        }
    );
    wait(b.store.reopen_run(b.op(), run, None, b.now()));
    assert_eq!(
        get(b, id).runs,
        Outcomes {
            open: 1,
            ..Outcomes::default()
        }
    );
    assert_eq!(b.get_job(job).active_runs, 0);
}

pub fn reruns_are_numbered_and_the_newest_is_seen(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let (id, fence) = (start(b, job, 20), b.trigger(job));
    for rerun in 0..12 {
        let starts = vec![write(b, job, 5, rerun)];
        assert_eq!(
            advance(b, &fence, step(b, id, starts)),
            AdvanceVerdict::Advanced(1)
        );
        work(b, &pool, find(b, job, 5, rerun), Ending::Succeeded);
    }
    let seen = facts(b, job, 5).run.expect("it has runs");
    assert_eq!((seen.rerun, seen.id), (11, find(b, job, 5, 11)));
    assert_eq!(
        (get(b, id).counts.created, get(b, id).counts.reruns),
        (1, 11)
    );
    assert_eq!(facts(b, job, 6).run, None);
}

pub fn a_removed_run_is_still_seen(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let (id, fence) = (start(b, job, 20), b.trigger(job));
    let janitor = b.fence(DutyKey::Janitor);
    let starts = vec![write(b, job, 5, 0), write(b, job, 6, 0)];
    advance(b, &fence, step(b, id, starts));
    work(b, &pool, find(b, job, 5, 0), Ending::Succeeded);
    b.pass(10);
    assert_eq!(
        wait(b.store.remove_history(b.op(), janitor, b.now(), 10)).runs,
        1
    );
    let seen = facts(b, job, 5);
    assert_eq!((seen.run, seen.record), (None, Some(Record::Removed)));
    assert_eq!(facts(b, job, 6).record, None);
    assert_eq!(get(b, id).runs.succeeded, 1, "its outcome is still counted");
}

pub fn outcomes_are_counted_as_runs_close(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let (id, fence) = (start(b, job, 20), b.trigger(job));
    let mut starts: Vec<Start> = (1..=3).map(|s| write(b, job, s, 0)).collect();
    // One without input is closed as it is written.
    let none = NewRun {
        shards: [].into(),
        ..b.planned_run(job, at(4))
    };
    starts.push(Start::Write(Box::new(none)));
    assert_eq!(
        advance(b, &fence, step(b, id, starts)),
        AdvanceVerdict::Advanced(4)
    );
    let runs = |open, succeeded, failed, cancelled| Outcomes {
        open,
        succeeded,
        failed,
        cancelled,
    };
    assert_eq!(get(b, id).runs, runs(3, 1, 0, 0));
    work(b, &pool, find(b, job, 1, 0), Ending::Succeeded);
    assert_eq!(get(b, id).runs, runs(2, 2, 0, 0));
    work(b, &pool, find(b, job, 2, 0), Ending::FailedForGood);
    b.stop(
        find(b, job, 3, 0),
        sichen_core::lifecycle::StopCause::Cancel,
    );
    assert_eq!(get(b, id).runs, runs(0, 2, 1, 1));
    assert_eq!(get(b, id).ver, 2, "outcomes raise no version");
}

pub fn turns_are_taken_once(b: &Bench) {
    let job = b.job("j");
    let (id, fence) = (start(b, job, 2), b.trigger(job));
    let turn = |turn| {
        let cause = "asked for".to_owned();
        wait(b.store.turn_backfill(b.op(), None, id, turn, cause))
    };
    assert_eq!(turn(Turn::Resume), TurnVerdict::Already);
    assert_eq!(turn(Turn::Pause), TurnVerdict::Done);
    assert_eq!(turn(Turn::Pause), TurnVerdict::Already);
    assert_eq!(
        (get(b, id).state, get(b, id).cause.as_str()),
        (State::Paused, "asked for")
    );
    assert_eq!(turn(Turn::Resume), TurnVerdict::Done);
    assert_eq!(
        (get(b, id).state, get(b, id).cause.as_str()),
        (State::Running, "")
    );
    let by_duty =
        b.store
            .turn_backfill(b.op(), Some(fence), id, Turn::Cancel, "deleted".to_owned());
    assert_eq!(wait(by_duty), TurnVerdict::Done);
    assert_eq!(turn(Turn::Cancel), TurnVerdict::Already);
    assert_eq!(turn(Turn::Resume), TurnVerdict::Over(State::Cancelled));
    let row = get(b, id);
    assert_eq!(
        (row.state, row.cause.as_str(), row.ver),
        (State::Cancelled, "deleted", 4)
    );
    assert_eq!(row.ended_at, Some(b.now()));
    let nobody = b.store.turn_backfill(
        b.op(),
        None,
        BackfillId(987_654),
        Turn::Pause,
        String::new(),
    );
    assert_eq!(wait(nobody), TurnVerdict::Missing);
}

pub fn a_finished_backfill_is_final(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let (id, fence) = (start(b, job, 2), b.trigger(job));
    let starts = vec![write(b, job, 5, 0)];
    assert_eq!(
        advance(b, &fence, step(b, id, starts)),
        AdvanceVerdict::Advanced(1)
    );
    let finish = || Advance {
        finish: true,
        ..step(b, id, Vec::new())
    };
    assert_eq!(
        advance(b, &fence, finish()),
        AdvanceVerdict::Conflict,
        "a run is open"
    );
    work(b, &pool, find(b, job, 5, 0), Ending::Succeeded);
    assert_eq!(advance(b, &fence, finish()), AdvanceVerdict::Advanced(0));
    assert_eq!(
        (get(b, id).state, get(b, id).ended_at),
        (State::Finished, Some(b.now()))
    );
    assert_eq!(advance(b, &fence, finish()), AdvanceVerdict::Conflict);
    let cancel = b
        .store
        .turn_backfill(b.op(), None, id, Turn::Cancel, String::new());
    assert_eq!(wait(cancel), TurnVerdict::Over(State::Finished));
}

pub fn backfills_are_listed_by_job_and_by_partition(b: &Bench) {
    let (job, other) = (b.job("j"), b.job("other"));
    let ids: Vec<_> = (1..=3).map(|n| start(b, job, n)).collect();
    let theirs = start(b, other, 1);
    let page = |after, limit| Page { after, limit };
    let of = |job, page| -> Vec<_> {
        let found = wait(b.store.list_backfills(job, page));
        found.into_iter().map(|b| b.id).collect()
    };
    assert_eq!(of(job, page(None, 2)), [ids[2], ids[1]]);
    assert_eq!(of(job, page(Some(ids[1]), 2)), [ids[0]]);
    let pause = b
        .store
        .turn_backfill(b.op(), None, ids[0], Turn::Pause, String::new());
    assert_eq!(wait(pause), TurnVerdict::Done);
    let running = |partitions: Vec<u8>, page| -> Vec<_> {
        let found = wait(b.store.list_running_backfills(partitions, page));
        found.into_iter().map(|b| b.id).collect()
    };
    let all: Vec<u8> = (0..PARTITIONS).collect();
    assert_eq!(
        running(all.clone(), page(None, 9)),
        [ids[1], ids[2], theirs]
    );
    assert_eq!(running(all.clone(), page(Some(ids[1]), 1)), [ids[2]]);
    let without = all
        .into_iter()
        .filter(|p| *p != partition_of(job))
        .collect();
    let left = if partition_of(job) == partition_of(other) {
        vec![]
    } else {
        vec![theirs]
    };
    assert_eq!(running(without, page(None, 9)), left);
}

pub fn revisions_say_where_they_began(b: &Bench) {
    let job = b.job("j");
    b.pass(60);
    let edit = ApplyJob {
        expected_ver: Some(1),
        document: "{\"v\":2}".to_owned(),
        closing: Some(b.step(job, at(50))),
        ..b.new_job("j")
    };
    let edited = wait(b.store.apply_job(b.op(), edit));
    assert_eq!(edited, ApplyVerdict::Updated(job, Revision(2)));
    let page = |after| Page { after, limit: 9 };
    let revisions = |after| wait(b.store.list_revisions(job, page(after)));
    let (first, second) = ((Revision(1), Some(at(0))), (Revision(2), Some(at(50))));
    assert_eq!(revisions(None), [first, second]);
    assert_eq!(revisions(Some(Revision(1))), [second]);
}

pub fn a_job_has_a_bounded_number_of_open_backfills(b: &Bench) {
    let job = b.job("j");
    let ids: Vec<_> = (0..MAX_OPEN_BACKFILLS)
        .map(|n| ask(b, job, &format!("k{n}"), 1))
        .collect();
    assert_eq!(ask(b, job, "more", 1), NewVerdict::TooMany);
    let NewVerdict::Created(first) = ids[0] else {
        panic!("{ids:?}")
    };
    wait(
        b.store
            .turn_backfill(b.op(), None, first, Turn::Cancel, String::new()),
    );
    assert!(matches!(ask(b, job, "more", 1), NewVerdict::Created(_)));
}

pub fn a_run_that_replaces_others_leaves_those_of_backfills(b: &Bench) {
    let job = b.job("j");
    let (id, fence) = (start(b, job, 2), b.trigger(job));
    advance(b, &fence, step(b, id, vec![write(b, job, 5, 0)]));
    let live = b.create(b.new_run(job, "live", vec![Descriptor::Whole]));
    let waits = Some(Waits {
        what: WaitsFor::Replaced,
        most: 1,
    });
    b.create(NewRun {
        waits,
        ..b.new_run(job, "new", vec![Descriptor::Whole])
    });
    assert_eq!(b.run(live).state, RunState::Cancelled);
    assert_eq!(b.run(find(b, job, 5, 0)).stop, None);
}

pub fn a_step_waits_while_its_namespace_may_queue_no_more(b: &Bench) {
    let job = b.job("j");
    let id = start(b, job, 5);
    let change = |most| sichen_core::model::NamespaceChange {
        max_queued: Some(most),
        ..Default::default()
    };
    let set = |most| {
        wait(
            b.store
                .set_namespace(b.op(), crate::bench::name("default"), change(most)),
        )
    };
    set(Some(1));
    let fence = b.trigger(job);
    let two = step(b, id, vec![write(b, job, 1, 0), write(b, job, 2, 0)]);
    let full = sichen_core::model::QueueFull { most: 1, queued: 0 };
    let before = get(b, id);
    assert_eq!(advance(b, &fence, two), AdvanceVerdict::Full(full));
    assert_eq!(get(b, id), before);
    assert!(b.dump().runs.is_empty());
    let one = step(b, id, vec![write(b, job, 1, 0)]);
    assert_eq!(advance(b, &fence, one), AdvanceVerdict::Advanced(1));
    let next = step(b, id, vec![write(b, job, 2, 0)]);
    let full = sichen_core::model::QueueFull { most: 1, queued: 1 };
    assert_eq!(advance(b, &fence, next.clone()), AdvanceVerdict::Full(full));
    set(None);
    assert_eq!(advance(b, &fence, next), AdvanceVerdict::Advanced(1));
}
