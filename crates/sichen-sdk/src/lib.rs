//! Write workers for Sichen: handlers, checkpoints, and the session with the servers.
//!
//! Start at [`Worker::builder`]. A handler is an async function of a [`Context`] and its own
//! parameters; it may run more than once for a shard, so its writes go through the
//! fence or are idempotent.
//!
//! # Code map
//! - [`worker`]: builder and running; `handler`, [`Context`], [`HandlerError`]: what handlers see.
//! - [`session`]: the protocol as a pure state machine; `journal`, [`datadir`]: what outlives the
//!   process.
//! - [`output`]: reads what processes wrote, from a worker's data directory.
//! - [`fence`]: checks of the token inside the user's own transaction.
//!
//! # Not here
//! Runners for processes (the worker crate).

pub mod datadir;
pub mod fence;
pub mod output;
pub mod session;
pub mod worker;

mod context;
mod data_source;
mod edge;
mod error;
mod handler;
mod journal;
mod watermark;

pub use context::{Context, Counters, EarlierAttempt, Part, StopOrder, Waiting};
pub use data_source::DataSource;
pub use error::{HandlerError, Severity, Stopped};
pub use handler::{BoxFuture, Handler, Probed};
pub use journal::Error as JournalError;
pub use watermark::{Ticket, Watermark};
pub use worker::{Drained, Worker};
