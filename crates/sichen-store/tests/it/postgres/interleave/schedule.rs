//! Which waiting statement goes next, and what befalls it: chosen by a seed.
//!
//! # Invariants
//! - A choice is made only when everything rests: each call waits at the gate, waits for a lock, or
//!   is over. So a seed is the same schedule each time; only whom a deadlock of the calls' own making
//!   strikes is up to the server, and which of two goes first that wait for a row which a commit has
//!   changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sichen_core::port::{Error, Store};

use super::super::server::runtime;
use super::calls::Call;
use super::proxy::{Fate, Place, Seen};
use super::{FIRST_OP, Ground};

/// Looks at what does not rest until it is taken to be stuck: about two minutes.
const LOOKS: u32 = 120_000;
/// Faults of one schedule at most.
const FAULTS: usize = 3;
const FATES: [Fate; 4] = [
    Fate::Fail("40001"),
    Fate::Fail("40P01"),
    Fate::CutBefore,
    Fate::CutAfter,
];

/// What befalls the steps of a schedule.
#[derive(Clone, Copy, Debug)]
pub enum Faults {
    /// At most so many of them, whichever the seed says.
    Some(usize),
    /// This one.
    At(usize, Fate),
}

impl Faults {
    pub const NONE: Self = Faults::Some(0);
    pub const FEW: Self = Faults::Some(FAULTS);

    /// The fault at step `n`, another one at each.
    pub fn at(n: usize, turn: usize) -> Self {
        Faults::At(n, FATES[(n + turn) % FATES.len()])
    }

    fn next(&mut self, n: usize, dice: &mut Dice) -> Fate {
        match self {
            Faults::At(at, fate) if *at == n => *fate,
            Faults::Some(left) if *left > 0 && dice.roll(8) == 0 => {
                *left -= 1;
                FATES[dice.roll(FATES.len())]
            }
            Faults::At(..) | Faults::Some(_) => Fate::Pass,
        }
    }
}

/// A small generator of numbers: the same seed gives the same ones.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % sides.max(1)
    }
}

/// Whose step is next. Every second seed lets any lane go each time, which mixes well; the others let
/// one go on until, once in a while, it is left standing where it is: as if its host had paused.
enum Turns {
    Any,
    /// Lanes, whoever goes first in front.
    First(Vec<usize>),
}

/// One step in so many is where a lane is left standing.
const PAUSED: usize = 10;

impl Turns {
    fn new(lanes: usize, dice: &mut Dice) -> Self {
        if dice.roll(2) == 0 {
            return Turns::Any;
        }
        let mut left: Vec<usize> = (0..lanes).collect();
        let order = (0..lanes).map(|_| left.remove(dice.roll(left.len())));
        Turns::First(order.collect())
    }

    fn next<'f>(
        &mut self,
        free: &'f [(Place, String)],
        dice: &mut Dice,
    ) -> Option<&'f (Place, String)> {
        let order = match self {
            Turns::Any => return free.get(dice.roll(free.len())),
            Turns::First(order) => order,
        };
        let of = |lane: usize| free.iter().find(|(place, _)| place.0 == lane);
        let (n, next) = order
            .iter()
            .enumerate()
            .find_map(|(n, lane)| Some((n, of(*lane)?)))?;
        if dice.roll(PAUSED) == 0 {
            let paused = order.remove(n);
            order.push(paused);
        }
        Some(next)
    }
}

/// What a schedule was, and what the calls answered.
pub struct Played {
    pub answers: Vec<Result<String, Error>>,
    pub steps: Vec<String>,
    names: Vec<&'static str>,
}

impl Played {
    /// The order of steps and the answers, for people.
    pub fn told(&self) -> String {
        let answers = self.names.iter().zip(&self.answers);
        let answers = answers.map(|(name, answer)| format!("  {name}: {answer:?}"));
        let steps = self.steps.iter().map(|step| format!("  {step}"));
        let lines: Vec<String> = steps.chain(answers).collect();
        lines.join("\n")
    }
}

