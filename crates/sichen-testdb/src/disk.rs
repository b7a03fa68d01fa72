//! A small disk for one test, that can be full and whose power can be cut: an ext4 image in memory, mounted
//! over a loop device.
//!
//! What a process has written and not flushed is in the page cache of the mounted file system, and not in
//! the image. A copy of the image is therefore what a disk holds whose machine loses its power at that moment.
//!
//! # Invariants
//! - Without root or loop devices nothing is tested, and that is said; where `CI` is set it fails.
//! - It is unmounted with its handle. Processes that use it must be gone by then.
//!
//! # Not here
//! Stopping those who write while the power is cut: the test knows them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::geteuid;

use crate::programs::in_ci;

/// A mounted disk.
#[derive(Debug)]
pub struct Disk {
    image: PathBuf,
    mount: PathBuf,
    _dir: tempfile::TempDir,
}

impl Disk {
    /// A new, empty disk of so many MiB; `None`, and said so, if this machine can't have one.
    pub fn new(mib: u64) -> Option<Self> {
        if !can_mount() {
            let say = "SKIPPED: a disk of one's own needs root, loop devices and mkfs.ext4";
            assert!(!in_ci(), "{say}, although CI is set");
            // Past the test runner's capture, which would hide it of a test that passes.
            let _ = writeln!(std::io::stderr(), "{say}");
            return None;
        }
        let disk = Self::unmounted();
        let file = std::fs::File::create(&disk.image).expect("a file in memory");
        file.set_len(mib << 20).expect("a sparse file");
        run(Command::new("mkfs.ext4")
            .args(["-q", "-F", "-m", "0"])
            .arg(&disk.image));
        disk.mount();
        Some(disk)
    }

    fn unmounted() -> Self {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() {
            memory
        } else {
            Path::new("/tmp")
        };
        let dir = tempfile::Builder::new()
            .prefix("sichen-disk-")
            .tempdir_in(base);
        let dir = dir.expect("a directory");
        let mount = dir.path().join("m");
        std::fs::create_dir(&mount).expect("it is new");
        Self {
            image: dir.path().join("image"),
            mount,
            _dir: dir,
        }
    }

    fn mount(&self) {
        // The file system itself is to flush nothing that nobody asked for while a test lasts.
        let options = "loop,commit=300,noatime";
        run(Command::new("mount")
            .args(["-o", options])
            .arg(&self.image)
            .arg(&self.mount));
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.mount
    }

    /// What this disk holds if its machine loses its power now, mounted as another one. Whoever writes to
    /// this one must have been stopped.
    #[must_use]
    pub fn after_power_loss(&self) -> Self {
        let disk = Self::unmounted();
        std::fs::copy(&self.image, &disk.image).expect("the image can be copied");
        disk.mount();
        disk
    }

    /// The same place on this disk as `path` on `other`.
    pub fn place_of(&self, other: &Disk, path: &Path) -> PathBuf {
        let below = path
            .strip_prefix(&other.mount)
            .expect("a path on the other disk");
        self.mount.join(below)
    }

    /// Fills it to the last byte with a file of its own.
    pub fn fill(&self) {
        let mut filler = std::fs::File::create(self.mount.join("filler")).expect("a name has room");
        // Large pieces first, so that it takes a moment.
        for piece in [1 << 20, 4_096, 1] {
            let bytes = vec![1; piece];
            while filler.write_all(&bytes).is_ok() {}
        }
        let _ = filler.sync_all();
    }

    /// Takes that file away.
    pub fn make_room(&self) {
        std::fs::remove_file(self.mount.join("filler")).expect("it was filled");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, should a process still be about to end.
        let _ = Command::new("umount").arg("-l").arg(&self.mount).status();
    }
}

fn can_mount() -> bool {
    let there = |path: &str| Path::new(path).exists();
    let mkfs = Command::new("mkfs.ext4").arg("-V").output().is_ok();
    geteuid().is_root() && there("/dev/loop-control") && mkfs
}

fn run(command: &mut Command) {
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}
