//! The way of a notice to those who are told: an HTTP POST, signed, or a mail.
//!
//! # Invariants
//! - A request goes to the receiver's address alone: redirects are failures.
//! - Neither address nor secret is in a log or an error: chat services have their secret in the address.
//! - A try takes [`TIMEOUT`] at most, and of an answer [`MAX_ANSWER_BYTES`] are read.
//!
//! # Not here
//! What a notice says, and when it is tried again (`sichen_core::alert::notice`).

pub mod form;
pub mod mail;
pub mod signature;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::{Client, Response, Url, redirect};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use sichen_core::alert::notice::Notice;
use sichen_engine::alerts::{Sender, Sent};

use form::{Form, Language};
use mail::{Mail, Post};

/// How long one try may take.
pub const TIMEOUT: Duration = Duration::from_secs(10);
/// Receivers of one configuration.
pub const MAX_RECEIVERS: usize = 20;
/// How much of a receiver's answer is read, in bytes.
pub const MAX_ANSWER_BYTES: usize = 65_536;

/// Who is told.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// By which it is named.
    pub name: String,
    /// How it is reached.
    pub way: Way,
    /// In which words what is for people is said to it.
    pub language: Language,
}

/// How a receiver is reached.
#[derive(Clone, Debug)]
pub enum Way {
    /// By HTTP.
    Hook(Hook),
    /// By a mail server.
    Mail(Box<Mail>),
}

/// Who takes a POST.
#[derive(Clone)]
pub struct Hook {
    /// Where it is.
    pub url: Url,
    /// With what its notices are signed.
    pub secret: Option<String>,
    /// What it understands.
    pub form: Form,
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Hook");
        shown.field("form", &self.form).finish_non_exhaustive()
    }
}

/// The receivers of a node, and the clients that speak to them.
#[derive(Debug)]
pub struct Outlets {
    http: Client,
    receivers: BTreeMap<String, Outlet>,
    heartbeat: Option<Heartbeat>,
}

/// Who asks outside whether alerts work: an address that is called while they do.
#[derive(Clone)]
pub struct Heartbeat(pub Url);

impl fmt::Debug for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Heartbeat")
    }
}

/// One receiver, ready to be spoken to.
#[derive(Debug)]
enum Outlet {
    Hook(Hook, Language),
    Mail(Post, Language),
}

impl Outlet {
    fn of(receiver: Receiver) -> Result<(String, Self), String> {
        let language = receiver.language;
        let outlet = match receiver.way {
            Way::Hook(hook) => Outlet::Hook(hook, language),
            Way::Mail(mail) => {
                let post = Post::new(*mail).map_err(|e| format!("{}: {e}", receiver.name))?;
                Outlet::Mail(post, language)
            }
        };
        Ok((receiver.name, outlet))
    }
}

impl Outlets {
    /// A way to these; connects at the first notice.
    ///
    /// # Errors
    /// If there can be no client.
    pub fn new(receivers: Vec<Receiver>, heartbeat: Option<Heartbeat>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let trust = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let http = Client::builder()
            .timeout(TIMEOUT)
            .redirect(redirect::Policy::none())
            .no_proxy()
            .tls_backend_preconfigured(trust)
            .user_agent(concat!("sichen/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| e.to_string())?;
        let named = receivers.into_iter().map(Outlet::of);
        Ok(Self {
            http,
            receivers: named.collect::<Result<_, _>>()?,
            heartbeat,
        })
    }

    async fn deliver(&self, notice: &Notice) -> Result<(), String> {
        let receiver = self.receivers.get(&notice.receiver);
        match receiver.ok_or("no receiver of this name is configured here")? {
            Outlet::Hook(hook, language) => self.post(hook, *language, notice).await,
            Outlet::Mail(post, language) => post.send(notice, *language).await,
        }
    }

    /// Says outside that alerts work.
    async fn call(&self) -> Result<(), String> {
        let Some(Heartbeat(url)) = &self.heartbeat else {
            return Ok(());
        };
        let answer = self.http.get(url.clone()).send().await;
        let status = answer.map_err(|e| told(&e, TIMEOUT))?.status();
        match status.is_success() {
            true => Ok(()),
            false => Err(format!("answered {status}")),
        }
    }

    async fn post(
        &self,
        receiver: &Hook,
        language: Language,
        notice: &Notice,
    ) -> Result<(), String> {
        let body = receiver.form.body(&notice.body, language);
        let mut request = self
            .http
            .post(receiver.url.clone())
            .header("content-type", "application/json")
            .header("sichen-notice", notice.id.to_string());
        if let Some(secret) = &receiver.secret {
            let signed = signature::header(secret, seconds(), &body);
            request = request.header(signature::HEADER, signed);
        }
        let answer = request.body(body).send().await;
        let answer = answer.map_err(|e| told(&e, TIMEOUT))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(format!("answered {status}"));
        }
        receiver.form.judge(&beginning(answer).await?)
    }
}

impl Sender for Outlets {
    fn send<'a>(&'a self, notice: &'a Notice) -> Sent<'a> {
        Box::pin(self.deliver(notice))
    }

    fn beat(&self) -> Sent<'_> {
        Box::pin(self.call())
    }
}

/// An error and its causes, without the address.
pub(crate) fn told(error: &reqwest::Error, timeout: Duration) -> String {
    if error.is_timeout() {
        return format!("no answer within {} seconds", timeout.as_secs_f32());
    }
    let mut text = if error.is_connect() {
        "no connection".to_owned()
    } else {
        "the request failed".to_owned()
    };
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

async fn beginning(mut answer: Response) -> Result<Vec<u8>, String> {
    let mut read = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|e| told(&e, TIMEOUT))? {
        let room = MAX_ANSWER_BYTES.saturating_sub(read.len());
        read.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() >= room {
            break;
        }
    }
    Ok(read)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a receiver judges by its own clock how old a request is; the store's may stand still"
)]
fn seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
