//! A server node's end of a worker's stream: wire messages to the engine's values and back.
//!
//! # Invariants
//! - Messages of one stream are served one after another; nothing is acknowledged before its commit.
//!
//! # Not here
//! gRPC itself (`sichen-server`); how messages travel ([`crate::sim`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sichen_core::ids::{RunId, SessionId, ShardKey, Token};
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::{Appearance, Checkpoint, Failure, Progress, WorkerIdentity};
use sichen_core::name::Name;
use sichen_core::place::Offer;
use sichen_core::port::{CheckpointVerdict, Error, Reporter, Returned, SaveCheckpoint};
use sichen_engine::courier::{Courier, StopReason, ToWorker};
use sichen_engine::driver::Engine;
use sichen_engine::sessions::{
    Beat, BeatAnswer, Hello, HelloAnswer, Report, ReportVerdict, Source,
};
use sichen_engine::work::Work;
use sichen_proto::v1;
use sichen_proto::v1::server_message::Message as Down;
use sichen_proto::v1::worker_message::Message as Up;

/// A stream's number.
pub type Conn = u64;

/// A node's open streams, and what is to be sent on them.
#[derive(Debug, Default)]
pub struct Port(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    streams: BTreeMap<SessionId, Conn>,
    out: Vec<(Conn, Down)>,
}

impl Port {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, conn: Conn, message: Down) {
        self.lock().out.push((conn, message));
    }

    /// Takes what is to be sent.
    pub fn take(&self) -> Vec<(Conn, Down)> {
        std::mem::take(&mut self.lock().out)
    }

    /// Forgets a stream.
    pub fn close(&self, conn: Conn) {
        self.lock().streams.retain(|_, c| *c != conn);
    }
}

impl Courier for Port {
    fn deliver(&self, session: SessionId, message: ToWorker) -> bool {
        let mut inner = self.lock();
        let Some(conn) = inner.streams.get(&session).copied() else {
            return false;
        };
        inner.out.push((conn, to_worker(message)));
        true
    }
}

/// What a node knows of one stream.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// The session, once welcomed.
    pub session: Option<SessionId>,
    pool: Option<Name>,
    actor: String,
    /// Whose attempts it may end.
    by: Option<Arc<Reporter>>,
}

/// What became of a stream after a message.
#[derive(Debug)]
pub struct Served {
    /// The stream as it is now.
    pub stream: Stream,
    /// The stream ends; its worker comes back.
    pub cut: bool,
    /// Something may be grantable.
    pub dispatch: bool,
    /// A session was ended by its successor.
    pub reap: bool,
}

/// Serves one message.
pub async fn serve(
    engine: Arc<Engine>,
    port: Arc<Port>,
    conn: Conn,
    mut stream: Stream,
    message: Up,
) -> Served {
    let hello = matches!(message, Up::Hello(_));
    let dispatch = hello || matches!(message, Up::Finish(_) | Up::Reject(_));
    let result = handle(&engine, &port, conn, &mut stream, message).await;
    if !matches!(result, Ok(true)) {
        port.close(conn);
    }
    Served {
        stream,
        cut: !matches!(result, Ok(true)),
        dispatch,
        reap: hello,
    }
}

/// Ok(false) ends the stream in good order.
async fn handle(
    engine: &Engine,
    port: &Port,
    conn: Conn,
    stream: &mut Stream,
    message: Up,
) -> Result<bool, Error> {
    match message {
        Up::Hello(hello) => return greet(engine, port, conn, stream, hello).await,
        Up::Beat(beat) => return take_beat(engine, port, conn, stream, beat).await,
        Up::Finish(finish) => report(engine, port, conn, stream, from_finish(finish)).await?,
        Up::Reject(reject) => report(engine, port, conn, stream, from_reject(&reject)).await?,
        Up::Checkpoint(report) => {
            let Some(item) = stream
                .session
                .and_then(|session| from_checkpoint(report, session))
            else {
                return Ok(true);
            };
            let verdicts = engine
                .sessions
                .checkpoint(&stream.actor, vec![item.clone()])
                .await?;
            for verdict in verdicts {
                port.send(conn, Down::CheckpointAck(checkpoint_ack(&item, verdict)));
            }
        }
        Up::Draining(draining) => {
            let Some(session) = stream.session else {
                return Ok(true);
            };
            if draining.leaves {
                for rejected in engine.sessions.leaves(session).await? {
                    report(engine, port, conn, stream, Some(rejected)).await?;
                }
            } else {
                engine.sessions.draining(session).await?;
            }
        }
        Up::Accept(_) | Up::Output(_) => {}
    }
    Ok(true)
}

