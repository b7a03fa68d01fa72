//! The fence kit: fencing token and checkpoint kept beside the user's own data.
//!
//! Sichen refuses a report with an old token by itself. It cannot refuse a write that goes to the
//! user's database; only that database can, inside the very transaction that writes. The kit is a
//! small table and a few statements for SQLite, PostgreSQL and MySQL ([`sql`] prints them) and thin
//! helpers over them ([`sqlite`], `postgres`, `mysql`).
//!
//! # Invariants
//! - `open` begins every attempt: one transaction raises the stored token and returns the stored
//!   checkpoint. Until the newer token has been opened the old holder may still commit, and what it
//!   commits is in the checkpoint that `open` then returns: nothing is done twice.
//! - `save` passes only with the very token that was opened last, so a write of a former holder
//!   fails with the database's own error and its transaction changes nothing.
//! - A stored token and a stored checkpoint never go down; a stored upper bound never rises.
//!
//! # Not here
//! Granting tokens (the server), carrying them to a handler (the worker session), and any
//! connection: the caller brings its own.

#![cfg_attr(
    not(any(feature = "sqlite", feature = "postgres", feature = "mysql")),
    allow(dead_code, reason = "without any dialect there is nothing to check")
)]

mod ask;
mod claim;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use ask::{Error as AskError, check_url};
pub use claim::{Claim, ClaimSql};

/// Longest fence key, in bytes.
pub const MAX_KEY_BYTES: usize = 512;

/// The database languages that the kit speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
    Mysql,
}

impl Dialect {
    /// The dialect of a database URL, judged by its scheme; a bare path is SQLite.
    pub fn of_url(url: &str) -> Option<Dialect> {
        match url.split_once("://").map(|(scheme, _)| scheme) {
            Some("postgres" | "postgresql") => Some(Dialect::Postgres),
            Some("mysql" | "mariadb") => Some(Dialect::Mysql),
            Some("sqlite" | "file") => Some(Dialect::Sqlite),
            Some(_) => None,
            None if url.starts_with("sqlite:") || url.starts_with("file:") => Some(Dialect::Sqlite),
            None => Some(Dialect::Sqlite),
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dialect::Sqlite => "sqlite",
            Dialect::Postgres => "postgres",
            Dialect::Mysql => "mysql",
        })
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sqlite" => Ok(Dialect::Sqlite),
            "postgres" | "postgresql" => Ok(Dialect::Postgres),
            "mysql" | "mariadb" => Ok(Dialect::Mysql),
            other => Err(format!(
                "unknown dialect {other:?}: use sqlite, postgres or mysql"
            )),
        }
    }
}

/// The tables, triggers and functions of the kit, with the statements to call in the comments.
///
/// Running the text twice changes nothing. The MySQL text is for the command-line client (it uses
/// `DELIMITER`); [`statements`] cuts it for a driver.
pub fn sql(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => include_str!("sql/sqlite.sql"),
        Dialect::Postgres => include_str!("sql/postgres.sql"),
        Dialect::Mysql => include_str!("sql/mysql.sql"),
    }
}

/// [`sql`] as a list to send one by one over a driver that takes one statement a call.
///
/// SQLite and PostgreSQL take the whole text in one call, so there it is a list of one.
pub fn statements(dialect: Dialect) -> Vec<String> {
    let text = sql(dialect);
    if dialect != Dialect::Mysql {
        return vec![text.to_owned()];
    }
    let mut delimiter = ";";
    let mut out = Vec::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(next) = line.strip_prefix("DELIMITER ") {
            delimiter = next.trim();
            continue;
        }
        if line.trim_start().starts_with("--") || line.trim().is_empty() {
            continue;
        }
        match line.trim_end().strip_suffix(delimiter) {
            Some(last) => {
                current.push_str(last);
                out.push(std::mem::take(&mut current));
            }
            None => {
                current.push_str(line);
                current.push('\n');
            }
        }
    }
    out
}

/// The fence key of one shard: `job uid / planned instant or manual key / rerun / shard number`.
///
/// It is the same for every attempt of the shard and never random, which is what lets a later
/// attempt find the checkpoint. The grant brings it ready-made; build it by hand only outside of
/// a handler.
pub fn key(job_uid: &str, planned_or_manual: &str, rerun: u32, shard: u32) -> String {
    format!("{job_uid}/{planned_or_manual}/{rerun}/{shard}")
}

