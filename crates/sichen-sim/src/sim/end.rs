//! Coming to rest, and the judgement.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use sichen_check::audit::Records;
use sichen_check::{Invariant, Oracle, Verdict, check_dump};
use sichen_core::document::Document;
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::{JobUid, fence_key};
use sichen_core::lifecycle::ShardState;
use sichen_core::model::Dump;
use sichen_core::port::ApplyVerdict;
use sichen_sdk::session::Lease;

use super::nemesis::LOST_COMMIT;
use super::{Ev, REST_US, STUCK_US, Sim, instant, micros};
use crate::options::Options;

/// How a simulation ended.
#[derive(Debug)]
pub struct Outcome {
    /// What was simulated.
    pub options: Options,
    /// Of everything that happened, in order.
    pub hash: u64,
    /// The checker's verdict on the history.
    pub verdict: Verdict,
    /// What the simulator itself found wrong (the user's store, overlaps).
    pub problems: Vec<String>,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Faults that hit a live lease, an open transaction or an unsent report, by what they hit.
    pub hits: BTreeMap<&'static str, u64>,
    /// Length in simulated seconds.
    pub simulated_secs: i64,
    /// Events of the simulation.
    pub events: u64,
    /// Calls to the store, and answers lost after their commit.
    pub calls: (u64, u64),
    /// Stale writes that the user's store refused, and attempts that went on from a position.
    pub user: (u64, u64),
    /// From each grant to its start on the worker, in microseconds, from [`SETTLED_US`] after the
    /// heal on.
    pub pickups_us: Vec<i64>,
    /// The trace as JSON lines, if it was kept.
    pub trace: Vec<String>,
    /// The store's event log.
    pub history: Vec<Event>,
}

impl Outcome {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.verdict.is_ok() && self.problems.is_empty()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {} after {} s: {}",
            self.options.seed, self.simulated_secs, self.verdict
        )?;
        for problem in self.problems.iter().take(20) {
            writeln!(f, "  {problem}")?;
        }
        write!(f, "  {}", self.options)
    }
}

/// Jobs fire on a grid of their period that starts in 1970: computed here by division alone.
struct Grid(BTreeMap<JobUid, i64>, Records);

impl Oracle for Grid {
    fn instants(&self, job: JobUid, from: Timestamp, to: Timestamp) -> Option<Vec<Timestamp>> {
        let period = *self.0.get(&job)?;
        if period == 0 {
            // The ends of its runs make its instants: only the log has them.
            return self.1.instants(job, from, to);
        }
        let first = from.as_second().div_euclid(period) + 1;
        let last = to.as_second().div_euclid(period);
        (first..=last)
            .map(|k| Timestamp::from_second(k * period).ok())
            .collect()
    }
}

/// Sessions and leases of before the heal have run out by then.
const SETTLED_US: i64 = 20_000_000;

impl Sim {
    fn pickups(&self, dump: &Dump) -> Vec<i64> {
        let calm = self.options.unsafe_secs * 1_000_000 + SETTLED_US;
        let started = |e: &Event| {
            let Entity::Shard(key) = &e.entity else {
                return None;
            };
            let lease = Lease {
                run_id: key.run.0,
                no: key.no.0,
                token: e.token?.0,
            };
            let granted = micros(e.at);
            let at = self.started.get(&lease)?;
            (e.kind == Kind::AttemptGranted && granted >= calm).then_some(at - granted)
        };
        dump.events.iter().filter_map(started).collect()
    }

