//! One seeded stream of calls, driven into the memory store, into SQLite and (with its feature) into
//! PostgreSQL: the same answers, the same rows, the same events.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::executor::block_on;
use jiff::{SignedDuration, Timestamp};
use sichen_core::access::{Bounds, Grants, NewAccessToken, Purpose, Role};
use sichen_core::backfill::{self, Backfill, Mode, NewBackfill, Order, Start, Turn, Wanted};
use sichen_core::capacity::{Limits, Rate, Uses};
use sichen_core::dispatch::queue::{Place, Window};
use sichen_core::event::Kind;
use sichen_core::ids::{
    JobUid, NodeId, Occasion, OpId, Revision, RunId, SessionId, ShardKey, Term, Token,
};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::{Ending, Transition};
use sichen_core::lifecycle::{RunState, ShardState, StopCause, WaitsFor};
use sichen_core::model::{
    Appearance, Checkpoint, Decision, Dump, DutyKey, Failure, Job, NamespaceChange, Period,
    Progress, Shard, Waits, WorkerIdentity, partition_of,
};
use sichen_core::name::JobName;
use sichen_core::place::{Offer, Resources};
use sichen_core::port::{
    Advance, ApplyCapacity, ApplyJob, AttemptStore, BackfillStore, CalendarStore, CapacityStore,
    Counted, Discard, EventFilter, Fence, Finish, Grant, HistoryStore, JobStore, LeaseStore,
    MemberStore, NamespaceStore, NewRun, Op, Page, Reap, Register, RestoreStore, Returned,
    RunFilter, RunStore, Said, SaveCheckpoint, SessionStore, Span, Store, TimeStore, TokenStore,
};
use sichen_core::restore::{Decided, How, Subject};
use sichen_core::schedule::follow::{Follow, Wait};
use sichen_core::schedule::zones::{Taken, Zones};
use sichen_core::timeouts::Timeouts;
use sichen_store::clock::ManualClock;
use sichen_store::memory::MemoryStore;
use sichen_store::sqlite::SqliteStore;
use uuid::Uuid;

use crate::bench::{TTL, at, decide, name, nominal, terms};
use crate::fold;

mod checks;
mod recalls;
mod users;

/// Streams in each of the four tests below, which only share the work.
const STREAMS: u64 = 50;
const CALLS: u64 = 120;
const USER_CALLS: u64 = 30;

#[test]
fn memory_and_sqlite_give_the_same_answers_rows_and_events_1() {
    drive(0..STREAMS, |_| None);
}
#[test]
fn memory_and_sqlite_give_the_same_answers_rows_and_events_2() {
    drive(STREAMS..2 * STREAMS, |_| None);
}
#[test]
fn memory_and_sqlite_give_the_same_answers_rows_and_events_3() {
    drive(2 * STREAMS..3 * STREAMS, |_| None);
}
#[test]
fn memory_and_sqlite_give_the_same_answers_rows_and_events_4() {
    drive(3 * STREAMS..4 * STREAMS, |_| None);
}

/// Fewer streams: each call is a few round trips.
#[cfg(feature = "postgres")]
#[test]
fn postgres_gives_the_same_answers_rows_and_events() {
    let Some(server) = crate::postgres::Server::start() else {
        return;
    };
    drive(4 * STREAMS..5 * STREAMS, |clock| {
        let store = server.open(&server.new_schema(), Some(Arc::clone(clock) as _));
        Some(Box::new(store))
    });
}

/// Drives the streams `seeds` into a pair of stores each, and into a third if there is one.
fn drive(seeds: std::ops::Range<u64>, third: impl Fn(&Arc<ManualClock>) -> Option<Box<dyn Store>>) {
    let mut seen = Seen::default();
    for seed in seeds {
        let mut pair = Pair::new(seed);
        pair.third = third(&pair.clock);
        for _ in 0..CALLS {
            pair.step();
        }
        // Last, so that the streams before are what they were.
        for _ in 0..USER_CALLS {
            users::step(&mut pair);
        }
        pair.compare();
        seen.add(&pair.memory_dump());
    }
    seen.check();
}

/// What the streams must have met, or they compare nothing.
#[derive(Debug, Default)]
struct Seen(BTreeMap<&'static str, usize>);

impl Seen {
    fn add(&mut self, dump: &Dump) {
        for event in &dump.events {
            *self.0.entry(event.kind.word()).or_default() += 1;
        }
    }

    fn check(&self) {
        // A run of a backfill that succeeds is rare: not each fifty streams meet a check. No stream
        // accepts a step of the clock: the conformance suite does.
        let rare = [Kind::BackfillChecked, Kind::ClockAccepted];
        let met_here = |kind: &&Kind| !rare.contains(kind);
        for kind in Kind::ALL.iter().filter(met_here) {
            assert!(
                self.0.contains_key(kind.word()),
                "no {kind} in any stream: {self:?}"
            );
        }
    }
}

/// SplitMix64: small, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % sides.max(1) as u64) as usize
    }
    fn once_in(&mut self, n: usize) -> bool {
        self.roll(n) == 0
    }
    fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        if of.is_empty() {
            None
        } else {
            Some(&of[self.roll(of.len())])
        }
    }
}

struct Pair {
    seed: u64,
    dice: Dice,
    clock: Arc<ManualClock>,
    memory: MemoryStore,
    sqlite: SqliteStore,
    third: Option<Box<dyn Store>>,
    ops: u64,
    nodes: Vec<NodeId>,
    fences: Vec<Fence>,
    log: Vec<String>,
}

/// Makes the same call of both and compares the answers. Arguments are evaluated more than once.
macro_rules! both {
    ($pair:ident, $method:ident($($arg:expr),*)) => {{
        let call = format!("{}{:?}", stringify!($method), ($(&$arg,)*));
        let a = block_on($pair.memory.$method($($arg.clone()),*));
        let b = block_on($pair.sqlite.$method($($arg.clone()),*));
        $pair.log.push(format!("{call} = {a:?}"));
        let (left, right) = (format!("{a:?}"), format!("{b:?}"));
        assert!(
            left == right,
            "seed {}: {call}\nmemory: {left}\nsqlite: {right}\nafter:\n{}",
            $pair.seed,
            $pair.log.join("\n"),
        );
        if let Some(third) = &$pair.third {
            let right = format!("{:?}", block_on(third.$method($($arg.clone()),*)));
            assert!(
                left == right,
                "seed {}: {call}\nmemory: {left}\nthird: {right}\nafter:\n{}",
                $pair.seed,
                $pair.log.join("\n"),
            );
        }
        a
    }};
}
use both;

