//! What is called at once, on a small store in the middle of things.
//!
//! A node that is not heard any more owns the pool; a worker that is not heard any more holds two
//! shards of three; another worker lives.
//!
//! # Not here
//! In which order the statements go ([`super::schedule`]).

use std::collections::BTreeMap;

use sichen_core::ids::{JobUid, NodeId, OpId, RunId, SessionId, ShardKey};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{StopCause, WaitsFor};
use sichen_core::model::{Dump, DutyKey, Waits, partition_of};
use sichen_core::port::{
    Advance, AdvanceVerdict, ApplyJob, ApplyVerdict, Counted, CreateVerdict, Error, Fence, Finish,
    Grant, GrantVerdict, NewRun, Op, Reap, Register, RegisterVerdict, SaveCheckpoint, Store,
};
use uuid::Uuid;

use crate::bench::{Bench, TTL, pool_key, wait};

/// The one that is two calls.
pub const CLAIM_AND_LEASE: &str = "claim and lease 2";

/// A call with all that it needs.
#[derive(Clone, Debug)]
pub enum Call {
    Finish(Finish),
    Reap(Fence, Reap),
    Stop(RunId),
    Lease(Fence, Grant),
    Claim(NodeId, Vec<DutyKey>),
    Release(Fence),
    Checkpoint(SaveCheckpoint),
    Create(NewRun),
    Advance(Fence, Advance),
    Apply(ApplyJob),
    Pause(Advance, u32),
    EndSession(SessionId),
    Register(Register),
    /// A claim, and a lease by whoever claimed: two calls one after the other.
    ClaimAndLease(NodeId, DutyKey, Grant),
}

/// Every call that can be made in this setting, with a name each; the same in every store.
pub fn calls(b: &Bench) -> Vec<(&'static str, Call)> {
    let job = b.job("settle");
    let run = b.create(b.new_run(job, "first", vec![Descriptor::Index; 3]));
    let shard = |no| ShardKey::new(run, no);
    let old = wait(b.store.register_node(b.op(), "a:1".to_owned(), TTL));
    let keys = vec![pool_key(), DutyKey::Trigger(partition_of(job))];
    let fences = wait(b.store.claim_duties(b.op(), old, keys.clone()));
    let fence = |key: &DutyKey| {
        let found = fences.iter().find(|fence| fence.key == *key);
        found.expect("it was free").clone()
    };
    let (pool, trigger) = (fence(&keys[0]), fence(&keys[1]));
    let silent = b.worker("silent", 4);
    let held = b.register(silent.clone()).session;
    let first = b.lease(&pool, shard(0), held).shard;
    let second = b.lease(&pool, shard(1), held).shard;
    // Node and worker are not heard any more; another worker and another node are.
    b.pass(20);
    let alive = b.register(b.worker("alive", 4)).session;
    let new = wait(b.store.register_node(b.op(), "b:1".to_owned(), TTL));
    let step = Advance {
        runs: vec![b.planned_run(job, b.now())],
        ..b.step(job, b.now())
    };
    let closing = b.step(job, b.now());
    let ver = b.get_job(job).ver;
    let again = Register {
        worker: sichen_core::model::WorkerIdentity {
            incarnation: "second".to_owned(),
            ..silent.worker.clone()
        },
        appearance: sichen_core::model::Appearance {
            start: silent.appearance.start + 100,
            registration: 1,
        },
        ..silent
    };
    // A job whose runs nothing counts: two of them are open, a worker holds one.
    let free = b.free_job("free");
    let [one, two] =
        ["one", "two"].map(|text| b.create(b.new_run(free, text, vec![Descriptor::Whole])));
    let of_free = b.lease(&pool, ShardKey::new(one, 0), alive).shard;
    let begins = ApplyJob {
        document: "{\"job\":\"counted\"}".to_owned(),
        expected_ver: Some(1),
        ..b.new_job("free")
    };
    let waits = NewRun {
        waits: Some(Waits {
            what: WaitsFor::Queue,
            most: 1,
        }),
        ..b.new_run(free, "waits", vec![Descriptor::Whole])
    };
    let judged = NewRun {
        counted: Some(Counted::running(2)),
        ..b.new_run(free, "judged", vec![Descriptor::Whole])
    };
    let edit = ApplyJob {
        document: "{\"job\":\"other\"}".to_owned(),
        closing: Some(closing.clone()),
        ..b.new_job("settle")
    };
    vec![
        (
            "finish 0",
            Call::Finish(b.report(shard(0), first.token, Ending::Succeeded)),
        ),
        (
            "finish 0 again",
            Call::Finish(b.report(shard(0), first.token, Ending::Succeeded)),
        ),
        (
            "fail 1",
            Call::Finish(b.report(shard(1), second.token, Ending::Failed)),
        ),
        (
            "reap 0",
            Call::Reap(pool.clone(), b.reaping(shard(0), first.token)),
        ),
        (
            "reap 1",
            Call::Reap(pool.clone(), b.reaping(shard(1), second.token)),
        ),
        ("stop", Call::Stop(run)),
        (
            "lease 2",
            Call::Lease(pool.clone(), b.grant(shard(2), alive)),
        ),
        (
            "lease 2 again",
            Call::Lease(pool.clone(), b.grant(shard(2), alive)),
        ),
        ("claim", Call::Claim(new, keys)),
        ("release", Call::Release(pool)),
        ("checkpoint 0", Call::Checkpoint(b.checkpoint(&first, 1))),
        (
            "create",
            Call::Create(b.new_run(job, "second", vec![Descriptor::Whole])),
        ),
        (
            "create again",
            Call::Create(b.new_run(job, "second", vec![Descriptor::Whole])),
        ),
        ("advance", Call::Advance(trigger.clone(), step.clone())),
        ("advance again", Call::Advance(trigger, step)),
        ("edit", Call::Apply(edit)),
        ("pause", Call::Pause(closing, ver)),
        ("end session", Call::EndSession(held)),
        (
            "finish free",
            Call::Finish(b.report(of_free.key, of_free.token, Ending::Succeeded)),
        ),
        ("stop free", Call::Stop(two)),
        (
            "create free",
            Call::Create(b.new_run(free, "three", vec![Descriptor::Whole])),
        ),
        ("queue free", Call::Create(waits)),
        ("judge free", Call::Create(judged)),
        ("count free", Call::Apply(begins)),
        ("register", Call::Register(again)),
        // Last: it may be left out.
        (
            CLAIM_AND_LEASE,
            Call::ClaimAndLease(new, pool_key(), b.grant(shard(2), alive)),
        ),
    ]
}

