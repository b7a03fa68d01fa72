//! The stream, the session on it, its beats and its end.

use std::collections::BTreeMap;

use sichen_proto::{PROTOCOL_VERSION, v1};
use v1::worker_message::Message as ToServer;

use super::seen::Seen;
use super::{Boot, ExitReason, Note, Output, Session};

/// Beats whose answers are awaited; more are not remembered.
const MAX_BEATS_IN_FLIGHT: usize = 64;
/// Results in one Hello; half of what a message may have.
const MAX_HANDOVER_BYTES: usize = 16 * 1024 * 1024;
/// How long to wait for the answer to a Hello.
const WELCOME_WITHIN_MS: u64 = 10_000;
const BACKOFF_FIRST_MS: u64 = 100;
const BACKOFF_MAX_MS: u64 = 5_000;
/// Bounds on what a server may ask for, so that a mad answer can't make the worker spin or sleep.
const BEAT_BOUNDS_MS: (u64, u64) = (50, 60_000);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    Down,
    /// Open, and no Hello sent: the old work must die first.
    Open,
    Greeting {
        sent: Boot,
        resume: Option<u64>,
    },
    Up,
}

/// The session in force.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) id: u64,
    pub(super) ttl_ms: u64,
    pub(super) beat_ms: u64,
    /// By our own clock, margin taken off.
    pub(super) valid_until: Boot,
    next_beat: Boot,
    beat_seq: u64,
    in_flight: BTreeMap<u64, Boot>,
    pub(super) grants: Seen,
}

impl Live {
    /// The last part of the validity is kept for stopping what runs.
    fn stop_within_ms(&self) -> u64 {
        (self.ttl_ms / 10).min(2_000)
    }

    fn fence_at(&self) -> Boot {
        #[cfg(feature = "zoo")]
        if super::zoo::is("no-self-fencing") {
            return self.valid_until.plus(20_000);
        }
        Boot(self.valid_until.0.saturating_sub(self.stop_within_ms()))
    }

    fn oldest_unanswered(&self) -> Option<Boot> {
        self.in_flight.values().next().copied()
    }

    /// An open stream whose beats are not answered is given up at this time.
    fn give_up_at(&self) -> Option<Boot> {
        self.oldest_unanswered()
            .map(|sent| sent.plus(self.beat_ms + self.beat_ms / 2))
    }
}

/// `valid_ms` counted from `sent`, less 10 % for a clock that runs at another rate and 500 ms; a
/// session too short for that keeps half.
fn deadline(sent: Boot, valid_ms: u64) -> Boot {
    let margin = (valid_ms / 10 + 500).min(valid_ms / 2);
    sent.plus(valid_ms - margin)
}

impl Session {
    pub(super) fn on_connected(&mut self, now: Boot) {
        self.link = Link::Open;
        if self.live.is_some() {
            self.greet(now);
        }
    }

    /// Says Hello: resumes the session in force, or asks for a new one.
    fn greet(&mut self, now: Boot) {
        let resume = self.live.as_ref().map(|live| live.id);
        if resume.is_none() {
            self.registration += 1;
        }
        let journal = if resume.is_none() {
            self.handover()
        } else {
            Vec::new()
        };
        let hello = v1::Hello {
            protocol_version: PROTOCOL_VERSION,
            worker_name: self.identity.name.clone(),
            worker_uid: self.identity.uid.clone(),
            boot_id: self.identity.boot_id.clone(),
            incarnation: self.identity.incarnation.clone(),
            registration: self.registration,
            start: self.identity.start,
            pool: self.identity.pool.clone(),
            slots: self.identity.slots,
            handlers: self.identity.handlers.iter().cloned().collect(),
            labels: self.identity.labels.clone(),
            build: self.identity.build.clone(),
            journal,
            resume_session: resume,
            running: if resume.is_some() {
                self.held(now)
            } else {
                Vec::new()
            },
            highest_grant_seen: self.live.as_ref().map_or(0, |live| live.grants.highest()),
            degraded: self.degraded || self.behind,
            draining: self.drain.is_some(),
            resources: self.identity.resources.clone(),
            old_trees_dead: self.identity.old_trees_dead,
        };
        if let Some(live) = &mut self.live {
            // It is judged as a beat is.
            live.grants.told();
        }
        self.link = Link::Greeting { sent: now, resume };
        self.send(ToServer::Hello(hello));
    }