impl Pair {
    fn new(seed: u64) -> Self {
        let clock = Arc::new(ManualClock::new(at(0)));
        let memory = MemoryStore::new(Arc::clone(&clock) as _);
        let sqlite = SqliteStore::open_in_memory(Arc::clone(&clock) as _).expect("it opens");
        Self {
            seed,
            dice: Dice(seed),
            clock,
            memory,
            sqlite,
            third: None,
            ops: seed * 1_000_000,
            nodes: Vec::new(),
            fences: Vec::new(),
            log: Vec::new(),
        }
    }

    fn memory_dump(&self) -> Dump {
        block_on(self.memory.dump()).expect("it works")
    }

    fn compare(&self) {
        let a = self.memory_dump();
        let third = self.third.as_ref().map(|third| third.dump());
        for b in std::iter::once(self.sqlite.dump()).chain(third) {
            let b = block_on(b).expect("it works");
            let context = || format!("seed {} after:\n{}", self.seed, self.log.join("\n"));
            assert_eq!(a.jobs, b.jobs, "{}", context());
            assert_eq!(a.runs, b.runs, "{}", context());
            assert_eq!(a.shards, b.shards, "{}", context());
            assert_eq!(a.sessions, b.sessions, "{}", context());
            assert_eq!(a.duties, b.duties, "{}", context());
            assert_eq!(a.backfills, b.backfills, "{}", context());
            assert_eq!(a.checks, b.checks, "{}", context());
            assert_eq!(a.decisions, b.decisions, "{}", context());
            assert_eq!(a.calendars, b.calendars, "{}", context());
            assert_eq!(a.namespaces, b.namespaces, "{}", context());
            assert_eq!(a.calendar_uses, b.calendar_uses, "{}", context());
            assert_eq!(a.access_tokens, b.access_tokens, "{}", context());
            assert_eq!(a.users, b.users, "{}", context());
            assert_eq!(a.capacities, b.capacities, "{}", context());
            assert_eq!(a.capacity_uses, b.capacity_uses, "{}", context());
            assert_eq!(a.holds, b.holds, "{}", context());
            for (x, y) in a.events.iter().zip(&b.events) {
                assert_eq!(x, y, "{}", context());
            }
            assert_eq!(a.events.len(), b.events.len(), "{}", context());
        }
        fold::check(&a);
    }

    fn op(&mut self) -> Op {
        self.ops += 1;
        Op {
            id: OpId(Uuid::from_u128(u128::from(self.ops))),
            actor: "stream".to_owned(),
            hold: None,
        }
    }

    fn now(&self) -> Timestamp {
        block_on(self.memory.now()).expect("it works")
    }

    fn fence(&mut self, key: &DutyKey) -> Fence {
        let of_key: Vec<Fence> = self
            .fences
            .iter()
            .filter(|f| f.key == *key)
            .cloned()
            .collect();
        let newest = of_key.iter().max_by_key(|f| f.term).cloned();
        match newest {
            Some(fence) if !self.dice.once_in(12) => fence,
            _ => of_key.first().cloned().unwrap_or(Fence {
                key: key.clone(),
                term: Term(1),
            }),
        }
    }

    fn window(&mut self) -> Window {
        let mut some = || u32::try_from(self.dice.roll(5)).unwrap() + 1;
        Window {
            total: some() * 2,
            lane: some(),
            job: some(),
        }
    }

    fn pool(&mut self) -> DutyKey {
        let other = self.dice.once_in(8);
        DutyKey::Pool(name(if other { "other" } else { "default" }))
    }

    fn step(&mut self) {
        // Whoever reads the clock raises its mark, so both read it alike.
        both!(self, now()).expect("it works");
        let dump = self.memory_dump();
        match self.dice.roll(30) {
            0 => self.move_clock(),
            1 | 2 => self.duties(&dump),
            3 | 4 => self.apply(&dump),
            5 => self.pause_or_delete(&dump),
            6 | 7 => self.advance(&dump),
            8 | 9 => self.create(&dump),
            10 => self.stop_or_reopen(&dump),
            11 => self.register(),
            12 => self.sessions(&dump),
            13..=15 => self.lease(&dump),
            16..=18 => self.finish(&dump),
            19 => self.checkpoint(&dump),
            20 => self.reap(&dump),
            22 => self.recall(&dump),
            21 => self.janitor(&dump),
            24..=27 => self.backfill(&dump),
            28 => self.set_namespace(),
            29 => self.restore(&dump),
            _ => self.look(&dump),
        }
    }

    /// Mostly decided at once: while a store waits, hardly anything happens in it.
    fn restore(&mut self, dump: &Dump) {
        if self.dice.once_in(4) {
            let op = self.op();
            let known = u32::try_from(self.dice.roll(3)).unwrap();
            both!(self, begin_restore(op, known)).expect("begun");
        }
        let waits = both!(self, get_restore()).expect("it works");
        let epoch = waits.map_or(1, |restore| restore.epoch);
        for _ in 0..self.dice.roll(3) {
            let by_job = self.dice.once_in(2);
            let job = self.dice.pick(&dump.jobs).filter(|_| by_job);
            let run = self.dice.pick(&dump.runs).map(|run| run.id);
            let subject = match job.cloned() {
                Some(job) => {
                    let step = self.dice.once_in(2).then(|| self.step_of(&job, dump));
                    Subject::Job(job.uid, step)
                }
                None => Subject::Run(run.unwrap_or(RunId(77))),
            };
            self.decide_restore(epoch, subject);
        }
        if !self.dice.once_in(3) {
            self.decide_restore(epoch, Subject::Rest);
        }
        both!(self, get_restore()).expect("it works");
    }

    fn decide_restore(&mut self, epoch: u32, subject: Subject) {
        let op = self.op();
        let decided = Decided {
            epoch: epoch + u32::from(self.dice.once_in(9)),
            subject,
            how: How::ALL[self.dice.roll(3)],
            reason: "a reason".to_owned(),
            evidence: "rows".to_owned(),
        };
        both!(self, decide_restore(op, decided)).expect("decided");
        // The same again, as after an answer that was lost.
        if self.dice.once_in(4) {
            both!(self, decide_restore(op, decided)).expect("decided");
        }
    }

