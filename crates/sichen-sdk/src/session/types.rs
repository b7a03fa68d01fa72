//! What goes into the session and what comes out of it.
//!
//! # Not here
//! What follows from an input (`super`).

use std::collections::{BTreeMap, BTreeSet};

use sichen_proto::v1;
use v1::server_message::Message as FromServer;
use v1::worker_message::Message as ToServer;

/// An instant on `CLOCK_BOOTTIME`, in milliseconds. It goes on while the machine is suspended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Boot(pub u64);

impl Boot {
    /// This instant and `ms` milliseconds; stays at the far end instead of overflowing.
    #[must_use]
    pub fn plus(self, ms: u64) -> Boot {
        Boot(self.0.saturating_add(ms))
    }

    /// This instant less `ms` milliseconds; stays at the near end.
    #[must_use]
    pub fn minus(self, ms: u64) -> Boot {
        Boot(self.0.saturating_sub(ms))
    }

    /// Milliseconds from `earlier` to here, 0 if it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Boot) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// One grant of one shard; the key of everything that concerns an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease {
    /// The run.
    pub run_id: u64,
    /// The shard's number in it; -1 is the plan step.
    pub no: i32,
    /// The fencing token.
    pub token: u64,
}

impl Lease {
    /// The epoch of the store that granted it: the upper half of its token.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.token >> 32
    }

    /// From a message; `None` if the shard is missing or the token is 0.
    #[must_use]
    pub fn from_wire(shard: Option<v1::ShardRef>, token: u64) -> Option<Lease> {
        let shard = shard?;
        (token != 0).then_some(Lease {
            run_id: shard.run_id,
            no: shard.no,
            token,
        })
    }

    /// The shard, for a message.
    #[must_use]
    pub fn shard(self) -> v1::ShardRef {
        v1::ShardRef {
            run_id: self.run_id,
            no: self.no,
        }
    }
}

impl std::fmt::Display for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "run {} shard {} token {}",
            self.run_id, self.no, self.token
        )
    }
}

/// Who the worker is and what it offers; fixed for the life of the process.
#[derive(Clone, Debug)]
pub struct Identity {
    /// For people; not an identity.
    pub name: String,
    /// Kept in the data directory.
    pub uid: String,
    /// The machine's boot id.
    pub boot_id: String,
    /// A UUID of this process start.
    pub incarnation: String,
    /// Greater at each start with this uid than at all before, at least 1.
    pub start: u64,
    /// The pool that the worker serves.
    pub pool: String,
    /// Attempts run at once, at least 1.
    pub slots: u32,
    /// Handlers offered.
    pub handlers: BTreeSet<String>,
    /// For placement.
    pub labels: BTreeMap<String, String>,
    /// What attempts may take of the machine, in thousandths.
    pub resources: BTreeMap<String, u64>,
    /// Version, for people.
    pub build: String,
    /// Nothing of what earlier incarnations ran still lives. Without it their attempts are not handed
    /// in as dead, and their leases run out with their sessions.
    pub old_trees_dead: bool,
}

/// What the journal of an earlier incarnation holds and the server has not acknowledged.
#[expect(clippy::large_enum_variant, reason = "few of them live at a time")]
#[derive(Clone, Debug)]
pub enum Recovered {
    /// The attempt ended; its report may not have arrived.
    Finished(v1::Finish),
    /// The attempt was running when its process died. It is dead if [`Identity::old_trees_dead`].
    RunningDead {
        /// Which.
        lease: Lease,
    },
}

/// How a handler came to its end.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// It returned a result: JSON, at most [`super::MAX_RESULT_BYTES`].
    Succeeded {
        /// The result, empty if none.
        result: Vec<u8>,
        /// What the plan step found.
        plan: Option<v1::PlanResult>,
    },
    /// It failed of itself.
    Failed(v1::AttemptError),
    /// It was stopped, as asked by [`Output::StopAttempt`].
    Stopped,
}

