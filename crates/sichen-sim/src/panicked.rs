//! A simulation that ended in a panic: a finding like any other, so it names its seed.
//!
//! # Not here
//! Where it panicked: the panic has said so on standard error.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::options::Options;
use crate::sim::{self, Outcome};

/// What was simulated, and the panic's message.
#[derive(Debug)]
pub struct Panicked {
    /// The cluster's options.
    pub options: Options,
    /// What the panic said.
    pub message: String,
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seed = self.options.seed;
        writeln!(f, "seed {seed} after a panic\n  panicked: {}", self.message)?;
        write!(f, "  {}", self.options)
    }
}

/// As [`sim::run`].
///
/// # Errors
/// [`Panicked`], where that one panics.
pub fn run(options: Options, keep: bool) -> Result<Outcome, Box<Panicked>> {
    let simulated = options.clone();
    // Nothing of a simulation outlives it.
    catch_unwind(AssertUnwindSafe(|| sim::run(simulated, keep))).map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let word = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
        let message = text.or(word).unwrap_or_default();
        Box::new(Panicked { options, message })
    })
}
