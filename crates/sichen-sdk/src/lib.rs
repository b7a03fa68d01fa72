//! Placeholder until the SDK lands; see `fence`.

pub mod fence;
