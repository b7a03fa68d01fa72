//! What each statement touches among a million runs, shards and events: no more than it answers or
//! changes, on whichever plan the server holds.
//!
//! # Invariants
//! - Every statement has its bound here, or is named as one that reads whole tables.
//! - DB-009: a run whose hundred thousand shards wait for a retry costs one step; what is claimed costs the same among fifty thousand runs and twenty times as many, a tenth
//!   of which wait for their time. DB-004: no statement about a job walks its history, which is half of
//!   all runs; deleting it changes one row.
//! - Asked of plans made while the tables were empty and kept, of statistics from when they were
//!   twenty times smaller, of fresh ones; of plans for all values and for these.

use serde_json::Value;
use sichen_store::postgres::sql::STATEMENTS;
use tokio_postgres::Client;

use super::Server;
use super::server::runtime;

const FIRST: i64 = 50_000;
const LAST: i64 = 1_000_000;
/// As many as one batch has.
const N: u64 = 500;

/// A statement, values for it, the index that it must run on (if that matters), and at most how many
/// rows and pages it may touch.
struct Case {
    name: &'static str,
    values: &'static str,
    index: &'static str,
    rows: u64,
    pages: u64,
}

const fn case(
    name: &'static str,
    values: &'static str,
    index: &'static str,
    rows: u64,
    pages: u64,
) -> Case {
    Case {
        name,
        values,
        index,
        rows,
        pages,
    }
}

/// Whole tables, for tests and checks on small stores.
const WHOLE: &[&str] = &[
    "dump_calendar_uses",
    "dump_calendars",
    "dump_access_tokens",
    "dump_accounts",
    "dump_capacities",
    "dump_capacity_uses",
    "dump_holds",
    "dump_recalls",
    "dump_backfills",
    "dump_checks",
    "dump_decisions",
    "dump_revisions",
    "dump_namespaces",
    "dump_jobs",
    "dump_revisions",
    "dump_runs",
    "dump_sessions",
    "dump_shards",
    // Once, when a person accepts a step of the clock: all that is held or lives.
    "shift_dead_by",
    "shift_holds",
    "shift_nodes",
    "shift_runs",
    "shift_sessions",
    "shift_shards",
];

/// Pages of one row found by an index.
const ROW: u64 = 8;
/// Pages of a row changed, with all its indexes.
const CHANGE: u64 = 60;

