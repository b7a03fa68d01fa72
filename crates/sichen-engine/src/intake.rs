//! Runs that many ask for at once, written together.
//!
//! While a transaction is under way, what is asked for meanwhile gathers; the next one takes all of
//! it. So a lone caller waits for nobody, and many callers share their commits by themselves.
//!
//! # Invariants
//! - Everybody is answered after the commit of their own run, with its own verdict.
//! - A batch is written by one of those who wait for it; nothing runs in the background.
//! - One transaction has one author; authors take turns, and each turn takes all that its author has
//!   waiting, up to a batch.
//!
//! # Not here
//! What a run is made of ([`crate::control`]); limits on who may ask at once (`sichen-server`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sichen_core::port::MAX_BATCH;
use tokio::sync::{Semaphore, oneshot};

use crate::control::{Control, Error, StartRun, Started};

/// Transactions under way at once: one is built while the other commits.
const WRITERS: usize = 2;

type Answer = Result<Started, Error>;

/// Gathers wanted runs.
#[derive(Debug)]
pub struct Intake {
    control: Control,
    waiting: Mutex<Turns<Wanted>>,
    writers: Semaphore,
}

#[derive(Debug)]
struct Wanted {
    run: StartRun,
    answer: oneshot::Sender<Answer>,
}

/// What waits, by author, in the order of their turns.
#[derive(Debug)]
struct Turns<T> {
    of: BTreeMap<String, VecDeque<T>>,
    /// Each author of whom something waits, once.
    order: VecDeque<String>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            of: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<T> Turns<T> {
    fn add(&mut self, author: &str, items: impl IntoIterator<Item = T>) {
        let waiting = self.of.entry(author.to_owned()).or_default();
        let had_none = waiting.is_empty();
        waiting.extend(items);
        if waiting.is_empty() {
            self.of.remove(author);
        } else if had_none {
            self.order.push_back(author.to_owned());
        }
    }

    /// The next author's, at most `most`; the rest waits for its next turn.
    fn take(&mut self, most: usize) -> Option<(String, Vec<T>)> {
        let author = self.order.pop_front()?;
        let mut waiting = self.of.remove(&author)?;
        let batch: Vec<T> = waiting.drain(..waiting.len().min(most)).collect();
        if !waiting.is_empty() {
            self.of.insert(author.clone(), waiting);
            self.order.push_back(author.clone());
        }
        Some((author, batch))
    }
}

impl Intake {
    /// An intake in front of `control`.
    #[must_use]
    pub fn new(control: Control) -> Self {
        Self {
            control,
            waiting: Mutex::default(),
            writers: Semaphore::new(WRITERS),
        }
    }

    /// Starts runs, or finds those that their occasions have already; one answer each, in order.
    ///
    /// To be awaited to its end: it may be carrying out what others wait for.
    pub async fn start(&self, actor: &str, runs: Vec<StartRun>) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(runs.len());
        let wanted = runs.into_iter().map(|run| {
            let (answer, awaited) = oneshot::channel();
            answers.push(awaited);
            Wanted { run, answer }
        });
        self.lock().add(actor, wanted);
        let mut answered = Vec::with_capacity(answers.len());
        for mut awaited in answers {
            let answer = loop {
                tokio::select! {
                    biased;
                    answer = &mut awaited => break answer,
                    turn = self.writers.acquire() => {
                        let Ok(turn) = turn else { continue };
                        if self.write().await {
                            continue;
                        }
                        // All that was asked for here is on its way with others, who answer it.
                        drop(turn);
                        break (&mut awaited).await;
                    }
                }
            };
            answered.push(answer.unwrap_or_else(|_| Err(abandoned())));
        }
        answered
    }

    /// Writes what is waiting, as much as one transaction takes; whether anything was.
    async fn write(&self) -> bool {
        let Some((actor, batch)) = self.lock().take(MAX_BATCH) else {
            return false;
        };
        let (runs, answers): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .map(|wanted| (wanted.run, wanted.answer))
            .unzip();
        let started = self.control.start_runs(&actor, runs).await;
        for (answer, started) in answers.into_iter().zip(started) {
            // Who does not wait any more asks again, with the same key.
            let _ = answer.send(started);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Turns<Wanted>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever was writing was cut off.
fn abandoned() -> Error {
    Error::Contended("the request that carried this one; it may have been written".to_owned())
}

#[cfg(test)]
mod tests;
