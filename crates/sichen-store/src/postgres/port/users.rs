//! People who may log in.

use sichen_core::name::Name;
use sichen_core::port::{Answer, ChangeUser, Op, Page, UserChanged, UserCreated, UserStore};
use sichen_core::user::{NewUser, User};

use super::super::{PostgresStore, kept, users};

impl UserStore for PostgresStore {
    fn create_user(&self, op: Op, new: NewUser) -> Answer<'_, UserCreated> {
        write!(self, Some(op), [new], |tx| {
            tx.take_turn(kept::Turn::User, "").await?;
            tx.tell_time().await?;
            users::create(tx, new).await
        })
    }
    fn change_user(&self, op: Op, asked: ChangeUser) -> Answer<'_, UserChanged> {
        write!(self, Some(op), [asked], |tx| {
            tx.take_turn(kept::Turn::User, "").await?;
            tx.tell_time().await?;
            users::change(tx, asked).await
        })
    }
    fn get_user(&self, name: Name) -> Answer<'_, Option<User>> {
        glance!(self, [name], |read| users::get(read, &name).await)
    }
    fn list_users(&self, page: Page<Name>) -> Answer<'_, Vec<User>> {
        glance!(self, [page], |read| users::list(read, &page).await)
    }
    fn note_logins(&self, logins: Vec<(Name, String)>) -> Answer<'_, ()> {
        bounded!(logins);
        write!(self, None, [logins], |tx| {
            tx.take_turn(kept::Turn::User, "").await?;
            tx.tell_time().await?;
            users::note(tx, &logins).await
        })
    }
}
