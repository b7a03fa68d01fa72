//! Claims about who is asked for slots.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::dispatch::fair::{AGE, Flow};
use crate::dispatch::queue::Lane;
use crate::ids::JobUid;
use crate::name::Name;
use crate::place::Keyed;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn at(secs: i64) -> Timestamp {
    NOW + SignedDuration::from_secs(secs)
}

fn run(id: u64, namespace: &str, priority: i32, since: i64) -> ReadyRun {
    ReadyRun {
        run: RunId(id),
        flow: Arc::new(Flow {
            namespace: Name::new(namespace).unwrap(),
            lane: Lane::Live,
            job: JobUid(uuid::Uuid::from_u128(u128::from(id))),
        }),
        priority,
        since: at(since),
        handler: "h".into(),
        terms: None,
        keys: Keyed::Same(0),
        preempts: false,
        yields: false,
        room: 0,
        most_of_job: u32::MAX,
        head: Vec::new(),
    }
}

fn with(mut run: ReadyRun, numbers: impl Iterator<Item = i32>) -> ReadyRun {
    let ready = |no| Ready {
        key: ShardKey::new(run.run, no),
        token: Token(0),
    };
    run.head = numbers.map(ready).collect();
    run.room = u32::try_from(run.head.len()).unwrap();
    run
}

