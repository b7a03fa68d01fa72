//! What a store says of a change, beside whose it is: the same for every store.
//!
//! # Not here
//! The event's row: each store writes its own.

use jiff::Timestamp;
use sichen_core::access::{NewAccessToken, Purpose};
use sichen_core::event::Kind;
use sichen_core::ids::Token;
use sichen_core::model::Namespace;
use sichen_core::port::{Error, Fence, Finish};
use sichen_core::restore::Restore;
use sichen_core::user;

/// What an event says beside its entity and version.
pub(crate) struct Happened<'a> {
    pub kind: Kind,
    pub from: &'a str,
    pub to: &'a str,
    pub attempt: Option<u32>,
    pub token: Option<Token>,
    pub cause: &'a str,
    pub data: serde_json::Value,
}

impl<'a> Happened<'a> {
    pub fn new(kind: Kind, from: &'a str, to: &'a str) -> Self {
        Self {
            kind,
            from,
            to,
            attempt: None,
            token: None,
            cause: "",
            data: serde_json::Value::Object(serde_json::Map::new()),
        }
    }
}

/// What the event of a token's creation tells: all but its digest.
pub(crate) fn token_data(new: &NewAccessToken) -> serde_json::Value {
    let expires_at = new.expires_at.map(Timestamp::as_microsecond);
    match &new.purpose {
        Purpose::Api(grants) => serde_json::json!({
            "kind": "api", "grants": grants.to_string(), "expires_at": expires_at,
        }),
        Purpose::Join(bounds) => serde_json::json!({
            "kind": "join", "pool": bounds.pool.as_str(), "handlers": bounds.handlers,
            "workers": bounds.workers, "expires_at": expires_at,
        }),
    }
}

/// A user's event, with his states.
pub(crate) fn of_user<'a>(told: user::Happened, from: &'a str, to: &'a str) -> Happened<'a> {
    Happened {
        data: told.data,
        ..Happened::new(told.kind, from, to)
    }
}

/// The data of [`Kind::NamespaceSet`].
pub(crate) fn namespace_set(namespace: &Namespace) -> serde_json::Value {
    serde_json::json!({
        "weight": namespace.weight,
        "max_running": namespace.max_running,
        "max_queued": namespace.max_queued,
    })
}

/// What the event of a store that went back says.
pub(crate) fn restored(restore: &Restore) -> serde_json::Value {
    serde_json::json!({ "epoch": restore.epoch, "mark": restore.mark.as_microsecond() })
}

/// A step of the clock that is believed from now on: time stood at `from` and goes on at `to`.
pub(crate) fn clock_accepted(from: Timestamp, to: Timestamp) -> Happened<'static> {
    let data = serde_json::json!({
        "from": from.as_microsecond(), "to": to.as_microsecond(),
    });
    Happened {
        data,
        ..Happened::new(Kind::ClockAccepted, "", "")
    }
}

/// A report that changes nothing of a shard in `state`.
pub(crate) fn refused<'a>(state: &'a str, token: Token, cause: &'a str) -> Happened<'a> {
    Happened {
        token: Some(token),
        cause,
        ..Happened::new(Kind::ReportRefused, state, state)
    }
}

/// The same because its token is not the shard's `current` one (0: there is no such shard). What it says is
/// kept of an attempt that only the lost tail knew.
pub(crate) fn not_current<'a>(state: &'a str, report: &Finish, current: Token) -> Happened<'a> {
    let happened = refused(state, report.token, report.token.refused_as(current));
    if report.token < current {
        return happened;
    }
    let said = &report.said;
    Happened {
        data: serde_json::json!({ "run_key": said.run_key, "end": said.end.word() }),
        ..happened
    }
}

/// An error for a call that a duty's old owner made and that has no verdict of its own.
pub(crate) fn old_term(fence: &Fence) -> Error {
    Error::Busy(format!(
        "duty {} has a newer owner than term {}",
        fence.key.text(),
        fence.term
    ))
}
