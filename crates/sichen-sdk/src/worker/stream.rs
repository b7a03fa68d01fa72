//! The gRPC stream to a server: dial, send, receive, tell the driver.
//!
//! # Invariants
//! - Every event carries the number of its stream, so that nothing of an abandoned stream is taken
//!   for the present one's.
//!
//! # Not here
//! When to dial and what to say (`session`).

use std::path::PathBuf;
use std::time::Duration;

use sichen_proto::MAX_MESSAGE_BYTES;
use sichen_proto::v1;
use sichen_proto::v1::sessions_client::SessionsClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Uri};

use super::{Error, outputs};
use crate::output::AttemptOutput;

/// Messages that may wait for the network. A full queue is a dead stream: it is left.
pub(super) const OUTBOX: usize = 32_768;
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Not below 10 s, or servers answer GOAWAY `too_many_pings`. The beats notice sooner.
const PING_EVERY: Duration = Duration::from_secs(10);
const PONG_WITHIN: Duration = Duration::from_secs(5);

/// What a stream tells the driver.
#[expect(clippy::large_enum_variant, reason = "few of them live at a time")]
#[derive(Debug)]
pub(super) enum StreamEvent {
    /// Open: what is put into the outbox goes out.
    Connected,
    Message(v1::server_message::Message),
    Closed(String),
}

/// Whom a worker trusts, and as whom it shows itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Trust {
    /// Certificates, PEM, that may vouch for a server; none: those of this machine.
    pub(super) ca_pem: Option<Vec<u8>>,
    /// Files with the worker's own certificate and its key, read whenever it dials.
    pub(super) own: Option<(PathBuf, PathBuf)>,
}

impl Trust {
    fn identity(&self) -> Result<Option<Identity>, String> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let Some((cert, key)) = &self.own else {
            return Ok(None);
        };
        Ok(Some(Identity::from_pem(read(cert)?, read(key)?)))
    }
}

/// An address to dial.
///
/// # Errors
/// Not an `http://` or `https://` address; certificates that can't be read.
pub(super) fn endpoint(address: &str, trust: &Trust) -> Result<Endpoint, Error> {
    let bad = |why: String| Error::Config(format!("server address {address:?}: {why}"));
    let encrypted = address.starts_with("https://");
    if !encrypted && !address.starts_with("http://") {
        return Err(bad(
            "expected http://host:port or https://host:port".to_owned()
        ));
    }
    let mut endpoint =
        Endpoint::from_shared(address.to_owned()).map_err(|error| bad(error.to_string()))?;
    if encrypted {
        let mut tls = match &trust.ca_pem {
            Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let Some(identity) = trust.identity().map_err(bad)? {
            tls = tls.identity(identity);
        }
        endpoint = endpoint
            .tls_config(tls)
            .map_err(|error| bad(chain(&error)))?;
    }
    Ok(endpoint
        .connect_timeout(CONNECT_WITHIN)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN)
        .keep_alive_while_idle(true))
}

/// Knows the servers and opens one stream at a time.
#[derive(Debug)]
pub(super) struct Dialler {
    servers: Vec<Uri>,
    trust: Trust,
    next: usize,
    dialled: Option<Uri>,
    token: Option<MetadataValue<Ascii>>,
    output: AttemptOutput,
}

impl Dialler {
    pub(super) fn new(
        servers: Vec<Endpoint>,
        trust: Trust,
        join_token: Option<String>,
        output: AttemptOutput,
    ) -> Result<Dialler, Error> {
        let token = join_token
            .map(|token| {
                let mut value: MetadataValue<Ascii> =
                    format!("Bearer {token}").parse().map_err(|_| {
                        Error::Config(
                            "the join token has characters that no header can carry".to_owned(),
                        )
                    })?;
                value.set_sensitive(true);
                Ok::<_, Error>(value)
            })
            .transpose()?;
        Ok(Dialler {
            servers: servers.iter().map(|server| server.uri().clone()).collect(),
            trust,
            next: 0,
            dialled: None,
            token,
            output,
        })
    }

