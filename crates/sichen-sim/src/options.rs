//! What one seed turns on: each draws its own size, faults and rates ("swarm").

use std::fmt;

use crate::rng::Rng;

/// Mean time between faults of one kind, in milliseconds; `None` leaves the kind out.
pub type Every = Option<i64>;

/// One simulated cluster and what is done to it. Everything follows from `seed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The seed.
    pub seed: u64,
    /// Length of the phase in which everything may fail, in seconds.
    pub unsafe_secs: i64,
    /// On SQLite in memory (one seed in ten), not on the memory store.
    pub sqlite: bool,
    /// Server nodes.
    pub servers: usize,
    /// Worker hosts.
    pub workers: usize,
    /// Jobs.
    pub jobs: usize,
    /// So many times as often as they were first drawn to run.
    pub pace: i64,
    /// Users ask for backfills and change calendars.
    pub past: bool,
    /// Some of those backfills have the business of their runs counted again.
    pub checks: bool,
    /// Jobs share capacities and namespaces, whose limits change while they run.
    pub shared: bool,
    /// Jobs have priorities, some ask others for their slots and some give theirs up.
    pub preempting: bool,
    /// A server's process dies and is started again.
    pub server_crash: Every,
    /// A server's process stands still.
    pub server_freeze: Every,
    /// A server's fate strikes where it registers a worker, and nowhere else.
    pub strike_hellos: bool,
    /// A server, or several, can't reach the store.
    pub server_cut: Every,
    /// What a server sends reaches the store, but no answer comes back.
    pub server_deaf: Every,
    /// A server's sign of life goes out although it lives.
    pub sign_lost: Every,
    /// A worker's process dies and is started again.
    pub worker_crash: Every,
    /// A worker's process stands still.
    pub worker_freeze: Every,
    /// A worker and a server can't reach each other.
    pub link_cut: Every,
    /// Messages of one direction between a worker and a server do not arrive.
    pub link_one_way: Every,
    /// A worker reaches no server at all, for long enough to lose its session.
    pub isolate: Every,
    /// Every server dies at once.
    pub all_crash: Every,
    /// Per mille of answers to workers that are lost with their stream: the request was delivered.
    pub lost_answers: u64,
    /// Per mille of the store's answers that are lost after its commit.
    pub lost_commits: u64,
    /// Per mille of attempts that fail by themselves.
    pub failing_attempts: u64,
    /// Workers' clocks run fast or slow by at most this, in parts per million.
    pub drift_ppm: i64,
}

impl Options {
    /// The options of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        // Drawn apart, so that what was found on two servers stays found there.
        let mut rng = Rng::new(seed ^ 0x5e7_0f5e);
        let server_deaf = rng.chance(600).then(|| rng.between(15, 60) * 1000);
        let fewer = Self::on_two_servers(seed);
        let checks = Rng::new(seed ^ 0x00c0_47ed).chance(300);
        let strike_hellos = Rng::new(seed ^ 0x04e1_1055).chance(150);
        let servers = 3 + [0, 0, 0, 1, 2][rng.below(5)];
        Self {
            servers,
            past: true,
            checks,
            shared: rng.chance(400),
            preempting: Rng::new(seed ^ 0x09ee_3247).chance(300),
            jobs: fewer.jobs + 2,
            pace: 4,
            server_deaf,
            strike_hellos,
            ..fewer
        }
    }

    /// The options of a seed with more work than there are slots all the time, over shared limits, while
    /// workers and servers leave and join.
    #[must_use]
    pub fn saturated(seed: u64) -> Self {
        let of = Self::of(seed);
        Self {
            shared: true,
            preempting: Rng::new(seed ^ 0x09ee_3247).chance(600),
            jobs: of.jobs + 10,
            pace: 5,
            worker_crash: Some(10_000),
            isolate: Some(60_000),
            server_crash: Some(30_000),
            ..of
        }
    }

    /// The options of a seed on two servers and with little work.
    #[must_use]
    pub fn on_two_servers(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x0c10_c4ed);
        let mut every = |from: i64, to: i64| rng.chance(600).then(|| rng.between(from, to) * 1000);
        let mut options = Self {
            seed,
            unsafe_secs: 180,
            sqlite: seed.is_multiple_of(10),
            servers: 2,
            workers: 3,
            jobs: 0,
            pace: 1,
            past: false,
            checks: false,
            shared: false,
            preempting: false,
            server_crash: every(15, 60),
            server_freeze: every(15, 60),
            strike_hellos: false,
            server_cut: every(15, 60),
            server_deaf: None,
            sign_lost: None,
            worker_crash: every(10, 40),
            worker_freeze: every(10, 40),
            link_cut: every(10, 40),
            link_one_way: every(10, 40),
            isolate: every(20, 60),
            all_crash: every(90, 180),
            lost_answers: 0,
            lost_commits: 0,
            failing_attempts: 0,
            drift_ppm: 0,
        };
        options.sign_lost = every(15, 60);
        options.jobs = 2 + rng.below(4);
        if rng.chance(600) {
            options.lost_answers = 5 + rng.draw() % 40;
        }
        if rng.chance(600) {
            options.lost_commits = 2 + rng.draw() % 20;
        }
        if rng.chance(700) {
            options.failing_attempts = 10 + rng.draw() % 100;
        }
        if rng.chance(500) {
            options.drift_ppm = 50_000;
        }
        options
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
