//! Commands as handlers.
//!
//! A process gets its own session and process group, a supervisor and, where one can be made, a
//! cgroup of its own; its arguments go to the system as they stand, never through a shell. Its end
//! is reported when the whole tree is dead: what the main process leaves behind is killed.
//!
//! # Invariants
//! - The attempt does not end while anything of its tree lives.
//! - stdout and stderr are drained to the end, whatever becomes of the files they go to.
//!
//! # Not here
//! When to stop (the session says so through the context).

mod attempts;
mod cgroup;
mod channel;
mod containment;
mod environment;
pub(crate) mod files;
mod kept;
mod mask;
mod output;
mod proc;
mod report;
mod spawn;
mod supervisor;
mod thread;
mod tree;

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use sichen_sdk::output::{AttemptKey, Stream};
use sichen_sdk::{BoxFuture, Context, Handler, HandlerError, Stopped};

use crate::clock::boot_ms;
use crate::config::{Amount, ProcessConfig};
use attempts::{Attempts, Endings};
pub(crate) use containment::{Containment, sweep};
use kept::Kept;
use mask::MAX_SECRET_BYTES;
use mask::Mask;
use spawn::Start;
use tree::Tree;

/// How often a dying tree is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long the pipes may stay open after the tree is dead (a stranger may hold them).
const DRAIN_WITHIN: Duration = Duration::from_secs(2);

/// What all processes of this worker share.
#[derive(Debug, Clone)]
pub(crate) struct Runner {
    shared: Arc<Shared>,
}

/// How much of what processes write is kept.
#[derive(Debug)]
pub(crate) struct OutputLimits {
    pub(crate) stream_bytes: u64,
    pub(crate) total_bytes: u64,
    pub(crate) keep_attempts: usize,
}

#[derive(Debug)]
struct Shared {
    containment: Containment,
    worker_uid: String,
    attempts: Arc<Attempts>,
    endings: Endings,
    output_limit: u64,
    /// What the processes of an attempt may use together whose command says nothing of it.
    memory_limit: Option<u64>,
    /// What no output shows, whatever the command.
    hidden: Vec<String>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.containment.remove_if_empty();
    }
}

/// What is run for an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Launch {
    argv: Vec<String>,
    cwd: Option<PathBuf>,
    env: Vec<(String, String)>,
    /// Variables whose values are in files.
    secrets: Vec<(String, PathBuf)>,
    /// In bytes.
    memory_limit: Option<u64>,
}

/// Where the command comes from.
#[derive(Debug)]
enum Source {
    /// The worker's configuration names it.
    Fixed(ProcessConfig),
    /// The job names it, out of these programs.
    Allowed(Vec<PathBuf>),
}

#[derive(Debug)]
struct Process {
    runner: Runner,
    source: Arc<Source>,
}

impl Runner {
    pub(crate) fn new(
        containment: Containment,
        worker_uid: String,
        attempts: PathBuf,
        limits: &OutputLimits,
        memory_limit: Option<u64>,
        hidden: Vec<String>,
    ) -> Runner {
        let attempts = Attempts::open(attempts, limits.keep_attempts, limits.total_bytes);
        let attempts = Arc::new(attempts);
        let shared = Shared {
            containment,
            worker_uid,
            endings: Endings::start(Arc::clone(&attempts)),
            attempts,
            output_limit: limits.stream_bytes,
            memory_limit,
            hidden,
        };
        Runner {
            shared: Arc::new(shared),
        }
    }

    pub(crate) fn fixed(&self, process: ProcessConfig) -> impl Handler + use<> {
        Process {
            runner: self.clone(),
            source: Arc::new(Source::Fixed(process)),
        }
    }

    pub(crate) fn allowed(&self, programs: Vec<PathBuf>) -> impl Handler + use<> {
        Process {
            runner: self.clone(),
            source: Arc::new(Source::Allowed(programs)),
        }
    }
}

impl Handler for Process {
    fn run(&self, context: Context) -> BoxFuture<Result<serde_json::Value, HandlerError>> {
        let (shared, source) = (Arc::clone(&self.runner.shared), Arc::clone(&self.source));
        Box::pin(async move {
            let launch = source.launch(&context)?;
            shared.attempt(&context, launch).await
        })
    }

    fn ends_itself(&self) -> bool {
        true
    }
}

/// A parameter that may be left out.
fn optional<T: serde::de::DeserializeOwned + Default>(
    parameters: &serde_json::Value,
    name: &str,
    what: &str,
) -> Result<T, HandlerError> {
    let Some(value) = parameters.get(name) else {
        return Ok(T::default());
    };
    serde_json::from_value(value.clone())
        .map_err(|_| HandlerError::fatal_run("bad-parameters", format!("{name} must be {what}")))
}

/// Read by the loader, or part of Sichen's own contract.
fn is_reserved(name: &str) -> bool {
    name.starts_with("LD_") || name.starts_with("SICHEN_") || name == "GCONV_PATH"
}

