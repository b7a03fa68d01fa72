//! What each route needs, and whether the caller has it.
//!
//! # Invariants
//! - Everything is judged here, before any handler: a route that the API describes and [`ROUTES`] does
//!   not have is refused to everybody.
//! - What is in a namespace that the caller can't see is answered as what is not there.
//!
//! # Not here
//! Who the caller is ([`crate::access`]); what a role may do (`sichen_core::access`); the reviewed
//! table that a test compares this with (`docs/permissions.md`, which nothing here reads).

use std::collections::HashMap;

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use sichen_core::access::{Action, Purpose, allowed};
use sichen_core::ids::BackfillId;
use sichen_core::model::{Job, Run};
use sichen_core::name::{JobName, Name};
use sichen_core::port;
use sichen_core::trace::TraceId;

use super::answer::Failed;
use super::{Api, request};
pub(super) use crate::access::Caller;

/// Where the namespace of what is asked for is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// There is none: whoever has a token may.
    Nowhere,
    /// In the body, or in each row of a listing: the handler judges each ([`Caller::must`],
    /// [`Caller::sees`]), and the caller must have the role in some namespace at least.
    Each,
    /// In the address: of the job or calendar there.
    Address(&'static str),
    /// In the run that the address names.
    Run,
    /// In the job of the backfill that the address names.
    Backfill,
    /// It concerns all of them: the cluster as a whole.
    Cluster,
    /// Nobody is asked who he is.
    Open,
}

use Action::{Administer, Edit, Operate, View};
use Place::{Address, Backfill, Cluster, Each, Nowhere, Open};

const JOB: Place = Address("job");
const CALENDAR: Place = Address("calendar");

/// What each route needs, and where.
#[rustfmt::skip]
const ROUTES: &[(&str, &str, Action, Place)] = &[
    ("GET", "/me", View, Nowhere),
    ("POST", "/jobs:validate", View, Nowhere),
    ("POST", "/jobs:import", View, Nowhere),
    ("GET", "/schemas/job", View, Nowhere),
    ("GET", "/schemas/calendar", View, Nowhere),
    ("GET", "/schemas/capacity", View, Nowhere),

    ("POST", "/jobs:apply", Edit, Each),
    ("GET", "/jobs", View, Each),
    ("GET", "/jobs/{namespace}/{name}", View, JOB),
    ("DELETE", "/jobs/{namespace}/{name}", Edit, JOB),
    ("GET", "/jobs/{namespace}/{name}/revisions/{revision}", View, JOB),
    ("POST", "/jobs/{namespace}/{name}/pause", Operate, JOB),
    ("POST", "/jobs/{namespace}/{name}/resume", Operate, JOB),
    ("GET", "/jobs/{namespace}/{name}/preview", View, JOB),
    ("GET", "/jobs/{namespace}/{name}/decisions", View, JOB),
    ("GET", "/jobs/{namespace}/{name}/next", View, JOB),
    ("POST", "/jobs/{namespace}/{name}/runs", Operate, JOB),
    ("POST", "/jobs/{namespace}/{name}/runs:batch", Operate, JOB),
    ("POST", "/jobs/{namespace}/{name}/backfills", Operate, JOB),
    ("GET", "/jobs/{namespace}/{name}/backfills", View, JOB),
    ("POST", "/jobs/{namespace}/{name}/backfills/preview", View, JOB),

    ("GET", "/calendars", View, Each),
    ("POST", "/calendars:compare", View, Each),
    ("GET", "/calendars/{namespace}/{name}", View, CALENDAR),
    ("DELETE", "/calendars/{namespace}/{name}", Edit, CALENDAR),

    ("GET", "/capacities", View, Cluster),
    ("GET", "/capacities/{name}", View, Cluster),
    ("POST", "/capacities/{name}/resize", Operate, Cluster),
    ("DELETE", "/capacities/{name}", Edit, Cluster),

    ("GET", "/runs", View, Each),
    ("GET", "/runs/{id}", View, Place::Run),
    ("GET", "/runs/{id}/shards", View, Place::Run),
    ("GET", "/runs/{id}/events", View, Place::Run),
    ("GET", "/runs/{id}/explain", View, Place::Run),
    ("GET", "/runs/{id}/shards/{no}/attempts", View, Place::Run),
    ("GET", "/runs/{id}/shards/{no}/attempts/{attempt}/output", View, Place::Run),
    ("POST", "/runs/{id}/cancel", Operate, Place::Run),
    ("POST", "/runs/{id}/retry", Operate, Place::Run),
    ("POST", "/runs/{id}/discard", Operate, Place::Run),
    ("GET", "/dead-letters", View, Each),

    ("GET", "/backfills/{id}", View, Backfill),
    ("GET", "/backfills/{id}/checks", View, Backfill),
    ("POST", "/backfills/{id}/pause", Operate, Backfill),
    ("POST", "/backfills/{id}/resume", Operate, Backfill),
    ("POST", "/backfills/{id}/cancel", Operate, Backfill),

    ("GET", "/events", View, Each),
    ("GET", "/changes", View, Each),
    ("GET", "/watch", View, Each),
    ("GET", "/export", Operate, Cluster),
    ("GET", "/overview", View, Cluster),
    ("GET", "/alerts", View, Cluster),
    ("GET", "/forecast", View, Cluster),
    ("GET", "/workers", View, Cluster),
    ("GET", "/workers/{session}/shards", View, Cluster),
    ("GET", "/members", View, Cluster),
    ("GET", "/server", View, Cluster),
    ("GET", "/clock", View, Cluster),
    ("POST", "/clock/accept", Administer, Cluster),
    ("GET", "/namespaces", View, Cluster),
    ("GET", "/namespaces/{name}", View, Cluster),
    ("POST", "/namespaces/{name}", Administer, Cluster),
    ("GET", "/restore", Administer, Cluster),
    ("POST", "/restore/begin", Administer, Cluster),
    ("POST", "/restore/decide", Administer, Cluster),

    ("GET", "/login", View, Open),
    ("POST", "/login", View, Open),
    ("GET", "/login/oidc", View, Open),
    ("GET", "/login/oidc/callback", View, Open),
    ("POST", "/logout", View, Nowhere),
    ("GET", "/users", Administer, Each),
    ("POST", "/users", Administer, Each),
    ("POST", "/users/{user}/roles", Administer, Each),
    ("POST", "/users/{user}/password", Administer, Each),
    ("POST", "/users/{user}/disable", Administer, Each),
    ("POST", "/users/{user}/enable", Administer, Each),

    ("GET", "/tokens", Administer, Each),
    ("POST", "/tokens", Administer, Each),
    ("DELETE", "/tokens/{token}", Administer, Each),
];

