//! A month's page, as people see it.

use serde_json::{Value, json};

use super::super::next_job::tests::preview;
use super::{month, text, view};

fn page(schedules: Value, of: &str) -> String {
    let preview = preview(json!({ "schedules": schedules }));
    let first = month(of).unwrap();
    text(&view(&preview, first), first)
}

#[test]
fn a_month_with_a_fold_shows_it() {
    let page = page(json!([{ "cron": "30 1 * * *" }]), "2026-11");
    insta::assert_snapshot!(page);
}

#[test]
fn a_month_with_a_gap_shows_counts_and_what_falls_out() {
    let page = page(
        json!([{ "cron": "0,30 1-3 * * 0", "gap": "skip" }, { "every": "12h" }]),
        "2026-03",
    );
    insta::assert_snapshot!(page);
}

#[test]
fn a_frequent_job_is_counted_and_not_walked() {
    let preview = preview(json!({ "schedules": [{ "cron": "* * * * * *" }] }));
    let view = view(&preview, month("2026-03").unwrap());
    let counts: Vec<u64> = view.days.iter().map(|day| day.count).collect();
    assert_eq!((counts[0], counts[7]), (86_400, 82_800));
    assert!(
        view.days
            .iter()
            .all(|day| day.times.len() == super::MAX_LISTED)
    );
}

/// It has no times of its own to fill a month with, and says so instead of drawing empty days.
#[test]
fn a_job_that_follows_its_runs_says_so() {
    for schedule in [json!({ "after": "10m" }), json!({ "continuous": {} })] {
        let page = page(json!([schedule]), "2026-11");
        assert!(
            page.contains("the end of each run makes the next one"),
            "{page}"
        );
        assert!(!page.contains("Mon"), "{page}");
    }
    let both = page(
        json!([{ "after": "10m" }, { "cron": "0 9 * * *" }]),
        "2026-11",
    );
    assert!(both.contains("Mon") && both.contains("09:00"), "{both}");
}

#[test]
fn a_month_is_four_digits_and_two() {
    for text in [
        "2026-13", "2026", "26-11", "2026-1", "0000-01", "9999-12", "x",
    ] {
        assert!(month(text).is_err(), "{text}");
    }
    assert!(month("2026-11").is_ok());
}
