//! A PostgreSQL database that went back: recovered to a point in time, or a standby that took over.

use jiff::Timestamp;
use nix::sys::signal::Signal;
use serde_json::json;
use sichen_testdb::proxy::Proxy;

use crate::backup::ends;
use crate::database::Database;
use crate::program::{Client, until};
use crate::scene::Scene;

/// A server that reaches its database by a way that can lead elsewhere; it fires `daily` each second.
fn by_a_way_of_its_own(database: &Database) -> (Scene, Proxy) {
    let way = Proxy::to(&database.address());
    let store = database.url_at(&way.address);
    let dir = tempfile::tempdir().unwrap();
    let scene = Scene::on(dir, Some(store), &[], Vec::new());
    let spec = json!({
        "run": { "handler": "noop" }, "schedules": [{ "every": "1s" }], "overlap": "allow",
        "catchUp": { "policy": { "all": 1000 } },
    });
    scene.apply_spec("daily", &spec);
    scene.apply_spec("once", &json!({ "run": { "handler": "noop" } }));
    (scene, way)
}

fn runs(client: &Client) -> usize {
    let runs = client.json("runs daily --limit 1000");
    runs["items"].as_array().unwrap().len()
}

fn fires_again(client: &Client) {
    let before = runs(client);
    until("it fires", || runs(client) > before);
}

fn has(database: &Database, key: &str) -> bool {
    let query = format!("select count(*) from run where occasion = 'm/{key}'");
    database.connect().number(&query) == 1
}

fn epoch(database: &Database) -> i64 {
    database
        .connect()
        .number("select store_epoch from meta where id = 1")
}

fn in_recovery(database: &Database) -> bool {
    let query = "select pg_is_in_recovery()::int";
    database.connect().number(query) == 1
}

/// Waits for decisions, which are made, and goes on; the history is accepted, with a run or a reason for each instant.
fn is_decided_by_people(scene: &Scene, begun_after: Timestamp) {
    let client = &scene.client;
    until("it waits for decisions", || {
        let (status, why) = scene.ready();
        status == 503 && why.contains("SC4030")
    });
    let asked = client.json("restore show");
    let mark: Timestamp = asked["mark"].as_str().unwrap().parse().unwrap();
    assert!(mark <= begun_after, "{asked}");
    let jobs = asked["jobs"].as_array().unwrap();
    assert!(jobs.iter().any(|job| job["job"] == "daily"), "{asked}");
    client.ok("restore decide --job daily --as done --reason checked --evidence ledger");
    client.ok("restore decide --as again --reason idempotent");
    until("it is ready", || scene.ready().0 == 200);
    fires_again(client);
    let decisions = client.json("describe job daily")["decisions"].to_string();
    assert!(decisions.contains("taken_as_done"), "{decisions}");
    client.ok("verify");
    client.ok("audit --all");
}

/// A base backup and the archived log, recovered to a moment before the last work, as docs/guide/backup.md has it.
#[test]
fn a_database_recovered_to_a_point_in_time_waits_for_decisions() {
    let Some(mut database) = Database::start() else {
        return;
    };
    let archive = database.dir().join("archive");
    let made = format!(
        "mkdir -p {0}; test ! -f {0}/%f && cp %p {0}/%f",
        archive.display()
    );
    database.stop_in_order();
    database.tell(&format!("archive_mode = on\narchive_command = '{made}'"));
    database.start_again();
    let (mut scene, way) = by_a_way_of_its_own(&database);
    let settings = format!("restore_command = 'cp {}/%f %p'", archive.display());
    let mut recovered = database.copied(&settings, "recovery.signal");
    scene.client.ok("run once --key kept");
    fires_again(&scene.client);
    let moment = Timestamp::now();
    until("the moment is over", || {
        moment.duration_until(Timestamp::now()).as_millis() > 100
    });
    scene.client.ok("run once --key lost");
    fires_again(&scene.client);
    scene.server.signal(Signal::SIGKILL);
    scene.server.ended();
    let before = epoch(&database);
    // What the last segment has is archived with it.
    database.connect().execute("select pg_switch_wal()");
    database.stop_in_order();
    let target = moment.strftime("%Y-%m-%d %H:%M:%S%.6f+00");
    recovered.tell(&format!(
        "recovery_target_time = '{target}'\nrecovery_target_action = 'promote'"
    ));
    recovered.start_copy();
    until("it is recovered", || !in_recovery(&recovered));
    assert!(has(&recovered, "kept") && !has(&recovered, "lost"));
    way.leads_to(&recovered.address());
    let said = ends(&["restore", "begin", "--store", &recovered.url()], 0);
    assert!(said.contains("epoch"), "{said}");
    scene.start_server_again();
    assert!(epoch(&recovered) > before);
    is_decided_by_people(&scene, moment);
    drop(scene);
}

/// A primary with its standby, and a server that works on it.
fn with_a_standby() -> Option<(Database, Database, Scene, Proxy)> {
    let database = Database::start()?;
    let (scene, way) = by_a_way_of_its_own(&database);
    let follows = format!(
        "primary_conninfo = 'host=127.0.0.1 port={} user=postgres'",
        database.address().rsplit(':').next().unwrap()
    );
    let mut standby = database.copied(&follows, "standby.signal");
    standby.start_copy();
    scene.client.ok("run once --key kept");
    until("the standby follows", || has(&standby, "kept"));
    Some((database, standby, scene, way))
}

/// The primary is gone, the standby takes over, and the way leads to it: nobody tells the server.
fn takes_over(database: &mut Database, standby: &Database, way: &Proxy) {
    database.stop_at_once();
    standby.promote();
    until("it has taken over", || !in_recovery(standby));
    way.leads_to(&standby.address());
    way.heal();
}

/// DB-006: a server that goes on living finds that the database has forgotten what it was promised.
#[test]
fn a_standby_that_lagged_waits_for_decisions_under_a_living_server() {
    let Some((mut database, mut standby, scene, way)) = with_a_standby() else {
        return;
    };
    let before = epoch(&database);
    standby.stop_in_order();
    let moment = Timestamp::now();
    scene.client.ok("run once --key lost");
    fires_again(&scene.client);
    database.stop_at_once();
    standby.start_again();
    takes_over(&mut database, &standby, &way);
    is_decided_by_people(&scene, moment);
    assert!(has(&standby, "kept") && !has(&standby, "lost"));
    assert!(epoch(&standby) > before);
    drop(scene);
}

/// One that has everything costs nobody a decision: a living server raises the epoch and goes on.
#[test]
fn a_standby_that_has_everything_goes_on_under_a_living_server_and_a_higher_epoch() {
    let Some((mut database, standby, scene, way)) = with_a_standby() else {
        return;
    };
    let before = epoch(&database);
    // Whatever is acknowledged from now on is on both.
    let name = "alter system set synchronous_standby_names = '*'";
    database.connect().execute(name);
    database.connect().execute("select pg_reload_conf()");
    until("the standby is waited for", || {
        let query = "select count(*) from pg_stat_replication where sync_state = 'sync'";
        database.connect().number(query) == 1
    });
    scene.client.ok("run once --key last");
    takes_over(&mut database, &standby, &way);
    until("the epoch is raised", || epoch(&standby) > before);
    fires_again(&scene.client);
    until("it is ready", || scene.ready().0 == 200);
    assert!(has(&standby, "last"));
    let asked = scene.client.json("restore show");
    assert_eq!(asked["undecided"], false, "{asked}");
    scene.client.ok("verify");
    scene.client.ok("audit --all");
    drop(scene);
}
