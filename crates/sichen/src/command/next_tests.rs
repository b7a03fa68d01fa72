//! What `sichen next` prints and how it exits.

use std::process::ExitCode;

use clap::Parser;

use super::{Args, run};

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// The output, and whether it succeeded.
fn next(words: &[&str]) -> (String, bool) {
    let line = Line::try_parse_from([&["next"], words].concat()).expect("a good command line");
    let mut out = Vec::new();
    let code = run(&line.args, &mut out).expect("a vector takes it");
    (
        String::from_utf8(out).expect("text"),
        code == ExitCode::SUCCESS,
    )
}

#[test]
fn instants_carry_the_offset_of_their_zone() {
    let (out, good) = next(&[
        "--cron",
        "30 2 * * *",
        "--tz",
        "America/New_York",
        "--after",
        "2026-03-07T12:00:00Z",
        "--count",
        "2",
        "-o",
        "json",
    ]);
    assert!(good);
    assert_eq!(
        out,
        "{\"next\":[\"2026-03-08T03:00:00-04:00\",\"2026-03-09T02:30:00-04:00\"]}\n"
    );
    let (out, _) = next(&[
        "--cron",
        "30 2 * * *",
        "--tz",
        "America/New_York",
        "--after",
        "2026-03-07T12:00:00Z",
        "--count",
        "1",
        "--gap",
        "shift",
        "-o",
        "json",
    ]);
    assert_eq!(out, "{\"next\":[\"2026-03-08T03:30:00-04:00\"]}\n");
}

#[test]
fn what_can_never_be_says_so() {
    let (out, good) = next(&["--cron", "0 0 30 2 *", "-o", "json"]);
    assert!(good);
    let answer: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(answer, serde_json::json!({"next": [], "never": true}));
}

#[test]
fn a_mistake_is_shown_with_its_place() {
    let (out, good) = next(&["--cron", "0 22-2 * * *", "-o", "json"]);
    assert!(!good);
    let answer: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(answer["error"]["field"], "hour");
    assert_eq!(
        answer["error"]["position"],
        serde_json::json!({"start": 3, "end": 6})
    );
    assert_eq!(answer["error"]["intended"], "`22-23,0-2`");
    let (_, good) = next(&["--cron", "0 2 * * *", "--tz", "Mars/Phobos", "-o", "json"]);
    assert!(!good);
}

#[test]
fn the_dialect_brings_its_own_policy() {
    let (out, _) = next(&[
        "--cron",
        "30 2 * * *",
        "--dialect",
        "kubernetes",
        "--tz",
        "America/New_York",
        "--after",
        "2026-03-07T12:00:00Z",
        "--count",
        "1",
        "-o",
        "json",
    ]);
    assert_eq!(out, "{\"next\":[\"2026-03-09T02:30:00-04:00\"]}\n");
}

/// The answer in JSON, and the exit code.
fn answer(words: &[&str]) -> (serde_json::Value, ExitCode) {
    let line = Line::try_parse_from([&["next", "-o", "json"], words].concat()).expect("good words");
    let mut out = Vec::new();
    let code = run(&line.args, &mut out).expect("a vector takes it");
    (serde_json::from_slice(&out).expect("JSON"), code)
}

#[test]
fn a_refusal_exits_with_2_and_has_field_position_and_intended_form() {
    for (cron, field, start, end, intended) in [
        ("5/10 * * * *", "minute", 1, 4, "`5-59/10`"),
        (
            "0 9 * * Monday",
            "day-of-week",
            9,
            14,
            "the three-letter name `MON`",
        ),
        ("0 9 ? * 1", "day-of-month", 5, 5, "`*`"),
        ("0 22-2 * * *", "hour", 3, 6, "`22-23,0-2`"),
    ] {
        let (answer, code) = answer(&["--cron", cron]);
        assert_eq!(code, ExitCode::from(2), "{cron}");
        let error = answer["error"].as_object().expect("an error");
        let keys: Vec<&str> = error.keys().map(String::as_str).collect();
        let all = ["code", "field", "found", "intended", "message", "position"];
        assert_eq!(keys, all, "{cron}");
        let place = serde_json::json!({ "start": start, "end": end });
        assert_eq!(
            (&error["field"], &error["position"]),
            (&field.into(), &place),
            "{cron}"
        );
        assert_eq!(error["intended"], intended, "{cron}");
        assert!(answer.get("next").is_none(), "{cron}");
    }
    for cron in [
        "",
        "* * * *",
        "0 25 * * *",
        "*/0 * * * *",
        "@reboot",
        "\u{ff11} * * * *",
    ] {
        assert_eq!(answer(&["--cron", cron]).1, ExitCode::from(2), "{cron:?}");
    }
    assert!(
        Line::try_parse_from(["next"]).is_err(),
        "neither a job nor an expression"
    );
    assert!(
        Line::try_parse_from(["next", "job", "--cron", "* * * * *"]).is_err(),
        "both"
    );
}

