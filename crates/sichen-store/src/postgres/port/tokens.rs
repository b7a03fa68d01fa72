//! Access tokens.

use sichen_core::access::{AccessToken, NewAccessToken, TokenCreated, TokenRevoked};
use sichen_core::name::Name;
use sichen_core::port::{Answer, Believed, Op, Page, TokenStore};

use super::super::{PostgresStore, access, kept};

impl TokenStore for PostgresStore {
    fn create_access_token(&self, op: Op, new: NewAccessToken) -> Answer<'_, TokenCreated> {
        write!(self, Some(op), [new], |tx| {
            tx.take_turn(kept::Turn::AccessToken, "").await?;
            tx.tell_time().await?;
            access::create(tx, new).await
        })
    }
    fn revoke_access_token(&self, op: Op, name: Name) -> Answer<'_, TokenRevoked> {
        write!(self, Some(op), [name], |tx| {
            tx.take_turn(kept::Turn::AccessToken, "").await?;
            tx.tell_time().await?;
            access::revoke(tx, name).await
        })
    }
    fn list_access_tokens(&self, page: Page<Name>) -> Answer<'_, Vec<AccessToken>> {
        glance!(self, [page], |read| access::list(read, &page).await)
    }
    fn list_believed(&self) -> Answer<'_, Believed> {
        glance!(self, [], |read| access::believed(read).await)
    }
    fn note_access_tokens(&self, names: Vec<Name>) -> Answer<'_, ()> {
        bounded!(names);
        write!(self, None, [names], |tx| {
            tx.tell_time().await?;
            access::note(tx, &names).await
        })
    }
}
