//! One worker's stream, from its Hello to its end.

use std::sync::Arc;

use sichen_core::access::Bounds;
use sichen_core::ids::{SessionId, ShardKey, Token};
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::Failure;
use sichen_core::name::Name;
use sichen_core::port::{CheckpointVerdict, Error, MAX_BATCH, Reporter, Returned, SaveCheckpoint};
use sichen_engine::driver::Engine;
use sichen_engine::sessions::{
    Beat, BeatAnswer, Hello, HelloAnswer, Report, ReportVerdict, Source,
};
use sichen_proto::v1::server_message::Message as ToWorker;
use sichen_proto::v1::worker_message::Message as FromWorker;
use sichen_proto::v1::{self, WorkerMessage};
use sichen_proto::{MAX_POSITION_BYTES, PROTOCOL_VERSION};
use tokio_stream::StreamExt as _;
use tonic::{Status, Streaming};

use super::pass::{Pass, outside};
use super::streams::{Out, Streams};
use super::{Refusal, convert};

/// Messages of one stream that are handled together.
const CHUNK: usize = 1_024;
/// How long a new stream may take to say Hello.
const HELLO_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// How long a queue may stay full before its stream is cut.
const READS_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// A stream in progress.
pub(super) struct Stream {
    engine: Arc<Engine>,
    streams: Arc<Streams>,
    out: Out,
    session: Option<SessionId>,
    /// The pool of its worker.
    pool: Option<Name>,
    actor: String,
    /// Whose attempts it may end; set by its Hello, before which nothing else is read.
    by: Option<Arc<Reporter>>,
    pass: Pass,
    /// Within which bounds it was let in.
    within: Option<Option<Bounds>>,
}

/// Why a stream ends.
enum End {
    /// The worker left, or the node closes.
    Closed,
    /// The worker was told to go, or does not read.
    Cut,
}

impl Stream {
    pub(super) fn new(engine: Arc<Engine>, streams: Arc<Streams>, out: Out, pass: Pass) -> Self {
        Self {
            engine,
            streams,
            out,
            session: None,
            pool: None,
            actor: "worker".to_owned(),
            by: None,
            pass,
            within: None,
        }
    }

    pub(super) async fn serve(mut self, incoming: Streaming<WorkerMessage>) {
        if self.bounds().await.is_err() {
            return;
        }
        let streams = self.streams.clone();
        tokio::select! {
            end = self.run(incoming) => {
                if matches!(end, End::Cut) {
                    tracing::debug!(session = ?self.session, "stream cut");
                }
            }
            // Its worker goes straight to whoever has its pool next.
            () = streams.closing() => self.move_on(),
        }
        self.end().await;
    }

    async fn end(mut self) {
        let Some(session) = self.leave() else { return };
        let goodbye = self.engine.sessions.goodbye(&self.actor, session).await;
        if let Err(error) = goodbye {
            tracing::debug!(%session, %error, "the session will end by expiry");
        }
    }

    /// This stream serves its session no more; which, if it still did.
    fn leave(&mut self) -> Option<SessionId> {
        let session = self.session.take()?;
        if !self.streams.remove(session, &self.out) {
            return None;
        }
        self.engine.dispatcher.set_able(session, true);
        Some(session)
    }

    async fn run(&mut self, mut incoming: Streaming<WorkerMessage>) -> End {
        let first = tokio::time::timeout(HELLO_WITHIN, incoming.next()).await;
        let Ok(Some(Ok(WorkerMessage {
            message: Some(FromWorker::Hello(hello)),
        }))) = first
        else {
            return End::Cut;
        };
        if self.hello(hello).await.is_err() {
            return End::Cut;
        }
        let chunks = incoming.chunks_timeout(CHUNK, std::time::Duration::ZERO);
        tokio::pin!(chunks);
        while let Some(chunk) = chunks.next().await {
            let mut messages = Vec::with_capacity(chunk.len());
            let mut ended = false;
            for item in chunk {
                match item {
                    Ok(message) => messages.extend(message.message),
                    Err(_) => ended = true,
                }
            }
            if self.handle(messages).await.is_err() {
                return End::Cut;
            }
            if ended {
                break;
            }
        }
        End::Closed
    }

