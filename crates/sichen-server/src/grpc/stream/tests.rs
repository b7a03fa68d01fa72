//! Which stream serves a session, and what its end means.

use std::time::Duration;

use jiff::Timestamp;
use sichen_engine::context::RandomIds;
use sichen_engine::driver::Settings;
use sichen_store::clock::ManualClock;
use sichen_store::memory::MemoryStore;
use tokio::sync::mpsc;

use super::super::{JoinAuth, Judged};
use super::*;

mod fuzz;

struct Anybody;

impl JoinAuth for Anybody {
    fn judge<'a>(&'a self, _: &'a str) -> Judged<'a> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

struct World {
    engine: Arc<Engine>,
    streams: Arc<Streams>,
}

impl World {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::new(
            Timestamp::from_second(1_800_000_000).unwrap(),
        ));
        let streams = Arc::new(Streams::default());
        let engine = Engine::new(
            Arc::new(MemoryStore::new(clock)),
            Arc::new(RandomIds),
            streams.clone(),
            Settings::new("here".to_owned()),
        );
        let now = engine.context.store.now().await.unwrap();
        engine.coordinator.run_once(now).await.unwrap();
        let engine = Arc::new(engine);
        Self { engine, streams }
    }

    fn stream(&self) -> (Stream, mpsc::Receiver<Result<v1::ServerMessage, Status>>) {
        let (out, answers) = mpsc::channel(16);
        let pass = Pass {
            auth: Arc::new(Anybody),
            token: String::new(),
            peer: None,
            certified: false,
        };
        let stream = Stream::new(self.engine.clone(), self.streams.clone(), out, pass);
        (stream, answers)
    }
}

fn hello(registration: u64, resume_session: Option<SessionId>) -> v1::Hello {
    v1::Hello {
        protocol_version: PROTOCOL_VERSION,
        worker_name: "w".to_owned(),
        worker_uid: "uid".to_owned(),
        boot_id: "boot".to_owned(),
        incarnation: "first".to_owned(),
        start: 1,
        registration,
        pool: "default".to_owned(),
        slots: 1,
        handlers: vec!["h".to_owned()],
        resume_session: resume_session.map(|session| session.0),
        ..v1::Hello::default()
    }
}

#[tokio::test]
async fn the_end_of_an_old_stream_does_not_end_what_a_newer_one_serves() {
    let world = World::new().await;
    let (mut old, _answers) = world.stream();
    old.hello(hello(1, None)).await.unwrap();
    let session = old.session.unwrap();
    let (mut new, _more) = world.stream();
    new.hello(hello(1, Some(session))).await.unwrap();
    assert_eq!(new.session, Some(session));
    // With nothing to do it would be over as soon as its stream is.
    world.engine.sessions.draining(session).await.unwrap();
    old.end().await;
    let ended = async || {
        let found = world.engine.context.store.get_session(session).await;
        found.unwrap().unwrap().ended
    };
    assert_eq!(ended().await, None);
    assert!(world.streams.way_to(session).is_some());
    new.end().await;
    assert!(ended().await.is_some());
    assert!(world.streams.way_to(session).is_none());
}

#[tokio::test]
async fn a_second_hello_on_a_stream_leaves_nothing_of_the_first() {
    let world = World::new().await;
    let (mut stream, _answers) = world.stream();
    stream.hello(hello(1, None)).await.unwrap();
    let first = stream.session.unwrap();
    stream.hello(hello(2, None)).await.unwrap();
    let second = stream.session.unwrap();
    assert_ne!(first, second);
    assert!(world.streams.way_to(first).is_none());
    assert!(world.streams.way_to(second).is_some());
    // Nor one that asks for what is not there.
    stream.hello(hello(2, Some(SessionId(99)))).await.unwrap();
    assert!(world.streams.way_to(second).is_none());
}

#[tokio::test]
async fn a_queue_that_stays_full_cuts_the_stream() {
    let (out, mut answers) = mpsc::channel(1);
    let within = Duration::from_millis(10);
    put(&out, convert::session_lost(), within).await.unwrap();
    put(&out, convert::session_lost(), within)
        .await
        .unwrap_err();
    answers.recv().await.unwrap().unwrap();
    put(&out, convert::session_lost(), within).await.unwrap();
}
