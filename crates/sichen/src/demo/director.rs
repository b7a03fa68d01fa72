//! Starts the runs, watches them, and does the damage at the worst moment it can find.
//!
//! # Invariants
//! - What it decides by comes from the workers' notices and the server's API, never from sleeping.
//! - Everything has a limit: a run that does not close in time ends the demo with an error.
//!
//! # Not here
//! The damage's plan ([`super::chaos`]), the processes (`crew`), the verdict (`verify`).

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use sichen_server::rest::wire;
use tokio::sync::mpsc;

use super::chaos::Chaos;
use super::crew::Crew;
use super::database::Database;
use super::facts::{Facts, RefusedWrite, RunFacts, Takeover};
use super::protocol::{Line, Notice};
use super::screen::Screen;
use super::settle;
use crate::client::Client;
use crate::clock::Deadline;
use crate::failure::Failure;

/// The job of the example document.
pub const JOB: [&str; 3] = ["jobs", "default", "daily-settlement"];
/// How often the server is asked.
const POLL: Duration = Duration::from_millis(200);

/// A run to be started.
#[derive(Clone, Debug)]
pub struct Order {
    pub title: &'static str,
    pub planned_at: String,
    pub period: wire::Period,
    pub batch: u32,
    pub pace_ms: u64,
    /// The run must close within this time.
    pub limit: Duration,
}

/// A shard as the director sees it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub from: i64,
    /// Last id.
    pub upper: i64,
    /// Entries that the run has to settle in it.
    pub entries: u64,
    pub done: u64,
    /// Newest commit in the business database.
    pub checkpoint: Option<i64>,
    pub token: u64,
    /// Who opened the fence last.
    pub pid: u32,
    pub worker: String,
    /// What the server shows.
    pub display: Option<i64>,
    pub state: String,
}

/// The run that is going on.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub key: String,
    pub shards: BTreeMap<i32, Seen>,
    pub entries: u64,
    pub done: u64,
}

impl View {
    /// Share of the run that is settled, in percent.
    pub fn percent(&self) -> u64 {
        self.done.saturating_mul(100) / self.entries.max(1)
    }
}

/// The director of one demo.
#[derive(Debug)]
pub struct Director {
    pub crew: Crew,
    pub screen: Screen,
    pub ledger: Database,
    pub facts: Facts,
    client: Client,
    told: mpsc::Receiver<Line>,
}

impl Director {
    pub fn new(
        crew: Crew,
        told: mpsc::Receiver<Line>,
        client: Client,
        ledger: Database,
        screen: Screen,
    ) -> Director {
        Director {
            crew,
            screen,
            ledger,
            facts: Facts::default(),
            client,
            told,
        }
    }

    /// Hands the job document to the server.
    pub async fn apply(&self, document: &str) -> anyhow::Result<()> {
        let path = ["jobs:apply"];
        let applied: wire::Applied = self
            .client
            .post_documents(&path, document.to_owned())
            .await
            .map_err(words)?;
        anyhow::ensure!(
            applied.documents.len() == 1,
            "the example holds one document"
        );
        Ok(())
    }

