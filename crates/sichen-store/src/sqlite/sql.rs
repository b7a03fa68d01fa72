//! The statements, one a file under `sql/sqlite`, and the migrations.
//!
//! # Invariants
//! - A statement guards and counts; it never chooses a state.
//! - Every statement runs on an index; one that reads a whole table says so (`-- scans: <table>`).
//!
//! # Not here
//! Who runs them: the use cases beside this file.

macro_rules! statements {
    ($($name:ident = $file:literal,)*) => {
        $(pub(super) const $name: &str = include_str!(concat!("../../sql/sqlite/", $file, ".sql"));)*

        /// Every statement by file name: what the tests of plans and shapes go through.
        pub const STATEMENTS: &[(&str, &str)] = &[$(($file, $name),)*];
    };
}

statements! {
    RAISE_EPOCH = "raise_epoch",
    KEEP_OP_RESULT = "keep_op_result",
    GET_OP_RESULT = "get_op_result",
    ADVANCE_JOB = "advance_job",
    COUNT_ACTIVE_RUNS = "count_active_runs",
    COUNT_GRANT = "count_grant",
    COUNT_HELD = "count_held",
    COUNT_RUN = "count_run",
    COUNT_RUNNING = "count_running",
    DELETE_EVENTS = "delete_events",
    DELETE_JOB = "delete_job",
    DELETE_OP = "delete_op",
    DELETE_RUN = "delete_run",
    DELETE_SHARDS = "delete_shards",
    DRAIN_SESSION = "drain_session",
    DUMP_DECISIONS = "dump_decisions",
    DUMP_EVENTS = "dump_events",
    DUMP_JOBS = "dump_jobs",
    DUMP_REVISIONS = "dump_revisions",
    DUMP_RUNS = "dump_runs",
    DUMP_SESSIONS = "dump_sessions",
    DUMP_SHARDS = "dump_shards",
    END_ATTEMPT = "end_attempt",
    END_SESSION = "end_session",
    EXPAND_RUN = "expand_run",
    FIND_OP = "find_op",
    FIND_RUN = "find_run",
    GET_DUTY = "get_duty",
    GET_FIRST_WAITING = "get_first_waiting",
    GET_JOB = "get_job",
    GET_LIVE_JOB = "get_live_job",
    GET_META = "get_meta",
    GET_NEXT_DEADLINE = "get_next_deadline",
    GET_NEXT_READY_AT = "get_next_ready_at",
    GET_NEXT_START_BY = "get_next_start_by",
    GET_NODE = "get_node",
    GET_REVISION = "get_revision",
    GET_RUN = "get_run",
    GET_SESSION = "get_session",
    GET_SHARD = "get_shard",
    INSERT_DECISION = "insert_decision",
    INSERT_EVENT = "insert_event",
    INSERT_JOB = "insert_job",
    INSERT_NODE = "insert_node",
    INSERT_OP = "insert_op",
    INSERT_REVISION = "insert_revision",
    INSERT_RUN = "insert_run",
    INSERT_SESSION = "insert_session",
    INSERT_SHARDS = "insert_shards",
    LEASE_SHARD = "lease_shard",
    LIST_COMPLETE_RUNS = "list_complete_runs",
    LIST_DECISIONS = "list_decisions",
    LIST_DUE_JOBS = "list_due_jobs",
    LIST_DUTIES = "list_duties",
    LIST_EVENTS = "list_events",
    LIST_EVENTS_OF_RUN = "list_events_of_run",
    LIST_EVENTS_OF_SHARD = "list_events_of_shard",
    LIST_FAILED_SHARDS = "list_failed_shards",
    LIST_HOLDERS = "list_holders",
    LIST_JOBS = "list_jobs",
    LIST_LATE_RUNS = "list_late_runs",
    LIST_LEASES = "list_leases",
    LIST_NODES = "list_nodes",
    LIST_OLD_OPS = "list_old_ops",
    SUM_PROGRESS = "sum_progress",
    LIST_READY_RUNS = "list_ready_runs",
    LIST_READY_SHARDS = "list_ready_shards",
    LIST_REMOVABLE_RUNS = "list_removable_runs",
    LIST_OPEN_RUNS = "list_open_runs",
    LIST_RUNNING = "list_running",
    LIST_RUNS = "list_runs",
    LIST_RUNS_BY_JOB = "list_runs_by_job",
    LIST_RUNS_BY_JOB_AND_STATE = "list_runs_by_job_and_state",
    LIST_RUNS_BY_STATE = "list_runs_by_state",
    LIST_UNSTARTED_RUNS = "list_unstarted_runs",
    LIST_SESSIONS = "list_sessions",
    LIST_SESSIONS_OF_NAME = "list_sessions_of_name",
    LIST_SESSIONS_OF_POOL = "list_sessions_of_pool",
    LIST_SESSIONS_OF_WORKER = "list_sessions_of_worker",
    LIST_SHARDS = "list_shards",
    LIST_TIMED_OUT = "list_timed_out",
    LIST_WAITING_SHARDS = "list_waiting_shards",
    NOTE_DEAD_BY = "note_dead_by",
    PAUSE_JOB = "pause_job",
    RELEASE_RUN = "release_run",
    RELEASE_SHARDS = "release_shards",
    PUT_DUTY = "put_duty",
    RELEASE_DUTY = "release_duty",
    RENEW_NODE = "renew_node",
    RENEW_SESSION = "renew_session",
    REOPEN_RUN = "reopen_run",
    REOPEN_SHARD = "reopen_shard",
    SAVE_CHECKPOINT = "save_checkpoint",
    SAVE_PROGRESS = "save_progress",
    SETTLE_RUN = "settle_run",
    START_RUN = "start_run",
    STOP_RUN = "stop_run",
    STOP_WAITING_SHARDS = "stop_waiting_shards",
    UPDATE_JOB = "update_job",
    UPDATE_META = "update_meta",
}

/// The migrations in order: number, name, text. Only ever appended to.
pub(super) const MIGRATIONS: &[(u32, &str, &str)] = &[
    (
        1,
        "first",
        include_str!("../../sql/sqlite/migrations/0001_first.sql"),
    ),
    // 2 is a migration of PostgreSQL alone.
    (
        3,
        "timeouts",
        include_str!("../../sql/sqlite/migrations/0003_timeouts.sql"),
    ),
    (
        4,
        "overlap",
        include_str!("../../sql/sqlite/migrations/0004_overlap.sql"),
    ),
];
