//! Cases of `testdata/cases/bug_reports.json` in their form with several servers: a long history, a crowd of
//! runs that are not due, a transaction that nobody ends; and the node dies that has to do with them.
//!
//! # Not here
//! What each statement touches (the store's tests of plans); the sizes of the cases (`sichen-bench`).

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::cluster::{BUSY, Peers, SILENT, asks_for};
use crate::database::Session;
use crate::outage::{apply_ticking, each_second_ran, ticks};
use crate::program::until;
use crate::scene::{Scene, text};

/// Runs that are there beside what is due: later, blocked, and over.
const LATER: u32 = 100_000;
const BLOCKED: u32 = 10_000;
const OVER: u32 = 50_000;

const TICKING: [&str; 10] = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"];

/// Ids from here on are of runs that were copied.
const COPIES: u64 = 1_000_000_000;

/// Copies of the run that was asked for with key `t`, with its shard: rows alone, without a history.
fn copy(database: &Session, job: &str, from: u64, n: u32) {
    database.execute(&format!(
        "do $do$ declare c text; v text; template bigint; one record; begin \
           select id into template from run where job_name = '{job}' and occasion = 'm/t'; \
           for one in select * from (values ('run', 'id'), ('shard', 'run_id')) as t(name, key) loop \
             select string_agg(quote_ident(column_name), ', '), \
               string_agg(case column_name when one.key then '{from} + g' \
                 when 'occasion' then '''m/copy-'' || g' else 'r.' || quote_ident(column_name) end, ', ') \
               into c, v from information_schema.columns \
               where table_schema = 'public' and table_name = one.name and is_generated = 'NEVER'; \
             execute format('insert into %I (%s) select %s from %I r, generate_series(1, {n}) g where r.%I = %s', \
               one.name, c, v, one.name, one.key, template); \
           end loop; end $do$"
    ));
}

/// A crowd beside ten jobs that tick, each second's runs claimed by whichever node has them.
fn crowd(peers: &Peers) {
    let node = &peers.nodes[0];
    for (units, job) in [(1, true), (0, false)] {
        let gate = json!({
            "apiVersion": "sichen/v1", "kind": "Capacity", "metadata": { "name": "gate" },
            "spec": { "units": units },
        });
        let file = node.path("gate.json");
        std::fs::write(&file, gate.to_string()).unwrap();
        node.client.ok(&format!("apply -f {}", text(&file)));
        if job {
            let spec = json!({
                "run": { "handler": "noop" }, "overlap": "allow", "uses": { "gate": 1 },
            });
            node.apply_spec("blocked", &spec);
        }
    }
    let spec = json!({ "run": { "handler": "noop" }, "overlap": "allow" });
    node.apply_spec("later", &spec);
    node.apply_spec("history", &spec);
    for job in ["blocked", "history"] {
        node.client.ok(&format!("run {job} --key t"));
    }
    let in_a_year = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(365 * 24);
    let asked = json!({ "key": "t", "not_before": in_a_year.to_string() });
    let answer = node.ask(
        "POST",
        "/api/v1/jobs/default/later/runs",
        &asked.to_string(),
    );
    assert_eq!(answer.status, 201, "{answer:?}");
    node.settles("history:manual:t", "succeeded");
    let database = peers.database.connect();
    for (job, from, n) in [
        ("later", COPIES, LATER),
        ("blocked", 2 * COPIES, BLOCKED),
        ("history", 3 * COPIES, OVER),
    ] {
        let began = Instant::now();
        copy(&database, job, from, n);
        println!("{n} copies of a run of {job} in {:?}", began.elapsed());
    }
}