    /// What the server should be told of attempts whose session is over.
    ///
    /// Results beyond [`MAX_HANDOVER_BYTES`] are left out, so that the Hello can be sent at all:
    /// they follow as reports, and count if the server has not given their shards away. The dead are
    /// a few bytes each, and no more than there are slots.
    fn handover(&self) -> Vec<v1::JournaledAttempt> {
        use v1::journaled_attempt::State;
        let mut left = MAX_HANDOVER_BYTES;
        let finished = self
            .reports
            .iter()
            .filter(|(_, report)| report.may_be_sent())
            .filter(move |(_, report)| match left.checked_sub(report.bytes()) {
                Some(rest) => {
                    left = rest;
                    true
                }
                None => false,
            })
            .map(|(lease, report)| v1::JournaledAttempt {
                shard: Some(lease.shard()),
                token: lease.token,
                state: Some(State::Finished(report.finish.clone())),
            });
        let dead = self.dead.iter().map(|lease| v1::JournaledAttempt {
            shard: Some(lease.shard()),
            token: lease.token,
            state: Some(State::RunningDead(v1::RunningDead {})),
        });
        finished.chain(dead).collect()
    }

    /// All that this session holds. An ended attempt without a verdict is among it: a server that
    /// missed its report must not take it for lost.
    fn held(&self, now: Boot) -> Vec<v1::Held> {
        let running = self.attempts.iter().map(|(lease, attempt)| v1::Held {
            shard: Some(lease.shard()),
            token: lease.token,
            counters: attempt.counters.clone(),
            idle_ms: attempt.idle_ms(now),
        });
        let ended = self.reports.iter().map(|(lease, report)| v1::Held {
            shard: Some(lease.shard()),
            token: lease.token,
            counters: report.finish.counters.clone(),
            // What has ended can't stall.
            idle_ms: 0,
        });
        running.chain(ended).collect()
    }

    pub(super) fn on_welcome(&mut self, welcome: v1::Welcome, now: Boot) {
        let Link::Greeting { sent, resume } = self.link else {
            self.note(Note::BadMessage("a Welcome that answers no Hello"));
            return;
        };
        if let Some(id) = resume
            && id != welcome.session_id
        {
            self.lose_session("resumed as another session".to_owned(), 0, now);
            self.redial(None);
            return;
        }
        let ttl_ms = welcome.session_ttl_ms.max(2 * BEAT_BOUNDS_MS.0);
        let beat_ms = welcome
            .beat_ms
            .clamp(BEAT_BOUNDS_MS.0, BEAT_BOUNDS_MS.1)
            .min(ttl_ms / 2);
        let valid_until = deadline(sent, ttl_ms);
        match (&mut self.live, resume) {
            (Some(live), Some(id)) => {
                live.valid_until = live.valid_until.max(valid_until);
                (live.ttl_ms, live.beat_ms) = (ttl_ms, beat_ms);
                live.in_flight.clear();
                live.next_beat = now;
                self.note(Note::Resumed { session_id: id });
            }
            _ => {
                self.live = Some(Live {
                    id: welcome.session_id,
                    ttl_ms,
                    beat_ms,
                    valid_until,
                    next_beat: sent.plus(beat_ms),
                    beat_seq: 0,
                    in_flight: BTreeMap::new(),
                    grants: Seen::default(),
                });
                self.note(Note::Registered {
                    session_id: welcome.session_id,
                });
                self.forget_dead();
            }
        }
        self.link = Link::Up;
        self.failures = 0;
        self.ever_welcomed = true;
        if self.drain.is_some() {
            self.send(ToServer::Draining(v1::Draining { leaves: false }));
        }
        self.resend_all();
        for verdict in welcome.journal_verdicts {
            self.on_finish_ack(verdict, now);
        }
        for stop in welcome.stop {
            self.on_stop(stop, now);
        }
        // A Welcome that took longer than the session lasts gives no right to work.
        self.check_fence(now);
    }

    pub(super) fn send_beat(&mut self, now: Boot) {
        let running = match &self.live {
            Some(live) if now >= live.next_beat => self.held(now),
            _ => return,
        };
        let degraded = self.degraded || self.behind;
        let Some(live) = &mut self.live else { return };
        live.beat_seq += 1;
        live.next_beat = now.plus(live.beat_ms);
        if live.in_flight.len() < MAX_BEATS_IN_FLIGHT {
            live.in_flight.insert(live.beat_seq, now);
        }
        let beat = v1::Beat {
            seq: live.beat_seq,
            highest_grant_seen: live.grants.highest(),
            running,
            degraded,
            // Whoever sends it knows the machine.
            load_milli: 0,
        };
        live.grants.told();
        self.send(ToServer::Beat(beat));
    }

    pub(super) fn on_beat_ack(&mut self, ack: v1::BeatAck, now: Boot) {
        let Some(live) = &mut self.live else { return };
        // An answer to a beat of an earlier stream, or one answered already, renews nothing.
        if let Some(sent) = live.in_flight.get(&ack.seq).copied() {
            live.valid_until = live
                .valid_until
                .max(deadline(sent, ack.session_valid_for_ms));
            live.in_flight = live.in_flight.split_off(&(ack.seq + 1));
        }
        for stop in ack.stop {
            self.on_stop(stop, now);
        }
    }

