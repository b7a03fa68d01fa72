//! Counts what a store is asked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sichen_core::port::{Answer, Call, Calls};

/// Answered calls by kind.
#[derive(Debug, Default)]
pub(crate) struct Counted([OfKind; 3]);

#[derive(Debug, Default)]
struct OfKind {
    answered: AtomicU64,
    failed: AtomicU64,
    micros: AtomicU64,
}

impl Counted {
    /// Carries out `call`, and counts it when it is answered.
    pub fn count<'a, T: Send + 'a>(&'a self, kind: Call, call: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(async move {
            let began = now();
            let answer = call.await;
            let counts = &self.0[kind as usize];
            let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            counts.micros.fetch_add(micros, Ordering::Relaxed);
            let failed = u64::from(answer.is_err());
            counts.failed.fetch_add(failed, Ordering::Relaxed);
            counts.answered.fetch_add(1, Ordering::Relaxed);
            answer
        })
    }

    /// What was counted, as [`Call::ALL`].
    pub fn calls(&self) -> [Calls; 3] {
        Call::ALL.map(|kind| {
            let counts = &self.0[kind as usize];
            Calls {
                answered: counts.answered.load(Ordering::Relaxed),
                failed: counts.failed.load(Ordering::Relaxed),
                took: Duration::from_micros(counts.micros.load(Ordering::Relaxed)),
            }
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a call took is for people, and decides nothing"
)]
fn now() -> Instant {
    Instant::now()
}
