//! Claims about the command line, made of the built program.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::program::{Client, Process, children, command, err, lives, out, start, until};

const JOBS: &str = r#"
apiVersion: sichen/v1
kind: Job
metadata: { name: greet }
spec:
  run: { handler: echo }
  shards: { count: 5 }
---
apiVersion: sichen/v1
kind: Job
metadata: { name: slow }
spec:
  run: { handler: sleep }
  parameters: { ms: 1500 }
  shards: { count: 2 }
---
apiVersion: sichen/v1
kind: Job
metadata: { name: flaky, namespace: team }
spec:
  run: { handler: fail }
  parameters: { attempts: 2, message: no luck }
  retry: { maxAttempts: 2, backoff: { fixed: 10ms } }
"#;

struct Dev {
    process: Process,
    client: Client,
    dir: TempDir,
}

impl Dev {
    /// `sichen dev` with the jobs above applied.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let process = start(&[
            "dev",
            "--data",
            data.to_str().unwrap(),
            "--listen",
            "127.0.0.1:0",
        ]);
        let client = Client::new(&process.url, &data);
        let jobs = dir.path().join("jobs.yaml");
        std::fs::write(&jobs, JOBS).unwrap();
        client.ok(&format!("apply -f {}", jobs.display()));
        Self {
            process,
            client,
            dir,
        }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }
}

fn a_planned_time_that_was_not_run_leads_to_its_record(dev: &Dev) {
    let c = &dev.client;
    let file = dev.dir.path().join("tick.yaml");
    let text = "apiVersion: sichen/v1\nkind: Job\nmetadata: { name: tick }\nspec: { run: { handler: noop }, \
                timeZone: Asia/Shanghai, schedules: [{ cron: '* * * * * *' }] }\n";
    std::fs::write(&file, text).unwrap();
    c.ok(&format!("apply -f {}", file.display()));
    let mut key = String::new();
    // What falls into a pause is recorded when it ends.
    until("a time has fallen into a pause", || {
        c.ok("pause tick");
        c.ok("resume tick");
        let view = c.json("describe job tick");
        let mut records = view["decisions"].as_array().unwrap().iter();
        let paused = records.find(|record| record["reason"] == "paused");
        if let Some(record) = paused {
            key = format!("tick:{}", record["from"].as_str().unwrap());
        }
        paused.is_some()
    });
    let why = c.ok(&format!("explain {key}"));
    assert!(why.contains("(paused): the job was paused"), "{why}");
    assert_eq!(c.json(&format!("explain {key}"))["reason"], "paused");
    for words in ["trace", "shards", "logs", "describe run"] {
        let told = c.fails(&format!("{words} {key}"), 3);
        assert!(
            told.contains("SC5001") && told.contains("the job was paused"),
            "{told}"
        );
    }
    let before = c.fails("trace tick:2020-01-01T00:00:00+08:00", 3);
    assert!(before.contains("the job is younger"), "{before}");
    let after = c.fails("trace tick:2100-01-01T00:00:00+08:00", 3);
    assert!(after.contains("this one is later"), "{after}");
    c.ok("delete tick --yes");
}

