//! Attempts: from the grant to the handler's end.

use sichen_proto::v1;
use v1::worker_message::Message as ToServer;

use super::checkpoints::MAX_CHECKPOINTS_IN_FLIGHT;
use super::reports::{ANSWER_WITHIN_MS, Report};
use super::{
    Boot, CHECKPOINT_EVERY_MS, Ended, JournalOp, Lease, Link, MAX_BACKLOG_BYTES, Note, Output,
    Session,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// An older attempt of the same shard still has to die.
    Waiting,
    /// Its start is being written to the journal.
    Journaling,
    Running,
}

/// What becomes of an attempt that was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its end is reported, with the outcome that the reason stands for.
    Report(v1::Reason),
    /// Its token is not current: nothing it does counts.
    Discard,
    /// Its session is over: handed in as dead, or as finished if it managed to.
    HandIn,
}

#[derive(Debug)]
pub(super) struct Attempt {
    grant: Box<v1::Grant>,
    pub(super) state: State,
    arrived: Boot,
    started: Boot,
    /// The handler's last sign of progress, or else when the grant was made: from there its first one is
    /// awaited.
    pub(super) sign: Boot,
    fate: Option<Fate>,
    kill_at: Option<Boot>,
    pub(super) counters: Option<v1::Counters>,
    pub(super) newest: Option<v1::Checkpoint>,
    /// Highest checkpoint sent on this stream, and acknowledged at all.
    pub(super) sent_seq: u64,
    pub(super) acked_seq: u64,
    pub(super) last_sent: Option<Boot>,
    pub(super) flush: bool,
}

impl Attempt {
    fn grace_ms(&self) -> u64 {
        self.grant.grace_ms
    }

    /// When it is over by itself, and why.
    fn times_out_at(&self) -> Option<(Boot, v1::Reason)> {
        if self.state != State::Running || self.fate.is_some() {
            return None;
        }
        let grant = &self.grant;
        let limits = [
            (self.arrived, grant.run_timeout_ms, v1::Reason::RunDeadline),
            (
                self.started,
                grant.attempt_timeout_ms,
                v1::Reason::AttemptTimeout,
            ),
            (self.sign, grant.stall_timeout_ms, v1::Reason::Stalled),
        ];
        let limits = limits.into_iter().filter(|(_, ms, _)| *ms > 0);
        let ends = limits.map(|(from, ms, reason)| (from.plus(ms), reason));
        ends.min_by_key(|(at, _)| *at)
    }

    /// Whether the answer to a checkpoint is awaited.
    pub(super) fn in_flight(&self) -> bool {
        self.sent_seq > self.acked_seq
    }

    /// For how long it has given no sign of progress.
    pub(super) fn idle_ms(&self, now: Boot) -> u64 {
        now.since(self.sign)
    }

    /// When a checkpoint is to be sent; `None` if there is nothing to send. One that is not
    /// answered is sent again after a while, also on a stream that looks alive.
    pub(super) fn checkpoint_at(&self) -> Option<Boot> {
        let newest = self.newest.as_ref()?;
        if newest.seq <= self.acked_seq
            || self
                .fate
                .is_some_and(|fate| !matches!(fate, Fate::Report(_)))
        {
            return None;
        }
        match self.last_sent {
            Some(last) if newest.seq <= self.sent_seq => Some(last.plus(ANSWER_WITHIN_MS)),
            Some(last) if !self.flush => Some(last.plus(CHECKPOINT_EVERY_MS)),
            _ => Some(Boot(0)),
        }
    }
}

