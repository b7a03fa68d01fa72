//! Talks to a server's REST API.
//!
//! # Invariants
//! - What may be repeated is repeated: reads, and what carries a key, which every POST does. Nothing else is.
//! - A token goes only to the server that was named; redirects are not followed.
//!
//! # Not here
//! What the answers mean to people ([`crate::command`]).

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sichen_core::name::JobName;
use sichen_server::auth;
use sichen_server::rest::wire;

use crate::clock;
use crate::data_dir;
use crate::failure::{Exit, Failure};
use crate::names;
use crate::trust;

/// The longest that one request may take.
const TIMEOUT: Duration = Duration::from_secs(40);
/// The longest that a server may take to say whether it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(4);
/// How often a request that may be repeated is sent.
const TRIES: u32 = 3;

/// Which server, and with what right.
#[derive(Clone, Debug, clap::Args)]
pub struct Connection {
    /// The server's address.
    #[arg(
        long,
        value_name = "URL",
        env = "SICHEN_SERVER",
        hide_env_values = true,
        default_value = "http://127.0.0.1:7070"
    )]
    pub server: String,
    /// The file with the token [default: `token` in the default data directory].
    #[arg(
        long,
        value_name = "FILE",
        env = "SICHEN_TOKEN_FILE",
        hide_env_values = true
    )]
    pub token_file: Option<PathBuf>,
    /// For https: the certificates that may vouch for the server, PEM [default: those of this
    /// machine].
    #[arg(
        long,
        value_name = "FILE",
        env = "SICHEN_CA_FILE",
        hide_env_values = true
    )]
    pub ca_file: Option<PathBuf>,
    /// For https: your own certificate and those that vouch for it, PEM, for a server that asks for one.
    #[arg(
        long,
        value_name = "FILE",
        env = "SICHEN_CLIENT_CERT",
        hide_env_values = true,
        requires = "tls_key"
    )]
    pub tls_cert: Option<PathBuf>,
    /// The key of that certificate, PEM.
    #[arg(
        long,
        value_name = "FILE",
        env = "SICHEN_CLIENT_KEY",
        hide_env_values = true,
        requires = "tls_cert"
    )]
    pub tls_key: Option<PathBuf>,
}

impl Connection {
    fn own(&self) -> Option<(&Path, &Path)> {
        self.tls_cert.as_deref().zip(self.tls_key.as_deref())
    }
}

/// Whether a request is sent again if it is not known whether the first one arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeat {
    /// It is not.
    Never,
    /// The same request again does nothing more by itself.
    AsItIs,
    /// With an idempotency key, the same each time.
    ByKey,
}

/// A client of one server.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: String,
}

fn json_of(body: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(body).map_err(|e| Failure::new(Exit::Failed, e.to_string()))
}

/// Reads a server's address.
fn address(text: &str) -> Result<Url, Failure> {
    let url = Url::parse(text).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| {
        let meant = match text.contains("://") {
            true => String::new(),
            false => format!("; perhaps http://{text} or https://{text}"),
        };
        Failure::usage(format!(
            "SC7001: {text:?} is no server address; write it like http://127.0.0.1:7070, or \
             https://HOST:7070 for a server with a certificate{meant}"
        ))
    })
}

/// Whom a client believes.
fn trust_of(connection: &Connection, base: &Url) -> Result<rustls::ClientConfig, Failure> {
    let ca_file = connection.ca_file.as_deref();
    let for_tls = [
        ("--ca-file", ca_file),
        ("--tls-cert", connection.tls_cert.as_deref()),
    ];
    let for_tls = for_tls
        .into_iter()
        .find_map(|(flag, path)| Some((flag, path?)));
    match (base.scheme(), for_tls) {
        ("https", _) => trust::config(ca_file, connection.own()),
        (_, None) => trust::none(),
        (_, Some((flag, path))) => Err(Failure::usage(format!(
            "SC7001: {flag} {} is for https, and {} is not encrypted; write https://, \
             or leave the file out",
            path.display(),
            connection.server
        ))),
    }
}

