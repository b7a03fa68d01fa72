//! Idempotency keys of requests.

use sichen_core::keys::{
    ClaimKey, KEPT, KeptAnswer, KeptKey, KeyHold, KeyVerdict, MAX_KEYS_OF_AUTHOR, judge,
};
use sichen_core::lease::has_expired;
use sichen_core::port::Error;
use uuid::Uuid;

use super::state::State;
use jiff::Timestamp;

pub(super) fn claim(state: &mut State, now: Timestamp, claim: ClaimKey) -> KeyVerdict {
    let lives = |kept: &KeptKey| match kept.node {
        Some(node) => {
            let node = state.nodes.get(&node);
            node.is_some_and(|node| !has_expired(node.expires_at, now))
        }
        None => true,
    };
    let Some(kept) = state.keys.get(&claim.key) else {
        let of_author = state.keys.values().filter(|k| k.author == claim.author);
        if of_author.count() >= MAX_KEYS_OF_AUTHOR as usize {
            return KeyVerdict::Full;
        }
        let kept = KeptKey {
            author: claim.author,
            request: claim.request,
            seed: claim.seed,
            holder: claim.holder,
            node: claim.node,
            at: now,
            held_at: now,
            done: None,
            answer: None,
        };
        state.keys.insert(claim.key, kept);
        return KeyVerdict::Yours {
            seed: claim.seed,
            done: None,
        };
    };
    let verdict = judge(kept, &claim, lives(kept), now);
    if let (KeyVerdict::Yours { .. }, Some(kept)) = (&verdict, state.keys.get_mut(&claim.key)) {
        kept.holder = claim.holder;
        kept.node = claim.node;
        kept.held_at = now;
        kept.answer = None;
    }
    verdict
}

pub(super) fn answer(
    state: &mut State,
    key: &str,
    holder: Uuid,
    answer: Option<KeptAnswer>,
) -> bool {
    let kept = state.keys.get_mut(key);
    let Some(kept) = kept.filter(|kept| kept.holder == holder) else {
        return false;
    };
    if answer.is_none() {
        kept.holder = Uuid::nil();
    }
    kept.answer = answer;
    true
}

/// Whether `hold` is that of the key's present holder.
///
/// # Errors
/// [`Error::Busy`] if it is not.
pub(super) fn check(state: &State, hold: Option<&KeyHold>) -> Result<(), Error> {
    let held = |hold: &KeyHold| state.keys.get(&hold.key).map(|kept| kept.holder);
    match hold {
        Some(hold) if held(hold) != Some(hold.holder) => Err(crate::lost_key()),
        Some(_) | None => Ok(()),
    }
}

/// Notes that the step of `hold` is done.
pub(super) fn note(state: &mut State, hold: Option<KeyHold>) {
    let Some(hold) = hold else { return };
    if let Some(kept) = state.keys.get_mut(&hold.key) {
        kept.done = Some(hold.step);
    }
}

/// Forgets old ones; whether there may be more of them.
pub(super) fn forget(state: &mut State, now: Timestamp, most: usize) -> bool {
    let old = |kept: &KeptKey| now.duration_since(kept.at) > KEPT;
    let mut gone: Vec<_> = state
        .keys
        .iter()
        .filter(|(_, kept)| old(kept))
        .map(|(key, kept)| (kept.at, key.clone()))
        .collect();
    gone.sort();
    gone.truncate(most);
    for (_, key) in &gone {
        state.keys.remove(key);
    }
    gone.len() == most
}
