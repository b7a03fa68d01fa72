//! A worker process: give it handlers, run it.
//!
//! ```ignore
//! Worker::builder()
//!     .server("http://127.0.0.1:7070")
//!     .data_dir("/var/lib/my-worker")
//!     .handler("settle", |ctx: Context, params: Settle| async move {
//!         for batch in batches(ctx.int_range(), &params) {
//!             settle(&batch, ctx.token()).await?;
//!             ctx.checkpoint(batch.last_id.to_string(), Counters::done(batch.done)).await?;
//!         }
//!         Ok(())
//!     })
//!     .run()
//!     .await?;
//! ```
//!
//! # Invariants
//! - The session, its beats and its deadlines live on a thread of their own: a handler that blocks
//!   its runtime delays neither.
//! - Panics in handlers become failed attempts.
//!
//! # Not here
//! What the session does when (`session`).

mod driver;
mod outputs;
mod stream;

use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::Endpoint;

use crate::context::{Context, EarlierAttempt};
use crate::data_source::DataSource;
use crate::datadir::{self, DataDir};
use crate::edge;
use crate::error::HandlerError;
use crate::handler::{AsyncFn, BlockingFn, Handler, Probed, Registry};
use crate::journal::{self, Journal};
use crate::output::AttemptOutput;
use crate::session::{DEFAULT_GRACE_MS, Identity, Lease, Session};

/// Default of [`Builder::drain_grace_ms`].
pub const DEFAULT_DRAIN_GRACE_MS: u64 = 30_000;

/// Why a worker did not start, or ended other than by being drained.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The builder was given something unusable.
    #[error("{0}")]
    Config(String),
    /// The data directory can't be used.
    #[error(transparent)]
    DataDir(#[from] datadir::Error),
    /// The journal can't be opened, or its state on disk is not known any more.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// The journal's file did not reach the disk; started again, the worker reads what did.
    #[error("the journal's file failed; the worker stops so that it is read anew")]
    JournalFailed,
    /// The machine refuses something basic.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A newer process of the same worker has registered.
    #[error(
        "another process of this worker has registered; is one data directory a copy of another?"
    )]
    Superseded,
    /// The server takes no such worker.
    #[error("the server refuses this worker ({code}): {message}")]
    Refused {
        /// `bad-join-token`, `outside-join-token`, `bad-hello`, `protocol-version`,
        /// `too-many-pools`.
        code: String,
        /// The server's words.
        message: String,
    },
    /// An attempt could not be stopped although its session is over; the end of the process stops
    /// it. A supervisor starts the worker again.
    #[error("the attempt of {0} does not stop although its session is over")]
    Stuck(Lease),
    /// The session thread died: a bug.
    #[error("the session thread died")]
    Died,
}

/// A drained worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Results that no server has acknowledged; they wait in the journal for the next start.
    pub unreported: usize,
}

/// Builds a [`Worker`].
#[derive(Debug)]
pub struct Builder {
    servers: Vec<String>,
    trust: stream::Trust,
    join_token: Option<String>,
    name: Option<String>,
    pool: String,
    slots: u32,
    labels: BTreeMap<String, String>,
    resources: BTreeMap<String, u64>,
    data_dir: Option<PathBuf>,
    opened: Option<DataDir>,
    drain_grace_ms: u64,
    grace_ms: u64,
    on_signals: bool,
    build: String,
    old_trees_dead: bool,
    registry: Registry,
}

/// A worker that is ready to run.
#[derive(Debug)]
pub struct Worker {
    driver: driver::Driver,
    control: mpsc::Sender<driver::Control>,
}

/// Drains or stops a running worker from elsewhere. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    control: mpsc::Sender<driver::Control>,
}

impl Handle {
    /// Takes no more work; what runs is finished or released within `grace_ms`, then
    /// [`Worker::run`] returns. A second time can only shorten the grace.
    pub async fn drain(&self, grace_ms: u64) {
        // A worker that is gone needs no draining.
        let _ = self.control.send(driver::Control::Drain { grace_ms }).await;
    }
}

impl Worker {
    /// Starts building a worker.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            servers: Vec::new(),
            trust: stream::Trust::default(),
            join_token: None,
            name: None,
            pool: "default".to_owned(),
            slots: 1,
            labels: BTreeMap::new(),
            resources: BTreeMap::new(),
            data_dir: None,
            opened: None,
            drain_grace_ms: DEFAULT_DRAIN_GRACE_MS,
            grace_ms: DEFAULT_GRACE_MS,
            on_signals: true,
            build: concat!("sichen-sdk ", env!("CARGO_PKG_VERSION")).to_owned(),
            old_trees_dead: true,
            registry: Registry::default(),
        }
    }

    /// A handle to drain it.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle {
            control: self.control.clone(),
        }
    }

    /// Runs until it is drained (SIGTERM or SIGINT, unless switched off, or [`Handle::drain`]).
    ///
    /// Handlers run on the runtime of the caller. If the future is dropped, all work is stopped at
    /// once; the server sees the session run out.
    ///
    /// # Errors
    /// Whatever ended it other than draining.
    pub async fn run(self) -> Result<Drained, Error> {
        let handlers = tokio::runtime::Handle::current();
        let dropped = CancellationToken::new();
        let guard: DropGuard = dropped.clone().drop_guard();
        let (done, ended) = oneshot::channel();
        let Worker { driver, control } = self;
        std::thread::Builder::new()
            .name("sichen-session".into())
            .spawn(move || {
                // Kept, so that the driver's end of the channel stays open.
                let _control = control;
                let result = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(Error::from)
                    .and_then(|runtime| {
                        let result = runtime.block_on(driver.run(handlers, dropped));
                        runtime.shutdown_background();
                        result
                    });
                let _ = done.send(result);
            })?;
        let result = ended.await.unwrap_or(Err(Error::Died));
        drop(guard);
        result
    }
}