    /// Handles a chunk; neighbours of one kind go to the store together.
    async fn handle(&mut self, messages: Vec<FromWorker>) -> Result<(), Cut> {
        let mut reports = Vec::new();
        let mut checkpoints = Vec::new();
        for message in messages {
            match message {
                FromWorker::Finish(finish) => {
                    checkpoints.extend(last_words(&finish));
                    self.flush_checkpoints(&mut checkpoints).await?;
                    reports.extend(convert::report(finish));
                    if reports.len() >= MAX_BATCH {
                        self.flush_reports(&mut reports).await?;
                    }
                }
                FromWorker::Reject(reject) => {
                    // Until its next beat it would reject the same again, as fast as it is offered.
                    let unable = [v1::Reason::Full, v1::Reason::Degraded];
                    if let Some(session) = self.session
                        && unable.contains(&reject.reason())
                    {
                        self.engine.dispatcher.set_able(session, false);
                    }
                    self.flush_checkpoints(&mut checkpoints).await?;
                    reports.extend(rejected(reject));
                    if reports.len() >= MAX_BATCH {
                        self.flush_reports(&mut reports).await?;
                    }
                }
                FromWorker::Checkpoint(report) => {
                    self.flush_reports(&mut reports).await?;
                    checkpoints.push(report);
                    if checkpoints.len() >= MAX_BATCH {
                        self.flush_checkpoints(&mut checkpoints).await?;
                    }
                }
                FromWorker::Beat(beat) => {
                    self.flush_reports(&mut reports).await?;
                    self.flush_checkpoints(&mut checkpoints).await?;
                    self.beat(beat).await?;
                }
                FromWorker::Hello(hello) => {
                    self.flush_reports(&mut reports).await?;
                    self.flush_checkpoints(&mut checkpoints).await?;
                    self.hello(hello).await?;
                }
                FromWorker::Draining(draining) => {
                    let Some(session) = self.session else {
                        continue;
                    };
                    if draining.leaves {
                        // First what it says of its attempts itself.
                        self.flush_checkpoints(&mut checkpoints).await?;
                        self.flush_reports(&mut reports).await?;
                        reports = self.engine.sessions.leaves(session).await?;
                    } else {
                        self.engine.sessions.draining(session).await?;
                    }
                }
                FromWorker::Output(output) => {
                    if let Some(session) = self.session {
                        self.streams.questions.answered(session, output);
                    }
                }
                FromWorker::Accept(_) => {}
            }
        }
        self.flush_checkpoints(&mut checkpoints).await?;
        self.flush_reports(&mut reports).await
    }

    /// What this worker may be, now: its token may have been taken back since it came.
    async fn bounds(&self) -> Result<Option<Bounds>, Cut> {
        if self.pass.certified && self.pass.peer.is_none() {
            let text = "SC4032: this server takes workers with a client certificate alone; give \
                        --tls-cert and --tls-key";
            self.send(convert::refused("no-certificate", text)).await?;
            return Err(Cut);
        }
        let (code, text) = match self.pass.judge().await {
            Ok(bounds) => return Ok(bounds),
            Err(Refusal::Unknown) => (
                "bad-join-token",
                "SC4005: the join token is missing or wrong; make one with `sichen token create NAME \
                 --join POOL`, or take the file `join-token` in the server's data directory"
                    .to_owned(),
            ),
            Err(Refusal::Over(what)) => (
                "bad-join-token",
                format!("SC4005: the join token {what}; make another with `sichen token create`"),
            ),
            // The stream breaks; the worker comes again, as it does when a server is away.
            Err(Refusal::Away(why)) => {
                tracing::debug!(why, "a worker's token can't be judged now");
                return Err(Cut);
            }
        };
        self.send(convert::refused(code, &text)).await?;
        Err(Cut)
    }

