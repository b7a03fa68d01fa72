//! Rows of the store as lines: everything that a row has, told apart by `row`.
//!
//! # Not here
//! What the API shows of the same facts ([`super::wire`]): that is less, and for people.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sichen_core::capacity::Uses;
use sichen_core::ids::{
    BackfillId, JobUid, NodeId, Occasion, Revision, RunId, SessionId, ShardKey, Term, Token,
};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::run::Counters;
use sichen_core::lifecycle::{RunState, ShardState, StopCause, WaitsFor};
use sichen_core::model::{
    Appearance, Checkpoint, Counting, Decision, Duty, DutyKey, Failure, Hold, Job, Period,
    Progress, Run, RunTerms, Session, Shard, Waits, WorkerIdentity,
};
use sichen_core::name::{JobName, Name};
use sichen_core::place::Offer;
use sichen_core::schedule::Nominal;
use sichen_core::schedule::follow::Chain;
use sichen_core::schedule::zones::Zones;

use super::Line;
use super::backfills::BackfillRow;

/// A row.
#[derive(Serialize, Deserialize)]
#[serde(tag = "row", rename_all = "snake_case")]
pub(super) enum Row {
    Job(JobRow),
    Revision(RevisionRow),
    Calendar(CalendarRow),
    Run(Box<RunRow>),
    Shard(Box<ShardRow>),
    Session(SessionRow),
    Duty(DutyRow),
    Backfill(Box<BackfillRow>),
    Decision(DecisionRow),
    Hold(HoldRow),
}

