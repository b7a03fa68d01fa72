//! The worker that `sichen worker` starts: the SDK's worker with the handlers that its own
//! configuration allows.
//!
//! # Code map
//! - [`Config`]: what this worker may run, and for whom.
//! - `process`: commands as handlers, contained and killed as a whole tree.
//! - `builtin`: `noop`, `sleep`, `echo`, `fail`.
//!
//! # Invariants
//! - Nothing runs that the worker's own configuration does not name; a job can't widen it.
//! - Before the worker registers, nothing of an earlier incarnation is alive.
//!
//! # Not here
//! The session, the journal and the drain (the SDK).

mod builtin;
mod clock;
mod config;
mod process;

use std::path::{Path, PathBuf};

pub use config::{Amount, Config, Containment, DataSourceConfig, ProcessConfig};
use sichen_sdk::output::AttemptOutput;
use sichen_sdk::worker::{self, Builder, Drained};
use sichen_sdk::{DataSource, Worker, datadir};

/// Why a worker did not start, or ended other than by being drained.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration can't be used.
    #[error("worker configuration: {0}")]
    Config(String),
    /// Of the worker itself.
    #[error(transparent)]
    Worker(#[from] worker::Error),
    /// The data directory can't be used.
    #[error(transparent)]
    DataDir(#[from] datadir::Error),
    /// The machine refuses something basic.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What happened.
        source: std::io::Error,
    },
}

/// Makes a data source of the address of a PostgreSQL database. The caller's: a worker has no driver
/// of its own.
pub type Postgres = fn(String) -> DataSource;

/// Opens the data directory, kills what an earlier incarnation left running, and makes a worker
/// of the configuration. The caller may add handlers of its own.
///
/// # Errors
/// A configuration that can't be used, a data directory in use, strangers that do not die.
pub fn builder(config: Config, postgres: Option<Postgres>) -> Result<Builder, Error> {
    let (mut builder, hidden) = told(&config, postgres, Files::Needed)?;
    let data_dir = config
        .data_dir
        .clone()
        .unwrap_or_else(|| "sichen-worker".into());
    let data_dir = datadir::DataDir::open(data_dir)?;
    let attempts = AttemptOutput::of(data_dir.path()).path().to_owned();
    let containment =
        process::Containment::find(config.containment, data_dir.uid(), config.limits_memory())?;
    process::sweep(&containment, data_dir.uid(), &attempts)?;
    let uid = data_dir.uid().to_owned();
    builder = builder
        .slots(process::files::ask_for(config.slots))
        .opened_data_dir(data_dir);
    let runner = process::Runner::new(
        containment,
        uid,
        attempts,
        &process::OutputLimits {
            stream_bytes: config.output_limit_bytes,
            total_bytes: config.output_total_bytes,
            keep_attempts: config.keep_attempts,
        },
        config.memory_limit.map(config::Amount::whole),
        hidden,
    );
    for (name, process) in config.processes {
        builder = builder.custom_handler(name, runner.fixed(process));
    }
    if !config.allow_programs.is_empty() {
        builder = builder.custom_handler("process", runner.allowed(config.allow_programs));
    }
    Ok(builder)
}

/// Whether [`builder`] makes a worker of it, as far as that is known without touching its data directory: keys,
/// addresses, and the files that it names. Which of these are not on this machine: where the worker runs they
/// must be.
///
/// # Errors
/// The first thing that can't be used.
pub fn check(config: &Config, postgres: Option<Postgres>) -> Result<Vec<PathBuf>, Error> {
    let (builder, _) = told(config, postgres, Files::IfHere)?;
    builder.check_servers()?;
    let named = [
        &config.join_token_file,
        &config.ca_file,
        &config.tls_cert,
        &config.tls_key,
    ];
    let missing = named.into_iter().flatten().filter(|path| !path.exists());
    Ok(missing.cloned().collect())
}

/// What of a file that a configuration names and that is not there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Files {
    /// It is an error.
    Needed,
    /// It goes without.
    IfHere,
}

impl Files {
    fn go_without(self, path: &Path) -> bool {
        self == Files::IfHere && !path.exists()
    }
}

/// All that is told of a worker but what needs its data directory: that, and its processes. And the texts that
/// no process's output may show.
fn told(
    config: &Config,
    postgres: Option<Postgres>,
    files: Files,
) -> Result<(Builder, Vec<String>), Error> {
    config.check()?;
    let join_token = match &config.join_token_file {
        Some(path) if files.go_without(path) => None,
        Some(_) | None => config.read_join_token()?,
    };
    let mut builder = Worker::builder()
        .pool(&config.pool)
        .slots(config.slots)
        .grace_ms(config.grace_ms)
        .drain_grace_ms(config.drain_grace_ms)
        .build_info(concat!("sichen ", env!("CARGO_PKG_VERSION")));
    if let Some(path) = config
        .ca_file
        .as_ref()
        .filter(|path| !files.go_without(path))
    {
        let pem = std::fs::read(path).map_err(|source| Error::Io {
            what: format!("read {}", path.display()),
            source,
        })?;
        builder = builder.ca_pem(pem);
    }
    match (&config.tls_cert, &config.tls_key) {
        (Some(cert), Some(key)) if files.go_without(cert) || files.go_without(key) => {}
        (Some(cert), Some(key)) => builder = builder.certificate(cert, key),
        (None, None) => {}
        _ => {
            let text = "tls_cert, tls_key: give both or neither".to_owned();
            return Err(Error::Config(text));
        }
    }
    for server in &config.servers {
        builder = builder.server(server);
    }
    let hidden: Vec<String> = join_token.iter().cloned().collect();
    if let Some(token) = join_token {
        builder = builder.join_token(token);
    }
    if let Some(name) = &config.name {
        builder = builder.name(name);
    }
    for (name, value) in &config.labels {
        builder = builder.label(name, value);
    }
    for (name, thousandths) in config.offered() {
        builder = builder.resource(name, thousandths);
    }
    for (name, source) in &config.data_sources {
        let source = match (source.clone(), postgres) {
            (DataSourceConfig::Sqlite(path), _) => DataSource::sqlite(path),
            (DataSourceConfig::Postgres(url), Some(postgres)) => postgres(url),
            (DataSourceConfig::Postgres(_), None) => {
                let text = format!("data_sources.{name}: this program has no PostgreSQL");
                return Err(Error::Config(text));
            }
        };
        builder = builder.data_source(name, source);
    }
    if config.builtin {
        builder = builtin::add(builder);
    }
    Ok((builder, hidden))
}

/// [`builder`], then runs it until it is drained.
///
/// # Errors
/// Those of the two.
pub async fn run(config: Config) -> Result<Drained, Error> {
    Ok(builder(config, None)?.run().await?)
}
