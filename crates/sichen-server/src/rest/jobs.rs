//! Jobs: applied, listed, paused, deleted; their decisions and next instants.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use jiff::SignedDuration;
use serde::Deserialize;
use sichen_core::access::Action;
use sichen_core::document::{Metadata, Problem};
use sichen_core::ids::Revision;
use sichen_core::name::JobName;
use sichen_core::port;
use sichen_core::schedule::cron::Language;
use sichen_engine::control::{self, Precondition, Turn};
use utoipa::{IntoParams, ToSchema};

use super::access::Caller;
use super::answer::{Answer, Failed};
use super::request::{self, Params, Segments};
use super::{Api, calendars, capacities, convert, etag, wire};
use crate::document;

pub(super) fn read(body: &Bytes) -> Result<document::Documents, Failed> {
    document::read_bytes(body).map_err(|problems| {
        let problems = problems.into_iter().map(|p| wire::ProblemAt {
            line: p.line,
            column: p.column,
            path: p.path,
            message: p.message,
        });
        Failed::invalid(problems.collect())
    })
}

pub(super) fn change(change: control::Change) -> wire::Change {
    match change {
        control::Change::Created => wire::Change::Created,
        control::Change::Updated => wire::Change::Updated,
        control::Change::Unchanged => wire::Change::Unchanged,
    }
}

async fn applied(
    api: &Api,
    name: &JobName,
    applied: control::Applied,
) -> Result<wire::AppliedDocument, Failed> {
    let job = api.store().get_job_by_uid(applied.uid).await?;
    let job = job.map(|job| convert::job(&job, false));
    Ok(wire::AppliedDocument {
        namespace: name.namespace.to_string(),
        name: name.name.to_string(),
        uid: applied.uid.to_string(),
        revision: applied.revision.0,
        change: change(applied.change),
        paused: job.as_ref().is_some_and(|job| job.paused),
        next_at: job.and_then(|job| job.next_at),
    })
}

/// Which documents of a text are to be applied.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Only {
    /// `calendars` or `jobs`; both if left out.
    only: Option<What>,
}

/// A kind of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum What {
    /// What jobs use: calendars and capacities alone.
    Calendars,
    /// Jobs alone.
    Jobs,
}

