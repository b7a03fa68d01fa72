//! `sichen audit`: which planned times have neither a run nor a record, and which records have no
//! planned time.
//!
//! # Not here
//! Which instants a schedule has (`sichen-audit`), what the history says (`sichen_check::audit`).

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use sichen_audit::ledger::{Finding, Record};
use sichen_check::FinalRow;
use sichen_check::audit::{Audited, Records};
use sichen_core::ids::JobUid;
use sichen_core::schedule::zone_by_name;
use sichen_server::rest::export::{self, Line};

use crate::client::{Client, Connection};
use crate::failure::{Exit, Failure};
use crate::names;
use crate::output::{self, Output};
use crate::store_at::StoreAt;

/// How long a running server may take to decide a planned time before its absence is a finding.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// Compare the planned times of jobs with what was recorded: each has a run or a record of why not.
///
/// The planned times are worked out anew from every revision of a job, by code that shares nothing
/// with the scheduler. Every difference is a finding: missing, extra, moved, miscounted. Exits with
/// 0 only if there is none and everything could be judged.
#[derive(Debug, Args)]
pub struct Audit {
    /// The job, `name` or `namespace/name`.
    #[arg(
        value_name = "JOB",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    job: Option<String>,
    /// Every job, deleted ones too.
    #[arg(long)]
    all: bool,
    /// The first time that counts: an instant, or a date in the job's zone [default: its creation].
    #[arg(long, value_name = "TIME", value_parser = bound)]
    from: Option<Bound>,
    /// The first time that does not; one that has not come is cut at what has [default: what is
    /// decided; of a running server, no less far than a minute ago].
    #[arg(long, value_name = "TIME", value_parser = bound)]
    to: Option<Bound>,
    /// Audit the data directory of a server that is stopped, without writing to it.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "store"])]
    data: Option<PathBuf>,
    /// Audit a database itself, by its URL.
    #[arg(long, value_name = "URL", conflicts_with = "file")]
    store: Option<StoreAt>,
    /// Audit what `sichen export` wrote.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// An instant, or a date that begins when the job's zone says.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    Instant(Timestamp),
    Date(Date),
}

pub(super) fn bound(text: &str) -> Result<Bound, String> {
    let date = text.parse().map(Bound::Date);
    // A date alone would also be read as the beginning of an instant.
    let plain = text.len() <= 10;
    let instant = || text.parse().map(Bound::Instant);
    let read = if plain { date } else { instant() };
    read.map_err(|_| "write an instant like 2026-11-01T00:00:00+08:00, or a date".to_owned())
}

impl Bound {
    /// Where it is.
    pub(super) fn at(self, zone: &TimeZone) -> Timestamp {
        match self {
            Bound::Instant(at) => at,
            Bound::Date(date) => {
                let start = date.to_zoned_datetime(zone.clone());
                start.map_or(Timestamp::MIN, |start| start.timestamp())
            }
        }
    }

    /// The last microsecond before it.
    fn before(self, zone: &TimeZone) -> Timestamp {
        let at = self.at(zone);
        at.checked_sub(SignedDuration::from_micros(1)).unwrap_or(at)
    }
}

/// The answer for programs.
#[derive(Debug, Serialize)]
struct View {
    /// `ok`, `differs`, or `unknown` if nothing differs but not all could be judged.
    outcome: &'static str,
    finding_count: u64,
    jobs: Vec<JobView>,
}

#[derive(Debug, Serialize)]
struct JobView {
    namespace: String,
    name: String,
    uid: String,
    deleted: bool,
    time_zone: String,
    from: String,
    to: String,
    expected: u64,
    with_run: u64,
    with_decision: u64,
    finding_count: u64,
    findings: Vec<FindingView>,
    not_judged: Vec<NotJudged>,
}

#[derive(Debug, Default, Serialize)]
struct FindingView {
    kind: &'static str,
    /// The planned time; of what is too much, where it stands.
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<u64>,
}

#[derive(Debug, Serialize)]
struct NotJudged {
    from: String,
    to: String,
    reason: String,
}

