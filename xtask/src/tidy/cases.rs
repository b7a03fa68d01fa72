//! Every case drawn from another scheduler's bug report has a test, or a topic that it waits for.

use std::collections::BTreeMap;

use super::source::{has_word, is_step};
use super::{Finding, Tree};

const PAGE: &str = "docs/cases.md";
const CASES: &str = "testdata/cases/bug_reports.json";

/// What a case may wait for.
pub const TOPICS: &[&str] = &[
    "time",
    "several servers",
    "dispatch",
    "access",
    "console",
    "observe",
    "flows",
    "postgres-and-processes",
];

/// docs/cases.md names each id of the data once, and each test that it names exists and says the
/// id (or reads the data itself).
pub fn complete(tree: &Tree) -> Vec<Finding> {
    let Some(data) = tree.file(CASES) else {
        return vec![Finding::new(
            "cases",
            CASES,
            0,
            "the case data is missing; restore it",
        )];
    };
    let mut open = ids(&data.text);
    let page = tree.file(PAGE).map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    for (index, line) in page.lines().enumerate() {
        let cells: Vec<&str> = line
            .trim()
            .trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        let [id, .., answer] = cells.as_slice() else {
            continue;
        };
        if !is_id(id) {
            continue;
        }
        let mut say = |say: String| findings.push(Finding::new("cases", PAGE, index + 1, say));
        match open.get_mut(*id) {
            None => say(format!("{id} is no case of {CASES}; take the row out")),
            Some(true) => say(format!("{id} has two rows; keep one")),
            Some(seen) => *seen = true,
        }
        wrong_answer(tree, id, answer).into_iter().for_each(say);
    }
    for (id, _) in open.iter().filter(|(_, seen)| !**seen) {
        let say = format!("{id} is in neither; add a row with its test, or `waits: TOPIC`");
        findings.push(Finding::new("cases", PAGE, 0, say));
    }
    findings
}

/// The ids of the data, none of them seen yet.
fn ids(data: &str) -> BTreeMap<String, bool> {
    let value: serde_json::Value = serde_json::from_str(data).unwrap_or_default();
    let cases = value["cases"].as_array().cloned().unwrap_or_default();
    cases
        .iter()
        .filter_map(|case| case["id"].as_str())
        .map(|id| (id.to_owned(), false))
        .collect()
}

fn is_id(cell: &str) -> bool {
    cell.split_once('-').is_some_and(|(kind, number)| {
        kind.chars().all(|c| c.is_ascii_uppercase())
            && !kind.is_empty()
            && number.len() == 3
            && number.bytes().all(|b| b.is_ascii_digit())
    })
}

/// An answer is tests in backticks (`path::name`; of the console's tests in a browser, the step's words), or `waits: TOPIC`, or tests and then
/// `the rest waits: TOPIC`.
fn wrong_answer(tree: &Tree, id: &str, answer: &str) -> Vec<String> {
    let tests: Vec<&str> = answer.split('`').skip(1).step_by(2).collect();
    let topic = answer.rsplit_once("waits: ").map(|(_, topic)| topic.trim());
    let mut wrong = Vec::new();
    if let Some(topic) = topic.filter(|topic| !TOPICS.contains(topic)) {
        wrong.push(format!(
            "{id} waits for `{topic}`, which is no topic; one of {TOPICS:?}"
        ));
    }
    if tests.is_empty() && topic.is_none() {
        wrong.push(format!(
            "{id} has neither a test in backticks nor `waits: TOPIC`"
        ));
    }
    wrong.extend(tests.iter().filter_map(|test| missing_test(tree, id, test)));
    wrong
}

fn missing_test(tree: &Tree, id: &str, test: &str) -> Option<String> {
    let Some((path, name)) = test.rsplit_once("::") else {
        return Some(format!(
            "{id}: write the test as `path/to/file.rs::name`, not `{test}`"
        ));
    };
    let Some(file) = tree.file(path) else {
        return Some(format!(
            "{id}: there is no {path}; name the file the test is in"
        ));
    };
    let declared = |line: &str| has_word(line, &format!("fn {name}"));
    if !is_step(path, &file.text, name) && !file.text.lines().any(declared) {
        return Some(format!(
            "{id}: {path} has no `fn {name}`; name the test that is there"
        ));
    }
    let words = [
        id.to_owned(),
        id.to_lowercase().replace('-', "_"),
        "bug_reports.json".into(),
    ];
    if !words.iter().any(|word| file.text.contains(word.as_str())) {
        return Some(format!(
            "{id}: {path} does not say {id}; put it above `fn {name}`"
        ));
    }
    None
}
