//! What every store must do. Each claim is a function over a [`Bench`]; the macro below asks it of
//! every store. After each, the events are folded and compared with the rows.
//!
//! To add a claim: write it in its noun's file and list it below (an unlisted one is dead code).
//! To add a store: one line at the end.

mod access;
mod alerts;
mod backfills;
mod calendars;
mod capacities;
mod chains;
mod checkpoints;
mod checks;
mod clock;
mod counting;
mod discards;
mod dispatch;
mod duties;
mod fences;
mod history;
mod jobs;
mod keys;
mod leases;
mod namespaces;
mod operations;
mod overview;
mod reaping;
mod recalls;
mod reports;
mod restores;
mod runs;
mod schedules;
mod sessions;
mod settling;
mod stopping;
mod timeouts;
mod turns;
mod users;

use std::any::Any;
use std::sync::Arc;

use sichen_core::port::Store;
use sichen_store::clock::ManualClock;
use sichen_store::sqlite::SqliteStore;

use crate::bench::{Bench, at};
use crate::fold;

type Made = (Arc<dyn Store>, Box<dyn Any>);

fn prove(make: fn(Arc<ManualClock>) -> Made, claim: fn(&Bench)) {
    let clock = Arc::new(ManualClock::new(at(0)));
    let (store, _kept) = make(Arc::clone(&clock));
    let bench = Bench::new(store, clock);
    claim(&bench);
    fold::check(&bench.dump());
}

macro_rules! claims {
    ($make:expr; $($group:ident: $($claim:ident,)+;)+) => {
        $(mod $group {
            $(#[test]
            fn $claim() {
                crate::conformance::prove($make, crate::conformance::$group::$claim);
            })+
        })+
    };
}

/// All claims in one test: where a store is dear to make, as a server is.
#[cfg(feature = "postgres")]
macro_rules! claims_together {
    ($prove:expr; $($group:ident: $($claim:ident,)+;)+) => {
        #[test]
        fn every_claim_holds() {
            $prove(&[$($((
                concat!(stringify!($group), "::", stringify!($claim)),
                crate::conformance::$group::$claim as fn(&crate::bench::Bench),
            ),)+)+]);
        }
    };
}

