//! The fence kit of whichever database the business is in.
//!
//! # Not here
//! The kit itself (`sichen_sdk::fence`); the deliberate mistakes (`settle`).

use sichen_sdk::fence::{self, Opened, Refused};

use super::database::{Database, Error as DatabaseError};

/// An opened fence.
#[derive(Clone, Debug)]
pub enum Fence {
    Sqlite(fence::sqlite::Fence),
    Postgres(fence::postgres::Fence),
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Sqlite(#[from] fence::sqlite::Error),
    #[error(transparent)]
    Postgres(#[from] fence::postgres::Error),
}

impl Error {
    /// The database's refusal, if this is one.
    pub fn refused(&self) -> Option<&Refused> {
        match self {
            Error::Sqlite(error) => error.refused(),
            Error::Postgres(error) => error.refused(),
        }
    }
}

/// Makes the kit's tables and functions.
pub fn install(database: &Database) -> Result<(), DatabaseError> {
    match database {
        Database::Sqlite(conn) => fence::sqlite::install(conn)?,
        Database::Postgres(session) => session.wait(fence::postgres::install(session.client()))?,
    }
    Ok(())
}

/// Opens the fence of `key` under `token`.
pub fn open(
    database: &Database,
    key: &str,
    token: u64,
    upper_bound: Option<i64>,
) -> Result<Fence, Error> {
    Ok(match database {
        Database::Sqlite(conn) => {
            Fence::Sqlite(fence::sqlite::open(conn, key, token, upper_bound)?)
        }
        Database::Postgres(session) => {
            let opening = fence::postgres::open(session.client(), key, token, upper_bound);
            Fence::Postgres(session.wait(opening)?)
        }
    })
}

impl Fence {
    pub fn key(&self) -> &str {
        match self {
            Fence::Sqlite(fence) => fence.key(),
            Fence::Postgres(fence) => fence.key(),
        }
    }

    /// What was stored when it was opened.
    pub fn opened(&self) -> &Opened {
        match self {
            Fence::Sqlite(fence) => fence.opened(),
            Fence::Postgres(fence) => fence.opened(),
        }
    }

    /// Checks the token and stores the checkpoint, in the transaction that `database` is in.
    pub fn save(&self, database: &Database, checkpoint: i64) -> Result<(), Error> {
        match (self, database) {
            (Fence::Sqlite(fence), Database::Sqlite(conn)) => fence.save(conn, checkpoint, None)?,
            (Fence::Postgres(fence), Database::Postgres(session)) => {
                session.wait(fence.save(session.client(), checkpoint, None))?;
            }
            _ => unreachable!("a fence is used on the database that it was opened on"),
        }
        Ok(())
    }

    /// Checks the token alone.
    pub fn check(&self, database: &Database) -> Result<(), Error> {
        match (self, database) {
            (Fence::Sqlite(fence), Database::Sqlite(conn)) => fence.check(conn)?,
            (Fence::Postgres(fence), Database::Postgres(session)) => {
                session.wait(fence.check(session.client()))?;
            }
            _ => unreachable!("a fence is used on the database that it was opened on"),
        }
        Ok(())
    }
}
