//! `sichen due --file`: what would be decided now, without a server.
//!
//! The file is YAML or JSON: a job's case or a CronJob's. Their fields and the answer's are in
//! `docs/guide/due.md`, which a test holds against this file.
//!
//! # Not here
//! The decision itself (`sichen_core::schedule::due`, and `cronjob` for a CronJob's).

use std::io::{Read as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use clap::Args as ClapArgs;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use sichen_core::document::{CalendarDocument, Duration};
use sichen_core::schedule::calendar::{Calendar, Use};
use sichen_core::schedule::cron::{Dialect, Fold, Gap};
use sichen_core::schedule::cronjob::{self, Action, CronJob};
use sichen_core::schedule::overlap::{Active, Blocker, Overlap, Verdict, judge};
use sichen_core::schedule::{
    CatchUp, DueInput, DuePlan, PeriodRule, PlannedRun, Rate, Reason, Schedule, due, hash_of_key,
};

/// Bytes of a case file.
const MAX_FILE: u64 = 1 << 20;

/// Show what would be decided for a schedule, a mark, running runs and a clock.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The case, YAML or JSON; `-` reads the standard input.
    #[arg(long, value_name = "CASE")]
    pub file: PathBuf,
}

/// Writes the decision to `out` as JSON. A file that can't be read and a case that is refused exit with 2.
///
/// # Errors
/// `out` cannot be written to.
pub fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    match read(args).and_then(|text| decide(&text)) {
        Ok(answer) => {
            writeln!(out, "{answer:#}")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            Ok(ExitCode::from(2))
        }
    }
}

fn read(args: &Args) -> anyhow::Result<String> {
    let mut text = String::new();
    let shown = args.file.display();
    let file: Box<dyn std::io::Read> = if args.file.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(&args.file).with_context(|| format!("cannot open {shown}"))?)
    };
    let read = file
        .take(MAX_FILE + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {shown}"))?;
    if read as u64 > MAX_FILE {
        bail!("{shown} is longer than {MAX_FILE} bytes");
    }
    Ok(text)
}

/// The answer to a case.
///
/// # Errors
/// What is wrong with it.
pub fn decide(text: &str) -> anyhow::Result<Value> {
    let mut case: Value = serde_saphyr::from_str(text).context("the case cannot be read")?;
    if let Some(input) = case.get_mut("input") {
        case = input.take();
    }
    if case.get("concurrencyPolicy").is_some() || case.get("schedule").is_some() {
        let case: CronJobCase = serde_json::from_value(case).context("the CronJob case")?;
        return Ok(decide_cronjob(&case));
    }
    if let Some(schedules) = case.get_mut("schedules").and_then(Value::as_array_mut) {
        for (at, schedule) in schedules.iter_mut().enumerate() {
            gather(schedule).with_context(|| format!("schedules[{at}]"))?;
        }
    }
    if let Some(calendar) = case.get_mut("calendar").filter(|c| c.get("kind").is_some()) {
        *calendar = rules(calendar.take())?;
    }
    let case: JobCase = serde_json::from_value(case).context("the case")?;
    decide_job(&case)
}

/// Takes what a job document writes beside `cron` or `every` into it, so that either form is read.
fn gather(schedule: &mut Value) -> anyhow::Result<()> {
    let Some(fields) = schedule.as_object_mut() else {
        return Ok(());
    };
    if let Some(expr) = fields.get("cron").filter(|expr| expr.is_string()).cloned() {
        let mut cron = json!({ "expr": expr });
        for beside in ["dialect", "gap", "fold"] {
            if let Some(value) = fields.remove(beside) {
                cron[beside] = value;
            }
        }
        fields.insert("cron".to_owned(), cron);
    }
    if let Some(period) = fields.get("every").cloned()
        && let Some(phase) = fields.remove("phase")
    {
        let phase: Duration = serde_json::from_value(phase).context("phase")?;
        let anchor = Timestamp::UNIX_EPOCH.checked_add(phase.0)?;
        fields.insert(
            "every".to_owned(),
            json!({ "period": period, "anchor": anchor }),
        );
    }
    let kinds = ["cron", "every", "at", "after"];
    if let Some(odd) = fields.keys().find(|key| !kinds.contains(&key.as_str())) {
        bail!(
            "`{odd}` is not read here; a schedule is `cron` (with `dialect`, `gap`, `fold`), `every` \
             (with `phase`), `at` or `after`"
        );
    }
    Ok(())
}