    /// Starts a run and sees it through to its end.
    pub async fn see_through(
        &mut self,
        order: &Order,
        chaos: &mut Option<Chaos>,
    ) -> anyhow::Result<()> {
        let started = Stopwatch::start();
        let parameters = [
            ("batch", order.batch.into()),
            ("pace_ms", order.pace_ms.into()),
        ];
        let wanted = wire::StartRun {
            planned_at: Some(order.planned_at.clone()),
            period: Some(order.period.clone()),
            parameters: parameters
                .map(|(name, value)| (name.to_owned(), value))
                .into_iter()
                .collect(),
            ..wire::StartRun::default()
        };
        let path = [JOB[0], JOB[1], JOB[2], "runs"];
        let run: wire::StartedRun = self
            .client
            .post(&path, Some(&wanted), true)
            .await
            .map_err(words)?;
        let id = run.id.to_string();
        let deadline = Deadline::after(Some(order.limit));
        let mut view = View {
            key: run.key.clone(),
            ..View::default()
        };
        let mut ticks = tokio::time::interval(POLL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let state = loop {
            tokio::select! {
                line = self.told.recv() => {
                    let line = line.context("all workers are gone")?;
                    self.note(&mut view, &line);
                    if let Some(chaos) = chaos {
                        chaos.on_notice(self, &view, &line).await?;
                    }
                }
                _ = ticks.tick() => {
                    self.crew.server_runs()?;
                    for worker in &mut self.crew.workers {
                        if worker.has_ended()? {
                            let text = format!("{} (pid {}) has ended", worker.name, worker.pid);
                            self.screen.event(&text);
                        }
                    }
                    if view.entries == 0 {
                        self.discover(&id, order, &mut view).await?;
                    } else {
                        self.refresh(&id, &mut view).await?;
                    }
                    if let Some(chaos) = chaos && view.entries > 0 {
                        chaos.on_tick(self, &view).await?;
                    }
                    let run: wire::Run = self.get(&["runs", &id]).await?;
                    if !matches!(run.state.as_str(), "scheduled" | "running") {
                        break run.state;
                    }
                    if deadline.has_passed() {
                        bail!("{} has not ended within {:?}: {}", run.key, order.limit, open_shards(&view));
                    }
                }
            }
        };
        // What the workers told before the run's end may still be on its way.
        while let Ok(line) = self.told.try_recv() {
            self.note(&mut view, &line);
            if let Some(chaos) = chaos {
                chaos.on_notice(self, &view, &line).await?;
            }
        }
        // The frozen worker's commit may come after the end: others have settled its shard.
        let patience = Deadline::after(Some(Duration::from_secs(20)));
        while let Some(chaos) = chaos.as_mut().filter(|chaos| chaos.awaits_commit())
            && !patience.has_passed()
        {
            if let Some(line) = self.next_notice(POLL).await? {
                self.note(&mut view, &line);
                chaos.on_notice(self, &view, &line).await?;
            }
        }
        self.screen.end();
        self.screen.event(&format!(
            "{}: {state} after {:.1} s",
            run.key,
            started.seconds()
        ));
        self.facts.runs.push(RunFacts {
            key: run.key,
            state,
            shards: u32::try_from(view.shards.len()).unwrap_or(u32::MAX),
            first_id: view
                .shards
                .values()
                .map(|shard| shard.from)
                .min()
                .unwrap_or(0),
            last_id: view
                .shards
                .values()
                .map(|shard| shard.upper)
                .max()
                .unwrap_or(0),
            took_ms: started.milliseconds(),
        });
        Ok(())
    }

    /// Waits for one notice outside of a run's loop, at most `limit`.
    async fn next_notice(&mut self, limit: Duration) -> anyhow::Result<Option<Line>> {
        match tokio::time::timeout(limit, self.told.recv()).await {
            Ok(Some(line)) => Ok(Some(line)),
            Ok(None) => bail!("all workers are gone"),
            Err(_) => Ok(None),
        }
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, path: &[&str]) -> anyhow::Result<T> {
        self.client.get(path, Vec::new()).await.map_err(words)
    }

    async fn shards_of(&self, id: &str) -> anyhow::Result<Vec<wire::Shard>> {
        let page: wire::ShardPage = self
            .client
            .get(&["runs", id, "shards"], vec![("limit", "1000".to_owned())])
            .await
            .map_err(words)?;
        Ok(page
            .items
            .into_iter()
            .filter(|shard| shard.no >= 0)
            .collect())
    }

    /// Finds the shards once the plan step has been answered.
    async fn discover(&mut self, id: &str, order: &Order, view: &mut View) -> anyhow::Result<()> {
        let shards = self.shards_of(id).await?;
        if shards.is_empty() {
            return Ok(());
        }
        for shard in &shards {
            let wire::Part::Range { from, to } = shard.part else {
                continue;
            };
            // Notices may have come first; what they said of the shard stays.
            let (counted, left) = settle::count(&self.ledger, from, from - 1, to - 1, &view.key)?;
            let seen = view.shards.entry(shard.no).or_default();
            (seen.from, seen.upper, seen.entries) = (from, to - 1, left + counted);
        }
        view.entries = view.shards.values().map(|shard| shard.entries).sum();
        let lengths = view
            .shards
            .values()
            .map(|shard| shard.entries)
            .collect::<Vec<_>>();
        self.screen.begin(
            &format!("{} {}", order.title, view.key),
            view.entries,
            &lengths,
        );
        Ok(())
    }

    async fn refresh(&mut self, id: &str, view: &mut View) -> anyhow::Result<()> {
        for shard in self.shards_of(id).await? {
            let seen = view.shards.entry(shard.no).or_default();
            seen.display = shard
                .checkpoint
                .and_then(|shown| shown.position.parse().ok());
            seen.state = shard.state;
        }
        Ok(())
    }

    /// Takes a notice into the view and the facts, and shows it.
    fn note(&mut self, view: &mut View, line: &Line) {
        if line.run != view.key {
            return;
        }
        let seen = view.shards.entry(line.shard).or_default();
        let at = usize::try_from(line.shard).unwrap_or(usize::MAX);
        match &line.notice {
            Notice::Opened {
                checkpoint,
                display,
                after,
                ..
            } => {
                (seen.token, seen.pid) = (line.token, line.pid);
                seen.worker.clone_from(&line.worker);
                if line.attempt > 1 {
                    self.screen.event(&format!(
                        "takeover  shard {} by {} (pid {}), token {}: goes on behind id {after}; \
                         the business database says {}, Sichen's copy said {}",
                        line.shard,
                        line.worker,
                        line.pid,
                        short(line.token),
                        shown(*checkpoint),
                        shown(*display),
                    ));
                    self.facts.takeovers.push(Takeover {
                        shard: line.shard,
                        attempt: line.attempt,
                        token: line.token,
                        worker: line.worker.clone(),
                        pid: line.pid,
                        resumed_after: *after,
                        checkpoint: *checkpoint,
                        display: *display,
                    });
                }
            }
            Notice::Committed {
                checkpoint,
                entries,
            } => {
                seen.checkpoint = seen.checkpoint.max(Some(*checkpoint));
                seen.done += entries;
                view.done += entries;
            }
            Notice::Refused { last_id, database } => {
                self.screen.event(&format!(
                    "refused   {} (pid {}), token {}, shard {}: {database}",
                    line.worker,
                    line.pid,
                    short(line.token),
                    line.shard,
                ));
                self.facts.refused_writes.push(RefusedWrite {
                    worker: line.worker.clone(),
                    pid: line.pid,
                    shard: line.shard,
                    token: line.token,
                    last_id: *last_id,
                    database: database.clone(),
                });
            }
            Notice::Granted | Notice::Holding { .. } | Notice::Settled { .. } => {}
        }
        let note = match &line.notice {
            Notice::Settled { .. } => "settled".to_owned(),
            _ => format!("{} (pid {})", seen.worker, seen.pid),
        };
        let done = seen.done;
        if view.entries > 0 {
            self.screen
                .progress(at, done, &note, view.done, view.entries);
        }
    }
}

/// Tokens as people can compare them: the grant number, after the store's epoch if that is not 0.
pub fn short(token: u64) -> String {
    match (token >> 32, token & 0xffff_ffff) {
        (0, number) => number.to_string(),
        (epoch, number) => format!("{epoch}·{number}"),
    }
}

fn shown(position: Option<i64>) -> String {
    position.map_or_else(|| "nothing yet".to_owned(), |id| id.to_string())
}

fn open_shards(view: &View) -> String {
    let open = view
        .shards
        .iter()
        .filter(|(_, shard)| shard.state != "succeeded");
    open.map(|(no, shard)| format!("shard {no} is {}", shard.state))
        .collect::<Vec<_>>()
        .join(", ")
}

fn words(failure: Failure) -> anyhow::Error {
    anyhow!("{}", failure.text)
}

/// Time that has passed, for people.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "durations shown by the demo")]
    pub fn start() -> Stopwatch {
        Stopwatch(std::time::Instant::now())
    }

    pub fn milliseconds(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
