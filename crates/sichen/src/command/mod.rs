//! One module per group of commands.

pub mod fence;
