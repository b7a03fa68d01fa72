//! `sichen backup`: a backup of a SQLite store, made while its server runs.
//!
//! # Not here
//! How it is made (`sichen_store::sqlite`), putting it back ([`super::restore`]).

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use sichen_store::clock::{Clock as _, SystemClock};
use sichen_store::sqlite::{Backup as Made, BackupError, SqliteStore};

use crate::data_dir;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store_at::StoreAt;

/// Back a SQLite store up, while its server runs: one consistent file, checked and sealed with its
/// checksum. A store in PostgreSQL is backed up by PostgreSQL's own means (docs/guide/backup.md).
#[derive(Debug, Args)]
pub struct Backup {
    /// The file to write, or a directory to put it in; what is there already is never replaced.
    to: PathBuf,
    /// The server's data directory [default: `SICHEN_DATA`, else ~/.local/share/sichen].
    #[arg(long, value_name = "DIR", env = "SICHEN_DATA", hide_env_values = true)]
    data: Option<PathBuf>,
    /// The server's store, if it is not in its data directory.
    #[arg(long, value_name = "URL", env = "SICHEN_STORE", hide_env_values = true)]
    store: Option<StoreAt>,
    #[command(flatten)]
    output: Output,
}

/// A backup as programs read it.
#[derive(Debug, Serialize)]
pub struct Shown {
    file: PathBuf,
    /// The last instant that the store had used.
    instant: String,
    bytes: u64,
    database_bytes: u64,
    last_event: u64,
    epoch: u32,
    schema: u32,
    sha256: String,
}

impl Shown {
    /// The backup in `file`.
    pub fn new(file: &Path, made: &Made) -> Self {
        Self {
            file: file.to_owned(),
            instant: made.instant.to_string(),
            bytes: made.bytes,
            database_bytes: made.database_bytes,
            last_event: made.last_event,
            epoch: made.epoch,
            schema: made.schema,
            sha256: made.sha256.clone(),
        }
    }

    /// For people.
    pub fn said(&self) -> String {
        format!(
            "backup   {}\nsize     {} bytes\ninstant  {} (nothing later is in it)\nevents   up to {}\nepoch    \
             {}\nschema   {}\nsha256   {}\n",
            self.file.display(),
            self.bytes,
            self.instant,
            self.last_event,
            self.epoch,
            self.schema,
            self.sha256
        )
    }
}

/// Carries out `sichen backup`.
pub async fn run(args: Backup) -> Result<ExitCode, Failure> {
    let dir = match (args.store, args.data) {
        (Some(StoreAt::Postgres(_)), _) => return Err(for_sqlite_alone()),
        (Some(StoreAt::Directory(dir)), _) | (None, Some(dir)) => dir,
        (None, None) => data_dir::default(),
    };
    let to = match args.to.is_dir() {
        true => args.to.join(name()),
        false => args.to,
    };
    let file = to.clone();
    let made = blocking(move || SqliteStore::back_up(&dir, &to)).await?;
    let shown = Shown::new(&file, &made.map_err(failed)?);
    args.output.show(&shown, Shown::said)?;
    Ok(ExitCode::SUCCESS)
}

/// The name of a backup that is put into a directory: they sort by time.
fn name() -> String {
    let now = SystemClock.now();
    format!("sichen-{}.db", now.strftime("%Y%m%dT%H%M%SZ"))
}

/// What is said to who wants this for PostgreSQL.
pub fn for_sqlite_alone() -> Failure {
    Failure::usage(
        "SC7060: this is for a SQLite store; a PostgreSQL database is backed up and restored with pg_dump or \
         by point-in-time recovery (docs/guide/backup.md)",
    )
}

/// A failure with the exit code of its kind.
pub fn failed(error: BackupError) -> Failure {
    let exit = match &error {
        BackupError::Damaged { .. } => Exit::Usage,
        BackupError::NotRestored { .. } => Exit::Refused,
        BackupError::NotWritten { .. } => Exit::Failed,
        BackupError::Store(_) => Exit::Unavailable,
    };
    Failure::new(exit, error.to_string())
}

/// What reads files is not on a thread that others wait for.
pub async fn blocking<T: Send + 'static>(
    f: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(f).await;
    done.map_err(|e| Failure::new(Exit::Failed, e.to_string()))
}
