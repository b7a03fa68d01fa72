//! Who may ask others for their slots, and who gives them up, as a user writes it.
//!
//! # Not here
//! Who is asked ([`crate::dispatch::preempt`]).

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Problems;
use super::{Document, Duration, Spec};
use crate::dispatch::preempt::{MAX_YIELD_AFTER, MAX_YIELDS, MIN_YIELD_AFTER, Yields};

/// Slots of others that the job may ask for, and its own that it gives up; nothing of either if left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PreemptionSpec {
    /// Whether its waiting shards may ask for the slots of shards that yield and are of lower priority in the
    /// same namespace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preempts: bool,
    /// That its running shards may be asked for their slot, and when; never if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yields: Option<YieldsSpec>,
}

/// When running shards may be asked for their slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct YieldsSpec {
    /// Not before the attempt has run for so long, 1s to 24h; 1m if left out.
    #[serde(default = "default_after")]
    pub after: Duration,
    /// How often shards of one run may be asked, all together, 1 to 1,000; 10 if left out.
    #[schemars(range(min = 1, max = 1000))]
    #[serde(default = "default_times")]
    pub times: u32,
}

fn default_after() -> Duration {
    Duration(SignedDuration::from_mins(1))
}

fn default_times() -> u32 {
    10
}

impl Document {
    /// Whether its waiting shards may ask others for their slots.
    #[must_use]
    pub fn preempts(&self) -> bool {
        let preemption = self.spec.preemption.as_ref();
        preemption.is_some_and(|preemption| preemption.preempts)
    }

    /// When its running shards may be asked for theirs.
    #[must_use]
    pub fn yields(&self) -> Option<Yields> {
        let yields = self.spec.preemption.as_ref()?.yields.as_ref()?;
        Some(Yields {
            after: yields.after.0,
            times: yields.times,
        })
    }
}

pub(super) fn check(spec: &Spec, p: &mut Problems) {
    let yields = spec.preemption.as_ref().and_then(|p| p.yields.as_ref());
    let Some(yields) = yields else {
        return;
    };
    if !(MIN_YIELD_AFTER..=MAX_YIELD_AFTER).contains(&yields.after.0) {
        let message = format!("SC1002: {} is outside 1s to 24h", yields.after);
        p.add("spec.preemption.yields.after", message);
    }
    let (times, most) = (i64::from(yields.times), i64::from(MAX_YIELDS));
    p.within("spec.preemption.yields.times", times, 1, most);
}