    async fn hello(&mut self, hello: v1::Hello) -> Result<(), Cut> {
        if hello.protocol_version != PROTOCOL_VERSION {
            let message = format!(
                "SC4006: the worker speaks protocol {}, this server {PROTOCOL_VERSION}; use one release for both",
                hello.protocol_version
            );
            self.send(convert::refused("protocol-version", &message))
                .await?;
            return Err(Cut);
        }
        let able = !hello.degraded;
        let mut hello = match convert::hello(hello) {
            Ok(hello) => hello,
            Err(message) => {
                self.send(convert::refused("bad-hello", &message)).await?;
                return Err(Cut);
            }
        };
        self.let_in(&mut hello).await?;
        self.actor = format!("worker {}", hello.worker.name);
        self.pool = Some(hello.pool.clone());
        let acks: Vec<(ShardKey, Token)> = hello.journal.iter().map(|r| (r.key, r.token)).collect();
        let dead = hello.dead.clone();
        let seen = hello.resume.map(|_| hello.highest_grant_seen);
        let uid = hello.worker.uid.clone();
        self.reports_as(None, &uid);
        let now = self.engine.context.store.now().await?;
        // A stream must be known before the first grant can be sent, and its Welcome comes first.
        match self.engine.sessions.hello(hello, now).await? {
            HelloAnswer::Welcome {
                session,
                rhythm,
                journal,
                stop,
            } => {
                let acks = acks.into_iter().chain(dead).zip(journal);
                if self.session != Some(session) {
                    // What an earlier Hello of this stream was given it serves no more.
                    self.leave();
                }
                self.session = Some(session);
                self.reports_as(Some(session), &uid);
                self.send(convert::welcome(session, rhythm, acks.collect(), stop))
                    .await?;
                self.streams.add(session, self.out.clone());
                self.engine.dispatcher.set_able(session, able);
                if let Some(seen) = seen {
                    self.engine.sessions.resend(session, seen).await?;
                }
                self.engine.wake.reap();
                self.engine.wake.dispatch();
                Ok(())
            }
            HelloAnswer::SessionLost => {
                self.leave();
                self.send(convert::session_lost()).await
            }
            HelloAnswer::Superseded => {
                self.send(convert::superseded()).await?;
                Err(Cut)
            }
            HelloAnswer::Outdated => Err(Cut),
            HelloAnswer::Moved { address } => {
                let moved = ToWorker::Moved(v1::Moved { address });
                self.send(convert::message(moved)).await?;
                Err(Cut)
            }
            HelloAnswer::Refused { code, message } => {
                self.send(convert::refused(code, &message)).await?;
                Err(Cut)
            }
        }
    }

    /// Whether this worker may be what it says it is. One that is bound to a name is from here on known by a
    /// uid that nobody has under another name: who knows the uid of another can do nothing with it.
    async fn let_in(&mut self, hello: &mut Hello) -> Result<(), Cut> {
        let bounds = self.bounds().await?;
        let outside = bounds.as_ref().and_then(|bounds| outside(bounds, hello));
        let name = &hello.worker.name;
        let refused = match (outside, self.pass.misnamed(name)) {
            (Some(message), _) => Some(("outside-join-token", message)),
            (None, Some(message)) => Some(("other-certificate", message)),
            (None, None) => None,
        };
        if let Some((code, message)) = refused {
            self.send(convert::refused(code, &message)).await?;
            return Err(Cut);
        }
        if self.pass.binds_worker() || bounds.as_ref().is_some_and(Bounds::binds_worker) {
            hello.worker.uid = convert::bound_uid(name, &hello.worker.uid);
        }
        self.within = Some(bounds);
        Ok(())
    }

    /// From here on only attempts of the worker `uid` are ended by what comes on this stream.
    fn reports_as(&mut self, session: Option<SessionId>, uid: &str) {
        let uid = uid.to_owned();
        self.by = Some(Arc::new(Reporter { session, uid }));
    }