/// What a described route needs; nobody has what is not said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need(Option<(Action, Place)>);

/// The needs of all described routes, by method and path.
pub(super) type Needs = HashMap<(Method, String), Need>;

/// The needs of the routes that `openapi` describes.
pub(super) fn needs(openapi: &utoipa::openapi::OpenApi) -> Needs {
    let mut needs = Needs::new();
    for (path, item) in &openapi.paths.paths {
        let methods = [
            (Method::GET, item.get.is_some()),
            (Method::PUT, item.put.is_some()),
            (Method::POST, item.post.is_some()),
            (Method::DELETE, item.delete.is_some()),
            (Method::PATCH, item.patch.is_some()),
        ];
        for (method, _) in methods.into_iter().filter(|(_, there)| *there) {
            let short = path.strip_prefix("/api/v1").unwrap_or(path);
            let said = ROUTES.iter().find(|r| r.0 == method && r.1 == short);
            let need = Need(said.map(|r| (r.2, r.3)));
            needs.insert((method, path.clone()), need);
        }
    }
    needs
}

/// The method whose handler answers: that of GET answers HEAD too.
fn answering(method: &Method) -> Method {
    match *method {
        Method::HEAD => Method::GET,
        ref other => other.clone(),
    }
}

/// Whether a request asks for no token.
pub(super) fn is_open(api: &Api, parts: &Parts) -> bool {
    let Some(path) = parts.extensions.get::<MatchedPath>() else {
        return false;
    };
    let route = (answering(&parts.method), path.as_str().to_owned());
    let need = api.0.needs.get(&route);
    need.is_some_and(|need| matches!(need.0, Some((_, Open))))
}

