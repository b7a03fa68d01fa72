//! What a drill is: data, and nothing else.
//!
//! # Invariants
//! - One condition: a drill changes one thing about a cluster that is otherwise well.
//! - Everything that a drill tolerates is named in it: log lines, repeats, how late.
//!
//! # Not here
//! The drills themselves ([`crate::catalogue`]), when a fault comes ([`crate::schedule`]), carrying
//! one out ([`crate::stage`]).

use serde::{Deserialize, Serialize};

/// How long a worker's session lives without a beat, in the clusters of drills.
pub const SESSION_MS: u64 = 4_000;
/// The same where a drill is about servers and no lease may be lost by it: the default.
pub const LONG_SESSION_MS: u64 = 15_000;
/// How often its workers beat.
pub const BEAT_MS: u64 = 1_000;
/// How long a server's lease lives without a beat: the default, which drills keep.
pub const NODE_LEASE_MS: u64 = 5_000;
/// Of a heal: within this, all that was due meanwhile has begun.
pub const RECOVERY_MS: u64 = 10_000;

/// A rehearsed failure.
#[derive(Clone, Copy, Debug)]
pub struct Drill {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is about, in a few words.
    pub topic: &'static str,
    /// What must hold although the condition changes.
    pub claim: &'static str,
    /// The one thing that changes, for people.
    pub condition: &'static str,
    /// Where the cluster keeps its truth.
    pub store: Store,
    /// What it needs beyond this program.
    pub needs: &'static [Need],
    /// The cluster.
    pub shape: Shape,
    /// What is done, once a round.
    pub fault: Act,
    /// What ends it, `None` if it ends by itself.
    pub heal: Option<Act>,
    /// The bound that the fault's length is measured by: the variants are shorter, longer and much
    /// longer than this.
    pub bound_ms: u64,
    /// From the fault to the begin of another attempt at what it hit, at most; `None`: no such limit.
    pub takeover_ms: Option<u64>,
    /// How late a task may begin in and after a fault, at most; `None`: as its window says.
    pub late_ms: Option<u64>,
    /// Log lines of level WARN and ERROR that belong to it.
    pub expects: &'static [Expected],
    /// Whether an attempt that is in flight when the fault comes may be repeated.
    pub may_repeat: bool,
    /// What this drill does not show.
    pub not_covered: &'static [&'static str],
    /// How to undo by hand what a drill that was killed has left.
    pub rollback: &'static str,
}

/// The store that a drill's cluster uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// SQLite, or with `--store` PostgreSQL.
    Any,
    /// SQLite alone.
    Sqlite,
    /// PostgreSQL: of `--store`, or a server of the drill's own.
    Postgres,
}

/// What a drill needs beyond this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// To be root: a mount or a network namespace of its own.
    Root,
    /// The programs of a PostgreSQL server: it stops, freezes or kills one of its own.
    PostgresPrograms,
    /// libfaketime, to give one process another clock.
    Faketime,
    /// `ip`.
    Netns,
    /// `iptables`.
    Iptables,
}

/// How a cluster is built.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Servers beside the first, over the same database. With any, what is done to a server is done to
    /// the one that has the pool of the workers.
    pub peers: u32,
    /// Worker processes.
    pub workers: u32,
    /// Slots of each.
    pub slots: u32,
    /// What runs on it.
    pub load: Load,
    /// What it stands on.
    pub ground: Ground,
    /// How long a worker's session lives without a beat.
    pub session_ms: u64,
}

/// What a cluster stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ground {
    /// This machine as it is.
    Plain,
    /// The first worker's files are on a small disk.
    SmallJournal,
    /// The server's files are on a small disk.
    SmallStore,
    /// Each worker is in a network namespace of its own.
    Namespaces,
    /// The server's clock can be set.
    OwnClock,
}

/// What runs on a drill's cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// A job every 2 s, and one of 3 shards every 3 s.
    Usual,
    /// As [`Load::Usual`], and one shard in three takes ten times as long.
    Skewed,
    /// As [`Load::Usual`], and every step writes to one and the same account.
    HotKey,
    /// As [`Load::Usual`], and each step waits for a service that can be slow.
    Downstream,
}

