//! Runs of one job that wait for others of it: how many start beside each other, in which order, and what
//! must be over before (I29, I30, I31).
//!
//! Events are added up in the order of the log where that is the order of commits, and nowhere else: a run's
//! end and another one's turn are two entities'.
//!
//! # Not here
//! The limit for runs that do not wait, and the policies of jobs: the log does not have their documents.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Deserialize;
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::{JobUid, RunId};

use super::Checker;
use crate::data::Fields;
use crate::fold::Broken;
use crate::verdict::{Invariant, Sight, Step};

/// What runs wait for, as their creation says.
const QUEUE: &str = "queue";
const REPLACED: &str = "replaced";

/// Runs as the log has them.
#[derive(Debug, Default)]
pub(super) struct Turns {
    runs: BTreeMap<RunId, Run>,
    /// Open runs of a job, those of backfills apart.
    open: BTreeMap<JobUid, BTreeSet<RunId>>,
    /// What is wrong first, if nothing else is; what follows may be due to that.
    wrong: Option<(Entity, Broken, Step)>,
}

#[derive(Debug)]
struct Run {
    job: JobUid,
    waits: Option<Waits>,
    /// Runs of backfills have a lane of their own.
    backfill: bool,
    closed_at: Option<Timestamp>,
}

#[derive(Debug)]
struct Waits {
    replaces: bool,
    /// Runs of the job that may be active at once, if the log says it.
    most: Option<u64>,
    /// What it replaces and is not over.
    victims: BTreeSet<RunId>,
}

/// What a step of the mark decided against, and why.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Told {
    decisions: Vec<Blocked>,
}

#[derive(Deserialize)]
struct Blocked {
    from: i64,
    reason: String,
    #[serde(default)]
    reference: String,
}

type Wrong = Option<(Invariant, String)>;

impl Turns {
    fn created(&mut self, id: RunId, job: JobUid, event: &Event, data: &Fields) {
        let open = self.open.entry(job).or_default();
        let replaces = data.waits.as_deref() == Some(REPLACED);
        let waits = (replaces || data.waits.as_deref() == Some(QUEUE)).then(|| Waits {
            replaces,
            most: data.most,
            victims: if replaces {
                open.clone()
            } else {
                BTreeSet::new()
            },
        });
        let over = matches!(&*event.to, "succeeded" | "cancelled");
        let run = Run {
            job,
            waits,
            backfill: data.backfill.is_some(),
            closed_at: over.then_some(event.at),
        };
        if !over && !run.backfill {
            open.insert(id);
        }
        self.runs.insert(id, run);
    }

    fn closed(&mut self, id: RunId, at: Timestamp) {
        let Some(run) = self.runs.get_mut(&id) else {
            return;
        };
        run.closed_at = Some(at);
        // What is over waits for nobody; who has it reopened wants it at once.
        run.waits = None;
        let Some(open) = self.open.get_mut(&run.job) else {
            return;
        };
        open.remove(&id);
        for other in &*open {
            let waits = self.runs.get_mut(other).and_then(|run| run.waits.as_mut());
            if let Some(waits) = waits {
                waits.victims.remove(&id);
            }
        }
    }

