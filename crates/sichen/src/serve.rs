//! Wires one server node: store, duties, edges.
//!
//! # Invariants
//! - This is the only place that knows a concrete store and a server together.
//! - A stop is graceful: duties end their step and are handed over, workers are sent to whoever has
//!   their pools now, no new connection, then the store is closed.
//!
//! # Not here
//! What any of the parts does.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sichen_core::alert::judge::strain;
use sichen_core::alert::{self, Finding, Rule};
use sichen_core::lease::Rhythm;
use sichen_core::port::Store;
use sichen_engine::alerts::{Around, Sender};
use sichen_engine::context::RandomIds;
use sichen_engine::driver::{Engine, Settings, Telling};
use sichen_engine::tracer::Tracing;
use sichen_server::Server;
use sichen_server::alerts::Outlets;
use sichen_server::auth::Tokens;
use sichen_server::grpc::Streams;
use sichen_server::rest::wire::OldTransaction;
use sichen_server::rest::{About, DeadRows, Importer};
use sichen_server::tls::{Clients, Tls};
use sichen_server::traces::Exporter;
use sichen_store::postgres::{self, PostgresBeacon};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::command::import;
use crate::config::alerts::AlertsConfig;
use crate::config::is_dialable;
use crate::config::oidc::OidcConfig;
use crate::config::traces::Traces;
use crate::failure::{Exit, Failure};
use crate::live::Live;
use crate::store_at::StoreAt;

/// A transaction that is open for longer is told of.
const OLD_AFTER: Duration = Duration::from_secs(300);
/// How long a stop waits for the duties to be handed over before it turns to workers and clients.
const HAND_OVER_FIRST: Duration = Duration::from_secs(1);
/// How often old transactions are looked for.
const LOOK_EACH: Duration = Duration::from_secs(60);

/// What a node is.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where its tokens are, and its database unless `store` is another.
    pub data: PathBuf,
    /// Where jobs, runs and history are.
    pub store: StoreAt,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where peers send workers, if that is not where it listens.
    pub advertise: Option<String>,
    /// Whether other machines may reach it without encryption.
    pub beyond_loopback: bool,
    /// Its certificate and key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Whether, and from whom, it wants certificates.
    pub clients: Option<Clients>,
    /// What is told to whom.
    pub alerts: Option<AlertsConfig>,
    /// The provider by which people log in.
    pub oidc: Option<OidcConfig>,
    /// Who collects traces, and which.
    pub traces: Option<Traces>,
    /// Workers' beats and sessions.
    pub worker: Rhythm,
    /// Its own beat and lease.
    pub node: Rhythm,
    /// How a store in PostgreSQL is spoken to.
    pub store_options: postgres::Options,
    /// How long ended runs are kept.
    pub retention: SignedDuration,
}

/// The database to look after, and where to write what is found.
#[derive(Debug)]
struct LookedAfter {
    url: String,
    /// From which age on a transaction is old.
    old_after: Duration,
    old: Arc<Mutex<Vec<OldTransaction>>>,
    dead_rows: DeadRows,
}

/// A node that has opened everything and not started yet.
#[derive(Debug)]
pub struct Opened {
    engine: Arc<Engine>,
    streams: Arc<Streams>,
    server: Server,
    tls: Option<Arc<Tls>>,
    /// Where peers see that this process lives.
    beacon: Option<Arc<PostgresBeacon>>,
    /// The way to who collects traces.
    exporter: Option<Arc<Exporter>>,
    held_up: Option<LookedAfter>,
    listener: TcpListener,
    address: SocketAddr,
    /// What of its configuration changes while it runs.
    live: Option<Live>,
}

