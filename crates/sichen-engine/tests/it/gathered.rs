//! Ends that several workers report at once share a transaction, and nothing else.
//!
//! The store is SQLite's; another connection holds its lock, so that what is under way stays under way until
//! the test lets it go.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use futures::executor::block_on;
use futures::future::join_all;
use futures::poll;
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::{SessionId, ShardKey, Token};
use sichen_core::lifecycle::ShardState;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::port::{EventFilter, Page, Reporter};
use sichen_engine::sessions::{ReportVerdict, Source};
use sichen_store::clock::ManualClock;
use sichen_store::sqlite::SqliteStore;
use tempfile::TempDir;

use crate::fixture::{Cluster, Node, report, start};
use crate::players::sharded;

/// A worker with what it was granted.
struct Holder {
    actor: String,
    by: Arc<Reporter>,
    held: Vec<(ShardKey, Token)>,
}

/// A node, its workers, and the way to hold its store.
struct Stage {
    cluster: Cluster,
    node: Node,
    other: rusqlite::Connection,
    _dir: TempDir,
}

type Told<'a> = Pin<Box<dyn Future<Output = Vec<ReportVerdict>> + 'a>>;

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(start()));
        let store = Arc::new(SqliteStore::open(dir.path(), clock.clone()).unwrap());
        let cluster = Cluster {
            clock,
            store,
            ids: Arc::default(),
        };
        let node = cluster.node("n1");
        node.coordinate(&cluster);
        let other = rusqlite::Connection::open(dir.path().join("sichen.db")).unwrap();
        Self {
            cluster,
            node,
            other,
            _dir: dir,
        }
    }

    /// Workers of so many slots each, which hold as many shards: each shard a run of its own.
    fn holders(&self, slots: &[u32]) -> Vec<Holder> {
        let job = self.cluster.apply("j", sharded(1));
        let names: Vec<String> = (0..slots.len()).map(|n| format!("w{n}")).collect();
        let workers = names.iter().zip(slots);
        let sessions: Vec<SessionId> = workers
            .map(|(name, slots)| self.node.worker(&self.cluster, name, *slots))
            .collect();
        for n in 0..slots.iter().sum::<u32>() {
            self.cluster.run(job, &format!("{n}"));
        }
        while self.node.dispatch(&self.cluster) > 0 {}
        let holder = |(name, session): (String, SessionId)| Holder {
            actor: format!("worker {name}"),
            by: Arc::new(Reporter {
                session: Some(session),
                uid: format!("uid-{name}"),
            }),
            held: self.held(session),
        };
        names.into_iter().zip(sessions).map(holder).collect()
    }

    fn held(&self, session: SessionId) -> Vec<(ShardKey, Token)> {
        let grants = self.node.grants(session);
        grants
            .iter()
            .map(|w| (w.shard.key, w.shard.token))
            .collect()
    }

    /// `who` reports that all of `held` succeeded.
    fn succeeded<'a>(&'a self, who: &'a Holder, held: &[(ShardKey, Token)]) -> Told<'a> {
        let ends = held
            .iter()
            .map(|(key, token)| report(*key, *token, Ending::Succeeded));
        let from = Source {
            actor: &who.actor,
            by: Some(&who.by),
        };
        Box::pin(self.node.engine.sessions.report(from, ends.collect()))
    }

    /// Nothing is committed until [`Stage::let_go`].
    fn hold(&self) {
        self.other.execute_batch("begin immediate").unwrap();
    }

    fn let_go(&self) {
        self.other.execute_batch("commit").unwrap();
    }

    fn spoil(&self, key: ShardKey) {
        let (run, no) = (key.run, key.no.0);
        let spoil = format!("update shard set descriptor = '?' where run_id = {run} and no = {no}");
        assert_eq!(self.other.execute(&spoil, []).unwrap(), 1);
    }

    /// The ends of attempts, and refused reports, by shard.
    fn ends(&self) -> BTreeMap<ShardKey, Vec<Event>> {
        let mut ends: BTreeMap<ShardKey, Vec<Event>> = BTreeMap::new();
        let mut after = None;
        loop {
            let page = Page { after, limit: 1000 };
            let events = self.cluster.store.list_events(EventFilter::default(), page);
            let events = block_on(events).unwrap();
            let Some(last) = events.last() else {
                return ends;
            };
            after = Some(last.seq);
            for event in events {
                if let Entity::Shard(key) = event.entity
                    && [Kind::AttemptEnded, Kind::ReportRefused].contains(&event.kind)
                {
                    ends.entry(key).or_default().push(event);
                }
            }
        }
    }

    /// How the attempt of `key` ended: by whom, in which operation.
    fn end(&self, key: ShardKey) -> Event {
        let mut ends = self.ends().remove(&key).unwrap_or_default();
        assert_eq!(ends.len(), 1, "{ends:?}");
        ends.remove(0)
    }
}

