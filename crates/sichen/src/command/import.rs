//! `sichen import`: jobs of other schedulers as job documents.
//!
//! # Invariants
//! - What can't be taken over is refused or remarked upon, by line and field; nothing is guessed in
//!   silence.
//! - Every imported job is held to the rules of `sichen apply` before it is shown.
//!
//! # Not here
//! The sources themselves (`crontab`, `kubernetes`, `calendar`).

mod calendar;
mod container;
pub(crate) mod crontab;
mod failures;
pub(crate) mod icalendar;
pub(crate) mod kubernetes;
mod source;

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sichen_core::document::Document;
use sichen_core::schedule::zone_by_name;
use sichen_server::document;
use sichen_server::rest::Source;
use sichen_server::rest::wire::{
    Applied, AppliedDocument, Change, ImportRemark, Imported as ReadJobs, ImportedJob, Job,
};

use crate::client::{Client, Connection};
use crate::command::documents::applied_line;
use crate::command::offers;
use crate::failure::{Exit, Failure};
use crate::output::{self, Form, Output};
pub use calendar::of_file as calendar_of;
use source::{Import, Imported, Level};

/// Times compared with the source's where nothing else is asked for.
const PROVED: usize = 100;
/// So many lines that are no entries, and not one that is, make no crontab.
const MANY_LINES: usize = 5;
/// The most times compared for one job.
const MAX_PROVED: u32 = 10_000;

/// Turn the jobs of another scheduler into job documents.
///
/// The documents go to the standard output, remarks to the error output: `refused` (not imported),
/// `warning` (imported, with a difference), `note`. Every job's next times are compared with those
/// of its source, worked out by a second evaluator under the source's own rules.
#[derive(Debug, Subcommand)]
pub enum ImportFrom {
    /// A crontab: of a user, or with --system of a machine.
    #[command(alias = "cron")]
    Crontab(Crontab),
    /// Kubernetes manifests: CronJobs, alone or in lists; other kinds are named and passed over.
    #[command(alias = "k8s", alias = "cronjob")]
    Kubernetes(Kubernetes),
    /// A calendar, from an iCalendar file (all-day events), or from a list of dates in YAML or JSON.
    Calendar(calendar::Calendar),
}

/// Manifests.
#[derive(Debug, Args)]
pub struct Kubernetes {
    /// YAML or JSON files with one or more documents; `-` reads the standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    target: Target,
}

/// A crontab.
#[derive(Debug, Args)]
pub struct Crontab {
    /// The table; `-` reads the standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Each entry has a user before its command, as in /etc/crontab and /etc/cron.d.
    #[arg(long)]
    system: bool,
    #[command(flatten)]
    target: Target,
}

/// What to do with the jobs.
#[derive(Debug, Args)]
struct Target {
    /// The zone of the machine that the source comes from, where the source says none.
    #[arg(long, value_name = "ZONE", value_parser = zone)]
    tz: Option<String>,
    /// The namespace of the jobs.
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// The pool whose workers run them.
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Compare so many next times of each job with its source; 0 compares none [default: 100].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_PROVED)))]
    diff_next: Option<u32>,
    /// Compare times after this instant [default: now].
    #[arg(long, value_name = "TIME")]
    after: Option<Timestamp>,
    /// Apply the jobs to a server. If any is refused, none is applied.
    #[arg(long)]
    apply: bool,
    /// Apply the others although some are refused.
    #[arg(long, requires = "apply")]
    skip_refused: bool,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

fn zone(name: &str) -> Result<String, String> {
    zone_by_name(name).map_err(|e| e.to_string())?;
    Ok(name.to_owned())
}

/// The answer for programs.
#[derive(Debug, Serialize)]
struct View {
    documents: Vec<Value>,
    remarks: Vec<RemarkView>,
    /// Times compared with the source's, by job.
    proved: Vec<Proved>,
}

#[derive(Debug, Serialize)]
struct RemarkView {
    file: String,
    line: u64,
    level: &'static str,
    field: String,
    message: String,
}

