//! Dead letters: the failed shards of runs that ended `failed` or `partial`.
//!
//! # Invariants
//! - Runs are found on the index by state, shards by their run; what one request looks at has a
//!   limit, however few of it pass. A page cut short by that has a `next`.
//!
//! - One that was discarded is not in the list; its shard and its run stay as they are.
//!
//! # Not here
//! Their retry (`runs::retry`): they are no rows of their own, and leave this list when their run is
//! reopened.

use std::collections::VecDeque;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::Deserialize;
use sichen_core::ids::{JobUid, RunId};
use sichen_core::lifecycle::{RunState, ShardState};
use sichen_core::model::Run;
use sichen_core::port::{self, Discard, MAX_PAGE, Page, RunFilter, Store};
use utoipa::IntoParams;

use super::access::Caller;
use super::answer::{Answer, Failed};
use super::request::{self, Paging, Params, Segments};
use super::{Api, convert, runs, wire};

/// Runs that one request for dead letters looks at; the page ends there, and the next goes on.
const MAX_RUNS_LOOKED_AT: usize = 1_000;
/// Shards that one request for dead letters looks at, give or take a page of the store's; the page
/// ends there, and the next goes on.
const MAX_SHARDS_LOOKED_AT: usize = 20_000;
/// Runs of one state that are read at once.
const RUNS_AT_ONCE: u32 = 50;

/// Which dead letters are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Of this job alone: `name`, or `namespace/name`.
    job: Option<String>,
    /// Whose last failure has this code alone.
    code: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    /// Rows of a page, 1 to 1,000; 100 if left out.
    limit: Option<u32>,
}

/// The failed shards of failed and partial runs, newest run first.
#[utoipa::path(
    get,
    path = "/dead-letters",
    tag = "dead-letters",
    params(Wanted),
    responses(
        (status = 200, body = wire::DeadLetterPage),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Params(wanted): Params<Wanted>,
) -> Answer<wire::DeadLetterPage> {
    let job = match &wanted.job {
        Some(job) => Some(caller.job(&api, job).await?.uid),
        None => None,
    };
    let paging = Paging {
        after: wanted.after,
        limit: wanted.limit,
    };
    let page = paging.page(Place::read)?;
    let mut found = Found {
        items: Vec::new(),
        limit: page.limit as usize,
        code: wanted.code,
        looked_at: 0,
    };
    let mut runs = Newest::from(job, page.after.map(|place| place.run));
    let mut next = None;
    for _ in 0..MAX_RUNS_LOOKED_AT {
        let Some(run) = runs.next(api.store()).await? else {
            next = None;
            break;
        };
        let within = page.after.filter(|place| place.run == run.id);
        next = Some(Place {
            run: run.id,
            no: Place::END,
        });
        if !caller.sees(&run.job_name.namespace) {
            continue;
        }
        let stopped = found.take(&api, &run, within.map(|place| place.no)).await?;
        next = Some(Place {
            run: run.id,
            no: stopped.unwrap_or(Place::END),
        });
        if stopped.is_some() || found.looked_at >= MAX_SHARDS_LOOKED_AT {
            break;
        }
    }
    Ok(Json(wire::DeadLetterPage {
        items: found.items,
        next: next.map(Place::text),
    }))
}

/// Strikes the dead letters of a run, or only some of them, off the list. Nothing else changes; a
/// retry that names them brings them back.
#[utoipa::path(
    post,
    path = "/runs/{id}/discard",
    tag = "runs",
    params(("id" = String, Path, description = "Number, key, or trace id")),
    request_body = wire::DiscardRun,
    responses(
        (status = 200, body = wire::Run),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn discard(
    State(api): State<Api>,
    caller: Caller,
    Segments(id): Segments<String>,
    body: Bytes,
) -> Answer<wire::Run> {
    let body: wire::DiscardRun = request::json(&body)?;
    let id = request::run_id(&api, &id).await?;
    let only = request::shards(id, body.shards)?;
    let why = Discard {
        by: body.by,
        reason: body.reason,
    };
    if let Some(control) = caller.step(&api, 0) {
        control.discard(&caller.actor, id, only, why).await?;
    }
    Ok(Json(runs::run(&api, id).await?))
}

/// A place in the list: after a shard of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    run: RunId,
    no: i32,
}

impl Place {
    /// After all shards of the run.
    const END: i32 = i32::MAX;

