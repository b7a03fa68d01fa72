//! A shard's attempts, tokens and checkpoints (I13–I16, I24, I25, I45).

use sichen_core::event::{Event, Kind};
use sichen_core::ids::{SessionId, Token};

use super::{Broken, Trail, broken, check_move};
use crate::data::Fields;
use crate::verdict::{Invariant, state_word};

/// One attempt as granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub token: Token,
    /// The newest checkpoint when it was granted.
    pub seq_at_grant: u64,
    pub ended: Option<&'static str>,
    /// Ended by its holder's report, not over its head.
    pub reported: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Shard {
    pub trail: Trail,
    pub state: &'static str,
    pub token: Token,
    pub attempt: u32,
    /// The history begins after its last grant: the next one's number is taken as it is.
    pub attempt_unknown: bool,
    pub session: Option<SessionId>,
    pub seq: u64,
    /// Struck off the dead letters.
    pub discarded: bool,
    /// The attempt that was last asked to give its slot up.
    pub recalled: Token,
    /// By number; the first is attempt `attempt + 1 − len`.
    pub attempts: Vec<Attempt>,
}

const ENDS: &[&str] = &[
    "succeeded",
    "failed",
    "timed_out",
    "lost",
    "cancelled",
    "released",
];

impl Shard {
    /// A shard that its run's creation or expansion wrote.
    pub fn created() -> Self {
        let trail = Trail {
            ver: 1,
            ..Trail::default()
        };
        Self {
            trail,
            state: "scheduled",
            ..Self::default()
        }
    }

    /// A shard whose first events are not in the history: its last known event is taken as it is.
    pub fn adopt(e: &Event, data: &Fields) -> Self {
        let mut shard = Self {
            trail: Trail {
                partial: true,
                ..Trail::default()
            },
            state: state_word(&e.to),
            token: e.token.unwrap_or_default(),
            attempt: e.attempt.unwrap_or(0),
            attempt_unknown: e.attempt.is_none(),
            seq: data.seq.unwrap_or(0),
            session: data.session.map(SessionId),
            discarded: e.kind == Kind::ShardDiscarded,
            ..Self::default()
        };
        let ended = (e.kind == Kind::AttemptEnded).then_some("?");
        if shard.attempt > 0 {
            shard.attempts.push(Attempt {
                token: shard.token,
                seq_at_grant: 0,
                ended,
                reported: false,
            });
        }
        shard.trail.push(e);
        shard
    }

    pub fn open_attempt(&self) -> Option<&Attempt> {
        self.attempts.last().filter(|a| a.ended.is_none())
    }

    /// Takes the next event; on a broken promise the fold is left as it was.
    pub fn apply(&mut self, e: &Event, data: &Fields) -> Result<(), Broken> {
        self.trail.check(e)?;
        let token = e.token.unwrap_or(self.token);
        match e.kind {
            Kind::AttemptGranted => self.check_grant(e, token, data)?,
            Kind::CheckpointSaved => self.check_checkpoint(token, data)?,
            Kind::AttemptRecalled => self.check_recall(token, data)?,
            Kind::AttemptEnded => self.check_end(e, token, data)?,
            _ if token < self.token => {
                return broken(
                    Invariant::I13,
                    format!("token falls from {} to {token}", self.token),
                );
            }
            _ => {}
        }
        check_move("shard", self.state, e)?;
        match e.kind {
            Kind::AttemptGranted => {
                self.attempt = e.attempt.unwrap_or(self.attempt + 1);
                self.attempt_unknown = false;
                self.session = data.session.map(SessionId);
                self.attempts.push(Attempt {
                    token,
                    seq_at_grant: self.seq,
                    ended: None,
                    reported: false,
                });
            }
            Kind::CheckpointSaved => self.seq = data.seq.unwrap_or(self.seq),
            Kind::AttemptRecalled => self.recalled = token,
            Kind::ShardDiscarded => self.discarded = true,
            Kind::ShardReopened => self.discarded = false,
            Kind::AttemptEnded => {
                if let Some(open) = self.attempts.last_mut() {
                    let end = data.end.as_deref().unwrap_or("");
                    open.reported = e.duty.is_none();
                    open.ended = Some(ENDS.iter().find(|w| **w == end).copied().unwrap_or("?"));
                }
                self.session = None;
            }
            _ => {}
        }
        self.state = state_word(&e.to);
        self.token = token;
        self.trail.push(e);
        Ok(())
    }

