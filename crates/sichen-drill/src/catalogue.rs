//! The drills.
//!
//! # Not here
//! How they are carried out ([`crate::stage`]).

mod expected;

use crate::drill::{
    Act, Drill, Ground, LONG_SESSION_MS, Link, Load, NODE_LEASE_MS, Need, SESSION_MS, Shape, Store,
    Who,
};
use expected::{FULL_JOURNAL, IN_NAMESPACES, NO_PEER, NO_POSTGRES, NO_SERVER, NO_STORE, SET_CLOCK};

/// Three workers with two slots each, and the usual load.
const USUAL: Shape = Shape {
    peers: 0,
    workers: 3,
    slots: 2,
    load: Load::Usual,
    ground: Ground::Plain,
    session_ms: SESSION_MS,
};

/// Two servers.
const TWO: Shape = Shape { peers: 1, ..USUAL };

/// Of what a worker held that is not heard any more: its session, the wait before a retry, and the
/// start of a process on a machine that may be busy.
const TAKEOVER_MS: u64 = SESSION_MS + 2_000;

/// How to give back a small disk.
const MOUNTS: &str = "if the drill itself was killed: `mount -t tmpfs` shows what is left at \
                      sichen-drill-*; `umount` gives it back";

/// Of what a killed server had: noticed within a second, half a second of grace, half a second to
/// decide; and the start of a process on a machine that may be busy.
const KILLED_MS: u64 = 2_000 + 2_000;

/// Of what a silent server had: its lease and two seconds; and what is caught up with after that on a
/// machine that may be busy.
const SILENT_MS: u64 = NODE_LEASE_MS + 2_000 + 4_000;

/// The same, and as long as a worker waits for the answer to its Hello: one that is sent on to a server
/// that stands still asks elsewhere only then.
const FROZEN_MS: u64 = SILENT_MS + 10_000;

const OF_ONE_MACHINE: &str = "failures of the machine itself: all processes share one";
const ONE_SERVER: &str = "takeover between servers: this cluster has one (kill-peer has two)";

/// A drill that needs nothing and repeats what it cut.
const PLAIN: Drill = Drill {
    name: "",
    topic: "",
    claim: "",
    condition: "",
    store: Store::Any,
    needs: &[],
    shape: USUAL,
    fault: Act::Nothing,
    heal: None,
    bound_ms: SESSION_MS,
    takeover_ms: None,
    late_ms: None,
    expects: &[],
    may_repeat: true,
    not_covered: &[OF_ONE_MACHINE, ONE_SERVER],
    rollback: "nothing: every process and file was the drill's own; one that was killed itself leaves \
               a directory sichen-drill-* in the directory for temporary files, which may be removed",
};

/// A drill of the network between the server and workers, each in a namespace of its own.
const NETWORK: Drill = Drill {
    needs: &[Need::Root, Need::Netns],
    shape: Shape {
        ground: Ground::Namespaces,
        ..USUAL
    },
    expects: IN_NAMESPACES,
    rollback: "if the drill itself was killed: `ip netns list` and `ip link` show what is left \
               (sichen-drill-PID-N, sdN); `ip netns del` and `ip link del` remove it",
    ..PLAIN
};

