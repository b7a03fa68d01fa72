//! Rows that make no sense, put there behind the store's back: listings pass over them.

use jiff::SignedDuration;
use sichen_core::dispatch::queue::{Place, Window};
use sichen_core::ids::{RunId, ShardKey};
use sichen_core::model::DutyKey;

use crate::bench::{Bench, at, name, wait};

const WINDOW: Window = Window {
    total: 100,
    lane: 100,
    job: 100,
};

/// The listings that duties work off, with one row spoilt in each.
pub fn check(b: &Bench, spoil: &dyn Fn(&str)) {
    jobs(b, spoil);
    leases(b, spoil);
    b.fence(DutyKey::Janitor);
    spoil("update duty set key = 'of-a-newer-version' where key = 'janitor'");
    let duties = wait(b.store.list_members()).1;
    let keys: Vec<DutyKey> = duties.into_iter().map(|duty| duty.key).collect();
    assert!(keys.contains(&crate::bench::pool_key()), "{keys:?}");
}

fn jobs(b: &Bench, spoil: &dyn Fn(&str)) {
    for text in ["a", "b", "c"] {
        let mut new = b.new_job(text);
        new.next_due = Some(b.now());
        wait(b.store.apply_job(b.op(), new));
    }
    spoil("update job set chain = '{\"newer\":1}' where name = 'a'");
    spoil("update job set zones = '{\"newer\":1}' where name = 'c'");
    // As many as were asked for, though the first of them makes no sense.
    let due = wait(b.store.list_due_jobs((0..64).collect(), at(1), 1));
    let names: Vec<String> = due.iter().map(|job| job.name.name.to_string()).collect();
    assert_eq!(names, ["b"]);
}

fn leases(b: &Bench, spoil: &dyn Fn(&str)) {
    let pool = b.pool();
    let runs: Vec<RunId> = (0..4).map(|_| b.run_of(1)).collect();
    let session = b.session(5);
    for run in &runs[..2] {
        b.lease(&pool, ShardKey::new(*run, 0), session);
    }
    let other = b.session(5);
    for run in [runs[0], runs[2]] {
        spoil(&format!("update run set nominal = '?' where id = {run}"));
    }
    let pool = name(crate::bench::POOL);
    let ready = wait(b.store.list_ready(pool.clone(), Place::FIRST, WINDOW, 9));
    let ready: Vec<RunId> = ready.iter().map(|head| head.run.id).collect();
    assert_eq!(ready, [runs[3]]);
    b.pass(60);
    let overdue = wait(b.store.list_overdue(pool.clone(), SignedDuration::ZERO, 9));
    let overdue: Vec<RunId> = overdue.iter().map(|o| o.shard.key.run).collect();
    assert_eq!(overdue, [runs[1]]);
    spoil(&format!(
        "update session set offer = '?' where id = {other}"
    ));
    let sessions = wait(b.store.list_sessions(Some(pool)));
    let sessions: Vec<_> = sessions.iter().map(|(session, _)| session.id).collect();
    assert_eq!(sessions, [session]);
}