/// With what right it asks.
fn token_of(connection: &Connection) -> Result<String, Failure> {
    let path = match &connection.token_file {
        Some(path) => path.clone(),
        None => data_dir::default().join(auth::TOKEN_FILE),
    };
    // A certificate may say who asks; then no token need be there.
    let alone = connection.own().is_some() && connection.token_file.is_none() && !path.exists();
    if alone {
        return Ok(String::new());
    }
    auth::read(&path).map_err(|error| {
        let text = format!(
            "{error}\n  a server makes it in its data directory at its first start (`sichen dev` \
             starts one here); name it with --token-file or SICHEN_TOKEN_FILE"
        );
        Failure::new(Exit::Denied, text)
    })
}

/// Parts of an address's query.
pub type Query = Vec<(&'static str, String)>;

impl Client {
    /// Reads the token; connects at the first request.
    pub fn new(connection: &Connection) -> Result<Self, Failure> {
        // A wrong address is said before a token that is not there.
        let base = address(&connection.server)?;
        let trust = trust_of(connection, &base)?;
        Self::with(base, trust, token_of(connection)?)
    }

    /// One that shows no token, for what everybody may ask.
    pub fn nobody(connection: &Connection) -> Result<Self, Failure> {
        let base = address(&connection.server)?;
        let trust = trust_of(connection, &base)?;
        Self::with(base, trust, String::new())
    }

    fn with(base: Url, trust: rustls::ClientConfig, token: String) -> Result<Self, Failure> {
        let http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .tls_backend_preconfigured(trust)
            .build()
            .map_err(|e| Failure::new(Exit::Failed, format!("no HTTP client: {e}")))?;
        Ok(Self { http, base, token })
    }

    /// Whether the server can do its work, and what it says of that.
    pub async fn ready(&self) -> Result<(bool, String), Failure> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("readyz");
        }
        let answer = self.http.get(url).timeout(READY_TIMEOUT).send().await;
        let answer = answer.map_err(|e| self.unreachable(&e))?;
        let is_ready = answer.status().is_success();
        let health: wire::Health = self.read(answer).await?;
        Ok((is_ready, health.status))
    }

    fn url(&self, path: &[&str], query: &Query) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &Query,
        body: Option<(&str, Vec<u8>)>,
        repeat: Repeat,
    ) -> Result<reqwest::Response, Failure> {
        // In an address these would stand for another one.
        if let Some(name) = path.iter().find(|part| matches!(**part, "" | "." | "..")) {
            let text = format!(
                "SC5001: there is no {name:?}\n  `sichen get jobs` and `sichen runs` list what there is"
            );
            return Err(Failure::new(Exit::NotFound, text));
        }
        let url = self.url(path, query);
        let mut key = (repeat == Repeat::ByKey).then(clock::new_key);
        let mut tries = 0;
        loop {
            tries += 1;
            let mut request = self.http.request(method.clone(), url.clone());
            if !self.token.is_empty() {
                request = request.bearer_auth(&self.token);
            }
            if let Some((kind, bytes)) = &body {
                request = request.header("content-type", *kind).body(bytes.clone());
            }
            if let Some(key) = &key {
                request = request.header("idempotency-key", key);
            }
            let failure = match request.send().await {
                Ok(answer) if answer.status().is_success() => return Ok(answer),
                Ok(answer) => refusal(answer).await,
                Err(error) => self.unreachable(&error),
            };
            // No room for its answer: it is sent once more, as one that is not repeated.
            if key.is_some() && failure.text.starts_with("SC5038") {
                key = None;
                continue;
            }
            let may_repeat = match repeat {
                Repeat::Never => false,
                Repeat::AsItIs => true,
                Repeat::ByKey => key.is_some(),
            };
            if failure.exit != Exit::Unavailable || !may_repeat || tries == TRIES {
                return Err(failure);
            }
            tokio::time::sleep(Duration::from_millis(200 * u64::from(tries))).await;
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let mut reason = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(inner) = source {
            reason = inner.to_string();
            source = inner.source();
        }
        if self.base.scheme() == "https"
            && let Some(hint) = tls_hint(error)
        {
            let text = format!(
                "SC7012: no encrypted connection to {}: {reason}\n  {hint}",
                self.base
            );
            return Failure::new(Exit::Failed, text);
        }
        let what = if error.is_connect() {
            "can't be reached"
        } else {
            "did not answer"
        };
        Failure::new(
            Exit::Unavailable,
            format!(
                "SC7003: the server {} {what}: {reason}\n  \
                 is it running (`sichen dev` starts one here)? name another with --server or \
                 SICHEN_SERVER",
                self.base
            ),
        )
    }

    async fn read<T: DeserializeOwned>(&self, answer: reqwest::Response) -> Result<T, Failure> {
        let bytes = answer.bytes().await.map_err(|e| self.unreachable(&e))?;
        serde_json::from_slice(&bytes).map_err(|error| {
            let text = format!(
                "SC7004: the answer of {} was not understood: {error}\n  \
                 is it a Sichen server of the same version?",
                self.base
            );
            Failure::new(Exit::Failed, text)
        })
    }

    /// Reads something.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: Query,
    ) -> Result<T, Failure> {
        let send = self.send(Method::GET, path, &query, None, Repeat::AsItIs);
        let answer = within(TIMEOUT, send).await?;
        within(TIMEOUT, self.read(answer)).await
    }

    /// Reads bytes, and what the answer's headers say of them.
    pub async fn get_bytes(
        &self,
        path: &[&str],
        query: Query,
    ) -> Result<(HeaderMap, Vec<u8>), Failure> {
        let send = self.send(Method::GET, path, &query, None, Repeat::AsItIs);
        let answer = within(TIMEOUT, send).await?;
        let headers = answer.headers().clone();
        let body = async { answer.bytes().await.map_err(|e| self.unreachable(&e)) };
        Ok((headers, within(TIMEOUT, body).await?.into()))
    }

    /// Reads something line by line, for as long as it takes.
    pub async fn stream(&self, path: &[&str], query: Query) -> Result<Lines, Failure> {
        let send = self.send(Method::GET, path, &query, None, Repeat::AsItIs);
        let answer = within(TIMEOUT, send).await?;
        Ok(Lines {
            answer,
            rest: Vec::new(),
        })
    }

    /// Asks for something to be done. `named`: its body says by which name the same request again is
    /// known; else it is sent with a key of its own.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: Option<&(impl Serialize + Sync)>,
        named: bool,
    ) -> Result<T, Failure> {
        let body = match body {
            Some(value) => Some(("application/json", json_of(value)?)),
            None => None,
        };
        let repeat = match named {
            true => Repeat::AsItIs,
            false => Repeat::ByKey,
        };
        self.posted(path, body, repeat).await
    }

    /// Asks for something whose answer is a secret. A server derives that of a repeat from the caller's
    /// token; without one the request is sent once.
    pub async fn post_for_secret<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T, Failure> {
        match self.token.is_empty() {
            true => self.post_once(path, body).await,
            false => self.post(path, Some(body), false).await,
        }
    }

    /// Asks for something to be done, and does not ask again by itself if the answer is lost.
    pub async fn post_once<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T, Failure> {
        let bytes = json_of(body)?;
        let body = Some(("application/json", bytes));
        self.posted(path, body, Repeat::Never).await
    }

    async fn posted<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: Option<(&str, Vec<u8>)>,
        repeat: Repeat,
    ) -> Result<T, Failure> {
        let none = Vec::new();
        let send = self.send(Method::POST, path, &none, body, repeat);
        let answer = within(TIMEOUT, send).await?;
        within(TIMEOUT, self.read(answer)).await
    }

    /// Sends documents.
    pub async fn post_documents<T: DeserializeOwned>(
        &self,
        path: &[&str],
        text: String,
    ) -> Result<T, Failure> {
        self.post_documents_with(path, Vec::new(), text).await
    }

    /// The same, with a query that says more.
    pub async fn post_documents_with<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: Query,
        text: String,
    ) -> Result<T, Failure> {
        let body = Some(("application/yaml", text.into_bytes()));
        let send = self.send(Method::POST, path, &query, body, Repeat::ByKey);
        let answer = within(TIMEOUT, send).await?;
        within(TIMEOUT, self.read(answer)).await
    }

    /// Asks for something to be done that its query says more about; may be sent again.
    pub async fn post_with<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: Query,
    ) -> Result<T, Failure> {
        let send = self.send(Method::POST, path, &query, None, Repeat::ByKey);
        let answer = within(TIMEOUT, send).await?;
        within(TIMEOUT, self.read(answer)).await
    }

    /// Asks a question whose body says what it is about; may be sent again.
    pub async fn post_query<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: Query,
        body: &(impl Serialize + Sync),
    ) -> Result<T, Failure> {
        let bytes = serde_json::to_vec(body);
        let bytes = bytes.map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
        let body = Some(("application/json", bytes));
        let send = self.send(Method::POST, path, &query, body, Repeat::AsItIs);
        let answer = within(TIMEOUT, send).await?;
        within(TIMEOUT, self.read(answer)).await
    }

    /// Deletes something.
    pub async fn delete<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, Failure> {
        let none = Vec::new();
        let send = self.send(Method::DELETE, path, &none, None, Repeat::Never);
        let answer = within(TIMEOUT, send).await?;
        within(TIMEOUT, self.read(answer)).await
    }

    /// Adds to a failure the jobs that may have been meant. Names are never completed: only the
    /// exact one is acted upon.
    pub async fn with_candidates(&self, failure: Failure, name: &JobName) -> Failure {
        if failure.exit != Exit::NotFound {
            return failure;
        }
        let query = vec![("limit", "1000".to_owned())];
        let Ok(page) = self.get::<wire::JobPage>(&["jobs"], query).await else {
            return failure;
        };
        let known: Vec<String> = page
            .items
            .iter()
            .map(|j| names::shown(&j.namespace, &j.name))
            .collect();
        if known.contains(&names::shown(name.namespace.as_str(), name.name.as_str())) {
            // It is there; what is missing is a part of it.
            return failure;
        }
        let near = names::near(&name.to_string(), &known);
        let hint = match near.is_empty() {
            true => "`sichen get jobs` lists what there is".to_owned(),
            false => format!("did you mean {}?", near.join(", ")),
        };
        let text = format!("{}\n  {hint}", failure.text);
        Failure::new(Exit::NotFound, text)
    }
}