#[derive(Serialize, Deserialize)]
pub(super) struct JobRow {
    uid: String,
    namespace: String,
    name: String,
    revision: u32,
    ver: u32,
    document: String,
    paused: bool,
    high_water: Timestamp,
    next_due: Option<Timestamp>,
    active_runs: u32,
    #[serde(default)]
    waiting_runs: u32,
    /// Left out where they are always counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counting: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chain: Option<Chain>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zones: Option<Zones>,
    created_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
pub(super) struct RevisionRow {
    job: String,
    revision: u32,
    document: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct CalendarRow {
    namespace: String,
    name: String,
    version: u32,
    document: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct HoldRow {
    run: u64,
    no: i32,
    token: u64,
    capacity: String,
    units: u32,
    session: u64,
    since: Timestamp,
    until: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct RunRow {
    id: u64,
    job: String,
    namespace: String,
    name: String,
    occasion: String,
    revision: u32,
    period: Option<(Timestamp, Timestamp)>,
    #[serde(default)]
    nominal: Option<Nominal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backfill: Option<u64>,
    #[serde(default)]
    waits: Option<(String, u32)>,
    #[serde(default)]
    ready_at: Option<Timestamp>,
    #[serde(default)]
    dead_by: Option<Timestamp>,
    #[serde(default)]
    stop_detail: String,
    #[serde(default)]
    start_by: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    uses: BTreeMap<String, u32>,
    pool: String,
    handler: String,
    priority: i32,
    parallelism: u32,
    parameters: String,
    counts_must_match: bool,
    deadline: Option<Timestamp>,
    state: String,
    round: u32,
    ver: u32,
    total: u32,
    open: u32,
    succeeded: u32,
    failed: u32,
    cancelled: u32,
    #[serde(default)]
    failures: u32,
    stop: Option<(String, Timestamp)>,
    reason: String,
    digest: String,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ShardRow {
    run: u64,
    no: i32,
    descriptor: Descriptor,
    state: String,
    ver: u32,
    token: u64,
    attempt: u32,
    used: u32,
    takeovers: u32,
    ready_at: Timestamp,
    session: Option<u64>,
    grant_seq: u64,
    timeout_at: Option<Timestamp>,
    #[serde(default)]
    attempt_until: Option<Timestamp>,
    #[serde(default)]
    stall_us: Option<i64>,
    digest: String,
    checkpoint_seq: u64,
    position: String,
    done: u64,
    expected: Option<u64>,
    rate_milli: u64,
    waiting_on: String,
    failure: Option<(String, String)>,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    #[serde(default)]
    discarded_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct SessionRow {
    id: u64,
    ver: u32,
    name: String,
    uid: String,
    boot_id: String,
    incarnation: String,
    #[serde(default)]
    start: u64,
    #[serde(default)]
    registration: u64,
    pool: String,
    slots: u32,
    handlers: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    offer: Option<String>,
    draining: bool,
    grant_seq: u64,
    registered_at: Timestamp,
    expires_at: Timestamp,
    ended: Option<(Timestamp, String)>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct DutyRow {
    key: String,
    term: u64,
    node: Option<u64>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct DecisionRow {
    job: String,
    from: Timestamp,
    to: Timestamp,
    count: u64,
    reason: String,
    reference: String,
    #[serde(default)]
    filled: u64,
    #[serde(default)]
    filled_by: Option<u64>,
}

impl Row {
    pub fn job(job: Job) -> Self {
        Row::Job(JobRow {
            uid: job.uid.to_string(),
            namespace: job.name.namespace.to_string(),
            name: job.name.name.to_string(),
            revision: job.revision.0,
            ver: job.ver,
            document: job.document,
            paused: job.paused,
            high_water: job.high_water,
            next_due: job.next_due,
            active_runs: job.active_runs,
            waiting_runs: job.waiting_runs,
            counting: (job.counting != Counting::Always).then(|| job.counting.word().to_owned()),
            chain: job.chain,
            zones: job.zones,
            created_at: job.created_at,
        })
    }

    pub fn calendar((name, version, document): (JobName, u32, String)) -> Self {
        Row::Calendar(CalendarRow {
            namespace: name.namespace.to_string(),
            name: name.name.to_string(),
            version,
            document,
        })
    }

    pub fn revision((job, revision, document): (JobUid, Revision, String)) -> Self {
        Row::Revision(RevisionRow {
            job: job.to_string(),
            revision: revision.0,
            document,
        })
    }

    pub fn run(run: Run) -> Self {
        Row::Run(Box::new(RunRow {
            id: run.id.0,
            job: run.job.to_string(),
            namespace: run.job_name.namespace.to_string(),
            name: run.job_name.name.to_string(),
            occasion: run.occasion.key(),
            revision: run.revision.0,
            period: run.period.map(|p| (p.start, p.end)),
            nominal: run.nominal,
            backfill: run.backfill.map(|id| id.0),
            waits: run
                .waits
                .map(|waits| (waits.what.word().to_owned(), waits.most)),
            ready_at: run.ready_at,
            dead_by: run.dead_by,
            stop_detail: run.stop_detail,
            start_by: run.terms.start_by,
            uses: weights(&run.terms.uses),
            pool: run.terms.pool.to_string(),
            handler: run.terms.handler,
            priority: run.terms.priority,
            parallelism: run.terms.parallelism,
            parameters: run.terms.parameters,
            counts_must_match: run.terms.counts_must_match,
            deadline: run.terms.deadline,
            state: run.state.word().to_owned(),
            round: run.round,
            ver: run.ver,
            total: run.counters.total,
            open: run.counters.open,
            succeeded: run.counters.succeeded,
            failed: run.counters.failed,
            cancelled: run.counters.cancelled,
            failures: run.failures,
            stop: run.stop.map(|(cause, at)| (cause.word().to_owned(), at)),
            reason: run.reason,
            digest: run.digest,
            created_at: run.created_at,
            started_at: run.started_at,
            ended_at: run.ended_at,
        }))
    }

    pub fn shard(shard: Shard) -> Self {
        Row::Shard(Box::new(ShardRow {
            run: shard.key.run.0,
            no: shard.key.no.0,
            descriptor: shard.descriptor,
            state: shard.state.word().to_owned(),
            ver: shard.ver,
            token: shard.token.0,
            attempt: shard.attempt,
            used: shard.used,
            takeovers: shard.takeovers,
            ready_at: shard.ready_at,
            session: shard.session.map(|s| s.0),
            grant_seq: shard.grant_seq,
            timeout_at: shard.timeout_at,
            attempt_until: shard.attempt_until,
            stall_us: shard.stall.and_then(|s| i64::try_from(s.as_micros()).ok()),
            digest: shard.digest,
            checkpoint_seq: shard.checkpoint.seq,
            position: shard.checkpoint.position,
            done: shard.progress.done,
            expected: shard.progress.expected,
            rate_milli: shard.progress.rate_milli,
            waiting_on: shard.progress.waiting_on,
            failure: shard.failure.map(|f| (f.code, f.message)),
            started_at: shard.started_at,
            ended_at: shard.ended_at,
            discarded_at: shard.discarded_at,
        }))
    }

    pub fn session(session: Session) -> Self {
        Row::Session(SessionRow {
            id: session.id.0,
            ver: session.ver,
            name: session.worker.name.to_string(),
            uid: session.worker.uid,
            boot_id: session.worker.boot_id,
            incarnation: session.worker.incarnation,
            start: session.appearance.start,
            registration: session.appearance.registration,
            pool: session.pool.to_string(),
            slots: session.slots,
            handlers: session.handlers,
            offer: session.offer.text(),
            draining: session.draining,
            grant_seq: session.grant_seq,
            registered_at: session.registered_at,
            expires_at: session.expires_at,
            ended: session.ended,
        })
    }

    pub fn duty(duty: Duty) -> Self {
        Row::Duty(DutyRow {
            key: duty.key.text(),
            term: duty.term.0,
            node: duty.node.map(|n| n.0),
        })
    }

    pub fn hold(hold: Hold) -> Self {
        Row::Hold(HoldRow {
            run: hold.key.run.0,
            no: hold.key.no.0,
            token: hold.token.0,
            capacity: hold.capacity.to_string(),
            units: hold.units,
            session: hold.session.0,
            since: hold.since,
            until: hold.until,
        })
    }

    pub fn decision(job: JobUid, decision: Decision) -> Self {
        Row::Decision(DecisionRow {
            job: job.to_string(),
            from: decision.from,
            to: decision.to,
            count: decision.count,
            reason: decision.reason,
            reference: decision.reference,
            filled: decision.filled,
            filled_by: decision.filled_by.map(|run| run.0),
        })
    }

    /// The row as the store had it.
    pub fn into_line(self) -> Result<Line, String> {
        Ok(match self {
            Row::Hold(row) => Line::Hold(Hold {
                key: ShardKey::new(RunId(row.run), row.no),
                token: Token(row.token),
                capacity: name(&row.capacity)?,
                units: row.units,
                session: SessionId(row.session),
                since: row.since,
                until: row.until,
            }),
            Row::Job(row) => Line::Job(Job {
                uid: uid(&row.uid)?,
                name: job_name(&row.namespace, &row.name)?,
                revision: Revision(row.revision),
                ver: row.ver,
                document: row.document,
                paused: row.paused,
                high_water: row.high_water,
                next_due: row.next_due,
                chain: row.chain,
                zones: row.zones,
                counting: match &row.counting {
                    None => Counting::Always,
                    Some(word) => Counting::parse(word)
                        .ok_or_else(|| format!("{word:?} says nothing of what is counted"))?,
                },
                active_runs: row.active_runs,
                waiting_runs: row.waiting_runs,
                created_at: row.created_at,
            }),
            Row::Calendar(row) => {
                let name = JobName::new(&row.namespace, &row.name);
                let name = name.map_err(|e| format!("a calendar's name {e}"))?;
                Line::Calendar(name, row.version, row.document)
            }
            Row::Revision(row) => {
                Line::Revision(uid(&row.job)?, Revision(row.revision), row.document)
            }
            Row::Run(row) => Line::Run(run(*row)?),
            Row::Shard(row) => Line::Shard(shard(*row)?),
            Row::Session(row) => Line::Session(session(row)?),
            Row::Duty(row) => Line::Duty(Duty {
                key: known(DutyKey::parse(&row.key), "duty", &row.key)?,
                term: Term(row.term),
                node: row.node.map(NodeId),
            }),
            Row::Backfill(row) => Line::Backfill(row.into_backfill()?),
            Row::Decision(row) => Line::Decision(
                uid(&row.job)?,
                Decision {
                    from: row.from,
                    to: row.to,
                    count: row.count,
                    reason: row.reason,
                    reference: row.reference,
                    filled: row.filled,
                    filled_by: row.filled_by.map(RunId),
                },
            ),
        })
    }
}

pub(super) fn known<T>(value: Option<T>, what: &str, word: &str) -> Result<T, String> {
    value.ok_or_else(|| format!("unknown {what} {word:?}"))
}

pub(super) fn uid(text: &str) -> Result<JobUid, String> {
    let parsed = text.parse().map(JobUid);
    parsed.map_err(|e| format!("job uid {text:?}: {e}"))
}

fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|e| format!("the name {text:?} {e}"))
}

fn job_name(namespace: &str, job: &str) -> Result<JobName, String> {
    Ok(JobName {
        namespace: name(namespace)?,
        name: name(job)?,
    })
}

fn weights(uses: &Uses) -> BTreeMap<String, u32> {
    uses.iter()
        .map(|(name, units)| (name.to_string(), units))
        .collect()
}

fn uses(weights: BTreeMap<String, u32>) -> Result<Uses, String> {
    let named = weights.into_iter().map(|(text, n)| Ok((name(&text)?, n)));
    Ok(Uses::new(named.collect::<Result<Vec<_>, String>>()?))
}

fn run(row: RunRow) -> Result<Run, String> {
    let stop = match row.stop {
        Some((cause, at)) => Some((known(StopCause::parse(&cause), "cause", &cause)?, at)),
        None => None,
    };
    let waits = match row.waits {
        Some((what, most)) => {
            let what = known(WaitsFor::parse(&what), "wait", &what)?;
            Some(Waits { what, most })
        }
        None => None,
    };
    Ok(Run {
        id: RunId(row.id),
        job: uid(&row.job)?,
        job_name: job_name(&row.namespace, &row.name)?,
        occasion: known(Occasion::parse(&row.occasion), "occasion", &row.occasion)?,
        revision: Revision(row.revision),
        period: row.period.map(|(start, end)| Period { start, end }),
        nominal: row.nominal,
        backfill: row.backfill.map(BackfillId),
        waits,
        ready_at: row.ready_at,
        dead_by: row.dead_by,
        terms: RunTerms {
            pool: name(&row.pool)?,
            handler: row.handler,
            priority: row.priority,
            parallelism: row.parallelism,
            parameters: row.parameters,
            counts_must_match: row.counts_must_match,
            deadline: row.deadline,
            start_by: row.start_by,
            uses: uses(row.uses)?,
        },
        state: known(RunState::parse(&row.state), "state", &row.state)?,
        round: row.round,
        ver: row.ver,
        counters: Counters {
            total: row.total,
            open: row.open,
            succeeded: row.succeeded,
            failed: row.failed,
            cancelled: row.cancelled,
        },
        failures: row.failures,
        stop,
        stop_detail: row.stop_detail,
        reason: row.reason,
        digest: row.digest,
        created_at: row.created_at,
        started_at: row.started_at,
        ended_at: row.ended_at,
    })
}

fn shard(row: ShardRow) -> Result<Shard, String> {
    Ok(Shard {
        key: ShardKey::new(RunId(row.run), row.no),
        descriptor: row.descriptor,
        state: known(ShardState::parse(&row.state), "state", &row.state)?,
        ver: row.ver,
        token: Token(row.token),
        attempt: row.attempt,
        used: row.used,
        takeovers: row.takeovers,
        ready_at: row.ready_at,
        session: row.session.map(SessionId),
        grant_seq: row.grant_seq,
        timeout_at: row.timeout_at,
        attempt_until: row.attempt_until,
        stall: row.stall_us.map(SignedDuration::from_micros),
        digest: row.digest,
        checkpoint: Checkpoint {
            seq: row.checkpoint_seq,
            position: row.position,
        },
        progress: Progress {
            done: row.done,
            expected: row.expected,
            rate_milli: row.rate_milli,
            waiting_on: row.waiting_on,
        },
        failure: row.failure.map(|(code, message)| Failure { code, message }),
        started_at: row.started_at,
        ended_at: row.ended_at,
        discarded_at: row.discarded_at,
    })
}

fn session(row: SessionRow) -> Result<Session, String> {
    Ok(Session {
        id: SessionId(row.id),
        ver: row.ver,
        worker: WorkerIdentity {
            name: name(&row.name)?,
            uid: row.uid,
            boot_id: row.boot_id,
            incarnation: row.incarnation,
        },
        appearance: Appearance {
            start: row.start,
            registration: row.registration,
        },
        pool: name(&row.pool)?,
        slots: row.slots,
        handlers: row.handlers,
        offer: match row.offer {
            Some(text) => Offer::parse(&text).ok_or("an offer that can't be read")?,
            None => Offer::default(),
        },
        draining: row.draining,
        grant_seq: row.grant_seq,
        registered_at: row.registered_at,
        expires_at: row.expires_at,
        ended: row.ended,
    })
}
