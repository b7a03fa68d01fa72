//! People who may log in.

use sichen_core::access::{Grants, Role};
use sichen_core::event::{Entity, Kind};
use sichen_core::port::{ChangeUser, Page, UserChanged, UserCreated};
use sichen_core::user::{
    Change, Identity, MAX_LOGIN_IDLE_MINUTES, MAX_USERS, NewUser, Proof, User,
};

use crate::bench::{Bench, name, wait};

fn viewer() -> Grants {
    Grants::everywhere(Role::Viewer)
}

fn create(b: &Bench, text: &str) -> UserCreated {
    create_as(b, text, None)
}

fn create_as(b: &Bench, text: &str, identity: Option<Identity>) -> UserCreated {
    let new = NewUser {
        name: name(text),
        grants: viewer(),
        identity,
    };
    wait(b.store.create_user(b.op(), new))
}

fn known_as(subject: &str) -> Identity {
    Identity {
        issuer: "https://login.example".to_owned(),
        subject: subject.to_owned(),
    }
}

fn change(b: &Bench, text: &str, change: Change) -> UserChanged {
    let asked = ChangeUser {
        name: name(text),
        seen: None,
        change,
    };
    wait(b.store.change_user(b.op(), asked))
}

fn log_in(b: &Bench, text: &str, digest: &str, password_no: u32) -> UserChanged {
    let asked = Change::LogIn {
        digest: digest.to_owned(),
        by: Proof::Password(password_no),
        instead_of: None,
    };
    change(b, text, asked)
}

fn get(b: &Bench, text: &str) -> User {
    wait(b.store.get_user(name(text))).expect("he is kept")
}

fn password(text: &str) -> Change {
    Change::Password(Some(text.to_owned()))
}

pub fn a_user_is_kept_and_his_name_is_his_alone(b: &Bench) {
    assert_eq!(create(b, "alice"), UserCreated::Created);
    assert_eq!(create(b, "alice"), UserCreated::Created, "the same again");
    let user = get(b, "alice");
    assert_eq!(
        (user.created_at, user.created_by.as_str()),
        (b.now(), "test")
    );
    assert_eq!((user.password, user.ver), (None, 1));
    assert_eq!(change(b, "alice", password("digest")), UserChanged::Done);
    assert_eq!(create(b, "alice"), UserCreated::Taken);
    assert_eq!(wait(b.store.get_user(name("bob"))), None);
    let dump = b.dump();
    let event = &dump.events[0];
    assert_eq!(event.entity, Entity::User(name("alice")));
    assert_eq!(event.kind, Kind::UserCreated);
    let told = dump.events.iter().any(|e| e.data.contains("digest"));
    assert!(!told, "no event has the digest of a password");
}

pub fn a_change_is_made_once_and_told_with_what_was_before(b: &Bench) {
    create(b, "alice");
    let editor = Change::Roles(Grants::everywhere(Role::Editor));
    assert_eq!(change(b, "alice", editor.clone()), UserChanged::Done);
    assert_eq!(change(b, "alice", editor), UserChanged::Done);
    let events = b.dump().events;
    assert_eq!(events.len(), 2, "what is so already has no event");
    assert!(events[1].data.contains("*=viewer") && events[1].data.contains("*=editor"));
    assert_eq!(get(b, "alice").ver, 2);
    assert_eq!(
        change(b, "bob", Change::Disabled(true)),
        UserChanged::Missing
    );
}

pub fn what_was_judged_by_other_roles_is_refused(b: &Bench) {
    create(b, "alice");
    let asked = ChangeUser {
        name: name("alice"),
        seen: Some(Grants::everywhere(Role::Admin)),
        change: password("digest"),
    };
    let answer = wait(b.store.change_user(b.op(), asked));
    assert_eq!(answer, UserChanged::Stale);
    assert_eq!(get(b, "alice").password, None);
    assert_eq!(b.dump().events.len(), 1);
}

