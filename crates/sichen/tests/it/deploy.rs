//! Claims about `deploy/`: what stands there fits the program, and holds back what it says.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::command;

const UNITS: [&str; 2] = ["server", "worker"];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(name)
}

fn unit(name: &str) -> String {
    let path = file(&format!("systemd/sichen-{name}.service"));
    std::fs::read_to_string(path).unwrap()
}

/// The values of `key` in a unit.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let lines = unit.lines().filter_map(|line| line.strip_prefix(key));
    lines.filter_map(|rest| rest.strip_prefix('=')).collect()
}

/// A unit that starts this program, where systemd's own reader looks for it.
fn installed(at: &Path, name: &str) -> PathBuf {
    let path = at.join(format!("sichen-{name}.service"));
    let program = env!("CARGO_BIN_EXE_sichen");
    let unit = unit(name).replace("/usr/local/bin/sichen", program);
    std::fs::write(&path, unit).unwrap();
    path
}

#[test]
fn the_configurations_are_ones_that_the_program_takes() {
    for words in [
        ["check", "server.yaml", ""],
        ["check", "worker.yaml", "--worker"],
    ] {
        let [check, name, worker] = words;
        let path = file(name);
        let mut words = vec!["config", check, path.to_str().unwrap()];
        words.extend(Some(worker).filter(|w| !w.is_empty()));
        let output = command(&words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}");
    }
}

#[test]
fn the_units_start_the_program_by_words_that_it_knows() {
    for name in UNITS {
        let unit = unit(name);
        let [line] = values(&unit, "ExecStart")[..] else {
            panic!("{name}: one ExecStart")
        };
        let mut words: Vec<&str> = line.split(' ').skip(1).collect();
        assert_eq!(words[0], name, "{line}");
        words.push("--help");
        let output = command(&words).output().unwrap();
        assert!(output.status.success(), "{line}");
    }
}

#[test]
fn a_unit_gives_its_process_more_time_than_it_takes_to_drain() {
    let unit = unit("worker");
    let most: u64 = values(&unit, "TimeoutStopSec")[0].parse().unwrap();
    let text = std::fs::read_to_string(file("worker.yaml")).unwrap();
    let drain = text
        .lines()
        .find_map(|l| l.strip_prefix("drain_grace_ms: "));
    let drain: u64 = drain.unwrap().parse().unwrap();
    assert!(most * 1_000 > drain, "{most} s, {drain} ms");
    assert_eq!(
        values(&unit, "KillMode"),
        ["mixed"],
        "TERM to the worker alone"
    );
    assert_eq!(values(&unit, "Delegate"), ["yes"], "cgroups of its own");
}

/// Where systemd is not there, its words can't be judged: then this machine says so, and CI, which has
/// it, does not pass.
#[test]
fn systemd_takes_the_units_and_finds_the_server_well_shut_in() {
    let there = Command::new("systemd-analyze").arg("--version").output();
    if there.is_err() {
        assert!(
            std::env::var_os("CI").is_none(),
            "systemd-analyze is missing"
        );
        println!("NOT RUN: systemd-analyze is not here; the units were not judged");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, exposure) in UNITS.into_iter().zip(["20", "60"]) {
        let unit = installed(dir.path(), name);
        let verify = ["verify", "--man=no"];
        let security = ["security", "--offline=true", "--threshold", exposure];
        for words in [&verify[..], &security[..]] {
            let output = Command::new("systemd-analyze")
                .args(words)
                .arg(&unit)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name}: {words:?}: {said}");
            assert!(!said.contains("Unknown"), "{name}: {said}");
        }
    }
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().to_str().unwrap();
    assert!(command(&["man", at]).output().unwrap().status.success());
    let page = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(
        page("sichen.1").contains("sichen\\-server(1)"),
        "{}",
        page("sichen.1")
    );
    assert!(page("sichen-backfill-start.1").contains("\\-\\-from"));
    let nowhere = command(&["man", &format!("{at}/none")]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(2));
}
