//! When faults come: drawn from the seed, and the same for the same seed.
//!
//! # Invariants
//! - Faults of one drill never overlap, and after the last there is time to recover.
//!
//! # Not here
//! What a fault does ([`crate::stage`]); whether it hit anything ([`crate::judge`]).

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

use crate::drill::{Act, Drill, RECOVERY_MS, Variant};

/// Before the first fault: the cluster gets going.
const WARM_UP_MS: u64 = 5_000;
/// After a heal, before the next fault or the end.
const PAUSE_MS: u64 = 4_000;
/// Faults of one drill, at most.
pub const MAX_FAULTS: usize = 200;
/// The shortest drill, for one round of the longest fault.
pub const SHORTEST_MS: u64 = WARM_UP_MS + RECOVERY_MS;
/// The longest drill, in milliseconds.
pub const MAX_DURATION_MS: u64 = 24 * 3_600_000;

/// A fault to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Planned {
    /// From the beginning of the load.
    pub at_ms: u64,
    /// How long it lasts.
    pub hold_ms: u64,
    /// What is done.
    pub act: Act,
    /// What ends it.
    pub heal: Option<Act>,
    /// Which of several that could be meant: the number modulo how many there are.
    pub draw: u32,
}

/// All that a drill will do, and how long its load lasts. Replaying it repeats the drill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Plan {
    /// The drill's name.
    pub drill: String,
    /// Which of its variants.
    pub variant: Variant,
    /// The seed that it was drawn from.
    pub seed: u64,
    /// How long the load lasts.
    pub duration_ms: u64,
    /// The faults.
    pub faults: Vec<Planned>,
    /// A deliberate mistake of the tasks, for tests of the drill itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mistake: Option<Mistake>,
}

/// A deliberate mistake that a drill must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mistake {
    /// Tasks write without asking the fence.
    NoFence,
    /// Tasks leave their last step out and say that all is well.
    ForgetStep,
}

/// How long a drill of this variant lasts if nobody says.
#[must_use]
pub fn usual_duration_ms(drill: &Drill, variant: Variant) -> u64 {
    let hold = variant.hold_ms(drill.bound_ms).unwrap_or(drill.bound_ms);
    WARM_UP_MS + hold + PAUSE_MS
}

/// Draws the faults of one drill.
#[must_use]
pub fn plan(drill: &Drill, variant: Variant, seed: u64, duration_ms: Option<u64>) -> Plan {
    let usual = usual_duration_ms(drill, variant);
    let duration_ms = duration_ms.unwrap_or(usual).clamp(usual, MAX_DURATION_MS);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut faults = Vec::new();
    let mut at_ms = WARM_UP_MS;
    if let Some(hold) = variant.hold_ms(drill.bound_ms) {
        loop {
            // Not in step with the schedules, which are in whole seconds.
            let at = at_ms + rng.random_range(0..1_000);
            let hold_ms = hold + rng.random_range(0..=hold / 20);
            let draw = rng.random();
            if !faults.is_empty() && at + hold_ms + PAUSE_MS > duration_ms
                || faults.len() == MAX_FAULTS
            {
                break;
            }
            faults.push(Planned {
                at_ms: at,
                hold_ms,
                act: drill.fault,
                heal: drill.heal,
                draw,
            });
            at_ms = at + hold_ms + PAUSE_MS;
        }
    }
    Plan {
        drill: drill.name.to_owned(),
        variant,
        seed,
        duration_ms,
        faults,
        mistake: None,
    }
}
