//! Taking small batches from the user's own item table: lease, token, `SKIP LOCKED`.
//!
//! For inputs that are a work list rather than a key range: several shards (or several jobs) take
//! items from one table without giving one item to two holders. The table needs three columns
//! ([`ClaimSql::columns`]); the helper only writes SQL text and never reads a value into it.
//!
//! # Invariants
//! - An item is claimed by one (fence key, token) at a time; it is free again when its lease has
//!   run out by the database's clock, or at once for a newer token of the same fence key (the next
//!   attempt of the same shard does not wait for its predecessor's lease).
//! - `done` touches only rows that this very claim holds: the count of changed rows tells whether
//!   the claim still stood.
//!
//! # Not here
//! Refusing a stale holder: call `save` of the fence in the same transaction as `done`.

use super::Dialect;

/// The user's item table, as the claim helper needs to know it.
///
/// The fields go into the SQL text as they are: take them from code, never from input.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    /// Table name, quoted by the caller if it needs quotes.
    pub table: &'a str,
    /// Unique column that names an item and orders the taking.
    pub id: &'a str,
    /// SQL condition for an item that is still to do, for example `state = 'new'`.
    pub ready: &'a str,
    /// SQL assignments that finish an item, for example `state = 'done'`.
    pub finish: &'a str,
}

/// Statements of one claim; the numbered parameters are the same in each dialect's own notation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimSql {
    /// `ALTER TABLE` statements that add the three columns; run once.
    pub columns: Vec<String>,
    /// MySQL only: picks up to `limit` free items and locks them. Parameters: fence key, token,
    /// limit. Run `take` for each id in the same transaction, at READ COMMITTED so that rows which
    /// were only looked at are not locked.
    pub pick: Option<String>,
    /// Marks up to `limit` items and returns their ids. Parameters: fence key, token, lease in ms,
    /// limit. (MySQL: marks the one picked item `id`.)
    pub take: String,
    /// The ids this claim holds, in order. Parameters: fence key, token.
    pub held: String,
    /// Finishes one item. Parameters: fence key, token, id. Changes 1 row, or 0 if the claim is
    /// lost: then roll back.
    pub done: String,
    /// Gives all items of this claim back. Parameters: fence key, token.
    pub release: String,
}

impl Claim<'_> {
    /// Writes the statements for `dialect`.
    ///
    /// On SQLite run `take` inside `BEGIN IMMEDIATE`: there is one writer, so nothing to skip.
    pub fn sql(&self, dialect: Dialect) -> ClaimSql {
        let Claim {
            table,
            id,
            ready,
            finish,
        } = self;
        let (text, now, later) = match dialect {
            Dialect::Sqlite => {
                let now = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)";
                ("TEXT", now.to_owned(), format!("{now} + ?3"))
            }
            Dialect::Postgres => {
                let now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
                ("text", now.to_owned(), format!("{now} + $3"))
            }
            Dialect::Mysql => {
                let now = "CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED)";
                (
                    "VARBINARY(512)",
                    now.to_owned(),
                    format!("{now} + :lease_ms"),
                )
            }
        };
        let [key, token, limit, item] = match dialect {
            Dialect::Sqlite => ["?1", "?2", "?4", "?3"],
            Dialect::Postgres => ["$1", "$2", "$4", "$3"],
            Dialect::Mysql => [":key", ":token", ":limit", ":id"],
        };
        let mine = format!("claim_key = {key} AND claim_token = {token}");
        let free = format!(
            "({ready}) AND (claim_until_ms IS NULL OR claim_until_ms < {now} \
             OR (claim_key = {key} AND claim_token < {token}))"
        );
        let set = format!("claim_key = {key}, claim_token = {token}, claim_until_ms = {later}");
        let take = match dialect {
            Dialect::Sqlite => format!(
                "UPDATE {table} SET {set} WHERE {id} IN (SELECT {id} FROM {table} WHERE {free} \
                 ORDER BY {id} LIMIT {limit}) RETURNING {id}"
            ),
            Dialect::Postgres => format!(
                "UPDATE {table} SET {set} WHERE {id} IN (SELECT {id} FROM {table} WHERE {free} \
                 ORDER BY {id} LIMIT {limit} FOR UPDATE SKIP LOCKED) RETURNING {id}"
            ),
            Dialect::Mysql => format!("UPDATE {table} SET {set} WHERE {id} = :id"),
        };
        // MySQL honours SKIP LOCKED in a plain SELECT only, not below an UPDATE.
        let pick = (dialect == Dialect::Mysql).then(|| {
            format!(
                "SELECT {id} FROM {table} WHERE {free} ORDER BY {id} LIMIT {limit} \
                 FOR UPDATE SKIP LOCKED"
            )
        });
        ClaimSql {
            columns: vec![
                format!("ALTER TABLE {table} ADD COLUMN claim_key {text}"),
                format!("ALTER TABLE {table} ADD COLUMN claim_token BIGINT"),
                format!("ALTER TABLE {table} ADD COLUMN claim_until_ms BIGINT"),
            ],
            pick,
            take,
            held: format!("SELECT {id} FROM {table} WHERE {mine} AND ({ready}) ORDER BY {id}"),
            done: format!(
                "UPDATE {table} SET {finish}, claim_until_ms = NULL WHERE {mine} AND {id} = {item}"
            ),
            release: format!(
                "UPDATE {table} SET claim_key = NULL, claim_token = NULL, claim_until_ms = NULL \
                 WHERE {mine}"
            ),
        }
    }
}
