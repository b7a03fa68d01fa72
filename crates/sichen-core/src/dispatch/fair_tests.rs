//! Claims about who goes first, mostly as a simulation of one pool in virtual time.

use std::collections::BinaryHeap;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::{Candidate, Ready, plan};
use super::*;
use crate::ids::Token;
use crate::place::Keyed;

const START: Timestamp = Timestamp::UNIX_EPOCH;

fn at(ms: u64) -> Timestamp {
    START + SignedDuration::from_millis(i64::try_from(ms).unwrap())
}

fn name(n: usize) -> Name {
    Name::new(&format!("n{n}")).unwrap()
}

fn flow(namespace: usize, lane: Lane, job: u64) -> Flow {
    Flow {
        namespace: name(namespace),
        lane,
        job: JobUid(uuid::Uuid::from_u128(u128::from(job))),
    }
}

/// A run with shards that wait, and how long each takes, in turn.
#[derive(Clone)]
struct Load {
    flow: Flow,
    priority: i32,
    since: u64,
    shards: usize,
    lengths: Vec<u64>,
}

fn load(namespace: usize, job: u64, shards: usize, lengths: &[u64]) -> Load {
    Load {
        flow: flow(namespace, Lane::Live, job),
        priority: 0,
        since: 0,
        shards,
        lengths: lengths.to_vec(),
    }
}

/// One pool with one kind of slot: what ends within one tick ends together.
struct Pool {
    slots: u32,
    shares: Shares,
    loads: Vec<Load>,
    given: Vec<usize>,
    /// Slot time in milliseconds, by load.
    used: Vec<u64>,
    /// When a load's shards started.
    started: Vec<Vec<u64>>,
    ends: BinaryHeap<std::cmp::Reverse<(u64, ShardKey, usize)>>,
    now: u64,
    tick: u64,
}

impl Pool {
    fn new(slots: u32, weights: &[(usize, u32)]) -> Self {
        let mut shares = Shares::default();
        let weights = weights.iter().map(|(n, w)| (name(*n), *w));
        shares.weigh(weights.collect(), START);
        Self {
            slots,
            shares,
            loads: Vec::new(),
            given: Vec::new(),
            used: Vec::new(),
            started: Vec::new(),
            ends: BinaryHeap::new(),
            now: 0,
            tick: 10,
        }
    }

    fn add(&mut self, load: Load) {
        self.loads.push(load);
        self.given.push(0);
        self.used.push(0);
        self.started.push(Vec::new());
    }

    /// Goes on until so many milliseconds after the start.
    fn run_until(&mut self, end: u64) {
        self.fill();
        while let Some(std::cmp::Reverse((next, ..))) = self.ends.peek().copied() {
            let next = next.max(self.now + self.tick);
            if next > end {
                break;
            }
            self.now = next;
            while let Some(std::cmp::Reverse((at_ms, key, n))) = self.ends.peek().copied() {
                if at_ms > self.now {
                    break;
                }
                self.ends.pop();
                // What ends between two ticks is heard of at the second.
                self.used[n] += self.now - self.started[n][usize::try_from(key.no.0).unwrap()];
                self.shares.ended(key, at(self.now));
            }
            self.fill();
        }
        self.now = end;
    }

    fn fill(&mut self) {
        let held = u32::try_from(self.ends.len()).unwrap();
        let free = (self.slots - held) as usize;
        let waiting = (0..self.loads.len()).filter(|n| self.given[*n] < self.loads[*n].shards);
        let ready: Vec<ReadyRun> = waiting
            .map(|n| {
                let load = &self.loads[n];
                let next = (self.given[n]..load.shards).take(free.min(20));
                let ready = |no: usize| Ready {
                    key: ShardKey::new(RunId(n as u64), i32::try_from(no).unwrap()),
                    token: Token(0),
                };
                ReadyRun {
                    run: RunId(n as u64),
                    flow: Arc::new(load.flow.clone()),
                    priority: load.priority,
                    since: at(load.since),
                    handler: "h".into(),
                    terms: None,
                    keys: Keyed::Same(0),
                    preempts: false,
                    yields: false,
                    room: u32::MAX,
                    most_of_job: u32::MAX,
                    head: next.map(ready).collect(),
                }
            })
            .collect();
        let session = SessionId(1);
        let candidate = Candidate {
            session,
            worker: 1,
            handlers: vec!["h".to_owned()],
            slots: self.slots,
            held,
            offer: Arc::default(),
            busy: 0,
        };
        let now = at(self.now);
        for placement in plan(&ready, &[candidate], free, &mut self.shares, now) {
            let n = usize::try_from(placement.key.run.0).unwrap();
            let length = self.loads[n].lengths[self.given[n] % self.loads[n].lengths.len()];
            self.given[n] += 1;
            self.started[n].push(self.now);
            let (key, flow) = (placement.key, Arc::new(self.loads[n].flow.clone()));
            self.shares.granted(key, session, flow, now);
            let end = self.now + length;
            self.ends.push(std::cmp::Reverse((end, key, n)));
        }
    }

