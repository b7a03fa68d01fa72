//! Tokens of the API and of workers.

use jiff::Timestamp;
use sichen_core::access::{
    AccessToken, MAX_ACCESS_TOKENS, NewAccessToken, TokenCreated, TokenRevoked,
};
use sichen_core::event::{Entity, Kind};
use sichen_core::name::Name;
use sichen_core::port::Page;

use super::capped;
use super::state::{Happened, State, Tx};
use crate::happened::token_data;

pub(super) fn create(tx: &mut Tx<'_>, new: NewAccessToken) -> TokenCreated {
    let old = tx.state.access_tokens.get(&new.name);
    match old {
        Some(old) if old.is_live(tx.now) => {
            return if old.asked.digest == new.digest {
                TokenCreated::Created
            } else {
                TokenCreated::Taken
            };
        }
        None if tx.state.access_tokens.len() >= MAX_ACCESS_TOKENS as usize => {
            return TokenCreated::Full;
        }
        Some(_) | None => {}
    }
    let from = old.map_or("", AccessToken::state);
    let ver = old.map_or(0, |old| old.ver) + 1;
    let happened = Happened {
        data: token_data(&new),
        ..Happened::new(Kind::AccessTokenCreated, from, "live")
    };
    let name = new.name.clone();
    let token = AccessToken {
        asked: new,
        created_at: tx.now,
        created_by: tx.op.actor.clone(),
        revoked_at: None,
        used_at: None,
        ver,
    };
    tx.state.access_tokens.insert(name.clone(), token);
    tx.event(Entity::AccessToken(name), ver, happened);
    TokenCreated::Created
}

pub(super) fn revoke(tx: &mut Tx<'_>, name: Name) -> TokenRevoked {
    let now = tx.now;
    let Some(token) = tx.state.access_tokens.get_mut(&name) else {
        return TokenRevoked::Missing;
    };
    if token.revoked_at.is_some() {
        return TokenRevoked::Over;
    }
    token.revoked_at = Some(now);
    token.ver += 1;
    let ver = token.ver;
    let happened = Happened::new(Kind::AccessTokenRevoked, "live", "revoked");
    tx.event(Entity::AccessToken(name), ver, happened);
    TokenRevoked::Revoked
}

pub(super) fn list(state: &State, page: &Page<Name>) -> Vec<AccessToken> {
    let after = |name: &Name| page.after.as_ref().is_none_or(|after| name > after);
    let tokens = state.access_tokens.iter();
    tokens
        .filter(|(name, _)| after(name))
        .map(|(_, token)| token.clone())
        .take(capped(page))
        .collect()
}

pub(super) fn note(state: &mut State, now: Timestamp, names: &[Name]) {
    for name in names {
        if let Some(token) = state.access_tokens.get_mut(name) {
            token.used_at = Some(now);
        }
    }
}
