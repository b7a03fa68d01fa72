//! Logging in with a provider that knows people already: OpenID Connect, by a code and proof of its possession.
//!
//! A browser is sent to the provider with a number of its own (`state`), one for the token (`nonce`) and the
//! digest of a third (`verifier`); it keeps all three in a cookie. It comes back with a code, which is good only
//! with the third, for a token that has the second. So a code that was meant for another browser logs nobody in.
//!
//! # Invariants
//! - Who comes back must have been sent from here, in this browser, a few minutes ago at most, and once.
//! - Where he goes afterwards is said by nothing that he brings along.
//!
//! # Not here
//! Users and their logins ([`crate::access`]), addresses and cookies (`rest`).

pub mod mapping;
mod remote;
mod token;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use rand::TryRngCore as _;
use reqwest::Url;
use rustls::pki_types::CertificateDer;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use sichen_core::access::Grants;
use sichen_core::name::Name;
use sichen_core::user::Identity;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use mapping::Mapping;
use remote::{Asker, Remote, Trouble};
use token::{Bad, Claims, Expected, Keys};

pub use mapping::{MAX_RULES, MAX_VALUES, Rule};
pub use remote::MAX_ANSWER_BYTES;
pub use token::{MAX_KEYS, MAX_SKEW_SECONDS, MAX_SUBJECT_BYTES, MAX_TOKEN_BYTES};

/// How long a browser may be at the provider, in seconds.
pub const MAX_AWAY_SECONDS: u64 = 600;
/// Codes that are exchanged at once; more are asked to come again.
pub const MAX_EXCHANGES: usize = 8;
/// Numbers of browsers that have come back, which are remembered as long as they could come again.
pub const MAX_SPENT: usize = 10_000;
/// The longest code, in bytes.
const MAX_CODE_BYTES: usize = 4_096;
/// Bytes of each number.
const NUMBER_BYTES: usize = 32;
/// The way back, below the console's address.
const BACK: &str = "/api/v1/login/oidc/callback";

/// A provider, and what is believed of what it says.
#[derive(Clone)]
pub struct Settings {
    /// What people call it.
    pub name: String,
    /// As it names itself, letter by letter.
    pub issuer: String,
    /// As it knows this installation.
    pub client: String,
    /// By which it knows that it is this installation; without one the proof of possession alone.
    pub secret: Option<String>,
    /// Where browsers find the console.
    pub console: Url,
    /// What is asked for, beside `openid`.
    pub scopes: Vec<String>,
    /// What may vouch for it; the system's certificates, if nothing is said.
    pub roots: Option<Vec<CertificateDer<'static>>>,
    /// Who somebody is here.
    pub mapping: Mapping,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Settings");
        shown.field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// What is wrong with an issuer's or the console's address, if anything is.
///
/// # Errors
/// If it is neither `https` nor on this machine, or has a query, a fragment or a password.
pub fn check_address(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_| "is no address")?;
    if url.scheme() != "https" && !remote::is_local(&url) {
        return Err("must begin with https:// (http:// is for this machine alone)");
    }
    let plain = url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    match plain {
        true => Ok(url),
        false => Err("has a query, a fragment or a password"),
    }
}

/// Why nobody was let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error("SC6039: the provider can't be asked: {0}")]
    Away(String),
    #[error(
        "SC6040: nobody was sent to the provider from this browser lately, or he has come back already"
    )]
    Unasked,
    #[error("SC6041: the provider let nobody in ({0})")]
    Refused(String),
    #[error("SC6042: what the provider says is not believed: {0}")]
    Unbelieved(String),
    #[error("SC6043: the provider knows him, and he may not log in here: {0}")]
    Unfit(String),
    #[error("SC6033: {MAX_EXCHANGES} logins are with the provider; come again later")]
    Busy,
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Self {
        match trouble.is_refusal {
            true => Self::Refused(trouble.why),
            false => Self::Away(trouble.why),
        }
    }
}