/// How late the runs of the ticking jobs began that were planned from this second on, sorted.
fn delays(node: &Scene, from: i64) -> Vec<Duration> {
    let mut delays = Vec::new();
    for name in TICKING {
        let runs = node.client.json(&format!("runs {name} --limit 500"));
        for run in runs["items"].as_array().unwrap() {
            let at = |field: &str| -> Option<jiff::Timestamp> {
                run[field].as_str().map(|at| at.parse().unwrap())
            };
            let planned = at("planned_at").unwrap();
            if planned.as_second() < from {
                continue;
            }
            if let Some(started) = at("started_at") {
                assert!(planned <= started, "too early: {run}");
                delays.push(started.duration_since(planned).unsigned_abs());
            }
        }
    }
    delays.sort_unstable();
    delays
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// Waits until each of the jobs has ticked after `from`.
fn tick_on(node: &Scene, from: i64) {
    until("all tick on", || {
        TICKING.iter().all(|name| {
            let ticks = ticks(node, name);
            ticks.iter().any(|(at, over)| *over && *at >= from)
        })
    });
}

/// What is due is begun in time from this second on.
fn begins_in_time(node: &Scene, from: i64) {
    let delays = delays(node, from);
    let p95 = delays[delays.len() * 95 / 100];
    let most = delays[delays.len() - 1];
    println!("{} runs begun within {most:?}, p95 {p95:?}", delays.len());
    assert!(p95 < Duration::from_secs(2) + BUSY, "{p95:?}");
}

/// DB-003, DB-009: somebody reads from an old snapshot, a hundred thousand runs wait for next year and ten thousand
/// for a capacity; and the node dies that gives out what is due. DB-004: a job with a long history is deleted at one
/// node while the other fires, and the one dies in the middle.
#[test]
fn a_crowd_an_old_transaction_and_a_long_history_hold_no_successor_up() {
    let Some(mut peers) = Peers::new(2, &[]) else {
        return;
    };
    let workers = ["w1", "w2"].map(|name| peers.worker(name, 16));
    crowd(&peers);
    peers.all_share(&[0, 1]);
    for name in TICKING {
        apply_ticking(&peers.nodes[0], name);
    }
    tick_on(&peers.nodes[0], 0);
    let old = peers.database.connect();
    old.execute("begin isolation level repeatable read; select count(*) from run where id < 0");
    let began = now();
    tick_on(&peers.nodes[1], began + 3);
    begins_in_time(&peers.nodes[1], began);

    let dead = peers.owner(&[0, 1]);
    let there = 1 - dead;
    let killed = Instant::now();
    peers.kill(dead);
    until("its duties are taken", || peers.taken_over(there, dead));
    let took = killed.elapsed();
    println!(
        "taken over {took:?} after SIGKILL beside {} runs",
        LATER + BLOCKED + OVER
    );
    assert!(took < SILENT + BUSY, "{took:?}");
    let taken = now();
    tick_on(&peers.nodes[there], taken + 4);
    begins_in_time(&peers.nodes[there], taken + 1);

    the_old_transaction_ends(&peers, &old);
    peers.nodes[dead].start_server_again();
    peers.all_share(&[0, 1]);
    a_deletion_is_whole_or_not_there(&mut peers);
    for name in TICKING {
        each_second_ran(&peers.nodes[1], name, 8);
    }
    let database = peers.database.connect();
    for table in [("shard", "run_id"), ("run", "id")] {
        let (name, key) = table;
        database.execute(&format!("delete from {name} where {key} > {COPIES}"));
    }
    for job in ["later", "blocked"] {
        peers.nodes[1].client.ok(&format!("cancel {job}:manual:t"));
    }
    peers.nodes[1].history_is_accepted();
    drop(workers);
}

/// DB-003: as long as it was open no version of a row went; then all do.
fn the_old_transaction_ends(peers: &Peers, old: &Session) {
    let database = peers.database.connect();
    let dead = |table: &str| {
        database.execute(&format!("vacuum {table}"));
        database.number(&format!(
            "select n_dead_tup from pg_stat_user_tables where relname = '{table}'"
        ))
    };
    until("the dead are kept", || dead("run") > 100);
    old.execute("rollback");
    until("they are gone", || dead("run") < 100);
}

/// DB-004: the node that deletes is killed while its transaction waits for the job's row.
fn a_deletion_is_whole_or_not_there(peers: &mut Peers) {
    let foreign = peers.database.connect();
    foreign.execute("begin; select 1 from job where name = 'history' for update");
    let (dying, there) = (0, 1);
    let from = now();
    std::thread::scope(|threads| {
        let node = &peers.nodes[dying];
        let asked = threads.spawn(|| node.client.run("delete history --yes"));
        until("it is in the middle", || {
            peers.database.is_waited_for(&foreign)
        });
        node.server.signal(Signal::SIGKILL);
        foreign.execute("rollback");
        assert!(!asked.join().unwrap().status.success(), "nobody answered");
    });
    peers.nodes[dying].server.ended();
    until("its duties are taken", || peers.taken_over(there, dying));
    let taken = now();
    let node = &peers.nodes[there];
    let database = peers.database.connect();
    let is_there = || {
        let live = "select count(*) from job where name = 'history' and deleted_at is null";
        database.number(live) == 1
    };
    let asked = asks_for(node, "history", "meanwhile", &json!({}));
    assert_eq!(asked.status == 201, is_there(), "{asked:?}");
    if is_there() {
        node.settles("history:manual:meanwhile", "succeeded");
        let began = Instant::now();
        node.client.ok("delete history --yes");
        let took = began.elapsed();
        println!("deleted in {took:?}");
        assert!(took < Duration::from_secs(2) + BUSY, "{took:?}");
    }
    assert!(!is_there());
    let gone = asks_for(node, "history", "after", &json!({}));
    assert_eq!(gone.status, 404, "{gone:?}");
    let kept = database.number("select count(*) from run where job_name = 'history'");
    assert!(kept > i64::from(OVER), "its history is kept");
    tick_on(node, taken + 3);
    begins_in_time(node, taken + 1);
    // Those planned while the owner was dead waited for its successor and no longer.
    let most: Option<Duration> = delays(node, from).pop();
    assert!(most < Some(SILENT + 2 * BUSY), "{most:?}");
    peers.nodes[dying].start_server_again();
    peers.all_ready();
}