/// Opens the data directory (nobody else may have it), the tokens and the port.
pub async fn open(node: &Node) -> Result<Opened, Failure> {
    let data = node.data.clone();
    make_private(&data).map_err(|error| {
        let text = format!(
            "SC7009: the data directory {} can't be made: {error}",
            data.display()
        );
        Failure::new(Exit::Usage, text)
    })?;
    let store = node.store.open(&node.store_options).await?;
    let tokens = Tokens::open(&data).map_err(|e| Failure::new(Exit::Denied, e.to_string()))?;
    let tls = match &node.tls {
        Some((cert, key)) => {
            let tls = Tls::open_to(cert, key, node.clients.clone());
            Some(Arc::new(tls.map_err(|e| Failure::usage(e.to_string()))?))
        }
        None => None,
    };
    let held_up = Arc::<Mutex<Vec<OldTransaction>>>::default();
    let alerts = node.alerts.as_ref().map(|alerts| telling(alerts, &held_up));
    let alerts = alerts.transpose()?;
    let old = alerts
        .as_ref()
        .map(|a| a.settings.policy(Rule::OldTransaction));
    let old_after = old.filter(|policy| policy.on).map(|policy| policy.after);
    let old_after = old_after.and_then(|after| Duration::try_from(after).ok());
    let old_after = old_after.unwrap_or(OLD_AFTER);
    let oidc = node.oidc.as_ref().map(OidcConfig::open).transpose()?;
    let listener = Server::bind(node.listen, node.beyond_loopback || tls.is_some())
        .await
        .map_err(|error| bind_failure(node, &error))?;
    let address = listener.local_addr()?;
    let reached = url(address, tls.is_some());
    let reached = node.advertise.clone().unwrap_or(reached);
    let ttl = Duration::try_from(node.node.ttl).unwrap_or_default();
    let known = can_be_followed(&*store, &reached);
    // Who was killed a moment ago counts until its lease ends.
    if let Err(why) = known.await {
        tracing::warn!(why, "waiting for one lease");
        tokio::time::sleep(ttl).await;
        let again = can_be_followed(&*store, &reached).await;
        again.map_err(|why| Failure::new(Exit::Refused, why))?;
    }
    let mut settings = Settings::new(reached);
    settings.worker = node.worker;
    settings.node = node.node;
    settings.retention = node.retention;
    settings.alerts = alerts;
    let exporter = node.traces.as_ref().map(exporter).transpose()?;
    settings.traces = node
        .traces
        .as_ref()
        .zip(exporter.clone())
        .map(|(traces, sink)| Tracing {
            sink,
            ratio: traces.ratio,
        });
    let streams = Arc::new(Streams::default());
    let beacon = node.store.beacon()?;
    let courier = streams.clone();
    let engine = match &beacon {
        Some(beacon) => Engine::with_beacon(
            store,
            Arc::new(RandomIds),
            courier,
            settings,
            beacon.clone(),
        ),
        None => Engine::new(store, Arc::new(RandomIds), courier, settings),
    };
    let engine = Arc::new(engine);
    if let Some(exporter) = &exporter {
        exporter.counts_with(engine.context.meter.clone());
    }
    let (store, settings) = node.store.about().await;
    let about = About {
        data: std::path::absolute(&node.data).unwrap_or_else(|_| node.data.clone()),
        store: store.to_owned(),
        settings: settings.into_iter().collect(),
        importer: Importer::new(import::of_text),
        old_transactions: held_up.clone(),
        dead_rows: DeadRows::default(),
    };
    let held_up = match &node.store {
        StoreAt::Postgres(url) => Some(LookedAfter {
            url: url.clone(),
            old_after,
            old: held_up,
            dead_rows: about.dead_rows.clone(),
        }),
        StoreAt::Directory(_) => None,
    };
    let server = Server::new(engine.clone(), streams.clone(), Arc::new(tokens));
    let mut server = server.with_about(about);
    if let Some(tls) = &tls {
        server = server.with_tls(tls.clone());
    }
    if let Some(oidc) = oidc {
        server = server.with_oidc(oidc);
    }
    Ok(Opened {
        engine,
        streams,
        server,
        tls,
        beacon,
        exporter,
        held_up,
        listener,
        address,
        live: None,
    })
}

/// The way to who collects traces.
fn exporter(traces: &Traces) -> Result<Arc<Exporter>, Failure> {
    let exporter = Exporter::new(traces.collector.clone());
    let exporter = exporter.map_err(|e| {
        Failure::new(
            Exit::Failed,
            format!("no way to the collector of traces: {e}"),
        )
    })?;
    Ok(Arc::new(exporter))
}

/// Alerts, and the way to those who are told.
fn telling(
    config: &AlertsConfig,
    held_up: &Arc<Mutex<Vec<OldTransaction>>>,
) -> Result<Telling, Failure> {
    let (settings, sender) = told(config)?;
    Ok(Telling {
        settings,
        sender,
        around: Some(Arc::new(HeldUp(held_up.clone()))),
    })
}

/// What is told, and the way to those who are, with their secrets as they are now.
pub fn told(config: &AlertsConfig) -> Result<(Arc<alert::Settings>, Arc<dyn Sender>), Failure> {
    let outlets = Outlets::new(config.receivers()?, config.heartbeat()?);
    let outlets =
        outlets.map_err(|e| Failure::new(Exit::Failed, format!("no way to a receiver: {e}")))?;
    Ok((Arc::new(config.settings()), Arc::new(outlets)))
}

/// What holds the store's database up.
#[derive(Debug)]
struct HeldUp(Arc<Mutex<Vec<OldTransaction>>>);

impl Around for HeldUp {
    fn found(&self, now: Timestamp) -> Vec<Finding> {
        let old = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = old.iter().map(|old| {
            let age = SignedDuration::from_secs(old.age_seconds.unwrap_or_default());
            strain::old_transaction(old.pid, age, &old.what, now)
        });
        found.collect()
    }
}

