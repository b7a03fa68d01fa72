//! Tokens of the API and of workers.

use sichen_core::access::{
    AccessToken, Bounds, MAX_ACCESS_TOKENS, NewAccessToken, Purpose, TokenCreated, TokenRevoked,
};
use sichen_core::event::{Entity, Kind};
use sichen_core::name::Name;
use sichen_core::port::{Believed, MAX_PAGE, Page};

use super::param::params;
use super::row::{at, opt_at};
use super::tx::{Happened, Read, Result, Tx};
use super::{capped, sql};
use crate::happened::token_data;
use crate::kept_user;

async fn get(read: &Read, name: &Name) -> Result<Option<AccessToken>> {
    read.one(sql::GET_ACCESS_TOKEN, [name.as_str()], |row| {
        row.access_token()
    })
    .await
}

pub(super) async fn create(tx: &mut Tx, new: NewAccessToken) -> Result<TokenCreated> {
    let old = get(tx, &new.name).await?;
    match &old {
        Some(old) if old.is_live(tx.now) => {
            return Ok(if old.asked.digest == new.digest {
                TokenCreated::Created
            } else {
                TokenCreated::Taken
            });
        }
        None if tx.count(sql::COUNT_ACCESS_TOKENS, ()).await? >= MAX_ACCESS_TOKENS => {
            return Ok(TokenCreated::Full);
        }
        Some(_) | None => {}
    }
    let ver = old.as_ref().map_or(0, |old| old.ver) + 1;
    let (grants, join) = match &new.purpose {
        Purpose::Api(grants) => (grants.to_string(), None),
        Purpose::Join(bounds) => (String::new(), Some(bounds)),
    };
    let list = |of: fn(&Bounds) -> &[String]| {
        let texts = join.map(of).unwrap_or_default();
        serde_json::Value::from(texts).to_string()
    };
    let pool = join.map(|bounds| bounds.pool.as_str());
    let created_by = tx.actor().to_owned();
    let params = params![
        new.name.as_str(),
        new.purpose.word(),
        new.digest.as_str(),
        grants,
        pool.map(str::to_owned),
        list(|bounds| &bounds.handlers),
        opt_at(new.expires_at),
        at(tx.now),
        created_by,
        ver,
        list(|bounds| &bounds.workers),
    ];
    tx.must(sql::PUT_ACCESS_TOKEN, params).await?;
    let from = old.as_ref().map_or("", AccessToken::state);
    let happened = Happened {
        data: token_data(&new),
        ..Happened::new(Kind::AccessTokenCreated, from, "live")
    };
    tx.event(&Entity::AccessToken(new.name), ver, &happened)?;
    Ok(TokenCreated::Created)
}

pub(super) async fn revoke(tx: &mut Tx, name: Name) -> Result<TokenRevoked> {
    let Some(token) = get(tx, &name).await? else {
        return Ok(TokenRevoked::Missing);
    };
    if token.revoked_at.is_some() {
        return Ok(TokenRevoked::Over);
    }
    let params = (name.as_str(), token.ver, at(tx.now));
    tx.must(sql::REVOKE_ACCESS_TOKEN, params).await?;
    let happened = Happened::new(Kind::AccessTokenRevoked, "live", "revoked");
    tx.event(&Entity::AccessToken(name), token.ver + 1, &happened)?;
    Ok(TokenRevoked::Revoked)
}

pub(super) async fn list(read: &Read, page: &Page<Name>) -> Result<Vec<AccessToken>> {
    let after = page.after.as_ref().map_or("", Name::as_str);
    let params = (after, capped(page));
    read.all(sql::LIST_ACCESS_TOKENS, params, |row| row.access_token())
        .await
}

pub(super) async fn believed(read: &Read) -> Result<Believed> {
    let mut found = Believed::default();
    let halves = read.all(sql::LIST_BELIEVED, [i64::from(MAX_PAGE)], |row| {
        Ok(match row.maybe(13, |row, i| row.text(i))? {
            None => (Some(row.access_token()?), None),
            Some(document) => (None, Some(kept_user::user(&document)?)),
        })
    });
    for (token, user) in halves.await? {
        found.tokens.extend(token);
        found.users.extend(user);
    }
    Ok(found)
}

pub(super) async fn note(tx: &Tx, names: &[Name]) -> Result<()> {
    let names: Vec<String> = names.iter().map(Name::to_string).collect();
    tx.run(sql::NOTE_ACCESS_TOKENS, (names, at(tx.now))).await?;
    Ok(())
}
