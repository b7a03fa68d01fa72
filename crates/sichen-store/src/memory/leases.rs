//! Leases on shards: granted, found overdue, taken back.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sichen_core::capacity::{Ledger, Uses};
use sichen_core::dispatch::queue::{Place, Walk, Window};
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{JobUid, RunId, SessionId, ShardKey};
use sichen_core::lifecycle::run::late;
use sichen_core::lifecycle::{AttemptEnd, RunState, ShardState, told};
use sichen_core::model::{Checkpoint, DutyKey, Run};
use sichen_core::name::Name;
use sichen_core::port::{
    Fence, Grant, GrantRefused, GrantVerdict, Granted, Overdue, ReadyHead, Reap, ReapVerdict,
    Returned,
};
use sichen_core::timeouts::{self, Timeouts};
use sichen_core::zoo;

use super::capacities;
use super::namespaces;
use super::shards::{self, Ended};
use super::state::{Happened, State, Tx};

fn grantable_runs<'a>(state: &'a State, pool: &'a Name) -> impl Iterator<Item = &'a Run> {
    state
        .runs
        .values()
        .filter(move |r| r.terms.pool == *pool && !r.state.is_closed() && r.stop.is_none())
}

pub(super) fn list_ready(
    state: &State,
    now: Timestamp,
    pool: &Name,
    after: Place,
    window: Window,
    per_run: usize,
) -> Vec<ReadyHead> {
    let waiting = |s: &sichen_core::model::Shard| s.state.is_grantable() && s.ready_at <= now;
    let ready = |run: &Run| state.shards_of(run.id).any(|row| waiting(&row.shard));
    let open: BTreeMap<Place, &Run> = grantable_runs(state, pool)
        .filter(|run| ready(run))
        .map(|run| (Place::of(run), run))
        .collect();
    let (open, _) = Walk::new(window, after).along(&open, |_| true);
    let mut heads = Vec::new();
    for run in open {
        let mut ready: Vec<_> = state
            .shards_of(run.id)
            .map(|row| &row.shard)
            .filter(|s| waiting(s))
            .collect();
        ready.sort_by_key(|s| (s.ready_at, s.key));
        heads.push(ReadyHead {
            run: Arc::new((*run).clone()),
            running: running(state, run.id),
            shards: ready
                .into_iter()
                .take(per_run)
                .map(|s| (s.key, s.token))
                .collect(),
        });
    }
    heads
}

/// How many shards of a job run.
pub(super) fn running_of_job(state: &State, job: JobUid) -> u32 {
    let of = |run: &&RunId| state.runs.get(*run).is_some_and(|run| run.job == job);
    let held = state.holders.values().flatten().map(|key| &key.run);
    u32::try_from(held.filter(of).count()).unwrap_or(u32::MAX)
}

fn running(state: &State, run: RunId) -> u32 {
    let n = state
        .shards_of(run)
        .filter(|row| row.shard.state == ShardState::Running)
        .count();
    u32::try_from(n).unwrap_or(u32::MAX)
}

pub(super) fn next_ready_at(state: &State, after: Timestamp, pool: &Name) -> Option<Timestamp> {
    grantable_runs(state, pool)
        .flat_map(|run| state.shards_of(run.id))
        .filter(|row| row.shard.state.is_grantable() && row.shard.ready_at > after)
        .map(|row| row.shard.ready_at)
        .min()
}

/// Whether `session` may be given one more shard of `pool`.
pub(super) fn can_hold(
    state: &State,
    now: Timestamp,
    session: SessionId,
    pool: &Name,
) -> Result<(), GrantRefused> {
    if state.session_over(session, now) {
        return Err(GrantRefused::NoSession);
    }
    let s = &state.sessions[&session];
    if s.draining || s.pool != *pool {
        return Err(GrantRefused::NoSession);
    }
    if state.held_by(session).count() >= s.slots as usize {
        return Err(GrantRefused::NoSlot);
    }
    Ok(())
}

