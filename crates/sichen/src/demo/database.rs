//! The business database: SQLite or PostgreSQL, asked in the same words.
//!
//! Statements are written once, with `$1`, `$2`, … for their values. What the two spell differently
//! stands here and in [`super::ledger`]'s tables, nowhere else.
//!
//! # Invariants
//! - A transaction that fails is rolled back before its error is seen.
//!
//! # Not here
//! What is asked (`ledger`, `settle`, `verify`); tokens (`fence`).

pub mod postgres;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use rusqlite::Connection;

/// Where a business database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// A SQLite file.
    File(PathBuf),
    /// The demo's schema in the PostgreSQL database of this URL.
    Postgres(String),
}

impl FromStr for At {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if postgres::is_url(text) {
            At::Postgres(text.to_owned())
        } else {
            At::File(text.into())
        })
    }
}

/// Why it could not be asked, or not answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("{}", postgres::words(.0))]
    Postgres(#[from] tokio_postgres::Error),
    #[error("the business database can't be reached: {0}")]
    Unreachable(String),
}

/// A connection to it.
#[derive(Debug)]
pub enum Database {
    Sqlite(Connection),
    Postgres(postgres::Session),
}

/// A value in a statement.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    Int(i64),
    Text(&'a str),
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Value::Text(value)
    }
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        match self {
            Value::Int(value) => value.to_sql(),
            Value::Text(value) => value.to_sql(),
        }
    }
}

/// A row of an answer.
#[derive(Clone, Copy)]
pub enum Row<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

impl fmt::Debug for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Row")
    }
}

impl Row<'_> {
    pub fn int(&self, column: usize) -> Result<i64, Error> {
        Ok(match self {
            Row::Sqlite(row) => row.get(column)?,
            Row::Postgres(row) => row.try_get(column)?,
        })
    }

    pub fn maybe_int(&self, column: usize) -> Result<Option<i64>, Error> {
        Ok(match self {
            Row::Sqlite(row) => row.get(column)?,
            Row::Postgres(row) => row.try_get(column)?,
        })
    }

    /// A count.
    pub fn count(&self, column: usize) -> Result<u64, Error> {
        self.int(column).map(i64::unsigned_abs)
    }

    pub fn text(&self, column: usize) -> Result<String, Error> {
        Ok(match self {
            Row::Sqlite(row) => row.get(column)?,
            Row::Postgres(row) => row.try_get(column)?,
        })
    }

    pub fn maybe_text(&self, column: usize) -> Result<Option<String>, Error> {
        Ok(match self {
            Row::Sqlite(row) => row.get(column)?,
            Row::Postgres(row) => row.try_get(column)?,
        })
    }
}

impl Database {
    /// Opens it (a file is made if missing) so that several processes can share it.
    ///
    /// In SQLite, WAL lets readers go on beside the one writer; a writer waits up to 20 s for its
    /// turn.
    pub fn open(at: &At) -> Result<Database, Error> {
        match at {
            At::File(path) => {
                let conn = Connection::open(path)?;
                conn.busy_timeout(Duration::from_secs(20))?;
                conn.pragma_update(None, "journal_mode", "WAL")?;
                conn.pragma_update(None, "synchronous", "NORMAL")?;
                Ok(Database::Sqlite(conn))
            }
            At::Postgres(url) => postgres::Session::open(url).map(Database::Postgres),
        }
    }

    /// The elements of a list that is value `n` of the statement, as rows of one column `value`. The
    /// list is JSON, an array of arrays; `value ->> 0` is an element's first member.
    pub fn each(&self, n: u8) -> String {
        match self {
            Database::Sqlite(_) => format!("json_each(${n})"),
            Database::Postgres(_) => format!("json_array_elements(CAST(${n} AS text)::json)"),
        }
    }

    /// Carries out statements without values.
    pub fn batch(&self, statements: &str) -> Result<(), Error> {
        match self {
            Database::Sqlite(conn) => conn.execute_batch(statements)?,
            Database::Postgres(session) => session.batch(statements)?,
        }
        Ok(())
    }

    /// Carries out a statement; how many rows it wrote.
    pub fn execute(&self, statement: &str, values: &[Value<'_>]) -> Result<u64, Error> {
        match self {
            Database::Sqlite(conn) => {
                let mut statement = conn.prepare_cached(statement)?;
                bind(&mut statement, values)?;
                Ok(statement.raw_execute()? as u64)
            }
            Database::Postgres(session) => session.execute(statement, values),
        }
    }

    /// The rows that a statement answers with, each read by `read`.
    pub fn rows<T>(
        &self,
        statement: &str,
        values: &[Value<'_>],
        mut read: impl FnMut(Row<'_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        match self {
            Database::Sqlite(conn) => {
                let mut statement = conn.prepare_cached(statement)?;
                bind(&mut statement, values)?;
                let mut rows = statement.raw_query();
                let mut read_rows = Vec::new();
                while let Some(row) = rows.next()? {
                    read_rows.push(read(Row::Sqlite(row))?);
                }
                Ok(read_rows)
            }
            Database::Postgres(session) => {
                let rows = session.rows(statement, values)?;
                rows.iter().map(|row| read(Row::Postgres(row))).collect()
            }
        }
    }

    /// The first row of an answer.
    pub fn row<T>(
        &self,
        statement: &str,
        values: &[Value<'_>],
        read: impl FnMut(Row<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        Ok(self.rows(statement, values, read)?.into_iter().next())
    }

    /// The one number that a statement answers with.
    pub fn number(&self, statement: &str) -> Result<u64, Error> {
        let number = self.row(statement, &[], |row| row.count(0))?;
        Ok(number.unwrap_or(0))
    }

    /// Runs `work` in one transaction that writes, and commits it.
    pub fn in_transaction<T, E: From<Error>>(
        &self,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let begin = match self {
            // Else a transaction that has read first may not write any more.
            Database::Sqlite(_) => "BEGIN IMMEDIATE",
            Database::Postgres(_) => "BEGIN",
        };
        self.transaction(begin, work)
    }

    /// Runs `work` over one snapshot.
    pub fn in_snapshot<T, E: From<Error>>(
        &self,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let begin = match self {
            Database::Sqlite(_) => "BEGIN",
            Database::Postgres(_) => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        };
        self.transaction(begin, work)
    }

    fn transaction<T, E: From<Error>>(
        &self,
        begin: &str,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.batch(begin)?;
        let done = work().and_then(|done| Ok(self.batch("COMMIT").map(|()| done)?));
        if done.is_err() {
            // A connection that is gone has rolled back already.
            let _ = self.batch("ROLLBACK");
        }
        done
    }
}

/// Binds by name: SQLite numbers `$2` by where it first stands.
fn bind(statement: &mut rusqlite::Statement<'_>, values: &[Value<'_>]) -> rusqlite::Result<()> {
    for (n, value) in values.iter().enumerate() {
        if let Some(index) = statement.parameter_index(&format!("${}", n + 1))? {
            statement.raw_bind_parameter(index, value)?;
        }
    }
    Ok(())
}
