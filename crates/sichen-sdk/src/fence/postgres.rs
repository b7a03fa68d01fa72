//! The fence on PostgreSQL, over the caller's own `tokio-postgres` client or transaction.
//!
//! # Not here
//! Transactions: `save` and `dedupe` are statements inside the caller's transaction, so that they
//! commit or fail with the business rows. Isolation is the caller's choice; the row lock that the
//! functions take holds under each.

use tokio_postgres::{Client, GenericClient};

use super::{
    Checked, Error as AnyError, Opened, REHEARSALS, Reason, Refused, Step, checked, rehearsal_key,
};

/// What can go wrong with a fence on PostgreSQL.
pub type Error = AnyError<tokio_postgres::Error>;

/// An opened fence: the right to write for one attempt, until a newer token opens the same key.
#[derive(Clone, Debug)]
pub struct Fence {
    key: String,
    token: u64,
    opened: Opened,
}

/// Makes the kit's tables and functions if they are missing; several processes may call it at once.
///
/// # Errors
/// The driver's: no connection, or no right to create tables and functions. Nothing was made then.
pub async fn install(client: &impl GenericClient) -> Result<(), tokio_postgres::Error> {
    // `IF NOT EXISTS` races with itself in PostgreSQL; the lock ends with the implicit transaction.
    let text = format!(
        "SELECT pg_advisory_xact_lock(hashtextextended('sichen_fence', 0));\n{}",
        super::sql(super::Dialect::Postgres)
    );
    client.batch_execute(&text).await
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
    client: &impl GenericClient,
    key: &str,
    token: u64,
    upper_bound: Option<i64>,
) -> Result<Fence, Error> {
    let signed = checked(key, token)?;
    let row = client
        .query_one(
            "SELECT checkpoint, payload, upper_bound FROM sichen_fence_open($1, $2, $3)",
            &[&key, &signed, &upper_bound],
        )
        .await
        .map_err(|error| refused_or(key, token, error))?;
    let opened = Opened {
        checkpoint: row.get(0),
        payload: row.get(1),
        upper_bound: row.get(2),
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
    client: &impl GenericClient,
    job: &str,
    planned: &str,
    item: &str,
) -> Result<u64, tokio_postgres::Error> {
    let row = client
        .query_one(
            "SELECT sichen_dedupe_hit($1, $2, $3)",
            &[&job, &planned, &item],
        )
        .await?;
    Ok(row.get::<_, i64>(0).unsigned_abs())
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
    /// Use it as the first statement: it takes the row lock that a takeover waits for. The checkpoint must
    /// be higher than the stored one ([`Reason::NotForward`]): saving it twice is work done twice.
    ///
    /// # Errors
    /// On a refusal PostgreSQL has failed the transaction; only a rollback is left.
    pub async fn save(
        &self,
        client: &impl GenericClient,
        checkpoint: i64,
        payload: Option<&str>,
    ) -> Result<(), Error> {
        self.save_or_check(client, Some(checkpoint), payload).await
    }

    /// Checks the token alone, as part of the caller's transaction; for a write that is no step
    /// of the shard's progress.
    ///
    /// # Errors
    /// As [`save`](Fence::save).
    pub async fn check(&self, client: &impl GenericClient) -> Result<(), Error> {
        self.save_or_check(client, None, None).await
    }

    async fn save_or_check(
        &self,
        client: &impl GenericClient,
        checkpoint: Option<i64>,
        payload: Option<&str>,
    ) -> Result<(), Error> {
        let signed = checked(&self.key, self.token)?;
        client
            .execute(
                "SELECT sichen_fence_save($1, $2, $3, $4)",
                &[&self.key, &signed, &checkpoint, &payload],
            )
            .await
            .map(|_| ())
            .map_err(|error| refused_or(&self.key, self.token, error))
    }
}

/// Verifies that the kit is there and really refuses, leaving nothing behind.
///
/// # Errors
/// Only for a database that cannot be asked at all; what is wrong with the kit is in the result.
pub async fn check(client: &mut Client) -> Result<Checked, tokio_postgres::Error> {
    let mut result = Checked::default();
    for (name, query) in [
        (
            "table sichen_fence",
            "SELECT to_regclass('sichen_fence') IS NOT NULL",
        ),
        (
            "table sichen_dedupe",
            "SELECT to_regclass('sichen_dedupe') IS NOT NULL",
        ),
        (
            "function sichen_fence_open",
            "SELECT to_regproc('sichen_fence_open') IS NOT NULL",
        ),
        (
            "function sichen_fence_save",
            "SELECT to_regproc('sichen_fence_save') IS NOT NULL",
        ),
        (
            "function sichen_dedupe_hit",
            "SELECT to_regproc('sichen_dedupe_hit') IS NOT NULL",
        ),
        (
            "trigger sichen_fence_guard",
            "SELECT EXISTS (SELECT 1 FROM pg_trigger WHERE tgname = 'sichen_fence_guard'
               AND tgrelid = to_regclass('sichen_fence') AND tgenabled IN ('O', 'A'))",
        ),
    ] {
        let there: bool = client.query_one(query, &[]).await?.get(0);
        result.push_there(name, there);
    }
    if !result.ok() {
        return Ok(result);
    }
    let key = rehearsal_key();
    // A refusal fails the transaction, so each rehearsal has its own; none commits.
    for rehearsal in REHEARSALS {
        let tx = client.transaction().await?;
        let mut outcome = Ok(());
        for step in rehearsal.before.iter().chain([&rehearsal.last]) {
            outcome = take_step(&tx, &key, *step).await;
            if outcome.is_err() {
                break;
            }
        }
        tx.rollback().await?;
        result.push_rehearsal(rehearsal, outcome);
    }
    let left = client
        .query_one(
            "SELECT count(*) FROM sichen_fence WHERE fence_key = $1",
            &[&key],
        )
        .await?
        .get(0);
    result.push_left_behind(left);
    Ok(result)
}

async fn take_step(client: &impl GenericClient, key: &str, step: Step) -> Result<(), Error> {
    match step {
        Step::Open { token, upper_bound } => {
            open(client, key, token, upper_bound).await.map(|_| ())
        }
        Step::Save { token, checkpoint } => {
            let fence = Fence {
                key: key.to_owned(),
                token,
                opened: Opened::default(),
            };
            fence.save(client, checkpoint, None).await
        }
    }
}

fn refused_or(key: &str, token: u64, error: tokio_postgres::Error) -> Error {
    if let Some(database) = error.as_db_error()
        && let Some(reason) = Reason::of_message(database.message())
    {
        let database = format!(
            "{} (SQLSTATE {})",
            database.message(),
            database.code().code()
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
