//! Waiting for the end of a run, and following what a server does.
//!
//! # Invariants
//! - Waiting outlasts a server that is restarted, or whose store is. Who waits or follows is told
//!   that it is away, and after [`PATIENCE`] that it can't be known any more.
//! - Without `--timeout` there is no other end; what is waited for is said meanwhile, less and less often.
//! - `--timeout` ends it in time, also when the server takes questions and answers none.
//! - Ctrl-C ends the waiting, never the run.
//!
//! # Not here
//! Starting a run ([`super::run`]); following output ([`super::logs`]) and events ([`super::events`]),
//! which share the patience.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use sichen_server::rest::wire::{Explanation, Run, Why};

use super::{explain, offers};
use crate::client::Client;
use crate::clock::{Deadline, Stopwatch};
use crate::failure::{Exit, Failure};
use crate::output::{self, Output};

/// How long a server may be away while something there is waited for.
const PATIENCE: Duration = Duration::from_secs(300);
/// The longest that one question is waited for: a server that is well answers much sooner.
const ANSWER: Duration = Duration::from_secs(10);
/// The least of it, whatever is left of a time limit.
const LEAST: Duration = Duration::from_secs(1);

/// Whether and how long to wait for the end of a run.
#[derive(Clone, Copy, Debug, Args)]
pub struct Waiting {
    /// Wait for its end; the exit code then says whether it succeeded.
    #[arg(long)]
    pub wait: bool,
    /// Wait at most this long, such as `10m` [default: until it has ended].
    #[arg(long, value_name = "LENGTH", requires = "wait", value_parser = length)]
    pub timeout: Option<Duration>,
    /// No progress bar; where there is none anyway, no line now and then in its place.
    #[arg(long)]
    pub no_progress: bool,
}

impl Waiting {
    /// Waits for an answer no longer than may be waited in all.
    pub async fn in_time<T>(
        self,
        answer: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        match self.timeout {
            Some(limit) => within(limit.max(LEAST), answer).await,
            None => answer.await,
        }
    }
}

/// Reads a length of time.
pub fn length(text: &str) -> Result<Duration, String> {
    let length: sichen_core::document::Duration = text.parse()?;
    Duration::try_from(length.0).map_err(|e| e.to_string())
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
    let on_terminal = std::io::stderr().is_terminal();
    let bar = match on_terminal && !waiting.no_progress {
        true => ProgressBar::no_length(),
        false => ProgressBar::hidden(),
    };
    let lines = !on_terminal && !waiting.no_progress;
    let run = wait_showing(client, run, waiting.timeout, &bar, lines).await;
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
    wait_showing(client, run, timeout, &ProgressBar::hidden(), true).await
}

async fn wait_showing(
    client: &Client,
    id: u64,
    timeout: Option<Duration>,
    bar: &ProgressBar,
    lines: bool,
) -> Result<Run, Failure> {
    tokio::select! {
        run = watched(client, id, timeout, bar, lines) => run,
        _ = tokio::signal::ctrl_c() => {
            let text = format!("interrupted: run {id} was not seen to end\n  {}", goes_on(id));
            Err(Failure::new(Exit::Interrupted, text))
        }
    }
}

/// What one may do about a run that is not waited for any more.
fn goes_on(run: u64) -> String {
    format!(
        "it goes on without this command: `sichen describe run {run}` shows it, `sichen cancel {run}` \
         stops it"
    )
}

async fn watched(
    client: &Client,
    id: u64,
    timeout: Option<Duration>,
    bar: &ProgressBar,
    lines: bool,
) -> Result<Run, Failure> {
    let text = id.to_string();
    let path = ["runs", text.as_str()];
    let end = Deadline::after(timeout);
    let mut absence = Absence::new();
    let mut pause = Duration::from_millis(50);
    let mut watch = Watch::new(lines);
    loop {
        let limit = end.left().map_or(ANSWER, |left| left.clamp(LEAST, ANSWER));
        match within(limit, client.get::<Run>(&path, Vec::new())).await {
            Ok(run) if is_closed(&run) => return Ok(run),
            Ok(run) => {
                bar.suspend(|| absence.over());
                show(bar, &run);
                if let Some(news) = watch.news(client, &run).await {
                    bar.suspend(|| output::remark(&news));
                }
            }
            Err(failure) => {
                bar.suspend(|| absence.bear(failure))
                    .map_err(|mut failure| {
                        failure.text.push_str("\n  ");
                        failure.text.push_str(&lost(id, failure.exit));
                        failure
                    })?;
                bar.set_message("the server does not answer; waiting for it");
            }
        }
        if end.has_passed() {
            return Err(out_of_time(client, id, &absence).await);
        }
        let left = end.left().unwrap_or(pause);
        tokio::time::sleep(pause.min(left)).await;
        pause = (pause * 3 / 2).min(Duration::from_secs(1));
    }
}

/// What is known of a run that can't be followed any more.
fn lost(run: u64, exit: Exit) -> String {
    match exit {
        Exit::NotFound => format!(
            "run {run} was there when the waiting began: its history was removed, or its server has \
             another store now"
        ),
        _ => format!("whether run {run} has ended is not known; {}", goes_on(run)),
    }
}

