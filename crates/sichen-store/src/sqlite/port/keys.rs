//! Idempotency keys of requests.

use sichen_core::keys::{ClaimKey, Digest, KeptAnswer, KeyVerdict};
use sichen_core::port::{Answer, KeyStore};
use uuid::Uuid;

use super::super::tx::Tx;
use super::super::{SqliteStore, keys};

impl KeyStore for SqliteStore {
    fn claim_key(&self, claim: ClaimKey) -> Answer<'_, KeyVerdict> {
        self.engine.write(None, move |tx| keys::claim(tx, &claim))
    }
    fn answer_key(
        &self,
        key: Digest,
        holder: Uuid,
        answer: Option<KeptAnswer>,
    ) -> Answer<'_, bool> {
        let answer = move |tx: &mut Tx<'_>| keys::answer(tx, &key, holder, answer);
        self.engine.write(None, answer)
    }
}
