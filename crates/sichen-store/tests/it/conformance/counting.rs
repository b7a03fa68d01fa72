//! Whether a job's row counts its open runs.

use sichen_core::ids::{JobUid, RunId, ShardKey};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, StopCause, WaitsFor};
use sichen_core::model::{Counting, Waits};
use sichen_core::port::{
    Advance, AdvanceVerdict, ApplyJob, ApplyVerdict, Counted, CreateVerdict, Fence, NewRun,
    RequestVerdict,
};

use super::backfills;
use crate::bench::{Bench, wait};

/// A job whose runs nothing counts.
fn free(b: &Bench) -> JobUid {
    b.free_job("free")
}

/// The job has another document, under which its runs are counted or not.
fn edit(b: &Bench, job: JobUid, counted: bool) {
    let row = b.get_job(job);
    let new = ApplyJob {
        counted,
        expected_ver: Some(row.ver),
        document: format!("{{\"counted\":{counted},\"after\":{}}}", row.revision.0),
        closing: Some(b.step(job, b.now())),
        ..b.new_job(row.name.name.as_str())
    };
    let applied = wait(b.store.apply_job(b.op(), new));
    assert!(matches!(applied, ApplyVerdict::Updated(..)), "{applied:?}");
}

fn plain(b: &Bench, job: JobUid, text: &str) -> RunId {
    b.create(b.new_run(job, text, vec![Descriptor::Whole]))
}

fn waiting(b: &Bench, job: JobUid, text: &str, what: WaitsFor) -> NewRun {
    NewRun {
        waits: Some(Waits { what, most: 1 }),
        ..b.new_run(job, text, vec![Descriptor::Whole])
    }
}

fn end(b: &Bench, pool: &Fence, run: RunId, ending: Ending) {
    b.attempt(pool, ShardKey::new(run, 0), b.session(1), ending);
}

/// What the row says, and what there is.
fn counts(b: &Bench, job: JobUid) -> (Counting, u32, u32, u32) {
    let row = b.get_job(job);
    let open = wait(b.store.count_open_runs(vec![job]));
    (row.counting, row.active_runs, row.waiting_runs, open[0])
}

pub fn runs_of_a_job_that_nothing_counts_leave_its_row_alone(b: &Bench) {
    let (job, pool) = (free(b), b.pool());
    let before = b.get_job(job);
    let runs = ["1", "2", "3"].map(|text| plain(b, job, text));
    assert_eq!(counts(b, job), (Counting::Never, 0, 0, 3));
    end(b, &pool, runs[0], Ending::Succeeded);
    let stopped = b.stop(runs[1], StopCause::Cancel);
    assert_eq!(stopped, RequestVerdict::Done(Some(RunState::Cancelled)));
    for _ in 0..3 {
        end(b, &pool, runs[2], Ending::Failed);
        b.pass(10);
    }
    assert_eq!(b.run(runs[2]).state, RunState::Failed);
    assert_eq!(counts(b, job), (Counting::Never, 0, 0, 0));
    let reopened = b.store.reopen_run(b.op(), runs[2], None, b.now());
    assert_eq!(wait(reopened), RequestVerdict::Done(None));
    assert_eq!(counts(b, job), (Counting::Never, 0, 0, 1));
    assert_eq!(b.get_job(job), before);
    let both = vec![JobUid(uuid::Uuid::nil()), job];
    assert_eq!(wait(b.store.count_open_runs(both)), [0, 1]);
}

pub fn an_edit_that_wants_it_counts_what_is_open(b: &Bench) {
    let (job, pool) = (free(b), b.pool());
    let runs = ["1", "2", "3"].map(|text| plain(b, job, text));
    end(b, &pool, runs[0], Ending::Succeeded);
    edit(b, job, true);
    assert_eq!(counts(b, job), (Counting::Always, 2, 0, 2));
    end(b, &pool, runs[1], Ending::Succeeded);
    plain(b, job, "4");
    plain(b, job, "5");
    assert_eq!(counts(b, job), (Counting::Always, 3, 0, 3));
    edit(b, job, false);
    assert_eq!(counts(b, job), (Counting::Never, 0, 0, 3));
    end(b, &pool, runs[2], Ending::Succeeded);
    assert_eq!(counts(b, job), (Counting::Never, 0, 0, 2));
}

