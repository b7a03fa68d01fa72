//! Which run is meant: by number, key or trace id, or a job for its newest run.
//!
//! # Invariants
//! - A job's name stands for a run only where something is read. What changes a run wants the run.
//! - Where there is no run, what is known in its place is said: why a planned time was not run, when a
//!   job runs next.
//!
//! # Not here
//! Reading numbers, keys and trace ids (the server); records of planned times ([`super::planned`]).

use sichen_core::name::JobName;
use sichen_core::trace::TraceId;
use sichen_server::rest::wire::{Job, Run, RunPage};

use super::planned::{self, Skipped};
use crate::client::{Client, Query};
use crate::failure::{Exit, Failure};
use crate::names;
use crate::output;

/// What a text names.
#[derive(Debug)]
pub enum Named {
    /// A run, in words that the server takes.
    Run(String),
    /// A job, by its newest run.
    Newest(JobName, Box<Run>),
    /// A job that has no run yet.
    Idle(Box<Job>),
    /// A planned time that was not run.
    Skipped(Skipped),
}

/// The run that `text` names, in words that the server takes. The newest run of a job is remarked.
pub async fn run(client: &Client, text: &str) -> Result<String, Failure> {
    let missing = |text: String| Err(Failure::new(Exit::NotFound, text));
    match named(client, text).await? {
        Named::Run(run) => Ok(run),
        Named::Newest(name, run) => {
            remark_newest(&name, &run);
            Ok(run.id.to_string())
        }
        Named::Idle(job) => {
            let name = names::shown(&job.namespace, &job.name);
            let next = planned::prospect(&job);
            missing(format!(
                "SC5001: job {name} has no run yet; {next}\n  `sichen explain {name}` says more"
            ))
        }
        Named::Skipped(skipped) => missing(format!(
            "SC5001: there is no run {text}: {}{}",
            skipped.text(),
            skipped.hint()
        )),
    }
}

/// Says which run stands for its job.
pub fn remark_newest(name: &JobName, run: &Run) {
    output::remark(&format!(
        "the newest run of {name}: {} ({})",
        run.id, run.key
    ));
}

/// What `text` names, where something is read.
pub async fn named(client: &Client, text: &str) -> Result<Named, Failure> {
    let number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if number || TraceId::parse(text).is_some() {
        return Ok(Named::Run(text.to_owned()));
    }
    if text.contains(':') {
        return match client.get::<Run>(&["runs", text], Query::new()).await {
            Ok(run) => Ok(Named::Run(run.id.to_string())),
            Err(failure) => planned::skipped(client, text, failure)
                .await
                .map(Named::Skipped),
        };
    }
    // What can be no job's name is refused by the server, with what a run looks like.
    let Ok(name) = names::job(text) else {
        return Ok(Named::Run(text.to_owned()));
    };
    match newest(client, &name, None).await? {
        Some(run) => Ok(Named::Newest(name, Box::new(run))),
        None => {
            let job = planned::job(client, &name).await?;
            Ok(Named::Idle(Box::new(job)))
        }
    }
}

/// A job's newest run, in that state alone if one is named.
async fn newest(
    client: &Client,
    name: &JobName,
    state: Option<&str>,
) -> Result<Option<Run>, Failure> {
    let mut query = vec![("job", name.to_string()), ("limit", "1".to_owned())];
    query.extend(state.map(|state| ("state", state.to_owned())));
    match client.get::<RunPage>(&["runs"], query).await {
        Ok(page) => Ok(page.items.into_iter().next()),
        Err(failure) => Err(client.with_candidates(failure, name).await),
    }
}

/// Adds to the refusal of a `verb`, which wants a run and got `text`, the run of that job that may
/// have been meant: the newest in one of `states`.
pub async fn with_run(
    client: &Client,
    failure: Failure,
    verb: &str,
    text: &str,
    states: &[&str],
) -> Failure {
    let Ok(name) = names::job(text) else {
        return failure;
    };
    let number = text.bytes().all(|b| b.is_ascii_digit());
    if failure.exit != Exit::Usage || number || TraceId::parse(text).is_some() {
        return failure;
    }
    let mut found: Option<Run> = None;
    for state in states {
        match newest(client, &name, Some(state)).await {
            Ok(Some(run)) if found.as_ref().is_none_or(|f| f.id < run.id) => found = Some(run),
            Ok(_) => {}
            // No such job: what the server has said of the text is all.
            Err(_) => return failure,
        }
    }
    let text = match found {
        Some(run) => format!(
            "SC5021: {name} is a job, and `{verb}` wants one of its runs\n  its newest that is {}: \
             {} ({}): `sichen {verb} {}`",
            run.state, run.id, run.key, run.id
        ),
        None => format!(
            "SC5021: {name} is a job, and `{verb}` wants one of its runs; none is {}\n  `sichen \
             runs {name}` lists them",
            states.join(" or ")
        ),
    };
    Failure::new(failure.exit, text)
}
