//! Calendars: applied, listed, compared, deleted.
//!
//! # Not here
//! Reading documents ([`crate::document`]).

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use sichen_core::document::CalendarDocument;
use sichen_core::model::{self, CalendarUser};
use sichen_core::name::JobName;
use sichen_core::port::{MAX_PAGE, Page};
use sichen_engine::calendars;
use sichen_engine::control::{self, Control};
use utoipa::IntoParams;

use super::access::Caller;
use super::answer::{Answer, Failed};
use super::request::{self, Paging, Params, Segments};
use super::{Api, access, convert, jobs, wire};
use crate::document;

/// Applies one calendar of `body`.
pub(super) async fn apply(
    api: &Api,
    caller: &Caller,
    step: Option<Control>,
    body: &Bytes,
    read: &document::Read<CalendarDocument>,
) -> Result<wire::AppliedCalendar, Failed> {
    let document = &read.document;
    let Some(control) = step else {
        let name = document.calendar_name();
        let name = name.map_err(|e| Failed::bad(format!("SC1001: {e}")))?;
        let version = api.0.control.calendar(&name, None).await?.version;
        // Jobs that the earlier attempt did not reach are brought to it by the janitor.
        return Ok(wire::AppliedCalendar {
            namespace: name.namespace.to_string(),
            name: name.name.to_string(),
            version,
            change: wire::Change::Unchanged,
            jobs: Vec::new(),
            left: Vec::new(),
            more: false,
        });
    };
    let done = control.apply_calendar(&caller.actor, document).await;
    let done = done.map_err(|error| placed(error, body, read.line))?;
    if !done.jobs.is_empty() {
        api.0.engine.job_changed();
    }
    let moved = done.jobs.into_iter();
    let moved = moved.filter(|(job, _)| caller.sees(&job.namespace));
    let moved = moved.map(|(job, revision)| wire::MovedJob {
        namespace: job.namespace.to_string(),
        name: job.name.to_string(),
        revision: revision.0,
    });
    let left = done.left.into_iter();
    let left = left.filter(|left| caller.sees(&left.job.namespace));
    let left = left.map(|left| wire::LeftJob {
        namespace: left.job.namespace.to_string(),
        name: left.job.name.to_string(),
        why: left.why,
    });
    Ok(wire::AppliedCalendar {
        namespace: document.metadata.namespace.clone(),
        name: document.metadata.name.clone(),
        version: done.version,
        change: jobs::change(done.change),
        jobs: moved.collect(),
        left: left.collect(),
        more: done.more,
    })
}

fn shown(
    stored: &model::Calendar,
    whole: bool,
    users: Vec<CalendarUser>,
) -> Result<wire::Calendar, Failed> {
    let rules = calendars::read(stored)?;
    let text = serde_json::from_str(&stored.document).ok();
    let users = users.into_iter().map(|user| wire::CalendarUser {
        namespace: user.job_name.namespace.to_string(),
        name: user.job_name.name.to_string(),
        version: user.version,
    });
    Ok(wire::Calendar {
        namespace: stored.name.namespace.to_string(),
        name: stored.name.name.to_string(),
        version: stored.version,
        changed_at: stored.changed_at.to_string(),
        off: rules.off.len() as u64,
        work: rules.work.len() as u64,
        covers_through: rules.covers_through().map(|date| date.to_string()),
        document: text.filter(|_| whole),
        users: users.collect(),
    })
}

fn name_of(calendar: &model::Calendar) -> &JobName {
    &calendar.name
}

/// Calendars by namespace and name.
#[utoipa::path(
    get,
    path = "/calendars",
    tag = "calendars",
    params(Paging),
    responses(
        (status = 200, body = wire::CalendarPage),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Params(paging): Params<Paging>,
) -> Answer<wire::CalendarPage> {
    let page = paging.page(|text| {
        let (namespace, name) = text.split_once('/')?;
        JobName::new(namespace, name).ok()
    })?;
    let limit = page.limit;
    let control = &api.0.control;
    let cursor = |JobName { namespace, name }: &JobName| format!("{namespace}/{name}");
    let (found, next) = if caller.sees_all() {
        let found = control.calendars(page).await?;
        let next = request::next(&found, limit, |calendar| cursor(&calendar.name));
        (found, next)
    } else {
        let read = |page| async move { Ok(control.calendars(page).await?) };
        let (found, next) =
            access::rows(&caller, page, usize::MAX, name_of, read, |_| true).await?;
        (found, next.as_ref().map(cursor))
    };
    let items = found.iter().map(|stored| shown(stored, false, Vec::new()));
    let items = items.collect::<Result<_, _>>()?;
    Ok(Json(wire::CalendarPage { items, next }))
}

