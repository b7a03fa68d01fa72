//! High-water marks and what is decided between them.

use jiff::{SignedDuration, Timestamp};
use sichen_core::ids::{JobUid, Occasion, Revision, ShardKey};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::RunState;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::{Decision, DutyKey, partition_of};
use sichen_core::port::{
    Advance, AdvanceVerdict, ApplyJob, Counted, CreateVerdict, Fence, FinishVerdict, NewRun,
};
use sichen_core::schedule::zones::{Step, Taken, Zones};

use crate::bench::{Bench, at, wait};

fn advance(b: &Bench, items: Vec<Advance>) -> Vec<AdvanceVerdict> {
    let fences = items.iter().map(|item| b.trigger(item.job)).collect();
    wait(b.store.advance_schedules(b.op(), fences, items))
}

/// One step, after which the duty is free for the next.
fn advance_once(b: &Bench, item: Advance) -> Vec<AdvanceVerdict> {
    let fences = vec![b.trigger(item.job)];
    let step = b
        .store
        .advance_schedules(b.op(), fences.clone(), vec![item]);
    let verdicts = wait(step);
    wait(b.store.release_duties(b.op(), fences));
    verdicts
}

fn decision(from: Timestamp, reason: &str) -> Decision {
    Decision::single(from, reason, String::new())
}

/// Offers `item` and expects that nothing comes of it.
fn is_conflict(b: &Bench, item: Advance) {
    let fence = b.trigger(item.job);
    let before = b.dump();
    let verdicts = wait(
        b.store
            .advance_schedules(b.op(), vec![fence.clone()], vec![item]),
    );
    assert_eq!(verdicts, [AdvanceVerdict::Conflict]);
    assert_eq!(b.dump(), before);
    wait(b.store.release_duties(b.op(), vec![fence]));
}

pub fn an_advance_writes_mark_runs_and_decisions_together(b: &Bench) {
    let job = b.job("nightly");
    let (one, two) = (at(10), at(20));
    let mut item = b.step(job, at(25));
    item.runs = vec![b.planned_run(job, one)];
    item.decisions = vec![decision(two, "overlap")];
    item.counted = Some(Counted {
        active: 0,
        waiting: 0,
    });
    let verdicts = advance(b, vec![item.clone()]);
    let [AdvanceVerdict::Advanced(runs)] = &verdicts[..] else {
        panic!("{verdicts:?}")
    };
    let [CreateVerdict::Created(run, None)] = runs[..] else {
        panic!("{runs:?}")
    };
    let row = b.get_job(job);
    assert_eq!((row.high_water, row.next_due), (at(25), item.next_due));
    assert_eq!((row.active_runs, row.ver), (1, 2));
    assert_eq!(b.run(run).occasion.planned_at(), Some(one));
    assert_eq!(wait(b.store.list_decisions(job, one, 10)), item.decisions);
    let event = b
        .dump()
        .events
        .into_iter()
        .find(|e| e.kind.word() == "schedule_advanced");
    let data: serde_json::Value = serde_json::from_str(&event.unwrap().data).unwrap();
    assert_eq!(data["to"], at(25).as_microsecond());
    assert_eq!(data["runs"][0], format!("p/{}/0", one.as_microsecond()));
    assert_eq!(data["decisions"][0]["reason"], "overlap");
}

