//! A server whose every word is the test's. It listens on a free loopback port; each stream that a
//! worker opens is handed to the test as a [`Conn`].

use std::pin::Pin;
use std::time::Duration;

use sichen_proto::v1;
use sichen_proto::v1::server_message::Message as FromServer;
use sichen_proto::v1::sessions_server::{Sessions, SessionsServer};
use sichen_proto::v1::worker_message::Message as ToServer;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::Stream;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

/// No answer in a test may take longer.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Fake {
    pub address: String,
    conns: mpsc::Receiver<Conn>,
    _server: JoinSet<()>,
}

/// One stream, seen from the server.
pub struct Conn {
    pub authorization: Option<String>,
    from: Streaming<v1::WorkerMessage>,
    to: mpsc::Sender<Result<v1::ServerMessage, Status>>,
    /// Answer beats while waiting for something else.
    pub answer_beats: bool,
    pub ttl_ms: u64,
    grants: u64,
}

struct Service {
    conns: mpsc::Sender<Conn>,
}

#[tonic::async_trait]
impl Sessions for Service {
    type ConnectStream = Pin<Box<dyn Stream<Item = Result<v1::ServerMessage, Status>> + Send>>;

    async fn connect(
        &self,
        request: Request<Streaming<v1::WorkerMessage>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let authorization = request
            .metadata()
            .get("authorization")
            .and_then(|v| v.to_str().ok())
            .map(str::to_owned);
        let (to, messages) = mpsc::channel(64);
        let conn = Conn {
            authorization,
            from: request.into_inner(),
            to,
            answer_beats: true,
            ttl_ms: 10_000,
            grants: 0,
        };
        self.conns
            .send(conn)
            .await
            .map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(messages))))
    }
}

impl Fake {
    pub async fn start() -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (to_test, conns) = mpsc::channel(16);
        let service = SessionsServer::new(Service { conns: to_test });
        let mut server = JoinSet::new();
        server.spawn(async move {
            let incoming = TcpListenerStream::new(listener);
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming)
                .await
                .unwrap();
        });
        Fake {
            address,
            conns,
            _server: server,
        }
    }

    /// The next stream that a worker opens.
    pub async fn conn(&mut self) -> Conn {
        patiently(self.conns.recv())
            .await
            .expect("the server lives")
    }

    /// The next stream, welcomed as `session_id`.
    pub async fn welcomed(&mut self, session_id: u64) -> (Conn, v1::Hello) {
        let mut conn = self.conn().await;
        let hello = conn.hello().await;
        conn.welcome(session_id, Vec::new()).await;
        (conn, hello)
    }
}

pub async fn patiently<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("the test waited too long")
}

impl Conn {
    pub async fn send(&self, message: FromServer) {
        let message = v1::ServerMessage {
            message: Some(message),
        };
        self.to.send(Ok(message)).await.expect("the stream is open");
    }

    /// The next message of any kind but a beat, which is answered if it is to be.
    pub async fn next(&mut self) -> Option<ToServer> {
        loop {
            let message = patiently(self.from.next()).await?.ok()?.message?;
            match message {
                ToServer::Beat(beat) if self.answer_beats => self.answer(&beat).await,
                ToServer::Beat(_) => {}
                other => return Some(other),
            }
        }
    }

    pub async fn answer(&self, beat: &v1::Beat) {
        let ack = v1::BeatAck {
            seq: beat.seq,
            session_valid_for_ms: self.ttl_ms,
            stop: Vec::new(),
        };
        // The worker may have left the stream meanwhile.
        let _ = self
            .to
            .send(Ok(v1::ServerMessage {
                message: Some(FromServer::BeatAck(ack)),
            }))
            .await;
    }

    pub async fn beat(&mut self) -> v1::Beat {
        loop {
            match patiently(self.from.next())
                .await
                .expect("the stream is open")
                .unwrap()
                .message
            {
                Some(ToServer::Beat(beat)) => return beat,
                other => drop(other),
            }
        }
    }

    pub async fn hello(&mut self) -> v1::Hello {
        match self.next().await {
            Some(ToServer::Hello(hello)) => hello,
            other => panic!("expected a Hello, got {other:?}"),
        }
    }

    pub async fn welcome(&self, session_id: u64, journal_verdicts: Vec<v1::FinishAck>) {
        let welcome = v1::Welcome {
            session_id,
            session_ttl_ms: self.ttl_ms,
            beat_ms: self.ttl_ms / 5,
            journal_verdicts,
            stop: Vec::new(),
        };
        self.send(FromServer::Welcome(welcome)).await;
    }

    pub async fn grant(&mut self, grant: v1::Grant) {
        self.grants += 1;
        let (shard, token) = (grant.shard, grant.token);
        self.send(FromServer::Grant(v1::Grant {
            grant_seq: self.grants,
            ..grant
        }))
        .await;
        match self.next().await {
            Some(ToServer::Accept(accept)) => {
                assert_eq!((accept.shard, accept.token), (shard, token))
            }
            other => panic!("expected an Accept, got {other:?}"),
        }
    }

    pub async fn finish(&mut self) -> v1::Finish {
        loop {
            match self.next().await {
                Some(ToServer::Finish(finish)) => return finish,
                Some(_) => {}
                None => panic!("the stream ended before a Finish"),
            }
        }
    }

    pub async fn ack(&self, finish: &v1::Finish, verdict: v1::Verdict) {
        self.send(FromServer::FinishAck(verdict_on(finish, verdict)))
            .await;
    }

    /// Reads until the worker leaves the stream.
    pub async fn until_closed(mut self) {
        while self.next().await.is_some() {}
    }
}

pub fn verdict_on(finish: &v1::Finish, verdict: v1::Verdict) -> v1::FinishAck {
    v1::FinishAck {
        shard: finish.shard,
        token: finish.token,
        verdict: verdict.into(),
        detail: String::new(),
    }
}

pub fn grant(handler: &str, token: u64, parameters: &str) -> v1::Grant {
    v1::Grant {
        shard: Some(v1::ShardRef { run_id: 7, no: 0 }),
        token,
        attempt: 1,
        job: "default/test".into(),
        handler: handler.into(),
        parameters: parameters.into(),
        total: 1,
        grace_ms: 200,
        fence_key: "key".into(),
        ..v1::Grant::default()
    }
}
