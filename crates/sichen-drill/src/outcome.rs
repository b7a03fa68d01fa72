//! What came of a drill: from what was seen to the folder and the record.
//!
//! # Not here
//! The judgement ([`crate::judge`]).

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::clock::{Stopwatch, wall_us};
use crate::database::watch;
use crate::drill::Act;
use crate::error::Error;
use crate::evidence;
use crate::folder::{Folder, PLAN, RECORD};
use crate::judge::{self, Done, Facts, Finding, History};
use crate::load::ACCOUNTS;
use crate::logs;
use crate::record::{Execution, Observed, Outcome, Record};
use crate::schedule::Plan;
use crate::secrets::Secrets;
use crate::stage::{Order, Stage, what};
use crate::timeline::{self, Scene};
use crate::{business, stop};

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

/// Carries a drill out and leaves its folder at `evidence`.
///
/// # Errors
/// [`Error`] if it can't be carried out; one that was carried out and failed is a [`Report`].
pub async fn carry_out(order: &Order, about: &About, evidence: &Path) -> Result<Report, Error> {
    let watch = Stopwatch::start();
    let mut folder = Folder::make(evidence, Secrets::default())?;
    folder.hide(&std::env::var("PGPASSWORD").unwrap_or_default());
    let mut stage = Stage::build(order).await?;
    for secret in &stage.secrets {
        folder.hide(secret);
        folder.hide_address(secret);
    }
    // What was seen so far stays, also if the cluster got stuck.
    let played = stage.play().await;
    if let Err(error) = &played {
        folder.write("error.txt", &error.to_string())?;
        keep(&stage, &mut folder)?;
        folder.write_yaml(PLAN, &stage.plan)?;
        write_database(&stage, &mut folder).await?;
    }
    played?;
    stage.growing.look();
    let database = write_database(&stage, &mut folder).await?;
    conclude(&stage, folder, about, watch, database)
}

/// Files that are kept as they are: of every drill, however it ended.
fn keep(stage: &Stage, folder: &mut Folder) -> Result<logs::Found, Error> {
    let expects = [stage.drill.expects];
    let mut found = logs::Found::default();
    let servers = std::iter::once(&stage.cluster.server).chain(&stage.cluster.peers);
    let members = servers.chain(&stage.cluster.workers);
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
) -> Result<Report, Error> {
    let logs = keep(stage, &mut folder)?;
    let (must, may) = stage.occasions();
    let compared = business::compare(&stage.home.business(), stage.load(), &must, &may);
    let compared = compared.map_err(|e| Error::stage("the business database", e))?;
    let attempts = evidence::attempts(&stage.growing.lines);
    write_evidence(stage, &mut folder, &compared)?;
    let all: Vec<_> = must.iter().chain(&may).cloned().collect();
    folder.write(
        "timeline.svg",
        &timeline::svg(&Scene {
            title: &format!(
                "{} ({}, seed {}): {}",
                stage.plan.drill,
                stage.plan.variant.name(),
                stage.plan.seed,
                stage.drill.topic
            ),
            load_us: (stage.seen.applied_us.0, stage.seen.paused_us.1),
            planned: &all,
            attempts: &attempts,
            faults: &stage.seen.faults,
        }),
    )?;
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
    folder.write_yaml("measures.yaml", &measures)?;
    let stopped = stage.seen.stopped.as_ref();
    let stopped = stopped.map(|(why, ms)| format!("{why} (everything had ended {ms} ms later)"));
    let verdict = match (&stopped, findings.iter().all(|f| f.ok)) {
        (Some(_), _) => Outcome::Stopped,
        (None, true) => Outcome::Passed,
        (None, false) => Outcome::Failed,
    };
    let observed = Observed {
        verdict,
        stopped: stopped.clone(),
        findings: findings.iter().map(line).collect(),
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
        findings,
        measures,
        faults: stage.seen.faults.clone(),
        evidence: folder.path().to_owned(),
        took_ms: watch.ms(),
    })
}

fn write_evidence(
    stage: &Stage,
    folder: &mut Folder,
    compared: &business::Compared,
) -> Result<(), Error> {
    folder.write_yaml(PLAN, &stage.plan)?;
    folder.write_lines("faults.jsonl", &stage.seen.faults)?;
    folder.copy("history.jsonl", &stage.home.history())?;
    let verdict = serde_json::to_string_pretty(&stage.seen.verdict).unwrap_or_default();
    folder.write("verdict.json", &verdict)?;
    folder.write_yaml("business.yaml", compared)
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
            empty if empty.is_empty() => "not judged: the drill was stopped".to_owned(),
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

/// Where the cluster keeps its truth, for people.
fn store(stage: &Stage) -> String {
    match &stage.database {
        None => "sqlite".to_owned(),
        Some(database) if database.own.is_some() => {
            "postgres, a server of the drill's own".to_owned()
        }
        Some(_) => "postgres, a schema of the drill's own".to_owned(),
    }
}

/// All conditions, by name.
fn conditions(stage: &Stage, about: &About) -> BTreeMap<String, String> {
    let Plan {
        drill,
        variant,
        seed,
        duration_ms,
        mistake,
        ..
    } = &stage.plan;
    let shape = &stage.drill.shape;
    let changed = match variant.hold_ms(stage.drill.bound_ms) {
        Some(ms) if stage.drill.fault != Act::Nothing => format!("{}, for {ms} ms", variant.name()),
        _ => variant.name().to_owned(),
    };
    let mut all = vec![
        ("drill", drill.clone()),
        ("changed", changed),
        ("seed", seed.to_string()),
        ("load_ms", duration_ms.to_string()),
        ("program", about.version.clone()),
        ("store", store(stage)),
        (
            "workers",
            format!("{} with {} slots", shape.workers, shape.slots),
        ),
        (
            "machine",
            format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        ),
    ];
    if let Some(mistake) = mistake {
        let value = serde_json::to_value(mistake).unwrap_or_default();
        all.push(("mistake", value.as_str().unwrap_or_default().to_owned()));
    }
    all.into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
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
    let conditions = conditions(stage, about);
    let changed = conditions.get("changed").cloned().unwrap_or_default();
    let faults = stage.seen.faults.iter().map(|f| {
        let from = (f.at_us - stage.seen.applied_us.1) / 1_000;
        let length = (f.healed_us - f.at_us) / 1_000;
        let hit = f.in_flight.len();
        format!(
            "at {from} ms for {length} ms: {} {}, {hit} tasks in flight",
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
        pass_when: findings.iter().map(|f| f.pass_when.to_owned()).collect(),
        stop_when: stop::CONDITIONS.map(str::to_owned).to_vec(),
        first_deviation: match &observed.stopped {
            Some(why) => Some(why.clone()),
            None => judge::first_deviation(findings),
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
