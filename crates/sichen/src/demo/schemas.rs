//! The demo's own schemas in the user's PostgreSQL: one for the business, one for the server's store.
//!
//! # Invariants
//! - What is not the demo's is never touched: a schema of that name that is not marked as a demo's
//!   passing one stops the demo.
//! - Two demos never share a database: a session lock tells them apart.
//!
//! # Not here
//! The tables in them.

use anyhow::{Context, anyhow, bail};
use tokio_postgres::Client;

use super::database::postgres::{SCHEMA, connect};
use super::screen::Screen;
use crate::store_at::StoreAt;

/// Where the demo's server keeps its jobs and runs.
const STORE_SCHEMA: &str = "sichen_demo_store";
/// The comment on schemas that go at the end of the demo, or at the next one's start.
const PASSING: &str = "sichen demo: in use, or left by a demo that was killed; may be dropped";
/// The comment on those that the user wants to keep.
const KEPT: &str = "sichen demo: kept by --keep";

/// The demo's schemas, made and not yet removed.
#[derive(Debug)]
pub struct Schemas {
    /// Holds the session lock.
    owner: Client,
    url: String,
}

impl Schemas {
    /// Makes them in the database of `url`.
    ///
    /// # Errors
    /// If they are there already and somebody may want them, or another demo is using them.
    pub async fn make(url: &str, screen: &Screen) -> anyhow::Result<Schemas> {
        let at = StoreAt::Postgres(url.to_owned());
        let owner = connect(url, SCHEMA).await;
        let owner = owner.with_context(|| format!("{at}"))?;
        let lock = "SELECT pg_try_advisory_lock(hashtextextended('sichen_demo', 0))";
        if !owner.query_one(lock, &[]).await?.get::<_, bool>(0) {
            bail!("SC7030: another demo is using {at}; wait for its end, or name another database");
        }
        let found = "SELECT nspname::text, obj_description(oid, 'pg_namespace')
                       FROM pg_namespace WHERE nspname IN ($1, $2) ORDER BY nspname";
        for row in owner.query(found, &[&SCHEMA, &STORE_SCHEMA]).await? {
            let (name, comment): (String, Option<String>) = (row.get(0), row.get(1));
            if comment.as_deref() != Some(PASSING) {
                bail!(
                    "SC7030: the schema {name} is in {at} already ({}). Look at it, and if nobody \
                     needs it: DROP SCHEMA {name} CASCADE; or name another database",
                    comment.as_deref().unwrap_or("it is no demo's")
                );
            }
            screen.event(&format!(
                "schema {name} was left by a demo that was killed; it is replaced"
            ));
        }
        let schemas = Schemas {
            owner,
            url: url.to_owned(),
        };
        schemas.remove().await?;
        let make = format!(
            "CREATE SCHEMA {SCHEMA}; COMMENT ON SCHEMA {SCHEMA} IS '{PASSING}';
             CREATE SCHEMA {STORE_SCHEMA}; COMMENT ON SCHEMA {STORE_SCHEMA} IS '{PASSING}'"
        );
        let made = schemas.owner.batch_execute(&make).await;
        made.map_err(|error| {
            let words = super::database::postgres::words(&error);
            anyhow!("SC7030: the demo's schemas can't be made in {at}: {words}")
        })?;
        Ok(schemas)
    }

    /// The URL by which a server keeps its store in the demo's schema.
    pub fn store(&self) -> String {
        let sign = if self.url.contains('?') { '&' } else { '?' };
        format!(
            "{}{sign}options=-c%20search_path%3D{STORE_SCHEMA}",
            self.url
        )
    }

    /// Drops them with everything in them. Sessions of processes that were killed are waited for.
    pub async fn remove(&self) -> anyhow::Result<()> {
        let drop = format!(
            "SET lock_timeout = '20s'; SET client_min_messages = warning;
             DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; DROP SCHEMA IF EXISTS {STORE_SCHEMA} CASCADE"
        );
        let dropped = self.owner.batch_execute(&drop).await;
        dropped.map_err(|error| {
            let words = super::database::postgres::words(&error);
            anyhow!("SC7030: the schemas {SCHEMA} and {STORE_SCHEMA} can't be dropped: {words}")
        })
    }

    /// Leaves them to the user.
    pub async fn keep(&self) -> anyhow::Result<()> {
        let mark = format!(
            "COMMENT ON SCHEMA {SCHEMA} IS '{KEPT}'; COMMENT ON SCHEMA {STORE_SCHEMA} IS '{KEPT}'"
        );
        self.owner.batch_execute(&mark).await?;
        Ok(())
    }

    /// Their names, with the database, for people.
    pub fn shown(&self) -> String {
        let at = StoreAt::Postgres(self.url.clone());
        format!("schemas {SCHEMA} and {STORE_SCHEMA} of {at}")
    }
}
