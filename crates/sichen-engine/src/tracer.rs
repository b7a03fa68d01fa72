//! Telling what became of the runs that have ended: monitors, how long they took, and who collects traces,
//! all of it.
//!
//! A pass reads the runs that ended since the last one. Where traces are collected it makes the spans of each
//! from its events ([`sichen_core::trace::span`]) and hands them to a [`Sink`].
//!
//! # Invariants
//! - A run is told by the node that owns its job's partition when it is read, whichever nodes it lived
//!   through. What that node does not know to be told is told again as a trace, with the same ids; its times
//!   are counted once, and not at all if it ended while its partition had no owner.
//! - It only reads, one call at a time, and hands over without waiting: nothing of a node waits for who
//!   collects, and what it can't read now holds up nothing else.
//! - Where no traces are collected the times are those of a sample: of the first runs that a pass finds.
//! - What ended is looked at [`LAG`] later, in order, so that what was committed a little late is not passed.
//!
//! # Not here
//! How spans are sent, and what waits to be (`sichen_server::traces`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sichen_core::ids::RunId;
use sichen_core::model::{DutyKey, Run, partition_of};
use sichen_core::port::{Error, EventFilter, MAX_PAGE, Page};
use sichen_core::trace::span::{Span, Telling};
use sichen_core::trace::{Ratio, TraceId};
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::coordinator::Coordinator;
use crate::meter::Unsent;

/// How long after its end a run is read: by then what was decided before it is committed.
pub const LAG: SignedDuration = SignedDuration::from_secs(3);
/// How far back a node looks in partitions that it takes: longer than a lease and what noticing its end takes.
pub const LOOK_BACK: SignedDuration = SignedDuration::from_secs(30);
/// Runs that have ended for longer are passed over where more end than can be told.
pub const MAX_BEHIND: SignedDuration = SignedDuration::from_secs(300);
/// Runs that are read at a time.
const RUNS: u32 = 100;
/// Pages of runs in one pass.
const PAGES: usize = 10;
/// The same where no traces are collected: times are a sample then, since each run that is read costs about a
/// tenth of what it cost to run it.
const PAGES_SAMPLED: usize = 1;
/// From one pass to the next while runs end.
const AGAIN: SignedDuration = SignedDuration::from_secs(1);
/// Events of one run that are read.
pub const MAX_EVENTS: usize = 50_000;
/// Runs that are remembered as told; of more the oldest may be told again.
const MAX_TOLD: usize = 100_000;

/// Who takes spans, to send them on.
pub trait Sink: fmt::Debug + Send + Sync + 'static {
    /// Takes all of these, which belong together, or has no room for them; never waits.
    fn take(&self, spans: Vec<Span>) -> bool;
}

/// Which traces are told, and to whom.
#[derive(Clone, Debug)]
pub struct Tracing {
    /// Who takes them.
    pub sink: Arc<dyn Sink>,
    /// Which share of them.
    pub ratio: Ratio,
}

/// What a pass found.
enum Found {
    Nothing,
    Some,
    /// As much as it takes at a time.
    More,
}

/// Where a run stands in the order of ends.
type Place = (Timestamp, RunId);

/// How far a node is.
#[derive(Debug, Default)]
struct Progress {
    /// Since when, by the ends of runs, it has had each partition that it owns.
    since: BTreeMap<u8, Timestamp>,
    /// Up to where it has read.
    read: Option<Place>,
    /// The last whose times are counted.
    counted: Option<Place>,
    /// What it has told behind [`LOOK_BACK`], and which round of it.
    told: BTreeSet<(Timestamp, RunId, u32)>,
    /// Whether it could not read the last time.
    stuck: bool,
    /// Whether runs had to be passed over the last time.
    behind: bool,
}

/// Tells what became of runs.
#[derive(Debug)]
pub struct Tracer {
    context: Context,
    coordinator: Arc<Coordinator>,
    tracing: Option<Tracing>,
    progress: Mutex<Progress>,
}

impl Tracer {
    /// One that tells traces as `tracing` says, if at all.
    #[must_use]
    pub fn new(context: Context, coordinator: Arc<Coordinator>, tracing: Option<Tracing>) -> Self {
        Self {
            context,
            coordinator,
            tracing,
            progress: Mutex::default(),
        }
    }