    fn set_namespace(&mut self) {
        let op = self.op();
        let namespace = name(if self.dice.once_in(3) {
            "other"
        } else {
            "default"
        });
        let most = u32::try_from(self.dice.roll(6)).unwrap();
        let change = NamespaceChange {
            weight: self.dice.once_in(2).then_some(50 * (most + 1)),
            max_running: self.dice.once_in(2).then_some((most > 2).then_some(most)),
            // Rarely, or too few runs would be written to see anything.
            max_queued: match most {
                0 => Some(Some(12)),
                1 | 2 => Some(None),
                _ => None,
            },
        };
        both!(self, set_namespace(op, namespace, change)).expect("set");
        let page = Page {
            after: None,
            limit: most,
        };
        drop(both!(self, list_namespaces(page)));
    }

    fn move_clock(&mut self) {
        let seconds = match self.dice.roll(6) {
            0 => -5,
            1 => 0,
            2 => 40,
            n => n as i64 * 2,
        };
        self.log.push(format!("clock {seconds:+} s"));
        self.clock.advance(SignedDuration::from_secs(seconds));
        both!(self, now()).expect("it works");
    }

    fn duties(&mut self, dump: &Dump) {
        let op = self.op();
        if self.nodes.is_empty() || self.dice.once_in(6) {
            let ttl = SignedDuration::from_secs(if self.dice.once_in(2) { 5 } else { 3_600 });
            self.nodes
                .push(both!(self, register_node(op, "here".to_owned(), ttl)).expect("node"));
            if let [.., former, _] = self.nodes[..]
                && self.nodes.len().is_multiple_of(2)
            {
                let op = self.op();
                both!(self, end_node(op, former, "gone".to_owned())).expect("ended");
            }
        }
        let node = *self.dice.pick(&self.nodes).expect("there is one");
        if self.dice.once_in(5) {
            both!(self, renew_node(node, TTL)).expect("renewed");
        }
        if self.dice.once_in(5) && !self.fences.is_empty() {
            let fence = self.dice.pick(&self.fences).expect("there is one").clone();
            let op = self.op();
            let fences = vec![fence];
            both!(self, release_duties(op, fences)).expect("released");
        }
        let mut keys = vec![
            self.pool(),
            DutyKey::Pool(name("default")),
            DutyKey::Janitor,
        ];
        keys.extend(
            dump.jobs
                .iter()
                .map(|j| DutyKey::Trigger(partition_of(j.uid))),
        );
        let op = self.op();
        let owned = both!(self, claim_duties(op, node, keys)).expect("claimed");
        self.fences.extend(owned);
        both!(self, list_members()).expect("listed");
    }

    fn apply(&mut self, dump: &Dump) {
        let text = ["a", "b", "c"][self.dice.roll(3)];
        let job_name = JobName {
            namespace: name("default"),
            name: name(text),
        };
        let existing = block_on(self.memory.get_job(job_name.clone())).expect("it works");
        let op = self.op();
        let version = self.dice.roll(3);
        let expected_ver = match (&existing, self.dice.roll(8)) {
            (_, 0) => Some(1),
            (_, 1) => None,
            (job, _) => job.as_ref().map(|job| job.ver),
        };
        let closing = existing
            .filter(|_| !self.dice.once_in(3))
            .map(|job| self.step_of(&job, dump));
        let apply = ApplyJob {
            zones: self.zones(),
            name: job_name,
            new_uid: JobUid(Uuid::from_u128(u128::from(self.ops) << 64)),
            expected_ver,
            document: format!("{{\"v\":{version}}}"),
            high_water: self.now(),
            next_due: Some(self.now() + SignedDuration::from_secs(10)),
            follow: self.dice.once_in(2).then(|| self.follow()),
            counted: self.dice.once_in(2),
            closing,
            calendars: self.uses(dump),
            uses: self.weights(),
            cause: ["", "why"][self.dice.roll(2)].to_owned(),
        };
        both!(self, apply_job(op, apply)).expect("applied");
        self.calendars(dump);
        self.access_tokens();
        self.capacities();
    }

    /// Versions of calendars that mostly are the newest ones.
    fn uses(&mut self, dump: &Dump) -> Vec<(JobName, u32)> {
        let mut newest: BTreeMap<JobName, u32> = BTreeMap::new();
        for (name, version, _) in &dump.calendars {
            newest.insert(name.clone(), *version);
        }
        newest.retain(|_, _| self.dice.once_in(2));
        if self.dice.once_in(8) {
            newest.values_mut().for_each(|version| *version += 1);
        }
        newest.into_iter().collect()
    }

    fn access_tokens(&mut self) {
        let token = name(["ci", "cd"][self.dice.roll(2)]);
        if self.dice.once_in(6) {
            let purpose = match self.dice.roll(2) {
                0 => Purpose::Api(Grants::everywhere(Role::Viewer)),
                _ => {
                    let bounds = Bounds::new(name("default"), Vec::new()).expect("good bounds");
                    let workers = vec!["w1".to_owned(), "etl-*".to_owned()];
                    Purpose::Join(bounds.of_workers(workers).expect("good bounds"))
                }
            };
            let lasts = SignedDuration::from_secs(20);
            let now = both!(self, now()).expect("read");
            let expires_at = self.dice.once_in(2).then(|| now + lasts);
            let new = NewAccessToken {
                name: token.clone(),
                purpose,
                digest: ["1", "2"][self.dice.roll(2)].repeat(64),
                expires_at,
            };
            let op = self.op();
            both!(self, create_access_token(op, new)).expect("created");
        }
        if self.dice.once_in(12) {
            let (op, token) = (self.op(), token.clone());
            both!(self, revoke_access_token(op, token)).expect("revoked");
        }
        if self.dice.once_in(12) {
            let names = vec![token.clone()];
            both!(self, note_access_tokens(names)).expect("noted");
        }
        let after = Some(token).filter(|_| self.dice.once_in(2));
        both!(
            self,
            list_access_tokens(Page {
                after: after.clone(),
                limit: 2
            })
        )
        .expect("listed");
        both!(self, list_believed()).expect("listed");
    }

