//! Commands as handlers, from the grant to the report.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use sichen_proto::v1;
use sichen_sdk::Drained;
use sichen_sdk::output::{AttemptOutput, Stream};
use sichen_worker::{Amount, Config, ProcessConfig, builder};
use tokio::task::JoinSet;

use crate::fake::{Conn, Fake, grant, patiently};

pub(crate) fn shell(script: &str) -> ProcessConfig {
    ProcessConfig {
        argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        allow_args: false,
        cwd: None,
        env: BTreeMap::new(),
        secrets: BTreeMap::new(),
        memory_limit: None,
    }
}

pub(crate) fn config(fake: &Fake, dir: &Path, script: &str) -> Config {
    Config {
        servers: vec![fake.address.clone()],
        data_dir: Some(dir.to_owned()),
        processes: BTreeMap::from([("script".to_owned(), shell(script))]),
        output_limit_bytes: 100_000,
        ..Config::default()
    }
}

pub(crate) type Workers = JoinSet<Result<Drained, sichen_sdk::worker::Error>>;

pub(crate) async fn start(fake: &mut Fake, config: Config) -> (Workers, Conn) {
    let mut workers = JoinSet::new();
    workers.spawn(builder(config, None).unwrap().on_signals(false).run());
    let (conn, _) = fake.welcomed(1).await;
    (workers, conn)
}

/// Runs one attempt of the script to its end.
pub(crate) async fn run_once(
    script: &str,
    grant: v1::Grant,
) -> (v1::Finish, PathBuf, tempfile::TempDir) {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let config = config(&fake, dir.path(), script);
    let (_workers, mut conn) = start(&mut fake, config).await;
    conn.grant(grant).await;
    let finish = conn.finish().await;
    let attempt = dir.path().join("attempts/7.0.1.5");
    (finish, attempt, dir)
}

/// What is kept of a stream, with the line that stands for what is not.
pub(crate) fn kept(attempt: &Path, stream: Stream) -> Vec<u8> {
    let output = AttemptOutput::of(attempt.ancestors().nth(2).unwrap());
    let (mut at, mut text) = (0, Vec::new());
    loop {
        let piece = output.read(7, 0, 1, stream, at, 1_000_000).unwrap();
        let piece = piece.expect("kept");
        text.extend(piece.gap_line().unwrap_or_default().bytes());
        if piece.bytes.is_empty() {
            return text;
        }
        at = piece.next();
        text.extend(piece.bytes);
    }
}

/// STUCK-014: a process that something outside has killed has failed.
#[tokio::test]
async fn the_end_of_a_process_is_named() {
    for (script, code) in [
        ("echo why >&2; exit 3", "exit-3"),
        ("kill -9 $$", "killed-by-signal-9"),
        ("kill -TERM $$", "killed-by-signal-15"),
    ] {
        let (finish, _, _dir) = run_once(script, grant("script", 5, "{}")).await;
        let error = finish.error.unwrap();
        assert_eq!(
            (error.code.as_str(), error.kind()),
            (code, v1::ErrorKind::Retryable)
        );
        assert_eq!(
            error.message.contains("why"),
            code == "exit-3",
            "{}",
            error.message
        );
    }
}