/// Makes the calls at once, each on its own lane, and lets their steps go one by one.
pub fn play(
    ground: &Ground,
    lanes: &[Arc<dyn Store>],
    chosen: &[(usize, &'static str, Call)],
    dice: &mut Dice,
    mut faults: Faults,
) -> Played {
    let gate = &ground.gate;
    gate.close();
    let mut under_way = Vec::new();
    for (n, ((_, _, call), store)) in chosen.iter().zip(lanes).enumerate() {
        let (store, call) = (Arc::clone(store), call.clone());
        let op = FIRST_OP + n as u128;
        under_way.push(runtime().spawn(async move { call.make(&*store, op).await }));
    }
    let mut steps = Vec::new();
    let mut turns = Turns::new(chosen.len(), dice);
    loop {
        let free = runtime().block_on(rest(ground, &under_way));
        let free = free.unwrap_or_else(|seen| {
            panic!("it does not end: {seen:?} after\n{}", steps.join("\n"));
        });
        let Some((place, text)) = turns.next(&free, dice) else {
            break;
        };
        let fate = faults.next(steps.len(), dice);
        steps.push(match fate {
            Fate::Pass => format!("{}: {text}", place.0),
            fate => format!("{}: {text} {fate:?}", place.0),
        });
        gate.release(*place, fate);
    }
    let answers = runtime().block_on(async {
        let mut answers = Vec::new();
        for call in under_way {
            answers.push(call.await.expect("a call does not panic"));
        }
        answers
    });
    Played {
        answers,
        steps,
        names: chosen.iter().map(|(_, name, _)| *name).collect(),
    }
}

type UnderWay = [tokio::task::JoinHandle<Result<String, Error>>];

/// Waits until all rests; the steps of which one may go, none if all calls are over.
async fn rest(ground: &Ground, calls: &UnderWay) -> Result<Vec<(Place, String)>, Seen> {
    for _ in 0..LOOKS {
        let over: Vec<bool> = calls.iter().map(|call| call.is_finished()).collect();
        let seen = ground.gate.seen();
        let held = |lane| seen.held.iter().any(|(place, _)| place.0 == lane);
        let busy = |lane| seen.busy.iter().any(|(place, _)| place.0 == lane);
        let mut lanes = over.iter().enumerate();
        let still = lanes.all(|(lane, over)| *over || held(lane) || busy(lane));
        if still && settled(ground, &seen).await && ground.gate.seen() == seen {
            // What waits behind a step that waits for a lock would only wait elsewhere.
            let free = seen.held.iter().filter(|(place, _)| !busy(place.0));
            let free: Vec<_> = free.cloned().collect();
            if !free.is_empty() || over.iter().all(|over| *over) {
                return Ok(free);
            }
        }
        ground.gate.changes(Duration::from_millis(1)).await;
    }
    Err(ground.gate.seen())
}

/// Whether each step at work waits for a lock that one at rest holds, and no server process whose
/// connection is gone may still hold one.
async fn settled(ground: &Ground, seen: &Seen) -> bool {
    if seen.busy.is_empty() && seen.ended.is_empty() {
        return true;
    }
    let busy: Vec<i32> = seen.busy.iter().map(|(_, pid)| *pid).collect();
    let query = "select pid, pg_blocking_pids(pid), \
                 exists (select from pg_stat_activity a where a.pid = p.pid) \
                 from unnest($1::int[] || $2::int[]) p (pid)";
    let rows = ground.observer.query(query, &[&busy, &seen.ended]).await;
    let rows = rows.expect("the observer's connection holds");
    let ended = rows.iter().skip(busy.len());
    let gone = ended.filter(|row| !row.get::<_, bool>(2));
    let gone: Vec<i32> = gone.map(|row| row.get(0)).collect();
    ground.gate.gone(&gone);
    let waits: BTreeMap<i32, Vec<i32>> = rows
        .iter()
        .take(busy.len())
        .map(|row| (row.get(0), row.get(1)))
        .collect();
    gone.len() == seen.ended.len() && waits.keys().all(|pid| ends(&waits, *pid))
}

/// Whether whoever `pid` waits for, and they in turn, are not among those who wait.
fn ends(waits: &BTreeMap<i32, Vec<i32>>, pid: i32) -> bool {
    let mut reached: BTreeSet<i32> = BTreeSet::new();
    let mut next = waits[&pid].clone();
    if next.is_empty() {
        return false;
    }
    while let Some(blocker) = next.pop() {
        if blocker == pid {
            return false;
        }
        if reached.insert(blocker) {
            next.extend(waits.get(&blocker).into_iter().flatten());
        }
    }
    true
}
