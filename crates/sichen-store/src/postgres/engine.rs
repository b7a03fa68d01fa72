//! Connections, and how a use case runs on one: begun, tried, committed, tried anew.
//!
//! # Invariants
//! - A call runs in a task of its own to its end: a dropped future cuts no transaction.
//! - What failed before its commit was sent is run anew as a whole, at most [`TRIES`] times. What
//!   failed at its commit is looked up once by its operation, on another connection, and never
//!   repeated here.
//! - A connection on which a transaction may be open does not go back to the pool.
//!
//! # Not here
//! The use cases themselves; encryption (the connection is plain).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use sichen_core::ids::OpId;
use sichen_core::port::{Answer, Error, Op};
use tokio::runtime::Handle;
use tokio_postgres::NoTls;

use super::clock::Time;
use super::tx::{Common, Read, Result, Tx, fault};
use super::{Options, check, migrate, sql};

/// How often a use case is tried.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

const BEGIN_WRITE: &str = "begin isolation level read committed read write";
const BEGIN_READ: &str = "begin isolation level repeatable read read only";

/// A failure, and whether it may be tried anew.
type Failed = (Error, bool);

pub(super) struct Engine {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("pool", &self.shared.pool.status())
            .finish_non_exhaustive()
    }
}

struct Shared {
    pool: Pool,
    handle: Handle,
    common: Arc<Common>,
    pauses: AtomicU64,
}

impl Engine {
    /// Connects, checks the server, migrates.
    pub async fn open(url: &str, options: Options) -> Result<Self> {
        let pool = pool(url, &options)?;
        let mut client = pool.get().await.map_err(|e| unreachable(&e).0)?;
        check::server(&client, options.unsafe_durability).await?;
        migrate::migrate(&mut client).await?;
        drop(client);
        let common = Arc::new(Common::new(Time::new(options.clock)));
        let shared = Arc::new(Shared {
            pool,
            handle: Handle::current(),
            common,
            pauses: AtomicU64::new(0),
        });
        Ok(Self { shared })
    }

    pub fn now(&self) -> Answer<'_, Timestamp> {
        self.read(|read| {
            let now = read.now;
            Box::pin(async move { Ok(now) })
        })
    }

    /// Runs `f` over one snapshot.
    pub fn read<'a, T, F>(&'a self, f: F) -> Answer<'a, T>
    where
        T: Send + 'static,
        F: for<'t> Fn(&'t Read) -> BoxFuture<'t, Result<T>> + Send + Sync + 'static,
    {
        let shared = Arc::clone(&self.shared);
        self.run(async move { shared.read(f).await })
    }

    /// Runs `f` in one transaction and commits it.
    pub fn write<'a, T, F>(&'a self, op: Option<Op>, f: F) -> Answer<'a, T>
    where
        T: Send + 'static,
        F: for<'t> Fn(&'t mut Tx) -> BoxFuture<'t, Result<T>> + Send + Sync + 'static,
    {
        let shared = Arc::clone(&self.shared);
        self.run(async move { shared.write(op, f).await })
    }

    fn run<'a, T: Send + 'static>(
        &'a self,
        call: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            match self.shared.handle.spawn(call).await {
                Ok(answer) => answer,
                Err(e) if e.is_panic() => Err(Error::Corrupt(
                    "a use case broke off in a panic; nothing of it was written".into(),
                )),
                Err(_) => Err(Error::Unavailable("the runtime is shutting down".into())),
            }
        })
    }
}

