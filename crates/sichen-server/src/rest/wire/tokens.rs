//! Tokens of the API and of workers, and who asks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A role in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleIn {
    /// The namespace; `*` is all of them, and the cluster as a whole.
    pub namespace: String,
    /// `viewer`, `operator`, `editor` or `admin`; each may do what those before it may.
    pub role: String,
}

/// A token that is to be made: with `roles` it asks the API, with `pool` it lets workers join.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Its name: 1 to 63 of a-z, 0-9, `-`, `.`, `_`.
    pub name: String,
    /// What it may do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<RoleIn>,
    /// The pool whose workers it lets join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The handlers that such a worker may have; any if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<String>,
    /// The names that such a worker may have, each whole or, with a `*` at its end, the beginning of one;
    /// any if empty. Workers that are bound so can't be taken for each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<String>,
    /// The instant from which it is over; never if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Its name.
    pub name: String,
    /// `api` or `join`.
    pub kind: String,
    /// What it may do, if it is for the API.
    #[serde(default)]
    pub roles: Vec<RoleIn>,
    /// The pool whose workers it lets join, if it is for workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The handlers that such a worker may have; any if empty.
    #[serde(default)]
    pub handlers: Vec<String>,
    /// The names that such a worker may have; any if empty.
    #[serde(default)]
    pub workers: Vec<String>,
    /// `live`, `expired` or `revoked`.
    pub state: String,
    /// When it was made.
    pub created_at: String,
    /// By whom.
    pub created_by: String,
    /// The instant from which it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When it was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
    /// When it was last used, within five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_at: Option<String>,
}

/// A token that was made now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MadeToken {
    /// The token.
    pub token: Token,
    /// What is sent as `Authorization: Bearer …`, or given to a worker. It is never shown again.
    pub secret: String,
}

/// Tokens by name; there are at most 1,000.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tokens {
    /// The tokens.
    pub items: Vec<Token>,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Me {
    /// As events name him: `user api`, `token ci`.
    pub actor: String,
    /// What he may do.
    pub roles: Vec<RoleIn>,
    /// The instant from which his token is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}
