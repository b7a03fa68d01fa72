//! A proxy between the store and PostgreSQL that holds each statement until it is let go.
//!
//! It reads the protocol's frames. What a client sends up to a `Sync` or as a simple query is one
//! step; the server has answered it when it is ready for the next one. Each call has a lane of its own:
//! an address whose connections are all its.
//!
//! # Invariants
//! - While the gate is closed no step reaches the server unless it was let go; but what only prepares a
//!   statement goes through, so that what was prepared before changes nothing.
//! - Steps of one connection keep their order.
//! - Each message of the server is handed on by itself.
//!
//! # Not here
//! Which step goes next ([`super::schedule`]).

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, oneshot};

use super::Planted;

/// A runtime apart from the store's: neither waits for the other's tasks.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime starts")
    })
}

/// What becomes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is sent.
    Pass,
    /// The connection breaks before it arrives.
    CutBefore,
    /// It arrives and is carried out; the connection breaks before the answer.
    CutAfter,
    /// The server refuses it with this code, and the transaction with it.
    Fail(&'static str),
}

/// A step that waits.
struct Held {
    text: String,
    go: oneshot::Sender<Fate>,
}

/// A connection: its lane, and a number.
pub type Place = (usize, u64);

#[derive(Default)]
struct State {
    closed: bool,
    held: BTreeMap<Place, Held>,
    /// Connections whose step is on its way and not yet answered, with their servers' process.
    busy: BTreeMap<Place, i32>,
    /// Server processes whose connection has ended.
    ended: Vec<i32>,
    /// A statement's name, and words that are taken out of it.
    forgotten: Option<Planted>,
}

/// What is at the gate and behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Connections with a step that waits, and what it is.
    pub held: Vec<(Place, String)>,
    /// Connections with a step at work, and the server's process.
    pub busy: Vec<(Place, i32)>,
    /// Server processes whose connection has ended.
    pub ended: Vec<i32>,
}

/// The gate, and what waits before it.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Notify,
}

impl Gate {
    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        let answer = f(&mut self.state.lock().unwrap());
        self.changed.notify_waiters();
        answer
    }

    /// From now on every step waits.
    pub fn close(&self) {
        self.with(|s| s.closed = true);
    }

    /// Nothing waits any more.
    pub fn open(&self) {
        self.with(|s| {
            s.closed = false;
            for (_, held) in std::mem::take(&mut s.held) {
                let _ = held.go.send(Fate::Pass);
            }
        });
    }

    /// Takes words out of the statement of a name from now on: a planted bug.
    pub fn forget(&self, planted: Option<Planted>) {
        self.with(|s| s.forgotten = planted);
    }

    pub fn seen(&self) -> Seen {
        let state = self.state.lock().unwrap();
        let held = state.held.iter();
        Seen {
            held: held.map(|(c, h)| (*c, h.text.clone())).collect(),
            busy: state.busy.iter().map(|(c, pid)| (*c, *pid)).collect(),
            ended: state.ended.clone(),
        }
    }

    /// These server processes are gone.
    pub fn gone(&self, pids: &[i32]) {
        self.with(|s| s.ended.retain(|pid| !pids.contains(pid)));
    }

    /// Lets the connection's step go.
    pub fn release(&self, place: Place, fate: Fate) {
        let held = self.with(|s| s.held.remove(&place));
        if let Some(held) = held {
            let _ = held.go.send(fate);
        }
    }

    /// Waits for any change, but not for long.
    pub async fn changes(&self, within: Duration) {
        let _ = tokio::time::timeout(within, self.changed.notified()).await;
    }

    async fn pass(&self, place: Place, text: &str) -> Fate {
        let (go, gone) = oneshot::channel();
        let waits = self.with(|s| {
            if s.closed {
                let text = text.to_owned();
                s.held.insert(place, Held { text, go });
            }
            s.closed
        });
        if waits {
            gone.await.unwrap_or(Fate::CutBefore)
        } else {
            Fate::Pass
        }
    }
}