    fn calendars(&mut self, dump: &Dump) {
        let named = |text| JobName {
            namespace: name("default"),
            name: name(text),
        };
        let calendar = named(["h", "k"][self.dice.roll(2)]);
        let found = block_on(self.memory.get_calendar(calendar.clone(), None)).expect("it works");
        let newest = found.map(|calendar| calendar.version);
        if self.dice.once_in(3) {
            let expected = match self.dice.roll(6) {
                0 => Some(1),
                1 => None,
                _ => newest,
            };
            let (op, document) = (self.op(), format!("{{\"v\":{}}}", self.dice.roll(3)));
            let calendar = calendar.clone();
            both!(self, apply_calendar(op, calendar, document, expected)).expect("applied");
        }
        if self.dice.once_in(12) {
            let (op, calendar) = (self.op(), calendar.clone());
            both!(self, delete_calendar(op, calendar)).expect("deleted");
        }
        let version = [None, Some(1), newest][self.dice.roll(3)];
        let asked = calendar.clone();
        both!(self, get_calendar(asked, version)).expect("read");
        let after = self.dice.pick(&dump.jobs).map(|job| job.uid);
        let of = Some(calendar.clone()).filter(|_| self.dice.once_in(2));
        let (after, limit) = (after.filter(|_| self.dice.once_in(2)), 2);
        both!(self, list_calendar_users(of.clone(), Page { after, limit })).expect("listed");
        let after = Some(calendar).filter(|_| self.dice.once_in(2));
        both!(
            self,
            list_calendars(Page {
                after: after.clone(),
                limit
            })
        )
        .expect("listed");
    }

    /// What attempts use of capacities, which may not be there.
    fn weights(&mut self) -> Uses {
        let mut uses = Vec::new();
        for text in ["x", "y"] {
            if self.dice.once_in(4) {
                uses.push((name(text), 1 + self.dice.roll(3) as u32));
            }
        }
        Uses::new(uses)
    }

    fn capacities(&mut self) {
        let capacity = name(["x", "y"][self.dice.roll(2)]);
        let asked = vec![capacity.clone()];
        let found = both!(self, get_capacities(asked)).expect("read").pop();
        let present = found.map(|standing| standing.capacity.ver);
        if self.dice.once_in(2) {
            let expected = match self.dice.roll(6) {
                0 => Some(1),
                1 => None,
                _ => present,
            };
            let rate = ["1/s", "3/m", "2/s"][self.dice.roll(3)];
            let burst = Some(1 + self.dice.roll(4) as u32);
            let limits = Limits {
                units: self.dice.once_in(2).then(|| self.dice.roll(6) as u32),
                rate: (self.dice.once_in(2)).then(|| Rate::parse(rate, burst).expect("a rate")),
            };
            let apply = ApplyCapacity {
                name: capacity.clone(),
                expected,
                document: limits.to_string(),
                limits,
            };
            let op = self.op();
            both!(self, apply_capacity(op, apply)).expect("applied");
        }
        if self.dice.once_in(12) {
            let (op, capacity) = (self.op(), capacity.clone());
            both!(self, delete_capacity(op, capacity)).expect("deleted");
        }
        let limit = 2;
        let of = capacity.clone();
        both!(self, list_holds(of.clone(), limit)).expect("listed");
        both!(self, list_waiters(of.clone(), limit)).expect("listed");
        let after = Some(capacity).filter(|_| self.dice.once_in(2));
        both!(
            self,
            list_capacities(Page {
                after: after.clone(),
                limit
            })
        )
        .expect("listed");
    }

    fn follow(&mut self) -> Follow {
        let (min, max) = (SignedDuration::from_secs(1), SignedDuration::from_secs(8));
        let wait = if self.dice.once_in(2) {
            Wait::Delay(SignedDuration::from_millis(1500))
        } else {
            Wait::Continuous { min, max }
        };
        let soon = self.now() + SignedDuration::from_secs(7);
        Follow {
            wait,
            start: self.dice.once_in(4).then_some(soon),
            end: None,
        }
    }

    fn zones(&mut self) -> Option<Zones> {
        let data = ["2025c", "2026a", "2026b"][self.dice.roll(3)];
        let taken = Taken {
            offset: 3_600 * self.dice.roll(3) as i32,
            change: None,
        };
        self.dice.once_in(2).then(|| Zones {
            data: data.to_owned(),
            taken: [("Asia/Tokyo".to_owned(), taken)].into(),
            ..Zones::default()
        })
    }

    /// A step of a job's schedule that mostly fits.
    fn step_of(&mut self, job: &Job, dump: &Dump) -> Advance {
        let to = job.high_water + SignedDuration::from_secs(self.dice.roll(20) as i64);
        let planned = |rerun| Occasion::Planned { at: to, rerun };
        let runs = (0..self.dice.roll(3) as u32)
            .map(|rerun| {
                let shards = self.descriptors();
                self.new_run(job, planned(rerun), shards, dump)
            })
            .collect();
        let reason = ["overlap", "deadline", "paused"][self.dice.roll(3)];
        let decisions = (0..self.dice.roll(2))
            .map(|_| Decision {
                from: job.high_water,
                to,
                count: 3,
                ..Decision::single(to, reason, String::new())
            })
            .collect();
        let records = dump.decisions.iter().filter(|(of, _)| *of == job.uid);
        let last = records.max_by_key(|(_, d)| (d.to, d.from)).map(|(_, d)| d);
        let lengthens = last.filter(|_| self.dice.once_in(3)).map(|last| Decision {
            from: if self.dice.once_in(6) {
                at(-1)
            } else {
                last.from
            },
            to,
            count: 2,
            ..last.clone()
        });
        let wrong = self.dice.once_in(10);
        Advance {
            zones: self.zones(),
            job: job.uid,
            revision: if wrong { Revision(99) } else { job.revision },
            from: if self.dice.once_in(12) {
                at(-1)
            } else {
                job.high_water
            },
            to,
            next_due: (!self.dice.once_in(4)).then(|| to + SignedDuration::from_secs(30)),
            pending: if wrong { None } else { job.pending() },
            counted: self.dice.once_in(3).then(|| Counted::of(job)),
            runs,
            lengthens,
            decisions,
        }
    }

    fn pause_or_delete(&mut self, dump: &Dump) {
        let Some(job) = self.dice.pick(&dump.jobs).cloned() else {
            return;
        };
        let ver = if self.dice.once_in(8) {
            job.ver + 1
        } else {
            job.ver
        };
        let op = self.op();
        if self.dice.once_in(4) {
            let mut closing = self.step_of(&job, dump);
            closing.runs.clear();
            let closing = self.dice.once_in(2).then_some(closing);
            both!(self, delete_job(op, job.uid, closing, ver)).expect("deleted");
        } else {
            let closing = self.step_of(&job, dump);
            let paused = job.paused == self.dice.once_in(4);
            both!(self, set_job_paused(op, paused, closing, ver)).expect("paused");
        }
    }

