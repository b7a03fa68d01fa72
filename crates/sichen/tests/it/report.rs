//! `sichen report`, inside real processes of a real worker, against a server whose word is the
//! test's.

use std::path::Path;

use sichen_proto::v1;
use v1::server_message::Message as FromServer;
use v1::worker_message::Message as ToServer;

use crate::fake::{Conn, Fake, grant, patiently};
use crate::program::{Process, command, spawn};

struct Scene {
    conn: Conn,
    worker: Process,
    dir: tempfile::TempDir,
    _fake: Fake,
}

/// A worker that runs this script; `report` in it is `sichen report`, and `codes` takes exit codes.
async fn scene(script: &str) -> Scene {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let path = dir.path().display();
    let script = format!(
        "report() {{ {} report \"$@\" 2>> {path}/said; }}\ncodes={path}/codes\n{script}\n",
        env!("CARGO_BIN_EXE_sichen")
    );
    let file = dir.path().join("script.sh");
    std::fs::write(&file, script).unwrap();
    let config = serde_json::json!({
        "servers": [fake.address],
        "data_dir": dir.path().join("worker"),
        "drain_grace_ms": 200,
        "processes": { "script": { "argv": ["/bin/sh", file] } },
    });
    let config_file = dir.path().join("worker.yaml");
    std::fs::write(&config_file, config.to_string()).unwrap();
    let worker = spawn(&["worker", "--config", config_file.to_str().unwrap()]);
    let (mut conn, _) = fake.welcomed(1).await;
    let patient = v1::Grant {
        grace_ms: 20_000,
        ..grant("script", 5, "{}")
    };
    conn.grant(patient).await;
    Scene {
        conn,
        worker,
        dir,
        _fake: fake,
    }
}

impl Scene {
    async fn checkpoint(&mut self) -> v1::CheckpointReport {
        loop {
            match self.conn.next().await {
                Some(ToServer::Checkpoint(report)) => return report,
                Some(_) => {}
                None => panic!("the stream ended before a checkpoint"),
            }
        }
    }

    async fn decide(&self, report: &v1::CheckpointReport, verdict: v1::Verdict) {
        let ack = v1::CheckpointAck {
            shard: report.shard,
            token: report.token,
            seq: report.checkpoint.as_ref().unwrap().seq,
            verdict: verdict.into(),
        };
        self.conn.send(FromServer::CheckpointAck(ack)).await;
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    /// Waits for so many lines of exit codes.
    async fn codes(&self, lines: usize) -> String {
        patiently(async {
            loop {
                let text = self.read("codes");
                if text.lines().count() == lines {
                    return text;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        })
        .await
    }
}

#[tokio::test]
async fn all_that_a_process_reports_arrives() {
    let mut scene = scene(
        "report waiting mysql-main; echo $? >> $codes
         report waiting --over; echo $? >> $codes
         report counter expected 9000; echo $? >> $codes
         report progress 4000 --rate 12.5; echo $? >> $codes
         report checkpoint id:4711 --done 4711; echo $? >> $codes
         { printf '\"'; head -c 300000 /dev/zero | tr '\\0' 1; printf '\"'; } | report result -; echo $? >> $codes
         echo '{\"rows\": 9000}' | report result -; echo $? >> $codes",
    )
    .await;
    let report = scene.checkpoint().await;
    assert_eq!(
        scene.codes(4).await,
        "0\n0\n0\n0\n",
        "{}",
        scene.read("said")
    );
    scene.decide(&report, v1::Verdict::Accepted).await;
    let finish = scene.conn.finish().await;
    assert_eq!(
        finish.outcome(),
        v1::Outcome::Succeeded,
        "{:?}",
        finish.error
    );
    let codes = "0\n0\n0\n0\n0\n2\n0\n";
    assert_eq!(scene.codes(7).await, codes, "{}", scene.read("said"));
    let said = scene.read("said");
    assert!(said.contains("a result has 262144 bytes at most"), "{said}");
    assert_eq!(finish.result, br#"{"rows":9000}"#);
    assert_eq!(finish.checkpoint.unwrap().position, b"id:4711");
    let counters = finish.counters.unwrap();
    assert_eq!((counters.done, counters.expected), (Some(4711), Some(9000)));
    assert_eq!(
        (counters.rate, counters.waiting_on.as_str()),
        (Some(12.5), "")
    );
}

/// TERM reaches the whole tree when the token is stale; the shell here lives on to tell the code.
#[tokio::test]
async fn a_stale_token_has_an_exit_code_of_its_own() {
    let mut scene = scene("trap '' TERM; report checkpoint a; echo $? >> $codes").await;
    let report = scene.checkpoint().await;
    scene.decide(&report, v1::Verdict::Stale).await;
    assert_eq!(scene.codes(1).await, "8\n");
    let said = scene.read("said");
    assert!(
        said.contains("SC7021") && said.contains("stop at once"),
        "{said}"
    );
}

#[tokio::test]
async fn a_process_that_is_to_stop_is_told_so_whenever_it_asks() {
    let mut scene = scene(
        "trap '' TERM; report checkpoint a; echo $? >> $codes
         report checkpoint b; echo $? >> $codes",
    )
    .await;
    scene.checkpoint().await;
    let cancel = v1::Cancel {
        shard: Some(v1::ShardRef { run_id: 7, no: 0 }),
        token: 5,
        reason: v1::Reason::CancelRequested.into(),
        grace_ms: 20_000,
    };
    scene.conn.send(FromServer::Cancel(cancel)).await;
    assert_eq!(scene.codes(2).await, "9\n9\n");
    assert!(
        scene.read("said").contains("SC7026"),
        "{}",
        scene.read("said")
    );
}

#[tokio::test]
async fn no_acknowledgement_in_time_is_told_from_no_worker() {
    let script = "report checkpoint a --timeout 200ms; echo $? >> $codes
                  SICHEN_REPORT_SOCKET=/no/such report checkpoint b; echo $? >> $codes
                  SICHEN_REPORT_SECRET=wrong report checkpoint c; echo $? >> $codes
                  report result 'no json'; echo $? >> $codes
                  report counter done 0.5; echo $? >> $codes";
    let scene = scene(script).await;
    assert_eq!(scene.codes(5).await, "7\n5\n2\n2\n2\n");
    for code in ["SC7025", "SC7024", "SC7022"] {
        assert!(scene.read("said").contains(code), "{}", scene.read("said"));
    }
}

/// Its own end is the worker's end: it is killed with the tree, or finds nobody.
#[tokio::test]
async fn a_killed_worker_leaves_nobody_waiting() {
    let mut scene = scene("report checkpoint a; echo $? >> $codes; sleep 300").await;
    scene.checkpoint().await;
    let attempt = scene.dir.path().join("worker/attempts/7.0.1.5");
    assert!(attempt.join("running").exists());
    scene.worker.signal(nix::sys::signal::Signal::SIGKILL);
    patiently(async {
        while is_watched(&attempt) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// Whether the supervisor of the attempt lives, and so anything of its tree.
fn is_watched(attempt: &Path) -> bool {
    let mark = std::fs::File::open(attempt.join("running")).unwrap();
    matches!(mark.try_lock(), Err(std::fs::TryLockError::WouldBlock))
}

#[test]
fn outside_of_an_attempt_there_is_nobody_to_report_to() {
    let output = command(&["report", "progress", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("SC7023"), "{said}");
}