async fn greet(
    engine: &Engine,
    port: &Port,
    conn: Conn,
    stream: &mut Stream,
    wire: v1::Hello,
) -> Result<bool, Error> {
    let hello = from_hello(wire);
    stream.actor = format!("worker {}", hello.worker.name);
    stream.pool = Some(hello.pool.clone());
    let uid = hello.worker.uid.clone();
    stream.by = Some(Arc::new(Reporter {
        session: None,
        uid: uid.clone(),
    }));
    let mut keys: Vec<(ShardKey, Token)> = hello.journal.iter().map(|r| (r.key, r.token)).collect();
    keys.extend(&hello.dead);
    let seen = hello.resume.map(|_| hello.highest_grant_seen);
    let now = engine.context.store.now().await?;
    match engine.sessions.hello(hello, now).await? {
        HelloAnswer::Welcome {
            session,
            rhythm,
            journal,
            stop,
        } => {
            stream.session = Some(session);
            stream.by = Some(Arc::new(Reporter {
                session: Some(session),
                uid,
            }));
            let verdicts = keys
                .into_iter()
                .zip(journal)
                .map(|((key, token), v)| finish_ack(key, token, v));
            let welcome = v1::Welcome {
                session_id: session.0,
                session_ttl_ms: millis(rhythm.ttl),
                beat_ms: millis(rhythm.beat),
                journal_verdicts: verdicts.collect(),
                stop: stops(stop),
            };
            port.send(conn, Down::Welcome(welcome));
            port.lock().streams.insert(session, conn);
            if let Some(seen) = seen {
                engine.sessions.resend(session, seen).await?;
            }
            Ok(true)
        }
        HelloAnswer::SessionLost => {
            stream.session = None;
            port.send(conn, lost());
            Ok(true)
        }
        HelloAnswer::Superseded => {
            port.send(
                conn,
                Down::Superseded(v1::Superseded {
                    detail: String::new(),
                }),
            );
            Ok(false)
        }
        HelloAnswer::Outdated => Ok(false),
        HelloAnswer::Moved { address } => {
            port.send(conn, Down::Moved(v1::Moved { address }));
            Ok(false)
        }
        HelloAnswer::Refused { code, message } => {
            port.send(
                conn,
                Down::Refused(v1::Refused {
                    code: code.to_owned(),
                    message,
                }),
            );
            Ok(false)
        }
    }
}

async fn take_beat(
    engine: &Engine,
    port: &Port,
    conn: Conn,
    stream: &mut Stream,
    beat: v1::Beat,
) -> Result<bool, Error> {
    let Some(session) = stream.session else {
        return Ok(true);
    };
    if !sichen_core::zoo::is("grants-follow-hello") {
        port.lock().streams.insert(session, conn);
    }
    let question = Beat {
        session,
        running: beat.running.iter().filter_map(held).collect(),
        highest_grant_seen: beat.highest_grant_seen,
    };
    match engine.sessions.beat(question).await? {
        BeatAnswer::Alive { valid_for, stop } => {
            let ack = v1::BeatAck {
                seq: beat.seq,
                session_valid_for_ms: millis(valid_for),
                stop: stops(stop),
            };
            port.send(conn, Down::BeatAck(ack));
            let pool = stream.pool.as_ref();
            if let Some(address) = pool.and_then(|p| engine.coordinator.seen_elsewhere(p)) {
                port.send(conn, Down::Moved(v1::Moved { address }));
            }
            Ok(true)
        }
        BeatAnswer::Lost => {
            port.close(conn);
            stream.session = None;
            port.send(conn, lost());
            Ok(true)
        }
        BeatAnswer::Superseded => {
            port.send(
                conn,
                Down::Superseded(v1::Superseded {
                    detail: String::new(),
                }),
            );
            Ok(false)
        }
    }
}

