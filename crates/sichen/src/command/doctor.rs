//! `sichen doctor`: what is wrong, and what to do about it.
//!
//! # Invariants
//! - It changes nothing. What can't be looked at is said, and the rest is looked at all the same.
//!
//! # Not here
//! The recorded history (`sichen verify`).

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use sichen_core::document::{Document, ScheduleSpec};
use sichen_server::auth;
use sichen_server::rest::wire::{
    self, DeadLetter, DeadLetterPage, Explanation, Job, JobPage, RunPage, ServerStatus, Worker,
    Workers,
};

use super::offers;
use crate::client::{Client, Connection, Query};
use crate::clock;
use crate::data_dir;
use crate::failure::{Exit, Failure};
use crate::names;
use crate::output::{self, Output};

/// The most runs of a state, and jobs, that are looked at one by one.
const MAX_LOOKED_AT: usize = 50;
/// Pages of dead letters that are looked at.
const MAX_LETTER_PAGES: u32 = 5;
/// How long a run may wait before it is called stuck.
const STUCK_AFTER: Duration = Duration::from_secs(300);
/// Clocks that differ by more are worth a word.
const MAX_CLOCK_OFFSET_MS: i64 = 1_000;
/// Below these a disk is short of room, and nearly full.
const LITTLE_ROOM: u64 = 1 << 30;
const NO_ROOM: u64 = 100 << 20;

/// What a good token is told that may not do this.
const NOT_ALLOWED: &str = "SC6002";

/// Check this machine, its server and the store; each line says
/// what to do. The exit code is 1 if something must be done.
#[derive(Debug, Args)]
pub struct Doctor {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Grade {
    Ok,
    Warn,
    Fail,
}

/// One line.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Check {
    grade: Grade,
    what: &'static str,
    text: String,
}

#[derive(Debug, Default, Serialize)]
struct Findings {
    checks: Vec<Check>,
}

impl Findings {
    fn add(&mut self, grade: Grade, what: &'static str, text: impl Into<String>) {
        let text = text.into().replace("\n  ", "; ");
        self.checks.push(Check { grade, what, text });
    }

    /// What a request gave; a failed check if it failed. What a good token may not see is no fault of
    /// the server: it was not looked at.
    fn got<T>(&mut self, what: &'static str, answer: Result<T, Failure>) -> Option<T> {
        match answer {
            Ok(value) => Some(value),
            Err(failure) if failure.text.starts_with(NOT_ALLOWED) => {
                let why = failure.text.split_once("; ").map_or("", |(why, _)| why);
                let why = why.trim_start_matches(NOT_ALLOWED).trim_start_matches(": ");
                self.add(Grade::Warn, what, format!("not looked at: {why}"));
                None
            }
            Err(failure) => {
                self.add(Grade::Fail, what, failure.text);
                None
            }
        }
    }
}

/// Carries out `sichen doctor`.
pub async fn run(args: Doctor) -> Result<ExitCode, Failure> {
    let mut found = Findings::default();
    files(&mut found, &data_dir::default());
    if let Some(client) = found.got("client", Client::new(&args.connection)) {
        let asked = clock::now();
        let status = client.get::<ServerStatus>(&["server"], Query::new()).await;
        let answered = clock::now();
        let allowed = !matches!(&status, Err(f) if f.text.starts_with(NOT_ALLOWED));
        if status.is_ok() || !allowed {
            let name = &args.connection.server;
            found.add(
                Grade::Ok,
                "server",
                format!("{name} answers, the token is right"),
            );
        }
        let status = found.got("server", status);
        if let Some(status) = &status {
            server(&mut found, status, asked, answered);
        }
        if status.is_some() || !allowed {
            let clock = client.get::<wire::Clock>(&["clock"], Query::new()).await;
            if let Some(clock) = found.got("clock", clock) {
                stepped(&mut found, &clock);
            }
            let workers = workers(&mut found, &client).await;
            runs(&mut found, &client).await;
            dead_letters(&mut found, &client).await;
            jobs(&mut found, &client, workers.as_ref()).await;
        }
    }
    args.output.show(&found, |found| {
        let rows = found.checks.iter().map(|c| {
            let grade = match c.grade {
                Grade::Ok => "ok",
                Grade::Warn => "warn",
                Grade::Fail => "FAIL",
            };
            [grade.to_owned(), c.what.to_owned(), c.text.clone()]
        });
        output::table(["", "WHAT", "FOUND"], rows)
    })?;
    let failed = found.checks.iter().any(|c| c.grade == Grade::Fail);
    Ok(if failed {
        Exit::Failed.into()
    } else {
        ExitCode::SUCCESS
    })
}