    async fn beat(&mut self, beat: v1::Beat) -> Result<(), Cut> {
        let Some(session) = self.session else {
            return Ok(());
        };
        // Without its token a session is not renewed: its leases end with it. While nobody can judge
        // it, the session itself is the judge.
        match self.pass.judge().await {
            Err(Refusal::Unknown | Refusal::Over(_)) => {
                self.bounds().await?;
            }
            // Its token's name was given again, with other bounds: its next Hello is judged by those.
            Ok(bounds) if self.within.as_ref() != Some(&bounds) => return Err(Cut),
            Ok(_) | Err(Refusal::Away(_)) => {}
        }
        let running = beat.running.iter().filter_map(convert::held).collect();
        let seq = beat.seq;
        // Two Hellos of one worker may be answered in either order, and the stream of the later answer
        // be long broken: the one that beats is the one that is heard.
        self.streams.add(session, self.out.clone());
        self.engine.dispatcher.set_able(session, !beat.degraded);
        self.engine.dispatcher.set_busy(session, beat.load_milli);
        self.progress(session, &beat.running).await?;
        let question = Beat {
            session,
            running,
            highest_grant_seen: beat.highest_grant_seen,
        };
        // Without an answer the worker goes on until its own deadline.
        match self.engine.sessions.beat(question).await? {
            BeatAnswer::Alive { valid_for, stop } => {
                self.send(convert::beat_ack(seq, valid_for, stop)).await?;
                // It was told when its pool moved, and may have missed it.
                self.move_on();
                Ok(())
            }
            BeatAnswer::Lost => {
                self.leave();
                self.send(convert::session_lost()).await
            }
            BeatAnswer::Superseded => {
                self.send(convert::superseded()).await?;
                Err(Cut)
            }
        }
    }

    /// Tells the worker where its pool is served now, if that is elsewhere. It leaves by itself.
    fn move_on(&self) {
        let pool = self.pool.as_ref().filter(|_| self.session.is_some());
        let address = pool.and_then(|p| self.engine.coordinator.seen_elsewhere(p));
        if let Some(address) = address {
            let moved = ToWorker::Moved(v1::Moved { address });
            // A full queue is that of a worker that does not read: it comes back by itself.
            let _ = self.out.try_send(Ok(convert::message(moved)));
        }
    }

