//! Tokens of the API and of workers.

use jiff::SignedDuration;
use sichen_core::access::{
    AccessToken, Bounds, Grants, MAX_ACCESS_TOKENS, NewAccessToken, Purpose, TokenCreated,
    TokenRevoked,
};
use sichen_core::event::{Entity, Kind};
use sichen_core::port::{Believed, Page, UserCreated};
use sichen_core::user::NewUser;

use crate::bench::{Bench, name, wait};

fn api(text: &str, digit: char) -> NewAccessToken {
    let grants = Grants::parse("*=viewer payments=operator").expect("good grants");
    NewAccessToken {
        name: name(text),
        purpose: Purpose::Api(grants),
        digest: digit.to_string().repeat(64),
        expires_at: None,
    }
}

fn create(b: &Bench, new: NewAccessToken) -> TokenCreated {
    wait(b.store.create_access_token(b.op(), new))
}

fn revoke(b: &Bench, text: &str) -> TokenRevoked {
    wait(b.store.revoke_access_token(b.op(), name(text)))
}

fn list(b: &Bench, after: Option<&str>, limit: u32) -> Vec<AccessToken> {
    let after = after.map(name);
    wait(b.store.list_access_tokens(Page { after, limit }))
}

fn one(b: &Bench, text: &str) -> AccessToken {
    let mut found = list(b, None, 100).into_iter();
    let found = found.find(|t| t.asked.name.as_str() == text);
    found.expect("it is kept")
}

pub fn who_is_believed_are_all_tokens_and_users(b: &Bench) {
    assert_eq!(wait(b.store.list_believed()), Believed::default());
    for (text, digit) in [("late", '1'), ("ci", '2')] {
        assert_eq!(create(b, api(text, digit)), TokenCreated::Created);
    }
    revoke(b, "late");
    for text in ["zoe", "ann"] {
        let new = NewUser {
            name: name(text),
            grants: Grants::parse("*=viewer").expect("good grants"),
            identity: None,
        };
        assert_eq!(wait(b.store.create_user(b.op(), new)), UserCreated::Created);
    }
    let all = Page {
        after: None,
        limit: 100,
    };
    let believed = wait(b.store.list_believed());
    assert_eq!(believed.tokens, list(b, None, 100));
    assert_eq!(believed.users, wait(b.store.list_users(all)));
    assert_eq!((believed.tokens.len(), believed.users.len()), (2, 2));
}

pub fn a_token_is_kept_as_it_was_asked_for(b: &Bench) {
    let expires_at = Some(b.now() + SignedDuration::from_secs(90));
    let ci = NewAccessToken {
        expires_at,
        ..api("ci", '1')
    };
    let gpu = NewAccessToken {
        purpose: Purpose::Join(
            Bounds::new(name("gpu"), vec!["train".to_owned()])
                .and_then(|bounds| bounds.of_workers(vec!["gpu-*".to_owned()]))
                .expect("good"),
        ),
        ..api("gpu-host", '2')
    };
    assert_eq!(create(b, ci.clone()), TokenCreated::Created);
    assert_eq!(create(b, gpu.clone()), TokenCreated::Created);
    let kept = list(b, None, 10);
    assert_eq!((&kept[0].asked, &kept[1].asked), (&ci, &gpu));
    assert_eq!((kept[0].created_at, kept[0].ver), (b.now(), 1));
    assert_eq!(kept[0].created_by, "test");
    assert_eq!((kept[0].used_at, kept[0].revoked_at), (None, None));
    assert!(kept[0].is_live(b.now()));
    b.pass(90);
    assert!(!one(b, "ci").is_live(b.now()), "it is over at its instant");
    let dump = b.dump();
    assert_eq!(dump.access_tokens, list(b, None, 10));
    let event = &dump.events[0];
    assert_eq!(event.entity, Entity::AccessToken(name("ci")));
    assert_eq!(event.kind, Kind::AccessTokenCreated);
    let secret = |text: &str| text.contains(&ci.digest);
    assert!(!secret(&event.data), "no event has the digest");
}

pub fn a_live_name_is_taken_and_the_same_token_again_is_the_same_request(b: &Bench) {
    assert_eq!(create(b, api("ci", '1')), TokenCreated::Created);
    b.pass(5);
    assert_eq!(create(b, api("ci", '1')), TokenCreated::Created);
    assert_eq!(create(b, api("ci", '2')), TokenCreated::Taken);
    assert_eq!(one(b, "ci").ver, 1);
    assert_eq!(b.dump().events.len(), 1);
}

pub fn a_token_is_taken_back_once_and_for_all(b: &Bench) {
    create(b, api("ci", '1'));
    assert_eq!(revoke(b, "cd"), TokenRevoked::Missing);
    b.pass(5);
    assert_eq!(revoke(b, "ci"), TokenRevoked::Revoked);
    let revoked_at = b.now();
    b.pass(5);
    assert_eq!(revoke(b, "ci"), TokenRevoked::Over);
    let token = one(b, "ci");
    assert!(!token.is_live(b.now()));
    assert_eq!((token.revoked_at, token.ver), (Some(revoked_at), 2));
}

pub fn a_name_that_is_over_is_given_again(b: &Bench) {
    create(b, api("ci", '1'));
    revoke(b, "ci");
    b.pass(5);
    assert_eq!(create(b, api("ci", '2')), TokenCreated::Created);
    let token = one(b, "ci");
    assert!(token.is_live(b.now()));
    assert_eq!((token.ver, token.created_at), (3, b.now()));
    let expires_at = Some(b.now() + SignedDuration::from_secs(5));
    let short = NewAccessToken {
        expires_at,
        ..api("short", '3')
    };
    create(b, short);
    b.pass(5);
    assert_eq!(create(b, api("short", '4')), TokenCreated::Created);
    let froms: Vec<String> = b.dump().events.into_iter().map(|e| e.from).collect();
    assert_eq!(froms, ["", "live", "revoked", "", "live"]);
}

pub fn tokens_are_listed_in_pages_and_their_use_is_noted(b: &Bench) {
    for (text, digit) in [("c", '3'), ("a", '1'), ("b", '2')] {
        create(b, api(text, digit));
    }
    let names = |found: Vec<AccessToken>| -> Vec<String> {
        found.iter().map(|t| t.asked.name.to_string()).collect()
    };
    assert_eq!(names(list(b, None, 2)), ["a", "b"]);
    assert_eq!(names(list(b, Some("b"), 2)), ["c"]);
    b.pass(5);
    wait(b.store.note_access_tokens(vec![name("a"), name("gone")]));
    assert_eq!(one(b, "a").used_at, Some(b.now()));
    assert_eq!(one(b, "a").ver, 1, "a use is no change");
    assert_eq!(one(b, "b").used_at, None);
}

pub fn there_is_a_limit_to_tokens(b: &Bench) {
    for i in 0..MAX_ACCESS_TOKENS {
        let new = api(&format!("t{i}"), '1');
        assert_eq!(create(b, new), TokenCreated::Created);
    }
    assert_eq!(create(b, api("more", '2')), TokenCreated::Full);
    revoke(b, "t7");
    assert_eq!(create(b, api("more", '2')), TokenCreated::Full);
    assert_eq!(create(b, api("t7", '2')), TokenCreated::Created);
}
