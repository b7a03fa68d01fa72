//! Brings a database to the present schema: forward only, each migration once and whole.
//!
//! # Invariants
//! - All of it happens in one exclusive transaction; a failed migration leaves nothing.
//! - A migration that was applied is never edited (its checksum is kept with it).
//! - A database of a newer version is refused untouched.
//!
//! # Not here
//! The schema itself (`sql/sqlite/migrations`).

use rusqlite::{Connection, TransactionBehavior};
use sichen_core::port::Error;

use super::sql::MIGRATIONS;
use super::tx::fault;

/// Applies what is missing.
pub(super) fn migrate(conn: &mut Connection) -> Result<(), Error> {
    migrate_to(conn, MIGRATIONS)
}

fn migrate_to(conn: &mut Connection, known: &[(u32, &str, &str)]) -> Result<(), Error> {
    let tx = conn
        .transaction_with_behavior(TransactionBehavior::Exclusive)
        .map_err(fault)?;
    tx.execute_batch(
        "create table if not exists migration
           (no integer primary key, name text not null, checksum text not null) strict;",
    )
    .map_err(fault)?;
    let applied: Vec<(u32, String, String)> = tx
        .prepare("select no, name, checksum from migration order by no")
        .and_then(|mut s| {
            s.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?
                .collect()
        })
        .map_err(fault)?;
    let newest = known.last().map_or(0, |(no, ..)| *no);
    if let Some((no, name, _)) = applied.last().filter(|(no, ..)| *no > newest) {
        return Err(Error::Unavailable(format!(
            "the database has migration {no} ({name}), this version knows only up to {newest}; \
             start the newer version"
        )));
    }
    for (no, name, text) in known {
        let sum = checksum(text);
        match applied.iter().find(|(n, ..)| n == no) {
            Some((_, _, applied)) if *applied == sum => {}
            Some(_) => {
                return Err(Error::Corrupt(format!(
                    "migration {no} ({name}) was applied with another text than this version's"
                )));
            }
            None => {
                tx.execute_batch(text).map_err(fault)?;
                tx.execute("insert into migration values (?1, ?2, ?3)", (no, name, sum))
                    .map_err(fault)?;
            }
        }
    }
    tx.commit().map_err(fault)
}

/// FNV-1a of the text without its line ends' kind: enough to notice an edit.
fn checksum(text: &str) -> String {
    let hash = text
        .bytes()
        .filter(|b| *b != b'\r')
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
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
}