async fn report(
    engine: &Engine,
    port: &Port,
    conn: Conn,
    stream: &Stream,
    report: Option<Report>,
) -> Result<(), Error> {
    let Some(report) = report else { return Ok(()) };
    let (key, token) = (report.key, report.token);
    let from = Source {
        actor: &stream.actor,
        by: stream.by.as_ref(),
    };
    for verdict in engine.sessions.report(from, vec![report]).await {
        if let (ReportVerdict::Accepted, Some(session)) = (&verdict, stream.session) {
            engine.dispatcher.freed(session, &[key]);
        }
        port.send(conn, Down::FinishAck(finish_ack(key, token, verdict)));
    }
    Ok(())
}

fn lost() -> Down {
    Down::SessionLost(v1::SessionLost {
        reason: "over".to_owned(),
    })
}

fn millis(length: jiff::SignedDuration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(0)
}

/// The shard that a message means.
#[must_use]
pub fn key(shard: &v1::ShardRef) -> ShardKey {
    ShardKey::new(RunId(shard.run_id), shard.no)
}

fn shard_ref(key: ShardKey) -> Option<v1::ShardRef> {
    Some(v1::ShardRef {
        run_id: key.run.0,
        no: key.no.0,
    })
}

fn held(held: &v1::Held) -> Option<(ShardKey, Token)> {
    Some((key(held.shard.as_ref()?), Token(held.token)))
}

