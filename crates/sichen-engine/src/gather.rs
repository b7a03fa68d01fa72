//! What many ask for at once, written together.
//!
//! While a transaction is under way, what is asked for meanwhile gathers; the next one takes it. So a
//! lone caller waits for nobody, and many callers share their commits by themselves.
//!
//! # Invariants
//! - Everybody is answered after the commit of their own, with a verdict of their own.
//! - A batch is written by one of those who wait for it; nothing runs in the background.
//! - Authors take turns, however much one of them has waiting.
//! - What nobody waits for any more is not begun.
//!
//! # Not here
//! What is written ([`crate::intake`], the ends in [`crate::sessions`]).

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sichen_core::port::MAX_BATCH;
use tokio::sync::{Semaphore, oneshot};

/// Transactions under way at once: one is built while the other commits.
const WRITERS: usize = 2;

/// Whose share a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    /// Those of one author, as many as a batch takes.
    OneAuthor,
    /// Those of all authors, of each as many as of any other while all have some.
    AllAuthors,
}

/// Gathers `T`s, each of which is answered by a `V`.
#[derive(Debug)]
pub(crate) struct Gather<T, V> {
    waiting: Mutex<Turns<Asked<T, V>>>,
    writers: Semaphore,
    mix: Mix,
}

#[derive(Debug)]
struct Asked<T, V> {
    item: T,
    answer: oneshot::Sender<V>,
}

/// What one transaction is to take. What is left without an answer when this is dropped was cut off.
#[derive(Debug)]
pub(crate) struct Batch<T, V> {
    /// Whose it is; of [`Mix::AllAuthors`] the first one's.
    pub author: Arc<str>,
    items: Vec<T>,
    answers: Vec<Option<oneshot::Sender<V>>>,
}

impl<T, V> Batch<T, V> {
    /// Takes the items; they are answered by their places.
    pub fn take(&mut self) -> Vec<T> {
        std::mem::take(&mut self.items)
    }

    /// Answers the item at `place`; the first answer stands.
    pub fn answer(&mut self, place: usize, answer: V) {
        if let Some(waits) = self.answers.get_mut(place).and_then(Option::take) {
            // Who does not wait any more asks again.
            let _ = waits.send(answer);
        }
    }

    /// Answers all that have no answer yet.
    pub fn answer_rest(&mut self, answer: impl Fn() -> V) {
        for place in 0..self.answers.len() {
            if self.answers[place].is_some() {
                self.answer(place, answer());
            }
        }
    }
}

impl<T, V> Gather<T, V> {
    pub fn new(mix: Mix) -> Self {
        Self {
            waiting: Mutex::default(),
            writers: Semaphore::new(WRITERS),
            mix,
        }
    }

    /// Has `items` written by `write`, by this caller or by another one that waits here; one answer each,
    /// in order. `None` where whoever was writing was cut off: nobody knows what became of it.
    ///
    /// To be awaited to its end: it may be carrying what others wait for.
    pub async fn ask<F>(
        &self,
        author: &str,
        items: impl IntoIterator<Item = T>,
        write: impl Fn(Batch<T, V>) -> F,
    ) -> Vec<Option<V>>
    where
        F: Future<Output = ()>,
    {
        let mut answers = Vec::new();
        let asked = items.into_iter().map(|item| {
            let (answer, awaited) = oneshot::channel();
            answers.push(awaited);
            Asked { item, answer }
        });
        self.lock().add(author, asked);
        let mut answered = Vec::with_capacity(answers.len());
        for mut awaited in answers {
            let answer = loop {
                tokio::select! {
                    biased;
                    answer = &mut awaited => break answer,
                    turn = self.writers.acquire() => {
                        let Ok(turn) = turn else { continue };
                        if let Some(batch) = self.next() {
                            write(batch).await;
                            continue;
                        }
                        // All that was asked for here is on its way with others, who answer it.
                        drop(turn);
                        break (&mut awaited).await;
                    }
                }
            };
            answered.push(answer.ok());
        }
        answered
    }

    /// What waits and is waited for, as much as one transaction takes.
    fn next(&self) -> Option<Batch<T, V>> {
        loop {
            let (author, mut asked) = self.lock().take(MAX_BATCH, self.mix)?;
            asked.retain(|asked| !asked.answer.is_closed());
            if asked.is_empty() {
                continue;
            }
            let split = asked.into_iter().map(|a| (a.item, Some(a.answer)));
            let (items, answers) = split.unzip();
            return Some(Batch {
                author,
                items,
                answers,
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Turns<Asked<T, V>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What waits, by author, in the order of their turns.
#[derive(Debug)]
struct Turns<T> {
    of: BTreeMap<Arc<str>, VecDeque<T>>,
    /// Each author of whom something waits, once.
    order: VecDeque<Arc<str>>,
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
        if let Some(waiting) = self.of.get_mut(author) {
            waiting.extend(items);
            return;
        }
        let waiting: VecDeque<T> = items.into_iter().collect();
        if !waiting.is_empty() {
            let author: Arc<str> = author.into();
            self.order.push_back(author.clone());
            self.of.insert(author, waiting);
        }
    }

    /// What goes next, at most `most`, and whose it is, or whose the first of it is; the rest waits for
    /// its author's next turn.
    fn take(&mut self, most: usize, mix: Mix) -> Option<(Arc<str>, Vec<T>)> {
        let first = self.order.front()?.clone();
        let mut batch = Vec::new();
        match mix {
            Mix::OneAuthor => self.turn(most, &mut batch),
            Mix::AllAuthors => {
                while batch.len() < most && !self.order.is_empty() {
                    let authors = self.order.len();
                    let each = ((most - batch.len()) / authors).max(1);
                    for _ in 0..authors.min(most - batch.len()) {
                        self.turn(each, &mut batch);
                    }
                }
            }
        }
        Some((first, batch))
    }

    /// The turn of the next author, who gives at most `most`.
    fn turn(&mut self, most: usize, batch: &mut Vec<T>) {
        let Some(author) = self.order.pop_front() else {
            return;
        };
        let Some(waiting) = self.of.get_mut(&author) else {
            return;
        };
        batch.extend(waiting.drain(..waiting.len().min(most)));
        if waiting.is_empty() {
            self.of.remove(&author);
        } else {
            self.order.push_back(author);
        }
    }
}

#[cfg(test)]
mod tests;