#[test]
fn dev_runs_jobs_and_leaves_a_history_that_is_accepted() {
    let mut dev = Dev::new();
    let c = &dev.client;
    let again = c.ok(&format!(
        "apply -f {}",
        dev.dir.path().join("jobs.yaml").display()
    ));
    assert_eq!(again.matches("unchanged").count(), 3, "{again}");
    let run = c.json("run greet --wait --key k1");
    assert_eq!(
        (&run["state"], &run["shards"]["succeeded"]),
        (&"succeeded".into(), &5.into())
    );
    let number = run["id"].to_string();

    // By number and by key it is the same run.
    assert_eq!(
        c.json("describe run greet:manual:k1")["run"],
        c.json(&format!("describe run {number}"))["run"]
    );
    assert_eq!(c.json("runs greet")["items"][0]["key"], "greet:manual:k1");
    assert_eq!(
        c.json("shards greet:manual:k1")["items"]
            .as_array()
            .unwrap()
            .len(),
        5
    );
    assert_eq!(c.json("get jobs")["items"].as_array().unwrap().len(), 3);
    assert_eq!(c.json("get workers")["items"][0]["name"], "dev");
    // A built-in handler starts no process, so there is nothing of it.
    for (words, lines) in [("logs greet:manual:k1 3", 2), ("logs greet:manual:k1", 2)] {
        let nothing = c.run(words);
        assert_eq!(nothing.status.code(), Some(0));
        let said = err(&nothing);
        for part in ["SC5031", "the store has of it: succeeded", "handler echo"] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(said.lines().count(), lines, "{said}");
    }
    // A job stands for its newest run where something is read, never where something is changed.
    for words in [
        "trace greet",
        "trace greet/3",
        "explain greet",
        "shards greet",
        "logs greet 0",
    ] {
        let shown = c.run(words);
        assert_eq!(shown.status.code(), Some(0), "{words}");
        let says = err(&shown);
        assert!(says.contains("newest run of greet"), "{words}: {says}");
    }
    assert!(c.fails("cancel greet", 2).contains("none is running"));
    assert!(c.fails("trace greet 9", 3).contains("no shard 9"));
    assert!(c.ok("events greet:manual:k1 -f").contains("run_settled"));

    let life = c.ok("trace greet:manual:k1");
    for word in ["created", "granted", "succeeded", "5 of 5 succeeded"] {
        assert!(life.contains(word), "{life}");
    }
    // The trace id, a part of what handlers get, leads to the run; a slash to its shard.
    let run = c.json("describe run greet:manual:k1")["run"].clone();
    let trace = run["trace_id"].as_str().unwrap();
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    for words in [
        format!("trace {parent} 3"),
        format!("trace {}/3", run["id"]),
    ] {
        let life = c.json(&words);
        assert_eq!(life["run"]["id"], run["id"], "{words}");
        let mut entries = life["entries"].as_array().unwrap().iter();
        assert!(entries.all(|e| e["shard"].is_null() || e["shard"] == 3));
    }
    assert_eq!(
        c.fails(&format!("trace {}", "a".repeat(32)), 3)
            .matches("SC5001")
            .count(),
        1
    );

    // A run that fails says why and how to go on; retrying it does go on.
    let failed = c.run("run team/flaky --wait --key k");
    assert_eq!(failed.status.code(), Some(1), "{}", err(&failed));
    assert!(out(&failed).contains("sichen retry"), "{}", out(&failed));
    let shown = c.ok("describe run team/flaky:manual:k");
    assert!(shown.contains("asked-to-fail: no luck"), "{shown}");
    let meant = c.fails("retry team/flaky", 2);
    assert!(meant.contains("`sichen retry "), "{meant}");
    let wrong = c.ok("doctor");
    assert!(wrong.contains("dead-letters team/flaky"), "{wrong}");
    assert!(
        c.ok("retry team/flaky:manual:k --wait")
            .contains("succeeded")
    );
    // What had failed, and what followed, is still there.
    let shown = c.ok("describe run team/flaky:manual:k");
    for part in ["asked-to-fail: no luck → the shard has failed", "round 2"] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }

    // A job that has not run yet, or is paused, is explained too.
    let idle = c.ok("explain slow");
    assert!(idle.contains("no run yet") && idle.contains("`sichen run slow`"));
    assert!(c.fails("trace slow", 3).contains("no run yet"));
    assert!(c.ok("pause greet").contains("paused"));
    let paused = c.ok("explain greet");
    assert!(paused.contains("`sichen resume greet`"), "{paused}");
    assert_eq!(c.json("get jobs")["items"][0]["paused"], true);
    assert!(c.ok("resume greet").contains("resumed"));
    a_planned_time_that_was_not_run_leads_to_its_record(&dev);
    // What nobody can run says so.
    let nobody = dev.dir.path().join("nobody.yaml");
    let text = "apiVersion: sichen/v1\nkind: Job\nmetadata: { name: nobody }\nspec: { run: { handler: nothing } }\n";
    std::fs::write(&nobody, text).unwrap();
    c.ok(&format!("apply -f {}", nobody.display()));
    c.ok("run nobody --key k");
    let why = c.ok("explain nobody:manual:k");
    assert!(why.contains("no_handler") && why.contains("echo"), "{why}");
    assert!(c.ok("cancel nobody:manual:k --wait").contains("cancelled"));
    // Nobody is there to be asked.
    assert!(c.fails("delete nobody", 2).contains("--yes"));
    c.ok("delete nobody --yes");
    c.ok("delete greet --yes");
    assert_eq!(c.json("get jobs")["items"].as_array().unwrap().len(), 2);
    let live = c.json("verify");
    assert!(live["seen"]["Row"].as_u64() > Some(10), "{live}");
    let export = dev.dir.path().join("export.jsonl");
    std::fs::write(&export, c.ok("export")).unwrap();
    c.ok(&format!("verify --file {}", export.display()));
    // The same history without the ends of its runs is no history.
    let lost = std::fs::read_to_string(&export).unwrap();
    let lost: Vec<&str> = lost
        .lines()
        .filter(|l| !l.contains("run_settled"))
        .collect();
    std::fs::write(&export, lost.join("\n")).unwrap();
    c.fails(&format!("verify --file {}", export.display()), 1);

    dev.process.signal(Signal::SIGTERM);
    assert_eq!(dev.process.ended().code(), Some(0));
    let data = dev.data();
    let verdict = dev
        .client
        .json(&format!("verify --data {} --quiescent", data.display()));
    assert_eq!(verdict["outcome"], "ok", "{verdict}");
    // The worker has drained before the server stopped: its session did not have to run out.
    assert_eq!(
        verdict["seen"]["Lost"].as_u64().unwrap_or(0),
        0,
        "{verdict}"
    );
}

