//! Starts processes, always from the same thread.
//!
//! A process asks to be killed when the thread that started it ends (`PR_SET_PDEATHSIG`), so that
//! thread must live as long as the worker; a thread of a pool would not.
//!
//! # Not here
//! What dies with it: a parent's death signal reaches the main process alone. The rest of a tree is
//! swept away by the worker's next start.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};

use tokio::sync::oneshot;

use super::tree::Leaf;

/// Starts that may wait; each is a few milliseconds.
const QUEUE: usize = 1_024;

struct Order {
    command: Command,
    /// Kept open until the child has gone through it.
    _procs: Option<std::fs::File>,
    reply: oneshot::Sender<io::Result<Child>>,
}

/// Starts `argv` in `cwd` with exactly the environment `env`, inside `leaf`.
pub(super) async fn spawn(
    argv: Vec<String>,
    cwd: PathBuf,
    env: Vec<(String, String)>,
    leaf: Option<&Leaf>,
) -> io::Result<Child> {
    let procs = leaf.map(Leaf::open_procs).transpose()?;
    let mut command = Command::new(&argv[0]);
    command
        .args(&argv[1..])
        .current_dir(cwd)
        .env_clear()
        .envs(env)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    contain(&mut command, procs.as_ref().map(AsRawFd::as_raw_fd));
    let (reply, started) = oneshot::channel();
    thread()?
        .try_send(Order {
            command,
            _procs: procs,
            reply,
        })
        .map_err(|_| io::Error::new(io::ErrorKind::WouldBlock, "too many starts at once"))?;
    started
        .await
        .map_err(|_| io::Error::other("the starting thread has ended"))?
}

fn thread() -> io::Result<&'static SyncSender<Order>> {
    static THREAD: OnceLock<Option<SyncSender<Order>>> = OnceLock::new();
    let sender = THREAD.get_or_init(|| {
        let (orders, incoming) = sync_channel::<Order>(QUEUE);
        let work = move || {
            while let Ok(mut order) = incoming.recv() {
                let child = order.command.spawn();
                // Nobody waits any more: the attempt was dropped, and its process with it.
                if let Err(Ok(mut child)) = order.reply.send(child) {
                    let _ = child.kill();
                    let _ = child.wait();
                }
            }
        };
        std::thread::Builder::new()
            .name("sichen-spawn".into())
            .spawn(work)
            .ok()
            .map(|_| orders)
    });
    sender
        .as_ref()
        .ok_or_else(|| io::Error::other("no thread to start processes from"))
}

/// Own session and process group, the death signal, and the cgroup joined before the program
/// begins, so that not even its first child is outside.
#[expect(
    unsafe_code,
    reason = "pre_exec is the only place between fork and exec"
)]
fn contain(command: &mut Command, procs: Option<i32>) {
    let worker = std::process::id();
    let before_exec = move || -> io::Result<()> {
        nix::unistd::setsid()?;
        nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
        // The worker may have died before the line above.
        if nix::unistd::getppid().as_raw().cast_unsigned() != worker {
            return Err(io::Error::from_raw_os_error(nix::libc::ESRCH));
        }
        if let Some(procs) = procs {
            // SAFETY: the descriptor stays open in `Order` until the spawn is done.
            let procs = unsafe { std::os::fd::BorrowedFd::borrow_raw(procs) };
            nix::unistd::write(procs, b"0")?;
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only; it allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(before_exec);
    }
}
