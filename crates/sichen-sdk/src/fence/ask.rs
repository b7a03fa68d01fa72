//! `check` by URL: connects by itself, for the command line.
//!
//! # Not here
//! TLS: PostgreSQL and MySQL are asked over a plain connection, so use a local, tunnelled or
//! otherwise trusted address.

use super::{Checked, Dialect};

/// Why a database could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scheme is none that the kit knows.
    #[error("no fence kit for {0:?}: use postgres://, mysql:// or sqlite:PATH")]
    Scheme(String),
    /// This build has no driver for the dialect.
    #[error("this build does not speak {0}; docs/guide/fence-kit.md shows the check by hand")]
    NoDriver(Dialect),
    /// Not reachable, no such file, no such user, …
    #[error("can't ask the database: {0}")]
    Database(Box<dyn std::error::Error + Send + Sync>),
}

/// Connects to `url` and checks the kit there; see `check` of each dialect's module.
///
/// # Errors
/// Only for a database that can't be asked; what is wrong with the kit is in the result.
pub async fn check_url(url: &str) -> Result<Checked, Error> {
    match Dialect::of_url(url).ok_or_else(|| Error::Scheme(url.to_owned()))? {
        #[cfg(feature = "sqlite")]
        Dialect::Sqlite => check_file(url).map_err(|error| Error::Database(error.into())),
        #[cfg(feature = "postgres")]
        Dialect::Postgres => check_server(url)
            .await
            .map_err(|error| Error::Database(error.into())),
        #[cfg(feature = "mysql")]
        Dialect::Mysql => check_mysql(url)
            .await
            .map_err(|error| Error::Database(error.into())),
        #[allow(unreachable_patterns)]
        other => Err(Error::NoDriver(other)),
    }
}

#[cfg(feature = "sqlite")]
fn check_file(url: &str) -> Result<Checked, rusqlite::Error> {
    let path = ["sqlite://", "sqlite:", "file://", "file:"]
        .iter()
        .find_map(|scheme| url.strip_prefix(scheme))
        .unwrap_or(url);
    // Never makes a file: a mistyped path must not pass for an empty database.
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
    let mut conn = rusqlite::Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(std::time::Duration::from_secs(5))?;
    super::sqlite::check(&mut conn)
}

#[cfg(feature = "mysql")]
async fn check_mysql(url: &str) -> Result<Checked, mysql_async::Error> {
    let url = url.replacen("mariadb://", "mysql://", 1);
    let mut conn = mysql_async::Conn::from_url(url).await?;
    let checked = super::mysql::check(&mut conn).await?;
    conn.disconnect().await?;
    Ok(checked)
}

#[cfg(feature = "postgres")]
async fn check_server(url: &str) -> Result<Checked, tokio_postgres::Error> {
    let (mut client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    // The connection ends when the client is dropped, and with the set if this future is.
    let mut driver = tokio::task::JoinSet::new();
    driver.spawn(connection);
    let checked = super::postgres::check(&mut client).await;
    drop(client);
    while driver.join_next().await.is_some() {}
    checked
}
