//! Cases of `testdata/cases/bug_reports.json` in their form with several servers: windows of time that end
//! while every node is gone, and an edit that its job's node sleeps through.
//!
//! The database's clock is set ([`crate::wall`]), so that weeks pass in a moment and an instant is met to the
//! millisecond. The nodes' own zones differ.
//!
//! # Not here
//! The rules themselves, which know nothing of nodes (`crates/sichen-core/tests/it/schedule_due.rs`).

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::cluster::Peers;
use crate::database::Database;
use crate::program::{lives, until};
use crate::scene::Scene;
use crate::wall::Wall;

/// Each day's jobs are due while every node is gone.
const SUNDAYS: [&str; 4] = ["2024-02-04", "2024-02-11", "2024-02-18", "2024-02-25"];

const EDITED: [&str; 4] = ["edited-0", "edited-1", "edited-2", "edited-3"];

/// Planned times and states of the runs that a schedule made, oldest first.
fn planned(node: &Scene, job: &str) -> Vec<(String, String)> {
    let runs = node.client.json(&format!("runs {job} --limit 500"));
    let runs = runs["items"].as_array().unwrap().iter();
    let mut planned: Vec<(String, String)> = runs
        .filter_map(|run| {
            let at: jiff::Timestamp = run["planned_at"].as_str()?.parse().unwrap();
            Some((at.to_string(), run["state"].as_str().unwrap().to_owned()))
        })
        .collect();
    planned.sort_unstable();
    planned
}

/// What did not run: first instant, reason, how many.
fn skipped(node: &Scene, job: &str) -> Vec<(String, String, u64)> {
    let job = node.client.json(&format!("describe job {job}"));
    let decisions = job["decisions"].as_array().unwrap().iter();
    let mut skipped: Vec<_> = decisions
        .map(|one| {
            let from: jiff::Timestamp = one["from"].as_str().unwrap().parse().unwrap();
            let reason = one["reason"].as_str().unwrap().to_owned();
            (from.to_string(), reason, one["count"].as_u64().unwrap())
        })
        .collect();
    skipped.sort_unstable();
    skipped
}