fn stops(stop: Vec<(ShardKey, Token, StopReason)>) -> Vec<v1::Stop> {
    stop.into_iter()
        .map(|(key, token, why)| v1::Stop {
            shard: shard_ref(key),
            token: token.0,
            reason: reason(why).into(),
        })
        .collect()
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

fn from_hello(hello: v1::Hello) -> Hello {
    let name = |text: &str| Name::new(text).expect("the simulation's names are names");
    let (mut journal, mut dead) = (Vec::new(), Vec::new());
    for entry in hello.journal {
        match (entry.state, entry.shard) {
            (Some(v1::journaled_attempt::State::Finished(finish)), _) => {
                journal.extend(from_finish(finish))
            }
            (_, Some(shard)) => dead.push((key(&shard), Token(entry.token))),
            (_, None) => {}
        }
    }
    Hello {
        worker: WorkerIdentity {
            name: name(&hello.worker_name),
            uid: hello.worker_uid,
            boot_id: hello.boot_id,
            incarnation: hello.incarnation,
        },
        appearance: Appearance {
            start: hello.start,
            registration: hello.registration,
        },
        pool: name(&hello.pool),
        slots: hello.slots,
        handlers: hello.handlers,
        offer: Offer::default(),
        draining: hello.draining || hello.degraded,
        resume: hello.resume_session.map(SessionId),
        running: hello.running.iter().filter_map(held).collect(),
        highest_grant_seen: hello.highest_grant_seen,
        journal,
        dead,
        old_trees_dead: hello.old_trees_dead,
    }
}

fn from_finish(finish: v1::Finish) -> Option<Report> {
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
    let digest: String = finish
        .digest
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Some(Report {
        key: key(finish.shard.as_ref()?),
        token: Token(finish.token),
        ending,
        digest: format!("d{digest}"),
        progress: (ending == Ending::Succeeded)
            .then(|| counts(&finish))
            .flatten(),
        failure: finish.error.map(|e| Failure {
            code: e.code,
            message: e.message,
        }),
        plan: None,
        run_key: finish.run_key,
        returned: Returned::of(&finish.result),
    })
}

/// What a handler has counted: by the run's number nothing, what was expected, or something else.
fn counts(finish: &v1::Finish) -> Option<Progress> {
    let run = finish.shard.as_ref()?.run_id;
    let expected = match run % 5 {
        0 => None,
        1 => Some(8),
        _ => Some(7),
    };
    Some(Progress {
        done: 7,
        expected,
        ..Progress::default()
    })
}

fn from_reject(reject: &v1::Reject) -> Option<Report> {
    let bad = reject.reason() == v1::Reason::BadGrant;
    Some(Report {
        key: key(reject.shard.as_ref()?),
        token: Token(reject.token),
        ending: if bad {
            Ending::Failed
        } else {
            Ending::Released
        },
        digest: "reject".to_owned(),
        failure: None,
        progress: None,
        plan: None,
        run_key: String::new(),
        returned: Returned::Nothing,
    })
}

fn from_checkpoint(report: v1::CheckpointReport, session: SessionId) -> Option<SaveCheckpoint> {
    let checkpoint = report.checkpoint?;
    Some(SaveCheckpoint {
        key: key(report.shard.as_ref()?),
        token: Token(report.token),
        session,
        checkpoint: Some(Checkpoint {
            seq: checkpoint.seq,
            position: String::from_utf8(checkpoint.position).ok()?,
        }),
        progress: Progress::default(),
        idle: jiff::SignedDuration::ZERO,
    })
}

fn checkpoint_ack(item: &SaveCheckpoint, verdict: CheckpointVerdict) -> v1::CheckpointAck {
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

fn finish_ack(key: ShardKey, token: Token, verdict: ReportVerdict) -> v1::FinishAck {
    let verdict = match verdict {
        ReportVerdict::Accepted => v1::Verdict::Accepted,
        ReportVerdict::Duplicate => v1::Verdict::Duplicate,
        ReportVerdict::Stale { .. } => v1::Verdict::Stale,
        ReportVerdict::Contradicts => v1::Verdict::Conflict,
        ReportVerdict::RetryLater => v1::Verdict::RetryLater,
    };
    v1::FinishAck {
        shard: shard_ref(key),
        token: token.0,
        verdict: verdict.into(),
        detail: String::new(),
    }
}

fn to_worker(message: ToWorker) -> Down {
    match message {
        ToWorker::Grant(work) => Down::Grant(grant(&work)),
        ToWorker::Superseded => Down::Superseded(v1::Superseded {
            detail: String::new(),
        }),
        ToWorker::Moved { address } => Down::Moved(v1::Moved { address }),
        ToWorker::Cancel {
            key,
            token,
            reason: why,
            grace,
        } => Down::Cancel(v1::Cancel {
            shard: shard_ref(key),
            token: token.0,
            reason: reason(why).into(),
            grace_ms: millis(grace),
        }),
    }
}

fn grant(work: &Work) -> v1::Grant {
    let shard = &work.shard;
    v1::Grant {
        grant_seq: work.grant_seq,
        shard: shard_ref(shard.key),
        token: shard.token.0,
        attempt: shard.attempt,
        handler: work.run.terms.handler.clone(),
        checkpoint: (shard.checkpoint.seq > 0).then(|| v1::Checkpoint {
            seq: shard.checkpoint.seq,
            position: shard.checkpoint.position.clone().into_bytes(),
            counters: None,
        }),
        attempt_timeout_ms: work.attempt_timeout.map_or(0, millis),
        stall_timeout_ms: shard.stall.map_or(0, millis),
        granted_ms_ago: millis(work.granted_ago),
        run_timeout_ms: work.run_timeout.map_or(0, millis),
        grace_ms: 2_000,
        fence_key: work.fence_key(),
        ..v1::Grant::default()
    }
}
