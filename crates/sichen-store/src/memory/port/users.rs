//! People who may log in.

use sichen_core::name::Name;
use sichen_core::port::{Answer, ChangeUser, Op, Page, UserChanged, UserCreated, UserStore};
use sichen_core::user::{NewUser, User};

use super::super::{MemoryStore, users};

impl UserStore for MemoryStore {
    fn create_user(&self, op: Op, new: NewUser) -> Answer<'_, UserCreated> {
        self.write(op, move |tx| users::create(tx, new))
    }
    fn change_user(&self, op: Op, asked: ChangeUser) -> Answer<'_, UserChanged> {
        self.write(op, move |tx| users::change(tx, asked))
    }
    fn get_user(&self, name: Name) -> Answer<'_, Option<User>> {
        self.read(move |s, _| s.users.get(&name).cloned())
    }
    fn list_users(&self, page: Page<Name>) -> Answer<'_, Vec<User>> {
        self.read(move |s, _| users::list(s, &page))
    }
    fn note_logins(&self, logins: Vec<(Name, String)>) -> Answer<'_, ()> {
        Box::pin(async move {
            sichen_core::port::within_batch(&logins)?;
            let (mut state, now) = self.lock();
            users::note(&mut state, now, &logins);
            Ok(())
        })
    }
}
