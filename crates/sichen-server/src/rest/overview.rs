//! How things stand, in numbers.
//!
//! # Not here
//! Counting (the store).

use axum::Json;
use axum::extract::State;
use jiff::SignedDuration;
use sichen_core::lifecycle::RunState;
use sichen_core::port::{MAX_COUNTED, Overview, Span};

use super::answer::Answer;
use super::{Api, wire};

/// A day back, an hour ahead in parts of 5 minutes.
pub(super) const SPAN: Span = Span {
    past: SignedDuration::from_hours(24),
    ahead: SignedDuration::from_hours(1),
    part: SignedDuration::from_mins(5),
};

/// How things stand, in numbers of one moment: what a person looks at first.
#[utoipa::path(
    get,
    path = "/overview",
    tag = "cluster",
    responses(
        (status = 200, body = wire::Overview),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn overview(State(api): State<Api>) -> Answer<wire::Overview> {
    let now = api.store().now().await?;
    Ok(Json(shown(&api.store().get_overview(now, SPAN).await?)))
}

fn shown(told: &Overview) -> wire::Overview {
    let ended = |wanted: RunState| {
        let found = told.ended.iter().find(|(state, _)| *state == wanted);
        found.map_or(0, |(_, count)| *count)
    };
    let parts = SPAN.ahead.as_secs() / SPAN.part.as_secs();
    let load = (0..parts).map(|part| {
        let at = told.now + SignedDuration::from_secs(part * SPAN.part.as_secs());
        // What comes due at the very end of the last part is counted in it.
        let last = part + 1 == parts;
        let jobs = told
            .load
            .iter()
            .filter(|(no, _)| i64::try_from(*no).is_ok_and(|no| no == part || last && no > part));
        wire::LoadPart {
            from: at.to_string(),
            jobs: jobs.map(|(_, jobs)| jobs).sum(),
        }
    });
    wire::Overview {
        now: told.now.to_string(),
        jobs: wire::JobCounts {
            live: told.live_jobs,
            paused: told.paused_jobs,
            due: told.load.iter().map(|(_, jobs)| jobs).sum(),
            late: told.late_jobs,
        },
        runs: wire::RunCounts {
            scheduled: told.scheduled,
            running: told.running,
            succeeded: ended(RunState::Succeeded),
            partial: ended(RunState::Partial),
            failed: ended(RunState::Failed),
            cancelled: ended(RunState::Cancelled),
        },
        ended_all: told.ended.iter().map(|(_, n)| n).sum::<u64>() < MAX_COUNTED.into(),
        load: load.collect(),
        skipped: told.skips.iter().map(skipped).collect(),
    }
}

fn skipped(skips: &sichen_core::port::Skips) -> wire::SkippedInstants {
    wire::SkippedInstants {
        namespace: skips.job.namespace.to_string(),
        job: skips.job.name.to_string(),
        reason: skips.reason.clone(),
        count: skips.count,
        filled: skips.filled,
    }
}