    /// Closes every job's schedule; a job that somebody else is writing is tried again.
    pub(super) fn pause_jobs(&mut self) {
        let now = instant(self.now);
        let mut open = false;
        let uids: Vec<JobUid> = self.periods.keys().copied().collect();
        for uid in uids {
            let Ok(Some(job)) = self.at_once(self.store.get_job_by_uid(uid)) else {
                continue;
            };
            if job.paused {
                continue;
            }
            let document: Document =
                serde_json::from_str(&job.document).expect("written by the simulation");
            let timing = document
                .timing(uid, &self.calendars_of(&document))
                .expect("written by the simulation");
            let timing = timing.of(&job);
            let plan = timing.due(job.high_water, now, false);
            let more = plan.more;
            let mut closing =
                sichen_engine::trigger::advance(&job, &document, &timing, plan, &[], now);
            closing.counted = None;
            if !more {
                closing.to = now.max(closing.to);
            }
            let op = self.op("user sim");
            let verdict = self.at_once(self.store.set_job_paused(op, true, closing, job.ver));
            open |= more || !matches!(verdict, Ok(ApplyVerdict::Updated(..)));
        }
        if open {
            self.push_in(50_000, Ev::Pause);
        } else {
            self.rest_by = Some(self.now + REST_US);
            self.push_in(1_000_000, Ev::Rest);
        }
    }

    /// Over when nothing is active, or when nothing moves any more.
    pub(super) fn rest(&mut self) {
        let jobs: Vec<JobUid> = self.periods.keys().copied().collect();
        let open = self.at_once(self.store.count_open_runs(jobs));
        let active: u32 = open.unwrap_or_default().iter().sum();
        if self.progress.0 != self.acks.len() {
            self.progress = (self.acks.len(), self.now);
        }
        let stuck = self.now - self.progress.1 > STUCK_US;
        let active = active > 0 || self.backfills_move();
        self.over = !active || stuck || self.rest_by.is_some_and(|by| self.now >= by);
        if !self.over {
            self.push_in(1_000_000, Ev::Rest);
        }
    }

    pub(super) fn judge(mut self) -> Outcome {
        let dump = self.at_once(self.store.dump()).expect("memory answers");
        let options = sichen_check::Options {
            seq_is_commit_order: true,
            quiescent: true,
            oracle: Some(Box::new(Grid(
                std::mem::take(&mut self.periods),
                Records::of(&dump),
            ))),
            demand: Invariant::ALL.to_vec(),
            ..sichen_check::Options::default()
        };
        let verdict = check_dump(&dump, options, &self.acks);
        self.judge_user_store(&dump);
        self.judge_namespaces(&dump);
        self.judge_checks(&dump);
        let pickups_us = self.pickups(&dump);
        let (calls, hits, lost) = {
            let gate = self.gate();
            ((gate.calls, gate.lost), gate.hits, gate.lost_by_chance)
        };
        *self.hits.entry("open transaction").or_default() += hits;
        if lost > 0 {
            *self.faults.entry(LOST_COMMIT).or_default() += lost;
        }
        Outcome {
            hash: self.trace.hash(),
            verdict,
            problems: self.problems,
            faults: self.faults,
            hits: self.hits,
            simulated_secs: self.now / 1_000_000,
            events: self.events,
            calls,
            user: (self.user.refused, self.user.resumed),
            pickups_us,
            trace: self.trace.lines().to_vec(),
            history: dump.events,
            options: self.options,
        }
    }

    /// Every item counted once where the shard succeeded, never twice anywhere.
    fn judge_user_store(&mut self, dump: &Dump) {
        let runs: BTreeMap<_, _> = dump.runs.iter().map(|run| (run.id, run)).collect();
        for (key, row) in self.user.rows() {
            if let Some(item) = row.counted.iter().position(|n| *n > 1) {
                self.problems.push(format!(
                    "item {item} of {key} was counted {} times",
                    row.counted[item]
                ));
            }
        }
        for shard in dump
            .shards
            .iter()
            .filter(|s| s.state == ShardState::Succeeded)
        {
            let Some(run) = runs.get(&shard.key.run) else {
                continue;
            };
            let key = fence_key(run.job, &run.occasion, shard.key.no);
            let complete = self
                .user
                .row(&key)
                .is_some_and(|row| row.counted.iter().all(|n| *n == 1));
            if !complete {
                self.problems.push(format!(
                    "shard {} succeeded, but not every item of {key} is counted",
                    shard.key
                ));
            }
        }
    }
}
