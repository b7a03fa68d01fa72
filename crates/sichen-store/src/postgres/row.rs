//! Rows as PostgreSQL has them.
//!
//! # Not here
//! What a row means: `crate::row`.

use sichen_core::port::Error;
use tokio_postgres::types::{FromSql, Type};
use uuid::Uuid;

use super::tx::Result;
use crate::row::Cells;
pub(super) use crate::row::{
    DutyRow, JobRow, ShardRow, at, int, not_before, opt_at, opt_int, opt_micros,
};

/// Any value, looked at only for whether it is one.
struct Any;

impl FromSql<'_> for Any {
    fn from_sql(
        _: &Type,
        _: &[u8],
    ) -> std::result::Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self)
    }
    fn accepts(_: &Type) -> bool {
        true
    }
}

/// One row of a result.
pub(super) type Row<'a> = crate::row::Row<Line<'a>>;

/// Its cells.
#[derive(Clone, Copy)]
pub(super) struct Line<'a>(&'a tokio_postgres::Row);

pub(super) fn row(row: &tokio_postgres::Row) -> Row<'_> {
    crate::row::Row(Line(row))
}

/// The number in the last cell, behind a row of a table that may have got columns since.
pub(super) fn last(row: Row<'_>) -> Result<u32> {
    row.u32(row.0.0.len().saturating_sub(1))
}

impl<'a> Line<'a> {
    fn get<T: FromSql<'a>>(self, i: usize) -> Result<T> {
        self.0
            .try_get(i)
            .map_err(|e| Error::Corrupt(format!("{e} (column {})", self.column(i))))
    }
    fn column(self, i: usize) -> &'a str {
        self.0.columns().get(i).map_or("?", |c| c.name())
    }
}

impl Cells for Line<'_> {
    const RUN_LATE: usize = 32;
    const SHARD_LATE: usize = 28;

    fn is_null(self, i: usize) -> Result<bool> {
        Ok(self.get::<Option<Any>>(i)?.is_none())
    }
    fn text(&self, i: usize) -> Result<&str> {
        self.get(i)
    }
    fn int(self, i: usize) -> Result<i64> {
        match self.0.columns().get(i).map(|c| c.type_()) {
            Some(&Type::INT2) => Ok(i64::from(self.get::<i16>(i)?)),
            Some(&Type::INT4) => Ok(i64::from(self.get::<i32>(i)?)),
            _ => self.get(i),
        }
    }
    fn flag(self, i: usize) -> Result<bool> {
        self.get(i)
    }
    fn uuid(self, i: usize) -> Result<Uuid> {
        self.get(i)
    }
    fn bad(self, i: usize, what: &str) -> Error {
        Error::Corrupt(format!("column {} is no {what}", self.column(i)))
    }
}