#[test]
fn every_failure_has_its_exit_code_and_says_what_to_do() {
    let dev = Dev::new();
    let c = &dev.client;
    c.ok("run team/flaky --key k");
    let bad = dev.dir.path().join("bad.yaml");
    std::fs::write(&bad, "apiVersion: sichen/v1\nkind: Job\nmetadata: { nam: x }\nspec: { run: { handler: a }, retri: {} }\n").unwrap();
    let check = |words: &str, code: i32, says: &[&str]| {
        let errors = c.fails(words, code);
        for text in says {
            assert!(errors.contains(text), "{words}: {text} is not in {errors}");
        }
    };
    check("rn", 2, &["no command \"rn\"", "`sichen run`"]);
    check("stop 3", 2, &["`sichen cancel RUN`"]);
    check("get jbs", 2, &["unrecognized subcommand", "jobs"]);
    check("trace hello", 3, &["SC5001"]);
    check("run greet --param x", 2, &["SC7006"]);
    check("run Greet", 2, &["SC1001"]);
    check("run greet --planned yesterday", 2, &["--planned", "+08:00"]);
    let file = bad.display().to_string();
    let both = [
        "bad.yaml:3:13: metadata.nam",
        "did you mean `name`",
        "bad.yaml:4:",
        "spec.retri",
    ];
    check(&format!("validate {file}"), 2, &both);
    check(&format!("apply -f {file}"), 2, &both);
    check("validate no-such-file", 2, &["SC7005", "no-such-file"]);
    check("describe run 4711", 3, &["SC5001", "4711"]);
    // Neither is taken for another address of the server.
    check("trace ..", 3, &["SC5001", "\"..\""]);
    check("cancel .", 3, &["SC5001"]);
    check("due --file no-such-file", 2, &["no-such-file"]);
    let again = c.ok("run team/flaky --key k");
    assert!(again.contains("no new run"), "{again}");
    check("describe run 4711", 3, &["sichen runs"]);
    check("run team/flaky --key k --param attempts=9", 4, &["SC5011"]);
    check(
        "run team/flaky --key k2 --param atempts=9",
        2,
        &["SC1027", "did you mean `attempts`?", "message"],
    );
    check("run greet --planned 2100-01-01T00:00:00Z", 4, &["SC5010"]);
    check(
        "runs --server http://127.0.0.1:1",
        5,
        &["SC7003", "--server"],
    );
    check("runs --server ftp://127.0.0.1", 2, &["SC7001"]);
    let join = dev.data().join("join-token");
    check(
        &format!("runs --token-file {}", join.display()),
        6,
        &["SC6001", "--token-file"],
    );
    check("runs --token-file /nowhere", 6, &["SC6012", "/nowhere"]);
    check("run slow --wait --timeout 50ms", 7, &["SC7007", "goes on"]);
}