/// A proxy to the server whose socket is at `socket`, for `lane`; where it listens. After each message
/// of the server it waits for `pause`.
pub fn start(socket: &Path, gate: &Arc<Gate>, lane: usize, pause: Duration) -> u16 {
    let (socket, gate) = (socket.to_owned(), Arc::clone(gate));
    runtime().block_on(async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        runtime().spawn(async move {
            let mut number = 0;
            while let Ok((client, _)) = listener.accept().await {
                number += 1;
                client.set_nodelay(true).unwrap();
                let (socket, gate) = (socket.clone(), Arc::clone(&gate));
                runtime().spawn(carry((lane, number), client, socket, gate, pause));
            }
        });
        port
    })
}

async fn carry(
    place: Place,
    client: tokio::net::TcpStream,
    socket: PathBuf,
    gate: Arc<Gate>,
    pause: Duration,
) {
    let Ok(server) = UnixStream::connect(&socket).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let link = Arc::new(Link {
        place,
        to_client: tokio::sync::Mutex::new(to_client),
        answered: Notify::new(),
        pid: Mutex::new(0),
        dropped: Mutex::new(false),
        asked: Mutex::new(VecDeque::new()),
        pause,
    });
    tokio::select! {
        () = questions(from_client, to_server, &link, &gate) => {}
        () = answers(from_server, &link, &gate) => {}
    }
    let pid = *link.pid.lock().unwrap();
    gate.with(|s| {
        s.busy.remove(&place);
        s.held.remove(&place);
        s.ended.extend((pid > 0).then_some(pid));
    });
}

/// What both directions of one connection know.
struct Link {
    place: Place,
    to_client: tokio::sync::Mutex<OwnedWriteHalf>,
    answered: Notify,
    pid: Mutex<i32>,
    /// The client hears nothing more.
    dropped: Mutex<bool>,
    /// Steps without an answer, and whether the client is to hear it.
    asked: Mutex<VecDeque<bool>>,
    pause: Duration,
}

async fn questions(
    mut from: impl AsyncRead + Unpin,
    mut to: tokio::net::unix::OwnedWriteHalf,
    link: &Link,
    gate: &Gate,
) {
    let Some(first) = untyped(&mut from).await else {
        return;
    };
    if to.write_all(&first).await.is_err() {
        return;
    }
    let mut step = Vec::new();
    let mut prepared = BTreeMap::new();
    let mut acts = None;
    while let Some((kind, frame)) = typed(&mut from).await {
        step.extend_from_slice(&frame);
        match kind {
            b'P' => drop(prepared.insert(text(&frame, 0), words(&text(&frame, 1)))),
            b'Q' => acts = Some(words(&text(&frame, 0))),
            b'B' => acts = prepared.get(&text(&frame, 1)).cloned(),
            _ => {}
        }
        if !matches!(kind, b'S' | b'Q' | b'X' | b'p') {
            continue;
        }
        if let Some((name, words)) = gate.with(|s| s.forgotten) {
            blank(&mut step, &format!("-- {name}:"), words);
        }
        let fate = match acts.take() {
            Some(words) => gate.pass(link.place, &words).await,
            None => Fate::Pass,
        };
        let sent = match fate {
            Fate::CutBefore => return,
            Fate::Pass => std::mem::take(&mut step),
            Fate::CutAfter => {
                *link.dropped.lock().unwrap() = true;
                std::mem::take(&mut step)
            }
            Fate::Fail(code) => {
                step.clear();
                refusal(code)
            }
        };
        if matches!(kind, b'S' | b'Q') {
            let pid = *link.pid.lock().unwrap();
            let is_asked = !matches!(fate, Fate::Fail(_));
            link.asked.lock().unwrap().push_back(is_asked);
            gate.with(|s| s.busy.insert(link.place, pid));
        }
        if to.write_all(&sent).await.is_err() {
            return;
        }
        if fate == Fate::CutAfter {
            link.answered.notified().await;
            return;
        }
        if let Fate::Fail(code) = fate {
            link.answered.notified().await;
            let mut client = link.to_client.lock().await;
            if client.write_all(&refused(code)).await.is_err() {
                return;
            }
        }
    }
}

