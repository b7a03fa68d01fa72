//! The worker's side of the session protocol, as a pure state machine.
//!
//! [`Session::handle`] takes one [`Input`] and the boot time and returns the [`Output`]s, in the
//! order in which they are to be done. It does no I/O, reads no clock and draws no randomness
//! (jitter comes with the input), so the same inputs give the same outputs in production, in
//! tests and in the simulator. Whoever drives it
//!
//! - calls [`Session::start`] once and does what it says;
//! - feeds every event in, one at a time, and a [`Input::Tick`] no later than
//!   [`Session::next_wake`];
//! - after [`Input::Disconnected`] delivers nothing more from the old stream;
//! - answers each [`Output::Journal`] that is a start or a finish with [`Input::Journaled`];
//! - answers each [`Output::StartAttempt`] with exactly one [`Input::HandlerFinished`], *after* the
//!   attempt's whole process tree is gone.
//!
//! # Invariants
//! - At [`Session::valid_until`] nothing runs: the attempts are told to stop early enough that
//!   their grace has passed by then (self-fencing). The moment is counted from the *sending* of
//!   the last beat that was answered, on `CLOCK_BOOTTIME`, less 10 % and 500 ms.
//! - A session that ran out or was declared lost is never used again: all work is stopped first,
//!   and only then a new session is asked for.
//! - A result is in the journal before it is reported, and is reported until the verdict is
//!   definite. (A journal that can't be written makes the worker degraded: it still reports what
//!   it has, and takes no more work.)
//! - A lease is started at most once, and never more attempts run than there are slots.
//!
//! # Not here
//! The stream and its reconnection (`worker`), the journal file (`journal`), running handlers.

mod attempts;
mod checkpoints;
mod link;
mod reports;
mod seen;
#[cfg(test)]
mod tests;
mod types;
#[cfg(feature = "zoo")]
#[doc(hidden)]
pub mod zoo;

use std::collections::{BTreeMap, BTreeSet};

use sichen_proto::v1;
use v1::server_message::Message as FromServer;
use v1::worker_message::Message as ToServer;

use attempts::Attempt;
use link::{Link, Live};
use reports::Report;
pub use sichen_proto::MAX_POSITION_BYTES;
pub use types::{
    Boot, Ended, Entry, ExitReason, Identity, Input, JournalOp, Lease, Note, Output, Recovered,
};

/// Largest result of a handler, in bytes.
pub const MAX_RESULT_BYTES: usize = 256 * 1024;
/// Longest text that says what a handler waits on, in bytes; longer ones are cut.
pub const MAX_WAITING_ON_BYTES: usize = 256;
/// Longest error message, in bytes; longer ones are cut.
pub const MAX_ERROR_BYTES: usize = 4 * 1024;
/// A shard's checkpoints are sent at most this often, the newest wins.
pub const CHECKPOINT_EVERY_MS: u64 = 1_000;
/// Unreported results beyond this many bytes make the worker refuse grants.
pub const MAX_BACKLOG_BYTES: usize = 8 * 1024 * 1024;
/// How long a worker that leaves looks for a server to tell it so.
pub const TAKE_LEAVE_WITHIN_MS: u64 = 5_000;
/// Grace where the server names none.
pub const DEFAULT_GRACE_MS: u64 = 10_000;

/// The state machine. See the module.
#[derive(Debug)]
pub struct Session {
    identity: Identity,
    /// Of attempts whose grant names none.
    grace_ms: u64,
    link: Link,
    /// Streams that failed since the last welcome.
    failures: u32,
    /// Hellos sent that asked for a new session.
    registration: u64,
    ever_welcomed: bool,
    live: Option<Live>,
    attempts: BTreeMap<Lease, Attempt>,
    /// Ended attempts whose verdict is open.
    reports: BTreeMap<Lease, Report>,
    /// Bytes of all of them.
    backlog: usize,
    /// Attempts that ended with their session: told to the server in the next Hello.
    dead: BTreeSet<Lease>,
    /// Attempts that were killed and do not end.
    stuck: BTreeSet<Lease>,
    degraded: bool,
    /// The highest epoch of a store that a token was granted under, as far as this process knows.
    epoch: u64,
    /// A grant came under an older one: the store went back, and nothing more is taken.
    behind: bool,
    drain: Option<Drain>,
    /// Set once the process is to leave as soon as nothing runs.
    leaving: Option<ExitReason>,
    exited: bool,
    out: Vec<Output>,
}

#[derive(Debug, Clone, Copy)]
struct Drain {
    stop_at: Boot,
    exit_by: Boot,
    /// With nothing left to do, a server is looked for until then, to be told of it; `None` from then
    /// on.
    take_leave_by: Option<Boot>,
    stopped: bool,
}

impl Session {
    /// The same, which gives attempts so long between being told to stop and being killed, if their
    /// job says nothing.
    #[must_use]
    pub fn with_grace(mut self, ms: u64) -> Session {
        self.grace_ms = ms;
        self
    }

