//! The fence on SQLite, over the caller's own `rusqlite` connection.
//!
//! # Not here
//! Transactions: `save` and `dedupe` are statements inside the caller's `BEGIN IMMEDIATE`, so that
//! they commit or fail with the business rows.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::{
    Checked, Error as AnyError, Opened, REHEARSALS, Reason, Refused, Step, checked, rehearsal_key,
};

/// What can go wrong with a fence on SQLite.
pub type Error = AnyError<rusqlite::Error>;

/// An opened fence: the right to write for one attempt, until a newer token opens the same key.
#[derive(Clone, Debug)]
pub struct Fence {
    key: String,
    token: u64,
    opened: Opened,
}

/// Makes the kit's tables and triggers if they are missing; several processes may call it at once.
///
/// # Errors
/// The driver's: the database can't be written, or was busy for longer than its `busy_timeout`. Nothing
/// was made then.
pub fn install(conn: &Connection) -> Result<(), rusqlite::Error> {
    // One transaction, so that no process sees half of it; busy_timeout is the caller's.
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let made = conn
        .execute_batch(super::sql(super::Dialect::Sqlite))
        .and_then(|()| conn.execute_batch("COMMIT"));
    if made.is_err() && !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK")?;
    }
    made
}

/// Opens the fence: raises the stored token to `token` and returns what is stored beside it.
///
/// Call it first in every attempt, outside of any transaction (it is one). `upper_bound` is the
/// shard's last position if it has one: the lowest one ever given is kept. Opening again with the
/// same token gives the same answer.
///
/// # Errors
/// [`Reason::Stale`] if a newer token is stored: another attempt has begun, stop.
pub fn open(
    conn: &Connection,
    key: &str,
    token: u64,
    upper_bound: Option<i64>,
) -> Result<Fence, Error> {
    let signed = checked(key, token)?;
    let opened = conn
        .prepare_cached(
            "INSERT INTO sichen_fence (fence_key, token, upper_bound) VALUES (?1, ?2, ?3)
               ON CONFLICT (fence_key) DO UPDATE SET token = excluded.token,
                 updated_at = excluded.updated_at,
                 upper_bound = min(coalesce(upper_bound, excluded.upper_bound),
                                   coalesce(excluded.upper_bound, upper_bound))
             RETURNING checkpoint, payload, upper_bound",
        )
        .and_then(|mut statement| {
            // To the end: SQLite commits the statement only when it has been run through.
            let mut rows = statement.query(params![key, signed, upper_bound])?;
            let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            let opened = Opened {
                checkpoint: row.get(0)?,
                payload: row.get(1)?,
                upper_bound: row.get(2)?,
            };
            while rows.next()?.is_some() {}
            Ok(opened)
        })
        .map_err(|error| refused_or(key, token, error))?;
    Ok(Fence {
        key: key.to_owned(),
        token,
        opened,
    })
}

/// Counts one pass of `item`: 0 the first time (do the work), more if it was done before (skip).
///
/// Keyed by (job, planned, item) and not by shard, attempt or rerun, so an item that moved to
/// another shard, or comes again in a rerun, is still known.
///
/// # Errors
/// The driver's; the pass may not be counted.
pub fn dedupe(
    conn: &Connection,
    job: &str,
    planned: &str,
    item: &str,
) -> Result<u64, rusqlite::Error> {
    conn.prepare_cached(
        "INSERT INTO sichen_dedupe (job, planned, item) VALUES (?1, ?2, ?3)
           ON CONFLICT (job, planned, item) DO UPDATE SET hits = hits + 1 RETURNING hits",
    )?
    .query_row([job, planned, item], |row| row.get::<_, i64>(0))
    .map(|hits| hits.unsigned_abs())
}

