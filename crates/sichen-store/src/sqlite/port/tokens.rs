//! Access tokens.

use sichen_core::access::{AccessToken, NewAccessToken, TokenCreated, TokenRevoked};
use sichen_core::name::Name;
use sichen_core::port::{Answer, Believed, Op, Page, TokenStore};

use super::super::{SqliteStore, access};

impl TokenStore for SqliteStore {
    fn create_access_token(&self, op: Op, new: NewAccessToken) -> Answer<'_, TokenCreated> {
        self.write(op, move |tx| access::create(tx, new))
    }
    fn revoke_access_token(&self, op: Op, name: Name) -> Answer<'_, TokenRevoked> {
        self.write(op, move |tx| access::revoke(tx, name))
    }
    fn list_access_tokens(&self, page: Page<Name>) -> Answer<'_, Vec<AccessToken>> {
        self.read(move |r| access::list(r, &page))
    }
    fn list_believed(&self) -> Answer<'_, Believed> {
        self.read(access::believed)
    }
    fn note_access_tokens(&self, names: Vec<Name>) -> Answer<'_, ()> {
        bounded!(names);
        self.engine.write(None, move |tx| access::note(tx, &names))
    }
}
