//! The schema as it stands, and the plan of every statement.

use std::fmt::Write as _;
use std::sync::Arc;

use rusqlite::Connection;
use sichen_core::port::Error;
use sichen_store::clock::ManualClock;
use sichen_store::sqlite::SqliteStore;
use sichen_store::sqlite::sql::STATEMENTS;

use crate::bench::at;

/// A connection of one's own to a migrated database.
fn migrated() -> (tempfile::TempDir, Connection) {
    let dir = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(dir.path(), Arc::new(ManualClock::new(at(0)))).unwrap());
    let conn = Connection::open(dir.path().join("sichen.db")).unwrap();
    (dir, conn)
}

fn texts(conn: &Connection, query: &str, column: &str) -> Vec<String> {
    let mut statement = conn
        .prepare(query)
        .unwrap_or_else(|e| panic!("{query}\n{e}"));
    // Parameters stay unbound: a plan does not depend on their values.
    let mut rows = statement.raw_query();
    let mut texts = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        texts.push(row.get(column).unwrap());
    }
    texts
}

#[test]
fn the_schema_is_the_one_that_was_agreed() {
    let (_dir, conn) = migrated();
    let query =
        "select sql from sqlite_schema where sql is not null order by tbl_name, type desc, name";
    insta::assert_snapshot!(texts(&conn, query, "sql").join("\n\n"));
}

/// A whole table (or a whole index) is read only where the statement's file says so.
#[test]
fn every_statement_runs_on_an_index() {
    let (_dir, conn) = migrated();
    let mut plans = String::new();
    for (name, text) in STATEMENTS {
        let may_scan: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("-- scans: "))
            .collect();
        let lines = texts(&conn, &format!("explain query plan {text}"), "detail");
        writeln!(plans, "{name}").unwrap();
        for line in &lines {
            writeln!(plans, "    {line}").unwrap();
            let scanned = line
                .strip_prefix("SCAN ")
                .and_then(|rest| rest.split(' ').next());
            let harmless = ["CONSTANT", "json_each"];
            // What the statement itself made is as large as its limit says.
            let is_made = |table: &str| {
                let made = format!("CO-ROUTINE {table}");
                lines.contains(&made)
            };
            let is_fine = |table: &str| harmless.contains(&table) || is_made(table);
            if let Some(table) = scanned.filter(|table| !is_fine(table)) {
                assert!(
                    may_scan.contains(&table),
                    "{name} reads all of {table}: {lines:?}"
                );
            }
        }
    }
    insta::assert_snapshot!(plans);
}

/// A state is chosen by the rules; a statement that could choose one would do it with `case`.
#[test]
fn no_statement_decides() {
    for (name, text) in STATEMENTS {
        let code: String = text.lines().filter(|l| !l.starts_with("--")).collect();
        let words: Vec<String> = code
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .map(str::to_lowercase)
            .collect();
        for word in ["case", "iif", "now", "datetime", "strftime", "random"] {
            assert!(!words.iter().any(|w| w == word), "{name} uses {word}");
        }
        assert!(
            text.starts_with(&format!("-- {name}: ")),
            "{name} says first what it is for"
        );
    }
}

#[test]
fn a_database_of_a_newer_version_is_refused() {
    let (dir, conn) = migrated();
    conn.execute("insert into migration values (999, 'later', 'x')", [])
        .unwrap();
    drop(conn);
    let opened = SqliteStore::open(dir.path(), Arc::new(ManualClock::new(at(0))));
    let Err(Error::Unavailable(reason)) = opened else {
        panic!("{opened:?}")
    };
    assert!(reason.contains("999"), "{reason}");
}

#[test]
fn a_row_without_sense_stops_no_listing_of_a_duty() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(at(0)));
    let store = SqliteStore::open(dir.path(), clock.clone()).unwrap();
    let conn = Connection::open(dir.path().join("sichen.db")).unwrap();
    let bench = crate::bench::Bench::new(Arc::new(store), clock);
    crate::spoilt::check(&bench, &|statement| {
        assert_eq!(conn.execute(statement, []).unwrap(), 1, "{statement}");
    });
}

/// A busy store records more of them in a minute than one transaction forgets.
#[test]
fn operations_are_forgotten_until_none_is_old() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(at(0)));
    let store = SqliteStore::open(dir.path(), clock.clone()).unwrap();
    let conn = Connection::open(dir.path().join("sichen.db")).unwrap();
    let bench = crate::bench::Bench::new(Arc::new(store), clock);
    let janitor = bench.fence(sichen_core::model::DutyKey::Janitor);
    let many = "with recursive c(i) as (select 1 union all select i + 1 from c where i < 10000)
        insert into op (id, at, actor) select randomblob(16), 0, 'x' from c";
    assert_eq!(conn.execute(many, []).unwrap(), 10_000);
    bench.pass(10);
    let remove = || {
        let removed = bench
            .store
            .remove_history(bench.op(), janitor.clone(), bench.now(), 10);
        crate::bench::wait(removed).more
    };
    assert!(remove());
    assert!(!remove());
    let left = conn.query_row("select count(*) from op", [], |row| row.get(0));
    assert_eq!(left, Ok(2), "those that removed the others");
}
