//! Queued runs of namespaces, against the limits in force when more were written (I32).
//!
//! Events are added up in the order of the log. Who writes runs of a namespace whose queue is limited does so
//! under its lock, so their order there is that of their commits in every store; the start of a run that was
//! counted on was committed before, and stands before it.
//!
//! # Not here
//! Runs that an edit, a pause, a resume or a deletion writes for instants that were due before it: those are
//! owed, whatever is queued. They count, and are not judged.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::{JobUid, OpId, RunId};

use super::Checker;
use crate::fold::Broken;
use crate::verdict::{Invariant, Step};

/// How long after a limit was set another one may still have been in force for who had begun before.
const OVERLAP: SignedDuration = SignedDuration::from_secs(30);

#[derive(Default, Deserialize)]
#[serde(default)]
struct Told {
    name: Option<String>,
    namespace: Option<String>,
    job: Option<String>,
    max_queued: Option<u64>,
}

/// A namespace's limit, the one before it, and when it was set.
#[derive(Debug)]
struct Limit {
    most: Option<u64>,
    before: Option<u64>,
    at: Timestamp,
}

impl Limit {
    /// The most that may have been allowed at `now`.
    fn at(&self, now: Timestamp) -> Option<u64> {
        match now.duration_since(self.at) < OVERLAP {
            true => Some(self.most?.max(self.before?)),
            false => self.most,
        }
    }
}

/// Runs beyond a limit that are kept until it is known what wrote them.
const MAX_BEYOND: usize = 10_000;

/// A run that was queued beyond a limit.
#[derive(Debug)]
struct Beyond {
    op: OpId,
    run: RunId,
    namespace: String,
    text: String,
    step: Step,
}

/// Runs of which nothing was started, as the log has them.
#[derive(Debug, Default)]
pub(super) struct Queues {
    namespaces: BTreeMap<JobUid, String>,
    limits: BTreeMap<String, Limit>,
    queued: BTreeMap<String, u64>,
    runs: BTreeMap<RunId, String>,
    /// Operations that change a job.
    closing: BTreeSet<OpId>,
    /// Runs beyond a limit, with what wrote them: the first of them.
    beyond: Vec<Beyond>,
}

impl Queues {
    /// Adds an event up, in the order of the log.
    pub(super) fn count(&mut self, event: &Event) {
        match (&event.entity, event.kind) {
            (Entity::Namespace(name), Kind::NamespaceSet) => {
                let most = told(event).max_queued;
                let name = name.to_string();
                let before = self.limits.get(&name).and_then(|limit| limit.most);
                let at = event.at;
                self.limits.insert(name, Limit { most, before, at });
            }
            (Entity::Job(job), Kind::JobApplied) => {
                self.closes(event);
                if let (Some(_), Some(namespace)) = (told(event).name, told(event).namespace) {
                    self.namespaces.insert(*job, namespace);
                }
            }
            (Entity::Job(_), Kind::JobPaused | Kind::JobResumed | Kind::JobDeleted) => {
                self.closes(event);
            }
            (Entity::Run(id), Kind::RunCreated) if event.to == SCHEDULED => {
                self.created(*id, event)
            }
            (Entity::Run(id), _) if event.from == SCHEDULED && event.to != SCHEDULED => {
                if let Some(queued) = self.runs.remove(id).and_then(|n| self.queued.get_mut(&n)) {
                    *queued = queued.saturating_sub(1);
                }
            }
            _ => {}
        }
    }

    fn closes(&mut self, event: &Event) {
        if !self.limits.is_empty() {
            self.closing.insert(event.op);
        }
    }

    fn created(&mut self, id: RunId, event: &Event) {
        let job = told(event).job.and_then(|job| Entity::parse("job", &job));
        let Some(Entity::Job(job)) = job else {
            return;
        };
        let Some(namespace) = self.namespaces.get(&job).cloned() else {
            return;
        };
        let queued = self.queued.entry(namespace.clone()).or_default();
        *queued += 1;
        let most = self
            .limits
            .get(&namespace)
            .and_then(|limit| limit.at(event.at));
        if let Some(most) = most.filter(|most| *queued > *most) {
            let text =
                format!("{queued} runs of namespace {namespace} are queued, and {most} may be");
            if self.beyond.len() < MAX_BEYOND {
                self.beyond.push(Beyond {
                    op: event.op,
                    run: id,
                    namespace: namespace.clone(),
                    text,
                    step: Step::of(event),
                });
            }
        }
        self.runs.insert(id, namespace);
    }
}

const SCHEDULED: &str = "scheduled";

fn told(event: &Event) -> Told {
    serde_json::from_str(&event.data).unwrap_or_default()
}

impl Checker {
    pub(super) fn judge_queues(&mut self) {
        let queues = std::mem::take(&mut self.queues);
        // Once for each namespace: what follows may be due to that.
        let mut told = BTreeSet::new();
        for beyond in queues.beyond {
            if !queues.closing.contains(&beyond.op) && told.insert(beyond.namespace) {
                let broken = Broken(Invariant::I32, beyond.text);
                self.report(Entity::Run(beyond.run), broken, vec![beyond.step]);
            }
        }
    }
}
