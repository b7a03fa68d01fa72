//! How things stand, in numbers.

use jiff::SignedDuration;
use sichen_core::lifecycle::RunState;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::Decision;
use sichen_core::port::{Advance, Overview, Skips, Span};

use crate::bench::{Bench, at, wait};

/// An hour back, a minute ahead in parts of ten seconds.
const SPAN: Span = Span {
    past: SignedDuration::from_hours(1),
    ahead: SignedDuration::from_mins(1),
    part: SignedDuration::from_secs(10),
};

fn overview(b: &Bench) -> Overview {
    wait(b.store.get_overview(b.now(), SPAN))
}

pub fn an_empty_store_has_nothing_to_count(b: &Bench) {
    let told = overview(b);
    assert_eq!(
        (told.live_jobs, told.paused_jobs, told.late_jobs),
        (0, 0, 0)
    );
    assert_eq!((told.scheduled, told.running, told.oldest), (0, 0, None));
    assert!(told.load.is_empty() && told.ended.is_empty() && told.skips.is_empty());
    assert_eq!(wait(b.store.get_last_event()), 0);
}

pub fn runs_count_by_state_and_those_that_ended_long_ago_do_not(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(5));
    let (good, bad) = (b.run_of(1), b.run_of(1));
    let key = |run| sichen_core::ids::ShardKey::new(run, 0);
    b.attempt(&pool, key(good), session, Ending::Succeeded);
    b.attempt(&pool, key(bad), session, Ending::FailedForGood);
    let (open, waiting) = (b.run_of(1), b.run_of(1));
    b.lease(&pool, key(open), session);
    let told = overview(b);
    assert_eq!((told.scheduled, told.running), (1, 1), "{waiting}");
    assert_eq!(
        told.ended,
        [(RunState::Failed, 1), (RunState::Succeeded, 1)]
    );
    let written = b.now();
    assert_eq!(told.oldest, Some(written));
    b.pass(3_601);
    let young = b.run_of(1);
    let told = overview(b);
    assert_eq!((told.scheduled, told.running), (2, 1), "{young}");
    assert_eq!(told.oldest, Some(written), "the oldest, which runs");
    assert_eq!(told.ended, []);
    let events = b.dump().events;
    let last = events.last().map(|event| event.seq);
    assert_eq!(Some(wait(b.store.get_last_event())), last);
}

pub fn jobs_count_by_when_they_come_due(b: &Bench) {
    let due = |name: &str, s| {
        let mut job = b.new_job(name);
        job.next_due = Some(at(s));
        wait(b.store.apply_job(b.op(), job));
    };
    due("at-once", 1);
    due("soon", 9);
    due("later", 10);
    due("at-the-end", 60);
    due("too-late-to-tell", 61);
    let told = overview(b);
    assert_eq!((told.live_jobs, told.paused_jobs), (5, 0));
    assert_eq!(told.load, [(0, 2), (1, 1), (6, 1)]);
    assert_eq!(told.late_jobs, 0);
    b.pass(19);
    // Nobody decides them: the first two are late, the third is not yet.
    assert_eq!(overview(b).late_jobs, 2);
}

pub fn what_was_not_run_is_summed_by_job_and_reason(b: &Bench) {
    let uid = b.job("daily");
    b.pass(100);
    let advance = |from: i64, to: i64, reason: &str, count| Advance {
        decisions: vec![Decision {
            from: at(from),
            to: at(to),
            count,
            ..Decision::single(at(from), reason, String::new())
        }],
        ..b.step(uid, at(to))
    };
    let fence = b.trigger(uid);
    for (from, to, reason, count) in [
        (1, 5, "overlap", 3),
        (6, 7, "deadline", 1),
        (8, 9, "overlap", 2),
    ] {
        let step = advance(from, to, reason, count);
        wait(
            b.store
                .advance_schedules(b.op(), vec![fence.clone()], vec![step]),
        );
    }
    let job = b.get_job(uid).name;
    let skips = |reason: &str, count| Skips {
        job: job.clone(),
        reason: reason.to_owned(),
        count,
        filled: 0,
    };
    assert_eq!(
        overview(b).skips,
        [skips("deadline", 1), skips("overlap", 5)]
    );
    b.pass(3_600);
    assert_eq!(overview(b).skips, []);
}
