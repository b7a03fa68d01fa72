//! The choice of a worker for one shard after another, over one snapshot.
//!
//! Shards with the same handler, terms and failures have one *class*: who may take them is found once, and
//! then only counted down. The least load is kept in a heap; the other strategies walk the class.
//!
//! # Not here
//! Which shard is next (`crate::dispatch`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use jiff::Timestamp;

use super::terms::mixed;
use super::{Candidate, Places, Resources, Strategy, Terms};
use crate::dispatch::ReadyRun;
use crate::ids::{JobUid, RunId, SessionId};

/// How good a session is for a shard; the least is chosen. The field order is the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    /// How often the job has failed there of late.
    blame: u8,
    /// Wishes of the job that it leaves open.
    against: usize,
    /// What the job's strategy goes by.
    rank: u64,
    /// The load of its machine, in eighths, so that small differences leave the next to decide.
    busy: u32,
    /// Shards held, so that equal loads go to the smaller crowd.
    held: u32,
    /// Only to make the choice definite.
    session: SessionId,
}

/// A worker's load may be so much above the others' before a shard goes elsewhere than its hash says:
/// five fourths of the mean (Mirrokni, Thorup, Zadimoghaddam, 2018).
const BOUND: (u128, u128) = (5, 4);

/// A session, as it is filled.
struct Seat<'a> {
    of: &'a Candidate,
    held: u32,
    /// What is used of its resources, if it is known.
    used: Option<Resources>,
}