/// Carries out `sichen audit`.
pub async fn run(args: Audit) -> Result<ExitCode, Failure> {
    let at = args.store.clone();
    let at = at.or_else(|| args.data.clone().map(StoreAt::Directory));
    let (records, live) = match (&at, &args.file) {
        (Some(at), _) => (Records::of(&at.dump().await?), false),
        (None, Some(path)) => (of_file(path)?, false),
        (None, None) => (of_server(&args.connection).await?, true),
    };
    let jobs = wanted(&records, args.job.as_deref())?;
    // Of a store that nobody serves only what was asked for by name is overdue.
    let overdue = (live || args.to.is_some()).then(now);
    let audited = jobs.into_iter().filter_map(|uid| {
        let zone = zone_by_name(&records.time_zone(uid)).unwrap_or(TimeZone::UTC);
        let from = args.from.map(|from| from.before(&zone));
        let to = args.to.map(|to| to.before(&zone));
        records
            .audit(uid, from, to, overdue)
            .map(|audited| (audited, zone))
    });
    let jobs: Vec<JobView> = audited.map(|(audited, zone)| job(audited, &zone)).collect();
    let finding_count = jobs.iter().map(|job| job.finding_count).sum();
    let outcome = match finding_count {
        0 if jobs.iter().all(|job| job.not_judged.is_empty()) => "ok",
        0 => "unknown",
        _ => "differs",
    };
    let view = View {
        outcome,
        finding_count,
        jobs,
    };
    args.output.show(&view, |view| output::prose(&text(view)))?;
    Ok(if outcome == "ok" {
        ExitCode::SUCCESS
    } else {
        Exit::Failed.into()
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "what a running server should have decided by now, with a minute to spare"
)]
fn now() -> Timestamp {
    let now = Timestamp::now();
    now.checked_sub(PATIENCE).unwrap_or(now)
}

fn of_file(path: &Path) -> Result<Records, Failure> {
    let unreadable =
        |e: String| Failure::usage(format!("SC7005: {} can't be read: {e}", path.display()));
    let file = File::open(path).map_err(|e| unreadable(e.to_string()))?;
    let mut records = Records::default();
    let mut said = false;
    for (number, line) in (1u64..).zip(export::bounded(BufReader::new(file))) {
        let placed = |e: String| unreadable(format!("line {number}: {e}"));
        let line = line.map_err(|e| placed(e.to_string()))?;
        said |= take(&mut records, &line).map_err(|e| placed(e.to_string()))?;
    }
    if said {
        Ok(records)
    } else {
        Err(Failure::usage(format!(
            "SC7005: {} holds no event and no row: nothing can be said of it\n  an export that was \
             broken off looks like this; write it again with `sichen export`",
            path.display()
        )))
    }
}

async fn of_server(connection: &Connection) -> Result<Records, Failure> {
    let client = Client::new(connection)?;
    let mut lines = client.stream(&["export"], Vec::new()).await?;
    let mut records = Records::default();
    while let Some(line) = lines.next().await? {
        let bad = |e: String| Failure::new(Exit::Failed, format!("SC7004: {e}"));
        let line = std::str::from_utf8(&line).map_err(|e| bad(e.to_string()))?;
        take(&mut records, line).map_err(|e| bad(e.to_string()))?;
    }
    Ok(records)
}

/// Takes a line; whether it says anything of the history.
fn take(records: &mut Records, line: &str) -> Result<bool, export::Error> {
    let line = export::parse(line)?;
    let says = !matches!(line, Line::Head(_));
    match line {
        Line::Event(event) => records.event(&event),
        Line::Job(job) => records.row(&FinalRow::Job(&job)),
        Line::Revision(job, revision, document) => records.revision(job, revision, &document),
        Line::Calendar(name, version, document) => records.calendar(&name, version, &document),
        Line::Run(run) => records.row(&FinalRow::Run(&run)),
        Line::Decision(job, decision) => records.row(&FinalRow::Decision(job, &decision)),
        Line::Head(_)
        | Line::Shard(_)
        | Line::Session(_)
        | Line::Duty(_)
        | Line::Backfill(_)
        | Line::Hold(_) => {}
    }
    Ok(says)
}

/// The jobs that are meant: all, or the live one of a name, or else deleted ones of that name.
fn wanted(records: &Records, job: Option<&str>) -> Result<Vec<JobUid>, Failure> {
    let Some(text) = job else {
        return Ok(records.jobs().map(|(uid, ..)| uid).collect());
    };
    let wanted = names::job(text)?;
    let of_name = records.jobs().filter(|(_, name, _)| *name == Some(&wanted));
    let (deleted, live): (Vec<_>, Vec<_>) = of_name.partition(|(_, _, deleted)| *deleted);
    let meant = if live.is_empty() { deleted } else { live };
    if meant.is_empty() {
        let known: Vec<String> = records
            .jobs()
            .filter_map(|(_, name, _)| name.map(ToString::to_string))
            .collect();
        let near = names::near(&wanted.to_string(), &known);
        let mut text = format!(
            "SC5001: there is no job {wanted:?} in this history",
            wanted = text
        );
        if !near.is_empty() {
            text.push_str(&format!("\n  did you mean {}?", near.join(", ")));
        }
        return Err(Failure::new(Exit::NotFound, text));
    }
    Ok(meant.into_iter().map(|(uid, ..)| uid).collect())
}

fn job(audited: Audited, zone: &TimeZone) -> JobView {
    let Audited { name, report, .. } = audited;
    let (namespace, name) = match name {
        Some(name) => (name.namespace.to_string(), name.name.to_string()),
        None => (String::new(), audited.uid.to_string()),
    };
    // Bounds are shown as they are given: the first instant that counts, the first that does not.
    let after = |at: Timestamp| at.checked_add(SignedDuration::from_micros(1)).unwrap_or(at);
    let shown = |us: i64| {
        shown(
            Timestamp::from_microsecond(us).unwrap_or(Timestamp::MIN),
            zone,
        )
    };
    JobView {
        namespace,
        name,
        uid: audited.uid.to_string(),
        deleted: audited.deleted,
        from: self::shown(after(audited.after), zone),
        to: self::shown(after(audited.through), zone),
        time_zone: audited.time_zone,
        expected: report.expected,
        with_run: report.with_run,
        with_decision: report.with_decision,
        finding_count: report.finding_count,
        findings: report
            .findings
            .into_iter()
            .map(|f| finding(f, &shown))
            .collect(),
        not_judged: report
            .unjudged
            .into_iter()
            .map(|(after, through, reason)| NotJudged {
                from: shown(after + 1),
                to: shown(through + 1),
                reason,
            })
            .collect(),
    }
}

fn shown(at: Timestamp, zone: &TimeZone) -> String {
    let at = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
    at.display_with_offset(zone.to_offset(at)).to_string()
}

fn finding(finding: Finding, shown: &dyn Fn(i64) -> String) -> FindingView {
    let at = shown(finding.at_us());
    let of = |kind, record: Record| match record {
        Record::Run(run) => FindingView {
            kind,
            run: Some(run),
            ..FindingView::default()
        },
        Record::Decision(reason) => FindingView {
            kind,
            reason: Some(reason),
            ..FindingView::default()
        },
    };
    let kind = |kind| FindingView {
        kind,
        ..FindingView::default()
    };
    let view = match finding {
        Finding::Missing { revision, .. } => FindingView {
            revision: Some(revision),
            ..kind("missing")
        },
        Finding::Extra { record, .. } => of("extra", record),
        Finding::Moved {
            recorded_us,
            record,
            ..
        } => FindingView {
            recorded_at: Some(shown(recorded_us)),
            ..of("moved", record)
        },
        Finding::Miscounted {
            to_us,
            reason,
            recorded,
            expected,
            ..
        } => FindingView {
            to: Some(shown(to_us)),
            reason: Some(reason),
            expected: Some(expected),
            recorded: Some(recorded),
            ..kind("miscounted")
        },
        Finding::GapUnrecorded { count, .. } => FindingView {
            expected: Some(count),
            ..kind("gap_unrecorded")
        },
        Finding::Undecided { .. } => kind("undecided"),
    };
    FindingView { at, ..view }
}

fn text(view: &View) -> String {
    let mut text = String::new();
    for job in &view.jobs {
        text.push_str(&one(job));
    }
    let planned = view.jobs.iter().map(|job| job.expected).sum();
    let end = match view.outcome {
        "ok" => "COMPLETE: every planned time has a run or a record of why it has none",
        "unknown" => "UNDECIDED: nothing differs, but not everything could be judged",
        _ => "DIFFERS: what was recorded is not what the schedules say",
    };
    text.push_str(&format!(
        "{end}\n  {}, {}, {}\n",
        output::count(view.jobs.len() as u64, "job"),
        output::count(planned, "planned time"),
        output::count(view.finding_count, "finding"),
    ));
    text
}

fn one(job: &JobView) -> String {
    let name = names::shown(&job.namespace, &job.name);
    let deleted = if job.deleted { " (deleted)" } else { "" };
    let mut text = format!(
        "job {name}{deleted}: {} from {} to {}, {} with a run, {} recorded as not run\n",
        output::count(job.expected, "planned time"),
        output::instant(&job.from, 0),
        output::instant(&job.to, 0),
        output::grouped(job.with_run),
        output::grouped(job.with_decision),
    );
    for finding in &job.findings {
        text.push_str(&format!("  {}\n", line(finding)));
    }
    let more = job.finding_count - job.findings.len() as u64;
    if more > 0 {
        text.push_str(&format!("  … and {} more\n", output::grouped(more)));
    }
    for stretch in &job.not_judged {
        text.push_str(&format!(
            "  not judged: {} to {}: {}\n",
            stretch.from, stretch.to, stretch.reason
        ));
    }
    text
}

fn line(finding: &FindingView) -> String {
    let FindingView { kind, at, .. } = finding;
    let record = match (finding.run, &finding.reason) {
        (Some(run), _) => format!("run {run}"),
        (None, Some(reason)) => format!("the record `{reason}`"),
        (None, None) => String::new(),
    };
    let recorded = finding.recorded.unwrap_or(0);
    let expected = finding.expected.unwrap_or(0);
    let says = match *kind {
        "missing" => "planned, but has neither a run nor a record".to_owned(),
        "extra" => format!("{record} stands here, but no time is planned for it"),
        "moved" => format!(
            "planned, but {record} stands at {} instead",
            finding.recorded_at.as_deref().unwrap_or("")
        ),
        "miscounted" => format!(
            "{record} through {} says {}, the schedule has {}",
            finding.to.as_deref().unwrap_or(""),
            output::count(recorded, "planned time"),
            output::grouped(expected),
        ),
        "gap_unrecorded" => format!(
            "the clock change leaves {} out, and nothing says so",
            output::count(expected, "planned time")
        ),
        _ => "planned and past, but not decided yet".to_owned(),
    };
    format!("{kind:<10} {at}  {says}")
}