pub fn a_step_makes_the_last_record_longer_or_writes_nothing(b: &Bench) {
    let job = b.job("each-second");
    let blocked = |from, to, count| Decision {
        to: at(to),
        count,
        ..Decision::single(at(from), "overlap", "7".to_owned())
    };
    let mut first = b.step(job, at(10));
    first.decisions = vec![blocked(8, 9, 2), decision(at(9), "gap")];
    advance_once(b, first);
    let filled = b.create(b.planned_run(job, at(8)));
    // More of the same, and in the same step a record that begins anew behind it.
    let mut second = b.step(job, at(20));
    second.lengthens = Some(blocked(8, 12, 3));
    second.decisions = vec![decision(at(15), "deadline")];
    let verdicts = advance_once(b, second);
    assert_eq!(verdicts, [AdvanceVerdict::Advanced(vec![])]);
    let longer = Decision {
        filled: 1,
        filled_by: Some(filled),
        ..blocked(8, 12, 5)
    };
    let kept = [decision(at(9), "gap"), longer, decision(at(15), "deadline")];
    assert_eq!(wait(b.store.list_decisions(job, at(0), 10)), kept);
    let told = b.dump().events.into_iter().rev();
    let event = told
        .into_iter()
        .find(|e| e.kind.word() == "schedule_advanced");
    let data: serde_json::Value = serde_json::from_str(&event.unwrap().data).unwrap();
    let said = &data["lengthens"];
    assert_eq!(
        (&said["count"], &said["reference"]),
        (&3.into(), &"7".into())
    );
    assert_eq!(said["from"], at(8).as_microsecond());

    let wrong = [
        // No longer the last one, another begin, another reason or reference, an end that is not later.
        blocked(8, 25, 1),
        Decision {
            reason: "deadline".to_owned(),
            ..blocked(14, 25, 1)
        },
        Decision {
            reason: "paused".to_owned(),
            ..blocked(15, 25, 1)
        },
        Decision {
            reason: "deadline".to_owned(),
            ..blocked(15, 25, 1)
        },
        Decision {
            to: at(15),
            ..decision(at(15), "deadline")
        },
    ];
    for lengthens in wrong {
        let step = b.step(job, at(30));
        let lengthens = Some(lengthens);
        is_conflict(b, Advance { lengthens, ..step });
    }
    let right = Decision {
        to: at(25),
        ..decision(at(15), "deadline")
    };
    let step = b.step(job, at(30));
    let lengthens = Some(right);
    let verdicts = advance_once(b, Advance { lengthens, ..step });
    assert_eq!(verdicts, [AdvanceVerdict::Advanced(vec![])]);
    // A later run of an instant in it finds the one record.
    let run = b.create(b.planned_run(job, at(25)));
    let last = wait(b.store.list_decisions(job, at(20), 10));
    assert_eq!((last[0].count, last[0].filled_by), (2, Some(run)));
}