/// The rules that a calendar's document stands for.
fn rules(document: Value) -> anyhow::Result<Value> {
    let document: CalendarDocument = serde_json::from_value(document).context("the calendar")?;
    let rules = document.calendar(1).map_err(|problems| {
        let lines = problems
            .iter()
            .map(|p| format!("{}: {}", p.path, p.message));
        anyhow!("the calendar: {}", lines.collect::<Vec<_>>().join("; "))
    })?;
    Ok(serde_json::to_value(rules)?)
}

#[derive(Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    expecting = "a mapping with the fields of a case"
)]
struct JobCase {
    schedules: Vec<ScheduleCase>,
    #[serde(default = "utc")]
    time_zone: String,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
    calendar: Option<Calendar>,
    calendar_use: Option<Use>,
    #[serde(default)]
    key: String,
    #[serde(default)]
    catch_up: CatchUpCase,
    starting_deadline: Option<Duration>,
    catch_up_rate: Option<u32>,
    on_time: Option<Duration>,
    jitter: Option<Duration>,
    #[serde(default)]
    period: PeriodCase,
    #[serde(default)]
    overlap: OverlapCase,
    #[serde(default)]
    paused: bool,
    high_water: Timestamp,
    now: Timestamp,
    until: Option<Timestamp>,
    pending: Option<Timestamp>,
    #[serde(default)]
    running: Vec<RunningCase>,
    #[serde(default)]
    queued: u32,
    limit: Option<u32>,
}