/// Which version is wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Version {
    /// The version; the newest if left out.
    version: Option<u32>,
}

/// One calendar, with its document and the jobs that use it.
#[utoipa::path(
    get,
    path = "/calendars/{namespace}/{name}",
    tag = "calendars",
    params(("namespace" = String, Path), ("name" = String, Path), Version),
    responses(
        (status = 200, body = wire::Calendar),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn one(
    State(api): State<Api>,
    caller: Caller,
    Segments(name): Segments<(String, String)>,
    Params(wanted): Params<Version>,
) -> Answer<wire::Calendar> {
    let name = request::job_name(name)?;
    let stored = api.0.control.calendar(&name, wanted.version).await?;
    let page = Page {
        after: None,
        limit: MAX_PAGE,
    };
    let mut users = api.0.control.calendar_users(&name, page).await?;
    users.retain(|user| caller.sees(&user.job_name.namespace));
    Ok(Json(shown(&stored, true, users)?))
}

/// Deletes a calendar that no job uses. Its versions stay for the revisions that went by them.
#[utoipa::path(
    delete,
    path = "/calendars/{namespace}/{name}",
    tag = "calendars",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses(
        (status = 200, body = wire::DeletedCalendar),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn delete(
    State(api): State<Api>,
    caller: Caller,
    Segments(name): Segments<(String, String)>,
) -> Answer<wire::DeletedCalendar> {
    let name = request::job_name(name)?;
    unused_elsewhere(&api, &caller, &name).await?;
    api.0.control.delete_calendar(&caller.actor, &name).await?;
    Ok(Json(wire::DeletedCalendar {
        namespace: name.namespace.to_string(),
        name: name.name.to_string(),
    }))
}

/// Refuses what the store would refuse naming jobs that the caller does not see.
async fn unused_elsewhere(api: &Api, caller: &Caller, name: &JobName) -> Result<(), Failed> {
    if caller.sees_all() {
        return Ok(());
    }
    let page = Page {
        after: None,
        limit: MAX_PAGE,
    };
    let users = api.0.control.calendar_users(name, page).await?;
    match users
        .iter()
        .any(|user| !caller.sees(&user.job_name.namespace))
    {
        false => Ok(()),
        true => {
            let message = format!(
                "SC5018: calendar {name} is used by jobs of namespaces that this token does not see; \
                 ask whoever sees them"
            );
            Err(Failed::new(StatusCode::CONFLICT, message))
        }
    }
}

/// What applying the calendars of a text would do to the coming planned times of jobs; nothing is
/// written.
#[utoipa::path(
    post,
    path = "/calendars:compare",
    tag = "calendars",
    request_body(content = String, content_type = "application/yaml", description = "YAML or JSON, one or more documents; jobs are passed over"),
    responses(
        (status = 200, body = wire::CalendarComparison),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn compare(
    State(api): State<Api>,
    caller: Caller,
    body: Bytes,
) -> Answer<wire::CalendarComparison> {
    let mut changes = Vec::new();
    for read in jobs::read(&body)?.calendars {
        let name = read.document.calendar_name();
        let name = name.map_err(|e| Failed::bad(format!("SC1001: {e}")))?;
        if !caller.sees(&name.namespace) {
            return Err(Failed::not_found("calendar", name.to_string()));
        }
        let compared = api.0.control.compare_calendar(&read.document).await;
        let compared = compared.map_err(|error| placed(error, &body, read.line))?;
        let mut compared = compared;
        compared.retain(|changed| caller.sees(&changed.job.namespace));
        changes.extend(compared.into_iter().map(|changed| {
            let zone = convert::zone(&changed.time_zone);
            let told = |list: &[jiff::Timestamp]| -> Vec<String> {
                list.iter().map(|at| convert::at(*at, &zone)).collect()
            };
            wire::CalendarChange {
                calendar: name.to_string(),
                job: changed.job.to_string(),
                gone: told(&changed.gone),
                new: told(&changed.new),
                through: convert::at(changed.through, &zone),
                more: changed.more,
            }
        }));
    }
    Ok(Json(wire::CalendarComparison { changes }))
}

/// Problems that only the store knows stand in the document of `body` that begins at this line.
pub(super) fn placed(error: control::Error, body: &Bytes, line: u64) -> Failed {
    match error {
        control::Error::Invalid(problems) => {
            let text = std::str::from_utf8(body).unwrap_or_default();
            let problems = problems.into_iter().map(|p| {
                let place = document::place_of(text, line, &p.path);
                let (line, column) = place.unzip();
                wire::ProblemAt {
                    line,
                    column,
                    path: p.path,
                    message: p.message,
                }
            });
            Failed::invalid(problems.collect())
        }
        other => other.into(),
    }
}
