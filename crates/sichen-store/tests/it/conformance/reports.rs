//! Ends of attempts as their holders report them.

use std::sync::Arc;

use jiff::Timestamp;
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{RunId, ShardKey, Token};
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, ShardState};
use sichen_core::model::{Failure, Progress};
use sichen_core::port::{Finish, FinishVerdict, Reporter};

use crate::bench::{Bench, wait};

/// The causes of the refused reports of a shard.
fn refused(b: &Bench, key: ShardKey) -> Vec<(String, Option<Token>)> {
    let events = b.dump().events.into_iter();
    events
        .filter(|e| e.entity == Entity::Shard(key) && e.kind == Kind::ReportRefused)
        .map(|e| (e.cause, e.token))
        .collect()
}

fn granted(b: &Bench) -> (sichen_core::port::Fence, ShardKey, Token) {
    let (pool, session) = (b.pool(), b.session(9));
    let key = ShardKey::new(b.run_of(1), 0);
    let token = b.lease(&pool, key, session).shard.token;
    (pool, key, token)
}

pub fn a_report_is_accepted_once_and_repeats_are_duplicates(b: &Bench) {
    let (_, key, token) = granted(b);
    let report = b.report(key, token, Ending::Succeeded);
    let verdicts = wait(
        b.store
            .finish_attempts(b.op(), vec![report.clone(), report.clone()]),
    );
    use FinishVerdict::{Accepted, Duplicate};
    assert_eq!(verdicts, [Accepted(Some(RunState::Succeeded)), Duplicate]);
    let before = b.dump();
    assert_eq!(b.finish(report), Duplicate);
    assert_eq!(b.dump(), before);
}

pub fn a_second_answer_under_the_same_token_contradicts(b: &Bench) {
    let (_, key, token) = granted(b);
    b.finish(b.report(key, token, Ending::Succeeded));
    let other = Finish {
        digest: "another".to_owned(),
        ..b.report(key, token, Ending::Failed)
    };
    assert_eq!(b.finish(other), FinishVerdict::Contradicts);
    assert_eq!(
        b.shard(key).state,
        ShardState::Succeeded,
        "the first one stands"
    );
    assert_eq!(refused(b, key), [("contradicts".to_owned(), Some(token))]);
}

pub fn an_old_token_is_stale_and_recorded(b: &Bench) {
    let (pool, key, old) = granted(b);
    let report = b.report(key, old, Ending::Succeeded);
    b.finish(b.report(key, old, Ending::Released));
    let current = b.lease(&pool, key, b.session(1)).shard.token;
    assert_eq!(b.finish(report), FinishVerdict::Stale { current });
    assert_eq!(b.shard(key).state, ShardState::Running);
    assert_eq!(refused(b, key), [("stale".to_owned(), Some(old))]);
}

pub fn an_unknown_token_is_stale_below_it(b: &Bench) {
    let (_, key, token) = granted(b);
    let newer = Token(token.0 + 5);
    let verdict = b.finish(b.report(key, newer, Ending::Succeeded));
    assert_eq!(verdict, FinishVerdict::Stale { current: token });
    assert_eq!(b.shard(key).token, token);
}

pub fn a_report_of_no_running_attempt_is_refused(b: &Bench) {
    let key = ShardKey::new(b.run_of(1), 0);
    let report = b.report(key, Token(0), Ending::Succeeded);
    assert_eq!(b.finish(report), FinishVerdict::NotRunning);
    assert_eq!(
        refused(b, key),
        [("not_running".to_owned(), Some(Token(0)))]
    );
    assert_eq!(b.shard(key).state, ShardState::Scheduled);
}

pub fn a_report_of_no_shard_is_missing(b: &Bench) {
    let run = b.run_of(1);
    let mut report = b.report(ShardKey::new(run, 0), Token(0), Ending::Succeeded);
    for key in [
        ShardKey::new(RunId(987_654), 0),
        ShardKey::new(run, 1),
        ShardKey::new(run, -1),
    ] {
        report.key = key;
        assert_eq!(b.finish(report.clone()), FinishVerdict::Missing);
    }
}

pub fn a_report_after_the_sessions_expiry_is_accepted(b: &Bench) {
    let (_, key, token) = granted(b);
    b.pass(3_600);
    let verdict = b.finish(b.report(key, token, Ending::Succeeded));
    assert_eq!(verdict, FinishVerdict::Accepted(Some(RunState::Succeeded)));
}

/// Tokens are counted, so that any worker can guess another's.
pub fn an_attempt_is_ended_by_no_worker_but_its_own(b: &Bench) {
    let (pool, key, token) = granted(b);
    let holder = b.dump().sessions.pop().expect("the one that holds it");
    let other = b.session(1);
    let by = |session, uid: &str| {
        let uid = uid.to_owned();
        Some(Arc::new(Reporter { session, uid }))
    };
    for stranger in [by(Some(other), "of another"), by(None, "of another")] {
        for ending in [Ending::Succeeded, Ending::Released, Ending::Lost] {
            let mut report = b.report(key, token, ending);
            report.by = stranger.clone();
            assert_eq!(b.finish(report), FinishVerdict::Foreign);
        }
    }
    assert_eq!(b.shard(key).state, ShardState::Running);
    assert_eq!(refused(b, key)[5], ("foreign".to_owned(), Some(token)));
    // From its present session, and from none: a result in the journal of one that starts again.
    let mut report = b.report(key, token, Ending::Released);
    report.by = by(Some(holder.id), &holder.worker.uid);
    assert!(matches!(b.finish(report), FinishVerdict::Accepted(_)));
    let token = b.lease(&pool, key, holder.id).shard.token;
    let mut report = b.report(key, token, Ending::Succeeded);
    report.by = by(None, &holder.worker.uid);
    assert!(matches!(b.finish(report), FinishVerdict::Accepted(_)));
}