#[test]
fn two_dialects_are_told_apart_by_their_fields_and_the_others_are_named() {
    let first = |words: &[&str]| {
        let after = ["--after", "2026-03-01T00:00:00Z", "--count", "1"];
        let (answer, _) = answer(&[words, &after].concat());
        answer["next"][0].as_str().map(str::to_owned)
    };
    // Five fields, then six: Tuesday is 2.
    assert_eq!(
        first(&["--cron", "0 9 * * 2"]).as_deref(),
        Some("2026-03-03T09:00:00+00:00")
    );
    assert_eq!(
        first(&["--cron", "30 0 9 ? * 2"]).as_deref(),
        Some("2026-03-03T09:00:30+00:00")
    );
    // The same text as Quartz reads it: 2 is Monday.
    let quartz = first(&["--cron", "30 0 9 ? * 2", "--dialect", "quartz"]);
    assert_eq!(quartz.as_deref(), Some("2026-03-02T09:00:30+00:00"));
    let kubernetes = first(&["--cron", "50/5 * * * *", "--dialect", "kubernetes"]);
    assert_eq!(kubernetes.as_deref(), Some("2026-03-01T00:50:00+00:00"));
    assert_eq!(first(&["--cron", "50/5 * * * *"]), None);
    let six = first(&["--cron", "7 0 9 * * *", "--dialect", "kubernetes"]);
    assert_eq!(six.as_deref(), Some("2026-03-01T09:00:07+00:00"));
}

#[test]
fn gaps_and_folds_are_chosen_by_their_flags() {
    let times = |cron: &str, after: &str, flags: &[&str]| {
        let words = [
            "--cron",
            cron,
            "--tz",
            "America/New_York",
            "--after",
            after,
            "--count",
            "2",
        ];
        let (answer, _) = answer(&[&words, flags].concat());
        let list = answer["next"].as_array().expect("a list").clone();
        list.iter()
            .map(|at| at.as_str().expect("text").to_owned())
            .collect::<Vec<_>>()
    };
    let gap = |flags: &[&str]| times("30 2 * * *", "2026-03-07T12:00:00Z", flags)[0].clone();
    assert_eq!(gap(&[]), "2026-03-08T03:00:00-04:00");
    assert_eq!(gap(&["--gap", "first-valid"]), "2026-03-08T03:00:00-04:00");
    assert_eq!(gap(&["--gap", "skip"]), "2026-03-09T02:30:00-04:00");
    assert_eq!(gap(&["--gap", "shift"]), "2026-03-08T03:30:00-04:00");
    let fold = |flags: &[&str]| times("30 1 * * *", "2026-10-31T12:00:00Z", flags)[1].clone();
    assert_eq!(fold(&[]), "2026-11-02T01:30:00-05:00");
    assert_eq!(fold(&["--fold", "first"]), "2026-11-02T01:30:00-05:00");
    assert_eq!(fold(&["--fold", "both"]), "2026-11-01T01:30:00-05:00");
}

#[test]
fn the_words_are_english_and_chinese() {
    let (out, good) = next(&["--cron", "30 2 * * 1-5", "--count", "1"]);
    assert!(good);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 3, "{out}");
    assert!(lines[0].starts_with("at 02:30 "), "{out}");
    assert!(lines[1].contains("02:30") && !lines[1].is_ascii(), "{out}");
}