/// Whether `caller` may have a request carried out. What the router has no handler for passes: it
/// answers that itself.
pub(super) async fn judge(api: &Api, caller: &Caller, parts: &mut Parts) -> Result<(), Failed> {
    let Some(path) = parts.extensions.get::<MatchedPath>() else {
        return Ok(());
    };
    let method = answering(&parts.method);
    let Some(need) = api.0.needs.get(&(method, path.as_str().to_owned())) else {
        return Ok(());
    };
    let Need(Some((action, place))) = *need else {
        let message =
            "SC6002: nobody may do this: it is not said which role it needs. Please report it";
        return Err(Failed::new(StatusCode::FORBIDDEN, message));
    };
    if matches!(place, Nowhere | Open) || allowed(caller.grants.role(None), action) {
        return Ok(());
    }
    match place {
        Nowhere | Open => Ok(()),
        Cluster => caller.must(action, None),
        Each if allowed(caller.grants.anywhere(), action) => Ok(()),
        Each => Err(caller.denied(action, "any namespace", "NAMESPACE")),
        Address(what) => {
            let segments = segments(parts).await?;
            let part = |name| segments.get(name).cloned().unwrap_or_default();
            let name = request::job_name((part("namespace"), part("name")))?;
            if !caller.sees(&name.namespace) {
                return Err(Failed::not_found(what, name.to_string()));
            }
            caller.must(action, Some(&name.namespace))
        }
        Place::Run => {
            let segments = segments(parts).await?;
            let run = caller
                .run(api, segments.get("id").map_or("", |id| id))
                .await?;
            caller.must(action, Some(&run.job_name.namespace))
        }
        Backfill => {
            let segments = segments(parts).await?;
            let id = segments.get("id").map_or("", |id| id);
            let namespace = backfill(api, caller, id).await?;
            caller.must(action, Some(&namespace))
        }
    }
}

/// The segments of the address by their names, decoded.
async fn segments(parts: &mut Parts) -> Result<HashMap<String, String>, Failed> {
    let found = RawPathParams::from_request_parts(parts, &()).await;
    let found = found.map_err(|error| Failed::bad(format!("SC5021: the address: {error}")))?;
    let found = found
        .iter()
        .map(|(name, text)| (name.to_owned(), text.to_owned()));
    Ok(found.collect())
}

/// The namespace of a backfill that the caller sees.
async fn backfill(api: &Api, caller: &Caller, text: &str) -> Result<Name, Failed> {
    let missing = || Failed::not_found("backfill", request::shortened(text));
    let bad = |error| Failed::bad(format!("SC5021: the address: {error}"));
    let id: u64 = text.parse().map_err(bad)?;
    if id > i64::MAX.unsigned_abs() {
        return Err(missing());
    }
    let found = api.store().get_backfill(BackfillId(id)).await?;
    let job = found.ok_or_else(missing)?.job;
    let job = api.store().get_job_by_uid(job).await?.ok_or_else(missing)?;
    match caller.sees(&job.name.namespace) {
        true => Ok(job.name.namespace),
        false => Err(missing()),
    }
}

impl Caller {
    /// Whether `namespace` is one that can be seen.
    pub(super) fn sees(&self, namespace: &Name) -> bool {
        allowed(self.grants.role(Some(namespace)), View)
    }

    /// Whether everything can be seen, the cluster too.
    pub(super) fn sees_all(&self) -> bool {
        allowed(self.grants.role(None), View)
    }

    /// Refuses what the caller may not do in `namespace`; `None` is the cluster as a whole.
    pub(super) fn must(&self, action: Action, namespace: Option<&Name>) -> Result<(), Failed> {
        if allowed(self.grants.role(namespace), action) {
            return Ok(());
        }
        Err(match namespace {
            None => self.denied(action, "all namespaces (`*`)", "'*'"),
            Some(name) => self.denied(action, &format!("the namespace {name}"), &name.to_string()),
        })
    }

    /// `option`: how the place is written behind `--namespace`.
    fn denied(&self, action: Action, place: &str, option: &str) -> Failed {
        let (least, held) = (action.least(), &self.grants);
        let way = match self.actor.strip_prefix("user ") {
            Some(user) => {
                format!("(`sichen user roles {user} --role {least} --namespace {option}`)")
            }
            None => format!(
                "with a new token (`sichen token create NAME --role {least} --namespace {option} \
                 --expires 90d`)"
            ),
        };
        let message = format!(
            "SC6002: this needs the role {least} in {place}, and {} has `{held}`; an administrator \
             gives it {way}",
            self.actor
        );
        Failed::new(StatusCode::FORBIDDEN, message)
    }

