//! The end of the event log as a node's watchers share it: one look for all of them.
//!
//! # Invariants
//! - However many watch, the log is looked at once in [`LOOK_EACH`]; who asks in between is answered
//!   from what the last look found.
//! - An event that is committed within [`SETTLED_AFTER`] looks of one with a higher number is found,
//!   once, though it comes out of order: numbers are given before the commit. Above
//!   [`MAX_UNSETTLED`] events in that time less is awaited, and a late one may never be found.
//! - What is kept has a limit; who falls behind it is told so, never left with a hole.
//! - A look that is given up half way (its watcher left) leaves nothing half known.
//!
//! # Not here
//! Those who watch, and what is older than the end ([`super`]).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use sichen_core::event::{Entity, Event};
use sichen_core::port::{self, EventFilter, MAX_PAGE, Page, Store};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::rest::convert;

/// How often the log is looked at while somebody watches.
pub(super) const LOOK_EACH: Duration = Duration::from_millis(500);
/// Looks after which no event with a lower number is awaited any more: 5 seconds.
pub(super) const SETTLED_AFTER: u64 = 10;
/// Events that are kept in mind while lower numbers may still come.
pub(super) const MAX_UNSETTLED: usize = 2_000;
/// Pages of the log that one look reads.
const MAX_LOOK_PAGES: usize = 5;
/// Events that are kept for watchers who read slowly.
pub(super) const MAX_RECENT: usize = 10_000;
/// After so long without a look nobody watches, and the end is found anew.
pub(super) const UNWATCHED: Duration = Duration::from_secs(5);

/// An event as watchers get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct News {
    pub(super) seq: u64,
    pub(super) entity: Entity,
    pub(super) data: Arc<str>,
}

impl News {
    pub(super) fn of(event: &Event) -> Option<Self> {
        let data = serde_json::to_string(&convert::event(event)).ok()?;
        Some(Self {
            seq: event.seq,
            entity: event.entity.clone(),
            data: data.into(),
        })
    }
}

/// What a node's watchers share; it does nothing by itself, those who ask pay for the looks.
#[derive(Debug, Default)]
pub(in crate::rest) struct Tail(Mutex<End>);

impl Tail {
    /// The end of the log, looked at anew if the last look was too long ago.
    pub(super) async fn end(&self, store: &dyn Store) -> Result<MutexGuard<'_, End>, port::Error> {
        let mut end = self.0.lock().await;
        if end.is_unwatched(now()) {
            let last = store.get_last_event().await?;
            end.begin(last);
        } else if !end.is_due(now()) {
            return Ok(end);
        }
        let found = read(store, end.settled, MAX_LOOK_PAGES).await?;
        end.found(&found, now());
        Ok(end)
    }
}

#[expect(clippy::disallowed_methods, reason = "paces looks, decides nothing")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Up to `pages` pages of the log after the number `after`.
pub(super) async fn read(
    store: &dyn Store,
    mut after: u64,
    pages: usize,
) -> Result<Vec<Event>, port::Error> {
    let mut found = Vec::new();
    for _ in 0..pages {
        let page = Page {
            after: Some(after),
            limit: MAX_PAGE,
        };
        let events = store.list_events(EventFilter::default(), page).await?;
        let full = events.len() == MAX_PAGE as usize;
        if let Some(last) = events.last() {
            after = last.seq;
        }
        found.extend(events);
        if !full {
            break;
        }
    }
    Ok(found)
}

/// What is known of the log's end.
#[derive(Debug, Default)]
pub(super) struct End {
    /// Up to this number all have been found, or are awaited no more.
    pub(super) settled: u64,
    /// Those after it that were found, with the look that found them.
    seen: BTreeMap<u64, (u64, News)>,
    looks: u64,
    looked: Option<Instant>,
    /// What was found last, in the order in which it was found.
    recent: VecDeque<News>,
    /// How many were found before the first of `recent`.
    dropped: u64,
}

impl End {
    pub(super) fn is_unwatched(&self, now: Instant) -> bool {
        self.looked.is_none_or(|at| now - at >= UNWATCHED)
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.looked.is_none_or(|at| now - at >= LOOK_EACH)
    }

    /// Begins a little before the log's `last` number: some of those may still be committed.
    pub(super) fn begin(&mut self, last: u64) {
        // One more than there are, so that nobody goes on from before.
        self.dropped = self.place() + 1;
        self.recent.clear();
        self.seen.clear();
        self.settled = last.saturating_sub(MAX_UNSETTLED as u64);
        self.looked = None;
    }

    /// Ends a look: what is new is kept; what was seen long ago is settled, and so is what there is
    /// no more room for.
    pub(super) fn found(&mut self, events: &[Event], now: Instant) {
        for event in events {
            if event.seq <= self.settled || self.seen.contains_key(&event.seq) {
                continue;
            }
            let Some(news) = News::of(event) else {
                continue;
            };
            self.recent.push_back(news.clone());
            self.seen.insert(event.seq, (self.looks, news));
        }
        while self.recent.len() > MAX_RECENT {
            self.recent.pop_front();
            self.dropped += 1;
        }
        self.looks += 1;
        while let Some(first) = self.seen.first_entry() {
            let old = first.get().0 + SETTLED_AFTER <= self.looks;
            if !old && self.seen.len() <= MAX_UNSETTLED {
                break;
            }
            if let Some((seq, _)) = self.seen.pop_first() {
                self.settled = seq;
            }
        }
        self.looked = Some(now);
    }

    /// The highest number that was found.
    pub(super) fn last(&self) -> u64 {
        self.seen
            .last_key_value()
            .map_or(self.settled, |(seq, _)| *seq)
    }

    /// The place of what will be found next.
    pub(super) fn place(&self) -> u64 {
        self.dropped + self.recent.len() as u64
    }

    /// What was found that has a higher number than `after`; nothing is known of those that are
    /// settled.
    pub(super) fn after(&self, after: u64) -> Option<Vec<News>> {
        let known = after >= self.settled;
        known.then(|| {
            let later = self.seen.iter().filter(|(seq, _)| **seq > after);
            later.map(|(_, (_, news))| news.clone()).collect()
        })
    }

    /// What was found from `place` on; nothing is known if some of it was dropped.
    pub(super) fn from(&self, place: u64) -> Option<Vec<News>> {
        let skip = usize::try_from(place.checked_sub(self.dropped)?).ok()?;
        Some(self.recent.iter().skip(skip).cloned().collect())
    }
}
