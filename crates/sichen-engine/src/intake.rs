//! Runs that many ask for at once, written together.
//!
//! # Invariants
//! - One transaction has one author; authors take turns, and each turn takes all that its author has
//!   waiting, up to a batch.
//!
//! # Not here
//! How they gather ([`crate::gather`]); what a run is made of ([`crate::control`]); limits on who may ask
//! at once (`sichen-server`).

use crate::control::{Control, Error, StartRun, Started};
use crate::gather::{Batch, Gather, Mix};

type Answer = Result<Started, Error>;

/// Gathers wanted runs.
#[derive(Debug)]
pub struct Intake {
    control: Control,
    runs: Gather<StartRun, Answer>,
}

impl Intake {
    /// An intake in front of `control`.
    #[must_use]
    pub fn new(control: Control) -> Self {
        Self {
            control,
            runs: Gather::new(Mix::OneAuthor),
        }
    }

    /// Starts runs, or finds those that their occasions have already; one answer each, in order.
    ///
    /// To be awaited to its end: it may be carrying out what others wait for.
    pub async fn start(&self, actor: &str, runs: Vec<StartRun>) -> Vec<Answer> {
        let answers = self.runs.ask(actor, runs, |batch| self.write(batch)).await;
        let cut_off = |answer: Option<Answer>| answer.unwrap_or_else(|| Err(abandoned()));
        answers.into_iter().map(cut_off).collect()
    }

    async fn write(&self, mut batch: Batch<StartRun, Answer>) {
        let wanted = batch.take();
        let started = self.control.start_runs(&batch.author, wanted).await;
        for (place, started) in started.into_iter().enumerate() {
            batch.answer(place, started);
        }
    }
}

/// Whoever was writing was cut off.
fn abandoned() -> Error {
    Error::Contended("the request that carried this one; it may have been written".to_owned())
}