impl From<Bad> for Error {
    fn from(bad: Bad) -> Self {
        Self::Unbelieved(format!("of the token: {bad}"))
    }
}

/// A browser that is sent to the provider.
pub(crate) struct Sent {
    pub to: String,
    /// What it keeps until it comes back.
    pub kept: String,
}

/// What a browser brings back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Brought {
    pub state: Option<String>,
    pub code: Option<String>,
    pub issuer: Option<String>,
    pub error: Option<String>,
}

/// Whom the provider knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub identity: Identity,
    pub name: Name,
    pub grants: Grants,
}

/// The way by a provider.
pub struct Oidc {
    settings: Settings,
    remote: Remote,
    room: Semaphore,
    spent: Mutex<HashMap<String, Instant>>,
}

impl fmt::Debug for Oidc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

impl Oidc {
    /// A way by this provider, who is asked at the first login.
    ///
    /// # Errors
    /// If there can be no client.
    pub fn new(settings: Settings) -> Result<Self, String> {
        let asker = Asker {
            client: settings.client.clone(),
            secret: settings.secret.clone(),
        };
        let remote = Remote::new(settings.issuer.clone(), asker, settings.roots.clone())?;
        Ok(Self {
            settings,
            remote,
            room: Semaphore::new(MAX_EXCHANGES),
            spent: Mutex::default(),
        })
    }

    /// What people call the provider.
    pub(crate) fn name(&self) -> &str {
        &self.settings.name
    }

    /// Whether browsers come to the console by TLS.
    pub(crate) fn is_private(&self) -> bool {
        self.settings.console.scheme() == "https"
    }

    fn back(&self) -> String {
        let console = self.settings.console.as_str().trim_end_matches('/');
        format!("{console}{BACK}")
    }

