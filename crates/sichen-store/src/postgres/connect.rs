//! Connections: made, kept, lent.
//!
//! Straight to a server, what a session is to know is said at its start. A pooler's server connections
//! are everybody's: through one it is said at the start of each transaction and ends with it.
//!
//! # Invariants
//! - A connection on which a transaction may be open does not come back.
//! - Nothing is written outside a transaction that has begun.
//! - Whether there is a pooler is found out by a setting of our own that only a server takes and keeps.
//!
//! # Not here
//! What is sent over them ([`super::link`]).

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    ConfigConnectImpl, Connect, Hook, HookError, Manager, ManagerConfig, Pool, QueueMode,
    RecyclingMethod, Runtime,
};
use futures_util::future::BoxFuture;
use sichen_core::port::{Connections as Usage, Error};
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Options;
use super::address::{Address, Pooler};
use super::fault::{Failed, Result, fault, unreachable, words};
use super::link::Link;
use super::password::Password;
use super::whereabouts::{Unfit, Whereabouts};

const BEGIN_WRITE: &str = "begin isolation level read committed read write";
const BEGIN_READ: &str = "begin isolation level repeatable read read only";

/// What a session may do outside a transaction of ours. A transaction's beginning is sent ahead of what
/// follows: were it refused (cancelled, timed out), each statement behind it would be a transaction of
/// its own, and hold its locks no longer than itself.
const OUTSIDE: (&str, &str) = ("default_transaction_read_only", "on");

/// Connections beside the others, for beats.
const UNBEGUN: u32 = 2;

/// Set at the start of a session with the server itself, and nowhere else.
pub(super) const DIRECT: &str = "sichen.direct";

/// The connections of one store.
pub(super) struct Connections {
    pool: Pool,
    /// Sessions in which no transaction is ever begun, so that a statement which is a whole use case may
    /// write by itself; none behind a pooler, which would hand them to others.
    unbegun: Option<Pool>,
    pub pooled: bool,
    pub whereabouts: Arc<Whereabouts>,
    pub begin_write: String,
    pub begin_read: String,
}

impl Connections {
    /// Finds out what it speaks to.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it can't be reached.
    pub async fn open(address: Address, options: &Options) -> Result<Self> {
        if address.is_exposed() {
            tracing::warn!(
                "the connection to the database may be plain, and is to whoever answers: set \
                 sslmode=verify-full and sslrootcert"
            );
        }
        let mut settings = settings(options);
        let pooled = match address.pooler {
            Pooler::Transaction => true,
            Pooler::None => false,
            Pooler::Unknown => is_pooled(&address, options).await?,
        };
        let whereabouts = Arc::new(Whereabouts::default());
        let pool = |address: &Address, connections: u32| {
            pool(address, options, connections, Some(&whereabouts))
        };
        let mut local = String::new();
        let (pool, unbegun) = if pooled {
            tracing::info!("the database is reached through a pooler");
            for (name, value) in settings {
                local = format!("{local}; set local {name} = {value}");
            }
            (pool(&address, options.connections)?, None)
        } else {
            let unbegun = pool(&with_settings(&address, &settings), UNBEGUN)?;
            settings.push((OUTSIDE.0, OUTSIDE.1.to_owned()));
            let address = with_settings(&address, &settings);
            (pool(&address, options.connections)?, Some(unbegun))
        };
        Ok(Self {
            pool,
            unbegun,
            pooled,
            whereabouts,
            begin_write: format!("{BEGIN_WRITE}{local}"),
            begin_read: format!("{BEGIN_READ}{local}"),
        })
    }

    /// A free connection.
    pub async fn get(&self) -> std::result::Result<Link, Failed> {
        let client = self.pool.get().await.map_err(|e| unreachable(&e))?;
        Ok(Link::new(client, self.pooled))
    }

    /// How they are used, those for transactions and the others together.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for pool in [Some(&self.pool), self.unbegun.as_ref()]
            .into_iter()
            .flatten()
        {
            let status = pool.status();
            usage.busy += status.size.saturating_sub(status.available) as u64;
            usage.idle += status.available as u64;
            usage.waiting += status.waiting as u64;
        }
        usage
    }

    /// A free connection for a statement that is a whole use case; `None` if it needs a transaction.
    pub async fn get_unbegun(&self) -> std::result::Result<Option<Link>, Failed> {
        let Some(unbegun) = &self.unbegun else {
            return Ok(None);
        };
        let client = unbegun.get().await.map_err(|e| unreachable(&e))?;
        Ok(Some(Link::new(client, false)))
    }
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections")
            .field("pool", &self.pool.status())
            .field("pooled", &self.pooled)
            .finish_non_exhaustive()
    }
}

/// What a session or a transaction is told. Plans: a statement is planned once for all values, and
/// never to walk a table that was empty when it was planned.
fn settings(options: &Options) -> Vec<(&'static str, String)> {
    let millis = |d: Duration| d.as_millis().to_string();
    let mut settings = vec![
        ("statement_timeout", millis(options.statement_timeout)),
        ("lock_timeout", millis(options.lock_timeout)),
        (
            "idle_in_transaction_session_timeout",
            millis(options.idle_timeout),
        ),
    ];
    for (name, value) in [
        ("plan_cache_mode", "force_generic_plan"),
        ("jit", "off"),
        ("enable_seqscan", "off"),
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
        ("max_parallel_workers_per_gather", "0"),
    ] {
        settings.push((name, value.to_owned()));
    }
    settings
}

