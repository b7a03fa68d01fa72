//! A store that went back, and what people decide about the time that it has lost.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::backup::ends;
use crate::database::Database;
use crate::program::{Client, until};
use crate::scene::{Kind, Scene, text};

/// Jobs that fire each second, and catch up all that they have missed.
fn apply_each_second(scene: &Scene, names: &[&str]) {
    for name in names {
        let spec = json!({
            "run": { "handler": "noop" }, "schedules": [{ "every": "1s" }], "overlap": "allow",
            "catchUp": { "policy": { "all": 1000 } },
        });
        scene.apply_spec(name, &spec);
    }
}

fn runs(client: &Client, job: &str) -> usize {
    let runs = client.json(&format!("runs {job} --limit 1000"));
    runs["items"].as_array().unwrap().len()
}

/// After a backup: each of the jobs has fired again since.
fn all_fire_again(client: &Client, names: &[&str]) {
    for job in names {
        let before = runs(client, job);
        until("it fires after the backup", || runs(client, job) > before);
    }
}

/// What a restore asks about.
fn asked_about(client: &Client, what: &str, name: &str) -> Vec<String> {
    let asked = client.json("restore show");
    assert_eq!(asked["undecided"], true, "{asked}");
    let names = asked[what].as_array().unwrap().iter();
    let names = names.map(|of| of[name].as_str().unwrap_or_default().to_owned());
    names.collect()
}

/// The runs of the job `open` that a restore asks about.
fn open_runs(client: &Client) -> Vec<String> {
    let mut keys = asked_about(client, "runs", "key");
    keys.retain(|key| key.starts_with("open:"));
    keys
}

/// Every planned time from before the restore has what was decided, and nothing of it has run.
fn all_of_it_is(client: &Client, job: &str, reason: &str) {
    let decisions = client.json(&format!("describe job {job}"))["decisions"].to_string();
    assert!(decisions.contains(reason), "{job}: {decisions}");
}

/// A server, stopped where it is after a backup while work goes on: what its worker then has to report, no
/// server has heard of; and that backup put in its place.
fn restored_with_lost_work(scene: &mut Scene) -> crate::program::Process {
    let (data, file) = (scene.path("server"), scene.path("b.db"));
    ends(&["backup", text(&file), "--data", text(&data)], 0);
    all_fire_again(&scene.client, &["again", "done", "left"]);
    scene.client.ok("token revoke ci");
    scene.client.ok("run open --key lost");
    let worker = scene.worker("w1", &scene.server.url, 8);
    for key in ["k", "taken", "lost"] {
        let run = format!("open:manual:{key}");
        until("each run is worked on", || {
            let shards = scene.shards(&run);
            shards.iter().all(|shard| shard["state"] == "running")
        });
    }
    scene.server.signal(Signal::SIGKILL);
    scene.server.ended();
    scene.go();
    until("results wait for a server", || {
        scene.unacknowledged("w1") >= 6
    });
    let words = ["restore", text(&file), "--data", text(&data), "--replace"];
    let put = ends(&words, 0);
    assert!(
        put.contains("revoked, as they were in that store: ci"),
        "{put}"
    );
    scene.start_server_again();
    worker
}

