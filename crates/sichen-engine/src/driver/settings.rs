//! What a node's duties are told when they are wired.
//!
//! # Not here
//! Where that comes from (`sichen`'s configuration).

use std::sync::Arc;

use jiff::SignedDuration;
use sichen_core::alert;
use sichen_core::lease::Rhythm;

use crate::alerts::{Around, Sender};
use crate::tracer::Tracing;

/// How a node's duties are paced.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where peers and workers reach this node.
    pub address: String,
    /// This node's lease.
    pub node: Rhythm,
    /// Workers' sessions.
    pub worker: Rhythm,
    /// How long closed runs are kept.
    pub retention: SignedDuration,
    /// What is told to whom, if this node tells anything.
    pub alerts: Option<Telling>,
    /// Who is told what became of runs, if anybody.
    pub traces: Option<Tracing>,
}

/// Alerts, and the way to those who are told.
#[derive(Clone, Debug)]
pub struct Telling {
    /// What is looked for.
    pub settings: Arc<alert::Settings>,
    /// How a notice is sent.
    pub sender: Arc<dyn Sender>,
    /// What is known of what is around the store.
    pub around: Option<Arc<dyn Around>>,
}

impl Settings {
    /// The defaults, reached at `address`.
    #[must_use]
    pub fn new(address: String) -> Self {
        Self {
            address,
            node: Rhythm::NODE,
            worker: Rhythm::WORKER,
            retention: SignedDuration::from_hours(30 * 24),
            alerts: None,
            traces: None,
        }
    }
}
