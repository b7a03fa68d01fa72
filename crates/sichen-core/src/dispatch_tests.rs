//! Claims about plans.

use proptest::prelude::*;

use super::queue::Lane;
use super::*;
use crate::ids::{JobUid, RunId};
use crate::name::Name;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn flow(namespace: &str, lane: Lane, job: u64) -> Flow {
    Flow {
        namespace: Name::new(namespace).unwrap(),
        lane,
        job: JobUid(uuid::Uuid::from_u128(u128::from(job))),
    }
}

fn plan(runs: &[ReadyRun], candidates: &[Candidate], limit: usize) -> Vec<Placement> {
    super::plan(runs, candidates, limit, &mut Shares::default(), NOW)
}

fn run(id: u64, priority: i32, room: u32, shards: i32) -> ReadyRun {
    let head = (0..shards)
        .map(|no| Ready {
            key: ShardKey::new(RunId(id), no),
            token: Token(0),
        })
        .collect();
    ReadyRun {
        run: RunId(id),
        flow: Arc::new(flow("n", Lane::Live, id)),
        priority,
        since: NOW,
        handler: "h".into(),
        terms: None,
        keys: Keyed::Same(0),
        preempts: false,
        yields: false,
        room,
        most_of_job: u32::MAX,
        head,
    }
}

fn worker(id: u64, slots: u32, held: u32) -> Candidate {
    Candidate {
        session: SessionId(id),
        worker: id,
        handlers: vec!["h".into()],
        slots,
        held,
        offer: Arc::default(),
        busy: 0,
    }
}

#[test]
fn runs_of_one_priority_take_turns() {
    let plan = plan(
        &[run(1, 0, 100, 100), run(2, 0, 100, 3)],
        &[worker(1, 6, 0)],
        100,
    );
    let of = |id| plan.iter().filter(|p| p.key.run == RunId(id)).count();
    assert_eq!((of(1), of(2)), (3, 3));
}

#[test]
fn higher_priority_goes_first() {
    let plan = plan(&[run(1, 0, 9, 9), run(2, 5, 9, 4)], &[worker(1, 6, 0)], 100);
    assert!(plan[..4].iter().all(|p| p.key.run == RunId(2)));
    assert_eq!(plan.len(), 6);
}

#[test]
fn the_least_loaded_worker_is_chosen() {
    let plan = plan(
        &[run(1, 0, 9, 3)],
        &[worker(1, 4, 2), worker(2, 8, 2), worker(3, 2, 2)],
        100,
    );
    let to: Vec<u64> = plan.iter().map(|p| p.session.0).collect();
    assert_eq!(to, [2, 2, 1]);
}

#[test]
fn a_handler_nobody_offers_waits_and_blocks_nobody() {
    let other = ReadyRun {
        handler: "other".into(),
        ..run(1, 9, 9, 3)
    };
    let plan = plan(&[other, run(2, 0, 9, 1)], &[worker(1, 4, 0)], 100);
    assert_eq!(plan.len(), 1);
    assert_eq!(plan[0].key.run, RunId(2));
}

proptest! {
    #[test]
    fn a_plan_keeps_every_limit(
        runs in proptest::collection::vec((-2i32..2, 0u32..5, 0i32..9), 0..6),
        workers in proptest::collection::vec((0u32..5, 0u32..7), 0..5),
        limit in 0usize..20,
    ) {
        let runs: Vec<_> = runs.iter().enumerate()
            .map(|(i, (p, room, n))| run(i as u64 + 1, *p, *room, *n)).collect();
        let workers: Vec<_> = workers.iter().enumerate()
            .map(|(i, (slots, held))| worker(i as u64 + 1, *slots, *held)).collect();
        let plan = plan(&runs, &workers, limit);
        prop_assert!(plan.len() <= limit);
        let mut keys: Vec<_> = plan.iter().map(|p| p.key).collect();
        keys.sort();
        keys.dedup();
        prop_assert_eq!(keys.len(), plan.len(), "a shard is planned twice");
        for w in &workers {
            let n = plan.iter().filter(|p| p.session == w.session).count();
            prop_assert!(n as u32 <= w.slots.saturating_sub(w.held));
        }
        for r in &runs {
            prop_assert!(plan.iter().filter(|p| p.key.run == r.run).count() <= r.room as usize);
        }
    }
}
