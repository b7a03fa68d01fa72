//! Rows of the store as the API shows them.
//!
//! # Not here
//! The shapes ([`super::wire`]).

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;
use sichen_core::backfill::Backfill;
use sichen_core::document::Document;
use sichen_core::event;
use sichen_core::layout::Descriptor;
use sichen_core::model;
use sichen_core::port::{Advance, MAX_PAGE};
use sichen_core::schedule::Nominal;
use sichen_core::trace::TraceId;
use sichen_engine::control::Attempt;

use super::wire;

/// The zone of a name; UTC for one that is not known (any more).
pub(super) fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap_or(TimeZone::UTC)
}

/// An instant with the offset that `zone` has then.
pub(super) fn at(instant: Timestamp, zone: &TimeZone) -> String {
    instant
        .display_with_offset(zone.to_offset(instant))
        .to_string()
}

fn period(period: model::Period, zone: &TimeZone) -> wire::Period {
    wire::Period {
        start: at(period.start, zone),
        end: at(period.end, zone),
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// A job; `whole` adds its document.
pub(super) fn job(job: &model::Job, whole: bool) -> wire::Job {
    let document: Option<Document> = serde_json::from_str(&job.document).ok();
    let (title, time_zone) = match document {
        Some(document) => (document.metadata.title, document.spec.time_zone),
        None => (None, "UTC".to_owned()),
    };
    let zone = zone(&time_zone);
    wire::Job {
        uid: job.uid.to_string(),
        namespace: job.name.namespace.to_string(),
        name: job.name.name.to_string(),
        title,
        revision: job.revision.0,
        paused: job.paused,
        decided_until: at(job.high_water, &zone),
        next_at: job.next_due.map(|next| at(next, &zone)),
        following_at: job.pending().map(|next| at(next, &zone)),
        time_zone,
        active_runs: job.active_runs,
        waiting_runs: job.waiting_runs,
        created_at: job.created_at.to_string(),
        document: whole.then(|| json(&job.document)),
        zones: job
            .zones
            .as_ref()
            .filter(|_| whole)
            .and_then(|zones| serde_json::to_value(zones).ok()),
    }
}

/// A decision of a job in `zone`.
pub(super) fn decision(decision: &model::Decision, zone: &TimeZone) -> wire::Decision {
    wire::Decision {
        from: at(decision.from, zone),
        to: at(decision.to, zone),
        count: decision.count,
        reason: decision.reason.clone(),
        reference: decision.reference.clone(),
        filled: decision.filled,
        filled_by: decision.filled_by.map(|run| run.0),
    }
}

/// A backfill of `job` in `zone`.
pub(super) fn backfill(
    backfill: &Backfill,
    job: &model::Job,
    zone: &TimeZone,
    remaining: Option<u64>,
) -> wire::Backfill {
    let (wanted, counts, runs) = (&backfill.wanted, &backfill.counts, &backfill.runs);
    let checks = &backfill.checks;
    wire::Backfill {
        id: backfill.id.0,
        namespace: job.name.namespace.to_string(),
        job: job.name.name.to_string(),
        job_uid: job.uid.to_string(),
        state: backfill.state.word().to_owned(),
        cause: backfill.cause.clone(),
        from: at(wanted.from, zone),
        to: at(wanted.to, zone),
        mode: wanted.mode.word().to_owned(),
        order: wanted.order.word().to_owned(),
        parallelism: wanted.parallelism,
        rate: wanted.rate,
        verify: wanted.verify.as_ref().map(|verify| wire::BackfillVerify {
            job: verify.job.to_string(),
            rate: Some(verify.rate),
        }),
        reason: wanted.reason.clone(),
        actor: backfill.actor.clone(),
        key: backfill.key.clone(),
        instants: wire::BackfillInstants {
            done: counts.passed(),
            created: counts.created,
            filled: counts.filled,
            reopened: counts.reopened,
            reruns: counts.reruns,
            left: counts.left,
            remaining,
        },
        runs: wire::BackfillRuns {
            open: runs.open,
            succeeded: runs.succeeded,
            failed: runs.failed,
            cancelled: runs.cancelled,
        },
        checks: wanted.verify.as_ref().map(|_| wire::BackfillChecks {
            due: checks.due,
            open: checks.open,
            agree: checks.agree,
            differ: checks.differ,
            uncounted: checks.uncounted,
        }),
        next_at: backfill.next_at.map(|t| t.to_string()),
        created_at: backfill.created_at.to_string(),
        ended_at: backfill.ended_at.map(|t| t.to_string()),
    }
}

/// What a pause or a resume would write.
pub(super) fn preview(paused: bool, planned: Option<Advance>, zone: &TimeZone) -> wire::Preview {
    let (runs, decisions, next_due) = match planned {
        Some(step) => (step.runs, step.decisions, step.next_due),
        None => (Vec::new(), Vec::new(), None),
    };
    let shown = MAX_PAGE as usize;
    let instants = runs.iter().filter_map(|run| run.occasion.planned_at());
    wire::Preview {
        paused,
        run_count: runs.len() as u64,
        runs: instants.map(|t| at(t, zone)).take(shown).collect(),
        skip_count: decisions.iter().map(|d| d.count).sum(),
        decisions: decisions
            .iter()
            .map(|d| decision(d, zone))
            .take(shown)
            .collect(),
        next_at: next_due.map(|t| at(t, zone)),
    }
}

/// A run of a job in the zone `time_zone`.
pub(super) fn run(
    run: &model::Run,
    time_zone: &str,
    progress: Option<&model::Progress>,
) -> wire::Run {
    let zone = zone(time_zone);
    wire::Run {
        id: run.id.0,
        key: model::run_key(&run.job_name, &run.occasion, time_zone),
        trace_id: TraceId::of(run.job, run.id).to_string(),
        job_uid: run.job.to_string(),
        namespace: run.job_name.namespace.to_string(),
        job: run.job_name.name.to_string(),
        revision: run.revision.0,
        planned_at: run.occasion.planned_at().map(|planned| at(planned, &zone)),
        period: run.period.map(|p| period(p, &zone)),
        nominal: run.nominal.as_ref().map(nominal),
        backfill: run.backfill.map(|id| id.0),
        waits: run.waits.map(|waits| waits.what.word().to_owned()),
        state: run.state.word().to_owned(),
        reason: run.reason.clone(),
        round: run.round,
        pool: run.terms.pool.to_string(),
        handler: run.terms.handler.clone(),
        priority: run.terms.priority,
        parallelism: run.terms.parallelism,
        parameters: json(&run.terms.parameters),
        shards: wire::ShardCounts {
            total: run.counters.total,
            open: run.counters.open,
            succeeded: run.counters.succeeded,
            failed: run.counters.failed,
            cancelled: run.counters.cancelled,
        },
        failures: run.failures,
        progress: progress.map(self::progress),
        stop: run.stop.map(|(cause, at)| wire::Stop {
            cause: cause.word().to_owned(),
            detail: run.stop_detail.clone(),
            at: at.to_string(),
        }),
        deadline: run.terms.deadline.map(|t| t.to_string()),
        start_by: run.terms.start_by.map(|t| t.to_string()),
        created_at: run.created_at.to_string(),
        started_at: run.started_at.map(|t| t.to_string()),
        ended_at: run.ended_at.map(|t| t.to_string()),
    }
}

fn nominal(nominal: &Nominal) -> wire::Nominal {
    wire::Nominal {
        civil: nominal.civil.to_string(),
        zone: nominal.zone.clone(),
        zone_data: nominal.zone_data.clone(),
        first_day: nominal.first_day.to_string(),
        end_day: nominal.end_day.to_string(),
        covers: nominal.covers,
    }
}

fn progress(progress: &model::Progress) -> wire::Progress {
    wire::Progress {
        done: progress.done,
        expected: progress.expected,
        rate_milli: progress.rate_milli,
        waiting_on: progress.waiting_on.clone(),
    }
}

/// A shard.
pub(super) fn shard(shard: &model::Shard) -> wire::Shard {
    let part = match &shard.descriptor {
        Descriptor::Whole => wire::Part::Whole,
        Descriptor::Index => wire::Part::Index,
        Descriptor::Range { from, to } => wire::Part::Range {
            from: *from,
            to: *to,
        },
        Descriptor::Item(item) => wire::Part::Item(item.clone()),
        Descriptor::Plan { data_source, sql } => wire::Part::Plan {
            data_source: data_source.clone(),
            sql: sql.clone(),
        },
    };
    let checkpoint = Some(&shard.checkpoint).filter(|c| c.seq > 0);
    wire::Shard {
        run: shard.key.run.0,
        no: shard.key.no.0,
        part,
        state: shard.state.word().to_owned(),
        token: shard.token.0,
        attempt: shard.attempt,
        takeovers: shard.takeovers,
        ready_at: shard.ready_at.to_string(),
        session: shard.session.map(|s| s.0),
        timeout_at: shard.timeout_at.map(|t| t.to_string()),
        checkpoint: checkpoint.map(|c| wire::Checkpoint {
            seq: c.seq,
            position: c.position.clone(),
        }),
        progress: progress(&shard.progress),
        failure: shard.failure.as_ref().map(|f| wire::Failure {
            code: f.code.clone(),
            message: f.message.clone(),
        }),
        started_at: shard.started_at.map(|t| t.to_string()),
        ended_at: shard.ended_at.map(|t| t.to_string()),
        discarded_at: shard.discarded_at.map(|t| t.to_string()),
    }
}

/// An event.
pub(super) fn event(event: &event::Event) -> wire::Event {
    wire::Event {
        seq: event.seq,
        entity: event.entity.kind().to_owned(),
        id: event.entity.id(),
        ver: event.ver,
        at: event.at.to_string(),
        op: event.op.to_string(),
        actor: event.actor.clone(),
        duty: event.duty.as_ref().map(|(key, _)| key.clone()),
        term: event.duty.as_ref().map(|(_, term)| term.0),
        kind: event.kind.word().to_owned(),
        from: event.from.clone(),
        to: event.to.clone(),
        attempt: event.attempt,
        token: event.token.map(|t| t.0),
        cause: event.cause.clone(),
        data: json(&event.data),
    }
}

fn amount((name, n): (&str, u64)) -> (String, String) {
    (name.to_owned(), sichen_core::place::quantity::text(name, n))
}

/// A session and how many shards it holds.
pub(super) fn worker(session: &model::Session, held: u32) -> wire::Worker {
    wire::Worker {
        session: session.id.0,
        name: session.worker.name.to_string(),
        uid: session.worker.uid.clone(),
        incarnation: session.worker.incarnation.clone(),
        pool: session.pool.to_string(),
        slots: session.slots,
        held,
        handlers: session.handlers.clone(),
        labels: session.offer.labels.clone(),
        resources: session.offer.resources.iter().map(amount).collect(),
        draining: session.draining,
        registered_at: session.registered_at.to_string(),
        expires_at: session.expires_at.to_string(),
    }
}

/// A server node.
pub(super) fn node(node: &model::Node) -> wire::Node {
    wire::Node {
        id: node.id.0,
        address: node.address.clone(),
        expires_at: node.expires_at.to_string(),
    }
}

/// A duty.
pub(super) fn duty(duty: &model::Duty) -> wire::Duty {
    wire::Duty {
        key: duty.key.text(),
        term: duty.term.0,
        node: duty.node.map(|n| n.0),
    }
}

/// An attempt.
pub(super) fn attempt(attempt: &Attempt) -> wire::Attempt {
    let said = |text: &String| (!text.is_empty()).then(|| text.clone());
    let failed = !attempt.code.is_empty() || !attempt.message.is_empty();
    wire::Attempt {
        number: attempt.number,
        token: attempt.token.0,
        session: attempt.session,
        worker: attempt.worker.clone(),
        end: said(&attempt.end),
        failure: failed.then(|| wire::Failure {
            code: attempt.code.clone(),
            message: attempt.message.clone(),
        }),
        from_checkpoint: attempt.from_checkpoint,
        checkpoint: attempt.checkpoint.map(|(seq, _)| seq),
        done: attempt.checkpoint.map(|(_, done)| done),
        refused_reports: attempt.refused,
        started_at: attempt.started_at.map(|t| t.to_string()),
        ended_at: attempt.ended_at.map(|t| t.to_string()),
        result: said(&attempt.result),
        result_bytes: attempt.result_bytes,
    }
}