#[test]
fn a_handler_that_nobody_offers_is_told_at_once_and_while_one_waits() {
    let dev = Dev::new();
    let c = &dev.client;
    let file = dev.dir.path().join("typo.yaml");
    let job = "{ apiVersion: sichen/v1, kind: Job, metadata: { name: typo }, \
               spec: { run: { handler: ehco } } }";
    std::fs::write(&file, job).unwrap();
    until("the worker is there", || {
        c.json("get workers")["items"] != serde_json::json!([])
    });
    let applied = c.run(&format!("apply -f {}", file.display()));
    assert!(out(&applied).contains("`sichen run typo` starts it"));
    for part in ["warning: job typo", "handler ehco", "did you mean echo?"] {
        assert!(err(&applied).contains(part), "{}", err(&applied));
    }
    let waited = c.fails("run typo --wait --timeout 5s", 7);
    for part in [
        "still waiting: ",
        "SC7007",
        "handler ehco",
        "on offer: echo",
    ] {
        assert!(waited.contains(part), "{part} is not in {waited}");
    }
    assert!(c.ok("doctor").contains("job typo: no worker of the pool"));

    // A deleted job's runs are found by its name.
    c.ok("delete typo --yes");
    let left = c.run("runs typo");
    assert!(out(&left).contains("typo:manual:"), "{}", err(&left));
    assert!(err(&left).contains("job typo was deleted"));
    assert!(c.fails("runs tpyo", 3).contains("SC5001"));
}

#[test]
fn a_server_takes_its_configuration_from_a_file_and_options_go_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let file = dir.path().join("server.yaml");
    let text = format!("data: {}\nlisten: 127.0.0.1:1\nbeat: 1s\n", data.display());
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let words = ["server", "--config", file, "--listen", "127.0.0.1:0"];
    let server = start(&words);
    let c = Client::new(&server.url, &data);
    c.ok("get jobs");
    assert!(data.join("sichen.db").exists());
    let shown = c.json(&format!("config server --config {file} --session-ttl 9s"));
    let of = |key: &str| {
        let mut settings = shown["settings"].as_array().unwrap().iter();
        settings.find(|s| s["key"] == key).unwrap().clone()
    };
    assert_eq!(of("listen")["value"], "127.0.0.1:1");
    assert_eq!(of("listen")["origin"]["file"], file);
    assert_eq!(of("session_ttl")["origin"]["flag"], "--session-ttl");
    assert_eq!(of("retention")["origin"], "default");
    let asked = c.json("config");
    assert_eq!(
        asked["settings"][0]["origin"]["environment"],
        "SICHEN_SERVER"
    );
    std::fs::write(file, "listn: x\n").unwrap();
    for words in ["config check", "server --config"] {
        let said = c.fails(&format!("{words} {file}"), 2);
        assert!(said.contains("did you mean `listen`?"), "{said}");
    }
}

