//! People who may log in.

use jiff::Timestamp;
use sichen_core::event::Entity;
use sichen_core::name::Name;
use sichen_core::port::{ChangeUser, Page, UserChanged, UserCreated};
use sichen_core::user::{self, Changed, MAX_USERS, NewUser, User};

use super::capped;
use super::state::{State, Tx};
use crate::happened::of_user;

pub(super) fn create(tx: &mut Tx<'_>, new: NewUser) -> UserCreated {
    if let Some(old) = tx.state.users.get(&new.name) {
        return match old.is_as_made(&new) {
            true => UserCreated::Created,
            false => UserCreated::Taken,
        };
    }
    if tx.state.users.len() >= MAX_USERS as usize {
        return UserCreated::Full;
    }
    let happened = user::Happened::created(&new);
    let name = new.name.clone();
    let new = User::new(new, tx.now, &tx.op.actor);
    let (state, ver) = (new.state(), new.ver);
    tx.state.users.insert(name.clone(), new);
    tx.event(Entity::User(name), ver, of_user(happened, "", state));
    UserCreated::Created
}

pub(super) fn change(tx: &mut Tx<'_>, asked: ChangeUser) -> UserChanged {
    let ChangeUser { name, seen, change } = asked;
    let Some(old) = tx.state.users.get(&name) else {
        return UserChanged::Missing;
    };
    match user::change(old, seen.as_ref(), change, tx.now) {
        Changed::Same => UserChanged::Done,
        Changed::Stale => UserChanged::Stale,
        Changed::To(next, happened) => {
            let (from, to, ver) = (old.state(), next.state(), next.ver);
            tx.state.users.insert(name.clone(), next);
            tx.event(Entity::User(name), ver, of_user(happened, from, to));
            UserChanged::Done
        }
    }
}

pub(super) fn list(state: &State, page: &Page<Name>) -> Vec<User> {
    let after = |name: &Name| page.after.as_ref().is_none_or(|after| name > after);
    let users = state.users.iter().filter(|(name, _)| after(name));
    users
        .map(|(_, user)| user.clone())
        .take(capped(page))
        .collect()
}

pub(super) fn note(state: &mut State, now: Timestamp, logins: &[(Name, String)]) {
    for (name, digest) in logins {
        if let Some(old) = state.users.get_mut(name)
            && let Some(next) = user::used(old, digest, now)
        {
            *old = next;
        }
    }
}
