//! Drives the session: turns streams, the journal, handlers and time into its inputs, and does
//! what it says.
//!
//! # Invariants
//! - One event is taken at a time; messages of the server come before the passing of time.
//! - Nothing here waits for the network, the disk or a handler other than in the one `select!`.
//!
//! # Not here
//! Decisions: they are all in `session`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sichen_proto::v1;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio_util::sync::CancellationToken;

use super::stream::{Dialler, StreamEvent};
use super::{Drained, Error};
use crate::context::{Context, Event, StopOrder};
use crate::datadir::DataDir;
use crate::edge::{boot_now, jitter, load_milli};
use crate::handler::{Registry, panicked};
use crate::journal::{Fault, Journal, Writer, Written};
use crate::session::{Boot, Ended, ExitReason, Input, Lease, Note, Output, Session};

/// Looks at the clock at least this often: tokio's timers stand still while the machine sleeps. So
/// often, too, it asks every attempt whether it has something to say.
const LOOK_EVERY_MS: u64 = 500;
/// How long after its killing an attempt may take to be gone.
const STUCK_AFTER_MS: u64 = 5_000;
/// How often a journal that could not be written is tried.
const PROBE_EVERY_MS: u64 = 5_000;
/// How long a drained worker waits for its last messages to go out.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Messages of the server that may wait for the driver.
const INBOX: usize = 256;
/// Words of handlers that something is to be taken; those for which there is no room are found by
/// the next look at all.
const EVENTS: usize = 1_024;

/// Orders from outside.
#[derive(Debug)]
pub(super) enum Control {
    Drain { grace_ms: u64 },
}

/// What the builder has made, not yet running.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) session: Session,
    pub(super) journal: Journal,
    pub(super) data_dir: DataDir,
    pub(super) registry: Registry,
    pub(super) dialler: Dialler,
    pub(super) orders: mpsc::Receiver<Control>,
    pub(super) drain_grace_ms: u64,
    pub(super) on_signals: bool,
}

/// A running attempt.
struct Running {
    context: Context,
    abort: AbortHandle,
    ends_itself: bool,
    kill_at: Option<Boot>,
    killed: bool,
    said_stuck: bool,
}

struct Loop {
    session: Session,
    registry: Registry,
    dialler: Dialler,
    writer: Writer,
    /// Handlers, on the user's runtime.
    handlers: tokio::runtime::Handle,
    work: JoinSet<Ended>,
    by_task: BTreeMap<Id, Lease>,
    running: BTreeMap<Lease, Running>,
    events: mpsc::Sender<Event>,
    /// The stream: its number, its outbox, and the tasks that serve it.
    stream: u64,
    outbox: Option<mpsc::Sender<v1::WorkerMessage>>,
    streams: JoinSet<()>,
    stream_events: mpsc::Sender<(u64, StreamEvent)>,
    /// When every attempt is asked next.
    next_look: Boot,
    /// Since when the journal could not be written.
    unwritable: Option<Boot>,
    fatal: bool,
    exit: Option<ExitReason>,
    /// Its lock is held until each attempt has ended.
    data_dir: Arc<DataDir>,
}

