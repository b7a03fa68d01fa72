//! The list of all points.

use crate::Place;

/// Which process passes a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// `sichen server`.
    Server,
    /// `sichen worker`.
    Worker,
}

/// Points of one kind: who passes them, where they stand, and which of the kind there are.
#[derive(Clone, Copy, Debug)]
pub struct Points {
    /// Who passes them.
    pub who: Who,
    /// Where they stand.
    pub places: &'static [Place],
    /// Which there are.
    pub which: &'static [&'static str],
}

/// Every point.
pub const POINTS: &[Points] = &[
    Points {
        who: Who::Server,
        places: &[Place::BeforeCommit, Place::AfterCommit],
        which: &[
            "register_node",
            "claim_duties",
            "release_duties",
            "end_node",
            "apply_job",
            "set_job_paused",
            "delete_job",
            "advance_schedules",
            "apply_calendar",
            "delete_calendar",
            "create_runs",
            "request_stop",
            "reopen_run",
            "discard_shards",
            "claim_key",
            "answer_key",
            "create_backfill",
            "turn_backfill",
            "advance_backfill",
            "lease_shards",
            "reap_shards",
            "register_session",
            "drain_session",
            "end_session",
            "finish_attempts",
            "save_checkpoints",
        ],
    },
    Points {
        who: Who::Server,
        places: &[Place::BeforeSend, Place::AfterSend],
        which: &[
            "welcome",
            "beat_ack",
            "grant",
            "finish_ack",
            "checkpoint_ack",
            "cancel",
        ],
    },
    Points {
        who: Who::Server,
        places: &[Place::BeforeAnswer],
        which: &["POST", "DELETE"],
    },
    Points {
        who: Who::Worker,
        places: &[Place::BeforeSend, Place::AfterSend],
        which: &["hello", "beat", "checkpoint", "finish", "draining"],
    },
    Points {
        who: Who::Worker,
        places: &[Place::BeforeJournal, Place::AfterJournal],
        which: &["start", "finish", "forget"],
    },
    Points {
        who: Who::Worker,
        places: &[Place::BeforeSpawn, Place::AfterSpawn],
        which: &["program"],
    },
];

/// What is passed and not swept, because it takes an operator, an hour or an accident of its own.
pub const UNSWEPT: &[&str] = &[
    "accept_clock",
    "begin_restore",
    "decide_restore",
    "remove_history",
    "settle",
    "settle_runs",
    "renew_sessions",
    "renew_node",
    "session_lost",
    "superseded",
    "moved",
    "refused",
    "read_output",
    "accept",
    "reject",
    "output",
    "GET",
];

/// Every point's name, and who passes it.
#[must_use]
pub fn all() -> Vec<(Who, String)> {
    let names = |points: &'static Points| {
        points.which.iter().flat_map(move |which| {
            let name = move |place: &Place| (points.who, format!("{}:{which}", place.word()));
            points.places.iter().map(name)
        })
    };
    POINTS.iter().flat_map(names).collect()
}