#[rustfmt::skip]
const CASES: &[Case] = &[
    case("accept_clock", "5, 0", "meta_pkey", 1, CHANGE),
    case("advance_job", "array[u('job0'), u('job1')], times(1, 2), times(0, 2), times(5, 2), times(9, 2), null, null", "job_pkey", 2, 2 * CHANGE),
    // All of them, of which there are never more than a thousand.
    case("count_access_tokens", "", "", 1_000, 100),
    case("count_accounts", "", "", 1_000, 100),
    case("count_active_runs", "array[u('job0'), u('job1')], array[1, -1]::bigint[], times(0, 2)", "job_pkey", 2, 2 * CHANGE),
    case("count_open_runs", "u('job0'), 100", "run_open", 1_200, 1_200 * ROW),
    case("set_counting", "u('job0'), 'always', 5, 1", "job_pkey", 1, CHANGE),
    case("count_failure", "500, 3", "run_pkey", 1, CHANGE),
    case("count_grant", "ints(1, 1, 500), times(1, 500)", "session_pkey", N, N * CHANGE),
    case("count_held", "2, 'big'", "shard_pool_held", 100, 200),
    case("count_run", "ints(80, 100, 500), times(0, 500), times(0, 500), times(0, 500), times(0, 500)", "run_pkey", N, N * CHANGE),
    case("count_running", "ints(80, 100, 500), times(3048, 500), times(0, 500)", "shard_run_held", N, N * ROW),
    case("delete_calendar_uses", "u('job0')", "calendar_use_pkey", 2, 2 * CHANGE),
    case("delete_events", "8", "event_run", 1, CHANGE),
    case("delete_job", "u('job1'), 1, 5", "job_pkey", 1, CHANGE),
    case("delete_ops", "5", "op_pkey", 5, 5 * CHANGE),
    case("delete_run", "8", "run_pkey", 1, CHANGE),
    case("delete_shards", "8", "shard_pkey", 1, CHANGE),
    case("drain_session", "5", "session_pkey", 1, CHANGE),
    case("end_attempt", "ints(80, 100, 500), times(0, 500), times(1, 500), times('succeeded', 500), times(1, 500), \
        times(1, 500), times(0, 500), times('', 500), times(0, 500), null, times(0, 500), times('', 500), null, null, \
        times(1, 500), times('succeeded', 500), array_fill(false, array[500])", "shard_pkey", N, N * CHANGE),
    case("end_session", "5, 5, 'expired'", "session_pkey", 1, CHANGE),
    case("expand_run", "80, 5", "run_pkey", 1, CHANGE),
    case("find_op", "u('op500')", "op_id_key", 1, ROW),
    case("find_run", "array[u('job0')], array['manual:500']", "run_occasion", 1, ROW),
    case("follow_job", "u('job1'), 1, '{}', null", "job_pkey", 1, CHANGE),
    case("get_appearance", "'uid-5'", "session_appearance", 1, ROW),
    case("get_account", "'u5'", "account_pkey", 1, ROW),
    case("get_access_token", "'t5'", "access_token_pkey", 1, ROW),
    case("get_calendar", "'default', 'cal0'", "calendar_pkey", 1, ROW),
    case("get_calendar_row", "'default', 'cal0'", "calendar_pkey", 1, ROW),
    case("get_calendar_version", "'default', 'cal0', 2", "calendar_version_pkey", 1, ROW),
    case("get_duty", "'pool/big'", "duty_pkey", 1, ROW),
    case("get_first_waiting", "u('job0')", "run_waiting", 1, ROW),
    case("get_job", "u('job0')", "job_pkey", 1, ROW),
    case("get_live_job", "'default', 'job0'", "job_live_name", 1, ROW),
    // The clock is a function that each connection reads once.
    case("get_meta", "", "meta_pkey", 1, 150),
    case("get_next_ready_at", "'big', 5000000000", "shard_pool_waiting", 1, ROW),
    case("get_next_ready_at", "'none', 5000000000", "shard_pool_waiting", 1, ROW),
    case("get_node", "1", "node_pkey", 1, ROW),
    case("get_op_result", "u('op500')", "op_id_key", 1, ROW),
    case("get_revision", "u('job0'), 1", "revision_pkey", 1, ROW),
    case("get_run", "500", "run_pkey", 1, ROW),
    case("get_session", "5", "session_pkey", 1, ROW),
    case("get_shard", "500, 0", "shard_pkey", 1, ROW),
    case("hold_clock", "true, 0", "meta_pkey", 1, CHANGE),
    case("insert_calendar_use", "u('job0'), 'default', 'new', 1", "", 1, CHANGE),
    case("insert_calendar_version", "'default', 'cal0', 4, '{}', 5", "", 1, CHANGE),
    case("insert_decision", "u('job0'), 1, 1, 1, 'overlap', ''", "", 1, 2 * CHANGE),
    case("insert_event", "1, u('op1'), times('node 1', 500), times('shard', 500), times('x/0', 500), ints(1, 1, 500), \
        ints(1, 1, 500), null, null, times('attempt_ended', 500), times('', 500), times('', 500), null, null, \
        times('', 500), times('{}', 500)", "", N, N * CHANGE),
    case("insert_job", "u('new'), 'default', 'new', '{}', 0, 0, 0, 5::smallint, null, 'always'", "", 1, CHANGE),
    case("insert_node", "999, 'host', 5", "", 1, CHANGE),
    case("insert_op", "u('new'), 5, 'node 1'", "", 1, CHANGE),
    case("insert_revision", "u('job0'), 2, '{}', 5", "", 1, CHANGE),
    case("insert_run", "ints(2000001, 1, 500), array_fill(u('job0'), array[500]), times('default', 500), times('job0', 500), \
        ints(1, 1, 500)::text[], times(1, 500), null, null, times('big', 500), times('sh', 500), times(0, 500), \
        times(8, 500), times('{}', 500), array_fill(false, array[500]), null, times('scheduled', 500), times(1, 500), \
        times(1, 500), times('', 500), times(5, 500), null, null, times(5, 500), null, null, null, times(5, 500), null, times(null::bigint, 500), times(null::bigint, 500), times(null::bigint, 500), null", "", N, N * CHANGE),
    case("insert_session", "99999, 'w', 'uid', 'b', 'i', 'big', 5, '[]', 0, 0, 1, 1, null", "", 1, CHANGE),
    case("insert_shards", "times(2000001, 500), times('big', 500), ints(0, 1, 500), times('\"whole\"', 500), \
        times(0, 500), times(0, 500), times(0, 500), times('scheduled', 500), times(0, 500), times(0, 500), null, \
        times(0, 500), null, null, null, null, array_fill(false, array[500])", "", N, N * CHANGE),
    case("put_alert", "'alert 5', '{}'", "", 1, CHANGE),
    case("delete_alert", "'alert 5'", "alert_pkey", 1, CHANGE),
    // As many as there may be.
    case("list_alerts", "", "", 1_000, 1_100),
    case("insert_notice", "u('new'), 'ops', '{}', 0, 0, 0", "", 1, CHANGE),
    // All that is due, of which there are never more than a few for each receiver; read whole are as many as
    // are answered.
    case("list_notices", "5, 3", "", 8_200, 6_000),
    // All of them, of which there are never more than a few for each receiver.
    case("count_notices", "", "", 4_000, 1_000),
    case("delete_notice", "u('notice5')", "notice_pkey", 1, CHANGE),
    case("put_off_notice", "u('notice5'), 9", "notice_pkey", 1, CHANGE),
    case("list_unsuccessful_runs", "0, 100, 'starting_deadline'", "run_unsuccessful", 100, 100 * ROW),
    case("get_request_key", "lpad('5', 64, '0')", "request_key_pkey", 1, ROW),
    case("insert_request_key", "repeat('x', 64), 'me', repeat('0', 64), u('s'), u('h'), null, 5", "", 1, CHANGE),
    case("take_request_key", "lpad('5', 64, '0'), u('h'), null, 5", "request_key_pkey", 1, CHANGE),
    case("answer_request_key", "lpad('5', 64, '0'), u('h5'), u('h5'), 200, 'json', '{}'", "request_key_pkey", 1, CHANGE),
    case("note_request_key", "lpad('5', 64, '0'), u('h5'), 0", "request_key_pkey", 1, CHANGE),
    // As many as one author may have.
    case("count_request_keys", "'user 5', 2000", "request_key_author", 2_000, 2_000),
    case("delete_request_keys", "500000, 1000", "request_key_at", 3_000, 1_000 * CHANGE),
    case("locks/lock_request_key", "lpad('5', 64, '0')", "request_key_pkey", 1, CHANGE),
    case("keep_op_result", "u('op500'), 5", "op_id_key", 1, CHANGE),
    case("lease_shard", "ints(85, 100, 500), times(0, 500), times(0, 500), times(5, 500), times(1, 500), times(1, 500), \
        times(1, 500), times(0, 500), times(1, 500), times(9, 500), times(9, 500), times(2, 500), \
        null, null", "shard_pkey", N, N * CHANGE),
    case("get_oldest_in_state", "'running'", "run_state", 1, ROW),
    case("list_accounts", "'u5', 50", "account_pkey", 51, 50 * ROW),
    case("list_access_tokens", "'t5', 50", "access_token_pkey", 51, 50 * ROW),
    case("list_believed", "1000", "access_token_pkey", 2_000, 2_000 * ROW),
    case("list_calendar_users", "'default', 'cal0', u('job0'), 100", "calendar_use_job", 301, 300 * ROW),
    case("list_calendars", "'default', 'cal1', 50", "calendar_pkey", 51, 50 * ROW),
    case("list_complete_runs", "100", "run_complete", 100, 100 * ROW),
    case("list_decisions", "u('job0'), 5000, 100", "decision_job", 101, 100 * ROW),
    case("list_due_jobs", "2000, ints(0, 1, 64), 100, clock(5)", "job_due", 100, 100 * ROW),
    case("list_outdated_jobs", "'2026b', ints(0, 1, 64), 100", "job_zones", 100, 100 * ROW),
    case("list_duties", "", "", 70, 100),
    case("list_ended_runs", "30000, 7, 2000000000000000, 100", "run_ended", 100, 100 * ROW),
    case("list_events", "0, 1000", "event_pkey", 1_000, 1_000),
    case("list_events_of_run", "20000, 1000, 7", "event_run", 1_000, 1_000 * ROW),
    case("list_events_of_shard", "20000, 1000, '7/0'", "event_ver", 2_100, 2_100 * ROW),
    case("list_failed_shards", "80", "shard_pkey", 1, ROW),
    case("list_holders", "'big', clock(5000000000)", "shard_pool_held", 5_000, 5_000 * ROW),
    case("list_jobs", "'default', 'job5', 100", "job_live_name", 100, 100 * ROW),
    case("list_late_runs", "clock(1000005000), ints(0, 1, 64), 100", "run_deadline", 102, 102 * ROW),
    case("list_leases", "2, 'big'", "shard_pool_held", 100, 200),
    case("list_nodes", "clock(5)", "", 200, 100),
    case("list_old_ops", "1000", "op_pkey", 1_000, 1_000),
    case("list_open_runs", "40000, 100, u('job0')", "", 1_200, 1_200 * ROW),
    case("get_namespace", "'team5'", "namespace_pkey", 1, ROW),
    case("list_namespaces", "'team5', 100", "namespace_pkey", 100, 100),
    case("put_namespace", "'team5', 2, 100, null, null", "", 2, CHANGE),
    case("count_queued_of_namespace", "'default', 100", "run_queued", 100, 100),
    case("locks/lock_queues", "array['team5', 'team6']", "namespace_queue_limited", 2, 2 * CHANGE),
    case("count_running_of_namespace", "9000, 9999", "shard_run_held", 1, ROW),
    case("count_running_of_job", "9000, 9999, 5, u('job0')", "shard_run_held", 1, ROW),
    case("locks/note_limits", "", "", 100, 2 * CHANGE),
    case("locks/lock_namespaces", "array['team5', 'team6']", "namespace_limited", 2, 2 * CHANGE),
    case("locks/lock_namespace", "'team5'", "namespace_pkey", 1, CHANGE),
    case("list_ready_runs", "'big', -1, -1, 0, clock(5000000000), 200, 200, 200", "shard_waiting", 1_300, 4_000),
    // A thousand lanes, the first of which has a hundred thousand runs.
    case("list_ready_runs", "'many', -1, -1, 0, clock(5000000000), 2000, 2, 1", "shard_waiting", 4_100, 20_000),
    // One step over a run whose hundred thousand shards wait for a retry.
    case("list_ready_runs", "'tired', -1, -1, 0, clock(5000000000), 200, 200, 200", "shard_waiting", 1_000, 500),
    // Those that wait for next year are not in the way of ten whose instant has come.
    case("list_ready_runs", "'crowd', -1, -1, 0, clock(5000000000), 200, 200, 200", "shard_waiting", 1_300, 4_000),
    case("list_ready_runs", "'none', -1, -1, 0, clock(5000000000), 200, 200, 200", "shard_waiting", 1, 2 * ROW),
    case("list_ready_shards", "array[185]::bigint[], clock(5000000000), 500, 'big', array[3049]::bigint[], array[185]::bigint[]", "shard_waiting", 1, 2 * ROW),
    case("locks/promote_later", "'crowd', clock(5000000000), 500, 5", "shard_pool_waiting", 40, 5 * CHANGE),
    case("list_removable_runs", "30000, 100", "run_ended", 100, 100 * ROW),
    case("list_running", "180, 100, 3048, 0", "shard_run_held", 1, ROW),
    case("list_runs", "40000, 100", "run_pkey", 100, 100 * ROW),
    case("list_runs_by_job", "40000, 100, u('job0')", "run_job", 1_200, 1_200 * ROW),
    case("list_runs_by_job_and_state", "40000, 100, u('job0'), 'cancelled'", "run_job", 100, 100 * ROW),
    case("list_runs_by_state", "40000, 100, 'failed'", "run_state", 100, 100 * ROW),
    // Sessions and what they hold, which is counted.
    case("list_sessions", "", "session_live", 51_000, 16_000),
    case("list_sessions_of_name", "'w5'", "session_live_name", 1, ROW),
    case("list_sessions_of_pool", "'big'", "", 51_000, 16_000),
    case("list_sessions_of_worker", "'uid5'", "session_live_uid", 1, ROW),
    case("list_shards", "80, -2, 1000", "shard_pkey", 1, ROW),
    // Planned on empty tables it looks at all users of the calendars that have any.
    case("list_stale_calendar_users", "'00000000-0000-0000-0000-000000000000', 100", "", 2_300, 3_000),
    case("list_timed_out", "'big', clock(10000005000), 100, 0", "shard_timeout", 100, 100 * ROW),
    case("list_waiting_shards", "185, 'big', 3049, 185", "", 1, ROW),
    case("locks/lock_calendar", "'default', 'cal0'", "calendar_pkey", 1, CHANGE),
    case("locks/lock_duties", "array['pool/big', 'janitor']", "duty_pkey", 2, 2 * CHANGE),
    case("locks/lock_free_duties", "array['pool/big', 'janitor']", "duty_pkey", 2, 2 * CHANGE),
    case("locks/get_jobs", "array[u('job0'), u('job1')]", "job_pkey", 2, 2 * ROW),
    case("locks/get_jobs_of_runs", "ints(80, 100, 500)", "run_pkey", 2 * N, N * ROW),
    case("locks/lock_counted_jobs", "array[u('job0')], array[u('job1')]", "job_pkey", 2, 2 * CHANGE),
    case("locks/lock_counted_jobs_of_runs", "ints(80, 100, 500)", "run_pkey", 2 * N, N * CHANGE),
    case("locks/pass_gates", "8, ints(0, 1, 64), array[u('job0')]", "job_pkey", 130, 2 * ROW),
    case("locks/pass_gates_of_runs", "8, ints(80, 100, 500)", "run_pkey", N, N * ROW),
    case("locks/shut_gate", "8, 5", "", 0, 0),
    case("locks/lock_jobs", "array[u('job0'), u('job1')]", "job_pkey", 2, 2 * CHANGE),
    case("locks/lock_jobs_of_runs", "ints(80, 100, 500)", "run_pkey", 2 * N, N * CHANGE),
    case("locks/lock_live_job", "'default', 'job0'", "job_live_name", 1, CHANGE),
    case("locks/lock_nodes", "array['pool/big', 'janitor'], 2", "node_pkey", 5, 5 * CHANGE),
    case("locks/lock_runs", "ints(80, 100, 500)", "run_pkey", N, N * CHANGE),
    case("locks/lock_sessions", "ints(1, 1, 500)", "session_pkey", N, N * CHANGE),
    case("locks/lock_sessions_of_worker", "'uid5'", "session_live_uid", 1, CHANGE),
    case("locks/lock_shards", "ints(80, 100, 500), times(0, 500)", "shard_pkey", N, N * CHANGE),
    case("locks/next_ids", "500", "", 0, N * ROW),
    case("locks/read_runs", "ints(80, 100, 500)", "run_pkey", N, N * ROW),
    case("locks/read_shards", "ints(80, 100, 500), times(0, 500)", "shard_pkey", N, N * ROW),
    case("locks/share_calendars", "array['default', 'default'], array['cal0', 'cal1']", "calendar_pkey", 2, 2 * CHANGE),
    case("locks/share_duties", "array['pool/big', 'janitor']", "duty_pkey", 2, 2 * CHANGE),
    case("locks/take_turn", "1, 'x'", "", 0, 0),
    case("leave_numbers_out", "1000000, 1000000", "", 0, CHANGE),
    case("get_restore", "", "meta_pkey", 1, ROW),
    case("begin_restore", "5, 4, 3", "meta_pkey", 1, CHANGE),
    case("end_restore", "", "meta_pkey", 1, CHANGE),
    case("get_newest_event", "", "event_pkey", 2, 8 * ROW),
    case("locks/get_place", "", "meta_pkey", 2, 2 * ROW),
    case("locks/get_whereabouts", "", "", 1, ROW),
    case(
        "locks/count_ops",
        "array[u('op500'), u('op501')]",
        "op_id_key",
        4,
        2 * ROW,
    ),
    case("locks/put_place", "'1', 1", "meta_pkey", 1, CHANGE),
    case("note_dead_by", "80, 5", "run_pkey", 1, CHANGE),
    case("end_node", "1, 5", "node_pkey", 1, CHANGE),
    case("pause_job", "u('job1'), 1, true, null", "job_pkey", 1, CHANGE),
    case("note_access_tokens", "array['t5', 't6'], 9", "access_token_pkey", 2, 2 * CHANGE),
    case("put_account", "'new', '{}'", "", 1, CHANGE),
    case("put_access_token", "'new', 'api', repeat('0', 64), '*=viewer', null, '[]', null, 5, 'me', 1, '[]'", "", 1, CHANGE),
    case("revoke_access_token", "'t5', 1, 9", "access_token_pkey", 1, CHANGE),
    case("put_calendar", "'default', 'cal0', 4, false, '{}', 5", "", 1, CHANGE),
    case("put_duty", "'pool/big', 2, 1, 2", "", 1, CHANGE),
    case("raise_epoch", "5", "meta_pkey", 1, CHANGE),
    case("release_duty", "'pool/big', 1", "duty_pkey", 1, CHANGE),
    case("release_run", "85, 5", "run_pkey", 1, CHANGE),
    case("release_shards", "185, 5, 'big', 3049, 185, false", "", 2, CHANGE),
    // The lock, the lease, the clock mark.
    case("renew_node", "1, 20000000000, clock(5)", "node_pkey", 4, 3 * CHANGE),
    case("renew_session", "ints(1, 1, 500), 20000000000, clock(5)", "session_pkey", 2 * N, N * CHANGE),
    case("reopen_run", "7, 'failed', 0, 0, null", "run_pkey", 1, CHANGE),
    case("reopen_shard", "7, 0, 1, 5, 3048", "shard_pkey", 1, CHANGE),
    case("discard_shard", "7, 0, 1, 5", "shard_pkey", 1, CHANGE),
    case("save_checkpoint", "80, 0, 1, 1, '', 0, 0, 0, '', null", "shard_pkey", 1, CHANGE),
    case("save_progress", "80, 0, 1, 0, 0, 0, '', null", "shard_pkey", 1, CHANGE),
    case("settle_run", "ints(80, 100, 500), times('failed', 500), times('', 500), times(5, 500), times(0, 500), \
        times(0, 500), times(0, 500), times(0, 500)", "run_pkey", N, N * CHANGE),
    case("start_run", "ints(85, 100, 500), times(5, 500), null", "run_pkey", N, N * CHANGE),
    case("stop_run", "80, 'cancel', 5, ''", "run_pkey", 1, CHANGE),
    case("stop_waiting_shards", "185, 5, 'big', 3049, 185", "", 2, CHANGE),
    case("sum_progress", "80", "shard_pkey", 1, ROW),
    case("update_job", "u('job1'), 1, 2, '{}', null, null", "job_pkey", 1, CHANGE),
    case("advance_backfill", "3000001, 1, 'running', null, 5, 5, 5, null, 1, 1, 0, 0, 1", "backfill_pkey", 1, CHANGE),
    case("count_backfill", "3000001, 1, 0, 0, 0", "backfill_pkey", 1, CHANGE),
    case("shorten_session", "7, 10000000000, 9999999999", "session_pkey", 1, CHANGE),
    case("shorten_node", "1, 10000000000, 9999999999", "node_pkey", 1, CHANGE),
    case("count_checks", "3000001, 5, 1, 1, 0, 0, 0", "backfill_pkey", 1, CHANGE),
    case("get_check", "80, 1", "backfill_check_pkey", 1, ROW),
    case("insert_check", "80, 1, 3000001, 5", "backfill_pkey", 1, CHANGE),
    case("list_checks", "3000001, 0, 0, 100", "", 100, 100 * ROW),
    case("list_checks_by_state", "3000001, 0, 0, 100, 'due'", "", 100, 100 * ROW),
    case("move_check", "80, 1, 'due', 'open', 7, null, null, '', 5", "backfill_check_pkey", 1, CHANGE),
    case("delete_checks", "80", "backfill_check_pkey", 1, CHANGE),
    case("count_ended_runs", "500000, 10000", "run_ended", 10_010, 20_000 * ROW),
    case("count_jobs", "10000", "job_live_name", 2_000, 2_000 * ROW),
    case("count_late_jobs", "2000, 10000", "job_due", 2_000, 2_000 * ROW),
    case("count_load", "0, 100, 2000, 10000", "job_due", 2_000, 2_000 * ROW),
    case("count_runs_in_state", "'running', 10000", "run_state", 10_000, 10_000 * ROW),
    case("get_last_event", "", "event_pkey", 1, 4 * ROW),
    case("list_skips", "0, 10000", "decision_at", 20_000, 20_000 * ROW),
    case("count_open_backfills", "u('job0')", "backfill_open", 1, ROW),
    case("fill_decision", "5, 7", "decision_pkey", 1, CHANGE),
    case("lengthen_decision", "u('job0'), 5, 9000000000000000, 3, 'overlap', '7'", "decision_skip", 2, ROW + CHANGE),
    case("find_backfill", "u('job0'), 'key'", "backfill_job_uid_key_key", 1, ROW),
    case("find_skip", "u('job0'), 5000", "decision_skip", 1, ROW),
    case("get_backfill", "3000001", "backfill_pkey", 1, ROW),
    case("insert_backfill", "9000001, u('job0'), 'new', 'me', 0, 5, 'all', 'oldest', 1, null, '', 5, 5::smallint, null, null", "", 1, CHANGE),
    case("list_backfills", "9000000, 100, u('job0')", "backfill_job", 1, ROW),
    case("list_instants", "u('job0'), ints(5000, 1, 500)", "run_occasion", 2 * N, 4 * N * ROW),
    case("list_revisions", "u('job0'), 0, 100", "revision_pkey", 1, ROW),
    case("list_running_backfills", "ints(0, 1, 64), 3000001, 100", "backfill_running", 100, 100 * ROW),
    case("list_runs_of_backfill", "2000000, 100, 3000001", "run_backfill", 100, 100 * ROW),
    case("turn_backfill", "3000001, 1, 'paused', null, ''", "backfill_pkey", 1, CHANGE),
    case("delete_capacity_uses", "u('job0')", "capacity_use_pkey", 1, CHANGE),
    case("delete_hold", "ints(80, 100, 500), times(0, 500), times(1, 500), times('cap0', 500)", "hold_pkey", N, N * CHANGE),
    case("fill_capacity", "'cap0', 0, 5", "capacity_pkey", 1, CHANGE),
    case("forget_holds", "array['cap1'], 5", "hold_until", 1, ROW),
    case("get_capacities", "array['cap0', 'cap1']", "capacity_pkey", 2, 2 * ROW),
    case("get_capacity", "'cap0'", "capacity_pkey", 1, ROW),
    case("insert_capacity_use", "u('job0'), 'cap9', 1", "", 2, CHANGE),
    case("insert_hold", "ints(1, 1, 500), times(0, 500), times(1, 500), times('cap9', 500), times(1, 500), times(1, 500), \
        times(5, 500)", "", N, N * CHANGE),
    case("list_recalls", "ints(80, 100, 500)", "recall_pkey", 10 * N, N * ROW),
    case("list_recalls_for", "7, 100", "recall_by", 100, 100 * ROW),
    case("insert_recall", "80, 11, 1, 7, 5, 5", "", 1, CHANGE),
    case("note_recall", "80, 0, 1", "shard_pkey", 1, CHANGE),
    case("delete_recalls", "80", "recall_pkey", 10, CHANGE),
    case("limit_hold", "ints(80, 100, 500), times(0, 500), times(1, 500), times('cap0', 500), times(5, 500)", "hold_pkey", N, N * CHANGE),
    case("list_capacities", "'cap1', 50", "capacity_pkey", 51, 50 * ROW),
    case("list_capacity_users", "'cap1', 10", "capacity_use_job", 20, 20 * ROW),
    case("list_holds", "'cap1', 5, 100", "hold_capacity", 60, 60 * ROW),
    // As many open runs as use any capacity.
    case("list_open_users", "'cap0', 10", "run_uses", 1_000, 1_000 * ROW),
    case("list_waiters", "'cap0', 5, 100", "run_uses", 2_000, 4_000 * ROW),
    case("locks/lock_capacities", "array['cap0', 'cap1']", "capacity_pkey", 2, 2 * CHANGE),
    case("locks/lock_capacity", "'cap0'", "capacity_pkey", 1, CHANGE),
    case("locks/share_capacities", "array['cap0', 'cap1']", "capacity_pkey", 2, 2 * CHANGE),
    case("put_capacity", "'cap0', 4, false, '{}', 5, 1, null, null, null, 0, 5", "", 1, CHANGE),
    case("sum_holds", "array['cap1', 'cap2'], 5", "hold_capacity", 120, 120 * ROW),
    case("update_meta", "5", "meta_pkey", 1, CHANGE),
];

