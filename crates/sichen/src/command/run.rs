//! `sichen run`: start a run, and wait for its end.
//!
//! # Invariants
//! - A start carries a key or a planned instant, so sending it twice starts one run.
//! - Waiting outlasts a server that is restarted; Ctrl-C ends the waiting, never the run.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value};
use sichen_core::name::JobName;
use sichen_server::rest::wire::{Explanation, Job, Period, Run, StartRun, StartedRun};

use super::{explain, offers};
use crate::client::{Client, Connection};
use crate::clock::{self, Deadline};
use crate::failure::{Exit, Failure};
use crate::names;
use crate::output::{self, Output};

/// How long a server may be away while its run is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Start a run of a job, or find the one that this planned time or key has already.
#[derive(Debug, Args)]
pub struct StartArgs {
    /// The job, `name` or `namespace/name`, exactly.
    #[arg(value_name = "JOB")]
    pub job: String,
    /// The run of this planned time (RFC 3339), such as 2026-08-30T00:00:00+08:00.
    #[arg(long, value_name = "TIME", conflicts_with = "key")]
    planned: Option<String>,
    /// The idempotency key: the same key again finds the same run [default: a new one].
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// A parameter that takes the place of the document's. The value is JSON, or else text.
    #[arg(long = "param", value_name = "NAME=VALUE")]
    params: Vec<String>,
    /// The period that the run stands for: its start (RFC 3339).
    #[arg(long, value_name = "TIME", requires = "period_end")]
    period_start: Option<String>,
    /// Its end, not included.
    #[arg(long, value_name = "TIME", requires = "period_start")]
    period_end: Option<String>,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Whether and how long to wait for the end of a run.
#[derive(Clone, Copy, Debug, Args)]
pub struct Waiting {
    /// Wait for its end; the exit code then says whether it succeeded.
    #[arg(long)]
    pub wait: bool,
    /// Wait at most this long, such as `10m`.
    #[arg(long, value_name = "LENGTH", requires = "wait", value_parser = length)]
    pub timeout: Option<Duration>,
    /// No progress bar.
    #[arg(long)]
    pub no_progress: bool,
}

/// Reads a length of time.
pub fn length(text: &str) -> Result<Duration, String> {
    let length: sichen_core::document::Duration = text.parse()?;
    Duration::try_from(length.0).map_err(|e| e.to_string())
}

/// Carries out `sichen run`.
pub async fn start(args: StartArgs) -> Result<ExitCode, Failure> {
    let name = names::job(&args.job)?;
    let parameters = parameters(&args.params)?;
    let client = Client::new(&args.connection)?;
    let key = match (&args.planned, args.key) {
        (Some(_), _) => None,
        (None, Some(key)) => Some(key),
        (None, None) => Some(clock::new_key()),
    };
    let requested = if key.is_some() { "key" } else { "planned time" };
    let wanted = StartRun {
        overlap: None,
        planned_at: args.planned,
        key,
        parameters,
        period: args
            .period_start
            .zip(args.period_end)
            .map(|(start, end)| Period { start, end }),
        not_before: None,
    };
    let path = ["jobs", name.namespace.as_str(), name.name.as_str(), "runs"];
    let started: StartedRun = match client.post(&path, Some(&wanted), true).await {
        Ok(started) => started,
        Err(failure) => return Err(client.with_candidates(failure, &name).await),
    };
    if started.created && !wanted.parameters.is_empty() {
        warn_unchecked(&client, &name).await;
    }
    if args.waiting.wait {
        if !started.created {
            output::remark(&format!(
                "{}; waiting for its end",
                already(&started, requested)
            ));
        }
        return finish(&client, started.id, args.waiting, args.output).await;
    }
    args.output.show(&started, |s| {
        if s.created {
            format!("run {} started (number {})\n", s.key, s.id)
        } else {
            format!(
                "{}\n  `sichen describe run {}` shows it\n",
                already(s, requested),
                s.id
            )
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Remarks that nothing tells whether the parameters' names are right.
async fn warn_unchecked(client: &Client, name: &JobName) {
    let path = ["jobs", name.namespace.as_str(), name.name.as_str()];
    let Ok(job) = client.get::<Job>(&path, Vec::new()).await else {
        return;
    };
    let declared = job
        .document
        .is_none_or(|d| d["spec"]["parameters"].is_object());
    if !declared {
        output::remark(&format!(
            "warning: job {name} declares no `parameters`, so the names given were not checked"
        ));
    }
}

/// That the occasion had its run before this request.
fn already(run: &StartedRun, occasion: &str) -> String {
    format!(
        "no new run: this {occasion} has run {} already (number {})",
        run.key, run.id
    )
}

fn parameters(params: &[String]) -> Result<Map<String, Value>, Failure> {
    let mut map = Map::new();
    let mut seen = BTreeSet::new();
    for param in params {
        let Some((name, value)) = param.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            let text = format!("SC7006: --param {param:?} is not NAME=VALUE");
            return Err(Failure::usage(text));
        };
        if !seen.insert(name) {
            let text = format!("SC7006: --param {name} is given twice");
            return Err(Failure::usage(text));
        }
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        map.insert(name.to_owned(), value);
    }
    Ok(map)
}

/// Whether a run has its outcome.
pub fn is_closed(run: &Run) -> bool {
    !matches!(run.state.as_str(), "scheduled" | "running")
}

/// Waits for a run and shows how it ended; the exit code says whether it succeeded.
pub async fn finish(
    client: &Client,
    run: u64,
    waiting: Waiting,
    output: Output,
) -> Result<ExitCode, Failure> {
    let bar = if waiting.no_progress || !std::io::stderr().is_terminal() {
        ProgressBar::hidden()
    } else {
        ProgressBar::no_length()
    };
    let run = wait_showing(client, run, waiting.timeout, &bar).await;
    bar.finish_and_clear();
    let run = run?;
    output.show(&run, ended)?;
    Ok(if run.state == "succeeded" {
        ExitCode::SUCCESS
    } else {
        Exit::Failed.into()
    })
}

fn ended(run: &Run) -> String {
    let s = run.shards;
    let mut text = format!("run {} {}", run.key, run.state);
    if !run.reason.is_empty() {
        text.push_str(&format!(" ({})", run.reason));
    }
    text.push_str(&format!(
        ": {} of {} succeeded",
        s.succeeded,
        output::count(u64::from(s.total), "shard")
    ));
    if s.failed > 0 {
        text.push_str(&format!(", {} failed", s.failed));
    }
    if s.cancelled > 0 {
        text.push_str(&format!(", {} cancelled", s.cancelled));
    }
    text.push('\n');
    if s.failed > 0 {
        text.push_str(&failed_hint(run.id));
    }
    text
}

/// What to do about a run with failed shards.
pub fn failed_hint(run: u64) -> String {
    format!(
        "  `sichen shards {run} --state failed` shows why, `sichen retry {run}` tries them again\n"
    )
}

/// Waits until the run has ended.
pub async fn wait(client: &Client, run: u64, timeout: Option<Duration>) -> Result<Run, Failure> {
    wait_showing(client, run, timeout, &ProgressBar::hidden()).await
}

async fn wait_showing(
    client: &Client,
    id: u64,
    timeout: Option<Duration>,
    bar: &ProgressBar,
) -> Result<Run, Failure> {
    let text = id.to_string();
    let path = ["runs", text.as_str()];
    let end = Deadline::after(timeout);
    let mut away: Option<Deadline> = None;
    let mut pause = Duration::from_millis(50);
    let mut watch = Watch::new();
    loop {
        match client.get::<Run>(&path, Vec::new()).await {
            Ok(run) if is_closed(&run) => return Ok(run),
            Ok(run) => {
                away = None;
                show(bar, &run);
                if let Some(why) = watch.news(client, &text).await {
                    bar.suspend(|| output::remark(&format!("still waiting: {why}")));
                }
            }
            Err(failure) if failure.exit == Exit::Unavailable => {
                let patience = *away.get_or_insert_with(|| Deadline::after(Some(PATIENCE)));
                if patience.has_passed() {
                    return Err(failure);
                }
                bar.set_message("the server can't be reached; waiting for it");
            }
            Err(failure) => return Err(failure),
        }
        if end.has_passed() {
            let mut text = format!(
                "SC7007: run {id} has not ended in time; it goes on \
                 (`sichen describe run {id}`, `sichen cancel {id}`)"
            );
            if let Some(explanation) = explained(client, &id.to_string()).await {
                text.push_str("\n  ");
                text.push_str(explain::reasons(&explanation).trim());
            }
            return Err(Failure::new(Exit::TimedOut, text));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(Duration::from_secs(1));
    }
}

/// Looks, less and less often, whether a run waits for something that does not come by itself.
struct Watch {
    next: Deadline,
    pause: Duration,
    said: String,
}

impl Watch {
    /// The first look, soon; then twice as long between two, up to a minute.
    const FIRST: Duration = Duration::from_secs(3);
    const LONGEST: Duration = Duration::from_secs(60);

    fn new() -> Self {
        Self {
            next: Deadline::after(Some(Self::FIRST)),
            pause: Self::FIRST,
            said: String::new(),
        }
    }

    /// Why it waits, if somebody must do something about it and it was not said before.
    async fn news(&mut self, client: &Client, run: &str) -> Option<String> {
        if !self.next.has_passed() {
            return None;
        }
        self.pause = (self.pause * 2).min(Self::LONGEST);
        self.next = Deadline::after(Some(self.pause));
        let explanation = explained(client, run).await?;
        let mut reasons = explanation.reasons.into_iter();
        let why = reasons.find(|why| offers::BLOCKED.contains(&why.word.as_str()))?;
        if why.text == self.said {
            return None;
        }
        self.said.clone_from(&why.text);
        Some(why.text)
    }
}

/// What the server says of why a run is not further, if it says anything.
async fn explained(client: &Client, run: &str) -> Option<Explanation> {
    client.get(&["runs", run, "explain"], Vec::new()).await.ok()
}

fn show(bar: &ProgressBar, run: &Run) {
    let s = run.shards;
    let items = run.progress.clone().unwrap_or_default();
    if bar.length().is_none() {
        let style = ProgressStyle::with_template("{elapsed_precise} [{bar:40}] {percent}%  {msg}");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(500));
    }
    // By items where the handlers count them, else by shards.
    let closed = u64::from(s.total.saturating_sub(s.open.min(s.total)));
    let (done, all) = match items.expected {
        Some(expected) if expected > 0 => (items.done, expected),
        Some(_) | None => (closed, u64::from(s.total)),
    };
    bar.set_length(all.max(1));
    bar.set_position(done.min(all));
    let mut message = format!("{}: {closed} of {} shards", run.state, s.total);
    if s.failed > 0 {
        message.push_str(&format!(", {} failed", s.failed));
    }
    if items.rate_milli > 0 {
        message.push_str(&format!(", {}/s", items.rate_milli / 1_000));
    }
    if !items.waiting_on.is_empty() {
        message.push_str(&format!(", waiting on {}", items.waiting_on));
    }
    bar.set_message(message);
}