impl Shared {
    async fn read<T, F>(&self, f: F) -> Result<T>
    where
        F: for<'t> Fn(&'t Read) -> BoxFuture<'t, Result<T>> + Send + Sync,
    {
        let mut tries = 0;
        loop {
            let failed = match self.try_read(&f).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            self.pause(failed, &mut tries).await?;
        }
    }

    async fn try_read<T, F>(&self, f: &F) -> std::result::Result<T, Failed>
    where
        F: for<'t> Fn(&'t Read) -> BoxFuture<'t, Result<T>> + Send + Sync,
    {
        let mut read = self.read_on(BEGIN_READ).await?;
        let answer = match read.tell_time().await {
            Ok(()) => f(&read).await,
            Err(e) => Err(e),
        };
        let again = read.may_fare_better();
        // A snapshot has nothing to commit; if this fails the connection is closed.
        let _ = read.end("commit").await;
        answer.map_err(|e| (e, again))
    }

    async fn write<T, F>(&self, op: Option<Op>, f: F) -> Result<T>
    where
        F: for<'t> Fn(&'t mut Tx) -> BoxFuture<'t, Result<T>> + Send + Sync,
    {
        let mut tries = 0;
        loop {
            let failed = match self.try_write(op.as_ref(), &f).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            self.pause(failed, &mut tries).await?;
        }
    }

    async fn try_write<T, F>(&self, op: Option<&Op>, f: &F) -> std::result::Result<T, Failed>
    where
        F: for<'t> Fn(&'t mut Tx) -> BoxFuture<'t, Result<T>> + Send + Sync,
    {
        let read = self.read_on(BEGIN_WRITE).await?;
        let mut tx = Tx::new(read, op.cloned());
        let answer = match write_all(&mut tx, f).await {
            Ok(answer) => answer,
            Err(e) => {
                let again = tx.may_fare_better();
                // If this fails the connection is closed, which comes to the same.
                let _ = tx.end("rollback").await;
                return Err((e, again));
            }
        };
        let Err(e) = tx.end("commit").await else {
            return Ok(answer);
        };
        drop(tx);
        let refused = e.code().is_some_and(|code| {
            // Of these two classes it is not known when they struck.
            !code.code().starts_with("57") && !code.code().starts_with("08")
        });
        match op {
            _ if refused => Err(fault(&e)),
            None => Err((Error::Unavailable(e.to_string()), true)),
            Some(op) => match self.was_committed(op.id).await {
                Ok(true) => Ok(answer),
                _ => Err((
                    Error::Unknown {
                        op: op.id,
                        reason: e.to_string(),
                    },
                    false,
                )),
            },
        }
    }

    async fn was_committed(&self, op: OpId) -> std::result::Result<bool, Failed> {
        let read = self.read_on(BEGIN_READ).await?;
        let found = read.exists(sql::FIND_OP, [op.0]).await;
        let _ = read.end("commit").await;
        found.map_err(|e| (e, false))
    }

    async fn read_on(&self, begin: &'static str) -> std::result::Result<Read, Failed> {
        let client: Object = self.pool.get().await.map_err(|e| unreachable(&e))?;
        let read = Read::new(client, Arc::clone(&self.common));
        match read.begin(begin).await {
            Ok(()) => Ok(read),
            Err(e) => Err((e, read.may_fare_better())),
        }
    }

    /// Waits before the next try, longer each time and each caller differently; the error, if there
    /// is to be none.
    async fn pause(&self, (error, again): Failed, tries: &mut u32) -> Result<()> {
        *tries += 1;
        if !again || *tries >= TRIES {
            return Err(error);
        }
        tracing::debug!(%error, tries = *tries, "a transaction is tried anew");
        let longest = FIRST_PAUSE
            .saturating_mul(1 << (2 * *tries).min(16))
            .min(LONGEST_PAUSE);
        // A half to the whole of it, spread by the golden ratio: no two callers in a row are close.
        let n = self.pauses.fetch_add(1, Ordering::Relaxed);
        let spread = u32::try_from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).unwrap_or(0);
        tokio::time::sleep(longest.saturating_mul(256 + spread) / 512).await;
        Ok(())
    }
}

async fn write_all<T, F>(tx: &mut Tx, f: &F) -> Result<T>
where
    F: for<'t> Fn(&'t mut Tx) -> BoxFuture<'t, Result<T>> + Send + Sync,
{
    tx.record().await?;
    let answer = f(tx).await?;
    tx.finish().await?;
    Ok(answer)
}

fn unreachable(e: &PoolError) -> Failed {
    match e {
        PoolError::Backend(e) | PoolError::PostCreateHook(HookError::Backend(e)) => {
            let again = fault(e).1;
            let text = e
                .as_db_error()
                .map_or_else(|| e.to_string(), ToString::to_string);
            (Error::Unavailable(text), again)
        }
        _ => (Error::Unavailable(e.to_string()), false),
    }
}

fn pool(url: &str, options: &Options) -> Result<Pool> {
    let mut config: tokio_postgres::Config = url
        .parse()
        .map_err(|e| Error::Unavailable(format!("the address of the database: {e}")))?;
    config
        .connect_timeout(options.connect_timeout)
        .keepalives_idle(Duration::from_secs(5))
        .keepalives_interval(Duration::from_secs(2))
        .keepalives_retries(3)
        .tcp_user_timeout(Duration::from_secs(10));
    if config.get_application_name().is_none() {
        config.application_name("sichen");
    }
    let recycling_method = RecyclingMethod::Fast;
    let manager = Manager::from_config(config, NoTls, ManagerConfig { recycling_method });
    let settings = Arc::new(settings(options));
    let settle = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
        let settings = Arc::clone(&settings);
        Box::pin(async move {
            client
                .batch_execute(&settings)
                .await
                .map_err(HookError::Backend)
        })
    });
    Pool::builder(manager)
        .max_size(options.connections.max(1) as usize)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(options.statement_timeout))
        .create_timeout(Some(options.connect_timeout))
        .recycle_timeout(Some(options.connect_timeout))
        .post_create(settle)
        .build()
        .map_err(|e| Error::Unavailable(e.to_string()))
}

/// What each connection is told. Plans: a statement is planned once for all values, and never to
/// walk a table that was empty when it was planned.
fn settings(options: &Options) -> String {
    format!(
        "set statement_timeout = {}; set lock_timeout = {}; \
         set idle_in_transaction_session_timeout = {}; \
         set plan_cache_mode = force_generic_plan; set jit = off; set enable_seqscan = off; \
         set enable_hashjoin = off; set enable_mergejoin = off; \
         set max_parallel_workers_per_gather = 0; set timezone = 'UTC'",
        options.statement_timeout.as_millis(),
        options.lock_timeout.as_millis(),
        options.idle_timeout.as_millis(),
    )
}
