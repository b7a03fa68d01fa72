//! Signs of life and hints over one connection straight to the server.
//!
//! A node holds an advisory lock of its session as long as its process lives: when that ends, the
//! server ends the session, and peers see in `pg_locks` that the lock is gone, long before a lease
//! would end. Hints travel by NOTIFY, gathered, in transactions of their own.
//!
//! # Invariants
//! - One connection; it runs nothing long, and its loss is told before it is made anew.
//! - Through a pooler there is none of this, and nothing else is different.
//!
//! # Not here
//! What follows from a missing sign (`sichen_core::members`, the coordinator).

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sichen_core::beacon::{Beacon, Heard, Hint, NodeSign};
use sichen_core::ids::NodeId;
use sichen_core::port::{Answer, Error};
use tokio::sync::{Notify, mpsc};
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Connection};

use super::address::{Address, Pooler};
use super::connect::{DIRECT, refuses_options, with_settings};
use super::fault::{Result, fault, words};

/// Hints that are told together; more become one that says to look at everything.
const MAX_HINTS: usize = 64;
/// What was heard and not taken yet; more is dropped, since a look comes anyway.
const MAX_HEARD: usize = 256;
/// From one NOTIFY to the next: each takes a lock of the whole database at its commit.
const GATHER: Duration = Duration::from_millis(30);
/// How long a look may take.
const LOOK: Duration = Duration::from_secs(1);
/// How long the connection rests before it is tried for a sign of life.
const TRY_EACH: Duration = Duration::from_secs(10);
/// Waits between attempts to connect: the first and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// So that the server notices within seconds that a host or the way to it is gone.
const SETTINGS: &[(&str, &str)] = &[
    ("tcp_keepalives_idle", "2"),
    ("tcp_keepalives_interval", "1"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "3000"),
    ("client_connection_check_interval", "1000"),
    ("statement_timeout", "2000"),
    (DIRECT, "on"),
];

/// Where all nodes of a schema meet: a number that is the first half of their locks' keys.
const PLACE: &str = "select hashtext('sichen/' || current_schema())";
const LOCK: &str = "select pg_try_advisory_lock($1, $2)";
const UNLOCK: &str = "select pg_advisory_unlock($1, $2)";
const NOTIFY: &str = "select pg_notify($1, $2)";
const SEEN: &str = "select objid::bigint from pg_locks where locktype = 'advisory' and objsubid = 2 \
    and granted and classid::bigint = $1 \
    and database = (select oid from pg_database where datname = current_database())";

/// The beacon of one node.
#[derive(Debug)]
pub struct PostgresBeacon {
    address: Address,
    inner: Mutex<Inner>,
    changed: Notify,
    hears: mpsc::Sender<Heard>,
    heard: tokio::sync::Mutex<mpsc::Receiver<Heard>>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The node to be shown.
    node: Option<NodeId>,
    hints: BTreeSet<Hint>,
    /// The connection, and the place of its schema, while there is one.
    open: Option<(Arc<Client>, i32)>,
}