impl Source {
    fn launch(&self, context: &Context) -> Result<Launch, HandlerError> {
        let parameters: serde_json::Value = context.read_parameters()?;
        let texts = |name: &str| -> Result<Vec<String>, HandlerError> {
            let Some(value) = parameters.get(name) else {
                return Ok(Vec::new());
            };
            serde_json::from_value(value.clone()).map_err(|_| {
                HandlerError::fatal_run("bad-parameters", format!("{name} must be a list of texts"))
            })
        };
        match self {
            Source::Fixed(process) => {
                let mut argv = process.argv.clone();
                if process.allow_args {
                    argv.extend(texts("args")?);
                }
                let env = process.env.clone().into_iter().collect();
                Ok(Launch {
                    argv,
                    cwd: process.cwd.clone(),
                    env,
                    secrets: process.secrets.clone().into_iter().collect(),
                    memory_limit: process.memory_limit.map(Amount::whole),
                })
            }
            Source::Allowed(programs) => {
                let argv = texts("argv")?;
                let program = argv.first().map(Path::new).unwrap_or(Path::new(""));
                // Compared as written: no search path, no resolving of links or dots.
                if !programs
                    .iter()
                    .any(|allowed| allowed.as_os_str() == program.as_os_str())
                {
                    let message = format!("this worker's allow_programs does not name {program:?}");
                    return Err(HandlerError::fatal_shard("not-allowed", message));
                }
                let env: BTreeMap<String, String> = optional(&parameters, "env", "a map of texts")?;
                let cwd: Option<PathBuf> = optional(&parameters, "cwd", "a path")?;
                // With these a job could make an allowed program into another one, or forge the
                // contract.
                if let Some(name) = env.keys().find(|name| is_reserved(name)) {
                    let message = format!("a job may not set {name} for an allowed program");
                    return Err(HandlerError::fatal_run("not-allowed", message));
                }
                let env = env.into_iter().collect();
                Ok(Launch {
                    argv,
                    cwd,
                    env,
                    secrets: Vec::new(),
                    memory_limit: None,
                })
            }
        }
    }
}

impl Shared {
    async fn attempt(
        &self,
        context: &Context,
        mut launch: Launch,
    ) -> Result<serde_json::Value, HandlerError> {
        let io = |what: &'static str| {
            move |error: std::io::Error| {
                HandlerError::retryable("cannot-start", format!("{what}: {error}"))
            }
        };
        let lease = format!(
            "{}.{}.{}",
            context.run_id(),
            context.shard_no(),
            context.token()
        );
        let key = AttemptKey {
            run_id: context.run_id(),
            shard: context.shard_no(),
            attempt: context.attempt(),
            token: context.token(),
        };
        let (dir, alive) = self
            .attempts
            .begin(&key.dir_name())
            .map_err(io("attempt directory"))?;
        let mut ending = Ending::of(&self.endings, dir.clone());
        let mut report = report::Report::open(&dir.join("report")).map_err(io("report channel"))?;
        let channel = channel::Channel::open(&dir).map_err(io("report socket"))?;
        let said = Arc::new(report::Said::default());
        let own = environment::Own {
            worker_uid: &self.worker_uid,
            lease: &lease,
            dir: &dir,
            report: report.path(),
            channel: &channel,
        };
        let secrets = read_secrets(&launch.secrets)?;
        let hidden = self.hidden.iter().map(String::as_str);
        let hidden = hidden.chain(secrets.iter().map(|(_, text)| text.as_str()));
        let mask = Mask::of(hidden.chain([channel.secret()]));
        launch.env.extend(secrets);
        let env = environment::of(context, &launch, &own)
            .map_err(|message| HandlerError::fatal_shard("cannot-start", message))?;
        let cwd = launch.cwd.clone().unwrap_or_else(|| dir.clone());
        let memory = launch.memory_limit.or(self.memory_limit);
        let leaves = self.containment.leaves(&lease, memory);
        let leaves = leaves.map_err(io("cgroup"))?;
        let (give_up, hold) = std::io::pipe().map_err(io("pipe"))?;
        let give_up = Arc::new(give_up);
        let start = Start {
            argv: &launch.argv,
            cwd,
            env,
            leaves: &leaves,
            alive,
        };
        let started = start.start(context.cancelled()).await;
        let started = started.map_err(|error| cannot_start(&launch.argv[0], &error))?;
        let Some(mut started) = started else {
            return Err(Stopped.into());
        };
        let (stdout, stderr) = started.outputs();
        let mut tree = Tree::new(started, leaves, &lease)?;
        let kept = |stream| {
            let attempts = Arc::clone(&self.attempts);
            Kept::new(dir.clone(), stream, self.output_limit, attempts)
        };
        let (give_up_too, mask_too) = (Arc::clone(&give_up), mask.clone());
        let stdout = output::drain(stdout, kept(Stream::Stdout), mask_too, give_up_too);
        let stderr = output::drain(stderr, kept(Stream::Stderr), mask, give_up);
        tokio::select! {
            () = supervise(context, &mut tree) => {}
            () = report.pump(&said, context) => {}
            () = channel.serve(&said, context) => {}
        }
        report.end(&said, context);
        let starved = tree.gone();
        let mut drained = std::pin::pin!(async { (stdout.await, stderr.await) });
        let in_time = tokio::time::timeout(DRAIN_WITHIN, &mut drained).await;
        // Whoever holds the pipes now is none of ours, and does not keep the attempt.
        drop(hold);
        let (stdout, stderr) = match in_time {
            Ok(drained) => drained,
            Err(_) => drained.await,
        };
        let (stdout, stderr) = (stdout.unwrap_or_default(), stderr.unwrap_or_default());
        ending.written = stdout.written + stderr.written;
        let status = tree.status();
        if context.is_cancelled() && !status.is_some_and(|status| status.success()) {
            return Err(Stopped.into());
        }
        let starved = memory.filter(|_| starved > 0);
        judge(status, &stderr.tail, starved)?;
        if let Some(bytes) = starved {
            tracing::warn!(
                attempt = %dir.display(),
                "a process of an attempt that succeeded was killed since all of it together had reached its memory \
                 limit of {bytes} bytes"
            );
        }
        Ok(said.end())
    }
}

