//! What came of a drill: from what was seen to the folder and the record.
//!
//! # Invariants
//! - Whatever was begun leaves a record, also if it could not be finished: with what there is.
//!
//! # Not here
//! The judgement ([`crate::judge`]).

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::clock::{Stopwatch, wall_us};
use crate::database::watch;
use crate::drill::Act;
use crate::error::Error;
use crate::evidence::{self, Attempt};
use crate::folder::{Folder, PLAN, RECORD};
use crate::judge::{self, Done, Facts, Finding, History};
use crate::load::ACCOUNTS;
use crate::logs;
use crate::record::{Execution, Observed, Outcome, Record};
use crate::secrets::Secrets;
use crate::stage::{Order, Stage, find, what};
use crate::timeline::{self, Scene};
use crate::{business, identity, stop};

/// The longest that the database of a drill that could not be finished is asked for what it saw.
const ASKED: Duration = Duration::from_secs(20);

/// A drill that was carried out.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The drill.
    pub drill: String,
    /// Its variant.
    pub variant: &'static str,
    /// In one word.
    pub verdict: Outcome,
    /// Why it was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Why it could not be finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<String>,
    /// What had to hold.
    pub findings: Vec<Finding>,
    /// What was measured.
    pub measures: judge::Measures,
    /// The faults.
    pub faults: Vec<Done>,
    /// The folder of evidence.
    pub evidence: std::path::PathBuf,
    /// How long it took.
    pub took_ms: u64,
}

/// Who asks, and how: for the record.
#[derive(Clone, Debug)]
pub struct About {
    /// The command, as it can be given again.
    pub command: String,
    /// The program's version.
    pub version: String,
    /// Who answers for it.
    pub owner: String,
}

/// Carries a drill out, until its end or `interrupted`, and leaves its folder at `evidence`.
///
/// # Errors
/// [`Error`] if it can't be begun, or its record can't be written; what became of one that was begun is
/// a [`Report`].
pub async fn carry_out(
    order: &Order,
    about: &About,
    evidence: &Path,
    interrupted: impl Future<Output = ()>,
) -> Result<Report, Error> {
    let watch = Stopwatch::start();
    let drill = find(order)?;
    let mut stage = Stage::new(order, drill)?;
    let mut folder = Folder::make(evidence, Secrets::default())?;
    folder.hide(&std::env::var("PGPASSWORD").unwrap_or_default());
    stage.seen.around.program = format!("{}, {}", about.version, identity::of(&order.exe));
    let played = async {
        stage.build(order.store.as_deref()).await?;
        stage.play().await
    };
    let ended = tokio::select! {
        ended = played => ended,
        () = interrupted => Err(Error::Stage("it was interrupted".to_owned())),
    };
    for secret in &stage.secrets {
        folder.hide(secret);
        folder.hide_address(secret);
    }
    let mut broken = Vec::new();
    if let Err(error) = ended {
        broken.push(error.to_string());
        stage.give_up().await;
    }
    stage.growing.look();
    // One that stands still must not keep the record from being written.
    let asked = tokio::time::timeout(ASKED, write_database(&stage, &mut folder)).await;
    let late = |_| Err(Error::stage("the database", "it does not answer"));
    let database = asked.unwrap_or_else(late);
    let database = or_broken(database, &mut broken).flatten();
    conclude(&stage, folder, about, watch, database, broken)
}

/// What it came to, or the reason why the drill is not finished.
fn or_broken<T>(came: Result<T, Error>, broken: &mut Vec<String>) -> Option<T> {
    came.map_err(|error| broken.push(error.to_string())).ok()
}

/// Files that are kept as they are: of every drill, however it ended.
fn keep(stage: &Stage, folder: &mut Folder) -> Result<logs::Found, Error> {
    let expects = [stage.drill.expects];
    let mut found = logs::Found::default();
    let members = stage.cluster.servers.iter().chain(&stage.cluster.workers);
    for member in members {
        let name = format!("logs/{}.log", member.name);
        let from = stage.home.logs().join(format!("{}.log", member.name));
        let text = folder.copy(&name, &from)?;
        found.read(&member.name, &text, &expects);
    }
    folder.copy("tasks.jsonl", &stage.home.tasks())?;
    for (server, text) in &stage.metrics {
        folder.write(&format!("metrics/{server}.txt"), text)?;
    }
    Ok(found)
}