impl PostgresBeacon {
    /// A beacon for the database at `url`. Does nothing until [`PostgresBeacon::run`].
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the address is wrong.
    pub fn new(url: &str) -> Result<Self> {
        let mut address = Address::parse(url, |name| std::env::var(name).ok())?;
        let settings: Vec<(&str, String)> = SETTINGS
            .iter()
            .map(|(n, v)| (*n, (*v).to_owned()))
            .collect();
        address = with_settings(&address, &settings);
        address
            .config
            .connect_timeout(Duration::from_secs(3))
            .keepalives_idle(Duration::from_secs(2))
            .keepalives_interval(Duration::from_secs(1))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(3));
        if address.config.get_application_name().is_none() {
            address.config.application_name("sichen-beacon");
        }
        let (hears, heard) = mpsc::channel(MAX_HEARD);
        Ok(Self {
            address,
            inner: Mutex::default(),
            changed: Notify::new(),
            hears,
            heard: tokio::sync::Mutex::new(heard),
        })
    }

    /// Keeps the connection; to be polled as long as the node lives.
    pub async fn run(&self) {
        let mut wait = AGAIN.0;
        if self.address.pooler == Pooler::Transaction {
            return std::future::pending().await;
        }
        loop {
            match self.session(&mut wait).await {
                Ok(End::Pooled) => {
                    tracing::info!(
                        "through a pooler a peer's death is noticed by its lease alone; hints are not told"
                    );
                    return std::future::pending().await;
                }
                Ok(End::Closed) => {
                    tracing::info!("the connection for hints ended; it is made anew");
                }
                Err(error) => tracing::debug!(%error, "no connection for hints"),
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(AGAIN.1);
        }
    }

    async fn session(&self, wait: &mut Duration) -> Result<End> {
        let mut config = self.address.config.clone();
        self.address.password.fill(&mut config)?;
        let tls = self.address.tls.connector()?;
        let (client, connection) = match config.connect(tls).await {
            Ok(connected) => connected,
            Err(e) if refuses_options(&e) => return Ok(End::Pooled),
            Err(e) => return Err(Error::Unavailable(words(&e))),
        };
        let client = Arc::new(client);
        let (notes, mut noted) = mpsc::channel(MAX_HEARD);
        let ended = tokio::select! {
            () = read(connection, notes) => Ok(End::Closed),
            ended = self.speak(&client, &mut noted, wait) => ended,
        };
        if self.lock().open.take().is_some() {
            // Never left out, unlike a hint: until it is heard, the node takes its sign for shown.
            let _ = self.hears.send(Heard::Lost).await;
        }
        ended
    }

    async fn speak(
        &self,
        client: &Arc<Client>,
        noted: &mut mpsc::Receiver<(i32, String)>,
        wait: &mut Duration,
    ) -> Result<End> {
        let kept = format!("select current_setting('{DIRECT}', true) is not distinct from 'on'");
        let row = client.query_typed_one(&kept, &[]).await;
        if !row.map_err(|e| fault(&e).0)?.get::<_, bool>(0) {
            return Ok(End::Pooled);
        }
        let row = client.query_typed_one("select pg_backend_pid()", &[]).await;
        let own: i32 = row.map_err(|e| fault(&e).0)?.get(0);
        let row = client.query_typed_one(PLACE, &[]).await;
        let place: i32 = row.map_err(|e| fault(&e).0)?.get(0);
        let channel = format!("sichen_{:08x}", place.cast_unsigned());
        let listen = client.batch_execute(&format!("listen {channel}")).await;
        listen.map_err(|e| fault(&e).0)?;
        {
            let mut inner = self.lock();
            inner.open = Some((client.clone(), place));
            // What was said without it, here and there, is unknown there and here.
            inner.hints.insert(Hint::Members);
        }
        let _ = self.hears.try_send(Heard::Hint(Hint::Members));
        *wait = AGAIN.0;
        let mut shown = None;
        loop {
            let (node, hints) = {
                let mut inner = self.lock();
                (inner.node, std::mem::take(&mut inner.hints))
            };
            let all_shown = self.show_now(client, place, &mut shown, node).await?;
            if !hints.is_empty() {
                let text: Vec<String> = hints.iter().map(Hint::text).collect();
                let text = text.join(" ");
                let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
                    [(&channel, Type::TEXT), (&text, Type::TEXT)];
                let told = client.query_typed(NOTIFY, &values).await;
                told.map_err(|e| fault(&e).0)?;
                tokio::time::sleep(GATHER).await;
            }
            let rest = if all_shown { TRY_EACH } else { GATHER * 4 };
            tokio::select! {
                () = self.changed.notified() => {}
                Some((from, text)) = noted.recv() => {
                    if from != own {
                        self.take(&text);
                    }
                }
                () = tokio::time::sleep(rest) => {
                    let alive = client.batch_execute("").await;
                    alive.map_err(|e| fault(&e).0)?;
                }
            }
        }
    }

    /// Holds the lock of `node` and no other; false if it is not to be had yet.
    async fn show_now(
        &self,
        client: &Client,
        place: i32,
        shown: &mut Option<NodeId>,
        node: Option<NodeId>,
    ) -> Result<bool> {
        if *shown == node {
            return Ok(true);
        }
        if let Some(old) = shown.take() {
            ask(client, UNLOCK, place, old).await?;
        }
        let Some(node) = node else { return Ok(true) };
        // An earlier session of this very node may still hold it: it is seen all the same.
        let got = ask(client, LOCK, place, node).await?;
        *shown = got.then_some(node);
        Ok(got)
    }

    fn take(&self, text: &str) {
        for hint in text.split(' ').filter_map(Hint::parse) {
            // Too many to follow: a look comes anyway.
            let _ = self.hears.try_send(Heard::Hint(hint));
        }
    }

    async fn seen(&self) -> Result<Option<BTreeSet<NodeSign>>> {
        let Some((client, place)) = self.lock().open.clone() else {
            return Ok(None);
        };
        let place = i64::from(place.cast_unsigned());
        let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 1] =
            [(&place, Type::INT8)];
        let rows = client.query_typed(SEEN, &values);
        let Ok(rows) = tokio::time::timeout(LOOK, rows).await else {
            return Ok(None);
        };
        let sign =
            |row: tokio_postgres::Row| u32::try_from(row.get::<_, i64>(0)).ok().map(NodeSign);
        let rows = rows.map_err(|e| fault(&e).0)?;
        Ok(Some(rows.into_iter().filter_map(sign).collect()))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Beacon for PostgresBeacon {
    fn show(&self, node: Option<NodeId>) {
        self.lock().node = node;
        self.changed.notify_one();
    }

    fn look(&self) -> Answer<'_, Option<BTreeSet<NodeSign>>> {
        Box::pin(self.seen())
    }

    fn tell(&self, hint: Hint) {
        {
            let mut inner = self.lock();
            if inner.open.is_none() {
                return;
            }
            inner.hints.insert(hint);
            if inner.hints.len() > MAX_HINTS {
                inner.hints = [Hint::Members, Hint::Trigger, Hint::Backfill, Hint::Dispatch].into();
            }
        }
        self.changed.notify_one();
    }

    fn hear(&self) -> Pin<Box<dyn Future<Output = Heard> + Send + '_>> {
        Box::pin(async {
            match self.heard.lock().await.recv().await {
                Some(heard) => heard,
                None => std::future::pending().await,
            }
        })
    }
}

/// How a session ended.
enum End {
    Closed,
    /// There is a pooler between.
    Pooled,
}

async fn ask(client: &Client, query: &str, place: i32, node: NodeId) -> Result<bool> {
    // The second half of a lock's key.
    let node = NodeSign::of(node).0.cast_signed();
    let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&place, Type::INT4), (&node, Type::INT4)];
    let rows = client.query_typed(query, &values).await;
    let rows = rows.map_err(|e| fault(&e).0)?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

/// Reads what the server sends until the connection ends; notes who said what.
async fn read<S, T>(mut connection: Connection<S, T>, notes: mpsc::Sender<(i32, String)>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
        if let AsyncMessage::Notification(note) = message {
            // Too many to follow: a look comes anyway.
            let _ = notes.try_send((note.process_id(), note.payload().to_owned()));
        }
    }
}
