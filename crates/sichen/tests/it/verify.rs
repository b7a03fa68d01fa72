//! Claims about `sichen verify` on real databases: what it accepts, and that it names what is wrong
//! with a copy that somebody has meddled with.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::scene::{Scene, on_both_stores, text};

on_both_stores!(new => what_is_wrong_with_a_copy_is_named);

/// What is done to a copy, and the promise that must be named.
const HARM: &[(&str, &str, &str)] = &[
    (
        "one event deleted",
        "delete from event where seq = \
         (select min(seq) from event where kind = 'attempt_ended' and attempt = 1 and entity_id = \
          (select entity_id from event where kind = 'attempt_granted' and attempt = 2))",
        "I46",
    ),
    (
        "one token lowered",
        "update event set token = 1 where kind = 'attempt_granted' and attempt = 2",
        "I13",
    ),
    // In the rows the database's own unique key keeps it out.
    (
        "one run doubled",
        "update event set data = replace(data, 'key-2', 'key-1') where kind = 'run_created'",
        "I1",
    ),
    (
        "one hold leaked",
        "insert into hold (run_id, no, token, capacity, units, session_id, since) \
         select min(id), 0, 1, 'mysql-main', 2, 1, 1 from run",
        "I32",
    ),
];

/// The older half of the log becomes two days older than it is.
const AGE: &str = "update event set at = at - 172800000000 \
                   where seq <= (select (min(seq) + max(seq)) / 2 from event)";

fn what_is_wrong_with_a_copy_is_named(mut scene: Scene) {
    let worker = scene.worker("w1", &scene.server.url, 2);
    let marker = scene.path("marker");
    // Two shards run at a time: making a folder lets exactly one of them fail.
    let once = format!("if mkdir {}; then exit 1; fi", text(&marker));
    let retry = json!({ "maxAttempts": 3, "backoff": { "fixed": "50ms" } });
    let run = json!({ "process": { "argv": ["/bin/sh", "-c", once] } });
    scene.apply_spec(
        "j",
        &json!({ "run": run, "retry": retry, "shards": { "count": 3 } }),
    );
    for key in ["key-1", "key-2"] {
        scene.client.ok(&format!("run j --key {key} --wait"));
    }
    // While it is in use: over its API, and where that can be, beside it.
    assert_eq!(verdict(&scene, "--since 24h", 0)["outcome"], "ok");
    if let Some(database) = &scene.database {
        let words = format!("--since 24h --store {}", database.url());
        assert_eq!(verdict(&scene, &words, 0)["outcome"], "ok");
    }
    drop(worker);
    scene.server.signal(Signal::SIGTERM);
    scene.server.ended();

    let copies = Copies { scene: &scene };
    let whole = copies.make("whole", "");
    let all = verdict(&scene, &whole, 0)["seen"]["Event"].as_u64();
    for (what, statement, promise) in HARM {
        let copy = copies.make(&what.replace(' ', "_"), statement);
        let found = verdict(&scene, &copy, 1);
        let mut named = named(&found);
        // An attempt whose end is missing holds its slot still: if another was granted there, that is
        // said as well.
        named.retain(|invariant| *invariant != "I22");
        assert_eq!(named, [*promise], "{what}: {found:#}");
    }
    let aged = copies.make("aged", AGE);
    let young = verdict(&scene, &format!("--since 24h {aged}"), 0);
    assert_eq!(young["outcome"], "ok", "{young:#}");
    assert!(young["seen"]["Event"].as_u64() < all, "{young:#}");
    let harmed = "delete from event where seq = \
                  (select max(seq) from event where kind = 'run_settled')";
    let copy = copies.make("aged_and_harmed", &format!("{AGE}; {harmed}"));
    let found = verdict(&scene, &format!("--since 24h {copy}"), 1);
    assert!(named(&found).contains(&"I46"), "{found:#}");
}

fn verdict(scene: &Scene, words: &str, code: i32) -> Value {
    let output = scene.client.run(&format!("verify -o json {words}"));
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &verdict["violations"][0];
    assert_eq!(output.status.code(), Some(code), "{words}: {first:#}");
    verdict
}

fn named(verdict: &Value) -> Vec<&str> {
    let all = verdict["violations"].as_array().unwrap();
    all.iter()
        .map(|v| v["invariant"].as_str().unwrap())
        .collect()
}

/// Copies of a stopped server's store, each its own.
struct Copies<'a> {
    scene: &'a Scene,
}

impl Copies<'_> {
    /// A copy with `statements` carried out; the words by which `verify` finds it.
    fn make(&self, name: &str, statements: &str) -> String {
        if let Some(database) = &self.scene.database {
            let template = format!("create database {name} template postgres");
            database.connect_to("template1").execute(&template);
            database.connect_to(name).execute(statements);
            return format!("--store {}", database.url_of(name));
        }
        let copy = self.scene.path(name);
        copy_files(&self.scene.path("server"), &copy);
        let database = copy.join("sichen.db");
        let open = rusqlite::Connection::open(&database).unwrap();
        open.execute_batch(statements).unwrap();
        drop(open);
        format!("--data {}", text(&copy))
    }
}

fn copy_files(from: &Path, to: &PathBuf) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}
