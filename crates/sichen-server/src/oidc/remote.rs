//! The provider, as it is asked: its description, its keys, and what it gives for a code.
//!
//! # Invariants
//! - It is asked by TLS, or on this machine; never elsewhere than it said, for redirects are failures.
//! - Its description and its keys are kept, and fetched again no oftener than said here, whatever tokens name.
//! - A question takes [`TIMEOUT`] at most, and of an answer [`MAX_ANSWER_BYTES`] are read.
//! - No code, token or secret is in a log or an error.
//!
//! # Not here
//! Whether what it says is believed ([`super::token`]).

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Client, RequestBuilder, Response, Url, redirect};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::token::Keys;

/// How long one question may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The largest answer of a provider, in bytes.
pub const MAX_ANSWER_BYTES: usize = 1 << 20;
/// For how long its description and its keys are believed without another look.
const FRESH: Duration = Duration::from_secs(3_600);
/// After a failure so long nobody asks again.
const PAUSE: Duration = Duration::from_secs(5);
/// Keys that a token names and that are not known are looked for no oftener than this.
const ANEW: Duration = Duration::from_secs(30);

/// What a provider says of itself.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct About {
    issuer: String,
    #[serde(deserialize_with = "address")]
    pub authorization_endpoint: Url,
    #[serde(deserialize_with = "address")]
    token_endpoint: Url,
    #[serde(deserialize_with = "address")]
    jwks_uri: Url,
    #[serde(default, deserialize_with = "some_address")]
    userinfo_endpoint: Option<Url>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// Whether it says in each answer that it is its own.
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
}

/// What is given for a code.
#[derive(Deserialize)]
pub(crate) struct Given {
    pub id_token: String,
    access_token: Option<String>,
}

/// Who asks.
#[derive(Clone)]
pub(crate) struct Asker {
    pub client: String,
    pub secret: Option<String>,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub why: String,
    /// Whether it was heard and refused.
    pub is_refusal: bool,
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self {
            why,
            is_refusal: false,
        }
    }
}

/// The way to a provider.
pub(crate) struct Remote {
    http: Client,
    issuer: String,
    asker: Asker,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    about: Option<(Instant, Arc<About>)>,
    keys: Option<(Instant, Arc<Keys>)>,
    /// When keys were last looked for because a token named one that was not known.
    anew: Option<Instant>,
    failed: Option<(Instant, String)>,
}

impl Remote {
    /// Trusts the system's certificates, or `roots` alone.
    pub(crate) fn new(
        issuer: String,
        asker: Asker,
        roots: Option<Vec<CertificateDer<'static>>>,
    ) -> Result<Self, String> {
        let mut trusted = RootCertStore::empty();
        match roots {
            Some(roots) => {
                for root in roots {
                    trusted.add(root).map_err(|e| e.to_string())?;
                }
            }
            None => {
                let system = rustls_native_certs::load_native_certs().certs;
                trusted.add_parsable_certificates(system);
            }
        }
        let trust = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_root_certificates(trusted)
            .with_no_client_auth();
        let http = Client::builder()
            .timeout(TIMEOUT)
            .redirect(redirect::Policy::none())
            .no_proxy()
            .tls_backend_preconfigured(trust)
            .user_agent(concat!("sichen/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| e.to_string())?;
        Ok(Self {
            http,
            issuer,
            asker,
            known: Mutex::default(),
        })
    }

    /// What it says of itself.
    pub(crate) async fn about(&self) -> Result<Arc<About>, String> {
        let mut known = self.known.lock().await;
        self.about_in(&mut known).await
    }

    /// Its keys; with `anew` looked for again, if that was not done a moment ago.
    pub(crate) async fn keys(&self, anew: bool) -> Result<Arc<Keys>, String> {
        let mut known = self.known.lock().await;
        let now = instant();
        let again = anew && known.anew.is_none_or(|at| now.duration_since(at) >= ANEW);
        if let Some((at, keys)) = &known.keys
            && now.duration_since(*at) < FRESH
            && !again
        {
            return Ok(keys.clone());
        }
        if again {
            known.anew = Some(now);
        }
        let about = self.about_in(&mut known).await?;
        rested(&known, now)?;
        let fetched = self.bytes(self.http.get(about.jwks_uri.clone())).await;
        let fetched = fetched.map_err(|trouble| trouble.why);
        let fetched = fetched.and_then(|bytes| Keys::read(&bytes).map_err(|e| e.to_string()));
        let keys = failed(
            &mut known,
            fetched.map_err(|why| format!("its keys: {why}")),
        )?;
        let keys = Arc::new(keys);
        known.keys = Some((instant(), keys.clone()));
        Ok(keys)
    }

    async fn about_in(&self, known: &mut Known) -> Result<Arc<About>, String> {
        let now = instant();
        if let Some((at, about)) = &known.about
            && now.duration_since(*at) < FRESH
        {
            return Ok(about.clone());
        }
        rested(known, now)?;
        let issuer = self.issuer.trim_end_matches('/');
        let place = format!("{issuer}/.well-known/openid-configuration");
        let fetched = self.json::<About>(self.http.get(place)).await;
        let fetched = fetched.map_err(|trouble| trouble.why);
        let fetched = fetched.and_then(|about| self.checked(about));
        let about = failed(
            known,
            fetched.map_err(|why| format!("its description: {why}")),
        )?;
        let about = Arc::new(about);
        known.about = Some((instant(), about.clone()));
        Ok(about)
    }

    fn checked(&self, about: About) -> Result<About, String> {
        if about.issuer != self.issuer {
            return Err("it is that of another issuer".to_owned());
        }
        let here = Url::parse(&self.issuer).is_ok_and(|issuer| is_local(&issuer));
        let places = [
            Some(&about.authorization_endpoint),
            Some(&about.token_endpoint),
            Some(&about.jwks_uri),
            about.userinfo_endpoint.as_ref(),
        ];
        let bad = |place: &&Url| place.scheme() != "https" && !(here && is_local(place));
        let worst = places.into_iter().flatten().find(bad);
        if let Some(place) = worst {
            return Err(format!("{place} is not asked by TLS"));
        }
        Ok(about)
    }

    /// What is given for a code that was asked for with the digest of `verifier`.
    pub(crate) async fn exchange(
        &self,
        code: &str,
        verifier: &str,
        back: &str,
    ) -> Result<Given, Trouble> {
        let about = self.about().await?;
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", back),
            ("code_verifier", verifier),
        ];
        let mut request = self.http.post(about.token_endpoint.clone());
        let Asker { client, secret } = &self.asker;
        let methods = about.token_endpoint_auth_methods_supported.as_deref();
        let by_header = methods.is_none_or(|all| all.iter().any(|m| m == "client_secret_basic"));
        match secret {
            Some(secret) if by_header => {
                let pair = format!("{}:{}", escaped(client), escaped(secret));
                request =
                    request.header("authorization", format!("Basic {}", STANDARD.encode(pair)));
            }
            Some(secret) => fields.extend([("client_id", &**client), ("client_secret", &**secret)]),
            None => fields.push(("client_id", client)),
        }
        let request = request
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form(&fields));
        self.json(request).await
    }