    fn advance(&mut self, dump: &Dump) {
        let mut fences = Vec::new();
        let mut items = Vec::new();
        for job in &dump.jobs {
            if self.dice.once_in(3) {
                continue;
            }
            items.push(self.step_of(job, dump));
            if !self.dice.once_in(10) {
                fences.push(self.fence(&DutyKey::Trigger(partition_of(job.uid))));
            }
        }
        if self.dice.once_in(2) {
            fences.push(self.fence(&DutyKey::Pool(name("default"))));
        }
        let op = self.op();
        both!(self, advance_schedules(op, fences, items)).expect("advanced");
    }

    fn descriptors(&mut self) -> Vec<Descriptor> {
        match self.dice.roll(6) {
            0 => vec![],
            1 => vec![Descriptor::Index; 5],
            2 => vec![Descriptor::Plan {
                data_source: "db".into(),
                sql: "select 1".into(),
            }],
            3 => vec![
                Descriptor::Range { from: -5, to: 5 },
                Descriptor::Item("x".into()),
            ],
            _ => vec![Descriptor::Whole],
        }
    }

    fn new_run(
        &mut self,
        job: &Job,
        occasion: Occasion,
        shards: Vec<Descriptor>,
        dump: &Dump,
    ) -> NewRun {
        let now = self.now();
        let mut terms = terms();
        if let DutyKey::Pool(pool) = self.pool() {
            terms.pool = pool;
        }
        terms.priority = self.dice.roll(3) as i32 - 1;
        terms.parallelism = 1 + self.dice.roll(4) as u32;
        terms.counts_must_match = self.dice.once_in(4);
        terms.deadline = self
            .dice
            .once_in(4)
            .then(|| now + SignedDuration::from_secs(30));
        terms.start_by = self
            .dice
            .once_in(8)
            .then(|| now + SignedDuration::from_secs(self.dice.roll(30) as i64));
        terms.uses = self.weights();
        let born = self.dice.once_in(3);
        let mut spaces = dump.namespaces.iter();
        let limited = spaces.any(|n| n.name == job.name.namespace && n.max_running.is_some());
        let what = self.dice.pick(WaitsFor::ALL).copied();
        let waits = what.filter(|_| self.dice.once_in(6)).map(|what| Waits {
            what,
            most: 1 + self.dice.roll(2) as u32,
        });
        NewRun {
            job: job.uid,
            occasion,
            revision: job.revision,
            period: self.dice.once_in(2).then_some(Period {
                start: at(0),
                end: now,
            }),
            nominal: self.dice.once_in(3).then(nominal),
            terms,
            shards: shards.into(),
            ready_at: now + SignedDuration::from_secs(self.dice.roll(3) as i64),
            backfill: None,
            waits,
            counted: self.dice.once_in(6).then(|| Counted::of(job)),
            digest: ["x", "y"][self.dice.roll(6) / 5].to_owned(),
            // Not every store counts a namespace's shards where it writes runs: one may grant, another may not.
            born_leased: self
                .dice
                .pick(&dump.sessions)
                .filter(|_| born && !limited)
                .map(|s| s.id),
            timeouts: self.timeouts(),
        }
    }

    fn timeouts(&mut self) -> Timeouts {
        let mut seconds = |s| self.dice.once_in(2).then_some(SignedDuration::from_secs(s));
        Timeouts {
            attempt: seconds(20),
            stall: seconds(5),
            active: seconds(25),
        }
    }

    fn create(&mut self, dump: &Dump) {
        let mut runs = Vec::new();
        for _ in 0..=self.dice.roll(4) {
            let Some(job) = self.dice.pick(&dump.jobs).cloned() else {
                return;
            };
            let key = format!("key {}", self.dice.roll(12));
            let shards = self.descriptors();
            runs.push(self.new_run(&job, Occasion::Manual { key }, shards, dump));
        }
        let fences = vec![self.fence(&DutyKey::Pool(name("default")))];
        let op = self.op();
        both!(self, create_runs(op, fences, runs)).expect("created");
    }

    fn any_run(&mut self, dump: &Dump) -> RunId {
        let run = self.dice.pick(&dump.runs).map(|run| run.id);
        run.filter(|_| !self.dice.once_in(20))
            .unwrap_or(RunId(987_654))
    }

    fn backfill(&mut self, dump: &Dump) {
        let Some(job) = self.dice.pick(&dump.jobs).cloned() else {
            return;
        };
        let op = self.op();
        if dump.backfills.is_empty() || self.dice.once_in(4) {
            let wanted = Wanted {
                from: at(0),
                to: at(10 + self.dice.roll(2) as i64),
                mode: Mode::ALL[self.dice.roll(3)],
                order: Order::ALL[self.dice.roll(2)],
                parallelism: 1 + self.dice.roll(4) as u32,
                rate: self.dice.once_in(2).then_some(6),
                verify: self.verify(),
                reason: "why".to_owned(),
            };
            let key = format!("key {}", self.dice.roll(3));
            let job = job.uid;
            let new = NewBackfill { job, key, wanted };
            both!(self, create_backfill(op, new)).expect("answered");
            return;
        }
        let backfill = self
            .dice
            .pick(&dump.backfills)
            .expect("there is one")
            .clone();
        let id = backfill.id;
        let fence = self.fence(&DutyKey::Trigger(partition_of(backfill.job)));
        match self.dice.roll(8) {
            6 | 7 => self.checks(&backfill, dump),
            0 => {
                let paused = backfill.state == backfill::State::Paused;
                let turn = match self.dice.roll(6) {
                    0 => Turn::Cancel,
                    1..=4 if paused => Turn::Resume,
                    5 if !paused => Turn::Resume,
                    _ => Turn::Pause,
                };
                let fence = self.dice.once_in(2).then_some(fence);
                let cause = "because".to_owned();
                both!(self, turn_backfill(op, fence, id, turn, cause)).expect("answered");
            }
            1 => {
                let page = Page {
                    after: self.dice.once_in(3).then_some(id),
                    limit: 1 + self.dice.roll(3) as u32,
                };
                drop(both!(self, get_backfill(id)));
                drop(both!(self, list_backfills(job.uid, page)));
                let all: Vec<u8> = (0..sichen_core::model::PARTITIONS).collect();
                drop(both!(self, list_running_backfills(all, page)));
                let filter = RunFilter {
                    backfill: Some(id),
                    ..RunFilter::default()
                };
                let page = Page {
                    after: None::<RunId>,
                    limit: 5,
                };
                drop(both!(self, list_runs(filter, page)));
                let page = Page {
                    after: self.dice.once_in(2).then_some(Revision(1)),
                    limit: 3,
                };
                drop(both!(self, list_revisions(job.uid, page)));
                let instants: Vec<Timestamp> = (0..12).map(at).collect();
                drop(both!(self, list_instants(job.uid, instants)));
                drop(both!(self, get_last_event()));
                let span = Span {
                    past: SignedDuration::from_mins(1),
                    ahead: SignedDuration::from_secs(20),
                    part: SignedDuration::from_secs(5),
                };
                drop(both!(self, get_overview(at(30), span)));
            }
            _ => {
                let advance = self.backfill_step(&backfill, dump);
                both!(self, advance_backfill(op, fence, advance)).expect("answered");
            }
        }
    }

