//! What people and programs ask for: apply a job, start a run, stop it, retry it.
//!
//! Each use case reads, decides by the rules, and writes conditionally; a conflict is read and
//! decided anew, a bounded number of times.
//!
//! # Invariants
//! - Any node may serve any of these: an entity's version guards them, not a duty's term.
//! - An edit closes the old revision's instants in its own transaction; creation never looks
//!   backwards.
//!
//! # Not here
//! Who may ask (`sichen-server`), reading files (`sichen-server`), showing answers.

mod access;
mod attempts;
mod backfills;
mod calendars;
pub mod capacities;
mod explain;
pub mod forecast;
mod jobs;
mod names;
mod namespaces;
mod precondition;
mod restore;
mod runs;
mod start;
mod users;

use std::sync::Arc;

use sichen_core::document::Problem;
use sichen_core::ids::Revision;
use sichen_core::keys::KeyHold;
use sichen_core::name::{JobName, Name};
use sichen_core::port;

use crate::context::Context;
use crate::dispatch::Dispatcher;
use crate::documents::Documents;

pub use attempts::{Attempt, MAX_EVENTS};
pub use backfills::Preview;
pub use calendars::{AppliedCalendar, Changed, Left};
pub use capacities::{AppliedCapacity, CapacityFacts, Resize};
pub use explain::{Facts, Waiting, Why, reasons};
pub use jobs::{Applied, Change, Turn};
pub use precondition::Precondition;
pub use restore::{About, Missed, Undecided};
pub use start::{StartRun, Started, Which};

/// How often a conflict is decided anew before the caller is told.
const ATTEMPTS: u32 = 5;

/// Why a request was not carried out.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// There is no such thing.
    #[error("SC5001: there is no {what} {name:?}")]
    NotFound {
        /// `job`, `run`, …
        what: &'static str,
        /// As asked for.
        name: String,
    },
    /// A job has no revision of that number.
    #[error("SC5001: there is no revision {revision} of job {job}; its newest is {newest}")]
    NoRevision {
        /// Which job.
        job: JobName,
        /// As asked for.
        revision: Revision,
        /// The one in force.
        newest: Revision,
    },
    /// The request does not make sense; every problem is listed.
    #[error("SC5002: the request is not valid: {}", list(.0))]
    Invalid(Vec<Problem>),
    /// It can't be done in the present state.
    #[error("{0}")]
    Refused(String),
    /// It was asked for on the condition that nobody else changed the same thing.
    #[error("SC5004: {0}; nothing was done: look at what is there now, and decide anew")]
    Changed(String),
    /// Others changed the same thing again and again.
    #[error("SC5003: others kept changing {0}; try again")]
    Contended(String),
    /// As many runs of its namespace are queued as may be. Nothing was written.
    #[error(
        "SC5053: {queued} runs of namespace {namespace} are queued, and {most} may be: the run was not written; \
         ask again, with the same key, when fewer wait (`sichen namespace list`)"
    )]
    Full {
        /// The namespace.
        namespace: Name,
        /// So many may be queued.
        most: u32,
        /// So many are.
        queued: u32,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] port::Error),
}

fn list(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems
        .iter()
        .map(|p| format!("{}: {}", p.path, p.message))
        .collect();
    lines.join("; ")
}

/// The use cases over one store.
#[derive(Clone, Debug)]
pub struct Control {
    context: Context,
    documents: Arc<Documents>,
    names: Arc<names::Names>,
    /// Gives new runs to workers at once where this node may.
    dispatcher: Option<Arc<Dispatcher>>,
}

impl Control {
    /// Use cases over `context`'s store.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self {
            context,
            documents: Arc::default(),
            names: Arc::default(),
            dispatcher: None,
        }
    }

    /// The same, on a node whose `dispatcher` may give a new run to a worker at once.
    #[must_use]
    pub fn beside(
        dispatcher: Arc<Dispatcher>,
        documents: Arc<Documents>,
        context: Context,
    ) -> Self {
        Self {
            documents,
            dispatcher: Some(dispatcher),
            ..Self::new(context)
        }
    }

    /// The same for one step of a request: what it changes is refused if another attempt holds the
    /// request's key by now.
    #[must_use]
    pub fn under(&self, hold: KeyHold) -> Self {
        let mut control = self.clone();
        control.context.hold = Some(hold);
        control
    }
}
