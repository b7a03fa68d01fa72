//! Jobs in pages, and those of them that a person looks for.
//!
//! # Not here
//! One job and what is done to it ([`super::jobs`]).

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde::Deserialize;
use sichen_core::model::Job;
use sichen_core::name::JobName;
use sichen_core::port::LATE_AFTER;
use utoipa::IntoParams;

use super::access::Caller;
use super::answer::{Answer, Failed};
use super::overview::SPAN;
use super::request::{self, Paging, Params};
use super::{Api, access, convert, wire};

/// The most jobs that one request looks at for those that it wants.
const MAX_SEARCHED: usize = 10_000;

/// Which jobs are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WantedJobs {
    /// Whose `namespace/name` or title contains this, upper and lower case being the same.
    search: Option<String>,
    /// `live` or `paused`; `due`: live, with a planned time within the hour; `late`: live, with one
    /// that passed more than 10 seconds ago.
    state: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    /// Rows of a page, 1 to 1,000; 100 if left out.
    limit: Option<u32>,
}

/// Jobs by namespace and name.
///
/// With `search` or `state`, or for a caller who does not see all namespaces, a request looks at no
/// more than 10,000 jobs: a page may be short, even empty, and have a `next`.
#[utoipa::path(
    get,
    path = "/jobs",
    tag = "jobs",
    params(WantedJobs),
    responses(
        (status = 200, body = wire::JobPage),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Params(wanted): Params<WantedJobs>,
) -> Answer<wire::JobPage> {
    let paging = Paging {
        after: wanted.after,
        limit: wanted.limit,
    };
    let page = paging.page(|text| {
        let (namespace, name) = text.split_once('/')?;
        JobName::new(namespace, name).ok()
    })?;
    let search = wanted.search.map(|text| text.to_lowercase());
    let search = search.filter(|text| !text.is_empty());
    let state = wanted.state.as_deref().map(job_state).transpose()?;
    let control = &api.0.control;
    let (jobs, next) = if search.is_none() && state.is_none() && caller.sees_all() {
        let limit = page.limit;
        let jobs = control.jobs(page).await?;
        let next = request::next(&jobs, limit, |job| cursor(&job.name));
        (jobs, next)
    } else {
        let now = api.store().now().await?;
        let wanted = |job: &Job| {
            search.as_ref().is_none_or(|text| is_named(job, text))
                && state.is_none_or(|state| state.holds(job, now))
        };
        let read = |page| async move { Ok(control.jobs(page).await?) };
        let (jobs, next) = access::rows(&caller, page, MAX_SEARCHED, name_of, read, wanted).await?;
        (jobs, next.as_ref().map(cursor))
    };
    let jobs = control.all_with_open_runs(jobs).await?;
    let items = jobs.iter().map(|job| convert::job(job, false)).collect();
    Ok(Json(wire::JobPage { items, next }))
}

fn name_of(job: &Job) -> &JobName {
    &job.name
}

fn cursor(name: &JobName) -> String {
    format!("{}/{}", name.namespace, name.name)
}

fn is_named(row: &Job, text: &str) -> bool {
    if cursor(&row.name).contains(text) {
        return true;
    }
    // A title stands in the document as it is, but for what JSON has to write otherwise: most documents
    // need not be read to know that theirs has no such part.
    let is_plain = !text.contains(|c: char| c.is_control() || c == '"' || c == '\\');
    if is_plain && !row.document.to_lowercase().contains(text) {
        return false;
    }
    let title = convert::job(row, false).title.unwrap_or_default();
    title.to_lowercase().contains(text)
}

/// How a job stands with its schedules.
#[derive(Clone, Copy)]
enum JobState {
    Live,
    Paused,
    Due,
    Late,
}

impl JobState {
    fn holds(self, job: &Job, now: Timestamp) -> bool {
        let next = job.next_due.filter(|_| !job.paused);
        match self {
            JobState::Live => !job.paused,
            JobState::Paused => job.paused,
            JobState::Due => next.is_some_and(|at| at > now && at <= now + SPAN.ahead),
            JobState::Late => next.is_some_and(|at| at <= now - LATE_AFTER),
        }
    }
}

fn job_state(word: &str) -> Result<JobState, Failed> {
    match word {
        "live" => Ok(JobState::Live),
        "paused" => Ok(JobState::Paused),
        "due" => Ok(JobState::Due),
        "late" => Ok(JobState::Late),
        _ => {
            let word = request::shortened(word);
            let text = format!("SC5021: state={word:?} is none of live, paused, due, late");
            Err(Failed::bad(text))
        }
    }
}