    /// A worker that has just started, with what its journal holds.
    #[must_use]
    pub fn new(identity: Identity, recovered: Vec<Recovered>) -> Session {
        let mut reports = BTreeMap::new();
        let mut backlog = 0;
        let mut dead = BTreeSet::new();
        let mut out = Vec::new();
        let mut epoch = 0;
        for entry in recovered {
            match entry {
                Recovered::Finished(finish) => {
                    if let Some(lease) = Lease::from_wire(finish.shard, finish.token) {
                        let report = Report::recovered(finish);
                        backlog += report.bytes();
                        epoch = epoch.max(lease.epoch());
                        reports.insert(lease, report);
                    }
                }
                Recovered::RunningDead { lease } => {
                    epoch = epoch.max(lease.epoch());
                    if identity.old_trees_dead {
                        dead.insert(lease);
                    } else {
                        let why = "it may still live: its lease runs out with its session";
                        out.push(Output::Journal(JournalOp::Forget { lease, why }));
                    }
                }
            }
        }
        Session {
            identity,
            grace_ms: DEFAULT_GRACE_MS,
            link: Link::Down,
            failures: 0,
            registration: 0,
            ever_welcomed: false,
            live: None,
            attempts: BTreeMap::new(),
            reports,
            backlog,
            dead,
            stuck: BTreeSet::new(),
            degraded: false,
            epoch,
            behind: false,
            drain: None,
            leaving: None,
            exited: false,
            out,
        }
    }

    /// The first thing to do: dial.
    #[must_use]
    pub fn start(&mut self) -> Vec<Output> {
        self.out.push(Output::Reconnect {
            after_ms: 0,
            address: None,
        });
        std::mem::take(&mut self.out)
    }

    /// Takes one event at the boot time `now` and says what is to be done.
    ///
    /// `now` never goes back from one call to the next.
    #[must_use]
    pub fn handle(&mut self, input: Input, now: Boot) -> Vec<Output> {
        self.handle_all([input], now)
    }

    /// Takes events that have come by `now`, in their order: what follows from the time and the state
    /// rather than from one of them is looked at once for all.
    #[must_use]
    pub fn handle_all(
        &mut self,
        inputs: impl IntoIterator<Item = Input>,
        now: Boot,
    ) -> Vec<Output> {
        for input in inputs {
            if !self.exited {
                self.take(input, now);
            }
        }
        if !self.exited {
            self.advance(now);
        }
        std::mem::take(&mut self.out)
    }

    fn take(&mut self, input: Input, now: Boot) {
        // A machine that slept through its deadline must not first act on what came meanwhile; only
        // an answered beat can still show that the session was renewed in time.
        if !matches!(input, Input::Server(FromServer::BeatAck(_))) {
            self.check_fence(now);
        }
        match input {
            Input::Connected => self.on_connected(now),
            Input::Disconnected { jitter } => self.on_disconnected(jitter, now),
            Input::Server(message) => self.on_server(message, now),
            Input::Tick => {}
            Input::Journaled {
                lease,
                entry: Entry::Start,
                ok,
            } => {
                self.on_start_journaled(lease, ok, now);
            }
            Input::Journaled {
                lease,
                entry: Entry::Finish,
                ok,
            } => {
                self.on_finish_journaled(lease, ok, now);
            }
            Input::JournalHealthy(healthy) => self.on_journal_healthy(healthy),
            Input::HandlerCheckpoint {
                lease,
                checkpoint,
                flush,
            } => {
                self.on_checkpoint(lease, checkpoint, flush, now);
            }
            Input::HandlerCounters { lease, counters } => self.on_counters(lease, counters, now),
            Input::HandlerFinished { lease, ended } => self.on_finished(lease, ended, now),
            Input::AttemptStuck(lease) => self.on_stuck(lease),
            Input::Drain { grace_ms } => self.on_drain(grace_ms, now),
        }
    }

    /// When the next [`Input::Tick`] is due at the latest; `None` while only events matter.
    #[must_use]
    pub fn next_wake(&self) -> Option<Boot> {
        let mut wakes: Vec<Option<Boot>> = vec![self.link_wake(), self.attempts_wake()];
        if matches!(self.link, Link::Up) {
            wakes.push(self.reports_wake());
        }
        if let Some(drain) = self.drain {
            wakes.push(Some(if drain.stopped {
                drain.exit_by
            } else {
                drain.stop_at
            }));
            if !matches!(self.link, Link::Up) {
                wakes.push(drain.take_leave_by);
            }
        }
        wakes.into_iter().flatten().min()
    }

    /// Until when the server can't have given this worker's shards to another; `None` without a
    /// session. Nothing runs from then on.
    #[must_use]
    pub fn valid_until(&self) -> Option<Boot> {
        self.live.as_ref().map(|live| live.valid_until)
    }

    /// The session, if there is one.
    #[must_use]
    pub fn session_id(&self) -> Option<u64> {
        self.live.as_ref().map(|live| live.id)
    }

