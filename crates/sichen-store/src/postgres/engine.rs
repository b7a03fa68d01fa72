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
//! The use cases themselves; making connections ([`super::connect`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sichen_core::ids::OpId;
use sichen_core::port::{Answer, Call, Error, Op, Usage};
use sichen_core::timekeeping::Told;
use tokio::runtime::Handle;

use super::address::Address;
use super::clock::Time;
use super::connect::Connections;
use super::fault::{Failed, Result, fault, words};
use super::kept::Turn;
use super::tx::{Common, Read, Tx};
use super::whereabouts::Place;
use super::{Options, check, migrate, restored, sql};
use crate::usage::Counted;

/// How often a use case is tried.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

pub(super) struct Engine {
    shared: Arc<Shared>,
    counted: Counted,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("connections", &self.shared.connections)
            .finish_non_exhaustive()
    }
}

struct Shared {
    connections: Connections,
    handle: Handle,
    common: Arc<Common>,
    call_timeout: Duration,
    pauses: AtomicU64,
    /// Where the database is is settled by one at a time.
    settling: tokio::sync::Mutex<()>,
}

impl Engine {
    /// Connects, checks the server, migrates.
    pub async fn open(url: &str, options: Options) -> Result<Self> {
        let connections = Connections::open(Address::parse(url, env)?, &options).await?;
        let link = connections.get().await.map_err(|(e, _)| e)?;
        check::server(&link, options.unsafe_durability).await?;
        migrate::migrate(link).await?;
        Ok(Self::over(connections, options))
    }

    /// Connects to read: writes nothing, a standby will do.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it can't be reached, or has another version's schema or none.
    pub async fn look(url: &str, options: Options) -> Result<Self> {
        let connections = Connections::open(Address::parse(url, env)?, &options).await?;
        let link = connections.get().await.map_err(|(e, _)| e)?;
        migrate::check(&link).await?;
        drop(link);
        Ok(Self::over(connections, options))
    }

    fn over(connections: Connections, options: Options) -> Self {
        let common = Arc::new(Common::new(Time::new(options.clock)));
        let shared = Arc::new(Shared {
            connections,
            handle: Handle::current(),
            common,
            call_timeout: options.call_timeout,
            pauses: AtomicU64::new(0),
            settling: tokio::sync::Mutex::default(),
        });
        let counted = Counted::default();
        Self { shared, counted }
    }

    /// Takes note of where the database is, and of a copy or another timeline ([`restored::settle`]); from then on
    /// each new connection is asked whether it ends there.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it can't be reached or written.
    pub async fn settle(&self) -> Result<()> {
        self.shared.again(|| self.shared.settle(true)).await
    }

