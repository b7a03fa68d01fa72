//! Runs that are stopped.

use jiff::SignedDuration;
use sichen_core::ids::{RunId, ShardKey};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, ShardState, StopCause};
use sichen_core::model::{RunTerms, Shard, partition_of};
use sichen_core::port::{FinishVerdict, LateRuns, NewRun, RequestVerdict};

use crate::bench::{Bench, at, terms, wait};

pub fn a_stop_cancels_what_waits_and_lets_what_runs_end(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(5));
    let run = b.run_of(4);
    let [running, retrying] = [0, 1].map(|no| ShardKey::new(run, no));
    let token = b.lease(&pool, running, session).shard.token;
    b.attempt(&pool, retrying, session, Ending::Failed);
    b.pass(1);
    assert_eq!(b.stop(run, StopCause::Cancel), RequestVerdict::Done(None));
    use ShardState::{Cancelled, Running};
    assert_eq!(b.states(run), [Running, Cancelled, Cancelled, Cancelled]);
    assert_eq!(b.run(run).stop, Some((StopCause::Cancel, b.now())));
    assert_eq!(b.shard(retrying).ended_at, Some(b.now()));
    let end = b.finish(b.report(running, token, Ending::Cancelled));
    assert_eq!(end, FinishVerdict::Accepted(Some(RunState::Cancelled)));
    assert_eq!(b.run(run).counters.cancelled, 4);
}

pub fn a_stop_of_a_run_that_only_waits_settles_it(b: &Bench) {
    let run = b.run_of(3);
    assert_eq!(
        b.stop(run, StopCause::Cancel),
        RequestVerdict::Done(Some(RunState::Cancelled))
    );
    assert_eq!(b.run(run).ended_at, Some(b.now()));
    assert_eq!(b.dump().jobs[0].active_runs, 0);
}

pub fn the_first_cause_of_a_stop_stays(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(1));
    let run = b.run_of(1);
    b.lease(&pool, ShardKey::new(run, 0), session);
    let job = b.run(run).job;
    let fence = b.trigger(job);
    let late = b
        .store
        .request_stop(b.op(), Some(fence), run, StopCause::Deadline);
    assert_eq!(wait(late), RequestVerdict::Done(None));
    let ver = b.run(run).ver;
    assert_eq!(b.stop(run, StopCause::Cancel), RequestVerdict::Already);
    assert_eq!(
        (b.run(run).stop.unwrap().0, b.run(run).ver),
        (StopCause::Deadline, ver)
    );
}

pub fn a_closed_run_is_not_stopped(b: &Bench) {
    let run = b.run_of(0);
    assert_eq!(
        b.stop(run, StopCause::Cancel),
        RequestVerdict::NotNow(RunState::Succeeded)
    );
    assert_eq!(
        b.stop(RunId(987_654), StopCause::Cancel),
        RequestVerdict::Missing
    );
}

pub fn a_success_after_a_stop_is_kept(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(1));
    let run = b.run_of(1);
    let key = ShardKey::new(run, 0);
    let token = b.lease(&pool, key, session).shard.token;
    b.stop(run, StopCause::Cancel);
    let end = b.finish(b.report(key, token, Ending::Succeeded));
    assert_eq!(end, FinishVerdict::Accepted(Some(RunState::Succeeded)));
}

/// The report was decided on a state of the run from before the stop.
pub fn a_retry_decided_before_a_stop_ends_cancelled(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(2));
    let run = b.run_of(2);
    let [retry, release] = [(0, Ending::Failed), (1, Ending::Released)].map(|(no, ending)| {
        let key = ShardKey::new(run, no);
        let token = b.lease(&pool, key, session).shard.token;
        b.report(key, token, ending)
    });
    assert!(retry.transition.to.is_grantable() && release.transition.to.is_grantable());
    b.stop(run, StopCause::Cancel);
    assert_eq!(b.finish(retry), FinishVerdict::Accepted(None));
    assert_eq!(
        b.finish(release),
        FinishVerdict::Accepted(Some(RunState::Cancelled))
    );
    assert_eq!(b.states(run), [ShardState::Cancelled; 2]);
}

