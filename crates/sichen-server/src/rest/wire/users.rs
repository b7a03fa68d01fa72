//! People who may log in.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::RoleIn;

/// How somebody can log in, beside a name with its password and a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Logins {
    /// What people call the provider that knows them; none if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

/// A user's name and password.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogIn {
    /// His name.
    pub user: String,
    /// His password.
    pub password: String,
}

impl std::fmt::Debug for LogIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogIn").finish_non_exhaustive()
    }
}

/// A user who is to be made. He can't log in until he has a password.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUser {
    /// His name: 1 to 63 of a-z, 0-9, `-`, `.`, `_`. Events say `user NAME`.
    pub name: String,
    /// What he may do.
    pub roles: Vec<RoleIn>,
}

/// What a user may do from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRoles {
    /// All of it: what is not here is taken away.
    pub roles: Vec<RoleIn>,
}

/// A user's password from now on.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPassword {
    /// At least 12 characters; without one nobody logs in with a password as this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

impl std::fmt::Debug for NewPassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewPassword").finish_non_exhaustive()
    }
}

/// Somebody who may log in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// His name.
    pub name: String,
    /// What he may do.
    pub roles: Vec<RoleIn>,
    /// `active` or `disabled`.
    pub state: String,
    /// Whether he has a password.
    pub has_password: bool,
    /// The provider by which he logs in, if he logs in by one: it says his roles then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// In how many browsers he is logged in.
    pub logins: u32,
    /// When he last logged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logged_in_at: Option<String>,
    /// When he was made.
    pub created_at: String,
    /// By whom.
    pub created_by: String,
}

/// Users by name; there are at most 1,000.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Users {
    /// The users.
    pub items: Vec<User>,
}
