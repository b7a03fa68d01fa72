//! Claims about how failures are told.

use super::*;

#[test]
fn every_code_says_what_to_do() {
    let codes: Vec<&str> = ERRORS
        .lines()
        .filter_map(|line| line.strip_prefix("## ")?.split(':').next())
        .filter(|code| is_code(code))
        .collect();
    assert!(codes.len() > 100, "{} codes", codes.len());
    for code in codes {
        let advice = what_to_do(code).unwrap_or_default();
        assert!(advice.len() > 5, "{code}: {advice:?}");
    }
}

fn json(failure: &Failure) -> serde_json::Value {
    serde_json::from_str(&failure.told(Form::Json)).expect("one JSON object")
}

#[test]
fn programs_get_one_object_with_code_message_and_what_to_do() {
    let failure = Failure::new(Exit::NotFound, "SC5001: no job a/b\n  did you mean a/c?");
    let told = json(&failure);
    let error = &told["error"];
    assert_eq!(error["code"], "SC5001");
    assert_eq!(error["message"], "no job a/b");
    assert_eq!(error["details"][0], "did you mean a/c?");
    assert_eq!(error["exit"], 3);
    assert!(error["what_to_do"].is_string());
    let plain = json(&Failure::new(Exit::Failed, "broken: pipe"));
    assert_eq!(plain["error"]["code"], serde_json::Value::Null);
    assert_eq!(plain["error"]["message"], "broken: pipe");
    let counted = "1 problem\n  a.yaml:3:1: spec: SC1034: `x` is not known; did you mean `y`?";
    assert_eq!(json(&Failure::usage(counted))["error"]["code"], "SC1034");
    let yaml = failure.told(Form::Yaml);
    assert!(
        yaml.contains("SC5001") && yaml.starts_with("error:"),
        "{yaml}"
    );
}

#[test]
fn people_are_told_what_to_do_where_the_message_does_not_say_it() {
    let bare = Failure::new(
        Exit::Failed,
        "SC3004: the store holds a row that does not fit",
    );
    let told = bare.told(Form::Table);
    assert!(told.contains("\n  what to do: "), "{told}");
    let about = Failure::new(Exit::Failed, "postgres://here/x: SC3001: not available");
    let told = about.told(Form::Table);
    assert!(told.contains("\n  what to do: "), "{told}");
    let own = Failure::new(Exit::Failed, "SC3004: a row does not fit\n  run this");
    assert_eq!(own.told(Form::Table).lines().count(), 2);
}
