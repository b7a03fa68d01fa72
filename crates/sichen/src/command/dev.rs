//! `sichen dev`: a server and a worker, to try things out on one machine.
//!
//! # Invariants
//! - The worker is a process of its own, as in production; it drains when this process is gone,
//!   however it went.

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use clap::Args;
use sichen_server::auth;
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::server::NodeArgs;
use super::worker;
use crate::data_dir;
use crate::failure::Failure;
use crate::output;
use crate::serve;

/// How long the worker may take to end, beyond its own grace.
const WORKER_END: Duration = Duration::from_secs(15);
/// The wait before a worker that died is started again.
const RESTART: Duration = Duration::from_secs(1);

/// Run a server and one worker on this machine, to try things out.
#[derive(Debug, Args)]
pub struct Dev {
    #[command(flatten)]
    node: NodeArgs,
    /// Attempts that the worker runs at once.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: u32,
    /// The worker's configuration, YAML: what it offers besides noop, sleep, echo and fail.
    #[arg(long, value_name = "FILE")]
    worker_config: Option<PathBuf>,
}

/// Carries out `sichen dev`: until SIGTERM or SIGINT.
pub async fn run(args: Dev) -> Result<ExitCode, Failure> {
    let node = args.node.clone().config().node()?;
    // A wrong file is said now, not by a worker that is started again each second.
    let own = args.worker_config.as_deref().map(worker::offered);
    let own = own.transpose()?.unwrap_or_default();
    let mut handlers = ["noop", "sleep", "echo", "fail"]
        .map(str::to_owned)
        .to_vec();
    handlers.extend(own);
    let stop = serve::stop_signal()?;
    let server = serve::open(&node).await?;
    let url = server.url();
    let data = std::path::absolute(&node.data)?;
    let token = data.join(auth::TOKEN_FILE);
    let default = node.data == data_dir::default();
    let default = default && std::env::var_os("SICHEN_DATA").is_none();
    let mut exports = String::new();
    if url != "http://127.0.0.1:7070" {
        exports.push_str(&format!(" SICHEN_SERVER={url}"));
    }
    if !default {
        exports.push_str(&format!(" SICHEN_TOKEN_FILE='{}'", token.display()));
    }
    if !exports.is_empty() {
        exports = format!("export{exports}\n      ");
    }
    // The part after `#` stays in the browser. A node that has only the token's digest can't show it.
    let login = auth::read(&token).map(|token| format!("/#token={token}"));
    let login = login.unwrap_or_default();
    output::print(&format!(
        "ready {url}\n  console  {url}{login}\n  API      {url}/api/v1 (description: {url}/api/v1/openapi.json)\n  \
         token    {}\n  data     {}\n  worker   handlers {}\n\n\
         Next, in another terminal:\n      {exports}sichen apply -f examples/hello.yaml\n      \
         sichen run hello --wait\n",
        token.display(),
        data.display(),
        handlers.join(", ")
    ))?;
    let ending = CancellationToken::new();
    let (ended, has_ended) = oneshot::channel::<()>();
    let working = async {
        keep_worker(&args, &node.data, &url, &ending).await;
        // Nobody waits for it if the server has failed.
        let _ = ended.send(());
    };
    // The worker ends first, so that it can still report what it has finished.
    let stopping = async {
        stop.await;
        ending.cancel();
        let _ = has_ended.await;
    };
    let serving = async {
        let result = server.run(stopping).await;
        ending.cancel();
        result
    };
    let (served, ()) = tokio::join!(serving, working);
    served?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the worker's process, again when it dies, until `ending`.
async fn keep_worker(args: &Dev, data: &Path, url: &str, ending: &CancellationToken) {
    while !ending.is_cancelled() {
        let mut child = match start_worker(args, data, url) {
            Ok(child) => child,
            Err(error) => {
                tracing::error!(%error, "the worker could not be started");
                ending.cancelled().await;
                return;
            }
        };
        // Waiting for a child closes its standard input, which the worker would take for our end.
        let stdin = child.stdin.take();
        tokio::select! {
            ended = child.wait() => {
                if !ending.is_cancelled() {
                    tracing::warn!(?ended, "the worker has ended; it is started again");
                    tokio::select! {
                        () = ending.cancelled() => {}
                        () = tokio::time::sleep(RESTART) => {}
                    }
                }
            }
            () = ending.cancelled() => {
                drop(stdin);
                end(&mut child).await;
            }
        }
    }
}

fn start_worker(args: &Dev, data: &Path, url: &str) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args([
            "worker",
            "--until-stdin-ends",
            "--name",
            "dev",
            "--server",
            url,
        ])
        .arg("--data")
        .arg(data.join("worker"))
        .arg("--join-token-file")
        .arg(data.join(auth::JOIN_TOKEN_FILE))
        .args(["--slots", &args.slots.to_string(), "--drain-grace", "5s"])
        .arg("--builtin")
        .stdin(Stdio::piped())
        .kill_on_drop(true);
    if let Some(path) = &args.worker_config {
        command.arg("--config").arg(path);
    }
    command.spawn()
}

/// Lets the worker drain; kills it if it does not end.
async fn end(child: &mut Child) {
    if tokio::time::timeout(WORKER_END, child.wait())
        .await
        .is_err()
    {
        tracing::warn!("the worker does not end and is killed");
        if let Err(error) = child.kill().await {
            tracing::warn!(%error, "the worker could not be killed");
        }
    }
}
