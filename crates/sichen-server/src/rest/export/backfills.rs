//! A backfill's row as a line.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sichen_core::backfill::check::{Checks, Verify};
use sichen_core::backfill::{Backfill, Counts, Mode, Order, Outcomes, Place, State, Wanted};
use sichen_core::ids::BackfillId;
use sichen_core::name::Name;

use super::rows::{known, uid};

#[derive(Serialize, Deserialize)]
pub(super) struct BackfillRow {
    id: u64,
    job: String,
    key: String,
    actor: String,
    from: Timestamp,
    to: Timestamp,
    mode: String,
    order: String,
    parallelism: u32,
    rate: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verify_job: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verify_rate: Option<u32>,
    reason: String,
    ver: u32,
    state: String,
    settled: Timestamp,
    cursor: Timestamp,
    top: Timestamp,
    next_at: Option<Timestamp>,
    created: u64,
    filled: u64,
    reopened: u64,
    reruns: u64,
    left: u64,
    open: u32,
    succeeded: u64,
    failed: u64,
    cancelled: u64,
    /// Checks due, open, agreeing, differing, uncounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checks: Option<[u64; 5]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_check_at: Option<Timestamp>,
    created_at: Timestamp,
    ended_at: Option<Timestamp>,
    cause: String,
}

impl BackfillRow {
    pub fn of(b: Backfill) -> Self {
        Self {
            id: b.id.0,
            job: b.job.to_string(),
            key: b.key,
            actor: b.actor,
            from: b.wanted.from,
            to: b.wanted.to,
            mode: b.wanted.mode.word().to_owned(),
            order: b.wanted.order.word().to_owned(),
            parallelism: b.wanted.parallelism,
            rate: b.wanted.rate,
            verify_job: b.wanted.verify.as_ref().map(|v| v.job.to_string()),
            verify_rate: b.wanted.verify.as_ref().map(|v| v.rate),
            reason: b.wanted.reason,
            ver: b.ver,
            state: b.state.word().to_owned(),
            settled: b.place.settled,
            cursor: b.place.cursor,
            top: b.place.top,
            next_at: b.next_at,
            created: b.counts.created,
            filled: b.counts.filled,
            reopened: b.counts.reopened,
            reruns: b.counts.reruns,
            left: b.counts.left,
            open: b.runs.open,
            succeeded: b.runs.succeeded,
            failed: b.runs.failed,
            cancelled: b.runs.cancelled,
            checks: b.wanted.verify.map(|_| {
                let c = b.checks;
                [c.due, u64::from(c.open), c.agree, c.differ, c.uncounted]
            }),
            next_check_at: b.next_check_at,
            created_at: b.created_at,
            ended_at: b.ended_at,
            cause: b.cause,
        }
    }

    pub fn into_backfill(self) -> Result<Backfill, String> {
        let verify = match (self.verify_job, self.verify_rate) {
            (Some(job), Some(rate)) => Some(Verify {
                job: known(Name::new(&job).ok(), "name", &job)?,
                rate,
            }),
            _ => None,
        };
        let [due, open, agree, differ, uncounted] = self.checks.unwrap_or_default();
        Ok(Backfill {
            id: BackfillId(self.id),
            job: uid(&self.job)?,
            key: self.key,
            actor: self.actor,
            wanted: Wanted {
                from: self.from,
                to: self.to,
                mode: known(Mode::parse(&self.mode), "mode", &self.mode)?,
                order: known(Order::parse(&self.order), "order", &self.order)?,
                parallelism: self.parallelism,
                rate: self.rate,
                verify,
                reason: self.reason,
            },
            ver: self.ver,
            state: known(State::parse(&self.state), "state", &self.state)?,
            place: Place {
                settled: self.settled,
                cursor: self.cursor,
                top: self.top,
            },
            next_at: self.next_at,
            counts: Counts {
                created: self.created,
                filled: self.filled,
                reopened: self.reopened,
                reruns: self.reruns,
                left: self.left,
            },
            runs: Outcomes {
                open: self.open,
                succeeded: self.succeeded,
                failed: self.failed,
                cancelled: self.cancelled,
            },
            checks: Checks {
                due,
                open: u32::try_from(open).map_err(|_| "too many open checks".to_owned())?,
                agree,
                differ,
                uncounted,
            },
            next_check_at: self.next_check_at,
            created_at: self.created_at,
            ended_at: self.ended_at,
            cause: self.cause,
        })
    }
}