pub fn a_fatal_error_stops_the_whole_run(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(5));
    let run = b.run_of(4);
    let other = b.lease(&pool, ShardKey::new(run, 1), session).shard;
    assert_eq!(
        b.attempt(&pool, ShardKey::new(run, 0), session, Ending::FailedRun),
        None
    );
    use ShardState::{Cancelled, Failed, Running};
    assert_eq!(b.states(run), [Failed, Running, Cancelled, Cancelled]);
    assert_eq!(b.run(run).stop.unwrap().0, StopCause::Fatal);
    let end = b.finish(b.report(other.key, other.token, Ending::Succeeded));
    assert_eq!(end, FinishVerdict::Accepted(Some(RunState::Failed)));
    assert_eq!(b.run(run).reason, "fatal");
}

/// RETRY-005: reports that were decided on the same count use up the budget one after the other, and
/// a retry of the run begins it anew.
pub fn shards_that_fail_share_the_budget_of_their_run(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(4));
    let run = b.run_of(4);
    let held: Vec<_> = (0..3)
        .map(|no| b.lease(&pool, ShardKey::new(run, no), session).shard)
        .collect();
    let of = |shard: &Shard, ending| {
        let mut report = b.report(shard.key, shard.token, ending);
        report.transition.max_failures = Some(2);
        report
    };
    let reports = vec![
        of(&held[0], Ending::Failed),
        of(&held[1], Ending::TimedOut),
        of(&held[2], Ending::Failed),
    ];
    let verdicts = wait(b.store.finish_attempts(b.op(), reports));
    assert_eq!(
        verdicts,
        [
            FinishVerdict::Accepted(None),
            FinishVerdict::Accepted(None),
            FinishVerdict::Accepted(Some(RunState::Failed)),
        ]
    );
    use ShardState::{Cancelled, Failed};
    assert_eq!(b.states(run), [Cancelled, Failed, Cancelled, Cancelled]);
    let now = b.run(run);
    assert_eq!((now.failures, now.reason.as_str()), (2, "max_failures"));
    assert_eq!(
        (now.stop.unwrap().0, now.stop_detail.as_str()),
        (StopCause::Fatal, "max_failures")
    );
    let again = wait(b.store.reopen_run(b.op(), run, None, b.now()));
    assert_eq!(again, RequestVerdict::Done(None));
    assert_eq!(b.run(run).failures, 0);
}

fn with_deadline(b: &Bench, key: &str, deadline: Option<i64>) -> RunId {
    let job = b.job(&format!("job-{key}"));
    let terms = RunTerms {
        deadline: deadline.map(at),
        ..terms()
    };
    b.create(NewRun {
        terms,
        ..b.new_run(job, key, vec![Descriptor::Whole])
    })
}

pub fn late_runs_are_those_past_their_deadline(b: &Bench) {
    let late = with_deadline(b, "late", Some(10));
    with_deadline(b, "far", Some(99));
    let stopped = with_deadline(b, "stopped", Some(10));
    with_deadline(b, "in-time", Some(11));
    with_deadline(b, "never", None);
    b.stop(stopped, StopCause::Cancel);
    let all: Vec<u8> = (0..64).collect();
    let list = |partitions| wait(b.store.list_late_runs(partitions, 10));
    assert_eq!(list(all.clone()).next, Some(at(10)), "the next that passes");
    b.pass(10);
    let found = list(all.clone());
    assert!(
        found.late.is_empty(),
        "a run that ends at the very deadline is in time"
    );
    assert_eq!(found.next, Some(at(10)));
    b.clock.advance(SignedDuration::from_micros(1));
    let partition = partition_of(b.run(late).job);
    let found = list(all.clone());
    assert_eq!(found.late, [(late, partition)]);
    assert_eq!(found.next, Some(at(11)), "of runs in time that is the next");
    let others = all.into_iter().filter(|p| *p != partition).collect();
    assert!(list(others).late.is_empty());
    assert_eq!(list(vec![]), LateRuns::default());
}

pub fn a_deadline_fails_the_run(b: &Bench) {
    let run = with_deadline(b, "late", Some(10));
    let fence = b.trigger(b.run(run).job);
    b.pass(11);
    let stopped = b
        .store
        .request_stop(b.op(), Some(fence), run, StopCause::Deadline);
    assert_eq!(wait(stopped), RequestVerdict::Done(Some(RunState::Failed)));
    assert_eq!(b.run(run).reason, "deadline");
    assert_eq!(b.states(run), [ShardState::Cancelled]);
}
