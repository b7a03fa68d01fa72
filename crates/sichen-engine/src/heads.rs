//! What a look at the tables reads: the first runs and shards of each lane and job, however many wait.
//!
//! # Invariants
//! - A window is as wide as what was met last allows; one that did not reach the end is read again,
//!   narrower, so that every lane is seen.
//! - What a window leaves out is looked at in turn: each fourth look also reads on from where the one
//!   before ended.
//!
//! # Not here
//! The windows themselves ([`sichen_core::dispatch::queue`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sichen_core::dispatch::queue::{Place, Seen, Walk, Window};
use sichen_core::ids::RunId;
use sichen_core::name::Name;
use sichen_core::port::{Error, MAX_BATCH, ReadyHead, Store};

/// Runs of one look, and of one among many lanes.
const RUNS: u32 = 6_000;
const RUNS_OF_MANY: u32 = 8_000;
/// Shards that are wanted of one look, if each of its runs has as many as there are free slots.
const SHARDS: u32 = 20_000;
/// Shards that are read of each of a few large runs.
const DEEP: u32 = 5_000;
/// How many runs are few.
const FEW_RUNS: usize = 10;

/// What the looks at each pool have met.
#[derive(Debug, Default)]
pub(crate) struct Looks(Mutex<BTreeMap<Name, Look>>);

#[derive(Clone, Copy, Debug)]
struct Look {
    seen: Seen,
    runs: u32,
    n: u32,
    round: Place,
}

/// What one look has read.
#[derive(Debug)]
pub(crate) struct Heads {
    pub heads: Vec<ReadyHead>,
    /// Shards of a run at most.
    pub per_run: u32,
    /// Whether these are all runs.
    pub all: bool,
    /// Jobs that have more runs, by queue and turn.
    pub behind: BTreeSet<(i64, i64)>,
}

impl Looks {
    /// Ready shards of the pool by run, for so many free slots.
    ///
    /// # Errors
    /// As the store.
    pub async fn read(&self, store: &dyn Store, pool: &Name, free: u32) -> Result<Heads, Error> {
        let mut look = self.lock().get(pool).copied().unwrap_or(Look {
            seen: Seen::default(),
            runs: 0,
            n: 0,
            round: Place::FIRST,
        });
        let most = u32::try_from(MAX_BATCH).unwrap_or(u32::MAX);
        let per_run = (SHARDS / look.runs.max(1)).clamp(8, most).min(free);
        let total = look.seen.lanes().saturating_mul(8);
        let total = total.clamp(RUNS, RUNS_OF_MANY);
        let mut window = look.seen.window(total);
        let (mut heads, mut walk) = walked(store, pool, window, Place::FIRST, per_run).await?;
        if look.seen.note(&walk) {
            window = look.seen.window(RUNS_OF_MANY);
            (heads, walk) = walked(store, pool, window, Place::FIRST, per_run).await?;
            look.seen.note(&walk);
        }
        look.runs = u32::try_from(heads.len()).unwrap_or(u32::MAX);
        let cut = heads.iter().any(|h| h.shards.len() >= per_run as usize);
        if !walk.is_cut() && cut && heads.len() <= FEW_RUNS {
            // A few large runs: what is read now is not read again for each slot that comes free.
            let (heads, walk) = walked(store, pool, window, Place::FIRST, DEEP).await?;
            self.lock().insert(pool.clone(), look);
            return Ok(Heads {
                all: !walk.is_cut(),
                behind: behind(&heads, window),
                heads,
                per_run: DEEP,
            });
        }
        let behind = behind(&heads, window);
        look.n = look.n.wrapping_add(1);
        if walk.is_cut() && look.n.is_multiple_of(Window::ROUND_EACH) {
            let (more, walk) = walked(store, pool, Window::ROUND, look.round, per_run).await?;
            look.round = if walk.is_full() {
                walk.at()
            } else {
                Place::FIRST
            };
            let known: BTreeSet<RunId> = heads.iter().map(|head| head.run.id).collect();
            heads.extend(more.into_iter().filter(|h| !known.contains(&h.run.id)));
        }
        self.lock().insert(pool.clone(), look);
        Ok(Heads {
            all: !walk.is_cut(),
            behind,
            heads,
            per_run,
        })
    }

    /// Another node owns the pool.
    pub fn forget(&self, pool: &Name) {
        self.lock().remove(pool);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Look>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn walked(
    store: &dyn Store,
    pool: &Name,
    window: Window,
    after: Place,
    per_run: u32,
) -> Result<(Vec<ReadyHead>, Walk), Error> {
    let heads = store.list_ready(pool.clone(), after, window, per_run);
    let heads = heads.await?;
    let mut walk = Walk::new(window, after);
    for head in &heads {
        walk.took(Place::of(&head.run));
    }
    Ok((heads, walk))
}

/// The jobs of which the window may have left runs out.
fn behind(heads: &[ReadyHead], window: Window) -> BTreeSet<(i64, i64)> {
    let mut behind = BTreeSet::new();
    let mut walk = Walk::new(window, Place::FIRST);
    for head in heads {
        let place = Place::of(&head.run);
        walk.took(place);
        if walk.bound() != Some(place) {
            behind.insert((place.queue, place.turn));
        }
    }
    behind
}
