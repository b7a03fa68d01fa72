//! What a process says of itself, by the named pipe and by the socket that answers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use sichen_proto::v1;
use v1::server_message::Message as FromServer;
use v1::worker_message::Message as ToServer;

use crate::fake::{Conn, Fake, grant, patiently};
use crate::process::{Workers, config, run_once, start};

#[tokio::test]
async fn what_a_process_reports_reaches_the_server() {
    let script = r#"
        echo '{"checkpoint": "id:7", "done": 7, "expected": 9}' >> "$SICHEN_REPORT"
        echo 'not json' >> "$SICHEN_REPORT"
        echo '{"result": {"rows": 9}}' >> "$SICHEN_REPORT""#;
    let (finish, _, _dir) = run_once(script, grant("script", 5, "{}")).await;
    let checkpoint = finish.checkpoint.unwrap();
    assert_eq!(
        (checkpoint.seq, checkpoint.position.as_slice()),
        (1, &b"id:7"[..])
    );
    assert_eq!(finish.counters.unwrap().expected, Some(9));
    assert_eq!(finish.result, br#"{"rows":9}"#);
}

/// `echo -n` and its like in other languages.
#[tokio::test]
async fn a_last_line_without_its_end_counts_too() {
    let script = r#"
        printf '{"checkpoint": "a"}\n{"checkpoint": "b"' >> "$SICHEN_REPORT"
        printf '}\n\n{"result": null, "done": 3}' >> "$SICHEN_REPORT""#;
    let (finish, _, _dir) = run_once(script, grant("script", 5, "{}")).await;
    assert_eq!(finish.outcome(), v1::Outcome::Succeeded);
    assert_eq!(finish.checkpoint.unwrap().position, b"b");
    assert_eq!(finish.counters.unwrap().done, Some(3));
}

/// A process that waits until the test lets it go, and the way to speak for it.
struct Scene {
    conn: Conn,
    attempt: PathBuf,
    secret: String,
    _dir: tempfile::TempDir,
    _fake: Fake,
    _workers: Workers,
}

async fn scene() -> Scene {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    // As long as somebody of the tree waits for an answer, the tree lives.
    let script = "trap '' TERM; echo $SICHEN_REPORT_SECRET > known.new; mv known.new known; \
                  while [ ! -e go ]; do sleep 0.02; done";
    let config = config(&fake, dir.path(), script);
    let (workers, mut conn) = start(&mut fake, config).await;
    let with_time = v1::Grant {
        grace_ms: 20_000,
        ..grant("script", 5, "{}")
    };
    conn.grant(with_time).await;
    let attempt = dir.path().join("attempts/7.0.1.5");
    let secret = patiently(async {
        loop {
            let text = std::fs::read_to_string(attempt.join("known")).unwrap_or_default();
            if text.ends_with('\n') {
                return text.trim().to_owned();
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    Scene {
        conn,
        attempt,
        secret,
        _dir: dir,
        _fake: fake,
        _workers: workers,
    }
}

type Asked = tokio::task::JoinHandle<Vec<String>>;

impl Scene {
    /// Says these lines over one connection; yields what each was answered.
    fn say(&self, lines: &[&str]) -> Asked {
        let socket = self.attempt.join("report.sock");
        let lines: Vec<String> = lines
            .iter()
            .map(|line| line.replace("SECRET", &self.secret))
            .collect();
        tokio::task::spawn_blocking(move || {
            let mut stream = UnixStream::connect(socket).unwrap();
            let mut answers = BufReader::new(stream.try_clone().unwrap());
            let mut heard = Vec::new();
            for line in lines {
                writeln!(stream, "{line}").unwrap();
                let mut answer = String::new();
                answers.read_line(&mut answer).unwrap();
                heard.push(answer);
            }
            heard
        })
    }

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
}

fn is(answer: &str, word: &str) -> bool {
    answer.contains(&format!("\"answer\":\"{word}\""))
}

const A_CHECKPOINT: &str = r#"{"secret": "SECRET", "checkpoint": "id:7", "done": 7}"#;

#[tokio::test]
async fn a_checkpoint_is_acknowledged_when_the_server_has_it_and_not_before() {
    let mut scene = scene().await;
    let asked = scene.say(&[A_CHECKPOINT, r#"{"secret": "SECRET", "result": [1]}"#]);
    let report = scene.checkpoint().await;
    let position = &report.checkpoint.as_ref().unwrap().position;
    assert_eq!(position.as_slice(), b"id:7");
    assert!(!asked.is_finished());
    // One that could not be committed is sent again.
    scene.decide(&report, v1::Verdict::RetryLater).await;
    let report = scene.checkpoint().await;
    assert!(!asked.is_finished());
    scene.decide(&report, v1::Verdict::Accepted).await;
    let answers = patiently(asked).await.unwrap();
    assert!(
        is(&answers[0], "acknowledged") && is(&answers[1], "taken"),
        "{answers:?}"
    );
    std::fs::write(scene.attempt.join("go"), "").unwrap();
    let finish = scene.conn.finish().await;
    assert_eq!(finish.result, b"[1]");
    assert!(!scene.attempt.join("report.sock").exists());
}

#[tokio::test]
async fn a_checkpoint_under_a_stale_token_is_answered_fenced() {
    let mut scene = scene().await;
    let asked = scene.say(&[A_CHECKPOINT, A_CHECKPOINT]);
    let report = scene.checkpoint().await;
    scene.decide(&report, v1::Verdict::Stale).await;
    let answers = patiently(asked).await.unwrap();
    assert!(
        answers.iter().all(|answer| is(answer, "fenced")),
        "{answers:?}"
    );
}

#[tokio::test]
async fn a_checkpoint_of_a_cancelled_attempt_is_answered_stopped() {
    let mut scene = scene().await;
    let asked = scene.say(&[A_CHECKPOINT]);
    scene.checkpoint().await;
    let cancel = v1::Cancel {
        shard: Some(v1::ShardRef { run_id: 7, no: 0 }),
        token: 5,
        reason: v1::Reason::CancelRequested.into(),
        grace_ms: 20_000,
    };
    scene.conn.send(FromServer::Cancel(cancel)).await;
    let answers = patiently(asked).await.unwrap();
    assert!(is(&answers[0], "stopped"), "{answers:?}");
    assert!(answers[0].contains("cancel-requested"), "{answers:?}");
}

#[tokio::test]
async fn only_the_attempt_itself_is_heard_and_only_in_lines_that_can_be_read() {
    let scene = scene().await;
    let position = "x".repeat(70_000);
    let long = format!(r#"{{"secret": "SECRET", "checkpoint": "{position}"}}"#);
    let lines = [
        r#"{"checkpoint": "id:7"}"#,
        r#"{"secret": "", "result": 1}"#,
        r#"{"secret": "0123456789abcdef0123456789abcdef", "result": 1}"#,
        "not json",
        r#"{"secret": "SECRET", "done": -1}"#,
        long.as_str(),
        r#"{"secret": "SECRET", "waiting_on": "mysql-main"}"#,
    ];
    let answers = patiently(scene.say(&lines)).await.unwrap();
    let refused = answers.iter().filter(|answer| is(answer, "refused"));
    assert_eq!(refused.count(), 6, "{answers:?}");
    assert!(is(&answers[6], "taken"), "{answers:?}");
    let endless = "x".repeat(400 * 1024);
    let answers = patiently(scene.say(&[&endless])).await;
    assert!(answers.is_err() || is(&answers.unwrap()[0], "refused"));
}

/// The address of a socket has 108 bytes, a path thousands.
#[tokio::test]
async fn a_data_directory_may_lie_as_deep_as_it_likes() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let deep = dir.path().join("d".repeat(200)).join("e".repeat(200));
    let config = config(&fake, &deep, "test -S $SICHEN_REPORT_SOCKET");
    let (_workers, mut conn) = start(&mut fake, config).await;
    conn.grant(grant("script", 5, "{}")).await;
    let finish = conn.finish().await;
    assert_eq!(
        finish.outcome(),
        v1::Outcome::Succeeded,
        "{:?}",
        finish.error
    );
}

#[tokio::test]
async fn a_process_that_says_nothing_is_stopped_as_stalled_and_one_that_does_is_not() {
    let limited = v1::Grant {
        stall_timeout_ms: 700,
        ..grant("script", 5, "{}")
    };
    let (finish, ..) = run_once("sleep 300", limited.clone()).await;
    assert_eq!(finish.outcome(), v1::Outcome::TimedOut);
    assert_eq!(finish.reason(), v1::Reason::Stalled);
    // Twice as long as the limit, with a sign in every fifth of it.
    let script = r#"for n in 1 2 3 4 5 6 7 8 9 10; do
        sleep 0.14; echo "{\"done\": $n}" >> "$SICHEN_REPORT"; done"#;
    let (finish, ..) = run_once(script, limited).await;
    assert_eq!(
        finish.outcome(),
        v1::Outcome::Succeeded,
        "{:?}",
        finish.error
    );
}
