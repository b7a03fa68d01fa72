//! What a server is told: options, environment, a file, defaults; and where each value came from.
//!
//! # Invariants
//! - An option goes before the environment, that before the file, that before the default.
//! - Unknown keys are refused, with the nearest one that is known. Values have bounds.
//! - Secrets are never shown: a store's password is left out, tokens are no part of it.
//!
//! # Not here
//! A worker's configuration (`sichen-worker`), tokens (`sichen_server::auth`).

pub mod alerts;
pub mod oidc;
pub mod traces;

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::SignedDuration;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sichen_core::document::Duration as Length;
use sichen_core::lease::Rhythm;
use sichen_core::name::nearest;
use sichen_server::tls::{Clients, Wanted};
use sichen_store::postgres::Options;

use crate::data_dir;
use crate::failure::Failure;
use crate::logging;
use crate::serve::Node;
use crate::store_at::StoreAt;

/// The longest configuration, in bytes.
const MAX_CONFIG_BYTES: usize = 1 << 20;
/// Connections to a PostgreSQL store: fewer starve its duties, more wait on each other.
const CONNECTIONS: (u32, u32) = (4, 500);

/// A server's configuration; as a file it is YAML, and every key may be left out.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// Where its tokens are, and its database unless `store` is another.
    pub data: Option<PathBuf>,
    /// Where jobs, runs and history are.
    pub store: Option<StoreAt>,
    /// Where it listens.
    pub listen: Option<SocketAddr>,
    /// Where peers' workers reach it: `http://host:port` or `https://host:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
    /// Whether other machines may reach it without encryption.
    pub allow_plaintext: Option<bool>,
    /// Its certificate and those that vouch for it, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,
    /// The key of that certificate, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
    /// Certificates, PEM, that may vouch for clients; those are then asked for theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_client_ca: Option<PathBuf>,
    /// From whom a certificate is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_client_auth: Option<ClientAuth>,
    /// What is told to whom: a file of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alerts: Option<PathBuf>,
    /// The provider by which people log in: a file of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc: Option<PathBuf>,
    /// Who collects traces: an address of OTLP over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces_endpoint: Option<String>,
    /// Which share of the runs is traced, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces_ratio: Option<f64>,
    /// What is sent with each request to the collector, a line `Name: value` each: a file of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces_headers: Option<PathBuf>,
    /// Certificates, PEM, that may vouch for the collector beside those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces_ca: Option<PathBuf>,
    /// How long one request to the collector may take.
    pub traces_timeout: Option<Length>,
    /// How often workers beat.
    pub beat: Option<Length>,
    /// How long a worker's session lives without a beat.
    pub session_ttl: Option<Length>,
    /// How often this node renews its own lease, and how long that lives.
    pub node_beat: Option<Length>,
    pub node_lease: Option<Length>,
    /// How long ended runs are kept.
    pub retention: Option<Length>,
    /// What it logs.
    pub log: Option<String>,
    /// Of a store in PostgreSQL: connections, and what each may take.
    pub store_connections: Option<u32>,
    pub store_connect_timeout: Option<Length>,
    pub store_statement_timeout: Option<Length>,
    pub store_call_timeout: Option<Length>,
    pub store_lock_timeout: Option<Length>,
    pub store_idle_timeout: Option<Length>,
}

/// From whom a server wants a certificate, if it asks for any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ClientAuth {
    /// From nobody; one that is shown must be good, and may say who asks.
    Optional,
    /// From workers: without one no session begins.
    Workers,
    /// From everybody: without one no connection is made.
    Required,
}

impl ClientAuth {
    fn wanted(self) -> Wanted {
        match self {
            ClientAuth::Optional => Wanted::Optional,
            ClientAuth::Workers => Wanted::Workers,
            ClientAuth::Required => Wanted::Required,
        }
    }
}

/// Bounds of a length of time.
struct Bound {
    key: &'static str,
    value: fn(&ServerConfig) -> Option<Length>,
    low: SignedDuration,
    high: SignedDuration,
}

const fn ms(n: i64) -> SignedDuration {
    SignedDuration::from_millis(n)
}

const fn mins(n: i64) -> SignedDuration {
    SignedDuration::from_mins(n)
}

