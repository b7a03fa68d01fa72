//! The checks of backfills' runs: due as a run succeeds, moved on once, gone with its run.

use jiff::SignedDuration;
use sichen_core::backfill::check::{
    Check, CheckMove, CheckState, CheckStep, CheckTo, CheckVerdict, Checks, Counted, Verify,
};
use sichen_core::backfill::{
    Advance, AdvanceVerdict, Backfill, NewBackfill, NewVerdict, Start, State, Turn,
};
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{BackfillId, JobUid, RunId, ShardKey};
use sichen_core::lifecycle::StopCause;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::{DutyKey, PARTITIONS};
use sichen_core::port::{Fence, NewRun, Page};

use super::backfills::{step, wanted};
use crate::bench::{Bench, at, name, wait};

/// A backfill whose runs are checked.
pub fn start(b: &Bench, job: JobUid) -> BackfillId {
    let verify = Verify {
        job: name("count"),
        rate: 60,
    };
    let new = NewBackfill {
        job,
        key: "checked".to_owned(),
        wanted: sichen_core::backfill::Wanted {
            verify: Some(verify),
            ..wanted(20)
        },
    };
    match wait(b.store.create_backfill(b.op(), new)) {
        NewVerdict::Created(id) => id,
        other => panic!("{other:?}"),
    }
}

fn get(b: &Bench, id: BackfillId) -> Backfill {
    wait(b.store.get_backfill(id)).expect("it is there")
}

/// Runs of the instants 1 to `n` in the lane, oldest first.
fn runs(b: &Bench, fence: &Fence, id: BackfillId, job: JobUid, n: i64) -> Vec<RunId> {
    let starts = (1..=n).map(|s| Start::Write(Box::new(b.planned_run(job, at(s)))));
    let advance = step(b, id, starts.collect());
    wait(b.store.advance_backfill(b.op(), fence.clone(), advance));
    let find = |s| {
        let occasion = b.planned_run(job, at(s)).occasion;
        wait(b.store.find_run(job, occasion)).expect("it has a run")
    };
    (1..=n).map(find).collect()
}

fn work(b: &Bench, pool: &Fence, run: RunId, ending: Ending) {
    b.attempt(pool, ShardKey::new(run, 0), b.session(5), ending);
}

fn listed(b: &Bench, id: BackfillId, state: Option<CheckState>) -> Vec<(RunId, u32)> {
    let page = Page {
        after: None,
        limit: 100,
    };
    let found = wait(b.store.list_checks(id, state, page));
    found.iter().map(|check| (check.run, check.round)).collect()
}

fn going(run: RunId, round: u32, to: CheckTo) -> CheckMove {
    CheckMove { run, round, to }
}

fn moved(b: &Bench, fence: &Fence, id: BackfillId, moves: Vec<CheckMove>) -> CheckVerdict {
    let next_at = Some(at(500));
    let step = CheckStep { id, moves, next_at };
    wait(b.store.move_checks(b.op(), fence.clone(), step))
}

fn counted(found: u64, expected: u64) -> CheckTo {
    CheckTo::Over(Counted::Both(found, expected))
}

