//! What may be granted now, and when more may.

use jiff::SignedDuration;
use sichen_core::dispatch::queue::{Place, Walk, Window};
use sichen_core::ids::{RunId, ShardKey, Token};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::StopCause;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::RunTerms;
use sichen_core::port::{NewRun, ReadyHead};

use crate::bench::{Bench, POOL, at, name, terms, wait};

fn window(total: u32, lane: u32, job: u32) -> Window {
    Window { total, lane, job }
}

fn ready(b: &Bench, after: Option<Place>, runs: u32, per_run: u32) -> Vec<ReadyHead> {
    let after = after.unwrap_or(Place::FIRST);
    let window = window(runs, 100, 100);
    wait(b.store.list_ready(name(POOL), after, window, per_run))
}

fn ids(heads: &[ReadyHead]) -> Vec<RunId> {
    heads.iter().map(|head| head.run.id).collect()
}

fn with_priority(b: &Bench, priority: i32) -> RunId {
    let job = b.job(&format!("job-{}", b.dump().jobs.len()));
    let terms = RunTerms {
        priority,
        ..terms()
    };
    b.create(NewRun {
        terms,
        ..b.new_run(job, "key", vec![Descriptor::Index; 2])
    })
}

pub fn ready_runs_come_by_priority_then_age(b: &Bench) {
    let (low, normal, high) = (
        with_priority(b, -3),
        with_priority(b, 0),
        with_priority(b, 9),
    );
    let late = b.create(NewRun {
        terms: terms(),
        ..b.new_run(b.run(normal).job, "late", vec![Descriptor::Index; 2])
    });
    let heads = ready(b, None, 10, 10);
    assert_eq!(ids(&heads), [high, normal, late, low]);
    assert_eq!(ids(&ready(b, None, 2, 10)), [high, normal]);
    let run = b.run(normal);
    assert_eq!(
        (heads[1].run.job, heads[1].run.revision, &heads[1].run.terms),
        (run.job, run.revision, &run.terms)
    );
    assert_eq!(heads[1].running, 0);
}

pub fn a_runs_first_ready_shards_come_by_time_then_number(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let run = b.run_of(5);
    let key = |no| ShardKey::new(run, no);
    // 0 comes back later than the others became ready; 3 is running.
    b.attempt(&pool, key(0), session, Ending::Failed);
    b.lease(&pool, key(3), session);
    b.pass(10);
    let heads = ready(b, None, 10, 10);
    assert_eq!(heads.len(), 1);
    assert_eq!(heads[0].running, 1);
    let token = b.shard(key(0)).token;
    let expect = [
        (key(1), Token(0)),
        (key(2), Token(0)),
        (key(4), Token(0)),
        (key(0), token),
    ];
    assert_eq!(heads[0].shards, expect);
    assert_eq!(ready(b, None, 10, 2)[0].shards, expect[..2]);
}

pub fn shards_that_wait_for_their_time_are_announced(b: &Bench) {
    let next = |b: &Bench| wait(b.store.next_ready_at(name(POOL), wait(b.store.now())));
    assert_eq!(next(b), None);
    let job = b.job("nightly");
    let run = b.new_run(job, "key", vec![Descriptor::Whole]);
    b.create(NewRun {
        ready_at: at(30),
        ..run.clone()
    });
    let other = b.new_run(job, "other", vec![Descriptor::Whole]);
    b.create(NewRun {
        ready_at: at(20),
        ..other
    });
    assert!(ready(b, None, 10, 10).is_empty());
    assert_eq!(next(b), Some(at(20)));
    b.pass(20);
    assert_eq!(ready(b, None, 10, 10).len(), 1);
    assert_eq!(next(b), Some(at(30)), "what is ready waits for no time");
    b.pass(10);
    assert_eq!(next(b), None);
    assert_eq!(ready(b, None, 10, 10).len(), 2);
    // Never early, however finely the time was given.
    let fine = at(40) + SignedDuration::from_nanos(1);
    b.create(NewRun {
        ready_at: fine,
        ..b.new_run(job, "fine", vec![Descriptor::Whole])
    });
    assert!(next(b).is_some_and(|t| t >= fine));
    b.pass(10);
    assert_eq!(ready(b, None, 10, 10).len(), 2);
}

pub fn stopped_runs_and_other_pools_are_not_ready(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(1));
    let stopped = b.run_of(3);
    b.lease(&pool, ShardKey::new(stopped, 0), session);
    b.stop(stopped, StopCause::Cancel);
    let job = b.job("elsewhere");
    let terms = RunTerms {
        pool: name("gpu"),
        ..terms()
    };
    let other = NewRun {
        terms,
        ..b.new_run(job, "key", vec![Descriptor::Whole])
    };
    let other = b.create(NewRun {
        ready_at: at(0),
        ..other
    });
    assert!(ready(b, None, 10, 10).is_empty());
    assert_eq!(
        wait(b.store.next_ready_at(name(POOL), wait(b.store.now()))),
        None
    );
    assert_eq!(
        ids(&wait(b.store.list_ready(
            name("gpu"),
            Place::FIRST,
            window(10, 10, 10),
            10
        ))),
        [other]
    );
}