    fn reopened(&mut self, id: RunId, backfill: bool) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.closed_at = None;
            run.backfill = backfill;
            if !backfill {
                self.open.entry(run.job).or_default().insert(id);
            }
        }
    }

    /// The turn of `id` has come.
    fn released(&mut self, id: RunId) -> Wrong {
        let run = self.runs.get_mut(&id)?;
        let (job, waits) = (run.job, run.waits.take()?);
        let open = self.open.get(&job)?;
        if let Some(victim) = waits.victims.first() {
            let text = format!("its turn comes while run {victim}, which it replaces, is open");
            return Some((Invariant::I31, text));
        }
        let is_waiting = |id: &RunId| self.runs.get(id).is_some_and(|run| run.waits.is_some());
        let earlier = open.range(..id).find(|other| is_waiting(other));
        if let Some(earlier) = earlier.filter(|_| !waits.replaces) {
            let text = format!("its turn comes before that of run {earlier}");
            return Some((Invariant::I30, text));
        }
        let running = open
            .iter()
            .filter(|other| **other != id && !is_waiting(other));
        let running = u64::try_from(running.count()).unwrap_or(u64::MAX);
        let most = waits.most.filter(|most| running >= *most)?;
        let text =
            format!("its turn comes beside {running} runs of its job, of which {most} may be");
        Some((Invariant::I29, text))
    }

    /// A shard of `id` is granted.
    fn granted(&self, id: RunId) -> Wrong {
        let waits = self.runs.get(&id)?.waits.as_ref()?;
        let invariant = if waits.replaces {
            Invariant::I31
        } else {
            Invariant::I30
        };
        let text = format!("a shard is granted before the turn of run {id} has come");
        Some((invariant, text))
    }

    /// What blocked a planned time was not over before it.
    fn blocked(&self, job: JobUid, blocked: &Blocked) -> Wrong {
        let named = (blocked.reason == "overlap").then(|| blocked.reference.parse().ok());
        let id = RunId(named.flatten()?);
        let run = self.runs.get(&id)?;
        let at = Timestamp::from_microsecond(blocked.from).ok()?;
        let over = run.closed_at.is_some_and(|closed| closed < at);
        if run.job == job && !over && !run.backfill {
            return None;
        }
        let text = format!("{at} is skipped for run {id}, which did not block it");
        Some((Invariant::I29, text))
    }
}

impl Checker {
    /// Adds an event up, in the order of the log.
    pub(super) fn count_turns(&mut self, event: &Event) {
        if !self.options.seq_is_commit_order {
            return;
        }
        let wrong = match (&event.entity, event.kind) {
            (Entity::Shard(key), Kind::AttemptGranted) => self.turns.granted(key.run),
            (Entity::Job(job), Kind::ScheduleAdvanced) => {
                let told: Told = serde_json::from_str(&event.data).unwrap_or_default();
                let mut decisions = told.decisions.iter();
                decisions.find_map(|decision| self.turns.blocked(*job, decision))
            }
            (Entity::Run(id), Kind::RunCreated) => {
                let Ok(data) = Fields::of(event) else {
                    return;
                };
                let job = data.job.as_deref();
                if let Some(Entity::Job(job)) = job.and_then(|job| Entity::parse("job", job)) {
                    self.turns.created(*id, job, event, &data);
                }
                None
            }
            (Entity::Run(id), Kind::RunReopened) => {
                let backfill = Fields::of(event).is_ok_and(|data| data.backfill.is_some());
                self.turns.reopened(*id, backfill);
                None
            }
            (Entity::Run(id), Kind::RunReleased) => {
                self.saw(Sight::Released);
                self.turns.released(*id)
            }
            (Entity::Run(id), Kind::RunSettled) => {
                self.turns.closed(*id, event.at);
                None
            }
            _ => None,
        };
        if let Some((invariant, text)) = wrong
            && self.turns.wrong.is_none()
        {
            let broken = Broken(invariant, text);
            self.turns.wrong = Some((event.entity.clone(), broken, Step::of(event)));
        }
    }

    /// Without the order of commits nothing is said of turns; and where an event is missing, what others
    /// seem to have done wrong may be its own.
    pub(super) fn judge_turns(&mut self) {
        if self.options.seq_is_commit_order {
            let wrong = self.turns.wrong.take();
            if let Some((entity, broken, step)) = wrong.filter(|_| self.violation_count == 0) {
                self.report(entity, broken, vec![step]);
            }
            return;
        }
        use Invariant as I;
        let undecided: &[I] = if self.options.seq_is_lock_order {
            &[I::I29, I::I30, I::I31]
        } else {
            &[I::I6, I::I19, I::I29, I::I30, I::I31, I::I40]
        };
        for invariant in undecided.iter().copied() {
            let why = "the order of commits is not known".to_owned();
            self.unknown.entry(invariant).or_insert(why);
        }
    }
}

#[cfg(test)]
mod tests;