impl Fence {
    /// The fence key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The token this fence was opened with.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// What was stored when the fence was opened; start from its checkpoint.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Checks the token and stores the checkpoint, as part of the caller's transaction.
    ///
    /// Use it as the first statement after `BEGIN IMMEDIATE`. The checkpoint must
    /// be higher than the stored one ([`Reason::NotForward`]): saving it twice is work done twice.
    ///
    /// # Errors
    /// On a refusal SQLite has already rolled the whole transaction back. A statement after that
    /// would run outside of it: return the error, do not go on.
    pub fn save(
        &self,
        conn: &Connection,
        checkpoint: i64,
        payload: Option<&str>,
    ) -> Result<(), Error> {
        self.save_or_check(conn, Some(checkpoint), payload)
    }

    /// Checks the token alone, as part of the caller's transaction; for a write that is no step
    /// of the shard's progress.
    ///
    /// # Errors
    /// As [`save`](Fence::save).
    pub fn check(&self, conn: &Connection) -> Result<(), Error> {
        self.save_or_check(conn, None, None)
    }

    fn save_or_check(
        &self,
        conn: &Connection,
        checkpoint: Option<i64>,
        payload: Option<&str>,
    ) -> Result<(), Error> {
        let signed = checked(&self.key, self.token)?;
        conn.prepare_cached(
            "INSERT INTO sichen_fence_save (fence_key, token, checkpoint, payload)
               VALUES (?1, ?2, ?3, ?4)",
        )
        .and_then(|mut statement| statement.execute(params![self.key, signed, checkpoint, payload]))
        .map(|_| ())
        .map_err(|error| refused_or(&self.key, self.token, error))
    }
}

/// Verifies that the kit is there and really refuses, leaving nothing behind.
///
/// # Errors
/// Only for a database that cannot be asked at all; what is wrong with the kit is in the result.
pub fn check(conn: &mut Connection) -> Result<Checked, rusqlite::Error> {
    let mut result = Checked::default();
    for (name, object) in [
        ("table sichen_fence", "sichen_fence"),
        ("table sichen_dedupe", "sichen_dedupe"),
        ("trigger sichen_fence_guard", "sichen_fence_guard"),
        ("view sichen_fence_save", "sichen_fence_save"),
        ("trigger sichen_fence_save_row", "sichen_fence_save_row"),
    ] {
        let there = conn
            .query_row(
                "SELECT 1 FROM sqlite_schema WHERE ?1 = type || ' ' || ?2 AND name = ?2",
                [name, object],
                |_| Ok(()),
            )
            .optional()?;
        result.push_there(name, there.is_some());
    }
    if !result.ok() {
        return Ok(result);
    }
    let key = rehearsal_key();
    // A refusal rolls the transaction back, so each rehearsal has its own.
    for rehearsal in REHEARSALS {
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let outcome = rehearsal
            .before
            .iter()
            .chain([&rehearsal.last])
            .try_for_each(|step| take_step(&tx, &key, *step));
        drop(tx);
        result.push_rehearsal(rehearsal, outcome);
    }
    let left = conn.query_row(
        "SELECT count(*) FROM sichen_fence WHERE fence_key = ?1",
        [&key],
        |row| row.get(0),
    )?;
    result.push_left_behind(left);
    Ok(result)
}

fn take_step(conn: &Connection, key: &str, step: Step) -> Result<(), Error> {
    match step {
        Step::Open { token, upper_bound } => open(conn, key, token, upper_bound).map(|_| ()),
        Step::Save { token, checkpoint } => {
            let fence = Fence {
                key: key.to_owned(),
                token,
                opened: Opened::default(),
            };
            fence.save(conn, checkpoint, None)
        }
    }
}

fn refused_or(key: &str, token: u64, error: rusqlite::Error) -> Error {
    if let rusqlite::Error::SqliteFailure(_, Some(message)) = &error
        && let Some(reason) = Reason::of_message(message)
    {
        return Refused {
            reason,
            key: key.to_owned(),
            token,
            database: message.clone(),
        }
        .into();
    }
    AnyError::Database {
        key: key.to_owned(),
        source: error,
    }
}
