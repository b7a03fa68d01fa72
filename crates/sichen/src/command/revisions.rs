//! `sichen diff`, `revisions`, `rollback`: documents of before and of now.
//!
//! # Not here
//! What a difference is (`sichen_core::document`), applying ([`super::documents`]).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use sichen_core::document::{Difference, Document, differences};
use sichen_core::name::JobName;
use sichen_server::rest::wire::{Applied, CalendarChange, Job, JobRevision};

use super::documents::{applied_line, checked};
use super::next_job::Preview;
use super::{calendars, next};
use crate::client::{Client, Connection};
use crate::failure::{Exit, Failure};
use crate::names;
use crate::output::{self, Output};

/// Show what applying documents would change, field by field. Exit code 1 if anything would.
#[derive(Debug, Args)]
pub struct Diff {
    /// A YAML or JSON file with one or more documents, a directory of such files, or `-`.
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// List the revisions of a job, newest first, with the fields that each changed.
#[derive(Debug, Args)]
pub struct Revisions {
    /// The job, `name` or `namespace/name`, exactly.
    #[arg(value_name = "JOB")]
    pub job: String,
    /// It is a calendar, whose versions are listed.
    #[arg(long)]
    calendar: bool,
    /// Revisions at most, 1 to 100.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub limit: u32,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub output: Output,
}

/// Apply an earlier revision of a job again, as its next revision.
#[derive(Debug, Args)]
pub struct Rollback {
    /// The job, `name` or `namespace/name`, exactly.
    #[arg(value_name = "JOB")]
    job: String,
    /// The revision to go back to.
    #[arg(long, value_name = "NUMBER")]
    revision: u32,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// How one document differs from what is stored.
#[derive(Debug, Serialize)]
pub struct Compared {
    pub namespace: String,
    pub name: String,
    /// The revision in force, of a calendar the version; absent for what there is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<u32>,
    pub differences: Vec<Field>,
    /// `job`, or `calendar`.
    pub kind: &'static str,
    /// Of a calendar: what it would do to the coming times of jobs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<CalendarChange>,
    /// Of a job that is there and would change: what becomes of its times and runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit: Option<Edit>,
}

/// What an apply would do to a job that is there.
#[derive(Debug, Serialize)]
pub struct Edit {
    pub paused: bool,
    /// Its next planned time as it is.
    pub next_at: Option<String>,
    /// The one that it would have.
    pub next_then: Option<String>,
    /// Its runs that go on with the revisions that they began with.
    pub open_runs: u32,
}

impl Edit {
    /// `None` if the coming times can't be told: of a calendar that is not there yet, or made by the ends
    /// of runs.
    async fn of(client: &Client, job: &Job, document: &Document) -> Option<Edit> {
        let calendars = calendars::of(client, document).await.ok()?;
        let name = document.job_name().ok()?;
        let then = Preview::new(name, job.paused, &job.uid, document.clone(), &calendars).ok()?;
        if then.has_followers() {
            return None;
        }
        Some(Edit {
            paused: job.paused,
            next_at: job.next_at.clone(),
            next_then: then.next(next::now()).map(|at| then.shown(at)),
            open_runs: job.active_runs,
        })
    }

    fn lines(&self) -> String {
        let word = |at: &Option<String>| at.clone().unwrap_or_else(|| "none".to_owned());
        let mut text = match self.paused {
            true => "  it stays paused\n".to_owned(),
            false => {
                let (now, then) = (word(&self.next_at), word(&self.next_then));
                format!("  its next planned time: {now} -> {then}\n")
            }
        };
        if self.open_runs > 0 {
            let runs = output::count(self.open_runs.into(), "open run");
            text.push_str(&format!("  {runs} would go on as begun\n"));
        }
        text
    }
}

#[derive(Debug, Serialize)]
pub struct Field {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<Value>,
}

impl From<Difference> for Field {
    fn from(d: Difference) -> Self {
        let Difference { path, old, new } = d;
        Self { path, old, new }
    }
}

impl Compared {
    /// Whether an apply would change anything.
    pub fn differs(&self) -> bool {
        self.revision.is_none() || !self.differences.is_empty()
    }

