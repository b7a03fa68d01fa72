//! Claims about migrations.

use super::*;

const TWO: &[(u32, &str, &str)] = &[
    (1, "one", "create table a (x integer) strict;"),
    (2, "two", "alter table a add y text;"),
];

fn columns(conn: &Connection) -> Vec<String> {
    let mut s = conn
        .prepare("select name from pragma_table_info('a')")
        .unwrap();
    s.query_map([], |r| r.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

#[test]
fn each_migration_is_applied_once_and_in_order() {
    let mut conn = Connection::open_in_memory().unwrap();
    migrate_to(&mut conn, &TWO[..1]).unwrap();
    assert_eq!(columns(&conn), ["x"]);
    migrate_to(&mut conn, TWO).unwrap();
    migrate_to(&mut conn, TWO).unwrap();
    assert_eq!(columns(&conn), ["x", "y"]);
}

#[test]
fn a_newer_database_is_refused_untouched() {
    let mut conn = Connection::open_in_memory().unwrap();
    migrate_to(&mut conn, TWO).unwrap();
    let refused = migrate_to(&mut conn, &TWO[..1]).unwrap_err();
    assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
    assert_eq!(columns(&conn), ["x", "y"]);
}

#[test]
fn an_edited_migration_is_noticed() {
    let mut conn = Connection::open_in_memory().unwrap();
    migrate_to(&mut conn, &TWO[..1]).unwrap();
    let edited = [(1, "one", "create table a (x integer, z text) strict;")];
    assert!(matches!(
        migrate_to(&mut conn, &edited),
        Err(Error::Corrupt(_))
    ));
}

#[test]
fn a_failed_migration_leaves_nothing() {
    let mut conn = Connection::open_in_memory().unwrap();
    let broken = [TWO[0], (2, "two", "alter table nothing add y text;")];
    assert!(migrate_to(&mut conn, &broken).is_err());
    assert!(columns(&conn).is_empty());
}

#[test]
fn the_present_schema_migrates_from_nothing() {
    let mut conn = Connection::open_in_memory().unwrap();
    migrate(&mut conn).unwrap();
    migrate(&mut conn).unwrap();
}