    /// Whether a server may send us there: never from TLS to a connection without.
    fn may_dial(&self, address: &str) -> bool {
        let plain = |uri: &Uri| uri.scheme_str() == Some("http");
        address.starts_with("https://") || self.servers.iter().any(plain)
    }

    /// The servers in turn; not the one that was dialled last, where there is another.
    fn next_server(&mut self) -> Uri {
        let mut turn = || {
            let uri = self.servers[self.next % self.servers.len()].clone();
            self.next = self.next.wrapping_add(1);
            uri
        };
        let uri = turn();
        if self.dialled.as_ref() == Some(&uri) {
            return turn();
        }
        uri
    }

    /// The next stream: the preferred address if it is one, else the servers in turn.
    pub(super) fn dial(
        &mut self,
        after: Duration,
        preferred: Option<&str>,
        number: u64,
        events: mpsc::Sender<(u64, StreamEvent)>,
    ) -> (
        mpsc::Sender<v1::WorkerMessage>,
        impl Future<Output = ()> + Send + 'static,
    ) {
        let uri = preferred
            .filter(|address| self.may_dial(address))
            .and_then(|address| address.parse::<Uri>().ok())
            .unwrap_or_else(|| self.next_server());
        self.dialled = Some(uri.clone());
        let trust = self.trust.clone();
        let (outbox, messages) = mpsc::channel(OUTBOX);
        let token = self.token.clone();
        let (asks, questions) = mpsc::channel(outputs::MAX_OUTPUT_QUESTIONS);
        // Weak: the stream ends when the driver lets go of its outbox.
        let way_out = outbox.downgrade();
        let answers = outputs::answer(self.output.clone(), questions, way_out.clone());
        let stream = async move {
            tokio::time::sleep(after).await;
            let asked = |question| outputs::take(question, &asks, &way_out);
            let ended = tokio::select! {
                ended = talk(&uri, &trust, token, messages, number, &events, asked) => ended,
                // It answers as long as `asks` is there.
                () = answers => Ok(()),
            };
            let closed = match ended {
                Ok(()) => format!("{uri} closed the stream"),
                Err(error) => format!("{uri}: {error}"),
            };
            // The driver may have gone.
            let _ = events.send((number, StreamEvent::Closed(closed))).await;
        };
        (outbox, stream)
    }
}

async fn talk(
    uri: &Uri,
    trust: &Trust,
    token: Option<MetadataValue<Ascii>>,
    messages: mpsc::Receiver<v1::WorkerMessage>,
    number: u64,
    events: &mpsc::Sender<(u64, StreamEvent)>,
    asked: impl Fn(v1::ReadOutput),
) -> Result<(), String> {
    // By the files of now.
    let endpoint = endpoint(&uri.to_string(), trust).map_err(|error| error.to_string())?;
    let channel = endpoint.connect().await.map_err(|error| chain(&error))?;
    let mut client = SessionsClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let mut request = tonic::Request::new(ReceiverStream::new(messages));
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", token);
    }
    // Said before the call is answered: a server may want to read the Hello first.
    if events.send((number, StreamEvent::Connected)).await.is_err() {
        return Ok(());
    }
    let mut incoming = client
        .connect(request)
        .await
        .map_err(|status| say(&status))?
        .into_inner();
    while let Some(message) = incoming.message().await.map_err(|status| say(&status))? {
        // A kind that this build does not know is skipped.
        let message = match message.message {
            Some(v1::server_message::Message::ReadOutput(question)) => {
                asked(question);
                continue;
            }
            Some(message) => message,
            None => continue,
        };
        if events
            .send((number, StreamEvent::Message(message)))
            .await
            .is_err()
        {
            return Ok(());
        }
    }
    Ok(())
}

fn say(status: &tonic::Status) -> String {
    let what = format!("{:?}: {}", status.code(), status.message());
    // A server that refuses the certificate says so below what TLS is spoken through.
    match std::error::Error::source(status) {
        Some(source) => format!("{what}: {}", chain(source)),
        None => what,
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
