//! What a handler knows of its attempt, and how it says how far it has come.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sichen_proto::v1;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::datadir::DataDir;
use crate::error::{HandlerError, Stopped};
use crate::session::{Lease, MAX_POSITION_BYTES, MAX_WAITING_ON_BYTES};

/// Which part of the run a shard is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// One of `total` equal parts. An unsharded run is part 0 of 1.
    Count {
        /// From 0.
        index: u32,
        /// At least 1.
        total: u32,
    },
    /// Integer keys, `from..to`.
    IntRange(Range<i64>),
    /// Instants in microseconds since the Unix epoch, `from..to`.
    TimeRange(Range<i64>),
    /// One item of an explicit list.
    Item(String),
    /// The plan step: the handler returns the run's bounds. (A list of items is refused by the server.)
    Plan,
    /// The reduce step after all shards.
    Reduce {
        /// How many there were.
        shards: u32,
    },
}

/// What a shard has done so far, for people and for the comparison of expected and done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counters {
    /// Items done.
    pub done: Option<u64>,
    /// Items to do in all.
    pub expected: Option<u64>,
    /// Items per second.
    pub rate: Option<f64>,
}

impl Counters {
    /// `done` items.
    #[must_use]
    pub fn done(done: u64) -> Counters {
        Counters {
            done: Some(done),
            ..Counters::default()
        }
    }

    /// Of `expected` in all.
    #[must_use]
    pub fn of(self, expected: u64) -> Counters {
        Counters {
            expected: Some(expected),
            ..self
        }
    }
}

/// Why an attempt is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopOrder {
    /// The reason.
    pub reason: v1::Reason,
    /// From the order to the killing, in milliseconds.
    pub grace_ms: u64,
}

impl StopOrder {
    /// Whether another may hold the shard by now: nothing that the attempt does counts.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(
            self.reason,
            v1::Reason::StaleToken | v1::Reason::UnknownGrant
        )
    }

    /// Whether the slot is wanted for a run of higher priority: a checkpoint that is said now still counts, and
    /// the next attempt goes on from it.
    #[must_use]
    pub fn gives_slot_up(&self) -> bool {
        self.reason == v1::Reason::Preempted
    }

    /// The reason in a word, such as `cancel-requested`.
    #[must_use]
    pub fn why(&self) -> String {
        let name = self.reason.as_str_name();
        let word = name.strip_prefix("REASON_").unwrap_or(name);
        word.to_ascii_lowercase().replace('_', "-")
    }
}

/// An earlier attempt of the shard whose outcome nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlierAttempt {
    /// Its number.
    pub attempt: u32,
    /// Its fencing token: what its effects may be marked with.
    pub token: u64,
}

/// From a handler to the session.
#[derive(Debug)]
pub(crate) enum Event {
    /// Something new is in the attempt's slot.
    Dirty(Lease),
}

#[derive(Debug, Default)]
struct Slot {
    seq: u64,
    checkpoint: Option<v1::Checkpoint>,
    counters: v1::Counters,
    counters_changed: bool,
    flush: bool,
    /// An event is on its way.
    announced: bool,
    /// It was said that a position can't be kept: a handler may try each millisecond.
    warned: bool,
}

/// Newest of what a handler reported, taken by the session.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) checkpoint: Option<v1::Checkpoint>,
    pub(crate) counters: Option<v1::Counters>,
    pub(crate) flush: bool,
}

#[derive(Debug)]
struct Inner {
    lease: Lease,
    grant: v1::Grant,
    stop: CancellationToken,
    order: Mutex<Option<StopOrder>>,
    slot: Mutex<Slot>,
    acked: watch::Sender<u64>,
    events: mpsc::Sender<Event>,
    /// Locked while the attempt goes on, whoever has given it up.
    _data_dir: Option<Arc<DataDir>>,
}

/// One attempt, as its handler sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