    /// What else it says of whom `given` is for; nothing, if it says nothing more.
    pub(crate) async fn more(&self, given: &Given) -> Result<Map<String, Value>, Trouble> {
        let about = self.about().await?;
        match (&about.userinfo_endpoint, &given.access_token) {
            (Some(place), Some(token)) => {
                let request = self.http.get(place.clone());
                self.json(request.bearer_auth(token)).await
            }
            _ => Ok(Map::new()),
        }
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Trouble> {
        let bytes = self.bytes(request).await?;
        // What does not fit may have a secret in it.
        let read = serde_json::from_slice(&bytes);
        read.map_err(|_| "its answer is not as the standard says".to_owned().into())
    }

    async fn bytes(&self, request: RequestBuilder) -> Result<Vec<u8>, Trouble> {
        let answer = request.header("accept", "application/json").send().await;
        let answer = answer.map_err(|e| told(&e))?;
        let status = answer.status();
        let bytes = whole(answer).await?;
        if status.is_success() {
            return Ok(bytes);
        }
        let word = serde_json::from_slice::<Value>(&bytes).ok();
        let word = word.as_ref().and_then(|value| value["error"].as_str());
        // One of the standard's words, such as `invalid_grant`.
        let word = word.filter(|word| super::is_word(word));
        let why = format!(
            "it answered {} {}",
            status.as_u16(),
            word.unwrap_or_default()
        );
        Err(Trouble {
            why: why.trim_end().to_owned(),
            is_refusal: status.is_client_error(),
        })
    }
}

/// A crowd asks one that does not answer once, and not each for itself.
fn rested(known: &Known, now: Instant) -> Result<(), String> {
    match &known.failed {
        Some((at, why)) if now.duration_since(*at) < PAUSE => Err(why.clone()),
        _ => Ok(()),
    }
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Url, D::Error> {
    Url::parse(&String::deserialize(from)?).map_err(D::Error::custom)
}

fn some_address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Url>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    let read = text.map(|text| Url::parse(&text));
    read.transpose().map_err(D::Error::custom)
}

/// Remembers a failure, so that the next who ask do not wait for it too.
fn failed<T>(known: &mut Known, result: Result<T, String>) -> Result<T, String> {
    known.failed = result.as_ref().err().map(|why| (instant(), why.clone()));
    result
}

async fn whole(mut answer: Response) -> Result<Vec<u8>, String> {
    let mut read = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|e| told(&e))? {
        if read.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(format!("its answer has more than {MAX_ANSWER_BYTES} bytes"));
        }
        read.extend_from_slice(&chunk);
    }
    Ok(read)
}

/// An error and its causes, without the address.
fn told(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("no answer within {} seconds", TIMEOUT.as_secs());
    }
    let mut text = match error.is_connect() {
        true => "no connection".to_owned(),
        false => "the question failed".to_owned(),
    };
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

/// Whether an address is asked in the clear and on this machine.
pub(super) fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<std::net::IpAddr>();
    url.scheme() == "http" && (host == "localhost" || address.is_ok_and(|a| a.is_loopback()))
}

/// Fields as a form sends them.
pub(super) fn form(fields: &[(&str, &str)]) -> String {
    let mut url = Url::parse("http://localhost/").expect("it is one");
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

fn escaped(text: &str) -> String {
    form(&[("", text)]).trim_start_matches('=').to_owned()
}

#[expect(
    clippy::disallowed_methods,
    reason = "how old a copy is, is counted on this machine's own clock"
)]
fn instant() -> Instant {
    Instant::now()
}