/// A restored server does nothing by itself until people have decided; then each job and run has what was
/// decided of it, and what a worker did in the lost time is told and not taken for done.
#[test]
fn a_restored_server_waits_for_the_decisions_and_carries_them_out() {
    let mut scene = Scene::new(Kind::Sqlite).unwrap();
    apply_each_second(&scene, &["again", "done", "left"]);
    let token = format!(
        "--namespace * --expires never --out {}",
        text(&scene.path("ci"))
    );
    scene
        .client
        .ok(&format!("token create ci --role viewer {token}"));
    scene.apply_script("open", 2);
    scene.client.ok("run open --key k");
    scene.client.ok("run open --key taken");
    let worker = restored_with_lost_work(&mut scene);
    let client = &scene.client;
    let (status, why) = scene.ready();
    assert!(status == 503 && why.contains("SC4030"), "{status} {why}");
    let why = client.json("explain open:manual:taken")["reasons"][0].clone();
    assert_eq!(why["word"], "restore", "{why}");
    assert!(
        why["text"].as_str().unwrap().contains("restore show"),
        "{why}"
    );
    // The results of the lost time are refused, and told: of runs that the store knows, and of one that it has lost.
    until("what ran in the lost time is told", || {
        let told = asked_about(client, "lost", "run_key");
        ["k", "taken", "lost"]
            .iter()
            .all(|key| told.contains(&format!("open:manual:{key}")))
    });
    let lost = client.json("restore show")["lost"].clone();
    let mut of_open = lost.as_array().unwrap().iter();
    let of_open = of_open.find(|of| of["run_key"] == "open:manual:lost");
    assert_eq!(of_open.unwrap()["end"], "succeeded", "{lost}");
    assert!(client.ok("restore show").contains("it ran"));
    assert_eq!(
        asked_about(client, "tokens", "name"),
        Vec::<String>::new(),
        "ci is revoked again"
    );
    let before = ["again", "done", "left"].map(|job| runs(client, job));
    client.fails("restore decide --job done --as done --reason checked", 4);
    assert!(client.fails("pause left", 4).contains("SC5062"));
    client.ok("restore decide --job done --as done --reason checked --evidence ledger");
    client.ok("restore decide --job left --as leave --reason unknown");
    client.ok("restore decide --run open:manual:k --as done --reason seen --evidence file");
    assert_eq!(scene.run("open:manual:k")["state"], "cancelled");
    client.fails(
        "restore decide --run open:manual:k --as again --reason no",
        3,
    );
    let now = ["again", "done", "left"].map(|job| runs(client, job));
    assert_eq!(now, before, "nothing fires yet");
    client.ok("restore decide --as again --reason the-rest");
    assert!(
        client
            .fails("restore decide --as again --reason x", 4)
            .contains("SC5060")
    );
    until("it is ready", || scene.ready().0 == 200);
    scene.settles("open:manual:taken", "succeeded");
    until("the jobs fire again", || {
        runs(client, "again") > before[0] && runs(client, "done") > before[1]
    });
    all_of_it_is(client, "done", "taken_as_done");
    all_of_it_is(client, "left", "left_at_restore");
    client.ok("verify");
    // The second evaluator has a run or a reason for every planned time, those of the lost stretch too.
    client.ok("audit --all");
    drop(worker);
}

/// Each decision is kept once it is made: by a server that is killed before the last, through a second restore
/// from a backup of the store that waits, and from the one that is made of the rest.
#[test]
fn what_was_decided_stays_through_a_kill_and_another_restore() {
    let mut scene = Scene::new(Kind::Sqlite).unwrap();
    apply_each_second(&scene, &["kept", "other", "rest"]);
    scene.apply_script("open", 1);
    for key in ["kept", "rest"] {
        scene.client.ok(&format!("run open --key {key}"));
    }
    let (data, file, later) = (scene.path("server"), scene.path("b.db"), scene.path("c.db"));
    ends(&["backup", text(&file), "--data", text(&data)], 0);
    let put_back = |scene: &mut Scene, file: &std::path::Path| {
        scene.server.signal(Signal::SIGKILL);
        scene.server.ended();
        ends(
            &["restore", text(file), "--data", text(&data), "--replace"],
            0,
        );
        scene.start_server_again();
    };
    all_fire_again(&scene.client, &["kept", "other", "rest"]);
    put_back(&mut scene, &file);
    let mark = scene.client.json("restore show")["mark"].clone();
    scene
        .client
        .ok("restore decide --job kept --as again --reason idempotent");
    scene
        .client
        .ok("restore decide --run open:manual:kept --as again --reason idempotent");
    scene
        .client
        .ok("restore decide --job other --as leave --reason x");
    scene.kill_and_restart_server();
    assert_eq!(asked_about(&scene.client, "jobs", "job"), ["rest"]);
    assert_eq!(open_runs(&scene.client), ["open:manual:rest"]);
    let caught_up = runs(&scene.client, "kept");
    assert!(caught_up > 0, "its policy made runs, which wait");
    // A backup of the store that waits, in whose place the server then is.
    ends(&["backup", text(&later), "--data", text(&data)], 0);
    put_back(&mut scene, &later);
    let asked = scene.client.json("restore show");
    assert_eq!(
        asked["mark"], mark,
        "what the first has lost is lost yet: {asked}"
    );
    assert_eq!(open_runs(&scene.client), ["open:manual:rest"]);
    // Two people at once: one of them decides.
    let both: Vec<_> = (0..2)
        .map(|_| {
            let mut command = scene
                .client
                .command("restore decide --as leave --reason rest");
            command.stdout(std::process::Stdio::null()).spawn().unwrap()
        })
        .collect();
    let ended = both.into_iter().map(|mut one| one.wait().unwrap().code());
    let mut ended: Vec<_> = ended.collect();
    ended.sort_unstable();
    assert_eq!(ended, [Some(0), Some(4)]);
    let worker = scene.worker("w1", &scene.server.url, 8);
    scene.go();
    scene.settles("open:manual:kept", "succeeded");
    assert_eq!(scene.run("open:manual:rest")["state"], "cancelled");
    all_of_it_is(&scene.client, "rest", "left_at_restore");
    all_of_it_is(&scene.client, "other", "left_at_restore");
    scene.client.ok("verify");
    scene.client.ok("audit --all");
    drop(worker);
}