impl Driver {
    pub(super) async fn run(
        self,
        handlers: tokio::runtime::Handle,
        dropped: CancellationToken,
    ) -> Result<Drained, Error> {
        let (answers, mut written) = mpsc::channel(2);
        let (events, mut reports) = mpsc::channel(EVENTS);
        let (stream_events, mut incoming) = mpsc::channel(INBOX);
        let mut orders = self.orders;
        let mut signals = if self.on_signals {
            Some(Signals::new()?)
        } else {
            None
        };
        let mut grace_ms = self.drain_grace_ms;
        // Each attempt has it too: another worker of this program must not take it while one runs on.
        let data_dir = Arc::new(self.data_dir);
        let mut this = Loop {
            session: self.session,
            registry: self.registry,
            dialler: self.dialler,
            writer: Writer::start(self.journal, answers)?,
            handlers,
            work: JoinSet::new(),
            by_task: BTreeMap::new(),
            running: BTreeMap::new(),
            events,
            stream: 0,
            outbox: None,
            streams: JoinSet::new(),
            stream_events,
            next_look: Boot(0),
            unwritable: None,
            fatal: false,
            exit: None,
            data_dir,
        };
        let first = this.session.start();
        this.perform(first);
        while this.exit.is_none() && !this.fatal {
            let wait = this.sleep_ms();
            tokio::select! {
                biased;
                () = dropped.cancelled() => {
                    this.stop_the_rest().await;
                    return Ok(Drained { unreported: this.session.unreported().count() });
                }
                answer = written.recv() => match answer {
                    Some(answer) => this.on_written(answer),
                    // Its thread is gone: nothing would be journalled any more, and nothing reported.
                    None => this.fatal = true,
                },
                Some((number, event)) = incoming.recv() => {
                    let mut inputs = Vec::new();
                    this.on_stream(number, event, &mut inputs);
                    // What else has come makes one batch for the journal.
                    for _ in 0..INBOX {
                        let Ok((number, event)) = incoming.try_recv() else { break };
                        this.on_stream(number, event, &mut inputs);
                    }
                    this.feed_all(inputs);
                }
                Some(joined) = this.work.join_next_with_id() => {
                    let mut inputs = Vec::new();
                    this.on_joined(joined, &mut inputs);
                    for _ in 0..INBOX {
                        let Some(joined) = this.work.try_join_next_with_id() else { break };
                        this.on_joined(joined, &mut inputs);
                    }
                    this.feed_all(inputs);
                }
                Some(Control::Drain { grace_ms }) = orders.recv() => this.feed(Input::Drain { grace_ms }),
                () = Signals::next(signals.as_mut()) => {
                    tracing::info!(grace_ms, "draining");
                    this.feed(Input::Drain { grace_ms });
                    grace_ms = 0;
                }
                Some(Event::Dirty(lease)) = reports.recv() => this.on_dirty(lease),
                Some(ended) = this.streams.join_next() => {
                    if let Err(error) = ended && error.is_panic() {
                        tracing::error!(%error, "a stream's task panicked");
                    }
                }
                () = tokio::time::sleep(Duration::from_millis(wait)) => {}
            }
            this.on_time();
            if this.writer.push(false).is_err() {
                this.fatal = true;
            }
        }
        this.finish(&mut written).await
    }
}

impl Loop {
    fn feed(&mut self, input: Input) {
        self.feed_all(vec![input]);
    }

    /// Feeds what has come at once.
    fn feed_all(&mut self, inputs: Vec<Input>) {
        let out = self.session.handle_all(inputs, boot_now());
        self.perform(out);
    }

    fn perform(&mut self, outputs: Vec<Output>) {
        let leaves = outputs
            .iter()
            .any(|output| matches!(output, Output::Exit(ExitReason::Drained { .. })));
        for output in outputs {
            match output {
                Output::Send(message) => self.send(message),
                // What is in the outbox still goes out: the server ends the session when it has
                // read that the worker drains, instead of waiting for its expiry.
                Output::CloseStream if leaves => self.outbox = None,
                Output::CloseStream => self.close_stream(),
                Output::Reconnect { after_ms, address } => self.dial(after_ms, address.as_deref()),
                Output::StartAttempt(grant) => self.start(*grant),
                Output::StopAttempt {
                    lease,
                    reason,
                    grace_ms,
                } => self.stop(lease, reason, grace_ms),
                Output::CheckpointVerdict {
                    lease,
                    seq,
                    verdict,
                } => {
                    tracing::debug!(%lease, seq, ?verdict, "checkpoint");
                    if let Some(running) = self.running.get(&lease)
                        && matches!(verdict, v1::Verdict::Accepted | v1::Verdict::Duplicate)
                    {
                        running.context.acknowledge(seq);
                    }
                }
                Output::Journal(op) => self.writer.add(op),
                Output::Note(note) => say(&note),
                Output::Exit(reason) => self.exit = Some(reason),
            }
        }
    }

