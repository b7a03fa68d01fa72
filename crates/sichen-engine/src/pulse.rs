//! The store's time between two readings of it, for pacing.
//!
//! # Invariants
//! - Never ahead of the store, as far as this machine's clock runs at the same rate and the store's is not
//!   set back: it counts from after an answer arrived.
//! - Only paces: whatever is decided is decided anew by the store's own time.
//!
//! # Not here
//! The store's clock ([`sichen_core::port::TimeStore::now`]).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sichen_core::port::{Error, Store};
use tokio::time::Instant;

/// How long one reading is counted on from.
const VALID: Duration = Duration::from_secs(5);

/// The last reading, and when it was.
#[derive(Debug, Default)]
pub struct Pulse(Mutex<Option<(Timestamp, Instant)>>);

impl Pulse {
    /// The store said `now` a moment ago.
    pub fn told(&self, now: Timestamp) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, instant()));
    }

    /// The store's time, read anew if the last reading is old.
    ///
    /// # Errors
    /// As the store.
    pub async fn now(&self, store: &dyn Store) -> Result<Timestamp, Error> {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((told, at)) = last {
            let since = instant().saturating_duration_since(at);
            let since = (since < VALID).then(|| SignedDuration::try_from(since).ok());
            if let Some(now) = since.flatten().and_then(|s| told.checked_add(s).ok()) {
                return Ok(now);
            }
        }
        let now = store.now().await?;
        self.told(now);
        Ok(now)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the engine looks at the machine's clock"
)]
pub(crate) fn instant() -> Instant {
    Instant::now()
}
