//! Leases on shards: granted, found overdue, taken back.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sichen_core::capacity::{Ledger, Uses};
use sichen_core::dispatch::queue::{Place, Walk, Window};
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

use super::capacities;
use super::namespaces;
use super::row::{ShardRow, at, blob, int, opt_at, opt_micros};
use super::shards::{self, Ended};
use super::sql;
use super::tx::{Happened, Read, Result, Tx};
use crate::spoilt::pass_over;

pub(super) fn list_ready(
    read: &Read<'_>,
    pool: &Name,
    after: Place,
    window: Window,
    per_run: u32,
) -> Result<Vec<ReadyHead>> {
    let now = at(read.now);
    let mut walk = Walk::new(window, after);
    let mut heads = Vec::new();
    while let Some(b) = walk.bound() {
        let params = (pool.as_str(), b.queue, b.turn, int(b.run.0), now);
        let next = read.one(sql::LIST_READY_RUNS, params, |row| {
            Ok((row.0.place()?, pass_over(row.run())?))
        })?;
        let Some((place, run)) = next else {
            break;
        };
        walk.took(place);
        let Some(run) = run else {
            continue;
        };
        let id = run.id;
        let shards = read.all(sql::LIST_READY_SHARDS, (int(id.0), now, per_run), |row| {
            Ok((ShardKey::new(id, row.i32(0)?), Token(row.u64(1)?)))
        })?;
        heads.push(ReadyHead {
            running: read.count(sql::COUNT_RUNNING, [int(id.0)])?,
            shards,
            run: Arc::new(run),
        });
    }
    Ok(heads)
}

pub(super) fn next_ready_at(
    read: &Read<'_>,
    pool: &Name,
    after: Timestamp,
) -> Result<Option<Timestamp>> {
    read.one(sql::GET_NEXT_READY_AT, (pool.as_str(), at(after)), |row| {
        row.at(0)
    })
}

/// Whether `session` may be given one more shard of `pool`.
pub(super) fn can_hold(
    read: &Read<'_>,
    session: SessionId,
    pool: &Name,
) -> Result<std::result::Result<(), GrantRefused>> {
    let Some(s) = read.session(session)? else {
        return Ok(Err(GrantRefused::NoSession));
    };
    let held = read.count(sql::COUNT_HELD, [int(session.0)])?;
    Ok(judge(read, &s, held, pool))
}

/// How many shards of a job run.
pub(super) fn running_of_job(read: &Read<'_>, job: JobUid) -> Result<u32> {
    read.count(sql::COUNT_RUNNING_OF_JOB, [blob(job.0)])
}

