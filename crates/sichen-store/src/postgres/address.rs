//! Where a database is, as libpq writes it, and what is Sichen's own in it.
//!
//! # Invariants
//! - A password is never in an error.
//!
//! # Not here
//! Connecting ([`super::connect`]); what the words mean ([`super::tls`], [`super::password`]).

use std::path::PathBuf;

use sichen_core::port::Error;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::fault::{Result, words};
use super::password::Password;
use super::tls::{Mode, Roots, Tls};

/// What stands between this process and the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pooler {
    /// Not said: looked for when the store is opened.
    #[default]
    Unknown,
    /// Nothing that takes the connection away within a session.
    None,
    /// One that gives each transaction another server connection, as pgbouncer does.
    Transaction,
}

/// An address, read.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub config: Config,
    pub pooler: Pooler,
    pub tls: Tls,
    pub password: Password,
}

impl Address {
    /// Reads `postgres://…` or `key=value` pairs, and what `env` says of passwords.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with what is wrong.
    pub fn parse(text: &str, env: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let (text, own) = split(text).ok_or_else(|| wrong("a quote or an escape has no end"))?;
        let config: Config = text.parse().map_err(|e| wrong(&words(&e)))?;
        let mut address = Self {
            config,
            pooler: Pooler::default(),
            tls: Tls::default(),
            password: Password::default(),
        };
        address.find_password(env);
        for (key, value) in own {
            address.set(&key, value)?;
        }
        address.config.ssl_mode(address.tls.mode.of_driver());
        Ok(address)
    }

    /// The sources in their order; a file that the address names comes before them.
    fn find_password(&mut self, env: impl Fn(&str) -> Option<String>) {
        if self.config.get_password().is_some() {
            return;
        }
        let at_home = || Some(PathBuf::from(env("HOME")?).join(".pgpass"));
        if let Some(path) = env("SICHEN_STORE_PASSWORD_FILE") {
            self.password = Password::File(path.into());
        } else if let Some(password) = env("PGPASSWORD") {
            self.config.password(password);
        } else if let Some(path) = env("PGPASSFILE") {
            let (path, must) = (path.into(), true);
            self.password = Password::Lines { path, must };
        } else if let Some(path) = at_home() {
            let must = false;
            self.password = Password::Lines { path, must };
        }
    }

    fn set(&mut self, key: &str, value: String) -> Result<()> {
        match key {
            "pooler" => {
                self.pooler = match value.as_str() {
                    "auto" => Pooler::Unknown,
                    "none" => Pooler::None,
                    "transaction" => Pooler::Transaction,
                    _ => {
                        let say = format!("pooler={value}: write auto, none or transaction");
                        return Err(wrong(&say));
                    }
                };
            }
            "sslmode" => {
                let say = "write disable, prefer, require, verify-ca or verify-full";
                let mode = Mode::parse(&value);
                self.tls.mode = mode.ok_or_else(|| wrong(&format!("sslmode={value}: {say}")))?;
            }
            "sslrootcert" if value == "system" => self.tls.roots = Some(Roots::System),
            "sslrootcert" => self.tls.roots = Some(Roots::File(value.into())),
            "sslcert" => self.tls.certificate = Some(value.into()),
            "sslkey" => self.tls.key = Some(value.into()),
            "passfile" => {
                let (path, must) = (value.into(), true);
                self.password = Password::Lines { path, must };
            }
            _ => return Err(wrong(&format!("{key} is not known"))),
        }
        Ok(())
    }

    /// Whether what is sent may be read on its way.
    pub fn is_exposed(&self) -> bool {
        let far = |host: &Host| match host {
            Host::Tcp(name) => !["localhost", "127.0.0.1", "::1"].contains(&name.as_str()),
            Host::Unix(_) => false,
        };
        self.tls.mode <= Mode::Prefer && self.config.get_hosts().iter().any(far)
    }
}

/// Keys that the driver does not know, or knows less of.
const OWN: &[&str] = &[
    "pooler",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "passfile",
];

fn wrong(what: &str) -> Error {
    Error::Unavailable(format!("the address of the database: {what}"))
}

/// Pairs of a key and its value.
type Pairs = Vec<(String, String)>;

/// Takes Sichen's own pairs out of an address; `None` if it can't be read.
fn split(text: &str) -> Option<(String, Pairs)> {
    let is_own = |(key, _): &(String, String)| OWN.contains(&key.as_str());
    if text.contains("://") {
        let Some((base, query)) = text.split_once('?') else {
            return Some((text.to_owned(), Vec::new()));
        };
        let (mut own, mut left) = (Vec::new(), Vec::new());
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let pair = (decoded(key)?, decoded(value)?);
            if is_own(&pair) {
                own.push(pair);
            } else {
                left.push(part);
            }
        }
        let left = left.join("&");
        return Some((format!("{base}?{left}"), own));
    }
    let (own, left): (Pairs, Pairs) = pairs(text)?.into_iter().partition(is_own);
    let quoted = |value: &str| value.replace('\\', "\\\\").replace('\'', "\\'");
    let left = left
        .iter()
        .map(|(key, value)| format!("{key}='{}'", quoted(value)));
    Some((left.collect::<Vec<_>>().join(" "), own))
}

/// `%41` to `A`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || Some(char::from(rest.next()?).to_digit(16)?.to_le_bytes()[0]);
        bytes.push(digit()? * 16 + digit()?);
    }
    String::from_utf8(bytes).ok()
}

/// `key=value` pairs: a value with blanks stands in single quotes, a backslash escapes.
fn pairs(text: &str) -> Option<Pairs> {
    let mut pairs = Vec::new();
    let mut rest = text.chars().peekable();
    loop {
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        if rest.peek().is_none() {
            return Some(pairs);
        }
        let mut key = String::new();
        while let Some(c) = rest.next_if(|c| *c != '=') {
            key.push(c);
        }
        rest.next()?;
        let key = key.trim_end().to_owned();
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        let mut value = String::new();
        let quoted = rest.next_if_eq(&'\'').is_some();
        loop {
            match rest.next() {
                Some('\\') => value.push(rest.next()?),
                Some('\'') if quoted => break,
                Some(c) if !quoted && c.is_whitespace() => break,
                Some(c) => value.push(c),
                None if quoted => return None,
                None => break,
            }
        }
        pairs.push((key, value));
    }
}

#[cfg(test)]
mod tests;
