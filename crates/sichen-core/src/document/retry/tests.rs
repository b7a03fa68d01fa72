//! Claims about the retry rules of a document.

use super::super::check as check_document;
use super::*;

fn document(rules: serde_json::Value) -> Document {
    let document = serde_json::json!({
        "apiVersion": "sichen/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"run": {"handler": "h"}, "retry": {"rules": rules}},
    });
    serde_json::from_value(document).expect("the shape is right")
}

/// What is told about these rules: path and code.
#[track_caller]
fn check(rules: serde_json::Value, expect: &[(&str, &str)]) {
    let problems = check_document(&document(rules));
    let got: Vec<(&str, &str)> = problems
        .iter()
        .map(|p| (p.path.as_str(), &p.message[..6]))
        .collect();
    assert_eq!(got, expect, "{problems:?}");
}

#[test]
fn a_rule_that_makes_no_sense_is_refused_at_its_place() {
    let at = "spec.retry.rules[0]";
    let under = |field: &str| format!("{at}.{field}");
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    check(json(r#"[{"action": "retry"}]"#), &[(at, "SC1050")]);
    let bad = json(r#"[{"exitCodes": [1, 0, 256, "19-10", "x", "-3", "3-"], "action": "retry"}]"#);
    let places: Vec<String> = (1..7).map(|i| under(&format!("exitCodes[{i}]"))).collect();
    let expect: Vec<(&str, &str)> = places.iter().map(|p| (p.as_str(), "SC1051")).collect();
    check(bad, &expect);
    let bad = json(r#"[{"errors": ["", "*x", "ok", "all*"], "action": "ignore"}]"#);
    let places = [under("errors[0]"), under("errors[1]")];
    check(bad, &[(&places[0], "SC1052"), (&places[1], "SC1052")]);
    for action in ["failShard", "failRun", "ignore"] {
        let rule = serde_json::json!([{"errors": ["a"], "action": action, "delay": "1s"}]);
        check(rule, &[(&under("delay"), "SC1053")]);
    }
    let lost = json(r#"[{"ends": ["lost"], "action": "ignore"}]"#);
    check(lost, &[(&under("action"), "SC1054")]);
    let many = vec![serde_json::json!({"errors": ["a"], "action": "retry"}); MAX_RULES + 1];
    check(many.into(), &[("spec.retry.rules", "SC1055")]);
    let many: Vec<u32> = (1..=65).collect();
    let many = serde_json::json!([{"exitCodes": many, "action": "retry"}]);
    check(many, &[(&under("exitCodes"), "SC1055")]);
}

#[test]
fn rules_are_read_as_they_stand() {
    let rules = serde_json::json!([
        {"exitCodes": [3, "10-19", "7"], "errors": ["bad-*"], "action": "failShard"},
        {"ends": ["lost", "timedOut", "failed"], "action": "retry", "delay": "90s"},
    ]);
    check(rules.clone(), &[]);
    let rules = document(rules).retry_policy().rules;
    assert_eq!(rules[0].exits, [3..=3, 10..=19, 7..=7]);
    assert_eq!(rules[0].errors, ["bad-*"]);
    assert_eq!(rules[0].action, Action::FailShard);
    use AttemptEnd::{Failed, Lost, TimedOut};
    assert_eq!(rules[1].ends, [Lost, TimedOut, Failed]);
    assert_eq!(rules[1].delay.map(|d| d.as_secs()), Some(90));
}
