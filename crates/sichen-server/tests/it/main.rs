//! The edges over real loopback connections, on the memory store with all duties running.
#![allow(clippy::unwrap_used)]

mod access;
mod node;
mod runs;
