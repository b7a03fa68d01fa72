//! Trace ids as W3C Trace Context has them: one for a run, one span for an attempt.
//!
//! They are worked out, not kept: a trace id leads back to its run, and every node and every
//! restart gives the same.
//!
//! # Invariants
//! - A run has one trace id for ever, over all its attempts and retries; no two runs of a store
//!   have the same.
//! - An attempt and a round of a run have one span id each, which no other of its trace has but by a chance
//!   of 2^-64.
//! - Whether a trace is told is seen from its id alone, by every node alike.
//!
//! # Not here
//! The spans themselves ([`span`]); sending them anywhere.

use std::fmt;

use crate::ids::{JobUid, RunId, ShardKey, Token};

pub mod span;

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

    /// The `traceparent` under which an attempt works; `sampled` says whether what its handler makes of
    /// it is to be kept.
    #[must_use]
    pub fn traceparent(self, shard: ShardKey, token: Token, sampled: bool) -> String {
        let flags = u8::from(sampled);
        format!("00-{self}-{:016x}-{flags:02x}", SpanId::of(shard, token).0)
    }

    /// Its sixteen bytes, the highest first.
    #[must_use]
    pub fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

/// Which share of all traces is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio(u64);

impl Ratio {
    /// Every trace.
    pub const ALL: Self = Self(Self::WHOLE);
    /// As many values as the part of a trace id has by which is chosen: W3C Trace Context calls its last
    /// seven bytes random, and so do other samplers.
    const WHOLE: u64 = 1 << 56;

    /// `share` of all, from 0 to 1; else nothing.
    #[must_use]
    pub fn new(share: f64) -> Option<Self> {
        let part = || Self((share * Self::WHOLE as f64) as u64);
        (0.0..=1.0).contains(&share).then(part)
    }

    /// Whether this trace is kept.
    #[must_use]
    pub fn takes(self, id: TraceId) -> bool {
        let part = u64::try_from(id.0 & u128::from(Self::WHOLE - 1)).unwrap_or(0);
        // As others choose, so that what they keep by a smaller share is kept here too.
        part >= Self::WHOLE - self.0
    }
}

/// The id of a span within its trace; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(u64);

impl SpanId {
    /// That of an attempt.
    #[must_use]
    pub fn of(shard: ShardKey, token: Token) -> Self {
        Self(hash(shard, token))
    }

    /// That of a round of a run; the first is the root of its trace.
    #[must_use]
    pub fn of_round(run: RunId, round: u32) -> Self {
        // No shard has this number.
        let none = ShardKey::new(run, i32::MIN);
        Self(hash(none, Token(round.into())))
    }

    /// Its eight bytes, the highest first.
    #[must_use]
    pub fn bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A hash of a shard and a token (the finalizer of SplitMix64).
fn hash(shard: ShardKey, token: Token) -> u64 {
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