    /// Sends a browser to the provider.
    pub(crate) async fn begin(&self) -> Result<Sent, Error> {
        let about = self.remote.about().await.map_err(Error::Away)?;
        let drawn = || drawn().ok_or_else(|| Error::Away("there are no random numbers".to_owned()));
        let (state, nonce, verifier) = (drawn()?, drawn()?, drawn()?);
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let mut scopes = vec!["openid"];
        let more = self.settings.scopes.iter().map(String::as_str);
        scopes.extend(more.filter(|scope| *scope != "openid"));
        let mut to = about.authorization_endpoint.clone();
        to.query_pairs_mut().extend_pairs([
            ("response_type", "code"),
            ("client_id", &self.settings.client),
            ("redirect_uri", &self.back()),
            ("scope", &scopes.join(" ")),
            ("state", &state),
            ("nonce", &nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        Ok(Sent {
            to: to.into(),
            kept: format!("{state}.{nonce}.{verifier}"),
        })
    }

    /// Who has come back, with what his browser `kept`.
    pub(crate) async fn finish(
        &self,
        brought: Brought,
        kept: Option<&str>,
        now: Timestamp,
    ) -> Result<Person, Error> {
        let kept = kept.and_then(Kept::read).ok_or(Error::Unasked)?;
        let state = brought.state.ok_or(Error::Unasked)?;
        if !same(&state, kept.state) || !self.spend(kept.state) {
            return Err(Error::Unasked);
        }
        let Ok(_room) = self.room.try_acquire() else {
            return Err(Error::Busy);
        };
        let about = self.remote.about().await.map_err(Error::Away)?;
        let own = brought.issuer.as_deref() == Some(self.settings.issuer.as_str());
        let silent =
            brought.issuer.is_none() && !about.authorization_response_iss_parameter_supported;
        if !own && !silent {
            let why = "its answer names another issuer, or none";
            return Err(Error::Unbelieved(why.to_owned()));
        }
        if let Some(error) = brought.error {
            return Err(Error::Refused(word(&error)));
        }
        let code = brought.code.filter(|code| code.len() <= MAX_CODE_BYTES);
        let code = code.ok_or_else(|| Error::Refused("no code".to_owned()))?;
        let back = self.back();
        let given = self.remote.exchange(&code, kept.verifier, &back).await?;
        let claims = self.believed(&given.id_token, kept.nonce, now).await?;
        let all = self.filled(&claims, &given).await?;
        let who = self.settings.mapping.who(&all);
        let (name, grants) = who.map_err(|unfit| Error::Unfit(unfit.to_string()))?;
        Ok(Person {
            identity: Identity {
                issuer: self.settings.issuer.clone(),
                subject: claims.subject,
            },
            name,
            grants,
        })
    }

    async fn believed(&self, token: &str, nonce: &str, now: Timestamp) -> Result<Claims, Error> {
        let expected = Expected {
            issuer: &self.settings.issuer,
            client: &self.settings.client,
            nonce,
        };
        let read = |keys: &Keys| token::read(token, keys, expected, now);
        let keys = self.remote.keys(false).await.map_err(Error::Away)?;
        match read(&keys) {
            // It may sign with a new one.
            Err(Bad::UnknownKey) => {
                let keys = self.remote.keys(true).await.map_err(Error::Away)?;
                Ok(read(&keys)?)
            }
            other => Ok(other?),
        }
    }

    /// The claims, with those that the provider gives to who asks for them, if any are wanted.
    async fn filled(
        &self,
        claims: &Claims,
        given: &remote::Given,
    ) -> Result<Map<String, Value>, Error> {
        let mut wanted = self.settings.mapping.wanted();
        if wanted.all(|name| mapping::found(&claims.all, name).is_some()) {
            return Ok(claims.all.clone());
        }
        let mut more = self.remote.more(given).await?;
        if !more.is_empty() && more.get("sub").and_then(Value::as_str) != Some(&claims.subject) {
            let why = "what it says more is of somebody else";
            return Err(Error::Unbelieved(why.to_owned()));
        }
        more.extend(claims.all.clone());
        Ok(more)
    }

    /// Whether a number comes back for the first time.
    fn spend(&self, state: &str) -> bool {
        let now = instant();
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let long = Duration::from_secs(MAX_AWAY_SECONDS);
        spent.retain(|_, at| now.duration_since(*at) < long);
        if spent.contains_key(state) {
            return false;
        }
        if spent.len() >= MAX_SPENT {
            let oldest = spent.iter().min_by_key(|(_, at)| **at);
            if let Some(oldest) = oldest.map(|(state, _)| state.clone()) {
                spent.remove(&oldest);
            }
        }
        spent.insert(state.to_owned(), now);
        true
    }
}

/// The numbers that a browser keeps.
struct Kept<'a> {
    state: &'a str,
    nonce: &'a str,
    verifier: &'a str,
}

impl<'a> Kept<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut next = || {
            let bytes = |part: &&str| URL_SAFE_NO_PAD.decode(part).map(|bytes| bytes.len());
            parts.next().filter(|part| bytes(part) == Ok(NUMBER_BYTES))
        };
        let kept = Self {
            state: next()?,
            nonce: next()?,
            verifier: next()?,
        };
        parts.next().is_none().then_some(kept)
    }
}

fn drawn() -> Option<String> {
    let mut bytes = [0u8; NUMBER_BYTES];
    rand::rngs::OsRng.try_fill_bytes(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

/// In the same time, whatever they are.
fn same(a: &str, b: &str) -> bool {
    Sha256::digest(a.as_bytes()) == Sha256::digest(b.as_bytes())
}

/// A word of the standard, such as `access_denied`; what is none is shown to nobody.
fn word(text: &str) -> String {
    match is_word(text) {
        true => text.to_owned(),
        false => "for a reason of its own".to_owned(),
    }
}

fn is_word(text: &str) -> bool {
    let letter = |b: u8| b.is_ascii_lowercase() || b == b'_';
    (1..64).contains(&text.len()) && text.bytes().all(letter)
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long ago a browser came back is counted on this machine's own clock"
)]
fn instant() -> Instant {
    Instant::now()
}
