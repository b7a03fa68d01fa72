//! Cases of `testdata/cases/bug_reports.json` that a worker alone can show.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use sichen_proto::v1;

use crate::fake::{Fake, grant};
use crate::process::{alive, config, run_once, start};

/// RETRY-001: the timeout takes the grandchildren too, again and again, and leaves no handle open.
#[tokio::test]
async fn a_timeout_takes_the_grandchildren_and_leaves_nothing_open() {
    const ROUNDS: u64 = 50;
    let script = "sleep 600 & echo $!; sh -c 'echo $$; sleep 601; :' & wait";
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let config = config(&fake, dir.path(), script);
    let (_workers, mut conn) = start(&mut fake, config).await;
    let handles = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut before = 0;
    for token in 1..=ROUNDS {
        let limited = v1::Grant {
            attempt_timeout_ms: 60,
            grace_ms: 40,
            ..grant("script", token, "{}")
        };
        conn.grant(limited).await;
        let finish = conn.finish().await;
        assert_eq!(finish.outcome(), v1::Outcome::TimedOut);
        let attempt = dir.path().join(format!("attempts/7.0.1.{token}"));
        let text = std::fs::read_to_string(attempt.join("stdout.log")).unwrap();
        assert!(!text.split_whitespace().any(alive), "round {token}: {text}");
        conn.ack(&finish, v1::Verdict::Accepted).await;
        if token == 5 {
            before = handles();
        }
    }
    assert!(
        handles() <= before + 3,
        "{before} handles, then {}",
        handles()
    );
}

/// RETRY-003: a child that holds the pipe keeps neither a finished nor a timed out run.
#[tokio::test]
async fn a_child_that_holds_the_pipe_keeps_no_run() {
    let asked = std::time::Instant::now();
    let (finish, attempt, _dir) = run_once("sleep 600 & echo done", grant("script", 5, "{}")).await;
    assert_eq!(finish.outcome(), v1::Outcome::Succeeded);
    assert_eq!(
        std::fs::read_to_string(attempt.join("stdout.log")).unwrap(),
        "done\n"
    );
    let limited = v1::Grant {
        attempt_timeout_ms: 300,
        ..grant("script", 5, "{}")
    };
    let (finish, ..) = run_once("sleep 600 & wait", limited).await;
    assert_eq!(finish.outcome(), v1::Outcome::TimedOut);
    assert!(asked.elapsed().as_secs() < 10);
}

/// RETRY-017: what can't be started is told apart from what exits, and why.
#[tokio::test]
async fn a_start_that_fails_is_told_apart_from_an_exit() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let file = |name: &str, text: &str, mode: u32| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let cases: Vec<(PathBuf, &str, &str)> = vec![
        ("/no/such".into(), "cannot-start", "not found"),
        (file("text", "echo", 0o644), "cannot-start", "permission"),
        (dir.path().to_owned(), "cannot-start", "permission"),
        (
            file("orphan", "#!/no/interpreter\n", 0o755),
            "cannot-start",
            "not found",
        ),
        (
            file("own", "#!/bin/sh\nexit 127\n", 0o755),
            "exit-127",
            "127",
        ),
    ];
    let mut config = config(&fake, &dir.path().join("worker"), "");
    config.allow_programs = cases.iter().map(|case| case.0.clone()).collect();
    let (_workers, mut conn) = start(&mut fake, config).await;
    for (token, (program, code, word)) in (1..).zip(&cases) {
        let argv = serde_json::json!({ "argv": [program] }).to_string();
        conn.grant(grant("process", token, &argv)).await;
        let finish = conn.finish().await;
        let error = finish.error.clone().unwrap();
        assert_eq!(error.code, *code, "{}", program.display());
        assert!(error.message.contains(word), "{}", error.message);
        conn.ack(&finish, v1::Verdict::Accepted).await;
    }
}

/// LOG-003: bytes that are no UTF-8 are kept as they came, and change nothing about the end.
#[tokio::test]
async fn bytes_that_are_no_text_are_kept_as_they_came() {
    // FF FE, a lone continuation byte, an over-long form, GBK text, then `ok`.
    let script = r"printf '\377\376\200\300\257\273\343ok\n'; printf '\377 why' >&2; exit 1";
    let (finish, attempt, _dir) = run_once(script, grant("script", 5, "{}")).await;
    let kept = std::fs::read(attempt.join("stdout.log")).unwrap();
    assert_eq!(kept, b"\xff\xfe\x80\xc0\xaf\xbb\xe3ok\n");
    let error = finish.error.unwrap();
    assert_eq!(error.code, "exit-1");
    assert!(error.message.ends_with("\u{fffd} why"), "{}", error.message);
}

/// NAME-005: arguments reach the program byte for byte.
#[tokio::test]
async fn arguments_reach_the_program_untouched() {
    let arguments = [
        "",
        "a b",
        "\"",
        "'",
        "$HOME",
        "$(id)",
        "`id`",
        "; touch pwned",
        "| cat",
        "*",
        "-n",
        "--",
        "\n",
        "\t",
        "%s",
        "{{now}}",
        "任务",
    ];
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let script = r#"echo $#; for a; do printf %s "$a" | od -An -v -tx1 | tr -d ' \n'; echo; done"#;
    let mut config = config(&fake, dir.path(), script);
    let process = config.processes.get_mut("script").unwrap();
    process.argv.push("sh".to_owned());
    process.allow_args = true;
    let (_workers, mut conn) = start(&mut fake, config).await;
    let parameters = serde_json::json!({ "args": arguments }).to_string();
    conn.grant(grant("script", 5, &parameters)).await;
    assert_eq!(conn.finish().await.outcome(), v1::Outcome::Succeeded);
    let hex = |text: &&str| {
        text.bytes()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let expected: Vec<String> = std::iter::once("17".to_owned())
        .chain(arguments.iter().map(hex))
        .collect();
    let text = std::fs::read_to_string(dir.path().join("attempts/7.0.1.5/stdout.log")).unwrap();
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}
