//! What a server says of itself: for `sichen doctor`, and for people who wonder whom they talk to.
//!
//! # Not here
//! Judging it (the command line).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::extract::State;

use super::answer::Answer;
use super::import::Importer;
use super::{Api, cluster, wire};

/// What the program knows of the node when it starts it.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Where its files are.
    pub data: PathBuf,
    /// `sqlite` or `postgres`.
    pub store: String,
    /// What the store's server said of itself at the start, such as `fsync`.
    pub settings: BTreeMap<String, String>,
    /// What was found last of transactions that hold the store up; whoever looks writes it here.
    pub old_transactions: Arc<Mutex<Vec<wire::OldTransaction>>>,
    /// What was found last of rows that are past and not yet removed.
    pub dead_rows: DeadRows,
    /// What reads the jobs of other schedulers.
    pub importer: Importer,
}

/// How many rows are past and not yet removed, as whoever looks has written it here.
#[derive(Clone, Debug, Default)]
pub struct DeadRows(Arc<Mutex<Option<i64>>>);

impl DeadRows {
    /// Writes down what was found.
    pub fn set(&self, rows: i64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(rows);
    }

    /// What was found last; `None` of a store that has no such rows.
    #[must_use]
    pub fn get(&self) -> Option<i64> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Version, clock, store and disk of the server that answers.
#[utoipa::path(
    get,
    path = "/server",
    tag = "cluster",
    responses(
        (status = 200, body = wire::ServerStatus),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn server(State(api): State<Api>) -> Answer<wire::ServerStatus> {
    let about = api.0.about.clone();
    let unready = cluster::unready(&api).await;
    let now = api.store().now().await?;
    let data = about.data.clone();
    // A hung disk hangs a thread that nobody waits for but this request.
    let disk = tokio::task::spawn_blocking(move || nix::sys::statvfs::statvfs(&data).ok()).await;
    let disk = disk.ok().flatten().map(|disk| wire::Disk {
        free_bytes: disk.blocks_available() * disk.fragment_size(),
        total_bytes: disk.blocks() * disk.fragment_size(),
    });
    Ok(Json(wire::ServerStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        now: now.to_string(),
        not_ready: unready,
        store: about.store.clone(),
        store_settings: about.settings.clone(),
        old_transactions: about
            .old_transactions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone(),
        data: about.data.display().to_string(),
        disk,
    }))
}
