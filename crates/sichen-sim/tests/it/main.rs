//! The protocol in miniature, and whole clusters of the real code.

//! Claims about the protocol model and the simulated cluster.

mod cluster;
mod model;
