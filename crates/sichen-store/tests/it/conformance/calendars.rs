//! Calendars, their versions, and the jobs that use them.

use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{JobUid, Revision};
use sichen_core::name::JobName;
use sichen_core::port::{ApplyJob, ApplyVerdict, CalendarDeleted, CalendarVerdict, Page};

use crate::bench::{Bench, name, wait};

fn named(text: &str) -> JobName {
    JobName {
        namespace: name("default"),
        name: name(text),
    }
}

fn apply(b: &Bench, text: &str, document: &str, expected: Option<u32>) -> CalendarVerdict {
    let store = &b.store;
    wait(store.apply_calendar(b.op(), named(text), document.to_owned(), expected))
}

fn delete(b: &Bench, text: &str) -> CalendarDeleted {
    wait(b.store.delete_calendar(b.op(), named(text)))
}

fn version(b: &Bench, text: &str) -> Option<u32> {
    wait(b.store.get_calendar(named(text), None)).map(|calendar| calendar.version)
}

/// A job that uses versions of calendars.
fn user(b: &Bench, text: &str, uses: &[(&str, u32)]) -> ApplyJob {
    let uses = uses.iter().map(|(name, version)| (named(name), *version));
    ApplyJob {
        calendars: uses.collect(),
        ..b.new_job(text)
    }
}

fn created(b: &Bench, job: ApplyJob) -> JobUid {
    match wait(b.store.apply_job(b.op(), job)) {
        ApplyVerdict::Created(uid) => uid,
        other => panic!("{other:?}"),
    }
}

const ALL: Page<JobUid> = Page {
    after: None,
    limit: 100,
};

/// Job, its version, the newest one.
fn users(b: &Bench, of: Option<&str>) -> Vec<(String, u32, u32)> {
    let found = wait(b.store.list_calendar_users(of.map(named), ALL));
    let shown = found
        .iter()
        .map(|u| (u.job_name.to_string(), u.version, u.newest));
    shown.collect()
}

pub fn each_change_is_a_version_and_the_old_ones_stay(b: &Bench) {
    assert_eq!(apply(b, "cn", "1", None), CalendarVerdict::Created(1));
    b.pass(5);
    assert_eq!(apply(b, "cn", "1", Some(1)), CalendarVerdict::Unchanged(1));
    assert_eq!(apply(b, "cn", "2", Some(1)), CalendarVerdict::Updated(2));
    let newest = wait(b.store.get_calendar(named("cn"), None)).expect("it is there");
    assert_eq!((newest.version, newest.document.as_str()), (2, "2"));
    assert_eq!(newest.changed_at, b.now());
    let first = wait(b.store.get_calendar(named("cn"), Some(1))).expect("it stays");
    assert_eq!((first.version, first.document.as_str()), (1, "1"));
    assert_eq!(wait(b.store.get_calendar(named("cn"), Some(3))), None);
    let dump = b.dump();
    let kinds: Vec<(u32, Kind)> = dump.events.iter().map(|e| (e.ver, e.kind)).collect();
    assert_eq!(
        kinds,
        [(1, Kind::CalendarApplied), (2, Kind::CalendarApplied)]
    );
    assert_eq!(dump.events[0].entity, Entity::Calendar(named("cn")));
    assert_eq!(dump.calendars.len(), 2);
}

pub fn a_calendar_decided_on_an_old_version_is_a_conflict(b: &Bench) {
    assert_eq!(apply(b, "cn", "1", Some(1)), CalendarVerdict::Conflict);
    apply(b, "cn", "1", None);
    assert_eq!(apply(b, "cn", "2", None), CalendarVerdict::Conflict);
    apply(b, "cn", "2", Some(1));
    assert_eq!(apply(b, "cn", "3", Some(1)), CalendarVerdict::Conflict);
    assert_eq!(version(b, "cn"), Some(2));
}

