//! Claims about documents that are right and documents that are not.

use super::*;

const GOOD: &str = "\
apiVersion: sichen/v1
kind: Job
metadata:
  name: daily-settlement
spec:
  schedules:
    - cron: 0 0 * * *
  timeZone: Asia/Shanghai
  run: {handler: settle}
";

/// Reads a document whose spec has these lines besides what it needs.
fn with(lines: &str) -> Result<Vec<Read>, Vec<Problem>> {
    read(&format!("{GOOD}{lines}"))
}

/// `text` is refused with these problems: `line:column path code words`.
#[track_caller]
fn check(text: &str, expect: &[(&str, &str, &str)]) {
    let problems = read(text).expect_err(text);
    let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let shown = shown.join("\n");
    assert_eq!(problems.len(), expect.len(), "{shown}");
    for (problem, (place, path, words)) in problems.iter().zip(expect) {
        let at = match (problem.line, problem.column) {
            (Some(line), Some(column)) => format!("{line}:{column}"),
            _ => String::new(),
        };
        assert_eq!(
            (at.as_str(), problem.path.as_str()),
            (*place, *path),
            "{shown}"
        );
        for word in words.split('|') {
            assert!(problem.message.contains(word), "{word:?} is not in {shown}");
        }
    }
}

#[test]
fn a_document_is_read() {
    let read = read(GOOD).unwrap();
    assert_eq!(read[0].document.metadata.name, "daily-settlement");
    assert_eq!(read[0].line, 1);
}

#[test]
fn several_documents_are_read_and_empty_ones_left_out() {
    let second = GOOD.replace("daily-settlement", "other");
    let text = format!("---\n{GOOD}---\n# nothing\n---\n{second}...\n");
    let read = read(&text).unwrap();
    let lines: Vec<u64> = read.iter().map(|r| r.line).collect();
    assert_eq!(lines, [2, 14]);
}

#[test]
fn json_is_read_also_with_tabs() {
    let json = r#"{
	"apiVersion": "sichen/v1", "kind": "Job",
	"metadata": {"name": "j", "title": "\u4efb\u52a1 \ud83d\ude00 \/"},
	"spec": {"run": {"handler": "h"}, "parameters": {"a": [1, -2, 1.5, true, null, "t"]}}
}"#;
    let read = read(json).unwrap();
    assert_eq!(
        read[0].document.metadata.title.as_deref(),
        Some("任务 😀 /")
    );
    let parameters = serde_json::to_string(&read[0].document.spec.parameters).unwrap();
    assert_eq!(parameters, r#"{"a":[1,-2,1.5,true,null,"t"]}"#);
}

#[test]
fn every_alternative_of_the_document_is_read() {
    let spec = "
  schedules: [{every: 90m}, {at: '2026-08-30T00:00:00+08:00'}]
  run: {process: {argv: [prog, '1'], env: {A: b}, directory: /tmp}}
  shards: {range: {keys: time, bounds: period, size: 1h}}
  parallelism: 4
  priority: -3
  retry:
    maxAttempts: 5
    backoff: {fullJitter: {base: 1s, max: 1m, factor: 2}}
    rules:
      - {exitCodes: [3, 10-19], errors: [bad-input, killed-by-signal-*], action: failShard}
      - {ends: [lost, timedOut], action: retry, delay: 90s}
      - {errors: [nothing-new], action: ignore}
  timeouts: {attempt: 30m, run: 2h, stall: 5m, activeDeadline: 1h}
  overlap: allow
  catchUp: {policy: {all: 3}, startingDeadline: 1h}
  countsMustMatch: true
";
    let head = "apiVersion: sichen/v1\nkind: Job\nmetadata: {name: j, labels: {team: a}}\nspec:";
    let document = &read(&format!("{head}{spec}")).unwrap()[0].document;
    assert_eq!(document.spec.schedules.len(), 2);
    for shards in [
        "{count: 7}",
        "{items: {values: [a, b]}}",
        "{items: {parameter: tenants}}",
        "{range: {bounds: {literal: {from: 1, to: 10}}, count: 3}}",
        "{range: {bounds: {parameters: {from: a, to: b}}, size: 100}}",
        "{range: {bounds: {query: {dataSource: d, sql: select 1}}, size: 100}}",
    ] {
        with(&format!("  shards: {shards}\n")).expect(shards);
    }
}

