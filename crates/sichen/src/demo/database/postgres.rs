//! A business database in PostgreSQL, asked from blocking code.
//!
//! # Invariants
//! - Waiting for the server never keeps another task of the runtime from running.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::{Error, Value};

/// Where the business tables are.
pub const SCHEMA: &str = "sichen_demo";

/// Whether this is the URL of a PostgreSQL database.
pub fn is_url(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

/// A connection.
#[derive(Debug)]
pub struct Session {
    client: Client,
    runtime: Handle,
    /// By their texts, which are few.
    prepared: Mutex<HashMap<String, Statement>>,
}

/// Connects, with unqualified names meaning those of `schema`.
pub async fn connect(url: &str, schema: &str) -> Result<Client, Error> {
    let settings = [("search_path", schema)];
    let connected = sichen_store::postgres::connect(url, &settings).await;
    connected.map_err(|error| Error::Unreachable(error.to_string()))
}

/// The server's own words, and its code.
pub fn words(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} (SQLSTATE {})", db.message(), db.code().code()),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}

impl Session {
    /// Connects to the business tables. To be called on a Tokio runtime of several threads, or on a
    /// thread of its own that belongs to one.
    pub fn open(url: &str) -> Result<Session, Error> {
        let runtime = Handle::current();
        let client = wait(&runtime, connect(url, SCHEMA))?;
        Ok(Session {
            client,
            runtime,
            prepared: Mutex::default(),
        })
    }

    /// The driver's client, for the fence kit.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Waits for what the client answers.
    pub fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        wait(&self.runtime, answer)
    }

    pub fn batch(&self, statements: &str) -> Result<(), Error> {
        Ok(self.wait(self.client.batch_execute(statements))?)
    }

    pub fn execute(&self, statement: &str, values: &[Value<'_>]) -> Result<u64, Error> {
        let statement = self.prepare(statement)?;
        Ok(self.wait(self.client.execute(&statement, &refs(values)))?)
    }

    pub fn rows(&self, statement: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        let statement = self.prepare(statement)?;
        Ok(self.wait(self.client.query(&statement, &refs(values)))?)
    }

    fn prepare(&self, text: &str) -> Result<Statement, Error> {
        let prepared = || self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(statement) = prepared().get(text) {
            return Ok(statement.clone());
        }
        let statement = self.wait(self.client.prepare(text))?;
        prepared().insert(text.to_owned(), statement.clone());
        Ok(statement)
    }
}

fn wait<T>(runtime: &Handle, answer: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| runtime.block_on(answer))
}

fn refs<'a>(values: &'a [Value<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    let each = values.iter().map(|value| match value {
        Value::Int(value) => value as &(dyn ToSql + Sync),
        Value::Text(value) => value as &(dyn ToSql + Sync),
    });
    each.collect()
}
