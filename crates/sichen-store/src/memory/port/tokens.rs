//! Access tokens.

use sichen_core::access::{AccessToken, NewAccessToken, TokenCreated, TokenRevoked};
use sichen_core::name::Name;
use sichen_core::port::{Answer, Believed, Op, Page, TokenStore};

use super::super::{MemoryStore, access};

impl TokenStore for MemoryStore {
    fn create_access_token(&self, op: Op, new: NewAccessToken) -> Answer<'_, TokenCreated> {
        self.write(op, move |tx| access::create(tx, new))
    }
    fn revoke_access_token(&self, op: Op, name: Name) -> Answer<'_, TokenRevoked> {
        self.write(op, move |tx| access::revoke(tx, name))
    }
    fn list_access_tokens(&self, page: Page<Name>) -> Answer<'_, Vec<AccessToken>> {
        self.read(move |s, _| access::list(s, &page))
    }
    fn list_believed(&self) -> Answer<'_, Believed> {
        self.read(|s, _| Believed {
            tokens: s.access_tokens.values().cloned().collect(),
            users: s.users.values().cloned().collect(),
        })
    }
    fn note_access_tokens(&self, names: Vec<Name>) -> Answer<'_, ()> {
        Box::pin(async move {
            sichen_core::port::within_batch(&names)?;
            let (mut state, now) = self.lock();
            access::note(&mut state, now, &names);
            Ok(())
        })
    }
}
