//! Who waits for capacities, and whose turn it is: so that a heavy use is met among light ones.
//!
//! A run that can't be served gets a place. While it waits for a capacity, no run of its priority or
//! a lower one that came later takes any of it: what comes free gathers for the one in front. A run
//! that was served goes to the end, so runs take turns shard by shard.
//!
//! # Invariants
//! - Whoever stands in front of a capacity's line is served before all behind it: first by priority,
//!   then by place.
//! - A need that no waiting can meet (above the limit, or of a capacity that is gone) stops nobody.
//! - One who could not be served even with capacity, for want of a worker or at its namespace's limit,
//!   stops nobody.
//!
//! # Not here
//! What is free ([`Ledger`]); the order in which runs are looked at ([`crate::dispatch`]). A run that
//! uses several capacities stands in the line of one at a time, the first that is short.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Lack, Ledger, Short, Uses};
use crate::ids::RunId;
use crate::name::Name;

/// The places of a pool's runs. In memory only: forgotten, everybody gets a new place.
#[derive(Clone, Debug, Default)]
pub struct Line {
    places: BTreeMap<RunId, Place>,
    next: u64,
}

/// Where a run stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    number: u64,
    /// What it waits for.
    pub short: Short,
    /// Since when it has had its place.
    pub since: Timestamp,
}

impl Line {
    /// The run could not be served; it keeps the place that it has.
    pub fn park(&mut self, run: RunId, short: Short, now: Timestamp) {
        if let Some(place) = self.places.get_mut(&run) {
            place.short = short;
            return;
        }
        let number = self.next;
        self.next += 1;
        let place = Place {
            number,
            short,
            since: now,
        };
        self.places.insert(run, place);
    }

    /// The run was served: its place is the last again.
    pub fn served(&mut self, run: RunId) {
        self.places.remove(&run);
    }

    /// Only these runs still wait.
    pub fn keep(&mut self, waiting: &BTreeSet<RunId>) {
        self.places.retain(|run, _| waiting.contains(run));
    }

    /// What a run waits for, if it does.
    #[must_use]
    pub fn place(&self, run: RunId) -> Option<&Place> {
        self.places.get(&run)
    }

    /// The capacities that anybody waits for.
    #[must_use]
    pub fn capacities(&self) -> BTreeSet<Name> {
        let places = self.places.values();
        places.map(|place| place.short.capacity.clone()).collect()
    }

    /// A gate for one plan at `now`. `able`: runs, with their ranks, that could be given to a worker.
    #[must_use]
    pub fn gate(
        &self,
        ledger: Ledger,
        able: impl Iterator<Item = (RunId, i32)>,
        now: Timestamp,
    ) -> Gate {
        let mut gate = Gate {
            ledger,
            waiting: BTreeMap::new(),
            fronts: BTreeMap::new(),
            parked: BTreeMap::new(),
            next: self.next,
            now,
        };
        for (run, rank) in able {
            if let Some(place) = self.places.get(&run) {
                gate.stand((rank, place.number, run), &place.short);
            }
        }
        gate
    }
}

/// Rank, place and run: the order in which those of one line are served.
type Turn = (i32, u64, RunId);

/// What one plan may give away of capacities.
#[derive(Debug, Default)]
pub struct Gate {
    ledger: Ledger,
    /// Where runs stand, and for what.
    waiting: BTreeMap<RunId, (Turn, Name)>,
    /// By capacity, those who wait for it and can be served.
    fronts: BTreeMap<Name, BTreeSet<Turn>>,
    parked: BTreeMap<RunId, Short>,
    /// The place of the next who can't be served.
    next: u64,
    now: Timestamp,
}

impl Gate {
    /// Takes what one shard of `run` uses, if it is the run's turn and all of it is there. If not, the
    /// run is to be parked; those that are asked after it stand behind it.
    pub fn pass(&mut self, run: RunId, rank: i32, uses: &Uses) -> bool {
        if uses.is_empty() {
            return true;
        }
        let mine = self.waiting.get(&run).map(|(turn, _)| *turn);
        let mine = mine.unwrap_or((rank, self.next, run));
        let taken = match self.ahead(mine, uses) {
            Some(short) => Err(short),
            None => self.ledger.take(uses, self.now),
        };
        self.leave(run);
        match taken {
            Ok(()) => {
                // What it wants besides, it wants behind the others.
                self.parked.remove(&run);
                true
            }
            Err(short) => {
                self.next = self.next.max(mine.1 + 1);
                self.stand(mine, &short);
                self.parked.insert(run, short);
                false
            }
        }
    }

    /// The run can't be served by this plan for another reason: it stops nobody, and keeps its place.
    pub fn step_aside(&mut self, run: RunId) {
        self.leave(run);
        self.parked.remove(&run);
    }

    fn stand(&mut self, turn: Turn, short: &Short) {
        let capacity = short.capacity.clone();
        if short.can_come() {
            let front = self.fronts.entry(capacity.clone()).or_default();
            front.insert(turn);
        }
        self.waiting.insert(turn.2, (turn, capacity));
    }

    fn leave(&mut self, run: RunId) {
        if let Some((turn, capacity)) = self.waiting.remove(&run)
            && let Some(front) = self.fronts.get_mut(&capacity)
        {
            front.remove(&turn);
        }
    }

    /// The first capacity for which somebody goes before `mine`.
    fn ahead(&self, mine: Turn, uses: &Uses) -> Option<Short> {
        uses.iter().find_map(|(name, needs)| {
            let first = self.fronts.get(name)?.first()?;
            (*first < mine).then(|| Short {
                capacity: name.clone(),
                needs,
                lack: Lack::Reserved { run: first.2 },
            })
        })
    }

    /// The runs that could not be served, in the order of their places.
    #[must_use]
    pub fn parked(mut self) -> Vec<(RunId, Short)> {
        let mut order: Vec<(Turn, RunId)> =
            self.waiting.iter().map(|(r, (t, _))| (*t, *r)).collect();
        order.sort_unstable_by_key(|((_, number, run), _)| (*number, *run));
        let parked = order.into_iter();
        parked
            .filter_map(|(_, run)| Some((run, self.parked.remove(&run)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests;