    fn send(&mut self, mut message: v1::worker_message::Message) {
        if let v1::worker_message::Message::Beat(beat) = &mut message {
            beat.load_milli = load_milli();
        }
        let which = word(&message);
        sichen_crash::at(sichen_crash::Place::BeforeSend, which);
        let message = v1::WorkerMessage {
            message: Some(message),
        };
        let full = self
            .outbox
            .as_ref()
            .is_some_and(|outbox| outbox.try_send(message).is_err());
        sichen_crash::at(sichen_crash::Place::AfterSend, which);
        if full {
            // Dead or hopelessly slow. What it held is said again on the next one.
            self.outbox = None;
            let events = self.stream_events.clone();
            let number = self.stream;
            self.streams.abort_all();
            self.streams.spawn(async move {
                let _ = events
                    .send((number, StreamEvent::Closed("the outbox is full".to_owned())))
                    .await;
            });
        }
    }

    fn close_stream(&mut self) {
        // Nothing of the old stream is listened to from here on.
        self.stream += 1;
        self.outbox = None;
        self.streams.abort_all();
    }

    fn dial(&mut self, after_ms: u64, address: Option<&str>) {
        self.stream += 1;
        let events = self.stream_events.clone();
        let after = Duration::from_millis(after_ms);
        let (outbox, stream) = self.dialler.dial(after, address, self.stream, events);
        self.outbox = Some(outbox);
        self.streams.spawn(stream);
    }

    fn start(&mut self, grant: v1::Grant) {
        let Some(lease) = Lease::from_wire(grant.shard, grant.token) else {
            return;
        };
        let ends_itself = self.registry.ends_itself(&grant.handler);
        let context = Context::new(
            lease,
            grant,
            self.events.clone(),
            Some(self.data_dir.clone()),
        );
        let grant = context.grant();
        tracing::info!(
            %lease, job = grant.job, handler = grant.handler, attempt = grant.attempt,
            trace_id = context.trace_id(), "attempt starts"
        );
        let abort = self
            .work
            .spawn_on(self.registry.attempt(context.clone()), &self.handlers);
        self.by_task.insert(abort.id(), lease);
        let running = Running {
            context,
            abort,
            ends_itself,
            kill_at: None,
            killed: false,
            said_stuck: false,
        };
        self.running.insert(lease, running);
    }

    fn stop(&mut self, lease: Lease, reason: v1::Reason, grace_ms: u64) {
        let Some(running) = self.running.get_mut(&lease) else {
            return;
        };
        let trace_id = running.context.trace_id();
        tracing::info!(%lease, trace_id, ?reason, grace_ms, "attempt is told to stop");
        let kill_at = boot_now().plus(grace_ms);
        running.kill_at = Some(running.kill_at.map_or(kill_at, |old| old.min(kill_at)));
        running.context.order_stop(StopOrder { reason, grace_ms });
    }

    fn on_joined(
        &mut self,
        joined: Result<(Id, Ended), tokio::task::JoinError>,
        inputs: &mut Vec<Input>,
    ) {
        let (id, ended) = match joined {
            Ok((id, ended)) => (id, ended),
            Err(join) if join.is_panic() => (join.id(), Ended::Failed(panicked(join).to_wire())),
            Err(join) => (join.id(), Ended::Stopped),
        };
        let Some(lease) = self.by_task.remove(&id) else {
            return;
        };
        // The last words of the handler, before its end.
        self.last_words(lease, inputs);
        let running = self.running.remove(&lease);
        let trace_id = running.as_ref().map(|r| r.context.trace_id());
        match &ended {
            Ended::Failed(error) => {
                // Not as `message`, which is written as it is: a process could write lines into this log.
                tracing::info!(%lease, trace_id, code = error.code, why = error.message, "attempt failed");
            }
            Ended::Succeeded { .. } => tracing::info!(%lease, trace_id, "attempt succeeded"),
            Ended::Stopped => tracing::info!(%lease, trace_id, "attempt stopped"),
        }
        inputs.push(Input::HandlerFinished { lease, ended });
    }

