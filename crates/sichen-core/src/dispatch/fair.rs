//! Who goes first: shares of a pool by namespace, lane and job; priority inside; ageing.
//!
//! A namespace's account says how much slot time it has used, divided by its weight. A free slot goes to the
//! namespace whose account, with one [`QUANTUM`] for each shard that it holds now, is the least: what was used
//! makes shares right over time, what is held makes them right at once, and how long a shard takes need not be
//! known ahead. Within a namespace the same holds between its lanes, and within a lane between the jobs of the
//! highest priority; the runs of a job take turns.
//!
//! After start-time fair queueing (Goyal, Vin, Cheng, 1996), with time used in place of an estimated cost.
//!
//! # Invariants
//! - Who used nothing while it had nothing to do gets no credit for that: it enters where the least of the
//!   others is. Nobody pays for slots that no one else wanted.
//! - A job that waits rises by one priority each [`AGE`], and falls back when it is served; so do runs
//!   within a job. One that yields its slots ([`super::preempt`]) does not rise while it holds any.
//! - Memory is bounded: an account is kept while something waits or runs, or it is ahead of the others; and at
//!   most [`MAX_ACCOUNTS`] of them.
//!
//! # Not here
//! Limits (the store checks them), placing (`super::plan`), which runs are looked at ([`super::queue`]).

mod flow;
mod turns;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::ReadyRun;
use super::queue::Lane;
use crate::ids::{JobUid, RunId, SessionId, ShardKey};
use crate::name::Name;
use crate::place::Places;
use turns::Turns;

pub use flow::Flow;

/// The weight of a namespace that has none of its own.
pub const WEIGHT: u32 = 100;
/// The largest weight.
pub const MAX_WEIGHT: u32 = 10_000;
/// The weight of live runs in their namespace, and of those of its backfills.
const LANE_WEIGHTS: (u32, u32) = (4, 1);
/// What a shard that is held counts as, besides what it has used.
pub const QUANTUM: SignedDuration = SignedDuration::from_secs(1);
/// A job that is not served for so long goes before those of the next higher priority.
pub const AGE: SignedDuration = SignedDuration::from_mins(1);
/// Accounts and turns that are remembered of namespaces, of the jobs of a lane, and of runs.
pub const MAX_ACCOUNTS: usize = 20_000;
/// Parts of a microsecond of weight 1.
const SCALE: u128 = 1 << 20;

/// What was used, and what is held.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// Slot time by weight, up to `at`.
    used: u128,
    held: u32,
    at: Timestamp,
    weight: u32,
    /// Whether something of it waited at the last offer.
    waiting: bool,
    /// Its last grant.
    served: Timestamp,
    /// When it last held one shard less.
    left: Timestamp,
}

impl Account {
    fn new(weight: u32, now: Timestamp) -> Self {
        Self {
            used: 0,
            held: 0,
            at: now,
            weight,
            waiting: false,
            served: Timestamp::MIN,
            left: Timestamp::MIN,
        }
    }

    fn accrue(&mut self, now: Timestamp) {
        if now > self.at {
            self.used += u128::from(self.held) * self.cost(now.duration_since(self.at));
            self.at = now;
        }
    }

    fn cost(&self, length: SignedDuration) -> u128 {
        u128::try_from(length.as_micros()).unwrap_or(0) * SCALE / u128::from(self.weight.max(1))
    }

    fn key(&self, held: u32) -> u128 {
        self.used + u128::from(held) * self.cost(QUANTUM)
    }

    fn is_active(&self) -> bool {
        self.waiting || self.held > 0
    }

    fn grant(&mut self, now: Timestamp) {
        self.accrue(now);
        self.held += 1;
        self.served = now;
    }

    fn end(&mut self, now: Timestamp) {
        self.accrue(now);
        self.held = self.held.saturating_sub(1);
        self.left = now;
    }
}

#[derive(Clone, Debug)]
struct Space {
    account: Account,
    lanes: BTreeMap<Lane, Jobs>,
}

#[derive(Clone, Debug)]
struct Jobs {
    account: Account,
    jobs: BTreeMap<JobUid, Account>,
}

/// The accounts of one pool.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    spaces: BTreeMap<Name, Space>,
    weights: BTreeMap<Name, u32>,
    /// The most that namespaces may hold here; without limit if they are not among them.
    caps: BTreeMap<Name, u32>,
    /// Jobs that may hold no more, as the store has said.
    full_jobs: BTreeSet<JobUid>,
    held: BTreeMap<ShardKey, (SessionId, Arc<Flow>)>,
    by_session: BTreeMap<SessionId, BTreeSet<ShardKey>>,
    turns: Turns,
    /// What placement remembers.
    pub places: Places,
}