/// Who is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    /// The server.
    Server,
    /// A worker that is at work, drawn from the seed.
    AWorker,
    /// Server and workers.
    All,
}

/// A connection that leads through a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// The workers' to the server.
    Workers,
    /// The server's to its database.
    Database,
}

/// What is done to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Act {
    /// Nothing: the condition is the load's.
    Nothing,
    /// SIGKILL.
    Kill { who: Who },
    /// Start again what was killed or told to stop, as it was.
    Start { who: Who },
    /// SIGSTOP to a process and all that descends from it.
    Freeze { who: Who },
    /// SIGCONT.
    Thaw { who: Who },
    /// SIGTERM, and start again as soon as it has ended: one after the other.
    Roll { who: Who },
    /// Deliver requests, lose answers.
    LoseAnswers { link: Link },
    /// Lose requests, deliver answers.
    LoseRequests { link: Link },
    /// Deliver nothing; connections stay.
    Stall { link: Link },
    /// Cut all connections and refuse new ones.
    Cut { link: Link },
    /// Carry everything again, over new connections.
    Mend { link: Link },
    /// SIGKILL to all workers, mend their way to the server, start them again.
    RestartWorkers,
    /// Kill the database server's every process.
    CrashDatabase,
    /// Start it again.
    StartDatabase,
    /// SIGSTOP to its every process.
    PauseDatabase,
    /// SIGCONT.
    ResumeDatabase,
    /// Drop an index that dispatching uses.
    DropIndex,
    /// Make it again.
    MakeIndex,
    /// Hold rows in the order in which the scheduler does not.
    Entangle,
    /// Let them go.
    Disentangle,
    /// Let workers' beats be lost and their reports arrive.
    LoseBeats,
    /// Make the service that steps wait for slow.
    SlowDownstream,
    /// Make it quick again.
    QuickDownstream,
    /// Fill the disk of a worker's journal.
    FillJournal,
    /// Fill the disk of the server's SQLite.
    FillStore,
    /// Free what was filled.
    FreeDisk,
    /// Step one process's wall clock.
    StepClock { seconds: i64 },
    /// Undo the step.
    UnstepClock,
    /// Cut one way between two network namespaces.
    CutOneWay,
    /// Undo the cut.
    UncutOneWay,
    /// Take a worker's namespace off the network.
    Unplug,
    /// Put it back.
    Plug,
    /// Lose packets between the server and workers in namespaces.
    LosePackets { per_cent: u8 },
    /// Hold up packets from the server to workers in namespaces, each by about `ms`.
    DelayPackets { ms: u16, jitter_ms: u16 },
    /// Neither lose nor hold up packets any more.
    CarryPackets,
}

/// A log line that a drill expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// A part of the line.
    pub part: &'static str,
    /// Why it belongs to the drill.
    pub why: &'static str,
}

/// One of the four records of a batch: how long the one condition is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Not at all.
    Normal,
    /// A little shorter than the bound.
    Boundary,
    /// Longer than the bound.
    Failure,
    /// Much longer, and the way back is what is looked at.
    Recovery,
}

impl Variant {
    /// In the order of a batch.
    pub const ALL: [Variant; 4] = [
        Variant::Normal,
        Variant::Boundary,
        Variant::Failure,
        Variant::Recovery,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Variant::Normal => "normal",
            Variant::Boundary => "boundary",
            Variant::Failure => "failure",
            Variant::Recovery => "recovery",
        }
    }

    /// How long the condition is changed, by the drill's bound; `None` if not at all.
    #[must_use]
    pub fn hold_ms(self, bound_ms: u64) -> Option<u64> {
        match self {
            Variant::Normal => None,
            Variant::Boundary => Some(bound_ms * 7 / 10),
            Variant::Failure => Some(bound_ms * 3 / 2),
            Variant::Recovery => Some(bound_ms * 5 / 2),
        }
    }
}