pub(super) fn lease(tx: &mut Tx<'_>, fence: &Fence, grants: &[Grant]) -> Vec<GrantVerdict> {
    let current = tx.under(fence);
    let mut ledger = Ledger::default();
    if current {
        ledger = capacities::open(tx, grants.iter().map(|grant| grant.key.run));
    }
    let mut verdicts = Vec::with_capacity(grants.len());
    for grant in grants {
        let verdict = if current {
            check(tx, fence, grant).and_then(|()| take(tx, &mut ledger, grant))
        } else {
            Err(GrantRefused::OldTerm)
        };
        verdicts.push(match verdict {
            Err(refused) => GrantVerdict::Refused(refused),
            Ok(()) => {
                let grant_seq = hand_over(tx, grant.key, grant.session, grant.timeouts, false);
                let shard = tx.state.shards[&grant.key].shard.clone();
                let run = Arc::new(tx.state.runs[&grant.key.run].clone());
                GrantVerdict::Granted(Box::new(Granted { shard, grant_seq }), run)
            }
        });
    }
    capacities::close(tx, &ledger);
    verdicts
}

/// Takes what the grant's run uses of capacities.
fn take(tx: &Tx<'_>, ledger: &mut Ledger, grant: &Grant) -> Result<(), GrantRefused> {
    let run = tx.state.runs.get(&grant.key.run);
    let run = run.ok_or(GrantRefused::NotReady)?;
    let taken = ledger.take(&run.terms.uses, tx.now);
    taken.map_err(|_| GrantRefused::Capacity)
}

fn check(tx: &Tx<'_>, fence: &Fence, grant: &Grant) -> Result<(), GrantRefused> {
    let state = &*tx.state;
    let row = state.shards.get(&grant.key).ok_or(GrantRefused::NotReady)?;
    let run = state
        .runs
        .get(&grant.key.run)
        .ok_or(GrantRefused::NotReady)?;
    if fence.key != DutyKey::Pool(run.terms.pool.clone()) {
        return Err(GrantRefused::OldTerm);
    }
    let shard = &row.shard;
    let ready =
        shard.state.is_grantable() && shard.ready_at <= tx.now && shard.token == grant.token;
    if !ready || run.stop.is_some() || run.state.is_closed() || late(run, tx.now).is_some() {
        return Err(GrantRefused::NotReady);
    }
    can_hold(state, tx.now, grant.session, &run.terms.pool)?;
    if running(state, run.id) >= run.terms.parallelism {
        return Err(GrantRefused::Parallelism);
    }
    let full = |most| running_of_job(state, run.job) >= most;
    if grant.most_of_job.is_some_and(full) {
        return Err(GrantRefused::Job);
    }
    namespaces::may_run(state, &run.job_name.namespace)
}

