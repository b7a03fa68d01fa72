//! One connection, and how statements are sent over it.
//!
//! Straight to a server, statements are prepared once and kept. A pooler gives each transaction
//! whichever of its server connections is free, so through one nothing is kept: each statement is sent
//! whole, with the types of its values.
//!
//! # Invariants
//! - What outlives a transaction (a prepared statement, a setting) is never sent through a pooler.
//!
//! # Not here
//! Making connections ([`super::connect`]); what a statement's failure means ([`super::fault`]).

use std::sync::Arc;

use deadpool_postgres::Object;
use futures_util::future::BoxFuture;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row, Statement};

use super::param::Param;

/// A connection.
pub(super) struct Link {
    client: Object,
    pooled: bool,
}

/// A statement that can be sent now.
pub(super) enum Ready {
    Prepared(Statement),
    Whole(&'static str),
}

type Typed<'a> = Vec<(&'a (dyn ToSql + Sync), Type)>;

fn typed(params: &[Param]) -> Typed<'_> {
    params
        .iter()
        .map(|p| (p as &(dyn ToSql + Sync), p.sql_type()))
        .collect()
}

impl Link {
    pub fn new(client: Object, pooled: bool) -> Self {
        Self { client, pooled }
    }

    /// Statements without values or answers, one after another.
    pub async fn batch(&self, text: &str) -> Result<(), Error> {
        self.client.batch_execute(text).await
    }

    /// [`Link::batch`] that its first poll sends; it finds no rows.
    pub fn batch_ahead(self: &Arc<Self>, text: &str) -> BoxFuture<'static, Result<u64, Error>> {
        let (link, text) = (Arc::clone(self), text.to_owned());
        Box::pin(async move { link.client.batch_execute(&text).await.map(|()| 0) })
    }

    /// Prepares a statement where that is kept.
    pub async fn ready(&self, statement: &'static str) -> Result<Ready, Error> {
        if self.pooled {
            return Ok(Ready::Whole(statement));
        }
        self.client
            .prepare_cached(statement)
            .await
            .map(Ready::Prepared)
    }

    pub async fn query(
        &self,
        statement: &'static str,
        params: &[Param],
    ) -> Result<Vec<Row>, Error> {
        match self.ready(statement).await? {
            Ready::Prepared(prepared) => {
                let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|p| p as _).collect();
                self.client.query(&prepared, &params).await
            }
            Ready::Whole(text) => self.client.query_typed(text, &typed(params)).await,
        }
    }

    /// Runs a statement for what it does; how many rows it found. Its first poll sends it.
    pub fn execute(
        self: &Arc<Self>,
        ready: Ready,
        params: Vec<Param>,
    ) -> BoxFuture<'static, Result<u64, Error>> {
        let link = Arc::clone(self);
        Box::pin(async move {
            match ready {
                Ready::Prepared(prepared) => link.client.execute_raw(&prepared, params).await,
                Ready::Whole(text) => link.client.execute_typed(text, &typed(&params)).await,
            }
        })
    }

    /// Closes the connection, which rolls back what was left open on it.
    pub fn close(self) {
        drop(Object::take(self.client));
    }
}
