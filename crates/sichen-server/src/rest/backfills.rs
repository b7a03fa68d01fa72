//! Backfills: asked for, shown beforehand, listed, paused, resumed, cancelled.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use sichen_core::backfill::check::{CHECKS_A_MINUTE, Check, CheckState, Verify};
use sichen_core::backfill::{Action, Backfill, Mode, Order, Record, Turn, Wanted};
use sichen_core::beacon::Hint;
use sichen_core::ids::{BackfillId, RunId};
use sichen_core::name::Name;
use sichen_core::port::MAX_BATCH;
use utoipa::IntoParams;

use super::access::Caller;
use super::answer::{Answer, Failed};
use super::request::{self, Paging, Params, Segments};
use super::{Api, convert, wire};

/// Asks for a backfill of a range of a job's planned instants.
#[utoipa::path(
    post,
    path = "/jobs/{namespace}/{name}/backfills",
    tag = "backfills",
    params(
        ("namespace" = String, Path),
        ("name" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The key, if the body gives none"),
    ),
    request_body = wire::StartBackfill,
    responses(
        (status = 200, body = wire::Backfill, description = "It was there already"),
        (status = 201, body = wire::Backfill, description = "It was written now"),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn start(
    State(api): State<Api>,
    caller: Caller,
    Segments(name): Segments<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Json<wire::Backfill>), Failed> {
    let name = request::job_name(name)?;
    let body: wire::StartBackfill = request::json(&body)?;
    let key = request::idempotency_key(body.key.as_deref(), Some(&headers))?.ok_or_else(|| {
        Failed::bad(
            "SC5022: give a `key` (or the header `Idempotency-Key`), so that the same request again \
             finds the same backfill",
        )
    })?;
    let wanted = wanted(&body)?;
    let (backfill, created) = api
        .0
        .control
        .start_backfill(&caller.actor, &name, key, wanted)
        .await?;
    api.0.engine.asked(Hint::Backfill);
    let status = if created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(shown(&api, &backfill).await?)))
}

fn wanted(body: &wire::StartBackfill) -> Result<Wanted, Failed> {
    let word = |name: &str, given: &str, known: &str| {
        let given = request::shortened(given);
        Failed::bad(format!("SC5021: {name}={given:?} is none of {known}"))
    };
    let mode = match body.mode.as_deref() {
        None => Mode::OnlyMissing,
        Some(given) => Mode::parse(given)
            .ok_or_else(|| word("mode", given, "only_missing, only_failed, all"))?,
    };
    let order = match body.order.as_deref() {
        None => Order::Oldest,
        Some(given) => Order::parse(given).ok_or_else(|| word("order", given, "oldest, newest"))?,
    };
    if body.reason.contains('\0') {
        return Err(Failed::bad(
            "SC5022: `reason` has a NUL character; take it out",
        ));
    }
    Ok(Wanted {
        from: request::instant("from", &body.from)?,
        to: request::instant("to", &body.to)?,
        mode,
        order,
        parallelism: body.parallelism.unwrap_or(1),
        rate: body.rate,
        verify: body.verify.as_ref().map(verify).transpose()?,
        reason: body.reason.clone(),
    })
}

fn verify(body: &wire::BackfillVerify) -> Result<Verify, Failed> {
    let job = Name::new(&body.job).map_err(|error| {
        let given = request::shortened(&body.job);
        Failed::bad(format!(
            "SC1001: the name {given:?} of the checking job {error}; it stands in the namespace of the \
             backfill's job"
        ))
    })?;
    let rate = body.rate.unwrap_or(CHECKS_A_MINUTE);
    Ok(Verify { job, rate })
}

