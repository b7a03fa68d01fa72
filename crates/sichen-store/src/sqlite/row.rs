//! Rows and parameters as SQLite has them.
//!
//! # Not here
//! What a row means: `crate::row`.

use rusqlite::types::{Null, ToSql, ToSqlOutput, Value, ValueRef};
use sichen_core::dispatch::queue::Place;
use sichen_core::ids::RunId;
use sichen_core::port::Error;
use uuid::Uuid;

use super::tx::{Result, fault};
use crate::row::Cells;
pub(super) use crate::row::{
    DutyRow, JobRow, ShardRow, at, int, not_before, opt_at, opt_int, opt_micros,
};

/// A uuid as SQLite keeps it: 16 bytes.
pub(super) fn blob(id: Uuid) -> Bytes {
    Bytes(*id.as_bytes())
}

/// A uuid's bytes as a parameter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes([u8; 16]);

impl ToSql for Bytes {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(&self.0)))
    }
}

/// A text, or nothing if it has no value.
pub(super) fn word_or_null(word: Option<&str>) -> ToSqlOutput<'_> {
    word.map_or(ToSqlOutput::Owned(Value::from(Null)), |w| {
        ToSqlOutput::Borrowed(ValueRef::Text(w.as_bytes()))
    })
}

/// One row of a result.
pub(super) type Row<'a> = crate::row::Row<Line<'a>>;

/// Its cells.
#[derive(Clone, Copy)]
pub(super) struct Line<'a>(&'a rusqlite::Row<'a>);

pub(super) fn row<'a>(row: &'a rusqlite::Row<'a>) -> Row<'a> {
    crate::row::Row(Line(row))
}

impl Line<'_> {
    /// Where a run waits, by the columns that it is found by: also of one that makes no sense.
    pub fn place(self) -> Result<Place> {
        let number = |name| self.0.get::<_, i64>(name).map_err(fault);
        Ok(Place {
            queue: number("queue")?,
            turn: number("turn")?,
            run: RunId(u64::try_from(number("id")?).unwrap_or_default()),
        })
    }

    fn cell(&self, i: usize) -> Result<ValueRef<'_>> {
        self.0.get_ref(i).map_err(fault)
    }
}

impl Cells for Line<'_> {
    const RUN_LATE: usize = 31;
    const SHARD_LATE: usize = 26;

    fn is_null(self, i: usize) -> Result<bool> {
        Ok(self.cell(i)? == ValueRef::Null)
    }
    fn text(&self, i: usize) -> Result<&str> {
        self.cell(i)?.as_str().map_err(|_| self.bad(i, "text"))
    }
    fn int(self, i: usize) -> Result<i64> {
        self.0.get(i).map_err(fault)
    }
    fn flag(self, i: usize) -> Result<bool> {
        self.0.get(i).map_err(fault)
    }
    fn uuid(self, i: usize) -> Result<Uuid> {
        let bytes = self.cell(i)?.as_blob().ok();
        bytes
            .and_then(|b| Uuid::from_slice(b).ok())
            .ok_or_else(|| self.bad(i, "uuid"))
    }
    fn bad(self, i: usize, what: &str) -> Error {
        let column = self.0.as_ref().column_name(i).unwrap_or("?").to_owned();
        let first = self.0.get::<_, Value>(0);
        Error::Corrupt(format!("column {column} is no {what} (row {first:?})"))
    }
}