impl Session {
    pub(super) fn on_grant(&mut self, mut grant: v1::Grant, now: Boot) {
        if grant.grace_ms == 0 {
            grant.grace_ms = self.grace_ms;
        }
        let Some(lease) = Lease::from_wire(grant.shard, grant.token) else {
            self.note(Note::BadMessage("a grant without shard or token"));
            return;
        };
        let Some(live) = self.live.as_mut().filter(|_| self.link == Link::Up) else {
            self.note(Note::BadMessage("a grant outside a session"));
            return;
        };
        let seen_before = !live.grants.take(grant.grant_seq);
        #[cfg(feature = "zoo")]
        if super::zoo::is("grant-taken-again") {
            self.attempts.remove(&lease);
        }
        if self.attempts.contains_key(&lease) {
            // Sent again after a resume: say again that it is taken.
            if self
                .attempts
                .get(&lease)
                .is_some_and(|attempt| attempt.state == State::Running)
            {
                self.send(ToServer::Accept(v1::Accept {
                    shard: Some(lease.shard()),
                    token: lease.token,
                }));
            }
            return;
        }
        // Sent again, and what it was about has ended: its report waits for a verdict or has one.
        // Taking it anew would start a second attempt under one token.
        if seen_before || self.reports.contains_key(&lease) {
            return;
        }
        if lease.epoch() < self.epoch && !self.behind {
            self.behind = true;
            self.note(Note::OlderEpoch {
                lease,
                known: self.epoch,
            });
        }
        self.epoch = self.epoch.max(lease.epoch());
        if let Some((reason, detail)) = self.reason_to_reject(&grant, lease) {
            self.reject(lease, reason, detail);
            return;
        }
        // An older attempt of this shard has lost its token, or there would be no newer one.
        let older: Vec<Lease> = self.of_shard(lease).collect();
        for old in &older {
            self.stop(*old, Fate::Discard, v1::Reason::StaleToken, None, now);
        }
        let older_lives = self.of_shard(lease).next().is_some();
        let state = if older_lives {
            State::Waiting
        } else {
            State::Journaling
        };
        let (handler, sent_ago) = (grant.handler.clone(), grant.granted_ms_ago);
        let attempt = Attempt {
            grant: Box::new(grant),
            state,
            arrived: now,
            started: now,
            sign: now.minus(sent_ago),
            fate: None,
            kill_at: None,
            counters: None,
            newest: None,
            sent_seq: 0,
            acked_seq: 0,
            last_sent: None,
            flush: false,
        };
        self.attempts.insert(lease, attempt);
        if state == State::Journaling {
            self.journal(JournalOp::Start { lease, handler });
        }
    }

