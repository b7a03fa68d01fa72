//! Between the wire's messages and the engine's values, by hand.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use sichen_core::access::MAX_JOIN_HANDLER_BYTES;
use sichen_core::document::{KeysSpec, ShardsSpec, is_label_name, is_resource_name};
use sichen_core::ids::{SessionId, ShardKey, Token};
use sichen_core::layout::Descriptor;
use sichen_core::lease::Rhythm;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::{Appearance, Checkpoint, Failure, Progress, WorkerIdentity, run_key};
use sichen_core::name::Name;
use sichen_core::place::{MAX_LABELS, MAX_RESOURCES, Offer, Resources, quantity};
use sichen_core::port::{CheckpointVerdict, Returned, SaveCheckpoint};
use sichen_core::timeouts::Overrun;
use sichen_engine::courier::{StopReason, ToWorker};
use sichen_engine::dispatch::data_source_handler;
use sichen_engine::sessions::{Hello, Plan, Report, ReportVerdict};
use sichen_engine::work::Work;
use sichen_proto::v1::server_message::Message;
use sichen_proto::{MAX_POSITION_BYTES, v1};

/// Handlers and data sources that one worker may offer.
const MAX_HANDLERS: usize = 1_000;
/// The longest uid, boot id and incarnation of a worker, in bytes each.
const MAX_ID_BYTES: usize = 128;
/// Stands between name and uid of a worker that is bound to its name; in no uid that a worker says itself.
const BOUND: char = '/';

/// A length of time as the wire has it.
pub(super) fn length(ms: u64) -> SignedDuration {
    SignedDuration::from_millis(i64::try_from(ms).unwrap_or(i64::MAX))
}

pub(super) fn message(message: Message) -> v1::ServerMessage {
    v1::ServerMessage {
        message: Some(message),
    }
}

pub(super) fn refused(code: &str, text: &str) -> v1::ServerMessage {
    let refused = v1::Refused {
        code: code.to_owned(),
        message: text.to_owned(),
    };
    message(Message::Refused(refused))
}

pub(super) fn session_lost() -> v1::ServerMessage {
    let reason = "the session is over; register anew".to_owned();
    message(Message::SessionLost(v1::SessionLost { reason }))
}

pub(super) fn superseded() -> v1::ServerMessage {
    let detail = "a newer process of this worker has registered".to_owned();
    message(Message::Superseded(v1::Superseded { detail }))
}

pub(super) fn shard(shard: &v1::ShardRef) -> ShardKey {
    ShardKey::new(sichen_core::ids::RunId(shard.run_id), shard.no)
}

pub(super) fn shard_ref(key: ShardKey) -> Option<v1::ShardRef> {
    Some(v1::ShardRef {
        run_id: key.run.0,
        no: key.no.0,
    })
}

pub(super) fn held(held: &v1::Held) -> Option<(ShardKey, Token)> {
    Some((shard(held.shard.as_ref()?), Token(held.token)))
}

pub(super) fn progress(counters: &v1::Counters) -> Progress {
    let rate = counters.rate.unwrap_or(0.0).clamp(0.0, 1e12) * 1000.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped"
    )]
    let rate_milli = rate as u64;
    // Counts beyond 2^53 are no counts; the store's integers are signed.
    let count = |n: u64| n.min(1 << 53);
    Progress {
        done: count(counters.done.unwrap_or(0)),
        expected: counters.expected.map(count),
        rate_milli,
        waiting_on: clean(&counters.waiting_on, 256),
    }
}

/// Foreign text as every store can take it: at most `bytes` long, and without NUL characters, which
/// PostgreSQL has no place for. What a process wrote to its stderr may have any.
pub(super) fn clean(text: &str, bytes: usize) -> String {
    let text = text.replace('\0', "\u{fffd}");
    text[..text.floor_char_boundary(bytes)].to_owned()
}

/// By what a worker is known that is bound to its name.
pub(super) fn bound_uid(name: &Name, uid: &str) -> String {
    format!("{name}{BOUND}{uid}")
}

