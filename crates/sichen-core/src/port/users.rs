//! People who may log in.

use super::{Answer, Op, Page};
use crate::access::Grants;
use crate::name::Name;
use crate::user::{Change, NewUser, User};

/// What is asked to become of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeUser {
    /// Who.
    pub name: Name,
    /// The roles by which it was judged that it may be asked for; refused if he has others.
    pub seen: Option<Grants>,
    /// What.
    pub change: Change,
}

/// What became of a user that was to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserCreated {
    /// He is kept.
    Created,
    /// There is one of this name.
    Taken,
    /// There are [`MAX_USERS`](crate::user::MAX_USERS).
    Full,
}

/// What became of a user that was to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserChanged {
    /// It is so now, or was before.
    Done,
    /// It was decided on what is so no more.
    Stale,
    /// There is none of this name.
    Missing,
}

/// People who may log in. A part of [`Store`](super::Store).
pub trait UserStore: Send + Sync + 'static {
    /// Keeps a new user. The same again, while nothing was changed, is the same request again.
    fn create_user(&self, op: Op, new: NewUser) -> Answer<'_, UserCreated>;
    /// Changes a user as [`change`](crate::user::change) decides. What is so already stays, without an event.
    fn change_user(&self, op: Op, asked: ChangeUser) -> Answer<'_, UserChanged>;
    /// One of them.
    fn get_user(&self, name: Name) -> Answer<'_, Option<User>>;
    /// Users by name, the disabled ones too.
    fn list_users(&self, page: Page<Name>) -> Answer<'_, Vec<User>>;
    /// Notes that logins, each by its user and its cookie's digest, were used now. For their ends: it
    /// writes no event.
    fn note_logins(&self, logins: Vec<(Name, String)>) -> Answer<'_, ()>;
}
