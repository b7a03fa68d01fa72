//! What follows a job's runs: the next instant is written with the end that makes it.

use jiff::{SignedDuration, Timestamp};
use sichen_core::event::{Entity, Event};
use sichen_core::ids::{JobUid, RunId, ShardKey};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, StopCause};
use sichen_core::model::Decision;
use sichen_core::port::{Advance, AdvanceVerdict, ApplyJob, ApplyVerdict, CreateVerdict, Fence};
use sichen_core::schedule::follow::{Follow, Wait};

use crate::bench::{Bench, at, wait};

fn after(seconds: i64) -> Follow {
    Follow {
        wait: Wait::Delay(SignedDuration::from_secs(seconds)),
        start: None,
        end: None,
    }
}

fn job(b: &Bench, follow: Follow) -> JobUid {
    let new = ApplyJob {
        follow: Some(follow),
        ..b.new_job("j")
    };
    match wait(b.store.apply_job(b.op(), new)) {
        ApplyVerdict::Created(uid) => uid,
        other => panic!("{other:?}"),
    }
}

fn edit(b: &Bench, uid: JobUid, document: &str, follow: Option<Follow>) {
    let job = b.get_job(uid);
    let edit = ApplyJob {
        expected_ver: Some(job.ver),
        document: document.to_owned(),
        follow,
        ..b.new_job("j")
    };
    let verdict = wait(b.store.apply_job(b.op(), edit));
    assert!(matches!(verdict, ApplyVerdict::Updated(..)), "{verdict:?}");
}

fn advance(b: &Bench, item: Advance) -> AdvanceVerdict {
    let fence = b.trigger(item.job);
    let fences = vec![fence.clone()];
    let mut verdicts = wait(b.store.advance_schedules(b.op(), fences, vec![item]));
    wait(b.store.release_duties(b.op(), vec![fence]));
    verdicts.remove(0)
}

fn pending(b: &Bench, uid: JobUid) -> Option<Timestamp> {
    b.get_job(uid).pending()
}

