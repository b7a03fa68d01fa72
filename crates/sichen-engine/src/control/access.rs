//! Tokens of the API and of workers: made, taken back, listed.
//!
//! # Not here
//! Secrets (this sees digests alone), who may give which rights (`sichen-server`).

use sichen_core::access::{
    AccessToken, MAX_ACCESS_TOKENS, NewAccessToken, TokenCreated, TokenRevoked,
};
use sichen_core::name::Name;
use sichen_core::port::{MAX_PAGE, Page};

use super::{Control, Error};

impl Control {
    /// Keeps a token.
    ///
    /// # Errors
    /// [`Error::Refused`] if it would be over at once, if there is a live one of its name, or if there
    /// are too many.
    pub async fn create_token(
        &self,
        actor: &str,
        new: NewAccessToken,
    ) -> Result<AccessToken, Error> {
        let store = &*self.context.store;
        let now = store.now().await?;
        if let Some(at) = new.expires_at.filter(|at| *at <= now) {
            let text =
                format!("SC6007: a token that expires at {at} is over already (it is {now})");
            return Err(Error::Refused(text));
        }
        let name = new.name.clone();
        let op = self.context.op(actor);
        match store.create_access_token(op, new).await? {
            TokenCreated::Created => self.token(&name).await,
            TokenCreated::Taken => Err(Error::Refused(format!(
                "SC6005: there is a token {name} already; take it back first (`sichen token revoke \
                 {name}`), or give another name"
            ))),
            TokenCreated::Full => Err(Error::Refused(format!(
                "SC6006: there are {MAX_ACCESS_TOKENS} tokens, which is the limit; give a name again \
                 whose token is over (`sichen token list`)"
            ))),
        }
    }

    /// Takes a token back for good; one that was taken back before stays so.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none of this name.
    pub async fn revoke_token(&self, actor: &str, name: &Name) -> Result<AccessToken, Error> {
        let op = self.context.op(actor);
        let revoked = self.context.store.revoke_access_token(op, name.clone());
        match revoked.await? {
            TokenRevoked::Revoked | TokenRevoked::Over => self.token(name).await,
            TokenRevoked::Missing => Err(missing(name)),
        }
    }

    /// A token by its name.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none of this name.
    pub async fn token(&self, name: &Name) -> Result<AccessToken, Error> {
        let mut found = self.tokens().await?.into_iter();
        let found = found.find(|token| token.asked.name == *name);
        found.ok_or_else(|| missing(name))
    }

    /// All tokens by name, those that are over too; there are never more than one page has.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn tokens(&self) -> Result<Vec<AccessToken>, Error> {
        let page = Page {
            after: None,
            limit: MAX_PAGE,
        };
        Ok(self.context.store.list_access_tokens(page).await?)
    }
}

fn missing(name: &Name) -> Error {
    Error::NotFound {
        what: "token",
        name: name.to_string(),
    }
}