pub fn a_run_that_succeeded_is_due_to_be_checked(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let (id, fence) = (start(b, job), b.trigger(job));
    let unchecked = super::backfills::start(b, job, 2);
    let of = runs(b, &fence, id, job, 3);
    // One without input has succeeded as it is written.
    let none = NewRun {
        shards: [].into(),
        ..b.planned_run(job, at(4))
    };
    let starts = vec![Start::Write(Box::new(none))];
    wait(
        b.store
            .advance_backfill(b.op(), fence.clone(), step(b, id, starts)),
    );
    let other = b.planned_run(job, at(9));
    let starts = vec![Start::Write(Box::new(other))];
    let advance = step(b, unchecked, starts);
    wait(b.store.advance_backfill(b.op(), fence.clone(), advance));
    let other = wait(b.store.find_run(job, b.planned_run(job, at(9)).occasion)).unwrap();
    assert_eq!(get(b, id).checks.due, 1);
    work(b, &pool, of[0], Ending::Succeeded);
    work(b, &pool, of[1], Ending::FailedForGood);
    b.stop(of[2], StopCause::Cancel);
    work(b, &pool, other, Ending::Succeeded);
    let due = Checks {
        due: 2,
        ..Checks::default()
    };
    assert_eq!(get(b, id).checks, due);
    assert_eq!(get(b, unchecked).checks, Checks::default());
    assert_eq!(listed(b, unchecked, None), []);
    let page = Page {
        after: None,
        limit: 100,
    };
    let first = wait(b.store.list_checks(id, None, page)).remove(0);
    let expected = Check {
        run: of[0],
        round: 1,
        backfill: id,
        state: CheckState::Due,
        by: None,
        counts: None,
        why: String::new(),
        at: b.now(),
    };
    assert_eq!(first, expected);
    let finish = Advance {
        finish: true,
        ..step(b, id, Vec::new())
    };
    let verdict = wait(b.store.advance_backfill(b.op(), fence.clone(), finish));
    assert_eq!(verdict, AdvanceVerdict::Conflict, "checks are due");
    // It succeeds in its second round, and that one is checked.
    wait(b.store.reopen_run(b.op(), of[1], None, b.now()));
    work(b, &pool, of[1], Ending::Succeeded);
    assert!(listed(b, id, Some(CheckState::Due)).contains(&(of[1], 2)));
}

pub fn a_check_goes_forward_once(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let (id, fence) = (start(b, job), b.trigger(job));
    let of = runs(b, &fence, id, job, 3);
    for run in &of {
        work(b, &pool, *run, Ending::Succeeded);
    }
    let ver = get(b, id).ver;
    let nothing = CheckTo::Over(Counted::Nothing("no such job".to_owned()));
    let by = CheckTo::Open(RunId(77));
    // One that can't be, one of a round that there is not, and two that fit.
    let moves = vec![
        going(of[0], 1, counted(1, 1)),
        going(of[0], 2, by.clone()),
        going(of[0], 1, by.clone()),
        going(of[1], 1, nothing),
    ];
    assert_eq!(moved(b, &fence, id, moves.clone()), CheckVerdict::Moved(2));
    let row = get(b, id);
    assert_eq!((row.ver, row.next_check_at), (ver + 1, Some(at(500))));
    assert_eq!(
        (row.checks.due, row.checks.open, row.checks.uncounted),
        (1, 1, 1)
    );
    let events = b.dump().events;
    let told = events
        .iter()
        .rfind(|e| e.entity == Entity::Backfill(id))
        .unwrap();
    assert_eq!(told.kind, Kind::BackfillChecked);
    assert!(told.data.contains("\"uncounted\""), "{}", told.data);
    // The same again moves nothing but what it now can, and where nothing moves nothing is written.
    assert_eq!(
        moved(b, &fence, id, vec![moves[2].clone(), moves[3].clone()]),
        CheckVerdict::Moved(0)
    );
    assert_eq!(get(b, id).ver, ver + 1);
    let over = vec![going(of[0], 1, counted(9, 10)), going(of[2], 1, by)];
    assert_eq!(moved(b, &fence, id, over), CheckVerdict::Moved(2));
    let over = vec![
        going(of[0], 1, counted(10, 10)),
        going(of[2], 1, counted(4, 4)),
    ];
    assert_eq!(moved(b, &fence, id, over), CheckVerdict::Moved(1));
    let checks = get(b, id).checks;
    assert_eq!((checks.agree, checks.differ, checks.uncounted), (1, 1, 1));
    let rows = b.dump().checks;
    assert_eq!(rows[0].counts, Some((9, 10)));
    assert_eq!(rows[0].by, Some(RunId(77)));
    assert_eq!(rows[1].why, "no such job");
    let finish = Advance {
        finish: true,
        ..step(b, id, Vec::new())
    };
    let verdict = wait(b.store.advance_backfill(b.op(), fence.clone(), finish));
    assert_eq!(verdict, AdvanceVerdict::Advanced(0));
    assert_eq!(
        moved(b, &fence, BackfillId(987_654), Vec::new()),
        CheckVerdict::Missing
    );
}