    /// A step of a backfill that mostly fits.
    fn backfill_step(&mut self, of: &Backfill, dump: &Dump) -> backfill::Advance {
        let job = dump.jobs.iter().find(|j| j.uid == of.job).cloned();
        let job = job.expect("a backfill has a job");
        let mut starts = Vec::new();
        for _ in 0..self.dice.roll(3) {
            let closed = |r: &&sichen_core::model::Run| r.job == of.job && r.state.is_closed();
            let closed: Vec<_> = dump.runs.iter().filter(closed).collect();
            if let Some(run) = self.dice.pick(&closed)
                && self.dice.once_in(2)
            {
                let round = run.round + self.dice.roll(6) as u32 / 5;
                starts.push(Start::Reopen(run.id, round));
                continue;
            }
            let occasion = Occasion::Planned {
                at: at(self.dice.roll(12) as i64),
                rerun: self.dice.roll(3) as u32 / 2,
            };
            let shards = self.descriptors();
            let run = NewRun {
                waits: None,
                counted: None,
                born_leased: None,
                ..self.new_run(&job, occasion, shards, dump)
            };
            starts.push(Start::Write(Box::new(run)));
        }
        let to = of.place.settled + SignedDuration::from_secs(1);
        backfill::Advance {
            id: of.id,
            ver: of.ver + self.dice.roll(9) as u32 / 8,
            revision: job.revision,
            place: backfill::Place::at(to),
            next_at: self.dice.once_in(2).then(|| self.now()),
            left: self.dice.roll(4) as u64,
            starts,
            finish: self.dice.once_in(8),
        }
    }

    fn stop_or_reopen(&mut self, dump: &Dump) {
        let id = self.any_run(dump);
        let op = self.op();
        let failed = dump.runs.iter();
        let failed = failed.filter(|r| matches!(r.state, RunState::Failed | RunState::Partial));
        let failed: Vec<RunId> = failed.map(|r| r.id).collect();
        let turn = self.dice.roll(6);
        if turn < 2 {
            let letters = dump.shards.iter();
            let letters =
                letters.filter(|s| s.state == ShardState::Failed && failed.contains(&s.key.run));
            let letters: Vec<ShardKey> = letters.map(|s| s.key).collect();
            let key = self.dice.pick(&letters).copied();
            let key = key.unwrap_or(ShardKey::new(id, 0));
            let only = (!self.dice.once_in(4)).then(|| vec![key]);
            let why = Discard {
                by: "\"me\"".to_owned(),
                reason: "no use".to_owned(),
            };
            both!(self, discard_shards(op, key.run, only, why)).expect("answered");
        } else if turn < 5 {
            let closed = dump.runs.iter().filter(|r| r.state.is_closed());
            let closed: Vec<RunId> = closed.map(|r| r.id).collect();
            let from = if self.dice.once_in(2) { closed } else { failed };
            let id = self.dice.pick(&from).copied().unwrap_or(id);
            let only = self.dice.once_in(3).then(|| vec![ShardKey::new(id, 0)]);
            let ready_at = self.now();
            both!(self, reopen_run(op, id, only, ready_at)).expect("answered");
        } else {
            let cause = StopCause::ALL[self.dice.roll(3)];
            let job = dump.runs.iter().find(|r| r.id == id).map(|r| r.job);
            let fence = job
                .filter(|_| self.dice.once_in(2))
                .map(|job| self.fence(&DutyKey::Trigger(partition_of(job))));
            both!(self, request_stop(op, fence, id, cause)).expect("answered");
        }
    }

    fn offer(&mut self) -> Offer {
        let labels = [("zone".to_owned(), format!("zone {}", self.dice.roll(3)))];
        let cpu = ("cpu".to_owned(), 500 * self.dice.roll(4) as u64);
        Offer::new(
            labels.into_iter().take(self.dice.roll(2)).collect(),
            Resources::new([cpu]),
        )
    }

    fn register(&mut self) {
        let n = self.dice.roll(4);
        let DutyKey::Pool(pool) = self.pool() else {
            return;
        };
        let offer = self.offer();
        let register = Register {
            worker: WorkerIdentity {
                name: name(["w0", "w1", "w2", "w2"][n]),
                uid: format!("uid {n}"),
                boot_id: format!("boot {}", self.dice.roll(6) / 5),
                incarnation: format!("start {}", self.ops),
            },
            // Now and then one that was overtaken.
            appearance: Appearance {
                start: self.ops / 10 + 1 - u64::from(self.dice.once_in(3)),
                registration: 1 + self.ops % 10,
            },
            pool,
            slots: 1 + self.dice.roll(4) as u32,
            handlers: vec!["work".to_owned(), "\"odd\"".to_owned()],
            offer,
            ttl: TTL,
            old_trees_dead: self.dice.once_in(2),
        };
        let op = self.op();
        both!(self, register_session(op, register)).expect("registered");
    }

    fn any_session(&mut self, dump: &Dump) -> SessionId {
        let live: Vec<_> = dump
            .sessions
            .iter()
            .filter(|s| s.ended.is_none())
            .map(|s| s.id)
            .collect();
        if self.dice.once_in(15) {
            return dump.sessions.first().map_or(SessionId(987_654), |s| s.id);
        }
        self.dice.pick(&live).copied().unwrap_or(SessionId(987_655))
    }