    fn check_grant(&self, e: &Event, token: Token, data: &Fields) -> Result<(), Broken> {
        if let Some(open) = self.open_attempt() {
            let message = format!(
                "attempt {} is granted (token {token}) while attempt {} (token {}) has not ended",
                e.attempt.unwrap_or(0),
                self.attempt,
                open.token
            );
            return broken(Invariant::I14, message);
        }
        let number = e.attempt.unwrap_or(0);
        if number != self.attempt + 1 && !self.attempt_unknown {
            return broken(
                Invariant::I13,
                format!("attempt {number} follows attempt {}", self.attempt),
            );
        }
        if token <= self.token {
            let message = format!(
                "attempt {number} has token {token}, not above {}",
                self.token
            );
            return broken(Invariant::I13, message);
        }
        if let Some(given) = data.checkpoint_seq
            && given < self.seq
        {
            let message = format!(
                "attempt {number} starts from checkpoint {given}, {} was accepted",
                self.seq
            );
            return broken(Invariant::I25, message);
        }
        Ok(())
    }

    fn check_checkpoint(&self, token: Token, data: &Fields) -> Result<(), Broken> {
        if token != self.token {
            let message = format!(
                "a checkpoint of token {token} was accepted at token {}",
                self.token
            );
            return broken(Invariant::I15, message);
        }
        if let Some(seq) = data.seq
            && seq <= self.seq
        {
            return broken(
                Invariant::I24,
                format!("checkpoint {seq} follows checkpoint {}", self.seq),
            );
        }
        Ok(())
    }

    fn check_recall(&self, token: Token, data: &Fields) -> Result<(), Broken> {
        if token != self.token || self.open_attempt().is_none() {
            let message = format!(
                "token {token} is asked for its slot, which no attempt holds: the shard is at {}",
                self.token
            );
            return broken(Invariant::I34, message);
        }
        if token == self.recalled {
            let message = format!("the attempt of token {token} is asked for its slot once more");
            return broken(Invariant::I34, message);
        }
        if let (Some(priority), Some(own)) = (data.priority, data.own)
            && priority <= own
        {
            let message =
                format!("a shard of priority {own} is asked for its slot by a run of {priority}");
            return broken(Invariant::I34, message);
        }
        Ok(())
    }

    fn check_end(&self, e: &Event, token: Token, data: &Fields) -> Result<(), Broken> {
        let number = e.attempt.unwrap_or(0);
        if self.open_attempt().is_none() && number == self.attempt {
            let before = self.attempts.last().and_then(|a| a.ended).unwrap_or("");
            let now = data.end.as_deref().unwrap_or("?");
            return broken(
                Invariant::I16,
                format!("attempt {number} ended {before} and then again {now}"),
            );
        }
        if number != self.attempt {
            let message = format!(
                "attempt {number} ends while attempt {} is current",
                self.attempt
            );
            return broken(Invariant::I16, message);
        }
        if token < self.token {
            let message = format!(
                "a report of token {token} was accepted at token {}",
                self.token
            );
            return broken(Invariant::I15, message);
        }
        // A duty ends it over the holder's head: only a raised token keeps the holder out.
        let from_outside = e.duty.is_some();
        if from_outside && token == self.token {
            let message = format!("attempt {number} was ended from outside and token {token} kept");
            return broken(Invariant::I15, message);
        }
        if !from_outside && token != self.token {
            let message = format!(
                "a report of token {token} was accepted at token {}",
                self.token
            );
            return broken(Invariant::I15, message);
        }
        Ok(())
    }
}
