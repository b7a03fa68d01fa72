//! A receiver of mails, as the file of alerts has it.
//!
//! # Invariants
//! - A password stands in a file that its owner alone may read, and goes over TLS alone.
//!
//! # Not here
//! Sending (`sichen_server::alerts::mail`).

use std::path::PathBuf;

use serde::Deserialize;
use sichen_server::alerts::mail::{Encryption, MAX_ADDRESSES, Mail, address};
use sichen_server::auth;

use super::super::refused;
use crate::failure::{Exit, Failure};

/// A mail server, and whom it is asked to write to.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MailConfig {
    server: String,
    port: Option<u16>,
    #[serde(default)]
    tls: TlsConfig,
    ca_file: Option<PathBuf>,
    user: Option<String>,
    password_file: Option<PathBuf>,
    from: String,
    to: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TlsConfig {
    #[default]
    StartTls,
    Tls,
    None,
}

impl MailConfig {
    pub(super) fn problems(&self, place: &str) -> Vec<String> {
        let mut problems = Vec::new();
        let mut say = |key: &str, why: String| problems.push(format!("{place}.mail.{key}: {why}"));
        let host = &self.server;
        if host.is_empty() || host.contains(|c: char| c == '/' || c == '@' || c.is_whitespace()) {
            say("server", format!("{host:?} is no name of a host"));
        }
        if let Err(why) = address(&self.from) {
            say("from", format!("{:?}: {why}", self.from));
        }
        for to in &self.to {
            if let Err(why) = address(to) {
                say("to", format!("{to:?}: {why}"));
            }
        }
        if self.to.is_empty() || self.to.len() > MAX_ADDRESSES {
            say(
                "to",
                format!("1 to {MAX_ADDRESSES} addresses, not {}", self.to.len()),
            );
        }
        if self.user.is_some() != self.password_file.is_some() {
            say(
                "user",
                "give `user` and `password_file` together".to_owned(),
            );
        }
        if self.user.is_some() && self.tls == TlsConfig::None {
            say(
                "tls",
                "without TLS everybody on the way would read the password".to_owned(),
            );
        }
        if self.ca_file.is_some() && self.tls == TlsConfig::None {
            say(
                "ca_file",
                "without TLS no certificate is looked at".to_owned(),
            );
        }
        problems
    }

    pub(super) fn open(&self, place: &str) -> Result<Mail, Failure> {
        let bad = |why: String| refused(place, &[why]);
        let password = match &self.password_file {
            None => None,
            Some(path) => {
                let read = auth::read_short(path);
                Some(read.map_err(|e| Failure::new(Exit::Denied, e.to_string()))?)
            }
        };
        let roots = match &self.ca_file {
            None => None,
            Some(path) => Some(std::fs::read(path).map_err(|e| {
                bad(format!(
                    "mail.ca_file: {} can't be read: {e}",
                    path.display()
                ))
            })?),
        };
        let encryption = match self.tls {
            TlsConfig::StartTls => Encryption::StartTls,
            TlsConfig::Tls => Encryption::Tls,
            TlsConfig::None => Encryption::None,
        };
        let to = self.to.iter().map(|to| address(to));
        Ok(Mail {
            host: self.server.clone(),
            port: self.port.unwrap_or(encryption.port()),
            encryption,
            roots,
            login: self.user.clone().zip(password),
            from: address(&self.from).map_err(bad)?,
            to: to.collect::<Result<_, _>>().map_err(bad)?,
        })
    }
}