/// What happened.
#[expect(clippy::large_enum_variant, reason = "few of them live at a time")]
#[derive(Clone, Debug)]
pub enum Input {
    /// A stream is open.
    Connected,
    /// The stream broke, or could not be opened. `jitter` (0..=1000) spreads reconnects.
    Disconnected {
        /// Thousandths of the spread.
        jitter: u16,
    },
    /// A message arrived on the open stream.
    Server(FromServer),
    /// Time passed.
    Tick,
    /// A start or a finish was written to the journal, or could not be.
    Journaled {
        /// Which.
        lease: Lease,
        /// What.
        entry: Entry,
        /// Whether it is durable.
        ok: bool,
    },
    /// The journal can be written again, or can't.
    JournalHealthy(bool),
    /// The handler says how far it has come. `seq` rises from 1 within the attempt.
    HandlerCheckpoint {
        /// Which.
        lease: Lease,
        /// The position and counters.
        checkpoint: v1::Checkpoint,
        /// Send it now, whatever the rate limit says.
        flush: bool,
    },
    /// The handler says what it counts or waits on, without a checkpoint. Travels with the beat.
    HandlerCounters {
        /// Which.
        lease: Lease,
        /// The counters.
        counters: v1::Counters,
    },
    /// The attempt is over, its process tree is gone.
    HandlerFinished {
        /// Which.
        lease: Lease,
        /// How.
        ended: Ended,
    },
    /// The attempt was told to stop, its grace has passed, and it still lives.
    AttemptStuck(Lease),
    /// Take no more work, finish or release what runs within `grace_ms`, then exit.
    Drain {
        /// For the running attempts, in all.
        grace_ms: u64,
    },
}

/// Which of an attempt's two records the journal has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// That it starts.
    Start,
    /// How it ended.
    Finish,
}

/// What is to be written to the journal.
#[derive(Clone, Debug, PartialEq)]
pub enum JournalOp {
    /// The attempt is about to start. Needs no fsync: losing it takes a crash of the machine, and
    /// that changes the boot id, which proves the attempt dead.
    Start {
        /// Which.
        lease: Lease,
        /// The handler that will run.
        handler: String,
    },
    /// The attempt's end; durable before it is answered.
    Finish(Box<v1::Finish>),
    /// The server has decided, or the entry can no longer count. Needs no fsync.
    Forget {
        /// Which.
        lease: Lease,
        /// Why, for the log.
        why: &'static str,
    },
}

/// What is to be done, in this order.
#[expect(clippy::large_enum_variant, reason = "few of them live at a time")]
#[derive(Clone, Debug)]
pub enum Output {
    /// Send on the open stream.
    Send(ToServer),
    /// Drop the stream, without feeding [`Input::Disconnected`] for it.
    CloseStream,
    /// Open a stream after so long, to the address if one is named.
    Reconnect {
        /// Wait before dialling.
        after_ms: u64,
        /// A server to prefer.
        address: Option<String>,
    },
    /// Run the handler.
    StartAttempt(Box<v1::Grant>),
    /// Ask the attempt to stop, and kill it when the grace has passed. A later one for the same
    /// lease can only shorten the grace.
    StopAttempt {
        /// Which.
        lease: Lease,
        /// Why.
        reason: v1::Reason,
        /// From asking to killing.
        grace_ms: u64,
    },
    /// The server has decided on a checkpoint.
    CheckpointVerdict {
        /// Which attempt.
        lease: Lease,
        /// Up to which checkpoint.
        seq: u64,
        /// How.
        verdict: v1::Verdict,
    },
    /// Write to the journal.
    Journal(JournalOp),
    /// Worth a line in the log.
    Note(Note),
    /// Leave the process. Nothing is output after it.
    Exit(ExitReason),
}

/// An event for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A new session was granted.
    Registered {
        /// Its id.
        session_id: u64,
    },
    /// The old session goes on over a new stream.
    Resumed {
        /// Its id.
        session_id: u64,
    },
    /// The session ended: declared lost by the server, or run out by our own clock.
    SessionLost {
        /// What ended it.
        why: String,
        /// Attempts that had to be stopped.
        stopped: usize,
    },
    /// A report was dropped for good.
    Dropped {
        /// Which.
        lease: Lease,
        /// Why.
        why: String,
    },
    /// A grant was given back.
    Rejected {
        /// Which.
        lease: Lease,
        /// Why.
        reason: v1::Reason,
    },
    /// A grant came under an older epoch than this worker has worked under: the store went back.
    OlderEpoch {
        /// The grant.
        lease: Lease,
        /// The epoch that is known.
        known: u64,
    },
    /// The server sent what makes no sense.
    BadMessage(&'static str),
    /// An attempt does not die.
    Stuck(Lease),
}

/// Why the process is to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// Drained as asked. `unreported` results wait in the journal for the next start.
    Drained {
        /// Results without a verdict.
        unreported: usize,
    },
    /// A newer process of the same worker has registered.
    Superseded,
    /// The server does not take this worker at all.
    Refused {
        /// The server's code.
        code: String,
        /// The server's words.
        message: String,
    },
    /// The session is over and an attempt can't be stopped: only the end of the process stops it.
    Stuck(Lease),
}
