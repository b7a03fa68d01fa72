//! The fence on MySQL and MariaDB, over the caller's own `mysql_async` connection or transaction.
//!
//! # Not here
//! Transactions: `save` and `dedupe` are statements inside the caller's transaction, so that they
//! commit or fail with the business rows.

use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Conn, Params, TxOpts, params};

use super::{
    Checked, Error as AnyError, Opened, REHEARSALS, Reason, Refused, Step, checked, rehearsal_key,
};

/// What can go wrong with a fence on MySQL.
pub type Error = AnyError<mysql_async::Error>;

/// An opened fence: the right to write for one attempt, until a newer token opens the same key.
#[derive(Clone, Debug)]
pub struct Fence {
    key: String,
    token: u64,
    opened: Opened,
}

/// Makes the kit's tables and procedures. For an installation, not for each start of a worker:
/// MySQL has no transaction around it, and a procedure is missing for a moment while it is replaced.
///
/// # Errors
/// The driver's: no connection, or no right to create tables and procedures. What was made before stays;
/// call it again.
pub async fn install(conn: &mut Conn) -> Result<(), mysql_async::Error> {
    for statement in super::statements(super::Dialect::Mysql) {
        conn.query_drop(statement).await?;
    }
    Ok(())
}

/// Opens the fence: raises the stored token to `token` and returns what is stored beside it.
///
/// Call it first in every attempt, outside of any transaction (it is one). It waits for a save of
/// the former holder that is in flight; that holder's commit is then in the checkpoint returned.
/// `upper_bound` is the shard's last position if it has one: the lowest one ever given is kept.
///
/// # Errors
/// [`Reason::Stale`] if a newer token is stored: another attempt has begun, stop.
pub async fn open(
    conn: &mut impl Queryable,
    key: &str,
    token: u64,
    upper_bound: Option<i64>,
) -> Result<Fence, Error> {
    let signed = checked(key, token)?;
    let params = params! { "key" => key, "token" => signed, "upper" => upper_bound };
    let row = call(conn, "CALL sichen_fence_open(:key, :token, :upper)", params)
        .await
        .map_err(|error| refused_or(key, token, error))?;
    let (checkpoint, payload, upper_bound) = row;
    let opened = Opened {
        checkpoint,
        payload,
        upper_bound,
    };
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
pub async fn dedupe(
    conn: &mut impl Queryable,
    job: &str,
    planned: &str,
    item: &str,
) -> Result<u64, mysql_async::Error> {
    let params = params! { "job" => job, "planned" => planned, "item" => item };
    let hits: i64 = call(
        conn,
        "CALL sichen_dedupe_hit(:job, :planned, :item)",
        params,
    )
    .await?;
    Ok(hits.unsigned_abs())
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
    /// Use it as the first statement: it takes the row lock that a takeover waits for. The
    /// checkpoint must be higher than the stored one ([`Reason::NotForward`]): saving it twice is
    /// work done twice.
    ///
    /// # Errors
    /// On a refusal the procedure has already rolled the whole transaction back. A statement after
    /// that would run outside of it: return the error, do not go on. After any other error call
    /// `rollback`: a dropped transaction keeps its row locks until its connection is used again.
    pub async fn save(
        &self,
        conn: &mut impl Queryable,
        checkpoint: i64,
        payload: Option<&str>,
    ) -> Result<(), Error> {
        self.save_or_check(conn, Some(checkpoint), payload).await
    }

    /// Checks the token alone, as part of the caller's transaction; for a write that is no step
    /// of the shard's progress.
    ///
    /// # Errors
    /// As [`save`](Fence::save).
    pub async fn check(&self, conn: &mut impl Queryable) -> Result<(), Error> {
        self.save_or_check(conn, None, None).await
    }

    async fn save_or_check(
        &self,
        conn: &mut impl Queryable,
        checkpoint: Option<i64>,
        payload: Option<&str>,
    ) -> Result<(), Error> {
        let signed = checked(&self.key, self.token)?;
        let params = params! {
            "key" => &self.key, "token" => signed, "checkpoint" => checkpoint, "payload" => payload,
        };
        conn.exec_drop(
            "CALL sichen_fence_save(:key, :token, :checkpoint, :payload)",
            params,
        )
        .await
        .map_err(|error| refused_or(&self.key, self.token, error))
    }
}

/// Verifies that the kit is there and really refuses, leaving nothing behind.
///
/// # Errors
/// Only for a database that cannot be asked at all; what is wrong with the kit is in the result.
pub async fn check(conn: &mut Conn) -> Result<Checked, mysql_async::Error> {
    let mut result = Checked::default();
    let tables = "SELECT count(*) FROM information_schema.tables
        WHERE table_schema = DATABASE() AND table_name = :name AND engine = 'InnoDB'";
    let routines = "SELECT count(*) FROM information_schema.routines
        WHERE routine_schema = DATABASE() AND routine_name = :name";
    let triggers = "SELECT count(*) FROM information_schema.triggers
        WHERE trigger_schema = DATABASE() AND trigger_name = :name";
    for (shown, name, query) in [
        ("InnoDB table sichen_fence", "sichen_fence", tables),
        ("InnoDB table sichen_dedupe", "sichen_dedupe", tables),
        ("trigger sichen_fence_guard", "sichen_fence_guard", triggers),
        ("procedure sichen_fence_open", "sichen_fence_open", routines),
        ("procedure sichen_fence_save", "sichen_fence_save", routines),
        ("procedure sichen_dedupe_hit", "sichen_dedupe_hit", routines),
    ] {
        let found: Option<i64> = conn.exec_first(query, params! { "name" => name }).await?;
        result.push_there(shown, found == Some(1));
    }
    if !result.ok() {
        return Ok(result);
    }
    let key = rehearsal_key();
    for rehearsal in REHEARSALS {
        let mut tx = conn.start_transaction(TxOpts::default()).await?;
        let mut outcome = Ok(());
        for step in rehearsal.before.iter().chain([&rehearsal.last]) {
            outcome = take_step(&mut tx, &key, *step).await;
            if outcome.is_err() {
                break;
            }
        }
        tx.rollback().await?;
        result.push_rehearsal(rehearsal, outcome);
    }
    let left: Option<i64> = conn
        .exec_first(
            "SELECT count(*) FROM sichen_fence WHERE fence_key = :key",
            params! { "key" => key },
        )
        .await?;
    result.push_left_behind(left.unwrap_or(0));
    Ok(result)
}

async fn take_step(conn: &mut impl Queryable, key: &str, step: Step) -> Result<(), Error> {
    match step {
        Step::Open { token, upper_bound } => open(conn, key, token, upper_bound).await.map(|_| ()),
        Step::Save { token, checkpoint } => {
            let fence = Fence {
                key: key.to_owned(),
                token,
                opened: Opened::default(),
            };
            fence.save(conn, checkpoint, None).await
        }
    }
}

/// The one row that a procedure answers with.
async fn call<T: FromRow + Send + 'static>(
    conn: &mut impl Queryable,
    statement: &str,
    params: Params,
) -> Result<T, mysql_async::Error> {
    let row: Option<T> = conn.exec_first(statement, params).await?;
    row.ok_or_else(|| mysql_async::Error::Other(format!("{statement} gave no row").into()))
}

fn refused_or(key: &str, token: u64, error: mysql_async::Error) -> Error {
    if let mysql_async::Error::Server(server) = &error
        && let Some(reason) = Reason::of_message(&server.message)
    {
        let database = format!(
            "{} (error {}, SQLSTATE {})",
            server.message, server.code, server.state
        );
        return Refused {
            reason,
            key: key.to_owned(),
            token,
            database,
        }
        .into();
    }
    AnyError::Database {
        key: key.to_owned(),
        source: error,
    }
}
