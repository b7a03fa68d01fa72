//! Named places that a run's bounds are read from, once, by its plan step.
//!
//! The job names a source and a query; where the source is, and with which rights, only the
//! worker's own configuration says.
//!
//! # Not here
//! Cutting the bounds into shards (core); making connections to a server.

#[cfg(feature = "postgres")]
mod postgres;

use std::path::PathBuf;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use sichen_proto::v1;
use v1::plan_result::Plan;

use crate::context::Context;
use crate::error::{HandlerError, Stopped};

/// Most items that a query may yield.
pub const MAX_ITEMS: usize = 100_000;
/// Most bytes of all items together.
pub const MAX_ITEMS_BYTES: usize = 4 * 1024 * 1024;

/// Where to read bounds. (The protocol has lists of items too; no server asks for them.)
#[derive(Debug, Clone)]
pub struct DataSource {
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Sqlite(PathBuf),
    #[cfg(feature = "postgres")]
    Postgres(postgres::Connect),
}

impl DataSource {
    /// A SQLite database file, opened read-only for each plan step.
    pub fn sqlite(path: impl Into<PathBuf>) -> DataSource {
        DataSource {
            kind: Kind::Sqlite(path.into()),
        }
    }

    /// A PostgreSQL server, reached by `connect`, which is called for each plan step. The query runs
    /// in a read-only transaction; when the step is stopped, its client is dropped.
    #[cfg(feature = "postgres")]
    pub fn postgres<F, E>(connect: impl Fn() -> F + Send + Sync + 'static) -> DataSource
    where
        F: Future<Output = Result<tokio_postgres::Client, E>> + Send + 'static,
        E: std::fmt::Display + 'static,
    {
        DataSource {
            kind: Kind::Postgres(postgres::Connect::new(connect)),
        }
    }

    /// What sort of source it is: `sqlite`, `postgres`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Sqlite(_) => "sqlite",
            #[cfg(feature = "postgres")]
            Kind::Postgres(_) => "postgres",
        }
    }

    /// Runs the query. The attempt's timeout and cancellation interrupt it.
    ///
    /// # Errors
    /// Retryable if the source can't be reached; fatal for the run if the query or its answer is
    /// not what a plan step needs.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(
            clippy::infallible_destructuring_match,
            reason = "the other kinds are features"
        )
    )]
    pub(crate) async fn plan(
        &self,
        context: &Context,
        step: &v1::PlanStep,
    ) -> Result<v1::PlanResult, HandlerError> {
        let path = match &self.kind {
            Kind::Sqlite(path) => path,
            #[cfg(feature = "postgres")]
            Kind::Postgres(connect) => return connect.plan(context, step).await,
        };
        let db = open(path.clone()).await?;
        let interrupt = db.get_interrupt_handle();
        let step = step.clone();
        let mut query = tokio::task::spawn_blocking(move || read(&db, &step));
        let joined = tokio::select! {
            joined = &mut query => joined,
            () = context.cancelled() => {
                interrupt.interrupt();
                let _ = query.await;
                return Err(Stopped.into());
            }
        };
        let plan = joined.map_err(crate::handler::panicked)??;
        Ok(v1::PlanResult { plan: Some(plan) })
    }
}

async fn open(path: PathBuf) -> Result<Connection, HandlerError> {
    let shown = path.display().to_string();
    let opened = tokio::task::spawn_blocking(move || {
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        db.busy_timeout(std::time::Duration::from_secs(5))?;
        Ok::<_, rusqlite::Error>(db)
    });
    opened
        .await
        .map_err(crate::handler::panicked)?
        .map_err(|error| HandlerError::retryable("data-source", format!("{shown}: {error}")))
}

fn read(db: &Connection, step: &v1::PlanStep) -> Result<Plan, HandlerError> {
    let mut statement = db
        .prepare(&step.query)
        .map_err(|error| bad(error.to_string()))?;
    let wanted = step.wanted();
    check_columns(wanted, statement.column_count())?;
    let mut rows = statement.query([])?;
    if wanted == v1::PlanWanted::Items {
        return items(&mut rows);
    }
    let Some(row) = rows.next()? else {
        return Ok(Plan::Nothing(v1::Nothing {}));
    };
    let bounds = match (row.get_ref(0)?, row.get_ref(1)?) {
        (ValueRef::Null, ValueRef::Null) => return Ok(Plan::Nothing(v1::Nothing {})),
        (ValueRef::Integer(min), ValueRef::Integer(max)) => (min, max),
        (min, max) => {
            return Err(bad(format!(
                "bounds must be integers, not {} and {}",
                min.data_type(),
                max.data_type()
            )));
        }
    };
    if rows.next()?.is_some() {
        return Err(more_than_one_row());
    }
    Ok(bounds_plan(wanted, bounds))
}

fn bad(message: String) -> HandlerError {
    HandlerError::fatal_run("bad-plan-query", message)
}

fn more_than_one_row() -> HandlerError {
    bad("the query yields more than one row; select min(…), max(…)".to_owned())
}

fn check_columns(wanted: v1::PlanWanted, found: usize) -> Result<(), HandlerError> {
    let columns = match wanted {
        v1::PlanWanted::Items => 1,
        _ => 2,
    };
    if found == columns {
        return Ok(());
    }
    Err(bad(format!(
        "the query yields {found} columns, not {columns}"
    )))
}

fn bounds_plan(wanted: v1::PlanWanted, (min, max): (i64, i64)) -> Plan {
    match wanted {
        v1::PlanWanted::TimeBounds => Plan::TimeBounds(v1::TimeBounds {
            min_us: min,
            max_us: max,
        }),
        _ => Plan::IntBounds(v1::IntBounds { min, max }),
    }
}

/// Items as they come, within their limits.
#[derive(Default)]
struct Collected {
    items: Vec<String>,
    bytes: usize,
}

impl Collected {
    fn add(&mut self, item: String) -> Result<(), HandlerError> {
        self.bytes += item.len();
        self.items.push(item);
        if self.items.len() > MAX_ITEMS || self.bytes > MAX_ITEMS_BYTES {
            let message = format!("more than {MAX_ITEMS} items or {MAX_ITEMS_BYTES} bytes of them");
            return Err(HandlerError::fatal_run("too-many-items", message));
        }
        Ok(())
    }

    fn plan(self) -> Plan {
        if self.items.is_empty() {
            Plan::Nothing(v1::Nothing {})
        } else {
            Plan::Items(v1::Items { items: self.items })
        }
    }
}

fn items(rows: &mut rusqlite::Rows<'_>) -> Result<Plan, HandlerError> {
    let mut collected = Collected::default();
    while let Some(row) = rows.next()? {
        collected.add(match row.get_ref(0)? {
            ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
            ValueRef::Integer(number) => number.to_string(),
            other => {
                let kind = other.data_type();
                return Err(bad(format!(
                    "an item must be text or an integer, not {kind}"
                )));
            }
        })?;
    }
    Ok(collected.plan())
}
