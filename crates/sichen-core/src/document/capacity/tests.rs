//! Claims about capacity documents and what jobs say that they use.

use super::*;

fn check(units: Option<u32>, rate: Option<&str>, burst: Option<u32>) -> Vec<String> {
    let spec = CapacitySpec {
        units,
        rate: rate.map(str::to_owned),
        burst,
    };
    let problems = CapacityDocument::new("mysql-main", spec).check();
    let shown = problems
        .iter()
        .map(|p| format!("{} {}", p.path, &p.message[..6]));
    shown.collect()
}

#[test]
fn a_capacity_has_units_a_rate_or_both() {
    assert_eq!(check(Some(40), None, None), [""; 0]);
    assert_eq!(check(Some(0), None, None), [""; 0]);
    assert_eq!(check(None, Some("50/s"), Some(100)), [""; 0]);
    assert_eq!(check(Some(1), Some("50/s"), None), [""; 0]);
    assert_eq!(check(None, None, None), ["spec SC1062"]);
    assert_eq!(
        check(Some(MAX_UNITS + 1), None, None),
        ["spec.units SC1002"]
    );
    assert_eq!(check(Some(1), None, Some(5)), ["spec.burst SC1063"]);
    assert_eq!(check(None, Some("fast"), None), ["spec.rate SC1061"]);
    assert_eq!(check(None, Some("5/s"), Some(0)), ["spec.rate SC1002"]);
}

#[test]
fn limits_are_those_of_the_document() {
    let spec = CapacitySpec {
        units: Some(3),
        rate: Some("50/s".to_owned()),
        burst: Some(100),
    };
    let limits = CapacityDocument::new("x", spec).limits();
    assert_eq!(limits.to_string(), "3 units, 50/s burst 100");
    assert_eq!(limits.most(), Some(3));
}

#[test]
fn uses_are_named_weighed_and_told_apart_in_the_environment() {
    let problems = |uses: &[(&str, u32)]| {
        let mut p = Problems(Vec::new());
        let uses = uses.iter().map(|(name, n)| ((*name).to_owned(), *n));
        check_uses(&uses.collect(), &mut p);
        let shown =
            p.0.iter()
                .map(|p| format!("{} {}", p.path, &p.message[..6]));
        shown.collect::<Vec<_>>()
    };
    assert_eq!(problems(&[("mysql-main", 2), ("sms", 1)]), [""; 0]);
    assert_eq!(problems(&[("Mysql", 1)]), ["spec.uses.Mysql SC1001"]);
    assert_eq!(problems(&[("a", 0)]), ["spec.uses.a SC1002"]);
    assert_eq!(
        problems(&[("a-b", 1), ("a.b", 1)]),
        ["spec.uses.a.b SC1065"]
    );
    let many: Vec<String> = (0..17).map(|i| format!("c{i}")).collect();
    let many: Vec<(&str, u32)> = many.iter().map(|name| (name.as_str(), 1)).collect();
    assert_eq!(problems(&many), ["spec.uses SC1064"]);
}

#[test]
fn a_use_that_could_never_be_met_is_told() {
    let limits = |units| Limits {
        units: Some(units),
        rate: None,
    };
    let name = Name::new("x").unwrap();
    assert_eq!(check_use(&name, 40, &limits(40)), None);
    assert_eq!(check_use(&name, 5, &limits(0)), None, "closed for now");
    let problem = check_use(&name, 41, &limits(40)).unwrap();
    assert_eq!(problem.path, "spec.uses.x");
    assert!(
        problem.message.contains("never has more than 40"),
        "{}",
        problem.message
    );
}
