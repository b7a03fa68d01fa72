//! `sichen restore`: a backup put in place, and the decisions after it.
//!
//! # Not here
//! How it is done (`sichen_store::sqlite`), making one ([`super::backup`]), what there is to decide and what
//! follows (`sichen_engine::control`).

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use sichen_core::ids::OpId;
use sichen_core::port::Op;
use sichen_engine::context::{IdSource as _, RandomIds};
use sichen_server::rest::wire;
use sichen_store::clock::SystemClock;
use sichen_store::postgres;
use sichen_store::sqlite::SqliteStore;

use super::backup::{Shown, blocking, failed, for_sqlite_alone};
use crate::client::{Client, Connection};
use crate::data_dir;
use crate::failure::{Exit, Failure};
use crate::output::{self, Output};
use crate::store_at::StoreAt;

/// Put a backup of a SQLite store in place, once all of it is checked; and decide what becomes of the time that
/// it has lost. Stop the server first; after it is started again: sichen restore show.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Restore {
    #[command(subcommand)]
    what: Option<What>,
    /// What `sichen backup` wrote.
    #[arg(required = true)]
    file: Option<PathBuf>,
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
    /// Access tokens that were live in the backup and are over in that store: they are revoked.
    revoked: Vec<String>,
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
        if !self.revoked.is_empty() {
            text.push_str(&format!(
                "revoked, as they were in that store: {}\n",
                self.revoked.join(", ")
            ));
        }
        text.push_str(
            "nothing fires and nothing is granted until it is decided what becomes of the time since then: \
             start the server, then: sichen restore show\n",
        );
        text
    }
}

/// Carries out `sichen restore`.
pub async fn run(args: Restore) -> Result<ExitCode, Failure> {
    match args.what {
        Some(What::Show(args)) => return show(args).await,
        Some(What::Begin(args)) => return begin(args).await,
        Some(What::Decide(args)) => return decide(args).await,
        None => {}
    }
    let Some(from) = args.file else {
        return Err(Failure::usage("name the backup: sichen restore FILE"));
    };
    let dir = match (args.store, args.data) {
        (Some(StoreAt::Postgres(_)), _) => return Err(for_sqlite_alone()),
        (Some(StoreAt::Directory(dir)), _) | (None, Some(dir)) => dir,
        (None, None) => data_dir::default(),
    };
    let (file, data) = (from.clone(), dir.clone());
    let (check, replace) = (args.check, args.replace);
    let done = blocking(move || {
        if check {
            let backup = SqliteStore::inspect(&file)?;
            return Ok((backup, None));
        }
        let restored = SqliteStore::restore(&file, &data, replace, Arc::new(SystemClock), op())?;
        Ok((restored.backup.clone(), Some(restored)))
    });
    let (backup, placed) = done.await?.map_err(failed)?;
    let done = Done {
        backup: Shown::new(&from, &backup),
        data: placed.is_some().then_some(dir),
        new_epoch: placed.as_ref().map(|placed| placed.epoch),
        revoked: placed
            .iter()
            .flat_map(|placed| &placed.revoked)
            .map(ToString::to_string)
            .collect(),
        kept: placed.and_then(|placed| placed.kept),
    };
    args.output.show(&done, Done::said)?;
    Ok(ExitCode::SUCCESS)
}

/// What `sichen restore show`, `decide` and `begin` are.
#[derive(Debug, Subcommand)]
enum What {
    /// Show what a restore has left to decide: jobs with planned times since the backup's newest event, runs that
    /// were open then, and reports that prove what ran after it.
    Show(Asked),
    /// Decide what becomes of a job's planned times, of a run, or of all that is left; with the last,
    /// everything goes on.
    Decide(Decide),
    /// Note that the server's database went back, after PostgreSQL's own restore or recovery: raises the epoch,
    /// and nothing fires or is granted until it is decided. With --store while no server runs, so that none acts
    /// before.
    Begin(Begin),
}

#[derive(Debug, Args)]
struct Asked {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct Begin {
    /// The PostgreSQL database itself, before a server is started on it.
    #[arg(long, value_name = "URL")]
    store: Option<StoreAt>,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct Decide {
    /// About the planned times of this job alone.
    #[arg(long, value_name = "JOB", conflicts_with = "run")]
    job: Option<String>,
    /// About this run alone.
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// What becomes of it.
    #[arg(long = "as", value_name = "WHAT", value_enum)]
    how: As,
    /// Who decided it, and why.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// What shows that it was done; wanted with `--as done`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    evidence: String,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum As {
    /// Planned times follow the job's catch-up policy; a run goes on from its checkpoints.
    #[value(alias = "catch-up")]
    Again,
    /// It was done, by the evidence given, and does not run.
    #[value(alias = "ran")]
    Done,
    /// It stays undone: planned times are recorded as skipped, a run is cancelled.
    Leave,
}

impl As {
    fn word(self) -> &'static str {
        match self {
            As::Again => "again",
            As::Done => "done",
            As::Leave => "leave",
        }
    }
}

async fn show(args: Asked) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let restore: wire::Restore = client.get(&["restore"], Vec::new()).await?;
    args.output.show(&restore, left)?;
    Ok(ExitCode::SUCCESS)
}

