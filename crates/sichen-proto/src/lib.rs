//! The wire: messages and the service between workers and server nodes.
//!
//! The `.proto` files under `proto/` are the text to read; `gen/` is made from them by
//! `cargo xtask codegen` and committed. The service is one bidirectional stream,
//! `sichen.v1.Sessions/Connect`: the worker dials out.
//!
//! # Invariants
//! - Field numbers are never used again, and fields are only added.
//! - Maps are ordered (`BTreeMap`), so that equal messages encode to equal bytes.
//!
//! # Not here
//! What a message does to a lease (core), or to a worker (the SDK's session).

/// Version 1 of the protocol.
#[allow(
    clippy::all,
    missing_debug_implementations,
    clippy::disallowed_types,
    clippy::disallowed_methods
)]
pub mod v1 {
    include!("gen/sichen.v1.rs");
}

/// What a worker of this build says in its Hello, and the only version a server of it accepts.
pub const PROTOCOL_VERSION: u32 = 1;

/// Largest message either side accepts, in bytes. The library's default is 4 MiB.
pub const MAX_MESSAGE_BYTES: usize = 32 * 1024 * 1024;

/// Largest position of a checkpoint, in bytes. The SDK clears a longer one, a server passes it over.
pub const MAX_POSITION_BYTES: usize = 64 * 1024;

/// The shard number that stands for the plan step of a run.
pub const PLAN_STEP_NO: i32 = -1;

/// The shard number that stands for the reduce step of a run.
pub const REDUCE_STEP_NO: i32 = -2;