/// What a worker is known by is kept with its session, and its handlers are looked at by each plan.
fn fits(hello: &v1::Hello, handlers: &[String]) -> Result<(), String> {
    let ids = [&hello.worker_uid, &hello.boot_id, &hello.incarnation];
    if ids.iter().any(|id| id.len() > MAX_ID_BYTES) {
        return Err(format!(
            "SC4004: a uid, boot id or incarnation of more than {MAX_ID_BYTES} bytes"
        ));
    }
    if hello.worker_uid.contains(BOUND) {
        return Err(format!("SC4004: a uid with the character {BOUND:?}"));
    }
    if handlers.len() > MAX_HANDLERS {
        return Err(format!(
            "SC4004: {} handlers and data sources; a worker has at most {MAX_HANDLERS}",
            handlers.len()
        ));
    }
    let long = |name: &&String| name.len() > MAX_JOIN_HANDLER_BYTES;
    if let Some(name) = handlers.iter().find(long) {
        return Err(format!(
            "SC4004: the handler {:?}… has more than {MAX_JOIN_HANDLER_BYTES} bytes",
            clean(name, 32)
        ));
    }
    let mut texts = ids.into_iter().chain(handlers);
    if texts.any(|text| text.contains('\0')) {
        return Err("SC4004: a NUL character in an id or in the name of a handler".to_owned());
    }
    Ok(())
}

/// A Hello; an error names what makes no sense in it.
pub(super) fn hello(hello: v1::Hello) -> Result<Hello, String> {
    let name = |what: &str, text: &str| {
        Name::new(text).map_err(|e| format!("SC4004: the {what} {text:?} {e}"))
    };
    let handlers = handlers(&hello);
    fits(&hello, &handlers)?;
    let offer = offer(&hello)?;
    let mut journal = Vec::new();
    let mut dead = Vec::new();
    for entry in hello.journal {
        let token = Token(entry.token);
        match (entry.state, entry.shard) {
            (Some(v1::journaled_attempt::State::Finished(finish)), _) => {
                journal.extend(report(finish));
            }
            (Some(v1::journaled_attempt::State::RunningDead(_)), Some(key)) => {
                dead.push((shard(&key), token));
            }
            (_, _) => return Err("SC4004: a journal entry without shard or state".to_owned()),
        }
    }
    Ok(Hello {
        worker: WorkerIdentity {
            name: name("worker name", &hello.worker_name)?,
            uid: hello.worker_uid,
            boot_id: hello.boot_id,
            incarnation: hello.incarnation,
        },
        appearance: Appearance {
            start: hello.start,
            registration: hello.registration,
        },
        pool: name("pool", &hello.pool)?,
        slots: hello.slots,
        handlers,
        offer,
        draining: hello.draining,
        resume: hello.resume_session.map(SessionId),
        running: hello.running.iter().filter_map(held).collect(),
        highest_grant_seen: hello.highest_grant_seen,
        journal,
        dead,
        old_trees_dead: hello.old_trees_dead,
    })
}

/// A worker's labels, without those that name data sources, and its resources.
fn offer(hello: &v1::Hello) -> Result<Offer, String> {
    let source = data_source_handler("");
    let labels = hello
        .labels
        .iter()
        .filter(|(label, _)| !label.starts_with(&source));
    let labels: BTreeMap<String, String> = labels
        .map(|(label, value)| (label.clone(), value.clone()))
        .collect();
    let too_many = |what: &str, n: usize, most: usize| {
        Err(format!("SC4004: {n} {what}; a worker has at most {most}"))
    };
    if labels.len() > MAX_LABELS {
        return too_many("labels", labels.len(), MAX_LABELS);
    }
    if hello.resources.len() > MAX_RESOURCES {
        return too_many("resources", hello.resources.len(), MAX_RESOURCES);
    }
    let wrong = labels
        .iter()
        .find(|(label, value)| !is_label_name(label) || value.len() > 255 || value.contains('\0'));
    if let Some((label, value)) = wrong {
        return Err(format!(
            "SC4004: {label:?}: {value:?} is no label of a worker"
        ));
    }
    let amount = |n: u64| (1..=quantity::MAX).contains(&n);
    let mut resources = hello.resources.iter();
    if let Some((name, n)) = resources.find(|(name, n)| !is_resource_name(name) || !amount(**n)) {
        return Err(format!("SC4004: {name:?}: {n} is no resource of a worker"));
    }
    let resources = hello.resources.iter().map(|(name, n)| (name.clone(), *n));
    Ok(Offer::new(labels, Resources::new(resources)))
}

/// What a worker offers: its handlers, and its data sources, which it names by labels.
fn handlers(hello: &v1::Hello) -> Vec<String> {
    let prefix = data_source_handler("");
    let sources = hello.labels.keys().filter(|l| l.starts_with(&prefix));
    hello.handlers.iter().chain(sources).cloned().collect()
}

