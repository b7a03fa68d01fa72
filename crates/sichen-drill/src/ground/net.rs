//! A network of the drill's own, in which packets can vanish, be lost by chance, and be late.
//!
//! # Invariants
//! - Everything is named after its number, which no other drill has meanwhile, and goes with its handle.
//! - Rules stand in the drill's own namespaces, never in the machine's.
//!
//! # Not here
//! Holding a packet up ([`super::packets`], in a process of its own).

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::packets;
use crate::error::Error;
use crate::program::command;

/// A network of the drill's own: a bridge, and a namespace for each worker.
#[derive(Debug)]
pub(crate) struct Net {
    bridge: String,
    spaces: Vec<String>,
    /// The first three numbers of its addresses.
    prefix: String,
    /// What holds up packets, one for each namespace.
    holding: Vec<Child>,
    /// While it is held nobody else has this number.
    _claim: UnixListener,
}

/// Networks of drills at once on one machine.
const MAX_NETS: u32 = 250;

/// A number that no other drill in this network namespace has, and whose bridge and addresses nobody
/// has: neither this machine's own network nor what a drill that was killed has left.
async fn claim() -> Result<(u32, UnixListener), Error> {
    let listed = Command::new("ip").args(["-o", "-4", "addr"]).output().await;
    let listed = listed.map_err(|e| Error::stage("ip", e))?.stdout;
    let listed = String::from_utf8_lossy(&listed);
    for n in 1..=MAX_NETS {
        // A name in this network namespace, gone with its process however that ends.
        let name = SocketAddr::from_abstract_name(format!("sichen-drill-net-{n}"));
        let claim = name.and_then(|name| UnixListener::bind_addr(&name));
        let is_free = !listed.contains(&format!(" {}.", prefix(n)))
            && !Path::new(&format!("/sys/class/net/{}", bridge(n))).exists();
        if let (Ok(claim), true) = (claim, is_free) {
            return Ok((n, claim));
        }
    }
    Err(Error::stage(
        "a network of the drill's own",
        format!(
            "{MAX_NETS} of them are in use, or left by drills that were killed (`ip link`: sdN)"
        ),
    ))
}

fn bridge(n: u32) -> String {
    format!("sd{n}")
}

fn prefix(n: u32) -> String {
    format!("10.213.{n}")
}

async fn ip(words: &[&str]) -> Result<(), Error> {
    let made = Command::new("ip").args(words).output().await;
    let made = made.map_err(|e| Error::stage("ip", e))?;
    if made.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&made.stderr).trim().to_owned();
    Err(Error::stage(&format!("ip {}", words.join(" ")), said))
}

/// A rule for packets of one namespace.
async fn rule(space: &str, words: &[&str]) -> Result<(), Error> {
    let words: Vec<&str> = ["netns", "exec", space, "iptables", "-w"]
        .into_iter()
        .chain(words.iter().copied())
        .collect();
    ip(&words).await
}

impl Net {
    /// A bridge, and `workers` namespaces on it.
    pub(crate) async fn make(workers: u32) -> Result<Self, Error> {
        let id = std::process::id();
        let (n, claim) = claim().await?;
        let mut net = Self {
            bridge: bridge(n),
            spaces: Vec::new(),
            prefix: prefix(n),
            holding: Vec::new(),
            _claim: claim,
        };
        let server = format!("{}/24", net.server());
        ip(&["link", "add", &net.bridge, "type", "bridge"]).await?;
        // One of its own: else it is that of one of its ports, and pulling that one's cable would move the server
        // for all others too.
        let [.., b, c, d] = id.to_be_bytes();
        let address = format!("02:5d:00:{b:02x}:{c:02x}:{d:02x}");
        ip(&["link", "set", &net.bridge, "address", &address]).await?;
        ip(&["addr", "add", &server, "dev", &net.bridge]).await?;
        ip(&["link", "set", &net.bridge, "up"]).await?;
        for worker in 1..=workers {
            let space = format!("sichen-drill-{id}-{n}-{worker}");
            ip(&["netns", "add", &space]).await?;
            net.spaces.push(space.clone());
            let outside = net.outside(net.spaces.len() - 1);
            ip(&[
                "link", "add", &outside, "type", "veth", "peer", "name", "eth0", "netns", &space,
            ])
            .await?;
            ip(&["link", "set", &outside, "master", &net.bridge, "up"]).await?;
            let address = format!("{}.{worker}/24", net.prefix);
            ip(&["-n", &space, "addr", "add", &address, "dev", "eth0"]).await?;
            ip(&["-n", &space, "link", "set", "eth0", "up"]).await?;
            ip(&["-n", &space, "link", "set", "lo", "up"]).await?;
        }
        Ok(net)
    }

