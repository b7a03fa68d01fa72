//! `sichen fence`: the fence kit for the user's own database.

use std::io::Write;
use std::process::ExitCode;

use sichen_sdk::fence::{self, Checked, Dialect};

/// Token and checkpoint inside your own database.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Print the tables and functions of the fence kit, to run once in your database.
    Sql {
        /// sqlite, postgres or mysql.
        #[arg(long)]
        dialect: Dialect,
    },
    /// Verify that the kit is in a database and really refuses a stale token there.
    ///
    /// Works in transactions that are rolled back and leaves nothing behind.
    Check {
        /// postgres://user:password@host/database, mysql://…, sqlite:PATH or a path.
        url: String,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command. The exit code of `check` is 0 only if every probe held.
pub async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Sql { dialect } => {
            let written = std::io::stdout().write_all(fence::sql(dialect).as_bytes());
            // A closed pipe (`| head`) is the reader's choice.
            match written {
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
                _ => Ok(ExitCode::SUCCESS),
            }
        }
        Command::Check { url, json } => {
            let checked = fence::check_url(&url).await?;
            let mut out = std::io::stdout().lock();
            if json {
                writeln!(out, "{}", as_json(&checked))?;
            } else {
                write!(out, "{}", as_text(&checked))?;
            }
            Ok(if checked.ok() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            })
        }
    }
}

fn as_text(checked: &Checked) -> String {
    let mut out = String::new();
    for probe in &checked.probes {
        let (mark, text) = match &probe.verdict {
            Ok(seen) => ("ok  ", seen),
            Err(wrong) => ("FAIL", wrong),
        };
        out.push_str(&format!("{mark}  {:<38} {text}\n", probe.name));
    }
    let verdict = if checked.ok() {
        "The fence holds: a stale token is refused by this database.\n"
    } else {
        "The fence does not hold here: do not run fenced handlers against this database.\n"
    };
    out.push_str(verdict);
    out
}

fn as_json(checked: &Checked) -> serde_json::Value {
    let probes = checked.probes.iter().map(|probe| {
        let (ok, text) = match &probe.verdict {
            Ok(seen) => (true, seen),
            Err(wrong) => (false, wrong),
        };
        serde_json::json!({ "name": probe.name, "ok": ok, "text": text })
    });
    serde_json::json!({ "ok": checked.ok(), "probes": probes.collect::<Vec<_>>() })
}
