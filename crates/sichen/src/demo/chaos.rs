//! The plan of the damage: one worker killed, one frozen in the middle of a batch, entries that
//! come late.
//!
//! # Invariants
//! - The kill hits a worker whose business checkpoint is ahead of what Sichen shows of it.
//! - The freeze lasts until the takeover has opened the fence, so the frozen worker's own commit
//!   comes after it. In [`Scene::CommitBeforeOpen`] it lasts until the shard has been granted to
//!   another and the commit comes before that one opens the fence.
//!
//! # Not here
//! Judging what came of it (`verify`, `report`).

use nix::sys::signal::Signal;

use super::director::{Director, Seen, Stopwatch, View, short};
use super::facts::{Frozen, Killed};
use super::ledger::{self, Entry};
use super::protocol::{GO, HOLD, HOLD_OPEN, Line, Notice, OPEN};

/// When the damage begins.
const BEGIN_PERCENT: u64 = 40;
/// Looks at the picture until another worker is asked to hold a batch.
const PATIENT_TICKS: u32 = 10;
/// Entries beyond the run's bound that come while it is at work.
const LATE_ENTRIES: i64 = 3;

/// Which damage is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Scene {
    /// One worker killed, one frozen until its fence has been opened by another.
    #[default]
    Full,
    /// One worker frozen until its shard has been granted to another, which opens the fence only
    /// after the frozen one has committed.
    CommitBeforeOpen,
    /// None; only late entries come.
    Gentle,
}

/// How far the plan has come.
#[derive(Debug, Default)]
pub struct Chaos {
    scene: Scene,
    killed: bool,
    freeze: Freeze,
    inserted: bool,
}

#[derive(Debug, Default)]
enum Freeze {
    #[default]
    NotYet,
    /// Told to hold its next batch.
    Ordered {
        pid: u32,
        ticks: u32,
    },
    /// Stopped by SIGSTOP.
    Stopped {
        since: Stopwatch,
        frozen: Frozen,
    },
    /// Continued; its commit is awaited.
    Thawed {
        frozen: Frozen,
    },
    Done,
}

impl Chaos {
    /// A plan that has not begun.
    pub fn new(scene: Scene) -> Chaos {
        Chaos {
            scene,
            ..Chaos::default()
        }
    }

    /// Whether a worker was continued and its commit has not been heard of.
    pub fn awaits_commit(&self) -> bool {
        matches!(self.freeze, Freeze::Thawed { .. })
    }

    /// Looks at the whole picture.
    pub async fn on_tick(&mut self, director: &mut Director, view: &View) -> anyhow::Result<()> {
        if view.percent() >= BEGIN_PERCENT && self.scene != Scene::Gentle {
            self.order_hold(director, view).await?;
            if !self.killed && self.scene == Scene::Full {
                self.kill(director, view).await?;
            }
        }
        if !self.inserted && view.percent() >= BEGIN_PERCENT / 2 {
            self.insert_late(director, view)?;
        }
        Ok(())
    }

    /// Looks at one notice.
    pub async fn on_notice(
        &mut self,
        director: &mut Director,
        view: &View,
        line: &Line,
    ) -> anyhow::Result<()> {
        if line.run != view.key {
            return Ok(());
        }
        match &line.notice {
            Notice::Holding { last_id, entries } => {
                self.stop(director, view, line, *last_id, *entries).await
            }
            Notice::Opened { .. } => match &self.freeze {
                Freeze::Stopped { frozen, .. }
                    if line.shard == frozen.shard && line.token > frozen.token =>
                {
                    self.go_on(director, line.token).await
                }
                _ => Ok(()),
            },
            Notice::Granted => match &self.freeze {
                Freeze::Stopped { frozen, .. }
                    if line.shard == frozen.shard && line.token > frozen.token =>
                {
                    director.screen.event(&format!(
                        "granted   shard {} to {} (pid {}), token {}: it waits before it opens \
                         the fence",
                        line.shard,
                        line.worker,
                        line.pid,
                        short(line.token),
                    ));
                    self.go_on(director, line.token).await
                }
                _ => Ok(()),
            },
            Notice::Committed { .. } | Notice::Refused { .. } => {
                self.see_late_commit(director, line).await
            }
            Notice::Settled { .. } => Ok(()),
        }
    }