fn dump(database: &Database) {
    database.run("pg_dump", &["-Fc", "-f", "dump", "-d", &database.url()]);
}

/// `pg_dump` and `pg_restore` into the very database: a server sees by itself that its tables were made anew.
#[test]
fn a_postgres_database_that_was_restored_from_a_dump_waits_for_decisions() {
    let Some(mut scene) = Scene::new(Kind::Postgres) else {
        return;
    };
    apply_each_second(&scene, &["daily"]);
    scene.apply_script("open", 1);
    scene.client.ok("run open --key k");
    dump(scene.database());
    all_fire_again(&scene.client, &["daily"]);
    scene.client.ok("run open --key lost");
    let worker = scene.worker("w1", &scene.server.url, 8);
    until("both are worked on", || {
        let running = |key: &str| scene.shards(key)[0]["state"] == "running";
        running("open:manual:k") && running("open:manual:lost")
    });
    scene.server.signal(Signal::SIGKILL);
    scene.server.ended();
    scene.go();
    until("results wait for a server", || {
        scene.unacknowledged("w1") >= 2
    });
    let url = scene.database().url();
    let words = ["--clean", "--if-exists", "-d", &url, "dump"];
    scene.database().run("pg_restore", &words);
    scene.start_server_again();
    let client = &scene.client;
    until("what ran in the lost time is told", || {
        let told = asked_about(client, "lost", "run_key");
        told.contains(&"open:manual:k".to_owned()) && told.contains(&"open:manual:lost".to_owned())
    });
    assert_eq!(asked_about(client, "jobs", "job"), ["daily"]);
    assert_eq!(open_runs(client), ["open:manual:k"]);
    client.ok("restore decide --run open:manual:k --as done --reason seen --evidence file");
    client.ok("restore decide --as again --reason idempotent");
    until("it is ready", || scene.ready().0 == 200);
    until("it fires", || runs(client, "daily") > 0);
    client.ok("verify");
    client.ok("audit --all");
    drop(worker);
}

/// Where nothing tells that a database went back, people say so before a server acts in it.
#[test]
fn a_restore_is_begun_in_the_database_before_a_server_is_started() {
    let Some(mut scene) = Scene::new(Kind::Postgres) else {
        return;
    };
    apply_each_second(&scene, &["daily"]);
    until("it fires", || runs(&scene.client, "daily") > 0);
    scene.server.signal(Signal::SIGKILL);
    scene.server.ended();
    // By then at least one planned time has passed without a server.
    let ended = jiff::Timestamp::now();
    until("it is due", || {
        ended.duration_until(jiff::Timestamp::now()) > jiff::SignedDuration::from_secs(2)
    });
    let url = scene.database().url();
    let begun = ends(&["restore", "begin", "--store", &url, "-o", "json"], 0);
    let begun: Value = serde_json::from_str(&begun).unwrap();
    scene.start_server_again();
    let asked = scene.client.json("restore show");
    assert_eq!(
        (&asked["epoch"], &asked["mark"]),
        (&begun["epoch"], &begun["mark"])
    );
    assert_eq!(asked_about(&scene.client, "jobs", "job"), ["daily"]);
    let (status, why) = scene.ready();
    assert!(status == 503 && why.contains("SC4030"), "{status} {why}");
    scene.client.ok("restore decide --as leave --reason x");
    until("it is ready", || scene.ready().0 == 200);
    all_of_it_is(&scene.client, "daily", "left_at_restore");
    scene.client.ok("verify");
}