/// Every length has its bounds; rhythms are checked besides ([`Rhythm::checked`]).
#[rustfmt::skip]
const BOUNDS: &[Bound] = &[
    Bound { key: "beat", value: |c| c.beat, low: ms(100), high: mins(1) },
    Bound { key: "session_ttl", value: |c| c.session_ttl, low: ms(1_000), high: mins(60) },
    Bound { key: "node_beat", value: |c| c.node_beat, low: ms(100), high: ms(20_000) },
    Bound { key: "node_lease", value: |c| c.node_lease, low: ms(1_000), high: mins(1) },
    Bound { key: "retention", value: |c| c.retention, low: ms(1_000), high: mins(60 * 24 * 36_600) },
    Bound { key: "traces_timeout", value: |c| c.traces_timeout, low: ms(100), high: mins(1) },
    Bound { key: "store_connect_timeout", value: |c| c.store_connect_timeout, low: ms(100), high: mins(1) },
    Bound { key: "store_statement_timeout", value: |c| c.store_statement_timeout, low: ms(1_000), high: mins(10) },
    Bound { key: "store_call_timeout", value: |c| c.store_call_timeout, low: ms(1_000), high: mins(10) },
    Bound { key: "store_lock_timeout", value: |c| c.store_lock_timeout, low: ms(100), high: mins(1) },
    Bound { key: "store_idle_timeout", value: |c| c.store_idle_timeout, low: ms(1_000), high: mins(5) },
];

