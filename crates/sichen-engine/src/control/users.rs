//! People who may log in: made, changed, listed.
//!
//! # Not here
//! Passwords and cookies (this sees digests alone), who may give which rights (`sichen-server`).

use sichen_core::name::Name;
use sichen_core::port::{ChangeUser, MAX_PAGE, Op, Page, UserChanged, UserCreated};
use sichen_core::user::{MAX_USERS, NewUser, RESERVED, User};

use super::{Control, Error};

impl Control {
    /// A change that `actor` asks for, for what is no use case of its own.
    #[must_use]
    pub fn op(&self, actor: &str) -> Op {
        self.context.op(actor)
    }

    /// Keeps a user, who can't log in until he has a password.
    ///
    /// # Errors
    /// [`Error::Refused`] if his name is another's or nobody's, or if there are too many.
    pub async fn create_user(&self, actor: &str, new: NewUser) -> Result<User, Error> {
        let name = &new.name.clone();
        if name.as_str() == RESERVED {
            return Err(Error::Refused(format!(
                "SC6035: nobody may have the name {RESERVED:?}: events call the holder of the server's \
                 own token so; give another name"
            )));
        }
        let op = self.context.op(actor);
        let created = self.context.store.create_user(op, new);
        match created.await? {
            UserCreated::Created => self.user(name).await,
            UserCreated::Taken => Err(Error::Refused(format!(
                "SC6035: there is a user {name} already; change him (`sichen user roles {name}`), or give \
                 another name"
            ))),
            UserCreated::Full => Err(Error::Refused(format!(
                "SC6036: there are {MAX_USERS} users, which is the limit, the disabled ones too"
            ))),
        }
    }

    /// Changes a user.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none of this name; [`Error::Contended`] if it was decided on what is
    /// so no more.
    pub async fn change_user(&self, actor: &str, asked: ChangeUser) -> Result<User, Error> {
        let (op, name) = (self.context.op(actor), asked.name.clone());
        match self.context.store.change_user(op, asked).await? {
            UserChanged::Done => self.user(&name).await,
            UserChanged::Stale => Err(Error::Contended(format!("the user {name}"))),
            UserChanged::Missing => Err(missing(&name)),
        }
    }

    /// A user by his name.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none of this name.
    pub async fn user(&self, name: &Name) -> Result<User, Error> {
        let found = self.context.store.get_user(name.clone()).await?;
        found.ok_or_else(|| missing(name))
    }

    /// All users by name, the disabled ones too; there are never more than one page has.
    ///
    /// # Errors
    /// The store's.
    pub async fn users(&self) -> Result<Vec<User>, Error> {
        const { assert!(MAX_USERS <= MAX_PAGE) };
        let page = Page {
            after: None,
            limit: MAX_PAGE,
        };
        Ok(self.context.store.list_users(page).await?)
    }
}

fn missing(name: &Name) -> Error {
    Error::NotFound {
        what: "user",
        name: name.to_string(),
    }
}