    /// Whether the caller may give, or take back, what a token is for: no right that he has not.
    pub(super) fn administers(&self, purpose: &Purpose) -> bool {
        let cluster = allowed(self.grants.role(None), Administer);
        match purpose {
            Purpose::Join(_) => cluster,
            Purpose::Api(grants) => {
                let named = match grants.seen() {
                    None => return cluster,
                    Some(namespaces) => namespaces,
                };
                let mut roles = named.map(|name| self.grants.role(Some(name)));
                roles.all(|role| allowed(role, Administer))
            }
        }
    }

    /// The job that `text` shows, if it can be seen.
    pub(super) async fn job(&self, api: &Api, text: &str) -> Result<Job, Failed> {
        let name = request::shown_job(text)?;
        self.seen(&name)?;
        Ok(api.0.control.job(&name).await?)
    }

    fn seen(&self, job: &JobName) -> Result<(), Failed> {
        match self.sees(&job.namespace) {
            true => Ok(()),
            false => Err(Failed::not_found("job", job.to_string())),
        }
    }

    /// The run that `text` names, if it can be seen: one that can't is answered as one that is not
    /// there.
    async fn run(&self, api: &Api, text: &str) -> Result<Run, Failed> {
        let trace = TraceId::parse(text);
        if trace.is_none()
            && let Some((job, _)) = text.split_once(':')
        {
            self.seen(&request::shown_job(job)?)?;
        }
        let id = request::run_id(api, text).await?;
        let found = api.store().get_run(id).await?;
        let found = found.map(|(run, _)| run);
        let found = found.filter(|run| self.sees(&run.job_name.namespace));
        found.ok_or_else(|| match trace {
            Some(_) => Failed::not_found("run with the trace id", request::shortened(text)),
            None => Failed::not_found("run", request::shortened(text)),
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failed> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| Failed::new(StatusCode::UNAUTHORIZED, "SC6001: nobody asks"))
    }
}

/// Rows of a listing by namespace and name, those that the caller sees and that are `wanted`, and the
/// name after which the next page begins. Looks at no more than `most` rows.
pub(super) async fn rows<T, F>(
    caller: &Caller,
    mut page: port::Page<JobName>,
    most: usize,
    name: impl Fn(&T) -> &JobName,
    read: impl Fn(port::Page<JobName>) -> F,
    wanted: impl Fn(&T) -> bool,
) -> Result<(Vec<T>, Option<JobName>), Failed>
where
    F: Future<Output = Result<Vec<T>, Failed>>,
{
    let limit = page.limit as usize;
    page.limit = port::MAX_PAGE;
    let from = page.after.as_ref().map(|after| &after.namespace);
    if !from.is_some_and(|from| caller.sees(from)) && !caller.sees_all() {
        page.after = next_seen(caller, from);
        if page.after.is_none() {
            return Ok((Vec::new(), None));
        }
    }
    let (mut items, mut looked) = (Vec::new(), 0);
    loop {
        let rows = read(page.clone()).await?;
        let mut more = rows.len() == port::MAX_PAGE as usize;
        for row in rows {
            let at = name(&row).clone();
            if !caller.sees(&at.namespace) {
                page.after = next_seen(caller, Some(&at.namespace));
                more = page.after.is_some();
                break;
            }
            looked += 1;
            if wanted(&row) {
                items.push(row);
            }
            if items.len() == limit || looked == most {
                return Ok((items, Some(at)));
            }
            page.after = Some(at);
        }
        if !more {
            return Ok((items, None));
        }
    }
}

/// Before the first namespace after `namespace` that the caller sees, if he does not see all.
fn next_seen(caller: &Caller, namespace: Option<&Name>) -> Option<JobName> {
    let mut seen = caller.grants.seen()?;
    let next = seen.find(|name| namespace.is_none_or(|after| *name > after));
    next.map(|name| JobName::before(name.clone()))
}
