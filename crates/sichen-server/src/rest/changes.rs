//! Who changed what: of the event log that which somebody asked for, newest first.
//!
//! # Invariants
//! - A request looks at no more than [`MAX_LOOKED_AT`] events: a page may be short, even empty, and have
//!   a `next`.
//! - What follows from a request (the shards that a cancel stops) is not told beside it.
//!
//! # Not here
//! The whole log, oldest first ([`super::history`]).

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::port::{self, EventFilter, MAX_PAGE, Page};
use utoipa::IntoParams;

use super::access::Caller;
use super::answer::{Answer, Failed};
use super::request::{self, Params};
use super::{Api, convert, wire};

/// Events that one request looks at for changes.
const MAX_LOOKED_AT: u64 = 20_000;
/// Rows of a page if the request does not say.
const DEFAULT_LIMIT: u32 = 100;

/// Which changes are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Who: as events name him, such as `token ci`, or a part of that.
    actor: Option<String>,
    /// Of what: `job`, `run`, `shard`, `calendar`, `backfill`, `capacity`, `namespace` or
    /// `access_token`.
    entity: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    /// Rows of a page, 1 to 1,000; 100 if left out.
    limit: Option<u32>,
}

/// Who changed what, newest first: what was asked for by people and programs, not what servers and
/// workers did by themselves.
///
/// A request looks at no more than 20,000 events: a page may be short, even empty, and have a `next`.
#[utoipa::path(
    get,
    path = "/changes",
    tag = "history",
    params(Wanted),
    responses(
        (status = 200, body = wire::ChangePage),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn changes(
    State(api): State<Api>,
    caller: Caller,
    Params(wanted): Params<Wanted>,
) -> Answer<wire::ChangePage> {
    let limit = request::limit(wanted.limit, "limit", DEFAULT_LIMIT)? as usize;
    let mut end = match &wanted.after {
        Some(text) => number(text)?.saturating_sub(1),
        None => api.store().get_last_event().await?,
    };
    let least = end.saturating_sub(MAX_LOOKED_AT);
    let mut items = Vec::new();
    while end > least && items.len() < limit {
        let begin = end.saturating_sub(u64::from(MAX_PAGE));
        let page = Page {
            after: Some(begin),
            limit: MAX_PAGE,
        };
        let events = api
            .store()
            .list_events(EventFilter::default(), page)
            .await?;
        // Numbers rise and none comes twice, so these are all from `begin` to `end`.
        let last = std::mem::replace(&mut end, begin);
        let events = events.iter().rev().filter(|event| event.seq <= last);
        for event in events.filter(|event| wanted.holds(event)) {
            if !caller.sees_event(&api, &event.entity).await? {
                continue;
            }
            items.push(made(&api, event).await?);
            if items.len() == limit {
                end = event.seq.saturating_sub(1);
                break;
            }
        }
    }
    let next = (end > 0).then(|| (end + 1).to_string());
    Ok(Json(wire::ChangePage { items, next }))
}

impl Wanted {
    fn holds(&self, event: &Event) -> bool {
        let by = |part: &String| event.actor.contains(part.as_str());
        let of = |kind: &String| event.entity.kind() == kind;
        is_change(event.kind)
            && is_asked_for(&event.actor)
            && self.actor.as_ref().is_none_or(by)
            && self.entity.as_ref().is_none_or(of)
    }
}

/// Whether somebody asked for it: servers and workers act by themselves.
fn is_asked_for(actor: &str) -> bool {
    !actor.starts_with("node ") && !actor.starts_with("worker ")
}

/// Whether it is what was asked for, and not what follows from it or goes on by itself.
fn is_change(kind: Kind) -> bool {
    match kind {
        Kind::JobApplied
        | Kind::JobPaused
        | Kind::JobResumed
        | Kind::JobDeleted
        | Kind::CalendarApplied
        | Kind::CalendarDeleted
        | Kind::CapacityApplied
        | Kind::CapacityDeleted
        | Kind::NamespaceSet
        | Kind::RunCreated
        | Kind::RunReopened
        | Kind::StopRequested
        | Kind::ShardDiscarded
        | Kind::BackfillCreated
        | Kind::BackfillPaused
        | Kind::BackfillResumed
        | Kind::BackfillCancelled
        | Kind::AccessTokenCreated
        | Kind::AccessTokenRevoked
        | Kind::UserCreated
        | Kind::UserRolesSet
        | Kind::UserPasswordSet
        | Kind::UserDisabled
        | Kind::UserEnabled
        | Kind::UserLoggedIn
        | Kind::UserLoggedOut
        | Kind::StoreRestored
        | Kind::RestoreDecided
        | Kind::ClockAccepted => true,
        Kind::ScheduleAdvanced
        | Kind::ScheduleFollowed
        | Kind::RunReleased
        | Kind::RunExpanded
        | Kind::RunStarted
        | Kind::RunSettled
        | Kind::AttemptGranted
        | Kind::CheckpointSaved
        | Kind::AttemptRecalled
        | Kind::AttemptEnded
        | Kind::ShardStopped
        | Kind::ShardReopened
        | Kind::ReportRefused
        | Kind::SessionRegistered
        | Kind::SessionEnded
        | Kind::NodeRegistered
        | Kind::NodeEnded
        | Kind::BackfillAdvanced
        | Kind::BackfillChecked
        | Kind::BackfillFinished
        | Kind::DutyAcquired
        | Kind::DutyReleased => false,
    }
}

/// The change with the name of the job that it is about: events have its uid or its run's number.
async fn made(api: &Api, event: &Event) -> Result<wire::ChangeMade, port::Error> {
    let store = api.store();
    let job = match &event.entity {
        Entity::Job(uid) => store.get_job_by_uid(*uid).await?.map(|job| job.name),
        Entity::Run(run) => run_job(api, *run).await?,
        Entity::Shard(key) => run_job(api, key.run).await?,
        Entity::Backfill(id) => match store.get_backfill(*id).await? {
            Some(backfill) => store
                .get_job_by_uid(backfill.job)
                .await?
                .map(|job| job.name),
            None => None,
        },
        _ => None,
    };
    Ok(wire::ChangeMade {
        event: convert::event(event),
        namespace: job.as_ref().map(|job| job.namespace.to_string()),
        job: job.map(|job| job.name.to_string()),
    })
}

async fn run_job(
    api: &Api,
    run: sichen_core::ids::RunId,
) -> Result<Option<sichen_core::name::JobName>, port::Error> {
    let found = api.store().get_run(run).await?;
    Ok(found.map(|(run, _)| run.job_name))
}

fn number(text: &str) -> Result<u64, Failed> {
    let known = text.parse().ok().filter(|n| i64::try_from(*n).is_ok());
    known.ok_or_else(|| {
        let text = request::shortened(text);
        Failed::bad(format!(
            "SC5021: after={text:?} is no `next` of this listing"
        ))
    })
}

#[cfg(test)]
mod tests;
