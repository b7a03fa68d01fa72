//! What a real process finds in its environment: docs/guide/processes.md, name by name.

use std::collections::BTreeMap;

use sichen_proto::v1;
use sichen_sdk::output::Stream;
use v1::descriptor::Descriptor;

use crate::fake::{Fake, grant};
use crate::process::{config, run_once, start};

/// The environment of a process that runs for this grant.
async fn environment(grant: v1::Grant) -> BTreeMap<String, String> {
    let (finish, attempt, _dir) = run_once("env -0; cp $SICHEN_PARAMETERS_FILE copy", grant).await;
    assert_eq!(
        finish.outcome(),
        v1::Outcome::Succeeded,
        "{:?}",
        finish.error
    );
    let text = std::fs::read_to_string(attempt.join("stdout.log")).unwrap();
    let entries = text.split_terminator('\0');
    let mut found: BTreeMap<String, String> = entries
        .filter_map(|entry| entry.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let copy = std::fs::read_to_string(attempt.join("copy")).unwrap();
    found.insert("(the parameters' file)".to_owned(), copy);
    found
}

fn part(descriptor: Descriptor) -> Option<v1::Descriptor> {
    Some(v1::Descriptor {
        descriptor: Some(descriptor),
    })
}

fn check(found: &BTreeMap<String, String>, there: &[(&str, &str)], absent: &[&str]) {
    for (name, value) in there {
        let seen = found.get(*name).map(String::as_str);
        assert_eq!(seen, Some(*value), "{name} in {found:#?}");
    }
    for name in absent {
        assert_eq!(found.get(*name), None, "{name}");
    }
}

#[tokio::test]
async fn all_that_a_run_has_is_in_the_environment() {
    let checkpoint = v1::Checkpoint {
        seq: 3,
        position: b"id:12".to_vec(),
        counters: None,
    };
    let parameters = r#"{"city": "a b\nc=d", "n": 7, "ok": true, "per-day.x": 1, "deep": {"x": 1}, "none": null}"#;
    let grant = v1::Grant {
        descriptor: part(Descriptor::IntRange(v1::IntRange { from: -10, to: 20 })),
        total: 4,
        attempt: 1,
        job: "billing/nightly".into(),
        run_key: "nightly:2026-08-30T00:00:00+08:00".into(),
        revision: 9,
        checkpoint: Some(checkpoint),
        planned_at_us: Some(1_788_019_200_000_000),
        period_start_us: Some(1_787_932_800_000_000),
        period_end_us: Some(1_788_019_200_000_000),
        zone: "Asia/Shanghai".into(),
        attempt_timeout_ms: 60_000,
        stall_timeout_ms: 5_000,
        grace_ms: 1_500,
        deadline_us: Some(1_788_022_800_123_456),
        fence_key: "uid/2026-08-29T16:00:00Z/0/0".into(),
        traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into(),
        ..grant("script", 5, parameters)
    };
    let found = environment(grant).await;
    let there = [
        ("SICHEN_JOB", "billing/nightly"),
        ("SICHEN_RUN", "nightly:2026-08-30T00:00:00+08:00"),
        ("SICHEN_RUN_ID", "7"),
        ("SICHEN_REVISION", "9"),
        ("SICHEN_SHARD", "0"),
        ("SICHEN_SHARD_INDEX", "0"),
        ("SICHEN_SHARD_TOTAL", "4"),
        ("SICHEN_RANGE_FROM", "-10"),
        ("SICHEN_RANGE_TO", "20"),
        ("SICHEN_ATTEMPT", "1"),
        ("SICHEN_TOKEN", "5"),
        ("SICHEN_FENCE_KEY", "uid/2026-08-29T16:00:00Z/0/0"),
        ("SICHEN_CHECKPOINT", "id:12"),
        ("SICHEN_PLANNED_AT", "2026-08-29T16:00:00Z"),
        ("SICHEN_PERIOD_START", "2026-08-28T16:00:00Z"),
        ("SICHEN_PERIOD_END", "2026-08-29T16:00:00Z"),
        ("SICHEN_DEADLINE", "2026-08-29T17:00:00.123456Z"),
        ("SICHEN_ZONE", "Asia/Shanghai"),
        ("SICHEN_TIMEOUT_MS", "60000"),
        ("SICHEN_STALL_MS", "5000"),
        ("SICHEN_GRACE_MS", "1500"),
        ("SICHEN_PARAMETERS", parameters),
        ("(the parameters' file)", parameters),
        ("SICHEN_PARAM_CITY", "a b\nc=d"),
        ("SICHEN_PARAM_N", "7"),
        ("SICHEN_PARAM_OK", "true"),
        ("SICHEN_PARAM_PER_DAY_X", "1"),
        ("SICHEN_LEASE", "7.0.5"),
        (
            "TRACEPARENT",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ),
    ];
    let absent = [
        "SICHEN_ITEM",
        "SICHEN_PLAN",
        "SICHEN_REDUCE",
        "SICHEN_PARAM_DEEP",
        "SICHEN_PARAM_NONE",
        // The worker's own.
        "CARGO_MANIFEST_DIR",
    ];
    check(&found, &there, &absent);
    assert!(found.contains_key("SICHEN_WORKER_UID") && found.contains_key("PATH"));
}

/// SEC-008: a process has the secrets of its own command and none of the worker's, and what it prints of either is
/// hidden, in its output and in the message of its failure; a secret that was changed holds from the next start on.
#[tokio::test]
async fn secrets_of_a_process_are_in_its_environment_and_in_nothing_that_it_writes() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let file = dir.path().join("db-password");
    let script = "printf %s \"$DB_PASSWORD\" > seen; env; printf '%.6s' \"$DB_PASSWORD\"; sleep 0.3; \
                  printf '%s\\n' \"${DB_PASSWORD#??????}\"; cat ../../join-token; env >&2; exit 3";
    let mut config = config(&fake, dir.path(), script);
    std::fs::write(dir.path().join("join-token"), "join-f00dfeedcafe\n").unwrap();
    config.join_token_file = Some(dir.path().join("join-token"));
    let shell = config.processes.get_mut("script").unwrap();
    shell.secrets.insert("DB_PASSWORD".to_owned(), file.clone());
    std::fs::write(&file, "first-hunter22\n").unwrap();
    let shown = format!(
        "{:?} {}",
        config.processes,
        serde_json::to_string(&config).unwrap()
    );
    let (_workers, mut conn) = start(&mut fake, config).await;
    assert_eq!(
        conn.authorization.as_deref(),
        Some("Bearer join-f00dfeedcafe")
    );
    for (token, secret) in [(5, "first-hunter22"), (6, "second-hunter23")] {
        std::fs::write(&file, format!("{secret}\n")).unwrap();
        conn.grant(grant("script", token, "{}")).await;
        let finish = conn.finish().await;
        let attempt = dir.path().join(format!("attempts/7.0.1.{token}"));
        let seen = std::fs::read_to_string(attempt.join("seen")).unwrap();
        assert_eq!(seen, secret, "the process has it");
        let mut written = format!("{finish:?}");
        for stream in [Stream::Stdout, Stream::Stderr] {
            let file = attempt.join(stream.file_name(0));
            written += &std::fs::read_to_string(file).unwrap();
        }
        let stars = "*".repeat(secret.len());
        let lines = |line: &str| written.lines().filter(|l| *l == line).count();
        assert_eq!(lines(&format!("DB_PASSWORD={stars}")), 2, "{written}");
        assert!(
            lines(&stars) == 1 && lines("*****************") == 1,
            "{written}"
        );
        let reported = written
            .lines()
            .find(|line| line.starts_with("SICHEN_REPORT_SECRET="));
        assert_eq!(
            reported
                .unwrap()
                .trim_start_matches("SICHEN_REPORT_SECRET=")
                .trim_matches('*'),
            ""
        );
        for hidden in [secret, "hunter", "f00dfeed"] {
            assert!(!written.contains(hidden), "{hidden}: {written}");
            assert!(!shown.contains(hidden), "{hidden}: {shown}");
        }
        conn.ack(&finish, v1::Verdict::Accepted).await;
    }
    for (token, text) in [(7, "abc"), (8, "")] {
        std::fs::write(&file, text).unwrap();
        conn.grant(grant("script", token, "{}")).await;
        let finish = conn.finish().await;
        let error = finish.error.clone().unwrap();
        assert_eq!(error.code, "cannot-start");
        assert!(
            error.message.contains("secrets.DB_PASSWORD"),
            "{}",
            error.message
        );
        conn.ack(&finish, v1::Verdict::Accepted).await;
    }
}

