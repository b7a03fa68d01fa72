//! The crash sweep: the real process dies at each point of `sichen_crash`, once, under load; it is
//! started again, everything runs on to its end, and the checker and the business data must agree.
//!
//! A point that is never passed fails the sweep, and so does one that is passed and not listed.
//!
//! # Not here
//! The list of points (`sichen_crash`).

mod load;

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sichen_crash::{DIE_AT, SEEN, Who};

use crate::database::Database;
use crate::program::{Client, Process, command, until};
use crate::scene::{Kind, text};

/// How long a point may take to be passed: a few rounds of the load on a busy machine.
const REACHED_WITHIN: Duration = Duration::from_secs(45);
/// A server's points are shared out among so many scenes, which run at once.
const SCENES: usize = 3;

/// A server, two workers, and the load on them.
struct Site {
    dir: tempfile::TempDir,
    address: String,
    database: Option<Database>,
}

impl Site {
    fn new(kind: Kind) -> Option<Self> {
        let database = match kind {
            Kind::Sqlite => None,
            Kind::Postgres => Some(Database::start()?),
        };
        // Given back at once: the server is to come back where it was.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        Some(Self {
            dir: tempfile::tempdir().unwrap(),
            address,
            database,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.address), &self.path("server"))
    }

    /// The server, which dies at `point`. It may do so while it starts.
    fn server(&self, point: &str) -> Process {
        let data = self.path("server");
        let mut words = vec!["server", "--listen", &self.address, "--data", text(&data)];
        words.extend(["--beat", "500ms", "--session-ttl", "2s"]);
        let url = self.database.as_ref().map(Database::url);
        if let Some(url) = &url {
            words.extend(["--store", url]);
        }
        self.process(&words, point)
    }

    /// A worker, which dies at `point`.
    fn worker(&self, name: &str, point: &str) -> Process {
        let config = self.path("worker.yaml");
        std::fs::write(&config, "allow_programs: [/bin/sh]\nbuiltin: true\n").unwrap();
        let (data, join) = (self.path(name), self.path("server/join-token"));
        let url = format!("http://{}", self.address);
        let mut words = vec!["worker", "--config", text(&config), "--name", name];
        words.extend(["--server", &url, "--data", text(&data)]);
        words.extend(["--join-token-file", text(&join), "--slots", "4"]);
        self.process(&words, point)
    }

    fn process(&self, words: &[&str], point: &str) -> Process {
        let mut command = command(words);
        command.env("SICHEN_LOG", "error");
        command.env(DIE_AT, point).env(SEEN, self.path("seen"));
        Process::of(command)
    }

    /// What was passed in this site.
    fn seen(&self) -> BTreeSet<String> {
        let seen = std::fs::read_to_string(self.path("seen")).unwrap_or_default();
        seen.lines().map(str::to_owned).collect()
    }

    /// The history of the stopped server.
    fn verify(&self) {
        let data = self.path("server");
        let url = self.database.as_ref().map(Database::url);
        let at = match &url {
            Some(url) => ["--store", url],
            None => ["--data", text(&data)],
        };
        let judged = command(&["verify", "-o", "json", at[0], at[1]])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&judged.stdout);
        assert!(judged.status.success(), "{said}");
    }
}

/// Kills the process at each of `points`, one after the other, while the load goes on.
fn sweep(kind: Kind, who: Who, points: &[String]) {
    let Some(site) = Site::new(kind) else {
        return;
    };
    let mut server = site.server("");
    reached(&site);
    let stop = Arc::new(AtomicBool::new(false));
    let load = load::Load::start(&site, Arc::clone(&stop));
    let mut others = Others::new(&site, who);
    let mut missed = Vec::new();
    if who == Who::Server {
        server.signal(Signal::SIGKILL);
        server.ended();
    }
    for point in points {
        let mut victim = match who {
            Who::Server => site.server(point),
            Who::Worker => site.worker("victim", point),
        };
        if !dies(&mut victim, point, || others.stir()) {
            missed.push(point);
        }
    }
    let last = match who {
        Who::Server => {
            server = site.server("");
            reached(&site);
            None
        }
        Who::Worker => Some(site.worker("victim", "")),
    };
    others.rest();
    stop.store(true, Ordering::Relaxed);
    let rounds = load.ended();
    rounds.are_done(&site);
    drop((last, others));
    server.signal(Signal::SIGTERM);
    server.ended();
    site.verify();
    assert!(missed.is_empty(), "never passed: {missed:?}");
    let listed: BTreeSet<String> = sichen_crash::all()
        .into_iter()
        .map(|(_, name)| name)
        .collect();
    let more: Vec<String> = site
        .seen()
        .into_iter()
        .filter(|name| !is_known(&listed, name))
        .collect();
    assert!(more.is_empty(), "passed, and in no list: {more:?}");
}