    /// A worker holds a batch that it has read: stop it there.
    async fn stop(
        &mut self,
        director: &mut Director,
        view: &View,
        line: &Line,
        last_id: i64,
        entries: u64,
    ) -> anyhow::Result<()> {
        let Some(worker) = director.crew.by_pid(line.pid).filter(|one| one.alive) else {
            return Ok(());
        };
        if !matches!(self.freeze, Freeze::Ordered { .. }) {
            // A second one that was asked because the first was slow to come to its next batch.
            return worker.order(GO).await;
        }
        worker.signal(Signal::SIGSTOP)?;
        director.screen.event(&format!(
            "SIGSTOP   {} (pid {}), shard {}, token {}: it has read {entries} entries up to id \
             {last_id} and not committed them",
            line.worker,
            line.pid,
            line.shard,
            short(line.token),
        ));
        let frozen = Frozen {
            worker: line.worker.clone(),
            pid: line.pid,
            shard: line.shard,
            token: line.token,
            last_id,
            frozen_ms: 0,
            taken_over_by: 0,
            committed_late: false,
        };
        self.freeze = Freeze::Stopped {
            since: Stopwatch::start(),
            frozen,
        };
        if self.scene == Scene::CommitBeforeOpen {
            director.crew.order_others(line.pid, HOLD_OPEN).await?;
        }
        // On a busy machine it may have lost its session before it came to this batch.
        match view.shards.get(&line.shard) {
            Some(seen) if seen.token > line.token => self.go_on(director, seen.token).await,
            _ => Ok(()),
        }
    }

    /// The fence was opened with a newer token: let the frozen worker commit what it read.
    async fn go_on(&mut self, director: &mut Director, newer: u64) -> anyhow::Result<()> {
        let Freeze::Stopped { since, frozen } = &mut self.freeze else {
            return Ok(());
        };
        frozen.taken_over_by = newer;
        frozen.frozen_ms = since.milliseconds();
        let frozen = frozen.clone();
        let Some(worker) = director.crew.by_pid(frozen.pid) else {
            return Ok(());
        };
        worker.order(GO).await?;
        worker.signal(Signal::SIGCONT)?;
        director.screen.event(&format!(
            "SIGCONT   {} (pid {}) after {:.1} s: it now commits what it read",
            frozen.worker,
            frozen.pid,
            frozen.frozen_ms as f64 / 1000.0,
        ));
        director.facts.frozen = Some(frozen.clone());
        self.freeze = Freeze::Thawed { frozen };
        Ok(())
    }

    /// Whether the frozen worker's commit went through or was refused.
    async fn see_late_commit(
        &mut self,
        director: &mut Director,
        line: &Line,
    ) -> anyhow::Result<()> {
        let Freeze::Thawed { frozen } = &self.freeze else {
            return Ok(());
        };
        if (line.pid, line.shard, line.token) != (frozen.pid, frozen.shard, frozen.token) {
            return Ok(());
        }
        self.freeze = Freeze::Done;
        let early = self.scene == Scene::CommitBeforeOpen;
        if early {
            director.crew.order_others(line.pid, OPEN).await?;
        }
        if matches!(line.notice, Notice::Committed { .. }) {
            director.screen.event(&format!(
                "ACCEPTED  {} (pid {}), shard {}, token {}: {}",
                line.worker,
                line.pid,
                line.shard,
                short(line.token),
                if early {
                    "nobody has opened the fence since, so it counts"
                } else {
                    "a stale write went through"
                },
            ));
            if let Some(frozen) = &mut director.facts.frozen {
                frozen.committed_late = true;
            }
        }
        Ok(())
    }

    /// Tells a worker that is at work to hold its next batch; another one, if it does not come.
    async fn order_hold(&mut self, director: &mut Director, view: &View) -> anyhow::Result<()> {
        let asked = match &mut self.freeze {
            Freeze::NotYet => None,
            Freeze::Ordered { pid, ticks } if *ticks >= PATIENT_TICKS => Some(*pid),
            Freeze::Ordered { ticks, .. } => {
                *ticks += 1;
                return Ok(());
            }
            Freeze::Stopped { .. } | Freeze::Thawed { .. } | Freeze::Done => return Ok(()),
        };
        // One with much left to do, so that it certainly reads another batch.
        let busy = view.shards.values().filter(|shard| {
            shard.state == "running"
                && director.crew.is_alive(shard.pid)
                && Some(shard.pid) != asked
                && shard.done < shard.entries
        });
        let Some(shard) = busy.max_by_key(|shard| shard.entries - shard.done) else {
            return Ok(());
        };
        let pid = shard.pid;
        if let Some(worker) = director.crew.by_pid(pid) {
            worker.order(HOLD).await?;
            self.freeze = Freeze::Ordered { pid, ticks: 0 };
        }
        Ok(())
    }