/// All drills, by topic.
pub const ALL: &[Drill] = &[
    Drill {
        name: "kill-worker",
        topic: "a worker dies",
        claim: "what it held is taken over within its session and two seconds, nothing is lost, and \
                nothing is done twice in the business data",
        condition: "one worker that is at work gets SIGKILL, and is started again after the hold",
        fault: Act::Kill { who: Who::AWorker },
        heal: Some(Act::Start { who: Who::AWorker }),
        takeover_ms: Some(TAKEOVER_MS),
        ..PLAIN
    },
    Drill {
        name: "freeze-worker",
        topic: "a worker stands still and comes back",
        claim: "others take over when its session is over, and nothing that it writes afterwards counts",
        condition: "one worker that is at work, and all that descends from it, gets SIGSTOP, and \
                    SIGCONT after the hold",
        fault: Act::Freeze { who: Who::AWorker },
        heal: Some(Act::Thaw { who: Who::AWorker }),
        takeover_ms: Some(TAKEOVER_MS),
        expects: NO_SERVER,
        ..PLAIN
    },
    Drill {
        name: "kill-server",
        topic: "the server dies",
        claim: "every instant of the outage is caught up with, and what runs meanwhile is accepted once",
        condition: "the server gets SIGKILL, and is started again after the hold",
        fault: Act::Kill { who: Who::Server },
        heal: Some(Act::Start { who: Who::Server }),
        bound_ms: NODE_LEASE_MS,
        expects: NO_SERVER,
        ..PLAIN
    },
    Drill {
        name: "freeze-server",
        topic: "the server stands still and comes back",
        claim: "what it believed before it stood still decides nothing afterwards",
        condition: "the server gets SIGSTOP, and SIGCONT after the hold",
        fault: Act::Freeze { who: Who::Server },
        heal: Some(Act::Thaw { who: Who::Server }),
        bound_ms: NODE_LEASE_MS,
        expects: NO_SERVER,
        ..PLAIN
    },
    Drill {
        name: "kill-all",
        topic: "everything dies at once",
        claim: "after a start of everything, every instant of the outage is caught up with",
        condition: "server and workers get SIGKILL at once, and are started again after the hold",
        fault: Act::Kill { who: Who::All },
        heal: Some(Act::Start { who: Who::All }),
        bound_ms: NODE_LEASE_MS,
        expects: NO_SERVER,
        ..PLAIN
    },
    Drill {
        name: "worker-restart-with-journal",
        topic: "results that nobody could be told",
        claim: "a result in a worker's journal is handed in by its next start, and is not done again \
                if its session still lives",
        condition: "nothing passes between workers and server for the hold; then the workers get \
                    SIGKILL, the way is mended and they are started again",
        fault: Act::Stall {
            link: Link::Workers,
        },
        heal: Some(Act::RestartWorkers),
        expects: NO_SERVER,
        ..PLAIN
    },
    Drill {
        name: "lost-answers",
        topic: "the server hears its workers and they do not hear it",
        claim: "a report whose answer was lost counts once",
        condition: "what the server says to its workers is lost for the hold, what they say arrives",
        fault: Act::LoseAnswers {
            link: Link::Workers,
        },
        heal: Some(Act::Mend {
            link: Link::Workers,
        }),
        expects: NO_SERVER,
        ..PLAIN
    },
    Drill {
        name: "rolling-restart",
        topic: "an update: one process after the other",
        claim: "no attempt is cut short or repeated",
        condition: "every worker, then the server, gets SIGTERM and is started again when it has ended",
        fault: Act::Roll { who: Who::All },
        heal: None,
        expects: NO_SERVER,
        may_repeat: false,
        ..PLAIN
    },
    Drill {
        name: "slow-downstream",
        topic: "a service that every task waits for is slow",
        claim: "tasks wait and none is given up, and the backlog is done when the service is quick again",
        condition: "the service answers nothing for the hold",
        shape: Shape {
            slots: 8,
            load: Load::Downstream,
            ..USUAL
        },
        fault: Act::SlowDownstream,
        heal: Some(Act::QuickDownstream),
        may_repeat: false,
        ..PLAIN
    },
    Drill {
        name: "skewed-shards",
        topic: "one shard of three takes ten times as long",
        claim: "the others are not held up by it",
        condition: "the third shard's steps take ten times as long, all the time",
        shape: Shape {
            slots: 4,
            load: Load::Skewed,
            ..USUAL
        },
        may_repeat: false,
        ..PLAIN
    },
    Drill {
        name: "hot-key",
        topic: "every task writes to one row",
        claim: "tasks wait for each other in the business database, and the scheduler does not",
        condition: "all postings are to one account, all the time",
        shape: Shape {
            slots: 4,
            load: Load::HotKey,
            ..USUAL
        },
        may_repeat: false,
        ..PLAIN
    },
    Drill {
        name: "lost-heartbeats",
        topic: "beats are lost and reports arrive",
        claim: "a worker whose beats nobody answers comes back over a new stream before its session is over, and each report counts once",
        condition: "workers' beats are taken out of their streams for the hold, all else passes",
        fault: Act::LoseBeats,
        heal: Some(Act::Mend {
            link: Link::Workers,
        }),
        expects: NO_SERVER,
        ..PLAIN
    },
    Drill {
        name: "one-way-cut",
        topic: "a worker that hears the server and is not heard",
        claim: "others take over when its session is over, and nothing that it does afterwards counts",
        condition: "in the network namespace of one worker that is at work, packets to the server go nowhere for the hold, and those from it arrive",
        needs: &[Need::Root, Need::Netns, Need::Iptables],
        fault: Act::CutOneWay,
        heal: Some(Act::UncutOneWay),
        takeover_ms: Some(TAKEOVER_MS),
        ..NETWORK
    },
    Drill {
        name: "partition-worker",
        topic: "a worker that neither hears nor is heard",
        claim: "others take over when its session is over, and nothing that it does afterwards counts",
        condition: "the network cable of one worker that is at work is pulled for the hold: packets vanish both ways, and nobody is told",
        fault: Act::Unplug,
        heal: Some(Act::Plug),
        takeover_ms: Some(TAKEOVER_MS),
        ..NETWORK
    },
    Drill {
        name: "lossy-network",
        topic: "a network that loses packets",
        claim: "whatever has to be said again counts once, and what a session outlives is not done again",
        condition: "of the packets between the server and its workers three in ten are lost, both ways, for the hold",
        needs: &[Need::Root, Need::Netns, Need::Iptables],
        fault: Act::LosePackets { per_cent: 30 },
        heal: Some(Act::CarryPackets),
        ..NETWORK
    },
    Drill {
        name: "slow-network",
        topic: "a network that is slow and changes the order of packets",
        claim: "work is slower, and none is cut short or repeated",
        condition: "each packet from the server to its workers is held up for 100 to 300 ms, for the hold",
        needs: &[Need::Root, Need::Netns, Need::Iptables],
        fault: Act::DelayPackets {
            ms: 200,
            jitter_ms: 100,
        },
        heal: Some(Act::CarryPackets),
        may_repeat: false,
        ..NETWORK
    },
    Drill {
        name: "clock-step",
        topic: "the server's clock is set back by a minute",
        claim: "while the clock is behind, time stands still for the scheduler; then every instant is caught up with, and none comes twice",
        condition: "the server's wall clock is 60 s behind for the hold, its monotonic one goes on",
        store: Store::Sqlite,
        needs: &[Need::Faketime],
        shape: Shape {
            ground: Ground::OwnClock,
            ..USUAL
        },
        fault: Act::StepClock { seconds: -60 },
        heal: Some(Act::UnstepClock),
        bound_ms: NODE_LEASE_MS,
        expects: SET_CLOCK,
        ..PLAIN
    },
    Drill {
        name: "disk-full-journal",
        topic: "the disk of a worker's journal is full",
        claim: "what it can't write down it does not acknowledge, and nothing is lost",
        condition: "the small disk on which the first worker keeps its files is full for the hold",
        needs: &[Need::Root],
        shape: Shape {
            ground: Ground::SmallJournal,
            ..USUAL
        },
        fault: Act::FillJournal,
        heal: Some(Act::FreeDisk),
        expects: FULL_JOURNAL,
        rollback: MOUNTS,
        ..PLAIN
    },
    Drill {
        name: "disk-full-sqlite",
        topic: "the disk of the server's SQLite is full",
        claim: "what it can't write down it does not acknowledge, and it goes on by itself when there is room",
        condition: "the small disk on which the server keeps its files is full for the hold",
        store: Store::Sqlite,
        needs: &[Need::Root],
        shape: Shape {
            ground: Ground::SmallStore,
            ..USUAL
        },
        fault: Act::FillStore,
        heal: Some(Act::FreeDisk),
        bound_ms: NODE_LEASE_MS,
        expects: NO_STORE,
        rollback: MOUNTS,
        ..PLAIN
    },
    Drill {
        name: "cut-server-from-database",
        topic: "the server does not reach its database",
        claim: "it answers nothing that it does not know, and goes on by itself when it is back",
        condition: "all connections to the database are cut and new ones refused for the hold",
        store: Store::Postgres,
        fault: Act::Cut {
            link: Link::Database,
        },
        heal: Some(Act::Mend {
            link: Link::Database,
        }),
        bound_ms: NODE_LEASE_MS,
        expects: NO_POSTGRES,
        ..PLAIN
    },
    Drill {
        name: "lost-database-answers",
        topic: "commits whose answer is lost",
        claim: "what was committed counts once, whether its answer came or not",
        condition: "what the database answers is lost for the hold, what it is asked arrives",
        store: Store::Postgres,
        fault: Act::LoseAnswers {
            link: Link::Database,
        },
        heal: Some(Act::Mend {
            link: Link::Database,
        }),
        bound_ms: NODE_LEASE_MS,
        expects: NO_POSTGRES,
        ..PLAIN
    },
    Drill {
        name: "database-crash",
        topic: "the database dies",
        claim: "nothing that was acknowledged is lost, and the server goes on by itself",
        condition: "every process of the database server gets SIGKILL, and it is started again after the hold (with --store: connections to it are cut and refused instead)",
        store: Store::Postgres,
        fault: Act::CrashDatabase,
        heal: Some(Act::StartDatabase),
        bound_ms: NODE_LEASE_MS,
        expects: NO_POSTGRES,
        ..PLAIN
    },
    Drill {
        name: "database-pause",
        topic: "the database stands still",
        claim: "nobody waits for ever, and the server goes on by itself",
        condition: "every process of the database server gets SIGSTOP, and SIGCONT after the hold (with --store: nothing passes to or from it instead)",
        store: Store::Postgres,
        fault: Act::PauseDatabase,
        heal: Some(Act::ResumeDatabase),
        bound_ms: NODE_LEASE_MS,
        expects: NO_POSTGRES,
        ..PLAIN
    },
    Drill {
        name: "deadlock",
        topic: "another program takes rows in another order",
        claim: "whoever loses a deadlock tries again, and nothing is lost or done twice",
        condition: "another session takes the rows of shards, runs and jobs in the order in which the scheduler does not, again and again for the hold",
        store: Store::Postgres,
        fault: Act::Entangle,
        heal: Some(Act::Disentangle),
        expects: NO_POSTGRES,
        ..PLAIN
    },
    Drill {
        name: "plan-regression",
        topic: "an index is gone",
        claim: "what it made quick is slow and still right",
        condition: "the index by which waiting shards are found is dropped, and made again after the hold",
        store: Store::Postgres,
        fault: Act::DropIndex,
        heal: Some(Act::MakeIndex),
        may_repeat: false,
        rollback: "nothing: the schema sichen_drill_store is the drill's own and is dropped at its end; one that a killed drill has left goes at the next drill's begin",
        ..PLAIN
    },
    Drill {
        name: "kill-peer",
        topic: "one of two servers dies",
        claim: "the other takes over what it had within two seconds, and its workers follow without losing a lease",
        condition: "the one of two servers that has the workers' pool gets SIGKILL, and is started again after the hold",
        store: Store::Postgres,
        shape: Shape {
            session_ms: LONG_SESSION_MS,
            ..TWO
        },
        fault: Act::Kill { who: Who::Server },
        heal: Some(Act::Start { who: Who::Server }),
        late_ms: Some(KILLED_MS),
        bound_ms: NODE_LEASE_MS,
        expects: NO_PEER,
        may_repeat: false,
        not_covered: &[OF_ONE_MACHINE],
        ..PLAIN
    },
    Drill {
        name: "freeze-peer",
        topic: "one of two servers stands still and comes back",
        claim: "the other takes over when its lease is over, and what it believed decides nothing afterwards",
        condition: "the one of two servers that has the workers' pool gets SIGSTOP, and SIGCONT after the hold",
        store: Store::Postgres,
        shape: TWO,
        fault: Act::Freeze { who: Who::Server },
        heal: Some(Act::Thaw { who: Who::Server }),
        late_ms: Some(FROZEN_MS),
        bound_ms: NODE_LEASE_MS,
        expects: NO_POSTGRES,
        not_covered: &[OF_ONE_MACHINE],
        ..PLAIN
    },
    Drill {
        name: "cut-peer-from-database",
        topic: "one of two servers does not reach the database",
        claim: "the other takes over, and the one that is cut off grants nothing",
        condition: "all connections of the one of two servers that has the workers' pool to the database are cut and new ones refused for the hold",
        store: Store::Postgres,
        shape: TWO,
        fault: Act::Cut {
            link: Link::Database,
        },
        heal: Some(Act::Mend {
            link: Link::Database,
        }),
        late_ms: Some(SILENT_MS),
        bound_ms: NODE_LEASE_MS,
        expects: NO_POSTGRES,
        not_covered: &[OF_ONE_MACHINE],
        ..PLAIN
    },
    Drill {
        name: "silence-peer-from-database",
        topic: "one of two servers hears nothing of the database, and it nothing of the server",
        claim: "the other takes over when its lease is over, and the one in the dark grants nothing",
        condition: "nothing passes between the one of two servers that has the workers' pool and the database for the hold; connections stay open",
        store: Store::Postgres,
        shape: TWO,
        fault: Act::Stall {
            link: Link::Database,
        },
        heal: Some(Act::Mend {
            link: Link::Database,
        }),
        late_ms: Some(SILENT_MS),
        bound_ms: NODE_LEASE_MS,
        expects: NO_POSTGRES,
        not_covered: &[OF_ONE_MACHINE],
        ..PLAIN
    },
];

/// The drill of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Drill> {
    ALL.iter().find(|drill| drill.name == name)
}

#[cfg(test)]
mod tests;
