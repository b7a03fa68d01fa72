//! Named places that a run's bounds are read from, once, by its plan step.
//!
//! The job names a source and a query; where the source is, and with which rights, only the
//! worker's own configuration says.
//!
//! # Not here
//! Cutting the bounds into shards (core).

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

/// Where to read bounds or items.
#[derive(Debug, Clone)]
pub struct DataSource {
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Sqlite(PathBuf),
}

impl DataSource {
    /// A SQLite database file, opened read-only for each plan step.
    pub fn sqlite(path: impl Into<PathBuf>) -> DataSource {
        DataSource {
            kind: Kind::Sqlite(path.into()),
        }
    }

    /// What sort of source it is: `sqlite`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Sqlite(_) => "sqlite",
        }
    }

    /// Runs the query. The attempt's timeout and cancellation interrupt it.
    ///
    /// # Errors
    /// Retryable if the source can't be reached; fatal for the run if the query or its answer is
    /// not what a plan step needs.
    pub(crate) async fn plan(
        &self,
        context: &Context,
        step: &v1::PlanStep,
    ) -> Result<v1::PlanResult, HandlerError> {
        let Kind::Sqlite(path) = &self.kind;
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
    let bad = |message: String| HandlerError::fatal_run("bad-plan-query", message);
    let mut statement = db
        .prepare(&step.query)
        .map_err(|error| bad(error.to_string()))?;
    let wanted = step.wanted();
    let columns = if wanted == v1::PlanWanted::Items {
        1
    } else {
        2
    };
    if statement.column_count() != columns {
        return Err(bad(format!(
            "the query yields {} columns, not {columns}",
            statement.column_count()
        )));
    }
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
        return Err(bad(
            "the query yields more than one row; select min(…), max(…)".to_owned(),
        ));
    }
    Ok(match wanted {
        v1::PlanWanted::TimeBounds => Plan::TimeBounds(v1::TimeBounds {
            min_us: bounds.0,
            max_us: bounds.1,
        }),
        _ => Plan::IntBounds(v1::IntBounds {
            min: bounds.0,
            max: bounds.1,
        }),
    })
}

fn items(rows: &mut rusqlite::Rows<'_>) -> Result<Plan, HandlerError> {
    let mut items = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let item = match row.get_ref(0)? {
            ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
            ValueRef::Integer(number) => number.to_string(),
            other => {
                let message = format!(
                    "an item must be text or an integer, not {}",
                    other.data_type()
                );
                return Err(HandlerError::fatal_run("bad-plan-query", message));
            }
        };
        bytes += item.len();
        items.push(item);
        if items.len() > MAX_ITEMS || bytes > MAX_ITEMS_BYTES {
            let message = format!("more than {MAX_ITEMS} items or {MAX_ITEMS_BYTES} bytes of them");
            return Err(HandlerError::fatal_run("too-many-items", message));
        }
    }
    Ok(if items.is_empty() {
        Plan::Nothing(v1::Nothing {})
    } else {
        Plan::Items(v1::Items { items })
    })
}