/// Begins to report; nothing can have been answered while the store is held.
async fn begin(told: &mut Told<'_>) {
    assert!(poll!(told).is_pending());
}

const ACCEPTED: [ReportVerdict; 1] = [ReportVerdict::Accepted];

#[test]
fn reports_of_two_workers_during_a_commit_share_the_next_one() {
    let stage = Stage::new();
    let holders = stage.holders(&[1, 1, 1, 1]);
    stage.hold();
    block_on(async {
        let mut told: Vec<Told<'_>> = holders
            .iter()
            .map(|who| stage.succeeded(who, &who.held))
            .collect();
        for told in &mut told {
            begin(told).await;
        }
        stage.let_go();
        for told in join_all(told).await {
            assert_eq!(told, ACCEPTED);
        }
    });
    let ends: Vec<Event> = holders.iter().map(|w| stage.end(w.held[0].0)).collect();
    for (end, who) in ends.iter().zip(&holders) {
        assert_eq!(end.actor, who.actor);
    }
    // The first two found nobody under way before them.
    assert_ne!(ends[0].op, ends[1].op);
    assert_ne!(ends[1].op, ends[2].op);
    assert_eq!(ends[2].op, ends[3].op);
    // What follows from an end is its reporter's too.
    let filter = EventFilter {
        run: Some(holders[3].held[0].0.run),
        shard: None,
    };
    let page = Page {
        after: None,
        limit: 100,
    };
    let events = block_on(stage.cluster.store.list_events(filter, page)).unwrap();
    let settled = events.iter().find(|e| e.kind == Kind::RunSettled).unwrap();
    assert_eq!(
        (&settled.actor, settled.op),
        (&holders[3].actor, ends[3].op)
    );
}

#[test]
fn a_shared_transaction_lends_no_worker_the_identity_of_another() {
    let stage = Stage::new();
    let holders = stage.holders(&[1, 1, 1, 1]);
    let (theirs, own) = (holders[2].held[0], holders[3].held[0]);
    stage.hold();
    block_on(async {
        let mut told: Vec<Told<'_>> = holders[..2]
            .iter()
            .map(|who| stage.succeeded(who, &who.held))
            .collect();
        // The third's token is an old one; the fourth knows the right one.
        let old = (theirs.0, Token(theirs.1.0 - 1));
        told.push(stage.succeeded(&holders[2], &[old]));
        told.push(stage.succeeded(&holders[3], &[theirs, own]));
        for told in &mut told {
            begin(told).await;
        }
        stage.let_go();
        let told = join_all(told).await;
        assert!(
            matches!(&told[2][..], [ReportVerdict::Stale { .. }]),
            "{told:?}"
        );
        let [ReportVerdict::Stale { detail }, ReportVerdict::Accepted] = &told[3][..] else {
            panic!("{told:?}");
        };
        assert!(detail.starts_with("SC2009"), "{detail}");
    });
    assert_eq!(stage.cluster.shard(theirs.0).state, ShardState::Running);
    let refused = stage.ends().remove(&theirs.0).unwrap();
    let by: Vec<&str> = refused.iter().map(|e| e.actor.as_str()).collect();
    assert_eq!(by, ["worker w2", "worker w3"]);
    assert!(
        refused
            .iter()
            .all(|e| e.op == refused[0].op && e.kind == Kind::ReportRefused)
    );
}