impl Shares {
    /// Sets the weights of namespaces; all others have [`WEIGHT`].
    pub fn weigh(&mut self, weights: BTreeMap<Name, u32>, now: Timestamp) {
        self.weights = weights;
        for (name, space) in &mut self.spaces {
            space.account.accrue(now);
            space.account.weight = self.weights.get(name).copied().unwrap_or(WEIGHT).max(1);
        }
    }

    /// Sets how many shards of this pool namespaces may hold; all others have no limit.
    pub fn cap(&mut self, caps: BTreeMap<Name, u32>) {
        self.caps = caps;
        self.full_jobs.clear();
    }

    /// Closes a job: it may hold no more, until one of its shards ends or limits are set anew.
    pub fn close_job(&mut self, job: JobUid) {
        self.full_jobs.insert(job);
    }

    /// How many more shards of a job may be held, if it may hold so many in all.
    #[must_use]
    pub fn left_of_job(&self, flow: &Flow, most: u32) -> u32 {
        if most == u32::MAX {
            return most;
        }
        if self.full_jobs.contains(&flow.job) {
            return 0;
        }
        let lanes = self
            .spaces
            .get(&flow.namespace)
            .map(|space| space.lanes.values());
        let jobs = lanes
            .into_iter()
            .flatten()
            .filter_map(|lane| lane.jobs.get(&flow.job));
        most.saturating_sub(jobs.map(|job| job.held).sum())
    }

    /// Closes a namespace: it may hold no more than it does now, until that is set anew.
    pub fn close(&mut self, namespace: &Name) {
        self.caps.insert(namespace.clone(), self.held_by(namespace));
    }

    /// How many more shards a namespace may hold here; `None` if it is not limited.
    #[must_use]
    pub fn room(&self, namespace: &Name) -> Option<u32> {
        let most = self.caps.get(namespace)?;
        Some(most.saturating_sub(self.held_by(namespace)))
    }

    /// How many more shards each limited namespace may hold here.
    #[must_use]
    pub fn rooms(&self) -> BTreeMap<Name, u32> {
        let caps = self.caps.keys();
        caps.filter_map(|name| Some((name.clone(), self.room(name)?)))
            .collect()
    }

    /// Whether any namespace is limited.
    #[must_use]
    pub fn has_caps(&self) -> bool {
        !self.caps.is_empty()
    }

    /// A shard was granted.
    pub fn granted(&mut self, key: ShardKey, session: SessionId, flow: Arc<Flow>, now: Timestamp) {
        // A grant that is told twice.
        self.ended(key, now);
        for account in self.path(&flow, now) {
            account.grant(now);
        }
        self.turns.take(key.run, now);
        self.held.insert(key, (session, flow));
        self.by_session.entry(session).or_default().insert(key);
    }

    /// A shard is held no longer.
    pub fn ended(&mut self, key: ShardKey, now: Timestamp) {
        self.places.ended(key);
        let Some((session, flow)) = self.held.remove(&key) else {
            return;
        };
        if let Some(keys) = self.by_session.get_mut(&session) {
            keys.remove(&key);
            if keys.is_empty() {
                self.by_session.remove(&session);
            }
        }
        self.full_jobs.remove(&flow.job);
        for account in self.path(&flow, now) {
            account.end(now);
        }
    }

    /// An attempt ended, failed or not: its end itself is told by [`Shares::ended`].
    pub fn judged(&mut self, key: ShardKey, failed: bool, now: Timestamp) {
        if let Some((session, flow)) = self.held.get(&key) {
            self.places.judged(flow.job, *session, failed, now);
        }
    }

    /// How many shards of a run sessions hold, as far as is known here.
    #[must_use]
    pub fn held_of_run(&self, run: RunId) -> BTreeMap<SessionId, u32> {
        let mut held = BTreeMap::new();
        let of = ShardKey::new(run, i32::MIN)..=ShardKey::new(run, i32::MAX);
        for (_, (session, _)) in self.held.range(of) {
            *held.entry(*session).or_default() += 1;
        }
        held
    }