    fn sessions(&mut self, dump: &Dump) {
        let sessions: Vec<SessionId> = (0..3).map(|_| self.any_session(dump)).collect();
        both!(self, renew_sessions(sessions, TTL)).expect("renewed");
        let session = self.any_session(dump);
        if self.dice.once_in(8) {
            both!(self, drain_session(session)).expect("drained");
        }
        if self.dice.once_in(3) {
            let fence =
                (!self.dice.once_in(3)).then(|| self.fence(&DutyKey::Pool(name("default"))));
            let cause = if fence.is_some() {
                "expired"
            } else {
                "drained"
            }
            .to_owned();
            let op = self.op();
            both!(self, end_session(op, fence, session, cause)).expect("ended");
        }
    }

    fn lease(&mut self, dump: &Dump) {
        let DutyKey::Pool(pool) = self.pool() else {
            return;
        };
        let fence = self.fence(&DutyKey::Pool(pool.clone()));
        let window = self.window();
        let ready = both!(self, list_ready(pool, Place::FIRST, window, 3)).expect("listed");
        let mut keys: Vec<(ShardKey, Token)> = ready.into_iter().flat_map(|h| h.shards).collect();
        if let Some(shard) = self.dice.pick(&dump.shards) {
            keys.push((shard.key, shard.token));
        }
        if self.dice.once_in(6) {
            keys.push((ShardKey::new(RunId(987_654), 0), Token(0)));
        }
        let grants: Vec<Grant> = keys
            .into_iter()
            .map(|(key, token)| Grant {
                key,
                token: if self.dice.once_in(15) {
                    Token(token.0 + 1)
                } else {
                    token
                },
                session: self.any_session(dump),
                timeouts: self.timeouts(),
                most_of_job: self.dice.once_in(4).then_some(2),
            })
            .collect();
        let op = self.op();
        both!(self, lease_shards(op, fence, grants)).expect("leased");
    }

    fn transition(&mut self, dump: &Dump, shard: &Shard, now: Timestamp) -> Transition {
        const ENDINGS: [Ending; 8] = [
            Ending::Succeeded,
            Ending::Succeeded,
            Ending::Succeeded,
            Ending::Failed,
            Ending::FailedForGood,
            Ending::FailedRun,
            Ending::TimedOut,
            Ending::Released,
        ];
        let run = dump.runs.iter().find(|r| r.id == shard.key.run);
        let stop = run.and_then(|r| r.stop);
        let deadline = run.and_then(|r| r.terms.deadline);
        // Sometimes decided before the stop was seen.
        let stop = stop
            .map(|(cause, _)| cause)
            .filter(|_| !self.dice.once_in(4));
        let ending = ENDINGS[self.dice.roll(8)];
        let decided = decide(shard, stop, deadline, ending, now).unwrap_or(Transition::SUCCESS);
        Transition {
            max_failures: self.dice.once_in(3).then_some(4),
            ..decided
        }
    }

    fn finish(&mut self, dump: &Dump) {
        let now = self.now();
        let running = |s: &&Shard| s.state == ShardState::Running;
        let mut shards: Vec<Shard> = dump.shards.iter().filter(running).cloned().collect();
        shards.truncate(4);
        shards.extend(self.dice.pick(&dump.shards).cloned());
        let items: Vec<Finish> = shards
            .into_iter()
            .map(|shard| {
                let transition = self.transition(dump, &shard, now);
                let token = match self.dice.roll(15) {
                    0 => Token(shard.token.0.saturating_sub(1)),
                    1 => Token(shard.token.0 + 1),
                    _ => shard.token,
                };
                let expand = matches!(shard.descriptor, Descriptor::Plan { .. })
                    .then(|| vec![Descriptor::Index; self.dice.roll(3)]);
                let failed = transition.to != ShardState::Succeeded;
                let transition_end = transition.end;
                Finish {
                    by: None,
                    author: (!self.dice.once_in(3))
                        .then(|| ["worker a", "worker b"][self.dice.roll(2)].into()),
                    key: shard.key,
                    token,
                    transition,
                    digest: ["p", "q"][self.dice.roll(6) / 5].to_owned(),
                    progress: self.dice.once_in(2).then(|| self.progress()),
                    failure: failed.then(|| Failure {
                        code: "exit-1".into(),
                        message: "no".into(),
                    }),
                    expand,
                    said: Said {
                        run_key: "a:manual:key".to_owned(),
                        end: transition_end,
                        returned: self.returned(),
                    },
                }
            })
            .collect();
        let op = self.op();
        both!(self, finish_attempts(op, items)).expect("finished");
        // The same reports again: nothing more may happen.
        if self.dice.once_in(3) {
            both!(self, finish_attempts(op, items)).expect("finished");
        }
    }