    pub fn clock(&self) -> Answer<'_, Told> {
        let shared = Arc::clone(&self.shared);
        self.run(Call::Clock, async move {
            shared.again(|| shared.try_clock()).await
        })
    }

    /// Runs `f`, which only reads, and needs no common snapshot and no clock but the one its
    /// statements read themselves.
    pub fn glance<'a, T, F>(&'a self, f: F) -> Answer<'a, T>
    where
        T: Send + 'static,
        F: for<'t> Fn(&'t Read) -> BoxFuture<'t, Result<T>> + Send + Sync + 'static,
    {
        let shared = Arc::clone(&self.shared);
        self.run(Call::Read, async move {
            shared.again(|| shared.try_glance(&f)).await
        })
    }

    /// Runs `f` over one snapshot.
    pub fn read<'a, T, F>(&'a self, f: F) -> Answer<'a, T>
    where
        T: Send + 'static,
        F: for<'t> Fn(&'t Read) -> BoxFuture<'t, Result<T>> + Send + Sync + 'static,
    {
        let shared = Arc::clone(&self.shared);
        self.run(Call::Read, async move { shared.read(f).await })
    }

    /// Runs `f` in one transaction and commits it.
    pub fn write<'a, T, F>(&'a self, op: Option<Op>, f: F) -> Answer<'a, T>
    where
        T: Send + 'static,
        F: for<'t> Fn(&'t mut Tx) -> BoxFuture<'t, Result<T>> + Send + Sync + 'static,
    {
        let shared = Arc::clone(&self.shared);
        self.run(Call::Write, async move { shared.write(op, f).await })
    }

    /// Runs `f`, whose first statement is the whole of what it writes, and which may be said again: it is
    /// a transaction by itself, and an operation is not recorded.
    pub fn alone<'a, T, F>(&'a self, f: F) -> Answer<'a, T>
    where
        T: Send + 'static,
        F: for<'t> Fn(&'t Read) -> BoxFuture<'t, Result<T>> + Send + Sync + 'static,
    {
        let shared = Arc::clone(&self.shared);
        self.run(Call::Write, async move {
            shared.again(|| shared.try_alone(&f)).await
        })
    }

    /// What it was asked, and the connections by which it asks the database.
    pub fn usage(&self) -> Usage {
        Usage {
            calls: Some(self.counted.calls()),
            connections: Some(self.shared.connections.usage()),
        }
    }

    fn run<'a, T: Send + 'static>(
        &'a self,
        kind: Call,
        call: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Answer<'a, T> {
        let answer = Box::pin(async move {
            match self.shared.handle.spawn(call).await {
                Ok(answer) => answer,
                Err(e) if e.is_panic() => Err(Error::Corrupt(
                    "a use case broke off in a panic; nothing of it was written".into(),
                )),
                Err(_) => Err(Error::Unavailable("the runtime is shutting down".into())),
            }
        });
        self.counted.count(kind, answer)
    }
}

/// `f`, which asks for less, where there is a transaction.
fn in_transaction<T, F>(
    f: &F,
) -> impl for<'t> Fn(&'t mut Tx) -> BoxFuture<'t, Result<T>> + Send + Sync
where
    F: for<'t> Fn(&'t Read) -> BoxFuture<'t, Result<T>> + Send + Sync,
{
    move |tx| f(tx)
}

/// The clock, as it was read when the snapshot was taken.
fn told(read: &Read) -> BoxFuture<'_, Result<Told>> {
    Box::pin(async move { Ok(read.told()) })
}

/// The clock, and where the connection ends.
fn told_there(read: &Read) -> BoxFuture<'_, Result<(Told, Option<Place>)>> {
    Box::pin(async move { Ok((read.told(), restored::places(read).await?.0)) })
}

impl Shared {
    /// Tries until it fares well, or would fare no better.
    async fn again<T, Tried>(&self, tried: impl Fn() -> Tried) -> Result<T>
    where
        Tried: Future<Output = std::result::Result<T, Failed>>,
    {
        let mut tries = 0;
        loop {
            match tried().await {
                Ok(answer) => return Ok(answer),
                Err(failed) => self.pause(failed, &mut tries).await?,
            }
        }
    }