/// What the user's database holds for a shard at the moment an attempt opens its fence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Position up to which the shard is reliably complete; `None` when nothing was saved yet.
    /// Start here and nowhere else: the copy that the grant shows may be older.
    pub checkpoint: Option<i64>,
    /// The text saved with that checkpoint, for cursors that are no integers.
    pub payload: Option<String>,
    /// Last position of the shard, as fixed by the first `open` or lowered by a later one.
    pub upper_bound: Option<i64>,
}

/// Why the user's database refused: ordinary life of a worker that was replaced, or a mistake in
/// the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A newer holder has opened the fence. Stop the attempt; report nothing more.
    Stale,
    /// `save` without `open` under this token.
    NotOpened,
    /// The checkpoint is not higher than the stored one: that work is done. After a commit whose
    /// answer was lost this says that it was committed.
    NotForward,
    /// The checkpoint is higher than the stored upper bound.
    BeyondBound,
    /// An upper bound higher than the stored one was written past the kit.
    BoundRaised,
}

impl Reason {
    /// Reads a refusal from the text of the database's error; `None` for every other error.
    pub fn of_message(message: &str) -> Option<Reason> {
        let (_, text) = message.split_once("sichen: ")?;
        [
            ("stale fencing token", Reason::Stale),
            ("fence not opened", Reason::NotOpened),
            ("checkpoint does not move forward", Reason::NotForward),
            ("checkpoint would move back", Reason::NotForward),
            ("checkpoint is beyond", Reason::BeyondBound),
            ("upper bound would rise", Reason::BoundRaised),
        ]
        .into_iter()
        .find_map(|(start, reason)| text.starts_with(start).then_some(reason))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Stale => "a newer holder has opened this fence",
            Reason::NotOpened => "the fence was not opened with this token",
            Reason::NotForward => "the checkpoint does not move forward",
            Reason::BeyondBound => "the checkpoint is beyond the upper bound",
            Reason::BoundRaised => "the upper bound would rise",
        })
    }
}

/// A refusal by the user's database, with its own words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fence {key} refused token {token}: {reason} (database: {database})")]
pub struct Refused {
    /// Why.
    pub reason: Reason,
    /// The fence's key.
    pub key: String,
    /// The token that was shown; a newer one may be stored.
    pub token: u64,
    /// The database's error text, unchanged.
    pub database: String,
}

/// What can go wrong with a fence; `E` is the driver's error.
#[derive(Debug, thiserror::Error)]
pub enum Error<E: std::error::Error + 'static> {
    /// The database refused. Roll back; for [`Reason::Stale`] end the attempt.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The driver or the database failed; the transaction's outcome is the driver's to tell.
    #[error("fence {key}: {source}")]
    Database { key: String, source: E },
    /// The key is empty or longer than [`MAX_KEY_BYTES`].
    #[error("fence key of {bytes} bytes: use 1 to {MAX_KEY_BYTES}")]
    KeyLength { bytes: usize },
    /// The token is 0 or does not fit a signed 64-bit column.
    #[error("fencing token {token} is not in 1..2^63")]
    TokenRange { token: u64 },
}

impl<E: std::error::Error + 'static> Error<E> {
    /// The refusal, if this is one.
    pub fn refused(&self) -> Option<&Refused> {
        match self {
            Error::Refused(refused) => Some(refused),
            _ => None,
        }
    }

    /// Whether a newer holder has taken over.
    pub fn is_stale(&self) -> bool {
        self.refused()
            .is_some_and(|refused| refused.reason == Reason::Stale)
    }
}

/// The two parts of a fence that every dialect checks the same way before it asks the database.
fn checked<E: std::error::Error + 'static>(key: &str, token: u64) -> Result<i64, Error<E>> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        return Err(Error::KeyLength { bytes: key.len() });
    }
    match i64::try_from(token) {
        Ok(signed) if signed > 0 => Ok(signed),
        _ => Err(Error::TokenRange { token }),
    }
}

/// Result of `fence check`: each named probe with its verdict, in the order they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub probes: Vec<Probe>,
}