    /// The sessions that are left, with how many shards each holds; those of which something else is known
    /// are to be told anew ([`Shares::holds`]).
    pub fn sessions(&mut self, left: &BTreeMap<SessionId, u32>, now: Timestamp) -> Vec<SessionId> {
        let known = self.by_session.keys();
        let gone: Vec<SessionId> = known.filter(|s| !left.contains_key(s)).copied().collect();
        for session in gone {
            self.holds(session, Vec::new(), now);
        }
        self.places.keep(|session| left.contains_key(session));
        let mut differing = Vec::new();
        for (session, held) in left {
            let known = self.by_session.get(session).map_or(0, BTreeSet::len);
            self.places.set_unsure(*session, *held as usize > known);
            if *held as usize != known {
                differing.push(*session);
            }
        }
        differing
    }

    /// What a session holds, as the store says.
    pub fn holds(&mut self, session: SessionId, held: Vec<(ShardKey, Flow)>, now: Timestamp) {
        let keys: BTreeSet<ShardKey> = held.iter().map(|(key, _)| *key).collect();
        let known = self.by_session.get(&session).into_iter().flatten();
        let over: Vec<ShardKey> = known.filter(|key| !keys.contains(key)).copied().collect();
        for key in over {
            self.ended(key, now);
        }
        for (key, flow) in held {
            if !self.held.contains_key(&key) {
                self.granted(key, session, Arc::new(flow), now);
            }
        }
        self.places.set_unsure(session, false);
    }

    /// How many shards of a namespace are held, as far as is known here.
    #[must_use]
    pub fn held_by(&self, namespace: &Name) -> u32 {
        self.spaces.get(namespace).map_or(0, |s| s.account.held)
    }

    fn path(&mut self, flow: &Flow, now: Timestamp) -> [&mut Account; 3] {
        if !self.spaces.contains_key(&flow.namespace) {
            let weight = self.weights.get(&flow.namespace).copied();
            let space = Space {
                account: Account::new(weight.unwrap_or(WEIGHT).max(1), now),
                lanes: BTreeMap::new(),
            };
            self.spaces.insert(flow.namespace.clone(), space);
        }
        let space = self.spaces.get_mut(&flow.namespace);
        let space = space.expect("it was put there if it was missing");
        let lane = space.lanes.entry(flow.lane).or_insert_with(|| Jobs {
            account: Account::new(lane_weight(flow.lane), now),
            jobs: BTreeMap::new(),
        });
        let job = lane.jobs.entry(flow.job);
        let job = job.or_insert_with(|| Account::new(1, now));
        [&mut space.account, &mut lane.account, job]
    }

    /// What waits now: those who come in do so where the least of the others is.
    fn offer<'a>(&mut self, runs: impl Iterator<Item = &'a ReadyRun>, now: Timestamp) {
        type Offered<'a> = BTreeMap<&'a Name, BTreeMap<Lane, BTreeSet<JobUid>>>;
        let mut offered: Offered<'a> = BTreeMap::new();
        for run in runs {
            let lanes = offered.entry(&run.flow.namespace).or_default();
            lanes.entry(run.flow.lane).or_default().insert(run.flow.job);
        }
        for (name, lanes) in &offered {
            for (lane, jobs) in lanes {
                for job in jobs {
                    let (namespace, lane, job) = ((*name).clone(), *lane, *job);
                    self.path(
                        &Flow {
                            namespace,
                            lane,
                            job,
                        },
                        now,
                    );
                }
            }
        }
        let accounts = self.spaces.iter_mut().map(|(k, s)| (k, &mut s.account));
        enter(accounts, |name| offered.contains_key(name), now);
        for (name, space) in &mut self.spaces {
            let lanes = offered.get(name);
            let accounts = space.lanes.iter_mut().map(|(k, l)| (k, &mut l.account));
            let waits = |lane: &Lane| lanes.is_some_and(|lanes| lanes.contains_key(lane));
            enter(accounts, waits, now);
            for (lane, state) in &mut space.lanes {
                let jobs = lanes.and_then(|lanes| lanes.get(lane));
                let waits = |job: &JobUid| jobs.is_some_and(|jobs| jobs.contains(job));
                enter(state.jobs.iter_mut(), waits, now);
                let idle = |a: &Account, least| !a.is_active() && a.used <= least;
                let least = least(state.jobs.values());
                let many = state.jobs.len() > MAX_ACCOUNTS;
                state
                    .jobs
                    .retain(|_, a| !idle(a, least) && (!many || a.is_active()));
            }
        }
        let least = least(self.spaces.values().map(|space| &space.account));
        let many = self.spaces.len() > MAX_ACCOUNTS;
        self.spaces.retain(|_, space| {
            let account = &space.account;
            account.is_active() || (account.used > least && !many)
        });
    }
}

fn lane_weight(lane: Lane) -> u32 {
    match lane {
        Lane::Live => LANE_WEIGHTS.0,
        Lane::Backfill => LANE_WEIGHTS.1,
    }
}

