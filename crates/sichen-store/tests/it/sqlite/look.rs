//! A directory that is only looked at.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;

use sichen_core::port::Error;
use sichen_store::clock::ManualClock;
use sichen_store::sqlite::SqliteStore;

use crate::bench::{Bench, at};

fn open(dir: &Path) -> Bench {
    let clock = Arc::new(ManualClock::new(at(0)));
    let store = SqliteStore::open(dir, Arc::clone(&clock) as _).expect("it opens");
    Bench::new(Arc::new(store), clock)
}

/// The files of a directory, with their length and the hash of their content.
fn files(dir: &Path) -> BTreeMap<String, (usize, u64)> {
    let entries = std::fs::read_dir(dir).unwrap().flatten();
    let file = |e: std::fs::DirEntry| {
        let name = e.file_name().into_string().unwrap();
        let content = std::fs::read(e.path()).unwrap();
        let mut hash = DefaultHasher::new();
        content.hash(&mut hash);
        (name, (content.len(), hash.finish()))
    };
    entries.map(file).collect()
}

#[test]
fn a_look_sees_what_a_killed_server_left_in_its_log_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let b = open(dir.path());
    b.run_of(3);
    // As a killed server leaves it: the log not yet in the database, and no index of the log.
    let left = tempfile::tempdir().unwrap();
    for name in ["sichen.db", "sichen.db-wal", "lock"] {
        std::fs::copy(dir.path().join(name), left.path().join(name)).unwrap();
    }
    let before = files(left.path());
    assert!(before["sichen.db-wal"].0 > 1_000, "the log is in use");
    let dump = SqliteStore::look(left.path(), &ManualClock::new(at(0))).expect("it can be read");
    assert_eq!(dump, b.dump());
    assert_eq!(files(left.path()), before);
    // And a server can go on from there.
    assert_eq!(open(left.path()).dump().events, dump.events);
}

#[test]
fn a_look_into_a_directory_that_was_closed_in_order_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let expected = {
        let b = open(dir.path());
        b.run_of(2);
        b.dump()
    };
    let before = files(dir.path());
    let dump = SqliteStore::look(dir.path(), &ManualClock::new(at(0))).expect("it can be read");
    assert_eq!(dump, expected);
    assert_eq!(files(dir.path()), before);
}

#[test]
fn a_look_never_migrates() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let database = rusqlite::Connection::open(dir.path().join("sichen.db")).unwrap();
    let older = "delete from migration where no = (select max(no) from migration)";
    database.execute_batch(older).unwrap();
    drop(database);
    let before = files(dir.path());
    let refused = SqliteStore::look(dir.path(), &ManualClock::new(at(0)));
    let Err(Error::Unavailable(why)) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("brings it up to date"), "{why}");
    assert_eq!(files(dir.path()), before);
}

#[test]
fn a_directory_that_a_server_has_is_not_looked_into() {
    let dir = tempfile::tempdir().unwrap();
    let server = open(dir.path());
    let refused = SqliteStore::look(dir.path(), &ManualClock::new(at(0)));
    let Err(Error::Unavailable(why)) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("a server is running"), "{why}");
    drop(server);
    let empty = tempfile::tempdir().unwrap();
    let refused = SqliteStore::look(empty.path(), &ManualClock::new(at(0)));
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(files(empty.path()).len(), 0);
}
