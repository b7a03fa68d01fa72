//! Claims about the output of attempts: kept by the worker, read through the server.

use std::path::Path;

use nix::sys::signal::Signal;

use crate::program::{Client, Process, err, out, spawn, start, until};

const WORKER: &str = r#"
processes:
  talk: { argv: [/bin/sh, -c, 'echo "hello from $SICHEN_SHARD_INDEX"; echo oops >&2; printf "\377 end"; exit $SICHEN_SHARD_INDEX'] }
  slow: { argv: [/bin/sh, -c, 'for i in $(seq 1 40); do echo line $i; sleep 0.1; done'] }
  much: { argv: [/bin/sh, -c, 'seq 1 100000'] }
"#;

const JOBS: &str = "
{ apiVersion: sichen/v1, kind: Job, metadata: { name: talk }, spec: { run: { handler: talk }, shards: { count: 2 }, retry: { maxAttempts: 1 } } }
---
{ apiVersion: sichen/v1, kind: Job, metadata: { name: slow }, spec: { run: { handler: slow } } }
---
{ apiVersion: sichen/v1, kind: Job, metadata: { name: much }, spec: { run: { handler: much } } }
";

fn worker(dir: &Path, url: &str) -> Process {
    let text = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    spawn(&[
        "worker",
        "--name",
        "w",
        "--server",
        url,
        "--config",
        &text("worker.yaml"),
        "--data",
        &text("w"),
        "--join-token-file",
        &text("data/join-token"),
    ])
}

#[test]
fn output_is_shown_as_it_was_written_as_long_as_its_worker_can_be_asked() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = start(&[
        "server",
        "--data",
        data.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
        "--session-ttl",
        "3s",
        "--beat",
        "1s",
    ]);
    let c = Client::new(&server.url, &data);
    std::fs::write(dir.path().join("worker.yaml"), WORKER).unwrap();
    std::fs::write(dir.path().join("jobs.yaml"), JOBS).unwrap();
    c.ok(&format!(
        "apply -f {}",
        dir.path().join("jobs.yaml").display()
    ));
    let w = worker(dir.path(), &server.url);

    // Streams stay apart, bytes stay bytes; with several shards each line says whose it is.
    assert_eq!(c.run("run talk --wait --key k").status.code(), Some(1));
    // What `run --wait` leads to says why: the last line of what the process wrote.
    let why = c.ok("shards talk:manual:k --state failed");
    assert!(why.contains("stderr ends with: oops"), "{why}");
    let one = c.run("logs talk:manual:k 1");
    assert_eq!(one.stdout, b"hello from 1\n\xff end", "{}", err(&one));
    assert_eq!(err(&one), "oops\n");
    let both = out(&c.run("logs talk:manual:k --stream stdout"));
    assert!(
        both.contains("0| hello from 0\n") && both.contains("1| hello from 1\n"),
        "{both}"
    );

    // A long one is read in parts; its end is found without its beginning.
    c.ok("run much --wait --key k");
    assert_eq!(c.ok("logs much:manual:k 0").lines().count(), 100_000);
    assert_eq!(c.ok("logs much:manual:k 0 --tail 2"), "99999\n100000\n");

    // Following begins in mid-run and ends with the run.
    c.ok("run slow --key k");
    until("it runs", || {
        c.json("describe run slow:manual:k")["run"]["state"] == "running"
    });
    let followed = c.ok("logs slow:manual:k -f");
    let lines: Vec<&str> = followed.lines().collect();
    assert_eq!((lines.len(), lines[39]), (40, "line 40"));

    // A worker that is gone can't be asked: that is said, with what the store has.
    w.signal(Signal::SIGKILL);
    until("its session is over", || {
        c.json("get workers")["items"]
            .as_array()
            .unwrap()
            .is_empty()
    });
    let gone = c.fails("logs talk:manual:k 1", 4);
    for part in ["SC5030", "worker w", "exit code 1", "oops"] {
        assert!(gone.contains(part), "{part} is not in {gone}");
    }
    // When it is back, under another session, its files are too.
    let _again = worker(dir.path(), &server.url);
    until("the worker is back", || {
        !c.json("get workers")["items"]
            .as_array()
            .unwrap()
            .is_empty()
    });
    assert!(c.ok("logs talk:manual:k 1").contains("hello from 1"));

    assert!(c.fails("logs talk:manual:k 7", 3).contains("SC5001"));
    assert!(
        c.fails("logs talk:manual:k 1 --attempt 9", 3)
            .contains("SC5001")
    );
}
