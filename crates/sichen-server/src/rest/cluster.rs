//! Workers and server nodes; whether this one is well.

use std::collections::{HashMap, hash_map};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use sichen_core::ids::{RunId, SessionId};
use sichen_core::name::JobName;
use sichen_core::port;
use sichen_core::restore::Restore;

use super::answer::Answer;
use super::request::Segments;
use super::{Api, clock, convert, wire};

/// How long the store may take to answer before the node calls itself not ready.
const READY_TIMEOUT: Duration = Duration::from_secs(2);
/// Questions to the store on behalf of `/readyz` that may be open; more are answered at once.
pub(super) const MAX_PROBES: usize = 4;

/// Workers whose session is not over, with the shards that each holds.
#[utoipa::path(
    get,
    path = "/workers",
    tag = "cluster",
    responses(
        (status = 200, body = wire::Workers),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn workers(State(api): State<Api>) -> Answer<wire::Workers> {
    let sessions = api.store().list_sessions(None).await?;
    let items = sessions.iter().map(|(s, held)| convert::worker(s, *held));
    let items = items.collect();
    Ok(Json(wire::Workers { items }))
}

/// The shards that a worker's session holds: what it runs now.
#[utoipa::path(
    get,
    path = "/workers/{session}/shards",
    tag = "cluster",
    params(("session" = u64, Path)),
    responses(
        (status = 200, body = wire::HeldShards),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn held(
    State(api): State<Api>,
    Segments(session): Segments<u64>,
) -> Answer<wire::HeldShards> {
    let shards = match i64::try_from(session) {
        Ok(_) => api.store().list_leases(SessionId(session)).await?,
        Err(_) => Vec::new(),
    };
    // As many as its slots at most; most are of few runs.
    let mut names: HashMap<RunId, JobName> = HashMap::new();
    let mut items = Vec::with_capacity(shards.len());
    for shard in &shards {
        let run = shard.key.run;
        if let hash_map::Entry::Vacant(room) = names.entry(run) {
            let found = api.store().get_run(run).await?;
            let Some((run, _)) = found else { continue };
            room.insert(run.job_name);
        }
        let Some(name) = names.get(&run) else {
            continue;
        };
        items.push(wire::HeldShard {
            namespace: name.namespace.to_string(),
            job: name.name.to_string(),
            shard: convert::shard(shard),
        });
    }
    Ok(Json(wire::HeldShards { items }))
}

/// Server nodes and duties.
#[utoipa::path(
    get,
    path = "/members",
    tag = "cluster",
    responses(
        (status = 200, body = wire::Members),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn members(State(api): State<Api>) -> Answer<wire::Members> {
    let (nodes, duties) = api.store().list_members().await?;
    Ok(Json(wire::Members {
        this_node: api.0.engine.coordinator.node().map(|n| n.0),
        nodes: nodes.iter().map(convert::node).collect(),
        duties: duties.iter().map(convert::duty).collect(),
    }))
}

/// The process answers.
pub(super) async fn healthz() -> Json<wire::Health> {
    let status = "ok".to_owned();
    Json(wire::Health { status })
}

/// The node can do its work: the store answers, its clock is believed, the node's lease lasts, and
/// no duty lies idle.
pub(super) async fn readyz(State(api): State<Api>) -> (StatusCode, Json<wire::Health>) {
    let (code, status) = match unready(&api).await {
        None => (StatusCode::OK, "ok".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
    };
    (code, Json(wire::Health { status }))
}

/// Why nothing fires after a restore.
fn went_back(restore: &Restore) -> String {
    format!(
        "SC4030: the store went back: what happened after {} is lost, and nothing fires or is granted until that is decided (sichen restore show, sichen restore decide)",
        restore.mark
    )
}

/// Why the node can't do its work now.
pub(super) async fn unready(api: &Api) -> Option<String> {
    let silent = || Some("the store does not answer".to_owned());
    let Ok(probe) = api.0.probing.clone().try_acquire_owned() else {
        return silent();
    };
    let store = api.0.engine.context.store.clone();
    // In a task of its own, because a store call that has begun must not be dropped.
    let asked = api.0.running.spawn(async move {
        let told = store.clock().await;
        let restore = store.get_restore().await;
        drop(probe);
        Ok::<_, port::Error>((told?, restore?))
    });
    let coordinator = &api.0.engine.coordinator;
    match tokio::time::timeout(READY_TIMEOUT, asked).await {
        Ok(Ok(Ok((_, Some(restore))))) => Some(went_back(&restore)),
        Ok(Ok(Ok((told, None)))) if coordinator.is_ready(told.now) => clock::alarm(&told),
        Ok(Ok(Ok((told, None)))) if coordinator.is_live(told.now) => {
            let idle = || "a duty is in nobody's hands (yet, or any more)".to_owned();
            Some(clock::alarm(&told).unwrap_or_else(idle))
        }
        Ok(Ok(Ok(_))) => Some("the node has no lease (yet, or any more)".to_owned()),
        Ok(Ok(Err(error))) => Some(error.to_string()),
        Ok(Err(_)) | Err(_) => silent(),
    }
}
