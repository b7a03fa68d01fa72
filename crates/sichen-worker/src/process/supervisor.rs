//! The supervisor of one attempt: a process between the worker and the program that it runs.
//!
//! It is the nearest reaper of everything that descends from the program, however often that forks
//! and whatever session it makes for itself. So it alone can say that *nothing* of the tree lives:
//! the kernel tells it that it has no child any more. It kills the tree when it is told to, and
//! when the worker is gone, which it sees by the end of a pipe that only the worker holds.
//!
//! It is a fork of the worker that executes nothing else, so that every program that uses this
//! crate has it. After a fork in a program with threads nothing may be allocated and no lock taken:
//! here are system calls and numbers on the stack, nothing more.
//!
//! # Invariants
//! - It ends with 0 only when it has no child, and never before the main process has ended.
//! - The main process is reaped last, so that its number and its group's can mean nobody else.
//!
//! # Not here
//! When to stop the tree (the worker says so), cgroups (the worker's own second means).

#![expect(unsafe_code, reason = "lives between fork and exec")]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use nix::libc;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{ForkResult, Pid};

/// From the worker: TERM for the group of the main process. The end of the pipe means KILL for all.
pub(super) const TERMINATE: u8 = b'T';
/// How often a dying tree is looked at.
const LOOK_EVERY_MS: i32 = 2;

/// Cgroups that one program can be in: one that holds it together, one that limits its memory.
pub(super) const MAX_GROUPS: usize = 2;

/// Descriptors that the supervisor goes on with, open in the worker until the start is done.
#[derive(Debug)]
pub(super) struct Ends {
    /// Reads what the worker wants.
    pub(super) orders: RawFd,
    /// Takes the number of the main process, then its status; four bytes each.
    pub(super) reports: RawFd,
    /// A locked file, which stays locked as long as the supervisor lives; it takes its number.
    pub(super) alive: RawFd,
    /// The program joins its cgroups by writing here.
    pub(super) procs: [Option<RawFd>; MAX_GROUPS],
    /// The first of them, removed when it is empty: the worker may be gone by then. Not one that counts
    /// something which the worker still asks for.
    pub(super) leaf: Option<CString>,
    /// How many files the program may open, where the worker asked for more.
    pub(super) files: Option<(libc::rlim_t, libc::rlim_t)>,
}

/// Splits off the supervisor, between fork and exec. Only the program returns.
///
/// # Safety
/// Called in a child just forked; the descriptors are open.
pub(super) unsafe fn split_off(ends: &Ends) -> io::Result<()> {
    nix::sys::prctl::set_child_subreaper(true)?;
    // A worker that ignores the end of its children would have hidden it from us.
    // SAFETY: no handler is named.
    unsafe { nix::sys::signal::signal(Signal::SIGCHLD, nix::sys::signal::SigHandler::SigDfl) }?;
    // No terminal's signal reaches it.
    nix::unistd::setsid()?;
    let supervisor = nix::unistd::getpid();
    // SAFETY: this process has one thread, and neither side allocates.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => supervise(child, ends),
        ForkResult::Child => {
            nix::unistd::setsid()?;
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The supervisor may have died before the line above.
            if nix::unistd::getppid() != supervisor {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            if let Some((soft, hard)) = ends.files {
                nix::sys::resource::setrlimit(
                    nix::sys::resource::Resource::RLIMIT_NOFILE,
                    soft,
                    hard,
                )?;
            }
            for procs in ends.procs.into_iter().flatten() {
                // SAFETY: open, as the caller promises.
                let procs = unsafe { BorrowedFd::borrow_raw(procs) };
                nix::unistd::write(procs, b"0")?;
            }
            Ok(())
        }
    }
}

const ORDERS: RawFd = 0;
const REPORTS: RawFd = 1;
const ALIVE: RawFd = 2;

fn supervise(leader: Pid, ends: &Ends) -> ! {
    let _ = SigSet::all().thread_block();
    // SAFETY: system calls on numbers; what fails leaves less tidiness, not less safety.
    unsafe {
        libc::dup2(ends.orders, ORDERS);
        libc::dup2(ends.reports, REPORTS);
        libc::dup2(ends.alive, ALIVE);
    }
    close_from(ALIVE + 1);
    let _ = nix::unistd::chdir(c"/");
    let _ = nix::sys::prctl::set_name(c"sichen-watch");
    let own = nix::unistd::getpid();
    write_decimal(ALIVE, own.as_raw());
    write_number(REPORTS, leader.as_raw());
    let mut watch = Watch {
        leader,
        orders: ORDERS,
        children: signal_fd(),
        leaf: ends.leaf.as_deref(),
        ended: false,
        reaped: false,
    };
    loop {
        watch.step();
    }
}

struct Watch<'a> {
    leader: Pid,
    /// -1 once everything is to be killed.
    orders: RawFd,
    /// -1 if there is none to be had.
    children: RawFd,
    leaf: Option<&'a CStr>,
    /// The main process has ended, and the worker has its status.
    ended: bool,
    reaped: bool,
}