/// Files of a data directory on this machine, if there is one.
fn files(found: &mut Findings, dir: &Path) {
    let Ok(meta) = std::fs::metadata(dir) else {
        return;
    };
    let mode = meta.mode() & 0o777;
    let shown = dir.display();
    if mode & 0o077 == 0 {
        found.add(
            Grade::Ok,
            "files",
            format!("{shown} is for its owner alone"),
        );
    } else {
        let text =
            format!("others may look into {shown} (mode {mode:04o}); run `chmod 700 {shown}`");
        found.add(Grade::Warn, "files", text);
    }
    for name in [auth::TOKEN_FILE, auth::JOIN_TOKEN_FILE] {
        let path = dir.join(name);
        if !path.exists() {
            continue;
        }
        if let Err(error) = auth::read(&path) {
            found.add(Grade::Fail, "files", error.to_string());
        }
    }
}

/// What the store makes of its own clock.
fn stepped(found: &mut Findings, clock: &wire::Clock) {
    let ahead = clock.ahead_seconds;
    if clock.held {
        let text = format!(
            "the store's clock stepped ahead by {ahead} s and is not believed: nothing fires \
             (SC4020); if it is right now: sichen clock accept"
        );
        found.add(Grade::Fail, "clock", text);
    } else if clock.is_behind() {
        let behind = ahead.saturating_neg();
        let text = format!(
            "the store's clock stepped back by {behind} s: time stands still until it has caught \
             up (SC4021); keep it right with NTP"
        );
        found.add(Grade::Warn, "clock", text);
    }
}

/// Version, clock, readiness, store, disk.
fn server(found: &mut Findings, status: &ServerStatus, asked: Timestamp, answered: Timestamp) {
    let mine = env!("CARGO_PKG_VERSION");
    if status.version == mine {
        found.add(Grade::Ok, "version", format!("{mine} here and there"));
    } else {
        let text = format!(
            "{mine} here, {} there; use one release for both",
            status.version
        );
        found.add(Grade::Warn, "version", text);
    }
    if let Ok(now) = status.now.parse::<Timestamp>() {
        // It read its clock somewhere in between.
        let early = asked.duration_since(now).as_millis();
        let late = now.duration_since(answered).as_millis();
        let offset = i64::try_from(early.max(late).max(0)).unwrap_or(i64::MAX);
        if offset <= MAX_CLOCK_OFFSET_MS {
            found.add(
                Grade::Ok,
                "clock",
                "this machine and the store agree within a second",
            );
        } else {
            let off = output::span(jiff::SignedDuration::from_millis(offset));
            let text = format!(
                "this machine and the store differ by {off}; the store's clock decides, so set \
                 the other one right (NTP)"
            );
            found.add(Grade::Warn, "clock", text);
        }
    }
    match &status.not_ready {
        None => found.add(
            Grade::Ok,
            "ready",
            "the server has its lease and its store answers",
        ),
        Some(why) => found.add(
            Grade::Fail,
            "ready",
            format!("the server can't work: {why}"),
        ),
    }
    store(found, status);
    for old in &status.old_transactions {
        let age = old.age_seconds.map_or_else(String::new, |s| {
            format!(" for {}", output::span(jiff::SignedDuration::from_secs(s)))
        });
        let todo = match old.pid {
            0 => "commit it or roll it back".to_owned(),
            pid => format!("end it (`select pg_terminate_backend({pid})`)"),
        };
        let text = format!(
            "a transaction is open{age} and keeps old rows from being removed: {}, pid {}; {todo}",
            old.what, old.pid
        );
        found.add(Grade::Warn, "store", text);
    }
    if let Some(disk) = status.disk {
        let grade = match disk.free_bytes {
            free if free < NO_ROOM => Grade::Fail,
            free if free < LITTLE_ROOM => Grade::Warn,
            _ => Grade::Ok,
        };
        let todo = if grade == Grade::Ok {
            ""
        } else {
            "; make room"
        };
        let free = output::grouped(disk.free_bytes >> 20);
        let text = format!("{free} MiB free for {}{todo}", status.data);
        found.add(grade, "disk", text);
    }
}