/// The least account among those that take part.
fn least<'a>(accounts: impl Iterator<Item = &'a Account>) -> u128 {
    let active = accounts.filter(|a| a.is_active());
    active.map(|a| a.used).min().unwrap_or(u128::MAX)
}

fn enter<'a, K: 'a>(
    accounts: impl Iterator<Item = (&'a K, &'a mut Account)>,
    waits: impl Fn(&K) -> bool,
    now: Timestamp,
) {
    let mut coming = Vec::new();
    let mut base = None;
    for (key, account) in accounts {
        account.accrue(now);
        if account.is_active() {
            base = Some(base.map_or(account.used, |base: u128| base.min(account.used)));
        }
        let waits = waits(key);
        if waits && !account.is_active() {
            coming.push(account);
        } else {
            account.waiting = waits;
        }
    }
    for account in coming {
        account.waiting = true;
        account.used = account.used.max(base.unwrap_or(0));
    }
}

/// What waited for so long has risen by so much.
fn aged(priority: i32, since: Timestamp, now: Timestamp) -> i32 {
    let waited = now.duration_since(since).as_secs().max(0);
    let levels = waited / AGE.as_secs();
    priority.saturating_add(i32::try_from(levels).unwrap_or(i32::MAX))
}

/// The order in which the offered runs are served, as it changes with each grant.
pub(super) struct Order {
    spaces: Vec<SpaceNode>,
    /// By account; the first is served next.
    order: BTreeSet<(u128, usize)>,
    turn: u64,
}

struct SpaceNode {
    account: Account,
    held: u32,
    /// The most that it may hold: parked under that until one of its shards ends.
    most: u32,
    lanes: Vec<LaneNode>,
    order: BTreeSet<(u128, usize)>,
}

struct LaneNode {
    account: Account,
    held: u32,
    jobs: Vec<JobNode>,
    order: BTreeSet<(Reverse<i32>, u128, usize)>,
}

struct JobNode {
    account: Account,
    held: u32,
    /// How many more it may be given.
    left: u32,
    /// By aged priority, then turn, then run; with the place in the plan's list and the run's own priority.
    order: BTreeSet<(Reverse<i32>, u64, RunId, usize, i32)>,
    /// Its aged priority when it was entered in the lane.
    rank: i32,
    /// Since when it waits without being served.
    since: Timestamp,
}

impl JobNode {
    /// Whether it has something to give away and may.
    fn is_open(&self) -> bool {
        !self.order.is_empty() && self.left > 0
    }

    /// Where the job stands in its lane.
    fn rank(&self, now: Timestamp) -> i32 {
        let first = self.order.first();
        first.map_or(i32::MIN, |(.., priority)| aged(*priority, self.since, now))
    }
}

/// Which run is next.
#[derive(Clone, Copy)]
pub(super) struct Next {
    path: [usize; 3],
    /// Its place in the plan's list.
    pub run: usize,
}

impl Order {
    /// The order of those of `runs` that count, by their place in the list, at the instant `now`.
    pub fn of(
        shares: &mut Shares,
        runs: &[ReadyRun],
        counts: impl Fn(usize) -> bool,
        now: Timestamp,
    ) -> Self {
        let counted = || runs.iter().enumerate().filter(|(n, _)| counts(*n));
        shares.offer(counted().map(|(_, run)| run), now);
        let mut grouped: BTreeMap<&Flow, Vec<usize>> = BTreeMap::new();
        for (n, run) in counted() {
            grouped.entry(&run.flow).or_default().push(n);
        }
        let mut spaces: Vec<SpaceNode> = Vec::new();
        let mut last: Option<(&Name, Lane)> = None;
        for (flow, places) in grouped {
            let Some(space) = shares.spaces.get(&flow.namespace) else {
                continue;
            };
            let Some(lane) = space.lanes.get(&flow.lane) else {
                continue;
            };
            let Some(job) = lane.jobs.get(&flow.job) else {
                continue;
            };
            if last.is_none_or(|(name, _)| *name != flow.namespace) {
                spaces.push(SpaceNode {
                    account: space.account,
                    held: space.account.held,
                    most: shares
                        .caps
                        .get(&flow.namespace)
                        .copied()
                        .unwrap_or(u32::MAX),
                    lanes: Vec::new(),
                    order: BTreeSet::new(),
                });
                last = None;
            }
            let Some(node) = spaces.last_mut() else {
                continue;
            };
            if last.is_none() || last.is_some_and(|(_, l)| l != flow.lane) {
                node.lanes.push(LaneNode {
                    account: lane.account,
                    held: lane.account.held,
                    jobs: Vec::new(),
                    order: BTreeSet::new(),
                });
            }
            last = Some((&flow.namespace, flow.lane));
            let Some(node) = node.lanes.last_mut() else {
                continue;
            };
            let runs = places.iter().map(|n| (*n, &runs[*n]));
            node.jobs.push(job_node(shares, *job, runs, now));
        }
        let mut order = Self {
            spaces,
            order: BTreeSet::new(),
            turn: shares.turns.last(),
        };
        order.sort(now);
        order
    }