pub fn a_login_is_kept_until_it_is_over(b: &Bench) {
    create(b, "alice");
    change(b, "alice", password("digest"));
    assert_eq!(
        log_in(b, "alice", "d1", 0),
        UserChanged::Stale,
        "an old password"
    );
    assert_eq!(log_in(b, "alice", "d1", 1), UserChanged::Done);
    assert_eq!(
        log_in(b, "alice", "d1", 1),
        UserChanged::Done,
        "the same again"
    );
    assert_eq!(log_in(b, "alice", "d2", 1), UserChanged::Done);
    let user = get(b, "alice");
    assert_eq!((user.logins.len(), user.logged_in_at), (2, Some(b.now())));
    assert_eq!(
        change(b, "alice", Change::LogOut("d1".to_owned())),
        UserChanged::Done
    );
    assert_eq!(get(b, "alice").logins.len(), 1);
    b.pass(MAX_LOGIN_IDLE_MINUTES * 60);
    assert_eq!(log_in(b, "alice", "d3", 1), UserChanged::Done);
    let logins = get(b, "alice").logins;
    assert_eq!(logins.len(), 1, "what ran out is gone: {logins:?}");
}

pub fn who_is_disabled_or_has_another_password_is_logged_in_nowhere(b: &Bench) {
    create(b, "alice");
    change(b, "alice", password("one"));
    log_in(b, "alice", "d1", 1);
    change(b, "alice", password("two"));
    assert!(get(b, "alice").logins.is_empty());
    log_in(b, "alice", "d2", 2);
    change(b, "alice", Change::Disabled(true));
    assert!(get(b, "alice").logins.is_empty());
    assert_eq!(log_in(b, "alice", "d3", 2), UserChanged::Stale);
    change(b, "alice", Change::Disabled(false));
    assert_eq!(log_in(b, "alice", "d3", 2), UserChanged::Done);
}

pub fn users_are_listed_in_pages_and_the_use_of_logins_is_noted(b: &Bench) {
    for text in ["c", "a", "b"] {
        create(b, text);
    }
    let page = |after: Option<&str>| {
        let after = after.map(name);
        let found = wait(b.store.list_users(Page { after, limit: 2 }));
        found.iter().map(|u| u.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(page(None), ["a", "b"]);
    assert_eq!(page(Some("b")), ["c"]);
    change(b, "a", password("digest"));
    log_in(b, "a", "d1", 1);
    let ver = get(b, "a").ver;
    b.pass(5);
    let logins = vec![
        (name("a"), "d1".to_owned()),
        (name("gone"), "d1".to_owned()),
    ];
    wait(b.store.note_logins(logins));
    let user = get(b, "a");
    assert_eq!((user.logins[0].used_at, user.ver), (b.now(), ver));
}

pub fn there_is_a_limit_to_users(b: &Bench) {
    for i in 0..MAX_USERS {
        assert_eq!(create(b, &format!("u{i}")), UserCreated::Created);
    }
    assert_eq!(create(b, "more"), UserCreated::Full);
}

pub fn who_logs_in_by_a_provider_is_kept_as_whom_it_knows(b: &Bench) {
    let his = known_as("1");
    assert_eq!(create_as(b, "bob", Some(his.clone())), UserCreated::Created);
    assert_eq!(
        create_as(b, "bob", Some(his.clone())),
        UserCreated::Created,
        "the same again"
    );
    assert_eq!(create_as(b, "bob", Some(known_as("2"))), UserCreated::Taken);
    assert_eq!(create(b, "bob"), UserCreated::Taken);
    assert_eq!(get(b, "bob").identity, Some(his.clone()));
    let by = |digest: &str, by: Proof| {
        let digest = digest.to_owned();
        let instead_of = None;
        change(
            b,
            "bob",
            Change::LogIn {
                digest,
                by,
                instead_of,
            },
        )
    };
    assert_eq!(by("d1", Proof::Identity(known_as("2"))), UserChanged::Stale);
    assert_eq!(
        by("d1", Proof::Password(0)),
        UserChanged::Stale,
        "he has none"
    );
    assert_eq!(by("d1", Proof::Identity(his)), UserChanged::Done);
    assert_eq!(get(b, "bob").logins.len(), 1);
}
