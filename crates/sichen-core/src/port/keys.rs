//! Idempotency keys of requests.

use uuid::Uuid;

use super::Answer;
use crate::keys::{ClaimKey, Digest, KeptAnswer, KeyVerdict};

/// Idempotency keys. A part of [`Store`](super::Store). What happens here writes no event; the changes
/// that are made under a key do, with the key's [`KeyHold`](crate::keys::KeyHold) in their
/// [`Op`](super::Op): the same transaction notes the step, and is refused ([`Error::Busy`](super::Error))
/// if another attempt holds the key by now.
pub trait KeyStore: Send + Sync + 'static {
    /// Takes a key for one attempt, by [`judge`](crate::keys::judge). The same holder again finds it its
    /// own.
    fn claim_key(&self, claim: ClaimKey) -> Answer<'_, KeyVerdict>;
    /// Keeps what the request was answered, or with `None` gives the key back to the next attempt.
    /// Whether `holder` still had it; if not, nothing is changed.
    fn answer_key(&self, key: Digest, holder: Uuid, answer: Option<KeptAnswer>)
    -> Answer<'_, bool>;
}