#[test]
fn each_refusal_says_what_to_write_instead() {
    let wrong: &[(&str, &str)] = &[
        ("crontab", "0 24 * * *"),
        ("crontab", "0 0 * * 8"),
        ("crontab", "0 0 32 * *"),
        ("crontab", "*/0 * * * *"),
        ("crontab", "*/x * * * *"),
        ("crontab", "a * * * *"),
        ("crontab", "1,,2 * * * *"),
        ("crontab", ", * * * *"),
        ("crontab", "1- * * * *"),
        ("crontab", "0 0 L-40 * *"),
        ("crontab", "0 0 * * 2#6"),
        ("crontab", "0 L * * *"),
        ("crontab", "H(9-3) * * * *"),
        ("crontab", "Hx * * * *"),
        ("crontab", "\u{feff}1 * * * *"),
        ("crontab", "@reboot"),
        ("crontab", "@daily 1"),
        ("crontab", "@every"),
        ("crontab", "TZ=UTC 0 0 * * *"),
        ("crontab", "0 0 * * * *"),
        ("crontab-plain", "0 0 L * *"),
        ("seconds", "0 0 * * *"),
        ("kubernetes", "TZ=Nowhere/Here 0 6 * * *"),
        ("kubernetes", "0 6 W * *"),
        ("quartz", "@daily"),
        ("quartz", "0 0/75 6 * * ?"),
        ("quartz", "0 0 6 * * MON"),
        ("quartz", "0 0 0 1 1 ? 2100"),
    ];
    for &(dialect, cron) in wrong {
        let (answer, code) = answer(&["--dialect", dialect, "--cron", cron]);
        assert_eq!(code, ExitCode::from(2), "{cron}");
        let intended = answer["error"]["intended"].as_str();
        assert!(
            intended.is_some_and(|form| form.len() > 2),
            "{cron}: {answer}"
        );
    }
    let long = "1,".repeat(600);
    let (answer, _) = answer(&["--cron", &long]);
    assert!(answer["error"]["intended"].is_string(), "{answer}");
}

#[test]
fn a_year_that_is_over_never_comes() {
    for (expr, after) in [
        ("0 0 0 1 1 ? 1999", "2026-03-01T00:00:00Z"),
        ("0 0 0 1 1 ? 2026", "2026-01-01T00:00:00Z"),
        ("0 0 0 29 2 ? 2096", "2097-01-01T00:00:00Z"),
    ] {
        let (answer, code) = answer(&["--dialect", "quartz", "--cron", expr, "--after", after]);
        assert_eq!(code, ExitCode::SUCCESS, "{expr}");
        assert_eq!(
            answer,
            serde_json::json!({"next": [], "never": true}),
            "{expr}"
        );
    }
    let (answer, _) = answer(&["--cron", "0 0 29 2 *", "--after", "9999-01-01T00:00:00Z"]);
    assert_eq!(answer["never"], true);
}

#[test]
fn the_zone_in_a_kubernetes_expression_is_before_the_one_beside_it() {
    let words = [
        "--dialect",
        "kubernetes",
        "--cron",
        "TZ=Asia/Seoul 30 9 * * *",
    ];
    let after = ["--after", "2025-06-06T07:00:00Z", "--count", "1"];
    for zone in ["UTC", "Europe/Paris", "Asia/Seoul"] {
        let (answer, code) = answer(&[&words[..], &after, &["--tz", zone]].concat());
        assert_eq!(code, ExitCode::SUCCESS, "{zone}");
        assert_eq!(answer["next"][0], "2025-06-07T09:30:00+09:00", "{zone}");
    }
    let (_, code) = answer(&[&words[..], &after, &["--tz", "Mars/Base"]].concat());
    assert_eq!(code, ExitCode::from(2));
}

/// As a script asks: each case of the table by the command line's own words and defaults.
#[test]
fn the_command_line_answers_every_cron_case() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/cases/cron_cases.json"
    );
    let text = std::fs::read_to_string(path).expect("the cases are part of the project");
    let cases: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
    for case in &cases {
        let word = |key: &str| case[key].as_str().expect("text");
        let (id, dialect) = (word("id"), word("dialect"));
        let mut words = vec![
            "--cron",
            word("expr"),
            "--tz",
            word("tz"),
            "--after",
            word("from"),
        ];
        match dialect {
            // Plain tables are read by the default rules too, apart from what these add.
            "vixie5" if case["expect"] == "error" => words.extend(["--dialect", "crontab-plain"]),
            "vixie5" | "vixie5ext" | "seconds6" => {}
            "robfig" | "robfig6" => words.extend(["--dialect", "kubernetes"]),
            _ => words.extend(["--dialect", "quartz"]),
        }
        let expected = case["expect"].as_array();
        let count = expected.map_or(1, Vec::len).to_string();
        words.extend(["--count", &count]);
        let (answer, code) = answer(&words);
        match &case["expect"] {
            serde_json::Value::String(word) if word == "error" => {
                assert_eq!(code, ExitCode::from(2), "{id}: {answer}");
            }
            serde_json::Value::String(_) => {
                assert_eq!(
                    answer,
                    serde_json::json!({"next": [], "never": true}),
                    "{id}"
                );
            }
            _ => {
                let instants = |list: &serde_json::Value| -> Vec<jiff::Timestamp> {
                    let list = list.as_array().expect("a list").iter();
                    list.map(|at| at.as_str().expect("text").parse().expect("an instant"))
                        .collect()
                };
                assert_eq!(instants(&answer["next"]), instants(&case["expect"]), "{id}");
            }
        }
    }
}
