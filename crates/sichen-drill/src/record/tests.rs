//! Claims about `record`.

use super::*;

fn record(conditions: &[(&str, &str)]) -> Record {
    let conditions = conditions
        .iter()
        .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
    Record {
        topic: String::new(),
        claim: String::new(),
        baseline_version: String::new(),
        condition: String::new(),
        conditions: conditions.collect(),
        execution: Execution {
            command: String::new(),
            began: String::new(),
            took_ms: 0,
            cluster: String::new(),
            faults: Vec::new(),
        },
        evidence: BTreeMap::new(),
        pass_when: Vec::new(),
        stop_when: Vec::new(),
        observed_result: Observed {
            verdict: Outcome::Passed,
            stopped: None,
            unfinished: None,
            findings: Vec::new(),
            checksum_before: String::new(),
            checksum_after: String::new(),
            checksum_expected: String::new(),
            measures: Measures::default(),
        },
        first_deviation: None,
        recovery_replay: String::new(),
        owner: String::new(),
        rollback: String::new(),
        not_covered: Vec::new(),
    }
}

#[test]
fn records_that_differ_in_one_condition_are_compared_and_others_are_not() {
    let check = |b: &[(&str, &str)], expect: Result<Option<&str>, &[&str]>| {
        let a = record(&[("seed", "1"), ("variant", "normal")]);
        match (compare(&a, &record(b)), expect) {
            (Ok(found), Ok(expect)) => {
                assert_eq!(found.differs.map(|d| d.0).as_deref(), expect)
            }
            (Err(error), Err(parts)) => {
                for part in parts {
                    assert!(error.to_string().contains(part), "{error}");
                }
            }
            (found, _) => panic!("{found:?}"),
        }
    };
    check(&[("seed", "1"), ("variant", "normal")], Ok(None));
    check(
        &[("seed", "1"), ("variant", "failure")],
        Ok(Some("variant")),
    );
    check(
        &[("seed", "2"), ("variant", "failure")],
        Err(&["seed: 1 and 2", "variant"]),
    );
    // What only one of them has is a difference too.
    check(
        &[
            ("seed", "1"),
            ("variant", "normal"),
            ("mistake", "no-fence"),
        ],
        Ok(Some("mistake")),
    );
}

#[test]
fn a_record_is_read_again_as_it_was_written() {
    let written = record(&[("seed", "1")]);
    let text = serde_saphyr::to_string(&written).unwrap();
    let read: Record = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(read, written);
}