#[test]
fn an_end_that_can_not_be_stored_spoils_no_other_of_its_transaction() {
    let stage = Stage::new();
    let holders = stage.holders(&[1, 1, 1, 1, 1]);
    stage.spoil(holders[3].held[0].0);
    stage.hold();
    block_on(async {
        let mut told: Vec<Told<'_>> = holders
            .iter()
            .map(|who| stage.succeeded(who, &who.held))
            .collect();
        for told in &mut told {
            begin(told).await;
        }
        stage.let_go();
        let told = join_all(told).await;
        for (n, told) in told.iter().enumerate() {
            match n {
                3 => assert_eq!(told, &[ReportVerdict::RetryLater]),
                _ => assert_eq!(told, &ACCEPTED, "{n}"),
            }
        }
    });
}

#[test]
fn an_end_that_can_not_be_stored_spoils_no_other_of_its_run() {
    let stage = Stage::new();
    let session = stage.node.worker(&stage.cluster, "w1", 3);
    let job = stage.cluster.apply("j", sharded(3));
    stage.cluster.run(job, "k");
    assert_eq!(stage.node.dispatch(&stage.cluster), 3);
    let held = stage.held(session);
    stage.spoil(held[1].0);
    let ends = held
        .iter()
        .map(|(key, token)| report(*key, *token, Ending::Succeeded));
    let told = block_on(
        stage
            .node
            .engine
            .sessions
            .report("worker w1", ends.collect()),
    );
    let [first, spoilt, last] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!([first, last], [&ReportVerdict::Accepted; 2]);
    assert_eq!(spoilt, &ReportVerdict::RetryLater);
}

#[test]
fn a_worker_of_many_ends_delays_no_other_worker() {
    let stage = Stage::new();
    let holders = stage.holders(&[1, 1, 700, 1]);
    stage.hold();
    block_on(async {
        let mut told: Vec<Told<'_>> = holders
            .iter()
            .map(|who| stage.succeeded(who, &who.held))
            .collect();
        for told in &mut told {
            begin(told).await;
        }
        stage.let_go();
        assert!(
            join_all(told)
                .await
                .iter()
                .flatten()
                .all(|told| *told == ACCEPTED[0])
        );
    });
    let (many, one) = (&holders[2].held, &holders[3].held);
    let next = stage.end(many[0].0).op;
    assert_eq!(stage.end(one[0].0).op, next);
    let ends = stage.ends();
    let beside = many.iter().filter(|(key, _)| ends[key][0].op == next);
    // A batch, but for the one place.
    assert_eq!(beside.count(), 499);
}

#[test]
fn a_stream_that_breaks_takes_no_other_report_with_it() {
    let stage = Stage::new();
    let holders = stage.holders(&[1, 1, 1, 1, 1]);
    stage.hold();
    block_on(async {
        let mut told: Vec<Told<'_>> = holders
            .iter()
            .map(|who| stage.succeeded(who, &who.held))
            .collect();
        for told in &mut told {
            begin(told).await;
        }
        let (mut fifth, fourth, mut third, second, first) = (
            told.pop().unwrap(),
            told.pop().unwrap(),
            told.pop().unwrap(),
            told.pop().unwrap(),
            told.pop().unwrap(),
        );
        // Nobody waits for the fourth any more when the third writes for itself and the fifth; then
        // its stream breaks too.
        drop(fourth);
        drop(second);
        begin(&mut third).await;
        drop(third);
        begin(&mut fifth).await;
        stage.let_go();
        assert_eq!(first.await, ACCEPTED);
        // It was written by the one that went.
        assert_eq!(fifth.await, [ReportVerdict::Duplicate]);
        // Who comes back is told the same, or reports for the first time.
        let again = |n: usize| stage.succeeded(&holders[n], &holders[n].held);
        assert_eq!(again(1).await, [ReportVerdict::Duplicate]);
        assert_eq!(again(2).await, [ReportVerdict::Duplicate]);
        assert_eq!(again(3).await, ACCEPTED);
    });
    for who in &holders {
        assert_eq!(stage.end(who.held[0].0).actor, who.actor);
    }
    let op = |n: usize| stage.end(holders[n].held[0].0).op;
    assert_eq!(op(2), op(4));
}