/// Firing is the right of the partition's owner, granting that of the pool's: it takes both, and a slot.
pub fn a_fired_run_is_born_leased_under_the_fences_of_both_duties(b: &Bench) {
    let (pool, session, job) = (b.pool(), b.session(1), b.job("nightly"));
    let trigger = b.trigger(job);
    let fire = |to: i64, fences: Vec<Fence>| {
        let born = NewRun {
            born_leased: Some(session),
            ..b.planned_run(job, at(to))
        };
        let item = Advance {
            runs: vec![born],
            ..b.step(job, at(to))
        };
        let mut verdicts = wait(b.store.advance_schedules(b.op(), fences, vec![item]));
        match verdicts.remove(0) {
            AdvanceVerdict::Advanced(mut runs) => match runs.remove(0) {
                CreateVerdict::Created(id, granted) => (id, granted),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    let (id, granted) = fire(10, vec![trigger.clone()]);
    assert!(granted.is_none(), "without the pool's fence it waits");
    assert_eq!(b.run(id).state, RunState::Scheduled);
    let (id, granted) = fire(20, vec![trigger.clone(), pool.clone()]);
    let shard = b.shard(ShardKey::new(id, 0));
    assert_eq!(granted.map(|granted| granted.shard), Some(shard.clone()));
    assert_eq!(shard.session, Some(session));
    assert_eq!(b.run(id).state, RunState::Running);
    let (id, granted) = fire(30, vec![trigger.clone(), pool.clone()]);
    assert!(granted.is_none(), "its slot is taken");
    assert_eq!(b.run(id).state, RunState::Scheduled);
    let done = b.finish(b.report(shard.key, shard.token, Ending::Succeeded));
    assert_eq!(done, FinishVerdict::Accepted(Some(RunState::Succeeded)));
    b.take_over(&pool);
    let (id, granted) = fire(40, vec![trigger, pool]);
    assert!(granted.is_none(), "the pool is another's now");
    assert_eq!(b.run(id).state, RunState::Scheduled);
}

pub fn marks_of_many_jobs_move_in_one_call_and_one_that_conflicts_stays(b: &Bench) {
    let jobs = [b.job("one"), b.job("two"), b.job("three")];
    let step = |job, planned: i64| Advance {
        runs: vec![b.planned_run(job, at(planned))],
        ..b.step(job, at(planned))
    };
    // The second step of a job counts from what the first has made of it.
    let again = Advance {
        from: at(10),
        ..step(jobs[0], 20)
    };
    let stale = Advance {
        from: at(5),
        ..step(jobs[2], 10)
    };
    let items = vec![step(jobs[0], 10), step(jobs[1], 10), stale, again];
    let mut fences: Vec<Fence> = Vec::new();
    for job in jobs {
        let key = DutyKey::Trigger(partition_of(job));
        if !fences.iter().any(|fence| fence.key == key) {
            fences.push(b.fence(key));
        }
    }
    let verdicts = wait(b.store.advance_schedules(b.op(), fences, items));
    let moved = |verdict: &AdvanceVerdict| matches!(verdict, AdvanceVerdict::Advanced(_));
    let moved: Vec<bool> = verdicts.iter().map(moved).collect();
    assert_eq!(moved, [true, true, false, true], "{verdicts:?}");
    let mark = |job| {
        let row = b.get_job(job);
        (row.high_water, row.ver, row.active_runs)
    };
    assert_eq!(mark(jobs[0]), (at(20), 3, 2));
    assert_eq!(mark(jobs[1]), (at(10), 2, 1));
    assert_eq!(mark(jobs[2]), (b.now(), 1, 0));
}

pub fn an_advance_from_another_mark_writes_nothing(b: &Bench) {
    let job = b.job("nightly");
    let stale = Advance {
        runs: vec![b.planned_run(job, at(5))],
        ..b.step(job, at(10))
    };
    advance(b, vec![b.step(job, at(10))]);
    wait(b.store.release_duties(b.op(), vec![]));
    let owner = b.dump().duties.pop().unwrap();
    let fence = sichen_core::port::Fence {
        key: owner.key,
        term: owner.term,
    };
    let verdicts = wait(b.store.advance_schedules(b.op(), vec![fence], vec![stale]));
    assert_eq!(verdicts, [AdvanceVerdict::Conflict]);
    assert!(b.dump().runs.is_empty());
}

pub fn an_advance_of_an_old_revision_writes_nothing(b: &Bench) {
    let job = b.job("nightly");
    is_conflict(
        b,
        Advance {
            revision: Revision(2),
            ..b.step(job, at(10))
        },
    );
    is_conflict(
        b,
        Advance {
            job: JobUid(uuid::Uuid::nil()),
            ..b.step(job, at(10))
        },
    );
}

pub fn an_advance_that_counted_other_active_runs_writes_nothing(b: &Bench) {
    let job = b.job("nightly");
    b.create(b.new_run(job, "somebody", vec![Descriptor::Whole]));
    is_conflict(
        b,
        Advance {
            counted: Some(Counted {
                active: 0,
                waiting: 0,
            }),
            ..b.step(job, at(10))
        },
    );
    let counted = Advance {
        counted: Some(Counted {
            active: 1,
            waiting: 0,
        }),
        ..b.step(job, at(10))
    };
    assert_eq!(
        advance(b, vec![counted]),
        [AdvanceVerdict::Advanced(vec![])]
    );
}

pub fn an_advance_of_a_paused_or_deleted_job_writes_nothing(b: &Bench) {
    let job = b.job("nightly");
    wait(
        b.store
            .set_job_paused(b.op(), true, b.step(job, b.now()), 1),
    );
    is_conflict(b, b.step(job, at(10)));
    assert!(wait(b.store.delete_job(
        b.op(),
        job,
        None,
        b.get_job(job).ver
    )));
    is_conflict(b, b.step(job, at(10)));
}

pub fn a_mark_never_goes_back(b: &Bench) {
    let job = b.job("nightly");
    is_conflict(b, b.step(job, at(-1)));
}

pub fn one_conflict_spares_its_neighbours(b: &Bench) {
    let (one, two) = (b.job("one"), b.job("two"));
    let bad = Advance {
        revision: Revision(9),
        ..b.step(one, at(10))
    };
    let verdicts = advance(b, vec![bad, b.step(two, at(10))]);
    assert_eq!(
        verdicts,
        [AdvanceVerdict::Conflict, AdvanceVerdict::Advanced(vec![])]
    );
    assert_eq!(
        (b.get_job(one).high_water, b.get_job(two).high_water),
        (at(0), at(10))
    );
}

pub fn a_planned_instant_has_one_run_and_another_rerun_a_second(b: &Bench) {
    let job = b.job("nightly");
    let run = b.planned_run(job, at(5));
    let first = b.create(run.clone());
    let again = NewRun {
        occasion: Occasion::Planned {
            at: at(5),
            rerun: 1,
        },
        ..run.clone()
    };
    let item = Advance {
        runs: vec![run, again],
        ..b.step(job, at(10))
    };
    let verdicts = advance(b, vec![item]);
    let [AdvanceVerdict::Advanced(runs)] = &verdicts[..] else {
        panic!("{verdicts:?}")
    };
    assert_eq!(runs[0], CreateVerdict::Exists(first));
    assert!(
        matches!(runs[1], CreateVerdict::Created(id, None) if id != first),
        "{runs:?}"
    );
}

pub fn decisions_are_listed_from_an_instant_on(b: &Bench) {
    let job = b.job("nightly");
    let long = Decision {
        to: at(7),
        count: 5,
        ..decision(at(3), "paused")
    };
    let decisions = vec![
        decision(at(1), "gap"),
        long.clone(),
        decision(at(9), "overlap"),
    ];
    advance(
        b,
        vec![Advance {
            decisions: decisions.clone(),
            ..b.step(job, at(10))
        }],
    );
    let list = |from, limit| wait(b.store.list_decisions(job, from, limit));
    assert_eq!(list(at(0), 10), decisions);
    assert_eq!(list(at(7), 10), decisions[1..], "a range counts by its end");
    assert_eq!(
        list(at(7) + SignedDuration::from_micros(1), 10),
        decisions[2..]
    );
    assert_eq!(list(at(0), 2), decisions[..2]);
    assert!(list(at(10), 10).is_empty());
}

fn taken(offset: i32) -> Taken {
    Taken {
        offset,
        change: None,
    }
}

fn zones(data: &str, offset: i32) -> Zones {
    Zones {
        data: data.to_owned(),
        taken: [("Asia/Tokyo".to_owned(), taken(offset))].into(),
        steps: Default::default(),
    }
}

pub fn what_zones_were_taken_for_is_kept_and_outdated_jobs_are_listed(b: &Bench) {
    let apply = |name: &str, zones: Option<Zones>| {
        let job = ApplyJob {
            zones,
            ..b.new_job(name)
        };
        let uid = job.new_uid;
        wait(b.store.apply_job(b.op(), job));
        uid
    };
    let old = apply("old", Some(zones("2026a", 32_400)));
    let older = apply("older", Some(zones("2025c", 32_400)));
    let present = apply("present", Some(zones("2026b", 32_400)));
    let without = apply("without", None);
    let paused = apply("paused", Some(zones("2025a", 32_400)));
    let closing = b.step(paused, b.now());
    wait(b.store.set_job_paused(b.op(), true, closing, 1));
    let list = |partitions: Vec<u8>, limit| -> Vec<JobUid> {
        let data = "2026b".to_owned();
        let jobs = wait(b.store.list_outdated_jobs(partitions, data, limit));
        jobs.into_iter().map(|job| job.uid).collect()
    };
    let all: Vec<u8> = (0..64).collect();
    assert_eq!(list(all.clone(), 10), [older, old], "{present} {without}");
    assert_eq!(list(all.clone(), 1), [older]);
    assert_eq!(list(vec![], 10), []);

    let fence = b.trigger(old);
    let advance = |item: Advance| {
        let fences = vec![fence.clone()];
        let verdicts = wait(b.store.advance_schedules(b.op(), fences, vec![item]));
        assert!(matches!(verdicts[..], [AdvanceVerdict::Advanced(_)]));
    };
    // A step that says nothing of zones leaves what is written.
    advance(b.step(old, at(5)));
    assert_eq!(b.get_job(old).zones, Some(zones("2026a", 32_400)));
    let mut adopted = zones("2026b", 28_800);
    let step = Step {
        at: at(6),
        old: taken(32_400),
    };
    adopted.steps.insert("Asia/Tokyo".to_owned(), step);
    advance(Advance {
        zones: Some(adopted.clone()),
        ..b.step(old, at(10))
    });
    assert_eq!(b.get_job(old).zones, Some(adopted.clone()));
    assert_eq!(list(all.clone(), 10), [older]);
    let mut told = b.dump().events.into_iter().rev();
    let event = told.find(|e| e.kind.word() == "schedule_advanced");
    let data: serde_json::Value = serde_json::from_str(&event.unwrap().data).unwrap();
    assert_eq!(data["zones"], serde_json::json!(adopted));

    // An edit says it anew.
    let job = b.get_job(old);
    let edit = |expected_ver, zones| ApplyJob {
        zones,
        new_uid: old,
        expected_ver: Some(expected_ver),
        document: format!("{{\"v\":{expected_ver}}}"),
        ..b.new_job("old")
    };
    wait(
        b.store
            .apply_job(b.op(), edit(job.ver, Some(zones("2026a", 0)))),
    );
    assert_eq!(list(all.clone(), 10), [older, old]);
    let ver = b.get_job(old).ver;
    wait(b.store.apply_job(b.op(), edit(ver, None)));
    assert_eq!(b.get_job(old).zones, None);
    assert_eq!(list(all, 10), [older]);
}
