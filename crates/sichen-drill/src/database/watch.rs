//! Looks at the database while a drill goes on: statements that take long, waits for locks, plans.
//!
//! # Invariants
//! - It asks what the server says of its own sessions, four times a second, over a connection of its
//!   own that does not lead through the proxy.
//!
//! # Not here
//! Any judgement.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio_postgres::Client;

use super::{APPLICATION, connect, words};
use crate::clock::wall_us;

/// A statement that runs for longer is told of.
pub(crate) const SLOW_MS: f64 = 100.0;
/// How often is looked.
const EACH: Duration = Duration::from_millis(250);
/// Statements and waits that are kept; the rest is counted.
pub const MAX_KEPT: usize = 1_000;
/// Statements whose plans are kept.
pub const MAX_PLANS: usize = 60;

/// A statement that was seen to run for long, or to wait.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Statement {
    /// When it was last seen.
    pub at_us: i64,
    /// How long it had been running then.
    pub ms: f64,
    /// What it waited for: kind and name, if it waited.
    pub waits_for: String,
    /// The sessions that held it up.
    pub blocked_by: Vec<i32>,
    /// Its text.
    pub query: String,
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// By process and begin.
    slow: BTreeMap<(i32, String), Statement>,
    waits: BTreeMap<(i32, String), Statement>,
    queries: BTreeSet<String>,
    /// What was beyond what is kept.
    pub more: u64,
    /// Looks that were made, and those that found nobody to ask.
    pub looks: (u64, u64),
}

/// Shared with whoever looks.
pub(crate) type Shared = Arc<Mutex<Watched>>;

/// Locked, whoever held it and broke.
pub(crate) fn locked(shared: &Shared) -> std::sync::MutexGuard<'_, Watched> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    /// Statements that took long.
    pub(crate) fn slow(&self) -> Vec<Statement> {
        self.slow.values().cloned().collect()
    }

    /// Waits for locks.
    pub(crate) fn waits(&self) -> Vec<Statement> {
        self.waits.values().cloned().collect()
    }

    fn looked(&mut self, answered: bool) {
        self.looks.0 += 1;
        self.looks.1 += u64::from(!answered);
    }

    fn take(&mut self, key: (i32, String), statement: Statement, is_lock: bool) {
        if self.queries.len() < MAX_PLANS {
            self.queries.insert(statement.query.clone());
        }
        let kinds = [
            (is_lock, &mut self.waits),
            (statement.ms >= SLOW_MS, &mut self.slow),
        ];
        for (_, kept) in kinds.into_iter().filter(|(is, _)| *is) {
            if kept.len() < MAX_KEPT || kept.contains_key(&key) {
                kept.insert(key.clone(), statement.clone());
            } else {
                self.more += 1;
            }
        }
    }
}

/// Looks until it is dropped.
pub(crate) async fn watch(url: String, shared: Shared) {
    let mut client: Option<Client> = None;
    loop {
        if client.as_ref().is_none_or(Client::is_closed) {
            client = connect(&url).await.ok();
        }
        let looked = match &client {
            Some(client) => {
                // A server that stands still is asked again; it must not hold the watch up for ever.
                let look = tokio::time::timeout(Duration::from_secs(2), look(client, &shared));
                look.await.is_ok_and(|l| l.is_ok())
            }
            None => false,
        };
        if !looked {
            client = None;
        }
        locked(&shared).looked(looked);
        tokio::time::sleep(EACH).await;
    }
}

async fn look(client: &Client, shared: &Shared) -> Result<(), tokio_postgres::Error> {
    let text = "SELECT pid, query_start::text, state = 'active',
                       (extract(epoch FROM clock_timestamp() - query_start) * 1000)::float8,
                       coalesce(wait_event_type, ''), coalesce(wait_event, ''), query,
                       CASE WHEN wait_event_type = 'Lock' THEN pg_blocking_pids(pid) ELSE '{}' END
                  FROM pg_stat_activity
                 WHERE application_name = $1 AND datname = current_database()
                   AND query_start IS NOT NULL AND query <> ''";
    let rows = client.query(text, &[&APPLICATION]).await?;
    let at_us = wall_us();
    let mut seen = locked(shared);
    for row in rows {
        let (pid, begin): (i32, String) = (row.get(0), row.get(1));
        let is_active: bool = row.get(2);
        let (kind, name): (String, String) = (row.get(4), row.get(5));
        let is_lock = is_active && kind == "Lock";
        let statement = Statement {
            at_us,
            ms: if is_active { row.get(3) } else { 0.0 },
            waits_for: if is_active {
                format!("{kind} {name}").trim().to_owned()
            } else {
                String::new()
            },
            blocked_by: row.get(7),
            query: row.get(6),
        };
        seen.take((pid, begin), statement, is_lock);
    }
    Ok(())
}

/// The plans of the statements that were seen, as the server would make them now for any parameters.
pub(crate) async fn plans(url: &str, shared: &Shared) -> String {
    let queries: Vec<String> = locked(shared).queries.iter().cloned().collect();
    let client = match connect(url).await {
        Ok(client) => client,
        Err(error) => return format!("no plans: {error}\n"),
    };
    let mut text = String::new();
    // What the settings can't be given is told by the plans themselves.
    let _ = client
        .batch_execute("SET plan_cache_mode = force_generic_plan")
        .await;
    for query in queries.iter().filter(|q| is_explained(q)) {
        let parameters = (1..100)
            .take_while(|n| query.contains(&format!("${n}")))
            .count();
        let values = vec!["NULL"; parameters].join(", ");
        let values = if parameters == 0 {
            String::new()
        } else {
            format!("({values})")
        };
        let _ = writeln!(text, "-- {}", query.replace('\n', "\n-- "));
        let prepared = client
            .batch_execute(&format!("PREPARE drill AS {query}"))
            .await;
        let explained = match prepared {
            Ok(()) => {
                client
                    .simple_query(&format!("EXPLAIN EXECUTE drill{values}"))
                    .await
            }
            Err(error) => Err(error),
        };
        match explained {
            Ok(messages) => {
                for message in messages {
                    if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
                        let _ = writeln!(text, "{}", row.get(0).unwrap_or_default());
                    }
                }
            }
            Err(error) => {
                let _ = writeln!(text, "no plan: {}", words(&error));
            }
        }
        // It is not there if it could not be prepared.
        let _ = client.batch_execute("DEALLOCATE ALL").await;
        text.push('\n');
    }
    text
}

fn is_explained(query: &str) -> bool {
    let first = query
        .split_whitespace()
        .find(|w| !w.starts_with("--"))
        .unwrap_or_default();
    ["select", "with", "update", "insert", "delete"].contains(&first.to_lowercase().as_str())
}

/// What the server has counted: deadlocks in this database, and its replicas.
pub(crate) async fn counted(url: &str) -> (Option<i64>, Vec<String>) {
    let Ok(client) = connect(url).await else {
        return (None, Vec::new());
    };
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let deadlocks = client
        .query_one(deadlocks, &[])
        .await
        .ok()
        .map(|row| row.get(0));
    let replicas = "SELECT coalesce(application_name, '') || ' ' || state || ' replay lag ' ||
                           coalesce(replay_lag::text, '0') FROM pg_stat_replication";
    let replicas = client.query(replicas, &[]).await.unwrap_or_default();
    (
        deadlocks,
        replicas
            .iter()
            .map(|row| row.get::<_, Option<String>>(0).unwrap_or_default())
            .collect(),
    )
}
