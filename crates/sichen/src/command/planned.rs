//! What a job's schedules do next, and what became of a planned time that has no run.
//!
//! # Invariants
//! - It tells what the server has recorded, and works out no planned time of its own.
//!
//! # Not here
//! Which run is meant ([`super::which`]); all planned times of a job (`sichen next`, `sichen audit`).

use jiff::Timestamp;
use sichen_core::model;
use sichen_core::name::JobName;
use sichen_server::rest::wire::{Decision, DecisionPage, Job, Namespace};

use crate::client::{Client, Query};
use crate::failure::{Exit, Failure};
use crate::names;
use crate::output;

/// The most pages of records that are read to find the last ones.
const MAX_PAGES: usize = 50;

/// A job by its exact name.
pub async fn job(client: &Client, name: &JobName) -> Result<Job, Failure> {
    let path = ["jobs", name.namespace.as_str(), name.name.as_str()];
    match client.get(&path, Query::new()).await {
        Ok(job) => Ok(job),
        Err(failure) => Err(client.with_candidates(failure, name).await),
    }
}

/// The last records of planned times that were not run, oldest first, `most` at the most.
pub async fn last_skipped(
    client: &Client,
    name: &JobName,
    most: usize,
) -> Result<Vec<Decision>, Failure> {
    let mut from = None;
    let mut last: Vec<Decision> = Vec::new();
    for _ in 0..MAX_PAGES {
        let page = page(client, name, 1_000, from.take()).await?;
        last.extend(page.items);
        last.drain(..last.len().saturating_sub(most));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    Ok(last)
}

async fn page(
    client: &Client,
    name: &JobName,
    limit: u32,
    from: Option<String>,
) -> Result<DecisionPage, Failure> {
    let path = [
        "jobs",
        name.namespace.as_str(),
        name.name.as_str(),
        "decisions",
    ];
    let mut query = vec![("limit", limit.to_string())];
    query.extend(from.map(|from| ("from", from)));
    client.get(&path, query).await
}

/// What a job's schedules do next, in a clause.
pub fn prospect(job: &Job) -> String {
    let name = names::shown(&job.namespace, &job.name);
    match &job.next_at {
        _ if job.paused => {
            format!("it is paused: no planned time starts a run until `sichen resume {name}`")
        }
        Some(at) => format!("it runs next at {}", output::instant(at, 0)),
        None => format!("it has no planned time ahead: `sichen run {name}` starts it"),
    }
}

/// The same, and since when a pause has left something out.
pub async fn prospect_since(client: &Client, name: &JobName, job: &Job) -> String {
    let mut text = prospect(job);
    if !job.paused {
        if let Some(full) = crowded(client, &job.namespace).await {
            text.push_str(&full);
        }
        return text;
    }
    let last = last_skipped(client, name, 1).await.unwrap_or_default();
    let last = last.into_iter().next_back();
    if let Some(last) = last.filter(|last| last.reason == "paused") {
        let times = output::count(last.count, "planned time");
        let (from, to) = (output::instant(&last.from, 0), output::instant(&last.to, 0));
        text.push_str(&match last.count {
            1 => format!("; left out so far: {from}"),
            _ => format!("; left out so far: {times}, {from} to {to}"),
        });
    }
    text
}

/// That planned times wait as the namespace may queue no more runs, if it is so and may be seen.
async fn crowded(client: &Client, namespace: &str) -> Option<String> {
    let path = ["namespaces", namespace];
    let namespace: Namespace = client.get(&path, Query::new()).await.ok()?;
    let (most, queued) = (namespace.max_queued?, namespace.queued?);
    (queued >= most).then(|| {
        format!(
            "; {queued} runs of namespace {} are queued, and {most} may be: planned times wait until fewer are",
            namespace.name
        )
    })
}

/// A planned time without a run, and the record of why.
#[derive(Debug)]
pub struct Skipped {
    /// The job.
    pub job: JobName,
    /// The time, as it was asked for.
    pub at: String,
    /// The record that has it.
    pub decision: Decision,
}

impl Skipped {
    /// Whether the record stands for a run whose history was removed.
    fn has_run(&self) -> bool {
        self.decision.reason == model::Decision::REMOVED
    }

    /// What may be done about it, as a line of its own; empty if nothing.
    pub fn hint(&self) -> String {
        match self.has_run() {
            true => String::new(),
            false => format!(
                "\n  `sichen run {} --planned {}` runs it all the same",
                self.job, self.at
            ),
        }
    }

    /// What was decided, and by which rule.
    pub fn text(&self) -> String {
        let d = &self.decision;
        if self.has_run() {
            return format!(
                "the planned time {} of {} has run ({}), and the history of its run was removed by age",
                self.at, self.job, d.reference
            );
        }
        let mut text = format!(
            "the planned time {} of {} was not run ({}): {}",
            self.at,
            self.job,
            d.reason,
            because(d)
        );
        if d.count > 1 {
            text.push_str(&format!(
                "; the record has {}, {} to {}",
                output::count(d.count, "planned time"),
                output::instant(&d.from, 0),
                output::instant(&d.to, 0)
            ));
        }
        if let Some(run) = d.filled_by {
            let times = output::count(d.filled, "of them has its run since");
            let times = match d.filled {
                1 => times,
                n => format!("{} of them have their runs since", output::grouped(n)),
            };
            text.push_str(&format!("; {times}, the last is run {run}"));
        }
        text
    }
}

/// The reason of a record in words.
fn because(d: &Decision) -> String {
    let refers = |text: &str| match d.reference.as_str() {
        "" => text.to_owned(),
        reference => format!("{text}: {reference}"),
    };
    match d.reason.as_str() {
        "overlap" => refers("a run before it had not ended, and the job's `overlap` skips then"),
        "paused" => "the job was paused".to_owned(),
        "deadline" => "it could not be started within `catchUp.startingDeadline`".to_owned(),
        "catch_up" => "it was missed, and the job's `catchUp.policy` leaves it out".to_owned(),
        "coalesced" => refers("one run stands for it and others that were missed"),
        "deleted" => "the job was deleted before it was decided".to_owned(),
        "gap" => {
            "a clock change left that local time out, and the schedule says `gap: skip`".to_owned()
        }
        _ => refers("as the word says"),
    }
}

/// Why there is no run of the key `text`, whose run was not found with `failure`.
///
/// # Errors
/// It is no key of a planned time, or none has a record: the failure, with what is known of it.
pub async fn skipped(client: &Client, text: &str, failure: Failure) -> Result<Skipped, Failure> {
    if failure.exit != Exit::NotFound {
        return Err(failure);
    }
    let Some((job_text, occasion)) = text.split_once(':') else {
        return Err(failure);
    };
    let name = names::job(job_text)?;
    let of_job = job(client, &name).await?;
    let hint = format!("`sichen runs {name}` lists its runs");
    let Ok(at) = occasion.parse::<Timestamp>() else {
        return Err(with(failure, &hint));
    };
    let found = page(client, &name, 1, Some(at.to_string())).await?;
    let found = found.items.into_iter().next();
    let has = |d: &Decision| {
        let (from, to) = (d.from.parse::<Timestamp>(), d.to.parse::<Timestamp>());
        from.is_ok_and(|from| from <= at) && to.is_ok_and(|to| at <= to)
    };
    if let Some(decision) = found.filter(has) {
        let at = occasion.to_owned();
        return Ok(Skipped {
            job: name,
            at,
            decision,
        });
    }
    let created = of_job.created_at.parse::<Timestamp>();
    let decided = of_job.decided_until.parse::<Timestamp>();
    let why = if created.is_ok_and(|created| at < created) {
        let created = output::instant(&of_job.created_at, 0);
        format!(
            "the job is younger: it was made at {created}; `sichen backfill start {name}` runs times before that"
        )
    } else if decided.is_ok_and(|decided| at > decided) {
        let decided = output::instant(&of_job.decided_until, 0);
        format!(
            "its planned times are decided up to {decided}, this one is later; {}",
            prospect(&of_job)
        )
    } else {
        format!(
            "it was no planned time then, as far as is recorded; {hint}, `sichen next {name}` its coming times"
        )
    };
    Err(with(failure, &why))
}

fn with(failure: Failure, more: &str) -> Failure {
    Failure::new(failure.exit, format!("{}\n  {more}", failure.text))
}

#[cfg(test)]
#[path = "planned_tests.rs"]
mod tests;
