//! Claims about what is found.

use std::collections::BTreeMap;

use sichen_server::rest::wire::{Disk, OldTransaction};

use super::*;

fn status() -> ServerStatus {
    ServerStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        now: "2026-03-01T00:00:00Z".to_owned(),
        not_ready: None,
        store: "postgres".to_owned(),
        store_settings: BTreeMap::from(
            [
                ("server_version", "17.2"),
                ("fsync", "on"),
                ("synchronous_commit", "on"),
            ]
            .map(|(k, v)| (k.to_owned(), v.to_owned())),
        ),
        old_transactions: Vec::new(),
        data: "/data".to_owned(),
        disk: Some(Disk {
            free_bytes: 10 << 30,
            total_bytes: 20 << 30,
        }),
    }
}

/// What is found in a status, an hour and so many seconds after its own clock.
fn graded(status: &ServerStatus, clock_off: i64) -> Vec<(Grade, &'static str)> {
    let mut found = Findings::default();
    let now: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
    let now = now + jiff::SignedDuration::from_secs(clock_off);
    server(&mut found, status, now, now);
    let bad = found.checks.iter().filter(|c| c.grade != Grade::Ok);
    bad.map(|c| (c.grade, c.what)).collect()
}

#[test]
fn a_sound_server_has_nothing_to_be_done() {
    assert_eq!(graded(&status(), 0), []);
}

#[test]
fn each_fault_is_found_with_its_weight() {
    let check = |change: fn(&mut ServerStatus), expect: (Grade, &'static str)| {
        let mut status = status();
        change(&mut status);
        assert_eq!(graded(&status, 0), [expect]);
    };
    let set = |s: &mut ServerStatus, name: &str| {
        s.store_settings.insert(name.to_owned(), "off".to_owned());
    };
    check(|s| s.version = "9.9.9".into(), (Grade::Warn, "version"));
    check(
        |s| s.not_ready = Some("no lease".into()),
        (Grade::Fail, "ready"),
    );
    for name in ["fsync", "synchronous_commit"] {
        let mut status = status();
        set(&mut status, name);
        assert_eq!(graded(&status, 0), [(Grade::Fail, "store")], "{name}");
    }
    check(|s| s.store_settings.clear(), (Grade::Warn, "store"));
    let old = |s: &mut ServerStatus| {
        s.old_transactions.push(OldTransaction {
            pid: 17,
            age_seconds: Some(400),
            what: "session of user u, application 'report'".to_owned(),
        });
    };
    check(old, (Grade::Warn, "store"));
    let room = |free: u64| {
        let mut status = status();
        status.disk = Some(Disk {
            free_bytes: free,
            total_bytes: 20 << 30,
        });
        graded(&status, 0)
    };
    assert_eq!(room(500 << 20), [(Grade::Warn, "disk")]);
    assert_eq!(room(1 << 20), [(Grade::Fail, "disk")]);
    for off in [-30, 30] {
        assert_eq!(graded(&status(), off), [(Grade::Warn, "clock")], "{off}");
    }
}

/// MISS-005: a step of the store's clock is shown.
#[test]
fn a_step_of_the_stores_clock_is_found() {
    let check = |ahead_seconds: i64, held: bool, expect: &[(Grade, &str)]| {
        let clock = wire::Clock {
            now: String::new(),
            reading: String::new(),
            ahead_seconds,
            held,
            accepted_seconds: None,
        };
        let mut found = Findings::default();
        stepped(&mut found, &clock);
        let text = found.checks.iter().map(|c| (c.grade, c.text.as_str()));
        for ((grade, said), (wanted, part)) in text.zip(expect) {
            assert_eq!(grade, *wanted);
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(found.checks.len(), expect.len());
    };
    check(0, false, &[]);
    check(-1, false, &[]);
    check(-120, false, &[(Grade::Warn, "back by 120 s")]);
    check(3_600, true, &[(Grade::Fail, "ahead by 3600 s")]);
}

#[test]
fn a_job_that_follows_its_open_run_has_not_ended() {
    let check = |schedules: serde_json::Value, active_runs: u32, ended: bool| {
        let document = serde_json::json!({
            "apiVersion": "sichen/v1", "kind": "Job", "metadata": {"name": "a"},
            "spec": {"run": {"handler": "h"}, "schedules": schedules},
        });
        let document = serde_json::from_value(document).unwrap();
        let job = serde_json::json!({
            "uid": "", "namespace": "default", "name": "a", "revision": 1, "paused": false,
            "time_zone": "UTC", "decided_until": "", "active_runs": active_runs,
            "waiting_runs": 0, "created_at": "",
        });
        let job = serde_json::from_value(job).unwrap();
        assert_eq!(has_ended(&document, &job), ended, "{schedules}");
    };
    check(serde_json::json!([{"after": "5s"}]), 1, false);
    check(serde_json::json!([{"continuous": {}}]), 1, false);
    check(serde_json::json!([{"after": "5s"}]), 0, true);
    check(serde_json::json!([{"at": "2020-01-01T00:00:00Z"}]), 1, true);
    check(serde_json::json!([]), 0, false);
}

#[test]
fn what_a_good_token_may_not_see_is_not_called_a_fault() {
    let mut found = Findings::default();
    let text = "SC6002: this needs the role viewer in all namespaces (`*`), and token eve has \
                `default=viewer`; an administrator gives it with a new token";
    let denied = Failure::new(Exit::Denied, text);
    assert_eq!(found.got::<()>("clock", Err(denied)), None);
    let wrong = Failure::new(Exit::Denied, "SC6001: the token is wrong");
    assert_eq!(found.got::<()>("server", Err(wrong)), None);
    let grades: Vec<Grade> = found.checks.iter().map(|c| c.grade).collect();
    assert_eq!(grades, [Grade::Warn, Grade::Fail]);
    assert!(
        found.checks[0]
            .text
            .starts_with("not looked at: this needs")
    );
}

#[test]
fn a_standby_that_no_commit_waits_for_is_told_of() {
    let with = |settings: &[(&str, &str)]| {
        let mut status = status();
        let settings = settings
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        status.store_settings.extend(settings);
        graded(&status, 0)
    };
    let names = "synchronous_standby_names";
    assert_eq!(with(&[("standbys", "0"), (names, "")]), []);
    assert_eq!(with(&[("standbys", "2"), (names, "ANY 1 (a, b)")]), []);
    let told = [(Grade::Warn, "store")];
    assert_eq!(with(&[("standbys", "2"), (names, "")]), told);
    let local = ("synchronous_commit", "local");
    assert_eq!(with(&[("standbys", "1"), (names, "a"), local]), told);
}
