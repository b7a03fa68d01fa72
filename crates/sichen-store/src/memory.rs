//! The readable specification of a store, in memory.