/// What to do about a connection on which TLS failed; `None` if it was something else.
fn tls_hint(error: &reqwest::Error) -> Option<&'static str> {
    Some(match tls_error(error)? {
        rustls::Error::InvalidCertificate(_) => {
            "name the certificate of who signed it with --ca-file or SICHEN_CA_FILE, and use the \
             host name that the certificate is for"
        }
        rustls::Error::InvalidMessage(_) => {
            "this server speaks no TLS: write http:// if that is meant"
        }
        rustls::Error::AlertReceived(rustls::AlertDescription::CertificateExpired) => {
            "the certificate of --tls-cert or SICHEN_CLIENT_CERT is over, or not begun: have it renewed"
        }
        rustls::Error::AlertReceived(_) => {
            "the server may want a certificate that it trusts, for a client: give --tls-cert and \
             --tls-key, or SICHEN_CLIENT_CERT and SICHEN_CLIENT_KEY"
        }
        _ => "client and server do not agree on TLS 1.2 or 1.3",
    })
}

/// The TLS error at the bottom of an error. An I/O error's source is that of its inner error, so
/// the inner one is looked at itself.
fn tls_error<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e rustls::Error> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    let inner = error
        .downcast_ref::<std::io::Error>()
        .and_then(|io| io.get_ref());
    let inner = inner.and_then(|inner| tls_error(inner));
    inner.or_else(|| error.source().and_then(tls_error))
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => Err(Failure::new(
            Exit::Unavailable,
            format!(
                "SC7003: no answer within {} seconds; the request may still be carried out",
                limit.as_secs()
            ),
        )),
    }
}

