//! Runs: listed, stopped, retried; their shards and events.
//!
//! # Not here
//! Starting them ([`super::start`]).

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::Deserialize;
use sichen_core::beacon::Hint;
use sichen_core::ids::{BackfillId, RunId, ShardKey, ShardNo};
use sichen_core::lifecycle::RunState;
use sichen_core::model::Run;
use sichen_core::name::Name;
use sichen_core::port::{EventFilter, MAX_PAGE, Page, RunFilter};
use utoipa::IntoParams;

use super::access::Caller;
use super::answer::{Answer, Failed};
use super::request::{self, Paging, Params, Segments};
use super::{Api, convert, history, wire};

/// The most runs that one request looks at for those that its caller sees.
const MAX_RUNS_SEARCHED: usize = 10_000;

/// A run with its sums.
pub(super) async fn run(api: &Api, id: RunId) -> Result<wire::Run, Failed> {
    let found = api.store().get_run(id).await?;
    let (run, progress) = found.ok_or_else(|| Failed::not_found("run", id.to_string()))?;
    let time_zone = api.time_zone(run.job, run.revision).await?;
    Ok(convert::run(&run, &time_zone, Some(&progress)))
}

/// Which runs are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Of this job alone: `name`, or `namespace/name`.
    job: Option<String>,
    /// In this state alone.
    state: Option<String>,
    /// Of this backfill alone; then neither `job` nor `state` can be given.
    backfill: Option<u64>,
    /// `next` of the page before.
    after: Option<String>,
    /// Rows of a page, 1 to 1,000; 100 if left out.
    limit: Option<u32>,
}

/// Runs, newest first.
///
/// For a caller who does not see all namespaces a request looks at no more than 10,000 runs: a page may
/// be short, even empty, and have a `next`.
#[utoipa::path(
    get,
    path = "/runs",
    tag = "runs",
    params(Wanted),
    responses(
        (status = 200, body = wire::RunPage),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Params(wanted): Params<Wanted>,
) -> Answer<wire::RunPage> {
    let job = match &wanted.job {
        Some(job) => Some(caller.job(&api, job).await?.uid),
        None => None,
    };
    let state = wanted.state.as_deref().map(state).transpose()?;
    if wanted.backfill.is_some() && (job.is_some() || state.is_some()) {
        return Err(Failed::bad(
            "SC5021: with `backfill` neither `job` nor `state` can be given",
        ));
    }
    // A number that no store knows has no runs.
    let backfill = wanted
        .backfill
        .map(|id| i64::try_from(id).map_or(0, |_| id));
    let paging = Paging {
        after: wanted.after,
        limit: wanted.limit,
    };
    let page = paging.page(|text| text.parse().ok().map(RunId))?;
    let filter = RunFilter {
        job,
        state,
        backfill: backfill.map(BackfillId),
        ..RunFilter::default()
    };
    let (runs, next) = if job.is_some() || caller.sees_all() {
        let limit = page.limit;
        let runs = api.store().list_runs(filter, page).await?;
        let next = request::next(&runs, limit, |run: &Run| run.id.to_string());
        (runs, next)
    } else {
        seen(&api, &caller, filter, page).await?
    };
    let mut items = Vec::with_capacity(runs.len());
    for run in &runs {
        let time_zone = api.time_zone(run.job, run.revision).await?;
        items.push(convert::run(run, &time_zone, None));
    }
    Ok(Json(wire::RunPage { items, next }))
}

/// The runs of a page that the caller sees, and where to look on.
async fn seen(
    api: &Api,
    caller: &Caller,
    filter: RunFilter,
    mut page: Page<RunId>,
) -> Result<(Vec<Run>, Option<String>), Failed> {
    let limit = page.limit as usize;
    page.limit = MAX_PAGE;
    let (mut items, mut looked) = (Vec::new(), 0);
    loop {
        let runs = api.store().list_runs(filter.clone(), page).await?;
        let full = runs.len() == MAX_PAGE as usize;
        for run in runs {
            looked += 1;
            let id = run.id;
            page.after = Some(id);
            if caller.sees(&run.job_name.namespace) {
                items.push(run);
            }
            if items.len() == limit || looked == MAX_RUNS_SEARCHED {
                return Ok((items, Some(id.to_string())));
            }
        }
        if !full {
            return Ok((items, None));
        }
    }
}

fn state(word: &str) -> Result<RunState, Failed> {
    RunState::parse(word).ok_or_else(|| {
        let word = request::shortened(word);
        Failed::bad(format!(
            "SC5021: state={word:?} is none of scheduled, running, succeeded, partial, failed, \
             cancelled"
        ))
    })
}