#[test]
fn what_was_written_down_is_read_again() {
    let document = read(GOOD).unwrap().remove(0).document;
    let json = serde_json::to_string(&document).unwrap();
    assert_eq!(read(&json).unwrap()[0].document, document);
}

#[test]
fn all_that_does_not_fit_is_told_at_once() {
    let text = "\
apiVersion: sichen/v1
kind: Job
metadata:
  nam: daily
  labels: {a: 1}
spec:
  timezone: UTC
  schedules:
    - corn: 0 0 * * *
    - every: 5
  run: {handlr: settle}
  retry: {maxAttempts: many, backof: 1s}
  priority: 1.5
  timeouts: {attempt: soon}
";
    check(
        text,
        &[
            ("4:3", "metadata.nam", "SC1031|did you mean `name`"),
            ("5:15", "metadata.labels.a", "SC1033|quotes: \"1\""),
            ("7:3", "spec.timezone", "SC1031|did you mean `timeZone`"),
            (
                "9:7",
                "spec.schedules[0].corn",
                "SC1031|did you mean `cron`",
            ),
            (
                "10:14",
                "spec.schedules[1].every",
                "SC1033|length of time such as",
            ),
            ("11:9", "spec.run", "SC1034|did you mean `handler`"),
            (
                "12:24",
                "spec.retry.maxAttempts",
                "SC1033|\"many\"|whole number",
            ),
            (
                "12:30",
                "spec.retry.backof",
                "SC1031|did you mean `backoff`",
            ),
            ("13:13", "spec.priority", "SC1033|1.5|whole number"),
            ("14:23", "spec.timeouts.attempt", "SC1033|\"soon\"|`10s`"),
        ],
    );
}

#[test]
fn what_is_missing_is_told_with_what_holds_it() {
    check(
        "apiVersion: sichen/v1\nmetadata: {namespace: a}\nspec: {pool: b}\n",
        &[
            ("1:1", "kind", "SC1032"),
            ("2:11", "metadata.name", "SC1032"),
            ("3:7", "spec.run", "SC1032"),
        ],
    );
}

#[test]
fn rules_are_told_with_the_place_of_the_value() {
    let text = GOOD
        .replace("daily-settlement", "Daily")
        .replace("0 0 * * *", "61 0 * * *")
        .replace("Shanghai", "Shangai");
    let problems = read(&text).unwrap_err();
    let places: Vec<_> = problems
        .iter()
        .map(|p| (p.line.unwrap(), p.path.as_str()))
        .collect();
    assert_eq!(places[0], (4, "metadata.name"));
    assert_eq!(places[1], (7, "spec.schedules[0].cron"));
}

#[test]
fn problems_of_all_documents_are_told() {
    let text = format!(
        "{}---\n{}",
        GOOD.replace("kind", "king"),
        GOOD.replace("0 0 *", "x")
    );
    let problems = read(&text).unwrap_err();
    let lines: Vec<_> = problems.iter().map(|p| p.line.unwrap()).collect();
    assert_eq!(lines, [2, 17], "{problems:?}");
}

#[test]
fn one_job_is_in_a_text_once() {
    check(
        &format!("{GOOD}---\n{GOOD}"),
        &[("11:1", "metadata.name", "SC1039|first in line 1")],
    );
}

#[test]
fn a_field_that_is_there_twice_is_refused() {
    let text = format!("{GOOD}  pool: a\n  priority: 1\n  pool: b\n");
    check(&text, &[("12:3", "spec.pool", "SC1037|first in line 10")]);
    check(
        r#"{"apiVersion": "sichen/v1", "kind": "Job", "kind": "Job", "metadata": {"name": "a", "name": "b"}, "spec": {"run": {"handler": "h"}}}"#,
        &[
            ("1:44", "kind", "SC1037"),
            ("1:85", "metadata.name", "SC1037"),
        ],
    );
}

#[test]
fn a_variable_that_no_process_can_have_is_refused() {
    let text = GOOD.replace("{handler: settle}", "{process: {argv: [b], env: {A=B: c}}}");
    check(&text, &[("9:35", "spec.run.process.env", "SC1028|\"A=B\"")]);
}

