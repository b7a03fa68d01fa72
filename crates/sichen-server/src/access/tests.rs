//! Claims about who is believed, for how long, and what that costs.

use sichen_core::access::{NewAccessToken, TokenCreated};
use sichen_core::port::{Op, Page};
use sichen_engine::context::{Context, RandomIds};
use sichen_store::clock::ManualClock;
use sichen_store::memory::MemoryStore;
use tempfile::TempDir;

use super::*;
use crate::auth;

struct World {
    access: Access,
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    _dir: TempDir,
    file: String,
    join: String,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let files = Arc::new(Tokens::open(dir.path()).unwrap());
        let file = auth::read(&dir.path().join(auth::TOKEN_FILE)).unwrap();
        let join = auth::read(&dir.path().join(auth::JOIN_TOKEN_FILE)).unwrap();
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let clock = Arc::new(ManualClock::new(at));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock.clone()));
        Self {
            access: Access::new(files, store.clone()),
            store,
            clock,
            _dir: dir,
            file,
            join,
        }
    }

    fn op(&self) -> Op {
        let ids = Arc::new(RandomIds);
        let store = self.store.clone();
        Context::new(store, ids).op("test")
    }

    /// Makes a token as another node would; its secret.
    async fn make(&self, name: &str, purpose: Purpose, expires_at: Option<Timestamp>) -> String {
        let (secret, digest) = new_secret().unwrap();
        let new = NewAccessToken {
            name: Name::new(name).unwrap(),
            purpose,
            digest,
            expires_at,
        };
        let op = self.op();
        let made = self.store.create_access_token(op, new).await.unwrap();
        assert_eq!(made, TokenCreated::Created);
        secret
    }

    async fn revoke(&self, name: &str) {
        let op = self.op();
        let name = Name::new(name).unwrap();
        self.store.revoke_access_token(op, name).await.unwrap();
    }

    fn pass(&self, seconds: u32) {
        self.clock
            .advance(SignedDuration::from_secs(seconds.into()));
        *self.access.at.lock().unwrap() += Duration::from_secs(seconds.into());
    }

    async fn verdict(&self, secret: &str) -> &'static str {
        match self.access.caller(secret).await {
            Ok(_) => "believed",
            Err(Refusal::Unknown) => "unknown",
            Err(Refusal::Over(_)) => "over",
            Err(Refusal::Away(_)) => "away",
        }
    }
}

fn viewer() -> Purpose {
    Purpose::Api(Grants::everywhere(Role::Viewer))
}

#[tokio::test]
async fn a_token_taken_back_elsewhere_is_refused_within_two_seconds() {
    let world = World::new();
    let secret = world.make("ci", viewer(), None).await;
    assert_eq!(world.verdict(&secret).await, "believed");
    let caller = world.access.caller(&secret).await.unwrap();
    world.revoke("ci").await;
    // Nothing was asked of the store: the copy answers.
    assert_eq!(world.verdict(&secret).await, "believed");
    world.pass(2);
    assert_eq!(world.verdict(&secret).await, "over");
    assert!(
        !world.access.still(&caller).await,
        "who is here already is let go"
    );
}

/// While the store hangs, one request in two seconds waits for it, and the others do not.
#[tokio::test]
async fn after_a_read_that_failed_the_older_copy_answers_at_once() {
    let world = World::new();
    let secret = world.make("ci", viewer(), None).await;
    assert_eq!(world.verdict(&secret).await, "believed");
    world.revoke("ci").await;
    world.pass(3);
    *world.access.reading.lock().await = Some(world.access.instant());
    assert_eq!(
        world.verdict(&secret).await,
        "believed",
        "the store is not asked"
    );
    world.pass(2);
    assert_eq!(world.verdict(&secret).await, "over", "it is asked again");
    world.pass(20);
    *world.access.reading.lock().await = Some(world.access.instant());
    assert_eq!(
        world.verdict(&secret).await,
        "away",
        "the copy is too old to be believed"
    );
}

#[tokio::test]
async fn what_a_node_changes_itself_it_sees_at_once() {
    let world = World::new();
    let early = world.make("early", viewer(), None).await;
    assert_eq!(world.verdict(&early).await, "believed");
    let late = world.make("late", viewer(), None).await;
    assert_eq!(
        world.verdict(&late).await,
        "unknown",
        "the copy is two seconds good"
    );
    world.access.forget();
    assert_eq!(world.verdict(&late).await, "believed");
    world.revoke("early").await;
    world.access.forget();
    assert_eq!(world.verdict(&early).await, "over");
}

#[tokio::test]
async fn a_token_ends_at_its_instant_though_the_copy_is_fresh() {
    let world = World::new();
    let end = world.store.now().await.unwrap() + SignedDuration::from_secs(1);
    let secret = world.make("short", viewer(), Some(end)).await;
    assert_eq!(world.verdict(&secret).await, "believed");
    world.pass(1);
    assert_eq!(world.verdict(&secret).await, "over");
}

#[tokio::test]
async fn a_token_opens_one_thing_alone() {
    let world = World::new();
    let bounds = Bounds::new(Name::new("gpu").unwrap(), Vec::new()).unwrap();
    let join = world.make("gpu", Purpose::Join(bounds.clone()), None).await;
    let api = world.make("ci", viewer(), None).await;
    assert_eq!(world.verdict(&join).await, "unknown");
    assert!(matches!(world.access.judge(&join).await, Ok(Some(b)) if b == bounds));
    assert!(world.access.judge(&api).await.is_err());
    assert!(matches!(world.access.judge(&world.join).await, Ok(None)));
    assert!(world.access.judge(&world.file).await.is_err());
    assert_eq!(world.verdict(&world.join).await, "unknown");
    assert_eq!(world.verdict(&world.file).await, "believed");
}

#[tokio::test]
async fn what_is_no_secret_is_unknown_whatever_it_looks_like() {
    let world = World::new();
    let secret = world.make("ci", viewer(), None).await;
    let upper = secret.to_uppercase();
    let long = format!("{secret}{}", "0".repeat(MAX_TOKEN_BYTES));
    let wrong = [
        "",
        " ",
        "null",
        "ci",
        "sct_",
        "token ci",
        &secret[1..],
        &secret[..67],
        &upper,
        &long,
    ];
    for wrong in wrong {
        assert_eq!(world.verdict(wrong).await, "unknown", "{wrong:?}");
    }
    // A row's digest is no secret.
    let page = Page {
        after: None,
        limit: 1,
    };
    let row = world
        .store
        .list_access_tokens(page)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(world.verdict(&row.asked.digest).await, "unknown");
    assert_eq!(
        world
            .verdict(&format!("{PREFIX}{}", row.asked.digest))
            .await,
        "unknown"
    );
}

#[tokio::test]
async fn a_use_is_noted_every_five_minutes_at_most() {
    let world = World::new();
    let secret = world.make("ci", viewer(), None).await;
    let used = async |world: &World| {
        let page = Page {
            after: None,
            limit: 1,
        };
        let row = world
            .store
            .list_access_tokens(page)
            .await
            .unwrap()
            .remove(0);
        row.used_at
    };
    assert_eq!(world.verdict(&secret).await, "believed");
    let first = used(&world).await.unwrap();
    for _ in 0..29 {
        world.pass(10);
        assert_eq!(world.verdict(&secret).await, "believed");
        assert_eq!(used(&world).await, Some(first));
    }
    world.pass(10);
    assert_eq!(world.verdict(&secret).await, "believed");
    assert_eq!(
        used(&world).await,
        Some(first + SignedDuration::from_mins(5))
    );
}
