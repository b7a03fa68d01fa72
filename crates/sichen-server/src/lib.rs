//! The edges of a server node: workers' gRPC sessions, the REST API, access.
//!
//! Start at [`Server`].
//!
//! # Not here
//! Duties (`sichen-engine`), rules (`sichen-core`), a concrete store (only the binary knows one).

mod access;
pub mod alerts;
pub mod auth;
mod console;
pub mod document;
pub mod grpc;
pub mod oidc;
mod password;
pub mod rest;
mod server;
mod throttle;
pub mod tls;
pub mod traces;

pub use server::{MAX_CONNECTIONS, STOP_GRACE_SECONDS, Server};
