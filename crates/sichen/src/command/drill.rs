//! `sichen drill`: rehearsed failures on a cluster of this very program.
//!
//! # Not here
//! The drills (`sichen-drill`).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use sichen_core::document::Duration as Length;
use sichen_drill::drill::{Drill, Need, Store, Variant};
use sichen_drill::ground::{self, packets};
use sichen_drill::outcome::{self, About, Report};
use sichen_drill::record::Outcome;
use sichen_drill::schedule::{self, Mistake, Plan};
use sichen_drill::stage::Order;
use sichen_drill::{catalogue, folder, record, task};

use crate::failure::{Exit, Failure};
use crate::output::{self, Output};
use crate::store_at::StoreAt;

/// Stopped by one of the drill's own conditions.
const STOPPED: u8 = 3;

/// Rehearse failures on a cluster of this program, and leave the evidence in a folder.
///
/// A drill starts a server and workers of its own, puts a load on them, changes one condition, and
/// judges what the tasks themselves wrote down. It touches nothing but its own processes and files.
/// Exit code 0: all that must hold holds; 1: something does not; 3: stopped, because a condition to
/// stop held.
#[derive(Debug, Subcommand)]
pub enum Command {
    List(List),
    Run(Run),
    Replay(Replay),
    Compare(Compare),
    /// The task of a drill (started by its workers).
    #[command(hide = true)]
    Task,
    /// Holds up packets of a network namespace (started by a drill).
    #[command(hide = true)]
    Packets {
        ms: u16,
        jitter_ms: u16,
    },
}

/// List the drills: what each is about, and what it needs.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    output: Output,
}

/// Carry out a drill.
#[derive(Debug, Args)]
pub struct Run {
    /// Which, by its name in `sichen drill list`.
    #[arg(value_name = "NAME")]
    name: String,
    /// When the faults come is drawn from this; the same seed gives the same faults.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How long the load lasts: faults come again and again [default: one fault].
    #[arg(long, value_name = "LENGTH")]
    duration: Option<Length>,
    /// How long the condition is changed: not at all, a little shorter than the bound that it is
    /// measured by, longer, much longer.
    #[arg(long, value_enum, default_value = "failure", conflicts_with = "batch")]
    variant: VariantName,
    /// All four variants, one after the other: four records that differ in that alone.
    #[arg(long)]
    batch: bool,
    /// Keep the server's truth in this PostgreSQL database, in a schema of the drill's own
    /// (sichen_drill_store) that is dropped at the end: postgres://USER@HOST:PORT/DATABASE. Without it
    /// drills of PostgreSQL start a server of their own, others use SQLite.
    #[arg(long, value_name = "URL")]
    store: Option<StoreAt>,
    /// A new directory for the evidence [default: drill-NAME-TIME here].
    #[arg(long, value_name = "DIR")]
    evidence: Option<PathBuf>,
    /// Make a deliberate mistake, which the drill must find.
    #[arg(long, hide = true, value_enum)]
    mistake: Option<MistakeName>,
    #[command(flatten)]
    output: Output,
}

/// Carry out a drill again, with the very faults of an earlier one.
#[derive(Debug, Args)]
pub struct Replay {
    /// The folder that it left.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// As of `sichen drill run`: an address is not kept in the folder.
    #[arg(long, value_name = "URL")]
    store: Option<StoreAt>,
    /// A new directory for the evidence [default: drill-NAME-TIME here].
    #[arg(long, value_name = "DIR")]
    evidence: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// Compare two drills that differ in one condition at most.
#[derive(Debug, Args)]
pub struct Compare {
    /// The folder of one.
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The folder of the other.
    #[arg(value_name = "B")]
    b: PathBuf,
    #[command(flatten)]
    output: Output,
}

/// [`Variant`], on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum VariantName {
    Normal,
    Boundary,
    Failure,
    Recovery,
}

/// [`Mistake`], on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum MistakeName {
    NoFence,
    ForgetStep,
}

/// Carries out `sichen drill`.
pub async fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::List(args) => list(args),
        Command::Run(args) => carry_out(args).await,
        Command::Replay(args) => replay(args).await,
        Command::Compare(args) => compare(&args),
        Command::Task => task::run()
            .map(|()| ExitCode::SUCCESS)
            .map_err(|e| Failure::new(Exit::Failed, e.to_string())),
        Command::Packets { ms, jitter_ms } => packets::run(ms, jitter_ms)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|e| Failure::new(Exit::Failed, e.to_string())),
    }
}

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    topic: &'static str,
    claim: &'static str,
    condition: &'static str,
    needs: Vec<&'static str>,
    /// Why it can't be carried out here.
    #[serde(skip_serializing_if = "Option::is_none")]
    cannot: Option<String>,
}