#[tokio::test]
async fn what_a_run_has_not_is_absent_rather_than_empty() {
    let grant = v1::Grant {
        run_key: "test:manual:k".into(),
        attempt_timeout_ms: 0,
        traceparent: String::new(),
        zone: String::new(),
        ..grant("script", 5, "{}")
    };
    let found = environment(grant).await;
    let absent = [
        "SICHEN_CHECKPOINT",
        "SICHEN_DEADLINE",
        "SICHEN_ITEM",
        "SICHEN_PERIOD_END",
        "SICHEN_PERIOD_START",
        "SICHEN_PLANNED_AT",
        "SICHEN_RANGE_FROM",
        "SICHEN_RANGE_TO",
        "SICHEN_STALL_MS",
        "SICHEN_TIMEOUT_MS",
        "SICHEN_ZONE",
        "TRACEPARENT",
    ];
    check(&found, &[("SICHEN_SHARD_INDEX", "0")], &absent);
    assert!(!found.values().any(String::is_empty), "{found:#?}");
}

#[tokio::test]
async fn every_kind_of_shard_says_what_it_is() {
    let instants = v1::TimeRange {
        from_us: 1_788_019_200_000_000,
        to_us: 1_788_019_200_500_000,
    };
    let item = v1::Item {
        item: "上海 & co=1".into(),
    };
    let cases: [(Descriptor, &[(&str, &str)]); 5] = [
        (
            Descriptor::Count(v1::CountPart { index: 2, total: 8 }),
            &[("SICHEN_SHARD_INDEX", "2"), ("SICHEN_SHARD_TOTAL", "8")],
        ),
        (
            Descriptor::TimeRange(instants),
            &[
                ("SICHEN_RANGE_FROM", "2026-08-29T16:00:00Z"),
                ("SICHEN_RANGE_TO", "2026-08-29T16:00:00.5Z"),
            ],
        ),
        (Descriptor::Item(item), &[("SICHEN_ITEM", "上海 & co=1")]),
        (
            Descriptor::Reduce(v1::Reduce { shards: 12 }),
            &[("SICHEN_REDUCE", "12")],
        ),
        (
            Descriptor::Plan(v1::PlanStep::default()),
            &[("SICHEN_PLAN", "1"), ("SICHEN_SHARD_INDEX", "0")],
        ),
    ];
    for (descriptor, there) in cases {
        let grant = v1::Grant {
            descriptor: part(descriptor),
            ..grant("script", 5, "{}")
        };
        check(&environment(grant).await, there, &[]);
    }
}

#[tokio::test]
async fn parameters_that_no_environment_can_carry_are_in_the_file_all_the_same() {
    let long = "x".repeat(110 * 1024);
    let parameters = serde_json::json!({ "long": long, "short": "s", "nul": "a\0b" }).to_string();
    let found = environment(grant("script", 5, &parameters)).await;
    let there = [
        ("SICHEN_PARAM_SHORT", "s"),
        ("(the parameters' file)", parameters.as_str()),
    ];
    let absent = ["SICHEN_PARAM_LONG", "SICHEN_PARAM_NUL", "SICHEN_PARAMETERS"];
    check(&found, &there, &absent);
}
