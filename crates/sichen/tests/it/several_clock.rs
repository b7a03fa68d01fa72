//! Cases of `testdata/cases/bug_reports.json` in their form with several servers: the database's clock jumps
//! under living nodes, and one of them dies just then.
//!
//! # Not here
//! Nodes whose own clocks are wrong ([`crate::several`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::cluster::{BUSY, Links, Peers};
use crate::database::Database;
use crate::outage::ticks;
use crate::program::{PATIENCE, until};
use crate::scene::Scene;
use crate::wall::Wall;

const TODAY: &str = "2026-01-01T00:00:50Z";
const JOBS: [(&str, i64); 2] = [("five", 5), ("minute", 60)];

/// MISS-007.
#[test]
fn a_database_clock_that_jumps_floods_and_stalls_nobody() {
    let Some(database) = Database::start() else {
        return;
    };
    let wall = Wall::of(&database, "1970-01-01T00:00:10Z");
    let store = database.url();
    // The runs of 1970 are to be counted.
    let kept = ["--retention", "870000h"];
    let rhythm = [&["--beat", "1s", "--session-ttl", "3s"][..], &kept].concat();
    let mut peers = Peers::on(2, database, &store, Links::default(), &rhythm);
    let worker = peers.worker("w1", 4);
    for (name, every) in JOBS {
        let spec = json!({
            "run": { "handler": "noop" }, "overlap": "allow",
            "schedules": [{ "every": format!("{every}s") }],
            "catchUp": { "policy": { "all": 10 } },
        });
        peers.nodes[0].apply_spec(name, &spec);
    }
    peers.all_share(&[0, 1]);
    until("it ticks", || ticks(&peers.nodes[1], "five").len() > 1);
    from_the_epoch_to_today(&mut peers, &wall);
    peers.nodes[0].history_is_accepted();
    drop(worker);
}

/// MISS-007: the jump is accepted at one node, and the one that has the schedule is killed at that moment. Whoever
/// takes it over decides 56 years at once, once.
fn from_the_epoch_to_today(peers: &mut Peers, wall: &Wall) {
    wall.goes_on_from(TODAY);
    until("both know", || {
        let held = |node: &Scene| node.client.json("clock show")["held"] == true;
        peers.nodes.iter().all(held)
    });
    let before = ticks(&peers.nodes[0], "five").len();
    let dead = peers.owner_of_job("five", &[0, 1]);
    let alive = 1 - dead;
    let over = AtomicBool::new(false);
    let longest = std::thread::scope(|threads| {
        let asking = threads.spawn(|| longest_answer(&peers.nodes[alive], &over));
        peers.nodes[alive].client.ok("clock accept");
        peers.nodes[dead].server.signal(Signal::SIGKILL);
        until("its duties are taken", || peers.taken_over(alive, dead));
        until("they go on", || {
            JOBS.iter().all(|(name, _)| {
                let last = ticks(&peers.nodes[alive], name).pop();
                last.is_some_and(|(at, over)| over && at > today())
            })
        });
        over.store(true, Ordering::SeqCst);
        asking.join().unwrap()
    });
    println!("the longest answer took {longest:?}");
    assert!(longest < Duration::from_secs(1) + BUSY, "{longest:?}");
    peers.nodes[dead].server.ended();
    let pid = peers.nodes[alive].server.pid();
    let (busy, from) = (processor_time(pid), Instant::now());
    until("two seconds pass", || {
        from.elapsed() > Duration::from_secs(2)
    });
    let busy = processor_time(pid) - busy;
    assert!(busy < Duration::from_secs(1), "it is idle again: {busy:?}");

    let database = peers.database.connect();
    let made = database.number("select count(*) from run where job_name = 'five'");
    assert!(made > i64::try_from(before).unwrap());
    for (name, every) in JOBS {
        let of = |what: &str| {
            let job = format!("(select uid from job where name = '{name}')");
            database.number(&format!(
                "select {what} from decision where job_uid = {job}"
            ))
        };
        let ticks = ticks(&peers.nodes[alive], name);
        let first = of("min(from_at) / 1000000").min(ticks[0].0);
        let instants = (ticks.last().unwrap().0 - first) / every + 1;
        let skipped = of("sum(count)");
        let ran = i64::try_from(ticks.len()).unwrap();
        assert_eq!(
            ran + skipped,
            instants,
            "{name}: one run or one record each"
        );
        assert!(of("count(*)") <= 3, "{name}: few records");
        // For fifteen seconds an instant is on time.
        let late = |at: i64| at > 3_600 && at < today() - 15;
        let late = ticks.iter().filter(|tick| late(tick.0)).count();
        assert!(late <= 10, "{name}: {late} late runs");
    }
    peers.nodes[dead].start_server_again();
    peers.all_share(&[0, 1]);
}

fn today() -> i64 {
    TODAY.parse::<Timestamp>().unwrap().as_second()
}

/// How long the slowest answer to a health check took, until it is over.
fn longest_answer(node: &Scene, over: &AtomicBool) -> Duration {
    let from = Instant::now();
    let mut longest = Duration::ZERO;
    while !over.load(Ordering::SeqCst) && from.elapsed() < 2 * PATIENCE {
        let answer = node.ask("GET", "/healthz", "");
        assert_eq!(answer.status, 200, "{answer:?}");
        longest = longest.max(answer.took);
        std::thread::sleep(Duration::from_millis(50));
    }
    longest
}

/// What a process has used of processors.
fn processor_time(pid: nix::unistd::Pid) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .map(|n| n.parse::<u64>().unwrap())
        .sum();
    // A hundred a second, as everywhere on Linux.
    Duration::from_millis(10 * ticks)
}
