//! Brings a database to the present schema: forward only, each migration once and whole.
//!
//! # Invariants
//! - All of it happens in one transaction, one process at a time; a failed migration leaves nothing.
//! - A migration that was applied is never edited (its checksum is kept with it).
//! - A database of a newer version is refused untouched.
//!
//! # Not here
//! The schema itself (`sql/postgres/migrations`).

use sichen_core::port::Error;

use super::fault::{Result, fault};
use super::link::Link;
use super::param::Params;
use super::sql::MIGRATIONS;

/// The advisory lock of whoever migrates: "sichen" in ASCII.
const LOCK: i64 = 0x7369_6368_656e;

const APPLIED: &str = "select no, name, checksum from migration order by no";
const APPLY: &str = "insert into migration values ($1, $2, $3)";

/// Applies what is missing.
pub(super) async fn migrate(link: Link) -> Result<()> {
    let done = migrate_to(&link, MIGRATIONS).await;
    if done.is_err() {
        // Whatever is open on it ends with it.
        link.close();
    }
    done
}

/// Whether a database that is only read has the present schema.
///
/// # Errors
/// [`Error::Unavailable`] if it has none, or that of another version.
pub(super) async fn check(link: &Link) -> Result<()> {
    let fault = |e: tokio_postgres::Error| fault(&e).0;
    let there = "select to_regclass('migration') is not null";
    let rows = link.query(there, &[]).await.map_err(fault)?;
    if !rows.first().is_some_and(|row| row.get::<_, bool>(0)) {
        return Err(Error::Unavailable(
            "there is no store in this database (and schema)".into(),
        ));
    }
    let rows = link.query(APPLIED, &[]).await.map_err(fault)?;
    let applied = rows.last().map_or(0, |row| i64::from(row.get::<_, i32>(0)));
    let newest = MIGRATIONS.last().map_or(0, |(no, ..)| i64::from(*no));
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

async fn migrate_to(link: &Link, known: &[(u32, &str, &str)]) -> Result<()> {
    let fault = |e: tokio_postgres::Error| fault(&e).0;
    // Another process may be at it, for longer than a statement usually takes.
    let begin = format!(
        "begin read write; set local statement_timeout = 0; set local lock_timeout = 0; \
         select pg_advisory_xact_lock({LOCK}); \
         create table if not exists migration \
           (no integer primary key, name text not null, checksum text not null)"
    );
    link.batch(&begin).await.map_err(fault)?;
    let rows = link.query(APPLIED, &[]).await.map_err(fault)?;
    let applied: Vec<(i64, String, String)> = rows
        .iter()
        .map(|row| (i64::from(row.get::<_, i32>(0)), row.get(1), row.get(2)))
        .collect();
    let newest = known.last().map_or(0, |(no, ..)| i64::from(*no));
    if let Some((no, name, _)) = applied.last().filter(|(no, ..)| *no > newest) {
        return Err(Error::Unavailable(format!(
            "the database has migration {no} ({name}), this version knows only up to {newest}; \
             start the newer version"
        )));
    }
    for (no, name, text) in known {
        let sum = checksum(text);
        match applied.iter().find(|(n, ..)| *n == i64::from(*no)) {
            Some((_, _, applied)) if *applied == sum => {}
            Some(_) => {
                return Err(Error::Corrupt(format!(
                    "migration {no} ({name}) was applied with another text than this version's"
                )));
            }
            None => {
                link.batch(text).await.map_err(fault)?;
                let params = (*no, *name, sum).list();
                link.query(APPLY, &params).await.map_err(fault)?;
            }
        }
    }
    link.batch("commit").await.map_err(fault)
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
