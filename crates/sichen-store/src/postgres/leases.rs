//! Leases on shards: granted, found overdue, taken back.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::try_join;
use jiff::{SignedDuration, Timestamp};
use sichen_core::capacity::{Ledger, Uses};
use sichen_core::dispatch::queue::{Place, Walk, Window, queues_of, turn};
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{JobUid, RunId, SessionId, ShardKey, Token};
use sichen_core::lease::has_expired;
use sichen_core::lifecycle::run::late;
use sichen_core::lifecycle::{AttemptEnd, RunState, ShardState, told};
use sichen_core::model::{DutyKey, Run, Session};
use sichen_core::name::Name;
use sichen_core::port::{
    Error, Fence, Grant, GrantRefused, GrantVerdict, Granted, Overdue, ReadyHead, Reap,
    ReapVerdict, Returned,
};
use sichen_core::timeouts::{self, Timeouts};

use super::batch::Batched;
use super::capacities;
use super::kept::columns;
use super::namespaces::Limits;
use super::param::params;
use super::row::{ShardRow, at, int, last, opt_at, opt_micros};
use super::runs;
use super::shards::{self, Ended};
use super::sql;
use super::tx::{Happened, Read, Result, Tx};
use crate::spoilt::pass_over;

/// Shards that were written to wait for an instant and are ready: from so many on they are put among the others.
/// `list_ready_runs.sql` has the number too.
const FRESH: u32 = 500;
/// Shards that are put among the others in one transaction: as many as are written well within the time
/// for which others wait for a lock.
pub(super) const PROMOTED: u32 = 2_000;
/// Such transactions of one look. What they leave is left to the next looks.
pub(super) const PROMOTIONS: u32 = 10;

/// Puts shards that waited for an instant, and are ready, among the others, but for a few; how many.
pub(super) async fn promote(read: &Read, pool: &Name) -> Result<u32> {
    let params = (pool.as_str(), read.clock(), PROMOTED, FRESH / 2);
    read.count(sql::PROMOTE_LATER, params).await
}

/// The heads, and whether there may be more because so many became ready since.
pub(super) async fn list_ready(
    read: &Read,
    pool: &Name,
    after: Place,
    window: Window,
    per_run: u32,
) -> Result<(Vec<ReadyHead>, bool)> {
    let now = read.clock();
    let params = params![
        pool.as_str(),
        after.queue,
        after.turn,
        int(after.run.0),
        now.clone(),
        window.total,
        window.lane,
        window.job,
    ];
    let mut fresh = 0;
    let open: Vec<Run> = read
        .sound(sql::LIST_READY_RUNS, params, |row| {
            fresh = last(row)?;
            row.run()
        })
        .await?;
    let more = fresh >= FRESH;
    // Those that became ready since take their part of the window.
    let open: BTreeMap<Place, Run> = open.into_iter().map(|run| (Place::of(&run), run)).collect();
    let (within, _) = Walk::new(window, after).along(&open, |_| true);
    let open: Vec<Run> = within.into_iter().cloned().collect();
    if open.is_empty() {
        return Ok((Vec::new(), more));
    }
    let places: Vec<Place> = open.iter().map(Place::of).collect();
    let (ids, queues, turns) = columns(&places);
    // Of a run that has not started nothing can be running.
    let started = open.iter().filter(|run| run.state != RunState::Scheduled);
    let started: Vec<Place> = started.map(Place::of).collect();
    let params = (ids, now, per_run, pool.as_str(), queues, turns);
    let shards = read.all(sql::LIST_READY_SHARDS, params, |row| {
        let key = ShardKey::new(RunId(row.u64(0)?), row.i32(1)?);
        Ok((key, Token(row.u64(2)?)))
    });
    let running = async {
        if started.is_empty() {
            return Ok(Vec::new());
        }
        read.all(sql::COUNT_RUNNING, columns(&started), |row| {
            Ok((RunId(row.u64(0)?), row.u32(1)?))
        })
        .await
    };
    let (shards, running) = try_join(shards, running).await?;
    let running: BTreeMap<RunId, u32> = running.into_iter().collect();
    let mut heads: BTreeMap<RunId, Vec<(ShardKey, Token)>> = BTreeMap::new();
    for (key, token) in shards {
        heads.entry(key.run).or_default().push((key, token));
    }
    let head = |run: Run| {
        // None are left if they were given away between the two statements.
        let shards = heads.remove(&run.id)?;
        Some(ReadyHead {
            running: running.get(&run.id).copied().unwrap_or(0),
            shards,
            run: Arc::new(run),
        })
    };
    Ok((open.into_iter().filter_map(head).collect(), more))
}