fn asking(id: u64, priority: i32, shards: i32) -> ReadyRun {
    let run = with(run(id, "n", priority, 100), 0..shards);
    ReadyRun {
        preempts: true,
        ..run
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

/// A shard of run `id` that has run since the beginning, on the first worker.
fn held(shares: &mut Shares, id: u64, no: i32, priority: i32) -> Held {
    let run = ReadyRun {
        yields: true,
        ..run(id, "n", priority, 0)
    };
    let key = ShardKey::new(run.run, no);
    shares.granted(key, SessionId(1), run.flow.clone(), NOW);
    Held {
        key,
        token: Token(1),
        session: SessionId(1),
        since: NOW,
        yields: Yields {
            after: SignedDuration::from_secs(60),
            times: 3,
        },
        times: 0,
        asked: false,
        run: Arc::new(run),
    }
}

/// Two shards of run 1, of priority 0, hold both slots there are.
struct Full {
    shares: Shares,
    held: Vec<Held>,
    workers: Vec<Candidate>,
}

fn full() -> Full {
    let mut shares = Shares::default();
    let held = (0..2).map(|no| held(&mut shares, 1, no, 0)).collect();
    Full {
        shares,
        held,
        workers: vec![worker(1, 2, 2)],
    }
}

impl Full {
    fn asked(&self, waiting: &[ReadyRun], secs: i64) -> Vec<(i32, u64)> {
        let recalls = recalls(waiting, &self.held, &self.workers, &self.shares, at(secs));
        let pairs = recalls.iter().map(|r| (r.key.no.0, r.by.0));
        pairs.collect()
    }
}

#[test]
fn one_shard_is_asked_for_each_that_would_start() {
    let full = full();
    assert_eq!(full.asked(&[asking(2, 5, 1)], 100), [(0, 2)]);
    assert_eq!(full.asked(&[asking(2, 5, 9)], 100), [(0, 2), (1, 2)]);
    let narrow = ReadyRun {
        room: 1,
        ..asking(2, 5, 9)
    };
    assert_eq!(full.asked(&[narrow], 100), [(0, 2)]);
}

#[test]
fn nobody_is_asked_who_need_not_be() {
    let mut full = full();
    let asks = asking(2, 5, 1);
    let quiet = ReadyRun {
        preempts: false,
        ..asks.clone()
    };
    assert_eq!(full.asked(&[quiet], 100), [], "who does not ask");
    assert_eq!(full.asked(&[asking(2, 0, 1)], 100), [], "of equals");
    assert_eq!(full.asked(&[asking(2, -1, 1)], 100), [], "of betters");
    let other = ReadyRun {
        flow: Arc::new(Flow {
            namespace: Name::new("m").unwrap(),
            ..(*asks.flow).clone()
        }),
        ..asks.clone()
    };
    assert_eq!(full.asked(&[other], 100), [], "of another namespace");
    let foreign = ReadyRun {
        handler: "other".into(),
        ..asks.clone()
    };
    assert_eq!(full.asked(&[foreign], 100), [], "whose slot is no good");
    assert_eq!(
        full.asked(std::slice::from_ref(&asks), 59),
        [],
        "before its time"
    );
    assert_eq!(full.asked(std::slice::from_ref(&asks), 60).len(), 1);
    full.held[0].times = 3;
    full.held[1].times = 3;
    assert_eq!(
        full.asked(std::slice::from_ref(&asks), 100),
        [],
        "once too often"
    );
    full.held[0].times = 2;
    full.held[1].times = 2;
    let both = asking(2, 5, 2);
    assert_eq!(full.asked(&[both], 100).len(), 1, "of one run together");
    full.workers[0].slots = 3;
    assert_eq!(full.asked(&[asks], 100), [], "beside a free slot");
}

#[test]
fn who_was_asked_counts_as_gone() {
    let mut full = full();
    full.held[0].asked = true;
    assert_eq!(full.asked(&[asking(2, 5, 1)], 100), []);
    assert_eq!(full.asked(&[asking(2, 5, 2)], 100), [(1, 2)]);
    // What is on its way out is for whoever goes first, and that is a better one by now.
    let waiting = [asking(2, 5, 1), asking(3, 9, 1)];
    assert_eq!(full.asked(&waiting, 100), [(1, 2)]);
}

#[test]
fn the_lowest_are_asked_first_and_of_those_the_youngest() {
    let mut shares = Shares::default();
    let mut all: Vec<Held> = (1..=3)
        .map(|id| held(&mut shares, id, 0, if id == 3 { -1 } else { 0 }))
        .collect();
    all[1].since = at(10);
    let workers = [worker(1, 3, 3)];
    let first = |n| -> Vec<u64> {
        let waiting = [asking(9, 5, n)];
        let asked = recalls(&waiting, &all, &workers, &shares, at(100));
        asked.iter().map(|r| r.key.run.0).collect()
    };
    assert_eq!(first(1), [3]);
    assert_eq!(first(2), [3, 2]);
    assert_eq!(first(3), [3, 2, 1]);
}

#[test]
fn nobody_is_asked_for_a_slot_that_another_would_get() {
    let full = full();
    // It has waited for so long that it goes before, and asks for nothing itself.
    let aged = with(run(3, "n", 0, 100 - 6 * AGE.as_secs()), 0..1);
    let fresh = with(run(3, "n", 0, 100), 0..1);
    assert_eq!(full.asked(&[asking(2, 5, 1), fresh], 100), [(0, 2)]);
    assert_eq!(full.asked(&[asking(2, 5, 1), aged.clone()], 100), []);
    // One slot is for that one, the other for who asks.
    let mut full = full;
    full.workers[0].slots = 3;
    assert_eq!(full.asked(&[asking(2, 5, 1), aged], 100), [(0, 2)]);
}

#[test]
fn who_gives_a_slot_up_does_not_take_it_back_for_having_held_it() {
    let mut full = full();
    let hours = 3_600 * 10;
    // Of the same run more waits, which nobody has served for ten hours.
    let rest = with(
        ReadyRun {
            yields: true,
            ..run(1, "n", 0, 0)
        },
        2..9,
    );
    let fresh = ReadyRun {
        since: at(hours),
        ..asking(2, 5, 1)
    };
    let waiting = [rest, fresh];
    assert_eq!(full.asked(&waiting, hours), [(0, 2)]);
    let gone = full.held.remove(0);
    full.shares.ended(gone.key, at(hours));
    full.workers[0].held = 1;
    let plan = plan(&waiting, &full.workers, 9, &mut full.shares, at(hours));
    let runs: Vec<u64> = plan.iter().map(|p| p.key.run.0).collect();
    assert_eq!(runs, [2]);
}

/// A pool under a clock of seconds, with everything that may be drawn.
struct Pool {
    shares: Shares,
    jobs: Vec<Job>,
    slots: u32,
    /// By shard: since when, until when, and by when it leaves if it was asked.
    running: BTreeMap<ShardKey, Running>,
    now: i64,
    recalls: u32,
    grants_of_asking: u32,
    /// Grants of others while one that asks waited on: for they had waited long, or are better still.
    others: u32,
    dice: u64,
}

#[derive(Clone, Debug)]
struct Job {
    priority: i32,
    preempts: bool,
    yields: Option<Yields>,
    since: i64,
    /// Shards that wait, with the seconds that each still takes.
    waiting: BTreeMap<i32, i64>,
    secs: i64,
    /// Whether what a shard has done is lost when it gives its slot up.
    forgets: bool,
    times: u32,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    since: i64,
    left: i64,
    leaves: Option<i64>,
}

impl Pool {
    fn roll(&mut self, sides: u64) -> u64 {
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.dice >> 33) % sides
    }

    fn ready(&self, n: usize) -> ReadyRun {
        let job = &self.jobs[n];
        let run = run(n as u64 + 1, "n", job.priority, job.since);
        let run = with(run, job.waiting.keys().copied());
        ReadyRun {
            preempts: job.preempts,
            yields: job.yields.is_some(),
            ..run
        }
    }

    fn waiting(&self) -> Vec<ReadyRun> {
        let arrived = (0..self.jobs.len()).filter(|n| self.jobs[*n].since <= self.now);
        let runs = arrived.map(|n| self.ready(n));
        runs.filter(|run| !run.head.is_empty()).collect()
    }

    fn worker(&self) -> [Candidate; 1] {
        let held = u32::try_from(self.running.len()).unwrap();
        [worker(1, self.slots, held)]
    }

    fn job(&mut self, key: ShardKey) -> &mut Job {
        &mut self.jobs[key.run.0 as usize - 1]
    }

    /// What runs comes to its end, or leaves as it was asked; the jobs that gave slots up now.
    fn work(&mut self) -> BTreeSet<RunId> {
        let mut gave = BTreeSet::new();
        let now = self.now;
        for (key, mut running) in self.running.clone() {
            running.left -= 1;
            self.running.insert(key, running);
            let leaves = running.leaves.is_some_and(|by| by <= now);
            if running.left > 0 && !leaves {
                continue;
            }
            self.running.remove(&key);
            self.shares.ended(key, at(now));
            if running.left > 0 {
                gave.insert(key.run);
                let job = self.job(key);
                let left = if job.forgets { job.secs } else { running.left };
                job.waiting.insert(key.no.0, left);
            }
        }
        gave
    }

    /// Slots are given away. Of those that gave one up just now none gets it while somebody better may.
    fn grant(&mut self, gave: &BTreeSet<RunId>) {
        let (waiting, workers) = (self.waiting(), self.worker());
        let plan = plan(&waiting, &workers, 99, &mut self.shares, at(self.now));
        let mut left: BTreeMap<RunId, usize> = BTreeMap::new();
        left.extend(waiting.iter().map(|run| (run.run, run.head.len())));
        for placed in &plan {
            *left.entry(placed.key.run).or_default() -= 1;
        }
        for placed in plan {
            let (key, now) = (placed.key, self.now);
            let priority = self.job(key).priority;
            let better = |run: &&ReadyRun| run.preempts && run.priority > priority;
            let passed_over = waiting.iter().filter(better).find(|run| left[&run.run] > 0);
            assert!(
                !gave.contains(&key.run) || passed_over.is_none(),
                "{key} gave its slot up and has one again before {passed_over:?}"
            );
            let job = self.job(key);
            let secs = job.waiting.remove(&key.no.0).expect("it waited");
            let asks = job.preempts;
            self.grants_of_asking += u32::from(asks);
            let asking = |run: &ReadyRun| run.preempts && left[&run.run] > 0;
            self.others += u32::from(!asks && waiting.iter().any(asking));
            let flow = self.ready(key.run.0 as usize - 1).flow;
            self.shares.granted(key, SessionId(1), flow, at(now));
            let running = Running {
                since: now,
                left: secs,
                leaves: None,
            };
            self.running.insert(key, running);
        }
    }

    fn held(&self) -> Vec<Held> {
        let of = |(key, running): (&ShardKey, &Running)| {
            let n = key.run.0 as usize - 1;
            let job = &self.jobs[n];
            Some(Held {
                key: *key,
                token: Token(1),
                session: SessionId(1),
                since: at(running.since),
                yields: job.yields?,
                times: job.times,
                asked: running.leaves.is_some(),
                run: Arc::new(ReadyRun {
                    head: Vec::new(),
                    room: 0,
                    ..self.ready(n)
                }),
            })
        };
        self.running.iter().filter_map(of).collect()
    }

    fn ask(&mut self) {
        let (waiting, held, workers) = (self.waiting(), self.held(), self.worker());
        for recall in recalls(&waiting, &held, &workers, &self.shares, at(self.now)) {
            let by = self.jobs[recall.by.0 as usize - 1].clone();
            let grace = self.roll(8) as i64;
            let (now, running) = (self.now, self.running[&recall.key]);
            let job = self.job(recall.key);
            let yields = job.yields.expect("it yields");
            job.times += 1;
            assert!(by.preempts && by.priority > job.priority);
            assert_eq!((recall.priority, recall.own), (by.priority, job.priority));
            assert!(job.times <= yields.times, "asked too often");
            assert!(now - running.since >= yields.after.as_secs());
            assert!(running.leaves.is_none(), "asked twice");
            let leaves = Some(now + 1 + grace);
            self.running
                .insert(recall.key, Running { leaves, ..running });
            self.recalls += 1;
        }
    }
}

fn job() -> impl Strategy<Value = Job> {
    let yields = prop::option::weighted(0.7, (1i64..20, 1u32..40));
    (
        (-2i32..4, any::<bool>(), yields, 0i64..400),
        (1i32..8, 1i64..90, any::<bool>()),
    )
        .prop_map(
            |((priority, preempts, yields, since), (shards, secs, forgets))| Job {
                priority,
                preempts,
                yields: yields.map(|(after, times)| Yields {
                    after: SignedDuration::from_secs(after),
                    times,
                }),
                since,
                waiting: (0..shards).map(|no| (no, secs)).collect(),
                secs,
                forgets,
                times: 0,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whoever comes when, however long they take and whatever they lose by it: all is done in the end, nobody is
    /// asked but for one that starts instead, and nobody lower comes in between.
    #[test]
    fn slots_do_not_go_to_and_fro(
        jobs in prop::collection::vec(job(), 1..8), slots in 1u32..5, dice in any::<u64>(),
    ) {
        let work: i64 = jobs.iter().map(|job| job.secs * job.waiting.len() as i64).sum();
        let most: i64 = jobs
            .iter()
            .map(|job| i64::from(job.yields.map_or(0, |y| y.times)) * (job.secs + 9))
            .sum();
        let budget: u32 = jobs.iter().filter_map(|job| job.yields).map(|y| y.times).sum();
        let mut pool = Pool {
            shares: Shares::default(),
            jobs,
            slots,
            running: BTreeMap::new(),
            now: 0,
            recalls: 0,
            grants_of_asking: 0,
            others: 0,
            dice,
        };
        let busy = |pool: &Pool| {
            !pool.running.is_empty() || pool.jobs.iter().any(|job| !job.waiting.is_empty())
        };
        while busy(&pool) {
            let gave = pool.work();
            pool.grant(&gave);
            pool.ask();
            prop_assert!(pool.now <= 400 + work + most, "it never ends");
            pool.now += 1;
        }
        prop_assert!(pool.recalls <= budget);
        prop_assert!(
            pool.recalls <= pool.grants_of_asking + pool.others,
            "{} were asked for {} that started", pool.recalls, pool.grants_of_asking
        );
    }
}
