//! A shard's next state.
//!
//! This module alone decides it. The caller commits the [`Transition`] under a guard (state and
//! token unchanged); if the guard fails it reads again and decides anew.
//!
//! # Not here
//! The run's state ([`super::run`]); the delay before a retry ([`crate::retry`]).

use jiff::Timestamp;

use super::run::FAILURES_USED_UP;
use super::{AttemptEnd, ShardState, StopCause};
use crate::ids::{ShardKey, Token};
use crate::model::Run;
use crate::retry::{self, Action};

/// What a decision about a shard depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Which shard.
    pub key: ShardKey,
    /// Its state.
    pub state: ShardState,
    /// Its current token.
    pub token: Token,
    /// Started attempts of the present budget, `released` ones not counted.
    pub used: u32,
    /// Whether its run is being stopped.
    pub stop: Option<StopCause>,
    /// When its run must have ended.
    pub deadline: Option<Timestamp>,
}

/// How an attempt ended, as its holder, the reaper or a timeout says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Success.
    Succeeded,
    /// An error that another attempt may not have.
    Failed,
    /// An error that no attempt of this shard can avoid.
    FailedForGood,
    /// An error that makes the whole run pointless.
    FailedRun,
    /// Past its timeout.
    TimedOut,
    /// Session over, nothing reported.
    Lost,
    /// Stopped because it was told to.
    Cancelled,
    /// Given back unharmed.
    Released,
}

impl Ending {
    /// The word the attempt is recorded with.
    #[must_use]
    pub fn attempt_end(self) -> AttemptEnd {
        match self {
            Ending::Succeeded => AttemptEnd::Succeeded,
            Ending::Failed | Ending::FailedForGood | Ending::FailedRun => AttemptEnd::Failed,
            Ending::TimedOut => AttemptEnd::TimedOut,
            Ending::Lost => AttemptEnd::Lost,
            Ending::Cancelled => AttemptEnd::Cancelled,
            Ending::Released => AttemptEnd::Released,
        }
    }
}

/// What follows from an attempt's end; commit all of it together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The shard's next state.
    pub to: ShardState,
    /// How the attempt is recorded.
    pub end: AttemptEnd,
    /// Not to be granted before this instant (`scheduled` and `retry` only).
    pub ready_at: Option<Timestamp>,
    /// Whether the attempt goes back into the budget.
    pub refund: bool,
    /// Why the whole run must be stopped with it, if it must.
    pub stops_run: Option<StopCause>,
    /// The place of the job's retry rule that decided it, from 0, if one did.
    pub rule: Option<usize>,
    /// How many failed attempts all shards of the run may have together, if the job says so.
    pub max_failures: Option<u32>,
}

/// A [`Transition`] as it is committed, with what follows for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// What becomes of the shard.
    pub transition: Transition,
    /// The run's failed attempts with this one, if it counts among them.
    pub failures: Option<u32>,
    /// Why the whole run must be stopped with it, if it must: cause and detail.
    pub stops_run: Option<(StopCause, &'static str)>,
}

impl Transition {
    /// A success: it depends on nothing but the token.
    pub const SUCCESS: Transition = Transition {
        to: ShardState::Succeeded,
        end: AttemptEnd::Succeeded,
        ready_at: None,
        refund: false,
        stops_run: None,
        rule: None,
        max_failures: None,
    };

    /// The same, seen again in the transaction that commits it, on the run as it is there.
    ///
    /// A stop request may have come between: a shard of a stopped run does not go back to waiting.
    /// And shards that fail at the same time share one budget: the attempt that uses it up is its
    /// shard's last one, and stops the run.
    #[must_use]
    pub fn committed(self, run: &Run) -> Committed {
        let stopped = run.stop.is_some() && !crate::zoo::is("retry-after-stop");
        if stopped && self.to.is_grantable() {
            let transition = Transition {
                to: ShardState::Cancelled,
                ready_at: None,
                refund: false,
                ..self
            };
            return transition.with_failures(None);
        }
        let counts = matches!(self.to, ShardState::Retry | ShardState::Failed);
        let most = self.max_failures.filter(|_| counts && run.stop.is_none());
        let Some(most) = most else {
            return self.with_failures(None);
        };
        let failures = run.failures.saturating_add(1);
        if failures < most {
            return self.with_failures(Some(failures));
        }
        let last = Transition {
            to: ShardState::Failed,
            ready_at: None,
            ..self
        };
        let committed = last.with_failures(Some(failures));
        let used_up = (StopCause::Fatal, FAILURES_USED_UP);
        Committed {
            stops_run: committed.stops_run.or(Some(used_up)),
            ..committed
        }
    }

