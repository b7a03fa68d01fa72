//! What a drill borrows of the machine: small disks, network namespaces ([`net`]), another clock for
//! one process.
//!
//! # Invariants
//! - It is all new and named after this process, and given back when its handle goes.
//! - What can't be had is said before anything is started.
//!
//! # Not here
//! When it is used ([`crate::nemesis`]).

mod net;
pub mod packets;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::geteuid;

use crate::database::server;
use crate::drill::{Drill, Need, Store};
use crate::error::Error;

pub(crate) use net::Net;

/// Where libfaketime may be.
const FAKETIME: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
];
/// The size of a small disk.
const DISK: &str = "size=24m";

/// Why a drill can't be carried out here, if it can't: known before anything is started.
#[must_use]
pub fn cannot(drill: &Drill, store: Option<&str>) -> Option<String> {
    check(drill, store).err().map(|error| error.to_string())
}

/// Whether a drill can be carried out here.
pub(crate) fn check(drill: &Drill, store: Option<&str>) -> Result<(), Error> {
    let refused = |why: &str| Err(Error::Refused(format!("{} {why}", drill.name)));
    if drill.store == Store::Sqlite && store.is_some() {
        return refused("is about a server on SQLite: leave --store out");
    }
    if drill.store == Store::Postgres && store.is_none() {
        server::programs()?;
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
            Need::Netns if !has("ip") => {
                return refused("makes network namespaces with `ip`, which is not here (iproute2)");
            }
            Need::Iptables if !has("iptables") => {
                return refused(
                    "loses or holds up packets with `iptables`, which is not here (Debian, Ubuntu: \
                     apt-get install iptables)",
                );
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether an administrator's program is here.
fn has(program: &str) -> bool {
    let places = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(Path::new);
    places.iter().any(|place| place.join(program).exists())
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
