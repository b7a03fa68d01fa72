//! The edges of a server node: workers' gRPC sessions, the REST API, access.
//!
//! # Not here
//! Duties (`sichen-engine`), rules (`sichen-core`), a concrete store (only the binary knows one).

pub mod grpc;
pub mod rest;
