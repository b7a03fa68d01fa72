//! One module per group of commands.

pub mod audit;
pub mod cancel;
pub mod clock;
pub mod completions;
pub mod demo;
pub mod describe;
pub mod dev;
pub mod documents;
pub mod due;
pub mod events;
pub mod explain;
pub mod fence;
pub mod get;
pub mod import;
pub mod jobs;
pub mod logs;
pub mod next;
pub mod report;
pub mod run;
pub mod runs;
pub mod schema;
pub mod server;
pub mod shards;
pub mod trace;
pub mod verify;
pub mod worker;