async fn begin(args: Begin) -> Result<ExitCode, Failure> {
    if let Some(at) = &args.store {
        return begin_at(at, &args.output).await;
    }
    let client = Client::new(&args.connection)?;
    let begun = client.post(&["restore", "begin"], None::<&()>, false);
    let restore: wire::Restore = begun.await?;
    args.output.show(&restore, left)?;
    Ok(ExitCode::SUCCESS)
}

/// Begins it in the database itself.
async fn begin_at(at: &StoreAt, output: &Output) -> Result<ExitCode, Failure> {
    if let StoreAt::Directory(_) = at {
        return Err(Failure::usage(
            "a SQLite store is put back by `sichen restore FILE`, which begins its restore by itself",
        ));
    }
    let store = at.open(&postgres::Options::default()).await?;
    let begun = store.begin_restore(op(), 0).await;
    let begun = begun.map_err(|e| Failure::new(Exit::Unavailable, format!("{at}: {e}")))?;
    let restore = wire::Restore {
        undecided: true,
        epoch: Some(begun.epoch),
        at: Some(begun.at.to_string()),
        mark: Some(begun.mark.to_string()),
        ..wire::Restore::default()
    };
    output.show(&restore, |restore| {
        format!(
            "{}start the server, then: sichen restore show\n",
            went_back(restore)
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Who puts a store back by hand.
fn op() -> Op {
    Op {
        id: OpId(RandomIds.uuid()),
        actor: "operator (sichen restore)".to_owned(),
        hold: None,
    }
}

async fn decide(args: Decide) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let asked = wire::DecideRestore {
        job: args.job,
        run: args.run,
        how: args.how.word().to_owned(),
        reason: args.reason,
        evidence: args.evidence,
    };
    let decided: wire::DecidedRestore = client.post_once(&["restore", "decide"], &asked).await?;
    args.output.show(&decided, |decided| {
        let left = match decided.undecided {
            true => "something is left to decide: sichen restore show",
            false => "all is decided; jobs fire and shards are granted again",
        };
        let said = match decided.decided {
            0 => String::new(),
            n => format!("{} one by one\n", output::count(n, "decision")),
        };
        format!("{said}{left}\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What is left to decide, for people.
fn left(restore: &wire::Restore) -> String {
    if !restore.undecided {
        return "there is no restore to decide about\n".to_owned();
    }
    let mut text = went_back(restore);
    if !restore.jobs.is_empty() {
        text.push_str("\nplanned times since then\n");
        let rows = restore.jobs.iter().map(|job| {
            let times = [job.first.clone(), job.last.clone(), job.count.to_string()];
            let [first, last, count] = times;
            [job.job.clone(), count, first, last]
        });
        text.push_str(&output::table(["JOB", "COUNT", "FIRST", "LAST"], rows));
    }
    if !restore.runs.is_empty() {
        text.push_str("\nruns that were open then\n");
        let rows = restore.runs.iter().map(|run| {
            let done = format!("{}/{}", run.shards.succeeded, run.shards.total);
            [run.id.to_string(), run.key.clone(), run.state.clone(), done]
        });
        text.push_str(&output::table(["RUN", "KEY", "STATE", "SHARDS"], rows));
    }
    if !restore.lost.is_empty() {
        text.push_str(
            "\nreported by workers under tokens that this store never gave out: it ran\n",
        );
        let rows = restore.lost.iter().map(|lost| {
            let end = lost.end.clone().unwrap_or_else(|| "was at work".to_owned());
            let key = lost.run_key.clone().unwrap_or_default();
            [
                lost.shard.clone(),
                key,
                end,
                lost.by.clone(),
                lost.at.clone(),
            ]
        });
        text.push_str(&output::table(["SHARD", "RUN", "END", "BY", "AT"], rows));
    }
    if !restore.tokens.is_empty() {
        text.push_str(
            "\naccess tokens of before that are valid: one that was revoked since then is valid again (sichen token revoke)\n",
        );
        let rows = restore.tokens.iter().map(|token| {
            let used = token.used_at.clone().unwrap_or_default();
            [
                token.name.clone(),
                token.kind.clone(),
                token.created_at.clone(),
                used,
            ]
        });
        text.push_str(&output::table(["TOKEN", "KIND", "MADE", "USED"], rows));
    }
    if restore.more {
        text.push_str("\nand more: decide about these first\n");
    }
    text.push_str(
        "\nsichen restore decide [--job JOB | --run RUN] --as again|done|leave --reason TEXT [--evidence TEXT]\n",
    );
    text
}

fn went_back(restore: &wire::Restore) -> String {
    let word = |text: &Option<String>| text.clone().unwrap_or_default();
    format!(
        "the store went back: the last thing in it is of {}, and what happened after that is lost (noticed {}, \
         epoch {})\nnothing fires and nothing is \
         granted until this is decided\n",
        word(&restore.mark),
        word(&restore.at),
        restore.epoch.unwrap_or_default(),
    )
}