async fn out_of_time(client: &Client, id: u64, absence: &Absence) -> Failure {
    if absence.lasts() {
        let text = format!(
            "SC7007: run {id} was not seen to end in time, and the server does not answer now\n  {}",
            goes_on(id)
        );
        return Failure::new(Exit::TimedOut, text);
    }
    let mut text = format!(
        "SC7007: run {id} has not ended in time; it goes on \
         (`sichen describe run {id}`, `sichen cancel {id}`)"
    );
    if let Some(explanation) = explained(client, id).await {
        text.push_str("\n  ");
        text.push_str(explain::reasons(&explanation).trim());
    }
    Failure::new(Exit::TimedOut, text)
}

/// No answer within `limit` is as good as none.
async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => {
            let text = format!(
                "SC7003: the server gave no answer within {} seconds",
                limit.as_secs()
            );
            Err(Failure::new(Exit::Unavailable, text))
        }
    }
}

/// A server's absence while something there is waited for or followed.
#[derive(Debug)]
pub struct Absence {
    patience: Duration,
    until: Option<Deadline>,
}

impl Absence {
    /// None yet.
    pub fn new() -> Self {
        Self::of(PATIENCE)
    }

    fn of(patience: Duration) -> Self {
        Self {
            patience,
            until: None,
        }
    }

    /// Bears it that the server can't answer now, and says so once.
    ///
    /// # Errors
    /// The failure itself, if it is of another kind, or has lasted too long.
    pub fn bear(&mut self, mut failure: Failure) -> Result<(), Failure> {
        if failure.exit != Exit::Unavailable {
            return Err(failure);
        }
        let shown = HumanDuration(self.patience);
        match self.until {
            None => {
                self.until = Some(Deadline::after(Some(self.patience)));
                output::remark(&format!(
                    "{}; waiting for it, {shown} at most",
                    failure.line()
                ));
                Ok(())
            }
            Some(until) if until.has_passed() => {
                failure.text.push_str(&format!(
                    "\n  so for {shown}; it is not waited for any longer"
                ));
                Err(failure)
            }
            Some(_) => Ok(()),
        }
    }

    /// The server has answered.
    pub fn over(&mut self) {
        if self.until.take().is_some() {
            output::remark("the server answers again");
        }
    }

    fn lasts(&self) -> bool {
        self.until.is_some()
    }
}

/// Says now and then, less and less often, what a run waits for.
struct Watch {
    since: Stopwatch,
    look: Paces,
    line: Option<Paces>,
    said: String,
}

/// Instants that lie further and further apart.
struct Paces {
    next: Deadline,
    pause: Duration,
    longest: Duration,
}

impl Paces {
    fn new(first: Duration, longest: Duration) -> Self {
        Self {
            next: Deadline::after(Some(first)),
            pause: first,
            longest,
        }
    }

    /// Whether one has come; then the next one is twice as far as this one was.
    fn due(&mut self) -> bool {
        let due = self.next.has_passed();
        if due {
            self.pause = (self.pause * 2).min(self.longest);
            self.next = Deadline::after(Some(self.pause));
        }
        due
    }
}

impl Watch {
    fn new(lines: bool) -> Self {
        let seconds = Duration::from_secs;
        Self {
            since: Stopwatch::start(),
            look: Paces::new(seconds(3), seconds(60)),
            line: lines.then(|| Paces::new(seconds(15), seconds(600))),
            said: String::new(),
        }
    }

    /// What is to be said now: a reason that it does not run, when it is another than before; else
    /// how far it is, where no bar shows it.
    async fn news(&mut self, client: &Client, run: &Run) -> Option<String> {
        if self.look.due()
            && let Some(why) = why(client, run).await
        {
            // The text of a wait that ends by itself counts its seconds.
            let key = if blocks(&why) { &why.text } else { &why.word };
            if self.said != *key {
                self.said.clone_from(key);
                return Some(format!("still waiting: {}", why.text));
            }
        }
        self.line.as_mut()?.due().then(|| {
            let s = run.shards;
            let waited = HumanDuration(self.since.elapsed());
            let closed = s.total.saturating_sub(s.open);
            let shards = output::count(u64::from(s.total), "shard");
            format!(
                "still waiting after {waited}: run {} is {}, {closed} of {shards} ended",
                run.key, run.state
            )
        })
    }
}

/// Why a run is not further, if somebody must do something about it or nothing of it runs.
async fn why(client: &Client, run: &Run) -> Option<Why> {
    let mut reasons = explained(client, run.id).await?.reasons.into_iter();
    let passes = |why: &Why| matches!(why.word.as_str(), "dispatching" | "settling");
    let nothing_runs = run.state == "scheduled";
    reasons.find(|why| blocks(why) || nothing_runs && !passes(why))
}

/// Whether it lasts until somebody does something.
fn blocks(why: &Why) -> bool {
    offers::BLOCKED.contains(&why.word.as_str())
}

/// What the server says of why a run is not further, if it says anything.
async fn explained(client: &Client, run: u64) -> Option<Explanation> {
    let run = run.to_string();
    let path = ["runs", run.as_str(), "explain"];
    within(ANSWER / 4, client.get(&path, Vec::new())).await.ok()
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
        // All of what was counted is not all while shards are open that have counted nothing yet.
        Some(expected) if expected > items.done => (items.done, expected),
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

#[cfg(test)]
#[path = "waiting_tests.rs"]
mod tests;