pub fn a_report_leaves_progress_and_failure(b: &Bench) {
    let (pool, key, token) = granted(b);
    let progress = Progress {
        done: 5,
        expected: Some(9),
        rate_milli: 1_500,
        waiting_on: "mysql-main".to_owned(),
    };
    let failure = Failure {
        code: "exit:3".to_owned(),
        message: "line \"9\"\n".to_owned(),
    };
    b.finish(Finish {
        progress: Some(progress.clone()),
        failure: Some(failure.clone()),
        ..b.report(key, token, Ending::Failed)
    });
    let shard = b.shard(key);
    assert_eq!(
        (&shard.progress, &shard.failure),
        (&progress, &Some(failure))
    );
    assert_eq!((shard.session, shard.timeout_at), (None, None));
    b.pass(10);
    let again = b.attempt(&pool, key, b.session(1), Ending::Succeeded);
    assert_eq!(again, Some(RunState::Succeeded));
    let shard = b.shard(key);
    assert_eq!(
        (shard.progress, shard.failure),
        (progress, None),
        "no report, no change"
    );
}

pub fn a_failed_attempt_waits_for_its_retry(b: &Bench) {
    let (pool, key, mut token) = granted(b);
    let session = b.session(9);
    for used in 1..=3 {
        let report = b.report(key, token, Ending::Failed);
        assert!(matches!(
            b.finish(report.clone()),
            FinishVerdict::Accepted(_)
        ));
        let shard = b.shard(key);
        assert_eq!((shard.used, shard.attempt), (used, used));
        if used == 3 {
            assert_eq!(
                (shard.state, shard.ended_at),
                (ShardState::Failed, Some(b.now()))
            );
            break;
        }
        assert_eq!(shard.state, ShardState::Retry);
        assert_eq!(
            shard.ready_at,
            b.now() + jiff::SignedDuration::from_secs(10)
        );
        assert_eq!(
            b.finish(report),
            FinishVerdict::Duplicate,
            "while it waits, too"
        );
        b.pass(10);
        b.beat(session);
        token = b.lease(&pool, key, session).shard.token;
    }
    assert_eq!(b.run(key.run).state, RunState::Failed);
}

pub fn a_released_attempt_goes_back_into_the_budget(b: &Bench) {
    let (pool, key, token) = granted(b);
    b.pass(5);
    assert_eq!(
        b.finish(b.report(key, token, Ending::Released)),
        FinishVerdict::Accepted(None)
    );
    let shard = b.shard(key);
    assert_eq!(
        (shard.state, shard.used, shard.attempt),
        (ShardState::Scheduled, 0, 1)
    );
    assert_eq!((shard.ready_at, shard.ended_at), (b.now(), None));
    let shard = b.lease(&pool, key, b.session(1)).shard;
    assert_eq!((shard.used, shard.attempt), (1, 2));
}

pub fn one_bad_report_spares_its_neighbours(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let run = b.run_of(3);
    let key = |no| ShardKey::new(run, no);
    let tokens: Vec<Token> = (0..3)
        .map(|no| b.lease(&pool, key(no), session).shard.token)
        .collect();
    let good = |no: i32| b.report(key(no), tokens[no as usize], Ending::Succeeded);
    let batch = vec![
        good(0),
        Finish {
            token: Token(tokens[1].0 + 1),
            ..good(1)
        },
        Finish {
            key: ShardKey::new(RunId(987_654), 0),
            ..good(1)
        },
        Finish {
            digest: "another".to_owned(),
            ..good(0)
        },
        good(2),
        good(1),
    ];
    let verdicts = wait(b.store.finish_attempts(b.op(), batch));
    use FinishVerdict::{Accepted, Contradicts, Missing, Stale};
    let stale = Stale { current: tokens[1] };
    let last = Accepted(Some(RunState::Succeeded));
    assert_eq!(
        verdicts,
        [
            Accepted(None),
            stale,
            Missing,
            Contradicts,
            Accepted(None),
            last
        ]
    );
}

pub fn an_instant_at_the_end_of_time_is_read_as_it_was_written(b: &Bench) {
    let (_, key, token) = granted(b);
    let mut report = b.report(key, token, Ending::Failed);
    report.transition.ready_at = Some(Timestamp::MAX);
    assert_eq!(b.finish(report), FinishVerdict::Accepted(None));
    let last = b.shard(key).ready_at;
    assert_eq!(last.as_second(), Timestamp::MAX.as_second());
    assert_eq!(b.dump().shards[0].ready_at, last);
}
