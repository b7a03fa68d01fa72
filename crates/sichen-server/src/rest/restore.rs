//! A store that went back: what is to be decided, and the decisions.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use jiff::Timestamp;
use sichen_core::beacon::Hint;
use sichen_core::event::Event;
use sichen_core::restore::How;
use sichen_engine::control::{About, Undecided};

use super::access::Caller;
use super::answer::{Answer, Failed};
use super::{Api, convert, request, tokens, wire};

/// What a restore asks to be decided; `undecided` is false if there is none.
#[utoipa::path(
    get,
    path = "/restore",
    tag = "cluster",
    responses(
        (status = 200, body = wire::Restore),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn show_restore(State(api): State<Api>) -> Answer<wire::Restore> {
    let undecided = api.0.control.undecided().await?;
    let now = api.store().now().await?;
    let shown = undecided.map(|undecided| shown(&undecided, now));
    Ok(Json(shown.unwrap_or_default()))
}

/// Notes that the store went back, where no `sichen restore` did it: after a database was restored by its own
/// means. Raises the epoch; nothing fires or is granted until it is decided.
#[utoipa::path(
    post,
    path = "/restore/begin",
    tag = "cluster",
    responses(
        (status = 200, body = wire::Restore),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn begin_restore(State(api): State<Api>, caller: Caller) -> Answer<wire::Restore> {
    if let Some(control) = caller.step(&api, 0) {
        control.begin_restore(&caller.actor).await?;
    }
    look_for_duties(&api);
    show_restore(State(api)).await
}

/// Decides about one job's planned times, one run, or all that is left.
#[utoipa::path(
    post,
    path = "/restore/decide",
    tag = "cluster",
    request_body = wire::DecideRestore,
    responses(
        (status = 200, body = wire::DecidedRestore),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn decide_restore(
    State(api): State<Api>,
    caller: Caller,
    body: Bytes,
) -> Answer<wire::DecidedRestore> {
    let asked: wire::DecideRestore = request::json(&body)?;
    let about = match (&asked.job, &asked.run) {
        (Some(job), None) => About::Job(request::shown_job(job)?),
        (None, Some(run)) => About::Run(request::run_id(&api, run).await?),
        (None, None) => About::Rest,
        (Some(_), Some(_)) => return Err(bad("decide about a job or a run, not both at once")),
    };
    let how = How::ALL.iter().find(|how| how.word() == asked.how);
    let how = *how.ok_or_else(|| bad("`as` is again, done or leave"))?;
    let control = &api.0.control;
    let decided = control.decide_restore(&caller.actor, about, how, &asked.reason, &asked.evidence);
    let decided = decided.await?;
    look_for_duties(&api);
    let undecided = api.store().get_restore().await?.is_some();
    Ok(Json(wire::DecidedRestore { decided, undecided }))
}

/// Duties were taken from everybody, or may be taken again: a node that is alone would see it half a minute later.
fn look_for_duties(api: &Api) {
    let coordinator = &api.0.engine.coordinator;
    coordinator.look_again();
    coordinator.tell(Hint::Members);
}

fn bad(why: &str) -> Failed {
    Failed::bad(format!("SC5020: {why}"))
}

fn lost(event: &Event) -> wire::LostReport {
    let data: serde_json::Value = serde_json::from_str(&event.data).unwrap_or_default();
    let text = |key: &str| data[key].as_str().filter(|text| !text.is_empty());
    wire::LostReport {
        shard: event.entity.id(),
        run_key: text("run_key").map(str::to_owned),
        end: text("end").map(str::to_owned),
        token: event.token.map_or(0, |token| token.0),
        by: event.actor.clone(),
        at: event.at.to_string(),
    }
}

fn shown(undecided: &Undecided, now: Timestamp) -> wire::Restore {
    let at = |at: Timestamp| at.to_string();
    let jobs = undecided.jobs.iter().map(|missed| wire::RestoredJob {
        job: missed.job.name.to_string(),
        first: at(missed.first),
        last: at(missed.last),
        count: missed.count,
    });
    let runs = undecided.runs.iter();
    let tokens = undecided.tokens.iter();
    let tokens = tokens.map(|token| tokens::shown(token, now));
    wire::Restore {
        undecided: true,
        epoch: Some(undecided.restore.epoch),
        at: Some(at(undecided.restore.at)),
        mark: Some(at(undecided.restore.mark)),
        jobs: jobs.collect(),
        runs: runs.map(|run| convert::run(run, "UTC", None)).collect(),
        lost: undecided.lost.iter().map(lost).collect(),
        tokens: tokens.collect(),
        more: undecided.more,
    }
}
