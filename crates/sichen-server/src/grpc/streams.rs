//! The streams that are open on this node, by session: the engine's courier.
//!
//! # Invariants
//! - One stream a session: the one that said Hello, or beat, last.
//!
//! # Not here
//! Reading from a stream ([`super::stream`]).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sichen_core::ids::SessionId;
use sichen_engine::courier::{Courier, ToWorker};
use sichen_proto::v1::ServerMessage;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;

use super::convert;
use super::outputs::Questions;

/// The way out to one worker.
pub(super) type Out = mpsc::Sender<Result<ServerMessage, Status>>;

/// All open streams.
#[derive(Debug, Default)]
pub struct Streams {
    open: Mutex<BTreeMap<SessionId, Out>>,
    pub(super) questions: Questions,
    running: TaskTracker,
    closing: CancellationToken,
}

impl Streams {
    pub(super) fn add(&self, session: SessionId, out: Out) {
        self.lock().insert(session, out);
    }

    /// The way to the worker of `session`, if its stream is open here.
    pub(super) fn way_to(&self, session: SessionId) -> Option<Out> {
        self.lock().get(&session).cloned()
    }

    /// Forgets the stream of `session` if it is still this one; whether it was. If not, another
    /// stream serves the session, and the end of this one is none of its business.
    #[must_use = "what follows from the end of a stream follows only for its own session"]
    pub(super) fn remove(&self, session: SessionId, out: &Out) -> bool {
        let mut open = self.lock();
        let ours = open.get(&session).is_some_and(|now| now.same_channel(out));
        if ours {
            open.remove(&session);
        }
        ours
    }

    pub(super) fn spawn(&self, stream: impl Future<Output = ()> + Send + 'static) {
        self.running.spawn(stream);
    }

    /// Resolves when the node closes its streams.
    pub(crate) async fn closing(&self) {
        self.closing.cancelled().await;
    }

    /// Ends every stream; workers come back to whoever serves them next.
    pub async fn close(&self) {
        self.closing.cancel();
        self.running.close();
        self.running.wait().await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Out>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Courier for Streams {
    fn deliver(&self, session: SessionId, message: ToWorker) -> bool {
        let out = self.lock().get(&session).cloned();
        let message = convert::to_worker(message);
        let which = convert::word(&message);
        sichen_crash::at(sichen_crash::Place::BeforeSend, which);
        let sent = out.is_some_and(|out| out.try_send(Ok(message)).is_ok());
        sichen_crash::at(sichen_crash::Place::AfterSend, which);
        sent
    }
}
