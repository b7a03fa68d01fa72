//! `sichen fence`: the fence kit for the user's own database.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
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
            let checked = check(&url).await?;
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

async fn check(url: &str) -> anyhow::Result<Checked> {
    match Dialect::of_url(url) {
        Some(Dialect::Sqlite) => {
            let path = ["sqlite://", "sqlite:", "file://", "file:"]
                .iter()
                .find_map(|scheme| url.strip_prefix(scheme))
                .unwrap_or(url);
            // Never makes a file: a mistyped path must not pass as an empty database.
            let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
            let mut conn = rusqlite::Connection::open_with_flags(path, flags)
                .with_context(|| format!("can't open {path}"))?;
            conn.busy_timeout(std::time::Duration::from_secs(5))?;
            fence::sqlite::check(&mut conn).with_context(|| format!("can't ask {path}"))
        }
        Some(Dialect::Postgres) => {
            let (mut client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
                .await
                .context(
                    "can't connect (TLS is not spoken here; use a local or tunnelled address)",
                )?;
            let driver = tokio::spawn(connection);
            let checked = fence::postgres::check(&mut client).await;
            drop(client);
            driver.await?.ok();
            checked.context("can't ask the database")
        }
        Some(Dialect::Mysql) => {
            bail!(
                "fence check does not speak MySQL yet; docs/guide/fence-kit.md shows how to check it by hand"
            )
        }
        None => bail!("no fence kit for {url:?}: use postgres://, mysql:// or sqlite:PATH"),
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
