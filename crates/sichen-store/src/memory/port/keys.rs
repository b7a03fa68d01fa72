//! Idempotency keys of requests.

use sichen_core::keys::{ClaimKey, Digest, KeptAnswer, KeyVerdict};
use sichen_core::port::{Answer, KeyStore};
use uuid::Uuid;

use super::super::{MemoryStore, keys};

impl KeyStore for MemoryStore {
    fn claim_key(&self, claim: ClaimKey) -> Answer<'_, KeyVerdict> {
        Box::pin(async move {
            let (mut state, now) = self.lock();
            Ok(keys::claim(&mut state, now, claim))
        })
    }
    fn answer_key(
        &self,
        key: Digest,
        holder: Uuid,
        answer: Option<KeptAnswer>,
    ) -> Answer<'_, bool> {
        Box::pin(async move {
            let (mut state, _) = self.lock();
            Ok(keys::answer(&mut state, &key, holder, answer))
        })
    }
}
