//! Jobs and their revisions.

use jiff::SignedDuration;
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{JobUid, Occasion, Revision};
use sichen_core::model::{Decision, partition_of};
use sichen_core::name::JobName;
use sichen_core::port::{Advance, ApplyJob, ApplyVerdict, Page};

use crate::bench::{Bench, at, name, wait};

fn edit(b: &Bench, uid: JobUid, document: &str) -> ApplyJob {
    let job = b.get_job(uid);
    ApplyJob {
        expected_ver: Some(job.ver),
        document: document.to_owned(),
        name: job.name,
        ..b.new_job("unused")
    }
}

fn apply(b: &Bench, job: ApplyJob) -> ApplyVerdict {
    wait(b.store.apply_job(b.op(), job))
}

pub fn a_new_job_is_found_by_name_and_uid(b: &Bench) {
    let new = ApplyJob {
        next_due: Some(b.now()),
        ..b.new_job("nightly")
    };
    assert_eq!(apply(b, new.clone()), ApplyVerdict::Created(new.new_uid));
    let job = wait(b.store.get_job(new.name.clone())).expect("it is there");
    assert_eq!(job.uid, new.new_uid);
    assert_eq!(
        (job.revision, job.ver, job.paused, job.active_runs),
        (Revision(1), 1, false, 0)
    );
    assert_eq!(
        (&job.document, job.high_water),
        (&new.document, new.high_water)
    );
    assert_eq!((job.next_due, job.created_at), (new.next_due, b.now()));
    assert_eq!(wait(b.store.get_job_by_uid(new.new_uid)), Some(job));
    assert_eq!(
        wait(b.store.get_revision(new.new_uid, Revision(1))),
        Some(new.document)
    );
    assert_eq!(wait(b.store.get_revision(new.new_uid, Revision(2))), None);
}

pub fn a_second_job_of_a_live_name_is_a_conflict(b: &Bench) {
    b.job("nightly");
    assert_eq!(apply(b, b.new_job("nightly")), ApplyVerdict::Conflict);
    // An edit of what is not there is one, too.
    let unknown = ApplyJob {
        expected_ver: Some(1),
        ..b.new_job("unknown")
    };
    assert_eq!(apply(b, unknown), ApplyVerdict::Conflict);
    assert_eq!(b.dump().jobs.len(), 1);
}

pub fn the_same_document_changes_nothing(b: &Bench) {
    let uid = b.job("nightly");
    let before = b.get_job(uid);
    let same = edit(b, uid, &before.document);
    assert_eq!(apply(b, same), ApplyVerdict::Unchanged(uid, Revision(1)));
    assert_eq!(b.get_job(uid), before);
}

pub fn an_edit_makes_the_next_revision_and_keeps_the_old_one(b: &Bench) {
    let uid = b.job("nightly");
    let old = b.get_job(uid).document;
    assert_eq!(
        apply(b, edit(b, uid, "{\"v\":2}")),
        ApplyVerdict::Updated(uid, Revision(2))
    );
    let job = b.get_job(uid);
    assert_eq!(
        (job.revision, job.ver, job.document.as_str()),
        (Revision(2), 2, "{\"v\":2}")
    );
    assert_eq!(wait(b.store.get_revision(uid, Revision(1))), Some(old));
    assert_eq!(
        wait(b.store.get_revision(uid, Revision(2))),
        Some(job.document)
    );
}

pub fn an_edit_decided_on_an_old_version_is_a_conflict(b: &Bench) {
    let uid = b.job("nightly");
    let stale = edit(b, uid, "{\"v\":2}");
    apply(b, edit(b, uid, "{\"v\":3}"));
    assert_eq!(apply(b, stale), ApplyVerdict::Conflict);
    assert_eq!(b.get_job(uid).document, "{\"v\":3}");
}

