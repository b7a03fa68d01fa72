//! `sichen apply`, `sichen validate`: documents of jobs, calendars and capacities from files.
//!
//! # Invariants
//! - Nothing is applied unless every document of every file is right.
//!
//! # Not here
//! Reading a document (`sichen_server::document`).

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use sichen_core::document::Metadata;
use sichen_server::document::{self, Documents};
use sichen_server::rest::wire::{Applied, AppliedDocument, Change, ValidDocument, Validated};

use super::revisions::Compared;
use super::{calendars, capacity, offers};
use crate::client::{Client, Connection};
use crate::failure::{Exit, Failure};
use crate::names;
use crate::output::{self, Output};

/// The most files taken from one directory.
const MAX_FILES: usize = 1_000;

/// Create or change jobs, calendars and capacities, jobs last. The same document again changes nothing.
#[derive(Debug, Args)]
pub struct Apply {
    /// A YAML or JSON file with one or more documents, a directory of such files, or `-`.
    #[arg(
        short,
        long = "file",
        value_name = "FILE",
        required_unless_present = "bare"
    )]
    pub files: Vec<PathBuf>,
    /// The same without `-f`, as `validate` takes them.
    #[arg(value_name = "FILE", hide = true)]
    bare: Vec<PathBuf>,
    /// Change nothing; show what would change.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Check documents of jobs, calendars and capacities, without a server: every problem at once, with line and