/// The end of an attempt; `None` if it names no shard.
pub(super) fn report(finish: v1::Finish) -> Option<Report> {
    let key = shard(finish.shard.as_ref()?);
    let why = finish.reason();
    let kind = finish
        .error
        .as_ref()
        .map_or(v1::ErrorKind::Unspecified, v1::AttemptError::kind);
    let ending = match (finish.outcome(), kind) {
        (v1::Outcome::Succeeded, _) => Ending::Succeeded,
        (v1::Outcome::TimedOut, _) => Ending::TimedOut,
        (v1::Outcome::Cancelled, _) => Ending::Cancelled,
        (v1::Outcome::Released, _) => Ending::Released,
        (_, v1::ErrorKind::FatalShard) => Ending::FailedForGood,
        (_, v1::ErrorKind::FatalRun) => Ending::FailedRun,
        (v1::Outcome::Failed | v1::Outcome::Unspecified, _) => Ending::Failed,
    };
    let plan = finish
        .plan
        .and_then(|plan| plan.plan)
        .map(|plan| match plan {
            v1::plan_result::Plan::IntBounds(b) => Plan::Extremes(Some((b.min, b.max))),
            v1::plan_result::Plan::TimeBounds(b) => Plan::Extremes(Some((b.min_us, b.max_us))),
            v1::plan_result::Plan::Items(items) => Plan::Items(items.items),
            v1::plan_result::Plan::Nothing(v1::Nothing {}) => Plan::Extremes(None),
        });
    Some(Report {
        key,
        token: Token(finish.token),
        ending,
        digest: hex(&finish.digest),
        failure: finish.error.map(failure).or_else(|| unsaid(ending, why)),
        progress: finish.counters.as_ref().map(progress),
        plan,
        run_key: clean(&finish.run_key, 512),
        returned: Returned::of(&finish.result),
    })
}

fn failure(error: v1::AttemptError) -> Failure {
    Failure {
        code: clean(&error.code, 128),
        message: clean(&error.message, 4096),
    }
}

/// What an ending says by itself, where the worker said no more.
fn unsaid(ending: Ending, why: v1::Reason) -> Option<Failure> {
    let (code, message) = match ending {
        Ending::TimedOut if why == v1::Reason::Stalled => (
            Overrun::Stall.code(),
            "the attempt gave no sign of progress for longer than its stall timeout",
        ),
        Ending::TimedOut => (
            Overrun::Attempt.code(),
            "the attempt took longer than its timeout",
        ),
        Ending::Failed | Ending::FailedForGood | Ending::FailedRun => {
            ("failed", "the worker gave no reason")
        }
        Ending::Succeeded | Ending::Lost | Ending::Cancelled | Ending::Released => return None,
    };
    Some(Failure {
        code: code.to_owned(),
        message: message.to_owned(),
    })
}