/// Gives a waiting shard to a session; returns the grant's number within the session.
pub(super) fn hand_over(
    tx: &mut Tx<'_>,
    key: ShardKey,
    session: SessionId,
    limits: Timeouts,
    born: bool,
) -> u64 {
    let now = tx.now;
    let (grant_seq, worker) = match tx.state.sessions.get_mut(&session) {
        Some(s) => {
            s.grant_seq += 1;
            (s.grant_seq, s.worker.name.to_string())
        }
        None => return 0,
    };
    let Some(row) = tx.state.shards.get_mut(&key) else {
        return 0;
    };
    let shard = &mut row.shard;
    let from = if born { "" } else { shard.state.word() };
    shard.state = ShardState::Running;
    if !zoo::is("grant-keeps-token") || shard.token.0 == 0 {
        shard.token = shard.token.next(tx.state.epoch);
    }
    shard.attempt += u32::from(!zoo::is("attempt-not-counted") || shard.attempt == 0);
    shard.used += 1;
    if zoo::is("retry-forgets-checkpoint") {
        shard.checkpoint = Checkpoint::default();
    }
    shard.takeovers += u32::from(row.last_end == Some(AttemptEnd::Lost));
    shard.session = Some(session);
    shard.grant_seq = grant_seq;
    shard.attempt_until = limits.attempt_until(now);
    shard.stall = limits.stall;
    shard.timeout_at = timeouts::timeout_at(shard.attempt_until, shard.stall, now);
    shard.digest = String::new();
    shard.started_at = Some(now);
    shard.ver += u32::from(!born);
    let (ver, attempt, token) = (shard.ver, shard.attempt, shard.token);
    let seq = shard.checkpoint.seq;
    let run = tx.state.runs.get(&key.run);
    let uses = run.map_or_else(Uses::default, |run| run.terms.uses.clone());
    let data = told::attempt_granted(session, &worker, seq, &uses);
    capacities::hold(tx, key, token, session, &uses);
    tx.state.holders.entry(session).or_default().insert(key);
    let happened = Happened {
        attempt: Some(attempt),
        token: Some(token),
        data,
        ..Happened::new(Kind::AttemptGranted, from, ShardState::Running.word())
    };
    tx.event(Entity::Shard(key), ver, happened);
    if let Some(run) = tx.state.runs.get_mut(&key.run)
        && run.state == RunState::Scheduled
    {
        run.state = RunState::Running;
        run.started_at = Some(now);
        run.terms.deadline = limits.deadline(run.terms.deadline, now);
        run.ver += 1;
        let ver = run.ver;
        let (from, to) = (RunState::Scheduled.word(), RunState::Running.word());
        let happened = Happened::new(Kind::RunStarted, from, to);
        tx.event(Entity::Run(key.run), ver, happened);
    }
    grant_seq
}

pub(super) fn list_overdue(
    state: &State,
    now: Timestamp,
    pool: &Name,
    grace: SignedDuration,
    limit: usize,
) -> Vec<Overdue> {
    let mut overdue = Vec::new();
    for row in state.shards.values() {
        let shard = &row.shard;
        let (Some(session), Some(run)) = (shard.session, state.runs.get(&shard.key.run)) else {
            continue;
        };
        if shard.state != ShardState::Running || run.terms.pool != *pool {
            continue;
        }
        let early = SignedDuration::from_secs(if zoo::is("reap-early") { 9 } else { 0 });
        let session_over = state.session_over(session, now + early);
        let timed_out = shard
            .timeout_at
            .is_some_and(|at| at.checked_add(grace).is_ok_and(|end| end <= now));
        if (session_over || timed_out) && overdue.len() < limit {
            overdue.push(Overdue {
                shard: shard.clone(),
                stop: run.stop.map(|(cause, _)| cause),
                deadline: run.terms.deadline,
                job: (run.job, run.revision),
                session_over,
            });
        }
    }
    overdue
}

pub(super) fn reap(tx: &mut Tx<'_>, fence: &Fence, reaps: Vec<Reap>) -> Vec<ReapVerdict> {
    let current = tx.under(fence);
    let mut verdicts = Vec::with_capacity(reaps.len());
    for reap in reaps {
        let pool = tx
            .state
            .runs
            .get(&reap.key.run)
            .map(|run| run.terms.pool.clone());
        if !current || pool.is_none_or(|pool| fence.key != DutyKey::Pool(pool)) {
            verdicts.push(ReapVerdict::OldTerm);
            continue;
        }
        let holds = tx.state.shards.get(&reap.key).is_some_and(|row| {
            let shard = &row.shard;
            let early = SignedDuration::from_secs(if zoo::is("reap-early") { 9 } else { 0 });
            let over = shard
                .session
                .is_none_or(|s| tx.state.session_over(s, tx.now + early));
            reap.holds(shard, over, tx.now)
        });
        if !holds {
            verdicts.push(ReapVerdict::Gone);
            continue;
        }
        let ended = Ended {
            transition: reap.transition,
            digest: String::new(),
            progress: None,
            failure: Some(reap.failure),
            raise_token: !zoo::is("reap-keeps-token"),
            dead_by: reap.dead_by,
            expand: None,
            returned: Returned::Nothing,
        };
        verdicts.push(ReapVerdict::Reaped(shards::end_attempt(
            tx, reap.key, ended,
        )));
    }
    verdicts
}