fn conclude(
    stage: &Stage,
    mut folder: Folder,
    about: &About,
    watch: Stopwatch,
    database: Option<DatabaseSeen>,
    mut broken: Vec<String>,
) -> Result<Report, Error> {
    let logs = or_broken(keep(stage, &mut folder), &mut broken).unwrap_or_default();
    let attempts = evidence::attempts(&stage.growing.lines);
    let (must, may) = stage.occasions();
    let compared = business::compare(&stage.home.business(), stage.load(), &must, &may);
    let compared = compared.map_err(|e| Error::stage("the business database", e));
    let compared = or_broken(compared, &mut broken).unwrap_or_default();
    let written = write_evidence(stage, &mut folder, &compared, &attempts);
    or_broken(written, &mut broken);
    let facts = Facts {
        drill: stage.drill,
        has_faults: stage.plan.faults.iter().any(|f| f.act != Act::Nothing),
        must,
        may,
        attempts,
        faults: stage.seen.faults.clone(),
        logs,
        business: compared.clone(),
        history: history(&stage.seen.verdict),
        open: stage.seen.open.clone(),
        deaths: stage.seen.deaths.clone(),
        entangled: database.map(|d| d.lock_waits as u64 + d.deadlocks.unwrap_or(0).unsigned_abs()),
        leaks: folder.leaks(),
        masked: folder.masked(),
    };
    let (measures, findings) = judge::judge(&facts);
    or_broken(folder.write_yaml("measures.yaml", &measures), &mut broken);
    if !broken.is_empty() {
        or_broken(folder.write("error.txt", &broken.join("\n")), &mut broken);
    }
    let stopped = stage.seen.stopped.as_ref().map(told);
    let unfinished = (!broken.is_empty()).then(|| broken.join("; "));
    let verdict = match (&stopped, &unfinished, findings.iter().all(|f| f.ok)) {
        (Some(_), _, _) => Outcome::Stopped,
        (None, Some(_), _) => Outcome::Unfinished,
        (None, None, true) => Outcome::Passed,
        (None, None, false) => Outcome::Failed,
    };
    let observed = Observed {
        verdict,
        stopped: stopped.clone(),
        unfinished: unfinished.clone(),
        findings: match &unfinished {
            // Of half of a drill nobody can say what must hold at its end.
            Some(_) => Vec::new(),
            None => findings.iter().map(line).collect(),
        },
        checksum_before: stage.seen.checksum_before.clone(),
        checksum_after: compared.found.checksum.clone(),
        checksum_expected: compared.expected.checksum.clone(),
        measures: measures.clone(),
    };
    let record = record(stage, &folder, about, &findings, observed, watch.ms());
    folder.write_yaml(RECORD, &record)?;
    Ok(Report {
        drill: stage.plan.drill.clone(),
        variant: stage.plan.variant.name(),
        verdict,
        stopped,
        findings: match &unfinished {
            Some(_) => Vec::new(),
            None => findings,
        },
        unfinished,
        measures,
        faults: stage.seen.faults.clone(),
        evidence: folder.path().to_owned(),
        took_ms: watch.ms(),
    })
}

/// Why it was stopped, and how soon everything had ended.
fn told((why, took_ms): &(String, Option<u64>)) -> String {
    match took_ms {
        Some(ms) => format!("{why} (everything had ended {ms} ms later)"),
        None => format!(
            "{why} (NOT everything had ended {} ms later)",
            stop::WITHIN_MS - stop::LOOK_MS
        ),
    }
}

fn write_evidence(
    stage: &Stage,
    folder: &mut Folder,
    compared: &business::Compared,
    attempts: &[Attempt],
) -> Result<(), Error> {
    folder.write_yaml(PLAN, &stage.plan)?;
    folder.write_lines("faults.jsonl", &stage.seen.faults)?;
    folder.copy("history.jsonl", &stage.home.history())?;
    let verdict = serde_json::to_string_pretty(&stage.seen.verdict).unwrap_or_default();
    folder.write("verdict.json", &verdict)?;
    folder.write_yaml("business.yaml", compared)?;
    let (must, may) = stage.occasions();
    let planned: Vec<_> = must.into_iter().chain(may).collect();
    let title = format!(
        "{} ({}, seed {}): {}",
        stage.plan.drill,
        stage.plan.variant.name(),
        stage.plan.seed,
        stage.drill.topic
    );
    let scene = Scene {
        title: &title,
        load_us: (stage.seen.applied_us.0, stage.seen.paused_us.1),
        planned: &planned,
        attempts,
        faults: &stage.seen.faults,
    };
    // Without a load there is nothing to be drawn.
    match stage.seen.applied_us.0 {
        0 => Ok(()),
        _ => folder.write("timeline.svg", &timeline::svg(&scene)),
    }
}