/// What a backfill would do now, page by page. Nothing is written.
#[utoipa::path(
    post,
    path = "/jobs/{namespace}/{name}/backfills/preview",
    tag = "backfills",
    params(("namespace" = String, Path), ("name" = String, Path), Paging),
    request_body = wire::StartBackfill,
    responses(
        (status = 200, body = wire::BackfillPreview),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn preview(
    State(api): State<Api>,
    Segments(name): Segments<(String, String)>,
    Params(paging): Params<Paging>,
    body: Bytes,
) -> Answer<wire::BackfillPreview> {
    let name = request::job_name(name)?;
    let wanted = wanted(&request::json(&body)?)?;
    let page = paging.page(|text| text.parse().ok())?;
    let limit = page.limit.min(u32::try_from(MAX_BATCH).unwrap_or(u32::MAX));
    let control = &api.0.control;
    let preview = control
        .preview_backfill(&name, &wanted, page.after, limit)
        .await?;
    let job = control.job(&name).await?;
    let zone = convert::zone(&api.time_zone(job.uid, job.revision).await?);
    let items = preview.items.iter().map(|(facts, action)| {
        let why = match action {
            Action::Leave(why) => Some(why.word().to_owned()),
            Action::Create | Action::Rerun(_) | Action::Reopen(..) => None,
        };
        wire::BackfillInstant {
            at: convert::at(facts.at, &zone),
            action: action.word().to_owned(),
            why,
            run: facts.run.map(|run| run.id.0),
            run_state: facts.run.map(|run| run.state.word().to_owned()),
            skipped: facts.record == Some(Record::Skipped),
        }
    });
    Ok(Json(wire::BackfillPreview {
        instants: preview.instants,
        waiting: preview.waiting,
        items: items.collect(),
        next: preview.next.map(|at| at.to_string()),
    }))
}

/// A job's backfills, newest first.
#[utoipa::path(
    get,
    path = "/jobs/{namespace}/{name}/backfills",
    tag = "backfills",
    params(("namespace" = String, Path), ("name" = String, Path), Paging),
    responses(
        (status = 200, body = wire::BackfillPage),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(api): State<Api>,
    Segments(name): Segments<(String, String)>,
    Params(paging): Params<Paging>,
) -> Answer<wire::BackfillPage> {
    let control = &api.0.control;
    let job = control.job(&request::job_name(name)?).await?;
    let page = paging.page(|text| text.parse().ok().map(BackfillId))?;
    let found = control.backfills(job.uid, page).await?;
    let next = request::next(&found, page.limit, |b: &Backfill| b.id.to_string());
    let zone = convert::zone(&api.time_zone(job.uid, job.revision).await?);
    let items = found.iter();
    let items = items.map(|b| convert::backfill(b, &job, &zone, None));
    Ok(Json(wire::BackfillPage {
        items: items.collect(),
        next,
    }))
}

/// One backfill, with what is still to be done.
#[utoipa::path(
    get,
    path = "/backfills/{id}",
    tag = "backfills",
    params(("id" = u64, Path)),
    responses(
        (status = 200, body = wire::Backfill),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn one(
    State(api): State<Api>,
    Segments(id): Segments<u64>,
) -> Answer<wire::Backfill> {
    let backfill = api.0.control.backfill(number(id)?).await?;
    Ok(Json(shown(&api, &backfill).await?))
}

/// Which checks are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WhichChecks {
    /// In this state alone: `due`, `open`, `agrees`, `differs`, `uncounted`.
    state: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    /// Rows of a page, 1 to 1,000; 100 if left out.
    limit: Option<u32>,
}

/// The checks of a backfill's runs, by run.
#[utoipa::path(
    get,
    path = "/backfills/{id}/checks",
    tag = "backfills",
    params(("id" = u64, Path), WhichChecks),
    responses(
        (status = 200, body = wire::BackfillCheckPage),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn checks(
    State(api): State<Api>,
    Segments(id): Segments<u64>,
    Params(which): Params<WhichChecks>,
) -> Answer<wire::BackfillCheckPage> {
    let state = which.state.as_deref();
    let state = state.map(|word| {
        CheckState::parse(word).ok_or_else(|| {
            let word = request::shortened(word);
            let known = "due, open, agrees, differs, uncounted";
            Failed::bad(format!("SC5021: state={word:?} is none of {known}"))
        })
    });
    let state = state.transpose()?;
    let paging = Paging {
        after: which.after,
        limit: which.limit,
    };
    let page = paging.page(|text| {
        let (run, round) = text.split_once('.')?;
        Some((RunId(run.parse().ok()?), round.parse().ok()?))
    })?;
    let control = &api.0.control;
    let backfill = control.backfill(number(id)?).await?;
    let job = control.job_by_uid(backfill.job).await?;
    let zone = convert::zone(&api.time_zone(job.uid, job.revision).await?);
    let found = control.checks(backfill.id, state, page).await?;
    let next = request::next(&found, page.limit, |check: &Check| {
        format!("{}.{}", check.run, check.round)
    });
    let mut items = Vec::with_capacity(found.len());
    for check in found {
        let run = api.store().get_run(check.run).await?;
        let planned = run.and_then(|(run, _)| run.occasion.planned_at());
        let (found, expected) = check.counts.unzip();
        items.push(wire::BackfillCheck {
            run: check.run.0,
            round: check.round,
            planned_at: planned.map(|at| convert::at(at, &zone)),
            state: check.state.word().to_owned(),
            by: check.by.map(|run| run.0),
            found,
            expected,
            why: check.why,
            at: check.at.to_string(),
        });
    }
    Ok(Json(wire::BackfillCheckPage { items, next }))
}

/// Lets a backfill start nothing until it is resumed; its open runs go on.
#[utoipa::path(
    post,
    path = "/backfills/{id}/pause",
    tag = "backfills",
    params(("id" = u64, Path)),
    responses(
        (status = 200, body = wire::Backfill),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn pause(
    State(api): State<Api>,
    caller: Caller,
    Segments(id): Segments<u64>,
) -> Answer<wire::Backfill> {
    turn(&api, &caller, id, Turn::Pause).await
}

/// Lets a paused backfill go on.
#[utoipa::path(
    post,
    path = "/backfills/{id}/resume",
    tag = "backfills",
    params(("id" = u64, Path)),
    responses(
        (status = 200, body = wire::Backfill),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn resume(
    State(api): State<Api>,
    caller: Caller,
    Segments(id): Segments<u64>,
) -> Answer<wire::Backfill> {
    turn(&api, &caller, id, Turn::Resume).await
}

/// Gives a backfill up for good; its open runs go on.
#[utoipa::path(
    post,
    path = "/backfills/{id}/cancel",
    tag = "backfills",
    params(("id" = u64, Path)),
    responses(
        (status = 200, body = wire::Backfill),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn cancel(
    State(api): State<Api>,
    caller: Caller,
    Segments(id): Segments<u64>,
) -> Answer<wire::Backfill> {
    turn(&api, &caller, id, Turn::Cancel).await
}

async fn turn(api: &Api, caller: &Caller, id: u64, turn: Turn) -> Answer<wire::Backfill> {
    let (id, control) = (number(id)?, &api.0.control);
    if let Some(control) = caller.step(api, 0) {
        control.turn_backfill(&caller.actor, id, turn).await?;
    }
    api.0.engine.asked(Hint::Backfill);
    let backfill = control.backfill(id).await?;
    Ok(Json(shown(api, &backfill).await?))
}

/// A number that the stores know.
fn number(id: u64) -> Result<BackfillId, Failed> {
    if id > i64::MAX.unsigned_abs() {
        return Err(Failed::not_found("backfill", id.to_string()));
    }
    Ok(BackfillId(id))
}

async fn shown(api: &Api, backfill: &Backfill) -> Result<wire::Backfill, Failed> {
    let control = &api.0.control;
    let job = control.job_by_uid(backfill.job).await?;
    let zone = convert::zone(&api.time_zone(job.uid, job.revision).await?);
    // What its schedules can't say is left out; the rest is still true.
    let remaining = match backfill.state.is_over() {
        true => None,
        false => control.remaining(backfill).await.ok(),
    };
    Ok(convert::backfill(backfill, &job, &zone, remaining))
}
