//! Claims about soaks of drills, on a program that does as it is told.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A program whose drills end with the code in their name, after a fault each; `absent` can't be had.
const PROGRAM: &str = r#"#!/bin/sh
if [ "$2" = list ]; then
    echo '[{"name":"ends-0"},{"name":"ends-1"},{"name":"ends-2"},{"name":"absent","cannot":"no root"}]'
    exit 0
fi
# drill run NAME --seed N --evidence DIR
dir=$7
[ -z "$(ls -A "$dir" 2>/dev/null)" ] || exit 2
mkdir -p "$dir"
echo '{"act":{"do":"kill","who":"server"},"hit":true}' >> "$dir/faults.jsonl"
echo '{"act":{"do":"step-clock"},"hit":false}' >> "$dir/faults.jsonl"
exit "${3#ends-}"
"#;

struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("sichen");
        std::fs::write(&program, PROGRAM).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir }
    }

    fn soak(&self, only: &[&str]) -> (Sums, PathBuf) {
        let options = Options {
            minutes: 0,
            seed: 1,
            threads: 1,
            program: None,
            summary: None,
        };
        let which = Which {
            only: only.iter().map(|name| (*name).to_owned()).collect(),
            ..which()
        };
        let (program, at) = (
            self.dir.path().join("sichen"),
            self.dir.path().join("chaos.json"),
        );
        let (sums, folder, _) = soak(&options, &which, &program, &at).unwrap();
        (sums, folder)
    }
}

fn which() -> Which {
    Which {
        only: Vec::new(),
        once: true,
        at_once: 1,
        none_missing: false,
        at_least: 0,
        must_hit: Vec::new(),
    }
}

#[test]
fn a_failed_drill_keeps_its_evidence_and_the_next_soak_has_its_own() {
    let bench = Bench::new();
    let (first, folder) = bench.soak(&["ends-1"]);
    assert_eq!(first.violations.len(), 1);
    let kept = folder.join("ends-1-1/faults.jsonl");
    let was = std::fs::read(&kept).unwrap();
    let (second, other) = bench.soak(&["ends-1"]);
    assert_ne!(folder, other);
    assert_eq!(
        second.violations.len(),
        1,
        "the drill was carried out again"
    );
    assert_eq!(second.hits, BTreeMap::from([(Class::Kill, 1)]));
    assert_eq!(std::fs::read(&kept).unwrap(), was);
    assert!(other.join("ends-1-1/faults.jsonl").is_file());
    let (passed, third) = bench.soak(&["ends-0"]);
    assert!(passed.violations.is_empty() && !third.exists());
    assert!(kept.is_file());
}

#[test]
fn what_is_refused_after_its_begin_is_a_failure_and_what_cannot_begin_is_not_run() {
    let bench = Bench::new();
    let (sums, folder) = bench.soak(&["ends-2", "absent"]);
    assert_eq!(sums.violations[0]["ended"], "failed");
    assert!(folder.join("ends-2-1").is_dir());
    let not_run: Vec<_> = sums.not_run.iter().collect();
    assert_eq!(not_run, [(&"absent".to_owned(), &"no root".to_owned())]);
    assert!(!sums.ended.contains_key("absent"));
}

#[test]
fn too_little_and_what_is_missing_fail_where_that_is_asked() {
    let sums = |secs: u64, not_run: &[&str], hits: &[Class]| Sums {
        took_ms: secs * 1_000,
        not_run: not_run
            .iter()
            .map(|n| ((*n).to_owned(), String::new()))
            .collect(),
        hit: hits.len() as u64,
        hits: hits.iter().map(|class| (*class, 1)).collect(),
        ..Sums::default()
    };
    let wants = |none_missing, at_least, must_hit: &[Class]| Which {
        none_missing,
        at_least,
        must_hit: must_hit.to_vec(),
        ..which()
    };
    let (kill, missing) = ([Class::Kill], ["one-way-cut"]);
    assert!(
        wants(true, 90, &kill)
            .are_enough(&sums(90, &[], &kill))
            .is_ok()
    );
    assert!(
        wants(true, 90, &[])
            .are_enough(&sums(89, &[], &kill))
            .is_err()
    );
    assert!(wants(false, 0, &[]).are_enough(&sums(0, &[], &[])).is_err());
    assert!(
        wants(false, 0, &kill)
            .are_enough(&sums(0, &missing, &kill))
            .is_ok()
    );
    let said = wants(true, 0, &[]).are_enough(&sums(90, &missing, &kill));
    assert!(said.unwrap_err().to_string().contains("one-way-cut"));
    let both = [Class::Kill, Class::CutOneWay];
    let said = wants(true, 0, &both).are_enough(&sums(90, &[], &kill));
    assert!(said.unwrap_err().to_string().contains("cut-one-way"));
    // Where the drill that hits it can't be carried out, and that may be, it is told.
    assert!(
        wants(false, 0, &both)
            .are_enough(&sums(90, &missing, &kill))
            .is_ok()
    );
}

#[test]
fn every_class_of_faults_is_that_of_some_act() {
    let acts = [
        "kill",
        "freeze",
        "unplug",
        "cut-one-way",
        "lose-answers",
        "fill-journal",
        "crash-database",
        "step-clock",
    ];
    let classes: std::collections::BTreeSet<_> = acts.into_iter().map(Class::of).collect();
    let all = <Class as clap::ValueEnum>::value_variants();
    assert_eq!(classes, all.iter().copied().map(Some).collect());
    assert_eq!(Class::of("nothing"), None);
}