/// The address with `settings` said at the start of each session.
pub(super) fn with_settings(address: &Address, settings: &[(&str, String)]) -> Address {
    let mut address = address.clone();
    let given = address.config.get_options().unwrap_or_default().to_owned();
    let ours = settings.iter().map(|(n, v)| format!("-c {n}={v}"));
    let all: Vec<String> = ours.chain([given]).collect();
    address.config.options(all.join(" "));
    address
}

/// Whether a pooler answers at the address.
async fn is_pooled(address: &Address, options: &Options) -> Result<bool> {
    let pool = pool(
        &with_settings(address, &[(DIRECT, "on".to_owned())]),
        options,
        1,
        None,
    )?;
    let client = match pool.get().await {
        Ok(client) => client,
        Err(deadpool_postgres::PoolError::Backend(e)) if refuses_options(&e) => return Ok(true),
        Err(e) => return Err(unreachable(&e).0),
    };
    let kept = format!("select current_setting('{DIRECT}', true) is not distinct from 'on'");
    let row = client.query_typed_one(&kept, &[]).await;
    let kept: bool = row.map_err(|e| fault(&e).0)?.get(0);
    Ok(!kept)
}

/// Whether somebody between refused what every server takes.
pub(super) fn refuses_options(e: &tokio_postgres::Error) -> bool {
    e.code() == Some(&SqlState::PROTOCOL_VIOLATION) && words(e).contains("startup parameter")
}

/// A connection of its own with `settings`; it ends with its client.
///
/// # Errors
/// [`Error::Unavailable`] if the address is wrong or nobody answers there.
pub(super) async fn single(mut address: Address, settings: &[(&str, &str)]) -> Result<Client> {
    // A pooler takes a name, and no other setting; where there is none, none is said.
    let (names, settings): (Vec<_>, Vec<_>) = settings
        .iter()
        .partition(|(name, _)| *name == "application_name");
    for (_, name) in names {
        address.config.application_name(name);
    }
    if !settings.is_empty() {
        let settings: Vec<_> = settings
            .iter()
            .map(|(n, v)| (*n, (*v).to_owned()))
            .collect();
        address = with_settings(&address, &settings);
    }
    address.config.connect_timeout(Duration::from_secs(5));
    let dial = Dial {
        password: address.password.clone(),
        plain: ConfigConnectImpl {
            tls: address.tls.connector()?,
        },
    };
    let connected = dial.connect(&address.config).await;
    // The task ends with the client.
    let (client, _task) = connected.map_err(|e| Error::Unavailable(words(&e)))?;
    Ok(client)
}

/// Connections at most; where each new one ends is told to `whereabouts`.
fn pool(
    address: &Address,
    options: &Options,
    connections: u32,
    whereabouts: Option<&Arc<Whereabouts>>,
) -> Result<Pool> {
    let mut config = address.config.clone();
    config
        .connect_timeout(options.connect_timeout)
        .keepalives_idle(Duration::from_secs(5))
        .keepalives_interval(Duration::from_secs(2))
        .keepalives_retries(3)
        .tcp_user_timeout(Duration::from_secs(10));
    if config.get_application_name().is_none() {
        config.application_name("sichen");
    }
    // Said at once if a file is missing, not at each connection.
    address.password.fill(&mut config.clone())?;
    let dial = Dial {
        password: address.password.clone(),
        plain: ConfigConnectImpl {
            tls: address.tls.connector()?,
        },
    };
    let recycling_method = RecyclingMethod::Fast;
    let manager = Manager::from_connect(config, dial, ManagerConfig { recycling_method });
    let mut builder = Pool::builder(manager);
    if let Some(whereabouts) = whereabouts {
        let whereabouts = Arc::clone(whereabouts);
        builder = builder.post_create(Hook::async_fn(move |client, _| {
            let whereabouts = Arc::clone(&whereabouts);
            Box::pin(async move {
                let asked = whereabouts.ask(client).await;
                asked.map_err(|unfit| match unfit {
                    Unfit::Broken(e) => HookError::Backend(e),
                    Unfit::Standby => HookError::message("it is a standby, which takes no writes"),
                })
            })
        }));
    }
    builder
        // The one that was used last: what is seldom asked finds its statements prepared and planned.
        .queue_mode(QueueMode::Lifo)
        .max_size(connections.max(1) as usize)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(options.statement_timeout))
        .create_timeout(Some(options.connect_timeout))
        .recycle_timeout(Some(options.connect_timeout))
        .build()
        .map_err(|e| Error::Unavailable(e.to_string()))
}

/// Connects with the password as it is now.
struct Dial {
    password: Password,
    plain: ConfigConnectImpl<MakeRustlsConnect>,
}

type Connected = std::result::Result<(Client, JoinHandle<()>), tokio_postgres::Error>;

impl Connect for Dial {
    fn connect(&self, config: &Config) -> BoxFuture<'_, Connected> {
        let mut config = config.clone();
        if let Err(error) = self.password.fill(&mut config) {
            // The server will say that it wants one.
            tracing::error!(%error, "connecting without a password");
        }
        Box::pin(async move { self.plain.connect(&config).await })
    }
}
