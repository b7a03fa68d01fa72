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

/// The number of the newest migration that was applied.
pub(super) fn newest(conn: &Connection) -> Result<u32, Error> {
    let sql = "select coalesce(max(no), 0) from migration";
    conn.query_row(sql, [], |row| row.get(0)).map_err(fault)
}

/// Whether a database that is only read has the present schema.
///
/// # Errors
/// [`Error::Unavailable`] if it is of another version.
pub(super) fn check(conn: &Connection) -> Result<(), Error> {
    let applied = newest(conn)?;
    let newest = MIGRATIONS.last().map_or(0, |(no, ..)| *no);
    if applied == newest {
        return Ok(());
    }
    let what = if applied > newest {
        "use that newer version"
    } else {
        "let this version's server open it once, which brings it up to date"
    };
    Err(Error::Unavailable(format!(
        "the database has migration {applied}, this version reads {newest}; {what}"
    )))
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
mod tests;