    async fn read<T, F>(&self, f: F) -> Result<T>
    where
        F: for<'t> Fn(&'t Read) -> BoxFuture<'t, Result<T>> + Send + Sync,
    {
        self.again(|| self.try_read(&f)).await
    }

    async fn try_read<T, F>(&self, f: &F) -> std::result::Result<T, Failed>
    where
        F: for<'t> Fn(&'t Read) -> BoxFuture<'t, Result<T>> + Send + Sync,
    {
        let mut read = self.read_on(&self.connections.begin_read).await?;
        let answer = self.in_time(async {
            read.tell_time().await?;
            let answer = f(&read).await?;
            // That the snapshot was one.
            read.land().await?;
            Ok(answer)
        });
        let answer = answer.await?;
        let again = read.may_fare_better();
        // After an error the connection is closed instead.
        if answer.is_ok() {
            read.leave().await;
        }
        answer.map_err(|e| (e, again))
    }

    async fn try_clock(&self) -> std::result::Result<Told, Failed> {
        if self.connections.pooled {
            let whereabouts = &self.connections.whereabouts;
            if !whereabouts.are_noted() {
                return self.try_read(&told).await;
            }
            // Its connections may be led elsewhere at any time.
            let (told, place) = self.try_read(&told_there).await?;
            if let Some(place) = place {
                whereabouts.found(place);
            }
            return Ok(told);
        }
        let mut read = self.connected().await?;
        match self.in_time(read.tell_time()).await? {
            Ok(()) => Ok(read.told()),
            Err(e) => Err((e, read.may_fare_better())),
        }
    }

    async fn try_glance<T, F>(&self, f: &F) -> std::result::Result<T, Failed>
    where
        F: for<'t> Fn(&'t Read) -> BoxFuture<'t, Result<T>> + Send + Sync,
    {
        if self.connections.pooled {
            // What a session is to know is said at the start of each transaction.
            let read = self.read_on(&self.connections.begin_read).await?;
            let answer = self.in_time(f(&read)).await?;
            let again = read.may_fare_better();
            if answer.is_ok() {
                read.leave().await;
            }
            return answer.map_err(|e| (e, again));
        }
        let read = self.connected().await?;
        let answer = self.in_time(f(&read)).await?;
        answer.map_err(|e| (e, read.may_fare_better()))
    }

    async fn try_alone<T, F>(&self, f: &F) -> std::result::Result<T, Failed>
    where
        F: for<'t> Fn(&'t Read) -> BoxFuture<'t, Result<T>> + Send + Sync,
    {
        let Some(mut link) = self.connections.get_unbegun().await? else {
            return self.try_write(None, &in_transaction(f)).await;
        };
        if self.connections.whereabouts.have_moved() {
            drop(link);
            self.settle(false).await?;
            let again = self.connections.get_unbegun().await?;
            link = again.expect("there was such a connection before");
        }
        let case = sichen_crash::use_case(f);
        sichen_crash::at(sichen_crash::Place::BeforeCommit, case);
        let read = Read::new(link, Arc::clone(&self.common));
        let answer = self.in_time(f(&read)).await?;
        sichen_crash::at(sichen_crash::Place::AfterCommit, case);
        answer.map_err(|e| (e, read.may_fare_better()))
    }

    async fn write<T, F>(&self, op: Option<Op>, f: F) -> Result<T>
    where
        F: for<'t> Fn(&'t mut Tx) -> BoxFuture<'t, Result<T>> + Send + Sync,
    {
        self.again(|| self.try_write(op.as_ref(), &f)).await
    }

    async fn try_write<T, F>(&self, op: Option<&Op>, f: &F) -> std::result::Result<T, Failed>
    where
        F: for<'t> Fn(&'t mut Tx) -> BoxFuture<'t, Result<T>> + Send + Sync,
    {
        let read = self.read_on(&self.connections.begin_write).await?;
        let mut tx = Tx::new(read, op.cloned());
        let answer = match self.in_time(write_all(&mut tx, f)).await? {
            Ok(answer) => answer,
            Err(e) => {
                let again = tx.may_fare_better();
                // If this fails the connection is closed, which comes to the same.
                let _ = self.in_time(tx.end("rollback")).await;
                return Err((e, again));
            }
        };
        let case = sichen_crash::use_case(f);
        sichen_crash::at(sichen_crash::Place::BeforeCommit, case);
        let reason = match self.in_time(tx.end("commit")).await {
            Ok(Ok(())) => {
                sichen_crash::at(sichen_crash::Place::AfterCommit, case);
                if let Some(op) = op {
                    self.connections.whereabouts.promised(op.id, tx.now);
                }
                return Ok(answer);
            }
            Ok(Err(e)) if was_refused(&e) => return Err(fault(&e)),
            Ok(Err(e)) => words(&e),
            Err((e, _)) => e.to_string(),
        };
        drop(tx);
        let Some(op) = op else {
            // To do it twice does no harm.
            return Err((Error::Unavailable(reason), true));
        };
        match self.was_committed(op.id).await {
            Ok(true) => Ok(answer),
            _ => Err((Error::Unknown { op: op.id, reason }, false)),
        }
    }

    async fn was_committed(&self, op: OpId) -> std::result::Result<bool, Failed> {
        let read = self.read_on(&self.connections.begin_read).await?;
        let found = self.in_time(read.exists(sql::FIND_OP, [op.0])).await?;
        let _ = self.in_time(read.end("commit")).await;
        found.map_err(|e| (e, false))
    }

    async fn read_on(&self, begin: &str) -> std::result::Result<Read, Failed> {
        let read = self.connected().await?;
        read.begin(begin).await;
        if self.connections.pooled {
            // Without it, what follows could be written outside any transaction; a session with the
            // server itself refuses that.
            let begun = self.in_time(read.land()).await?;
            begun.map_err(|e| (e, read.may_fare_better()))?;
        }
        Ok(read)
    }

    async fn connected(&self) -> std::result::Result<Read, Failed> {
        let mut link = self.connections.get().await?;
        if self.connections.whereabouts.have_moved() {
            // Not held meanwhile: it may be the only one.
            drop(link);
            self.settle(false).await?;
            link = self.connections.get().await?;
        }
        Ok(Read::new(link, Arc::clone(&self.common)))
    }

    /// Settles where the database is, if it may have moved or this is the `first` time.
    fn settle(&self, first: bool) -> BoxFuture<'_, std::result::Result<(), Failed>> {
        Box::pin(async move {
            let _one = self.settling.lock().await;
            let whereabouts = &self.connections.whereabouts;
            if !first && !whereabouts.have_moved() {
                return Ok(());
            }
            let read = Read::new(self.connections.get().await?, Arc::clone(&self.common));
            let (now, before) = match self.in_time(restored::places(&read)).await? {
                Ok(places) => places,
                Err(e) if read.may_fare_better() => return Err((e, true)),
                Err(error) => {
                    // Not everybody may ask it everywhere; what it tells is only noticed earlier by it.
                    tracing::warn!(%error, "it can't be asked which installation of PostgreSQL this is");
                    return Ok(());
                }
            };
            drop(read);
            let place = match now {
                Some(now) if first && before.as_ref() == Some(&now) => Some(now),
                _ => self.settle_now().await?,
            };
            if let Some(place) = place {
                whereabouts.settled(place);
            }
            Ok(())
        })
    }

    /// [`restored::settle`], on whatever the connections lead to now.
    async fn settle_now(&self) -> std::result::Result<Option<Place>, Failed> {
        let read = Read::new(self.connections.get().await?, Arc::clone(&self.common));
        read.begin(&self.connections.begin_write).await;
        let mut tx = Tx::new(read, None);
        let settled = self.in_time(async {
            tx.land().await?;
            tx.take_turn(Turn::Claim, "").await?;
            let duties = restored::duties(&tx).await?;
            tx.lock_duties(duties, false).await?;
            tx.tell_time().await?;
            let place = restored::settle(&mut tx, &self.connections.whereabouts).await?;
            tx.finish().await?;
            Ok(place)
        });
        let place = match settled.await? {
            Ok(place) => place,
            Err(e) => return Err((e, tx.may_fare_better())),
        };
        let ended = self.in_time(tx.end("commit")).await?;
        ended.map_err(|e| fault(&e))?;
        Ok(place)
    }

    /// Gives up what has no answer in time: its connection is closed when it is dropped.
    async fn in_time<T>(&self, call: impl Future<Output = T>) -> std::result::Result<T, Failed> {
        let limit = self.call_timeout;
        tokio::time::timeout(limit, call).await.map_err(|_| {
            let text = format!("no answer within {} ms", limit.as_millis());
            (Error::Unavailable(text), false)
        })
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

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether a commit that failed was refused for certain.
fn was_refused(e: &tokio_postgres::Error) -> bool {
    e.code().is_some_and(|code| {
        // Of these two classes it is not known when they struck.
        !code.code().starts_with("57") && !code.code().starts_with("08")
    })
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