pub fn a_run_that_waits_begins_the_counting_and_the_last_one_ends_it(b: &Bench) {
    let (job, pool) = (free(b), b.pool());
    let first = plain(b, job, "1");
    let second = plain(b, job, "2");
    let third = b.create(waiting(b, job, "3", WaitsFor::Queue));
    assert_eq!(counts(b, job), (Counting::WhileWaiting, 3, 1, 3));
    let fourth = b.create(waiting(b, job, "4", WaitsFor::Queue));
    plain(b, job, "5");
    assert_eq!(counts(b, job), (Counting::WhileWaiting, 5, 2, 5));
    b.stop(fourth, StopCause::Cancel);
    end(b, &pool, first, Ending::Succeeded);
    assert_eq!(counts(b, job), (Counting::WhileWaiting, 3, 1, 3));
    // All others go, and it has its turn.
    let last = b.create(waiting(b, job, "6", WaitsFor::Replaced));
    assert_eq!(b.run(second).state, RunState::Cancelled);
    assert_eq!(b.run(third).state, RunState::Cancelled);
    assert_eq!(b.run(last).waits, None);
    assert_eq!(counts(b, job), (Counting::Never, 0, 0, 1));
    end(b, &pool, last, Ending::Succeeded);
    assert_eq!(counts(b, job), (Counting::Never, 0, 0, 0));
}

pub fn a_run_judged_by_a_number_is_written_while_that_holds(b: &Bench) {
    let job = free(b);
    plain(b, job, "1");
    let before = b.get_job(job);
    let judged = |text, active| NewRun {
        counted: Some(Counted::running(active)),
        ..b.new_run(job, text, vec![Descriptor::Whole])
    };
    let all = vec![judged("2", 0), judged("3", 1), judged("4", 1)];
    let verdicts = wait(b.store.create_runs(b.op(), vec![], all));
    assert_eq!(verdicts[0], CreateVerdict::Conflict);
    assert!(matches!(verdicts[1], CreateVerdict::Created(..)));
    assert_eq!(verdicts[2], CreateVerdict::Conflict);
    assert_eq!(b.get_job(job), before);
    assert_eq!(counts(b, job), (Counting::Never, 0, 0, 2));
}

pub fn an_edit_goes_on_counting_while_runs_wait(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let first = plain(b, job, "1");
    let second = b.create(waiting(b, job, "2", WaitsFor::Queue));
    edit(b, job, false);
    assert_eq!(counts(b, job), (Counting::WhileWaiting, 2, 1, 2));
    edit(b, job, true);
    assert_eq!(counts(b, job), (Counting::Always, 2, 1, 2));
    edit(b, job, false);
    end(b, &pool, first, Ending::Succeeded);
    assert_eq!(b.run(second).waits, None);
    assert_eq!(counts(b, job), (Counting::Never, 0, 0, 1));
}

pub fn runs_of_backfills_are_not_counted(b: &Bench) {
    let job = free(b);
    plain(b, job, "1");
    backfills::one_run_of(b, job);
    assert_eq!(counts(b, job), (Counting::Never, 0, 0, 1));
    edit(b, job, true);
    assert_eq!(counts(b, job), (Counting::Always, 1, 0, 1));
}

pub fn a_step_that_counted_what_nothing_counts_writes_nothing(b: &Bench) {
    let job = free(b);
    let fence = b.trigger(job);
    let step = |counted| Advance {
        counted,
        ..b.step(job, b.now())
    };
    b.pass(1);
    let none = Some(Counted::running(0));
    let advanced = b
        .store
        .advance_schedules(b.op(), vec![fence.clone()], vec![step(none)]);
    assert_eq!(wait(advanced), [AdvanceVerdict::Conflict]);
    let advanced = b
        .store
        .advance_schedules(b.op(), vec![fence], vec![step(None)]);
    assert_eq!(wait(advanced), [AdvanceVerdict::Advanced(vec![])]);
}