async fn answers(mut from: impl AsyncRead + Unpin, link: &Link, gate: &Gate) {
    while let Some((kind, frame)) = typed(&mut from).await {
        if kind == b'K' {
            let pid = i32::from_be_bytes(frame[5..9].try_into().unwrap());
            *link.pid.lock().unwrap() = pid;
        }
        let is_asked = link.asked.lock().unwrap().front().copied();
        let swallowed = is_asked == Some(false);
        let dropped = *link.dropped.lock().unwrap();
        if kind == b'Z' {
            let left = {
                let mut asked = link.asked.lock().unwrap();
                asked.pop_front();
                asked.len()
            };
            if left == 0 {
                gate.with(|s| s.busy.remove(&link.place));
            }
            if swallowed || (dropped && left == 0) {
                link.answered.notify_one();
            }
        }
        if !swallowed && !dropped {
            let mut client = link.to_client.lock().await;
            if client.write_all(&frame).await.is_err() {
                return;
            }
            drop(client);
            if !link.pause.is_zero() {
                tokio::time::sleep(link.pause).await;
            }
        }
    }
}

/// The startup packet.
async fn untyped(from: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut packet = vec![0; 4];
    from.read_exact(&mut packet).await.ok()?;
    let length = u32::from_be_bytes(packet[..4].try_into().unwrap()) as usize;
    packet.resize(length, 0);
    from.read_exact(&mut packet[4..]).await.ok()?;
    Some(packet)
}

/// A frame with its kind.
async fn typed(from: &mut (impl AsyncRead + Unpin)) -> Option<(u8, Vec<u8>)> {
    let mut frame = vec![0; 5];
    from.read_exact(&mut frame).await.ok()?;
    let length = u32::from_be_bytes(frame[1..5].try_into().unwrap()) as usize;
    frame.resize(length + 1, 0);
    from.read_exact(&mut frame[5..]).await.ok()?;
    Some((frame[0], frame))
}

fn query(text: &str) -> Vec<u8> {
    let mut frame = vec![b'Q'];
    let length = u32::try_from(text.len() + 5).unwrap();
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(text.as_bytes());
    frame.push(0);
    frame
}

/// What makes the server refuse, and end its transaction.
fn refusal(code: &str) -> Vec<u8> {
    query(&format!(
        "do $$ begin raise exception 'forced' using errcode = '{code}'; end $$"
    ))
}

/// What the client hears then: an error, and that the transaction has failed.
fn refused(code: &str) -> Vec<u8> {
    let mut fields = Vec::new();
    for (field, value) in [("S", "ERROR"), ("V", "ERROR"), ("C", code), ("M", "forced")] {
        fields.extend_from_slice(field.as_bytes());
        fields.extend_from_slice(value.as_bytes());
        fields.push(0);
    }
    fields.push(0);
    let mut frame = vec![b'E'];
    frame.extend_from_slice(&u32::try_from(fields.len() + 4).unwrap().to_be_bytes());
    frame.extend_from_slice(&fields);
    frame.extend_from_slice(&[b'Z', 0, 0, 0, 5, b'E']);
    frame
}

/// Overwrites `words` with blanks in a step that has `mark`; the frame keeps its length.
fn blank(step: &mut [u8], mark: &str, words: &str) {
    let find = |step: &[u8], text: &str| {
        let mut places = step.windows(text.len());
        places.position(|part| part == text.as_bytes())
    };
    if find(step, mark).is_some()
        && let Some(place) = find(step, words)
    {
        step[place..place + words.len()].fill(b' ');
    }
}

/// The `n`th text of a frame, from 0.
fn text(frame: &[u8], n: usize) -> String {
    let text = frame[5..].split(|b| *b == 0).nth(n);
    String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
}

/// A step for people: the name in a statement's first line, or its first words.
fn words(text: &str) -> String {
    let named = text.strip_prefix("-- ").and_then(|t| t.split(':').next());
    named.unwrap_or(text).chars().take(40).collect()
}
