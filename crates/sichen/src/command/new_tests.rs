//! What `sichen new job` writes, asks and refuses.

use clap::Parser;
use sichen_core::document::Document;
use sichen_server::document::read_all;

use super::{Job, New};

#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    new: New,
}

fn job(words: &[&str]) -> Job {
    let line = Line::try_parse_from([&["new", "job"], words].concat()).expect("good words");
    let New::Job(job) = line.new;
    *job
}

fn read(text: &str) -> Document {
    let mut read = read_all(text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
    assert_eq!(read.jobs.len(), 1);
    read.jobs.remove(0).document
}

/// The document of the options alone.
fn of(words: &[&str]) -> Document {
    let job = job(words);
    assert!(job.is_whole(), "{words:?}");
    read(
        &job.document()
            .unwrap_or_else(|failure| panic!("{}", failure.text)),
    )
}

#[test]
fn what_the_options_say_stands_in_the_document() {
    let made = of(&[
        "pay/settle",
        "--cron",
        "30 2 * * 1-5",
        "--tz",
        "Asia/Shanghai",
        "--sh",
        "echo \"a: b\" # c\\n",
        "--shards",
        "8",
        "--attempts",
        "5",
    ]);
    let name = made.job_name().expect("a name");
    assert_eq!(name.to_string(), "pay/settle");
    let spec = serde_json::to_value(&made).expect("JSON")["spec"].clone();
    assert_eq!(spec["timeZone"], "Asia/Shanghai");
    assert_eq!(spec["schedules"][0]["cron"], "30 2 * * 1-5");
    assert_eq!(spec["run"]["process"]["argv"][2], "echo \"a: b\" # c\\n");
    assert_eq!(spec["shards"]["count"], 8);
    assert_eq!(spec["retry"]["maxAttempts"], 5);
}

#[test]
fn every_kind_of_schedule_and_odd_names_make_a_right_document() {
    for when in [
        &["--cron", "@daily"][..],
        &["--cron", "H H * * *"],
        &["--cron", "*/10 * * * * *"],
        &["--every", "15m"],
        &["--at", "2030-01-01T00:00:00+08:00"],
        &["--after", "90s"],
        &["--manual"],
    ] {
        for name in ["a", "true", "007", "null", "n", "1e3", "a.b_c-d"] {
            let made = of(&[&[name, "--handler", "noop"], when].concat());
            assert_eq!(made.metadata.name, name, "{when:?}");
            let spec = serde_json::to_value(&made).expect("JSON")["spec"].clone();
            let schedules = spec["schedules"].as_array().map_or(0, Vec::len);
            assert_eq!(schedules, usize::from(when[0] != "--manual"), "{when:?}");
        }
    }
}

#[test]
fn each_line_that_is_switched_off_may_be_switched_on() {
    let text = job(&["a", "--cron", "30 2 * * *", "--handler", "noop"])
        .document()
        .expect("right");
    let lines: Vec<&str> = text.lines().collect();
    let mut tried = 0;
    for (at, line) in lines.iter().enumerate() {
        let Some((indent, rest)) = line.split_once("# ") else {
            continue;
        };
        let is_field = rest
            .split_once(": ")
            .is_some_and(|(key, _)| key.chars().all(char::is_alphanumeric));
        if !indent.trim().is_empty() || !is_field {
            continue;
        }
        let mut on = lines.clone();
        let switched = format!("{indent}{rest}");
        on[at] = &switched;
        read(&on.join("\n"));
        tried += 1;
    }
    assert!(tried >= 6, "{tried} lines of\n{text}");
}

#[test]
fn what_makes_no_right_document_is_refused_with_its_reason() {
    for (words, why) in [
        (
            &["a", "--cron", "61 * * * *", "--handler", "noop"][..],
            "SC1103",
        ),
        (
            &["a", "--cron", "0 0 30 2 *", "--handler", "noop"],
            "SC1113",
        ),
        (
            &["a", "--every", "0s", "--handler", "noop"],
            "spec.schedules",
        ),
        (
            &[
                "a",
                "--cron",
                "@daily",
                "--tz",
                "Mars/Base",
                "--handler",
                "noop",
            ],
            "Mars/Base",
        ),
        (&["A B", "--manual", "--handler", "noop"], "metadata.name"),
        (
            &["a", "--manual", "--handler", "noop", "--shards", "0"],
            "spec.shards",
        ),
    ] {
        let failure = job(words).document().expect_err("refused");
        assert!(
            failure.text.contains("SC7042") && failure.text.contains(why),
            "{}",
            failure.text
        );
    }
    for words in [
        &["a", "--manual", "--cron", "@daily"][..],
        &["a", "--handler", "x", "--sh", "y"],
    ] {
        assert!(
            Line::try_parse_from([&["new", "job"], words].concat()).is_err(),
            "{words:?}"
        );
    }
}

/// What was said, and what stands on the screen.
fn asked(words: &[&str], answers: &str) -> (Result<Document, String>, String) {
    let mut job = job(words);
    let mut screen = Vec::new();
    let asked = job.ask(&mut answers.as_bytes(), &mut screen);
    let made = asked.and_then(|()| job.document());
    let made = made.map(|text| read(&text)).map_err(|failure| failure.text);
    (made, String::from_utf8(screen).expect("text"))
}

#[test]
fn a_few_answers_make_a_document_and_a_wrong_one_is_asked_again() {
    let answers = "Nightly Report\nnightly-report\n61 2 * * *\n30 2 * * *\nMars/Base\nAsia/Shanghai\n\n/opt/report.sh --all\nnone\n4\n";
    let (made, screen) = asked(&[], answers);
    let made = made.unwrap_or_else(|why| panic!("{why}\n{screen}"));
    let spec = serde_json::to_value(&made).expect("JSON")["spec"].clone();
    assert_eq!(made.metadata.name, "nightly-report");
    assert_eq!(
        (&spec["schedules"][0]["cron"], &spec["timeZone"]),
        (&"30 2 * * *".into(), &"Asia/Shanghai".into())
    );
    assert_eq!(spec["run"]["process"]["argv"][2], "/opt/report.sh --all");
    assert_eq!(spec["shards"]["count"], 4);
    for part in ["SC1103", "Mars/Base", "say what it runs", "is no number"] {
        assert!(screen.contains(part), "{part} is not in {screen}");
    }
}

#[test]
fn what_the_options_say_is_not_asked_and_empty_answers_take_the_default() {
    let (made, screen) = asked(&["a", "--handler", "noop", "--every", "5m"], "\n\n");
    let spec = serde_json::to_value(made.expect("right")).expect("JSON")["spec"].clone();
    assert_eq!(
        (&spec["timeZone"], &spec["schedules"][0]["every"]),
        (&"UTC".into(), &"5m".into())
    );
    assert!(
        screen.contains("[UTC]") && !screen.contains("Its name"),
        "{screen}"
    );
    // A job that is only asked for has no zone to ask about.
    let (made, screen) = asked(&[], "a\n\nnoop\n\n");
    assert!(made.is_ok() && !screen.contains("zone"), "{screen}");
}

#[test]
fn who_answers_nothing_or_nothing_right_gets_no_document() {
    let wrong = "A\n".repeat(20);
    for answers in ["", "a\n", wrong.as_str()] {
        let (made, screen) = asked(&[], answers);
        assert!(made.expect_err("refused").contains("SC7043"), "{screen}");
    }
}