#[test]
fn what_is_a_right_configuration_of_a_worker_is_what_a_worker_takes() {
    let dir = tempfile::tempdir().unwrap();
    let ends = |words: String, code: i32| {
        let words: Vec<&str> = words.split_whitespace().collect();
        let ended = command(&words).output().unwrap();
        assert_eq!(ended.status.code(), Some(code), "{words:?}: {ended:?}");
        err(&ended)
    };
    let file = dir.path().join("worker.yaml");
    let shown = file.to_str().unwrap();
    let token = dir.path().join("join-token");
    let data = dir.path().join("data");
    std::fs::write(&token, "secret").unwrap();
    let whole = format!(
        "builtin: true\ndata_dir: {}\njoin_token_file: {}\n",
        data.display(),
        token.display()
    );
    let pem = dir.path().join("none.pem");
    let wrong = [
        (
            "servers: [\"ftp://host\"]\n",
            "http://host:port or https://host:port",
        ),
        ("servers: [\"http://a b\"]\n", "server address"),
        ("tls_cert: /etc/cert.pem\n", "give both or neither"),
        ("reserve: {cpu: 1}\n", "no resource of that name"),
    ];
    for (line, why) in wrong {
        std::fs::write(&file, format!("{whole}{line}")).unwrap();
        for words in [
            "config check --worker",
            "worker --config",
            "config worker --config",
        ] {
            let said = ends(format!("{words} {shown}"), 2);
            assert!(
                said.contains("SC7008") && said.contains(why),
                "{words}: {said}"
            );
        }
    }
    std::fs::write(&token, " \n").unwrap();
    std::fs::write(&file, &whole).unwrap();
    let said = ends(format!("config check --worker {shown}"), 2);
    assert!(said.contains("is empty"), "{said}");
    // What is on another machine is told, and no fault of the file.
    std::fs::write(&file, format!("{whole}ca_file: {}\n", pem.display())).unwrap();
    std::fs::write(&token, "secret").unwrap();
    let note = ends(format!("config check --worker {shown}"), 0);
    assert!(note.contains("none.pem is not on this machine"), "{note}");
    let said = ends(format!("worker --config {shown}"), 1);
    assert!(
        said.contains("SC7073") && said.contains("none.pem"),
        "{said}"
    );
}

/// NAME-009.
#[test]
fn a_part_of_a_name_is_never_taken_for_the_job() {
    let dev = Dev::new();
    for words in [
        "run gree",
        "pause gree",
        "delete gree",
        "describe job gree",
        "runs gree",
    ] {
        let errors = dev.client.fails(words, 3);
        assert!(errors.contains("did you mean greet?"), "{words}: {errors}");
    }
    assert_eq!(
        dev.client.json("runs")["items"].as_array().unwrap().len(),
        0
    );
    assert_eq!(
        dev.client.json("get jobs")["items"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    // Where others begin with it, the exact name is the one that is acted upon.
    let longer = dev.dir.path().join("longer.yaml");
    let text = ["greet-db", "greet-db-eu"].map(|name| {
        format!("---\n{{ apiVersion: sichen/v1, kind: Job, metadata: {{ name: {name} }}, spec: {{ run: {{ handler: echo }} }} }}\n")
    });
    std::fs::write(&longer, text.concat()).unwrap();
    dev.client.ok(&format!("apply -f {}", longer.display()));
    dev.client.ok("run greet --wait");
    let runs = dev.client.json("runs");
    assert_eq!(runs["items"].as_array().unwrap().len(), 1);
    assert_eq!(runs["items"][0]["job"], "greet");
    dev.client.ok("delete greet --yes");
    let left = dev.client.json("get jobs");
    let left = left["items"].as_array().unwrap().iter();
    let mut left: Vec<&str> = left.map(|job| job["name"].as_str().unwrap()).collect();
    left.sort_unstable();
    assert_eq!(left, ["flaky", "greet-db", "greet-db-eu", "slow"]);
    let ambiguous = dev.client.fails("delete greet-d --yes", 3);
    assert!(ambiguous.contains("greet-db"), "{ambiguous}");
}

#[test]
fn the_tokens_are_made_once_and_kept_from_others() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let server = || start(&["server", "--data", data, "--listen", "127.0.0.1:0"]);
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let first = server();
    let (token, join) = (read("token"), read("join-token"));
    assert!(token.trim().len() >= 32 && token != join);
    for name in ["token", "join-token"] {
        let mode = dir
            .path()
            .join(name)
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o600, "{name}");
    }
    // Two servers on one directory would both believe that they write alone.
    let second = command(&["server", "--data", data, "--listen", "127.0.0.1:0"])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(4), "{}", err(&second));
    drop(first);
    drop(server());
    assert_eq!((read("token"), read("join-token")), (token, join));
    std::fs::set_permissions(dir.path().join("token"), PermissionsExt::from_mode(0o644)).unwrap();
    let open = command(&["server", "--data", data, "--listen", "127.0.0.1:0"])
        .output()
        .unwrap();
    assert_eq!(open.status.code(), Some(6), "{}", err(&open));
    assert!(err(&open).contains("SC6010"), "{}", err(&open));
}