fn is_known(listed: &BTreeSet<String>, name: &str) -> bool {
    let which = name.split_once(':').map_or(name, |(_, which)| which);
    listed.contains(name) || sichen_crash::UNSWEPT.contains(&which)
}

fn reached(site: &Site) {
    until("the server answers", || {
        site.client().run("get jobs").status.success()
    });
}

/// Whether the process passes its point, and so ends by its own hand.
fn dies(victim: &mut Process, point: &str, mut stir: impl FnMut()) -> bool {
    let end = Instant::now() + REACHED_WITHIN;
    // What is done only at an orderly end is asked for.
    let leaves = ["release_duties", "end_node", "draining"];
    let mut asked = !leaves.iter().any(|which| point.ends_with(which));
    while Instant::now() < end {
        if let Some(status) = victim.try_ended() {
            return status.signal() == Some(Signal::SIGABRT as i32);
        }
        stir();
        if !asked && Instant::now() + REACHED_WITHIN > end + Duration::from_millis(1_500) {
            victim.signal(Signal::SIGTERM);
            asked = true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    victim.signal(Signal::SIGKILL);
    victim.ended();
    false
}

/// Workers that are not the victim, where that is the server: one that stays, and one that comes and goes, in
/// order and not. Beside a worker that dies there is none: jobs would avoid the one that keeps dying.
struct Others<'a> {
    site: &'a Site,
    _steady: Option<Process>,
    restless: Option<Process>,
    since: Instant,
    turn: u32,
}

impl<'a> Others<'a> {
    fn new(site: &'a Site, who: Who) -> Self {
        Self {
            site,
            _steady: (who == Who::Server).then(|| site.worker("steady", "")),
            restless: (who == Who::Server).then(|| site.worker("restless", "")),
            since: Instant::now(),
            turn: 0,
        }
    }

    fn stir(&mut self) {
        let Some(restless) = &mut self.restless else {
            return;
        };
        if restless.try_ended().is_some() {
            *restless = self.site.worker("restless", "");
            self.since = Instant::now();
        } else if self.since.elapsed() > Duration::from_millis(1_500) {
            self.turn += 1;
            let signal = if self.turn.is_multiple_of(2) {
                Signal::SIGKILL
            } else {
                Signal::SIGTERM
            };
            restless.signal(signal);
            self.since = Instant::now();
        }
    }

    fn rest(&mut self) {
        self.restless = None;
    }
}

/// The `n`th of all points of `who`, `of` of them apart.
fn share(who: Who, n: usize, of: usize) -> Vec<String> {
    let all = sichen_crash::all().into_iter();
    let mine = all
        .filter(|(passes, _)| *passes == who)
        .map(|(_, name)| name);
    mine.skip(n).step_by(of).collect()
}

/// Each point on SQLite, and every second one on PostgreSQL.
macro_rules! sweeps {
    ($($name:ident: $kind:ident, $who:ident, $n:expr, $of:expr;)*) => {
        $(#[test]
        fn $name() {
            sweep(Kind::$kind, Who::$who, &share(Who::$who, $n, $of));
        })*
    };
}

sweeps! {
    a_server_on_sqlite_dies_at_each_point_1: Sqlite, Server, 0, SCENES;
    a_server_on_sqlite_dies_at_each_point_2: Sqlite, Server, 1, SCENES;
    a_server_on_sqlite_dies_at_each_point_3: Sqlite, Server, 2, SCENES;
    a_server_on_postgres_dies_at_every_second_point_1: Postgres, Server, 0, 2 * 2;
    a_server_on_postgres_dies_at_every_second_point_2: Postgres, Server, 3, 2 * 2;
    a_worker_on_sqlite_dies_at_each_point: Sqlite, Worker, 0, 1;
    a_worker_on_postgres_dies_at_every_second_point: Postgres, Worker, 1, 2;
}
