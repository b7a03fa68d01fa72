//! `sichen restore`: a backup put in place.
//!
//! # Not here
//! How it is done (`sichen_store::sqlite`), making one ([`super::backup`]).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use sichen_store::clock::SystemClock;
use sichen_store::sqlite::SqliteStore;

use super::backup::{Shown, blocking, failed, for_sqlite_alone};
use crate::data_dir;
use crate::failure::Failure;
use crate::output::Output;
use crate::store_at::StoreAt;

/// Put a backup of a SQLite store in place, once all of it is checked. Stop the server first.
#[derive(Debug, Args)]
pub struct Restore {
    /// What `sichen backup` wrote.
    file: PathBuf,
    /// The data directory to restore into [default: `SICHEN_DATA`, else ~/.local/share/sichen].
    #[arg(long, value_name = "DIR", env = "SICHEN_DATA", hide_env_values = true)]
    data: Option<PathBuf>,
    /// The server's store, if it is not in its data directory.
    #[arg(long, value_name = "URL", env = "SICHEN_STORE", hide_env_values = true)]
    store: Option<StoreAt>,
    /// Also into a directory that has a store: that is kept beside it as sichen.db.before-epoch-N.
    #[arg(long)]
    replace: bool,
    /// Check the backup and put it nowhere.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    output: Output,
}

/// What was done, as programs read it.
#[derive(Debug, Serialize)]
struct Done {
    #[serde(flatten)]
    backup: Shown,
    /// Where it is now; null if it was only checked.
    data: Option<PathBuf>,
    /// The store's epoch from now on.
    new_epoch: Option<u32>,
    /// Where the store is that was there before.
    kept: Option<PathBuf>,
}

impl Done {
    fn said(&self) -> String {
        let mut text = self.backup.said();
        let Some(data) = &self.data else {
            text.push_str("it is whole\n");
            return text;
        };
        text.push_str(&format!("restored into {}\n", data.display()));
        if let Some(epoch) = self.new_epoch {
            text.push_str(&format!(
                "the store's epoch is {epoch} now: no token of before is valid or given again\n"
            ));
        }
        if let Some(kept) = &self.kept {
            text.push_str(&format!(
                "the store of before is kept as {}\n",
                kept.display()
            ));
        }
        text
    }
}

/// Carries out `sichen restore`.
pub async fn run(args: Restore) -> Result<ExitCode, Failure> {
    let dir = match (args.store, args.data) {
        (Some(StoreAt::Postgres(_)), _) => return Err(for_sqlite_alone()),
        (Some(StoreAt::Directory(dir)), _) | (None, Some(dir)) => dir,
        (None, None) => data_dir::default(),
    };
    let (file, data) = (args.file.clone(), dir.clone());
    let (check, replace) = (args.check, args.replace);
    let done = blocking(move || {
        if check {
            let backup = SqliteStore::inspect(&file)?;
            return Ok((backup, None));
        }
        let restored = SqliteStore::restore(&file, &data, replace, &SystemClock)?;
        Ok((restored.backup, Some((restored.epoch, restored.kept))))
    });
    let (backup, placed) = done.await?.map_err(failed)?;
    let (epoch, kept) = placed.unzip();
    let done = Done {
        backup: Shown::new(&args.file, &backup),
        data: epoch.is_some().then_some(dir),
        new_epoch: epoch,
        kept: kept.flatten(),
    };
    args.output.show(&done, Done::said)?;
    Ok(ExitCode::SUCCESS)
}
