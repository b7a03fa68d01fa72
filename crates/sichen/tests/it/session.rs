//! An SDK worker and a server node talk over a real loopback port; both live in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Map, json};
use sichen_core::access::Bounds;
use sichen_core::document::Document;
use sichen_core::ids::RunId;
use sichen_core::lease::Rhythm;
use sichen_core::lifecycle::RunState;
use sichen_core::name::{JobName, Name};
use sichen_core::port::Store;
use sichen_engine::context::RandomIds;
use sichen_engine::control::{Control, StartRun, Which};
use sichen_engine::driver::{Engine, Running, Settings};
use sichen_sdk::worker::Error;
use sichen_sdk::{Context, Counters, Worker};
use sichen_server::grpc::{self, JoinAuth, Judged, Refusal, Streams};
use sichen_store::clock::SystemClock;
use sichen_store::memory::MemoryStore;

struct Anyone;

impl JoinAuth for Anyone {
    fn judge<'a>(&'a self, token: &'a str) -> Judged<'a> {
        let good = token == "join";
        Box::pin(async move { good.then_some(None).ok_or(Refusal::Unknown) })
    }
}

/// One token, with bounds, until it is taken back.
struct Bound {
    bounds: Bounds,
    revoked: AtomicBool,
}

impl JoinAuth for Bound {
    fn judge<'a>(&'a self, _: &'a str) -> Judged<'a> {
        let over = self.revoked.load(Ordering::SeqCst);
        let bounds = Some(self.bounds.clone());
        Box::pin(async move {
            match over {
                true => Err(Refusal::Over("gpu-host was revoked".to_owned())),
                false => Ok(bounds),
            }
        })
    }
}

struct Server {
    engine: Arc<Engine>,
    running: Running,
    streams: Arc<Streams>,
    address: String,
}

async fn server() -> Server {
    server_with(Arc::new(Anyone)).await
}

async fn server_with(auth: Arc<dyn JoinAuth>) -> Server {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let streams = Arc::new(Streams::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let mut settings = Settings::new(address.clone());
    settings.worker = Rhythm {
        beat: SignedDuration::from_millis(500),
        ttl: SignedDuration::from_secs(3),
    };
    let engine = Arc::new(Engine::new(
        store,
        Arc::new(RandomIds),
        streams.clone(),
        settings,
    ));
    let running = engine.clone().start();
    let service = grpc::service(engine.clone(), streams.clone(), auth, false);
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(incoming),
    );
    Server {
        engine,
        running,
        streams,
        address,
    }
}

async fn settled(engine: &Engine, run: RunId) -> RunState {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let (row, _) = engine.context.store.get_run(run).await.unwrap().unwrap();
        if row.state.is_closed() {
            return row.state;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "the run is still {row:?}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The worker says that it goes and waits for no answer, so its session ends a little later.
async fn drained(engine: &Engine) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(2);
    loop {
        let dump = engine.context.store.dump().await.unwrap();
        if let Some((_, reason)) = &dump.sessions[0].ended {
            assert_eq!(reason, "drained");
            return;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "the session goes on"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_runs_the_shards_of_a_run() {
    let server = server().await;
    let dir = tempfile::tempdir().unwrap();
    let worker = Worker::builder()
        .server(&server.address)
        .join_token("join")
        .name("w1")
        .slots(4)
        .data_dir(dir.path())
        .handler("count", |ctx: Context, (): ()| async move {
            ctx.checkpoint("half", Counters::default()).await?;
            ctx.flush().await?;
            Ok(())
        })
        .build()
        .unwrap();
    let handle = worker.handle();
    let worker = tokio::spawn(worker.run());
    let control = Control::new(server.engine.context.clone());
    let document: Document = serde_json::from_value(json!({
        "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": "j" },
        "spec": { "run": { "handler": "count" }, "shards": { "count": 10 } },
    }))
    .unwrap();
    control.apply("user test", &document).await.unwrap();
    let wanted = StartRun {
        overlap: None,
        job: JobName::new("default", "j").unwrap(),
        which: Which::Manual("k".to_owned()),
        parameters: Map::new(),
        period: None,
        digest: String::new(),
        not_before: None,
    };
    let run = control.start_run("user test", wanted).await.unwrap().run;
    server.engine.wake.dispatch();
    assert_eq!(settled(&server.engine, run).await, RunState::Succeeded);
    handle.drain(5_000).await;
    worker.await.unwrap().unwrap();
    drained(&server.engine).await;
    let dump = server.engine.context.store.dump().await.unwrap();
    assert!(
        dump.shards
            .iter()
            .all(|s| s.checkpoint.position == "half" && s.attempt == 1)
    );
    server.running.stop().await.unwrap();
    server.streams.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_held_to_its_token() {
    let bounds = |pool: &str, handler: &str| {
        let auth = Bound {
            bounds: Bounds::new(Name::new(pool).unwrap(), vec![handler.to_owned()]).unwrap(),
            revoked: AtomicBool::new(false),
        };
        Arc::new(auth)
    };
    let dir = tempfile::tempdir().unwrap();
    let worker = |server: &Server| {
        Worker::builder()
            .server(&server.address)
            .join_token("join")
            .name("w1")
            .data_dir(dir.path())
            .handler("count", |_: Context, (): ()| async move { Ok(()) })
            .build()
            .unwrap()
    };
    for (pool, handler, says) in [
        ("gpu", "count", "pool gpu"),
        ("default", "other", "\"count\""),
    ] {
        let server = server_with(bounds(pool, handler)).await;
        let ended = worker(&server).run().await;
        let Err(Error::Refused { code, message }) = ended else {
            panic!("{ended:?}");
        };
        assert_eq!(code, "outside-join-token");
        assert!(
            message.contains("SC4008") && message.contains(says),
            "{message}"
        );
        let dump = server.engine.context.store.dump().await.unwrap();
        assert_eq!(dump.sessions, [], "nothing was registered");
        server.running.stop().await.unwrap();
    }
    let auth = bounds("default", "count");
    let server = server_with(auth.clone()).await;
    let worker = tokio::spawn(worker(&server).run());
    let sessions = async || {
        server
            .engine
            .context
            .store
            .list_sessions(None)
            .await
            .unwrap()
    };
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while sessions().await.is_empty() {
        assert!(tokio::time::Instant::now() < deadline, "it joins");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    auth.revoked.store(true, Ordering::SeqCst);
    // It is cut at its next beat and let in no more, so its session runs out.
    while !sessions().await.is_empty() {
        assert!(tokio::time::Instant::now() < deadline, "its session ends");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let dump = server.engine.context.store.dump().await.unwrap();
    assert_eq!(dump.sessions.len(), 1, "it did not come again");
    worker.abort();
    server.running.stop().await.unwrap();
}