impl Seat<'_> {
    fn fits(&self, needs: Option<&Resources>) -> bool {
        let room = |needs: &Resources| {
            let used = self.used.as_ref();
            used.is_some_and(|used| self.of.offer.total.lacks_beside(used, needs).is_none())
        };
        self.held < self.of.slots && needs.is_none_or(|needs| needs.is_empty() || room(needs))
    }

    /// The share of it that is taken, in thousandths: of its slots, or of the resource that is nearest to
    /// its end.
    fn load(&self) -> u64 {
        let slots = u64::from(self.held) * 1_000 / u64::from(self.of.slots.max(1));
        let used = self.used.as_ref().filter(|used| !used.is_empty());
        slots.max(used.map_or(0, |used| self.of.offer.total.load(used)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClassKey<'a> {
    handler: &'a str,
    terms: Option<&'a Terms>,
    /// The job, if it fails somewhere.
    job: Option<JobUid>,
}

struct Class {
    /// Who may take its shards, with what speaks against each.
    members: Vec<(usize, u8, usize)>,
    /// By load, where that decides. Who was given a shard meanwhile stands there with its old score until
    /// it comes up.
    heap: BinaryHeap<Reverse<(Score, usize)>>,
}

/// Free slots, by what they are good for.
pub(crate) struct Seats<'a> {
    places: &'a mut Places,
    seats: Vec<Seat<'a>>,
    keys: BTreeMap<ClassKey<'a>, Option<usize>>,
    classes: Vec<Class>,
    /// Shards of runs that keep apart, by session: those held, and those of this plan.
    apart: BTreeMap<RunId, BTreeMap<SessionId, u32>>,
    /// Free slots that are left.
    pub free: u64,
    now: Timestamp,
}

impl<'a> Seats<'a> {
    pub fn of(candidates: &'a [Candidate], places: &'a mut Places, now: Timestamp) -> Self {
        let seat = |of: &'a Candidate| Seat {
            of,
            held: of.held,
            used: places.used(of.session),
        };
        let seats: Vec<Seat<'a>> = candidates.iter().map(seat).collect();
        let free = seats
            .iter()
            .map(|s| u64::from(s.of.slots.saturating_sub(s.held)));
        Self {
            free: free.sum(),
            seats,
            places,
            keys: BTreeMap::new(),
            classes: Vec::new(),
            apart: BTreeMap::new(),
            now,
        }
    }

    /// The class of a run's shards; `None` if nobody may ever take them.
    pub fn class(&mut self, run: &'a ReadyRun) -> Option<usize> {
        let job = Some(run.flow.job).filter(|job| self.places.blame.has(*job));
        let terms = run.terms.as_deref();
        let key = ClassKey {
            handler: &run.handler,
            terms,
            job,
        };
        if let Some(found) = self.keys.get(&key) {
            return *found;
        }
        let suits = |(n, seat): (usize, &Seat<'_>)| {
            seat.of.suits(key.handler, terms).then(|| {
                let (blame, now) = (&self.places.blame, self.now);
                let level = job.map_or(0, |job| blame.level(job, seat.of.worker, now));
                let labels = &seat.of.offer.labels;
                (n, level, terms.map_or(0, |terms| terms.against(labels)))
            })
        };
        let members: Vec<_> = self.seats.iter().enumerate().filter_map(suits).collect();
        let found = (!members.is_empty()).then(|| {
            let mut heap = BinaryHeap::new();
            if strategy(terms) == Strategy::LeastLoaded {
                heap.extend(
                    members
                        .iter()
                        .map(|m| Reverse((self.score(m, |s| s.load()), m.0))),
                );
            }
            self.classes.push(Class { members, heap });
            self.classes.len() - 1
        });
        self.keys.insert(key, found);
        found
    }

    /// Whether anything among what was classed asks for resources: who may have it must be known.
    pub fn note_wanted(&mut self) {
        let needs = |key: &ClassKey<'_>| key.terms.is_some_and(|terms| !terms.needs.is_empty());
        let wanted = self.keys.keys().any(needs);
        self.places.set_wanted(wanted);
    }

    /// Takes a place for the shard number `no` of `run`. `spread` says what is held of the run.
    pub fn take(
        &mut self,
        class: usize,
        run: &ReadyRun,
        no: i32,
        spread: impl FnOnce() -> BTreeMap<SessionId, u32>,
    ) -> Option<SessionId> {
        let terms = run.terms.as_deref();
        let needs = terms.map(|terms| &terms.needs);
        let job = run.flow.job;
        let chosen = match strategy(terms) {
            Strategy::LeastLoaded => self.least_loaded(class, needs),
            Strategy::Binpack => self.best(class, needs, |seat| u64::MAX - seat.load()),
            Strategy::RoundRobin => {
                let last = self.places.turn(job);
                // Those behind the last one first.
                let turn =
                    |seat: &Seat<'_>| u64::from(last.is_some_and(|last| seat.of.session <= last));
                self.next_in_turn(class, needs, turn)
            }
            Strategy::Spread => {
                let apart = self.apart.remove(&run.run);
                let mut apart = apart.unwrap_or_else(spread);
                let of_run = |seat: &Seat<'_>| {
                    let n = apart.get(&seat.of.session).copied().unwrap_or(0);
                    u64::from(n) * 1_000_000 + seat.load().min(999_999)
                };
                let chosen = self.best(class, needs, of_run);
                if let Some(chosen) = chosen {
                    *apart.entry(self.seats[chosen].of.session).or_default() += 1;
                }
                self.apart.insert(run.run, apart);
                chosen
            }
            Strategy::ConsistentHash => self.hashed(class, needs, run.keys.of(no)),
            Strategy::Broadcast => self.awaited(class, needs, run.keys.of(no)),
        }?;
        let session = self.seats[chosen].of.session;
        if strategy(terms) == Strategy::RoundRobin {
            self.places.took_turn(job, session);
        }
        Some(session)
    }

    fn score(&self, member: &(usize, u8, usize), rank: impl Fn(&Seat<'_>) -> u64) -> Score {
        let (n, blame, against) = *member;
        let seat = &self.seats[n];
        Score {
            blame,
            against,
            rank: rank(seat),
            busy: seat.of.busy / 125,
            held: seat.held,
            session: seat.of.session,
        }
    }

    fn fill(&mut self, n: usize, needs: Option<&Resources>) {
        let seat = &mut self.seats[n];
        seat.held += 1;
        if let (Some(used), Some(needs)) = (&mut seat.used, needs) {
            used.add(needs);
        }
        self.free = self.free.saturating_sub(1);
    }

    /// In one plan loads only rise, and what does not fit now fits no more: so the heap's first is either
    /// right, or old, or out.
    fn least_loaded(&mut self, class: usize, needs: Option<&Resources>) -> Option<usize> {
        while let Some(Reverse((found, n))) = self.classes[class].heap.pop() {
            if !self.seats[n].fits(needs) {
                continue;
            }
            let again = |seats: &Self| {
                let score = Score {
                    rank: seats.seats[n].load(),
                    held: seats.seats[n].held,
                    ..found
                };
                Reverse((score, n))
            };
            let present = again(self);
            if present != Reverse((found, n)) {
                self.classes[class].heap.push(present);
                continue;
            }
            self.fill(n, needs);
            let next = again(self);
            self.classes[class].heap.push(next);
            return Some(n);
        }
        None
    }

    fn best(
        &mut self,
        class: usize,
        needs: Option<&Resources>,
        rank: impl Fn(&Seat<'_>) -> u64,
    ) -> Option<usize> {
        let members = self.classes[class].members.iter();
        let fit = members.filter(|m| self.seats[m.0].fits(needs));
        let best = fit.min_by_key(|m| self.score(m, &rank))?.0;
        self.fill(best, needs);
        Some(best)
    }

    /// As [`Seats::best`], but nothing beside the turn decides: neither load nor crowd.
    fn next_in_turn(
        &mut self,
        class: usize,
        needs: Option<&Resources>,
        turn: impl Fn(&Seat<'_>) -> u64,
    ) -> Option<usize> {
        let members = self.classes[class].members.iter();
        let fit = members.filter(|m| self.seats[m.0].fits(needs));
        let place = |m: &&(usize, u8, usize)| {
            let seat = &self.seats[m.0];
            (m.1, m.2, turn(seat), seat.of.session)
        };
        let next = fit.min_by_key(place)?.0;
        self.fill(next, needs);
        Some(next)
    }

    /// The one whose name the key stands for, and no other.
    fn awaited(&mut self, class: usize, needs: Option<&Resources>, key: u64) -> Option<usize> {
        let mut members = self.classes[class].members.iter();
        let is_it = |n: usize| self.seats[n].of.worker == key && self.seats[n].fits(needs);
        let chosen = members.find(|m| is_it(m.0))?.0;
        self.fill(chosen, needs);
        Some(chosen)
    }

    /// The one for which the key and its name give the greatest number (rendezvous hashing: Thaler,
    /// Ravishankar, 1998), among those with room for whom most speaks and whose load stays within the
    /// bound.
    fn hashed(&mut self, class: usize, needs: Option<&Resources>, key: u64) -> Option<usize> {
        let fit = |m: &&(usize, u8, usize)| self.seats[m.0].fits(needs);
        let members = || self.classes[class].members.iter().filter(fit);
        let favoured = members().map(|m| (m.1, m.2)).min()?;
        let members = || members().filter(|m| (m.1, m.2) == favoured);
        let (held, slots) = members().fold((0, 0), |(held, slots), m| {
            let seat = &self.seats[m.0];
            (
                held + u128::from(seat.held),
                slots + u128::from(seat.of.slots),
            )
        });
        let within = |m: &&(usize, u8, usize)| {
            let seat = &self.seats[m.0];
            let (over, under) = BOUND;
            // ⌈over/under · (held + 1) · own slots / slots⌉
            let most =
                (over * (held + 1) * u128::from(seat.of.slots)).div_ceil(under * slots.max(1));
            u128::from(seat.held) < most
        };
        let number = |m: &&(usize, u8, usize)| {
            let seat = &self.seats[m.0];
            (mixed(seat.of.worker ^ key), Reverse(seat.of.session))
        };
        // One of them is at or below the mean, so somebody is always within.
        let chosen = members().filter(within).max_by_key(number)?.0;
        self.fill(chosen, needs);
        Some(chosen)
    }
}

fn strategy(terms: Option<&Terms>) -> Strategy {
    terms.map_or(Strategy::LeastLoaded, |terms| terms.strategy)
}