fn utc() -> String {
    "UTC".to_owned()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ScheduleCase {
    Cron(CronCase),
    Every(EveryCase),
    At(Timestamp),
    After(Duration),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum CronCase {
    Text(String),
    Full(FullCronCase),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FullCronCase {
    expr: String,
    dialect: Option<Dialect>,
    gap: Option<Gap>,
    fold: Option<Fold>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum EveryCase {
    Period(Duration),
    Full { period: Duration, anchor: Timestamp },
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum CatchUpCase {
    None,
    #[default]
    Latest,
    All(u32),
    Coalesce,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum PeriodCase {
    #[default]
    Elapsed,
    #[serde(alias = "civil-day")]
    CivilDay,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum OverlapCase {
    Allow,
    #[default]
    Forbid,
    Replace,
    Queue(QueueCase),
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
enum QueueCase {
    Limit(u32),
    Full { limit: u32 },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RunningCase {
    id: Option<String>,
    planned: Option<Timestamp>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CronJobCase {
    schedule: String,
    time_zone: Option<String>,
    #[serde(default)]
    suspend: bool,
    #[serde(default)]
    concurrency_policy: ConcurrencyCase,
    starting_deadline_seconds: Option<i64>,
    creation_time: Timestamp,
    last_schedule_time: Option<Timestamp>,
    now: Timestamp,
    #[serde(default)]
    active_jobs: Vec<ActiveJobCase>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
enum ConcurrencyCase {
    #[default]
    Allow,
    Forbid,
    Replace,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ActiveJobCase {
    planned_time: Option<Timestamp>,
    #[serde(default = "yes")]
    in_status_list: bool,
}

fn yes() -> bool {
    true
}

fn decide_job(case: &JobCase) -> anyhow::Result<Value> {
    let schedules = case
        .schedules
        .iter()
        .enumerate()
        .map(|(at, schedule)| build(schedule, case).with_context(|| format!("schedules[{at}]")))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut input = DueInput::new(&schedules, case.high_water, case.now);
    input.pending = case.pending;
    input.until = case.until;
    input.paused = case.paused;
    input.catch_up = match case.catch_up {
        CatchUpCase::None => CatchUp::None,
        CatchUpCase::Latest => CatchUp::Latest,
        CatchUpCase::All(count) => CatchUp::All(count),
        CatchUpCase::Coalesce => CatchUp::Coalesce,
    };
    input.window = case.starting_deadline.map(|window| window.0);
    input.on_time = case.on_time.map_or(input.on_time, |on_time| on_time.0);
    input.jitter = case.jitter.map_or(SignedDuration::ZERO, |jitter| jitter.0);
    input.jitter_seed = hash_of_key(&case.key);
    input.period = match case.period {
        PeriodCase::Elapsed => PeriodRule::Elapsed,
        PeriodCase::CivilDay => PeriodRule::CivilDay,
    };
    input.rate = case.catch_up_rate.map(|per_minute| Rate {
        per_minute,
        spread: false,
    });
    input.limit = case.limit.unwrap_or(input.limit);
    let overlap = match case.overlap {
        OverlapCase::Allow => Overlap::Allow,
        OverlapCase::Forbid => Overlap::Forbid,
        OverlapCase::Replace => Overlap::Replace,
        OverlapCase::Queue(QueueCase::Limit(limit) | QueueCase::Full { limit }) => {
            Overlap::Queue { limit }
        }
    };
    let plan = due(&input);
    let id = |run: &RunningCase| match (&run.id, run.planned) {
        (Some(id), _) => id.clone(),
        (None, Some(planned)) => planned.to_string(),
        (None, None) => "a run without a name".to_owned(),
    };
    let active: Vec<_> = case.running.iter().map(id).collect();
    // An instant that has its run already is no news (one run per instant).
    let (there, new): (Vec<&PlannedRun>, Vec<&PlannedRun>) = plan.runs.iter().partition(|run| {
        case.running
            .iter()
            .any(|other| other.planned == Some(run.planned))
    });
    let planned: Vec<_> = new.iter().map(|run| run.planned).collect();
    let verdicts = judge(overlap, 1, Active::all(&active, case.queued), &planned);
    let mut decisions = skips(&plan);
    decisions.extend(there.iter().map(|run| {
        (
            run.planned,
            json!({"planned": run.planned, "action": "skip", "reason": "already_started"}),
        )
    }));
    decisions.extend(
        new.iter()
            .zip(&verdicts)
            .map(|(run, verdict)| (run.planned, judged(run, verdict))),
    );
    Ok(answer(decisions, &plan))
}

fn build(schedule: &ScheduleCase, case: &JobCase) -> anyhow::Result<Schedule> {
    let schedule = match schedule {
        ScheduleCase::Cron(cron) => {
            let (expr, dialect, gap, fold) = match cron {
                CronCase::Text(expr) => (expr, None, None, None),
                CronCase::Full(full) => (&full.expr, full.dialect, full.gap, full.fold),
            };
            let dialect = dialect.unwrap_or_else(|| Dialect::of(expr));
            let (own_gap, own_fold) = dialect.default_policy();
            let hash = Some(hash_of_key(&case.key));
            Schedule::cron(expr, dialect, &case.time_zone, hash, Timestamp::UNIX_EPOCH)?
                .with_policy(gap.unwrap_or(own_gap), fold.unwrap_or(own_fold))
        }
        ScheduleCase::Every(EveryCase::Period(period)) => {
            Schedule::every(period.0, Timestamp::UNIX_EPOCH)?.shown_in(&case.time_zone)?
        }
        ScheduleCase::Every(EveryCase::Full { period, anchor }) => {
            Schedule::every(period.0, *anchor)?.shown_in(&case.time_zone)?
        }
        ScheduleCase::At(at) => Schedule::at(*at).shown_in(&case.time_zone)?,
        ScheduleCase::After(delay) => Schedule::after(delay.0)?.shown_in(&case.time_zone)?,
    };
    let schedule = schedule.within(case.start, case.end)?;
    match (&case.calendar, case.calendar_use) {
        (Some(calendar), usage) => Ok(schedule.on(
            Arc::new(calendar.clone()),
            usage.unwrap_or(Use::WorkingDays),
        )?),
        (None, Some(_)) => bail!("`calendarUse` needs a `calendar`"),
        (None, None) => Ok(schedule),
    }
}

type Decision = (Timestamp, Value);

fn skips(plan: &DuePlan) -> Vec<Decision> {
    plan.skips
        .iter()
        .map(|skip| {
            let mut decision = json!({
                "planned": skip.from, "to": skip.to, "count": skip.count,
                "action": "skip", "reason": skip.reason.as_str(),
            });
            if let Reason::Coalesced { into } = skip.reason {
                decision["into"] = json!(into);
            }
            (skip.from, decision)
        })
        .collect()
}

fn judged(run: &PlannedRun, verdict: &Verdict<String>) -> Value {
    let blocker = |blocker: &Blocker<String>| match blocker {
        Blocker::Run(id) => json!(id),
        Blocker::Planned(planned) => json!(planned),
    };
    let mut decision = json!({
        "planned": run.planned,
        "reason": if run.covers > 1 { "coalesced" } else if run.late { "catch_up" } else { "due" },
    });
    match verdict {
        Verdict::Run => decision["action"] = json!("run"),
        Verdict::Replace { victims } => {
            decision["action"] = json!("replace");
            decision["victims"] = json!(victims);
        }
        Verdict::Queue { behind, place } => {
            decision["action"] = json!("queue");
            decision["reason"] = json!("overlap");
            decision["blockedBy"] = blocker(behind);
            decision["place"] = json!(place);
        }
        Verdict::Skip { blocked_by } => {
            decision["action"] = json!("skip");
            decision["reason"] = json!("overlap");
            decision["blockedBy"] = blocker(blocked_by);
            return decision;
        }
    }
    decision["civil"] = json!(run.civil);
    decision["notBefore"] = json!(run.not_before);
    decision["periodStart"] = json!(run.period_start);
    decision["periodEnd"] = json!(run.period_end);
    decision["covers"] = json!(run.covers);
    decision
}

fn answer(mut decisions: Vec<Decision>, plan: &DuePlan) -> Value {
    decisions.sort_by_key(|(at, _)| *at);
    let missed: u64 = plan
        .skips
        .iter()
        .filter(|skip| skip.reason != Reason::Paused)
        .map(|skip| skip.count)
        .sum();
    json!({
        "decisions": decisions.into_iter().map(|(_, decision)| decision).collect::<Vec<_>>(),
        "missed": missed,
        "high_water": plan.high_water,
        "next_wake": plan.next_wake,
        "more": plan.more,
    })
}

fn decide_cronjob(case: &CronJobCase) -> Value {
    let job = CronJob {
        schedule: case.schedule.clone(),
        time_zone: case.time_zone.clone(),
        suspend: case.suspend,
        concurrency: match case.concurrency_policy {
            ConcurrencyCase::Allow => Overlap::Allow,
            ConcurrencyCase::Forbid => Overlap::Forbid,
            ConcurrencyCase::Replace => Overlap::Replace,
        },
        starting_deadline: case
            .starting_deadline_seconds
            .map(SignedDuration::from_secs),
        created_at: case.creation_time,
        last_scheduled: case.last_schedule_time,
        active: case
            .active_jobs
            .iter()
            .filter(|job| job.in_status_list)
            .map(|job| job.planned_time)
            .collect(),
    };
    let step = cronjob::step(&job, case.now);
    let (in_their_words, in_ours) = match step.action {
        Action::Create => ("create", "run"),
        Action::Replace => ("replace", "replace"),
        Action::None => ("none", "skip"),
    };
    let mut decisions = step.plan.as_ref().map(skips).unwrap_or_default();
    if let Some(planned) = step.planned {
        let decision =
            json!({"planned": planned, "action": in_ours, "reason": step.because.as_str()});
        decisions.push((planned, decision));
    }
    decisions.sort_by_key(|(at, _)| *at);
    json!({
        "decisions": decisions.into_iter().map(|(_, decision)| decision).collect::<Vec<_>>(),
        "missed": step.missed,
        "next_wake": step.plan.as_ref().and_then(|plan| plan.next_wake),
        "cronjob": {
            "action": in_their_words,
            "reason": step.because.as_str(),
            "planned": step.planned,
            "missed": step.reckoned.as_str(),
            "requeue_after_s": step.requeue_after.map(|after| after.as_millis() as f64 / 1_000.0),
        },
    })
}

#[cfg(test)]
#[path = "due_tests.rs"]
mod tests;