impl Call {
    /// Makes it; what it answers, in words that do not depend on the ids that a store gives out.
    pub async fn make(self, store: &dyn Store, op: u128) -> Result<String, Error> {
        let op = Op {
            id: OpId(Uuid::from_u128(op)),
            actor: "test".to_owned(),
            hold: None,
        };
        Ok(match self {
            Call::Finish(finish) => {
                format!("{:?}", store.finish_attempts(op, vec![finish]).await?)
            }
            Call::Reap(fence, reap) => {
                format!("{:?}", store.reap_shards(op, fence, vec![reap]).await?)
            }
            Call::Stop(run) => {
                format!(
                    "{:?}",
                    store.request_stop(op, None, run, StopCause::Cancel).await?
                )
            }
            Call::Lease(fence, grant) => leased(&store.lease_shards(op, fence, vec![grant]).await?),
            Call::Claim(node, keys) => owned(store.claim_duties(op, node, keys).await?),
            Call::Release(fence) => format!("{:?}", store.release_duties(op, vec![fence]).await?),
            Call::Checkpoint(item) => {
                format!("{:?}", store.save_checkpoints(op, vec![item]).await?)
            }
            Call::Create(run) => created(&store.create_runs(op, vec![], vec![run]).await?),
            Call::Advance(fence, step) => {
                match store
                    .advance_schedules(op, vec![fence], vec![step])
                    .await?
                    .remove(0)
                {
                    AdvanceVerdict::Advanced(runs) => format!("advanced: {}", created(&runs)),
                    other => format!("{other:?}"),
                }
            }
            Call::Apply(job) => applied(&store.apply_job(op, job).await?),
            Call::Pause(closing, ver) => {
                applied(&store.set_job_paused(op, true, closing, ver).await?)
            }
            Call::EndSession(session) => {
                let ended = store.end_session(op, None, session, "drained".to_owned());
                format!("{:?}", ended.await?)
            }
            Call::Register(register) => match store.register_session(op, register).await? {
                RegisterVerdict::Registered(_) => "registered".to_owned(),
                other => format!("{other:?}"),
            },
            Call::ClaimAndLease(node, key, grant) => {
                let second = Op {
                    id: OpId(Uuid::from_u128(op.id.0.as_u128() + 1_000)),
                    ..op.clone()
                };
                let fences = store.claim_duties(op, node, vec![key]).await?;
                let Some(fence) = fences.first().cloned() else {
                    return Ok(NOTHING.to_owned());
                };
                let leases = store.lease_shards(second, fence, vec![grant]).await?;
                format!("{}: {}", owned(fences), leased(&leases))
            }
        })
    }
}

