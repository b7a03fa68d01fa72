//! SQL guards, core decides: what statements may not contain, and that each has its twin.

use super::source::has_word;
use super::{Finding, Tree};

const SQLITE: &str = "crates/sichen-store/sql/sqlite/";
const POSTGRES: &str = "crates/sichen-store/sql/postgres/";

/// Same file names on both sides, once there is a second side. Migrations have their own numbers,
/// and only the side with rows to lock has `locks/`.
pub fn twins(tree: &Tree) -> Vec<Finding> {
    if !tree.exists(POSTGRES) || !tree.exists(SQLITE) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.has_extension("sql")) {
        for (own, other) in [(SQLITE, POSTGRES), (POSTGRES, SQLITE)] {
            let Some(name) = file.path.strip_prefix(own) else {
                continue;
            };
            // Locks: SQLite's transactions are one at a time.
            let alone = name.starts_with("migrations/") || name.starts_with("locks/");
            if !alone && !tree.exists(&format!("{other}{name}")) {
                let say = format!("no twin; write {other}{name}, or the same under both names");
                findings.push(Finding::new("sql-twin", &file.path, 0, say));
            }
        }
    }
    findings
}

/// A `CASE` that asks for a state is a second state machine.
pub fn no_case_on_state(tree: &Tree) -> Vec<Finding> {
    let say = "CASE on a state: the move table in sichen-core decides; SQL gets the new state as \
               a parameter and guards with WHERE state = …";
    each_statement(tree, |text| case_on_state(text).map(|at| (at, say)))
        .into_iter()
        .map(|(path, line, say)| Finding::new("sql-case", &path, line, say))
        .collect()
}

/// Time comes in as a value, or from the one clock function.
pub fn no_stray_clock(tree: &Tree) -> Vec<Finding> {
    const CLOCKS: &[&str] = &[
        "now()",
        "current_timestamp",
        "current_time",
        "localtimestamp",
        "statement_timestamp(",
        "transaction_timestamp(",
        "unixepoch()",
        "datetime('now'",
        "julianday('now'",
        "random()",
    ];
    let say = "a stray clock or chance in SQL; bind the value, or use sichen_now()";
    each_statement(tree, |text| {
        let found = CLOCKS.iter().filter_map(|clock| word_at(text, clock)).min();
        found.map(|at| (at, say))
    })
    .into_iter()
    .map(|(path, line, say)| Finding::new("sql-clock", &path, line, say))
    .collect()
}

/// Asks `find` about each SQL text of the store, the engine and the worker: `.sql` files and
/// the string literals of product code that hold a statement. Migrations define the clock itself.
fn each_statement<'a>(
    tree: &Tree,
    find: impl Fn(&str) -> Option<(usize, &'a str)>,
) -> Vec<(String, usize, &'a str)> {
    let mut found = Vec::new();
    for file in &tree.files {
        // The fence kit runs in the user's database and rightly asks that database's clock.
        let ours = [
            "crates/sichen-store/",
            "crates/sichen-engine/",
            "crates/sichen-worker/",
        ];
        if file.is_test()
            || file.path.contains("/migrations/")
            || !ours.iter().any(|place| file.path.starts_with(place))
        {
            continue;
        }
        let text = match &file.rust {
            Some(views) => views.strings.to_lowercase(),
            None if file.has_extension("sql") => without_comments(&file.text).to_lowercase(),
            None => continue,
        };
        if let Some((at, say)) = find(&text) {
            found.push((file.path.clone(), text[..at].matches('\n').count() + 1, say));
        }
    }
    found
}

fn without_comments(sql: &str) -> String {
    let kept: Vec<&str> = sql
        .lines()
        .map(|line| line.split_once("--").map_or(line, |(code, _)| code))
        .collect();
    kept.join("\n")
}

fn word_at(text: &str, word: &str) -> Option<usize> {
    text.match_indices(word).map(|(at, _)| at).find(|at| {
        let before = text[..*at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.')
    })
}

/// Where a lower-case text has `case [x.]state` or a `when` of a `case` that compares `state`.
fn case_on_state(text: &str) -> Option<usize> {
    for (at, _) in text.match_indices("case") {
        if !has_word(
            &text[at.saturating_sub(1)..(at + 5).min(text.len())],
            "case",
        ) {
            continue;
        }
        let body = text[at..]
            .split_once(" end")
            .map_or(&text[at..], |(body, _)| body);
        let operand = body["case".len()..].trim_start();
        let operand = operand
            .split(|c: char| c.is_whitespace())
            .next()
            .unwrap_or("");
        if operand == "state" || operand.ends_with(".state") {
            return Some(at);
        }
        for when in body.split("when ").skip(1) {
            let condition = when
                .split_once("then")
                .map_or("", |(condition, _)| condition);
            if has_word(condition, "state") {
                return Some(at);
            }
        }
    }
    None
}
