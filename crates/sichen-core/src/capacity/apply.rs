//! What the application of a document makes of a capacity's row.
//!
//! # Not here
//! Reading and writing the row (the stores), deleting it.

use jiff::Timestamp;

use super::Bucket;
use crate::model::Capacity;
use crate::port::{ApplyCapacity, CapacityVerdict};

/// A row to be written, and what is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The row, live.
    pub capacity: Capacity,
    /// What it was before, as its event has it: nothing, `live`, `deleted`.
    pub from: &'static str,
    /// The answer.
    pub verdict: CapacityVerdict,
}

/// Decides on `apply`, with the row as it is under lock and whether it is deleted.
///
/// What a rate has gathered is kept as far as the new one allows; a capacity that is new, or was deleted,
/// begins with an empty bucket.
///
/// # Errors
/// The answer where nothing is to be written: [`CapacityVerdict::Conflict`], [`CapacityVerdict::Unchanged`].
pub fn apply(
    row: Option<(&Capacity, bool)>,
    apply: ApplyCapacity,
    now: Timestamp,
) -> Result<Applied, CapacityVerdict> {
    let live = row.filter(|(_, deleted)| !deleted).map(|(row, _)| row);
    if live.map(|row| row.ver) != apply.expected {
        return Err(CapacityVerdict::Conflict);
    }
    if let Some(row) = live.filter(|row| row.document == apply.document) {
        return Err(CapacityVerdict::Unchanged(row.ver));
    }
    let from = match row {
        None => "",
        Some((_, true)) => "deleted",
        Some((_, false)) => "live",
    };
    let new = (Bucket::empty(now), None);
    let (bucket, rate) = live.map_or(new, |row| (row.bucket, row.limits.rate));
    let ver = row.map_or(0, |(row, _)| row.ver) + 1;
    Ok(Applied {
        capacity: Capacity {
            name: apply.name,
            ver,
            document: apply.document,
            limits: apply.limits,
            bucket: bucket.changed(rate, apply.limits.rate, now),
            changed_at: now,
        },
        from,
        verdict: match live {
            None => CapacityVerdict::Created(ver),
            Some(_) => CapacityVerdict::Updated(ver),
        },
    })
}
