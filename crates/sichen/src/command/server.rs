//! `sichen server`: one server node.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;
use sichen_core::lease::Rhythm;

use super::run::length;
use super::worker::stdin_end;
use crate::data_dir;
use crate::failure::Failure;
use crate::output;
use crate::serve::{self, Node};
use crate::store_at::StoreAt;

/// Run a server: keeps the hours, hands out the shards, answers the API.
#[derive(Debug, Args)]
pub struct Server {
    #[command(flatten)]
    pub node: NodeArgs,
    /// Its certificate and those that vouch for it, PEM: the API and workers' sessions are then TLS
    /// alone. A renewed file is taken up within a minute.
    #[arg(
        long,
        value_name = "FILE",
        env = "SICHEN_TLS_CERT",
        hide_env_values = true,
        requires = "tls_key"
    )]
    tls_cert: Option<PathBuf>,
    /// The key of that certificate, PEM.
    #[arg(
        long,
        value_name = "FILE",
        env = "SICHEN_TLS_KEY",
        hide_env_values = true,
        requires = "tls_cert"
    )]
    tls_key: Option<PathBuf>,
    /// Stop when the standard input ends: when the process that started it is gone.
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
}

/// What a node is told about itself.
#[derive(Clone, Debug, Args)]
pub struct NodeArgs {
    /// Where it keeps everything [default: `SICHEN_DATA`, else ~/.local/share/sichen].
    #[arg(long, value_name = "DIR", env = "SICHEN_DATA", hide_env_values = true)]
    pub data: Option<PathBuf>,
    /// Where jobs, runs and history are: postgres://USER@HOST/DATABASE [default: SQLite in --data].
    #[arg(long, value_name = "URL", env = "SICHEN_STORE", hide_env_values = true)]
    pub store: Option<StoreAt>,
    /// Where it listens; port 0 takes a free one.
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "SICHEN_LISTEN",
        hide_env_values = true,
        default_value = "127.0.0.1:7070"
    )]
    pub listen: SocketAddr,
    /// Listen on an address that other machines reach, without encryption: put TLS in front.
    #[arg(long)]
    pub allow_plaintext: bool,
    /// How long a worker's session lives without a beat.
    #[arg(long, value_name = "LENGTH", default_value = "15s", value_parser = length)]
    pub session_ttl: Duration,
    /// How often workers beat; the session must be three beats at least.
    #[arg(long, value_name = "LENGTH", default_value = "3s", value_parser = length)]
    pub beat: Duration,
    /// How long ended runs are kept.
    #[arg(long, value_name = "LENGTH", default_value = "720h", value_parser = length)]
    pub retention: Duration,
}

impl NodeArgs {
    /// As the node takes it.
    pub fn node(&self) -> Result<Node, Failure> {
        let signed = |length: Duration| {
            SignedDuration::try_from(length).map_err(|e| Failure::usage(e.to_string()))
        };
        let rhythm = Rhythm {
            beat: signed(self.beat)?,
            ttl: signed(self.session_ttl)?,
        };
        let data = self.data.clone().unwrap_or_else(data_dir::default);
        let store = self.store.clone();
        Ok(Node {
            store: store.unwrap_or_else(|| StoreAt::Directory(data.clone())),
            data,
            listen: self.listen,
            beyond_loopback: self.allow_plaintext,
            tls: None,
            worker: rhythm
                .checked()
                .map_err(|e| Failure::usage(e.to_string()))?,
            retention: signed(self.retention)?,
        })
    }
}

/// Carries out `sichen server`: until SIGTERM or SIGINT.
pub async fn run(args: Server) -> Result<ExitCode, Failure> {
    let mut node = args.node.node()?;
    node.tls = args.tls_cert.zip(args.tls_key);
    let stop = serve::stop_signal()?;
    let server = serve::open(&node).await?;
    output::print(&format!("ready {}\n", server.url()))?;
    if !args.until_stdin_ends {
        server.run(stop).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let starter_gone = stdin_end()?;
    let stop = async {
        tokio::select! {
            () = stop => {}
            _ = starter_gone => {}
        }
    };
    server.run(stop).await?;
    Ok(ExitCode::SUCCESS)
}
