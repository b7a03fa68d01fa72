//! `sichen worker`: run what the worker's own configuration allows.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use sichen_core::document::PROCESS_HANDLER;
use sichen_sdk::DataSource;
use sichen_server::auth;
use sichen_worker::Config;

use super::waiting::length;
use crate::config::{self, Said, Setting};
use crate::data_dir;
use crate::failure::{Exit, Failure};

/// Run a worker: takes shards from a server and runs them.
///
/// It runs only what its configuration names: commands (`processes`), programs that jobs may
/// start (`allow_programs`), and with --builtin the handlers noop, sleep, echo and fail.
#[derive(Debug, Args)]
pub struct Worker {
    /// The worker's configuration, YAML. Options here go before it.
    #[arg(
        long,
        value_name = "FILE",
        env = "SICHEN_WORKER_CONFIG",
        hide_env_values = true
    )]
    config: Option<PathBuf>,
    /// The servers, http:// or https://, any of which will do: several with commas, or the option
    /// several times [default: http://127.0.0.1:7070].
    #[arg(
        long = "server",
        value_name = "URL",
        value_delimiter = ',',
        env = "SICHEN_SERVER",
        hide_env_values = true
    )]
    servers: Vec<String>,
    /// Its data directory: identity, journal, output of attempts [default: `worker` in the
    /// default data directory].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The file with the token by which it may join [default: `join-token` in the default data
    /// directory, if it is there].
    #[arg(
        long,
        value_name = "FILE",
        env = "SICHEN_JOIN_TOKEN_FILE",
        hide_env_values = true
    )]
    join_token_file: Option<PathBuf>,
    /// For https: the certificates that may vouch for a server, PEM [default: those of this
    /// machine].
    #[arg(
        long,
        value_name = "FILE",
        env = "SICHEN_CA_FILE",
        hide_env_values = true
    )]
    ca_file: Option<PathBuf>,
    /// For https: its own certificate and those that vouch for it, PEM, for servers that ask for one.
    #[arg(
        long,
        value_name = "FILE",
        env = "SICHEN_CLIENT_CERT",
        hide_env_values = true,
        requires = "tls_key"
    )]
    tls_cert: Option<PathBuf>,
    /// The key of that certificate, PEM.
    #[arg(
        long,
        value_name = "FILE",
        env = "SICHEN_CLIENT_KEY",
        hide_env_values = true,
        requires = "tls_cert"
    )]
    tls_key: Option<PathBuf>,
    /// A name for people [default: the host's].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The pool that it serves.
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Attempts that it runs at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: Option<u32>,
    /// Offer the handlers noop, sleep, echo and fail.
    #[arg(long)]
    builtin: bool,
    /// How long running attempts may go on after SIGTERM.
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    drain_grace: Option<Duration>,
    /// Drain when the standard input ends: when the process that started it is gone.
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
}