    fn read(text: &str) -> Option<Self> {
        let (run, no) = text.split_once('.')?;
        let run: u64 = run.parse().ok()?;
        // Below the greatest number that the stores know, so that there is one after it.
        (run < i64::MAX.unsigned_abs()).then_some(())?;
        Some(Self {
            run: RunId(run),
            no: no.parse().ok()?,
        })
    }

    fn text(self) -> String {
        format!("{}.{}", self.run.0, self.no)
    }
}

/// Failed and partial runs, newest first, read as they are needed.
struct Newest {
    states: [Waiting; 2],
}

/// Runs of one state that were read and not yet taken.
struct Waiting {
    filter: RunFilter,
    before: Option<RunId>,
    runs: VecDeque<Run>,
    over: bool,
}

impl Newest {
    /// From the run `from` on, itself too.
    fn from(job: Option<JobUid>, from: Option<RunId>) -> Self {
        let waiting = |state| Waiting {
            filter: RunFilter {
                job,
                state: Some(state),
                ..RunFilter::default()
            },
            before: from.map(|run| RunId(run.0 + 1)),
            runs: VecDeque::new(),
            over: false,
        };
        Self {
            states: [waiting(RunState::Failed), waiting(RunState::Partial)],
        }
    }

    async fn next(&mut self, store: &dyn Store) -> Result<Option<Run>, port::Error> {
        for waiting in &mut self.states {
            waiting.fill(store).await?;
        }
        let head = |waiting: &Waiting| waiting.runs.front().map(|run| run.id);
        let [failed, partial] = &mut self.states;
        let newer = if head(failed) > head(partial) {
            failed
        } else {
            partial
        };
        let run = newer.runs.pop_front();
        if let Some(run) = &run {
            // A run that was retried between two reads may be in both; it is shown once.
            for waiting in &mut self.states {
                waiting.runs.retain(|other| other.id < run.id);
            }
        }
        Ok(run)
    }
}

impl Waiting {
    async fn fill(&mut self, store: &dyn Store) -> Result<(), port::Error> {
        if self.over || !self.runs.is_empty() {
            return Ok(());
        }
        let page = Page {
            after: self.before,
            limit: RUNS_AT_ONCE,
        };
        let runs = store.list_runs(self.filter.clone(), page).await?;
        self.over = runs.len() < RUNS_AT_ONCE as usize;
        self.before = runs.last().map(|run| run.id).or(self.before);
        self.runs = runs.into();
        Ok(())
    }
}

/// What a request has found.
struct Found {
    items: Vec<wire::DeadLetter>,
    limit: usize,
    code: Option<String>,
    looked_at: usize,
}

impl Found {
    /// Takes the dead letters of a run after the shard `after`. The shard after which the next page
    /// goes on, if not the whole run was looked at.
    async fn take(
        &mut self,
        api: &Api,
        run: &Run,
        mut after: Option<i32>,
    ) -> Result<Option<i32>, Failed> {
        if run.counters.failed == 0 || after == Some(Place::END) {
            return Ok(None);
        }
        let time_zone = api.time_zone(run.job, run.revision).await?;
        let shown = convert::run(run, &time_zone, None);
        // From its beginning, the run's own count says when all are seen.
        let mut unseen = after.is_none().then_some(run.counters.failed);
        loop {
            let page = Page {
                after,
                limit: MAX_PAGE,
            };
            let shards = api.store().list_shards(run.id, page).await?;
            self.looked_at += shards.len();
            for shard in &shards {
                after = Some(shard.key.no.0);
                if shard.state != ShardState::Failed {
                    continue;
                }
                unseen = unseen.map(|count| count.saturating_sub(1));
                if shard.discarded_at.is_some() {
                    continue;
                }
                if !self.wants(shard.failure.as_ref().map_or("", |f| f.code.as_str())) {
                    continue;
                }
                self.items.push(letter(&shown, convert::shard(shard)));
                if self.items.len() >= self.limit {
                    return Ok(after);
                }
            }
            if unseen == Some(0) || shards.len() < MAX_PAGE as usize {
                return Ok(None);
            }
            if self.looked_at >= MAX_SHARDS_LOOKED_AT {
                return Ok(after);
            }
        }
    }

    fn wants(&self, code: &str) -> bool {
        self.code.as_ref().is_none_or(|wanted| wanted == code)
    }
}

fn letter(run: &wire::Run, shard: wire::Shard) -> wire::DeadLetter {
    wire::DeadLetter {
        run: run.id,
        key: run.key.clone(),
        namespace: run.namespace.clone(),
        job: run.job.clone(),
        run_state: run.state.clone(),
        run_failed: run.shards.failed,
        run_cancelled: run.shards.cancelled,
        shard,
    }
}