/// column.
#[derive(Debug, Args)]
pub struct Validate {
    /// YAML or JSON files with one or more documents, directories of such files, or `-`.
    #[arg(value_name = "FILE", required_unless_present = "named")]
    pub files: Vec<PathBuf>,
    /// The same with `-f`, as `apply` takes them.
    #[arg(short = 'f', long = "file", value_name = "FILE", hide = true)]
    named: Vec<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// A file's name and text.
pub type Source = (String, String);

/// Carries out `sichen apply`.
pub async fn apply(args: Apply) -> Result<ExitCode, Failure> {
    let sources = read_all(&[args.files, args.bare].concat())?;
    let documents = check(&sources)?;
    let client = Client::new(&args.connection)?;
    if args.dry_run {
        let compared = calendars::preview(&client, &sources, documents).await?;
        args.output
            .show(&compared, |all| all.iter().map(Compared::text).collect())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut all = Applied::default();
    // A calendar or capacity in one file may be used by jobs of any other.
    let used = documents.calendars.is_empty() && documents.capacities.is_empty();
    let passes: &[&str] = match (sources.len(), used) {
        (2.., false) => &["calendars", "jobs"],
        _ => &[""],
    };
    for pass in passes {
        for (name, text) in &sources {
            let query = match *pass {
                "" => Vec::new(),
                only => vec![("only", only.to_owned())],
            };
            let path = ["jobs:apply"];
            let applied = client.post_documents_with(&path, query, text.clone()).await;
            let applied: Applied = applied.map_err(|failure| {
                let done = all.documents.len() + all.calendars.len() + all.capacities.len();
                let mut text = format!("{name}: {}", failure.text);
                if done > 0 {
                    text.push_str(&format!("\n  {done} documents before it were applied"));
                }
                Failure::new(failure.exit, text)
            })?;
            all.documents.extend(applied.documents);
            all.calendars.extend(applied.calendars);
            all.capacities.extend(applied.capacities);
        }
    }
    args.output.show(&all, |all| {
        let calendars = all.calendars.iter().map(calendars::applied_lines);
        let jobs = all.documents.iter().map(applied_line);
        let capacities = all.capacities.iter().map(capacity::applied_line);
        calendars.chain(capacities).chain(jobs).collect::<String>()
    })?;
    let jobs = documents.jobs.into_iter().map(|read| read.document);
    offers::warn(&client, &jobs.collect::<Vec<_>>()).await;
    Ok(ExitCode::SUCCESS)
}

/// What became of a job, in one line.
pub fn applied_line(d: &AppliedDocument) -> String {
    let change = match d.change {
        Change::Created => "created",
        Change::Updated => "updated",
        Change::Unchanged => "unchanged",
    };
    let job = names::shown(&d.namespace, &d.name);
    let next = match &d.next_at {
        _ if d.paused => format!("; paused: `sichen resume {job}` goes on"),
        Some(at) => format!("; it runs next at {}", output::instant(at, 0)),
        None => format!("; no planned time ahead: `sichen run {job}` starts it"),
    };
    format!("job {job} {change} (revision {}){next}\n", d.revision)
}

/// Carries out `sichen validate`.
pub fn validate(args: &Validate) -> Result<ExitCode, Failure> {
    let sources = read_all(&[args.files.as_slice(), &args.named].concat())?;
    let documents = check(&sources)?;
    let valid = |metadata: &Metadata, line| ValidDocument {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        line,
    };
    let jobs = documents.jobs.iter();
    let calendars = documents.calendars.iter();
    let valid = Validated {
        documents: jobs.map(|d| valid(&d.document.metadata, d.line)).collect(),
        calendars: calendars
            .map(|d| valid(&d.document.metadata, d.line))
            .collect(),
        capacities: documents
            .capacities
            .iter()
            .map(|d| ValidDocument {
                namespace: String::new(),
                name: d.document.metadata.name.clone(),
                line: d.line,
            })
            .collect(),
    };
    args.output.show(&valid, |valid| {
        let lines = |what: &str, of: &[ValidDocument]| -> String {
            let lines = of.iter().map(|d| {
                let name = names::shown(&d.namespace, &d.name);
                format!("{what} {name} is valid\n")
            });
            lines.collect()
        };
        let capacities = valid.capacities.iter();
        let capacities = capacities.map(|d| format!("capacity {} is valid\n", d.name));
        lines("calendar", &valid.calendars)
            + &capacities.collect::<String>()
            + &lines("job", &valid.documents)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The documents of all files; a failure lists every problem.
fn check(sources: &[Source]) -> Result<Documents, Failure> {
    let mut documents = Documents::default();
    let mut lines = Vec::new();
    for (name, text) in sources {
        match document::read_all(text) {
            Ok(found) => {
                documents.calendars.extend(found.calendars);
                documents.capacities.extend(found.capacities);
                documents.jobs.extend(found.jobs);
            }
            Err(problems) => lines.extend(problems.iter().map(|p| format!("{name}:{p}"))),
        }
    }
    if lines.is_empty() {
        return Ok(documents);
    }
    let word = if lines.len() == 1 {
        "problem"
    } else {
        "problems"
    };
    let text = format!("{} {word}\n  {}", lines.len(), lines.join("\n  "));
    Err(Failure::usage(text))
}

/// The texts and documents of files that are right.
pub fn checked(paths: &[PathBuf]) -> Result<(Vec<Source>, Documents), Failure> {
    let sources = read_all(paths)?;
    let documents = check(&sources)?;
    Ok((sources, documents))
}

fn read_all(paths: &[PathBuf]) -> Result<Vec<Source>, Failure> {
    let mut sources = Vec::new();
    for path in paths {
        if path.is_dir() {
            for file in directory(path)? {
                sources.push(read(&file)?);
            }
        } else {
            sources.push(read(path)?);
        }
    }
    Ok(sources)
}

fn directory(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error: std::io::Error| unreadable(path, &error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let known = file.extension().and_then(|e| e.to_str());
        if matches!(known, Some("yaml" | "yml" | "json")) && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() || files.len() > MAX_FILES {
        return Err(Failure::usage(format!(
            "SC7005: {} has {} files ending in .yaml, .yml or .json; 1 to {MAX_FILES} are taken",
            path.display(),
            files.len()
        )));
    }
    Ok(files)
}

fn read(path: &Path) -> Result<Source, Failure> {
    let limit = document::MAX_TEXT_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let result = if path.as_os_str() == "-" {
        std::io::stdin().take(limit).read_to_end(&mut bytes)
    } else {
        let file = std::fs::File::open(path);
        file.and_then(|f| f.take(limit).read_to_end(&mut bytes))
    };
    result.map_err(|error| unreadable(path, &error))?;
    let name = if path.as_os_str() == "-" {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    };
    if bytes.len() > document::MAX_TEXT_BYTES {
        return Err(Failure::usage(format!(
            "SC7005: {name} is longer than {} bytes; split it",
            document::MAX_TEXT_BYTES
        )));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(Failure::usage(format!(
            "SC7005: {name} is not UTF-8: {}",
            error.utf8_error()
        ))),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let text = format!("SC7005: {} can't be read: {error}", path.display());
    Failure::new(Exit::Usage, text)
}
