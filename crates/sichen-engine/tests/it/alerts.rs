//! Claims about looking for what is wrong, and sending it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::executor::block_on;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sichen_core::alert::notice::Notice;
use sichen_core::alert::{MAX_MEMBERS, Phase, Rule, Settings as Alerts, Silence};
use sichen_core::document::{Document, Request, new_run};
use sichen_core::ids::{JobUid, Occasion, RunId, ShardKey};
use sichen_core::lifecycle::run::STARTING_DEADLINE;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, StopCause};
use sichen_core::model::DutyKey;
use sichen_core::name::JobName;
use sichen_core::port::{CreateVerdict, SaveAlerts};
use sichen_engine::alerts::{Sender, Sent};
use sichen_engine::driver::{Engine, Settings, Telling};
use sichen_store::clock::ManualClock;
use sichen_store::sqlite::SqliteStore;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::fixture::{Cluster, Mailboxes, Node, report, start};

/// Keeps what receivers got. `dead` refuses, `hung` never answers.
#[derive(Debug, Default)]
struct Post {
    got: Mutex<Vec<(String, Uuid)>>,
    said: Mutex<Vec<String>>,
    arrived: Notify,
    /// Whether whoever takes heartbeats can't be reached, and how often it was tried.
    deaf: AtomicBool,
    beats: AtomicU32,
}

impl Post {
    fn beats(&self) -> u32 {
        self.beats.swap(0, Ordering::SeqCst)
    }
}

impl Sender for Post {
    fn beat(&self) -> Sent<'_> {
        self.beats.fetch_add(1, Ordering::SeqCst);
        let deaf = self.deaf.load(Ordering::SeqCst);
        Box::pin(async move {
            match deaf {
                true => Err("no connection".to_owned()),
                false => Ok(()),
            }
        })
    }

    fn send<'a>(&'a self, notice: &'a Notice) -> Sent<'a> {
        let to = notice.receiver.clone();
        self.got.lock().unwrap().push((to.clone(), notice.id));
        let body: serde_json::Value = serde_json::from_str(&notice.body).unwrap_or_default();
        let said = format!("{} {}", body["event"], body["summary"]).replace('"', "");
        self.said.lock().unwrap().push(said);
        self.arrived.notify_one();
        Box::pin(async move {
            match to.as_str() {
                "dead" => Err("no connection".to_owned()),
                "hung" => std::future::pending().await,
                _ => Ok(()),
            }
        })
    }
}

/// A cluster whose one node tells of alerts.
struct Scene {
    cluster: Cluster,
    node: Node,
    post: Arc<Post>,
    token: CancellationToken,
}

impl Scene {
    fn new(receivers: &[&str], change: impl FnOnce(&mut Alerts)) -> Self {
        Self::on(Cluster::new(), receivers, change)
    }

    fn on(cluster: Cluster, receivers: &[&str], change: impl FnOnce(&mut Alerts)) -> Self {
        let mut alerts = Alerts {
            source: "test".to_owned(),
            every: SignedDuration::from_secs(10),
            rules: BTreeMap::new(),
            no_success: Vec::new(),
            silences: Vec::new(),
            receivers: receivers.iter().map(|name| (*name).to_owned()).collect(),
            heartbeat: None,
        };
        // Time goes by here in steps that are longer than a lease, so that each look is under a new term.
        let mut flapping = alerts.policy(Rule::OwnerFlapping);
        flapping.on = false;
        alerts.rules.insert(Rule::OwnerFlapping, flapping);
        change(&mut alerts);
        let (post, mail) = (Arc::new(Post::default()), Arc::new(Mailboxes::default()));
        let mut settings = Settings::new("n1".to_owned());
        settings.alerts = Some(Telling {
            settings: Arc::new(alerts),
            sender: post.clone(),
            around: None,
        });
        let (store, ids) = (cluster.store.clone(), cluster.ids.clone());
        let engine = Engine::new(store, ids, mail.clone(), settings);
        Self {
            cluster,
            node: Node { engine, mail },
            post,
            token: CancellationToken::new(),
        }
    }

    fn pass(&self) -> Option<Timestamp> {
        self.node.coordinate(&self.cluster);
        let alerter = self.node.engine.alerter.as_ref().unwrap();
        block_on(alerter.run_once(self.cluster.now(), &self.token)).unwrap()
    }

    /// The next look, and what was said by then.
    fn look(&self) -> Vec<String> {
        // Its lease lasts for less.
        for _ in 0..2 {
            self.cluster.pass(5);
            self.pass();
        }
        std::mem::take(&mut *self.post.said.lock().unwrap())
    }