/// What a claim answers that finds nothing.
const NOTHING: &str = "nothing to claim";

impl Call {
    /// The call that a serial order makes where this one was answered so: a duty that somebody wrote under
    /// is left by a claim as if it had not been asked for.
    pub fn given_answer(mut self, told: &str) -> Option<Self> {
        match &mut self {
            Call::Claim(_, keys) => keys.retain(|key| told.contains(&key.text())),
            Call::ClaimAndLease(..) if told == NOTHING => return None,
            _ => {}
        }
        Some(self)
    }
}

fn owned(mut fences: Vec<Fence>) -> String {
    fences.sort_by_key(|fence| fence.key.text());
    let terms = fences.iter();
    let terms = terms.map(|f| format!("{} {}", f.key.text(), f.term));
    terms.collect::<Vec<_>>().join(", ")
}

fn leased(verdicts: &[GrantVerdict]) -> String {
    let words = verdicts.iter().map(|verdict| match verdict {
        GrantVerdict::Granted(granted, _) => format!("granted {}", granted.shard.token),
        GrantVerdict::Refused(why) => format!("{why:?}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn created(verdicts: &[CreateVerdict]) -> String {
    let words = verdicts.iter().map(|verdict| match verdict {
        CreateVerdict::Created(..) => "created",
        CreateVerdict::Exists(_) => "exists",
        CreateVerdict::OtherRequest(_) => "other request",
        CreateVerdict::Conflict => "conflict",
        CreateVerdict::Full(_) => "full",
    });
    words.collect::<Vec<_>>().join(", ")
}

fn applied(verdict: &ApplyVerdict) -> String {
    match verdict {
        ApplyVerdict::Created(_) => "created".to_owned(),
        ApplyVerdict::Updated(_, revision) => format!("updated to {revision:?}"),
        ApplyVerdict::Unchanged(_, revision) => format!("unchanged at {revision:?}"),
        ApplyVerdict::Conflict => "conflict".to_owned(),
    }
}

/// What a store holds, in words that do not depend on the ids that it gave out.
pub fn summary(dump: &Dump) -> Vec<String> {
    let occasions: BTreeMap<RunId, String> = dump
        .runs
        .iter()
        .map(|run| (run.id, run.occasion.key()))
        .collect();
    let name = |run: &RunId| occasions.get(run).cloned().unwrap_or_default();
    let names: BTreeMap<JobUid, String> = dump
        .jobs
        .iter()
        .map(|job| (job.uid, job.name.to_string()))
        .collect();
    let mut lines = Vec::new();
    for job in &dump.jobs {
        lines.push(format!(
            "job {} ver {} revision {:?} {:?} active {} waiting {} mark {}",
            job.name,
            job.ver,
            job.revision,
            job.counting,
            job.active_runs,
            job.waiting_runs,
            job.high_water
        ));
    }
    for run in &dump.runs {
        lines.push(format!(
            "run {} {} {:?} ver {} {:?} stop {:?}",
            names.get(&run.job).cloned().unwrap_or_default(),
            run.occasion.key(),
            run.state,
            run.ver,
            run.counters,
            run.stop.map(|(cause, _)| cause)
        ));
    }
    for shard in &dump.shards {
        lines.push(format!(
            "shard {}/{} {:?} ver {} token {} attempt {} used {} checkpoint {} held {}",
            name(&shard.key.run),
            shard.key.no.0,
            shard.state,
            shard.ver,
            shard.token,
            shard.attempt,
            shard.used,
            shard.checkpoint.seq,
            shard.session.is_some()
        ));
    }
    for duty in &dump.duties {
        let owned = duty.node.is_some();
        lines.push(format!(
            "duty {} term {} owned {owned}",
            duty.key.text(),
            duty.term
        ));
    }
    for session in &dump.sessions {
        let ended = session.ended.is_some();
        lines.push(format!(
            "session {} ended {ended} ver {}",
            session.worker.incarnation, session.ver
        ));
    }
    for event in &dump.events {
        lines.push(format!(
            "event {} {} {}->{} ver {} {:?} {:?}",
            event.entity.kind(),
            event.kind,
            event.from,
            event.to,
            event.ver,
            event.attempt,
            event.token
        ));
    }
    lines.sort();
    lines
}