    fn returned(&mut self) -> Returned {
        match self.dice.roll(3) {
            0 => Returned::Nothing,
            1 => Returned::of(br#"{"rows": 9000, "big": 123456789012345678901}"#),
            _ => Returned::TooLong(300_000),
        }
    }

    fn progress(&mut self) -> Progress {
        Progress {
            done: self.dice.roll(5) as u64,
            expected: (!self.dice.once_in(3)).then_some(self.dice.roll(5) as u64),
            rate_milli: self.dice.roll(9_000) as u64,
            waiting_on: ["", "mysql-main"][self.dice.roll(2)].to_owned(),
        }
    }

    fn checkpoint(&mut self, dump: &Dump) {
        let mut items = Vec::new();
        for shard in dump
            .shards
            .iter()
            .filter(|s| s.state == ShardState::Running)
        {
            let seq = shard.checkpoint.seq + self.dice.roll(3) as u64;
            items.push(SaveCheckpoint {
                key: shard.key,
                token: if self.dice.once_in(9) {
                    Token(0)
                } else {
                    shard.token
                },
                session: shard
                    .session
                    .filter(|_| !self.dice.once_in(9))
                    .unwrap_or(SessionId(1)),
                checkpoint: (!self.dice.once_in(4)).then(|| Checkpoint {
                    seq,
                    position: format!("\"row\" {seq}"),
                }),
                progress: self.progress(),
                idle: SignedDuration::from_secs(self.dice.roll(9) as i64 - 1),
            });
        }
        items.truncate(6);
        let op = self.op();
        both!(self, save_checkpoints(op, items)).expect("saved");
    }

    fn reap(&mut self, dump: &Dump) {
        let now = self.now();
        let DutyKey::Pool(pool) = self.pool() else {
            return;
        };
        let grace = SignedDuration::from_secs(2);
        let overdue = both!(self, list_overdue(pool, grace, 1_000)).expect("listed");
        let fence = self.fence(&DutyKey::Pool(pool));
        let mut reaps: Vec<Reap> = Vec::new();
        let extra = self.dice.pick(&dump.shards).cloned();
        for shard in overdue.into_iter().map(|o| o.shard).chain(extra) {
            let ending = if self.dice.once_in(4) {
                Ending::TimedOut
            } else {
                Ending::Lost
            };
            let run = dump.runs.iter().find(|r| r.id == shard.key.run);
            let stop = run.and_then(|r| r.stop).map(|(cause, _)| cause);
            let deadline = run.and_then(|r| r.terms.deadline);
            reaps.push(Reap {
                key: shard.key,
                token: shard.token,
                transition: decide(&shard, stop, deadline, ending, now)
                    .unwrap_or(Transition::SUCCESS),
                failure: Failure {
                    code: "session_expired".into(),
                    message: String::new(),
                },
                only_if_session_over: !self.dice.once_in(4),
                dead_by: self
                    .dice
                    .once_in(2)
                    .then(|| now + SignedDuration::from_secs(15)),
            });
        }
        let op = self.op();
        both!(self, reap_shards(op, fence, reaps)).expect("reaped");
    }

    fn janitor(&mut self, dump: &Dump) {
        let partitions: Vec<u8> = (0..64).filter(|_| !self.dice.once_in(8)).collect();
        both!(self, list_late_runs(partitions, 100)).expect("listed");
        let run = self.any_run(dump);
        both!(self, list_running(run, 3)).expect("listed");
        let fences: Vec<Fence> = dump
            .jobs
            .iter()
            .map(|j| self.fence(&DutyKey::Trigger(partition_of(j.uid))))
            .collect();
        let op = self.op();
        both!(self, settle_runs(op, fences, 100)).expect("settled");
        if self.dice.once_in(3) {
            let fence = self.fence(&DutyKey::Janitor);
            let before = self.now() - SignedDuration::from_secs(30);
            let op = self.op();
            // An old term is an error here, the same in both; but memory remembers the operation
            // all the same, so nobody asks for it.
            if both!(self, remove_history(op, fence, before, 1_000)).is_err() {
                self.ops += 3;
            }
        }
    }

    fn look(&mut self, dump: &Dump) {
        let run = self.any_run(dump);
        let page = Page {
            after: None::<RunId>,
            limit: 1 + self.dice.roll(4) as u32,
        };
        match self.dice.roll(14) {
            0 => {
                drop(both!(self, get_run(run)));
                let after = at(self.dice.roll(100) as i64);
                let ended = Page {
                    after: self.dice.once_in(2).then_some((after, run)),
                    limit: page.limit,
                };
                let until = at(self.dice.roll(200) as i64);
                drop(both!(self, list_ended_runs(until, ended)));
            }
            1 => {
                let filter = RunFilter {
                    job: dump
                        .jobs
                        .first()
                        .filter(|_| self.dice.once_in(2))
                        .map(|j| j.uid),
                    state: self
                        .dice
                        .pick(RunState::ALL)
                        .copied()
                        .filter(|_| self.dice.once_in(2)),
                    open: false,
                    backfill: None,
                };
                let filter = match filter {
                    RunFilter { job: Some(_), .. } if self.dice.once_in(2) => RunFilter {
                        state: None,
                        open: true,
                        ..filter
                    },
                    other => other,
                };
                let after = self.dice.once_in(2).then_some(run);
                let page = Page { after, ..page };
                drop(both!(self, list_runs(filter, page)));
            }
            2 => {
                let filter = EventFilter {
                    run: self.dice.once_in(2).then_some(run),
                    shard: self.dice.once_in(3).then(|| ShardKey::new(run, 0)),
                };
                let page = Page {
                    after: Some(self.dice.roll(50) as u64),
                    limit: page.limit,
                };
                drop(both!(self, list_events(filter, page)));
            }
            3 => {
                let DutyKey::Pool(pool) = self.pool() else {
                    return;
                };
                let after = dump.runs.iter().find(|r| r.id == run);
                let after = after.map_or(Place::FIRST, Place::of);
                let window = self.window();
                drop(both!(self, list_ready(pool, after, window, 2)));
                let after = at(self.dice.roll(100) as i64);
                drop(both!(self, next_ready_at(pool, after)));
            }
            4 => drop(both!(self, list_sessions(Some(name("default"))))),
            5 => drop(both!(self, list_sessions(None::<sichen_core::name::Name>))),
            6 => {
                let session = self.any_session(dump);
                drop(both!(self, list_leases(session)));
                drop(both!(self, get_session(session)));
            }
            7 => {
                let keys = vec![
                    ShardKey::new(run, 0),
                    ShardKey::new(run, 1),
                    ShardKey::new(run, -1),
                ];
                drop(both!(self, get_shards(keys)));
            }
            8 => {
                let page = Page {
                    after: self.dice.once_in(2).then_some(0),
                    limit: page.limit,
                };
                drop(both!(self, list_shards(run, page)));
            }
            9 => {
                let Some(run) = dump.runs.first() else { return };
                drop(both!(self, find_run(run.job, run.occasion)));
            }
            10 => {
                let op = OpId(Uuid::from_u128(u128::from(
                    self.ops - self.dice.roll(3) as u64,
                )));
                drop(both!(self, find_op(op)));
            }
            11 => {
                let Some(job) = self.dice.pick(&dump.jobs).cloned() else {
                    return;
                };
                let from = at(self.dice.roll(60) as i64);
                drop(both!(self, list_decisions(job.uid, from, 5)));
                drop(both!(self, get_job(job.name)));
                drop(both!(self, get_job_by_uid(job.uid)));
                both!(self, count_open_runs(vec![job.uid])).expect("counted");
                let revision = Revision(1 + self.dice.roll(3) as u32);
                drop(both!(self, get_revision(job.uid, revision)));
            }
            12 => {
                let partitions: Vec<u8> = (0..64).filter(|_| !self.dice.once_in(8)).collect();
                let until = self.now() + SignedDuration::from_secs(20);
                let known = partitions.clone();
                drop(both!(self, list_due_jobs(partitions, until, page.limit)));
                let data = ["2026a", "2026b"][self.dice.roll(2)].to_owned();
                drop(both!(self, list_outdated_jobs(known, data, page.limit)));
            }
            _ => {
                let after = dump
                    .jobs
                    .first()
                    .filter(|_| self.dice.once_in(2))
                    .map(|j| j.name.clone());
                let page = Page {
                    after,
                    limit: page.limit,
                };
                drop(both!(self, list_jobs(page)));
            }
        }
    }
}