    /// Attempts that hold a slot: starting, running or being stopped.
    pub fn running(&self) -> impl Iterator<Item = Lease> + '_ {
        self.attempts.keys().copied()
    }

    /// Ended attempts without a definite verdict.
    pub fn unreported(&self) -> impl Iterator<Item = Lease> + '_ {
        self.reports.keys().copied()
    }

    fn on_server(&mut self, message: FromServer, now: Boot) {
        match message {
            FromServer::Welcome(welcome) => self.on_welcome(welcome, now),
            FromServer::BeatAck(ack) => self.on_beat_ack(ack, now),
            FromServer::Grant(grant) => self.on_grant(grant, now),
            FromServer::FinishAck(ack) => self.on_finish_ack(ack, now),
            FromServer::CheckpointAck(ack) => self.on_checkpoint_ack(ack, now),
            FromServer::Cancel(cancel) => self.on_cancel(cancel, now),
            FromServer::SessionLost(lost) => {
                self.lose_session(format!("the server says: {}", lost.reason), 0, now);
                self.redial(None);
            }
            FromServer::Superseded(_) => {
                self.stop_all(v1::Reason::StaleToken, 0, now);
                self.live = None;
                self.leaving = Some(ExitReason::Superseded);
            }
            FromServer::Moved(moved) => {
                let address = (!moved.address.is_empty()).then_some(moved.address);
                self.redial(address);
            }
            FromServer::Refused(refused) => self.on_refused(refused),
            // Answered where streams are served; it is none of the session's business.
            FromServer::ReadOutput(_) => {}
        }
    }

    fn on_drain(&mut self, grace_ms: u64, now: Boot) {
        // The last part of the grace is for stopping; the rest for finishing.
        let stop_at = now.plus(grace_ms - grace_ms / 4);
        let exit_by = now.plus(grace_ms.saturating_add(5_000));
        let first = self.drain.is_none();
        let earlier = self.drain.map_or(stop_at, |old| old.stop_at.min(stop_at));
        let exit_by = self.drain.map_or(exit_by, |old| old.exit_by.min(exit_by));
        let take_leave_by = self
            .drain
            .map_or(Some(now.plus(TAKE_LEAVE_WITHIN_MS)), |old| {
                old.take_leave_by
            });
        // Told again with less time, those that stop already are given less.
        let stopped = self
            .drain
            .is_some_and(|old| old.stopped && old.exit_by <= exit_by);
        self.drain = Some(Drain {
            stop_at: earlier,
            exit_by,
            take_leave_by,
            stopped,
        });
        if first && matches!(self.link, Link::Up) {
            self.send(ToServer::Draining(v1::Draining { leaves: false }));
        }
    }

    /// Everything that follows from the time and the state rather than from the one event.
    fn advance(&mut self, now: Boot) {
        self.check_fence(now);
        self.start_waiting();
        self.time_out_attempts(now);
        self.advance_drain(now);
        self.advance_link(now);
        if matches!(self.link, Link::Up) {
            self.send_checkpoints(now);
            self.send_reports(now);
            self.send_beat(now);
        }
        // With the session over an attempt must not go on: the process ends, and it with it. Under
        // a live session it is still listed as running, which is the truth.
        if self.live.is_none()
            && let Some(stuck) = self.stuck.first()
        {
            self.exit(ExitReason::Stuck(*stuck));
        }
        if self.attempts.is_empty()
            && let Some(reason) = self.leaving.take()
        {
            self.exit(reason);
        }
    }

    fn advance_drain(&mut self, now: Boot) {
        let Some(drain) = self.drain else { return };
        if now >= drain.stop_at && !drain.stopped {
            self.drain = Some(Drain {
                stopped: true,
                ..drain
            });
            let grace = drain.exit_by.since(now).saturating_sub(5_000);
            self.stop_all(v1::Reason::Draining, grace, now);
        }
        if let Some(drain) = &mut self.drain {
            drain.take_leave_by = drain.take_leave_by.filter(|by| now < *by);
        }
        let idle = self.attempts.is_empty() && self.reports.is_empty() && !self.is_missed();
        if idle || (now >= drain.exit_by && self.leaving.is_none()) {
            self.leaving = None;
            if idle && matches!(self.link, Link::Up) {
                self.send(ToServer::Draining(v1::Draining { leaves: true }));
            }
            self.exit(ExitReason::Drained {
                unreported: self.reports.len(),
            });
        }
    }

    /// Whether a server would go on to offer work to a session of ours, since it was not told that we
    /// leave: a Hello is on its way (its answer has a time limit of its own), or the stream is being
    /// changed for another.
    fn is_missed(&self) -> bool {
        let may_still_tell = self
            .drain
            .is_some_and(|drain| drain.take_leave_by.is_some());
        match self.link {
            Link::Up => false,
            Link::Greeting { .. } => true,
            Link::Down | Link::Open => self.live.is_some() && may_still_tell,
        }
    }

    fn exit(&mut self, reason: ExitReason) {
        if !self.exited {
            self.exited = true;
            self.link = Link::Down;
            self.out.push(Output::CloseStream);
            self.out.push(Output::Exit(reason));
        }
    }

    fn send(&mut self, message: ToServer) {
        self.out.push(Output::Send(message));
    }

    fn note(&mut self, note: Note) {
        self.out.push(Output::Note(note));
    }

    fn journal(&mut self, op: JournalOp) {
        self.out.push(Output::Journal(op));
    }
}