/// What a refusing answer says.
async fn refusal(answer: reqwest::Response) -> Failure {
    let status = answer.status();
    let exit = exit_of(status);
    let bytes = match tokio::time::timeout(TIMEOUT, answer.bytes()).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) | Err(_) => Default::default(),
    };
    let Ok(problem) = serde_json::from_slice::<wire::Problem>(&bytes) else {
        return Failure::new(exit, format!("SC7004: the server answered {status}"));
    };
    // Another token is no answer to a right that this one has not.
    let wants_token = problem.code == "SC6001";
    let mut text = if problem.detail.starts_with("SC") {
        problem.detail
    } else {
        format!("{}: {}", problem.code, problem.detail)
    };
    if let Some(first) = problem.problems.first() {
        // Each is said once, in the list below.
        without_first(&mut text, first);
    }
    for at in &problem.problems {
        text.push_str("\n  ");
        text.push_str(&problem_line(at));
    }
    if exit == Exit::NotFound && text.contains("no run ") {
        text.push_str("\n  `sichen runs` lists them, by number and key");
    }
    if wants_token {
        text.push_str("\n  name the server's token file with --token-file or SICHEN_TOKEN_FILE");
    }
    Failure::new(exit, text)
}

/// Takes the first problem off the end of the answer's line.
fn without_first(text: &mut String, first: &wire::ProblemAt) {
    let said = [problem_line(first), first.message.clone()];
    let head = said
        .iter()
        .find_map(|said| text.strip_suffix(said.as_str()));
    if let Some(head) = head {
        let head = head.trim_end_matches([':', ' ']);
        let head = head.strip_suffix("; first").unwrap_or(head);
        text.truncate(head.len());
    }
}