/// Decides the job's instant by a run.
fn fire(b: &Bench, uid: JobUid) -> RunId {
    let instant = pending(b, uid).expect("it has an instant");
    let item = Advance {
        runs: vec![b.planned_run(uid, instant)],
        next_due: None,
        ..b.step(uid, instant)
    };
    match advance(b, item) {
        AdvanceVerdict::Advanced(runs) => match runs[..] {
            [CreateVerdict::Created(run, None)] => run,
            _ => panic!("{runs:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn end(b: &Bench, pool: &Fence, run: RunId, ending: Ending) -> Option<RunState> {
    b.attempt(pool, ShardKey::new(run, 0), b.session(5), ending)
}

fn last_event(b: &Bench, uid: JobUid) -> Event {
    let mut events = b.dump().events;
    events.retain(|e| e.entity == Entity::Job(uid));
    events.pop().expect("a job has events")
}

pub fn a_job_that_follows_its_runs_begins_at_once(b: &Bench) {
    let uid = job(b, after(600));
    assert_eq!(pending(b, uid), Some(at(1)));
    let row = b.get_job(uid);
    assert_eq!((row.next_due, row.ver), (Some(at(1)), 2));
    assert_eq!(last_event(b, uid).kind.word(), "schedule_followed");
}

pub fn the_end_of_the_last_run_writes_the_next_instant_in_its_own_operation(b: &Bench) {
    let (uid, pool) = (job(b, after(600)), b.pool());
    b.pass(1);
    let run = fire(b, uid);
    let row = b.get_job(uid);
    assert_eq!((row.pending(), row.next_due), (None, None));
    let other = b.create(b.new_run(uid, "by hand", vec![Descriptor::Whole]));
    b.pass(9);
    end(b, &pool, run, Ending::Succeeded);
    assert_eq!(pending(b, uid), None, "another run is open");
    b.pass(10);
    end(b, &pool, other, Ending::Succeeded);
    let row = b.get_job(uid);
    assert_eq!(row.pending(), Some(at(620)));
    assert_eq!(row.next_due, Some(at(620)));
    let chain = row.chain.expect("it follows");
    assert_eq!((chain.before, chain.since), (Some(at(1)), Some(at(20))));
    let events = b.dump().events;
    let settled = |e: &&Event| e.entity == Entity::Run(other) && e.kind.word() == "run_settled";
    let settled = events.iter().find(settled).expect("it is settled");
    let event = last_event(b, uid);
    assert_eq!(
        (event.op, event.kind.word()),
        (settled.op, "schedule_followed")
    );
    let data: serde_json::Value = serde_json::from_str(&event.data).expect("JSON");
    assert_eq!(data["run"], other.0);
    assert_eq!(data["at"], at(620).as_microsecond());
}

pub fn every_way_to_end_makes_the_next_instant(b: &Bench) {
    let (uid, pool) = (job(b, after(60)), b.pool());
    for n in 0..4 {
        let instant = pending(b, uid).expect("it goes on");
        b.pass(instant.duration_since(b.now()).as_secs());
        let run = fire(b, uid);
        b.pass(5);
        match n {
            0 => drop(b.stop(run, StopCause::Cancel)),
            1 => drop(b.stop(run, StopCause::Deadline)),
            2 => drop(end(b, &pool, run, Ending::FailedForGood)),
            _ => drop(end(b, &pool, run, Ending::Succeeded)),
        }
        assert!(b.run(run).state.is_closed());
        assert_eq!(
            pending(b, uid),
            Some(instant + SignedDuration::from_secs(65))
        );
    }
}

pub fn a_decision_without_a_run_makes_the_next_instant_itself(b: &Bench) {
    let uid = job(b, after(60));
    b.pass(100);
    let skipped = Decision {
        from: at(1),
        to: at(1),
        count: 1,
        reason: "catch_up".to_owned(),
        reference: String::new(),
        filled: 0,
        filled_by: None,
    };
    let item = Advance {
        decisions: vec![skipped.clone()],
        next_due: None,
        ..b.step(uid, at(100))
    };
    assert_eq!(advance(b, item), AdvanceVerdict::Advanced(vec![]));
    let row = b.get_job(uid);
    assert_eq!(
        (row.pending(), row.next_due),
        (Some(at(160)), Some(at(160)))
    );
    // With a run open, its end will.
    b.create(b.new_run(uid, "by hand", vec![Descriptor::Whole]));
    b.pass(60);
    let item = Advance {
        decisions: vec![Decision {
            from: at(160),
            to: at(160),
            ..skipped
        }],
        ..b.step(uid, at(160))
    };
    assert_eq!(advance(b, item), AdvanceVerdict::Advanced(vec![]));
    assert_eq!(pending(b, uid), None);
}

pub fn an_advance_that_saw_another_instant_writes_nothing(b: &Bench) {
    let (uid, pool) = (job(b, after(60)), b.pool());
    let run = b.create(b.new_run(uid, "by hand", vec![Descriptor::Whole]));
    let seen = b.step(uid, at(0));
    end(b, &pool, run, Ending::Succeeded);
    assert_eq!(
        pending(b, uid),
        Some(at(60)),
        "it counts from the newest end"
    );
    let before = b.dump().jobs;
    assert_eq!(advance(b, seen), AdvanceVerdict::Conflict);
    assert_eq!(b.dump().jobs, before);
    b.pass(60);
    fire(b, uid);
    let unaware = Advance {
        pending: Some(at(60)),
        ..b.step(uid, at(61))
    };
    assert_eq!(advance(b, unaware), AdvanceVerdict::Conflict);
}

pub fn a_pause_keeps_the_instant_and_a_resume_brings_it_back(b: &Bench) {
    let (uid, pool) = (job(b, after(60)), b.pool());
    b.pass(1);
    let run = fire(b, uid);
    let turn = |paused, closing: Advance| {
        let ver = b.get_job(uid).ver;
        let verdict = wait(b.store.set_job_paused(b.op(), paused, closing, ver));
        assert!(matches!(verdict, ApplyVerdict::Updated(..)), "{verdict:?}");
    };
    let closing = Advance {
        next_due: None,
        ..b.step(uid, at(1))
    };
    turn(true, closing.clone());
    end(b, &pool, run, Ending::Succeeded);
    let row = b.get_job(uid);
    assert_eq!((row.pending(), row.next_due), (Some(at(61)), None));
    // Back before it comes.
    let back = Advance {
        next_due: Some(at(61)),
        ..b.step(uid, at(1))
    };
    turn(false, back);
    assert_eq!(b.get_job(uid).next_due, Some(at(61)));
    // And after it was passed over.
    turn(
        true,
        Advance {
            next_due: None,
            ..b.step(uid, at(1))
        },
    );
    b.pass(99);
    let passed = Advance {
        decisions: vec![Decision {
            from: at(61),
            to: at(61),
            count: 1,
            reason: "paused".to_owned(),
            reference: String::new(),
            filled: 0,
            filled_by: None,
        }],
        next_due: None,
        ..b.step(uid, at(100))
    };
    turn(false, passed);
    let row = b.get_job(uid);
    assert_eq!(
        (row.pending(), row.next_due),
        (Some(at(160)), Some(at(160)))
    );
}

pub fn an_edit_counts_anew_and_one_without_such_a_schedule_ends_it(b: &Bench) {
    let (uid, pool) = (job(b, after(600)), b.pool());
    b.pass(1);
    let run = fire(b, uid);
    edit(b, uid, "{\"v\":2}", Some(after(300)));
    assert_eq!(pending(b, uid), None, "the open run makes it");
    b.pass(9);
    end(b, &pool, run, Ending::Succeeded);
    assert_eq!(pending(b, uid), Some(at(310)));
    edit(b, uid, "{\"v\":3}", Some(after(100)));
    assert_eq!(b.get_job(uid).next_due, Some(at(110)));
    edit(b, uid, "{\"v\":4}", None);
    let row = b.get_job(uid);
    assert_eq!((row.chain, row.next_due), (None, None));
    edit(b, uid, "{\"v\":5}", Some(after(100)));
    assert_eq!(pending(b, uid), Some(at(2)), "it begins at once");
}

pub fn a_deleted_job_is_not_followed(b: &Bench) {
    let (uid, pool) = (job(b, after(60)), b.pool());
    b.pass(1);
    let run = fire(b, uid);
    let ver = b.get_job(uid).ver;
    assert!(wait(b.store.delete_job(b.op(), uid, None, ver)));
    end(b, &pool, run, Ending::Succeeded);
    assert_eq!(last_event(b, uid).kind.word(), "job_deleted");
    assert_eq!(b.get_job(uid).next_due, None);
}

pub fn a_reopened_run_makes_the_next_instant_when_it_ends_again(b: &Bench) {
    let (uid, pool) = (job(b, after(60)), b.pool());
    b.pass(1);
    let run = fire(b, uid);
    end(b, &pool, run, Ending::FailedForGood);
    assert_eq!(pending(b, uid), Some(at(61)));
    b.pass(9);
    wait(b.store.reopen_run(b.op(), run, None, at(10)));
    b.pass(10);
    end(b, &pool, run, Ending::Succeeded);
    assert_eq!(pending(b, uid), Some(at(80)));
}

pub fn failures_in_a_row_are_counted(b: &Bench) {
    let pool = b.pool();
    let follow = Follow {
        wait: Wait::Continuous {
            min: SignedDuration::from_secs(2),
            max: SignedDuration::from_secs(5),
        },
        start: None,
        end: None,
    };
    let uid = job(b, follow);
    let wait_after = |ending| {
        let instant = pending(b, uid).expect("it goes on");
        b.pass(instant.duration_since(b.now()).as_secs().max(0));
        let run = fire(b, uid);
        b.pass(1);
        end(b, &pool, run, ending);
        let next = pending(b, uid).expect("it goes on");
        next.duration_since(b.now()).as_secs()
    };
    assert_eq!(wait_after(Ending::FailedForGood), 2);
    assert_eq!(wait_after(Ending::FailedForGood), 4);
    assert_eq!(wait_after(Ending::FailedForGood), 5);
    assert_eq!(wait_after(Ending::Succeeded), 0);
    assert_eq!(wait_after(Ending::FailedForGood), 2);
}