impl Watch<'_> {
    fn step(&mut self) {
        let leader = self.leader;
        if !self.ended
            && let Some(status) = status_of(leader)
        {
            self.ended = true;
            write_number(REPORTS, status);
        }
        let mut others = false;
        for_each_child(|child| {
            if child != leader {
                others |= !reap(child);
            }
        });
        if self.ended && !others {
            self.reaped = true;
            if reap_last(leader) {
                // SAFETY: the path ends with 0. Ends the process without touching what belongs to
                // the worker.
                unsafe {
                    if let Some(leaf) = self.leaf {
                        libc::rmdir(leaf.as_ptr());
                    }
                    libc::_exit(0)
                }
            }
        }
        let killing = self.orders < 0;
        if killing {
            self.kill_all();
        }
        let news = !killing && !self.reaped && self.children >= 0;
        self.wait(if news { -1 } else { LOOK_EVERY_MS });
    }

    fn kill_all(&self) {
        if !self.reaped {
            // SAFETY: the number is still its own.
            unsafe { libc::kill(-self.leader.as_raw(), libc::SIGKILL) };
        }
        for_each_child(|child| {
            let _ = nix::sys::signal::kill(child, Signal::SIGKILL);
        });
    }

    /// Takes the next order, or the news that a child has ended, whichever comes first.
    fn wait(&mut self, wait_ms: i32) {
        let mut fds = [self.orders, self.children].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        let mut buffer = [0_u8; 512];
        // SAFETY: the array and the buffer live on this stack and have the given lengths.
        unsafe {
            if libc::poll(fds.as_mut_ptr(), 2, wait_ms) <= 0 {
                return;
            }
            if fds[1].revents != 0 {
                libc::read(self.children, buffer.as_mut_ptr().cast(), buffer.len());
            }
            if fds[0].revents == 0 {
                return;
            }
            match libc::read(self.orders, buffer.as_mut_ptr().cast(), 1) {
                1 if !self.reaped => drop(libc::kill(-self.leader.as_raw(), libc::SIGTERM)),
                1 => {}
                _ => self.orders = -1,
            }
        }
    }
}

/// The status of the main process as `wait` would give it, if it has ended; it is not reaped.
fn status_of(leader: Pid) -> Option<i32> {
    // SAFETY: `info` is plain data that the call fills; all zero is a value of it.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let id = leader.as_raw().cast_unsigned();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        if libc::waitid(libc::P_PID, id, &raw mut info, flags) != 0 || info.si_pid() == 0 {
            return None;
        }
        let value = info.si_status();
        Some(match info.si_code {
            libc::CLD_EXITED => (value & 0xff) << 8,
            libc::CLD_DUMPED => value | 0x80,
            _ => value,
        })
    }
}

/// Reaps the child if it has ended; whether it has.
fn reap(child: Pid) -> bool {
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(child.as_raw(), std::ptr::null_mut(), libc::WNOHANG) != 0 }
}

/// Reaps the main process; whether that leaves no child at all, which the kernel says.
fn reap_last(leader: Pid) -> bool {
    reap(leader);
    // SAFETY: as above.
    unsafe {
        loop {
            match libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) {
                // The list of children had missed one: it lives, or its end is news.
                0 => return false,
                -1 => return *libc::__errno_location() == libc::ECHILD,
                _ => {}
            }
        }
    }
}

/// Our children as the kernel lists them. The list may miss one while others come and go.
fn for_each_child(mut each: impl FnMut(Pid)) {
    const LIST: &CStr = c"/proc/thread-self/children";
    let mut buffer = [0_u8; 1024];
    let mut number = 0_i32;
    // SAFETY: the path ends with 0, the buffer has the given length.
    unsafe {
        let list = libc::open(LIST.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if list < 0 {
            return;
        }
        loop {
            let n = libc::read(list, buffer.as_mut_ptr().cast(), buffer.len());
            let Ok(n) = usize::try_from(n) else { break };
            for byte in &buffer[..n] {
                if byte.is_ascii_digit() {
                    number = number.wrapping_mul(10).wrapping_add(i32::from(byte - b'0'));
                } else if number > 0 {
                    each(Pid::from_raw(number));
                    number = 0;
                }
            }
            if n == 0 {
                break;
            }
        }
        libc::close(list);
    }
    if number > 0 {
        each(Pid::from_raw(number));
    }
}

/// A descriptor that can be read when a child has ended; -1 if there is none to be had.
fn signal_fd() -> RawFd {
    // SAFETY: the set is plain data that the calls fill.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK)
    }
}

/// What belongs to the worker (its connections, its locks, the pipes of others) is not held here.
fn close_from(first: RawFd) {
    // SAFETY: nothing here uses a descriptor that is closed.
    unsafe {
        let first = first.cast_unsigned();
        if libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) == 0 {
            return;
        }
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        let end = i32::try_from(limit.rlim_cur)
            .unwrap_or(i32::MAX)
            .min(1 << 20);
        for fd in first.cast_signed()..end {
            libc::close(fd);
        }
    }
}

fn write_number(fd: RawFd, number: i32) {
    write(fd, &number.to_ne_bytes());
}

fn write_decimal(fd: RawFd, mut number: i32) {
    let mut text = [b'0'; 10];
    for digit in text.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
    write(fd, &text);
}

fn write(fd: RawFd, bytes: &[u8]) {
    // SAFETY: the bytes have that length. A reader that is gone has no need of them.
    unsafe {
        libc::write(fd, bytes.as_ptr().cast(), bytes.len());
    }
}
