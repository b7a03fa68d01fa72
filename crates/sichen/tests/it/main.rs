//! Claims about the whole: real workers, real servers.

mod session;
