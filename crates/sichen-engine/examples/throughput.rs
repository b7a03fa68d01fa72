//! How many shards of one run the duties move per second, store and duties alone.
//!
//! `cargo run --profile sim -p sichen-engine --example throughput -- [shards] [slots]`
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a measuring tool"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures::executor::block_on;
use sichen_core::document::{Document, Request, new_run};
use sichen_core::ids::{JobUid, Occasion, OpId, Revision, SessionId};
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::{Appearance, WorkerIdentity};
use sichen_core::name::Name;
use sichen_core::port::{ApplyJob, CreateVerdict, Op, Returned, Store};
use sichen_engine::context::{IdSource, RandomIds};
use sichen_engine::courier::{Courier, ToWorker};
use sichen_engine::driver::{Engine, Settings};
use sichen_engine::sessions::{Hello, HelloAnswer, Report};
use sichen_store::clock::SystemClock;
use sichen_store::sqlite::SqliteStore;

#[derive(Default)]
struct Mail(Mutex<BTreeMap<SessionId, Vec<ToWorker>>>);

impl Courier for Mail {
    fn deliver(&self, session: SessionId, message: ToWorker) -> bool {
        self.0
            .lock()
            .unwrap()
            .entry(session)
            .or_default()
            .push(message);
        true
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let shards: u32 = args.next().map_or(100_000, |a| a.parse().unwrap());
    let slots: u32 = args.next().map_or(64, |a| a.parse().unwrap());
    let dir = std::env::temp_dir().join(format!("sichen-throughput-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&dir, Arc::new(SystemClock)).unwrap());
    let mail = Arc::new(Mail::default());
    let engine = Engine::new(
        store.clone(),
        Arc::new(RandomIds),
        mail.clone(),
        Settings::new("n1".into()),
    );
    block_on(run(&engine, &mail, shards, slots));
    std::fs::remove_dir_all(&dir).unwrap();
}

async fn run(engine: &Engine, mail: &Mail, shards: u32, slots: u32) {
    let store = &engine.context.store;
    let now = store.now().await.unwrap();
    engine.coordinator.run_once(now).await.unwrap();
    let mut sessions = Vec::new();
    for w in 0..3 {
        let hello = Hello {
            worker: WorkerIdentity {
                name: Name::new(&format!("w{w}")).unwrap(),
                uid: format!("u{w}"),
                boot_id: "b".into(),
                incarnation: "i".into(),
            },
            appearance: Appearance {
                start: 1,
                registration: 1,
            },
            pool: Name::new("default").unwrap(),
            slots,
            handlers: vec!["h".into()],
            offer: sichen_core::place::Offer::default(),
            draining: false,
            resume: None,
            running: vec![],
            highest_grant_seen: 0,
            journal: vec![],
            dead: vec![],
            old_trees_dead: true,
        };
        match engine.sessions.hello(hello, now).await.unwrap() {
            HelloAnswer::Welcome { session, .. } => sessions.push(session),
            other => panic!("{other:?}"),
        }
    }
    let document: Document = serde_json::from_value(serde_json::json!({
        "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": "j" },
        "spec": { "run": { "handler": "h" }, "shards": { "count": shards } },
    }))
    .unwrap();
    let uid = JobUid(RandomIds.uuid());
    let op = || Op {
        id: OpId(RandomIds.uuid()),
        actor: "bench".into(),
        hold: None,
    };
    let apply = ApplyJob {
        zones: None,
        name: document.job_name().unwrap(),
        new_uid: uid,
        expected_ver: None,
        document: serde_json::to_string(&document).unwrap(),
        high_water: now,
        next_due: None,
        follow: None,
        counted: true,
        closing: None,
        calendars: Vec::new(),
        uses: sichen_core::capacity::Uses::default(),
        cause: String::new(),
    };
    store.apply_job(op(), apply).await.unwrap();
    let request = Request {
        job: uid,
        revision: Revision(1),
        occasion: Occasion::Manual { key: "k".into() },
        period: None,
        parameters: serde_json::Map::new(),
        digest: String::new(),
    };
    let started = Instant::now();
    let new = new_run(&document, request, now).unwrap();
    let created = store.create_runs(op(), vec![], vec![new]).await.unwrap();
    let Some(CreateVerdict::Created(run, _)) = created.first() else {
        panic!("{created:?}")
    };
    println!("written: {shards} shards in {:?}", started.elapsed());
    let started = Instant::now();
    let (mut dispatching, mut reporting, mut passes) = (0.0, 0.0, 0u32);
    loop {
        let now = store.now().await.unwrap();
        engine.coordinator.run_once(now).await.unwrap();
        let t = Instant::now();
        let pass = engine.dispatcher.run_once(now).await.unwrap();
        dispatching += t.elapsed().as_secs_f64();
        passes += 1;
        if pass.granted == 0 {
            break;
        }
        let boxes = std::mem::take(&mut *mail.0.lock().unwrap());
        for (session, messages) in boxes {
            let reports = messages.into_iter().map(|m| match m {
                ToWorker::Grant(work) => Report {
                    key: work.shard.key,
                    token: work.shard.token,
                    ending: Ending::Succeeded,
                    digest: "d".into(),
                    failure: None,
                    progress: None,
                    plan: None,
                    run_key: String::new(),
                    returned: Returned::Nothing,
                },
                other => panic!("{other:?}"),
            });
            let t = Instant::now();
            let actor = format!("worker {session}");
            engine.sessions.report(&*actor, reports.collect()).await;
            reporting += t.elapsed().as_secs_f64();
        }
    }
    let all = started.elapsed().as_secs_f64();
    let (row, _) = store.get_run(*run).await.unwrap().unwrap();
    println!(
        "{} after {all:.2} s: {:.0} shards/s",
        row.state,
        f64::from(shards) / all
    );
    println!("{passes} passes: dispatch {dispatching:.2} s, report {reporting:.2} s");
}
