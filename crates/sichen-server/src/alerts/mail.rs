//! A notice as a mail, handed to a mail server.
//!
//! # Invariants
//! - A password goes over TLS alone, to a server whose certificate is good.
//! - The mail's id is the notice's, so that one that comes twice can be seen to be one.
//! - What a failing process wrote starts no header: a subject is one line.
//!
//! # Not here
//! When it is tried again (`sichen_core::alert::notice`).

use std::fmt;

use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, SinglePart};
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use sichen_core::alert::notice::Notice;

use super::TIMEOUT;
use super::form::{self, Language};

/// Addresses that one receiver writes to.
pub const MAX_ADDRESSES: usize = 20;
/// The longest subject, in characters; what is longer is cut.
const SUBJECT_CHARS: usize = 150;

/// How the way to the mail server is kept secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// A plain connection that must become TLS before anything is said.
    #[default]
    StartTls,
    /// TLS from the beginning.
    Tls,
    /// None: for a server on the same machine, and without a password.
    None,
}

impl Encryption {
    /// The port where it is usual.
    #[must_use]
    pub fn port(self) -> u16 {
        match self {
            Encryption::StartTls => 587,
            Encryption::Tls => 465,
            Encryption::None => 25,
        }
    }
}

/// Where mails go, and as whom.
#[derive(Clone)]
pub struct Mail {
    /// The mail server's name.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How it is spoken to.
    pub encryption: Encryption,
    /// Certificates that may vouch for it, PEM; `None`: those of this machine.
    pub roots: Option<Vec<u8>>,
    /// As whom.
    pub login: Option<(String, String)>,
    /// From whom mails are.
    pub from: Mailbox,
    /// To whom.
    pub to: Vec<Mailbox>,
}

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("encryption", &self.encryption)
            .finish_non_exhaustive()
    }
}

/// Reads an address, such as `a@example.org` or `Sichen <a@example.org>`.
///
/// # Errors
/// Why it is none.
pub fn address(text: &str) -> Result<Mailbox, String> {
    text.trim().parse::<Mailbox>().map_err(|e| e.to_string())
}

/// A way to a mail server; connects anew for each mail.
#[derive(Clone)]
pub struct Post {
    mail: Mail,
    smtp: AsyncSmtpTransport<Tokio1Executor>,
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mail.fmt(f)
    }
}

impl Post {
    /// The way of `mail`.
    ///
    /// # Errors
    /// Certificates that can't be read.
    pub fn new(mail: Mail) -> Result<Self, String> {
        let tls = || tls_of(&mail).map_err(|e| told(&e));
        let tls = match mail.encryption {
            Encryption::StartTls => Tls::Required(tls()?),
            Encryption::Tls => Tls::Wrapper(tls()?),
            Encryption::None => Tls::None,
        };
        let smtp = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&mail.host)
            .port(mail.port)
            .tls(tls)
            .timeout(Some(TIMEOUT));
        let login = mail.login.clone();
        let smtp = match login.filter(|_| mail.encryption != Encryption::None) {
            Some((user, password)) => smtp.credentials(Credentials::new(user, password)),
            None => smtp,
        };
        Ok(Self {
            smtp: smtp.build(),
            mail,
        })
    }

    /// Hands a notice over.
    ///
    /// # Errors
    /// Why the server did not take it.
    pub async fn send(&self, notice: &Notice, language: Language) -> Result<(), String> {
        let message = message(&self.mail, notice, language)?;
        let sent = tokio::time::timeout(TIMEOUT, self.smtp.send(message));
        match sent.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(told(&error)),
            Err(_) => Err(format!("no answer within {} seconds", TIMEOUT.as_secs())),
        }
    }
}

fn tls_of(mail: &Mail) -> Result<TlsParameters, Error> {
    let tls = TlsParameters::builder(mail.host.clone());
    let Some(roots) = &mail.roots else {
        return tls.build();
    };
    let roots = Certificate::from_pem(roots)?;
    let own = tls.certificate_store(CertificateStore::None);
    own.add_root_certificate(roots).build()
}

/// An error and its causes; what the server said is a line at most.
fn told(error: &Error) -> String {
    if error.is_timeout() {
        return format!("no answer within {} seconds", TIMEOUT.as_secs());
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let next_text = next.to_string();
        if !text.contains(&next_text) {
            text = format!("{text}: {next_text}");
        }
        cause = next.source();
    }
    let line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    line.take(300).collect()
}

/// The mail of a notice.
fn message(mail: &Mail, notice: &Notice, language: Language) -> Result<Message, String> {
    let bad = |e: lettre::error::Error| format!("no mail can be made of it: {e}");
    let told = form::Told::of(&notice.body, language);
    let subject: String = told
        .headline()
        .chars()
        .map(plain)
        .take(SUBJECT_CHARS)
        .collect();
    let mut message = Message::builder()
        .message_id(Some(format!("<{}@sichen>", notice.id)))
        .from(mail.from.clone())
        .subject(subject);
    for to in &mail.to {
        message = message.to(to.clone());
    }
    let mut message = message
        .singlepart(
            SinglePart::builder()
                .header(ContentType::TEXT_PLAIN)
                .body(told.text()),
        )
        .map_err(bad)?;
    // Nobody's out-of-office answers it.
    let name = HeaderName::new_from_ascii_str("Auto-Submitted");
    let value = HeaderValue::new(name, "auto-generated".to_owned());
    message.headers_mut().insert_raw(value);
    Ok(message)
}

fn plain(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}