fn judge(
    read: &Read<'_>,
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

/// Sessions and runs that one batch of grants looks at, each read and counted once.
#[derive(Default)]
struct Seen {
    sessions: BTreeMap<SessionId, (Option<Session>, u32)>,
    runs: BTreeMap<RunId, (Option<Arc<Run>>, u32)>,
    /// How many more shards of namespaces may run.
    namespaces: BTreeMap<Name, Option<u32>>,
    /// How many shards of jobs run, of those that are limited.
    jobs: BTreeMap<JobUid, u32>,
}

impl Seen {
    fn session(&mut self, tx: &Tx<'_>, id: SessionId) -> Result<&mut (Option<Session>, u32)> {
        if let std::collections::btree_map::Entry::Vacant(v) = self.sessions.entry(id) {
            v.insert((tx.session(id)?, tx.count(sql::COUNT_HELD, [int(id.0)])?));
        }
        self.sessions
            .get_mut(&id)
            .ok_or_else(|| Error::Corrupt(format!("session {id}")))
    }

    /// Whether one more shard of the namespace may run.
    fn has_room(&mut self, tx: &Tx<'_>, name: &Name) -> Result<bool> {
        if !self.namespaces.contains_key(name) {
            let room = namespaces::room(tx, name)?;
            self.namespaces.insert(name.clone(), room);
        }
        Ok(self.namespaces.get(name) != Some(&Some(0)))
    }

    /// Whether one more shard of the job may run, if so many may in all.
    fn has_room_of_job(&mut self, tx: &Tx<'_>, job: JobUid, most: Option<u32>) -> Result<bool> {
        let Some(most) = most else {
            return Ok(true);
        };
        let running = match self.jobs.get(&job) {
            Some(running) => *running,
            None => running_of_job(tx, job)?,
        };
        self.jobs.insert(job, running);
        Ok(running < most)
    }

    /// One more shard of the job, in the namespace, runs.
    fn take(&mut self, job: JobUid, name: &Name) {
        if let Some(running) = self.jobs.get_mut(&job) {
            *running += 1;
        }
        if let Some(Some(room)) = self.namespaces.get_mut(name) {
            *room = room.saturating_sub(1);
        }
    }

    fn run(&mut self, tx: &Tx<'_>, id: RunId) -> Result<&mut (Option<Arc<Run>>, u32)> {
        if let std::collections::btree_map::Entry::Vacant(v) = self.runs.entry(id) {
            let run = tx.run_row(id)?.map(Arc::new);
            v.insert((run, tx.count(sql::COUNT_RUNNING, [int(id.0)])?));
        }
        self.runs
            .get_mut(&id)
            .ok_or_else(|| Error::Corrupt(format!("run {id}")))
    }
}

pub(super) fn lease(tx: &mut Tx<'_>, fence: &Fence, grants: &[Grant]) -> Result<Vec<GrantVerdict>> {
    let current = tx.under(fence)?;
    let mut seen = Seen::default();
    let mut ledger = Ledger::default();
    if current {
        let mut uses = Vec::new();
        for grant in grants {
            let run = &seen.run(tx, grant.key.run)?.0;
            uses.extend(run.as_ref().map(|run| run.terms.uses.clone()));
        }
        ledger = capacities::open(tx, &uses)?;
    }
    let mut verdicts = Vec::with_capacity(grants.len());
    for grant in grants {
        let checked = if current {
            let checked = check(tx, &mut seen, fence, grant)?;
            checked.and_then(|(row, uses)| {
                let taken = ledger.take(&uses, tx.now);
                taken.map_err(|_| GrantRefused::Capacity)?;
                Ok((row, uses))
            })
        } else {
            Err(GrantRefused::OldTerm)
        };
        verdicts.push(match checked {
            Err(refused) => GrantVerdict::Refused(refused),
            Ok((row, uses)) => {
                let limits = grant.timeouts;
                let granted = hand_over(tx, row, grant.session, limits, &uses, false)?;
                seen.session(tx, grant.session)?.1 += 1;
                let (run, running) = seen.run(tx, grant.key.run)?;
                *running += 1;
                let run = run
                    .as_mut()
                    .ok_or_else(|| Error::Corrupt(format!("shard {} has no run", grant.key)))?;
                if run.state == RunState::Scheduled {
                    start(tx, Arc::make_mut(run), grant.timeouts)?;
                }
                let run = run.clone();
                seen.take(run.job, &run.job_name.namespace);
                GrantVerdict::Granted(Box::new(granted), run)
            }
        });
    }
    capacities::close(tx, &ledger)?;
    Ok(verdicts)
}

/// The shard and what its run uses, if the grant still holds.
fn check(
    tx: &Tx<'_>,
    seen: &mut Seen,
    fence: &Fence,
    grant: &Grant,
) -> Result<std::result::Result<(ShardRow, Uses), GrantRefused>> {
    let Some(row) = tx.shard(grant.key)? else {
        return Ok(Err(GrantRefused::NotReady));
    };
    let (run, running) = seen.run(tx, grant.key.run)?;
    let Some(run) = run else {
        return Ok(Err(GrantRefused::NotReady));
    };
    if fence.key != DutyKey::Pool(run.terms.pool.clone()) {
        return Ok(Err(GrantRefused::OldTerm));
    }
    let shard = &row.shard;
    let ready =
        shard.state.is_grantable() && shard.ready_at <= tx.now && shard.token == grant.token;
    if !ready || run.stop.is_some() || run.state.is_closed() || late(run, tx.now).is_some() {
        return Ok(Err(GrantRefused::NotReady));
    }
    let (pool, full) = (run.terms.pool.clone(), *running >= run.terms.parallelism);
    let uses = run.terms.uses.clone();
    let (job, namespace) = (run.job, run.job_name.namespace.clone());
    let (session, held) = seen.session(tx, grant.session)?;
    let judged = match session {
        Some(s) => judge(tx, s, *held, &pool),
        None => Err(GrantRefused::NoSession),
    };
    Ok(match judged {
        Err(refused) => Err(refused),
        Ok(()) if full => Err(GrantRefused::Parallelism),
        Ok(()) if !seen.has_room_of_job(tx, job, grant.most_of_job)? => Err(GrantRefused::Job),
        Ok(()) if !seen.has_room(tx, &namespace)? => Err(GrantRefused::Namespace),
        Ok(()) => Ok((row, uses)),
    })
}

/// Gives a waiting shard to a session.
pub(super) fn hand_over(
    tx: &mut Tx<'_>,
    row: ShardRow,
    session: SessionId,
    limits: Timeouts,
    uses: &Uses,
    born: bool,
) -> Result<Granted> {
    let ShardRow {
        mut shard,
        last_end,
    } = row;
    let now = tx.now;
    let (grant_seq, worker) = tx
        .one(sql::COUNT_GRANT, [int(session.0)], |row| {
            Ok((row.u64(0)?, row.text(1)?))
        })?
        .ok_or_else(|| Error::Corrupt(format!("session {session} is gone in one transaction")))?;
    let from = if born { "" } else { shard.state.word() };
    let before = shard.token;
    shard.state = ShardState::Running;
    shard.token = shard.token.next(tx.counters.epoch);
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
    shard.ver += u32::from(!born);
    let params = rusqlite::params![
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
    tx.must(sql::LEASE_SHARD, params)?;
    capacities::hold(tx, shard.key, shard.token, session, uses)?;
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
fn start(tx: &mut Tx<'_>, run: &mut Run, limits: Timeouts) -> Result<()> {
    run.terms.deadline = limits.deadline(run.terms.deadline, tx.now);
    let params = (int(run.id.0), at(tx.now), opt_at(run.terms.deadline));
    tx.must(sql::START_RUN, params)?;
    let (from, to) = (run.state.word(), RunState::Running.word());
    run.state = RunState::Running;
    run.started_at = Some(tx.now);
    run.ver += 1;
    let happened = Happened::new(Kind::RunStarted, from, to);
    tx.event(&Entity::Run(run.id), run.ver, &happened)
}

pub(super) fn list_overdue(
    read: &Read<'_>,
    pool: &Name,
    grace: SignedDuration,
    limit: u32,
) -> Result<Vec<Overdue>> {
    let most = limit as usize;
    let over = read.all(sql::LIST_HOLDERS, (pool.as_str(), at(read.now)), |row| {
        Ok(SessionId(row.u64(0)?))
    })?;
    let mut found = BTreeMap::new();
    for session in over {
        if found.len() >= most {
            break;
        }
        for row in read.sound(sql::LIST_LEASES, [int(session.0)], |row| row.shard())? {
            found.insert(row.shard.key, (row.shard, true));
        }
    }
    if found.len() < most
        && let Ok(ended_by) = read.now.checked_sub(grace)
    {
        let params = |most| (pool.as_str(), at(ended_by), most);
        for row in read.sound_page(sql::LIST_TIMED_OUT, limit, params, |row| row.shard())? {
            found.entry(row.shard.key).or_insert((row.shard, false));
        }
    }
    let mut overdue = Vec::with_capacity(found.len().min(most));
    let mut runs: BTreeMap<RunId, Run> = BTreeMap::new();
    for (key, (shard, session_over)) in found.into_iter().take(most) {
        let run = match runs.get(&key.run) {
            Some(run) => run,
            None => {
                let run = read.run_row(key.run);
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

pub(super) fn reap(tx: &mut Tx<'_>, fence: &Fence, reaps: Vec<Reap>) -> Result<Vec<ReapVerdict>> {
    let current = tx.under(fence)?;
    let mut verdicts = Vec::with_capacity(reaps.len());
    for reap in reaps {
        let right = match tx.run_row(reap.key.run)? {
            Some(run) => fence.key == DutyKey::Pool(run.terms.pool),
            None => false,
        };
        if !current || !right {
            verdicts.push(ReapVerdict::OldTerm);
            continue;
        }
        let Some(row) = tx.shard(reap.key)? else {
            verdicts.push(ReapVerdict::Gone);
            continue;
        };
        let over = match row.shard.session {
            Some(session) if reap.only_if_session_over => tx.session_over(session)?,
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
        verdicts.push(ReapVerdict::Reaped(shards::end_attempt(tx, row, ended)?));
    }
    Ok(verdicts)
}
