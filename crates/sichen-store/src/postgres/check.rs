//! What is looked at before a server is used.

use std::time::Duration;

use sichen_core::port::Error;
use tokio_postgres::types::{ToSql, Type};

use super::OldTransaction;
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

/// The most old transactions that are told of.
const MAX_OLD: u32 = 10;

/// Sessions of this database that keep old row versions from being removed, and prepared transactions.
/// Of other users' sessions only who may read all statistics is told the age; without it, what counts is
/// how many transactions began since.
const OLD: &str = "\
  select a.pid, extract(epoch from clock_timestamp() - a.xact_start)::bigint, \
    format('session of user %s, application %L%s', a.usename, a.application_name, ', ' || a.state) \
  from pg_stat_activity a where a.datname = current_database() and a.pid <> pg_backend_pid() \
    and (a.xact_start < clock_timestamp() - make_interval(secs => $1) \
      or (a.xact_start is null and age(a.backend_xmin) > 1000000)) \
  union all \
  select 0, extract(epoch from clock_timestamp() - p.prepared)::bigint, \
    format('prepared transaction %L of user %s', p.gid, p.owner) \
  from pg_prepared_xacts p where p.database = current_database() \
    and p.prepared < clock_timestamp() - make_interval(secs => $1) \
  order by 2 desc nulls last limit $2::bigint";

/// Rows of the store's tables that are past and not yet removed, as the server estimates them.
const DEAD: &str = "select coalesce(sum(n_dead_tup), 0)::bigint from pg_stat_user_tables \
    where schemaname = any(current_schemas(false))";

/// # Errors
/// [`Error::Unavailable`] if the server does not answer.
pub(super) async fn dead_rows(client: &tokio_postgres::Client) -> Result<i64> {
    let row = client.query_typed_one(DEAD, &[]).await;
    Ok(row.map_err(|e| fault(&e).0)?.get(0))
}

/// # Errors
/// [`Error::Unavailable`] if the server does not answer.
pub(super) async fn old_transactions(
    client: &tokio_postgres::Client,
    older_than: Duration,
) -> Result<Vec<OldTransaction>> {
    // Nothing is prepared: a pooler may carry each message to another connection.
    let (seconds, most) = (older_than.as_secs_f64(), i64::from(MAX_OLD));
    let params: [(&(dyn ToSql + Sync), Type); 2] = [(&seconds, Type::FLOAT8), (&most, Type::INT8)];
    let rows = client.query_typed(OLD, &params).await;
    let rows = rows.map_err(|e| fault(&e).0)?;
    let old = rows.iter().map(|row| OldTransaction {
        pid: row.get(0),
        age_seconds: row.get(1),
        what: row.get(2),
    });
    Ok(old.collect())
}

/// The settings that people ask about when something is wrong.
const FACTS: &[&str] = &[
    "server_version",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "synchronous_standby_names",
    "max_connections",
];

/// By the name under which it stands beside the settings: how many servers follow this one.
const STANDBYS: &str = "standbys";

/// # Errors
/// [`Error::Unavailable`] if the server does not answer.
pub(super) async fn facts(client: &tokio_postgres::Client) -> Result<Vec<(String, String)>> {
    let mut facts = Vec::new();
    for name in FACTS {
        let ask = "select current_setting($1, true)";
        let row = client.query_typed_one(ask, &[(name, Type::TEXT)]).await;
        let row = row.map_err(|e| fault(&e).0)?;
        if let Some(value) = row.get::<_, Option<String>>(0) {
            facts.push(((*name).to_owned(), value));
        }
    }
    let ask =
        "select count(*)::text from pg_stat_replication where application_name <> 'pg_basebackup'";
    let row = client.query_typed_one(ask, &[]).await;
    let row = row.map_err(|e| fault(&e).0)?;
    facts.push((STANDBYS.to_owned(), row.get(0)));
    Ok(facts)
}