/// Whether workers can be sent from each live node to each other: where there is one node alone, its
/// address does not matter.
async fn can_be_followed(store: &dyn Store, own: &str) -> Result<(), String> {
    // A store that does not answer now is looked at by the duties, again and again.
    let (nodes, _) = store.list_members().await.unwrap_or_default();
    let mut others = nodes.iter().filter(|node| node.address != own).peekable();
    if others.peek().is_none() {
        return Ok(());
    }
    let unknown = others.find(|node| !is_dialable(&node.address));
    match unknown {
        None if is_dialable(own) => Ok(()),
        None => Err(format!(
            "SC7014: other servers work on this store, and their workers can't be sent to {own}; \
             give --advertise http://HOST:PORT"
        )),
        Some(node) => Err(format!(
            "SC7014: server node {} on this store says that it is reached at {}, where no worker \
             can be sent; start it again with --advertise http://HOST:PORT",
            node.id, node.address
        )),
    }
}

fn url(address: SocketAddr, tls: bool) -> String {
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{address}")
}

fn bind_failure(node: &Node, error: &std::io::Error) -> Failure {
    let text = match error.kind() {
        std::io::ErrorKind::InvalidInput => {
            format!("{error} (--tls-cert and --tls-key, --listen, --allow-plaintext)")
        }
        _ => format!(
            "SC7010: {} can't be listened on: {error}; choose another with --listen",
            node.listen
        ),
    };
    let exit = match error.kind() {
        std::io::ErrorKind::AddrInUse => Exit::Refused,
        _ => Exit::Usage,
    };
    Failure::new(exit, text)
}

/// Makes the directory, for its owner alone.
fn make_private(path: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

impl Opened {
    /// Where it answers.
    pub fn url(&self) -> String {
        url(self.address, self.tls.is_some())
    }

    /// The same, whose configuration is read again when it is asked to.
    pub fn living(mut self, live: Live) -> Self {
        self.live = Some(live);
        self
    }

    /// Serves until `stop`, then ends gracefully.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), Failure> {
        let (live, engine) = (self.live.take(), self.engine.clone());
        let running = self.engine.start();
        tracing::info!(address = %self.address, "the server is ready");
        let watch = async {
            match &self.tls {
                Some(tls) => tls.watch().await,
                None => std::future::pending().await,
            }
        };
        let look = async {
            match &self.held_up {
                Some(looked_after) => look_after(looked_after).await,
                None => std::future::pending().await,
            }
        };
        let shine = async {
            match &self.beacon {
                Some(beacon) => beacon.run().await,
                None => std::future::pending().await,
            }
        };
        let trace = async {
            match &self.exporter {
                Some(exporter) => exporter.run().await,
                None => std::future::pending().await,
            }
        };
        let live = async {
            match live {
                Some(live) => live.run(&engine, self.tls.as_deref()).await,
                None => std::future::pending().await,
            }
        };
        let mut handing = std::pin::pin!(running.stop());
        let mut handed = None;
        // Peers have the duties before workers and clients are sent away.
        let stop = async {
            stop.await;
            handed = tokio::time::timeout(HAND_OVER_FIRST, &mut handing)
                .await
                .ok();
        };
        tokio::select! {
            () = self.server.serve(self.listener, stop) => {}
            () = watch => {}
            () = look => {}
            () = shine => {}
            () = live => {}
            () = trace => {}
        }
        self.streams.close().await;
        let handed = match handed {
            Some(handed) => handed,
            None => handing.await,
        };
        if let Err(error) = handed {
            tracing::warn!(%error, "duties could not be handed over; a peer takes them when the lease ends");
        }
        if let Some(exporter) = &self.exporter {
            exporter.end().await;
        }
        tracing::info!("the server has stopped");
        Ok(())
    }
}

/// Looks how the database is, and for transactions of others that hold it up; each is warned of once.
async fn look_after(looked_after: &LookedAfter) {
    let after = looked_after.old_after;
    loop {
        match postgres::condition(&looked_after.url, after).await {
            Ok(found) => {
                looked_after.dead_rows.set(found.dead_rows);
                let old = found
                    .old_transactions
                    .into_iter()
                    .map(|old| OldTransaction {
                        pid: old.pid,
                        age_seconds: old.age_seconds,
                        what: old.what,
                    });
                let old: Vec<OldTransaction> = old.collect();
                let mut found = looked_after
                    .old
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                let is_known = |new: &OldTransaction| found.iter().any(|o| o.pid == new.pid);
                for new in old.iter().filter(|new| !is_known(new)) {
                    tracing::warn!(
                        pid = new.pid,
                        age_seconds = new.age_seconds,
                        what = new.what,
                        "a transaction that is open for long holds the database up: old rows can't \
                         be removed until it ends"
                    );
                }
                *found = old;
            }
            // The store's own calls say what is wrong with the database.
            Err(error) => tracing::debug!(%error, "old transactions can't be looked for"),
        }
        tokio::time::sleep(LOOK_EACH.min(after.max(Duration::from_secs(1)))).await;
    }
}

/// Resolves at SIGTERM or SIGINT. Registered at once, so that none is missed.
pub fn stop_signal() -> Result<impl Future<Output = ()>, Failure> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    })
}