impl Context {
    pub(crate) fn new(
        lease: Lease,
        grant: v1::Grant,
        events: mpsc::Sender<Event>,
        data_dir: Option<Arc<DataDir>>,
    ) -> Context {
        // Checkpoints are numbered over all attempts of a shard: this one goes on where the newest
        // stored one stands.
        let before = grant.checkpoint.as_ref();
        let seq = before.map_or(0, |checkpoint| checkpoint.seq);
        let counters = before.and_then(|checkpoint| checkpoint.counters.clone());
        let slot = Slot {
            seq,
            counters: counters.unwrap_or_default(),
            ..Slot::default()
        };
        let inner = Inner {
            lease,
            grant,
            stop: CancellationToken::new(),
            order: Mutex::default(),
            slot: Mutex::new(slot),
            acked: watch::Sender::new(seq),
            events,
            _data_dir: data_dir,
        };
        Context {
            inner: Arc::new(inner),
        }
    }

    /// Which part of the run this is.
    #[must_use]
    pub fn part(&self) -> Part {
        use v1::descriptor::Descriptor;
        match self
            .inner
            .grant
            .descriptor
            .as_ref()
            .and_then(|d| d.descriptor.as_ref())
        {
            Some(Descriptor::Count(part)) => Part::Count {
                index: part.index,
                total: part.total,
            },
            Some(Descriptor::IntRange(range)) => Part::IntRange(range.from..range.to),
            Some(Descriptor::TimeRange(range)) => Part::TimeRange(range.from_us..range.to_us),
            Some(Descriptor::Item(item)) => Part::Item(item.item.clone()),
            Some(Descriptor::Plan(_)) => Part::Plan,
            Some(Descriptor::Reduce(reduce)) => Part::Reduce {
                shards: reduce.shards,
            },
            None => {
                let index = u32::try_from(self.inner.lease.no).unwrap_or(0);
                Part::Count {
                    index,
                    total: self.inner.grant.total.max(1),
                }
            }
        }
    }

    /// The shard's number in its run, from 0; -1 is the plan step, -2 the reduce step.
    #[must_use]
    pub fn shard_no(&self) -> i32 {
        self.inner.lease.no
    }

