//! Where a store is, and opening it.
//!
//! # Invariants
//! - A URL's password is never shown.
//!
//! # Not here
//! What a store does (`sichen-store`).

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sichen_core::event::Event;
use sichen_core::model::Dump;
use sichen_core::port::Store;
use sichen_store::clock::SystemClock;
use sichen_store::postgres::{self, PostgresBeacon, PostgresStore};
use sichen_store::sqlite::SqliteStore;
use tokio::sync::mpsc;

use crate::failure::{Exit, Failure};

/// Where a store is.
#[derive(Clone, Eq, PartialEq)]
pub enum StoreAt {
    /// SQLite in this directory, for one server.
    Directory(PathBuf),
    /// The PostgreSQL database of this URL.
    Postgres(String),
}

impl FromStr for StoreAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(StoreAt::Postgres(text.to_owned()));
        }
        let path = text.strip_prefix("sqlite:").unwrap_or(text);
        if path.is_empty() || path.contains("://") {
            return Err(
                "write postgres://USER@HOST/DATABASE, or sqlite:DIRECTORY for one machine".into(),
            );
        }
        Ok(StoreAt::Directory(path.into()))
    }
}

impl fmt::Display for StoreAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreAt::Directory(path) => write!(f, "sqlite:{}", path.display()),
            StoreAt::Postgres(url) => f.write_str(&without_password(url)),
        }
    }
}

impl Serialize for StoreAt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StoreAt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl fmt::Debug for StoreAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `url` with `***` in place of its password and without its query, which may hold one too.
fn without_password(url: &str) -> String {
    let url = url.split_once('?').map_or(url, |(before, _)| before);
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let Some((who, at)) = rest.rsplit_once('@') else {
        return url.to_owned();
    };
    match who.split_once(':') {
        Some((user, _)) => format!("{scheme}://{user}:***@{at}"),
        None => url.to_owned(),
    }
}

impl StoreAt {
    /// Opens it to write; `options` are for PostgreSQL.
    pub async fn open(&self, options: &postgres::Options) -> Result<Arc<dyn Store>, Failure> {
        match self {
            StoreAt::Directory(path) => {
                let store = SqliteStore::open(path, Arc::new(SystemClock));
                let store = store.map_err(|e| Failure::new(Exit::Refused, e.to_string()))?;
                Ok(Arc::new(store))
            }
            StoreAt::Postgres(url) => Ok(Arc::new(self.postgres(url, options).await?)),
        }
    }

    async fn postgres(
        &self,
        url: &str,
        options: &postgres::Options,
    ) -> Result<PostgresStore, Failure> {
        let store = PostgresStore::open(url, options.clone()).await;
        store.map_err(|e| Failure::new(Exit::Unavailable, format!("{self}: {e}")))
    }

    /// Where nodes on it see each other, if it can be shared.
    pub fn beacon(&self) -> Result<Option<Arc<PostgresBeacon>>, Failure> {
        match self {
            StoreAt::Directory(_) => Ok(None),
            StoreAt::Postgres(url) => {
                let beacon = PostgresBeacon::new(url);
                let beacon =
                    beacon.map_err(|e| Failure::new(Exit::Unavailable, format!("{self}: {e}")))?;
                Ok(Some(Arc::new(beacon)))
            }
        }
    }

    /// What it is, and what its server says of itself (nothing if that can't be asked).
    pub async fn about(&self) -> (&'static str, Vec<(String, String)>) {
        match self {
            StoreAt::Directory(_) => {
                let version = sichen_store::sqlite::version();
                ("sqlite", vec![("server_version".to_owned(), version)])
            }
            StoreAt::Postgres(url) => {
                let facts = postgres::facts(url).await;
                let facts = facts.inspect_err(|error| {
                    tracing::warn!(%error, "the database's settings could not be read");
                });
                ("postgres", facts.unwrap_or_default())
            }
        }
    }

    /// Whether the log's places are in the order of commits.
    pub fn seq_is_commit_order(&self) -> bool {
        matches!(self, StoreAt::Directory(_))
    }

    /// Its whole content. Nothing is written there, and a schema of another version is refused.
    pub async fn dump(&self) -> Result<Dump, Failure> {
        let dump = match self {
            StoreAt::Directory(path) => {
                let path = directory(path)?;
                blocking(move || SqliteStore::look(&path, &SystemClock)).await?
            }
            StoreAt::Postgres(url) => PostgresStore::look(url).await,
        };
        dump.map_err(|e| Failure::new(Exit::Unavailable, format!("{self}: {e}")))
    }

    /// [`StoreAt::dump`] for a long history: its log goes to `log` while it is read, all of it or what
    /// is about as young as `since` and younger; the answer has no events.
    pub async fn dump_along(
        &self,
        since: Option<Timestamp>,
        log: mpsc::Sender<Vec<Event>>,
    ) -> Result<Dump, Failure> {
        let rows = match self {
            StoreAt::Directory(path) => {
                let path = directory(path)?;
                blocking(move || SqliteStore::look_along(&path, &SystemClock, since, &log)).await?
            }
            StoreAt::Postgres(url) => PostgresStore::look_along(url, since, log).await,
        };
        rows.map_err(|e| Failure::new(Exit::Unavailable, format!("{self}: {e}")))
    }
}

fn directory(path: &Path) -> Result<PathBuf, Failure> {
    if path.is_dir() {
        return Ok(path.to_owned());
    }
    let text = format!("SC7005: {} is no data directory", path.display());
    Err(Failure::usage(text))
}

/// What reads files is not on a thread that others wait for.
async fn blocking<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(f).await;
    done.map_err(|e| Failure::new(Exit::Failed, e.to_string()))
}

#[cfg(test)]
mod tests;
