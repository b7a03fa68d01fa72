//! A store that went back: nothing fires and nothing is granted until people have decided.

use jiff::SignedDuration;
use sichen_core::epoch;
use sichen_core::event::Kind;
use sichen_core::ids::{RunId, ShardKey};
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, ShardState};
use sichen_core::model::DutyKey;
use sichen_core::port::{Finish, FinishVerdict, GrantRefused};
use sichen_core::restore::{Decided, How, Subject, Verdict};

use crate::bench::{Bench, pool_key, wait};

fn decided(epoch: u32, subject: Subject, how: How) -> Decided {
    Decided {
        epoch,
        subject,
        how,
        reason: "checked by hand".to_owned(),
        evidence: "row 55".to_owned(),
    }
}

/// Decides about the restore that there is.
fn decide(b: &Bench, subject: Subject, how: How) -> Verdict {
    let epoch = wait(b.store.get_restore()).map_or(0, |restore| restore.epoch);
    decide_of(b, epoch, subject, how)
}

fn decide_of(b: &Bench, epoch: u32, subject: Subject, how: How) -> Verdict {
    wait(b.store.decide_restore(b.op(), decided(epoch, subject, how)))
}

fn refusals(b: &Bench) -> Vec<(String, String)> {
    let events = b.dump().events.into_iter();
    let refused = events.filter(|e| e.kind == Kind::ReportRefused);
    refused.map(|e| (e.cause, e.data)).collect()
}

/// Until it is decided no duty is in anybody's hands; who was at work may still report.
pub fn a_store_that_went_back_waits_for_a_decision(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(5));
    let run = b.run_of(2);
    let shard = b.lease(&pool, ShardKey::new(run, 0), session).shard;
    assert_eq!(wait(b.store.get_restore()), None);
    let restore = wait(b.store.begin_restore(b.op(), 7));
    assert_eq!(wait(b.store.get_restore()), Some(restore));
    assert!(
        restore.epoch > 7 && restore.mark <= restore.at,
        "{restore:?}"
    );
    // The old term is worth nothing, and there is no new one.
    let refused = b.try_lease(&pool, ShardKey::new(run, 1), session);
    assert_eq!(refused.unwrap_err(), GrantRefused::OldTerm);
    let node = b.node();
    let keys = vec![pool_key(), DutyKey::Trigger(3), DutyKey::Janitor];
    assert_eq!(wait(b.store.claim_duties(b.op(), node, keys)), []);
    // A token that the store knows of is as good as ever.
    let report = b.report(shard.key, shard.token, Ending::Succeeded);
    assert!(matches!(b.finish(report), FinishVerdict::Accepted(_)));
    assert_eq!(decide(b, Subject::Rest, How::Again), Verdict::Recorded);
    assert_eq!(wait(b.store.get_restore()), None);
    assert_eq!(
        decide(b, Subject::Rest, How::Again),
        Verdict::NothingToDecide
    );
    let granted = b.lease(&b.pool(), ShardKey::new(run, 1), session);
    assert_eq!(granted.shard.token.0, (u64::from(restore.epoch) << 32) + 1);
    let again = wait(b.store.begin_restore(b.op(), 0));
    assert!(again.epoch > restore.epoch);
}

/// A token above the shard's was given out by the tail that is lost: it is refused, and said.
pub fn a_token_of_the_lost_tail_is_refused_by_name(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(5));
    let run = b.run_of(1);
    let shard = b.lease(&pool, ShardKey::new(run, 0), session).shard;
    let lost = sichen_core::ids::Token(shard.token.0 + 1);
    let verdict = b.finish(b.report(shard.key, lost, Ending::Succeeded));
    assert_eq!(
        verdict,
        FinishVerdict::Stale {
            current: shard.token
        }
    );
    let said = r#"{"end":"succeeded","run_key":"a:manual:key"}"#;
    let told = ("lost_tail".to_owned(), said.to_owned());
    assert_eq!(refusals(b), std::slice::from_ref(&told));
    assert_eq!(b.shard(shard.key).state, ShardState::Running);
    // Of a run that is not there: a removed one's worker is late, unless the store went back.
    let gone = b.report(shard.key, lost, Ending::Succeeded);
    let gone = || Finish {
        key: ShardKey::new(RunId(987_654), 0),
        ..gone.clone()
    };
    assert_eq!(b.finish(gone()), FinishVerdict::Missing);
    assert_eq!(refusals(b).len(), 1);
    wait(b.store.begin_restore(b.op(), 0));
    assert_eq!(b.finish(gone()), FinishVerdict::Missing);
    assert_eq!(refusals(b), [told.clone(), told]);
}

