//! The PostgreSQL of a drill: a schema of its own in the user's database, or a server of its own.
//!
//! # Invariants
//! - What is not the drill's is never touched: a schema of its name that it has not marked stops it.
//! - What is done to a database that is not the drill's own is done to the drill's way to it, by the
//!   proxy; its processes, settings and other schemas are left alone.
//! - Two drills never share a database: a session lock tells them apart.
//!
//! # Not here
//! The scheduler's tables: the server makes them.

pub(crate) mod server;
pub(crate) mod watch;

use tokio_postgres::Client;

use crate::error::Error;
use server::Server;

/// The schema.
const SCHEMA: &str = "sichen_drill_store";
/// The comment on it.
const PASSING: &str = "sichen drill: in use, or left by a drill that was killed; may be dropped";
/// What of a database's settings decides how long things take and what is kept.
const SETTINGS: [&str; 9] = [
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "synchronous_standby_names",
    "shared_buffers",
    "max_connections",
    "deadlock_timeout",
    "default_transaction_isolation",
];
/// What the connections of a server say that they are.
pub(crate) const APPLICATION: &str = "sichen";

/// The database of a drill.
#[derive(Debug)]
pub(crate) struct Database {
    /// Killed and frozen, if it is the drill's own.
    pub(crate) own: Option<Server>,
    url: String,
    /// Its version and its settings that matter, by name.
    pub(crate) told: std::collections::BTreeMap<String, String>,
    /// Holds the session lock of a database that is not the drill's own.
    owner: Option<Client>,
}

fn words(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => db.message().to_owned(),
        None => error.to_string(),
    }
}

/// A connection that the drill uses itself.
pub(crate) async fn connect(url: &str) -> Result<Client, Error> {
    let path = format!("{SCHEMA},public");
    let settings = [
        ("application_name", "drill-watch"),
        ("search_path", path.as_str()),
    ];
    let client = sichen_store::postgres::connect(url, &settings).await;
    client.map_err(|e| Error::stage("the database", e))
}

impl Database {
    /// In the user's database, or in a server of the drill's own.
    pub(crate) async fn open(store: Option<&str>) -> Result<Self, Error> {
        let own = match store {
            Some(_) => None,
            None => Some(Server::start().await?),
        };
        let url = match (&own, store) {
            (Some(server), _) => server.url(),
            (None, store) => store.unwrap_or_default().to_owned(),
        };
        let client = connect(&url).await?;
        let lock = "SELECT pg_try_advisory_lock(hashtextextended('sichen_drill', 0))";
        let refused = |e: tokio_postgres::Error| Error::stage("the database", words(&e));
        if !client
            .query_one(lock, &[])
            .await
            .map_err(refused)?
            .get::<_, bool>(0)
        {
            return Err(Error::Refused(
                "another drill is using this database; wait for its end".into(),
            ));
        }
        let found =
            "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = $1";
        if let Some(row) = client.query_opt(found, &[&SCHEMA]).await.map_err(refused)?
            && row.get::<_, Option<String>>(0).as_deref() != Some(PASSING)
        {
            return Err(Error::Refused(format!(
                "the schema {SCHEMA} is in this database already and is no drill's; look at it, and if \
                 nobody needs it: DROP SCHEMA {SCHEMA} CASCADE"
            )));
        }
        let make = format!(
            "SET client_min_messages = warning; DROP SCHEMA IF EXISTS {SCHEMA} CASCADE;
             CREATE SCHEMA {SCHEMA}; COMMENT ON SCHEMA {SCHEMA} IS '{PASSING}'"
        );
        client.batch_execute(&make).await.map_err(refused)?;
        let told = "SELECT name, setting FROM pg_settings WHERE name = ANY($1) ORDER BY name";
        let told = client.query(told, &[&SETTINGS.as_slice()]).await;
        let told = told.map_err(refused)?.into_iter();
        Ok(Self {
            told: told.map(|row| (row.get(0), row.get(1))).collect(),
            owner: own.is_none().then_some(client),
            own,
            url,
        })
    }