pub fn pages_of_ready_runs_follow_each_other(b: &Bench) {
    let runs: Vec<RunId> = [0, 5, 0, 5, -5]
        .into_iter()
        .map(|p| with_priority(b, p))
        .collect();
    let mut expect = runs.clone();
    expect.sort_by_key(|run| Place::of(&b.run(*run)));
    let first = [expect[0], expect[1]];
    assert!(first.contains(&runs[1]) && first.contains(&runs[3]));
    assert_eq!(expect[4], runs[4]);
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = ready(b, after, 2, 1);
        let Some(last) = page.last() else { break };
        after = Some(Place::of(&last.run));
        seen.extend(ids(&page));
    }
    assert_eq!(seen, expect);
}

pub fn a_window_shows_each_lane_and_job_its_part(b: &Bench) {
    // One namespace floods with one job; it has another job, and a low priority; another has two runs.
    let flood = b.job("flood");
    let many: Vec<_> = (0..30)
        .map(|n| b.new_run(flood, &format!("key {n}"), vec![Descriptor::Whole]))
        .collect();
    wait(b.store.create_runs(b.op(), vec![], many));
    let (other, low) = (with_priority(b, 0), with_priority(b, -9));
    let small = b.job_in("small", "two");
    let two: Vec<_> = (0..2)
        .map(|n| b.new_run(small, &format!("key {n}"), vec![Descriptor::Whole]))
        .collect();
    wait(b.store.create_runs(b.op(), vec![], two));
    let read = |window: Window| {
        let heads = wait(b.store.list_ready(name(POOL), Place::FIRST, window, 1));
        let mut walk = Walk::new(window, Place::FIRST);
        heads.iter().for_each(|h| walk.took(Place::of(&h.run)));
        (heads, walk)
    };
    let (heads, walk) = read(window(100, 100, 100));
    assert_eq!(
        (heads.len(), walk.met(), walk.is_cut()),
        (34, (2, 4), false)
    );
    let (heads, walk) = read(window(100, 10, 3));
    assert_eq!((heads.len(), walk.met(), walk.is_cut()), (7, (2, 4), true));
    let of = |job| heads.iter().filter(|h| h.run.job == job).count();
    assert_eq!((of(flood), of(small)), (3, 2));
    let shown = ids(&heads);
    assert!(shown.contains(&other) && shown.contains(&low));
    // The least window still shows a run of each lane.
    let (heads, _) = read(window(100, 1, 1));
    assert_eq!(heads.len(), 2);
    // What is behind a place.
    let last = Place::of(&heads[0].run);
    let rest = wait(b.store.list_ready(name(POOL), last, window(1, 1, 1), 1));
    assert!(Place::of(&rest[0].run) > last);
}

/// More than a look takes from where those are kept that wait for an instant, beside others that were
/// ready all along: each comes in its place, and what a window leaves out is left out.
pub fn many_that_become_ready_at_once_come_in_their_places(b: &Bench) {
    let (now, soon) = (b.now(), b.now() + SignedDuration::from_secs(30));
    let jobs = ["one", "two", "three"].map(|job| b.free_job(job));
    let run = |n: usize| {
        let run = b.new_run(jobs[n % 3], &format!("key {n}"), vec![Descriptor::Whole]);
        let later = !n.is_multiple_of(7);
        NewRun {
            ready_at: if later { soon } else { now },
            ..run
        }
    };
    for part in (0..700).collect::<Vec<_>>().chunks(350) {
        let runs = part.iter().map(|n| run(*n)).collect();
        wait(b.store.create_runs(b.op(), vec![], runs));
    }
    let all = || {
        wait(
            b.store
                .list_ready(name(POOL), Place::FIRST, window(5_000, 5_000, 5_000), 1),
        )
    };
    assert_eq!(all().len(), 100);
    let first = wait(b.store.next_ready_at(name(POOL), now));
    assert_eq!(first, Some(soon));
    b.pass(31);
    for _ in 0..2 {
        let heads = all();
        assert_eq!(heads.len(), 700);
        let places: Vec<Place> = heads.iter().map(|h| Place::of(&h.run)).collect();
        assert!(places.is_sorted());
        assert!(heads.iter().all(|h| h.shards.len() == 1));
        let few = window(40, 100, 9);
        let few = wait(b.store.list_ready(name(POOL), Place::FIRST, few, 1));
        assert_eq!(few.len(), 27, "nine of each job");
        let second =
            wait(
                b.store
                    .list_ready(name(POOL), places[499], window(5_000, 5_000, 5_000), 1),
            );
        assert_eq!(second.len(), 200);
    }
    assert_eq!(wait(b.store.next_ready_at(name(POOL), b.now())), None);
}
