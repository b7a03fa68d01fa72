//! How much work a search does, counted in steps: a month looked at, or a clock change passed.
//!
//! A bound in steps is the same on every machine and every day; one in milliseconds is not. Only tests
//! count: otherwise a step is nothing at all.
//!
//! # Invariant
//! - No expression, zone or instant makes `next` or `prev` take more than [`MAX_STEPS`] steps. A step
//!   takes well under a microsecond (docs/benchmarks.md), so that is within 50 ms.
//!
//! # Not here
//! Searching ([`super::search`], [`super::pattern`]).

/// The most steps of one `next` or `prev`.
#[cfg(test)]
const MAX_STEPS: u64 = 20_000;

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// One step.
#[inline(always)]
pub(in crate::schedule) fn step() {
    #[cfg(test)]
    STEPS.with(|steps| steps.set(steps.get() + 1));
}

#[cfg(test)]
mod tests;
