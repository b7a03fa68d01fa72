//! Workers' streams: the gRPC edge of `sichen_engine::sessions`.
//!
//! # Invariants
//! - Messages of one stream are handled in their order, in chunks: the reports of a chunk are one
//!   transaction, and so are its checkpoints.
//! - Nothing is acknowledged before its commit.
//! - Queues are bounded; a stream that does not read is cut, and its worker comes back.
//!
//! # Not here
//! What a message means (engine), its text (`sichen-proto`).

mod convert;
mod outputs;
mod pass;
mod stream;
mod streams;

use std::pin::Pin;
use std::sync::Arc;

use sichen_core::access::Bounds;
use sichen_engine::driver::Engine;
use sichen_proto::MAX_MESSAGE_BYTES;
use sichen_proto::v1::sessions_server::{Sessions, SessionsServer};
use sichen_proto::v1::{ServerMessage, WorkerMessage};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

pub use crate::access::Refusal;
use crate::tls::Peer;
pub use outputs::{MAX_QUESTIONS, NoAnswer, Question};
pub use streams::Streams;

/// Messages that may wait for one worker: a grant and an answer for each slot it may have.
const OUT_QUEUE: usize = 32_768;

/// What a worker may be, or why it may not join.
pub type Judged<'a> = Pin<Box<dyn Future<Output = Result<Option<Bounds>, Refusal>> + Send + 'a>>;

/// Judges a worker's join token.
pub trait JoinAuth: Send + Sync + 'static {
    /// What a worker with `token` (empty if there was none) may be; anything, if there are no bounds.
    fn judge<'a>(&'a self, token: &'a str) -> Judged<'a>;
    /// What the worker may be that came without a token, and whose certificate stands for the token
    /// of this name.
    fn judge_named<'a>(&'a self, _name: &'a str) -> Judged<'a> {
        Box::pin(std::future::ready(Err(Refusal::Unknown)))
    }
}

/// The gRPC service.
pub struct SessionService {
    engine: Arc<Engine>,
    streams: Arc<Streams>,
    auth: Arc<dyn JoinAuth>,
    certified: bool,
}

impl std::fmt::Debug for SessionService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionService").finish_non_exhaustive()
    }
}

/// The service for `engine`, whose courier is `streams`. `certified`: only for workers that show a
/// certificate.
#[must_use]
pub fn service(
    engine: Arc<Engine>,
    streams: Arc<Streams>,
    auth: Arc<dyn JoinAuth>,
    certified: bool,
) -> SessionsServer<SessionService> {
    SessionsServer::new(SessionService {
        engine,
        streams,
        auth,
        certified,
    })
    .max_decoding_message_size(MAX_MESSAGE_BYTES)
    .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

#[tonic::async_trait]
impl Sessions for SessionService {
    type ConnectStream = ReceiverStream<Result<ServerMessage, Status>>;

    async fn connect(
        &self,
        request: Request<Streaming<WorkerMessage>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let bearer = request
            .metadata()
            .get("authorization")
            .and_then(|v| v.to_str().ok());
        let token = bearer.and_then(|b| b.strip_prefix("Bearer ")).unwrap_or("");
        let pass = pass::Pass {
            auth: self.auth.clone(),
            token: token.to_owned(),
            peer: request.extensions().get::<Arc<Peer>>().cloned(),
            certified: self.certified,
        };
        let (out, answers) = tokio::sync::mpsc::channel(OUT_QUEUE);
        let worker = stream::Stream::new(self.engine.clone(), self.streams.clone(), out, pass);
        self.streams.spawn(worker.serve(request.into_inner()));
        Ok(Response::new(ReceiverStream::new(answers)))
    }
}
