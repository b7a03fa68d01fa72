//! What is SQLite's own: the disk, the commit, the plans of its statements.

mod backup;
mod child;
mod crash;
mod disk;
mod full;
mod look;
mod schema;
mod volume;
