//! Claims about parameters.

use serde_json::json;

use super::*;

fn found(parameters: Value) -> Vec<(String, String)> {
    let parameters = parameters.as_object().unwrap().clone();
    let problems = check(&parameters, "parameters").into_iter();
    let code = |message: String| message.split(':').next().unwrap().to_owned();
    problems.map(|p| (p.path, code(p.message))).collect()
}

#[test]
fn what_can_be_handed_on_as_it_was_written_is_taken() {
    let taken = json!({
        "text": "account 123456789012345678901", "most": u64::MAX, "least": i64::MIN,
        "share": 0.25, "deep": [{"a": [1, 2, null, true]}], "empty": {}, "": "",
    });
    assert_eq!(found(taken), []);
}

#[test]
fn what_would_arrive_as_something_else_is_refused_wherever_it_stands() {
    let digits: Value = serde_json::from_str("123456789012345678901").unwrap();
    let negative: Value = serde_json::from_str("-1e300").unwrap();
    for (value, code) in [
        (digits.clone(), "SC1059"),
        (negative, "SC1059"),
        (json!([{"account": digits}]), "SC1059"),
        (json!("a\0b"), "SC1036"),
        (json!({"a\0": 1}), "SC1036"),
    ] {
        let at = |path: &str| vec![(path.to_owned(), code.to_owned())];
        assert_eq!(found(json!({ "x": value })), at("parameters.x"));
    }
}

#[test]
fn parameters_have_one_limit() {
    let fits = "x".repeat(MAX_PARAMETERS_BYTES - r#"{"a":""}"#.len());
    assert_eq!(found(json!({ "a": fits })), []);
    let one_more = found(json!({ "a": format!("{fits}x") }));
    assert_eq!(one_more, [("parameters".to_owned(), "SC1008".to_owned())]);
}
