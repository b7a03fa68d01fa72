//! Claims about what becomes of users and their logins.

use super::*;
use crate::access::Role;

fn at(minutes: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
}

fn new(name: Name) -> NewUser {
    NewUser {
        name,
        grants: Grants::everywhere(Role::Viewer),
        identity: None,
    }
}

fn alice() -> User {
    let name = Name::new("alice").expect("good");
    let mut user = User::new(new(name), at(0), "test");
    user.password = Some("digest".to_owned());
    user
}

fn to(changed: Changed) -> User {
    match changed {
        Changed::To(user, _) => user,
        other => panic!("{other:?}"),
    }
}

fn log_in(user: &User, digest: &str, now: Timestamp) -> Changed {
    let asked = Change::LogIn {
        digest: digest.to_owned(),
        by: Proof::Password(user.password_no),
        instead_of: None,
    };
    change(user, None, asked, now)
}

fn digests(user: &User) -> Vec<&str> {
    user.logins
        .iter()
        .map(|login| login.digest.as_str())
        .collect()
}

#[test]
fn a_login_ends_when_it_is_not_used_and_after_its_whole_time() {
    let user = to(log_in(&alice(), "a", at(0)));
    assert!(user.logins[0].is_live(at(MAX_LOGIN_IDLE_MINUTES - 1)));
    assert!(!user.logins[0].is_live(at(MAX_LOGIN_IDLE_MINUTES)));
    let mut kept = user;
    let last = MAX_LOGIN_HOURS * 60;
    for minute in (0..last).step_by(60) {
        kept = used(&kept, "a", at(minute)).expect("it is live");
    }
    assert!(kept.logins[0].is_live(at(last - 1)));
    assert!(!kept.logins[0].is_live(at(last)), "however much it is used");
    assert_eq!(used(&kept, "a", at(last)), None);
    assert_eq!(used(&kept, "b", at(0)), None);
}

#[test]
fn a_further_login_ends_the_one_that_was_unused_longest() {
    let mut user = alice();
    for i in 0..MAX_LOGINS {
        user = to(log_in(
            &user,
            &format!("d{i}"),
            at(i64::try_from(i).expect("few")),
        ));
    }
    user = used(&user, "d0", at(50)).expect("it is live");
    user = to(log_in(&user, "more", at(60)));
    assert_eq!(user.logins.len(), MAX_LOGINS);
    assert!(digests(&user).contains(&"d0") && !digests(&user).contains(&"d1"));
}

#[test]
fn who_logs_in_again_in_one_browser_has_one_login_there() {
    let user = to(log_in(&alice(), "old", at(0)));
    let asked = Change::LogIn {
        digest: "new".to_owned(),
        by: Proof::Password(user.password_no),
        instead_of: Some("old".to_owned()),
    };
    assert_eq!(digests(&to(change(&user, None, asked, at(1)))), ["new"]);
}

#[test]
fn another_password_and_being_disabled_end_all_logins() {
    let user = to(log_in(&alice(), "a", at(0)));
    for asked in [
        Change::Password(Some("other".to_owned())),
        Change::Password(None),
        Change::Disabled(true),
    ] {
        let next = to(change(&user, None, asked, at(1)));
        assert!(next.logins.is_empty());
        assert_eq!(next.ver, user.ver + 1);
    }
}

#[test]
fn a_login_that_was_judged_by_an_old_password_is_stale() {
    let user = alice();
    let asked = Change::Password(Some("other".to_owned()));
    let changed = to(change(&user, None, asked, at(1)));
    let asked = Change::LogIn {
        digest: "a".to_owned(),
        by: Proof::Password(user.password_no),
        instead_of: None,
    };
    assert_eq!(change(&changed, None, asked, at(1)), Changed::Stale);
    let disabled = to(change(&user, None, Change::Disabled(true), at(1)));
    assert_eq!(log_in(&disabled, "a", at(2)), Changed::Stale);
}

#[test]
fn only_whom_his_provider_names_is_let_in_as_he() {
    let identity = |issuer: &str, subject: &str| Identity {
        issuer: issuer.to_owned(),
        subject: subject.to_owned(),
    };
    let his = identity("https://login.example", "1");
    let name = Name::new("bob").expect("good");
    let asked = NewUser {
        identity: Some(his.clone()),
        ..new(name)
    };
    let bob = User::new(asked.clone(), at(0), "test");
    let by = |user: &User, by: Proof| {
        let asked = Change::LogIn {
            digest: "a".to_owned(),
            by,
            instead_of: None,
        };
        change(user, None, asked, at(1))
    };
    assert_eq!(to(by(&bob, Proof::Identity(his.clone()))).logins.len(), 1);
    for other in [
        Proof::Identity(identity("https://login.example", "2")),
        Proof::Identity(identity("https://other.example", "1")),
        // He has none.
        Proof::Password(0),
    ] {
        assert_eq!(by(&bob, other), Changed::Stale);
    }
    assert_eq!(
        by(&alice(), Proof::Identity(his)),
        Changed::Stale,
        "known here alone"
    );
    assert!(bob.is_as_made(&asked));
    assert!(!bob.is_as_made(&NewUser {
        identity: None,
        ..asked
    }));
}

#[test]
fn what_was_judged_by_other_roles_is_stale() {
    let user = alice();
    let seen = Grants::everywhere(Role::Admin);
    let asked = Change::Password(None);
    assert_eq!(
        change(&user, Some(&seen), asked.clone(), at(0)),
        Changed::Stale
    );
    to(change(&user, Some(&user.grants), asked, at(0)));
}

#[test]
fn what_is_so_already_changes_nothing() {
    let user = to(log_in(&alice(), "a", at(0)));
    for asked in [
        Change::Roles(user.grants.clone()),
        Change::Disabled(false),
        Change::LogOut("b".to_owned()),
    ] {
        assert_eq!(change(&user, None, asked, at(1)), Changed::Same);
    }
    assert_eq!(log_in(&user, "a", at(1)), Changed::Same);
    let out = to(change(&user, None, Change::LogOut("a".to_owned()), at(1)));
    assert!(out.logins.is_empty());
}

#[test]
fn passwords_that_are_short_or_guessed_are_refused() {
    let name = Name::new("alice").expect("good");
    for (password, error) in [
        ("short", BadPassword::Short(5)),
        ("aaaaaaaaaaaaaaaa", BadPassword::Guessable),
        ("abababababababab", BadPassword::Guessable),
        ("alicealicealice1", BadPassword::Guessable),
        (&"x1y2z3".repeat(50), BadPassword::Long(300)),
    ] {
        assert_eq!(check_password(&name, password), Err(error), "{password}");
    }
    assert_eq!(check_password(&name, "correct horse battery"), Ok(()));
    assert_eq!(
        check_password(&name, "司辰司辰掌管时刻的官员在此值守"),
        Ok(())
    );
}