fn store(found: &mut Findings, status: &ServerStatus) {
    let settings = &status.store_settings;
    let version = settings.get("server_version").map_or("?", String::as_str);
    let text = format!("{} {version}", status.store);
    if status.store != "postgres" {
        return found.add(Grade::Ok, "store", text);
    }
    if settings.is_empty() {
        let text = "postgres, whose settings could not be read; see the server's log";
        return found.add(Grade::Warn, "store", text);
    }
    found.add(Grade::Ok, "store", text);
    for (name, grade) in [
        ("fsync", Grade::Fail),
        ("synchronous_commit", Grade::Fail),
        ("full_page_writes", Grade::Warn),
    ] {
        match settings.get(name).map(String::as_str) {
            Some("off") => {
                let text = format!(
                    "{name} = off: what was acknowledged may be lost with the power; set it to on"
                );
                found.add(grade, "store", text);
            }
            Some(value) => found.add(Grade::Ok, "store", format!("{name} = {value}")),
            None => {}
        }
    }
    if let Some(text) = loses_at_fail_over(settings) {
        found.add(Grade::Warn, "store", text);
    }
}

/// What a fail-over to a server that follows this one may lose.
fn loses_at_fail_over(settings: &BTreeMap<String, String>) -> Option<String> {
    let value = |name| settings.get(name).map_or("", String::as_str);
    let waits_for_none = value("synchronous_standby_names").trim().is_empty();
    let after =
        "a fail-over may lose what was acknowledged (docs/guide/backup.md: what to do then)";
    if !matches!(value("standbys"), "" | "0") && waits_for_none {
        return Some(format!(
            "{} that no commit waits for (synchronous_standby_names is empty): {after}",
            match value("standbys") {
                "1" => "one standby follows".to_owned(),
                n => format!("{n} standbys follow"),
            }
        ));
    }
    let of_disk = matches!(value("synchronous_commit"), "local" | "remote_write");
    (of_disk && !waits_for_none).then(|| {
        format!(
            "synchronous_commit = {}, so no commit waits until a standby has it on disk: {after}",
            value("synchronous_commit")
        )
    })
}

/// Those that are connected, if that could be asked.
async fn workers(found: &mut Findings, client: &Client) -> Option<Workers> {
    let workers = client.get::<Workers>(&["workers"], Query::new()).await;
    let workers = found.got("workers", workers)?;
    let takes = |w: &&Worker| !w.draining;
    let free: u64 = workers
        .items
        .iter()
        .filter(takes)
        .map(|w| u64::from(w.slots))
        .sum();
    let count = output::count(workers.items.len() as u64, "worker");
    if workers.items.is_empty() {
        let text =
            "none is connected, so nothing runs; start one with `sichen worker --config FILE`";
        found.add(Grade::Warn, "workers", text);
    } else if free == 0 {
        let text = format!("{count}, and all are draining; start others");
        found.add(Grade::Warn, "workers", text);
    } else {
        found.add(
            Grade::Ok,
            "workers",
            format!("{count}, {}", output::count(free, "slot")),
        );
    }
    Some(workers)
}

/// Runs that have waited long for something that does not come by itself.
async fn runs(found: &mut Findings, client: &Client) {
    let (mut looked, mut stuck) = (0, 0);
    for state in ["scheduled", "running"] {
        let query = vec![
            ("state", state.to_owned()),
            ("limit", MAX_LOOKED_AT.to_string()),
        ];
        let page = client.get::<RunPage>(&["runs"], query).await;
        let Some(page) = found.got("runs", page) else {
            return;
        };
        for run in page.items {
            looked += 1;
            let since = run.created_at.parse::<Timestamp>();
            let waited = since
                .map(|at| clock::now().duration_since(at))
                .unwrap_or_default();
            if waited.unsigned_abs() < STUCK_AFTER {
                continue;
            }
            let id = run.id.to_string();
            let why = client
                .get::<Explanation>(&["runs", &id, "explain"], Query::new())
                .await;
            let Some(why) = found.got("runs", why) else {
                return;
            };
            let mut reasons = why.reasons.iter();
            let reason = reasons.find(|r| offers::BLOCKED.contains(&r.word.as_str()));
            if let Some(reason) = reason {
                stuck += 1;
                let text = format!(
                    "run {} ({}) waits since {}: {}",
                    run.id,
                    run.key,
                    output::span(waited),
                    reason.text
                );
                found.add(Grade::Warn, "runs", text);
            }
        }
    }
    if stuck == 0 {
        let open = output::count(looked, "open run");
        found.add(
            Grade::Ok,
            "runs",
            format!("{open} looked at, none is stuck"),
        );
    }
}

