//! What a drill measures.
//!
//! # Not here
//! What must hold of it ([`super`]).

use serde::Serialize;

use super::{Done, Facts, firsts, name};
use crate::evidence::Attempt;

/// Durations in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Spread {
    /// How many.
    pub count: usize,
    /// Half of them are shorter.
    pub p50_ms: i64,
    /// Of a hundred, one is longer.
    pub p99_ms: i64,
    /// The longest.
    pub max_ms: i64,
}

impl Spread {
    /// Of microseconds.
    #[must_use]
    pub fn of(mut us: Vec<i64>) -> Self {
        us.sort_unstable();
        let at = |percent: usize| {
            let place = (us.len() * percent).div_ceil(100).max(1) - 1;
            us.get(place).map_or(0, |us| us / 1_000)
        };
        Self {
            count: us.len(),
            p50_ms: at(50),
            p99_ms: at(99),
            max_ms: at(100),
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Measures {
    /// From a planned instant to its task's begin, where no fault was near.
    pub lateness_calm: Spread,
    /// The same, in and after faults.
    pub lateness_near_faults: Spread,
    /// From a fault to the begin of another attempt at what it had hit.
    pub takeover: Spread,
    /// From a heal to the next begin of a task by what the fault had hit.
    pub recovery: Spread,
    /// Lateness of what was due while the server whose work it was had been hit.
    #[serde(default)]
    pub moved: Spread,
    /// Attempts that a fault hit and that ended by themselves.
    #[serde(default)]
    pub went_on: usize,
    /// Attempts.
    pub attempts: usize,
    /// Occasions of which a task said twice that it had done all.
    pub repeats: usize,
    /// Attempts that the fence of the business database refused.
    pub refused: usize,
}

/// The first begin after a heal that shows that what was hit is at work again: on the very worker; of one
/// of several servers, of an instant that was due after the heal, since its pool hands out everything;
/// else of one that was due after the fault, so that nobody can have been given it before.
#[must_use]
pub fn recovery<'a>(fault: &Done, attempts: &'a [Attempt]) -> Option<&'a Attempt> {
    let since = match fault.held.is_empty() {
        true => fault.at_us,
        false => fault.healed_us,
    };
    let of_a_worker = fault.victim.starts_with("worker-");
    let mut began = attempts.iter().filter(|a| a.began_us >= fault.healed_us);
    began.find(|a| match of_a_worker {
        true => a.worker == fault.victim,
        false => a.occasion.planned_us > since,
    })
}

/// Of the instants of which a task said it had done all, those that were due while the fault was on.
fn moved(fault: &Done, facts: &Facts) -> Vec<i64> {
    let is_due = |us: i64| us > fault.at_us && us <= fault.healed_us;
    let firsts = firsts(&facts.attempts);
    let due = firsts
        .iter()
        .filter(|(o, _)| fault.hit && is_due(o.planned_us));
    due.map(|(o, a)| a.began_us - o.planned_us).collect()
}

/// All of it; of each instant its lateness, and whether a fault was near.
pub(super) fn measures(facts: &Facts, late: &[(i64, bool)]) -> Measures {
    let of = |near: bool| {
        let late = late.iter().filter(|(_, n)| *n == near);
        Spread::of(late.map(|(late, _)| *late).collect())
    };
    let (mut takeovers, mut recoveries, mut all_moved) = (Vec::new(), Vec::new(), Vec::new());
    let mut went_on = 0;
    for fault in &facts.faults {
        let hit = facts.attempts.iter().filter(|a| {
            let last = a.ended_us.unwrap_or(i64::MAX);
            a.began_us <= fault.at_us && last > fault.at_us && fault.in_flight.contains(&name(a))
        });
        for attempt in hit {
            let next = facts.attempts.iter().find(|b| {
                b.occasion == attempt.occasion
                    && b.token > attempt.token
                    && b.began_us > fault.at_us
            });
            went_on += usize::from(next.is_none() && attempt.ended_us.is_some());
            takeovers.extend(next.map(|b| b.began_us - fault.at_us));
        }
        let after = recovery(fault, &facts.attempts);
        recoveries.extend(after.map(|a| a.began_us - fault.healed_us));
        all_moved.extend(moved(fault, facts));
    }
    let ended = facts
        .attempts
        .iter()
        .filter(|a| a.ended_us.is_some())
        .count();
    Measures {
        lateness_calm: of(false),
        lateness_near_faults: of(true),
        takeover: Spread::of(takeovers),
        recovery: Spread::of(recoveries),
        moved: Spread::of(all_moved),
        went_on,
        attempts: facts.attempts.len(),
        repeats: ended - firsts(&facts.attempts).len(),
        refused: facts.attempts.iter().filter(|a| a.refused).count(),
    }
}