impl Builder {
    /// A server to dial, `http://host:port` or `https://host:port`. Several calls name several
    /// servers; any will do.
    #[must_use]
    pub fn server(mut self, address: impl Into<String>) -> Builder {
        self.servers.push(address.into());
        self
    }

    /// For `https`: the certificates, PEM, that may vouch for a server, and no others. Default:
    /// those that this machine trusts.
    #[must_use]
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Builder {
        self.trust.ca_pem = Some(pem.into());
        self
    }

    /// For `https`: files, PEM, with the worker's own certificate (and those that vouch for it) and its
    /// key, for servers that ask for one. They are read whenever the worker dials, so renewed ones are
    /// taken up.
    #[must_use]
    pub fn certificate(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Builder {
        self.trust.own = Some((cert.into(), key.into()));
        self
    }

    /// What proves to the servers that this worker may join.
    #[must_use]
    pub fn join_token(mut self, token: impl Into<String>) -> Builder {
        self.join_token = Some(token.into());
        self
    }

    /// A name for people. Default: the host's.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into());
        self
    }

    /// The pool that it serves. Default: `default`.
    #[must_use]
    pub fn pool(mut self, pool: impl Into<String>) -> Builder {
        self.pool = pool.into();
        self
    }

    /// Attempts that it runs at once. Default: 1.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Builder {
        self.slots = slots;
        self
    }

    /// A label for placement.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Builder {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// What attempts may take together of a resource of this machine, in thousandths: 2 processors are
    /// `("cpu", 2_000)`. Jobs that ask for a resource run on none that does not name it.
    #[must_use]
    pub fn resource(mut self, name: impl Into<String>, thousandths: u64) -> Builder {
        self.resources.insert(name.into(), thousandths);
        self
    }

    /// Where its identity and journal live: a local directory that no other worker uses.
    #[must_use]
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Builder {
        self.data_dir = Some(path.into());
        self
    }

    /// [`Builder::data_dir`], opened by the caller: who may have left processes behind sweeps them
    /// away while holding the lock, before the worker registers.
    #[must_use]
    pub fn opened_data_dir(mut self, dir: DataDir) -> Builder {
        self.opened = Some(dir);
        self
    }

    /// How long running attempts may go on after SIGTERM, in milliseconds. Default: 30,000.
    #[must_use]
    pub fn drain_grace_ms(mut self, ms: u64) -> Builder {
        self.drain_grace_ms = ms;
        self
    }

    /// From asking an attempt to stop to killing it where its job says nothing, in milliseconds; at
    /// most 10,000, by which servers reckon. Default: 10,000.
    #[must_use]
    pub fn grace_ms(mut self, ms: u64) -> Builder {
        self.grace_ms = ms.min(DEFAULT_GRACE_MS);
        self
    }

    /// Whether SIGTERM and SIGINT drain it (a second one stops it at once). Default: yes.
    #[must_use]
    pub fn on_signals(mut self, yes: bool) -> Builder {
        self.on_signals = yes;
        self
    }

    /// Whether nothing of what an earlier process of this worker ran can still live. Default: yes, which
    /// the lock of the data directory proves for handlers that run in the process itself. Say no if
    /// they start other processes that outlive it and nobody has killed (see
    /// [`Builder::opened_data_dir`]): their shards then go to another only when the old session has
    /// run out, not at the restart.
    #[must_use]
    pub fn old_trees_dead(mut self, yes: bool) -> Builder {
        self.old_trees_dead = yes;
        self
    }

    /// Name and version of the program, for people.
    #[must_use]
    pub fn build_info(mut self, build: impl Into<String>) -> Builder {
        self.build = build.into();
        self
    }

    /// An async handler. `P` is read from the run's parameters (`()` for none), what it returns is
    /// the shard's result (`()` for none).
    ///
    /// When told to stop it has its grace to return; then it is dropped at its next `await`.
    #[must_use]
    pub fn handler<F, P, Fut, R>(self, name: impl Into<String>, work: F) -> Builder
    where
        F: Fn(Context, P) -> Fut + Send + Sync + 'static,
        P: DeserializeOwned + 'static,
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
        R: Serialize + 'static,
    {
        self.custom_handler(name, AsyncFn(work, PhantomData))
    }

    /// A handler that blocks its thread (a database without an async driver, a long computation).
    /// It can't be killed: look at [`Context::check`] often.
    #[must_use]
    pub fn blocking_handler<F, P, R>(self, name: impl Into<String>, work: F) -> Builder
    where
        F: Fn(Context, P) -> Result<R, HandlerError> + Send + Sync + 'static,
        P: DeserializeOwned + Send + 'static,
        R: Serialize + 'static,
    {
        self.custom_handler(name, BlockingFn(Arc::new(work), PhantomData))
    }

    /// A handler of a type of its own.
    #[must_use]
    pub fn custom_handler(mut self, name: impl Into<String>, handler: impl Handler) -> Builder {
        self.registry
            .handlers
            .insert(name.into(), Arc::new(handler));
        self
    }

    /// Asked at the start of an attempt of `handler` about each earlier attempt of the shard whose
    /// outcome nobody knows (its worker was lost, or it timed out), newest first: did its effect
    /// take place?
    ///
    /// For effects that no transaction covers: a payment order sent, a file handed over. The probe
    /// asks the other side, for example by the idempotency key `fence_key` that the handler sent
    /// along. See [`Probed`] for what follows from its answer.
    #[must_use]
    pub fn probe<F, Fut>(mut self, handler: impl Into<String>, ask: F) -> Builder
    where
        F: Fn(Context, EarlierAttempt) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Probed, HandlerError>> + Send + 'static,
    {
        self.registry.probes.insert(handler.into(), Arc::new(ask));
        self
    }

    /// A named place that plan steps may read bounds from. The worker is labelled
    /// `data-source/<name>`, so that plan steps find it.
    #[must_use]
    pub fn data_source(mut self, name: impl Into<String>, source: DataSource) -> Builder {
        let name = name.into();
        self.labels
            .insert(format!("data-source/{name}"), source.kind().to_owned());
        self.registry.data_sources.insert(name, source);
        self
    }

    /// Whether servers are named, and can be dialled as they are told.
    ///
    /// # Errors
    /// An address, or certificates, that can't be used.
    pub fn check_servers(&self) -> Result<(), Error> {
        self.endpoints().map(drop)
    }

    fn endpoints(&self) -> Result<Vec<Endpoint>, Error> {
        if self.servers.is_empty() {
            let text = "a worker needs at least one server address".to_owned();
            return Err(Error::Config(text));
        }
        let addresses = self.servers.iter();
        addresses
            .map(|address| stream::endpoint(address, &self.trust))
            .collect()
    }

    /// Opens the data directory and reads the journal.
    ///
    /// # Errors
    /// A builder without server, data directory, slot or handler; a directory in use or unreadable.
    pub fn build(self) -> Result<Worker, Error> {
        let missing = |what: &str| Error::Config(format!("a worker needs {what}"));
        if self.slots == 0 {
            return Err(missing("at least one slot"));
        }
        if self.registry.handlers.is_empty() && self.registry.data_sources.is_empty() {
            return Err(missing("at least one handler or data source"));
        }
        if let Some(name) = self
            .registry
            .probes
            .keys()
            .find(|name| !self.registry.handlers.contains_key(*name))
        {
            return Err(Error::Config(format!(
                "a probe is given for {name:?}, which is no handler"
            )));
        }
        let servers = self.endpoints()?;
        let data_dir = match (self.opened, self.data_dir) {
            (Some(opened), _) => opened,
            (None, Some(path)) => DataDir::open(path)?,
            (None, None) => return Err(missing("a data directory")),
        };
        let journal = Journal::open(data_dir.path())?;
        let identity = Identity {
            name: self.name.unwrap_or_else(host_name),
            uid: data_dir.uid().to_owned(),
            boot_id: edge::boot_id()?,
            incarnation: edge::new_id(),
            start: data_dir.start(),
            pool: self.pool,
            slots: self.slots,
            handlers: self.registry.handlers.keys().cloned().collect(),
            labels: self.labels,
            resources: self.resources,
            build: self.build,
            old_trees_dead: self.old_trees_dead,
        };
        let session = Session::new(identity, journal.recover()?).with_grace(self.grace_ms);
        let output = AttemptOutput::of(data_dir.path());
        let (control, orders) = mpsc::channel(8);
        let driver = driver::Driver {
            session,
            journal,
            data_dir,
            registry: self.registry,
            dialler: stream::Dialler::new(servers, self.trust, self.join_token, output)?,
            orders,
            drain_grace_ms: self.drain_grace_ms,
            on_signals: self.on_signals,
        };
        Ok(Worker { driver, control })
    }

    /// [`Builder::build`], then [`Worker::run`].
    ///
    /// # Errors
    /// Those of the two.
    pub async fn run(self) -> Result<Drained, Error> {
        self.build()?.run().await
    }
}

/// The host's name as far as it is a name for Sichen: lower-case letters, digits, `-`, `.`, `_`.
fn host_name() -> String {
    name_from(&std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default())
}

fn name_from(host: &str) -> String {
    let fitting = |c: char| {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_alphanumeric() || "-._".contains(c) {
            c
        } else {
            '-'
        }
    };
    let name: String = host.trim().chars().take(63).map(fitting).collect();
    match name.trim_matches(|c: char| !c.is_ascii_alphanumeric()) {
        "" => "worker".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
