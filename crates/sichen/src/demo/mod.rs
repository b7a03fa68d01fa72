//! The demo: a real settlement on real processes, with one worker killed and one frozen.
//!
//! # Not here
//! Anything that the product itself needs: the demo is a user of it.

pub mod csv_input;
pub mod ledger;
pub mod settle;
#[cfg(test)]
mod tests;
pub mod verify;