pub(super) async fn next_ready_at(
    read: &Read,
    pool: &Name,
    after: Timestamp,
) -> Result<Option<Timestamp>> {
    read.one(sql::GET_NEXT_READY_AT, (pool.as_str(), at(after)), |row| {
        row.at(0)
    })
    .await
}

/// Whether `session` may be given one more shard of `pool`.
pub(super) async fn can_hold(
    tx: &Tx,
    session: SessionId,
    pool: &Name,
) -> Result<std::result::Result<(), GrantRefused>> {
    let Some(s) = tx.session(session).await? else {
        return Ok(Err(GrantRefused::NoSession));
    };
    let held = tx.held(session, &s.pool).await?;
    Ok(judge(tx, &s, held, pool))
}

fn judge(
    read: &Read,
    s: &Session,
    held: u32,
    pool: &Name,
) -> std::result::Result<(), GrantRefused> {
    let over = s.ended.is_some() || has_expired(s.expires_at, read.now);
    if over || s.draining || s.pool != *pool {
        return Err(GrantRefused::NoSession);
    }
    if held >= s.slots {
        return Err(GrantRefused::NoSlot);
    }
    Ok(())
}

pub(super) async fn lease(
    tx: &mut Tx,
    fence: &Fence,
    grants: &[Grant],
) -> Result<Vec<GrantVerdict>> {
    let current = tx.under(fence).await?;
    let mut ledger = Ledger::default();
    let mut spaces = Limits::default();
    if current {
        let mut uses = Vec::new();
        let sessions: BTreeSet<_> = grants.iter().map(|grant| grant.session).collect();
        let (mut runs, mut names) = (BTreeSet::new(), BTreeSet::new());
        for grant in grants {
            let run = tx.run_row(grant.key.run).await?;
            let used = run.as_ref().map(|run| &run.terms.uses);
            uses.extend(used.filter(|uses| !uses.is_empty()).cloned());
            names.extend(run.iter().map(|run| run.job_name.namespace.clone()));
            runs.extend(run.filter(|run| run.limits_parallelism()).map(|run| run.id));
        }
        let (sessions, runs) = (Vec::from_iter(sessions), Vec::from_iter(runs));
        if tx.limited {
            spaces = Limits::lock(tx, names).await?;
            // Whoever had them may have kept them for long.
            tx.tell_time().await?;
        }
        tx.count_holds(&sessions, &runs).await?;
        ledger = capacities::open(tx, &uses).await?;
    }
    let mut jobs = match current {
        true => running_of_limited(tx, grants).await?,
        false => BTreeMap::new(),
    };
    let mut verdicts = Vec::with_capacity(grants.len());
    for grant in grants {
        let checked = if current {
            let checked = check(tx, fence, grant).await?;
            checked.and_then(|(row, run)| {
                let running = jobs.get(&run.job).copied().unwrap_or(0);
                if grant.most_of_job.is_some_and(|most| running >= most) {
                    return Err(GrantRefused::Job);
                }
                if !spaces.has_room(&run.job_name.namespace) {
                    return Err(GrantRefused::Namespace);
                }
                let taken = ledger.take(&run.terms.uses, tx.now);
                taken.map_err(|_| GrantRefused::Capacity)?;
                Ok((row, run))
            })
        } else {
            Err(GrantRefused::OldTerm)
        };
        verdicts.push(match checked {
            Err(refused) => GrantVerdict::Refused(refused),
            Ok((row, run)) => {
                spaces.take(&run.job_name.namespace);
                if let Some(running) = jobs.get_mut(&run.job) {
                    *running += 1;
                }
                let (limits, uses) = (grant.timeouts, &run.terms.uses);
                let granted = hand_over(tx, row, grant.session, limits, uses, None).await?;
                start(tx, &run, grant.timeouts).await?;
                // As its start has left it.
                let run = tx.run_row(run.id).await?.unwrap_or(run);
                GrantVerdict::Granted(Box::new(granted), run)
            }
        });
        tx.step().await?;
    }
    capacities::close(tx, &ledger).await?;
    Ok(verdicts)
}