pub fn a_backfill_with_checks_to_go_on_with_is_found(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let (id, fence) = (start(b, job), b.trigger(job));
    let of = runs(b, &fence, id, job, 2);
    work(b, &pool, of[0], Ending::Succeeded);
    let found = || {
        let page = Page {
            after: None,
            limit: 10,
        };
        let all = (0..PARTITIONS).collect();
        let found = wait(b.store.list_running_backfills(all, page));
        found.iter().any(|backfill| backfill.id == id)
    };
    let turn = |turn| {
        wait(
            b.store
                .turn_backfill(b.op(), None, id, turn, "asked for".to_owned()),
        )
    };
    turn(Turn::Pause);
    assert!(!found(), "a paused one starts nothing, checks neither");
    let starts = vec![going(of[0], 1, CheckTo::Open(RunId(77)))];
    assert_eq!(
        moved(b, &fence, id, starts.clone()),
        CheckVerdict::Moved(0),
        "not while it is paused"
    );
    turn(Turn::Resume);
    assert_eq!(moved(b, &fence, id, starts), CheckVerdict::Moved(1));
    turn(Turn::Pause);
    assert!(found(), "its open check is to be taken up");
    let over = vec![going(of[0], 1, counted(2, 2))];
    assert_eq!(moved(b, &fence, id, over), CheckVerdict::Moved(1));
    assert!(!found());
    turn(Turn::Resume);
    work(b, &pool, of[1], Ending::FailedForGood);
    let finish = Advance {
        finish: true,
        ..step(b, id, Vec::new())
    };
    wait(b.store.advance_backfill(b.op(), fence.clone(), finish));
    assert_eq!((get(b, id).state, found()), (State::Finished, false));
    // A retry by hand, after the end.
    wait(b.store.reopen_run(b.op(), of[1], None, b.now()));
    work(b, &pool, of[1], Ending::Succeeded);
    assert!(found(), "the retried run is to be checked");
    let starts = vec![going(of[1], 2, CheckTo::Open(RunId(78)))];
    assert_eq!(moved(b, &fence, id, starts), CheckVerdict::Moved(1));
}

pub fn checks_are_listed_by_state_and_page(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let (id, fence) = (start(b, job), b.trigger(job));
    let of = runs(b, &fence, id, job, 4);
    for run in &of {
        work(b, &pool, *run, Ending::Succeeded);
    }
    let open = |i: usize| going(of[i], 1, CheckTo::Open(RunId(70 + i as u64)));
    moved(b, &fence, id, vec![open(1), open(3)]);
    let all: Vec<_> = of.iter().map(|run| (*run, 1)).collect();
    assert_eq!(listed(b, id, None), all);
    assert_eq!(listed(b, id, Some(CheckState::Open)), [all[1], all[3]]);
    assert_eq!(listed(b, id, Some(CheckState::Due)), [all[0], all[2]]);
    assert_eq!(listed(b, id, Some(CheckState::Agrees)), []);
    let page = |after, limit, state| {
        let found = wait(b.store.list_checks(id, state, Page { after, limit }));
        found.iter().map(|check| check.run).collect::<Vec<_>>()
    };
    assert_eq!(page(Some(all[0]), 2, None), of[1..3]);
    assert_eq!(page(Some((of[1], 0)), 1, None), of[1..2]);
    assert_eq!(page(Some(all[1]), 9, Some(CheckState::Open)), of[3..]);
    assert_eq!(listed(b, BackfillId(987_654), None), []);
}

pub fn checks_go_with_their_runs(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let (id, fence) = (start(b, job), b.trigger(job));
    let of = runs(b, &fence, id, job, 2);
    for run in &of {
        work(b, &pool, *run, Ending::Succeeded);
    }
    let open = going(of[0], 1, CheckTo::Open(RunId(77)));
    moved(b, &fence, id, vec![open]);
    moved(b, &fence, id, vec![going(of[0], 1, counted(3, 3))]);
    b.pass(1_000);
    let janitor = b.fence(DutyKey::Janitor);
    let before = b.now() - SignedDuration::from_secs(1);
    assert_eq!(
        wait(b.store.remove_history(b.op(), janitor, before, 10)).runs,
        2
    );
    // The one that is due stays until the duty has seen that its run is gone.
    assert_eq!(listed(b, id, None), [(of[1], 1)]);
    let gone = CheckTo::Over(Counted::Nothing("the run is gone".to_owned()));
    moved(b, &fence, id, vec![going(of[1], 1, gone)]);
    assert_eq!(get(b, id).checks.pending(), 0);
}