pub fn an_edit_closes_the_old_revisions_instants(b: &Bench) {
    let uid = b.job("nightly");
    b.pass(100);
    let now = b.now();
    let (ran, skipped) = (
        now - SignedDuration::from_secs(20),
        now - SignedDuration::from_secs(10),
    );
    let mut closing = b.step(uid, now);
    closing.runs = vec![b.planned_run(uid, ran)];
    closing.decisions = vec![Decision::single(skipped, "overlap", "1".to_owned())];
    let next_due = Some(now + SignedDuration::from_secs(5));
    let job = ApplyJob {
        closing: Some(closing),
        next_due,
        ..edit(b, uid, "{\"v\":2}")
    };
    assert_eq!(apply(b, job), ApplyVerdict::Updated(uid, Revision(2)));
    let job = b.get_job(uid);
    assert_eq!(
        (job.high_water, job.next_due, job.active_runs),
        (now, next_due, 1)
    );
    let run = wait(
        b.store
            .find_run(uid, Occasion::Planned { at: ran, rerun: 0 }),
    )
    .expect("run");
    assert_eq!(
        b.run(run).revision,
        Revision(1),
        "it was computed from the old revision"
    );
    assert_eq!(wait(b.store.list_decisions(uid, skipped, 10)).len(), 1);
    let kinds: Vec<Kind> = b
        .dump()
        .events
        .iter()
        .filter(|e| e.entity == Entity::Job(uid))
        .map(|e| e.kind)
        .collect();
    assert_eq!(
        kinds,
        [Kind::JobApplied, Kind::ScheduleAdvanced, Kind::JobApplied]
    );
}

pub fn an_edit_whose_closing_does_not_hold_changes_nothing(b: &Bench) {
    let uid = b.job("nightly");
    let mut closing = b.step(uid, b.now());
    closing.from += SignedDuration::from_secs(1);
    closing.to = closing.from;
    let before = b.dump();
    let job = ApplyJob {
        closing: Some(closing),
        ..edit(b, uid, "{\"v\":2}")
    };
    assert_eq!(apply(b, job), ApplyVerdict::Conflict);
    assert_eq!(b.dump(), before);
}

pub fn a_deleted_jobs_name_is_free_and_its_history_stays(b: &Bench) {
    let old = b.job("nightly");
    let run = b.create(b.new_run(old, "key", vec![]));
    assert!(wait(b.store.delete_job(b.op(), old, None, 1)));
    let job_name = JobName {
        namespace: name("default"),
        name: name("nightly"),
    };
    assert_eq!(wait(b.store.get_job(job_name.clone())), None);
    assert_eq!(b.get_job(old).next_due, None, "it is never due again");
    assert_eq!(b.run(run).job, old);
    let new = b.job("nightly");
    assert_ne!(new, old);
    assert_eq!(
        wait(b.store.get_job(job_name)).map(|job| job.uid),
        Some(new)
    );
    // The old one is gone for good.
    assert!(!wait(b.store.delete_job(b.op(), old, None, 2)));
}

pub fn a_deletion_decided_on_an_old_version_is_refused(b: &Bench) {
    let uid = b.job("nightly");
    assert!(!wait(b.store.delete_job(b.op(), uid, None, 2)));
    assert!(!wait(b.store.delete_job(
        b.op(),
        JobUid(uuid::Uuid::nil()),
        None,
        1
    )));
    assert!(wait(b.store.delete_job(b.op(), uid, None, 1)));
}

pub fn a_deletion_records_what_it_leaves_undecided(b: &Bench) {
    let uid = b.job("nightly");
    let decision = Decision {
        to: at(7),
        count: 5,
        ..Decision::single(at(3), "deleted", String::new())
    };
    let closing = Advance {
        decisions: vec![decision.clone()],
        ..b.step(uid, at(10))
    };
    let stale = Advance {
        from: at(-1),
        ..closing.clone()
    };
    let before = b.dump();
    assert!(!wait(b.store.delete_job(b.op(), uid, Some(stale), 1)));
    assert_eq!(b.dump(), before, "what does not hold writes nothing");
    assert!(wait(b.store.delete_job(b.op(), uid, Some(closing), 1)));
    let job = b.dump().jobs.pop().unwrap();
    assert_eq!((job.high_water, job.next_due, job.ver), (at(10), None, 3));
    assert_eq!(wait(b.store.list_decisions(uid, at(0), 9)), [decision]);
}

