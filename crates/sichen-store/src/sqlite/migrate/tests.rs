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

/// A log of the version before, with what each kind of row has: all of it is there afterwards, in its order, and
/// an event of a user is taken, which was refused before.
#[test]
fn the_log_of_a_filled_database_is_kept_when_it_learns_of_users() {
    let mut conn = Connection::open_in_memory().unwrap();
    let before: Vec<_> = MIGRATIONS.iter().copied().filter(|m| m.0 < 29).collect();
    migrate_to(&mut conn, &before).unwrap();
    let insert = |conn: &Connection, seq: i64, entity: &str, run: Option<i64>| {
        conn.execute(
            "insert into event (seq, entity, entity_id, run_id, ver, at, op, actor, duty, term, kind, from_state, \
             to_state, attempt, token, cause, data) values (?1, ?2, ?3, ?4, ?5, 7, zeroblob(16), 'a', 'd', 3, 'k', \
             'f', 't', 1, 2, 'c', '{\"x\":1}')",
            (seq, entity, format!("id {seq}"), run, seq % 2),
        )
    };
    for (i, entity) in ["job", "run", "shard", "session", "namespace", "capacity"]
        .iter()
        .enumerate()
    {
        let run = matches!(*entity, "run" | "shard").then_some(9);
        insert(&conn, i64::try_from(i).unwrap() + 5, entity, run).unwrap();
    }
    assert!(
        insert(&conn, 50, "user", None).is_err(),
        "nobody knows of users"
    );
    let rows = |conn: &Connection| -> Vec<String> {
        let mut all = conn.prepare("select * from event order by seq").unwrap();
        let width = all.column_count();
        let all = all.query_map([], |row| {
            let cells = (0..width).map(|i| row.get::<_, rusqlite::types::Value>(i));
            Ok(format!("{:?}", cells.collect::<Result<Vec<_>, _>>()?))
        });
        all.unwrap().map(Result::unwrap).collect()
    };
    let kept = rows(&conn);
    migrate(&mut conn).unwrap();
    assert_eq!(rows(&conn), kept);
    insert(&conn, 50, "user", None).unwrap();
    assert!(
        insert(&conn, 51, "nobody", None).is_err(),
        "and of nothing else"
    );
    let run = Some(9);
    assert!(
        insert(&conn, 52, "user", run).is_err(),
        "no run is a user's"
    );
    let check: String = conn
        .query_row("pragma integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
}