    fn on_dirty(&mut self, lease: Lease) {
        let mut inputs = Vec::new();
        self.last_words(lease, &mut inputs);
        self.feed_all(inputs);
    }

    /// Takes what any handler has reported: the word of one may have found the channel full.
    fn look_at_all(&mut self) {
        let mut inputs = Vec::new();
        let leases: Vec<Lease> = self.running.keys().copied().collect();
        for lease in leases {
            self.last_words(lease, &mut inputs);
        }
        if !inputs.is_empty() {
            self.feed_all(inputs);
        }
    }

    /// What a handler has reported and nobody has taken yet.
    fn last_words(&mut self, lease: Lease, inputs: &mut Vec<Input>) {
        let Some(running) = self.running.get(&lease) else {
            return;
        };
        let taken = running.context.take();
        // A flush of what was sent already: an older sequence number only sets the flag.
        let checkpoint = taken
            .checkpoint
            .or_else(|| taken.flush.then(v1::Checkpoint::default));
        if let Some(checkpoint) = checkpoint {
            inputs.push(Input::HandlerCheckpoint {
                lease,
                checkpoint,
                flush: taken.flush,
            });
        }
        // After the checkpoint, which has the counters of its own moment.
        if let Some(counters) = taken.counters {
            inputs.push(Input::HandlerCounters { lease, counters });
        }
    }

    /// Messages are gathered in `inputs`; whatever else comes waits for nothing.
    fn on_stream(&mut self, number: u64, event: StreamEvent, inputs: &mut Vec<Input>) {
        if number != self.stream {
            return;
        }
        match event {
            StreamEvent::Message(message) => {
                use v1::server_message::Message::{FinishAck, Grant};
                let one_of_many = matches!(message, Grant(_) | FinishAck(_));
                inputs.push(Input::Server(message));
                if one_of_many {
                    return;
                }
            }
            StreamEvent::Connected => inputs.push(Input::Connected),
            StreamEvent::Closed(why) => {
                tracing::warn!(why, "the stream is closed");
                self.outbox = None;
                inputs.push(Input::Disconnected { jitter: jitter() });
            }
        }
        // What it leads to may end this very stream.
        self.feed_all(std::mem::take(inputs));
    }

    fn on_written(&mut self, written: Written) {
        self.writer.answered();
        let ok = match written.result {
            Ok(()) => true,
            Err(Fault::Unwritable) => false,
            Err(Fault::Fatal) => {
                self.fatal = true;
                return;
            }
        };
        match (ok, self.unwritable) {
            (true, Some(_)) => {
                self.unwritable = None;
                self.feed(Input::JournalHealthy(true));
            }
            (false, None) => {
                self.unwritable = Some(boot_now());
                self.feed(Input::JournalHealthy(false));
            }
            (false, Some(_)) => self.unwritable = Some(boot_now()),
            (true, None) => {}
        }
        let entries = written.entries.into_iter();
        let inputs = entries.map(|(lease, entry)| Input::Journaled { lease, entry, ok });
        self.feed_all(inputs.collect());
    }

    fn on_time(&mut self) {
        let now = boot_now();
        let mut stuck = Vec::new();
        for (lease, running) in &mut self.running {
            let Some(kill_at) = running.kill_at else {
                continue;
            };
            if now >= kill_at && !running.killed {
                running.killed = true;
                if !running.ends_itself {
                    running.abort.abort();
                }
            }
            if now >= kill_at.plus(STUCK_AFTER_MS) && !running.said_stuck {
                running.said_stuck = true;
                stuck.push(*lease);
            }
        }
        for lease in stuck {
            self.feed(Input::AttemptStuck(lease));
        }
        if self
            .unwritable
            .is_some_and(|since| now >= since.plus(PROBE_EVERY_MS))
            && self.writer.push(true).is_err()
        {
            self.fatal = true;
        }
        if now >= self.next_look {
            self.next_look = now.plus(LOOK_EVERY_MS);
            self.look_at_all();
        }
        if self.session.next_wake().is_some_and(|at| now >= at) {
            self.feed(Input::Tick);
        }
    }

