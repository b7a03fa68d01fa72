//! What a drill borrows of the machine: small disks, network namespaces, another clock for one process.
//!
//! # Invariants
//! - It is all new and named after this process, and given back when its handle goes.
//! - What can't be had is said before anything is started.
//!
//! # Not here
//! When it is used ([`crate::nemesis`]).

use std::io::Write as _;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::geteuid;
use tokio::process::Command;

use crate::drill::{Drill, Need, Store};
use crate::error::Error;

/// Where libfaketime may be.
const FAKETIME: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
];
/// The size of a small disk.
const DISK: &str = "size=24m";

/// Whether a drill can be carried out here.
pub(crate) fn check(drill: &Drill, store: Option<&str>) -> Result<(), Error> {
    let refused = |why: &str| Err(Error::Refused(format!("{} {why}", drill.name)));
    if drill.store == Store::Sqlite && store.is_some() {
        return refused("is about a server on SQLite: leave --store out");
    }
    for need in drill.needs {
        match need {
            Need::Root if !geteuid().is_root() => {
                return refused("mounts a small disk or makes network namespaces: run it as root");
            }
            Need::PostgresPrograms if store.is_some() => {
                return refused(
                    "kills a database server of its own: leave --store out; it needs the programs of \
                     PostgreSQL",
                );
            }
            Need::Faketime if faketime().is_none() => {
                return refused(
                    "gives one process another clock by libfaketime, which is not here (Debian, Ubuntu: \
                     apt-get install libfaketime)",
                );
            }
            Need::Netns
                if !Path::new("/usr/sbin/ip").exists() && !Path::new("/sbin/ip").exists() =>
            {
                return refused("makes network namespaces with `ip`, which is not here (iproute2)");
            }
            _ => {}
        }
    }
    Ok(())
}

/// The library that gives a process another clock.
pub(crate) fn faketime() -> Option<&'static str> {
    FAKETIME.into_iter().find(|path| Path::new(path).exists())
}

/// A small disk in memory, mounted where a process keeps its files.
#[derive(Debug)]
pub(crate) struct Disk(PathBuf);

impl Disk {
    /// Mounts one at `path`, for its owner alone.
    pub(crate) fn mount(path: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(path).map_err(|e| Error::folder(path, e))?;
        let options = format!("{DISK},mode=700");
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        let mounted = mount(
            Some("sichen-drill"),
            path,
            Some("tmpfs"),
            flags,
            Some(options.as_str()),
        );
        mounted.map_err(|e| Error::stage(&format!("a small disk at {}", path.display()), e))?;
        Ok(Self(path.to_owned()))
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("drill-ballast")
    }

    /// Fills it to the last byte.
    pub(crate) fn fill(&self) -> Result<(), Error> {
        let path = self.ballast();
        let mut file = std::fs::File::create(&path).map_err(|e| Error::folder(&path, e))?;
        for size in [1 << 20, 1 << 12, 1] {
            let bytes = vec![0; size];
            // Until it is full: that is the aim.
            while file.write_all(&bytes).is_ok() {}
        }
        Ok(())
    }

    /// Frees what was filled.
    pub(crate) fn free(&self) -> Result<(), Error> {
        let path = self.ballast();
        std::fs::remove_file(&path).map_err(|e| Error::folder(&path, e))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Whoever still uses it keeps it until it ends.
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// A network of the drill's own: a bridge, and a namespace for each worker.
#[derive(Debug)]
pub(crate) struct Net {
    bridge: String,
    spaces: Vec<String>,
    /// The first three numbers of its addresses.
    prefix: String,
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

impl Net {
    /// A bridge, and `workers` namespaces on it.
    pub(crate) async fn make(workers: u32) -> Result<Self, Error> {
        let id = std::process::id();
        let mut net = Self {
            bridge: format!("sd{}", id % 1_000_000),
            spaces: Vec::new(),
            prefix: format!("10.213.{}", id % 250),
        };
        let server = format!("{}/24", net.server());
        ip(&["link", "add", &net.bridge, "type", "bridge"]).await?;
        ip(&["addr", "add", &server, "dev", &net.bridge]).await?;
        ip(&["link", "set", &net.bridge, "up"]).await?;
        for n in 1..=workers {
            let space = format!("sichen-drill-{id}-{n}");
            ip(&["netns", "add", &space]).await?;
            net.spaces.push(space.clone());
            let outside = format!("sd{}-{n}", id % 1_000_000);
            ip(&[
                "link", "add", &outside, "type", "veth", "peer", "name", "eth0", "netns", &space,
            ])
            .await?;
            ip(&["link", "set", &outside, "master", &net.bridge, "up"]).await?;
            let address = format!("{}.{n}/24", net.prefix);
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

    /// The namespace of a worker, counted from 0.
    pub(crate) fn space(&self, worker: usize) -> Option<&str> {
        self.spaces.get(worker).map(String::as_str)
    }

    /// What a worker sends to the server goes nowhere; what the server sends to it arrives.
    pub(crate) async fn cut(&self, worker: usize) -> Result<(), Error> {
        let server = format!("{}/32", self.server());
        match self.space(worker) {
            Some(space) => ip(&["-n", space, "route", "add", "blackhole", &server]).await,
            None => Ok(()),
        }
    }

    /// It arrives again.
    pub(crate) async fn mend(&self, worker: usize) -> Result<(), Error> {
        let server = format!("{}/32", self.server());
        match self.space(worker) {
            Some(space) => ip(&["-n", space, "route", "del", "blackhole", &server]).await,
            None => Ok(()),
        }
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
