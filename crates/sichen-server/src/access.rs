//! Who asks, and whether a token is believed.
//!
//! # Invariants
//! - A request costs no statement: a node judges from a copy of all tokens, read again when a request
//!   finds it older than [`FRESH`]. What a node itself changes it sees at once.
//! - While the store is away the copy is believed for [`STALE`]; then tokens of rows are neither
//!   believed nor refused. The tokens of files always work.
//! - A token is found by its digest, so no time tells how much of a guess was right, or which names
//!   there are. Whoever has a token's secret is told that it is over; nobody else is told anything.
//!
//! # Not here
//! The tokens of files ([`crate::auth`]); people and their browsers ([`people`]); what a caller may do
//! (`sichen_core::access`, `rest`).

mod people;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rand::TryRngCore;
use sichen_core::access::{AccessToken, Bounds, Grants, Purpose, Role};
use sichen_core::name::Name;
use sichen_core::port::{self, Believed, Store};
use sichen_core::user::User;
use tokio::time::Instant;

use crate::auth::{MAX_TOKEN_BYTES, Secret, Tokens};
use crate::grpc::{JoinAuth, Judged};
use crate::password::Hasher;
use crate::rest::keyed::Keyed;
use crate::throttle::Throttle;

pub(crate) use people::{Denied, seconds};

/// How long a copy of the tokens is believed without another look.
pub(crate) const FRESH: Duration = Duration::from_secs(2);
/// How long it is believed while the store does not answer.
pub(crate) const STALE: Duration = Duration::from_secs(10);
/// How long the time that passes here is added to what the store's clock said, to judge what expires.
const CLOCK_FOR: Duration = Duration::from_secs(10);
/// How long the store may take to tell the tokens.
const READ_WITHIN: Duration = Duration::from_secs(3);
/// How often the use of one token is noted.
const NOTED_EACH: SignedDuration = SignedDuration::from_mins(5);
/// What the secrets of rows begin with, so that a search for lost secrets finds them.
const PREFIX: &str = "sct_";
/// Who has the token of the file.
const OWNER: &str = "user api";

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// As events name him.
    pub actor: Arc<str>,
    /// What he may do.
    pub grants: Arc<Grants>,
    /// Until when.
    pub expires_at: Option<Timestamp>,
    /// What his token, or his login, is found by, if it is kept in the store.
    found_by: FoundBy,
    /// The idempotency key of what he asks, if it has one.
    pub keyed: Option<Arc<Keyed>>,
}

impl Caller {
    /// Whether his token is one of many, which can be taken back.
    pub(crate) fn is_row(&self) -> bool {
        !matches!(self.found_by, FoundBy::File)
    }
}

/// What a caller is found by.
#[derive(Clone, Debug)]
enum FoundBy {
    /// The token of a file, or nothing.
    File,
    /// A token of the store, by its digest.
    Token(Secret),
    /// A login of a user, by its cookie's digest.
    Login(Secret),
}

/// Why a token is not believed.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// There is none, or it is not known.
    Unknown,
    /// It was good once; with its name and what became of it.
    Over(String),
    /// Nobody can tell now.
    Away(String),
}

/// Judges the tokens of a node's clients.
pub(crate) struct Access {
    files: Arc<Tokens>,
    store: Arc<dyn Store>,
    copy: RwLock<Arc<Copy>>,
    /// Held while the tokens are read; when that failed last.
    reading: tokio::sync::Mutex<Option<Instant>>,
    /// How often this node changed a token.
    changes: AtomicU64,
    noted: Mutex<HashMap<Name, Instant>>,
    owner: Caller,
    hasher: Hasher,
    throttle: Throttle,
    /// The time of tests, which they move by hand.
    #[cfg(test)]
    at: Mutex<Instant>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

/// All tokens, as they were at one moment.
#[derive(Default)]
struct Copy {
    read: Option<Instant>,
    /// What the store's clock said, and when: it is asked more seldom.
    clock: Option<(Instant, Timestamp)>,
    by_digest: HashMap<Secret, AccessToken>,
    /// Users by the digests of their logins.
    by_login: HashMap<Secret, Arc<User>>,
}

impl Copy {
    fn is_within(&self, age: Duration, instant: Instant) -> bool {
        self.read.is_some_and(|at| instant.duration_since(at) < age)
    }