/// Jobs whose runs have failed for good and lie there: nothing comes of them by itself.
async fn dead_letters(found: &mut Findings, client: &Client) {
    let mut page = DeadLetterPage::default();
    // A page may be short, even empty, before the end.
    for _ in 0..MAX_LETTER_PAGES {
        let mut query = vec![("limit", "1000".to_owned())];
        query.extend(page.next.take().map(|after| ("after", after)));
        let more = client.get::<DeadLetterPage>(&["dead-letters"], query).await;
        let Some(more) = found.got("failures", more) else {
            return;
        };
        page.items.extend(more.items);
        page.next = more.next;
        if page.next.is_none() {
            break;
        }
    }
    if page.items.is_empty() {
        let text = "no run has ended partial or failed and waits for a retry";
        return found.add(Grade::Ok, "failures", text);
    }
    let mut by_job: BTreeMap<(&str, &str), Vec<&DeadLetter>> = BTreeMap::new();
    for letter in &page.items {
        let job = (letter.namespace.as_str(), letter.job.as_str());
        by_job.entry(job).or_default().push(letter);
    }
    let now = clock::now();
    for ((namespace, job), letters) in by_job.iter().take(MAX_LOOKED_AT) {
        let name = names::shown(namespace, job);
        let runs: BTreeSet<u64> = letters.iter().map(|letter| letter.run).collect();
        // The newest run comes first.
        let newest = letters.first();
        let age = newest.and_then(|l| l.shard.ended_at.as_deref());
        let age = age.map_or_else(String::new, |at| {
            format!(", the newest {} ago", output::age(at, now))
        });
        let code = newest.and_then(|l| l.shard.failure.as_ref());
        let code = code.map_or_else(String::new, |f| format!(" ({})", f.code));
        let text = format!(
            "job {name}: {} failed for good in {}{age}{code}; `sichen dead-letters {name}` shows why, \
             retries and discards",
            output::count(letters.len() as u64, "shard"),
            output::count(runs.len() as u64, "run"),
        );
        found.add(Grade::Warn, "failures", text);
    }
    if page.next.is_some() || by_job.len() > MAX_LOOKED_AT {
        let text = "there are more than were looked at: `sichen dead-letters`";
        found.add(Grade::Warn, "failures", text);
    }
}

/// Jobs with schedules that will never fire again, and jobs for which there is no worker.
async fn jobs(found: &mut Findings, client: &Client, workers: Option<&Workers>) {
    let query = vec![("limit", "1000".to_owned())];
    let page = client.get::<JobPage>(&["jobs"], query).await;
    let Some(page) = found.got("jobs", page) else {
        return;
    };
    // Those that may be silent come first: one without a next time says nothing by itself.
    let mut items: Vec<&Job> = page.items.iter().collect();
    items.sort_by_key(|j| j.next_at.is_some() || j.paused);
    let (mut never, mut idle) = (0, 0);
    for job in items.into_iter().take(MAX_LOOKED_AT) {
        let path = ["jobs", job.namespace.as_str(), job.name.as_str()];
        // It may be deleted by now.
        let Ok(mut whole) = client.get::<Job>(&path, Query::new()).await else {
            continue;
        };
        let document = whole.document.take().unwrap_or_default();
        let Ok(document) = serde_json::from_value::<Document>(document) else {
            continue;
        };
        let name = names::shown(&job.namespace, &job.name);
        if has_ended(&document, &whole) {
            never += 1;
            let text = format!(
                "job {name} has a schedule and no next time: it has ended; `sichen describe job {name}`"
            );
            found.add(Grade::Warn, "jobs", text);
        }
        // Without any worker that was said above.
        let workers = workers.filter(|w| !w.items.is_empty());
        if let Some(text) = workers.and_then(|w| offers::missing(&document, &w.items)) {
            idle += 1;
            found.add(Grade::Warn, "jobs", format!("job {name}: {text}"));
        }
    }
    let count = output::count(page.items.len() as u64, "job");
    if never == 0 {
        let text = format!("{count}, every live schedule has a next time");
        found.add(Grade::Ok, "jobs", text);
    }
    if idle == 0 && workers.is_some_and(|w| !w.items.is_empty()) {
        let text = match page.items.len() {
            n if n > MAX_LOOKED_AT => {
                format!("{MAX_LOOKED_AT} of {count} looked at: each has a worker that offers it")
            }
            _ => format!("{count}, each has a worker that offers its handler"),
        };
        found.add(Grade::Ok, "jobs", text);
    }
}

/// Whether no schedule of a job has a time any more. One that follows the job's runs has none while
/// a run is open: its end makes the next.
fn has_ended(document: &Document, job: &Job) -> bool {
    let schedules = &document.spec.schedules;
    let follows = |s: &ScheduleSpec| s.after.is_some() || s.continuous.is_some();
    let comes = job.next_at.is_some() || job.active_runs > 0 && schedules.iter().any(follows);
    !schedules.is_empty() && !job.paused && !comes
}

#[cfg(test)]
mod tests;
