//! Looks whether a drill must be stopped, beside whatever it is doing.
//!
//! # Invariants
//! - It needs nothing of the cluster, so nothing that the drill waits for holds it up.
//! - From a look to the next one passes [`stop::LOOK_MS`].
//!
//! # Not here
//! The conditions ([`crate::stop`]), and ending what must end ([`crate::stage`]).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::clock::wall_us;
use crate::cluster::Living;
use crate::home::{Growing, Home};
use crate::{business, stop};

/// Since when work must begin now and then: the load is on and no fault is.
#[derive(Clone, Debug)]
pub(crate) struct Calm(Arc<AtomicI64>);

/// Nothing needs to begin.
const NOT_CALM: i64 = i64::MAX;

impl Default for Calm {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(NOT_CALM)))
    }
}

impl Calm {
    /// From now on.
    pub(crate) fn begins(&self) {
        self.0.store(wall_us(), Ordering::Relaxed);
    }

    /// Until it begins again.
    pub(crate) fn ends(&self) {
        self.0.store(NOT_CALM, Ordering::Relaxed);
    }
}

/// Whoever looks.
#[derive(Debug)]
pub(crate) struct Guard {
    business: PathBuf,
    home: PathBuf,
    living: Living,
    calm: Calm,
    tasks: Growing,
}

impl Guard {
    pub(crate) fn new(home: &Home, living: &Living, calm: &Calm) -> Self {
        Self {
            business: home.business(),
            home: home.path().to_owned(),
            living: living.clone(),
            calm: calm.clone(),
            tasks: Growing::new(home.tasks()),
        }
    }

    /// The condition to stop that holds now, if one does.
    pub(crate) fn look(&mut self) -> Option<String> {
        stop::reason(&stop::Look {
            // What can't be read now is read the next time.
            doubled: business::doubled(&self.business).unwrap_or_default(),
            deaths: self.living.deaths(),
            free_bytes: free_bytes(&self.home),
            silence_ms: self.silence_ms(),
        })
    }

    fn silence_ms(&mut self) -> u64 {
        self.tasks.look();
        let calm = self.calm.0.load(Ordering::Relaxed);
        if calm == NOT_CALM {
            return 0;
        }
        let last = self.tasks.lines.iter().map(|line| line.at_us).max();
        let since = last.map_or(calm, |last| last.max(calm));
        u64::try_from((wall_us() - since) / 1_000).unwrap_or(0)
    }

    /// Looks until one holds.
    pub(crate) async fn until_harm(mut self) -> String {
        loop {
            tokio::time::sleep(Duration::from_millis(stop::LOOK_MS)).await;
            if let Some(reason) = self.look() {
                return reason;
            }
        }
    }
}

fn free_bytes(path: &Path) -> u64 {
    #[allow(clippy::useless_conversion, reason = "of another width elsewhere")]
    let free = |stat: nix::sys::statvfs::Statvfs| {
        u64::from(stat.blocks_available()).saturating_mul(stat.fragment_size().into())
    };
    // A place that can't be asked is not said to be full.
    nix::sys::statvfs::statvfs(path).map_or(u64::MAX, free)
}

#[cfg(test)]
mod tests;
