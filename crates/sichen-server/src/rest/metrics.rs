//! `/metrics`: what this node has done and how things stand, as Prometheus reads it.
//!
//! # Invariants
//! - It answers while the store does not: what the node has counted, and `sichen_store_up 0`.
//! - No label names a job, a run or a worker; pools are told apart up to a limit.
//!
//! # Not here
//! Counting ([`sichen_engine::meter`]).

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use sichen_core::access::Action;
use sichen_core::dispatch::why::Reason;
use sichen_core::model::{Duty, Node, Session, Standing};
use sichen_core::name::Name;
use sichen_core::port::{self, Call, MAX_COUNTED, Overview, Page, Usage};
use sichen_core::timekeeping::Told;
use sichen_engine::dispatch::Dispatcher;
use sichen_engine::meter::MAX_POOLS;

use super::access::Caller;
use super::answer::Failed;
use super::{Api, cluster, overview};

/// Of the text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How long the store may take to answer a monitor.
const PATIENCE: Duration = Duration::from_secs(5);

/// How things stand, as the store says.
struct Seen {
    overview: Overview,
    sessions: Vec<(Session, u32)>,
    members: (Vec<Node>, Vec<Duty>),
    clock: Told,
    waiting: Waiting,
    capacities: Vec<Standing>,
}

/// Capacities whose use is told, by name.
const CAPACITIES: u32 = 100;

