//! What is found, left out and told of the programs that tests need.

#![allow(
    clippy::unwrap_used,
    reason = "a step that can't fail; where one does, the panic says which"
)]

use std::path::Path;
use std::process::{Command, Output};

use super::{OLDEST_POSTGRES, POSTGRES_BIN, Service, WITHOUT, newest_postgres, postgres_programs};

/// Says where the programs are; run in a process of its own, whose variables are its own.
#[test]
#[ignore = "started by the tests below"]
fn a_test_that_needs_postgres() {
    println!("found {:?}", postgres_programs());
}

/// What becomes of a test that needs PostgreSQL, with these variables.
fn with(variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = "programs::tests::a_test_that_needs_postgres";
    command.args(["--exact", name, "--ignored", "--nocapture"]);
    for name in ["CI", WITHOUT, POSTGRES_BIN] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let said = [stdout, stderr].concat();
    (
        status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

#[test]
fn what_is_left_out_by_name_is_said_and_fails_in_ci() {
    let (ok, said) = with(&[(WITHOUT, "mariadb,postgres")]);
    assert!(ok && said.contains("found None"), "{said}");
    assert!(
        said.contains("NOT TESTED: SICHEN_TEST_WITHOUT names postgres"),
        "{said}"
    );
    let (ok, said) = with(&[(WITHOUT, "postgres"), ("CI", "true")]);
    assert!(!ok && said.contains("although CI is set"), "{said}");
    // Another one's name leaves nothing out.
    let named = [
        (WITHOUT, "mariadb"),
        ("CI", "true"),
        (POSTGRES_BIN, "/opt/pg/bin"),
    ];
    let (ok, said) = with(&named);
    assert!(ok && said.contains("found Some(\"/opt/pg/bin\")"), "{said}");
}

#[test]
fn the_newest_whole_server_is_found_and_none_is_not_made_up() {
    let dir = tempfile::tempdir().unwrap();
    let there = |version: &str, programs: &[&str]| {
        let bin = dir.path().join(version).join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        for program in programs {
            std::fs::write(bin.join(program), "").unwrap();
        }
        bin
    };
    let found = || newest_postgres(&[dir.path(), Path::new("/no/such")]);
    there(&(OLDEST_POSTGRES - 1).to_string(), &["postgres", "initdb"]);
    there("99", &["psql"]);
    assert_eq!(found(), None, "too old, or the client alone");
    there("15", &["postgres", "initdb"]);
    let newest = there("pgsql-17", &["postgres", "initdb"]);
    assert_eq!(found(), Some(newest));
}

#[test]
fn what_is_missing_is_told_with_what_to_install() {
    for service in Service::ALL {
        let told = service.missing();
        let debian = service.debian_packages();
        let all = |packages: &&[&str]| packages.iter().all(|package| told.contains(package));
        assert!(debian.iter().any(all), "{told}");
        for system in ["Debian", "Ubuntu", "Fedora", "macOS"] {
            assert!(told.contains(system), "{told}");
        }
        let without = format!("cargo xtask test --without {}", service.name());
        assert!(told.ends_with(&without), "{told}");
    }
}
