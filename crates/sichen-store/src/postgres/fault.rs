//! What PostgreSQL's errors mean to the port.
//!
//! # Not here
//! What is tried anew, how often and when ([`super::engine`]).

use deadpool_postgres::{HookError, PoolError, TimeoutType};
use sichen_core::port::Error;
use tokio_postgres::error::SqlState;

use super::tls;

pub(super) type Result<T> = std::result::Result<T, Error>;

/// A failure, and whether the same transaction may fare better when it is tried anew.
pub(super) type Failed = (Error, bool);

/// What an error means.
pub(super) fn fault(e: &tokio_postgres::Error) -> Failed {
    let text = words(e);
    let Some(code) = e.code() else {
        // Nothing the server said: the connection broke, or a value did not fit.
        let lost =
            e.is_closed() || std::error::Error::source(e).is_some_and(|s| s.is::<std::io::Error>());
        return if lost {
            (Error::Unavailable(text), true)
        } else {
            (Error::Corrupt(text), false)
        };
    };
    let class = code.code().get(..2).unwrap_or_default();
    match code {
        &SqlState::T_R_SERIALIZATION_FAILURE
        | &SqlState::T_R_DEADLOCK_DETECTED
        // Another writer was first with the same key: the next look finds its row.
        | &SqlState::UNIQUE_VIOLATION => (Error::Busy(text), true),
        // It was waited for already; who calls knows what can go on without it.
        &SqlState::LOCK_NOT_AVAILABLE => (Error::Busy(text), false),
        &SqlState::QUERY_CANCELED => (Error::Unavailable(text), false),
        // The server ended a transaction that its client had left alone for too long.
        &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => (Error::Unavailable(text), true),
        &SqlState::DISK_FULL | &SqlState::READ_ONLY_SQL_TRANSACTION | &SqlState::IO_ERROR => {
            (Error::ReadOnly(text), false)
        }
        _ if class == "08" || class == "57" => (Error::Unavailable(text), true),
        _ if class == "53" => (Error::Unavailable(text), false),
        // The rest are rows or statements that do not fit the schema: nothing a retry would mend.
        _ => (Error::Corrupt(text), false),
    }
}

/// What the server said, or what happened to the connection.
pub(super) fn words(e: &tokio_postgres::Error) -> String {
    if let Some(db) = e.as_db_error() {
        return format!("{} ({})", db.message(), db.code().code());
    }
    let mut text = e.to_string();
    let mut cause = std::error::Error::source(e);
    while let Some(e) = cause {
        text = format!("{text}: {e}");
        cause = e.source();
    }
    text
}

/// Why there is no connection.
pub(super) fn unreachable(e: &PoolError) -> Failed {
    match e {
        PoolError::Backend(e) | PoolError::PostCreateHook(HookError::Backend(e)) => {
            let text = match tls::explain(e) {
                Some(what) => format!("{what} ({})", words(e)),
                None => words(e),
            };
            (Error::Unavailable(text), fault(e).1)
        }
        PoolError::Timeout(TimeoutType::Wait) => {
            let text = "no connection became free in time: all are in use".to_owned();
            (Error::Busy(text), false)
        }
        _ => (Error::Unavailable(e.to_string()), false),
    }
}