/// Creates or changes calendars, capacities and jobs.
///
/// All documents are checked first; then they are applied: the calendars, the capacities, then the jobs,
/// each in their order. Applying the same again changes nothing, so an apply that broke half way is simply repeated.
#[utoipa::path(
    post,
    path = "/jobs:apply",
    tag = "jobs",
    params(
        Only,
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the one job of the body: it is refused (412) if that job is another by now, or has another revision; `*`: if there is none"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: it is refused (412) if there is a job of that name"),
    ),
    request_body(content = String, content_type = "application/yaml", description = "YAML or JSON, one or more documents"),
    responses(
        (status = 200, body = wire::Applied),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn apply(
    State(api): State<Api>,
    caller: Caller,
    Params(wanted): Params<Only>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer<wire::Applied> {
    let condition = etag::condition(&headers)?;
    let read = read(&body)?;
    let jobs_alone = read.calendars.is_empty() && read.capacities.is_empty();
    if condition != Precondition::None && !(jobs_alone && read.jobs.len() == 1) {
        return Err(Failed::bad(
            "SC5005: a condition goes with the document of one job, and with nothing beside it",
        ));
    }
    may_apply(&caller, &body, &read)?;
    let mut all = wire::Applied::default();
    let mut steps = 0..;
    let mut step = || caller.step(&api, steps.next().unwrap_or(u32::MAX));
    if wanted.only != Some(What::Jobs) {
        for read in &read.calendars {
            let applied = calendars::apply(&api, &caller, step(), &body, read).await;
            all.calendars.push(applied?);
        }
        for read in &read.capacities {
            let applied = capacities::apply(&api, &caller, step(), &body, read).await;
            all.capacities.push(applied?);
        }
    }
    if wanted.only != Some(What::Calendars) {
        for read in &read.jobs {
            let name = read.document.job_name();
            let name = name.map_err(|e| Failed::bad(format!("SC1001: {e}")))?;
            let done = match step() {
                Some(control) => {
                    let done = control.apply_if(&caller.actor, &read.document, condition);
                    let done = done.await;
                    done.map_err(|error| calendars::placed(error, &body, read.line))?
                }
                None => present(&api, &name).await?,
            };
            if done.change != control::Change::Unchanged {
                api.0.engine.job_changed();
            }
            all.documents.push(applied(&api, &name, done).await?);
        }
    }
    Ok(Json(all))
}

/// A job as an earlier attempt of the request left it, or somebody since.
async fn present(api: &Api, name: &JobName) -> Result<control::Applied, Failed> {
    let job = api.0.control.job(name).await?;
    Ok(control::Applied {
        uid: job.uid,
        revision: job.revision,
        change: control::Change::Unchanged,
    })
}

/// Refuses documents that the caller may not apply, all of them for one: those of namespaces where he
/// is no editor, and jobs that go by a calendar that he can't see.
fn may_apply(caller: &Caller, body: &Bytes, read: &document::Documents) -> Result<(), Failed> {
    let bad = |e| Failed::bad(format!("SC1001: {e}"));
    if !read.capacities.is_empty() {
        // All namespaces share them.
        caller.must(Action::Edit, None)?;
    }
    for read in &read.calendars {
        let name = read.document.calendar_name().map_err(bad)?;
        caller.must(Action::Edit, Some(&name.namespace))?;
    }
    for read in &read.jobs {
        let name = read.document.job_name().map_err(bad)?;
        caller.must(Action::Edit, Some(&name.namespace))?;
        for (calendar, (path, _)) in read.document.calendars() {
            if !caller.sees(&calendar.namespace) {
                let message = format!("SC1044: there is no calendar `{calendar}`; apply it first");
                let unknown = control::Error::Invalid(vec![Problem { path, message }]);
                return Err(calendars::placed(unknown, body, read.line));
            }
        }
    }
    Ok(())
}

/// Checks documents and changes nothing.
#[utoipa::path(
    post,
    path = "/jobs:validate",
    tag = "jobs",
    request_body(content = String, content_type = "application/yaml", description = "YAML or JSON, one or more documents"),
    responses(
        (status = 200, body = wire::Validated),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn validate(body: Bytes) -> Answer<wire::Validated> {
    let read = read(&body)?;
    let valid = |metadata: Metadata, line| wire::ValidDocument {
        namespace: metadata.namespace,
        name: metadata.name,
        line,
    };
    let jobs = read.jobs.into_iter();
    let jobs = jobs.map(|read| valid(read.document.metadata, read.line));
    let calendars = read.calendars.into_iter();
    let calendars = calendars.map(|read| valid(read.document.metadata, read.line));
    let capacities = read.capacities.into_iter().map(|read| wire::ValidDocument {
        namespace: String::new(),
        name: read.document.metadata.name,
        line: read.line,
    });
    Ok(Json(wire::Validated {
        documents: jobs.collect(),
        calendars: calendars.collect(),
        capacities: capacities.collect(),
    }))
}

/// One job, with its document.
#[utoipa::path(
    get,
    path = "/jobs/{namespace}/{name}",
    tag = "jobs",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses(
        (status = 200, body = wire::Job, headers(("ETag" = String, description = "The job and its revision, for `If-Match`"))),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn one(
    State(api): State<Api>,
    Segments(name): Segments<(String, String)>,
) -> Result<([(HeaderName, HeaderValue); 1], Json<wire::Job>), Failed> {
    let control = &api.0.control;
    let job = control.job(&request::job_name(name)?).await?;
    let tag = etag::header(job.uid, job.revision);
    let job = control.with_open_runs(job).await?;
    Ok((tag, Json(convert::job(&job, true))))
}

/// The document of one revision.
#[utoipa::path(
    get,
    path = "/jobs/{namespace}/{name}/revisions/{revision}",
    tag = "jobs",
    params(
        ("namespace" = String, Path),
        ("name" = String, Path),
        ("revision" = u32, Path, description = "From 1"),
    ),
    responses(
        (status = 200, body = wire::JobRevision),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn revision(
    State(api): State<Api>,
    Segments((namespace, name, revision)): Segments<(String, String, u32)>,
) -> Answer<wire::JobRevision> {
    let name = request::job_name((namespace, name))?;
    let job = api.0.control.job(&name).await?;
    let text = api.0.control.revision(&job, Revision(revision)).await?;
    let document = serde_json::from_str(&text);
    let document = document.map_err(|e| port::Error::Corrupt(format!("job {}: {e}", job.uid)))?;
    Ok(Json(wire::JobRevision {
        uid: job.uid.to_string(),
        namespace: name.namespace.to_string(),
        name: name.name.to_string(),
        revision,
        current: revision == job.revision.0,
        document,
    }))
}

/// Deletes a job: its name is free again, its open runs go on, its history stays.
#[utoipa::path(
    delete,
    path = "/jobs/{namespace}/{name}",
    tag = "jobs",
    params(
        ("namespace" = String, Path),
        ("name" = String, Path),
        ("If-Match" = Option<String>, Header, description = "The job's `ETag`: it is refused (412) if it is another by now, or has another revision"),
    ),
    responses(
        (status = 200, body = wire::DeletedJob),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn delete(
    State(api): State<Api>,
    caller: Caller,
    Segments(name): Segments<(String, String)>,
    headers: HeaderMap,
) -> Answer<wire::DeletedJob> {
    let (name, condition) = (request::job_name(name)?, etag::condition(&headers)?);
    let control = &api.0.control;
    let uid = control.delete_if(&caller.actor, &name, condition).await?;
    api.0.engine.job_changed();
    let uid = uid.to_string();
    Ok(Json(wire::DeletedJob { uid }))
}

/// Pauses a job's schedules.
#[utoipa::path(
    post,
    path = "/jobs/{namespace}/{name}/pause",
    tag = "jobs",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses(
        (status = 200, body = wire::AppliedDocument),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn pause(
    State(api): State<Api>,
    caller: Caller,
    Segments(name): Segments<(String, String)>,
) -> Answer<wire::AppliedDocument> {
    set_paused(&api, &caller, name, Turn::Pause).await
}

/// How a job is resumed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Resume {
    /// Whether the catch-up policy decides what fell into the pause; as the job says if left out.
    catch_up: Option<bool>,
}

/// Resumes a job's schedules; what fell into the pause is recorded as skipped, or caught up.
#[utoipa::path(
    post,
    path = "/jobs/{namespace}/{name}/resume",
    tag = "jobs",
    params(("namespace" = String, Path), ("name" = String, Path), Resume),
    responses(
        (status = 200, body = wire::AppliedDocument),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn resume(
    State(api): State<Api>,
    caller: Caller,
    Segments(name): Segments<(String, String)>,
    Params(wanted): Params<Resume>,
) -> Answer<wire::AppliedDocument> {
    let catch_up = wanted.catch_up;
    set_paused(&api, &caller, name, Turn::Resume { catch_up }).await
}

/// What is to be shown before it is done.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Beforehand {
    /// For a resume: let the catch-up policy decide what fell into the pause.
    catch_up: Option<bool>,
    /// A deletion, not a pause or a resume.
    #[serde(default)]
    delete: bool,
}

/// What a pause, a resume of a paused job, or a deletion, would do now.
#[utoipa::path(
    get,
    path = "/jobs/{namespace}/{name}/preview",
    tag = "jobs",
    params(("namespace" = String, Path), ("name" = String, Path), Beforehand),
    responses(
        (status = 200, body = wire::Preview),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn preview(
    State(api): State<Api>,
    Segments(name): Segments<(String, String)>,
    Params(wanted): Params<Beforehand>,
) -> Answer<wire::Preview> {
    let name = request::job_name(name)?;
    let job = api.0.control.job(&name).await?;
    let catch_up = wanted.catch_up;
    let turn = if job.paused {
        Turn::Resume { catch_up }
    } else {
        Turn::Pause
    };
    let zone = convert::zone(&convert::job(&job, false).time_zone);
    let control = &api.0.control;
    let planned = match wanted.delete {
        true => control.preview_deletion(&name).await?,
        false => control.preview(&name, turn).await?,
    };
    Ok(Json(convert::preview(job.paused, planned, &zone)))
}

async fn set_paused(
    api: &Api,
    caller: &Caller,
    name: (String, String),
    turn: Turn,
) -> Answer<wire::AppliedDocument> {
    let name = request::job_name(name)?;
    let done = match caller.step(api, 0) {
        Some(control) => control.set_paused(&caller.actor, &name, turn).await?,
        None => present(api, &name).await?,
    };
    api.0.engine.job_changed();
    Ok(Json(applied(api, &name, done).await?))
}

/// Which decisions are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct From {
    /// An instant: decisions that end before it are left out.
    from: Option<String>,
    /// Rows of a page, 1 to 1,000; 100 if left out.
    limit: Option<u32>,
}

/// Why planned instants were not run, oldest first.
#[utoipa::path(
    get,
    path = "/jobs/{namespace}/{name}/decisions",
    tag = "jobs",
    params(("namespace" = String, Path), ("name" = String, Path), From),
    responses(
        (status = 200, body = wire::DecisionPage),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn decisions(
    State(api): State<Api>,
    Segments(name): Segments<(String, String)>,
    Params(wanted): Params<From>,
) -> Answer<wire::DecisionPage> {
    let from = match &wanted.from {
        Some(text) => request::instant("from", text)?,
        None => jiff::Timestamp::UNIX_EPOCH,
    };
    let limit = request::limit(wanted.limit, "limit", 100)?;
    let job = api.0.control.job(&request::job_name(name)?).await?;
    let zone = convert::zone(&convert::job(&job, false).time_zone);
    let decisions = api.store().list_decisions(job.uid, from, limit).await?;
    let next = request::next(&decisions, limit, |last| {
        let after = last.to.checked_add(SignedDuration::from_micros(1));
        after.unwrap_or(last.to).to_string()
    });
    let items = decisions.iter().map(|d| convert::decision(d, &zone));
    let items = items.collect();
    Ok(Json(wire::DecisionPage { items, next }))
}

/// How many instants are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Count {
    /// 1 to 1,000; 10 if left out.
    count: Option<u32>,
}

/// Planned instants from now on.
#[utoipa::path(
    get,
    path = "/jobs/{namespace}/{name}/next",
    tag = "jobs",
    params(("namespace" = String, Path), ("name" = String, Path), Count),
    responses(
        (status = 200, body = wire::NextInstants),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn next(
    State(api): State<Api>,
    Segments(name): Segments<(String, String)>,
    Params(wanted): Params<Count>,
) -> Answer<wire::NextInstants> {
    let count = request::limit(wanted.count, "count", 10)?;
    let job = api.0.control.job(&request::job_name(name)?).await?;
    let document = api.document(&job).await?;
    let calendars = api.0.control.calendars_of(&document).await?;
    let timing = document.timing(job.uid, &calendars);
    let timing = timing.map_err(control::Error::Invalid)?;
    let timing = timing.of(&job);
    let zone = convert::zone(&document.spec.time_zone);
    let mut last = api.store().now().await?;
    let mut items = Vec::new();
    while items.len() < count as usize
        && let Some(next) = timing.next(last)
    {
        items.push(convert::at(next, &zone));
        last = next;
    }
    let uid = job.uid.to_string();
    let cron = document.spec.schedules.iter().filter_map(|schedule| {
        Some(wire::CronInWords {
            cron: schedule.cron.clone()?,
            en: schedule.cron_in_words(&uid, Language::English)?,
            zh: schedule.cron_in_words(&uid, Language::Chinese)?,
        })
    });
    Ok(Json(wire::NextInstants {
        time_zone: document.spec.time_zone.clone(),
        paused: job.paused,
        items,
        cron: cron.collect(),
    }))
}