#[test]
fn choices_are_one_of() {
    let both = GOOD.replace("{handler: settle}", "{handler: a, process: {argv: [b]}}");
    check(&both, &[("9:21", "spec.run", "SC1033|second choice")]);
    let none = GOOD.replace("{handler: settle}", "{}");
    check(&none, &[("9:8", "spec.run", "SC1033|one of")]);
    let unit = format!("{GOOD}  overlap: sometimes\n");
    check(
        &unit,
        &[("10:12", "spec.overlap", "SC1034|`allow`, `forbid`")],
    );
    let size = format!("{GOOD}  shards: {{range: {{bounds: period, size: [1]}}}}\n");
    check(
        &size,
        &[("10:42", "spec.shards.range.size", "SC1033|10000")],
    );
}

#[test]
fn tabs_are_refused_with_their_place() {
    let text = GOOD.replace("  timeZone", "\ttimeZone");
    let problems = read(&text).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].message.starts_with("SC1030"), "{problems:?}");
    assert!(problems[0].line.is_some(), "{problems:?}");
}

#[test]
fn what_is_no_yaml_is_told_with_the_form_that_was_meant() {
    let check = |below: &str, place: &str, says: &str| {
        let head = "apiVersion: sichen/v1\nkind: Job\nmetadata:\n  name: x\nspec:\n";
        let problems = read(&format!("{head}{below}")).unwrap_err();
        let said = problems[0].to_string();
        assert!(said.starts_with(&format!("{place}: SC1030: ")), "{said}");
        assert!(said.contains(says), "{says:?} is not in {said}");
        assert!(!said.contains(" at line"), "{said}");
    };
    let between = "  run:\n    handler: noop\n   pool: x\n";
    check(between, "8:4", "line 8 is indented by 3 spaces");
    check(between, "8:4", "0 (as line 1), 2 (as line 6)");
    let deeper = "  run:\n    handler: noop\n      pool: x\n";
    check(deeper, "8:11", "indent this line by 4 spaces");
    let listed = "  schedules:\n  - cron: '0 0 * * *'\n   run: x\n";
    check(listed, "8:4", "2 (as line 6), 4 (as line 7)");
    let no_dash = "  - run:\n      handler: noop\n  pool: x\n";
    check(no_dash, "8:3", "begin with `- `");
    check("  run\n    handler: noop\n", "7:12", "line 6 has no `:`");
    check("  title: a: b\n", "6:11", "quote a text");
    check("  pool: @x\n", "6:9", "quote a text");
    check("  pool: *x\n", "6:9", "quote a text");
    check("  run: {handler: noop\n", "6:8", "needs its own");
    check("  run:\n    handler: 'noop\n", "7:14", "never closed");
    check("  run:\n\thandler: noop\n", "7:2", "spaces");
}

#[test]
fn a_bomb_of_aliases_is_refused() {
    let mut text = String::from("a: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..20 {
        let last = format!("*a{}", i - 1);
        text.push_str(&format!("b{i}: &a{i} [{}]\n", vec![last; 10].join(", ")));
    }
    let problems = read(&text).unwrap_err();
    assert!(problems[0].message.starts_with("SC1035"), "{problems:?}");
}

#[test]
fn a_hundred_thousand_brackets_are_refused() {
    for text in ["[", "{a: ", "- "] {
        let problems = read(&text.repeat(100_000)).unwrap_err();
        let code = &problems[0].message[..6];
        assert!(["SC1030", "SC1035"].contains(&code), "{problems:?}");
    }
    let nested = format!(
        "{GOOD}  parameters: {{a: {}{}}}\n",
        "[".repeat(40),
        "]".repeat(40)
    );
    assert!(read(&nested).is_err());
    let fine = format!(
        "{GOOD}  parameters: {{a: {}{}}}\n",
        "[".repeat(20),
        "]".repeat(20)
    );
    read(&fine).unwrap();
}

#[test]
fn a_text_that_is_too_long_is_refused() {
    let text = format!("{GOOD}# {}", "x".repeat(MAX_TEXT_BYTES));
    check(&text, &[("", "", "SC1035|1048576")]);
}

#[test]
fn nothing_is_no_document() {
    for text in ["", " \n", "---\n---\n", "# only a remark\n", "null\n"] {
        check(text, &[("", "", "SC1038")]);
    }
}

#[test]
fn what_is_no_map_is_no_document() {
    for text in ["5", "text", "[1, 2]", "true"] {
        let problems = read(text).unwrap_err();
        assert!(
            problems[0].message.contains("expected fields"),
            "{problems:?}"
        );
    }
}