/// How a connection of the store plans.
const SETTINGS: &str = "set jit = off; set enable_seqscan = off; set enable_hashjoin = off; \
                        set enable_mergejoin = off; set max_parallel_workers_per_gather = 0";

/// A connection that has every statement prepared under its name.
struct Prepared(Client);

fn run(client: &Client, sql: &str) {
    let done = runtime().block_on(client.batch_execute(sql));
    done.unwrap_or_else(|e| panic!("{sql}\n{e:?}"));
}

impl Prepared {
    fn new(server: &Server, schema: &str, mode: &str) -> Self {
        let client = server.connect(schema);
        run(&client, SETTINGS);
        run(&client, &format!("set plan_cache_mode = {mode}"));
        for (name, text) in STATEMENTS {
            run(&client, &format!("prepare \"{name}\" as {text}"));
        }
        Self(client)
    }

    /// Carries `case` out, takes it back, and says what it did.
    fn explain(&self, case: &Case) -> Result<Value, tokio_postgres::Error> {
        let values = if case.values.is_empty() {
            String::new()
        } else {
            format!("({})", case.values)
        };
        let query = format!(
            "explain (analyze, buffers, timing off, format json) execute \"{}\"{values}",
            case.name
        );
        let (begun, answer) = (self.0.batch_execute("begin"), self.0.simple_query(&query));
        let rows = runtime().block_on(async {
            begun.await.unwrap();
            let rows = answer.await;
            self.0.batch_execute("rollback").await.unwrap();
            rows
        });
        let rows = rows?;
        let text = rows.iter().find_map(|row| match row {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        Ok(serde_json::from_str(text.unwrap()).unwrap())
    }

    /// What is wrong with the plans of all cases.
    fn judge(&self, when: &str, wrong: &mut Vec<String>) {
        for case in CASES {
            let plan = self.explain(case);
            let plan = plan.unwrap_or_else(|e| panic!("{}: {e:?}", case.name));
            let mut touched = Touched::default();
            touched.add(&plan[0]["Plan"]);
            let root = &plan[0]["Plan"];
            let pages = number(root, "Shared Hit Blocks") + number(root, "Shared Read Blocks");
            let mut say = |what: String| {
                wrong.push(format!("{when}: {} ({}) {what}", case.name, case.values));
            };
            if touched.whole {
                say("reads a whole table".into());
            }
            if touched.rows > case.rows {
                say(format!("touches {} rows, not {}", touched.rows, case.rows));
            }
            if pages > case.pages {
                say(format!("touches {pages} pages, not {}", case.pages));
            }
            let on = case.index;
            if !on.is_empty() && !touched.indexes.iter().any(|index| index == on) {
                say(format!("runs on {:?}, not {on}", touched.indexes));
            }
        }
    }
}

fn number(node: &Value, key: &str) -> u64 {
    node[key].as_f64().map_or(0, |n| n as u64)
}

/// What a plan touched.
#[derive(Default)]
struct Touched {
    rows: u64,
    indexes: Vec<String>,
    whole: bool,
}

impl Touched {
    fn add(&mut self, node: &Value) {
        let kind = node["Node Type"].as_str().unwrap();
        self.whole |= kind == "Seq Scan" && !small(node);
        if node["Relation Name"].is_string() && kind.contains("Scan") {
            let each = number(node, "Actual Rows")
                + number(node, "Rows Removed by Filter")
                + number(node, "Rows Removed by Index Recheck");
            self.rows += each * number(node, "Actual Loops");
        }
        self.indexes
            .extend(node["Index Name"].as_str().map(str::to_owned));
        for child in node["Plans"].as_array().into_iter().flatten() {
            self.add(child);
        }
    }
}

/// Tables that stay small.
fn small(node: &Value) -> bool {
    [
        "node",
        "duty",
        "meta",
        "calendar",
        "access_token",
        "account",
        "capacity",
    ]
    .contains(&node["Relation Name"].as_str().unwrap_or_default())
}

#[test]
fn every_statement_has_its_bound() {
    let bound: Vec<&str> = CASES.iter().map(|case| case.name).collect();
    let unbound = STATEMENTS.iter().map(|(name, _)| *name);
    let unbound: Vec<_> = unbound
        .filter(|name| !bound.contains(name) && !WHOLE.contains(name))
        .collect();
    assert!(unbound.is_empty(), "no bound for {unbound:?}");
}

#[test]
fn no_statement_touches_more_than_it_answers_among_a_million_rows() {
    let Some(server) = Server::start() else {
        return;
    };
    let mut wrong = Vec::new();
    let schema = server.new_schema();
    drop(server.open(&schema, None));
    let filler = server.connect(&schema);
    run(&filler, include_str!("million.sql"));
    run(&filler, "alter system set autovacuum = off");
    run(&filler, "select pg_reload_conf()");
    run(
        &filler,
        "set maintenance_work_mem = '256MB'; set session_replication_role = replica",
    );

    let kept = Prepared::new(&server, &schema, "force_generic_plan");
    for case in CASES {
        // Whether it finds its rows does not matter: the plan is made now, and kept.
        let _ = kept.explain(case);
    }
    run(
        &filler,
        &format!("select fill_few(); select fill(1, {FIRST})"),
    );
    kept.judge("planned on empty tables", &mut wrong);

    run(&filler, "analyze");
    run(&filler, &format!("select fill_many({}, {LAST})", FIRST + 1));
    for when in ["old statistics", "fresh statistics"] {
        for mode in ["force_generic_plan", "force_custom_plan"] {
            let prepared = Prepared::new(&server, &schema, mode);
            prepared.judge(&format!("{when}, {mode}"), &mut wrong);
        }
        run(&filler, "analyze");
    }
    assert!(
        wrong.is_empty(),
        "{} of them:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