/// At least one character, since an empty digest stands for "no report yet".
fn hex(digest: &[u8]) -> String {
    let mut text = String::from("d");
    for byte in digest.iter().take(64) {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

pub(super) fn checkpoint(
    report: v1::CheckpointReport,
    session: SessionId,
) -> Option<SaveCheckpoint> {
    let key = shard(report.shard.as_ref()?);
    let checkpoint = report.checkpoint?;
    if checkpoint.position.len() > MAX_POSITION_BYTES {
        return None;
    }
    let position = String::from_utf8(checkpoint.position).ok()?;
    if position.contains('\0') {
        // Changed it would be another position.
        return None;
    }
    Some(SaveCheckpoint {
        key,
        token: Token(report.token),
        session,
        checkpoint: Some(Checkpoint {
            seq: checkpoint.seq,
            position,
        }),
        progress: checkpoint
            .counters
            .as_ref()
            .map(progress)
            .unwrap_or_default(),
        idle: SignedDuration::ZERO,
    })
}

pub(super) fn checkpoint_ack(
    item: &SaveCheckpoint,
    verdict: CheckpointVerdict,
) -> v1::CheckpointAck {
    let verdict = match verdict {
        CheckpointVerdict::Saved => v1::Verdict::Accepted,
        CheckpointVerdict::Old => v1::Verdict::Duplicate,
        CheckpointVerdict::Stale { .. } | CheckpointVerdict::SessionOver => v1::Verdict::Stale,
    };
    v1::CheckpointAck {
        shard: shard_ref(item.key),
        token: item.token.0,
        seq: item.checkpoint.as_ref().map_or(0, |c| c.seq),
        verdict: verdict.into(),
    }
}

pub(super) fn finish_ack(key: ShardKey, token: Token, verdict: ReportVerdict) -> v1::FinishAck {
    let (verdict, detail) = match verdict {
        ReportVerdict::Accepted => (v1::Verdict::Accepted, String::new()),
        ReportVerdict::Duplicate => (v1::Verdict::Duplicate, String::new()),
        ReportVerdict::Stale { detail } => (v1::Verdict::Stale, detail),
        ReportVerdict::Contradicts => (
            v1::Verdict::Conflict,
            "SC2005: this attempt has reported another end before; the first one stands".to_owned(),
        ),
        ReportVerdict::RetryLater => (v1::Verdict::RetryLater, String::new()),
    };
    v1::FinishAck {
        shard: shard_ref(key),
        token: token.0,
        verdict: verdict.into(),
        detail,
    }
}

fn stop(stop: Vec<(ShardKey, Token, StopReason)>) -> Vec<v1::Stop> {
    let one = |(key, token, why): (ShardKey, Token, StopReason)| v1::Stop {
        shard: shard_ref(key),
        token: token.0,
        reason: reason(why).into(),
    };
    stop.into_iter().map(one).collect()
}

fn reason(why: StopReason) -> v1::Reason {
    match why {
        StopReason::CancelRequested => v1::Reason::CancelRequested,
        StopReason::AttemptTimeout => v1::Reason::AttemptTimeout,
        StopReason::RunStopped => v1::Reason::RunDeadline,
        StopReason::Preempted => v1::Reason::Preempted,
        StopReason::StaleToken => v1::Reason::StaleToken,
    }
}

fn millis(length: SignedDuration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(0)
}

pub(super) fn welcome(
    session: SessionId,
    rhythm: Rhythm,
    acks: Vec<((ShardKey, Token), ReportVerdict)>,
    stops: Vec<(ShardKey, Token, StopReason)>,
) -> v1::ServerMessage {
    let verdicts = acks
        .into_iter()
        .map(|((key, token), v)| finish_ack(key, token, v));
    message(Message::Welcome(v1::Welcome {
        session_id: session.0,
        session_ttl_ms: millis(rhythm.ttl),
        beat_ms: millis(rhythm.beat),
        journal_verdicts: verdicts.collect(),
        stop: stop(stops),
    }))
}

pub(super) fn beat_ack(
    seq: u64,
    valid_for: SignedDuration,
    stops: Vec<(ShardKey, Token, StopReason)>,
) -> v1::ServerMessage {
    let session_valid_for_ms = millis(valid_for);
    message(Message::BeatAck(v1::BeatAck {
        seq,
        session_valid_for_ms,
        stop: stop(stops),
    }))
}

pub(super) fn to_worker(out: ToWorker) -> v1::ServerMessage {
    match out {
        ToWorker::Grant(work) => message(Message::Grant(grant(*work))),
        ToWorker::Superseded => superseded(),
        ToWorker::Moved { address } => message(Message::Moved(v1::Moved { address })),
        ToWorker::Cancel {
            key,
            token,
            reason: why,
            grace,
        } => message(Message::Cancel(v1::Cancel {
            shard: shard_ref(key),
            token: token.0,
            reason: reason(why).into(),
            grace_ms: millis(grace),
        })),
    }
}

fn grant(work: Work) -> v1::Grant {
    let spec = &work.document.spec;
    let run = &work.run;
    let shard = &work.shard;
    let total = run.counters.total;
    let planned = run.occasion.planned_at();
    let unknown = |(attempt, token): &(u32, Token)| v1::UnknownOutcome {
        attempt: *attempt,
        token: token.0,
    };
    v1::Grant {
        grant_seq: work.grant_seq,
        shard: shard_ref(shard.key),
        token: shard.token.0,
        attempt: shard.attempt,
        job: run.job_name.to_string(),
        job_uid: run.job.to_string(),
        run_key: run_key(&run.job_name, &run.occasion, &spec.time_zone),
        revision: u64::from(run.revision.0),
        total,
        handler: run.terms.handler.clone(),
        descriptor: Some(descriptor(&work, total)),
        parameters: parameters(&work),
        checkpoint: (shard.checkpoint.seq > 0).then(|| v1::Checkpoint {
            seq: shard.checkpoint.seq,
            position: shard.checkpoint.position.clone().into_bytes(),
            counters: Some(counters(&shard.progress)),
        }),
        planned_at_us: planned.map(jiff::Timestamp::as_microsecond),
        period_start_us: run.period.map(|p| p.start.as_microsecond()),
        period_end_us: run.period.map(|p| p.end.as_microsecond()),
        zone: spec.time_zone.clone(),
        attempt_timeout_ms: work.attempt_timeout.map_or(0, millis),
        stall_timeout_ms: shard.stall.map_or(0, millis),
        granted_ms_ago: millis(work.granted_ago),
        run_timeout_ms: work.run_timeout.map_or(0, millis),
        deadline_us: run.terms.deadline.map(jiff::Timestamp::as_microsecond),
        grace_ms: work.grace().map_or(0, millis),
        fence_key: work.fence_key(),
        traceparent: work.traceparent(),
        unknown_outcomes: work.unknown_outcomes.iter().map(unknown).collect(),
        uses: run.terms.uses.iter().map(capacity_use).collect(),
    }
}

fn capacity_use((capacity, units): (&Name, u32)) -> v1::CapacityUse {
    v1::CapacityUse {
        capacity: capacity.to_string(),
        units,
    }
}

/// The run's parameters; those of a process say what is to be started, which the worker checks
/// against its own configuration.
fn parameters(work: &Work) -> String {
    let text = &work.run.terms.parameters;
    let Some(process) = work.process() else {
        return text.clone();
    };
    let mut object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(text).unwrap_or_default();
    object.insert("argv".to_owned(), process.argv.clone().into());
    if !process.env.is_empty() {
        let env = process
            .env
            .iter()
            .map(|(k, v)| (k.clone(), v.clone().into()));
        object.insert("env".to_owned(), serde_json::Value::Object(env.collect()));
    }
    if let Some(directory) = &process.directory {
        object.insert("cwd".to_owned(), directory.clone().into());
    }
    serde_json::Value::Object(object).to_string()
}

fn counters(progress: &Progress) -> v1::Counters {
    v1::Counters {
        done: Some(progress.done),
        expected: progress.expected,
        rate: None,
        waiting_on: String::new(),
    }
}

fn descriptor(work: &Work, total: u32) -> v1::Descriptor {
    use v1::descriptor::Descriptor as Wire;
    let times = matches!(
        &work.document.spec.shards,
        Some(ShardsSpec::Range(range)) if range.keys == KeysSpec::Time
    );
    let index = u32::try_from(work.shard.key.no.0).unwrap_or(0);
    let wire = match &work.shard.descriptor {
        Descriptor::Whole => Wire::Count(v1::CountPart { index: 0, total: 1 }),
        Descriptor::Index => Wire::Count(v1::CountPart { index, total }),
        Descriptor::Range { from, to } if times => Wire::TimeRange(v1::TimeRange {
            from_us: *from,
            to_us: *to,
        }),
        Descriptor::Range { from, to } => Wire::IntRange(v1::IntRange {
            from: *from,
            to: *to,
        }),
        Descriptor::Item(item) => Wire::Item(v1::Item { item: item.clone() }),
        Descriptor::Plan { data_source, sql } => Wire::Plan(v1::PlanStep {
            data_source: data_source.clone(),
            query: sql.clone(),
            wanted: if times {
                v1::PlanWanted::TimeBounds.into()
            } else {
                v1::PlanWanted::IntBounds.into()
            },
        }),
    };
    v1::Descriptor {
        descriptor: Some(wire),
    }
}

/// What kind of message it is, in a crash point's name.
pub(super) fn word(message: &v1::ServerMessage) -> &'static str {
    use v1::server_message::Message;
    match message.message {
        Some(Message::Welcome(_)) => "welcome",
        Some(Message::BeatAck(_)) => "beat_ack",
        Some(Message::Grant(_)) => "grant",
        Some(Message::FinishAck(_)) => "finish_ack",
        Some(Message::CheckpointAck(_)) => "checkpoint_ack",
        Some(Message::Cancel(_)) => "cancel",
        Some(Message::SessionLost(_)) => "session_lost",
        Some(Message::Superseded(_)) => "superseded",
        Some(Message::Moved(_)) => "moved",
        Some(Message::Refused(_)) => "refused",
        Some(Message::ReadOutput(_)) => "read_output",
        None => "",
    }
}

#[cfg(test)]
mod tests;