    /// Attempts of the shard of `lease`, by token.
    fn of_shard(&self, lease: Lease) -> impl Iterator<Item = Lease> + '_ {
        let (first, last) = (0, u64::MAX);
        let range = Lease {
            token: first,
            ..lease
        }..=Lease {
            token: last,
            ..lease
        };
        self.attempts.range(range).map(|(lease, _)| *lease)
    }

    fn reason_to_reject(&self, grant: &v1::Grant, lease: Lease) -> Option<(v1::Reason, String)> {
        let newer = self.of_shard(lease).any(|other| other.token > lease.token);
        let backlog = self.backlog;
        if newer {
            return Some((v1::Reason::StaleToken, String::new()));
        }
        if self.drain.is_some() || self.leaving.is_some() {
            return Some((v1::Reason::Draining, String::new()));
        }
        if self.behind {
            let detail = format!(
                "SC2006: the store is of epoch {} and this worker has worked under epoch {}",
                lease.epoch(),
                self.epoch
            );
            return Some((v1::Reason::Degraded, detail));
        }
        if self.degraded {
            return Some((
                v1::Reason::Degraded,
                "the journal can't be written".to_owned(),
            ));
        }
        if self.attempts.len() >= self.identity.slots as usize {
            return Some((v1::Reason::Full, format!("{} slots", self.identity.slots)));
        }
        if backlog > MAX_BACKLOG_BYTES {
            return Some((
                v1::Reason::Full,
                format!("{backlog} bytes of results not acknowledged"),
            ));
        }
        // A plan step on a data source is the worker's own work and needs no handler.
        let planned_here = matches!(
            &grant.descriptor,
            Some(v1::Descriptor { descriptor: Some(v1::descriptor::Descriptor::Plan(plan)) })
                if !plan.data_source.is_empty()
        );
        (!planned_here && !self.identity.handlers.contains(&grant.handler))
            .then(|| (v1::Reason::NoHandler, grant.handler.clone()))
    }

    fn reject(&mut self, lease: Lease, reason: v1::Reason, detail: String) {
        self.note(Note::Rejected { lease, reason });
        self.send(ToServer::Reject(v1::Reject {
            shard: Some(lease.shard()),
            token: lease.token,
            reason: reason.into(),
            detail,
        }));
    }

    pub(super) fn on_start_journaled(&mut self, lease: Lease, ok: bool, now: Boot) {
        self.degraded = !ok;
        let Some(attempt) = self
            .attempts
            .get_mut(&lease)
            .filter(|a| a.state == State::Journaling)
        else {
            return;
        };
        if !ok {
            self.attempts.remove(&lease);
            // Off the stream the next beat says it by not listing the attempt.
            if self.link == Link::Up {
                self.reject(
                    lease,
                    v1::Reason::Degraded,
                    "the journal can't be written".to_owned(),
                );
            }
            return;
        }
        attempt.state = State::Running;
        attempt.started = now;
        let grant = attempt.grant.clone();
        if self.link == Link::Up {
            self.send(ToServer::Accept(v1::Accept {
                shard: Some(lease.shard()),
                token: lease.token,
            }));
        }
        self.out.push(Output::StartAttempt(grant));
    }

    pub(super) fn start_waiting(&mut self) {
        let ready: Vec<Lease> = self
            .attempts
            .iter()
            .filter(|(lease, attempt)| {
                attempt.state == State::Waiting
                    && !self
                        .of_shard(**lease)
                        .any(|other| other.token < lease.token)
            })
            .map(|(lease, _)| *lease)
            .collect();
        for lease in ready {
            if let Some(attempt) = self.attempts.get_mut(&lease) {
                attempt.state = State::Journaling;
                let handler = attempt.grant.handler.clone();
                self.journal(JournalOp::Start { lease, handler });
            }
        }
    }

    pub(super) fn on_cancel(&mut self, cancel: v1::Cancel, now: Boot) {
        if let Some(lease) = Lease::from_wire(cancel.shard, cancel.token) {
            let own = self.attempts.get(&lease).map(Attempt::grace_ms);
            let grace_ms = own.map_or(cancel.grace_ms, |own| own.min(cancel.grace_ms));
            self.stop_for(lease, cancel.reason(), Some(grace_ms), now);
        }
    }

    pub(super) fn on_stop(&mut self, stop: v1::Stop, now: Boot) {
        if let Some(lease) = Lease::from_wire(stop.shard, stop.token) {
            self.stop_for(lease, stop.reason(), None, now);
        }
    }

    fn stop_for(&mut self, lease: Lease, reason: v1::Reason, grace_ms: Option<u64>, now: Boot) {
        let fate = match reason {
            v1::Reason::StaleToken | v1::Reason::UnknownGrant => Fate::Discard,
            _ => Fate::Report(reason),
        };
        self.stop(lease, fate, reason, grace_ms, now);
    }

    /// Tells one attempt to stop. A second time can only shorten its grace and worsen its fate.
    pub(super) fn stop(
        &mut self,
        lease: Lease,
        fate: Fate,
        reason: v1::Reason,
        grace_ms: Option<u64>,
        now: Boot,
    ) {
        let Some(attempt) = self.attempts.get_mut(&lease) else {
            return;
        };
        attempt.fate = match (attempt.fate, fate) {
            (None, new) => Some(new),
            (Some(Fate::Report(_)), new @ (Fate::Discard | Fate::HandIn)) => Some(new),
            (old, _) => old,
        };
        if attempt.state != State::Running {
            // Never started: it is over at once. (A start record on its way is forgotten after.)
            let ended = Ended::Stopped;
            self.on_finished(lease, ended, now);
            return;
        }
        let grace_ms = grace_ms.unwrap_or_else(|| attempt.grace_ms());
        let kill_at = now.plus(grace_ms);
        if attempt.kill_at.is_none_or(|old| kill_at < old) {
            attempt.kill_at = Some(kill_at);
            self.out.push(Output::StopAttempt {
                lease,
                reason,
                grace_ms,
            });
        }
    }

    /// Tells all attempts to stop within at most `grace_ms`.
    pub(super) fn stop_all(&mut self, reason: v1::Reason, grace_ms: u64, now: Boot) {
        let all: Vec<(Lease, u64)> = self
            .attempts
            .iter()
            .map(|(lease, a)| (*lease, a.grace_ms()))
            .collect();
        for (lease, own) in all {
            self.stop_for(lease, reason, Some(own.min(grace_ms)), now);
        }
    }

    /// The session is over: all its attempts stop, and are handed in with the next Hello.
    pub(super) fn end_attempts_of_session(&mut self, grace_ms: u64, now: Boot) {
        let all: Vec<(Lease, u64)> = self
            .attempts
            .iter()
            .map(|(lease, a)| (*lease, a.grace_ms()))
            .collect();
        for (lease, own) in all {
            self.stop(
                lease,
                Fate::HandIn,
                v1::Reason::StaleToken,
                Some(own.min(grace_ms)),
                now,
            );
        }
    }

    pub(super) fn time_out_attempts(&mut self, now: Boot) {
        let over: Vec<(Lease, v1::Reason)> = self
            .attempts
            .iter()
            .filter_map(|(lease, attempt)| {
                let (at, reason) = attempt.times_out_at()?;
                (now >= at).then_some((*lease, reason))
            })
            .collect();
        for (lease, reason) in over {
            self.stop_for(lease, reason, None, now);
        }
    }

    pub(super) fn on_counters(&mut self, lease: Lease, counters: v1::Counters, now: Boot) {
        if let Some(attempt) = self.attempts.get_mut(&lease) {
            attempt.sign = now;
            attempt.counters = Some(counters);
        }
    }

    pub(super) fn on_finished(&mut self, lease: Lease, ended: Ended, now: Boot) {
        let Some(attempt) = self.attempts.remove(&lease) else {
            return;
        };
        self.stuck.remove(&lease);
        // A handler that fails after it was told to stop has stopped.
        let ended = match (ended, attempt.fate) {
            (Ended::Failed(_), Some(_)) => Ended::Stopped,
            (other, _) => other,
        };
        match (attempt.fate, &ended) {
            (Some(Fate::Discard), _) => {
                let why = "its token is no longer current";
                self.note(Note::Dropped {
                    lease,
                    why: why.to_owned(),
                });
                self.journal(JournalOp::Forget { lease, why });
            }
            (Some(Fate::HandIn), Ended::Stopped | Ended::Failed(_)) => {
                self.dead.insert(lease);
            }
            _ => self.report(lease, attempt, ended, now),
        }
    }

    fn report(&mut self, lease: Lease, attempt: Attempt, ended: Ended, now: Boot) {
        let reason = match attempt.fate {
            Some(Fate::Report(reason)) => reason,
            _ => v1::Reason::Unspecified,
        };
        let (outcome, error, result, plan) = match ended {
            Ended::Succeeded { result, plan } => (v1::Outcome::Succeeded, None, result, plan),
            Ended::Failed(error) => (v1::Outcome::Failed, Some(error), Vec::new(), None),
            Ended::Stopped => stopped(reason),
        };
        let finish = v1::Finish {
            shard: Some(lease.shard()),
            token: lease.token,
            outcome: outcome.into(),
            digest: Vec::new(),
            error,
            result,
            plan,
            counters: attempt.counters,
            started_after_ms: attempt.started.since(attempt.arrived),
            took_ms: if attempt.state == State::Running {
                now.since(attempt.started)
            } else {
                0
            },
            reason: reason.into(),
            checkpoint: attempt.newest,
            run_key: attempt.grant.run_key,
        };
        let report = Report::new(finish);
        self.journal(JournalOp::Finish(Box::new(report.finish.clone())));
        self.backlog += report.bytes();
        if let Some(old) = self.reports.insert(lease, report) {
            self.backlog = self.backlog.saturating_sub(old.bytes());
        }
    }

    pub(super) fn on_stuck(&mut self, lease: Lease) {
        if !self.attempts.contains_key(&lease) {
            return;
        }
        self.note(Note::Stuck(lease));
        self.stuck.insert(lease);
    }

    pub(super) fn attempts_wake(&self) -> Option<Boot> {
        let up = self.link == Link::Up;
        let timeouts = self.attempts.values().filter_map(Attempt::times_out_at);
        let timeouts = timeouts.map(|(at, _)| at);
        // What has to wait for an answer to another is no reason to wake.
        let full = self.checkpoints_in_flight() >= MAX_CHECKPOINTS_IN_FLIGHT;
        let checkpoints = self
            .attempts
            .values()
            .filter(|attempt| up && (!full || attempt.in_flight()))
            .filter_map(Attempt::checkpoint_at);
        timeouts.chain(checkpoints).min()
    }
}

type Told = (
    v1::Outcome,
    Option<v1::AttemptError>,
    Vec<u8>,
    Option<v1::PlanResult>,
);

/// The outcome of an attempt that stopped: by what it was told to stop for, and as a failure if it was
/// told nothing that a run goes by.
fn stopped(reason: v1::Reason) -> Told {
    let outcome = match reason {
        v1::Reason::CancelRequested | v1::Reason::RunDeadline => v1::Outcome::Cancelled,
        v1::Reason::AttemptTimeout | v1::Reason::Stalled => v1::Outcome::TimedOut,
        v1::Reason::Preempted | v1::Reason::Draining => v1::Outcome::Released,
        _ => v1::Outcome::Failed,
    };
    let error = (outcome == v1::Outcome::Failed).then(|| v1::AttemptError {
        code: "stopped".to_owned(),
        message: "the attempt stopped without being asked to".to_owned(),
        kind: v1::ErrorKind::Retryable.into(),
    });
    (outcome, error, Vec::new(), None)
}
