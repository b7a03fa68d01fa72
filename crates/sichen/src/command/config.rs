//! `sichen config`: what is in force and where it came from; whether a file is right.
//!
//! # Invariants
//! - It starts nothing and asks no server. Secrets are not shown.
//!
//! # Not here
//! What the values mean (`crate::config`, `sichen-worker`).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Map, Value};
use sichen_server::auth;
use sichen_worker::Config as WorkerConfig;

use super::server::{self, Server};
use super::worker::{self, Worker};
use crate::client::Connection;
use crate::config::{self, Origin, Said, ServerConfig, Setting};
use crate::data_dir;
use crate::failure::Failure;
use crate::output::{self, Output};

/// Show the configuration that is in force, and where each value came from: an option, the
/// environment, a file, or the default.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Config {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Of this command line: which server it asks, with which token (the same as without a word).
    Client(ClientArgs),
    /// Of a server started with these options.
    Server(ServerArgs),
    /// Of a worker started with these options.
    Worker(WorkerArgs),
    /// Check a configuration file of a server, or of a worker: unknown keys, wrong values, all at
    /// once.
    Check(Check),
}

#[derive(Debug, Args)]
struct ClientArgs {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct ServerArgs {
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct WorkerArgs {
    #[command(flatten)]
    worker: Worker,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct Check {
    /// The file, YAML.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// It is a worker's.
    #[arg(long)]
    worker: bool,
}

/// The answer for programs.
#[derive(Debug, Serialize)]
struct View {
    settings: Vec<Setting>,
}

/// Carries out `sichen config`.
pub fn run(args: Config) -> Result<ExitCode, Failure> {
    match args.what {
        None => client(&args.client),
        Some(What::Client(args)) => client(&args),
        Some(What::Server(args)) => {
            let output = args.output;
            show(output, server::settings(args.server)?)
        }
        Some(What::Worker(args)) => {
            let output = args.output;
            show(output, worker::settings(args.worker)?)
        }
        Some(What::Check(args)) => check(&args),
    }
}

fn client(args: &ClientArgs) -> Result<ExitCode, Failure> {
    let Connection {
        server,
        token_file,
        ca_file,
        tls_cert,
        tls_key,
    } = &args.connection;
    let token_file = token_file.clone();
    let token_file = token_file.unwrap_or_else(|| data_dir::default().join(auth::TOKEN_FILE));
    let text = |path: &PathBuf| Value::from(path.display().to_string());
    let mut config = Map::new();
    config.insert("server".to_owned(), server.as_str().into());
    config.insert("token_file".to_owned(), text(&token_file));
    let files = [
        ("ca_file", ca_file),
        ("tls_cert", tls_cert),
        ("tls_key", tls_key),
    ];
    for (key, path) in files {
        if let Some(path) = path {
            config.insert(key.to_owned(), text(path));
        }
    }
    let said = [
        ("server", "--server", "SICHEN_SERVER"),
        ("token_file", "--token-file", "SICHEN_TOKEN_FILE"),
        ("ca_file", "--ca-file", "SICHEN_CA_FILE"),
        ("tls_cert", "--tls-cert", "SICHEN_CLIENT_CERT"),
        ("tls_key", "--tls-key", "SICHEN_CLIENT_KEY"),
    ];
    let said = said.map(|(key, flag, variable)| Said {
        key,
        flag: Some(flag),
        variable: Some(variable),
    });
    let words: Vec<String> = std::env::args().collect();
    show(args.output, config::settings(config, &said, None, &words))
}

fn show(output: Output, settings: Vec<Setting>) -> Result<ExitCode, Failure> {
    output.show(&View { settings }, |view| {
        let rows = view.settings.iter().map(|setting| {
            let value = match &setting.value {
                Value::String(text) => text.clone(),
                Value::Null => "-".to_owned(),
                other => other.to_string(),
            };
            let origin = match &setting.origin {
                Origin::Flag(name) => format!("option {name}"),
                Origin::Environment(name) => format!("environment {name}"),
                Origin::File(path) => format!("file {path}"),
                Origin::Default => "default".to_owned(),
            };
            [setting.key.clone(), value, origin]
        });
        output::table(["KEY", "VALUE", "FROM"], rows)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn check(args: &Check) -> Result<ExitCode, Failure> {
    let shown = args.file.display();
    let kind = if args.worker {
        let mut read = config::read::<WorkerConfig>(&args.file)?.config;
        if read.servers.is_empty() {
            // `sichen worker` has a default for it.
            read.servers.push("http://127.0.0.1:7070".to_owned());
        }
        let checked = worker::check(&read);
        let missing = checked.map_err(|e| config::refused(&shown.to_string(), &[e.to_string()]))?;
        for file in missing {
            eprintln!(
                "note: {} is not on this machine; the worker needs it where it runs",
                file.display()
            );
        }
        "worker"
    } else {
        let read = config::read::<ServerConfig>(&args.file);
        let read = read.map_err(|failure| with_hint(failure, args))?;
        let problems = read.config.problems();
        if !problems.is_empty() {
            return Err(config::refused(&shown.to_string(), &problems));
        }
        if let Some(alerts) = &read.config.alerts {
            config::alerts::load(alerts)?;
        }
        if let Some(oidc) = &read.config.oidc {
            config::oidc::load(oidc)?;
        }
        "server"
    };
    output::print(&format!("{shown} is a right configuration of a {kind}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// A worker's file is no server's, which is told apart from a misspelt key.
fn with_hint(failure: Failure, args: &Check) -> Failure {
    match config::read::<WorkerConfig>(&args.file) {
        Ok(_) => Failure::usage(format!(
            "{failure}\n  it is right as a worker's: `sichen config check --worker {}`",
            args.file.display()
        )),
        Err(_) => failure,
    }
}