/// What was seen of the database.
async fn write_database(stage: &Stage, folder: &mut Folder) -> Result<Option<DatabaseSeen>, Error> {
    let Some(database) = &stage.database else {
        return Ok(None);
    };
    let (deadlocks, replicas) = watch::counted(database.url()).await;
    let (slow, waits, seen) = {
        let watched = watch::locked(&stage.watched);
        let (slow, waits) = (watched.slow(), watched.waits());
        let seen = DatabaseSeen {
            deadlocks,
            statements_over_100_ms: slow.len(),
            lock_waits: waits.len(),
            beyond_what_is_kept: watched.more,
            looks: watched.looks.0,
            looks_without_answer: watched.looks.1,
            replication: match replicas.is_empty() {
                true => vec!["there is no replica".to_owned()],
                false => replicas,
            },
        };
        (slow, waits, seen)
    };
    folder.write_lines("statements.jsonl", &slow)?;
    folder.write_lines("lock_waits.jsonl", &waits)?;
    for (when, plans) in &stage.plans {
        folder.write(&format!("plans/{when}.txt"), plans)?;
    }
    if let Some(server) = &database.own {
        folder.copy("logs/database.log", &server.log())?;
    }
    folder.write_yaml("database.yaml", &seen)?;
    database.clear().await?;
    Ok(Some(seen))
}

/// What was seen of the database.
#[derive(Clone, Debug, Serialize)]
struct DatabaseSeen {
    /// Counted by the server in this database since its start; of a user's database, of others too.
    deadlocks: Option<i64>,
    statements_over_100_ms: usize,
    lock_waits: usize,
    beyond_what_is_kept: u64,
    looks: u64,
    looks_without_answer: u64,
    replication: Vec<String>,
}

fn line(finding: &Finding) -> String {
    let word = if finding.ok { "ok" } else { "NOT SO" };
    format!("{word}: {}: {}", finding.pass_when, finding.seen)
}

/// The checker's verdict, as `sichen verify -o json` has it.
fn history(verdict: &serde_json::Value) -> History {
    let violations = verdict["violations"].as_array().into_iter().flatten();
    let said = |v: &serde_json::Value, name: &str| v[name].as_str().unwrap_or("").to_owned();
    History {
        outcome: match said(verdict, "outcome") {
            empty if empty.is_empty() => "not judged: the drill did not come to its end".to_owned(),
            outcome => outcome,
        },
        violations: verdict["violation_count"].as_u64().unwrap_or(0),
        first: violations
            .take(5)
            .map(|v| {
                format!(
                    "{} {}: {}",
                    said(v, "invariant"),
                    said(v, "entity"),
                    said(v, "message")
                )
            })
            .collect(),
    }
}

fn record(
    stage: &Stage,
    folder: &Folder,
    about: &About,
    findings: &[Finding],
    observed: Observed,
    took_ms: u64,
) -> Record {
    let drill = stage.drill;
    let conditions = stage.conditions();
    let changed = conditions.get("changed").cloned().unwrap_or_default();
    let faults = stage.seen.faults.iter().map(|f| {
        let from = (f.at_us - stage.seen.applied_us.1) / 1_000;
        let length = (f.healed_us - f.at_us) / 1_000;
        let hit = f.in_flight.len();
        let held = match f.held.as_slice() {
            [] => String::new(),
            held => format!(", which had {}", held.join(", ")),
        };
        format!(
            "at {from} ms for {length} ms: {} {}{held}, {hit} tasks in flight",
            what(f.act),
            f.victim
        )
    });
    Record {
        topic: drill.topic.to_owned(),
        claim: drill.claim.to_owned(),
        baseline_version: about.version.clone(),
        condition: format!("{} ({changed})", drill.condition),
        conditions,
        execution: Execution {
            command: about.command.clone(),
            began: business::shown(stage.seen.began_us),
            took_ms,
            cluster: format!(
                "{} server(s), {} workers with {} slots each, {ACCOUNTS} accounts",
                1 + drill.shape.peers,
                drill.shape.workers,
                drill.shape.slots
            ),
            faults: faults.collect(),
        },
        evidence: folder.files(),
        // Also of one that was not finished: what would have had to hold.
        pass_when: findings.iter().map(|f| f.pass_when.to_owned()).collect(),
        stop_when: stop::CONDITIONS.map(str::to_owned).to_vec(),
        first_deviation: match (&observed.stopped, &observed.unfinished) {
            (Some(why), _) => Some(why.clone()),
            (None, Some(why)) => Some(format!("not finished: {why}")),
            (None, None) => judge::first_deviation(findings),
        },
        observed_result: observed,
        recovery_replay: format!("sichen drill replay {}", folder.path().display()),
        owner: about.owner.clone(),
        rollback: drill.rollback.to_owned(),
        not_covered: drill.not_covered.iter().map(|s| (*s).to_owned()).collect(),
    }
}

/// When it is, for the name of a folder.
#[must_use]
pub fn stamp() -> String {
    let at = jiff::Timestamp::from_microsecond(wall_us()).unwrap_or_default();
    at.strftime("%Y%m%dT%H%M%SZ").to_string()
}