impl ServerConfig {
    /// What is used where nothing else is said.
    pub fn defaults() -> Self {
        let options = Options::default();
        let length = |d: Duration| {
            let length = SignedDuration::try_from(d).unwrap_or(SignedDuration::MAX);
            Some(Length(length))
        };
        let (worker, node) = (Rhythm::WORKER, Rhythm::NODE);
        Self {
            data: Some(data_dir::default()),
            store: None,
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 7070))),
            advertise: None,
            allow_plaintext: Some(false),
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            tls_client_auth: None,
            alerts: None,
            oidc: None,
            traces_endpoint: None,
            traces_ratio: None,
            traces_headers: None,
            traces_ca: None,
            traces_timeout: length(Duration::from_secs(10)),
            beat: Some(Length(worker.beat)),
            session_ttl: Some(Length(worker.ttl)),
            node_beat: Some(Length(node.beat)),
            node_lease: Some(Length(node.ttl)),
            retention: Some(Length(SignedDuration::from_hours(720))),
            log: Some(logging::DEFAULT.to_owned()),
            store_connections: Some(options.connections),
            store_connect_timeout: length(options.connect_timeout),
            store_statement_timeout: length(options.statement_timeout),
            store_call_timeout: length(options.call_timeout),
            store_lock_timeout: length(options.lock_timeout),
            store_idle_timeout: length(options.idle_timeout),
        }
    }

    /// This, and where it says nothing, what `below` says.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        // A certificate and its key belong together, wherever they are said.
        let said = self.tls_cert.is_some() || self.tls_key.is_some();
        let (cert, key) = match said {
            true => (self.tls_cert, self.tls_key),
            false => (below.tls_cert, below.tls_key),
        };
        Self {
            data: self.data.or(below.data),
            store: self.store.or(below.store),
            listen: self.listen.or(below.listen),
            advertise: self.advertise.or(below.advertise),
            allow_plaintext: self.allow_plaintext.or(below.allow_plaintext),
            tls_cert: cert,
            tls_key: key,
            tls_client_ca: self.tls_client_ca.or(below.tls_client_ca),
            tls_client_auth: self.tls_client_auth.or(below.tls_client_auth),
            alerts: self.alerts.or(below.alerts),
            oidc: self.oidc.or(below.oidc),
            traces_endpoint: self.traces_endpoint.or(below.traces_endpoint),
            traces_ratio: self.traces_ratio.or(below.traces_ratio),
            traces_headers: self.traces_headers.or(below.traces_headers),
            traces_ca: self.traces_ca.or(below.traces_ca),
            traces_timeout: self.traces_timeout.or(below.traces_timeout),
            beat: self.beat.or(below.beat),
            session_ttl: self.session_ttl.or(below.session_ttl),
            node_beat: self.node_beat.or(below.node_beat),
            node_lease: self.node_lease.or(below.node_lease),
            retention: self.retention.or(below.retention),
            log: self.log.or(below.log),
            store_connections: self.store_connections.or(below.store_connections),
            store_connect_timeout: self.store_connect_timeout.or(below.store_connect_timeout),
            store_statement_timeout: self
                .store_statement_timeout
                .or(below.store_statement_timeout),
            store_call_timeout: self.store_call_timeout.or(below.store_call_timeout),
            store_lock_timeout: self.store_lock_timeout.or(below.store_lock_timeout),
            store_idle_timeout: self.store_idle_timeout.or(below.store_idle_timeout),
        }
    }

    /// With what is derived from other values: the store stands in the data directory if no other
    /// is said.
    #[must_use]
    pub fn whole(self) -> Self {
        let mut whole = self.over(Self::defaults());
        if whole.store.is_none() {
            whole.store = whole.data.clone().map(StoreAt::Directory);
        }
        whole
    }

    /// Everything that is wrong with it, one line each.
    pub fn problems(&self) -> Vec<String> {
        let whole = self.clone().whole();
        let mut problems = Vec::new();
        for bound in BOUNDS {
            let Some(Length(value)) = (bound.value)(&whole) else {
                continue;
            };
            if value < bound.low || value > bound.high {
                problems.push(format!(
                    "{}: {} is outside {} to {}",
                    bound.key,
                    Length(value),
                    Length(bound.low),
                    Length(bound.high)
                ));
            }
        }
        for (key, rhythm) in [
            ("session_ttl", rhythm(whole.beat, whole.session_ttl)),
            ("node_lease", rhythm(whole.node_beat, whole.node_lease)),
        ] {
            if let Err(error) = rhythm.checked() {
                problems.push(format!("{key}: {error}"));
            }
        }
        if let Some(address) = &whole.advertise
            && !is_dialable(address)
        {
            problems.push(format!(
                "advertise: {address:?} leads nowhere; write http://HOST:PORT or https://HOST:PORT \
                 as workers on other machines reach this server"
            ));
        }
        let connections = whole.store_connections.unwrap_or_default();
        let (low, high) = CONNECTIONS;
        if !(low..=high).contains(&connections) {
            problems.push(format!(
                "store_connections: {connections} is outside {low} to {high}"
            ));
        }
        if let Err(why) = logging::parsed(whole.log.as_deref().unwrap_or(logging::DEFAULT)) {
            problems.push(format!("log: {why}"));
        }
        if whole.tls_cert.is_some() != whole.tls_key.is_some() {
            problems.push("tls_cert, tls_key: give both or neither".to_owned());
        }
        if whole.tls_client_ca.is_some() && whole.tls_cert.is_none() {
            problems.push("tls_client_ca: give tls_cert and tls_key too".to_owned());
        }
        if whole.tls_client_auth.is_some() && whole.tls_client_ca.is_none() {
            problems.push("tls_client_auth: give tls_client_ca too".to_owned());
        }
        problems.extend(traces::problems(&whole));
        problems
    }

    /// As a node takes it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn node(&self) -> Result<Node, Failure> {
        let problems = self.problems();
        if !problems.is_empty() {
            return Err(refused("the server's configuration", &problems));
        }
        let whole = self.clone().whole();
        let traces = traces::traces(&whole, &traces::Environment)?;
        let data = whole.data.unwrap_or_default();
        let length = |length: Option<Length>| length.map_or(SignedDuration::ZERO, |l| l.0);
        let wait = |wait: Option<Length>| Duration::try_from(length(wait)).unwrap_or_default();
        Ok(Node {
            store: whole
                .store
                .unwrap_or_else(|| StoreAt::Directory(data.clone())),
            data,
            listen: whole
                .listen
                .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 7070))),
            advertise: whole.advertise,
            beyond_loopback: whole.allow_plaintext == Some(true),
            tls: whole.tls_cert.zip(whole.tls_key),
            clients: whole.tls_client_ca.map(|ca| Clients {
                ca,
                wanted: whole
                    .tls_client_auth
                    .unwrap_or(ClientAuth::Required)
                    .wanted(),
            }),
            alerts: whole.alerts.as_deref().map(alerts::load).transpose()?,
            oidc: whole.oidc.as_deref().map(oidc::load).transpose()?,
            traces,
            worker: rhythm(whole.beat, whole.session_ttl),
            node: rhythm(whole.node_beat, whole.node_lease),
            retention: length(whole.retention),
            store_options: Options {
                connections: whole.store_connections.unwrap_or_default(),
                connect_timeout: wait(whole.store_connect_timeout),
                statement_timeout: wait(whole.store_statement_timeout),
                call_timeout: wait(whole.store_call_timeout),
                lock_timeout: wait(whole.store_lock_timeout),
                idle_timeout: wait(whole.store_idle_timeout),
                ..Options::default()
            },
        })
    }
}

/// Whether an address names one server, as far as can be seen from it.
pub fn is_dialable(address: &str) -> bool {
    let scheme = |s: &str| address.strip_prefix(s).map(str::to_owned);
    let rest = scheme("http://").or_else(|| scheme("https://"));
    let Some((host, port)) = rest.as_deref().and_then(|rest| rest.rsplit_once(':')) else {
        return false;
    };
    let nowhere = ["", "0.0.0.0", "[::]", "[0:0:0:0:0:0:0:0]"];
    let odd = |c: char| c.is_whitespace() || "/?#@,".contains(c);
    !nowhere.contains(&host) && !host.contains(odd) && port.parse::<u16>().is_ok_and(|p| p > 0)
}

fn rhythm(beat: Option<Length>, ttl: Option<Length>) -> Rhythm {
    let length = |length: Option<Length>| length.map_or(SignedDuration::ZERO, |l| l.0);
    Rhythm {
        beat: length(beat),
        ttl: length(ttl),
    }
}