/// One run, with the sums of its shards' progress.
#[utoipa::path(
    get,
    path = "/runs/{id}",
    tag = "runs",
    params(("id" = String, Path, description = "Number, key, or trace id")),
    responses(
        (status = 200, body = wire::Run),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn one(
    State(api): State<Api>,
    Segments(id): Segments<String>,
) -> Answer<wire::Run> {
    let id = request::run_id(&api, &id).await?;
    Ok(Json(run(&api, id).await?))
}

/// A run's shards, by number.
#[utoipa::path(
    get,
    path = "/runs/{id}/shards",
    tag = "runs",
    params(("id" = String, Path, description = "Number, key, or trace id"), Paging),
    responses(
        (status = 200, body = wire::ShardPage),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn shards(
    State(api): State<Api>,
    Segments(id): Segments<String>,
    Params(paging): Params<Paging>,
) -> Answer<wire::ShardPage> {
    let page = paging.page(|text| text.parse().ok())?;
    let id = existing(&api, &id).await?;
    let shards = api.store().list_shards(id, page).await?;
    let next = request::next(&shards, page.limit, |shard| shard.key.no.0.to_string());
    let items = shards.iter().map(convert::shard).collect();
    Ok(Json(wire::ShardPage { items, next }))
}

/// Which events of a run are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsOf {
    /// Of this shard alone.
    shard: Option<i32>,
    /// `next` of the page before.
    after: Option<String>,
    /// Rows of a page, 1 to 1,000; 100 if left out.
    limit: Option<u32>,
}

/// The events of a run and its shards, oldest first.
#[utoipa::path(
    get,
    path = "/runs/{id}/events",
    tag = "runs",
    params(("id" = String, Path, description = "Number, key, or trace id"), EventsOf),
    responses(
        (status = 200, body = wire::EventPage),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn events(
    State(api): State<Api>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(wanted): Params<EventsOf>,
) -> Answer<wire::EventPage> {
    let id = existing(&api, &id).await?;
    let filter = match wanted.shard {
        None => EventFilter {
            run: Some(id),
            shard: None,
        },
        Some(no) => EventFilter {
            run: None,
            shard: Some(ShardKey::new(id, no)),
        },
    };
    let paging = Paging {
        after: wanted.after,
        limit: wanted.limit,
    };
    history::page(&api, &caller, filter, &paging).await
}

/// A run that is there.
async fn existing(api: &Api, text: &str) -> Result<RunId, Failed> {
    let id = request::run_id(api, text).await?;
    match api.store().get_run(id).await? {
        Some(_) => Ok(id),
        None => Err(Failed::not_found("run", request::shortened(text))),
    }
}

/// Stops a run: what waits is cancelled now, what runs is told to stop.
#[utoipa::path(
    post,
    path = "/runs/{id}/cancel",
    tag = "runs",
    params(("id" = String, Path, description = "Number, key, or trace id")),
    responses(
        (status = 200, body = wire::Run),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn cancel(
    State(api): State<Api>,
    caller: Caller,
    Segments(id): Segments<String>,
) -> Answer<wire::Run> {
    let id = request::run_id(&api, &id).await?;
    if let Some(control) = caller.step(&api, 0) {
        control.cancel(&caller.actor, id).await?;
    }
    // It is being stopped, whether or not its workers hear of it before their next beat.
    if let Err(error) = api.0.engine.sessions.tell_stopped(id).await {
        tracing::debug!(run = %id, %error, "its workers' beats will find the stop");
    }
    Ok(Json(run(&api, id).await?))
}

/// Retries the failed and cancelled shards of a closed run, or only some of them.
#[utoipa::path(
    post,
    path = "/runs/{id}/retry",
    tag = "runs",
    params(("id" = String, Path, description = "Number, key, or trace id")),
    request_body = Option<wire::RetryRun>,
    responses(
        (status = 200, body = wire::Run),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn retry(
    State(api): State<Api>,
    caller: Caller,
    Segments(id): Segments<String>,
    body: Bytes,
) -> Answer<wire::Run> {
    let body: wire::RetryRun = request::json(&body)?;
    let id = request::run_id(&api, &id).await?;
    let only = request::shards(id, body.shards)?;
    if let Some(control) = caller.step(&api, 0) {
        control.retry(&caller.actor, id, only).await?;
    }
    api.0.engine.asked(Hint::Dispatch);
    Ok(Json(run(&api, id).await?))
}

/// What is to be explained of a run.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExplainOf {
    /// This shard alone, by its number; then `state` is the shard's.
    shard: Option<i32>,
}

/// Why a run, or one of its shards, is where it is: what it waits for, or how it ended.
#[utoipa::path(
    get,
    path = "/runs/{id}/explain",
    tag = "runs",
    params(("id" = String, Path, description = "Number, key, or trace id"), ExplainOf),
    responses(
        (status = 200, body = wire::Explanation),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn explain(
    State(api): State<Api>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(of): Params<ExplainOf>,
) -> Answer<wire::Explanation> {
    let id = request::run_id(&api, &id).await?;
    let control = &api.0.control;
    // What a run waits for may be held by another namespace's.
    let sees = |namespace: &Name| caller.sees(namespace);
    let (run, shard, reasons) = match of.shard {
        None => {
            let (run, reasons) = control.explain_to(&sees, id).await?;
            (run, None, reasons)
        }
        Some(no) => {
            let (run, shard, reasons) = control.explain_shard_to(&sees, id, ShardNo(no)).await?;
            (run, Some(shard), reasons)
        }
    };
    let time_zone = api.time_zone(run.job, run.revision).await?;
    let run = convert::run(&run, &time_zone, None);
    let reasons = reasons.into_iter().map(|why| wire::Why {
        word: why.word.to_owned(),
        text: why.text,
        shards: why.shards,
        since: why.since.map(|at| at.to_string()),
        ends: why.ends,
    });
    Ok(Json(wire::Explanation {
        id: run.id,
        key: run.key,
        state: shard.map_or(run.state, |shard| shard.state.word().to_owned()),
        reasons: reasons.collect(),
    }))
}

/// The attempts of a shard, oldest first.
#[utoipa::path(
    get,
    path = "/runs/{id}/shards/{no}/attempts",
    tag = "runs",
    params(
        ("id" = String, Path, description = "Number, key, or trace id"),
        ("no" = i32, Path, description = "The shard's number; -1 is the plan step"),
    ),
    responses(
        (status = 200, body = wire::Attempts),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn attempts(
    State(api): State<Api>,
    Segments((id, no)): Segments<(String, i32)>,
) -> Answer<wire::Attempts> {
    let id = request::run_id(&api, &id).await?;
    let attempts = api.0.control.attempts(ShardKey::new(id, no)).await?;
    let items = attempts.iter().map(convert::attempt).collect();
    Ok(Json(wire::Attempts { items }))
}