    /// Kills a worker that has committed more than Sichen has been shown.
    async fn kill(&mut self, director: &mut Director, view: &View) -> anyhow::Result<()> {
        let spared = match &self.freeze {
            Freeze::NotYet => return Ok(()),
            Freeze::Ordered { pid, .. } => Some(*pid),
            Freeze::Stopped { frozen, .. } | Freeze::Thawed { frozen } => Some(frozen.pid),
            Freeze::Done => None,
        };
        let ahead = view.shards.iter().filter(|(_, shard)| {
            shard.state == "running"
                && director.crew.is_alive(shard.pid)
                && Some(shard.pid) != spared
                && shard.checkpoint > shard.display
                && shard.done < shard.entries
        });
        let lag = |shard: &Seen| {
            let shown = shard.display.unwrap_or(shard.from);
            shard.checkpoint.unwrap_or(shown).saturating_sub(shown)
        };
        let Some((no, shard)) = ahead.max_by_key(|(_, shard)| lag(shard)) else {
            return Ok(());
        };
        let Some(worker) = director
            .crew
            .by_pid(shard.pid)
            .filter(|worker| worker.alive)
        else {
            return Ok(());
        };
        worker.kill().await?;
        self.killed = true;
        let killed = Killed {
            worker: shard.worker.clone(),
            pid: shard.pid,
            shard: *no,
            checkpoint: shard.checkpoint,
            display: shard.display,
        };
        director.screen.event(&format!(
            "SIGKILL   {} (pid {}) at {} %: shard {no} has committed up to id {}, Sichen's copy says {}",
            killed.worker,
            killed.pid,
            view.percent(),
            shard.checkpoint.unwrap_or_default(),
            shard.display.map_or_else(|| "nothing yet".to_owned(), |id| id.to_string()),
        ));
        director.facts.killed = Some(killed);
        Ok(())
    }

    /// Lets entries come in: some beyond the run's bound, and one whose id the run has passed.
    fn insert_late(&mut self, director: &mut Director, view: &View) -> anyhow::Result<()> {
        let lowest = view
            .shards
            .values()
            .map(|shard| shard.from)
            .min()
            .unwrap_or(1);
        let highest = view
            .shards
            .values()
            .map(|shard| shard.upper)
            .max()
            .unwrap_or(1);
        let gap = ledger::free_id(&director.ledger, lowest)?.unwrap_or(i64::MAX);
        let passed = view.shards.values().any(|shard| {
            (shard.from..=shard.upper).contains(&gap) && shard.checkpoint >= Some(gap)
        });
        // Without a gap that the run has passed, an id below all others.
        let low = if passed { gap } else { lowest - 1 };
        if !passed && gap <= highest && view.percent() < 90 {
            return Ok(());
        }
        self.late(director, low, highest, "during the run")
    }

    /// Inserts what has not come yet, whatever the run's state.
    pub fn finish(&mut self, director: &mut Director) -> anyhow::Result<()> {
        if self.inserted {
            return Ok(());
        }
        let (_, extremes) = ledger::extent(&director.ledger)?;
        let (lowest, highest) = extremes.unwrap_or((1, 1));
        self.late(
            director,
            lowest - 1,
            highest,
            "after the run, which was quick,",
        )
    }

    fn late(
        &mut self,
        director: &mut Director,
        low: i64,
        highest: i64,
        when: &str,
    ) -> anyhow::Result<()> {
        let ids = (1..=LATE_ENTRIES).filter_map(|n| highest.checked_add(n));
        let ids = ids
            .filter(|id| *id < i64::MAX)
            .chain([low])
            .collect::<Vec<_>>();
        let ledger = &director.ledger;
        ledger.in_transaction(|| {
            for id in &ids {
                let entry = Entry {
                    id: *id,
                    account: "acct-0007".to_owned(),
                    amount_minor: 77_700 + *id % 100,
                    occurred_at: jiff::Timestamp::UNIX_EPOCH,
                };
                anyhow::ensure!(
                    ledger::insert(ledger, &entry)?,
                    "id {id} was free a moment ago"
                );
            }
            Ok(())
        })?;
        director.screen.event(&format!(
            "entries   {} more arrive {when}: {} beyond its bound, and id {low}, which it has passed \
             already",
            ids.len(),
            ids.len() - 1,
        ));
        director.facts.late_low_id = Some(low);
        director.facts.late_entries = ids;
        self.inserted = true;
        Ok(())
    }
}