/// STUCK-014: the same for what the kernel kills since the attempt's memory is used up; what a process makes of
/// the death of a helper is its own affair.
#[tokio::test]
async fn a_process_killed_for_memory_says_so() {
    let grows = "x=0123456789abcdef; while :; do x=$x$x; done";
    let helper = format!("( {grows} ) & wait; exit 0");
    for (script, fails) in [(grows.to_owned(), true), (helper, false)] {
        let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
        let mut config = config(&fake, dir.path(), &script);
        config.memory_limit = Some(Amount::parse("64Mi").unwrap());
        if let Err(error) = builder(config.clone(), None) {
            // A machine that can't says so, and nothing runs without the limit.
            assert!(error.to_string().contains("memory_limit"), "{error}");
            return;
        }
        let (_workers, mut conn) = start(&mut fake, config).await;
        conn.grant(grant("script", 60, "{}")).await;
        let finish = conn.finish().await;
        match fails {
            true => {
                let error = finish.error.unwrap();
                assert_eq!(error.code, "killed-by-signal-9");
                assert!(
                    error.message.contains("memory limit reached"),
                    "{}",
                    error.message
                );
            }
            false => assert_eq!(
                finish.outcome(),
                v1::Outcome::Succeeded,
                "{:?}",
                finish.error
            ),
        }
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_cannot_start() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let mut config = config(&fake, dir.path(), "");
    config.processes.get_mut("script").unwrap().argv = vec!["/no/such/program".into()];
    let (_workers, mut conn) = start(&mut fake, config).await;
    conn.grant(grant("script", 5, "{}")).await;
    let error = conn.finish().await.error.unwrap();
    assert_eq!(error.code, "cannot-start");
    assert!(
        error.message.contains("/no/such/program"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_flood_of_any_bytes_blocks_nobody_and_is_cut() {
    let script = "head -c 30000000 /dev/urandom; head -c 3000000 /dev/zero >&2; exec <&- >&- 2>&-; sleep 0.1";
    let (finish, attempt, _dir) = run_once(script, grant("script", 5, "{}")).await;
    assert_eq!(
        finish.outcome(),
        v1::Outcome::Succeeded,
        "{:?}",
        finish.error
    );
    for (stream, written) in [(Stream::Stdout, 30_000_000), (Stream::Stderr, 3_000_000)] {
        let bytes = kept(&attempt, stream);
        let text = String::from_utf8_lossy(&bytes[50_000..50_050]);
        let dropped: u64 = text[2..].split(' ').next().unwrap().parse().unwrap();
        let mark = format!("\n[{dropped} bytes were not kept]\n");
        assert!(text.starts_with(&mark), "{text}");
        let tail = bytes.len() - 50_000 - mark.len();
        assert!((25_000..=50_000).contains(&tail), "{tail}");
        assert_eq!(50_000 + dropped + tail as u64, written);
    }
}

pub(crate) fn alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Waits until the script has written the pids of its tree.
pub(crate) async fn pids(attempt: &Path, how_many: usize) -> Vec<String> {
    patiently(async {
        loop {
            let text = std::fs::read_to_string(attempt.join("stdout.log")).unwrap_or_default();
            let pids: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            if pids.len() == how_many && text.ends_with('\n') {
                return pids;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await
}

#[tokio::test]
async fn what_a_finished_process_leaves_behind_is_killed() {
    let script = "setsid sh -c 'echo $$; sleep 300' & while [ ! -s stdout.log ]; do sleep 0.01; done; exit 0";
    let (finish, attempt, _dir) = run_once(script, grant("script", 5, "{}")).await;
    assert_eq!(
        finish.outcome(),
        v1::Outcome::Succeeded,
        "{:?}",
        finish.error
    );
    let pid = std::fs::read_to_string(attempt.join("stdout.log")).unwrap();
    assert!(!alive(pid.trim()));
}

#[tokio::test]
async fn a_job_names_only_allowed_programs_and_no_shell_reads_its_words() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let allow_programs = vec![PathBuf::from("/bin/echo")];
    let config = Config {
        allow_programs,
        ..config(&fake, dir.path(), "")
    };
    let (_workers, mut conn) = start(&mut fake, config).await;
    conn.grant(grant(
        "process",
        5,
        r#"{"argv": ["/bin/echo", "$(id)", "a;b"]}"#,
    ))
    .await;
    let finish = conn.finish().await;
    assert_eq!(
        finish.outcome(),
        v1::Outcome::Succeeded,
        "{:?}",
        finish.error
    );
    let text = std::fs::read_to_string(dir.path().join("attempts/7.0.1.5/stdout.log")).unwrap();
    assert_eq!(text, "$(id) a;b\n");
    conn.ack(&finish, v1::Verdict::Accepted).await;
    for (token, argv) in [
        (6, r#"["/bin/sh", "-c", "id"]"#),
        (7, r#"["/bin/../bin/echo"]"#),
        (8, "[]"),
        (9, r#"["/bin/echo"], "env": {"LD_PRELOAD": "/tmp/x.so"}"#),
    ] {
        conn.grant(grant("process", token, &format!(r#"{{"argv": {argv}}}"#)))
            .await;
        let finish = conn.finish().await;
        assert_eq!(finish.error.clone().unwrap().code, "not-allowed");
        conn.ack(&finish, v1::Verdict::Accepted).await;
    }
}

#[tokio::test]
async fn more_processes_than_a_pool_has_threads_run_at_once() {
    const PROCESSES: usize = 200;
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    // Each waits at the gate until all are there.
    let gate = dir.path().join("gate");
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let script = ": > ../$SICHEN_TOKEN.here; read _ < ../../gate; exit 0";
    let config = Config {
        slots: 200,
        ..config(&fake, dir.path(), script)
    };
    let mut workers = Workers::new();
    workers.spawn(builder(config, None).unwrap().on_signals(false).run());
    let mut conn = fake.conn().await;
    // Nobody answers beats while the test looks at files.
    conn.ttl_ms = 300_000;
    conn.hello().await;
    conn.welcome(1, Vec::new()).await;
    for token in 1..=PROCESSES as u64 {
        conn.grant(grant_of(token)).await;
    }
    let attempts = dir.path().join("attempts");
    patiently(async {
        let here = |token| attempts.join(format!("{token}.here")).exists();
        while !(1..=PROCESSES as u64).all(here) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    // A line for each, kept open: one of them may not have come to its reading yet.
    let opened = tokio::task::spawn_blocking(move || {
        let mut gate = std::fs::File::options().write(true).open(gate).unwrap();
        gate.write_all(&[b'\n'; PROCESSES]).unwrap();
        gate
    });
    let _gate = patiently(opened).await.unwrap();
    for _ in 0..PROCESSES {
        let finish = conn.finish().await;
        assert_eq!(
            finish.outcome(),
            v1::Outcome::Succeeded,
            "{:?}",
            finish.error
        );
        conn.ack(&finish, v1::Verdict::Accepted).await;
    }
}

fn grant_of(token: u64) -> v1::Grant {
    v1::Grant {
        shard: Some(v1::ShardRef {
            run_id: token,
            no: 0,
        }),
        ..grant("script", token, "{}")
    }
}
