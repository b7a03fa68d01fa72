//! Bounds and items from a PostgreSQL server.
//!
//! # Not here
//! Connecting: the user's own function does, with the encryption and the rights that it wants.

use std::fmt;
use std::sync::Arc;

use sichen_proto::v1;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};
use tokio_stream::StreamExt as _;
use v1::plan_result::Plan;

use super::{Collected, bad, bounds_plan, check_columns, more_than_one_row};
use crate::context::Context;
use crate::error::{HandlerError, Stopped};
use crate::handler::BoxFuture;

/// Makes a connection for one plan step.
#[derive(Clone)]
pub(super) struct Connect(Arc<dyn Fn() -> BoxFuture<Result<Client, String>> + Send + Sync>);

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connect")
    }
}

impl Connect {
    pub fn new<F, E>(connect: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Client, E>> + Send + 'static,
        E: fmt::Display + 'static,
    {
        Self(Arc::new(move || {
            let connecting = connect();
            Box::pin(async move { connecting.await.map_err(|error| error.to_string()) })
        }))
    }

    /// As [`super::DataSource::plan`].
    pub async fn plan(
        &self,
        context: &Context,
        step: &v1::PlanStep,
    ) -> Result<v1::PlanResult, HandlerError> {
        let asked = async {
            let client = (self.0)().await.map_err(unreachable)?;
            let plan = ask(&client, step).await?;
            Ok(v1::PlanResult { plan: Some(plan) })
        };
        tokio::select! {
            plan = asked => plan,
            () = context.cancelled() => Err(Stopped.into()),
        }
    }
}

fn unreachable(message: String) -> HandlerError {
    HandlerError::retryable("data-source", message)
}

/// What a failure means: the server's own troubles pass, a wrong query stays wrong.
fn failed(error: &tokio_postgres::Error) -> HandlerError {
    let Some(db) = error.as_db_error() else {
        return unreachable(error.to_string());
    };
    let code = db.code().code();
    let passes = ["08", "40", "53", "55", "57", "58"];
    let message = format!("{} ({code})", db.message());
    match code.get(..2) {
        Some(class) if passes.contains(&class) => unreachable(message),
        _ => bad(message),
    }
}

async fn ask(client: &Client, step: &v1::PlanStep) -> Result<Plan, HandlerError> {
    let failed = |error| failed(&error);
    client
        .batch_execute("BEGIN READ ONLY")
        .await
        .map_err(failed)?;
    let statement = client.prepare(&step.query).await.map_err(failed)?;
    let wanted = step.wanted();
    check_columns(wanted, statement.columns().len())?;
    let none: [i64; 0] = [];
    if !statement.params().is_empty() {
        return Err(bad("a plan query has no parameters".to_owned()));
    }
    let rows = client.query_raw(&statement, none).await.map_err(failed)?;
    tokio::pin!(rows);
    if wanted == v1::PlanWanted::Items {
        let mut collected = Collected::default();
        while let Some(row) = rows.next().await {
            collected.add(item(&row.map_err(failed)?)?)?;
        }
        return Ok(collected.plan());
    }
    let Some(row) = rows.next().await else {
        return Ok(Plan::Nothing(v1::Nothing {}));
    };
    let row = row.map_err(failed)?;
    let bounds = match (integer(&row, 0)?, integer(&row, 1)?) {
        (None, None) => return Ok(Plan::Nothing(v1::Nothing {})),
        (Some(min), Some(max)) => (min, max),
        _ => return Err(bad("one of the bounds is null".to_owned())),
    };
    if rows.next().await.is_some() {
        return Err(more_than_one_row());
    }
    Ok(bounds_plan(wanted, bounds))
}

fn integer(row: &Row, column: usize) -> Result<Option<i64>, HandlerError> {
    let kind = row.columns()[column].type_().clone();
    let value = match kind {
        Type::INT8 => row.try_get(column),
        Type::INT4 => row.try_get::<_, Option<i32>>(column).map(widened),
        Type::INT2 => row.try_get::<_, Option<i16>>(column).map(widened),
        other => return Err(bad(format!("bounds must be integers, not {other}"))),
    };
    Ok(value?)
}

fn widened(number: Option<impl Into<i64>>) -> Option<i64> {
    number.map(Into::into)
}

fn item(row: &Row) -> Result<String, HandlerError> {
    let text = match row.columns()[0].type_() {
        &Type::TEXT | &Type::VARCHAR | &Type::BPCHAR | &Type::NAME => row.try_get(0)?,
        &Type::INT8 | &Type::INT4 | &Type::INT2 => integer(row, 0)?.map(|n| n.to_string()),
        other => {
            return Err(bad(format!(
                "an item must be text or an integer, not {other}"
            )));
        }
    };
    text.ok_or_else(|| bad("an item is null".to_owned()))
}
