//! Cases of `testdata/cases/bug_reports.json` in their form with several servers: what befalls the database
//! under them, or their way to it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{BUSY, Links, Peers, SILENT, asks_for};
use crate::database::Database;
use crate::outage::{apply_ticking, each_second_ran, ticks};
use crate::program::{lives, until};
use crate::scene::{Scene, text};

/// STUCK-010, DB-006: the database takes connections and answers nothing, first to one node, then to
/// all. Whoever can't know says so, in time and with a code; nothing is claimed that is not known; and all
/// go on by themselves.
#[test]
fn a_node_whose_database_is_silent_says_so_in_time_and_claims_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("server.yaml");
    let limits = "store_connect_timeout: 1s\nstore_statement_timeout: 2s\nstore_call_timeout: 4s\n";
    std::fs::write(&config, limits).unwrap();
    let links = Links {
        database: true,
        ..Links::default()
    };
    let Some(peers) = Peers::linked(2, links, &["--config", text(&config)]) else {
        return;
    };
    let worker = peers.worker("w1", 4);
    peers.all_share(&[0, 1]);
    peers.nodes[0].apply("asked", &json!({ "handler": "noop" }), &json!({}), 1);
    apply_ticking(&peers.nodes[0], "ticking");
    until("it ticks", || ticks(&peers.nodes[0], "ticking").len() > 1);

    // One of them, the one with the worker.
    let cut = peers.owner(&[0, 1]);
    let other = 1 - cut;
    peers.links[cut].swallow_all();
    let silent = Instant::now();
    until("its duties are taken", || peers.taken_over(other, cut));
    println!("taken over {:?} after the silence", silent.elapsed());
    assert!(silent.elapsed() < SILENT + BUSY, "{:?}", silent.elapsed());
    can_not_know(&peers.nodes[cut], "k1");
    assert_eq!(
        asks_for(&peers.nodes[other], "asked", "k1", &json!({})).status,
        201
    );
    peers.nodes[other].settles("asked:manual:k1", "succeeded");
    peers.links[cut].heal();
    let healed = peers.all_ready();
    assert!(healed < Duration::from_secs(10) + BUSY, "{healed:?}");
    // What was asked for in vain was not done in secret.
    let again = asks_for(&peers.nodes[cut], "asked", "k1", &json!({}));
    assert!(
        again.status == 200 && again.body.contains("\"created\":false"),
        "{again:?}"
    );

    // All of them.
    for link in &peers.links {
        link.swallow_all();
    }
    std::thread::scope(|threads| {
        for node in &peers.nodes {
            threads.spawn(|| can_not_know(node, "k2"));
        }
    });
    for link in &peers.links {
        link.heal();
    }
    let healed = peers.all_ready();
    println!("ready {healed:?} after the heal");
    assert!(healed < Duration::from_secs(10) + BUSY, "{healed:?}");
    let asked = asks_for(&peers.nodes[other], "asked", "k2", &json!({}));
    assert!(matches!(asked.status, 200 | 201), "{asked:?}");
    peers.nodes[cut].settles("asked:manual:k2", "succeeded");
    each_second_ran(&peers.nodes[cut], "ticking", 5);
    peers.nodes[cut].history_is_accepted();
    drop(worker);
}

/// Each question to this node is answered with 503, when to ask again, and a code; never later than a
/// call to the store may take.
fn can_not_know(node: &Scene, key: &str) {
    until("it says that it is not ready", || node.ready().0 == 503);
    let asked = [
        node.ask("GET", "/api/v1/runs?limit=1", ""),
        node.ask("GET", "/api/v1/members", ""),
        asks_for(node, "asked", key, &json!({})),
    ];
    for answer in asked {
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.took < Duration::from_secs(5) + BUSY, "{answer:?}");
        assert!(answer.head.contains("\r\nretry-after: "), "{answer:?}");
        // Not reached, or not known whether it was done.
        let problem: Value = serde_json::from_str(&answer.body).unwrap();
        let code = problem["code"].as_str().unwrap();
        assert!(matches!(code, "SC3001" | "SC3003"), "{answer:?}");
    }
}