/// Variables with the texts of these files, as they are now: a secret that was changed holds from the next start
/// on.
fn read_secrets(files: &[(String, PathBuf)]) -> Result<Vec<(String, String)>, HandlerError> {
    let read = |(name, path): &(String, PathBuf)| {
        let bad = |why: String| {
            let message = format!("secrets.{name}: {}: {why}", path.display());
            HandlerError::retryable("cannot-start", message)
        };
        let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        let text = text.trim_end_matches(['\r', '\n']);
        match text.len() {
            mask::MIN_SECRET_BYTES..=MAX_SECRET_BYTES => Ok((name.clone(), text.to_owned())),
            n => Err(bad(format!(
                "has {n} bytes; a secret has {} to {MAX_SECRET_BYTES}",
                mask::MIN_SECRET_BYTES
            ))),
        }
    };
    files.iter().map(read).collect()
}

/// Ends the attempt's directory on every way out.
struct Ending {
    endings: Endings,
    dir: PathBuf,
    written: u64,
}

impl Ending {
    fn of(endings: &Endings, dir: PathBuf) -> Ending {
        Ending {
            endings: endings.clone(),
            dir,
            written: 0,
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.endings
            .add(std::mem::take(&mut self.dir), self.written);
    }
}

/// Waits for the main process, or stops it as told; returns when the whole tree is dead.
async fn supervise(context: &Context, tree: &mut Tree) {
    tokio::select! {
        () = tree.leader_exit() => {
            // What it left behind has nobody to answer to.
            kill_until_dead(tree).await;
            return;
        }
        () = context.cancelled() => {}
    }
    tree.terminate();
    let told = boot_ms();
    loop {
        if tree.is_dead() {
            return;
        }
        // The grace may be shortened meanwhile.
        let grace = context.stop_order().map_or(0, |order| order.grace_ms);
        if boot_ms() >= told.saturating_add(grace) {
            kill_until_dead(tree).await;
            return;
        }
        // Its end is the usual news; a killed one is found out by looking.
        let _ = tokio::time::timeout(LOOK_EVERY, tree.supervisor_exit()).await;
    }
}

/// The driver says so aloud when this takes too long; giving up would be a lie.
async fn kill_until_dead(tree: &mut Tree) {
    while !tree.is_dead() {
        tree.kill();
        let _ = tokio::time::timeout(LOOK_EVERY / 4, tree.supervisor_exit()).await;
    }
}

/// A start that failed has a code of its own, apart from every exit code.
fn cannot_start(program: &str, error: &std::io::Error) -> HandlerError {
    let why = match error.kind() {
        std::io::ErrorKind::NotFound => "not found (the program, its interpreter or the directory)",
        std::io::ErrorKind::PermissionDenied => "no permission to execute it",
        _ => "refused by the system",
    };
    let message = format!("{program} can't be started: {why}: {error}");
    HandlerError::retryable("cannot-start", message)
}

/// What an exit status means: 0 is success, anything else has a code that retry rules can name. `starved`: the
/// limit of memory for which the kernel killed any of its processes.
fn judge(status: Option<ExitStatus>, tail: &str, starved: Option<u64>) -> Result<(), HandlerError> {
    let Some(status) = status else {
        let message = "somebody killed its supervisor, and the process with it";
        return Err(HandlerError::retryable("killed-by-signal-9", message));
    };
    let mut about = String::new();
    if let Some(bytes) = starved {
        about = format!("; memory limit reached ({bytes} bytes)");
    }
    if !tail.is_empty() {
        about = format!("{about}; stderr ends with:\n{tail}");
    }
    if let Some(signal) = status.signal() {
        let core = if status.core_dumped() {
            ", core dumped"
        } else {
            ""
        };
        let message = format!("killed by signal {signal}{core}{about}");
        return Err(HandlerError::retryable(
            format!("killed-by-signal-{signal}"),
            message,
        ));
    }
    match status.code() {
        Some(0) => Ok(()),
        code => {
            let code = code.unwrap_or(-1);
            Err(HandlerError::retryable(
                format!("exit-{code}"),
                format!("exit code {code}{about}"),
            ))
        }
    }
}

#[cfg(test)]
mod tests;
