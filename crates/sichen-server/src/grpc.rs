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
mod stream;
mod streams;

use std::sync::Arc;

use sichen_engine::driver::Engine;
use sichen_proto::MAX_MESSAGE_BYTES;
use sichen_proto::v1::sessions_server::{Sessions, SessionsServer};
use sichen_proto::v1::{ServerMessage, WorkerMessage};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

pub use outputs::{MAX_QUESTIONS, NoAnswer, Question};
pub use streams::Streams;

/// Messages that may wait for one worker: a grant and an answer for each slot it may have.
const OUT_QUEUE: usize = 32_768;

/// Judges a worker's join token.
pub trait JoinAuth: Send + Sync + 'static {
    /// Whether `token` (empty if there was none) may join.
    fn may_join(&self, token: &str) -> bool;
}

/// The gRPC service.
pub struct SessionService {
    engine: Arc<Engine>,
    streams: Arc<Streams>,
    auth: Arc<dyn JoinAuth>,
}

impl std::fmt::Debug for SessionService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionService").finish_non_exhaustive()
    }
}

/// The service for `engine`, whose courier is `streams`.
#[must_use]
pub fn service(
    engine: Arc<Engine>,
    streams: Arc<Streams>,
    auth: Arc<dyn JoinAuth>,
) -> SessionsServer<SessionService> {
    SessionsServer::new(SessionService {
        engine,
        streams,
        auth,
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
        let may_join = self.auth.may_join(token);
        let (out, answers) = tokio::sync::mpsc::channel(OUT_QUEUE);
        let worker = stream::Stream::new(self.engine.clone(), self.streams.clone(), out);
        self.streams
            .spawn(worker.serve(request.into_inner(), may_join));
        Ok(Response::new(ReceiverStream::new(answers)))
    }
}
