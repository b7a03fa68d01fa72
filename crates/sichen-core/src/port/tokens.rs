//! Access tokens.

use super::{Answer, Op, Page};
use crate::access::{AccessToken, NewAccessToken, TokenCreated, TokenRevoked};
use crate::name::Name;
use crate::user::User;

/// Whom a server may believe, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Believed {
    /// All tokens by name, those that are over too.
    pub tokens: Vec<AccessToken>,
    /// All users by name, the disabled ones too.
    pub users: Vec<User>,
}

/// Access tokens. A part of [`Store`](super::Store).
pub trait TokenStore: Send + Sync + 'static {
    /// Keeps a token, in the place of one of its name that is over. The same digest again is the
    /// same request again.
    fn create_access_token(&self, op: Op, new: NewAccessToken) -> Answer<'_, TokenCreated>;
    /// Takes a token back for good.
    fn revoke_access_token(&self, op: Op, name: Name) -> Answer<'_, TokenRevoked>;
    /// Tokens by name, those that are over too.
    fn list_access_tokens(&self, page: Page<Name>) -> Answer<'_, Vec<AccessToken>>;
    /// All tokens and all users: what a node asks for again and again while it has clients, and so one statement.
    fn list_believed(&self) -> Answer<'_, Believed>;
    /// Notes that tokens were used now. For display: it writes no event.
    fn note_access_tokens(&self, names: Vec<Name>) -> Answer<'_, ()>;
}