    /// The server's address in it.
    pub(crate) fn server(&self) -> String {
        format!("{}.254", self.prefix)
    }

    /// A worker's end on the bridge, counted from 0.
    fn outside(&self, worker: usize) -> String {
        format!("{}-{}", self.bridge, worker + 1)
    }

    /// The namespace of a worker, counted from 0.
    pub(crate) fn space(&self, worker: usize) -> Option<&str> {
        self.spaces.get(worker).map(String::as_str)
    }

    /// What a worker sends to the server vanishes, and nobody is told; what the server sends arrives.
    pub(crate) async fn cut(&self, worker: usize) -> Result<(), Error> {
        self.one_way("-A", worker).await
    }

    /// It arrives again.
    pub(crate) async fn mend(&self, worker: usize) -> Result<(), Error> {
        self.one_way("-D", worker).await
    }

    /// No route that leads nowhere: of that the sender is told at once.
    async fn one_way(&self, change: &str, worker: usize) -> Result<(), Error> {
        let server = self.server();
        match self.space(worker) {
            Some(space) => rule(space, &[change, "OUTPUT", "-d", &server, "-j", "DROP"]).await,
            None => Ok(()),
        }
    }

    /// Takes a worker off the bridge: nothing passes either way, and nobody is told.
    pub(crate) async fn unplug(&self, worker: usize) -> Result<(), Error> {
        ip(&["link", "set", &self.outside(worker), "nomaster"]).await
    }

    /// Puts it back.
    pub(crate) async fn plug(&self, worker: usize) -> Result<(), Error> {
        ip(&["link", "set", &self.outside(worker), "master", &self.bridge]).await
    }

    /// Of a hundred packets to or from each worker so many are lost.
    pub(crate) async fn lose(&self, per_cent: u8) -> Result<(), Error> {
        let part = format!("0.{per_cent:02}");
        for space in &self.spaces {
            for chain in ["INPUT", "OUTPUT"] {
                let chance = ["-A", chain, "-m", "statistic", "--mode", "random"];
                let end = ["--probability", &part, "-j", "DROP"];
                rule(space, &[chance.as_slice(), &end].concat()).await?;
            }
        }
        Ok(())
    }

    /// Each packet to a worker is held up for `ms`, `jitter_ms` more or less.
    pub(crate) async fn delay(&mut self, exe: &Path, ms: u16, jitter_ms: u16) -> Result<(), Error> {
        for space in &self.spaces {
            let mut command = command(Path::new("ip"));
            let (ms, jitter_ms) = (ms.to_string(), jitter_ms.to_string());
            let mut child = command
                .args(["netns", "exec", space])
                .arg(exe)
                .args(["drill", "packets", &ms, &jitter_ms])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|e| Error::stage("holding up packets", e))?;
            let out = child.stdout.take();
            let first = match out {
                Some(out) => BufReader::new(out).lines().next_line().await.ok().flatten(),
                None => None,
            };
            if first.as_deref() != Some(packets::READY) {
                return Err(Error::stage("holding up packets", "it did not begin"));
            }
            self.holding.push(child);
            let queue = packets::QUEUE.to_string();
            // Once nobody holds them up any more they pass.
            let words = ["-A", "INPUT", "-j", "NFQUEUE", "--queue-num", &queue];
            rule(space, &[words.as_slice(), &["--queue-bypass"]].concat()).await?;
        }
        Ok(())
    }

    /// Everything is carried again, at once.
    pub(crate) async fn carry(&mut self) -> Result<(), Error> {
        for space in &self.spaces {
            rule(space, &["-F"]).await?;
        }
        for mut child in self.holding.drain(..) {
            // Its input ends, and so does it, when what it holds is let go.
            drop(child.stdin.take());
            let ended = child.wait().await;
            ended.map_err(|e| Error::stage("holding up packets", e))?;
        }
        Ok(())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let gone = |words: &[&str]| {
            // It may be half made.
            let _ = std::process::Command::new("ip")
                .args(words)
                .stderr(std::process::Stdio::null())
                .status();
        };
        for space in &self.spaces {
            gone(&["netns", "del", space]);
        }
        gone(&["link", "del", &self.bridge]);
    }
}

#[cfg(test)]
mod tests;