fn needs(drill: &Drill) -> Vec<&'static str> {
    let store = match drill.store {
        Store::Any | Store::Sqlite => None,
        Store::Postgres => Some("PostgreSQL"),
    };
    let more = drill.needs.iter().map(|need| match need {
        Need::Root => "root",
        Need::PostgresPrograms => "the programs of a PostgreSQL server",
        Need::Faketime => "libfaketime",
        Need::Netns => "ip",
        Need::Iptables => "iptables",
    });
    store.into_iter().chain(more).collect()
}

fn list(args: List) -> Result<ExitCode, Failure> {
    let rows = catalogue::ALL.iter().map(|drill| Row {
        name: drill.name,
        topic: drill.topic,
        claim: drill.claim,
        condition: drill.condition,
        needs: needs(drill),
        cannot: ground::cannot(drill, None),
    });
    let rows: Vec<Row> = rows.collect();
    args.output.show(&rows, |rows| {
        let cells = rows.iter().map(|r| {
            let needs = match r.needs.as_slice() {
                [] => "-".to_owned(),
                needs => needs.join(", "),
            };
            [r.name.to_owned(), needs, r.topic.to_owned()]
        });
        output::table(["NAME", "NEEDS", "ABOUT"], cells)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn failure(error: sichen_drill::Error) -> Failure {
    use sichen_drill::Error as E;
    let exit = match error {
        E::Refused(_) | E::Folder { .. } => Exit::Usage,
        E::Incomparable(_) => Exit::Refused,
        E::Stage(_) => Exit::Failed,
    };
    Failure::new(exit, error.to_string())
}

fn found(name: &str) -> Result<&'static Drill, Failure> {
    catalogue::find(name).ok_or_else(|| {
        let known: Vec<String> = catalogue::ALL.iter().map(|d| d.name.to_owned()).collect();
        let near = crate::names::near(name, &known);
        let hint = match near.is_empty() {
            true => String::new(),
            false => format!("; did you mean {}?", near.join(" or ")),
        };
        Failure::usage(format!(
            "SC7050: there is no drill {name:?}{hint}\n  `sichen drill list` lists them"
        ))
    })
}

async fn carry_out(args: Run) -> Result<ExitCode, Failure> {
    let drill = found(&args.name)?;
    let duration_ms = args
        .duration
        .map(|d| u64::try_from(d.0.as_millis()).unwrap_or(u64::MAX));
    let variant = match args.variant {
        VariantName::Normal => Variant::Normal,
        VariantName::Boundary => Variant::Boundary,
        VariantName::Failure => Variant::Failure,
        VariantName::Recovery => Variant::Recovery,
    };
    let mistake = args.mistake.map(|m| match m {
        MistakeName::NoFence => Mistake::NoFence,
        MistakeName::ForgetStep => Mistake::ForgetStep,
    });
    let planned = |variant, duration_ms| Plan {
        mistake,
        ..schedule::plan(drill, variant, args.seed, duration_ms)
    };
    let store = address(args.store.clone())?;
    let place = args
        .evidence
        .clone()
        .unwrap_or_else(|| new_place(drill.name));
    if !args.batch {
        let report = one(planned(variant, duration_ms), &store, &place, args.output).await?;
        args.output.show(&report, text)?;
        return Ok(code(report.verdict));
    }
    // All of one length, so that they differ in one condition alone.
    let longest = schedule::usual_duration_ms(drill, Variant::Recovery);
    let duration_ms = Some(duration_ms.unwrap_or(0).max(longest));
    let mut reports = Vec::new();
    for variant in Variant::ALL {
        let place = place.join(variant.name());
        reports.push(one(planned(variant, duration_ms), &store, &place, args.output).await?);
        let last = reports.last().map(|report| report.verdict);
        if matches!(last, Some(Outcome::Stopped | Outcome::Unfinished)) {
            break;
        }
    }
    let worst = reports.iter().map(|r| r.verdict).max_by_key(|v| match v {
        Outcome::Passed => 0,
        Outcome::Failed => 1,
        Outcome::Unfinished => 2,
        Outcome::Stopped => 3,
    });
    args.output.show(&reports, |reports| {
        reports.iter().map(text).collect::<Vec<_>>().join("\n")
    })?;
    Ok(code(worst.unwrap_or(Outcome::Failed)))
}

async fn replay(args: Replay) -> Result<ExitCode, Failure> {
    let plan = folder::plan(&args.folder).map_err(failure)?;
    let store = address(args.store.clone())?;
    let place = args
        .evidence
        .clone()
        .unwrap_or_else(|| new_place(&plan.drill));
    let report = one(plan, &store, &place, args.output).await?;
    args.output.show(&report, text)?;
    Ok(code(report.verdict))
}

/// The address of a PostgreSQL database.
fn address(store: Option<StoreAt>) -> Result<Option<String>, Failure> {
    match store {
        None => Ok(None),
        Some(StoreAt::Postgres(url)) => Ok(Some(url)),
        Some(StoreAt::Directory(_)) => Err(Failure::usage(
            "SC7050: a drill on SQLite uses a directory of its own; --store names a PostgreSQL database, \
             postgres://USER@HOST:PORT/DATABASE",
        )),
    }
}

/// One drill, to its end or its interruption.
async fn one(
    plan: Plan,
    store: &Option<String>,
    place: &std::path::Path,
    output: Output,
) -> Result<Report, Failure> {
    let order = Order {
        exe: std::env::current_exe()?,
        plan,
        store: store.clone(),
        say: if output.is_table() { say } else { |_| {} },
    };
    let words: Vec<String> = std::env::args().skip(1).collect();
    let about = About {
        command: format!("sichen {}", words.join(" ")),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        owner: std::env::var("USER").unwrap_or_else(|_| "nobody is named (USER)".to_owned()),
    };
    let interrupted = async {
        if tokio::signal::ctrl_c().await.is_err() {
            // Nobody can interrupt it.
            std::future::pending::<()>().await;
        }
    };
    let carried_out = outcome::carry_out(&order, &about, place, interrupted).await;
    carried_out.map_err(failure)
}

fn say(text: &str) {
    output::remark(text);
}

fn new_place(name: &str) -> PathBuf {
    PathBuf::from(format!("drill-{name}-{}", outcome::stamp()))
}

fn code(verdict: Outcome) -> ExitCode {
    match verdict {
        Outcome::Passed => ExitCode::SUCCESS,
        Outcome::Failed | Outcome::Unfinished => Exit::Failed.into(),
        Outcome::Stopped => ExitCode::from(STOPPED),
    }
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    // One that was stopped half-way says nothing of what holds at the end.
    let findings = report.findings.iter().filter(|_| report.stopped.is_none());
    for finding in findings {
        let word = if finding.ok { "ok    " } else { "NOT SO" };
        text.push_str(&format!(
            "{word}  {}: {}\n",
            finding.pass_when, finding.seen
        ));
    }
    let word = match report.verdict {
        Outcome::Passed => "PASSED",
        Outcome::Failed => "FAILED",
        Outcome::Stopped => "STOPPED",
        Outcome::Unfinished => "NOT FINISHED",
    };
    if let Some(why) = &report.stopped {
        text.push_str(&format!("stopped: {why}\n"));
    }
    if let Some(why) = &report.unfinished {
        text.push_str(&format!("not finished: {why}\n"));
    }
    text.push_str(&format!(
        "{word}: {} ({}) in {:.1} s\n  evidence {}\n",
        report.drill,
        report.variant,
        std::time::Duration::from_millis(report.took_ms).as_secs_f64(),
        report.evidence.display()
    ));
    text
}

fn compare(args: &Compare) -> Result<ExitCode, Failure> {
    let a = folder::record(&args.a).map_err(failure)?;
    let b = folder::record(&args.b).map_err(failure)?;
    let compared = record::compare(&a, &b).map_err(failure)?;
    args.output.show(&compared, |c| {
        let differs = match &c.differs {
            Some((name, x, y)) => format!("{name}: {x} / {y}"),
            None => "no condition".to_owned(),
        };
        let mut text = format!(
            "differs: {differs}\nverdict: {:?} / {:?}\n",
            c.verdicts.0, c.verdicts.1
        );
        let rows = c
            .measures
            .iter()
            .map(|(name, x, y)| [name.clone(), x.clone(), y.clone()]);
        text.push_str(&output::table(["MEASURED", "A", "B"], rows));
        for (x, y) in &c.findings {
            text.push_str(&format!("A {x}\nB {y}\n"));
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}
