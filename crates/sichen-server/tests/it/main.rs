//! The edges over real loopback connections, on the memory store with all duties running.
#![allow(clippy::unwrap_used)]

mod access;
mod changes;
mod console;
mod dead_letters;
mod export;
mod extremes;
mod forecast;
mod fuzz;
mod given_back;
mod jobs;
mod keyed;
mod logins;
mod metrics;
mod node;
mod oidc;
mod openapi;
mod permissions;
mod runs;
mod schedules;
mod stop;
mod tenants;
mod texts;
mod timeouts;
mod watch;
mod worker_names;
mod worker_tokens;