/// Carries out `sichen worker`: until it is drained by SIGTERM or SIGINT.
pub async fn run(args: Worker) -> Result<ExitCode, Failure> {
    let until_stdin_ends = args.until_stdin_ends;
    let grace = args.drain_grace;
    let config = configuration(args)?;
    if offers_nothing(&config) {
        return Err(Failure::usage(
            "SC7008: this worker would offer nothing\n  give --config FILE with `processes` (docs/guide/processes.md \
             shows one), or --builtin to try things out",
        ));
    }
    let grace_ms = grace.map_or(config.drain_grace_ms, millis);
    let worker = sichen_worker::builder(config, Some(postgres))
        .and_then(|builder| Ok(builder.build()?))
        .map_err(|e| failure(&e))?;
    let handle = worker.handle();
    let work = worker.run();
    let drained = if until_stdin_ends {
        let ended = stdin_end()?;
        let watch = async {
            // An error means that nobody watches any more, which is the same.
            let _ = ended.await;
            handle.drain(grace_ms).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            drained = work => drained,
            () = watch => unreachable!("the watch never ends"),
        }
    } else {
        work.await
    };
    let drained = drained.map_err(|e| failure(&e.into()))?;
    if drained.unreported > 0 {
        tracing::warn!(
            results = drained.unreported,
            "no server has acknowledged these results; they wait in the journal for the next start"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// A data source in PostgreSQL, spoken to as a store is: the same words for encryption and
/// passwords.
fn postgres(url: String) -> DataSource {
    DataSource::postgres(move || {
        let url = url.clone();
        async move {
            let settings = [("application_name", "sichen-plan")];
            sichen_store::postgres::connect(&url, &settings).await
        }
    })
}

/// What is in force with these options, and where it came from.
pub fn settings(args: Worker) -> Result<Vec<Setting>, Failure> {
    let path = args.config.clone();
    let file = match &path {
        Some(path) => Some((path.as_path(), config::read::<Config>(path)?.keys)),
        None => None,
    };
    let config = configuration(args)?;
    check(&config).map_err(|e| failure(&e))?;
    let whole = serde_json::to_value(&config).unwrap_or_default();
    let whole = whole.as_object().cloned().unwrap_or_default();
    let flags = [
        ("servers", "--server", Some("SICHEN_SERVER")),
        ("data_dir", "--data", None),
        (
            "join_token_file",
            "--join-token-file",
            Some("SICHEN_JOIN_TOKEN_FILE"),
        ),
        ("ca_file", "--ca-file", Some("SICHEN_CA_FILE")),
        ("tls_cert", "--tls-cert", Some("SICHEN_CLIENT_CERT")),
        ("tls_key", "--tls-key", Some("SICHEN_CLIENT_KEY")),
        ("name", "--name", None),
        ("pool", "--pool", None),
        ("slots", "--slots", None),
        ("builtin", "--builtin", None),
        ("drain_grace_ms", "--drain-grace", None),
    ];
    let said = flags.map(|(key, flag, variable)| Said {
        key,
        flag: Some(flag),
        variable,
    });
    let file = file.as_ref().map(|(path, keys)| (*path, keys));
    let words: Vec<String> = std::env::args().collect();
    Ok(config::settings(whole, &said, file, &words))
}

fn configuration(args: Worker) -> Result<Config, Failure> {
    let mut config = match &args.config {
        None => Config::default(),
        Some(path) => config::read::<Config>(path)?.config,
    };
    if !args.servers.is_empty() {
        config.servers = args.servers;
    }
    if config.servers.is_empty() {
        config.servers.push("http://127.0.0.1:7070".to_owned());
    }
    let default = || data_dir::default().join("worker");
    config.data_dir = args.data.or(config.data_dir).or_else(|| Some(default()));
    if let Some(file) = args.join_token_file {
        config.join_token_file = Some(file);
    }
    if config.join_token_file.is_none() && config.join_token.is_none() {
        let file = data_dir::default().join(auth::JOIN_TOKEN_FILE);
        config.join_token_file = file.exists().then_some(file);
    }
    config.ca_file = args.ca_file.or(config.ca_file);
    if args.tls_cert.is_some() {
        (config.tls_cert, config.tls_key) = (args.tls_cert, args.tls_key);
    }
    config.name = args.name.or(config.name);
    config.pool = args.pool.unwrap_or(config.pool);
    config.slots = args.slots.unwrap_or(config.slots);
    config.builtin |= args.builtin;
    if let Some(grace) = args.drain_grace {
        config.drain_grace_ms = millis(grace);
    }
    Ok(config)
}

fn offers_nothing(config: &Config) -> bool {
    let programs = config.processes.is_empty() && config.allow_programs.is_empty();
    programs && config.data_sources.is_empty() && !config.builtin
}

/// Whether a worker can be started with `config`, as [`run`] would find out, without a data directory; which files
/// it names that are not here.
pub(super) fn check(config: &Config) -> Result<Vec<PathBuf>, sichen_worker::Error> {
    sichen_worker::check(config, Some(postgres))
}

/// The handlers that a configuration file names, if the file is right.
pub(super) fn offered(path: &Path) -> Result<Vec<String>, Failure> {
    let mut config = config::read::<Config>(path)?.config;
    // Whoever asks names the server.
    config.servers.push("http://127.0.0.1:7070".to_owned());
    config.check().map_err(|e| failure(&e))?;
    let process = (!config.allow_programs.is_empty()).then(|| PROCESS_HANDLER.to_owned());
    Ok(config.processes.into_keys().chain(process).collect())
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// Resolves when the standard input ends. A thread of its own, because a read that waits can't be
/// called off.
pub(super) fn stdin_end() -> Result<tokio::sync::oneshot::Receiver<()>, Failure> {
    let (ended, seen) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("stdin-end".into())
        .spawn(move || {
            let mut sink = std::io::sink();
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut sink);
            let _ = ended.send(());
        })?;
    Ok(seen)
}

fn failure(error: &sichen_worker::Error) -> Failure {
    use sichen_sdk::worker::Error as W;
    use sichen_worker::Error as E;
    let (exit, code) = match error {
        E::Config(_) | E::Worker(W::Config(_)) => (Exit::Usage, "SC7008"),
        E::Worker(W::Refused { code, .. }) => match code.as_str() {
            "bad-join-token" | "outside-join-token" => (Exit::Denied, "SC7070"),
            _ => (Exit::Failed, "SC7070"),
        },
        E::Worker(W::Superseded) => (Exit::Refused, "SC7072"),
        E::Worker(W::DataDir(_)) | E::DataDir(_) => (Exit::Refused, "SC7071"),
        E::Worker(W::Journal(_) | W::JournalFailed) => (Exit::Failed, "SC7071"),
        E::Worker(W::Io(_) | W::Stuck(_) | W::Died) | E::Io { .. } => (Exit::Failed, "SC7073"),
    };
    Failure::new(exit, format!("{code}: {error}"))
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
