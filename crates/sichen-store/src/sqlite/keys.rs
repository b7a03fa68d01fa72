//! Idempotency keys of requests.

use jiff::Timestamp;
use sichen_core::keys::{ClaimKey, KEPT, KeptAnswer, KeyVerdict, MAX_KEYS_OF_AUTHOR, judge};
use uuid::Uuid;

use super::row::{at, blob, opt_int};
use super::tx::{Result, Tx};
use super::{duties, sql};

/// Keys that are forgotten in one transaction.
const KEYS: u32 = 500;

pub(super) fn claim(tx: &mut Tx<'_>, claim: &ClaimKey) -> Result<KeyVerdict> {
    let node = opt_int(claim.node.map(|node| node.0));
    let kept = tx.one(sql::GET_REQUEST_KEY, [claim.key.as_str()], |row| {
        row.kept_key()
    })?;
    let Some(kept) = kept else {
        let params = (claim.author.as_str(), MAX_KEYS_OF_AUTHOR);
        if tx.count(sql::COUNT_REQUEST_KEYS, params)? >= MAX_KEYS_OF_AUTHOR {
            return Ok(KeyVerdict::Full);
        }
        let params = (
            claim.key.as_str(),
            claim.author.as_str(),
            claim.request.as_str(),
            blob(claim.seed),
            blob(claim.holder),
            node,
            at(tx.now),
        );
        tx.must(sql::INSERT_REQUEST_KEY, params)?;
        return Ok(KeyVerdict::Yours {
            seed: claim.seed,
            done: None,
        });
    };
    let lives = match kept.node {
        Some(node) => duties::is_alive(tx, node)?,
        None => true,
    };
    let verdict = judge(&kept, claim, lives, tx.now);
    if matches!(verdict, KeyVerdict::Yours { .. }) {
        let params = (claim.key.as_str(), blob(claim.holder), node, at(tx.now));
        tx.must(sql::TAKE_REQUEST_KEY, params)?;
    }
    Ok(verdict)
}

pub(super) fn answer(
    tx: &mut Tx<'_>,
    key: &str,
    holder: Uuid,
    answer: Option<KeptAnswer>,
) -> Result<bool> {
    let next = if answer.is_some() {
        holder
    } else {
        Uuid::nil()
    };
    let (status, kind, body) = match answer {
        Some(answer) => (
            Some(i64::from(answer.status)),
            Some(answer.kind),
            answer.body,
        ),
        None => (None, None, None),
    };
    let params = (key, blob(holder), blob(next), status, kind, body);
    tx.run_one(sql::ANSWER_REQUEST_KEY, params)
}

/// Forgets old ones; whether there may be more of them.
pub(super) fn forget(tx: &Tx<'_>) -> Result<bool> {
    let before = tx.now.checked_sub(KEPT).unwrap_or(Timestamp::MIN);
    let gone = tx.run(sql::DELETE_REQUEST_KEYS, (at(before), KEYS))?;
    Ok(gone == KEYS as usize)
}