/// One probe of `fence check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What was tried, in a word or two.
    pub name: &'static str,
    /// `Ok` with what was seen (for a refusal: the database's own error), `Err` with what is wrong.
    pub verdict: Result<String, String>,
}

impl Checked {
    /// Whether every probe held.
    pub fn ok(&self) -> bool {
        !self.probes.is_empty() && self.probes.iter().all(|probe| probe.verdict.is_ok())
    }

    fn push(&mut self, name: &'static str, verdict: Result<String, String>) {
        self.probes.push(Probe { name, verdict });
    }

    fn push_there(&mut self, name: &'static str, there: bool) {
        let missing = "missing: run the text of `sichen fence sql` in this database";
        self.push(
            name,
            if there {
                Ok("there".to_owned())
            } else {
                Err(missing.to_owned())
            },
        );
    }

    fn push_left_behind(&mut self, rows: i64) {
        let verdict = if rows == 0 {
            Ok("nothing".to_owned())
        } else {
            Err(format!("{rows} rows"))
        };
        self.push("left behind", verdict);
    }

    fn push_rehearsal<E: std::error::Error + 'static>(
        &mut self,
        rehearsal: &Rehearsal,
        outcome: Result<(), Error<E>>,
    ) {
        let verdict = match (outcome, rehearsal.refused) {
            (Ok(()), None) => Ok("accepted".to_owned()),
            (Ok(()), Some(_)) => Err("was accepted: the guard is missing or replaced".to_owned()),
            (Err(Error::Refused(refused)), Some(reason)) if refused.reason == reason => {
                Ok(refused.database)
            }
            (Err(other), _) => Err(other.to_string()),
        };
        self.push(rehearsal.name, verdict);
    }
}

/// What `fence check` does in one transaction that it rolls back.
#[derive(Debug)]
struct Rehearsal {
    name: &'static str,
    /// Must pass.
    before: &'static [Step],
    /// Must pass, or be refused for `refused`.
    last: Step,
    refused: Option<Reason>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Open {
        token: u64,
        upper_bound: Option<i64>,
    },
    Save {
        token: u64,
        checkpoint: i64,
    },
}

const OPENED: Step = Step::Open {
    token: 1,
    upper_bound: Some(100),
};
const RAISED: Step = Step::Open {
    token: 2,
    upper_bound: None,
};
const SAVED: Step = Step::Save {
    token: 1,
    checkpoint: 10,
};

/// The rules that a kit in a database must keep, each as one small play.
const REHEARSALS: &[Rehearsal] = &[
    Rehearsal {
        name: "current token is accepted",
        before: &[OPENED],
        last: SAVED,
        refused: None,
    },
    Rehearsal {
        name: "stale token is refused",
        before: &[OPENED, RAISED],
        last: SAVED,
        refused: Some(Reason::Stale),
    },
    Rehearsal {
        name: "late open is refused",
        before: &[OPENED, RAISED],
        last: OPENED,
        refused: Some(Reason::Stale),
    },
    Rehearsal {
        name: "token that was not opened is refused",
        before: &[OPENED],
        last: Step::Save {
            token: 2,
            checkpoint: 10,
        },
        refused: Some(Reason::NotOpened),
    },
    Rehearsal {
        name: "checkpoint never moves back",
        before: &[OPENED, SAVED],
        last: Step::Save {
            token: 1,
            checkpoint: 9,
        },
        refused: Some(Reason::NotForward),
    },
    Rehearsal {
        name: "checkpoint is not saved twice",
        before: &[OPENED, SAVED],
        last: SAVED,
        refused: Some(Reason::NotForward),
    },
    Rehearsal {
        name: "checkpoint stays within the bound",
        before: &[OPENED],
        last: Step::Save {
            token: 1,
            checkpoint: 101,
        },
        refused: Some(Reason::BeyondBound),
    },
];

/// A fence key of its own for each `check`, so that two at once do not meet.
#[expect(
    clippy::disallowed_methods,
    reason = "a rehearsal's key is thrown away; only real keys must be derived"
)]
fn rehearsal_key() -> String {
    key(
        "sichen-fence-check",
        &uuid::Uuid::now_v7().to_string(),
        0,
        0,
    )
}
