//! The nodes' signs of life and hints, simulated.
//!
//! A sign goes out with its process, at once; it may also go out while its process lives and writes,
//! and come back, which peers take for a death. Hints arrive late or never.
//!
//! # Not here
//! What a node makes of it (`sichen_engine::coordinator`).

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sichen_core::beacon::{Beacon, Heard, Hint, NodeSign};
use sichen_core::ids::NodeId;
use sichen_core::port::Answer;

/// What all nodes see.
#[derive(Debug, Default)]
pub struct Air(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    shown: BTreeMap<usize, NodeId>,
    /// Nodes whose way to the signs is broken: theirs is out, and they see none.
    out: BTreeSet<usize>,
    told: Vec<(usize, Hint)>,
}

impl Air {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sign of server `n` is out, and whatever it shows from now on. Whether there was one to be
    /// seen until now.
    pub fn goes_out(&self, n: usize) -> bool {
        let mut air = self.lock();
        air.out.insert(n) && air.shown.contains_key(&n)
    }

    /// The sign of server `n` is seen again, if it shows one.
    pub fn comes_back(&self, n: usize) {
        self.lock().out.remove(&n);
    }

    /// The process of server `n` has ended.
    pub fn ended(&self, n: usize) {
        self.lock().shown.remove(&n);
    }

    /// Takes what was told, and by whom.
    pub fn take(&self) -> Vec<(usize, Hint)> {
        std::mem::take(&mut self.lock().told)
    }
}

/// One server's way to the others.
#[derive(Debug)]
pub struct Sign {
    pub air: Arc<Air>,
    pub server: usize,
}

impl Beacon for Sign {
    fn show(&self, node: Option<NodeId>) {
        let mut air = self.air.lock();
        match node {
            Some(node) => air.shown.insert(self.server, node),
            None => air.shown.remove(&self.server),
        };
    }

    fn look(&self) -> Answer<'_, Option<BTreeSet<NodeSign>>> {
        let air = self.air.lock();
        let seen = air.shown.iter().filter(|(n, _)| !air.out.contains(n));
        let seen = (!air.out.contains(&self.server))
            .then(|| seen.map(|(_, id)| NodeSign::of(*id)).collect());
        Box::pin(async move { Ok(seen) })
    }

    fn tell(&self, hint: Hint) {
        let mut air = self.air.lock();
        if !air.out.contains(&self.server) {
            air.told.push((self.server, hint));
        }
    }

    fn hear(&self) -> Pin<Box<dyn Future<Output = Heard> + Send + '_>> {
        // The simulation tells the engine itself.
        Box::pin(std::future::pending())
    }
}
