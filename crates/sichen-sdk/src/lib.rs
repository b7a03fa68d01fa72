//! Write workers for Sichen.
//!
//! # Not here
//! Runners for processes (the worker crate).

pub mod fence;
pub mod session;