    /// What each load has used, with what it holds.
    fn used(&self) -> Vec<u64> {
        let mut used = self.used.clone();
        for std::cmp::Reverse((_, key, n)) in self.ends.iter() {
            used[*n] += self.now - self.started[*n][usize::try_from(key.no.0).unwrap()];
        }
        used
    }
}

/// Each namespace's part of the slot time is its weight's part, to a tenth.
fn check_shares(slots: u32, spaces: &[(u32, Vec<u64>)], tick: u64) {
    let weights: Vec<(usize, u32)> = spaces.iter().enumerate().map(|(n, s)| (n, s.0)).collect();
    let mut pool = Pool::new(slots, &weights);
    pool.tick = tick;
    for (n, (_, lengths)) in spaces.iter().enumerate() {
        pool.add(load(n, n as u64, usize::MAX, lengths));
    }
    pool.run_until(60_000);
    let used = pool.used();
    let all: u64 = used.iter().sum();
    let weight: u64 = spaces.iter().map(|s| u64::from(s.0)).sum();
    assert!(all >= u64::from(slots) * 59_000, "slots stood empty: {all}");
    for (n, (w, lengths)) in spaces.iter().enumerate() {
        let fair = all * u64::from(*w) / weight;
        let off = used[n].abs_diff(fair);
        assert!(
            off * 10 <= fair,
            "namespace {n} of weight {w} with shards of {lengths:?} ms used {} ms of {fair}",
            used[n],
        );
    }
}

#[test]
fn shares_are_right_to_a_tenth_for_two_and_for_a_thousand_namespaces() {
    // As far apart as shards may be: a hundredth of a second beside ten.
    let few = |spaces: &[(u32, Vec<u64>)]| check_shares(20, spaces, 10);
    few(&[(100, vec![10]), (100, vec![10_000])]);
    few(&[(300, vec![2_000]), (100, vec![2_000])]);
    few(&[(100, vec![1_000]), (900, vec![30, 4_000])]);
    few(&[(100, vec![700]), (100, vec![20, 30]), (200, vec![5_000])]);
    // Fewer slots than namespaces.
    let thousand = |n: u32| (100 + 50 * (n % 5), vec![100 + 100 * u64::from(n % 3)]);
    let thousand: Vec<_> = (0..1_000).map(thousand).collect();
    check_shares(400, &thousand, 100);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn shares_are_right_for_any_mix_of_lengths(
        spaces in (2_usize..40).prop_flat_map(|n| {
            // The least share is 60 s times 40 slots by weight; a shard is no more than a part of that.
            let length = 20_u64..(12_000 / n as u64);
            let lengths = prop::collection::vec(length, 1..6);
            prop::collection::vec((100_u32..400, lengths), n)
        }),
    ) {
        check_shares(40, &spaces, 20);
    }
}

#[test]
fn who_comes_later_is_served_at_once_and_pays_nobody_back() {
    // QUEUE-012: one floods; a minute later another has ten runs.
    let mut pool = Pool::new(20, &[]);
    pool.add(load(0, 0, 10_000, &[2_000]));
    pool.run_until(60_000);
    assert_eq!(pool.given[0], 620, "alone it has all slots");
    for job in 1..=10 {
        let ten = Load {
            since: 60_000,
            ..load(1, job, 1, &[2_000])
        };
        pool.add(ten);
    }
    pool.run_until(65_000);
    assert_eq!(pool.given[1..], [1; 10]);
    // And it did not lose what it had used alone: from here on it has all again.
    pool.run_until(75_000);
    let before = pool.given[0];
    pool.run_until(95_000);
    assert_eq!(pool.given[0] - before, 200);
}

#[test]
fn long_shards_of_one_are_not_made_up_for_by_starving_it() {
    let mut pool = Pool::new(20, &[]);
    pool.add(load(0, 0, usize::MAX, &[10_000]));
    pool.run_until(100_000);
    pool.add(load(1, 1, usize::MAX, &[1_000]));
    pool.run_until(160_000);
    let before = pool.used();
    pool.run_until(220_000);
    let used = pool.used();
    let (a, b) = (used[0] - before[0], used[1] - before[1]);
    assert!(a.abs_diff(b) * 10 <= a.max(b), "{a} and {b}");
}

#[test]
fn a_backfill_has_its_part_and_no_more() {
    let mut pool = Pool::new(20, &[]);
    pool.add(load(0, 1, usize::MAX, &[300]));
    let backfill = Load {
        flow: flow(0, Lane::Backfill, 1),
        ..load(0, 1, usize::MAX, &[3_000])
    };
    pool.add(backfill);
    pool.run_until(60_000);
    let used = pool.used();
    let part = used[1] * 100 / (used[0] + used[1]);
    assert!((18..=22).contains(&part), "{part} %");
}