    fn got(&self, by: &str) -> usize {
        let got = self.post.got.lock().unwrap();
        got.iter().filter(|(to, _)| to == by).count()
    }

    fn waiting(&self) -> Vec<(String, u32)> {
        block_on(self.cluster.store.count_notices()).unwrap()
    }

    /// Writes notices that are due now.
    fn write(&self, receivers: &[&str]) {
        self.node.coordinate(&self.cluster);
        let now = self.cluster.now();
        let notices = receivers.iter().map(|receiver| Notice {
            id: self.cluster.op().id.0,
            receiver: (*receiver).to_owned(),
            body: "{}".to_owned(),
            created_at: now,
            due_at: now,
            tries: 0,
        });
        let save = SaveAlerts {
            notices: notices.collect(),
            ..SaveAlerts::default()
        };
        let coordinator = &self.node.engine.coordinator;
        let fence = coordinator.fence(&DutyKey::Alerts, now).unwrap();
        let op = self.cluster.op();
        block_on(self.cluster.store.save_alerts(op, fence, save)).unwrap();
    }

    fn job(&self, name: &str) -> JobUid {
        self.cluster
            .apply(name, json!({ "run": { "handler": "h" } }))
    }

    fn stopped(&self, job: JobUid, key: &str, cause: StopCause) -> RunId {
        let run = self.cluster.run(job, key);
        self.stop(run, cause);
        run
    }

    fn stop(&self, run: RunId, cause: StopCause) {
        let store = &self.cluster.store;
        let stopped = store.request_stop(self.cluster.op(), None, run, cause);
        block_on(stopped).unwrap();
    }

    /// A run that no worker took by its latest start.
    fn does_not_start(&self, job: JobUid, key: &str) {
        let row = block_on(self.cluster.store.get_job_by_uid(job));
        let row = row.unwrap().unwrap();
        let document: Document = serde_json::from_str(&row.document).unwrap();
        let request = Request {
            job,
            revision: row.revision,
            occasion: Occasion::Manual {
                key: key.to_owned(),
            },
            period: None,
            parameters: serde_json::Map::new(),
            digest: String::new(),
        };
        let mut run = new_run(&document, request, self.cluster.now()).unwrap();
        run.terms.start_by = Some(self.cluster.now());
        let op = self.cluster.op();
        let created = self.cluster.store.create_runs(op, vec![], vec![run]);
        let Some(CreateVerdict::Created(id, _)) = block_on(created).unwrap().pop() else {
            panic!("it is written");
        };
        self.cluster.pass(1);
        self.stop(id, StopCause::Deadline);
        let run = self.cluster.get(id);
        assert_eq!(run.stop_detail, STARTING_DEADLINE);
    }

    fn fails(&self, job: JobUid, key: &str) {
        let run = self.stopped(job, key, StopCause::Deadline);
        assert_eq!(self.cluster.get(run).state, RunState::Failed);
    }

    fn is_cancelled(&self, job: JobUid, key: &str) {
        let run = self.stopped(job, key, StopCause::Cancel);
        assert_eq!(self.cluster.get(run).state, RunState::Cancelled);
    }

    fn alerts(&self, rule: Rule) -> Vec<sichen_core::alert::Alert> {
        let all = block_on(self.cluster.store.list_alerts()).unwrap();
        let of = all.into_iter().filter(|alert| alert.rule == rule);
        of.filter(|alert| alert.phase == Phase::Open).collect()
    }
}

#[test]
fn a_failure_is_sent_once_and_forgotten_when_it_was_taken() {
    let scene = Scene::new(&["ops", "chat"], |_| {});
    let job = scene.job("nightly");
    scene.fails(job, "1");
    let said = scene.look();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].starts_with("raised runs failed: nightly"),
        "{said:?}"
    );
    assert_eq!(scene.waiting(), []);
    assert_eq!(scene.look(), [""; 0]);
}

