//! Claims about a server's configuration that changes while it runs.

use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::program::{Client, Process, command, started, until, until_within};

const JOB: &str = "apiVersion: sichen/v1\nkind: Job\nmetadata: { name: greet }\nspec: { run: { handler: echo } }\n";

/// A server with a configuration of its own, and what it logs.
struct Living {
    dir: tempfile::TempDir,
    process: Process,
}

impl Living {
    fn start(file: &str, more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("server.yaml"), file).unwrap();
        let config = at("server.yaml");
        let data = at("data");
        let mut words = vec!["server", "--config", config.to_str().unwrap(), "--data"];
        words.extend([data.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
        words.extend(more);
        let mut command = command(&words);
        command.stderr(std::fs::File::create(at("log")).unwrap());
        let process = started(command);
        Self { dir, process }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.file("log")).unwrap()
    }

    fn client(&self) -> Client {
        Client::new(&self.process.url, &self.file("data"))
    }

    /// It is told to read this configuration.
    fn told(&self, text: &str) {
        std::fs::write(self.file("server.yaml"), text).unwrap();
        self.process.signal(Signal::SIGHUP);
    }

    /// What it logs after this, once it has `words`.
    fn logs(&self, from: usize, words: &str) -> String {
        until(words, || self.log()[from..].contains(words));
        self.log()[from..].to_owned()
    }
}

#[test]
fn log_and_retention_change_at_a_signal_and_what_needs_a_restart_is_named_once() {
    let mut server = Living::start("log: warn\nretention: 720h\n", &[]);
    let c = server.client();
    let job = server.file("job.yaml");
    std::fs::write(&job, JOB).unwrap();
    c.ok(&format!("apply -f {}", job.display()));
    let worker = server.file("worker");
    let join = server.file("data").join("join-token");
    let _worker = crate::program::spawn(&[
        "worker",
        "--builtin",
        "--data",
        worker.to_str().unwrap(),
        "--join-token-file",
        join.to_str().unwrap(),
        "--server",
        &server.process.url,
    ]);
    c.ok("run greet --key k --wait");
    let runs = || c.json("runs")["items"].as_array().unwrap().len();
    assert_eq!(runs(), 1);
    assert!(!server.log().contains("INFO"), "{}", server.log());

    // What is taken up, and what is not.
    let from = server.log().len();
    server.told("log: info\nretention: 1s\nbeat: 4s\nsession_ttl: 20s\n");
    let logged = server.logs(from, "SC7018");
    assert!(
        logged.contains("was read again") && logged.contains("[\"log\", \"retention\"]"),
        "{logged}"
    );
    let warnings: Vec<&str> = logged.lines().filter(|l| l.contains("SC7018")).collect();
    assert_eq!(warnings.len(), 1, "{logged}");
    assert!(warnings[0].contains("beat, session_ttl"), "{logged}");
    // By the janitor, which would look each minute and is told at once; the run ended a moment ago.
    until_within(Duration::from_secs(40), "the old run is removed", || {
        server.process.signal(Signal::SIGHUP);
        runs() == 0
    });

    // All of a bad file, or one that is not there, is passed over.
    let bad = [
        ("log: error\nretention: 1ms\n", "retention: 1ms"),
        ("log: error\nretentoin: 1s\n", "did you mean `retention`?"),
        ("log: debgu\n", "debgu"),
        ("- [\n", "SC7008"),
    ];
    for (text, says) in bad {
        let from = server.log().len();
        server.told(text);
        let logged = server.logs(from, "SC7017");
        assert!(logged.contains(says), "{text:?}: {logged}");
    }
    std::fs::remove_file(server.file("server.yaml")).unwrap();
    let from = server.log().len();
    server.process.signal(Signal::SIGHUP);
    assert!(server.logs(from, "SC7017").contains("SC7005"));

    // What was in force is so still, its levels too: this is said at `info`.
    let from = server.log().len();
    server.told("log: info\nretention: 1s\n");
    let logged = server.logs(from, "was read again");
    assert!(logged.contains("taken=[]"), "{logged}");
    assert!(!logged.contains("SC7018"), "{logged}");
    c.ok("get jobs");
    server.process.signal(Signal::SIGTERM);
    assert_eq!(server.process.ended().code(), Some(0));
}

#[test]
fn an_option_goes_before_what_the_file_comes_to_say() {
    let server = Living::start("log: error\n", &["--log", "info", "--retention", "9h"]);
    let from = server.log().len();
    server.told("log: error\nretention: 1s\n");
    let logged = server.logs(from, "was read again");
    assert!(logged.contains("taken=[]"), "{logged}");
    // A file that says nothing is the defaults.
    let bare = Living::start("", &[]);
    let from = bare.log().len();
    bare.process.signal(Signal::SIGHUP);
    bare.logs(from, "was read again");
    bare.client().ok("get jobs");
}
