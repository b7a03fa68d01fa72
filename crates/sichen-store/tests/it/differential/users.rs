//! Users and their logins.

use futures::executor::block_on;
use sichen_core::access::{Grants, Role};
use sichen_core::port::{ChangeUser, Page, UserStore as _};
use sichen_core::user::{Change, Identity, NewUser, Proof};

use super::{Pair, both};
use crate::bench::name;

fn grants(role: Role) -> Grants {
    Grants::everywhere(role)
}

fn his() -> Identity {
    Identity {
        issuer: "https://login.example".to_owned(),
        subject: "1".to_owned(),
    }
}

pub(super) fn step(pair: &mut Pair) {
    let user = name(["alice", "bob"][pair.dice.roll(2)]);
    if pair.dice.once_in(8) {
        let op = pair.op();
        let identity = pair.dice.once_in(3).then(his);
        let new = NewUser {
            name: user.clone(),
            grants: grants(Role::Viewer),
            identity,
        };
        both!(pair, create_user(op, new.clone())).expect("created");
    }
    if !pair.dice.once_in(4) {
        let digest = format!("d{}", pair.dice.roll(4));
        let known = block_on(pair.memory.get_user(user.clone())).expect("read");
        let password_no = known.map_or(0, |user| user.password_no);
        let password_no = password_no + u32::from(pair.dice.once_in(6));
        let instead_of = pair.dice.once_in(3).then(|| "d0".to_owned());
        let change = match pair.dice.roll(8) {
            0 => Change::Roles(grants([Role::Viewer, Role::Admin][pair.dice.roll(2)])),
            1 => Change::Password(pair.dice.once_in(2).then(|| "digest".to_owned())),
            2 => Change::Disabled(true),
            3 => Change::Disabled(false),
            4 => Change::LogOut(digest),
            _ => Change::LogIn {
                digest,
                by: match pair.dice.once_in(3) {
                    true => Proof::Identity(his()),
                    false => Proof::Password(password_no),
                },
                instead_of,
            },
        };
        let seen = pair.dice.once_in(4).then(|| grants(Role::Viewer));
        let asked = ChangeUser {
            name: user.clone(),
            seen,
            change,
        };
        let op = pair.op();
        both!(pair, change_user(op, asked.clone())).expect("changed");
    }
    if pair.dice.once_in(6) {
        let logins = vec![
            (user.clone(), "d1".to_owned()),
            (user.clone(), "none".to_owned()),
        ];
        both!(pair, note_logins(logins.clone())).expect("noted");
    }
    both!(pair, get_user(user.clone())).expect("read");
    let after = Some(user).filter(|_| pair.dice.once_in(2));
    both!(
        pair,
        list_users(Page {
            after: after.clone(),
            limit: 2
        })
    )
    .expect("listed");
}
