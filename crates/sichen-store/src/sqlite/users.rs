//! People who may log in.

use sichen_core::event::Entity;
use sichen_core::name::Name;
use sichen_core::port::{ChangeUser, Page, UserChanged, UserCreated};
use sichen_core::user::{self, Changed, MAX_USERS, NewUser, User};

use super::tx::{Read, Result, Tx};
use super::{capped, sql};
use crate::happened::of_user;
use crate::kept_user;

pub(super) fn get(read: &Read<'_>, name: &Name) -> Result<Option<User>> {
    read.one(sql::GET_ACCOUNT, [name.as_str()], |row| {
        kept_user::user(&row.text(0)?)
    })
}

fn put(tx: &Tx<'_>, user: &User) -> Result<()> {
    let params = (user.name.as_str(), kept_user::document(user));
    tx.run(sql::PUT_ACCOUNT, params)?;
    Ok(())
}

pub(super) fn create(tx: &mut Tx<'_>, new: NewUser) -> Result<UserCreated> {
    if let Some(old) = get(tx, &new.name)? {
        return Ok(match old.is_as_made(&new) {
            true => UserCreated::Created,
            false => UserCreated::Taken,
        });
    }
    if tx.count(sql::COUNT_ACCOUNTS, [])? >= MAX_USERS {
        return Ok(UserCreated::Full);
    }
    let happened = user::Happened::created(&new);
    let new = User::new(new, tx.now, tx.actor());
    put(tx, &new)?;
    let happened = of_user(happened, "", new.state());
    tx.event(&Entity::User(new.name.clone()), new.ver, &happened)?;
    Ok(UserCreated::Created)
}

pub(super) fn change(tx: &mut Tx<'_>, asked: ChangeUser) -> Result<UserChanged> {
    let ChangeUser { name, seen, change } = asked;
    let Some(old) = get(tx, &name)? else {
        return Ok(UserChanged::Missing);
    };
    match user::change(&old, seen.as_ref(), change, tx.now) {
        Changed::Same => Ok(UserChanged::Done),
        Changed::Stale => Ok(UserChanged::Stale),
        Changed::To(next, happened) => {
            put(tx, &next)?;
            let happened = of_user(happened, old.state(), next.state());
            tx.event(&Entity::User(name), next.ver, &happened)?;
            Ok(UserChanged::Done)
        }
    }
}

pub(super) fn list(read: &Read<'_>, page: &Page<Name>) -> Result<Vec<User>> {
    let after = page.after.as_ref().map_or("", Name::as_str);
    let params = (after, capped(page));
    read.all(sql::LIST_ACCOUNTS, params, |row| {
        kept_user::user(&row.text(0)?)
    })
}

pub(super) fn note(tx: &Tx<'_>, logins: &[(Name, String)]) -> Result<()> {
    for (name, digest) in logins {
        if let Some(old) = get(tx, name)?
            && let Some(next) = user::used(&old, digest, tx.now)
        {
            put(tx, &next)?;
        }
    }
    Ok(())
}
