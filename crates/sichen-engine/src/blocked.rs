//! Rows that a foreign lock keeps from being written, or that make no sense, and batches that must not
//! wait for them.
//!
//! A transaction of another program may hold a row for as long as it likes, and a row of a newer version
//! may be beyond this one. A batch that needs the row fails as a whole, so it is taken apart into its
//! keys (a run, a job): the rest is written, and the key is left alone for a while. After that it is
//! tried by itself, never again in front of others.
//!
//! # Invariants
//! - Nothing is dropped: what could not be written is told to the caller, who comes back to it.
//!
//! # Not here
//! How long a lock is waited for (the store).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sichen_core::port::{Answer, Error};

/// How long a key is left alone at first; twice as long each time that it is still blocked.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(2);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(16);
/// After this time without a try a key is as good as new.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(1);
/// Keys found blocked in one call; each costs the store's wait for a lock.
const MAX_FOUND: u32 = 3;
/// Keys found in one call whose rows make no sense; they cost no wait.
const MAX_SPOILT: u32 = 50;
/// Keys remembered; more are found anew.
const MAX_KEYS: usize = 10_000;

/// Keys whose rows were found locked, or without sense.
#[derive(Debug)]
pub struct Blocked<K>(Mutex<BTreeMap<K, Pause>>);

#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Timestamp,
    length: SignedDuration,
}

impl<K> Default for Blocked<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Copy> Blocked<K> {
    /// Whether `key` is to be left alone at `now`.
    pub fn is_paused(&self, key: K, now: Timestamp) -> bool {
        self.lock().get(&key).is_some_and(|pause| now < pause.until)
    }

    /// Whether `key` was found blocked, and may still be.
    pub fn knows(&self, key: K) -> bool {
        self.lock().contains_key(&key)
    }

    /// When the next pause ends.
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let keys = self.lock();
        keys.values().map(|p| p.until).filter(|at| *at > now).min()
    }

    /// Hands `items` to `call` in as few batches as blocked keys allow. One verdict each, in order;
    /// `None` for an item whose key is blocked. `clock` tells the store's time; it is asked once, and
    /// only if a key is or was blocked.
    ///
    /// # Errors
    /// As `call`, but for those of some rows ([`Error::is_of_some_rows`]), and as `clock`; what was written
    /// before it stays.
    pub async fn write<'s, T: Clone, V>(
        &self,
        items: &[T],
        key: impl Fn(&T) -> K,
        clock: impl Fn() -> Answer<'s, Timestamp>,
        call: impl Fn(Vec<T>) -> Answer<'s, Vec<V>>,
    ) -> Result<Vec<Option<V>>, Error> {
        let mut verdicts: Vec<Option<V>> = items.iter().map(|_| None).collect();
        let tell = |place: usize, verdict| verdicts[place] = Some(verdict);
        self.write_each(items, key, clock, call, tell).await?;
        Ok(verdicts)
    }

    /// [`Blocked::write`], which tells the verdict of the item at each place as soon as it is written: who
    /// waits for it need not wait for those that are blocked.
    ///
    /// # Errors
    /// As [`Blocked::write`].
    pub async fn write_each<'s, T: Clone, V>(
        &self,
        items: &[T],
        key: impl Fn(&T) -> K,
        clock: impl Fn() -> Answer<'s, Timestamp>,
        call: impl Fn(Vec<T>) -> Answer<'s, Vec<V>>,
        mut tell: impl FnMut(usize, V),
    ) -> Result<(), Error> {
        let mut fill = |places: &[usize], answers: Vec<V>| {
            for (place, answer) in places.iter().zip(answers) {
                tell(*place, answer);
            }
        };
        let mut groups: BTreeMap<K, Vec<usize>> = BTreeMap::new();
        for (n, item) in items.iter().enumerate() {
            groups.entry(key(item)).or_default().push(n);
        }
        let known = groups.keys().any(|key| self.lock().contains_key(key));
        let mut now = match known {
            true => Some(clock().await?),
            false => None,
        };
        let suspects = now.map_or_else(BTreeMap::new, |now| self.suspects(&groups, now));
        let together = groups.iter().filter(|(key, _)| !suspects.contains_key(key));
        let mut together: Vec<usize> = together.flat_map(|(_, places)| places.clone()).collect();
        together.sort_unstable();
        let mut alone: Vec<K> = suspects
            .into_iter()
            .filter(|(_, paused)| !paused)
            .map(|(key, _)| key)
            .collect();
        if !together.is_empty() {
            let batch = together.iter().map(|n| items[*n].clone()).collect();
            match call(batch).await {
                Ok(answers) => fill(&together, answers),
                Err(error) if error.is_of_some_rows() => {
                    let keys: BTreeSet<K> = together.iter().map(|n| key(&items[*n])).collect();
                    // Before those that were blocked the last time.
                    alone.splice(0..0, keys);
                }
                Err(error) => return Err(error),
            }
        }
        let (mut found, mut spoilt) = (0, 0);
        for key in alone {
            if found == MAX_FOUND || spoilt == MAX_SPOILT {
                break;
            }
            let places = &groups[&key];
            match call(places.iter().map(|n| items[*n].clone()).collect()).await {
                Ok(answers) => {
                    self.lock().remove(&key);
                    fill(places, answers);
                }
                Err(error) if error.is_of_some_rows() => {
                    match error {
                        Error::Busy(_) => found += 1,
                        _ => spoilt += 1,
                    }
                    let at = match now {
                        Some(at) => at,
                        None => *now.insert(clock().await?),
                    };
                    self.pause(key, at, &error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Keys that were blocked the last time, and whether they are still to be left alone.
    fn suspects(&self, groups: &BTreeMap<K, Vec<usize>>, now: Timestamp) -> BTreeMap<K, bool> {
        let keys = self.lock();
        let suspect = |key: &K| Some((*key, now < keys.get(key)?.until));
        groups.keys().filter_map(suspect).collect()
    }

    /// Leaves `key` alone for a while from `now`.
    pub fn pause(&self, key: K, now: Timestamp, why: &Error) {
        let mut keys = self.lock();
        let length = match keys.get(&key) {
            Some(last) => (last.length * 2).min(LONGEST_PAUSE),
            None => {
                match why {
                    Error::Busy(why) => tracing::warn!(
                        why,
                        "another program holds a row that is needed; what needs it waits, the rest goes on"
                    ),
                    error => tracing::error!(%error, "what needs this row waits, the rest goes on"),
                }
                FIRST_PAUSE
            }
        };
        // What nobody has asked for since is forgotten.
        let old = now.checked_sub(FORGOTTEN).unwrap_or(Timestamp::MIN);
        keys.retain(|_, pause| pause.until > old);
        if keys.len() < MAX_KEYS || keys.contains_key(&key) {
            let until = now.checked_add(length).unwrap_or(Timestamp::MAX);
            keys.insert(key, Pause { until, length });
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, Pause>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A clock that was read already, for [`Blocked::write`].
pub fn told<'s>(now: Timestamp) -> Answer<'s, Timestamp> {
    Box::pin(std::future::ready(Ok(now)))
}

#[cfg(test)]
mod tests;