    /// The job and, a line each, what would change; `past`: words of the heading.
    pub fn text(&self) -> String {
        let name = names::shown(&self.namespace, &self.name);
        let what = format!("{} {name}", self.kind);
        let Some(revision) = self.revision else {
            return format!("{what} is new\n");
        };
        let number = if self.kind == "job" {
            "revision"
        } else {
            "version"
        };
        if self.differences.is_empty() {
            return format!("{what} is the same ({number} {revision})\n");
        }
        let mut text = format!("{what} differs from {number} {revision}\n");
        for field in &self.differences {
            text.push_str(&format!("  {}\n", field.line()));
        }
        text.extend(self.changes.iter().map(calendars::change_lines));
        text.extend(self.edit.iter().map(Edit::lines));
        text
    }
}

impl Field {
    pub fn line(&self) -> String {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => format!("~ {}: {old} -> {new}", self.path),
            (None, Some(new)) => format!("+ {}: {new}", self.path),
            (Some(old), None) => format!("- {}: {old}", self.path),
            (None, None) => self.path.clone(),
        }
    }
}

/// Compares documents with the revisions in force.
pub async fn compare(client: &Client, documents: Vec<Document>) -> Result<Vec<Compared>, Failure> {
    let mut compared = Vec::with_capacity(documents.len());
    for document in documents {
        let (namespace, name) = (
            document.metadata.namespace.clone(),
            document.metadata.name.clone(),
        );
        let stored: Result<Job, Failure> =
            client.get(&["jobs", &namespace, &name], Vec::new()).await;
        let (revision, differences, edit) = match stored {
            Ok(job) => {
                let old = read(job.document.clone().unwrap_or_default())?;
                // Which version of a calendar a job goes by is Sichen's to say.
                let found = differences(&old.unpinned(), &document.unpinned());
                let edit = match found.is_empty() {
                    true => None,
                    false => Edit::of(client, &job, &document).await,
                };
                let found = found.into_iter().map(Field::from).collect();
                (Some(job.revision), found, edit)
            }
            Err(failure) if failure.exit == Exit::NotFound => (None, Vec::new(), None),
            Err(failure) => return Err(failure),
        };
        compared.push(Compared {
            namespace,
            name,
            revision,
            differences,
            kind: "job",
            changes: Vec::new(),
            edit,
        });
    }
    Ok(compared)
}

/// A document as the server keeps it.
fn read(stored: Value) -> Result<Document, Failure> {
    serde_json::from_value(stored).map_err(|error| {
        let text = format!("SC7004: the stored document was not understood: {error}");
        Failure::new(Exit::Failed, text)
    })
}

/// One revision of a job.
pub async fn revision(
    client: &Client,
    name: &JobName,
    revision: u32,
) -> Result<JobRevision, Failure> {
    let number = revision.to_string();
    let (namespace, job) = (name.namespace.as_str(), name.name.as_str());
    let path = ["jobs", namespace, job, "revisions", number.as_str()];
    match client.get(&path, Vec::new()).await {
        Ok(found) => Ok(found),
        Err(failure) => Err(client.with_candidates(failure, name).await),
    }
}

/// Carries out `sichen diff`.
pub async fn diff(args: Diff) -> Result<ExitCode, Failure> {
    let (sources, documents) = checked(&args.files)?;
    let client = Client::new(&args.connection)?;
    let compared = calendars::preview(&client, &sources, documents).await?;
    args.output
        .show(&compared, |all| all.iter().map(Compared::text).collect())?;
    let differs = compared.iter().any(Compared::differs);
    Ok(if differs {
        Exit::Failed.into()
    } else {
        ExitCode::SUCCESS
    })
}

#[derive(Debug, Serialize)]
pub struct Listed {
    pub revision: u32,
    pub current: bool,
    pub changes: Vec<Field>,
}

/// Revisions, a row each.
pub fn table(head: &str, listed: &[Listed]) -> String {
    let rows = listed.iter().map(|r| {
        let mark = if r.current { " (in force)" } else { "" };
        let changes: Vec<String> = r.changes.iter().map(Field::line).collect();
        let changes = if r.revision == 1 {
            "created".to_owned()
        } else {
            changes.join("\n")
        };
        [format!("{}{mark}", r.revision), changes]
    });
    output::table([head, "CHANGES"], rows)
}

/// Carries out `sichen revisions`.
pub async fn list(args: Revisions) -> Result<ExitCode, Failure> {
    if args.calendar {
        return calendars::versions(&args).await;
    }
    let name = names::job(&args.job)?;
    let client = Client::new(&args.connection)?;
    let path = ["jobs", name.namespace.as_str(), name.name.as_str()];
    let job: Job = match client.get(&path, Vec::new()).await {
        Ok(job) => job,
        Err(failure) => return Err(client.with_candidates(failure, &name).await),
    };
    let mut listed: Vec<Listed> = Vec::new();
    let mut newer: Option<(u32, Document)> = None;
    let last = job.revision.saturating_sub(args.limit);
    for number in (last..=job.revision).rev().filter(|n| *n > 0) {
        let document = read(revision(&client, &name, number).await?.document)?;
        if let Some((number, newer)) = newer.take() {
            listed.push(Listed {
                revision: number,
                current: number == job.revision,
                changes: differences(&document, &newer)
                    .into_iter()
                    .map(Field::from)
                    .collect(),
            });
        }
        newer = Some((number, document));
    }
    if let Some((1, _)) = newer {
        listed.push(Listed {
            revision: 1,
            current: job.revision == 1,
            changes: Vec::new(),
        });
    }
    args.output
        .show(&listed, |listed| table("REVISION", listed))?;
    Ok(ExitCode::SUCCESS)
}

/// Carries out `sichen rollback`.
pub async fn rollback(args: Rollback) -> Result<ExitCode, Failure> {
    let name = names::job(&args.job)?;
    let client = Client::new(&args.connection)?;
    let old = revision(&client, &name, args.revision).await?;
    let text = old.document.to_string();
    let applied: Applied = client.post_documents(&["jobs:apply"], text).await?;
    args.output.show(&applied, |applied| {
        applied
            .documents
            .iter()
            .map(applied_line)
            .collect::<String>()
    })?;
    Ok(ExitCode::SUCCESS)
}
