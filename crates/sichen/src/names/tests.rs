//! Claims about names on the command line.

use super::*;

fn check_near(wanted: &str, known: &[&str], expect: &[&str]) {
    let known: Vec<String> = known.iter().map(|n| (*n).to_owned()).collect();
    assert_eq!(near(wanted, &known), expect, "{wanted}");
}

#[test]
fn near_names_are_listed_the_nearest_first() {
    let known = ["daily-report", "daily-settlement", "hourly", "team/daily"];
    check_near("daily-setlement", &known, &["daily-settlement"]);
    check_near(
        "daily",
        &known,
        &["team/daily", "daily-report", "daily-settlement"],
    );
    check_near("zzz", &known, &[]);
    check_near("x", &known, &[]);
}

#[test]
fn a_name_without_namespace_is_in_default() {
    assert_eq!(
        job("nightly").unwrap(),
        JobName::new("default", "nightly").unwrap()
    );
    assert_eq!(
        job("team/nightly").unwrap(),
        JobName::new("team", "nightly").unwrap()
    );
    for bad in ["", "a/b/c", "Nightly", "/x", "x/"] {
        assert_eq!(
            job(bad).unwrap_err().exit,
            crate::failure::Exit::Usage,
            "{bad:?}"
        );
    }
}
