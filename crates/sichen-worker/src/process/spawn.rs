//! Starts processes, always from the same thread.
//!
//! What a start forks may ask to be killed when the thread that forked it ends, so that thread must
//! live as long as the worker; a thread of a pool would not. And one start at a time means that no
//! supervisor is born while another's pipes are half made.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use nix::unistd::Pid;
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::oneshot;

use super::cgroup::Leaf;
use super::files;
use super::supervisor::{self, Ends, MAX_GROUPS};
use super::tree::Started;

/// Starts that may stand in the queue; further ones wait for room in it. Each is a few milliseconds.
const QUEUE: usize = 1_024;

struct Order {
    command: Command,
    orders: PipeWriter,
    reports: PipeReader,
    held: Held,
    reply: oneshot::Sender<io::Result<Started>>,
}

/// The supervisor's ends, open here until it has them.
struct Held {
    _orders: PipeReader,
    _reports: PipeWriter,
    _alive: File,
    _procs: Vec<File>,
}

/// What is to be started.
#[derive(Debug)]
pub(super) struct Start<'a> {
    /// Program and arguments.
    pub(super) argv: &'a [String],
    pub(super) cwd: PathBuf,
    /// All of it.
    pub(super) env: Vec<(String, String)>,
    /// [`MAX_GROUPS`] at most.
    pub(super) leaves: &'a [Leaf],
    /// A file that stays locked while the supervisor lives.
    pub(super) alive: File,
}

impl Start<'_> {
    /// Starts it under a supervisor, with pipes for stdout and stderr; `None` if `cancelled` returns
    /// before its turn has come. A start that has begun is waited for, since its process may be there.
    pub(super) async fn start(
        self,
        cancelled: impl Future<Output = ()>,
    ) -> io::Result<Option<Started>> {
        let procs = self.leaves.iter().map(Leaf::open_procs);
        let procs: Vec<File> = procs.collect::<io::Result<_>>()?;
        let mut groups = [None; MAX_GROUPS];
        for (group, procs) in groups.iter_mut().zip(&procs) {
            *group = Some(procs.as_raw_fd());
        }
        let (their_orders, orders) = io::pipe()?;
        let (reports, their_reports) = io::pipe()?;
        self.alive.try_lock()?;
        let mut command = Command::new(&self.argv[0]);
        command
            .args(&self.argv[1..])
            .current_dir(self.cwd)
            .env_clear()
            .envs(self.env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let ends = Ends {
            orders: their_orders.as_raw_fd(),
            reports: their_reports.as_raw_fd(),
            alive: self.alive.as_raw_fd(),
            procs: groups,
            leaf: self.leaves.first().and_then(Leaf::removable),
            files: files::of_programs(),
        };
        supervised(&mut command, ends);
        let held = Held {
            _orders: their_orders,
            _reports: their_reports,
            _alive: self.alive,
            _procs: procs,
        };
        let (reply, started) = oneshot::channel();
        let order = Order {
            command,
            orders,
            reports,
            held,
            reply,
        };
        let order = Arc::new(Mutex::new(Some(order)));
        let ended = |_| io::Error::other("the starting thread has ended");
        let queue = thread()?;
        let mut turn = pin!(async {
            let queued = queue.send(order.clone()).await;
            queued.map_err(|_| io::Error::other("the starting thread has ended"))?;
            started.await.map_err(ended)?
        });
        tokio::select! {
            started = &mut turn => return started.map(Some),
            () = cancelled => {}
        }
        // Whoever takes it decides.
        if take(&order).is_some() {
            return Ok(None);
        }
        turn.await.map(Some)
    }
}

#[expect(
    unsafe_code,
    reason = "pre_exec is the only place between fork and exec"
)]
fn supervised(command: &mut Command, ends: Ends) {
    // SAFETY: what runs there makes system calls only; it allocates nothing and takes no lock. The
    // descriptors are open in `Held` until the start is done.
    unsafe {
        command.pre_exec(move || supervisor::split_off(&ends));
    }
}

impl Order {
    fn carry_out(self) -> (oneshot::Sender<io::Result<Started>>, io::Result<Started>) {
        let Order {
            mut command,
            orders,
            mut reports,
            held,
            reply,
        } = self;
        sichen_crash::at(sichen_crash::Place::BeforeSpawn, "program");
        let child = command.spawn();
        drop(held);
        let started = child.and_then(|supervisor| {
            let leader = number_of_leader(&mut reports);
            let leader = leader.map_err(|error| reaped(supervisor.id(), error))?;
            sichen_crash::at(sichen_crash::Place::AfterSpawn, "program");
            Ok(Started {
                supervisor,
                leader,
                orders,
                reports,
            })
        });
        (reply, started)
    }
}

fn number_of_leader(reports: &mut PipeReader) -> io::Result<Pid> {
    let mut number = [0; 4];
    reports.read_exact(&mut number)?;
    Ok(Pid::from_raw(i32::from_ne_bytes(number)))
}

/// The supervisor died before its first word; its program dies with it.
fn reaped(supervisor: u32, error: io::Error) -> io::Error {
    let _ = nix::sys::wait::waitpid(Pid::from_raw(supervisor.cast_signed()), None);
    io::Error::new(error.kind(), "its supervisor was killed at once")
}

/// An order that waits for its turn, until it is carried out or given up.
type Waiting = Arc<Mutex<Option<Order>>>;

fn take(order: &Waiting) -> Option<Order> {
    order.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn thread() -> io::Result<&'static Sender<Waiting>> {
    static THREAD: OnceLock<Option<Sender<Waiting>>> = OnceLock::new();
    let sender = THREAD.get_or_init(|| {
        let (orders, mut incoming) = channel::<Waiting>(QUEUE);
        let work = move || {
            while let Some(waiting) = incoming.blocking_recv() {
                let Some(order) = take(&waiting) else {
                    continue;
                };
                let (reply, started) = order.carry_out();
                // Nobody waits any more: the attempt was dropped, and its process with it.
                if let Err(Ok(Started {
                    supervisor, orders, ..
                })) = reply.send(started)
                {
                    drop(orders);
                    wait(supervisor);
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

fn wait(mut supervisor: Child) {
    let _ = supervisor.wait();
}