    /// Stops all work in time for the end of the session by our own clock.
    pub(super) fn check_fence(&mut self, now: Boot) {
        let Some(live) = &self.live else { return };
        if now < live.fence_at() {
            return;
        }
        let grace = live.valid_until.since(now);
        self.lose_session("no answer from a server in time".to_owned(), grace, now);
        if !matches!(self.link, Link::Down) {
            self.redial(None);
        }
    }

    /// Ends the session for good; its attempts are stopped and not waited for here.
    pub(super) fn lose_session(&mut self, why: String, grace_ms: u64, now: Boot) {
        if self.live.take().is_none() {
            return;
        }
        let stopped = self.attempts.len();
        self.end_attempts_of_session(grace_ms, now);
        self.note(Note::SessionLost { why, stopped });
    }

    /// Leaves the stream for another: at once the first time since a Welcome, then with backoff,
    /// so that two servers that name each other are not asked in a circle at full speed.
    pub(super) fn redial(&mut self, address: Option<String>) {
        self.link = Link::Down;
        let after_ms = if self.failures == 0 {
            0
        } else {
            self.backoff_ms()
        };
        self.failures = self.failures.saturating_add(1);
        self.out.push(Output::CloseStream);
        self.out.push(Output::Reconnect { after_ms, address });
    }

    /// While a session lives its server is looked for twice a beat at least: one that is back before
    /// the session must end has to be found in time, or its restart alone would lose the work.
    fn backoff_ms(&self) -> u64 {
        let lives = self.live.as_ref().map(|live| live.beat_ms / 2);
        let most = lives.map_or(BACKOFF_MAX_MS, |half| {
            half.clamp(BACKOFF_FIRST_MS, BACKOFF_MAX_MS)
        });
        (BACKOFF_FIRST_MS << self.failures.saturating_sub(1).min(8)).min(most)
    }

    pub(super) fn on_disconnected(&mut self, jitter: u16, _now: Boot) {
        self.link = Link::Down;
        self.failures = self.failures.saturating_add(1);
        let step = self.backoff_ms();
        let after_ms = step / 2 + step / 2 * u64::from(jitter.min(1_000)) / 1_000;
        self.out.push(Output::Reconnect {
            after_ms,
            address: None,
        });
    }

    pub(super) fn on_refused(&mut self, refused: v1::Refused) {
        if self.ever_welcomed {
            // A server in mid-upgrade or with a rotated token: keep trying, gently.
            self.failures = self.failures.max(8);
            self.link = Link::Down;
            self.out.push(Output::CloseStream);
            self.out.push(Output::Reconnect {
                after_ms: BACKOFF_MAX_MS,
                address: None,
            });
            return;
        }
        self.leaving = Some(ExitReason::Refused {
            code: refused.code,
            message: refused.message,
        });
    }

    pub(super) fn advance_link(&mut self, now: Boot) {
        match self.link {
            // A new session is asked for only when everything of the old one is dead.
            Link::Open
                if self.live.is_none() && self.attempts.is_empty() && self.leaving.is_none() =>
            {
                if self.reports.values().all(super::Report::may_be_sent) {
                    self.greet(now);
                }
            }
            Link::Greeting { sent, .. } if now >= sent.plus(self.welcome_within_ms()) => {
                self.redial(None);
            }
            Link::Up => {
                let give_up = self.live.as_ref().and_then(Live::give_up_at);
                if give_up.is_some_and(|at| now >= at) {
                    self.redial(None);
                }
            }
            Link::Down | Link::Open | Link::Greeting { .. } => {}
        }
    }

    /// A server that does not greet is left as one that does not answer beats: while a session lives
    /// there is no time to lose.
    fn welcome_within_ms(&self) -> u64 {
        let beat = self
            .live
            .as_ref()
            .map(|live| live.beat_ms + live.beat_ms / 2);
        beat.map_or(WELCOME_WITHIN_MS, |within| {
            within.clamp(1_000, WELCOME_WITHIN_MS)
        })
    }

    pub(super) fn link_wake(&self) -> Option<Boot> {
        let fence = self.live.as_ref().map(Live::fence_at);
        let own = match (self.link, &self.live) {
            (Link::Greeting { sent, .. }, _) => Some(sent.plus(self.welcome_within_ms())),
            (Link::Up, Some(live)) => [Some(live.next_beat), live.give_up_at()]
                .into_iter()
                .flatten()
                .min(),
            _ => None,
        };
        [fence, own].into_iter().flatten().min()
    }

    /// The server has been told of the dead in the Hello that it just answered.
    fn forget_dead(&mut self) {
        for lease in std::mem::take(&mut self.dead) {
            self.journal(super::JournalOp::Forget {
                lease,
                why: "handed in as dead",
            });
        }
    }
}
