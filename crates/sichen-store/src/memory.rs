//! The readable specification of the store port, in memory.
//!
//! Each use case is a plain function over [`state::Tx`], in the order of the port. The simulator
//! runs on it, and the other stores are compared with it call by call.
//!
//! # Invariants
//! - A call holds the one lock from its first read to its last write, so calls are serial.
//! - A use case that answers an error has changed nothing.
//!
//! # Not here
//! Speed with large tables; durability.

mod access;
mod alerts;
mod backfills;
mod calendars;
mod capacities;
mod chains;
mod checks;
mod clock;
mod discards;
mod duties;
mod history;
mod jobs;
mod keys;
mod leases;
mod namespaces;
mod overview;
mod port;
mod recalls;
mod restore;
mod runs;
mod sessions;
mod shards;
mod state;
mod users;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use sichen_core::port::{Answer, Op, Page};
use sichen_core::timekeeping::Kept;

use crate::clock::{Clock, Keeper};
use state::{State, Tx};

/// A store that lives as long as the process.
#[derive(Debug)]
pub struct MemoryStore {
    keeper: Keeper,
    state: Mutex<State>,
}

impl MemoryStore {
    /// An empty store that decides by `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            keeper: Keeper::new(clock, Kept::default()),
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> (MutexGuard<'_, State>, Timestamp) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let told = self.keeper.read();
        state.held = told.held;
        (state, told.now)
    }

    fn read<'a, T: Send + 'a>(
        &'a self,
        f: impl FnOnce(&State, Timestamp) -> T + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let (state, now) = self.lock();
            Ok(f(&state, now))
        })
    }

    fn write<'a, T: Send + 'a>(
        &'a self,
        op: Op,
        f: impl FnOnce(&mut Tx<'_>) -> T + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let (mut state, now) = self.lock();
            keys::check(&state, op.hold.as_ref())?;
            state.ops.insert(op.id);
            let (hold, before) = (op.hold.clone(), state.last_event);
            let answer = f(&mut Tx {
                state: &mut state,
                now,
                op,
                author: None,
                duty: None,
            });
            if state.last_event > before {
                keys::note(&mut state, hold);
            }
            Ok(answer)
        })
    }
}

fn capped<K>(page: &Page<K>) -> usize {
    page.limit.min(sichen_core::port::MAX_PAGE) as usize
}