fn apply(node: &Scene, name: &str, cron: &str, zone: &str, more: &Value) {
    let mut spec = json!({
        "run": { "handler": "noop" }, "schedules": [{ "cron": cron }], "timeZone": zone,
        "overlap": "allow",
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    node.apply_spec(name, &spec);
}

fn latest(window: &str) -> Value {
    json!({ "catchUp": { "policy": "latest", "startingDeadline": window } })
}

fn apply_all(node: &Scene) {
    for name in EDITED {
        apply(node, name, "0 21 * * tue,fri", "UTC", &latest("168h"));
    }
    let none = json!({ "catchUp": { "policy": "none" } });
    apply(node, "silent", "0 3 * * 0", "UTC", &none);
    apply(node, "weekly", "0 3 * * 0", "UTC", &latest("6h"));
    apply(node, "edge", "59 6 * * 0", "UTC", &latest("60s"));
    apply(
        node,
        "in-time",
        "57 15 * * 0",
        "Asia/Tokyo",
        &latest("300s"),
    );
    apply(
        node,
        "too-late",
        "54 15 * * 0",
        "Asia/Tokyo",
        &latest("300s"),
    );
    // Both wait for a run that no worker takes.
    let mut waits = json!({ "overlap": { "queue": { "limit": 9 } }, "pool": "later" });
    apply(node, "patient", "59 6 * * 0", "UTC", &waits);
    waits["catchUp"] = latest("60s")["catchUp"].clone();
    apply(node, "queued", "59 6 * * 0", "UTC", &waits);
    for name in ["patient", "queued"] {
        node.client.ok(&format!("run {name} --key before"));
    }
}

/// Days pass on living nodes: nothing is decided until somebody says at one of them that the clock is right.
fn days_pass(peers: &Peers, wall: &Wall, to: &str) {
    let held = |node: &Scene| node.client.json("clock show")["held"] == true;
    wall.goes_on_from(to);
    until("it is held", || held(&peers.nodes[1]));
    peers.nodes[0].client.ok("clock accept");
    until("all believe it", || {
        !peers.nodes.iter().any(held) && peers.nodes.iter().all(|node| node.ready().0 == 200)
    });
}

/// Every node that lives dies.
fn all_die(peers: &mut Peers) {
    for n in 0..peers.nodes.len() {
        if lives(peers.nodes[n].server.pid()) {
            peers.kill(n);
        }
    }
}

/// Whether this Sunday and those before it are decided, whatever was.
fn is_decided(node: &Scene, sundays: usize) -> bool {
    let one = |job: &str| planned(node, job).len() + skipped(node, job).len() >= sundays;
    let jobs = ["silent", "weekly", "edge", "in-time", "too-late", "queued"];
    jobs.iter().all(|job| one(job)) && planned(node, "patient").len() >= sundays
}

/// MISS-003: the node that has the job sleeps while it is edited at another, and wakes just after an instant of the
/// old text; then it dies, and its successor has the database alone to go by.
fn an_edit_makes_no_run_of_the_past(peers: &mut Peers, wall: &Wall) {
    let both = [0, 1];
    wall.is_at_least("2024-01-30T20:59:58Z");
    until("the old text has run", || {
        EDITED
            .iter()
            .all(|name| planned(&peers.nodes[0], name).len() == 1)
    });
    days_pass(peers, wall, "2024-02-02T20:59:40Z");
    let asleep = peers.owner_of_job(EDITED[0], &both);
    let awake = 1 - asleep;
    peers.nodes[asleep].server.signal(Signal::SIGSTOP);
    for name in EDITED {
        apply(
            &peers.nodes[awake],
            name,
            "0 23 * * wed,sun",
            "UTC",
            &latest("168h"),
        );
    }
    assert!(!wall.has_reached("2024-02-02T21:00:00Z"), "edited too late");
    wall.is_at_least("2024-02-02T20:59:59Z");
    until("an instant of the old text is over", || {
        wall.has_reached("2024-02-02T21:00:01Z")
    });
    peers.nodes[asleep].server.signal(Signal::SIGCONT);
    until("it is awake", || peers.nodes[asleep].ready().0 == 200);
    until("it has had its time", || {
        wall.has_reached("2024-02-02T21:00:03Z")
    });
    peers.kill(asleep);
    until("its duties are taken", || peers.taken_over(awake, asleep));
    for name in EDITED {
        let only = ("2024-01-30T21:00:00Z".to_owned(), "succeeded".to_owned());
        assert_eq!(planned(&peers.nodes[awake], name), [only], "{name}");
        assert_eq!(skipped(&peers.nodes[awake], name), []);
    }
}

/// The rest of MISS-003: what runs is of the new text.
fn the_new_text_runs(peers: &Peers, wall: &Wall) {
    let days = ["2024-02-04", "2024-02-07"];
    for (n, day) in days.iter().enumerate() {
        days_pass(peers, wall, &format!("{day}T22:59:57Z"));
        until("the new text runs", || {
            EDITED
                .iter()
                .all(|name| planned(&peers.nodes[n], name).len() == n + 2)
        });
    }
    until("the day is over", || {
        wall.has_reached("2024-02-07T23:00:02Z")
    });
    for name in EDITED {
        peers.nodes[1].client.ok(&format!("pause {name}"));
        let expected = ["2024-01-30T21", "2024-02-04T23", "2024-02-07T23"];
        let expected = expected.map(|hour| format!("{hour}:00:00Z"));
        let found = planned(&peers.nodes[0], name).into_iter();
        assert_eq!(Vec::from_iter(found.map(|(at, _)| at)), expected, "{name}");
        assert_eq!(skipped(&peers.nodes[0], name), []);
    }
}

/// All nodes are gone, and come back one after the other at this very instant, which lasts until it is decided.
fn all_come_back_at(peers: &mut Peers, wall: &Wall, sunday: usize, time: &str) {
    all_die(peers);
    let at = format!("{}T{time}Z", SUNDAYS[sunday]);
    wall.stands_at(&at);
    let first = sunday % 2;
    for n in [first, 1 - first] {
        peers.nodes[n].start_server_again();
    }
    until("it is decided", || {
        is_decided(&peers.nodes[first], sunday + 1)
    });
    // What must be begun by now is begun at this very instant.
    until("what runs has run", || {
        let has_run = |job: &&str| {
            let runs = planned(&peers.nodes[first], job);
            runs.iter().all(|run| run.1 == "succeeded")
        };
        ["weekly", "edge", "in-time"].iter().all(has_run)
    });
    wall.goes_on_from(&at);
    peers.all_ready();
}

/// The last Sunday: the first node that is back is killed in the middle of the transaction that decides.
fn the_decider_dies(peers: &mut Peers, wall: &Wall) {
    all_die(peers);
    let foreign = peers.database.connect();
    foreign.execute("begin; select 1 from job where name = 'weekly' for update");
    wall.goes_on_from(&format!("{}T07:00:00.1Z", SUNDAYS[3]));
    peers.nodes[0].start_server_again();
    let is_in_the_middle = |peers: &Peers| {
        until("it is in the middle", || {
            peers.database.is_waited_for(&foreign)
        });
    };
    is_in_the_middle(peers);
    peers.nodes[1].start_server_again();
    is_in_the_middle(peers);
    peers.kill(0);
    foreign.execute("rollback");
    until("its successor decides", || is_decided(&peers.nodes[1], 4));
    peers.nodes[0].start_server_again();
    peers.all_ready();
}

/// MISS-009, MISS-016, MISS-021: each Sunday all nodes are gone for hours and come back at the edges of a window.
/// Each instant has its run or its record, whichever node is back first and in whichever zone it lives; and if it
/// dies while it decides.
#[test]
fn windows_that_end_without_any_node_are_decided_once_by_whoever_is_back() {
    let Some(database) = Database::start() else {
        return;
    };
    let wall = Wall::of(&database, "2024-01-30T20:59:30Z");
    let zones = [("TZ", "America/New_York"), ("TZ", "Asia/Kolkata")];
    let mut peers = Peers::in_surroundings(&zones, database, &[]);
    apply_all(&peers.nodes[0]);
    let worker = peers.worker("w1", 8);
    peers.all_share(&[0, 1]);
    an_edit_makes_no_run_of_the_past(&mut peers, &wall);
    all_come_back_at(&mut peers, &wall, 0, "06:59:59.9");
    the_new_text_runs(&peers, &wall);
    all_come_back_at(&mut peers, &wall, 1, "07:00:00");
    all_come_back_at(&mut peers, &wall, 2, "07:00:00.1");
    // Both have begun anew: what they count is of this day.
    let counted: u64 = peers
        .nodes
        .iter()
        .map(|node| counted(node, "catch_up"))
        .sum();
    assert_eq!(counted, 1, "an alert sees it at one of them");
    the_decider_dies(&mut peers, &wall);

    let later = peers.nodes[0].worker_with("w2", 1, "pool: later\n");
    until("whoever waited has run", || {
        let all = planned(&peers.nodes[1], "patient");
        all.len() == 4 && all.iter().all(|run| run.1 == "succeeded")
    });
    until("all else is over", || {
        let open = "select count(*) from run where ended_at is null";
        peers.database.connect().number(open) == 0
    });
    for node in &peers.nodes {
        each_sunday_is_as_it_should_be(node);
    }
    peers.nodes[0].history_is_accepted();
    drop((worker, later));
}

/// How many instants a node has recorded as not run for this reason.
fn counted(node: &Scene, reason: &str) -> u64 {
    let metrics = node.ask("GET", "/metrics", "").body;
    let name = format!("sichen_instants_skipped_total{{reason=\"{reason}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    line.map_or(0, |n| n.parse().unwrap())
}

fn each_sunday_is_as_it_should_be(node: &Scene) {
    let runs = |job: &str| planned(node, job);
    let skips = |job: &str| skipped(node, job);
    let run_at = |days: &[&str], time: &str, state: &str| -> Vec<(String, String)> {
        let run = |day: &&str| (format!("{day}T{time}:00Z"), state.to_owned());
        days.iter().map(run).collect()
    };
    let skip_at = |days: &[&str], time: &str, reason: &str| -> Vec<(String, String, u64)> {
        let skip = |day: &&str| (format!("{day}T{time}:00Z"), reason.to_owned(), 1);
        days.iter().map(skip).collect()
    };
    let (in_window, beyond) = SUNDAYS.split_at(2);
    // MISS-009
    assert_eq!(runs("silent"), []);
    assert_eq!(skips("silent"), skip_at(&SUNDAYS, "03:00", "catch_up"));
    assert_eq!(runs("weekly"), run_at(&SUNDAYS, "03:00", "succeeded"));
    assert_eq!(skips("weekly"), []);
    // MISS-016
    assert_eq!(runs("edge"), run_at(in_window, "06:59", "succeeded"));
    assert_eq!(skips("edge"), skip_at(beyond, "06:59", "deadline"));
    assert_eq!(runs("queued"), run_at(in_window, "06:59", "cancelled"));
    assert_eq!(skips("queued"), skip_at(beyond, "06:59", "deadline"));
    assert_eq!(runs("patient"), run_at(&SUNDAYS, "06:59", "succeeded"));
    let queued = node.client.json("runs queued --limit 500");
    let queued = queued["items"].as_array().unwrap().iter();
    for run in queued.filter(|run| run["planned_at"].is_string()) {
        assert_eq!(run["reason"], "starting_deadline", "{run}");
    }
    // MISS-021
    assert_eq!(runs("in-time"), run_at(&SUNDAYS, "06:57", "succeeded"));
    assert_eq!(skips("in-time"), []);
    assert_eq!(runs("too-late"), []);
    assert_eq!(skips("too-late"), skip_at(&SUNDAYS, "06:54", "deadline"));
}