    fn sleep_ms(&self) -> u64 {
        let now = boot_now();
        let kills = self
            .running
            .values()
            .filter(|running| !running.killed)
            .filter_map(|running| running.kill_at);
        let next = self.session.next_wake().into_iter().chain(kills).min();
        next.map_or(LOOK_EVERY_MS, |at| at.since(now).min(LOOK_EVERY_MS))
    }

    /// Tells what still runs that nothing it does counts any more: a thread can't be ended from outside.
    async fn stop_the_rest(&mut self) {
        for running in self.running.values() {
            let (reason, grace_ms) = (v1::Reason::StaleToken, 0);
            running.context.order_stop(StopOrder { reason, grace_ms });
        }
        self.work.abort_all();
        let gone = async { while self.work.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_WORDS, gone).await;
    }

    /// Lets the journal write what it was given, and says how it ended.
    async fn finish(mut self, written: &mut mpsc::Receiver<Written>) -> Result<Drained, Error> {
        let last_words = async { while self.streams.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_WORDS, last_words).await;
        self.streams.abort_all();
        self.stop_the_rest().await;
        if self.fatal {
            return Err(Error::JournalFailed);
        }
        while self.writer.push(false).is_ok() && !self.writer.is_idle() {
            match written.recv().await {
                Some(answer) if answer.result.is_ok() => self.writer.answered(),
                _ => break,
            }
        }
        match self.exit {
            Some(ExitReason::Drained { unreported }) => Ok(Drained { unreported }),
            Some(ExitReason::Superseded) => Err(Error::Superseded),
            Some(ExitReason::Refused { code, message }) => Err(Error::Refused { code, message }),
            Some(ExitReason::Stuck(lease)) => Err(Error::Stuck(lease)),
            None => Err(Error::Died),
        }
    }
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(signals: Option<&mut Signals>) {
        let Some(signals) = signals else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = signals.terminate.recv() => {}
            _ = signals.interrupt.recv() => {}
        }
    }
}

fn say(note: &Note) {
    match note {
        Note::Registered { session_id } => tracing::info!(session_id, "registered"),
        Note::Resumed { session_id } => tracing::info!(session_id, "session resumed"),
        Note::SessionLost { why, stopped } => tracing::warn!(why, stopped, "session lost"),
        Note::Dropped { lease, why } => tracing::warn!(%lease, why, "report dropped"),
        Note::Rejected { lease, reason } => tracing::info!(%lease, ?reason, "grant given back"),
        Note::OlderEpoch { lease, known } => tracing::error!(
            %lease,
            known,
            "SC2006: the store has an older epoch than this worker has worked under: it went back, and nothing more \
             is taken; see what was restored, then restart the worker"
        ),
        Note::BadMessage(what) => tracing::warn!(what, "the server sent what makes no sense"),
        Note::Stuck(lease) => tracing::error!(%lease, "the attempt was killed and does not stop"),
    }
}

/// What kind of message it is, in a crash point's name.
fn word(message: &v1::worker_message::Message) -> &'static str {
    use v1::worker_message::Message;
    match message {
        Message::Hello(_) => "hello",
        Message::Beat(_) => "beat",
        Message::Accept(_) => "accept",
        Message::Reject(_) => "reject",
        Message::Checkpoint(_) => "checkpoint",
        Message::Finish(_) => "finish",
        Message::Draining(_) => "draining",
        Message::Output(_) => "output",
    }
}
