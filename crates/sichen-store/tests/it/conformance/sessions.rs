//! Worker sessions.

use jiff::SignedDuration;
use sichen_core::ids::{SessionId, ShardKey};
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::Appearance;
use sichen_core::place::{Offer, Resources};
use sichen_core::port::{Register, RegisterVerdict, RenewVerdict};

use crate::bench::{Bench, POOL, TTL, name, pool_key, wait};

fn renew(b: &Bench, session: SessionId) -> RenewVerdict {
    wait(b.store.renew_sessions(vec![session], TTL)).remove(0)
}

pub fn a_session_lives_from_beat_to_beat(b: &Bench) {
    let register = Register {
        handlers: vec!["a".into(), "b \"c\"".into()],
        offer: Offer::new(
            [("zone".to_owned(), "it's \"a\"".to_owned())].into(),
            Resources::new([("cpu".to_owned(), 1_500), ("gpu/a100".to_owned(), 2_000)]),
        ),
        ..b.worker("w", 7)
    };
    let made = b.register(register.clone());
    assert_eq!(made.expires_at, b.now() + TTL);
    assert_eq!((made.superseded, made.name_taken_by), (vec![], None));
    let row = wait(b.store.get_session(made.session)).unwrap();
    assert_eq!(
        (row.worker, row.pool, row.slots),
        (register.worker, register.pool, 7)
    );
    assert_eq!(
        (row.handlers, row.offer, row.draining, row.grant_seq),
        (register.handlers, register.offer.clone(), false, 0)
    );
    assert_eq!(
        (row.registered_at, row.expires_at),
        (b.now(), made.expires_at)
    );
    assert_eq!((row.ver, row.ended), (1, None));
    let listed = wait(b.store.list_sessions(Some(name(POOL))));
    assert_eq!(
        listed
            .iter()
            .map(|(s, held)| (&s.offer, *held))
            .collect::<Vec<_>>(),
        [(&register.offer, 0)]
    );
    for _ in 0..3 {
        b.pass(14);
        let expires_at = b.now() + TTL;
        assert_eq!(renew(b, made.session), RenewVerdict::Renewed { expires_at });
        assert_eq!(
            wait(b.store.get_session(made.session)).unwrap().expires_at,
            expires_at
        );
    }
    assert!(wait(b.store.get_session(SessionId(987_654))).is_none());
}

pub fn an_expired_session_is_never_renewed(b: &Bench) {
    let (one, two) = (b.session(1), b.session(1));
    b.pass(14);
    b.beat(two);
    // At the very instant it is over.
    b.pass(1);
    let verdicts = wait(
        b.store
            .renew_sessions(vec![one, two, SessionId(987_654)], TTL),
    );
    assert_eq!(verdicts[0], RenewVerdict::Lost);
    assert!(
        matches!(verdicts[1], RenewVerdict::Renewed { .. }),
        "{verdicts:?}"
    );
    assert_eq!(verdicts[2], RenewVerdict::Lost);
    let row = wait(b.store.get_session(one)).unwrap();
    assert_eq!(row.expires_at, b.now(), "its expiry was not touched");
    wait(b.store.end_session(b.op(), None, two, "drained".to_owned()));
    assert_eq!(renew(b, two), RenewVerdict::Lost);
}

pub fn a_beat_never_shortens_a_session(b: &Bench) {
    let session = b.session(1);
    let before = wait(b.store.get_session(session)).unwrap().expires_at;
    let short = wait(
        b.store
            .renew_sessions(vec![session], SignedDuration::from_secs(1)),
    );
    assert_eq!(short, [RenewVerdict::Renewed { expires_at: before }]);
    assert_eq!(
        wait(b.store.get_session(session)).unwrap().expires_at,
        before
    );
}

pub fn a_new_incarnation_ends_the_old_one_only_if_its_trees_are_dead(b: &Bench) {
    let pool = b.pool();
    let old = b.register(b.worker("w", 1)).session;
    let shard = b.lease(&pool, ShardKey::new(b.run_of(1), 0), old).shard;
    let unsure = b.register(b.worker("w", 1));
    assert!(unsure.superseded.is_empty());
    let still = wait(b.store.get_session(old)).unwrap();
    assert_eq!(still.ended, None, "it runs out with its own time");
    let sure = b.register(Register {
        old_trees_dead: true,
        ..b.worker("w", 1)
    });
    assert_eq!(sure.superseded, [old, unsure.session]);
    let ended = wait(b.store.get_session(old)).unwrap();
    assert_eq!(ended.ended, Some((b.now(), "superseded".to_owned())));
    // Its shards are over at once, and its result is still taken.
    let overdue = wait(b.store.list_overdue(name(POOL), SignedDuration::ZERO, 9));
    assert_eq!(overdue.len(), 1);
    assert!(overdue[0].session_over);
    b.finish(b.report(shard.key, shard.token, Ending::Succeeded));
}

