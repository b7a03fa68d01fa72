//! How often somebody may try to log in.
//!
//! Failures are counted for a user at an address, for a user, and for an address. After some that are free
//! each further one makes the next try wait, twice as long as before, up to a bound; so whoever guesses is
//! slowed down, and nobody is shut out for ever. What counts for one user from everywhere waits for little,
//! or strangers could keep him out; and where somebody has logged in lately, what others do is not counted
//! against him at all.
//!
//! # Invariants
//! - A try is counted before its password is looked at: many at once are many.
//! - A try that must wait is not looked at, and does not lengthen the wait.
//! - What is remembered is bounded, and each node remembers by itself.
//!
//! # Not here
//! The cost of a try ([`crate::password`]).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Users, addresses and pairs of them whose failures are remembered.
pub const MAX_FAILURES: usize = 10_000;
/// Users and the addresses from which they logged in that are remembered.
pub const MAX_KNOWN: usize = 10_000;
/// After so long without another login, an address is no user's any more.
const KNOWN_FOR: Duration = Duration::from_secs(30 * 24 * 3_600);
/// After so long without one, failures are forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(15 * 60);

/// Whose failures are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Of {
    Pair(String, IpAddr),
    User(String),
    Address(IpAddr),
}

impl Of {
    /// Failures that are free, and the longest wait after one.
    fn rule(&self) -> (u32, Duration) {
        match self {
            Of::Pair(..) => (5, Duration::from_secs(60)),
            Of::User(_) => (50, Duration::from_secs(5)),
            Of::Address(_) => (50, Duration::from_secs(60)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
}

/// The failures of a node's clients.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    failures: HashMap<Of, Failures>,
    /// When each last logged in from there.
    known: HashMap<(String, IpAddr), Instant>,
}

impl Remembered {
    fn is_known(&self, pair: &(String, IpAddr), now: Instant) -> bool {
        let last = self.known.get(pair);
        last.is_some_and(|last| now.duration_since(*last) < KNOWN_FOR)
    }

    fn know(&mut self, pair: (String, IpAddr), now: Instant) {
        if !self.known.contains_key(&pair) && self.known.len() >= MAX_KNOWN {
            let oldest = self.known.iter().min_by_key(|(_, last)| **last);
            if let Some(oldest) = oldest.map(|(pair, _)| pair.clone()) {
                self.known.remove(&oldest);
            }
        }
        self.known.insert(pair, now);
    }
}

impl Throttle {
    /// Counts a try of `user` from `address`, or says for how long it must wait.
    pub(crate) fn begin(&self, user: &str, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = all.is_known(&pair(user, address), now);
        let holds = |of: &Of| !is_known || matches!(of, Of::Pair(..));
        count(&mut all.failures, keys(user, address), holds, now)
    }

    /// Counts a try from `address` of somebody whose name is not known yet, or says for how long it must wait.
    pub(crate) fn begin_unnamed(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        count(&mut all.failures, vec![unnamed(address)], |_| true, now)
    }

    /// A try that [`Self::begin_unnamed`] counted was none.
    pub(crate) fn forgive_unnamed(&self, address: IpAddr) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        take_back(&mut all.failures, vec![unnamed(address)], false);
    }

    /// A try that was counted was a good one.
    pub(crate) fn succeeded(&self, user: &str, address: IpAddr, now: Instant) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.know(pair(user, address), now);
        take_back(&mut all.failures, keys(user, address), true);
    }

    /// A try that was counted was none: nobody looked at it.
    pub(crate) fn forgive(&self, user: &str, address: IpAddr) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        take_back(&mut all.failures, keys(user, address), false);
    }
}

/// Counts a try of these, unless one of them that `holds` makes it wait.
fn count(
    all: &mut HashMap<Of, Failures>,
    keys: Vec<Of>,
    holds: impl Fn(&Of) -> bool,
    now: Instant,
) -> Result<(), Duration> {
    let held = keys.iter().filter(|of| holds(of));
    let waits = held.filter_map(|of| wait(of, all.get(of)?, now));
    if let Some(longest) = waits.max() {
        return Err(longest);
    }
    for of in keys {
        if !all.contains_key(&of) && all.len() >= MAX_FAILURES {
            make_room(all, now);
        }
        let failures = all.entry(of).or_insert(Failures {
            count: 0,
            last: now,
        });
        if now.duration_since(failures.last) >= FORGOTTEN_AFTER {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
    }
    Ok(())
}

fn take_back(all: &mut HashMap<Of, Failures>, keys: Vec<Of>, succeeded: bool) {
    for of in keys {
        let Some(failures) = all.get_mut(&of) else {
            continue;
        };
        failures.count = failures.count.saturating_sub(1);
        if failures.count == 0 || succeeded && matches!(of, Of::Pair(..)) {
            all.remove(&of);
        }
    }
}

fn pair(user: &str, address: IpAddr) -> (String, IpAddr) {
    (user.to_owned(), network(address))
}

fn keys(user: &str, address: IpAddr) -> Vec<Of> {
    let address = network(address);
    vec![
        Of::Pair(user.to_owned(), address),
        Of::User(user.to_owned()),
        Of::Address(address),
    ]
}

fn unnamed(address: IpAddr) -> Of {
    Of::Address(network(address))
}

/// What one household or one machine has: an IPv4 address, or an IPv6 network of 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => {
            let bits = six.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
        four @ IpAddr::V4(_) => four,
    }
}

/// How long the next try must wait, if it must.
fn wait(of: &Of, failures: &Failures, now: Instant) -> Option<Duration> {
    let (free, longest) = of.rule();
    let beyond = failures.count.checked_sub(free)?;
    let wait = Duration::from_secs(1 << beyond.min(10)).min(longest);
    let left = wait.checked_sub(now.duration_since(failures.last))?;
    (!left.is_zero()).then_some(left)
}

fn make_room(all: &mut HashMap<Of, Failures>, now: Instant) {
    all.retain(|_, failures| now.duration_since(failures.last) < FORGOTTEN_AFTER);
    if all.len() < MAX_FAILURES {
        return;
    }
    let oldest = all.iter().min_by_key(|(_, failures)| failures.last);
    if let Some(oldest) = oldest.map(|(of, _)| of.clone()) {
        all.remove(&oldest);
    }
}

#[cfg(test)]
mod tests;
