//! Claims about the duties, stepped by hand on the memory store.

mod fixture;
mod flow;
mod takeover;
mod terms;
mod timing;