#[derive(Debug, Serialize)]
struct Proved {
    job: String,
    times: usize,
}

/// Carries out `sichen import`.
pub async fn run(from: ImportFrom) -> Result<ExitCode, Failure> {
    match from {
        ImportFrom::Crontab(args) => {
            let bytes = read(&args.file, crontab::MAX_CRONTAB_BYTES)?;
            let options = crontab::Options {
                system: args.system,
                time_zone: args.target.tz.clone(),
                namespace: args.target.namespace.clone(),
                pool: args.target.pool.clone(),
            };
            let import = crontab::read(&bytes, &options);
            if let Some(failure) = no_crontab(&args.file, &bytes, &import) {
                return Err(failure);
            }
            finish(vec![(shown(&args.file), import)], &args.target).await
        }
        ImportFrom::Kubernetes(args) => {
            let options = kubernetes::Options {
                time_zone: args.target.tz.clone(),
                namespace: args.target.namespace.clone(),
                pool: args.target.pool.clone(),
            };
            let mut sources = Vec::new();
            for path in &args.files {
                let bytes = read(path, document::MAX_TEXT_BYTES)?;
                let text = String::from_utf8(bytes).map_err(|error| {
                    let error = error.utf8_error();
                    Failure::usage(format!("SC7005: {} is not UTF-8: {error}", shown(path)))
                })?;
                sources.push((shown(path), kubernetes::read(&text, &options)));
            }
            finish(sources, &args.target).await
        }
        ImportFrom::Calendar(args) => calendar::run(&args).await,
    }
}

/// Reads a source for the console, whose user looks at all of it before anything is applied.
pub fn of_text(source: &Source) -> Result<ReadJobs, String> {
    if let Some(name) = &source.time_zone {
        zone(name)?;
    }
    let (time_zone, namespace) = (source.time_zone.clone(), source.namespace.clone());
    let pool = source.pool.clone();
    let import = match source.kind.as_str() {
        kind @ ("crontab" | "system-crontab") => {
            let options = crontab::Options {
                system: kind == "system-crontab",
                time_zone,
                namespace,
                pool,
            };
            crontab::read(source.text.as_bytes(), &options)
        }
        "kubernetes" => {
            let options = kubernetes::Options {
                time_zone,
                namespace,
                pool,
            };
            kubernetes::read(&source.text, &options)
        }
        other => {
            return Err(format!(
                "SC5021: from={other:?} is none of crontab, system-crontab, kubernetes"
            ));
        }
    };
    read_jobs(import).map_err(|failure| failure.text)
}

fn read_jobs(mut import: Import) -> Result<ReadJobs, Failure> {
    import.keep_valid();
    let sources = [("the pasted text".to_owned(), import)];
    let proved = prove(&sources, now(), PROVED)?;
    let text = yaml(&sources)?;
    let [(_, import)] = sources;
    let jobs = import.jobs.into_iter().zip(&proved).map(|(job, proved)| {
        let namespace = job.document["metadata"]["namespace"].as_str();
        ImportedJob {
            namespace: namespace.unwrap_or("default").to_owned(),
            name: job.name().to_owned(),
            line: job.line,
            paused: job.paused,
            proved: u32::try_from(proved.times).unwrap_or(u32::MAX),
            document: job.document,
        }
    });
    let remarks = import.remarks.into_iter().map(|remark| ImportRemark {
        line: remark.line,
        level: remark.level.as_str().to_owned(),
        field: remark.field,
        message: remark.message,
    });
    Ok(ReadJobs {
        text,
        jobs: jobs.collect(),
        remarks: remarks.collect(),
    })
}

/// A file of another kind is told as a whole, not line by line.
fn no_crontab(path: &Path, bytes: &[u8], import: &Import) -> Option<Failure> {
    let no_entry = |r: &&source::Remark| r.level == Level::Refused && r.field == crontab::NO_ENTRY;
    let lines = import.remarks.iter().filter(no_entry).count();
    if lines < MANY_LINES || !import.jobs.is_empty() {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let meant = match text.lines().any(|line| line.starts_with("apiVersion:")) {
        true => "; a Kubernetes manifest is read by `sichen import kubernetes`",
        false => "; an entry has five times (or a nickname) and a command",
    };
    Some(Failure::usage(format!(
        "SC7005: {} is no crontab: it has no entry, and {lines} lines that are none{meant}",
        shown(path)
    )))
}

fn shown(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => path.display().to_string(),
    }
}

