//! Idempotency keys of requests.

use sichen_core::keys::{ClaimKey, Digest, KeptAnswer, KeyVerdict};
use sichen_core::port::{Answer, KeyStore};
use uuid::Uuid;

use super::super::{PostgresStore, kept, keys, sql};

impl KeyStore for PostgresStore {
    fn claim_key(&self, claim: ClaimKey) -> Answer<'_, KeyVerdict> {
        write!(self, None, [claim], |tx| {
            tx.take_turn(kept::Turn::RequestKey, &claim.key).await?;
            // Its holder may be writing: what is done is known after that alone.
            tx.exists(sql::LOCK_REQUEST_KEY, [claim.key.as_str()])
                .await?;
            tx.tell_time().await?;
            keys::claim(tx, &claim).await
        })
    }
    fn answer_key(
        &self,
        key: Digest,
        holder: Uuid,
        answer: Option<KeptAnswer>,
    ) -> Answer<'_, bool> {
        write!(self, None, [key, answer], |tx| {
            keys::answer(tx, &key, holder, answer).await
        })
    }
}