#[test]
fn bytes_that_are_not_utf8_are_refused_with_their_place() {
    let mut bytes = b"kind: Job\nname: \xe4\xbb".to_vec();
    bytes.push(0xff);
    let problems = read_bytes(&bytes).unwrap_err();
    assert_eq!((problems[0].line, problems[0].column), (Some(2), Some(7)));
}

/// NAME-001.
#[test]
fn name_001_a_name_is_refused_where_its_user_is_present() {
    for (count, fine) in [
        (1, true),
        (52, true),
        (63, true),
        (64, false),
        (128, false),
        (255, false),
        (256, false),
        (10_000, false),
    ] {
        let read = read(&GOOD.replace("daily-settlement", &"a".repeat(count)));
        assert_eq!(read.is_ok(), fine, "{count}");
        if let Err(problems) = read {
            assert!(
                problems[0].message.contains("the limit is 63"),
                "{problems:?}"
            );
        }
    }
    for text in ["任".repeat(255), "😀".repeat(255)] {
        assert!(read(&GOOD.replace("daily-settlement", &text)).is_err());
    }
}

/// NAME-002.
#[test]
fn name_002_names_with_special_characters_are_refused() {
    for name in [
        "a/b",
        "a b",
        "a%2Fb",
        "a+b",
        "#1",
        "?x=1",
        "a&b",
        "..",
        ".",
        "a\\b",
        "a\"b'c",
        "ünïcode",
        "任务",
        "trailing ",
        "a\tb",
        "",
        " ",
        "A",
    ] {
        let quoted = serde_json::to_string(name).unwrap();
        let problems = read(&GOOD.replace("daily-settlement", &quoted)).expect_err(name);
        assert!(problems[0].message.starts_with("SC1001"), "{problems:?}");
        assert_eq!(problems[0].path, "metadata.name");
    }
}

/// NAME-004.
#[test]
fn name_004_any_text_is_kept_but_for_nul_and_lone_surrogates() {
    let texts = [
        "😀👩‍👩‍👧",
        "שלום \u{202e}abc",
        "e\u{301}",
        "\u{e9}",
        "a\u{200d}b",
    ];
    for text in texts {
        let quoted = serde_json::to_string(text).unwrap();
        let yaml = GOOD.replace("name: daily", &format!("title: {quoted}\n  name: daily"));
        let parameters = format!("{yaml}  parameters: {{{quoted}: {quoted}}}\n");
        let document = &read(&parameters).unwrap()[0].document;
        assert_eq!(document.metadata.title.as_deref(), Some(text));
        assert_eq!(document.spec.parameters[text], text);
    }
    for (escaped, code) in [(r#""a\u0000b""#, "SC1036"), (r#""\ud800""#, "SC1030")] {
        let yaml = format!("{GOOD}  parameters: {{a: {escaped}}}\n");
        let problems = read(&yaml).expect_err(escaped);
        assert!(problems[0].message.starts_with(code), "{problems:?}");
        assert_eq!(problems[0].line, Some(10));
    }
    let raw = GOOD.replace("settle}", "se\0ttle}");
    check(&raw, &[("9:20", "", "SC1036")]);
}

#[test]
fn no_text_makes_the_reader_panic_or_run_away() {
    for text in [
        "&a *a",
        "a: *b",
        "<<: {a: 1}",
        "? [a]: b",
        "!x y",
        "%YAML 9.9\n---\n",
        "a: |",
        "'",
        "\"",
        "\u{feff}a: 1",
        "- - - -",
        "a: !!binary zzz",
        "{",
        "}",
        "[}",
        "a: 1e999",
        "a: .nan",
        "a: 99999999999999999999999999999999999999999",
        "--- a\n--- b",
        "\r\r\n",
    ] {
        assert!(read(text).is_err(), "{text:?}");
    }
}

/// API-012: the last one never wins in silence; both places are told.
#[test]
fn api_012_a_name_that_is_there_twice_is_refused_with_both_places() {
    let base = "{\n\"apiVersion\": \"sichen/v1\", \"kind\": \"Job\",\n\"metadata\": {\"name\": \"j\"LABELS},\n\"spec\": {\"run\": {\"handler\": \"h\"}PARAMETERS}\n}";
    let json = |labels: &str, parameters: &str| {
        base.replace("LABELS", labels)
            .replace("PARAMETERS", parameters)
    };
    for (text, path, first) in [
        (
            json(",\n\"labels\": {\"a\": \"1\",\n\"a\": \"2\"}", ""),
            "metadata.labels.a",
            4,
        ),
        (
            json("", ",\n\"parameters\": {\"p\": 1,\n\"p\": 1}"),
            "spec.parameters.p",
            5,
        ),
        (
            json("", ",\n\"pool\": \"a\",\n\"pool\": \"b\""),
            "spec.pool",
            5,
        ),
        (
            format!("{GOOD}  parameters:\n    p: 1\n    p: 2\n"),
            "spec.parameters.p",
            11,
        ),
    ] {
        let problems = read(&text).expect_err(&text);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].path, path);
        assert_eq!(problems[0].line, Some(first + 1), "the second place");
        let words = format!("first in line {first};");
        assert!(problems[0].message.contains(&words), "{problems:?}");
    }
}

