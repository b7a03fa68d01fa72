//! The way of spans to who collects them: OTLP over HTTP, in batches.
//!
//! # Invariants
//! - Whoever hands spans over never waits: at most [`MAX_WAITING`] wait here, and what does not fit is not
//!   taken.
//! - A batch is tried again while its collector can't be reached or asks for it, for [`MAX_AGE`] at most; one
//!   that is refused is not. What is given up is counted.
//! - A collector that is gone is one warning, and one word when it is back.
//! - Neither its address nor what identifies us to it is in a log.
//!
//! # Not here
//! Which spans there are (`sichen_core::trace::span`, `sichen_engine::tracer`).

mod form;
pub mod otlp;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Client, StatusCode, Url, redirect};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use sichen_core::trace::span::Span;
use sichen_engine::meter::{Meter, Unsent};
use sichen_engine::tracer::Sink;
use tokio::sync::Notify;

/// Spans that wait to be sent; further ones are not taken, a run's all or none.
pub const MAX_WAITING: usize = 20_000;
/// Spans of one request.
pub const MAX_BATCH: usize = 512;
/// How long a batch is tried while nobody takes it.
pub const MAX_AGE: Duration = Duration::from_secs(120);
/// How long spans wait for more to be sent with.
const GATHER: Duration = Duration::from_millis(500);
/// From the first try to the second; each wait is twice the one before, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest wait between two tries, also where the collector asks for a longer one.
const MAX_PAUSE: Duration = Duration::from_secs(15);
/// How long a stop waits until what is here is sent.
const AT_STOP: Duration = Duration::from_secs(2);
/// How much of an answer is read, in bytes.
const MAX_ANSWER_BYTES: usize = 65_536;

/// Who collects spans.
#[derive(Clone)]
pub struct Collector {
    /// Where requests are posted, with the path.
    pub url: Url,
    /// What every request says of us, such as a token.
    pub headers: HeaderMap,
    /// Certificates that may vouch for it, beside those of the system.
    pub trusted: Vec<CertificateDer<'static>>,
    /// How long one request may take.
    pub timeout: Duration,
    /// What all spans say of where they come from.
    pub resource: Vec<(String, String)>,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Collector");
        shown
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Spans on their way.
#[derive(Debug)]
pub struct Exporter {
    http: Client,
    collector: Collector,
    waiting: Mutex<VecDeque<Span>>,
    more: Notify,
    max_age: Duration,
    meter: Mutex<Option<Arc<Meter>>>,
}

/// What became of one request.
#[derive(Debug, PartialEq, Eq)]
enum Tried {
    /// It was taken, but for so many spans, for this reason.
    Taken { but: u64, why: String },
    /// It may be taken later; not before, if the collector says so.
    Later { why: String, wait: Option<Duration> },
    /// It will never be taken.
    Refused(String),
}

impl Sink for Exporter {
    fn take(&self, spans: Vec<Span>) -> bool {
        let mut waiting = self.waiting();
        let fits = waiting.len() + spans.len() <= MAX_WAITING;
        if fits {
            waiting.extend(spans);
            self.more.notify_one();
        }
        fits
    }
}

impl Exporter {
    /// A way to `collector`; connects when there is something to send.
    ///
    /// # Errors
    /// If there can be no client.
    pub fn new(collector: Collector) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(collector.trusted.iter().cloned());
        let trust = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let http = Client::builder()
            .timeout(collector.timeout)
            .redirect(redirect::Policy::none())
            .no_proxy()
            .default_headers(collector.headers.clone())
            .tls_backend_preconfigured(trust)
            .user_agent(concat!("sichen/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| e.to_string())?;
        Ok(Self {
            http,
            collector,
            waiting: Mutex::default(),
            more: Notify::new(),
            max_age: MAX_AGE,
            meter: Mutex::default(),
        })
    }

    /// Counts with `meter` from here on.
    pub fn counts_with(&self, meter: Arc<Meter>) {
        *self.meter.lock().unwrap_or_else(PoisonError::into_inner) = Some(meter);
    }

    /// Sends what there is, for ever.
    pub async fn run(&self) {
        let mut is_gone = false;
        loop {
            if self.waiting().is_empty() {
                self.more.notified().await;
                tokio::time::sleep(GATHER).await;
            }
            self.send(&mut is_gone).await;
        }
    }

    /// Sends what is still here, as far as there is time: the node stops.
    pub async fn end(&self) {
        let all = async {
            while !self.waiting().is_empty() {
                self.send(&mut true).await;
            }
        };
        let _ = tokio::time::timeout(AT_STOP, all).await;
        let left = self.waiting().len();
        self.count(|meter| meter.spans_dropped(Unsent::Failed, left as u64));
        if left > 0 {
            tracing::warn!(spans = left, "the node stops before these spans were taken");
        }
    }

    /// Sends one batch, until it is taken or given up; it is among what waits for as long.
    async fn send(&self, is_gone: &mut bool) {
        let batch: Vec<Span> = self.waiting().iter().take(MAX_BATCH).cloned().collect();
        if batch.is_empty() {
            return;
        }
        let spans = batch.len() as u64;
        let body = form::body(&self.collector.resource, &batch);
        drop(batch);
        let tried = tokio::time::timeout(self.max_age, self.offer(body, spans, is_gone));
        if tried.await.is_err() {
            self.count(|meter| meter.spans_dropped(Unsent::Failed, spans));
        }
        let mut waiting = self.waiting();
        let sent = waiting.len().min(usize::try_from(spans).unwrap_or(0));
        waiting.drain(..sent);
    }

    /// Offers one batch until it is taken or refused.
    async fn offer(&self, body: Vec<u8>, spans: u64, is_gone: &mut bool) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.post(body.clone()).await {
                Tried::Taken { but, why } => {
                    let but = but.min(spans);
                    self.count(|meter| {
                        meter.spans_sent(spans - but);
                        meter.spans_dropped(Unsent::Rejected, but);
                    });
                    if but > 0 {
                        self.say(is_gone, &format!("refused {but} of {spans} spans: {why}"));
                    } else if std::mem::take(is_gone) {
                        tracing::info!("the collector of traces takes spans again");
                    }
                    return;
                }
                Tried::Refused(why) => {
                    self.count(|meter| meter.spans_dropped(Unsent::Rejected, spans));
                    self.say(is_gone, &why);
                    return;
                }
                Tried::Later { why, wait } => {
                    self.say(is_gone, &why);
                    tokio::time::sleep(wait.unwrap_or(pause).min(MAX_PAUSE)).await;
                    pause = (pause * 2).min(MAX_PAUSE);
                }
            }
        }
    }