#[test]
fn a_server_is_reached_from_elsewhere_only_if_that_is_meant() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let words = ["server", "--data", data, "--listen", "0.0.0.0:0"];
    let refused = command(&words).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        err(&refused).contains("--allow-plaintext"),
        "{}",
        err(&refused)
    );
    let words = [
        "server",
        "--data",
        data,
        "--beat",
        "10s",
        "--session-ttl",
        "15s",
    ];
    let refused = command(&words).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("SC1310"), "{}", err(&refused));
}

#[test]
fn the_worker_of_dev_ends_even_if_dev_is_killed() {
    let mut dev = Dev::new();
    let workers = children(dev.process.pid());
    assert_eq!(workers.len(), 1);
    dev.process.signal(Signal::SIGKILL);
    dev.process.ended();
    until("the worker ends", || !lives(workers[0]));
}

#[test]
fn waiting_outlasts_a_server_that_is_killed_and_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let jobs = dir.path().join("jobs.yaml");
    std::fs::write(&jobs, JOBS).unwrap();
    let server = |listen: &str| {
        start(&[
            "server",
            "--data",
            data.to_str().unwrap(),
            "--listen",
            listen,
        ])
    };
    let mut first = server("127.0.0.1:0");
    let (url, client) = (first.url.clone(), Client::new(&first.url, &data));
    client.ok(&format!("apply -f {}", jobs.display()));
    let run = client.json("run slow --key k --param ms=3000");
    let mut worker = command(&["worker", "--builtin", "--server", &url, "--data"]);
    worker
        .arg(dir.path().join("worker"))
        .arg("--join-token-file")
        .arg(data.join("join-token"));
    let worker = Started(worker.spawn().unwrap());
    let key = run["key"].as_str().unwrap();
    until("the run is running", || {
        client.json(&format!("describe run {key}"))["run"]["state"] == "running"
    });
    let mut waiting = Started(
        client
            .command("run slow --key k --param ms=3000 --wait")
            .spawn()
            .unwrap(),
    );
    first.signal(Signal::SIGKILL);
    first.ended();
    let second = server(url.strip_prefix("http://").unwrap());
    assert_eq!(second.url, url);
    until("the waiting ends", || {
        waiting.0.try_wait().unwrap().is_some()
    });
    assert_eq!(waiting.0.wait().unwrap().code(), Some(0));
    let run = client.json("describe run slow:manual:k");
    assert_eq!(run["run"]["state"], "succeeded");
    client.ok("verify");
    drop(worker);
}

/// Killed when its test ends.
struct Started(std::process::Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_example_is_valid() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for entry in std::fs::read_dir(&examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "yaml" || e == "json") {
            let output = command(&["validate", path.to_str().unwrap()])
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", err(&output));
            count += 1;
        }
    }
    assert!(count >= 5, "{count}");
    let all = command(&["validate", examples.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(all.status.success(), "{}", err(&all));
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = command(&["completions", shell]).output().unwrap();
        for word in ["apply", "verify", "retry", "shards"] {
            assert!(out(&output).contains(word), "{shell}: {word}");
        }
    }
}