    /// The store's clock, by the time that has passed since.
    fn now(&self, instant: Instant) -> Timestamp {
        let (at, now) = self.clock.unwrap_or((instant, Timestamp::MAX));
        let passed = SignedDuration::try_from(instant.duration_since(at)).unwrap_or_default();
        now.checked_add(passed).unwrap_or(Timestamp::MAX)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "ages a copy, decides nothing in the store"
)]
fn begin() -> Instant {
    Instant::now()
}

/// A new secret and its digest: 32 random bytes.
///
/// # Errors
/// If the system has no random numbers.
pub(crate) fn new_secret() -> Result<(String, String), rand::rand_core::OsError> {
    let mut bytes = [0u8; 32];
    rand::rngs::OsRng.try_fill_bytes(&mut bytes)?;
    let text: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let text = format!("{PREFIX}{text}");
    let digest = Secret::of(&text).to_string();
    Ok((text, digest))
}

/// The secret, and its digest, of a request that may come again: the same each time, and known to nobody
/// who does not know `bearer`, the token of who asks.
pub(crate) fn derived_secret(bearer: &str, of: &[&str]) -> (String, String) {
    let mut parts = format!("sichen derived secret {} {bearer}", bearer.len());
    for part in of {
        parts.push_str(&format!(" {} {part}", part.len()));
    }
    // Twice, so that nothing can be added to what was hashed.
    let inner = Secret::of(&parts).to_string();
    let text = format!("{PREFIX}{}", Secret::of(&inner));
    let digest = Secret::of(&text).to_string();
    (text, digest)
}

impl Access {
    pub(crate) fn new(files: Arc<Tokens>, store: Arc<dyn Store>) -> Self {
        Self {
            files,
            store,
            copy: RwLock::default(),
            reading: tokio::sync::Mutex::default(),
            changes: AtomicU64::new(0),
            noted: Mutex::default(),
            owner: Caller {
                actor: OWNER.into(),
                grants: Arc::new(Grants::everywhere(Role::Admin)),
                expires_at: None,
                found_by: FoundBy::File,
                keyed: None,
            },
            hasher: Hasher::default(),
            throttle: Throttle::default(),
            #[cfg(test)]
            at: Mutex::new(begin()),
        }
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests have a time of their own")]
    fn instant(&self) -> Instant {
        begin()
    }

    #[cfg(test)]
    fn instant(&self) -> Instant {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who asks the API with `token`.
    pub(crate) async fn caller(&self, token: &str) -> Result<Caller, Refusal> {
        if self.files.may_ask(token) {
            return Ok(self.owner.clone());
        }
        Self::asking(&self.row(token).await?)
    }

    /// Who asks without a token, and whose certificate stands for the token of this name.
    pub(crate) async fn named_caller(&self, name: &str) -> Result<Caller, Refusal> {
        Self::asking(&self.named(name).await?)
    }

    fn asking(found: &AccessToken) -> Result<Caller, Refusal> {
        match &found.asked.purpose {
            Purpose::Api(grants) => Ok(Caller {
                actor: format!("token {}", found.asked.name).into(),
                grants: Arc::new(grants.clone()),
                expires_at: found.asked.expires_at,
                found_by: Secret::parse(&found.asked.digest).map_or(FoundBy::File, FoundBy::Token),
                keyed: None,
            }),
            Purpose::Join(_) => Err(Refusal::Unknown),
        }
    }

    /// Whether a caller of a while ago is still believed; while nobody can tell, he is.
    pub(crate) async fn still(&self, caller: &Caller) -> bool {
        let Ok(copy) = self.fresh().await else {
            return true;
        };
        let now = copy.now(self.instant());
        match &caller.found_by {
            FoundBy::File => true,
            FoundBy::Token(digest) => {
                let found = copy.by_digest.get(digest);
                found.is_some_and(|token| token.is_live(now))
            }
            FoundBy::Login(digest) => {
                let found = copy.by_login.get(digest);
                found.is_some_and(|user| people::login(user, digest, now).is_some())
            }
        }
    }

    /// What a worker with `token` may be; anything, if there are no bounds.
    async fn joiner(&self, token: &str) -> Result<Option<Bounds>, Refusal> {
        if self.files.may_join(token) {
            return Ok(None);
        }
        Self::joining(self.row(token).await?)
    }

    fn joining(found: AccessToken) -> Result<Option<Bounds>, Refusal> {
        match found.asked.purpose {
            Purpose::Join(bounds) => Ok(Some(bounds)),
            Purpose::Api(_) => Err(Refusal::Unknown),
        }
    }

    /// The live token of this name.
    async fn named(&self, name: &str) -> Result<AccessToken, Refusal> {
        let copy = self.fresh().await;
        let copy = copy.map_err(|e| Refusal::Away(e.to_string()))?;
        let mut all = copy.by_digest.values();
        let found = all.find(|token| token.asked.name.as_str() == name);
        self.live(found.ok_or(Refusal::Unknown)?, &copy).await
    }

    /// The live token whose secret this is.
    async fn row(&self, token: &str) -> Result<AccessToken, Refusal> {
        if !token.starts_with(PREFIX) || token.len() > MAX_TOKEN_BYTES {
            return Err(Refusal::Unknown);
        }
        let copy = self
            .fresh()
            .await
            .map_err(|e| Refusal::Away(e.to_string()))?;
        let found = copy.by_digest.get(&Secret::of(token));
        self.live(found.ok_or(Refusal::Unknown)?, &copy).await
    }

    /// A token, if it is not over.
    async fn live(&self, found: &AccessToken, copy: &Copy) -> Result<AccessToken, Refusal> {
        let name = &found.asked.name;
        if let Some(at) = found.revoked_at {
            return Err(Refusal::Over(format!("{name} was revoked at {at}")));
        }
        let now = copy.now(self.instant());
        if !found.is_live(now) {
            return Err(Refusal::Over(format!("{name} has expired")));
        }
        self.note(found, now).await;
        Ok(found.clone())
    }

    /// Sees to it that the next request reads the tokens again.
    pub(crate) fn forget(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        *self.copy.write().unwrap_or_else(PoisonError::into_inner) = Arc::default();
    }

    fn kept(&self) -> Arc<Copy> {
        self.copy
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// A copy that may be believed, read anew if need be: by one request, while others wait for it.
    async fn fresh(&self) -> Result<Arc<Copy>, port::Error> {
        let kept = self.kept();
        if kept.is_within(FRESH, self.instant()) {
            return Ok(kept);
        }
        let mut failed = self.reading.lock().await;
        let kept = self.kept();
        if kept.is_within(FRESH, self.instant()) {
            return Ok(kept);
        }
        let silent = || port::Error::Unavailable("it does not answer".to_owned());
        let or_stale = |error| match kept.is_within(STALE, self.instant()) {
            true => Ok(kept.clone()),
            false => Err(error),
        };
        // Each of many that wait here would else try for as long.
        if failed.is_some_and(|at| self.instant().duration_since(at) < FRESH) {
            return or_stale(silent());
        }
        // Its age counts from before it was asked for.
        let began = self.instant();
        let changes = self.changes.load(Ordering::SeqCst);
        let read = tokio::time::timeout(READ_WITHIN, self.read(began)).await;
        *failed = None;
        match read.unwrap_or_else(|_| Err(silent())) {
            Ok(copy) => {
                let copy = Arc::new(copy);
                let mut kept = self.copy.write().unwrap_or_else(PoisonError::into_inner);
                // What was read before a change is good for this request alone.
                if changes == self.changes.load(Ordering::SeqCst) {
                    *kept = copy.clone();
                }
                Ok(copy)
            }
            Err(error) => {
                tracing::debug!(%error, "the tokens can't be read");
                *failed = Some(self.instant());
                or_stale(error)
            }
        }
    }

    async fn read(&self, began: Instant) -> Result<Copy, port::Error> {
        let kept = self.kept();
        let clock = match kept.clock {
            Some(clock) if began.duration_since(clock.0) < CLOCK_FOR => clock,
            Some(_) | None => (began, self.store.now().await?),
        };
        let Believed { tokens, users } = self.store.list_believed().await?;
        let tokens = tokens.into_iter().filter_map(|token| {
            let digest = Secret::parse(&token.asked.digest)?;
            Some((digest, token))
        });
        Ok(Copy {
            read: Some(began),
            clock: Some(clock),
            by_digest: tokens.collect(),
            by_login: people::by_login(users),
        })
    }

    /// Notes that a token is used: a write each [`NOTED_EACH`], not one a request.
    async fn note(&self, token: &AccessToken, now: Timestamp) {
        let old = now.checked_sub(NOTED_EACH).unwrap_or(Timestamp::MIN);
        if token.used_at.is_some_and(|at| at > old) {
            return;
        }
        let each = Duration::try_from(NOTED_EACH).unwrap_or_default();
        {
            let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
            let instant = self.instant();
            noted.retain(|_, at| instant.duration_since(*at) < each);
            if noted.contains_key(&token.asked.name) {
                return;
            }
            noted.insert(token.asked.name.clone(), instant);
        }
        let names = vec![token.asked.name.clone()];
        if let Err(error) = self.store.note_access_tokens(names).await {
            tracing::debug!(%error, token = %token.asked.name, "its use is not noted");
        }
    }
}

impl JoinAuth for Access {
    fn judge<'a>(&'a self, token: &'a str) -> Judged<'a> {
        Box::pin(self.joiner(token))
    }

    fn judge_named<'a>(&'a self, name: &'a str) -> Judged<'a> {
        Box::pin(async move { Self::joining(self.named(name).await?) })
    }
}

#[cfg(test)]
mod tests;