pub fn a_registration_that_was_overtaken_changes_nothing(b: &Bench) {
    let appearing = |start, registration| Register {
        appearance: Appearance {
            start,
            registration,
        },
        old_trees_dead: true,
        ..b.worker("w", 1)
    };
    let newest = appearing(7, 2).appearance;
    let live = b.register(appearing(7, 2)).session;
    let before = b.dump();
    // By the same process, by one that has died, and once more the same.
    for (start, registration) in [(7, 1), (6, 9), (7, 2)] {
        let verdict = b.try_register(appearing(start, registration));
        assert_eq!(verdict, RegisterVerdict::Outdated { newest });
    }
    let after = b.dump();
    assert_eq!(
        (after.sessions, after.events),
        (before.sessions, before.events)
    );
    // Also when nothing of it lives any more.
    wait(
        b.store
            .end_session(b.op(), None, live, "drained".to_owned()),
    );
    let verdict = b.try_register(appearing(6, 1));
    assert_eq!(verdict, RegisterVerdict::Outdated { newest });
    // Another worker has an order of its own.
    b.register(b.worker("x", 1));
    let next = b.register(appearing(8, 1));
    let row = wait(b.store.get_session(next.session)).unwrap();
    assert_eq!(row.appearance, appearing(8, 1).appearance);
    assert!(next.superseded.is_empty());
}

pub fn another_boot_or_uid_supersedes_nothing(b: &Bench) {
    let old = b.register(b.worker("w", 1)).session;
    let dead = |mut register: Register, uid: &str, boot: &str| {
        register.worker.uid = uid.to_owned();
        register.worker.boot_id = boot.to_owned();
        register.old_trees_dead = true;
        b.register(register)
    };
    assert!(
        dead(b.worker("w", 1), "uid-w", "boot-2")
            .superseded
            .is_empty()
    );
    assert!(
        dead(b.worker("w", 1), "uid-x", "boot-1")
            .superseded
            .is_empty()
    );
    assert_eq!(wait(b.store.get_session(old)).unwrap().ended, None);
}

pub fn a_superseded_session_is_told_so(b: &Bench) {
    let old = b.register(b.worker("w", 1)).session;
    b.register(Register {
        old_trees_dead: true,
        ..b.worker("w", 1)
    });
    assert_eq!(renew(b, old), RenewVerdict::Superseded);
    assert!(!wait(b.store.end_session(
        b.op(),
        None,
        old,
        "drained".to_owned()
    )));
}

pub fn a_name_over_two_identities_is_an_alarm(b: &Bench) {
    let old = b.register(b.worker("w", 1)).session;
    let other = || {
        let mut register = b.worker("w", 1);
        register.worker.uid = "copied".to_owned();
        register
    };
    assert_eq!(b.register(other()).name_taken_by, Some(old));
    b.pass(15);
    assert_eq!(
        b.register(other()).name_taken_by,
        None,
        "nobody of that name lives"
    );
    assert_eq!(b.register(b.worker("x", 1)).name_taken_by, None);
}

pub fn a_session_ends_once(b: &Bench) {
    let session = b.session(1);
    b.pass(2);
    let end = |cause: &str| wait(b.store.end_session(b.op(), None, session, cause.to_owned()));
    assert!(end("drained"));
    let row = wait(b.store.get_session(session)).unwrap();
    assert_eq!(
        (row.ver, row.ended),
        (2, Some((b.now(), "drained".to_owned())))
    );
    b.pass(2);
    assert!(!end("expired"));
    assert_eq!(
        wait(b.store.get_session(session)).unwrap().ended.unwrap().1,
        "drained"
    );
    let unknown = b
        .store
        .end_session(b.op(), None, SessionId(987_654), "drained".to_owned());
    assert!(!wait(unknown));
}

pub fn the_reaper_ends_only_what_has_expired(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(1));
    let end = |b: &Bench| {
        let fence = Some(pool.clone());
        wait(
            b.store
                .end_session(b.op(), fence, session, "expired".to_owned()),
        )
    };
    b.pass(14);
    assert!(!end(b));
    b.beat(session);
    b.pass(14);
    assert!(!end(b), "the beat came in time");
    b.pass(1);
    assert!(end(b));
    let last = b.dump().events.pop().unwrap();
    assert_eq!(last.duty, Some((pool_key().text(), pool.term)));
}

pub fn sessions_are_listed_with_what_they_hold(b: &Bench) {
    let (pool, one, two) = (b.pool(), b.session(9), b.session(9));
    let mut worker = b.worker("far", 1);
    worker.pool = name("gpu");
    let far = b.register(worker).session;
    let gone = b.session(1);
    wait(
        b.store
            .end_session(b.op(), None, gone, "drained".to_owned()),
    );
    let run = b.run_of(3);
    let shards: Vec<_> = (0..3)
        .map(|no| b.lease(&pool, ShardKey::new(run, no), one).shard)
        .collect();
    b.finish(b.report(shards[1].key, shards[1].token, Ending::Succeeded));
    // One that has expired is listed until somebody ends it.
    b.pass(20);
    let list = |pool: Option<&str>| -> Vec<(SessionId, u32)> {
        let sessions = wait(b.store.list_sessions(pool.map(name)));
        sessions
            .into_iter()
            .map(|(session, held)| (session.id, held))
            .collect()
    };
    assert_eq!(list(Some(POOL)), [(one, 2), (two, 0)]);
    assert_eq!(list(None), [(one, 2), (two, 0), (far, 0)]);
    assert!(list(Some("none")).is_empty());
    let leases: Vec<ShardKey> = wait(b.store.list_leases(one))
        .into_iter()
        .map(|s| s.key)
        .collect();
    assert_eq!(leases, [shards[0].key, shards[2].key]);
    assert!(wait(b.store.list_leases(SessionId(987_654))).is_empty());
}