    /// The address by which the drill itself reaches it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What it is, its version and its settings, each by name: conditions of a drill.
    pub(crate) fn conditions(&self) -> std::collections::BTreeMap<String, String> {
        let kind = match &self.own {
            Some(_) => "postgres, a server of the drill's own".to_owned(),
            None => {
                let at = parts(&self.url).map_or("", |(_, host, _)| host);
                format!("postgres at {at}, a schema of the drill's own")
            }
        };
        let (version, settings): (Vec<_>, Vec<_>) = self
            .told
            .iter()
            .partition(|(name, _)| *name == "server_version");
        let version = version.into_iter().map(|(_, value)| value.clone());
        let settings = settings.into_iter().map(|(n, v)| format!("{n} {v}"));
        [
            ("store", kind),
            ("store_version", version.collect()),
            ("store_settings", settings.collect::<Vec<_>>().join(", ")),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Host and port, for a proxy.
    pub(crate) fn target(&self) -> Result<String, Error> {
        Ok(parts(&self.url)?.1.to_owned())
    }

    /// The address by which the server reaches it: through the proxy at `address`, in the schema.
    pub(crate) fn store(&self, address: std::net::SocketAddr) -> Result<String, Error> {
        if self.url.contains("sslmode=verify-full") {
            return Err(Error::Refused(
                "a drill reaches the database through a proxy, whose name no certificate has: give an \
                 address with sslmode=require or less"
                    .into(),
            ));
        }
        let (before, _, after) = parts(&self.url)?;
        let sign = if after.contains('?') { '&' } else { '?' };
        Ok(format!(
            "{before}{address}{after}{sign}options=-c%20search_path%3D{SCHEMA}"
        ))
    }

    /// Drops the schema, unless the whole server goes.
    pub(crate) async fn clear(&self) -> Result<(), Error> {
        let Some(owner) = &self.owner else {
            return Ok(());
        };
        let drop = format!(
            "SET lock_timeout = '20s'; SET client_min_messages = warning;
             DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"
        );
        let dropped = owner.batch_execute(&drop).await;
        dropped.map_err(|e| {
            Error::stage(
                &format!("the schema {SCHEMA} could not be dropped"),
                words(&e),
            )
        })
    }

    /// Drops an index that handing out shards uses; how to make it again.
    pub(crate) async fn drop_index(&self) -> Result<String, Error> {
        let client = connect(&self.url).await?;
        let failed = |e: tokio_postgres::Error| Error::stage("an index", words(&e));
        let made =
            "SELECT indexdef FROM pg_indexes WHERE schemaname = $1 AND indexname = 'shard_waiting'";
        let row = client.query_one(made, &[&SCHEMA]).await.map_err(failed)?;
        client
            .batch_execute("DROP INDEX shard_waiting")
            .await
            .map_err(failed)?;
        Ok(row.get(0))
    }

    /// Carries out a statement.
    pub(crate) async fn execute(&self, statement: &str) -> Result<(), Error> {
        let client = connect(&self.url).await?;
        client
            .batch_execute(statement)
            .await
            .map_err(|e| Error::stage("the database", words(&e)))
    }
}

/// Takes rows in the order in which the scheduler does not, until it is dropped: shards, then their
/// runs, then the jobs.
pub(crate) async fn entangle(url: String) {
    const STEPS: [&str; 3] = [
        "SELECT 1 FROM shard WHERE live ORDER BY run_id DESC, no DESC LIMIT 3 FOR UPDATE",
        "SELECT 1 FROM run WHERE live ORDER BY id DESC LIMIT 3 FOR UPDATE",
        "SELECT 1 FROM job ORDER BY uid DESC FOR UPDATE",
    ];
    let wait = std::time::Duration::from_millis(150);
    loop {
        let Ok(mut client) = connect(&url).await else {
            tokio::time::sleep(wait).await;
            continue;
        };
        // Refused by the other's victory, it begins anew.
        while let Ok(transaction) = client.transaction().await {
            for step in STEPS {
                if transaction.query(step, &[]).await.is_err() {
                    break;
                }
                tokio::time::sleep(wait).await;
            }
            let _ = transaction.rollback().await;
            tokio::time::sleep(wait).await;
        }
    }
}

/// An address before, at and after its host and port.
fn parts(url: &str) -> Result<(&str, &str, &str), Error> {
    let refused = || {
        Error::Refused(
            "a drill reaches the database through a proxy: give its address as \
             postgres://USER@HOST:PORT/DATABASE, with one host by name or number"
                .into(),
        )
    };
    let from = url.find("://").ok_or_else(refused)? + 3;
    let to = url[from..]
        .find(['/', '?'])
        .map_or(url.len(), |at| from + at);
    let from = url[from..to].rfind('@').map_or(from, |at| from + at + 1);
    let host = &url[from..to];
    if host.is_empty() || host.contains([',', '%']) || !host.contains(':') {
        return Err(refused());
    }
    Ok((&url[..from], host, &url[to..]))
}

#[cfg(test)]
mod tests;