    /// Progress that comes with a beat; refused ones are found by the beat itself.
    async fn progress(&self, session: SessionId, held: &[v1::Held]) -> Result<(), Cut> {
        let items: Vec<SaveCheckpoint> = held
            .iter()
            .filter_map(|held| {
                let (key, token) = convert::held(held)?;
                let progress = convert::progress(held.counters.as_ref()?);
                Some(SaveCheckpoint {
                    key,
                    token,
                    session,
                    checkpoint: None,
                    progress,
                    idle: convert::length(held.idle_ms),
                })
            })
            .collect();
        if items.is_empty() {
            return Ok(());
        }
        match self.engine.sessions.checkpoint(&self.actor, items).await {
            // The next beat brings it again, and this one is not to fail for it.
            Ok(_) | Err(Error::Busy(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn flush_reports(&self, reports: &mut Vec<Report>) -> Result<(), Cut> {
        if reports.is_empty() {
            return Ok(());
        }
        let reports = std::mem::take(reports);
        let keys: Vec<(ShardKey, Token)> = reports.iter().map(|r| (r.key, r.token)).collect();
        let plain = reports.iter().all(|r| r.ending == Ending::Succeeded);
        let from = Source {
            actor: &self.actor,
            by: self.by.as_ref(),
        };
        let verdicts = self.engine.sessions.report(from, reports).await;
        let told = keys.iter().zip(&verdicts);
        let accepted = told.filter(|(_, verdict)| **verdict == ReportVerdict::Accepted);
        let freed: Vec<ShardKey> = accepted.map(|((key, _), _)| *key).collect();
        if let Some(session) = self.session {
            self.engine.dispatcher.freed(session, &freed);
        }
        // A shard that failed may wait for its next attempt: the timer must know of it. And a run that
        // ended may have let another one go.
        if !plain || self.engine.dispatcher.something_comes_later() {
            self.engine.wake.dispatch();
        } else if self.engine.dispatcher.something_waits()
            || self.engine.dispatcher.waits_for_capacity()
        {
            self.engine.wake.hand_out();
        }
        for ((key, token), verdict) in keys.into_iter().zip(verdicts) {
            if let ReportVerdict::Stale { detail } = &verdict {
                tracing::info!(shard = %key, %token, worker = self.actor, "refused a stale report: {detail}");
            }
            let ack = ToWorker::FinishAck(convert::finish_ack(key, token, verdict));
            self.send(convert::message(ack)).await?;
        }
        Ok(())
    }

    async fn flush_checkpoints(&self, reports: &mut Vec<v1::CheckpointReport>) -> Result<(), Cut> {
        let reports = std::mem::take(reports);
        let Some(session) = self.session else {
            return Ok(());
        };
        let mut items = Vec::with_capacity(reports.len());
        for report in reports {
            match convert::checkpoint(report, session) {
                Some(item) => items.push(item),
                None => tracing::warn!(
                    worker = self.actor,
                    "SC4007: a checkpoint was passed over: its position is not UTF-8 text, has a NUL character, or \
                     is longer than {MAX_POSITION_BYTES} bytes"
                ),
            }
        }
        if items.is_empty() {
            return Ok(());
        }
        let sessions = &self.engine.sessions;
        let verdicts = match sessions.checkpoint(&self.actor, items.clone()).await {
            Ok(verdicts) => verdicts,
            Err(Error::Busy(why)) => {
                tracing::debug!(
                    worker = self.actor,
                    why,
                    "it will send its checkpoints again"
                );
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        for (item, verdict) in items.iter().zip(verdicts) {
            let ack = convert::checkpoint_ack(item, verdict);
            self.send(convert::message(ToWorker::CheckpointAck(ack)))
                .await?;
            if let CheckpointVerdict::Stale { current } = verdict {
                tracing::info!(shard = %item.key, token = %item.token, %current, worker = self.actor, "refused a stale checkpoint");
            }
        }
        Ok(())
    }

    async fn send(&self, message: v1::ServerMessage) -> Result<(), Cut> {
        let which = convert::word(&message);
        sichen_crash::at(sichen_crash::Place::BeforeSend, which);
        put(&self.out, message, READS_WITHIN).await?;
        sichen_crash::at(sichen_crash::Place::AfterSend, which);
        Ok(())
    }
}

/// Puts a message into a stream's queue. One that stays full is that of a worker that does not read.
async fn put(
    out: &Out,
    message: v1::ServerMessage,
    within: std::time::Duration,
) -> Result<(), Cut> {
    let sent = out.send_timeout(Ok(message), within).await;
    sent.map_err(|_| Cut)
}

/// The stream must end: its worker will come back.
#[derive(Debug)]
struct Cut;

impl From<Error> for Cut {
    fn from(error: Error) -> Self {
        tracing::warn!(%error, "a worker's message could not be handled; its stream is closed and it will come back");
        Cut
    }
}

impl From<Status> for Cut {
    fn from(_: Status) -> Self {
        Cut
    }
}

/// How far an attempt has come that leaves work to another, if it says so: whoever goes on begins there.
fn last_words(finish: &v1::Finish) -> Option<v1::CheckpointReport> {
    let leaves_work = finish.outcome() != v1::Outcome::Succeeded;
    let checkpoint = finish.checkpoint.clone().filter(|_| leaves_work)?;
    Some(v1::CheckpointReport {
        shard: finish.shard,
        token: finish.token,
        checkpoint: Some(checkpoint),
    })
}

/// A grant that the worker does not take.
fn rejected(reject: v1::Reject) -> Option<Report> {
    let key = convert::shard(reject.shard.as_ref()?);
    let bad = reject.reason() == v1::Reason::BadGrant;
    let code = reject
        .reason()
        .as_str_name()
        .trim_start_matches("REASON_")
        .to_lowercase()
        .replace('_', "-");
    Some(Report {
        key,
        token: Token(reject.token),
        ending: if bad {
            Ending::Failed
        } else {
            Ending::Released
        },
        digest: format!("reject:{code}"),
        failure: Some(Failure {
            code,
            message: convert::clean(&reject.detail, 4096),
        }),
        progress: None,
        plan: None,
        run_key: String::new(),
        returned: Returned::Nothing,
    })
}

#[cfg(test)]
mod tests;