pub fn pausing_closes_what_lies_behind(b: &Bench) {
    let uid = b.job("nightly");
    b.pass(50);
    let mut closing = b.step(uid, b.now());
    closing.next_due = None;
    let paused = wait(b.store.set_job_paused(b.op(), true, closing.clone(), 1));
    assert_eq!(paused, ApplyVerdict::Updated(uid, Revision(1)));
    let job = b.get_job(uid);
    assert_eq!(
        (job.paused, job.high_water, job.next_due),
        (true, b.now(), None)
    );
    // What was decided on the old row no longer holds.
    let late = wait(b.store.set_job_paused(b.op(), false, closing, 1));
    assert_eq!(late, ApplyVerdict::Conflict);
    b.pass(50);
    let resumed = wait(
        b.store
            .set_job_paused(b.op(), false, b.step(uid, b.now()), job.ver),
    );
    assert_eq!(resumed, ApplyVerdict::Updated(uid, Revision(1)));
    let job = b.get_job(uid);
    assert_eq!((job.paused, job.high_water), (false, b.now()));
    assert!(job.next_due.is_some());
}

pub fn pausing_what_is_paused_changes_nothing(b: &Bench) {
    let uid = b.job("nightly");
    let before = b.dump();
    let same = wait(
        b.store
            .set_job_paused(b.op(), false, b.step(uid, b.now()), 1),
    );
    assert_eq!(same, ApplyVerdict::Unchanged(uid, Revision(1)));
    assert_eq!(b.dump(), before);
}

pub fn live_jobs_are_listed_by_name_in_pages(b: &Bench) {
    for text in ["c", "a", "d", "b"] {
        b.job(text);
    }
    let other = JobName {
        namespace: name("a-team"),
        name: name("z"),
    };
    apply(
        b,
        ApplyJob {
            name: other,
            ..b.new_job("unused")
        },
    );
    let d = wait(b.store.get_job(JobName {
        namespace: name("default"),
        name: name("d"),
    }))
    .unwrap();
    assert!(wait(b.store.delete_job(b.op(), d.uid, None, 1)));
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = wait(b.store.list_jobs(Page {
            after: after.clone(),
            limit: 2,
        }));
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        after = Some(last.name.clone());
        seen.extend(page.into_iter().map(|job| job.name.to_string()));
    }
    assert_eq!(seen, ["a-team/z", "a", "b", "c"]);
}

pub fn due_jobs_are_listed_soonest_first(b: &Bench) {
    let due = |text: &str, s: i64| {
        let next_due = Some(b.now() + SignedDuration::from_secs(s));
        let job = ApplyJob {
            next_due,
            ..b.new_job(text)
        };
        apply(b, job.clone());
        job.new_uid
    };
    let (late, soon, paused, deleted, far) = (
        due("a", 20),
        due("b", 10),
        due("c", 5),
        due("d", 5),
        due("e", 21),
    );
    b.job("never");
    wait(
        b.store
            .set_job_paused(b.op(), true, b.step(paused, b.now()), 1),
    );
    wait(b.store.delete_job(b.op(), deleted, None, 1));
    let until = b.now() + SignedDuration::from_secs(20);
    let list = |partitions: Vec<u8>, limit| -> Vec<JobUid> {
        let jobs = wait(b.store.list_due_jobs(partitions, until, limit));
        jobs.into_iter().map(|job| job.uid).collect()
    };
    let all: Vec<u8> = (0..64).collect();
    assert_eq!(list(all.clone(), 10), [soon, late], "{far} is not due yet");
    assert_eq!(list(all.clone(), 1), [soon]);
    let others: Vec<u8> = all
        .into_iter()
        .filter(|p| *p != partition_of(soon))
        .collect();
    let expect: Vec<JobUid> = [late]
        .into_iter()
        .filter(|uid| partition_of(*uid) != partition_of(soon))
        .collect();
    assert_eq!(list(others, 10), expect);
    assert!(list(vec![], 10).is_empty());
}
