//! Output of every size and kind: none of it harms the worker, the run, or the process itself.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sichen_proto::v1;
use sichen_sdk::output::Stream;

use crate::fake::{Fake, grant, patiently};
use crate::kill::Worker;
use crate::process::{config, kept, pids, run_once, start};

/// What a worker may grow by, whatever its processes write.
const MAX_GROWTH_BYTES: u64 = 16 << 20;

/// The most memory that the process ever had.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() * 1024
}

/// `first`, then so many bytes without a newline, then `last`, on both streams at once.
async fn a_flood(bytes: u64) {
    let script = format!(
        "echo first; echo first >&2; head -c {bytes} /dev/zero & head -c {bytes} /dev/zero >&2; wait; \
         echo last; echo last >&2"
    );
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::spawn(&fake, dir.path(), &script);
    let (mut conn, _) = fake.welcomed(1).await;
    let before = peak(worker.id());
    let asked = Instant::now();
    conn.grant(grant("script", 5, "{}")).await;
    // It is a part of every turn that the beats are answered: one that is late ends the session.
    let finish = conn.finish().await;
    assert_eq!(
        finish.outcome(),
        v1::Outcome::Succeeded,
        "{:?}",
        finish.error
    );
    let grown = peak(worker.id()) - before;
    println!(
        "{bytes} bytes a stream: {:?}, {grown} bytes more memory",
        asked.elapsed()
    );
    assert!(grown <= MAX_GROWTH_BYTES, "{grown}");
    for stream in [Stream::Stdout, Stream::Stderr] {
        let text = kept(&dir.path().join("attempts/7.0.1.5"), stream);
        assert!(text.starts_with(b"first\n") && text.ends_with(b"last\n"));
        let gap = text
            .windows(25)
            .position(|w| w.ends_with(b" bytes were not kept]\n"));
        let gap = &text[..gap.expect("the gap is told") + 25];
        let from = gap.iter().rposition(|byte| *byte == b'[').unwrap();
        let told = String::from_utf8_lossy(&gap[from + 1..]);
        let told: u64 = told.split(' ').next().unwrap().parse().unwrap();
        let line = format!("\n[{told} bytes were not kept]\n").len();
        assert_eq!(told + (text.len() - line) as u64, bytes + 11);
        assert!(text.len() <= 17 << 20);
    }
    conn.ack(&finish, v1::Verdict::Accepted).await;
    worker.signal(Signal::SIGTERM);
    assert!(worker.end().await.success());
}

/// LOG-001, five times as much.
#[tokio::test]
async fn ten_gigabytes_leave_the_worker_small_and_its_beats_regular() {
    a_flood(5_000_000_000).await;
}

/// LOG-001: the other half.
#[tokio::test]
async fn who_writes_for_ever_is_stopped_by_its_timeout() {
    let limited = v1::Grant {
        attempt_timeout_ms: 1_000,
        grace_ms: 200,
        ..grant("script", 5, "{}")
    };
    let asked = Instant::now();
    let (finish, attempt, _dir) = run_once("trap '' TERM; yes & yes >&2", limited).await;
    assert_eq!(finish.outcome(), v1::Outcome::TimedOut);
    let took = asked.elapsed();
    assert!(took < Duration::from_millis(1_200 + 5_000), "{took:?}");
    for stream in [Stream::Stdout, Stream::Stderr] {
        assert!(kept(&attempt, stream).starts_with(b"y\ny\n"));
    }
}

#[tokio::test]
async fn bytes_of_every_kind_are_kept_as_they_came() {
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    let script = format!("cat {}", file.path().display());
    let (finish, attempt, _dir) = run_once(&script, grant("script", 5, "{}")).await;
    assert_eq!(finish.outcome(), v1::Outcome::Succeeded);
    let stdout = kept(&attempt, Stream::Stdout);
    assert!(stdout.starts_with(&bytes[..50_000]) && stdout.ends_with(&bytes[60_000..]));
    assert_eq!(kept(&attempt, Stream::Stderr), b"");
}

#[tokio::test]
async fn the_standard_input_is_at_its_end_and_any_stream_may_be_closed() {
    let script = "cat; read x || echo 'nothing to read'; exec <&-; echo still here; exec >&-; \
                  echo and here >&2; exec 2>&-; sleep 0.1; exit 0";
    let (finish, attempt, _dir) = run_once(script, grant("script", 5, "{}")).await;
    assert_eq!(
        finish.outcome(),
        v1::Outcome::Succeeded,
        "{:?}",
        finish.error
    );
    let stdout = kept(&attempt, Stream::Stdout);
    assert_eq!(stdout, b"nothing to read\nstill here\n");
    assert_eq!(kept(&attempt, Stream::Stderr), b"and here\n");
}

/// Somebody outside of the tree may have got hold of the pipe; it is not waited for.
#[tokio::test]
async fn a_stranger_that_holds_the_pipe_keeps_no_attempt() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let script = "echo $$; while [ ! -e ended ]; do sleep 0.02; done";
    let config = config(&fake, dir.path(), script);
    let (_workers, mut conn) = start(&mut fake, config).await;
    conn.grant(grant("script", 5, "{}")).await;
    let attempt: PathBuf = dir.path().join("attempts/7.0.1.5");
    let pid = pids(&attempt, 1).await.remove(0);
    let pipe = format!("/proc/{pid}/fd/1");
    let mut pipe = std::fs::OpenOptions::new().write(true).open(pipe).unwrap();
    let asked = Instant::now();
    std::fs::write(attempt.join("ended"), "").unwrap();
    let finish = conn.finish().await;
    assert_eq!(finish.outcome(), v1::Outcome::Succeeded);
    assert!(asked.elapsed() < Duration::from_secs(5));
    let refused = patiently(async {
        loop {
            match pipe.write_all(b"late\n") {
                Err(error) => return error,
                Ok(()) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    });
    assert_eq!(refused.await.kind(), std::io::ErrorKind::BrokenPipe);
}
