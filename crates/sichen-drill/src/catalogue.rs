//! The drills.
//!
//! # Not here
//! How they are carried out ([`crate::stage`]).

use crate::drill::{
    Act, Drill, Expected, Link, Load, NODE_LEASE_MS, SESSION_MS, Shape, Store, Who,
};

/// Three workers with two slots each, and the usual load.
const USUAL: Shape = Shape {
    workers: 3,
    slots: 2,
    load: Load::Usual,
};

/// Lines that a worker without its server writes.
const NO_SERVER: &[Expected] = &[
    Expected {
        part: "the stream is closed",
        why: "its server is not there or not heard",
    },
    Expected {
        part: "session lost",
        why: "it was not heard for a session",
    },
    Expected {
        part: "report dropped",
        why: "its token is not the current one any more",
    },
];

/// Of what a worker held that is not heard any more: its session, the wait before a retry, and the
/// start of a process on a machine that may be busy.
const TAKEOVER_MS: u64 = SESSION_MS + 2_000;

const OF_ONE_MACHINE: &str = "failures of the machine itself: all processes share one";
const ONE_SERVER: &str = "takeover between servers: the cluster has one";

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
    expects: &[],
    may_repeat: true,
    not_covered: &[OF_ONE_MACHINE, ONE_SERVER],
    rollback: "nothing: every process and file was the drill's own; one that was killed itself leaves \
               a directory sichen-drill-* in the directory for temporary files, which may be removed",
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
            workers: 3,
            slots: 8,
            load: Load::Downstream,
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
            workers: 3,
            slots: 4,
            load: Load::Skewed,
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
            workers: 3,
            slots: 4,
            load: Load::HotKey,
        },
        may_repeat: false,
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
