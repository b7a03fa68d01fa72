//! Who collects traces, and which: the server's own keys, and the variables that OpenTelemetry has for all
//! programs.
//!
//! # Invariants
//! - Nothing is collected unless an address is said.
//! - What is said for all programs never keeps a server from starting: what can't be followed is warned of.
//! - What identifies us to the collector is in a file or in the environment, and shown nowhere.
//!
//! # Not here
//! Sending (`sichen_server::traces`).

use std::path::Path;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use sichen_core::trace::Ratio;
use sichen_server::traces::Collector;

use super::ServerConfig;
use crate::failure::Failure;

/// The longest file of headers, in bytes.
const MAX_HEADERS_BYTES: usize = 65_536;
/// Where OTLP over HTTP takes traces, under the address of a collector.
const PATH: &str = "v1/traces";
/// The variables that may name the collector, with the path and without.
const ENDPOINT: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// Traces that are collected.
#[derive(Clone, Debug)]
pub struct Traces {
    /// By whom.
    pub collector: Collector,
    /// Which share.
    pub ratio: Ratio,
}

/// Variables, by name; an empty one is not set.
pub trait Variables {
    /// The value of this one.
    fn get(&self, name: &str) -> Option<String>;

    /// That for traces, else that for all kinds of signals.
    fn of_otlp(&self, name: &str) -> Option<String> {
        let traces = self.get(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
        traces.or_else(|| self.get(&format!("OTEL_EXPORTER_OTLP_{name}")))
    }
}

/// Those of this process.
#[derive(Clone, Copy, Debug)]
pub struct Environment;

impl Variables for Environment {
    fn get(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }
}

/// The keys that OpenTelemetry's variables say, as options of the server.
pub fn said(variables: &impl Variables) -> ServerConfig {
    let mut config = ServerConfig::default();
    let is_off = |name: &str, word: &str| {
        let value = variables.get(name);
        value.is_some_and(|value| value.eq_ignore_ascii_case(word))
    };
    if is_off("OTEL_SDK_DISABLED", "true") || is_off("OTEL_TRACES_EXPORTER", "none") {
        return config;
    }
    let [whole, base] = ENDPOINT.map(|name| variables.get(name));
    let endpoint =
        whole.or_else(|| base.map(|base| format!("{}/{PATH}", base.trim_end_matches('/'))));
    let Some(endpoint) = endpoint else {
        return config;
    };
    let protocol = variables.of_otlp("PROTOCOL");
    let is_spoken = protocol.as_deref().is_none_or(|p| p == "http/protobuf");
    if !is_spoken || address(&endpoint).is_err() {
        tracing::warn!(
            protocol,
            "OTEL_EXPORTER_OTLP_… names a collector of traces that can't be spoken to: the server speaks \
             http/protobuf (port 4318) to http://HOST:PORT or https://HOST:PORT; no traces are sent"
        );
        return config;
    }
    config.traces_endpoint = Some(endpoint);
    let timeout = variables.of_otlp("TIMEOUT");
    let timeout = timeout.and_then(|ms| ms.trim().parse::<i64>().ok());
    config.traces_timeout = timeout.map(|ms| {
        let length = jiff::SignedDuration::from_millis(ms.clamp(100, 60_000));
        sichen_core::document::Duration(length)
    });
    config.traces_ca = variables.of_otlp("CERTIFICATE").map(Into::into);
    let sampler = variables.get("OTEL_TRACES_SAMPLER").unwrap_or_default();
    let share = variables.get("OTEL_TRACES_SAMPLER_ARG");
    let share = share.and_then(|share| share.trim().parse::<f64>().ok());
    config.traces_ratio = match sampler.trim_start_matches("parentbased_") {
        "always_off" => Some(0.0),
        "traceidratio" => share.filter(|share| Ratio::new(*share).is_some()),
        _ => None,
    };
    config
}

/// The variable by which the collector is named: `own`, or one of OpenTelemetry's.
pub fn variable(own: &'static str) -> &'static str {
    let names = [own].into_iter().chain(ENDPOINT);
    let mut set = names.filter(|name| Environment.get(name).is_some());
    set.next().unwrap_or(own)
}

/// Everything that is wrong with the keys for traces, one line each; files are not read.
pub fn problems(config: &ServerConfig) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(Err(why)) = config.traces_endpoint.as_deref().map(address) {
        problems.push(format!("traces_endpoint: {why}"));
    }
    if let Some(share) = config.traces_ratio
        && Ratio::new(share).is_none()
    {
        problems.push(format!("traces_ratio: {share} is outside 0 to 1"));
    }
    let of_collector = [
        ("traces_headers", config.traces_headers.is_some()),
        ("traces_ca", config.traces_ca.is_some()),
    ];
    for (key, _) in of_collector.iter().filter(|(_, said)| *said) {
        if config.traces_endpoint.is_none() {
            problems.push(format!("{key}: give traces_endpoint too"));
        }
    }
    problems
}

/// Who collects what, if an address is said.
///
/// # Errors
/// A file that can't be read or makes no sense.
pub fn traces(whole: &ServerConfig, variables: &impl Variables) -> Result<Option<Traces>, Failure> {
    let Some(endpoint) = &whole.traces_endpoint else {
        return Ok(None);
    };
    let refused = |why: String| super::refused("the server's configuration", &[why]);
    let headers = match (variables.of_otlp("HEADERS"), &whole.traces_headers) {
        (Some(text), _) => of_variable(&text).map_err(refused)?,
        (None, Some(path)) => of_file(path).map_err(refused)?,
        (None, None) => HeaderMap::new(),
    };
    let trusted = match &whole.traces_ca {
        Some(path) => certificates(path).map_err(refused)?,
        None => Vec::new(),
    };
    let timeout = whole.traces_timeout.map(|length| length.0);
    let timeout = timeout.and_then(|length| Duration::try_from(length).ok());
    let name = variables.get("OTEL_SERVICE_NAME");
    let mut resource = vec![
        (
            "service.name".to_owned(),
            name.unwrap_or("sichen".to_owned()),
        ),
        (
            "service.version".to_owned(),
            env!("CARGO_PKG_VERSION").to_owned(),
        ),
    ];
    let more = variables
        .get("OTEL_RESOURCE_ATTRIBUTES")
        .unwrap_or_default();
    let more = more.split(',').filter_map(|pair| pair.split_once('='));
    let more = more.map(|(key, value)| (key.trim().to_owned(), decoded(value.trim())));
    let known = |key: &str| key == "service.name" || key == "service.version";
    resource.extend(more.filter(|(key, _)| !key.is_empty() && !known(key)));
    Ok(Some(Traces {
        collector: Collector {
            url: address(endpoint).map_err(|why| refused(format!("traces_endpoint: {why}")))?,
            headers,
            trusted,
            timeout: timeout.unwrap_or(Duration::from_secs(10)),
            resource,
        },
        ratio: whole
            .traces_ratio
            .and_then(Ratio::new)
            .unwrap_or(Ratio::ALL),
    }))
}

/// Where requests are posted: an address without a path has that of the protocol.
fn address(text: &str) -> Result<Url, String> {
    let odd = "leads nowhere; write http://HOST:4318 or https://HOST:4318, with a path if it is not /v1/traces";
    // The text may hold a password, and is not shown.
    let mut url = Url::parse(text).map_err(|e| format!("it {odd} ({e})"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(format!("it {odd}"));
    }
    if url.path() == "/" {
        url.set_path(PATH);
    }
    Ok(url)
}

/// `name=value,name=value`, values percent-encoded, as OpenTelemetry's variable has them.
fn of_variable(text: &str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (name, value) = pair
            .split_once('=')
            .ok_or("OTEL_EXPORTER_OTLP_HEADERS: write name=value")?;
        add(&mut headers, name, &decoded(value.trim()))
            .map_err(|why| format!("OTEL_EXPORTER_OTLP_HEADERS: {why}"))?;
    }
    Ok(headers)
}

/// A line `Name: value` each, as they are sent.
fn of_file(path: &Path) -> Result<HeaderMap, String> {
    let shown = path.display();
    let text = std::fs::read(path).map_err(|e| format!("traces_headers: {shown}: {e}"))?;
    if text.len() > MAX_HEADERS_BYTES {
        return Err(format!(
            "traces_headers: {shown} is longer than {MAX_HEADERS_BYTES} bytes"
        ));
    }
    let text =
        String::from_utf8(text).map_err(|_| format!("traces_headers: {shown} is no text"))?;
    let mut headers = HeaderMap::new();
    let lines = text.lines().enumerate();
    for (no, line) in lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#')) {
        let bad = |why: &str| format!("traces_headers: {shown}:{}: {why}", no + 1);
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| bad("write Name: value"))?;
        add(&mut headers, name, value.trim()).map_err(|why| bad(&why))?;
    }
    Ok(headers)
}

fn add(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|e| e.to_string())?;
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| format!("{name} has a value that can't be sent"))?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}

/// Without percent-encoding; what is none stays.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                at += 3;
            }
            None => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bad = |why: String| {
        format!(
            "traces_ca: {} holds no certificates in PEM: {why}",
            path.display()
        )
    };
    let read = CertificateDer::pem_file_iter(path).map_err(|e| bad(e.to_string()))?;
    let read = read
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| bad(e.to_string()))?;
    match read.is_empty() {
        true => Err(bad("there is none".to_owned())),
        false => Ok(read),
    }
}

#[cfg(test)]
mod tests;