    /// Shards in the run.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.inner.grant.total.max(1)
    }

    /// The keys of the shard, if it is an integer range.
    #[must_use]
    pub fn int_range(&self) -> Option<Range<i64>> {
        match self.part() {
            Part::IntRange(range) => Some(range),
            _ => None,
        }
    }

    /// The item of the shard, if it is one.
    #[must_use]
    pub fn item(&self) -> Option<String> {
        match self.part() {
            Part::Item(item) => Some(item),
            _ => None,
        }
    }

    /// Number of the attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.inner.grant.attempt
    }

    /// The fencing token. Only writes that check it are safe from a former holder of the shard.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.inner.lease.token
    }

    /// Names this shard for the fence: the same in every attempt.
    #[must_use]
    pub fn fence_key(&self) -> &str {
        &self.inner.grant.fence_key
    }

    /// The run's number in the store.
    #[must_use]
    pub fn run_id(&self) -> u64 {
        self.inner.lease.run_id
    }

    /// The run, as people see it.
    #[must_use]
    pub fn run_key(&self) -> &str {
        &self.inner.grant.run_key
    }

    /// `namespace/name` of the job.
    #[must_use]
    pub fn job(&self) -> &str {
        &self.inner.grant.job
    }

    /// The planned instant, microseconds since the Unix epoch; `None` for a manual run.
    #[must_use]
    pub fn planned_at_us(&self) -> Option<i64> {
        self.inner.grant.planned_at_us
    }

    /// The period that the run stands for, `from..to` in microseconds since the Unix epoch.
    #[must_use]
    pub fn period_us(&self) -> Option<Range<i64>> {
        Some(self.inner.grant.period_start_us?..self.inner.grant.period_end_us?)
    }

    /// IANA name of the schedule's zone; empty means UTC.
    #[must_use]
    pub fn zone(&self) -> &str {
        &self.inner.grant.zone
    }

    /// Sichen's copy of the last checkpoint, for display. Where the checkpoint lives with the
    /// data, start from what `fence.open` returns, never from this one: a checkpoint may have been
    /// committed there and not have reached Sichen.
    #[must_use]
    pub fn display_checkpoint(&self) -> Option<&str> {
        self.inner
            .grant
            .checkpoint
            .as_ref()
            .and_then(|checkpoint| str::from_utf8(&checkpoint.position).ok())
    }

    /// The parameters, JSON text.
    #[must_use]
    pub fn parameters(&self) -> &str {
        &self.inner.grant.parameters
    }

    /// Units of a named capacity that this attempt holds while it runs, such as connections; `None` if
    /// its job does not use it.
    #[must_use]
    pub fn units_of(&self, capacity: &str) -> Option<u32> {
        let uses = self.inner.grant.uses.iter();
        let mut of = uses.filter(|one| one.capacity == capacity);
        of.next().map(|one| one.units)
    }

    /// W3C trace context of the run, for calls to others.
    #[must_use]
    pub fn traceparent(&self) -> &str {
        &self.inner.grant.traceparent
    }

    /// The trace id of the run, 32 hexadecimal digits, for logs; empty if the server gave none.
    #[must_use]
    pub fn trace_id(&self) -> &str {
        self.traceparent().split('-').nth(1).unwrap_or_default()
    }

    /// The whole grant, as it came.
    #[must_use]
    pub fn grant(&self) -> &v1::Grant {
        &self.inner.grant
    }

    /// Says that everything up to `position` is reliably complete.
    ///
    /// At most one checkpoint a second is sent; of several the newest wins. It does not wait for
    /// the server: [`Context::flush`] does.
    ///
    /// # Errors
    /// [`Stopped`] once the attempt was told to stop.
    pub async fn checkpoint(
        &self,
        position: impl Into<String>,
        counters: Counters,
    ) -> Result<(), Stopped> {
        // A handler that does nothing but this still lets others run.
        tokio::task::yield_now().await;
        self.checkpoint_now(position, counters)
    }

    /// [`Context::checkpoint`] for blocking handlers.
    ///
    /// # Errors
    /// [`Stopped`] once the attempt was told to stop. If that was to give its slot up
    /// ([`StopOrder::gives_slot_up`]), the checkpoint counts all the same.
    pub fn checkpoint_now(
        &self,
        position: impl Into<String>,
        counters: Counters,
    ) -> Result<(), Stopped> {
        let stopped = self.is_cancelled();
        let order = self.stop_order().filter(|_| stopped);
        if stopped && !order.is_some_and(|order| order.gives_slot_up()) {
            return Err(Stopped);
        }
        let position: String = position.into();
        if position.len() > MAX_POSITION_BYTES || position.contains('\0') {
            // The last good one stays: an empty one would let the next attempt begin from the start.
            self.count(counters);
            if !std::mem::replace(&mut self.slot().warned, true) {
                tracing::warn!(lease = %self.inner.lease, bytes = position.len(), limit = MAX_POSITION_BYTES,
                    "a checkpoint is too long or has a NUL character: the one before it stays, its counters are kept");
            }
            return Ok(());
        }
        let mut slot = self.slot();
        slot.seq += 1;
        slot.counters.done = counters.done.or(slot.counters.done);
        slot.counters.expected = counters.expected.or(slot.counters.expected);
        slot.counters.rate = counters.rate.or(slot.counters.rate);
        let checkpoint = v1::Checkpoint {
            seq: slot.seq,
            position: position.into_bytes(),
            counters: Some(slot.counters.clone()),
        };
        slot.checkpoint = Some(checkpoint);
        self.announce(&mut slot);
        if stopped { Err(Stopped) } else { Ok(()) }
    }

    /// Waits until the server has accepted the newest checkpoint.
    ///
    /// # Errors
    /// [`Stopped`] if the attempt is told to stop first.
    pub async fn flush(&self) -> Result<(), Stopped> {
        let mut acked = self.inner.acked.subscribe();
        let seq = {
            let mut slot = self.slot();
            slot.flush = true;
            self.announce(&mut slot);
            slot.seq
        };
        tokio::select! {
            () = self.inner.stop.cancelled() => Err(Stopped),
            reached = acked.wait_for(|acked| *acked >= seq) => reached.map(|_| ()).map_err(|_| Stopped),
        }
    }

    /// Shows `what` as the thing that the handler waits on, until the answer is dropped.
    #[must_use = "shown only while it lives"]
    pub fn waiting_on(&self, what: &str) -> Waiting {
        self.set_waiting(what);
        Waiting {
            context: self.clone(),
        }
    }

    /// Counters without a checkpoint; they travel with the next beat.
    pub fn count(&self, counters: Counters) {
        let mut slot = self.slot();
        slot.counters.done = counters.done.or(slot.counters.done);
        slot.counters.expected = counters.expected.or(slot.counters.expected);
        slot.counters.rate = counters.rate.or(slot.counters.rate);
        slot.counters_changed = true;
        self.announce(&mut slot);
    }

    /// Returns when the attempt is told to stop. Then stop: what is done after it may not count.
    pub async fn cancelled(&self) {
        self.inner.stop.cancelled().await;
    }

    /// Whether the attempt was told to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.inner.stop.is_cancelled()
    }

    /// The order to stop, once it was given.
    #[must_use]
    pub fn stop_order(&self) -> Option<StopOrder> {
        *self
            .inner
            .order
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// `Err(Stopped)` once the attempt was told to stop: `ctx.check()?` in a loop.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn check(&self) -> Result<(), Stopped> {
        if self.is_cancelled() {
            Err(Stopped)
        } else {
            Ok(())
        }
    }

    /// Reads the parameters.
    ///
    /// # Errors
    /// Fatal for the run, code `bad-parameters`: another attempt gets the same ones.
    pub fn read_parameters<P: serde::de::DeserializeOwned>(&self) -> Result<P, HandlerError> {
        let text = self.parameters();
        let text = if text.trim().is_empty() { "{}" } else { text };
        match serde_json::from_str(text) {
            Ok(parameters) => Ok(parameters),
            // A handler without parameters takes `()`, which JSON writes as null.
            Err(error) => match serde_json::from_str("null") {
                Ok(none) if text.trim() == "{}" => Ok(none),
                _ => {
                    let text = format!("the parameters do not fit this handler: {error}");
                    Err(HandlerError::fatal_run("bad-parameters", text))
                }
            },
        }
    }

    pub(crate) fn earlier_unknown(&self) -> Vec<EarlierAttempt> {
        let unknown = self.inner.grant.unknown_outcomes.iter();
        unknown
            .map(|u| EarlierAttempt {
                attempt: u.attempt,
                token: u.token,
            })
            .collect()
    }

    pub(crate) fn order_stop(&self, order: StopOrder) {
        *self
            .inner
            .order
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(order);
        self.inner.stop.cancel();
    }

    pub(crate) fn acknowledge(&self, seq: u64) {
        self.inner.acked.send_if_modified(|acked| {
            let more = seq > *acked;
            *acked = seq.max(*acked);
            more
        });
    }

    pub(crate) fn take(&self) -> Taken {
        let mut slot = self.slot();
        slot.announced = false;
        let counters_changed = std::mem::take(&mut slot.counters_changed);
        Taken {
            checkpoint: slot.checkpoint.take(),
            counters: counters_changed.then(|| slot.counters.clone()),
            flush: std::mem::take(&mut slot.flush),
        }
    }

    fn set_waiting(&self, what: &str) {
        let mut slot = self.slot();
        let fits = what.floor_char_boundary(MAX_WAITING_ON_BYTES);
        what[..fits].clone_into(&mut slot.counters.waiting_on);
        slot.counters_changed = true;
        self.announce(&mut slot);
    }

    /// A full channel is made up for by the driver's regular look at every attempt.
    fn announce(&self, slot: &mut Slot) {
        if !slot.announced {
            slot.announced = self
                .inner
                .events
                .try_send(Event::Dirty(self.inner.lease))
                .is_ok();
        }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.inner
            .slot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shown as waiting while it lives.
#[derive(Debug)]
pub struct Waiting {
    context: Context,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.context.set_waiting("");
    }
}
