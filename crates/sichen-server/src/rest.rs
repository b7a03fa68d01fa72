//! The REST API under `/api/v1`.
//!
//! # Not here
//! The use cases (`sichen_engine::control`), reading documents ([`crate::document`]).

pub mod wire;
