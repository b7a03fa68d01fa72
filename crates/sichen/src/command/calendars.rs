//! Calendars: listed, described, compared, deleted.
//!
//! # Not here
//! A job's month ([`super::calendar`]); files ([`super::documents`]); iCalendar ([`super::import`]).

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use sichen_core::document::{CalendarDocument, Calendars, DaySpec, Document, differences_of};
use sichen_core::name::JobName;
use sichen_server::document::Documents;
use sichen_server::rest::wire::{
    AppliedCalendar, Calendar, CalendarChange, CalendarComparison, CalendarPage, Change,
    DeletedCalendar,
};

use super::documents::Source;
use super::revisions::{self, Compared, Field, Listed, Revisions};
use super::runs::PageArgs;
use crate::client::{Client, Connection};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::names;
use crate::output::{self, Output};

/// Instants of a comparison that are shown of one job.
const SHOWN: usize = 10;

/// Which calendars.
#[derive(Debug, Args)]
pub struct Get {
    /// One calendar, `name` or `namespace/name`, exactly.
    #[arg(value_name = "CALENDAR")]
    calendar: Option<String>,
    /// This version instead of the newest.
    #[arg(long, value_name = "NUMBER", requires = "calendar")]
    revision: Option<u32>,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// One calendar, in its newest version or in another.
async fn one(client: &Client, name: &JobName, version: Option<u32>) -> Result<Calendar, Failure> {
    let path = ["calendars", name.namespace.as_str(), name.name.as_str()];
    let query = version.map(|version| ("version", version.to_string()));
    match client.get(&path, query.into_iter().collect()).await {
        Err(failure) if failure.exit == Exit::NotFound && version.is_none() => {
            Err(with_candidates(client, failure, name).await)
        }
        answer => answer,
    }
}

/// Adds to a failure the calendars that may have been meant.
async fn with_candidates(client: &Client, failure: Failure, name: &JobName) -> Failure {
    let query = vec![("limit", "1000".to_owned())];
    let Ok(page) = client.get::<CalendarPage>(&["calendars"], query).await else {
        return failure;
    };
    let known = page.items.iter();
    let known: Vec<String> = known.map(|c| names::shown(&c.namespace, &c.name)).collect();
    let near = names::near(&name.to_string(), &known);
    let hint = match near.is_empty() {
        true => "`sichen get calendars` lists what there is".to_owned(),
        false => format!("did you mean {}?", near.join(", ")),
    };
    Failure::new(failure.exit, format!("{}\n  {hint}", failure.text))
}

/// The document of a calendar as a server has it.
fn document(calendar: &Calendar) -> Result<CalendarDocument, Failure> {
    let stored = calendar.document.clone().unwrap_or_default();
    serde_json::from_value(stored).map_err(|error| {
        let text = format!("SC7004: the stored calendar was not understood: {error}");
        Failure::new(Exit::Failed, text)
    })
}

/// The calendars that a document's schedules go by, in the versions that it names.
pub async fn of(client: &Client, job: &Document) -> Result<Calendars, Failure> {
    let mut calendars = Calendars::default();
    for (name, (_, version)) in job.calendars() {
        let found = one(client, &name, version).await?;
        let rules = document(&found)?.calendar(found.version);
        let rules = rules.map_err(|problems| {
            let lines = problems
                .iter()
                .map(|p| format!("{}: {}", p.path, p.message));
            let lines = lines.collect::<Vec<_>>().join("; ");
            Failure::new(Exit::Failed, format!("SC7004: calendar {name}: {lines}"))
        })?;
        calendars.add(name, Arc::new(rules));
    }
    Ok(calendars)
}

/// Carries out `sichen get calendars`.
pub async fn get(args: &Get) -> Result<(), Failure> {
    let client = Client::new(&args.connection)?;
    if let Some(name) = &args.calendar {
        let name = names::job(name)?;
        let found = one(&client, &name, args.revision).await?;
        let head = format!("# calendar {name}, version {}\n", found.version);
        let document = found.document.unwrap_or_default();
        return args.output.show(&document, |document| {
            let yaml = serde_saphyr::to_string(document).unwrap_or_else(|_| document.to_string());
            head + &yaml
        });
    }
    let page: CalendarPage = client.get(&["calendars"], args.page.query()).await?;
    args.output.show(&page, |page| {
        let now = clock::now();
        let rows = page.items.iter().map(|c| {
            [
                names::shown(&c.namespace, &c.name),
                c.version.to_string(),
                c.off.to_string(),
                c.work.to_string(),
                c.covers_through.clone().unwrap_or_else(|| "-".to_owned()),
                output::age(&c.changed_at, now),
            ]
        });
        let head = [
            "CALENDAR",
            "VERSION",
            "DAYS OFF",
            "MADE UP",
            "COVERS THROUGH",
            "CHANGED",
        ];
        output::table(head, rows)
    })?;
    let none = "no calendars; `sichen apply -f FILE` or `sichen import calendar FILE` makes some";
    args.output.remark_empty(&page.items, none);
    if args.output.is_table() {
        output::remark_more(page.next.as_deref());
    }
    Ok(())
}

/// Carries out `sichen describe calendar`.
pub async fn describe(name: &str, connection: &Connection, output: &Output) -> Result<(), Failure> {
    let name = names::job(name)?;
    let client = Client::new(connection)?;
    let found = one(&client, &name, None).await?;
    let document = document(&found)?;
    output.show(&found, |found| described(found, &document))
}

fn described(found: &Calendar, document: &CalendarDocument) -> String {
    let weekend = document.spec.weekend.iter();
    let weekend: Vec<String> = weekend
        .map(|day| format!("{day:?}").to_lowercase())
        .collect();
    let users = found.users.iter();
    let users: Vec<String> = users
        .map(|user| {
            let job = names::shown(&user.namespace, &user.name);
            if user.version == found.version {
                job
            } else {
                format!("{job} (still version {})", user.version)
            }
        })
        .collect();
    let mut text = output::facts(&[
        ("Calendar", names::shown(&found.namespace, &found.name)),
        ("Title", document.metadata.title.clone().unwrap_or_default()),
        ("Source", document.spec.source.clone().unwrap_or_default()),
        ("Version", found.version.to_string()),
        ("Changed", output::instant(&found.changed_at, 0)),
        ("Weekend", weekend.join(", ")),
        (
            "Covers through",
            found.covers_through.clone().unwrap_or_default(),
        ),
        ("Used by", users.join("\n")),
    ]);
    let lists = [
        ("Days off", &document.spec.off),
        ("Made-up working days", &document.spec.work),
    ];
    for (head, days) in lists {
        if days.is_empty() {
            continue;
        }
        text.push_str(&format!("\n{head}:\n"));
        for day in days {
            text.push_str(&format!("  {}\n", day_line(day)));
        }
    }
    text
}

fn day_line(day: &DaySpec) -> String {
    match day {
        DaySpec::Date(date) => date.clone(),
        DaySpec::Days(days) => {
            let part = |text: &Option<String>| text.clone().unwrap_or_default();
            let when = match &days.date {
                Some(date) => date.clone(),
                None => format!("{} to {}", part(&days.from), part(&days.through)),
            };
            format!("{when:<24} {}", part(&days.name))
                .trim_end()
                .to_owned()
        }
    }
}

/// Carries out `sichen delete --calendar`. On a terminal it asks first; elsewhere it wants `--yes`.
pub async fn delete(
    name: &str,
    yes: bool,
    connection: &Connection,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let name = names::job(name)?;
    let client = Client::new(connection)?;
    if !yes {
        let found = one(&client, &name, None).await?;
        let question = format!("Delete calendar {name} (version {})? [y/N] ", found.version);
        let about = format!("whether calendar {name} is to be deleted");
        if !output::confirmed(&question, &about)? {
            output::remark("nothing was deleted");
            return Ok(Exit::Refused.into());
        }
    }
    let path = ["calendars", name.namespace.as_str(), name.name.as_str()];
    let deleted: DeletedCalendar = client.delete(&path).await?;
    output.show(&deleted, |_| {
        format!("calendar {name} deleted; its versions stay for the runs that went by them\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Carries out `sichen revisions --calendar`.
pub async fn versions(args: &Revisions) -> Result<ExitCode, Failure> {
    let name = names::job(&args.job)?;
    let client = Client::new(&args.connection)?;
    let newest = one(&client, &name, None).await?;
    let mut listed: Vec<Listed> = Vec::new();
    let mut newer = (newest.version, document(&newest)?);
    for number in (1..newest.version).rev().take(args.limit as usize) {
        let older = match one(&client, &name, Some(number)).await {
            Ok(older) => document(&older)?,
            // The number that a deletion took.
            Err(failure) if failure.exit == Exit::NotFound => continue,
            Err(failure) => return Err(failure),
        };
        listed.push(changed(&older, &newer, newest.version));
        newer = (number, older);
    }
    if newer.0 == 1 {
        listed.push(Listed {
            revision: 1,
            current: newest.version == 1,
            changes: Vec::new(),
        });
    }
    args.output
        .show(&listed, |listed| revisions::table("VERSION", listed))?;
    Ok(ExitCode::SUCCESS)
}

fn changed(
    older: &CalendarDocument,
    (number, newer): &(u32, CalendarDocument),
    newest: u32,
) -> Listed {
    let changes = differences_of(older, newer).into_iter();
    Listed {
        revision: *number,
        current: *number == newest,
        changes: changes.map(Field::from).collect(),
    }
}

/// What became of a calendar, and of the jobs that use it.
pub fn applied_lines(applied: &AppliedCalendar) -> String {
    let change = match applied.change {
        Change::Created => "created",
        Change::Updated => "updated",
        Change::Unchanged => "unchanged",
    };
    let calendar = names::shown(&applied.namespace, &applied.name);
    let version = applied.version;
    let mut text = format!("calendar {calendar} {change} (version {version})\n");
    for job in &applied.jobs {
        let name = names::shown(&job.namespace, &job.name);
        let revision = job.revision;
        text.push_str(&format!(
            "  job {name} goes by it now (revision {revision})\n"
        ));
    }
    for left in &applied.left {
        let name = names::shown(&left.namespace, &left.name);
        text.push_str(&format!("  job {name} does not yet: {}\n", left.why));
    }
    if applied.more {
        text.push_str("  other jobs that use it follow in the background\n");
    }
    text
}

/// What a calendar would do to the coming times of a job.
pub fn change_lines(change: &CalendarChange) -> String {
    let mut text = format!("  planned times of job {}:\n", change.job);
    for (sign, list) in [('-', &change.gone), ('+', &change.new)] {
        for at in list.iter().take(SHOWN) {
            text.push_str(&format!("    {sign} {at}\n"));
        }
        let rest = list.len().saturating_sub(SHOWN);
        if rest > 0 {
            text.push_str(&format!("    {sign} and {rest} more\n"));
        }
    }
    if change.more {
        text.push_str(&format!("    (looked through {})\n", change.through));
    }
    text
}

/// Compares documents with what is stored, and calendars with the jobs that use them.
pub async fn preview(
    client: &Client,
    sources: &[Source],
    documents: Documents,
) -> Result<Vec<Compared>, Failure> {
    let mut changes = Vec::new();
    if !documents.calendars.is_empty() {
        for (_, text) in sources {
            let path = ["calendars:compare"];
            let answer = client.post_documents(&path, text.clone());
            let answer: CalendarComparison = answer.await?;
            changes.extend(answer.changes);
        }
    }
    let mut compared = Vec::new();
    for read in &documents.calendars {
        compared.push(calendar_compared(client, &read.document, &changes).await?);
    }
    let jobs = documents.jobs.into_iter().map(|read| read.document);
    compared.extend(revisions::compare(client, jobs.collect()).await?);
    Ok(compared)
}

async fn calendar_compared(
    client: &Client,
    new: &CalendarDocument,
    changes: &[CalendarChange],
) -> Result<Compared, Failure> {
    let metadata = &new.metadata;
    let name = names::job(&format!("{}/{}", metadata.namespace, metadata.name))?;
    let (revision, differences) = match one(client, &name, None).await {
        Ok(found) => {
            let changes = differences_of(&document(&found)?, new).into_iter();
            (Some(found.version), changes.map(Field::from).collect())
        }
        Err(failure) if failure.exit == Exit::NotFound => (None, Vec::new()),
        Err(failure) => return Err(failure),
    };
    Ok(Compared {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        revision,
        differences,
        kind: "calendar",
        changes: {
            let of_it = changes.iter().filter(|c| c.calendar == name.to_string());
            of_it.cloned().collect()
        },
        edit: None,
    })
}