fn read(path: &Path, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let most = limit as u64 + 1;
    let result = if path.as_os_str() == "-" {
        std::io::stdin().take(most).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    let name = shown(path);
    result.map_err(|error| Failure::usage(format!("SC7005: {name} can't be read: {error}")))?;
    if bytes.len() > limit {
        return Err(Failure::usage(format!(
            "SC7005: {name} is longer than {limit} bytes"
        )));
    }
    Ok(bytes)
}

/// Checks, proves, shows and applies.
async fn finish(mut sources: Vec<(String, Import)>, target: &Target) -> Result<ExitCode, Failure> {
    for (_, import) in &mut sources {
        import.keep_valid();
    }
    let count = target.diff_next.map_or(PROVED, |n| n as usize);
    let proved = prove(&sources, target.after.unwrap_or_else(now), count)?;
    let refused = sources.iter().any(|(_, import)| import.refused());
    let text = yaml(&sources)?;
    if target.output.is_table() {
        remarks(&sources);
    }
    if target.apply && refused && !target.skip_refused {
        let text = "SC7031: some jobs are refused, so none is applied; mend them, or give \
                    --skip-refused";
        return Err(Failure::usage(text));
    }
    if target.apply {
        apply(&sources, text, target).await?;
        if target.output.is_table() {
            close(&sources, &proved);
        }
    } else {
        show(&sources, text, proved, target.output)?;
    }
    Ok(if refused {
        Exit::Usage.into()
    } else {
        ExitCode::SUCCESS
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "times are compared from the reader's own present on"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

fn prove(
    sources: &[(String, Import)],
    after: Timestamp,
    count: usize,
) -> Result<Vec<Proved>, Failure> {
    let after = after.as_second();
    let mut proved = Vec::new();
    for (file, import) in sources {
        for job in &import.jobs {
            let times = job.prove(after, count).map_err(|difference| {
                let (line, name) = (job.line, job.name());
                let text = format!(
                    "SC7032: {file}:{line}: the job {name} has other times than its source, so \
                     nothing is imported: {difference}"
                );
                Failure::new(Exit::Failed, text)
            })?;
            let job = job.name().to_owned();
            proved.push(Proved { job, times });
        }
    }
    Ok(proved)
}

/// All documents as one text, each below what its source says.
fn yaml(sources: &[(String, Import)]) -> Result<String, Failure> {
    let mut text = String::new();
    for (file, import) in sources {
        for job in &import.jobs {
            if !text.is_empty() {
                text.push_str("---\n");
            }
            text.push_str(&format!("# from {file}\n"));
            for comment in &job.comments {
                text.push_str(&format!("# {}\n", output::visible(comment)));
            }
            let document = serde_saphyr::to_string(&job.document);
            let document = document.map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
            text.push_str(document.trim_end());
            text.push('\n');
        }
    }
    let written: Vec<Document> = sources
        .iter()
        .flat_map(|(_, import)| &import.jobs)
        .filter_map(|job| job.read().ok())
        .collect();
    let read = if written.is_empty() {
        Ok(Vec::new())
    } else {
        document::read(&text)
    };
    let read = read.map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Failure::usage(format!(
            "SC7032: the documents can't be taken: {}",
            problems.join("; ")
        ))
    })?;
    if !read.iter().map(|read| &read.document).eq(&written) {
        let text = "SC7032: the documents do not read as they were meant, so nothing is imported";
        return Err(Failure::new(Exit::Failed, text));
    }
    Ok(text)
}

fn remarks(sources: &[(String, Import)]) {
    for (file, import) in sources {
        for remark in &import.remarks {
            let field = match remark.field.as_str() {
                "" => String::new(),
                field => format!("{field}: "),
            };
            let (line, level) = (remark.line, remark.level.as_str());
            let message = output::visible(&remark.message);
            output::remark(&format!("{file}:{line}: {level}: {field}{message}"));
        }
    }
}

/// The closing line beside the answer: what became of the source, and what was proved of it.
fn close(sources: &[(String, Import)], proved: &[Proved]) {
    let jobs = sources.iter().map(|(_, import)| import.jobs.len() as u64);
    let refused = sources.iter().map(|(_, import)| refused(import)).sum();
    let most = proved.iter().map(|p| p.times).max().unwrap_or(0);
    let same = match most {
        0 => String::new(),
        most => format!("; the next {most} times are those of the source"),
    };
    output::remark(&format!(
        "{} imported, {} refused{same}",
        output::count(jobs.sum(), "job"),
        output::count(refused, "line or field").replace("line or fields", "lines or fields"),
    ));
}

fn refused(import: &Import) -> u64 {
    let refused = import.remarks.iter().filter(|r| r.level == Level::Refused);
    refused.count() as u64
}

fn show(
    sources: &[(String, Import)],
    text: String,
    proved: Vec<Proved>,
    output: Output,
) -> Result<(), Failure> {
    if output.output == Form::Table {
        output::print(&text)?;
        close(sources, &proved);
        return Ok(());
    }
    let jobs = sources.iter().flat_map(|(_, import)| &import.jobs);
    let remarks = sources.iter().flat_map(|(file, import)| {
        import.remarks.iter().map(|remark| RemarkView {
            file: file.clone(),
            line: remark.line,
            level: remark.level.as_str(),
            field: remark.field.clone(),
            message: remark.message.clone(),
        })
    });
    let view = View {
        remarks: remarks.collect(),
        documents: jobs.map(|job| job.document.clone()).collect(),
        proved,
    };
    output.show(&view, |_| String::new())
}

/// Applies the documents. What is switched off at its source is paused before it has a schedule, so
/// that no time of it is ever started.
async fn apply(sources: &[(String, Import)], text: String, target: &Target) -> Result<(), Failure> {
    let jobs = || sources.iter().flat_map(|(_, import)| &import.jobs);
    if text.is_empty() {
        return target.output.show(&Applied::default(), |_| String::new());
    }
    let client = Client::new(&target.connection)?;
    let mut made = BTreeSet::new();
    for job in jobs().filter(|job| job.paused) {
        if pause(&client, job).await? {
            made.insert((job.namespace(), job.name()));
        }
    }
    let mut all: Applied = client.post_documents(&["jobs:apply"], text).await?;
    for document in &mut all.documents {
        // Its first revision was only there to be paused.
        if made.contains(&(document.namespace.as_str(), document.name.as_str())) {
            document.change = Change::Created;
        }
    }
    target.output.show(&all, |all| {
        all.documents.iter().map(applied_line).collect::<String>()
    })?;
    let documents: Vec<Document> = jobs().filter_map(|job| job.read().ok()).collect();
    offers::warn(&client, &documents).await;
    Ok(())
}

/// Sees to it that the job is there and paused. Whether it was made for that.
async fn pause(client: &Client, job: &Imported) -> Result<bool, Failure> {
    let namespace = job.namespace();
    let path = ["jobs", namespace, job.name()];
    let made = match client.get::<Job>(&path, Vec::new()).await {
        Ok(there) if there.paused => return Ok(false),
        Ok(_) => false,
        Err(failure) if failure.exit == Exit::NotFound => {
            let mut idle = job.document.clone();
            idle["spec"]["schedules"] = Value::Array(Vec::new());
            let text = idle.to_string();
            let _: Applied = client.post_documents(&["jobs:apply"], text).await?;
            true
        }
        Err(failure) => return Err(failure),
    };
    let path = ["jobs", namespace, job.name(), "pause"];
    let _: AppliedDocument = client.post(&path, None::<&()>, false).await?;
    Ok(made)
}

#[cfg(test)]
#[path = "import/pasted_tests.rs"]
mod tests;
