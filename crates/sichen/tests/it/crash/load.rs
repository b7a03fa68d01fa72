//! The load of a sweep: rounds of everything that a user does, each command said again under the
//! same key until it is answered.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Site;
use crate::program::{Client, until};
use crate::scene::text;

/// The longest that one command is said again.
const PATIENCE: Duration = Duration::from_secs(60);
/// Shards of the run whose effects are counted.
const SHARDS: usize = 2;

/// What each kind of run ends as.
const ENDS: &[(&str, &str)] = &[
    ("work", "succeeded"),
    ("step", "succeeded"),
    ("flaky", "succeeded"),
];

pub(super) struct Load {
    thread: JoinHandle<u32>,
}

/// How many rounds were answered.
pub(super) struct Rounds(u32);

impl Load {
    pub(super) fn start(site: &Site, stop: Arc<AtomicBool>) -> Self {
        let user = User {
            client: site.client(),
            file: site.path("load.json"),
            done: site.path("done"),
        };
        let thread = std::thread::spawn(move || {
            let mut rounds = 0;
            while !stop.load(Ordering::Relaxed) || rounds == 0 {
                user.round(rounds);
                rounds += 1;
            }
            rounds
        });
        Self { thread }
    }

    pub(super) fn ended(self) -> Rounds {
        Rounds(self.thread.join().unwrap())
    }
}

struct User {
    client: Client,
    file: PathBuf,
    done: PathBuf,
}

impl User {
    /// Until the server has answered, whatever it answers.
    fn says(&self, words: &str) -> bool {
        let end = Instant::now() + PATIENCE;
        loop {
            let output = self.client.run(words);
            match output.status.code() {
                Some(0) => return true,
                // Not there, or gone before it answered.
                Some(5) => {}
                // It has been done already, or there is nothing to do.
                Some(1 | 3 | 4) => return false,
                _ => panic!("{words}: {output:?}"),
            }
            assert!(Instant::now() < end, "{words}: {output:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What must be answered with yes.
    fn insists(&self, words: &str) {
        assert!(self.says(words), "{words}: {:?}", self.client.run(words));
    }

    fn round(&self, n: u32) {
        self.apply(n);
        self.insists(&format!("run work --key work-{n}"));
        self.insists(&format!("run step --key step-{n}"));
        self.insists(&format!("run flaky --key flaky-{n}"));
        self.says(&format!("run doomed --key doomed-{n} --wait --timeout 20s"));
        self.insists(&format!("run long --key long-{n}"));
        self.says(&format!("cancel long:manual:long-{n}"));
        self.says("pause tick");
        self.says("resume tick");
        self.says(&format!(
            "backfill start tick --from 2026-01-01T00:{:02}:00Z --to 2026-01-01T00:{:02}:03Z --key back-{n}",
            n % 60,
            n % 60
        ));
        self.backfill("pause");
        self.backfill("cancel");
        self.says(&format!("retry doomed:manual:doomed-{n}"));
        self.says("dead-letters discard doomed --reason swept --yes");
        self.says("delete brief --yes");
        self.says("delete spare --calendar --yes");
    }

    /// Does something to the newest backfill.
    fn backfill(&self, what: &str) {
        let listed = self.client.run("backfill list tick -o json");
        // The server may be gone just now: then the next round does it.
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
        if let Some(id) = listed["items"][0]["id"].as_u64() {
            self.says(&format!("backfill {what} {id}"));
        }
    }

    fn apply(&self, n: u32) {
        let script = format!(
            "echo $SICHEN_RUN_ID $SICHEN_SHARD_INDEX $SICHEN_TOKEN >> {}",
            text(&self.done)
        );
        let run = json!({ "process": { "argv": ["/bin/sh", "-c", script] } });
        let job = |name: &str, spec: Value| json!({ "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": name }, "spec": spec });
        let soon = json!({ "maxAttempts": 50, "backoff": { "fixed": "50ms" } });
        let documents = [
            json!({
                "apiVersion": "sichen/v1", "kind": "Calendar", "metadata": { "name": "spare" },
                "spec": { "daysOff": [{ "date": format!("2027-01-{:02}", n % 28 + 1), "name": "x" }] },
            }),
            job(
                "work",
                json!({
                    "run": run, "shards": { "count": SHARDS }, "parameters": { "n": n }, "retry": soon,
                }),
            ),
            job(
                "step",
                json!({ "run": { "handler": "sleep" }, "parameters": { "ms": 450 }, "retry": soon }),
            ),
            job(
                "flaky",
                json!({
                    "run": { "handler": "fail" }, "parameters": { "attempts": 1 }, "retry": soon,
                }),
            ),
            job(
                "doomed",
                json!({ "run": { "handler": "fail" }, "retry": { "maxAttempts": 1 } }),
            ),
            job(
                "long",
                json!({ "run": { "handler": "sleep" }, "parameters": { "ms": 60_000 } }),
            ),
            job(
                "tick",
                json!({
                    "run": { "handler": "noop" }, "overlap": "allow",
                    "schedules": [{ "every": "1s" }],
                }),
            ),
            job(
                "brief",
                json!({ "run": { "handler": "noop" }, "parameters": { "n": n } }),
            ),
        ];
        let texts: Vec<String> = documents.iter().map(Value::to_string).collect();
        std::fs::write(&self.file, texts.join("\n---\n")).unwrap();
        self.insists(&format!("apply -f {}", text(&self.file)));
    }
}

impl Rounds {
    /// Everything that was answered ends as it should, and each attempt did its work once.
    pub(super) fn are_done(&self, site: &Site) {
        let client = site.client();
        let mut runs = BTreeMap::new();
        for n in 0..self.0 {
            for (job, end) in ENDS {
                let key = format!("{job}:manual:{job}-{n}");
                let mut run = Value::Null;
                until(&format!("{key} is {end}"), || {
                    run = client.json(&format!("describe run {key}"))["run"].clone();
                    run["state"] == *end
                });
                if *job == "work" {
                    runs.insert(run["id"].to_string().replace('"', ""), key);
                }
            }
        }
        let done = std::fs::read_to_string(site.path("done")).unwrap();
        let mut tokens = BTreeMap::<(String, String), Vec<&str>>::new();
        for line in done.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [run, shard, token] = words[..] else {
                panic!("{line}");
            };
            tokens
                .entry((run.to_owned(), shard.to_owned()))
                .or_default()
                .push(token);
        }
        for (shard, tokens) in &mut tokens {
            let attempts = tokens.len();
            tokens.sort_unstable();
            tokens.dedup();
            assert_eq!(
                tokens.len(),
                attempts,
                "an attempt of {shard:?} worked twice: {tokens:?}"
            );
        }
        for (id, key) in runs {
            for shard in 0..SHARDS {
                let place = (id.clone(), shard.to_string());
                assert!(
                    tokens.contains_key(&place),
                    "{key}: shard {shard} of run {id} did nothing"
                );
            }
        }
    }
}