macro_rules! conforms {
    ($store:ident, $make:expr) => {
        conforms!($store, claims, $make);
    };
    ($store:ident, $claims:ident, $make:expr) => {
        mod $store {
            $claims! { $make;
                backfills:
                    a_step_waits_while_its_namespace_may_queue_no_more,
                    one_key_is_one_backfill,
                    a_step_writes_its_runs_in_its_own_lane,
                    a_run_fills_the_record_of_its_instant,
                    a_step_that_saw_another_state_writes_nothing,
                    an_instant_that_has_its_run_is_left,
                    a_failed_run_is_retried_in_the_lane,
                    reruns_are_numbered_and_the_newest_is_seen,
                    a_removed_run_is_still_seen,
                    outcomes_are_counted_as_runs_close,
                    turns_are_taken_once,
                    a_finished_backfill_is_final,
                    backfills_are_listed_by_job_and_by_partition,
                    revisions_say_where_they_began,
                    a_job_has_a_bounded_number_of_open_backfills,
                    a_run_that_replaces_others_leaves_those_of_backfills,
                ;
                checks:
                    a_run_that_succeeded_is_due_to_be_checked,
                    a_check_goes_forward_once,
                    a_backfill_with_checks_to_go_on_with_is_found,
                    checks_are_listed_by_state_and_page,
                    checks_go_with_their_runs,
                ;
                duties:
                    a_free_duty_is_claimed_and_its_term_rises_with_each_owner,
                    a_live_owner_keeps_its_duty,
                    an_ended_node_is_not_renewed_and_its_duties_are_free,
                    an_owner_that_claims_again_keeps_its_term,
                    an_expired_owners_duty_is_claimed_by_another,
                    a_release_under_an_old_term_is_passed_over,
                    an_expired_node_is_never_renewed_and_claims_nothing,
                    live_nodes_and_all_duties_are_listed,
                ;
                jobs:
                    a_new_job_is_found_by_name_and_uid,
                    a_second_job_of_a_live_name_is_a_conflict,
                    the_same_document_changes_nothing,
                    an_edit_makes_the_next_revision_and_keeps_the_old_one,
                    an_edit_decided_on_an_old_version_is_a_conflict,
                    an_edit_closes_the_old_revisions_instants,
                    an_edit_whose_closing_does_not_hold_changes_nothing,
                    a_deleted_jobs_name_is_free_and_its_history_stays,
                    a_deletion_decided_on_an_old_version_is_refused,
                    a_deletion_records_what_it_leaves_undecided,
                    pausing_closes_what_lies_behind,
                    pausing_what_is_paused_changes_nothing,
                    live_jobs_are_listed_by_name_in_pages,
                    due_jobs_are_listed_soonest_first,
                ;
                keys:
                    a_key_is_answered_as_its_request_was,
                    a_key_goes_to_a_repeat_when_its_holder_is_gone,
                    what_was_done_under_a_key_is_known_to_its_next_holder,
                    nothing_is_written_under_a_key_that_was_lost,
                    keys_are_kept_for_a_time_and_in_bounded_number,
                ;
                alerts:
                    alerts_and_notices_are_kept_as_they_were_written,
                    each_receiver_has_its_own_notices,
                    a_notice_ends_or_is_put_off,
                    alerts_are_written_under_the_duty_s_present_term_alone,
                    runs_without_success_are_listed_by_their_end,
                ;
                access:
                    who_is_believed_are_all_tokens_and_users,
                    a_token_is_kept_as_it_was_asked_for,
                    a_live_name_is_taken_and_the_same_token_again_is_the_same_request,
                    a_token_is_taken_back_once_and_for_all,
                    a_name_that_is_over_is_given_again,
                    tokens_are_listed_in_pages_and_their_use_is_noted,
                    there_is_a_limit_to_tokens,
                ;
                users:
                    a_user_is_kept_and_his_name_is_his_alone,
                    a_change_is_made_once_and_told_with_what_was_before,
                    what_was_judged_by_other_roles_is_refused,
                    a_login_is_kept_until_it_is_over,
                    who_is_disabled_or_has_another_password_is_logged_in_nowhere,
                    users_are_listed_in_pages_and_the_use_of_logins_is_noted,
                    who_logs_in_by_a_provider_is_kept_as_whom_it_knows,
                    there_is_a_limit_to_users,
                ;
                calendars:
                    each_change_is_a_version_and_the_old_ones_stay,
                    a_calendar_decided_on_an_old_version_is_a_conflict,
                    a_job_is_written_with_the_newest_versions_alone,
                    a_calendar_that_jobs_use_is_not_deleted,
                    a_deleted_calendar_made_again_never_repeats_a_version,
                    an_edit_without_calendars_frees_them,
                    calendars_and_their_users_are_listed_in_pages,
                ;
                capacities:
                    each_change_of_a_capacity_is_a_version,
                    a_capacity_decided_on_an_old_version_is_a_conflict,
                    a_job_uses_only_what_is_there,
                    a_capacity_in_use_is_not_deleted,
                    grants_take_units_up_to_the_limit_and_ends_give_them_back,
                    a_batch_of_grants_is_judged_as_one,
                    what_is_lowered_below_its_use_grants_nothing_and_ends_nothing,
                    all_uses_are_taken_or_none,
                    a_lost_attempt_holds_until_its_tree_is_surely_gone,
                    a_rate_grants_no_faster_than_it_says,
                    a_changed_rate_never_gives_more_than_its_burst,
                    every_end_of_an_attempt_frees_what_it_held,
                    a_run_that_uses_capacities_is_not_born_leased,
                    holders_and_waiters_are_listed,
                ;
                schedules:
                    an_advance_writes_mark_runs_and_decisions_together,
                    a_step_makes_the_last_record_longer_or_writes_nothing,
                    a_fired_run_is_born_leased_under_the_fences_of_both_duties,
                    marks_of_many_jobs_move_in_one_call_and_one_that_conflicts_stays,
                    what_zones_were_taken_for_is_kept_and_outdated_jobs_are_listed,
                    an_advance_from_another_mark_writes_nothing,
                    an_advance_of_an_old_revision_writes_nothing,
                    an_advance_that_counted_other_active_runs_writes_nothing,
                    an_advance_of_a_paused_or_deleted_job_writes_nothing,
                    a_mark_never_goes_back,
                    one_conflict_spares_its_neighbours,
                    a_planned_instant_has_one_run_and_another_rerun_a_second,
                    decisions_are_listed_from_an_instant_on,
                ;
                runs:
                    a_run_comes_back_as_it_was_written,
                    a_manual_key_has_one_run,
                    the_same_key_with_another_request_is_a_conflict,
                    callers_of_one_batch_are_independent,
                    a_run_without_shards_has_succeeded_at_once,
                    a_batch_above_the_limit_is_refused_whole,
                    a_born_leased_run_runs_at_once,
                    a_run_that_cannot_be_born_leased_waits,
                    a_plan_step_becomes_the_runs_shards,
                    a_plan_step_without_input_ends_the_run_at_once,
                    a_failed_plan_step_fails_the_run,
                    a_plan_step_that_ends_under_a_stop_grants_nothing,
                    runs_are_listed_newest_first,
                    progress_is_summed_over_shards,
                ;
                stopping:
                    a_stop_cancels_what_waits_and_lets_what_runs_end,
                    a_stop_of_a_run_that_only_waits_settles_it,
                    the_first_cause_of_a_stop_stays,
                    a_closed_run_is_not_stopped,
                    a_success_after_a_stop_is_kept,
                    a_retry_decided_before_a_stop_ends_cancelled,
                    a_fatal_error_stops_the_whole_run,
                    shards_that_fail_share_the_budget_of_their_run,
                    late_runs_are_those_past_their_deadline,
                    a_deadline_fails_the_run,
                ;
                chains:
                    a_job_that_follows_its_runs_begins_at_once,
                    the_end_of_the_last_run_writes_the_next_instant_in_its_own_operation,
                    every_way_to_end_makes_the_next_instant,
                    a_decision_without_a_run_makes_the_next_instant_itself,
                    an_advance_that_saw_another_instant_writes_nothing,
                    a_pause_keeps_the_instant_and_a_resume_brings_it_back,
                    an_edit_counts_anew_and_one_without_such_a_schedule_ends_it,
                    a_deleted_job_is_not_followed,
                    a_reopened_run_makes_the_next_instant_when_it_ends_again,
                    failures_in_a_row_are_counted,
                ;
                counting:
                    runs_of_a_job_that_nothing_counts_leave_its_row_alone,
                    an_edit_that_wants_it_counts_what_is_open,
                    a_run_that_waits_begins_the_counting_and_the_last_one_ends_it,
                    a_run_judged_by_a_number_is_written_while_that_holds,
                    an_edit_goes_on_counting_while_runs_wait,
                    runs_of_backfills_are_not_counted,
                    a_step_that_counted_what_nothing_counts_writes_nothing,
                ;
                turns:
                    a_long_queue_that_is_too_late_is_cancelled_part_by_part,
                    a_run_that_waits_is_not_granted,
                    the_oldest_waiting_run_has_its_turn_when_the_last_one_closes,
                    as_many_run_as_may,
                    a_waiting_run_that_is_stopped_makes_room,
                    a_replacing_run_stops_the_others_and_starts_when_they_are_gone,
                    a_replacing_run_with_nobody_to_replace_starts_at_once,
                    the_next_one_waits_for_trees_that_nobody_confirmed_dead,
                    who_waited_too_long_is_passed_over,
                    a_run_counted_with_other_open_runs_is_not_written,
                    a_run_that_cannot_start_in_time_is_late,
                ;
                settling:
                    the_last_report_settles_the_run,
                    some_successes_make_a_partial_run,
                    counts_that_must_match_decide_the_outcome,
                    a_reopened_run_repeats_only_what_did_not_succeed,
                    a_reopened_shard_keeps_its_checkpoint_token_and_attempts,
                    reopening_may_name_its_shards,
                    a_run_reopens_only_when_it_failed,
                    a_reopened_run_has_no_stop_and_no_deadline,
                    a_reopened_plan_step_plans_again,
                    there_is_nothing_for_the_sweep_to_settle,
                ;
                overview:
                    an_empty_store_has_nothing_to_count,
                    runs_count_by_state_and_those_that_ended_long_ago_do_not,
                    jobs_count_by_when_they_come_due,
                    what_was_not_run_is_summed_by_job_and_reason,
                ;
                discards:
                    a_discarded_dead_letter_stays_failed_and_says_why,
                    a_discard_may_name_its_shards,
                    a_retry_leaves_out_what_was_discarded_unless_it_is_named,
                    only_dead_letters_are_discarded,
                ;
                namespaces:
                    a_namespace_is_set_in_parts_and_says_so_in_the_log,
                    no_grant_goes_beyond_what_a_namespace_may_run,
                    no_grant_goes_beyond_what_a_job_may_run,
                    a_limited_namespaces_runs_are_born_leased_only_below_its_limit,
                    no_run_is_written_beyond_what_a_namespace_may_queue,
                    planned_times_wait_while_their_namespace_may_queue_no_more,
                ;
                dispatch:
                    ready_runs_come_by_priority_then_age,
                    a_window_shows_each_lane_and_job_its_part,
                    many_that_become_ready_at_once_come_in_their_places,
                    a_runs_first_ready_shards_come_by_time_then_number,
                    shards_that_wait_for_their_time_are_announced,
                    stopped_runs_and_other_pools_are_not_ready,
                    pages_of_ready_runs_follow_each_other,
                ;
                leases:
                    a_grant_raises_the_token_and_tells_the_holder,
                    a_shard_is_granted_once,
                    grants_are_numbered_within_their_session,
                    a_session_holds_no_more_than_its_slots,
                    a_run_runs_no_more_than_its_parallelism,
                    a_session_that_is_over_gets_nothing,
                    a_draining_session_gets_nothing,
                    a_session_of_another_pool_gets_nothing,
                    nothing_is_granted_before_its_time,
                    a_pools_owner_grants_for_its_own_pool_only,
                    one_bad_grant_spares_its_neighbours,
                    the_first_grant_starts_the_run,
                    a_grant_after_a_lost_attempt_counts_as_a_takeover,
                ;
                reaping:
                    shards_of_a_session_that_is_over_are_overdue,
                    shards_past_their_timeout_are_overdue_after_the_grace,
                    a_reap_raises_the_token_and_the_late_report_is_stale,
                    a_session_that_lives_is_not_reaped_as_lost,
                    a_timeout_is_reaped_under_a_live_session,
                    what_was_reported_meanwhile_is_not_reaped,
                    the_last_reap_settles_the_run,
                    one_bad_reap_spares_its_neighbours,
                ;
                recalls:
                    a_shard_is_asked_once_an_attempt_and_runs_on,
                    shards_of_a_run_are_asked_no_more_often_than_they_may,
                    one_bad_recall_spares_its_neighbours,
                    what_is_on_record_of_recalls_goes_with_its_run,
                    recalls_are_taken_in_batches,
                ;
                restores:
                    a_store_that_went_back_waits_for_a_decision,
                    a_token_of_the_lost_tail_is_refused_by_name,
                    a_restore_that_begins_while_another_waits_takes_its_marks_on,
                    decisions_are_recorded_with_what_they_change,
                    numbers_of_the_lost_tail_do_not_come_again,
                ;
                reports:
                    a_report_is_accepted_once_and_repeats_are_duplicates,
                    a_second_answer_under_the_same_token_contradicts,
                    an_old_token_is_stale_and_recorded,
                    an_unknown_token_is_stale_below_it,
                    a_report_of_no_running_attempt_is_refused,
                    a_report_of_no_shard_is_missing,
                    a_report_after_the_sessions_expiry_is_accepted,
                    an_attempt_is_ended_by_no_worker_but_its_own,
                    a_report_leaves_progress_and_failure,
                    a_failed_attempt_waits_for_its_retry,
                    a_released_attempt_goes_back_into_the_budget,
                    an_instant_at_the_end_of_time_is_read_as_it_was_written,
                    one_bad_report_spares_its_neighbours,
                ;
                checkpoints:
                    a_checkpoint_is_handed_to_the_next_attempt,
                    a_long_position_is_whole_in_its_row_and_cut_in_the_log,
                    a_checkpoint_never_moves_back,
                    a_checkpoint_under_an_old_token_is_refused,
                    a_checkpoint_under_an_expired_session_is_refused,
                    a_checkpoint_by_another_session_is_refused,
                    progress_alone_is_no_new_version,
                    one_bad_checkpoint_spares_its_neighbours,
                ;
                timeouts:
                    a_sign_of_progress_moves_the_stall_and_not_the_attempts_end,
                    a_stalled_attempt_is_reaped_unless_a_sign_came_in_between,
                    the_first_grant_gives_the_run_its_deadline,
                    a_report_past_the_deadline_stops_the_run,
                    the_running_shards_of_a_run_are_listed,
                ;
                sessions:
                    a_session_lives_from_beat_to_beat,
                    an_expired_session_is_never_renewed,
                    a_beat_never_shortens_a_session,
                    a_new_incarnation_ends_the_old_one_only_if_its_trees_are_dead,
                    another_boot_or_uid_supersedes_nothing,
                    a_registration_that_was_overtaken_changes_nothing,
                    a_superseded_session_is_told_so,
                    a_name_over_two_identities_is_an_alarm,
                    a_session_ends_once,
                    the_reaper_ends_only_what_has_expired,
                    sessions_are_listed_with_what_they_hold,
                ;
                fences:
                    an_old_term_writes_nothing,
                    a_duty_that_was_released_writes_nothing,
                    another_duty_is_no_right,
                ;
                history:
                    ended_runs_are_listed_in_the_order_of_their_end,
                    events_are_listed_in_pages_and_by_entity,
                    every_event_has_its_operation_and_actor,
                    old_closed_runs_are_removed_with_their_events,
                    only_what_is_over_is_removed_whatever_its_age,
                    a_removed_instant_stays_decided,
                    time_never_goes_back,
                ;
                clock:
                    a_small_step_ahead_is_believed,
                    a_lease_is_shortened_only_while_the_clock_is_behind,
                    a_large_step_ahead_is_held_and_nothing_is_due,
                    an_accepted_step_is_believed_and_ends_no_lease,
                    a_clock_that_is_right_again_is_believed,
                ;
                operations:
                    a_committed_operation_is_found,
                    the_same_operation_again_does_not_apply_twice,
                    an_empty_batch_is_no_harm,
                ;
            }
        }
    };
}

conforms!(memory, crate::conformance::new_memory);
conforms!(sqlite_in_memory, crate::conformance::new_sqlite);
conforms!(sqlite_on_disk, crate::conformance::new_sqlite_on_disk);
#[cfg(feature = "postgres")]
conforms!(postgres, claims_together, crate::postgres::prove_all);
#[cfg(feature = "postgres")]
conforms!(
    postgres_through_a_pooler,
    claims_together,
    crate::postgres::prove_all_through_a_pooler
);

fn new_memory(clock: Arc<ManualClock>) -> Made {
    (
        Arc::new(sichen_store::memory::MemoryStore::new(clock)),
        Box::new(()),
    )
}

fn new_sqlite(clock: Arc<ManualClock>) -> Made {
    (
        Arc::new(SqliteStore::open_in_memory(clock).expect("it opens")),
        Box::new(()),
    )
}

fn new_sqlite_on_disk(clock: Arc<ManualClock>) -> Made {
    let dir = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(dir.path(), clock).expect("it opens");
    (Arc::new(store), Box::new(dir))
}