/// How many shards of a job run.
pub(super) async fn running_of_job(read: &Read, job: JobUid) -> Result<u32> {
    let Some(row) = read.job(job).await? else {
        return Ok(0);
    };
    let (first, last) = queues_of(&row.job.name.namespace);
    let params = (first, last, turn(job), job.0);
    read.count(sql::COUNT_RUNNING_OF_JOB, params).await
}

/// The same of the limited jobs among those of `grants`.
async fn running_of_limited(tx: &Tx, grants: &[Grant]) -> Result<BTreeMap<JobUid, u32>> {
    let mut running = BTreeMap::new();
    for grant in grants.iter().filter(|grant| grant.most_of_job.is_some()) {
        let Some(run) = tx.run_row(grant.key.run).await? else {
            continue;
        };
        if let Entry::Vacant(vacant) = running.entry(run.job) {
            vacant.insert(running_of_job(tx, run.job).await?);
        }
    }
    Ok(running)
}

/// The shard and its run, if the grant still holds.
async fn check(
    tx: &Tx,
    fence: &Fence,
    grant: &Grant,
) -> Result<std::result::Result<(ShardRow, Arc<Run>), GrantRefused>> {
    let Some(row) = tx.shard(grant.key).await? else {
        return Ok(Err(GrantRefused::NotReady));
    };
    let Some(run) = tx.run_row(grant.key.run).await? else {
        return Ok(Err(GrantRefused::NotReady));
    };
    if fence.key != DutyKey::Pool(run.terms.pool.clone()) {
        return Ok(Err(GrantRefused::OldTerm));
    }
    let shard = &row.shard;
    let ready =
        shard.state.is_grantable() && shard.ready_at <= tx.now && shard.token == grant.token;
    if !ready || run.stop.is_some() || run.state.is_closed() || late(&run, tx.now).is_some() {
        return Ok(Err(GrantRefused::NotReady));
    }
    let full = run.limits_parallelism() && tx.running(run.id).await? >= run.terms.parallelism;
    Ok(match can_hold(tx, grant.session, &run.terms.pool).await? {
        Err(refused) => Err(refused),
        Ok(()) if full => Err(GrantRefused::Parallelism),
        Ok(()) => Ok((row, run)),
    })
}

/// Gives a waiting shard to a session, or a new one, which is written here: `born` says where it would wait.
pub(super) async fn hand_over(
    tx: &mut Tx,
    row: ShardRow,
    session: SessionId,
    limits: Timeouts,
    uses: &Uses,
    born: Option<(Place, &Name)>,
) -> Result<Granted> {
    let ShardRow {
        mut shard,
        last_end,
    } = row;
    let now = tx.now;
    let (grant_seq, worker) = tx.count_grant(session).await?;
    let from = if born.is_some() {
        ""
    } else {
        shard.state.word()
    };
    let before = shard.token;
    shard.state = ShardState::Running;
    shard.token = shard.token.next(tx.epoch);
    shard.attempt += 1;
    shard.used += 1;
    shard.takeovers += u32::from(last_end == Some(AttemptEnd::Lost));
    shard.session = Some(session);
    shard.grant_seq = grant_seq;
    shard.attempt_until = limits.attempt_until(now);
    shard.stall = limits.stall;
    shard.timeout_at = timeouts::timeout_at(shard.attempt_until, shard.stall, now);
    shard.digest = String::new();
    shard.started_at = Some(now);
    shard.ver += u32::from(born.is_none());
    let params = params![
        int(shard.key.run.0),
        shard.key.no.0,
        int(before.0),
        int(session.0),
        int(shard.token.0),
        shard.attempt,
        shard.used,
        shard.takeovers,
        int(grant_seq),
        opt_at(shard.timeout_at),
        at(now),
        shard.ver,
        opt_at(shard.attempt_until),
        opt_micros(shard.stall),
    ];
    match born {
        Some((place, pool)) => runs::insert_leased(tx, &shard, place, pool)?,
        None => tx.gathered(|gathered| gathered.add(Batched::LeaseShard, params)),
    }
    tx.shard_given(shard.key, session);
    capacities::hold(tx, shard.key, shard.token, session, uses);
    let data = told::attempt_granted(session, &worker, shard.checkpoint.seq, uses);
    let happened = Happened {
        attempt: Some(shard.attempt),
        token: Some(shard.token),
        data,
        ..Happened::new(Kind::AttemptGranted, from, ShardState::Running.word())
    };
    tx.event(&Entity::Shard(shard.key), shard.ver, &happened)?;
    Ok(Granted { shard, grant_seq })
}