    /// One warning for as long as it goes on; counted each time.
    fn say(&self, is_gone: &mut bool, why: &str) {
        self.count(Meter::export_failed);
        if !std::mem::replace(is_gone, true) {
            tracing::warn!(
                why,
                "SC4042: the collector of traces does not take spans; runs go on, what it misses is counted"
            );
        }
    }

    async fn post(&self, body: Vec<u8>) -> Tried {
        let request = self.http.post(self.collector.url.clone());
        let request = request
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(body);
        let mut answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) => {
                let why = super::alerts::told(&error, self.collector.timeout);
                return Tried::Later { why, wait: None };
            }
        };
        let status = answer.status();
        let mut read = Vec::new();
        while let Ok(Some(chunk)) = answer.chunk().await {
            let room = MAX_ANSWER_BYTES.saturating_sub(read.len());
            read.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() >= room {
                break;
            }
        }
        judge(status, answer.headers(), &read)
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Span>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, what: impl FnOnce(&Meter)) {
        let meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(meter) = &*meter {
            what(meter);
        }
    }
}

/// What an answer means: which may be tried again is said by the protocol.
fn judge(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Tried {
    if status.is_success() {
        let answer = otlp::Answer::decode(body).unwrap_or_default();
        let partly = answer.partial_success.unwrap_or_default();
        return Tried::Taken {
            but: u64::try_from(partly.rejected_spans).unwrap_or(0),
            why: partly.error_message,
        };
    }
    let why = format!("answered {status}");
    match status.as_u16() {
        429 | 502 | 503 | 504 => {
            let after = headers.get(RETRY_AFTER).and_then(|v| v.to_str().ok());
            let wait = after.and_then(|v| v.trim().parse().ok());
            Tried::Later {
                why,
                wait: wait.map(Duration::from_secs),
            }
        }
        _ => Tried::Refused(why),
    }
}

#[cfg(test)]
mod tests;