/// One that is refused is tried again after 1, 2, 4 seconds, and keeps nobody waiting.
#[test]
fn a_dead_receiver_keeps_its_times_and_nobody_else_waiting() {
    let scene = Scene::new(&["dead", "ops"], |_| {});
    scene.pass();
    scene.write(&["dead"]);
    for (tries, seconds) in [1, 2, 4].into_iter().enumerate() {
        let next = scene.pass().unwrap();
        assert_eq!(scene.got("dead"), tries + 1);
        let wait = next.duration_since(scene.cluster.now());
        assert_eq!(wait.as_secs(), seconds);
        scene.cluster.pass(seconds);
    }
    // However many wait for it, another gets its own at once, a few in a pass.
    scene.write(&["dead"; 100]);
    scene.write(&["ops"; 5]);
    let dead = scene.got("dead");
    assert_eq!(scene.pass(), Some(scene.cluster.now()), "there is more");
    assert_eq!((scene.got("dead"), scene.got("ops")), (dead + 1, 3));
    scene.pass();
    assert_eq!((scene.got("dead"), scene.got("ops")), (dead + 2, 5));
    assert_eq!(scene.waiting(), [("dead".to_owned(), 101)]);
}

/// A receiver that hangs does not keep a node from stopping, and what others took is written.
#[test]
fn a_hung_receiver_holds_up_no_stop() {
    let scene = Scene::new(&["hung", "ops"], |_| {});
    scene.pass();
    scene.write(&["hung", "ops"]);
    let now = scene.cluster.now();
    let alerter = scene.node.engine.alerter.as_ref().unwrap();
    let mut pass = Box::pin(alerter.run_once(now, &scene.token));
    assert!(
        (&mut pass).now_or_never().is_none(),
        "it waits for an answer"
    );
    assert_eq!((scene.got("hung"), scene.got("ops")), (1, 1));
    scene.token.cancel();
    block_on(pass).unwrap();
    assert_eq!(
        scene.waiting(),
        [("hung".to_owned(), 1)],
        "it stays written"
    );
}

/// A node that gains the duty looks at once, and hands its duties over though a receiver hangs.
#[test]
fn a_node_whose_receiver_hangs_stops_at_once() {
    let scene = Scene::new(&["hung"], |alerts| {
        alerts.every = SignedDuration::from_mins(10)
    });
    let job = scene.job("nightly");
    scene.fails(job, "1");
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().build().unwrap();
    let soon = Duration::from_secs(30);
    let engine = Arc::new(scene.node.engine);
    runtime.block_on(async {
        let running = engine.start();
        let arrived = tokio::time::timeout(soon, scene.post.arrived.notified()).await;
        arrived.expect("it looks when it has the duty");
        let stopped = tokio::time::timeout(soon, running.stop()).await;
        stopped.expect("it waits for nobody").unwrap();
    });
    let waiting = block_on(scene.cluster.store.count_notices()).unwrap();
    assert_eq!(waiting, [("hung".to_owned(), 1)]);
}

/// What is written is sent though there is nothing to be seen.
#[test]
fn a_look_that_fails_holds_up_no_notice() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(start()));
    let store = Arc::new(SqliteStore::open(dir.path(), clock.clone()).unwrap());
    let cluster = Cluster {
        clock,
        store,
        ids: Arc::default(),
    };
    let scene = Scene::on(cluster, &["ops"], |_| {});
    scene.pass();
    scene.cluster.pass(5);
    scene.pass();
    scene.cluster.pass(5);
    scene.node.coordinate(&scene.cluster);
    scene.write(&["ops"]);
    let conn = rusqlite::Connection::open(dir.path().join("sichen.db")).unwrap();
    conn.execute_batch("alter table decision rename to elsewhere")
        .unwrap();
    let alerter = scene.node.engine.alerter.as_ref().unwrap();
    let looked = block_on(alerter.run_once(scene.cluster.now(), &scene.token));
    assert!(looked.is_err(), "{looked:?}");
    assert_eq!(scene.got("ops"), 1);
    assert_eq!(scene.waiting(), []);
}

#[test]
fn a_job_is_well_when_its_newest_run_succeeded_and_not_before() {
    let scene = Scene::new(&["ops"], |_| {});
    let job = scene.job("nightly");
    scene.fails(job, "1");
    assert_eq!(scene.look().len(), 1);
    // The next ones were given up, and did not start in time: it has not recovered.
    scene.is_cancelled(job, "2");
    assert_eq!(scene.look(), [""; 0]);
    scene.does_not_start(job, "3");
    let said = scene.look();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("raised runs did not start in time: nightly"));
    for rule in [Rule::Failures, Rule::NotStarted] {
        assert!(scene.alerts(rule)[0].members["nightly"].active);
    }
    let session = scene.node.worker(&scene.cluster, "w1", 1);
    let run = scene.cluster.run(job, "4");
    assert_eq!(scene.node.dispatch(&scene.cluster), 1);
    let work = scene.node.grants(session).remove(0);
    let done = report(ShardKey::new(run, 0), work.shard.token, Ending::Succeeded);
    scene.node.report(&scene.cluster, done);
    scene.node.trigger(&scene.cluster);
    assert_eq!(scene.cluster.get(run).state, RunState::Succeeded);
    let said = scene.look();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said.iter().all(|said| said.starts_with("recovered over: ")));
}

