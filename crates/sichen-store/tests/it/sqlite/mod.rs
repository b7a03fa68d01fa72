//! What is SQLite's own: the disk, the commit, the plans of its statements.

mod disk;
