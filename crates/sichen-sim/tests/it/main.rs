//! Claims about the protocol model and the simulated cluster.

mod model;