/// `line:column: path: message`, as far as it is known.
pub fn problem_line(at: &wire::ProblemAt) -> String {
    let mut line = String::new();
    if let Some(number) = at.line {
        line.push_str(&format!("{number}:"));
        if let Some(column) = at.column {
            line.push_str(&format!("{column}:"));
        }
        line.push(' ');
    }
    if !at.path.is_empty() {
        line.push_str(&format!("{}: ", at.path));
    }
    line + &at.message
}

fn exit_of(status: StatusCode) -> Exit {
    match status.as_u16() {
        400 | 413 | 415 | 422 => Exit::Usage,
        401 | 403 => Exit::Denied,
        404 => Exit::NotFound,
        409 | 412 => Exit::Refused,
        408 | 429 | 500 | 502 | 503 | 504 => Exit::Unavailable,
        _ => Exit::Failed,
    }
}

/// An answer read line by line.
#[derive(Debug)]
pub struct Lines {
    answer: reqwest::Response,
    rest: Vec<u8>,
}

impl Lines {
    /// The next line, without its end; `None` at the end of the answer.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            if let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                let mut line: Vec<u8> = self.rest.drain(..=end).collect();
                line.pop();
                return Ok(Some(line));
            }
            let chunk = tokio::time::timeout(TIMEOUT, self.answer.chunk()).await;
            match chunk {
                Ok(Ok(Some(bytes))) => self.rest.extend_from_slice(&bytes),
                Ok(Ok(None)) if self.rest.is_empty() => return Ok(None),
                Ok(Ok(None)) => return Ok(Some(std::mem::take(&mut self.rest))),
                Ok(Err(error)) => {
                    let text = format!("SC7003: the answer broke off: {error}; try again");
                    return Err(Failure::new(Exit::Unavailable, text));
                }
                Err(_) => {
                    let text = "SC7003: the answer came to a halt; try again";
                    return Err(Failure::new(Exit::Unavailable, text));
                }
            }
        }
    }
}