    fn sort(&mut self, now: Timestamp) {
        for (s, space) in self.spaces.iter_mut().enumerate() {
            for (l, lane) in space.lanes.iter_mut().enumerate() {
                for (j, job) in lane.jobs.iter_mut().enumerate() {
                    job.rank = job.rank(now);
                    let key = job.account.key(job.held);
                    if job.is_open() {
                        lane.order.insert((Reverse(job.rank), key, j));
                    }
                }
                if !lane.order.is_empty() {
                    space.order.insert((lane.account.key(lane.held), l));
                }
            }
            if !space.order.is_empty() && space.held < space.most {
                self.order.insert((space.account.key(space.held), s));
            }
        }
    }

    /// Which run is next, if any is left.
    pub fn next(&self) -> Option<Next> {
        let (_, s) = *self.order.first()?;
        let (_, l) = *self.spaces[s].order.first()?;
        let (.., j) = *self.spaces[s].lanes[l].order.first()?;
        let (_, _, _, run, _) = *self.spaces[s].lanes[l].jobs[j].order.first()?;
        let path = [s, l, j];
        Some(Next { path, run })
    }

    /// The run gave a shard; `more` if it has another.
    pub fn served(&mut self, next: Next, more: bool, now: Timestamp) {
        self.turn += 1;
        let turn = self.turn;
        self.change(next, now, 1, |job| {
            job.since = now;
            if let Some((_, _, run, n, priority)) = job.order.pop_first()
                && more
            {
                let rank = Reverse(priority);
                job.order.insert((rank, turn, run, n, priority));
            }
        });
    }

    /// Nothing of the run can be given away now.
    pub fn pass_over(&mut self, next: Next, now: Timestamp) {
        self.change(next, now, 0, |job| {
            job.order.pop_first();
        });
    }

    fn change(&mut self, next: Next, now: Timestamp, held: u32, f: impl FnOnce(&mut JobNode)) {
        let [s, l, j] = next.path;
        let space = &mut self.spaces[s];
        let lane = &mut space.lanes[l];
        let job = &mut lane.jobs[j];
        self.order.remove(&(space.account.key(space.held), s));
        space.order.remove(&(lane.account.key(lane.held), l));
        lane.order
            .remove(&(Reverse(job.rank), job.account.key(job.held), j));
        f(job);
        job.held += held;
        job.left = job.left.saturating_sub(held);
        lane.held += held;
        space.held += held;
        job.rank = job.rank(now);
        if job.is_open() {
            lane.order
                .insert((Reverse(job.rank), job.account.key(job.held), j));
        }
        if !lane.order.is_empty() {
            space.order.insert((lane.account.key(lane.held), l));
        }
        if !space.order.is_empty() && space.held < space.most {
            self.order.insert((space.account.key(space.held), s));
        }
    }
}

fn job_node<'a>(
    shares: &Shares,
    account: Account,
    runs: impl Iterator<Item = (usize, &'a ReadyRun)>,
    now: Timestamp,
) -> JobNode {
    let mut order = BTreeSet::new();
    let (mut first, mut left) = (now, u32::MAX);
    let mut served = account.served;
    for (n, run) in runs {
        if run.yields {
            // Who gives its slots up has waited from then on alone, or it would take them back at once.
            let held = if account.held > 0 { now } else { account.left };
            served = served.max(held);
        }
        left = left.min(shares.left_of_job(&run.flow, run.most_of_job));
        let turn = shares.turns.of(run.run);
        let (turn, taken) = turn.unwrap_or((0, run.since));
        let rank = aged(run.priority, run.since.max(taken), now);
        order.insert((Reverse(rank), turn, run.run, n, run.priority));
        first = first.min(run.since);
    }
    JobNode {
        account,
        held: account.held,
        left,
        order,
        rank: 0,
        since: first.max(served),
    }
}

#[cfg(test)]
#[path = "fair_tests.rs"]
mod tests;
