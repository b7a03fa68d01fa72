//! Idempotency keys: a request that is sent again with its key is answered as it was, and done once.
//!
//! Whoever carries a request out holds its key under a name drawn for that one attempt
//! ([`KeyHold::holder`]). What it changes is written under that hold, in the same transaction that notes
//! how far the request has come ([`KeptKey::done`]): so an attempt that lost its key changes nothing any
//! more, and the one that took the key over knows what was done before.
//!
//! # Invariants
//! - A key belongs to one author and one request for as long as it is kept ([`KEPT`]).
//! - Two holders never both write: the second took the key, and the first's writes are refused.
//! - A key itself is kept nowhere, its digest is.
//!
//! # Not here
//! Runs and backfills that a key names: they are found by it for as long as they are there.

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::ids::NodeId;

/// The longest idempotency key of a request, in bytes.
pub const MAX_KEY_BYTES: usize = 128;
/// Idempotency keys of one author that are kept at once.
pub const MAX_KEYS_OF_AUTHOR: u32 = 2_000;
/// The longest answer that is kept for a repeated request, in bytes. A longer one is made anew, of what
/// there is by then.
pub const MAX_KEPT_ANSWER_BYTES: usize = 32_768;
/// How long an idempotency key is kept.
pub const KEPT: SignedDuration = SignedDuration::from_hours(24);
/// How long an attempt keeps its key from a repeat while its node lives: as long as a client waits for an
/// answer.
pub const HELD: SignedDuration = SignedDuration::from_secs(30);

/// 64 hexadecimal digits: a SHA-256.
pub type Digest = String;

/// The right of one attempt to change something for its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyHold {
    /// The digest of the key.
    pub key: Digest,
    /// The attempt.
    pub holder: Uuid,
    /// Which of the request's steps this is, from 0.
    pub step: u32,
}

/// An attempt that wants a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimKey {
    /// The digest of the key.
    pub key: Digest,
    /// Who asks.
    pub author: String,
    /// The digest of all that makes the request what it is.
    pub request: Digest,
    /// The attempt, drawn for it.
    pub holder: Uuid,
    /// The node that carries it out.
    pub node: Option<NodeId>,
    /// Kept with a new key: what the request makes may be derived from it.
    pub seed: Uuid,
}

/// A key as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptKey {
    /// Who asked.
    pub author: String,
    /// The digest of the request.
    pub request: Digest,
    /// Drawn when the key came first.
    pub seed: Uuid,
    /// The attempt that holds it; nil: none does.
    pub holder: Uuid,
    /// Where that runs.
    pub node: Option<NodeId>,
    /// When it came first.
    pub at: Timestamp,
    /// When it was taken last.
    pub held_at: Timestamp,
    /// The last step that was done, if any.
    pub done: Option<u32>,
    /// What was answered.
    pub answer: Option<KeptAnswer>,
}

/// What a request was answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAnswer {
    /// Of HTTP.
    pub status: u16,
    /// The kind of the body.
    pub kind: String,
    /// The body; `None` if it was too long, or is not to be kept.
    pub body: Option<String>,
}

/// What becomes of an attempt that wants a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyVerdict {
    /// It holds the key, and goes on after the step that was done last.
    Yours {
        /// Drawn when the key came first.
        seed: Uuid,
        /// The last step that was done, if any.
        done: Option<u32>,
    },
    /// The request was answered before.
    Answered(KeptAnswer),
    /// Another attempt holds it.
    Held,
    /// It belongs to another request, or to somebody else.
    OtherRequest,
    /// Its author has as many as are kept.
    Full,
}

/// What becomes of `claim`, where its key is `kept` already. `lives`: whether the holder's node does.
#[must_use]
pub fn judge(kept: &KeptKey, claim: &ClaimKey, lives: bool, now: Timestamp) -> KeyVerdict {
    if kept.author != claim.author || kept.request != claim.request {
        return KeyVerdict::OtherRequest;
    }
    if let Some(answer) = kept.answer.as_ref().filter(|a| a.body.is_some()) {
        return KeyVerdict::Answered(answer.clone());
    }
    let young = now.duration_since(kept.held_at) < HELD;
    let free = kept.holder.is_nil() || kept.holder == claim.holder || kept.answer.is_some();
    if young && lives && !free {
        return KeyVerdict::Held;
    }
    KeyVerdict::Yours {
        seed: kept.seed,
        done: kept.done,
    }
}

#[cfg(test)]
mod tests;
