//! Cases of `testdata/cases/bug_reports.json` in their form with several servers: the database's clock jumps,
//! and steps back, under living nodes, and one of them dies just then.
//!
//! # Not here
//! Nodes whose own clocks are wrong ([`crate::several`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::cluster::{BUSY, Links, Peers, SILENT};
use crate::database::Database;
use crate::outage::{apply_ticking, each_second_ran, ticks};
use crate::program::{PATIENCE, until};
use crate::scene::Scene;
use crate::wall::Wall;

const TODAY: &str = "2026-01-01T00:00:50Z";
const JOBS: [(&str, i64); 2] = [("five", 5), ("minute", 60)];

/// MISS-005, MISS-007.
#[test]
fn a_database_clock_that_jumps_and_steps_back_floods_and_stalls_nobody() {
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
    two_minutes_back(&peers, &wall);
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

/// MISS-005: the clock is set back; time stands still until it has caught up. A worker dies meanwhile, and the
/// node freezes that lets leases run out: both are noticed as soon as ever.
fn two_minutes_back(peers: &Peers, wall: &Wall) {
    let mut doomed = peers.nodes[0].worker_with("w2", 1, "pool: second\n");
    let script = "if [ $SICHEN_ATTEMPT = 1 ]; then sleep 600; fi";
    let spec =
        json!({ "run": { "process": { "argv": ["/bin/sh", "-c", script] } }, "pool": "second" });
    peers.nodes[0].apply_spec("held", &spec);
    peers.nodes[0].client.ok("run held --key k");
    let shard = |node: &Scene| node.shards("held:manual:k")[0].clone();
    until("it runs", || shard(&peers.nodes[1])["state"] == "running");
    apply_ticking(&peers.nodes[0], "ticking");
    until("it ticks", || ticks(&peers.nodes[1], "ticking").len() > 2);

    wall.steps(SignedDuration::from_secs(-120));
    let behind =
        |node: &Scene| node.client.json("clock show")["ahead_seconds"].as_i64() < Some(-60);
    until("both tell of it", || peers.nodes.iter().all(behind));
    assert!(peers.nodes[0].doctor().contains("SC4021"));
    let stood = ticks(&peers.nodes[1], "ticking").last().unwrap().0;
    let frozen = peers.owner_of("janitor", &[0, 1]);
    let there = &peers.nodes[1 - frozen];
    let second = peers.nodes[1 - frozen].worker_with("w3", 1, "pool: second\n");
    peers.nodes[frozen].server.signal(Signal::SIGSTOP);
    doomed.signal(Signal::SIGKILL);
    let from = Instant::now();
    doomed.ended();
    until("its duties are taken", || {
        peers.taken_over(1 - frozen, frozen)
    });
    let took = from.elapsed();
    println!("taken over {took:?} after SIGSTOP, while time stood still");
    let looks = Duration::from_secs(2);
    assert!(took < SILENT + looks + 2 * BUSY, "{took:?}");
    there.settles("held:manual:k", "succeeded");
    let took = from.elapsed();
    println!("what the dead worker held was done {took:?} after its death");
    let session = Duration::from_secs(3);
    assert!(took < SILENT + session + 2 * looks + 3 * BUSY, "{took:?}");
    assert_eq!(shard(there)["attempt"], 2);
    assert!(behind(there), "all of that while time stood still");
    assert_eq!(ticks(there, "ticking").last().unwrap().0, stood);
    until("who lives is there", || {
        let workers = there.client.json("get workers")["items"].to_string();
        workers.contains("\"w1\"") && !workers.contains("\"w2\"")
    });

    peers.nodes[frozen].server.signal(Signal::SIGCONT);
    // The rest of the two minutes.
    let now = there.client.json("clock show")["now"].clone();
    let now: Timestamp = now.as_str().unwrap().parse().unwrap();
    wall.goes_on_from(&(now - SignedDuration::from_secs(3)).to_string());
    until("it ticks again", || {
        ticks(there, "ticking").last().unwrap().0 > stood + 5
    });
    let runs = there.client.json("runs ticking --limit 500");
    for run in runs["items"].as_array().unwrap() {
        let at = |field: &str| -> Timestamp { run[field].as_str().unwrap().parse().unwrap() };
        let late = at("created_at")
            .duration_since(at("planned_at"))
            .unsigned_abs();
        assert!(late < Duration::from_secs(2) + BUSY, "{late:?}: {run}");
    }
    each_second_ran(there, "ticking", 8);
    peers.all_share(&[0, 1]);
    drop(second);
}