/// Notes the first grant of a run.
async fn start(tx: &mut Tx, run: &Run, limits: Timeouts) -> Result<()> {
    if run.state != RunState::Scheduled {
        return Ok(());
    }
    let deadline = limits.deadline(run.terms.deadline, tx.now);
    let params = (int(run.id.0), at(tx.now), opt_at(deadline));
    tx.gathered(|gathered| gathered.add(Batched::StartRun, params));
    tx.run_started(run.id, deadline);
    let (from, to) = (run.state.word(), RunState::Running.word());
    let happened = Happened::new(Kind::RunStarted, from, to);
    tx.event(&Entity::Run(run.id), run.ver + 1, &happened)
}

pub(super) async fn list_overdue(
    read: &Read,
    pool: &Name,
    grace: SignedDuration,
    limit: u32,
) -> Result<Vec<Overdue>> {
    let most = limit as usize;
    let over = read
        .all(sql::LIST_HOLDERS, (pool.as_str(), read.clock()), |row| {
            Ok(row.opt_u64(0)?.map(SessionId))
        })
        .await?;
    if over.contains(&None) {
        return Ok(Vec::new());
    }
    let mut found = BTreeMap::new();
    for session in over.into_iter().flatten() {
        if found.len() >= most {
            break;
        }
        for row in read
            .sound(sql::LIST_LEASES, (int(session.0), pool.as_str()), |row| {
                row.shard()
            })
            .await?
        {
            found.insert(row.shard.key, (row.shard, true));
        }
    }
    if found.len() < most {
        let grace = i64::try_from(grace.as_micros()).unwrap_or(i64::MAX);
        let params = |most: u32| (pool.as_str(), read.clock(), most, grace);
        for row in read
            .sound_page(sql::LIST_TIMED_OUT, limit, params, |row| row.shard())
            .await?
        {
            found.entry(row.shard.key).or_insert((row.shard, false));
        }
    }
    let mut overdue = Vec::with_capacity(found.len().min(most));
    let mut runs: BTreeMap<RunId, Arc<Run>> = BTreeMap::new();
    for (key, (shard, session_over)) in found.into_iter().take(most) {
        let run = match runs.get(&key.run) {
            Some(run) => run,
            None => {
                let run = read.run_row(key.run).await;
                let lost = || Error::Corrupt(format!("shard {key} has no run"));
                let Some(run) = pass_over(run.and_then(|run| run.ok_or_else(lost)))? else {
                    continue;
                };
                runs.entry(key.run).or_insert(run)
            }
        };
        overdue.push(Overdue {
            shard,
            stop: run.stop.map(|(cause, _)| cause),
            deadline: run.terms.deadline,
            job: (run.job, run.revision),
            session_over,
        });
    }
    Ok(overdue)
}

pub(super) async fn reap(tx: &mut Tx, fence: &Fence, reaps: Vec<Reap>) -> Result<Vec<ReapVerdict>> {
    let current = tx.under(fence).await?;
    let mut verdicts = Vec::with_capacity(reaps.len());
    for reap in reaps {
        let right = match tx.run_row(reap.key.run).await? {
            Some(run) => fence.key == DutyKey::Pool(run.terms.pool.clone()),
            None => false,
        };
        if !current || !right {
            verdicts.push(ReapVerdict::OldTerm);
            continue;
        }
        let Some(row) = tx.shard(reap.key).await? else {
            verdicts.push(ReapVerdict::Gone);
            continue;
        };
        let over = match row.shard.session {
            Some(session) if reap.only_if_session_over => tx.session_over(session).await?,
            _ => true,
        };
        if !reap.holds(&row.shard, over, tx.now) {
            verdicts.push(ReapVerdict::Gone);
            continue;
        }
        let ended = Ended {
            transition: reap.transition,
            digest: String::new(),
            progress: None,
            failure: Some(reap.failure),
            raise_token: true,
            dead_by: reap.dead_by,
            expand: None,
            returned: Returned::Nothing,
        };
        verdicts.push(ReapVerdict::Reaped(
            shards::end_attempt(tx, row, ended).await?,
        ));
    }
    Ok(verdicts)
}