/// Ready shards by pool and by what they wait for.
type Waiting = BTreeMap<Name, BTreeMap<Reason, u64>>;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByState {
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByReason {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByCall {
    call: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Pool {
    pool: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByCapacity {
    capacity: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Build {
    version: &'static str,
    store: String,
}

/// All numbers of this node, and those of the cluster as its store says.
pub(super) async fn metrics(
    State(api): State<Api>,
    caller: Caller,
) -> Result<impl IntoResponse, Failed> {
    // The API does not describe it, so the gate has only seen that there is a token.
    caller.must(Action::View, None)?;
    let mut registry = Registry::with_prefix("sichen");
    api.0.engine.context.meter.register(&mut registry);
    let seen = seen(&api).await;
    gauge(
        &mut registry,
        "store_up",
        "Whether the store answers",
        seen.is_some().into(),
    );
    let ready = cluster::unready(&api).await.is_none();
    gauge(
        &mut registry,
        "ready",
        "Whether this node can do its work (as /readyz)",
        ready.into(),
    );
    let build = Family::<Build, Gauge>::default();
    let store = api.0.about.store.clone();
    let version = env!("CARGO_PKG_VERSION");
    build.get_or_create(&Build { version, store }).set(1);
    registry.register(
        "build_info",
        "The program and the kind of its store; always 1",
        build,
    );
    store_usage(&mut registry, api.store().usage());
    if let Some(seen) = seen {
        jobs_and_runs(&mut registry, &seen.overview);
        workers(&mut registry, &seen.sessions);
        waiting(&mut registry, &seen.waiting);
        missing(&mut registry, &seen.waiting);
        busy(&mut registry, &api.0.engine.dispatcher, &seen.sessions);
        capacities(&mut registry, &seen.capacities);
        let own = api.0.engine.coordinator.node();
        members(&mut registry, &seen.members, seen.clock.now, own);
        let step = seen.clock.wall.duration_since(seen.clock.now);
        let help = "How far the store's clock is ahead of the time that is believed";
        register_seconds(&mut registry, "clock_step", help, step.as_secs());
    }
    database(&mut registry, &api);
    let mut text = String::new();
    // Writing into a text does not fail.
    let _ = encode(&mut text, &registry);
    Ok(([(CONTENT_TYPE, TEXT)], text))
}

/// Asks the store, in a task of its own, because a call that has begun must not be dropped.
async fn seen(api: &Api) -> Option<Seen> {
    let store = api.0.engine.context.store.clone();
    let dispatcher = api.0.engine.dispatcher.clone();
    let asked = async move {
        let clock = store.clock().await?;
        let overview = store.get_overview(clock.now, overview::SPAN).await?;
        let sessions = store.list_sessions(None).await?;
        let members = store.list_members().await?;
        let waiting = dispatcher.census_by_pool(clock.now).await?;
        let page = Page {
            after: None,
            limit: CAPACITIES,
        };
        let capacities = store.list_capacities(page).await?;
        Ok::<_, port::Error>(Seen {
            waiting,
            capacities,
            overview,
            sessions,
            members,
            clock,
        })
    };
    let asked = api.0.running.spawn(asked);
    let answer = tokio::time::timeout(PATIENCE, asked).await;
    answer.ok()?.ok()?.ok()
}

fn jobs_and_runs(registry: &mut Registry, o: &Overview) {
    let jobs = [
        ("live", o.live_jobs),
        ("paused", o.paused_jobs),
        ("late", o.late_jobs),
    ];
    let up_to = format!("each counted up to {MAX_COUNTED}");
    let late = "late: a planned instant passed 10 s ago and is not decided";
    states(
        registry,
        "jobs",
        &format!("Jobs by state, {up_to}; {late}"),
        &jobs,
    );
    let oldest = o.oldest.map_or(0, |at| o.now.duration_since(at).as_secs());
    let help = "Age of the oldest run that is open; 0 if there is none";
    register_seconds(registry, "runs_open_oldest", help, oldest);
    let runs = [("scheduled", o.scheduled), ("running", o.running)];
    states(
        registry,
        "runs_open",
        &format!("Open runs by state, {up_to}"),
        &runs,
    );
}

fn workers(registry: &mut Registry, sessions: &[(Session, u32)]) {
    let mut pools: BTreeMap<&str, [i64; 4]> = BTreeMap::new();
    for (session, held) in sessions {
        let pool = session.pool.as_str();
        let known = pools.len() < MAX_POOLS || pools.contains_key(pool);
        let sums = pools.entry(if known { pool } else { "other" }).or_default();
        let slots = if session.draining { 0 } else { session.slots };
        let spare = slots.saturating_sub(*held);
        for (sum, n) in sums.iter_mut().zip([1, slots, *held, spare]) {
            *sum += i64::from(n);
        }
    }
    let told = [
        ("workers", "Workers whose session is not over, by pool"),
        (
            "worker_slots",
            "Slots of workers that do not drain, by pool",
        ),
        ("worker_slots_taken", "Shards that workers hold, by pool"),
        (
            "pool_slots_spare",
            "Free slots of workers that do not drain, by pool",
        ),
    ];
    for (n, (name, help)) in told.into_iter().enumerate() {
        let family = Family::<Pool, Gauge>::default();
        for (pool, sums) in &pools {
            let pool = (*pool).to_owned();
            family.get_or_create(&Pool { pool }).set(sums[n]);
        }
        registry.register(name, help, family);
    }
}

/// How busy the machine of the busiest worker is.
fn busy(registry: &mut Registry, dispatcher: &Dispatcher, sessions: &[(Session, u32)]) {
    let mut most: BTreeMap<&str, u32> = BTreeMap::new();
    for (session, _) in sessions {
        let pool = session.pool.as_str();
        let known = most.len() < MAX_POOLS || most.contains_key(pool);
        let load = most.entry(if known { pool } else { "other" }).or_default();
        *load = (*load).max(dispatcher.busy(session.id));
    }
    let family = Family::<Pool, Gauge<f64, AtomicU64>>::default();
    for (pool, load) in most {
        let pool = pool.to_owned();
        family
            .get_or_create(&Pool { pool })
            .set(f64::from(load) / 1_000.0);
    }
    let help =
        "Load of the busiest machine by its processors, of the workers that beat here, by pool";
    registry.register("worker_load_max", help, family);
}

/// What is held of capacities, and how much may be; one without units has no limit to tell.
fn capacities(registry: &mut Registry, standings: &[Standing]) {
    let (held, units) = (
        Family::<ByCapacity, Gauge>::default(),
        Family::<ByCapacity, Gauge>::default(),
    );
    for standing in standings {
        let label = ByCapacity {
            capacity: standing.capacity.name.to_string(),
        };
        let used = i64::try_from(standing.used).unwrap_or(i64::MAX);
        held.get_or_create(&label).set(used);
        if let Some(most) = standing.capacity.limits.units {
            units.get_or_create(&label).set(most.into());
        }
    }
    let help = "Units of a capacity that are held, of the first 100 by name";
    registry.register("capacity_units_held", help, held);
    let help = "Units of a capacity that may be held at once";
    registry.register("capacity_units", help, units);
}

/// By reason, each word always: a series that comes and goes can't be compared with nothing.
fn waiting(registry: &mut Registry, pools: &Waiting) {
    let family = Family::<ByReason, Gauge>::default();
    // What a pool's owner can see of ready shards.
    let seen = Reason::ALL
        .into_iter()
        .filter(|reason| *reason > Reason::NotYet);
    for reason in seen.filter(|reason| *reason != Reason::NoOwner) {
        let of_pools = pools.values().filter_map(|counts| counts.get(&reason));
        let n = of_pools.sum::<u64>();
        let n = i64::try_from(n).unwrap_or(i64::MAX);
        let reason = reason.word();
        family.get_or_create(&ByReason { reason }).set(n);
    }
    let help = "Ready shards that wait, in the pools of this node, by what each waits for; counted up to \
                10,000 a pool";
    registry.register("waiting_shards", help, family);
}

/// How many slots more would be taken at once: what an autoscaler goes by.
fn missing(registry: &mut Registry, pools: &Waiting) {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (pool, counts) in pools {
        let pool = pool.as_str();
        let known = sums.len() < MAX_POOLS || sums.contains_key(pool);
        let asking = counts.iter().filter(|(reason, _)| reason.asks_for_slots());
        *sums.entry(if known { pool } else { "other" }).or_default() +=
            asking.map(|(_, n)| n).sum::<u64>();
    }
    let family = Family::<Pool, Gauge>::default();
    for (pool, n) in sums {
        let pool = pool.to_owned();
        let n = i64::try_from(n).unwrap_or(i64::MAX);
        family.get_or_create(&Pool { pool }).set(n);
    }
    let help =
        "Ready shards that wait for nothing but a slot, by pool of this node; counted up to 10,000";
    registry.register("pool_slots_missing", help, family);
}

fn members(
    registry: &mut Registry,
    (nodes, duties): &(Vec<Node>, Vec<Duty>),
    now: Timestamp,
    own: Option<sichen_core::ids::NodeId>,
) {
    let live = |node: &&Node| now < node.expires_at;
    let nodes: Vec<_> = nodes.iter().filter(live).map(|node| node.id).collect();
    let owned = |duty: &&Duty| duty.node.is_some_and(|node| nodes.contains(&node));
    let held = duties.iter().filter(owned).count();
    let mine = duties
        .iter()
        .filter(|d| own.is_some() && d.node == own)
        .count();
    gauge(
        registry,
        "nodes",
        "Server nodes whose lease lasts",
        int(nodes.len()),
    );
    gauge(
        registry,
        "duties_held",
        "Duties that this node holds",
        int(mine),
    );
    let help = "Duties in no live node's hands";
    gauge(registry, "duties_idle", help, int(duties.len() - held));
}

fn database(registry: &mut Registry, api: &Api) {
    let old = &api.0.about.old_transactions;
    let old = old
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let help = "Transactions that have been open for minutes in the store's database";
    gauge(registry, "store_old_transactions", help, int(old.len()));
    let oldest = old.iter().filter_map(|t| t.age_seconds).max().unwrap_or(0);
    let help = "Age of the oldest of them";
    register_seconds(registry, "store_oldest_transaction", help, oldest);
    if let Some(dead) = api.0.about.dead_rows.get() {
        let help = "Rows that are past in the tables of the store's database and not yet removed, as it estimates them";
        gauge(registry, "store_dead_rows", help, dead);
    }
}

/// What this node asks of its store, as the store counts it.
fn store_usage(registry: &mut Registry, usage: Usage) {
    if let Some(calls) = usage.calls {
        let answered = Family::<ByCall, Counter>::default();
        let failed = Family::<ByCall, Counter>::default();
        let took = Family::<ByCall, Counter<f64, AtomicU64>>::default();
        for (kind, calls) in Call::ALL.into_iter().zip(calls) {
            let label = ByCall { call: kind.word() };
            answered.get_or_create(&label).inc_by(calls.answered);
            failed.get_or_create(&label).inc_by(calls.failed);
            took.get_or_create(&label).inc_by(calls.took.as_secs_f64());
        }
        let help = "Calls of the store that were answered, by kind";
        registry.register("store_calls", help, answered);
        let help = "Those that were answered by an error";
        registry.register("store_call_failures", help, failed);
        let help = "How long they took together";
        registry.register_with_unit("store_calls_time", help, Unit::Seconds, took);
    }
    if let Some(connections) = usage.connections {
        let states_of = [("busy", connections.busy), ("idle", connections.idle)];
        let help = "Connections to the store's database, by state";
        states(registry, "store_connections", help, &states_of);
        let help = "Calls that wait for a connection";
        let waiting = i64::try_from(connections.waiting).unwrap_or(i64::MAX);
        gauge(registry, "store_callers_waiting", help, waiting);
    }
}

fn states(registry: &mut Registry, name: &str, help: &str, counts: &[(&'static str, u64)]) {
    let family = Family::<ByState, Gauge>::default();
    for (state, n) in counts {
        let n = i64::try_from(*n).unwrap_or(i64::MAX);
        family.get_or_create(&ByState { state }).set(n);
    }
    registry.register(name, help, family);
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: i64) {
    let gauge: Gauge = Gauge::default();
    gauge.set(value);
    registry.register(name, help, gauge);
}

fn register_seconds(registry: &mut Registry, name: &str, help: &str, seconds: i64) {
    let gauge: Gauge = Gauge::default();
    gauge.set(seconds);
    registry.register_with_unit(name, help, Unit::Seconds, gauge);
}

fn int(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