/// What runs, and what was cancelled, is no part of what is judged, however much of it there is.
#[test]
fn open_and_cancelled_runs_hide_no_failure() {
    let scene = Scene::new(&["ops"], |alerts| {
        let mut policy = alerts.policy(Rule::Failures);
        policy.in_a_row = 3;
        alerts.rules.insert(Rule::Failures, policy);
    });
    let job = scene.job("nightly");
    for n in 0..3 {
        scene.fails(job, &format!("failed {n}"));
        for open in 0..30 {
            scene.cluster.run(job, &format!("open {n} {open}"));
        }
    }
    let said = scene.look();
    assert_eq!(said.len(), 1, "{said:?}");
    // So many that the failures are not among those that are read: it stays as it was told.
    for open in 0..1_000 {
        scene.cluster.run(job, &format!("more {open}"));
    }
    assert_eq!(scene.look(), [""; 0]);
    assert_eq!(scene.alerts(Rule::Failures).len(), 1);
}

/// It failed longer ago than is looked back.
#[test]
fn what_outlasts_a_silence_is_found_at_its_end() {
    let until = start() + SignedDuration::from_mins(20);
    let scene = Scene::new(&["ops"], |alerts| {
        alerts.silences.push(Silence {
            rule: None,
            subject: Some("nightly".to_owned()),
            until,
        });
    });
    let job = scene.job("nightly");
    scene.fails(job, "1");
    assert_eq!(scene.look(), [""; 0]);
    scene.cluster.pass(20 * 60);
    scene.pass();
    let said = scene.look();
    assert_eq!(said.len(), 1, "{said:?}");
}

/// More jobs fail than one look judges: those that had no turn have it at the next one.
#[test]
fn what_did_not_fit_into_a_look_has_its_turn_at_the_next() {
    let scene = Scene::new(&["ops"], |_| {});
    for n in 0..350 {
        let job = scene.job(&format!("job-{n:03}"));
        scene.fails(job, "1");
    }
    let other = scene.job("zzz");
    scene.stopped(other, "1", StopCause::Fatal);
    let said = scene.look();
    assert_eq!(said.len(), 1, "{said:?}");
    let alert = scene.alerts(Rule::Failures).remove(0);
    assert_eq!((alert.members.len(), alert.more), (MAX_MEMBERS, true));
    let said = scene.look();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("zzz"), "{said:?}");
}

/// Those that must succeed, whatever runs, and whatever was given up, since.
#[test]
fn no_success_is_of_the_last_success() {
    let scene = Scene::new(&["ops"], |alerts| {
        let nightly = JobName::new("default", "nightly").unwrap();
        alerts.no_success = vec![(nightly, SignedDuration::from_secs(15))];
    });
    scene.job("nightly");
    assert_eq!(scene.look(), [""; 0]);
    let said = [scene.look(), scene.look()].concat();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("no success"), "{said:?}");
}

/// Outside it is known by its silence that nothing is told any more: it hears of looks that went well, as
/// often as it wants, and of a node without the duty nothing.
#[test]
fn a_heartbeat_is_sent_while_looks_go_well_and_not_without_them() {
    let scene = Scene::new(&["ops"], |alerts| {
        alerts.heartbeat = Some(SignedDuration::from_secs(30));
    });
    scene.pass();
    assert_eq!(scene.post.beats(), 1, "at once");
    for _ in 0..6 {
        scene.look();
    }
    assert_eq!(scene.post.beats(), 2, "each thirty seconds of sixty");
    // Whoever can't be reached is called at each look.
    scene.post.deaf.store(true, Ordering::SeqCst);
    for _ in 0..6 {
        scene.look();
    }
    assert_eq!(scene.post.beats(), 4);
    scene.post.deaf.store(false, Ordering::SeqCst);
    scene.look();
    assert_eq!(scene.post.beats(), 1);
    // Its lease is over and it does not know: nobody is told that all is well.
    scene.cluster.pass(60);
    let alerter = scene.node.engine.alerter.as_ref().unwrap();
    let next = block_on(alerter.run_once(scene.cluster.now(), &scene.token)).unwrap();
    assert_eq!((next, scene.post.beats()), (None, 0));
}
