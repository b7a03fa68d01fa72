//! What is looked at before a server is used.

use sichen_core::port::Error;

use super::fault::{Result, fault};
use super::link::Link;

/// The oldest server that may be used, as its version number.
const OLDEST: i32 = 140_000;

const LOOK: &str = "select current_setting('server_version_num')::integer, current_setting('fsync'), \
     current_setting('synchronous_commit'), pg_is_in_recovery()";

/// # Errors
/// [`Error::Unavailable`] if the server is too old or may forget what it has committed;
/// [`Error::ReadOnly`] if it is a standby.
pub(super) async fn server(link: &Link, unsafe_durability: bool) -> Result<()> {
    let rows = link.query(LOOK, &[]).await.map_err(|e| fault(&e).0)?;
    let Some(row) = rows.first() else {
        return Err(Error::Corrupt("the server says nothing of itself".into()));
    };
    let (version, fsync, commit, standby): (i32, String, String, bool) =
        (row.get(0), row.get(1), row.get(2), row.get(3));
    if version < OLDEST {
        return Err(Error::Unavailable(format!(
            "PostgreSQL {}.{} is too old; 14 or newer is needed",
            version / 10_000,
            version % 10_000
        )));
    }
    if standby {
        return Err(Error::ReadOnly(
            "the server is a standby; give the address of the primary".into(),
        ));
    }
    for (name, value) in [("fsync", fsync), ("synchronous_commit", commit)] {
        if value != "off" {
            continue;
        }
        if !unsafe_durability {
            return Err(Error::Unavailable(format!(
                "the server has {name} = off, so it may forget what it has committed; set it to on, \
                 or allow it explicitly (unsafe_durability) where loss does not matter"
            )));
        }
        tracing::warn!(
            setting = name,
            "the server may forget what it has committed"
        );
    }
    Ok(())
}

/// The settings that people ask about when something is wrong.
const FACTS: &[&str] = &[
    "server_version",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "max_connections",
];

/// # Errors
/// [`Error::Unavailable`] if the server does not answer.
pub(super) async fn facts(client: &tokio_postgres::Client) -> Result<Vec<(String, String)>> {
    let mut facts = Vec::new();
    for name in FACTS {
        let row = client
            .query_one("select current_setting($1, true)", &[name])
            .await
            .map_err(|e| fault(&e).0)?;
        if let Some(value) = row.get::<_, Option<String>>(0) {
            facts.push(((*name).to_owned(), value));
        }
    }
    Ok(facts)
}