/// Another restore began while people decided, or the same was said twice: what the first has lost is lost yet,
/// and who has not seen the later one decides nothing of it.
pub fn a_restore_that_begins_while_another_waits_takes_its_marks_on(b: &Bench) {
    let run = b.run_of(1);
    let first = wait(b.store.begin_restore(b.op(), 0));
    b.clock.advance(SignedDuration::from_secs(60));
    b.run_of(1);
    let second = wait(b.store.begin_restore(b.op(), 0));
    assert!(second.epoch > first.epoch && second.at > first.at);
    assert_eq!((second.mark, second.newest), (first.mark, first.newest));
    for subject in [Subject::Rest, Subject::Run(run)] {
        let late = decide_of(b, first.epoch, subject, How::Leave);
        assert_eq!(late, Verdict::Another);
    }
    assert_eq!(wait(b.store.get_restore()), Some(second));
    assert_eq!(b.run(run).state, RunState::Scheduled);
}

/// A job's step is written with its decision or not at all; a run that is taken as done does not run.
pub fn decisions_are_recorded_with_what_they_change(b: &Bench) {
    let job = b.job("daily");
    let run = b.run_of(2);
    wait(b.store.begin_restore(b.op(), 0));
    let from = b.get_job(job).high_water;
    let step = b.step(job, b.now());
    let stale = sichen_core::port::Advance {
        from: b.now() + SignedDuration::from_secs(9),
        to: b.now() + SignedDuration::from_secs(10),
        ..step.clone()
    };
    let subject = |step| Subject::Job(job, Some(step));
    assert_eq!(decide(b, subject(stale), How::Done), Verdict::Conflict);
    assert_eq!(b.get_job(job).high_water, from);
    assert_eq!(decide(b, subject(step), How::Done), Verdict::Recorded);
    assert_eq!(b.get_job(job).high_water, b.now());
    assert_eq!(decide(b, Subject::Run(run), How::Done), Verdict::Recorded);
    assert_eq!(b.run(run).state, RunState::Cancelled);
    for how in How::ALL {
        assert_eq!(decide(b, Subject::Run(run), *how), Verdict::Missing);
    }
    let other = b.run_of(1);
    assert_eq!(
        decide(b, Subject::Run(other), How::Again),
        Verdict::Recorded
    );
    assert_eq!(b.run(other).state, RunState::Scheduled);
    let events = b.dump().events;
    let recorded = events.iter().filter(|e| e.kind == Kind::RestoreDecided);
    let recorded: Vec<(&str, &str)> = recorded.map(|e| (e.entity.kind(), &*e.cause)).collect();
    assert_eq!(
        recorded,
        [("job", "done"), ("run", "done"), ("run", "again")]
    );
    let said = events
        .iter()
        .rfind(|e| e.kind == Kind::RestoreDecided)
        .unwrap();
    assert!(
        said.data.contains("checked by hand") && said.data.contains("row 55"),
        "{}",
        said.data
    );
    assert!(said.actor == "test");
}

/// Numbers are left out, so that none that the lost tail gave out comes again.
pub fn numbers_of_the_lost_tail_do_not_come_again(b: &Bench) {
    let (before, event) = (b.run_of(1), wait(b.store.get_last_event()));
    wait(b.store.begin_restore(b.op(), 0));
    let after = b.run_of(1);
    assert!(
        after.0 >= before.0 + epoch::NUMBERS_LEFT_OUT,
        "{before}, then {after}"
    );
    let next = wait(b.store.get_last_event());
    assert!(
        next >= event + epoch::NUMBERS_LEFT_OUT,
        "{event}, then {next}"
    );
}
