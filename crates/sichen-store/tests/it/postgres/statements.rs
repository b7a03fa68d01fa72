//! Every statement: that the server takes it, with which types, and that it reads no whole table.
//!
//! # Not here
//! How much each touches, and on which index ([`super::plans`]).

use std::fmt::Write as _;

use sichen_store::postgres::sql::STATEMENTS;

use super::Server;
use super::server::runtime;

#[test]
fn every_file_is_a_statement() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/postgres");
    let mut files = Vec::new();
    for (dir, prefix) in [(dir.clone(), ""), (dir.join("locks"), "locks/")] {
        for entry in std::fs::read_dir(dir).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if let Some(name) = name.strip_suffix(".sql") {
                files.push(format!("{prefix}{name}"));
            }
        }
    }
    let mut named: Vec<_> = STATEMENTS.iter().map(|(name, _)| *name).collect();
    files.sort_unstable();
    named.sort_unstable();
    assert_eq!(files, named);
}

#[test]
fn every_statement_is_taken_with_the_types_that_were_agreed() {
    let Some(server) = Server::start() else {
        return;
    };
    let schema = server.new_schema();
    drop(server.open(&schema, None));
    let client = server.connect(&schema);
    let mut types = String::new();
    for (name, text) in STATEMENTS {
        let prepared = runtime().block_on(client.prepare(text));
        let prepared = prepared.unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let takes: Vec<&str> = prepared.params().iter().map(|t| t.name()).collect();
        let gives = prepared.columns().iter();
        let gives: Vec<String> = gives
            .map(|c| format!("{} {}", c.name(), c.type_()))
            .collect();
        writeln!(types, "{name} ({}): {}", takes.join(", "), gives.join(", ")).unwrap();
    }
    insta::assert_snapshot!(types);
}

/// A statement that reads the clock itself believes no step that the program would not believe.
#[test]
fn the_clock_of_statements_holds_time_as_the_program_does() {
    let Some(server) = Server::start() else {
        return;
    };
    let schema = server.new_schema();
    drop(server.open(&schema, None));
    let client = server.connect(&schema);
    let set = |mark: i64, held: bool| {
        let update = format!("update meta set clock_mark = {mark}, clock_held = {held}");
        runtime().block_on(client.batch_execute(&update)).unwrap();
    };
    let told = |wall: i64, steady: &str| -> i64 {
        let query = format!("select sichen_now(array[{wall}, {steady}, 30]::bigint[])");
        let row = runtime().block_on(client.query_one(&query, &[])).unwrap();
        row.get(0)
    };
    set(100, false);
    assert_eq!(told(130, "100"), 130, "a small step is believed");
    assert_eq!(told(131, "100"), 100, "a large one is held");
    assert_eq!(
        told(131, "110"),
        131,
        "so much has passed by the other clock"
    );
    assert_eq!(told(50, "60"), 100, "it never goes behind what was used");
    assert_eq!(told(500, "null"), 500, "who has just started believes it");
    set(100, true);
    assert_eq!(told(500, "null"), 100, "but not while it is held");
    set(490, false);
    assert_eq!(told(500, "100"), 500, "what others use is believed");
}

/// With the settings of the store's connections, a whole table is read only where the statement's
/// file says so.
#[test]
fn every_statement_runs_on_an_index() {
    let Some(server) = Server::start() else {
        return;
    };
    let schema = server.new_schema();
    drop(server.open(&schema, None));
    let client = server.connect(&schema);
    let settings = "set plan_cache_mode = force_generic_plan; set jit = off; \
                    set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off";
    runtime().block_on(client.batch_execute(settings)).unwrap();
    for (name, text) in STATEMENTS {
        let may_scan: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("-- scans: "))
            .collect();
        let plan = runtime().block_on(async {
            let parameters = client.prepare(text).await.unwrap().params().len();
            let nulls = vec!["null"; parameters].join(", ");
            let called = if nulls.is_empty() {
                String::new()
            } else {
                format!("({nulls})")
            };
            client
                .batch_execute(&format!("prepare explained as {text}"))
                .await
                .unwrap();
            let rows = client
                .query(&format!("explain execute explained{called}"), &[])
                .await
                .unwrap_or_else(|e| panic!("{name}: {e:?}"));
            client.batch_execute("deallocate explained").await.unwrap();
            rows.iter()
                .map(|row| row.get::<_, String>(0))
                .collect::<Vec<_>>()
        });
        for line in &plan {
            let line = line.trim_start().trim_start_matches("-> ").trim_start();
            let Some(rest) = line.strip_prefix("Seq Scan on ") else {
                continue;
            };
            let table = rest.split(' ').next().unwrap();
            assert!(
                may_scan.contains(&table),
                "{name} reads all of {table}:\n{}",
                plan.join("\n")
            );
        }
    }
}