/// A configuration that can't be used, with all that is wrong.
pub fn refused(what: &str, problems: &[String]) -> Failure {
    Failure::usage(format!(
        "SC7008: {what} can't be used\n  {}",
        problems.join("\n  ")
    ))
}

/// A file that was read, and the keys that it has.
#[derive(Debug)]
pub struct Read<T> {
    pub config: T,
    pub keys: Map<String, Value>,
}

/// Reads a configuration in YAML.
///
/// # Errors
/// A file that can't be read, a text that is no YAML, unknown keys, values of the wrong kind.
pub fn read<T: DeserializeOwned + Default>(path: &Path) -> Result<Read<T>, Failure> {
    let shown = path.display();
    let unreadable = |error| Failure::usage(format!("SC7005: {shown} can't be read: {error}"));
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(MAX_CONFIG_BYTES as u64 + 1)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    if text.len() > MAX_CONFIG_BYTES {
        return Err(Failure::usage(format!(
            "SC7005: {shown} is longer than {MAX_CONFIG_BYTES} bytes"
        )));
    }
    of_text(&shown.to_string(), &text)
}

/// Reads the text of a configuration, from what is `shown` as its place.
///
/// # Errors
/// As [`read`].
pub fn of_text<T: DeserializeOwned + Default>(shown: &str, text: &str) -> Result<Read<T>, Failure> {
    let bad = |error: serde_saphyr::Error| refused(shown, &[explained(&error)]);
    // A file in which everything is a remark says nothing, which is allowed.
    let config = serde_saphyr::from_str::<Option<T>>(text).map_err(bad)?;
    let keys = serde_saphyr::from_str::<Option<Map<String, Value>>>(text).map_err(bad)?;
    Ok(Read {
        config: config.unwrap_or_default(),
        keys: keys.unwrap_or_default(),
    })
}

/// `line:column: what is wrong`, with the nearest known key to an unknown one.
fn explained(error: &serde_saphyr::Error) -> String {
    let found = error.without_snippet().to_string();
    let mut text = found.lines().next().unwrap_or_default().to_owned();
    let unknown = text.strip_prefix("unknown field `");
    let unknown = unknown.and_then(|rest| rest.split_once("`, expected "));
    if let Some((unknown, known)) = unknown {
        let known = known.split(" at line ").next().unwrap_or_default();
        let known = known.trim_start_matches("one of ").replace('`', "");
        let known: Vec<&str> = known.split(", ").flat_map(|k| k.split(" or ")).collect();
        let meant = nearest(unknown, &known);
        let meant = meant.map_or(String::new(), |name| format!("did you mean `{name}`? "));
        text = format!(
            "there is no key `{unknown}`; {meant}known are `{}`",
            known.join("`, `")
        );
    }
    match error.location().filter(|at| at.line() > 0) {
        Some(at) => {
            let (line, column) = (at.line(), at.column());
            let text = text.replace(&format!(" at line {line}, column {column}"), "");
            format!("{line}:{column}: {text}")
        }
        None => text,
    }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// This option of the command line.
    Flag(String),
    /// This variable.
    Environment(String),
    /// This file.
    File(String),
    /// Nobody said anything.
    Default,
}

/// One value that is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    pub key: String,
    pub value: Value,
    pub origin: Origin,
}

/// By which option and variable a key can be said.
pub struct Said {
    pub key: &'static str,
    pub flag: Option<&'static str>,
    pub variable: Option<&'static str>,
}

/// Each value of `config` with its origin, where `words` is the command line.
pub fn settings(
    config: Map<String, Value>,
    said: &[Said],
    file: Option<(&Path, &Map<String, Value>)>,
    words: &[String],
) -> Vec<Setting> {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let given = |flag: &str| {
        let with_value = format!("{flag}=");
        let mut words = words.iter();
        words.any(|word| word == flag || word.starts_with(&with_value))
    };
    let origin = |key: &str| {
        let said = said.iter().find(|s| s.key == key);
        let flag = said.and_then(|s| s.flag).filter(|flag| given(flag));
        let variable = said.and_then(|s| s.variable).filter(|name| set(name));
        match (flag, variable, file) {
            (Some(flag), ..) => Origin::Flag(flag.to_owned()),
            (None, Some(name), _) => Origin::Environment(name.to_owned()),
            (None, None, Some((path, keys))) if keys.contains_key(key) => {
                Origin::File(path.display().to_string())
            }
            (None, None, _) => Origin::Default,
        }
    };
    let settings = config.into_iter().map(|(key, value)| Setting {
        origin: origin(&key),
        key,
        value,
    });
    settings.collect()
}

#[cfg(test)]
mod tests;