const CALENDAR: &str = "\
apiVersion: sichen/v1
kind: Calendar
metadata: {name: holidays}
spec:
  daysOff:
  - 2026-01-01
  - {from: 2026-02-15, through: 2026-02-23, name: Spring Festival}
";

#[test]
fn calendars_and_jobs_of_one_text_are_told_apart() {
    let all = read_all(&format!("{GOOD}---\n{CALENDAR}")).unwrap();
    assert_eq!((all.jobs.len(), all.calendars.len()), (1, 1));
    assert_eq!(all.calendars[0].line, 11);
    let twice = read_all(&format!("{CALENDAR}---\n{CALENDAR}")).unwrap_err();
    assert!(
        twice[0]
            .message
            .starts_with("SC1039: the calendar \"holidays\"")
    );
    let only_jobs = read(&format!("{GOOD}---\n{CALENDAR}")).unwrap_err();
    assert_eq!(
        (only_jobs[0].line, only_jobs[0].path.as_str()),
        (Some(11), "kind")
    );
}

#[test]
fn what_is_wrong_in_a_calendar_has_its_place() {
    let text = format!(
        "{CALENDAR}  - {{from: 2026-04-06, through: 2026-04-04}}\n  - [2026-05-01]\n  - {{dat: \
         2026-05-01}}\n  weekends: [sunday]\n"
    );
    check(
        &text,
        &[
            ("9:5", "spec.daysOff[3]", "SC1033|a date such as 2026-10-01"),
            ("10:6", "spec.daysOff[4].dat", "SC1031|did you mean `date`?"),
            ("11:3", "spec.weekends", "SC1031|did you mean `weekend`?"),
        ],
    );
    let backward = text.lines().take(8).collect::<Vec<_>>().join("\n");
    check(
        &backward,
        &[("8:33", "spec.daysOff[2].through", "SC1042|2026-04-04")],
    );
    let missing = place_of(&backward, 1, "spec.daysOff[1].name");
    assert_eq!(missing, Some((7, 51)));
}

#[test]
fn what_does_not_fit_and_what_breaks_a_rule_are_told_together() {
    let text = "\
apiVersion: sichen/v1
kind: Job
metadata: { name: Bad_Name, colour: red }
spec:
  schedules:
    - cron: 61 0 * * *
    - { every: 5 }
  timeZone: Asia/Shangai
  shards: 3
  parallelism: many
  run: { handler: settle }
";
    check(
        text,
        &[
            ("3:19", "metadata.name", "SC1001"),
            ("3:29", "metadata.colour", "SC1031"),
            ("6:13", "spec.schedules[0].cron", "SC11"),
            ("7:16", "spec.schedules[1].every", "SC1033"),
            ("8:13", "spec.timeZone", "Shangai"),
            ("9:11", "spec.shards", "SC1033|`{count: 3}`"),
            ("10:16", "spec.parallelism", "SC1033"),
        ],
    );
    // What stands behind an item that was passed over is not told under a wrong number.
    let text = text.replace("    - { every: 5 }", "    - 5");
    let text = text.replace(
        "    - cron: 61 0 * * *\n    - 5",
        "    - 5\n    - cron: 61 0 * * *",
    );
    let paths: Vec<String> = read(&text)
        .unwrap_err()
        .into_iter()
        .map(|p| p.path)
        .collect();
    assert!(paths.contains(&"spec.schedules[0]".to_owned()), "{paths:?}");
    assert!(!paths.iter().any(|p| p.starts_with("spec.schedules[0].")));
}
