//! Log lines of level WARN and ERROR that drills expect, and why.
//!
//! # Not here
//! Reading the logs ([`crate::logs`]).

use crate::drill::Expected;

/// Lines that a worker without its server writes.
pub(super) const NO_SERVER: &[Expected] = &[
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

/// Lines of a cluster whose store can't be written or asked.
pub(super) const NO_STORE: &[Expected] = &[
    Expected {
        part: "the stream is closed",
        why: "the server could not answer its workers",
    },
    Expected {
        part: "session lost",
        why: "their beats could not be written",
    },
    Expected {
        part: "report dropped",
        why: "its token is not the current one any more",
    },
    Expected {
        part: "the duty could not be done",
        why: "it is tried again",
    },
    Expected {
        part: "reports could not be stored",
        why: "their workers report again",
    },
    Expected {
        part: "a request failed in the store",
        why: "its client is told so",
    },
    Expected {
        part: "a worker's message could not be handled",
        why: "it comes back",
    },
];

/// Lines of a cluster that loses its connections to PostgreSQL.
pub(super) const NO_POSTGRES: &[Expected] = &[
    Expected {
        part: "deadpool.postgres: Connection",
        why: "a connection is gone and is replaced",
    },
    Expected {
        part: "the stream is closed",
        why: "the server could not answer its workers",
    },
    Expected {
        part: "session lost",
        why: "their beats could not be written",
    },
    Expected {
        part: "report dropped",
        why: "its token is not the current one any more",
    },
    Expected {
        part: "the duty could not be done",
        why: "it is tried again",
    },
    Expected {
        part: "reports could not be stored",
        why: "their workers report again",
    },
    Expected {
        part: "a request failed in the store",
        why: "its client is told so",
    },
    Expected {
        part: "a worker's message could not be handled",
        why: "it comes back",
    },
];

/// Lines of a cluster that loses one of its servers, and no lease of a worker.
pub(super) const NO_PEER: &[Expected] = &[
    Expected {
        part: "the stream is closed",
        why: "its server is not there",
    },
    Expected {
        part: "the duty could not be done",
        why: "it is another's now",
    },
];

/// Lines of a server whose clock is set back.
pub(super) const SET_CLOCK: &[Expected] = &[
    Expected {
        part: "SC4021",
        why: "its clock was set back",
    },
    Expected {
        part: "the store's clock is believed again",
        why: "it was set right",
    },
    Expected {
        part: "session lost",
        why: "time that had stood still went on at once",
    },
    Expected {
        part: "the stream is closed",
        why: "its worker registers anew",
    },
    Expected {
        part: "report dropped",
        why: "its token is not the current one any more",
    },
];

/// Lines of workers in network namespaces.
pub(super) const IN_NAMESPACES: &[Expected] = &[
    Expected {
        part: "no cgroup can be made here",
        why: "a namespace has a /sys of its own",
    },
    Expected {
        part: "the stream is closed",
        why: "the server does not hear it",
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

/// Lines of a worker that can't write its journal.
pub(super) const FULL_JOURNAL: &[Expected] = &[
    Expected {
        part: "the journal could not be written",
        why: "its disk is full",
    },
    Expected {
        part: "output is not kept",
        why: "its disk is full",
    },
    Expected {
        part: "report dropped",
        why: "its token is not the current one any more",
    },
];