    fn with_failures(self, failures: Option<u32>) -> Committed {
        Committed {
            transition: self,
            failures,
            stops_run: self.stops_run.map(|cause| (cause, "")),
        }
    }
}

/// Why a report changes nothing. Ordinary life with lost workers: answer the sender, record it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A newer holder exists, or the attempt was revoked.
    #[error("SC2001: token {given} is stale; the shard is at token {current}")]
    Stale {
        /// The token the sender holds.
        given: Token,
        /// The shard's token.
        current: Token,
    },
    /// The token is current but no attempt runs under it.
    #[error("SC2002: no attempt is running under token {given}; the shard is {state}")]
    NotRunning {
        /// The token the sender holds.
        given: Token,
        /// The shard's state.
        state: ShardState,
    },
    /// The token is newer than any this store has granted: its last records were lost.
    #[error(
        "SC2003: token {given} was never granted here (the shard is at {current}); this store may have lost its newest records"
    )]
    Unknown {
        /// The token the sender holds.
        given: Token,
        /// The shard's token.
        current: Token,
    },
}

/// Decides what the end of the attempt that held `token` does to the shard.
///
/// `code` is the error's, if it ended with one. A success is kept even when a stop was requested:
/// the work is done, and the run then settles by what else happened. Everything else that ends
/// after a stop request, or past the run's deadline, is `cancelled`. Otherwise the job's rules come first, and where none fits,
/// what the handler said.
///
/// # Errors
/// [`Refused`] when the sender does not hold the running attempt.
pub fn on_end(
    shard: &Facts,
    token: Token,
    ending: Ending,
    code: &str,
    policy: &retry::Policy,
    now: Timestamp,
) -> Result<Transition, Refused> {
    check_token(shard, token)?;
    let plain = Transition {
        to: ShardState::Failed,
        end: ending.attempt_end(),
        max_failures: policy.max_failures,
        ..Transition::SUCCESS
    };
    // What ends past the run's deadline needs nobody to come and stop the run.
    let late = shard.deadline.is_some_and(|deadline| deadline < now);
    let stopped = (shard.stop.is_some() || late) && !crate::zoo::is("retry-after-stop");
    let by_itself = match ending {
        Ending::Succeeded => return Ok(Transition::SUCCESS),
        _ if stopped => {
            return Ok(Transition {
                to: ShardState::Cancelled,
                stops_run: (shard.stop.is_none()).then_some(StopCause::Deadline),
                ..plain
            });
        }
        // Stopped without a request on record is a release: nobody asked for its end.
        Ending::Cancelled | Ending::Released => {
            return Ok(Transition {
                to: ShardState::Scheduled,
                ready_at: Some(now),
                refund: true,
                ..plain
            });
        }
        Ending::FailedForGood => Action::FailShard,
        Ending::FailedRun => Action::FailRun,
        Ending::Failed | Ending::TimedOut | Ending::Lost => Action::Retry,
    };
    let rule = policy.rule(plain.end, code);
    let action = rule.map_or(by_itself, |(_, rule)| rule.action);
    let plain = Transition {
        rule: rule.map(|(place, _)| place),
        ..plain
    };
    Ok(match action {
        Action::FailShard => plain,
        // A plan step that found nothing to say leaves no shards to go on with.
        Action::Ignore if shard.key.no.is_plan() => plain,
        Action::Ignore => Transition {
            to: ShardState::Succeeded,
            ..plain
        },
        Action::FailRun => Transition {
            stops_run: Some(StopCause::Fatal),
            ..plain
        },
        Action::Retry if shard.used >= policy.max_attempts => plain,
        Action::Retry => {
            let ready_at = match rule.and_then(|(_, rule)| rule.delay) {
                Some(delay) => now.checked_add(delay).unwrap_or(Timestamp::MAX),
                // Losing a worker says nothing about the shard: it waits for no backoff.
                None if ending == Ending::Lost => now,
                None => policy.ready_at(shard.key, shard.used, now),
            };
            Transition {
                to: ShardState::Retry,
                ready_at: Some(ready_at),
                ..plain
            }
        }
    })
}

/// Whether `token` is that of the attempt now running.
///
/// # Errors
/// [`Refused`] says what is the case instead.
pub fn check_token(shard: &Facts, token: Token) -> Result<(), Refused> {
    if token < shard.token {
        return Err(Refused::Stale {
            given: token,
            current: shard.token,
        });
    }
    if token > shard.token {
        return Err(Refused::Unknown {
            given: token,
            current: shard.token,
        });
    }
    if shard.state != ShardState::Running {
        return Err(Refused::NotRunning {
            given: token,
            state: shard.state,
        });
    }
    Ok(())
}

#[cfg(test)]
#[path = "shard_tests.rs"]
mod tests;