pub fn a_job_is_written_with_the_newest_versions_alone(b: &Bench) {
    apply(b, "cn", "1", None);
    apply(b, "cn", "2", Some(1));
    let old = user(b, "old", &[("cn", 1)]);
    assert_eq!(wait(b.store.apply_job(b.op(), old)), ApplyVerdict::Conflict);
    let unknown = user(b, "unknown", &[("cn", 2), ("us", 1)]);
    assert_eq!(
        wait(b.store.apply_job(b.op(), unknown)),
        ApplyVerdict::Conflict
    );
    let uid = created(b, user(b, "new", &[("cn", 2)]));
    apply(b, "cn", "3", Some(2));
    let edit = |uses: &[(&str, u32)]| ApplyJob {
        expected_ver: Some(b.get_job(uid).ver),
        document: format!("{uses:?}"),
        cause: "calendar cn 2 -> 3".to_owned(),
        ..user(b, "new", uses)
    };
    assert_eq!(
        wait(b.store.apply_job(b.op(), edit(&[("cn", 2)]))),
        ApplyVerdict::Conflict
    );
    assert_eq!(
        users(b, None),
        [("new".to_owned(), 2, 3)],
        "what is left to do"
    );
    assert_eq!(
        wait(b.store.apply_job(b.op(), edit(&[("cn", 3)]))),
        ApplyVerdict::Updated(uid, Revision(2))
    );
    assert_eq!(users(b, None), []);
    assert_eq!(users(b, Some("cn")), [("new".to_owned(), 3, 3)]);
    let dump = b.dump();
    let last = dump.events.last().expect("the edit's");
    assert_eq!(last.cause, "calendar cn 2 -> 3");
    assert_eq!(dump.calendar_uses, [(named("cn"), uid, 3)]);
}

pub fn a_calendar_that_jobs_use_is_not_deleted(b: &Bench) {
    assert_eq!(delete(b, "cn"), CalendarDeleted::Missing);
    apply(b, "cn", "1", None);
    let uid = created(b, user(b, "settle", &[("cn", 1)]));
    assert_eq!(
        delete(b, "cn"),
        CalendarDeleted::Used(vec![named("settle")])
    );
    let ver = b.get_job(uid).ver;
    assert!(wait(b.store.delete_job(b.op(), uid, None, ver)));
    assert_eq!(delete(b, "cn"), CalendarDeleted::Deleted);
    assert_eq!(version(b, "cn"), None);
    assert_eq!(delete(b, "cn"), CalendarDeleted::Missing);
    let old = wait(b.store.get_calendar(named("cn"), Some(1)));
    assert_eq!(
        old.map(|c| c.document),
        Some("1".to_owned()),
        "revisions still name it"
    );
    let page = Page {
        after: None,
        limit: 10,
    };
    assert_eq!(wait(b.store.list_calendars(page)), []);
}

pub fn a_deleted_calendar_made_again_never_repeats_a_version(b: &Bench) {
    apply(b, "cn", "1", None);
    delete(b, "cn");
    assert_eq!(apply(b, "cn", "1", None), CalendarVerdict::Created(3));
    assert_eq!(version(b, "cn"), Some(3));
    assert_eq!(apply(b, "cn", "1", Some(3)), CalendarVerdict::Unchanged(3));
}

pub fn an_edit_without_calendars_frees_them(b: &Bench) {
    apply(b, "cn", "1", None);
    apply(b, "us", "1", None);
    let uid = created(b, user(b, "settle", &[("cn", 1), ("us", 1)]));
    assert_eq!(users(b, Some("us")), [("settle".to_owned(), 1, 1)]);
    let edit = ApplyJob {
        expected_ver: Some(b.get_job(uid).ver),
        document: "other".to_owned(),
        ..user(b, "settle", &[("cn", 1)])
    };
    wait(b.store.apply_job(b.op(), edit));
    assert_eq!(users(b, Some("us")), []);
    assert_eq!(delete(b, "us"), CalendarDeleted::Deleted);
    assert_eq!(users(b, Some("cn")), [("settle".to_owned(), 1, 1)]);
}

pub fn calendars_and_their_users_are_listed_in_pages(b: &Bench) {
    for text in ["c", "a", "b"] {
        apply(b, text, "1", None);
    }
    delete(b, "b");
    let page = |after: Option<&str>, limit| {
        let after = after.map(named);
        let found = wait(b.store.list_calendars(Page { after, limit }));
        found.iter().map(|c| c.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 10), ["a", "c"]);
    assert_eq!(page(None, 1), ["a"]);
    assert_eq!(page(Some("a"), 1), ["c"]);
    let mut uids: Vec<JobUid> = ["x", "y", "z"]
        .iter()
        .map(|text| created(b, user(b, text, &[("a", 1), ("c", 1)])))
        .collect();
    uids.sort_unstable();
    apply(b, "a", "2", Some(1));
    for of in [Some("a"), None] {
        let page = |after, limit| {
            let page = Page { after, limit };
            let found = wait(b.store.list_calendar_users(of.map(named), page));
            found.iter().map(|u| u.job).collect::<Vec<_>>()
        };
        assert_eq!(page(None, 2), uids[..2]);
        assert_eq!(page(Some(uids[1]), 2), uids[2..]);
    }
}