    /// Tells what has ended, until `stop`; when to look again, if runs end just now.
    ///
    /// A store that does not answer is asked again, and is no failure of a duty: from those follows more.
    pub async fn run_once(&self, now: Timestamp, stop: &CancellationToken) -> Option<Timestamp> {
        let mut progress = std::mem::take(&mut *self.locked());
        let passed = self.pass(&mut progress, now, stop).await;
        if let Err(error) = &passed
            && !progress.stuck
        {
            tracing::warn!(%error, "ended runs can't be read for their times and traces; it is tried again");
        }
        progress.stuck = passed.is_err();
        *self.locked() = progress;
        match passed {
            Ok(Found::More) => Some(now),
            Ok(Found::Some) => now.checked_add(AGAIN).ok(),
            Ok(Found::Nothing) | Err(_) => None,
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn pass(
        &self,
        progress: &mut Progress,
        now: Timestamp,
        stop: &CancellationToken,
    ) -> Result<Found, Error> {
        let until = now.checked_sub(LAG).unwrap_or(Timestamp::MIN);
        let fences = self.coordinator.trigger_fences(now);
        let owned = fences.iter().filter_map(|fence| match fence.key {
            DutyKey::Trigger(partition) => Some(partition),
            _ => None,
        });
        progress.own(&owned.collect(), until);
        if progress.since.is_empty() {
            return Ok(Found::Nothing);
        }
        let (mut passed_over, mut found) = (0, Found::Nothing);
        let pages = match self.tracing {
            Some(_) => PAGES,
            None => PAGES_SAMPLED,
        };
        for _ in 0..pages {
            let page = Page {
                after: progress.read,
                limit: RUNS,
            };
            let runs = self.context.store.list_ended_runs(until, page).await?;
            let full = runs.len() == RUNS as usize;
            if !runs.is_empty() {
                found = Found::Some;
            }
            for run in runs {
                if stop.is_cancelled() {
                    return Ok(Found::Nothing);
                }
                let Some(ended) = run.ended_at else { continue };
                let place = (ended, run.id);
                if progress.counts(&run, place) {
                    self.context.meter.run_ended(&run);
                }
                if self.is_told_here(progress, &run, ended) {
                    if until.duration_since(ended) > MAX_BEHIND {
                        passed_over += 1;
                    } else {
                        let told = (ended, run.id, run.round);
                        self.tell(run).await?;
                        progress.told.insert(told);
                    }
                }
                progress.read = Some(place);
            }
            if !full {
                self.passed_over(progress, passed_over);
                return Ok(found);
            }
        }
        self.passed_over(progress, passed_over);
        if self.tracing.is_none() {
            // The rest is not in the sample.
            let last = (until, RunId(i64::MAX.cast_unsigned()));
            progress.read = progress.read.max(Some(last));
            return Ok(found);
        }
        Ok(Found::More)
    }

    fn is_told_here(&self, progress: &Progress, run: &Run, ended: Timestamp) -> bool {
        let since = progress.since.get(&partition_of(run.job));
        let ratio = self.tracing.as_ref().map(|tracing| tracing.ratio);
        since.is_some_and(|since| since.duration_since(ended) <= LOOK_BACK)
            && ratio.is_some_and(|ratio| ratio.takes(TraceId::of(run.job, run.id)))
            && !progress.told.contains(&(ended, run.id, run.round))
    }

    fn passed_over(&self, progress: &mut Progress, runs: u64) {
        self.context.meter.spans_dropped(Unsent::Behind, runs);
        if runs > 0 && !progress.behind {
            tracing::warn!(
                runs,
                "more runs end than can be told of as traces; some are passed over (a smaller ratio helps)"
            );
        }
        progress.behind = runs > 0;
    }

    /// Makes a run's spans and hands them over.
    async fn tell(&self, run: Run) -> Result<(), Error> {
        let filter = EventFilter {
            run: Some(run.id),
            shard: None,
        };
        let mut telling = Telling::new(run);
        let (mut after, mut heard) = (None, 0);
        let whole = loop {
            let page = Page {
                after,
                limit: MAX_PAGE,
            };
            let events = self.context.store.list_events(filter, page).await?;
            for event in &events {
                telling.hear(event);
            }
            heard += events.len();
            after = events.last().map(|event| event.seq);
            if events.len() < MAX_PAGE as usize {
                break true;
            }
            if heard >= MAX_EVENTS {
                break false;
            }
        };
        self.context
            .meter
            .spans_dropped(Unsent::TooMany, telling.left_out().into());
        let spans = telling.spans(whole);
        let n = spans.len() as u64;
        let taken = self
            .tracing
            .as_ref()
            .map(|tracing| tracing.sink.take(spans));
        if taken == Some(false) {
            self.context.meter.spans_dropped(Unsent::QueueFull, n);
        }
        Ok(())
    }
}

impl Progress {
    /// Whether the times of a run that is read are this node's to count; only once.
    fn counts(&mut self, run: &Run, place: Place) -> bool {
        let is_new = self.counted < Some(place);
        self.counted = self.counted.max(Some(place));
        let since = self.since.get(&partition_of(run.job));
        is_new && since.is_some_and(|since| *since < place.0)
    }

    /// Goes on with these partitions; from a little earlier on where some are new.
    fn own(&mut self, owned: &BTreeSet<u8>, until: Timestamp) {
        self.since.retain(|partition, _| owned.contains(partition));
        let back = until.checked_sub(LOOK_BACK).unwrap_or(Timestamp::MIN);
        let mut gained = false;
        for partition in owned {
            self.since.entry(*partition).or_insert_with(|| {
                gained = true;
                until
            });
        }
        let begin = (back, RunId(0));
        if gained || self.read.is_none() {
            self.read = Some(self.read.map_or(begin, |read| read.min(begin)));
        }
        // Nothing before it is read again.
        self.told = self.told.split_off(&(back, RunId(0), 0));
        while self.told.len() > MAX_TOLD {
            self.told.pop_first();
        }
    }
}
