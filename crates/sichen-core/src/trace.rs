//! Trace ids as W3C Trace Context has them: one for a run, one span for an attempt.
//!
//! They are worked out, not kept: a trace id leads back to its run, and every node and every
//! restart gives the same.
//!
//! # Invariants
//! - A run has one trace id for ever, over all its attempts and retries; no two runs of a store
//!   have the same.
//! - An attempt has one span id, which no other attempt of its trace has but by a chance of 2^-64.
//!
//! # Not here
//! Sending spans anywhere.

use std::fmt;

use crate::ids::{JobUid, RunId, ShardKey, Token};

/// Odd, so that multiplying by it can be undone; the golden ratio, so that ids look spread.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// `SPREAD * UNDO = 1` in 64 bits.
const UNDO: u64 = 0xf1de_83e1_9937_733d;

/// The trace id of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(u128);

impl TraceId {
    /// The trace id of `run`, a run of `job`. Never all zeros, since a job's uid is not.
    #[must_use]
    pub fn of(job: JobUid, run: RunId) -> Self {
        let high = u128::from(job.0.as_u64_pair().1) << 64;
        Self(high | u128::from(run.0.wrapping_mul(SPREAD)))
    }

    /// The run that has this trace id, if it is one of the store's: then [`TraceId::of`] its job
    /// and it gives this id again, which the caller must look at.
    #[must_use]
    pub fn run(self) -> RunId {
        let low = u64::try_from(self.0 & u128::from(u64::MAX)).unwrap_or(0);
        RunId(low.wrapping_mul(UNDO))
    }

    /// Reads 32 hexadecimal digits, or the `traceparent` that they are part of.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = match text.split('-').collect::<Vec<_>>()[..] {
            [digits] => digits,
            [version, digits, _, _] if version.len() == 2 => digits,
            _ => return None,
        };
        let hex = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let number = u128::from_str_radix(digits, 16).ok();
        number.filter(|n| hex && *n != 0).map(Self)
    }

    /// The `traceparent` under which an attempt works. Sampled, so that traces which a handler
    /// makes are kept.
    #[must_use]
    pub fn traceparent(self, shard: ShardKey, token: Token) -> String {
        format!("00-{self}-{:016x}-01", span(shard, token))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The span id of an attempt: a hash of its shard and token (the finalizer of SplitMix64).
fn span(shard: ShardKey, token: Token) -> u64 {
    let no = u64::from(shard.no.0.cast_unsigned());
    let mixed = [shard.run.0, no, token.0].iter().fold(SPREAD, |h, part| {
        let mut z = h.wrapping_add(*part).wrapping_add(SPREAD);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    });
    mixed.max(1)
}

#[cfg(test)]
mod tests;