/// Through pgbouncer in transaction mode, where no sign is seen: two nodes share, survive the pooler's
/// death in mid-run, and one takes over the other's duties when its lease has ended.
#[test]
fn two_nodes_behind_a_pooler_share_and_take_over() {
    let Some(database) = Database::start() else {
        return;
    };
    let Some((mut pooler, url)) = database.pooler() else {
        return;
    };
    let mut peers = Peers::on(2, database, &url, Links::default(), &[]);
    let worker = peers.worker("w1", 4);
    peers.all_share(&[0, 1]);
    let run = json!({ "handler": "sleep" });
    peers.nodes[0].apply("slow", &run, &json!({ "ms": 300 }), 40);
    peers.nodes[0].client.ok("run slow --key k");
    until("some shards have succeeded", || {
        peers.nodes[0].succeeded("slow:manual:k") >= 6
    });
    pooler.stop();
    peers.database.run_pooler(&mut pooler);
    let healed = peers.all_ready();
    assert!(healed < Duration::from_secs(10) + BUSY, "{healed:?}");
    let dead = peers.owner(&[0, 1]);
    let so_far = peers.nodes[0].succeeded("slow:manual:k");
    assert!(so_far < 40, "it is in mid-run");
    let killed = Instant::now();
    peers.kill(dead);
    let other = 1 - dead;
    until("its duties are taken", || peers.taken_over(other, dead));
    println!("taken over {:?} after SIGKILL", killed.elapsed());
    assert!(killed.elapsed() < SILENT + BUSY, "{:?}", killed.elapsed());
    peers.nodes[other].settles("slow:manual:k", "succeeded");
    peers.nodes[other].each_shard_took_one_attempt("slow:manual:k");
    drop(worker);
}

/// DB-001: a quarter of the scheduler's transactions that change something is told of a deadlock, a
/// serialization failure or a lock that was not had in time. No node ends, no run fails for it, no instant is left out.
#[test]
fn errors_that_concurrency_brings_are_retried_on_every_node() {
    let Some(mut peers) = Peers::new(3, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 8);
    peers.all_share(&[0, 1, 2]);
    let names: Vec<String> = (0..6).map(|n| format!("ticking-{n}")).collect();
    for name in &names {
        apply_ticking(&peers.nodes[0], name);
    }
    peers.nodes[0].apply("wide", &json!({ "handler": "noop" }), &json!({}), 300);
    let foreign = peers.database.connect();
    // A sequence counts on through what is rolled back.
    foreign.execute(
        "create sequence harmed; \
         create function harm() returns trigger language plpgsql as $$ begin \
           if random() < 0.25 then \
             perform nextval('harmed'); \
             raise exception 'made by the test' using errcode = \
               (array['40P01', '40001', '55P03'])[1 + floor(random() * 3)::int]; \
           end if; return null; end $$; \
         create trigger harm before insert on event for each statement execute function harm()",
    );
    peers.nodes[1].client.ok("run wide --key k");
    let raised = || foreign.number("select last_value from harmed");
    let began = Instant::now();
    until("enough of them are raised", || {
        raised() >= 20 && began.elapsed() > Duration::from_secs(6)
    });
    for node in &mut peers.nodes {
        assert!(lives(node.server.pid()));
    }
    peers.nodes[2].settles("wide:manual:k", "succeeded");
    foreign.execute("drop trigger harm on event");
    println!("{} errors in {:?}", raised(), began.elapsed());
    for name in &names {
        each_second_ran(&peers.nodes[1], name, 5);
    }
    for shard in peers.nodes[0].shards("wide:manual:k") {
        assert_eq!(shard["attempt"], 1, "{shard}");
    }
    let healed = peers.all_ready();
    assert!(healed < Duration::from_secs(10) + BUSY, "{healed:?}");
    peers.nodes[0].history_is_accepted();
    drop(worker);
}