#[test]
fn jobs_of_a_lane_have_equal_parts_however_many_runs_they_have() {
    let mut pool = Pool::new(10, &[]);
    for _ in 0..500 {
        pool.add(load(0, 1, 100, &[400]));
    }
    pool.add(load(0, 2, usize::MAX, &[4_000]));
    pool.run_until(60_000);
    let used = pool.used();
    let (many, one) = (used[..500].iter().sum::<u64>(), used[500]);
    assert!(many.abs_diff(one) * 10 <= many, "{many} and {one}");
    let shards = pool.given[..500].iter();
    assert!(shards.max().unwrap() - pool.given[..500].iter().min().unwrap() <= 1);
}

#[test]
fn a_higher_priority_goes_first_and_a_lower_one_is_not_left_for_ever() {
    let mut pool = Pool::new(4, &[]);
    for job in 0..20 {
        let flood = Load {
            priority: 3,
            ..load(0, job, usize::MAX, &[500])
        };
        pool.add(flood);
    }
    pool.add(load(0, 99, 10, &[500]));
    pool.run_until(120_000);
    assert_eq!(pool.given[20], 0);
    pool.run_until(15 * 60_000);
    // Three levels and the one above which it is: one shard each four minutes.
    assert!((3..=5).contains(&pool.given[20]), "{}", pool.given[20]);
}

#[test]
fn the_order_of_one_batch_is_that_of_single_grants() {
    let mut pool = Pool::new(8, &[(1, 300)]);
    for n in 0..4 {
        pool.add(load(n % 2, n as u64, 100, &[1_000]));
    }
    pool.run_until(0);
    assert_eq!(pool.given, [1, 3, 1, 3]);
}

#[test]
fn accounts_of_those_who_left_are_forgotten() {
    let mut shares = Shares::default();
    for n in 0..3_000_u64 {
        let run = ReadyRun {
            run: RunId(n),
            flow: Arc::new(flow(usize::try_from(n).unwrap(), Lane::Live, n)),
            priority: 0,
            since: START,
            handler: "h".into(),
            terms: None,
            keys: Keyed::Same(0),
            preempts: false,
            yields: false,
            room: 1,
            most_of_job: u32::MAX,
            head: Vec::new(),
        };
        let now = at(n * 10);
        drop(Order::of(
            &mut shares,
            std::slice::from_ref(&run),
            |_| true,
            now,
        ));
        let key = ShardKey::new(run.run, 0);
        shares.granted(key, SessionId(1), run.flow.clone(), now);
        shares.ended(key, at(n * 10 + 5));
    }
    assert!(shares.spaces.len() < 10, "{}", shares.spaces.len());
    assert!(shares.held.is_empty() && shares.by_session.is_empty());
}

#[test]
fn what_a_session_holds_is_what_the_store_says() {
    let mut shares = Shares::default();
    let (one, two) = (SessionId(1), SessionId(2));
    let key = |run| ShardKey::new(RunId(run), 0);
    let held = |namespace| Arc::new(flow(namespace, Lane::Live, 1));
    shares.granted(key(1), one, held(1), START);
    shares.granted(key(2), two, held(2), START);
    let left = BTreeMap::from([(one, 2)]);
    assert_eq!(shares.sessions(&left, START), [one]);
    assert_eq!(shares.held_by(&name(2)), 0, "its session is gone");
    let held = vec![
        (key(3), flow(1, Lane::Live, 1)),
        (key(4), flow(3, Lane::Live, 1)),
    ];
    shares.holds(one, held, START);
    let by: Vec<u32> = (1..4).map(|n| shares.held_by(&name(n))).collect();
    assert_eq!(by, [1, 0, 1]);
    assert_eq!(shares.sessions(&left, START), []);
}

/// QUEUE-005: what can't start takes no place from what can.
#[test]
fn a_namespace_at_its_limit_is_parked_and_hides_nobody() {
    let mut pool = Pool::new(20, &[(0, 900)]);
    pool.shares.cap(BTreeMap::from([(name(0), 3)]));
    pool.add(load(0, 0, 1_000, &[1_000]));
    pool.add(load(1, 1, 1_000, &[1_000]));
    pool.run_until(0);
    assert_eq!(pool.given, [3, 17]);
    // What ends makes room for as many again.
    pool.run_until(10_500);
    assert_eq!(pool.given, [33, 187]);
    // A limit that is lowered ends nothing and starts nothing.
    pool.shares.cap(BTreeMap::from([(name(0), 1)]));
    pool.run_until(10_900);
    assert_eq!(pool.given[0], 33);
    pool.run_until(20_900);
    assert_eq!(pool.given[0], 43);
    pool.shares.cap(BTreeMap::new());
    pool.run_until(21_000);
    assert!(pool.given[0] > 43);
}
