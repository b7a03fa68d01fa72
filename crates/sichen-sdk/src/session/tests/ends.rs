//! How attempts end, and a worker with them: asked to, out of time, drained, stuck.

use super::*;

#[test]
fn cancel_ends_as_cancelled_unless_the_work_was_done_first() {
    for (ended, outcome) in [
        (Ended::Stopped, v1::Outcome::Cancelled),
        (
            Ended::Failed(v1::AttemptError::default()),
            v1::Outcome::Cancelled,
        ),
        (ok(), v1::Outcome::Succeeded),
    ] {
        let mut play = Play::up(1);
        play.server(FromServer::Grant(grant(1, lease(0, 5))));
        let out = play.server(FromServer::Cancel(v1::Cancel {
            shard: Some(lease(0, 5).shard()),
            token: 5,
            reason: v1::Reason::CancelRequested.into(),
            grace_ms: 700,
        }));
        assert_eq!(Play::stopped(&out), [(5, 700)]);
        let finish = Play::finishes(&play.feed(Input::HandlerFinished {
            lease: lease(0, 5),
            ended,
        }))
        .remove(0);
        assert_eq!(finish.outcome(), outcome);
        assert_eq!(finish.reason(), v1::Reason::CancelRequested);
    }
}

#[test]
fn an_attempt_past_its_timeout_is_stopped_and_timed_out() {
    let mut play = Play::up(1);
    play.server(FromServer::Grant(v1::Grant {
        attempt_timeout_ms: 2_000,
        ..grant(1, lease(0, 5))
    }));
    assert!(Play::stopped(&play.pass(1_999)).is_empty());
    assert_eq!(Play::stopped(&play.pass(1)), [(5, 1_000)]);
    let finish = Play::finishes(&play.feed(Input::HandlerFinished {
        lease: lease(0, 5),
        ended: Ended::Stopped,
    }));
    assert_eq!(finish[0].outcome(), v1::Outcome::TimedOut);
}

#[test]
fn an_attempt_that_gives_no_sign_of_progress_has_stalled() {
    let mut play = Play::up(1);
    play.server(FromServer::Grant(v1::Grant {
        attempt_timeout_ms: 9_000,
        stall_timeout_ms: 2_000,
        ..grant(1, lease(0, 5))
    }));
    assert!(Play::stopped(&play.pass(1_500)).is_empty());
    let count = |done| Input::HandlerCounters {
        lease: lease(0, 5),
        counters: v1::Counters {
            done: Some(done),
            ..v1::Counters::default()
        },
    };
    play.feed(count(1));
    assert!(Play::stopped(&play.pass(1_500)).is_empty());
    let checkpoint = v1::Checkpoint {
        seq: 1,
        position: vec![],
        counters: None,
    };
    play.feed(Input::HandlerCheckpoint {
        lease: lease(0, 5),
        checkpoint,
        flush: false,
    });
    let beats = Play::beats(&play.pass(1_500));
    let idle: Vec<u64> = beats.iter().map(|b| b.running[0].idle_ms).collect();
    assert!(idle.iter().all(|ms| *ms <= 1_500), "{idle:?}");
    assert_eq!(Play::stopped(&play.pass(500)), [(5, 1_000)]);
    let finish = Play::finishes(&play.feed(Input::HandlerFinished {
        lease: lease(0, 5),
        ended: Ended::Stopped,
    }));
    assert_eq!(finish[0].outcome(), v1::Outcome::TimedOut);
    assert_eq!(finish[0].reason(), v1::Reason::Stalled);
}

/// Whichever limit comes first; the run's counts from when the grant came.
#[test]
fn the_runs_deadline_stops_an_attempt_too() {
    for (attempt, stall, run, after, reason) in [
        (3_000, 0, 2_000, 2_000, v1::Reason::RunDeadline),
        (1_000, 0, 2_000, 1_000, v1::Reason::AttemptTimeout),
        (0, 1_000, 2_000, 1_000, v1::Reason::Stalled),
    ] {
        let mut play = Play::up(1);
        play.server(FromServer::Grant(v1::Grant {
            attempt_timeout_ms: attempt,
            stall_timeout_ms: stall,
            run_timeout_ms: run,
            ..grant(1, lease(0, 5))
        }));
        assert!(Play::stopped(&play.pass(after - 1)).is_empty());
        assert_eq!(Play::stopped(&play.pass(1)).len(), 1, "{reason:?}");
        let finish = Play::finishes(&play.feed(Input::HandlerFinished {
            lease: lease(0, 5),
            ended: Ended::Stopped,
        }));
        assert_eq!(finish[0].reason(), reason);
    }
}

#[test]
fn a_newer_grant_of_a_shard_waits_for_the_death_of_the_older() {
    let mut play = Play::up(2);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    let out = play.server(FromServer::Grant(grant(2, lease(0, 6))));
    assert_eq!(Play::stopped(&out), [(5, 1_000)]);
    assert!(Play::started(&out).is_empty());
    let out = play.feed(Input::HandlerFinished {
        lease: lease(0, 5),
        ended: ok(),
    });
    assert_eq!(Play::started(&out), [6]);
    assert!(
        Play::finishes(&out).is_empty(),
        "the older token counts no more"
    );
}

#[test]
fn checkpoints_are_sent_once_a_second_and_the_newest_wins() {
    let mut play = Play::up(1);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    play.out.clear();
    for seq in 1..=10 {
        let checkpoint = v1::Checkpoint {
            seq,
            position: vec![],
            counters: None,
        };
        play.feed(Input::HandlerCheckpoint {
            lease: lease(0, 5),
            checkpoint,
            flush: false,
        });
    }
    play.pass(1_000);
    let sent: Vec<u64> = play
        .out
        .iter()
        .filter_map(|output| match output {
            Output::Send(ToServer::Checkpoint(report)) => report.checkpoint.as_ref().map(|c| c.seq),
            _ => None,
        })
        .collect();
    assert_eq!(sent, [1, 10]);
}

#[test]
fn an_unanswered_stream_is_left_before_the_session_is_in_danger() {
    let mut play = Play::up(1);
    let out = play.pass(BEAT + BEAT + BEAT / 2);
    assert!(out.iter().any(|o| matches!(o, Output::Reconnect { .. })));
    assert!(play.session.session_id().is_some());
}

#[test]
fn drain_finishes_what_it_can_and_releases_the_rest() {
    let mut play = Play::up(2);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    play.server(FromServer::Grant(grant(2, lease(1, 6))));
    let out = play.feed(Input::Drain { grace_ms: 2_000 });
    assert!(matches!(out[0], Output::Send(ToServer::Draining(_))));
    let out = play.server(FromServer::Grant(grant(3, lease(2, 7))));
    assert_eq!(Play::rejected(&out), [v1::Reason::Draining]);
    play.feed(Input::HandlerFinished {
        lease: lease(0, 5),
        ended: ok(),
    });
    play.server(ack(lease(0, 5), v1::Verdict::Accepted));
    assert_eq!(Play::stopped(&play.pass(2_000)), [(6, 500)]);
    let finish = Play::finishes(&play.feed(Input::HandlerFinished {
        lease: lease(1, 6),
        ended: Ended::Stopped,
    }));
    assert_eq!(finish[0].outcome(), v1::Outcome::Released);
    let out = play.server(ack(lease(1, 6), v1::Verdict::Accepted));
    assert_eq!(
        Play::exit(&out),
        Some(ExitReason::Drained { unreported: 0 })
    );
}

/// A worker that is told to leave while its Hello is on its way leaves no session behind.
#[test]
fn drain_waits_for_the_answer_to_a_hello() {
    let mut play = Play::new(1, Vec::new());
    play.feed(Input::Connected);
    let out = play.feed(Input::Drain { grace_ms: 2_000 });
    assert_eq!(Play::exit(&out), None);
    let out = play.server(welcome(1));
    let draining = |o: &Output| matches!(o, Output::Send(ToServer::Draining(_)));
    assert!(out.iter().any(draining));
    assert_eq!(
        Play::exit(&out),
        Some(ExitReason::Drained { unreported: 0 })
    );
}

/// A worker that is told to leave between two streams would be offered work until its session expires.
#[test]
fn drain_between_two_streams_tells_the_next_server_before_it_leaves() {
    let mut play = Play::up(1);
    play.server(FromServer::Moved(v1::Moved::default()));
    let out = play.feed(Input::Drain { grace_ms: 2_000 });
    assert_eq!(Play::exit(&out), None);
    play.feed(Input::Connected);
    let out = play.server(welcome(1));
    let draining = |o: &Output| matches!(o, Output::Send(ToServer::Draining(_)));
    assert!(out.iter().any(draining));
    assert_eq!(
        Play::exit(&out),
        Some(ExitReason::Drained { unreported: 0 })
    );
}

#[test]
fn drain_between_two_streams_waits_for_no_server_for_long() {
    let mut play = Play::up(1);
    play.feed(Input::Disconnected { jitter: 0 });
    let out = play.feed(Input::Drain { grace_ms: 60_000 });
    assert_eq!(Play::exit(&out), None);
    assert_eq!(Play::exit(&play.pass(TAKE_LEAVE_WITHIN_MS - 1)), None);
    assert_eq!(
        Play::exit(&play.pass(1)),
        Some(ExitReason::Drained { unreported: 0 })
    );
}

#[test]
fn drain_ends_even_if_no_server_answers() {
    let mut play = Play::up(1);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    play.feed(Input::HandlerFinished {
        lease: lease(0, 5),
        ended: ok(),
    });
    play.feed(Input::Drain { grace_ms: 1_000 });
    play.feed(Input::Disconnected { jitter: 0 });
    let out = play.pass(10_000);
    assert_eq!(
        Play::exit(&out),
        Some(ExitReason::Drained { unreported: 1 })
    );
}

#[test]
fn a_worker_that_cannot_write_its_journal_takes_no_work_but_reports_what_it_has() {
    let mut play = Play::up(2);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    let _ = play.session.handle(
        Input::HandlerFinished {
            lease: lease(0, 5),
            ended: ok(),
        },
        play.now,
    );
    let out = play.feed(Input::Journaled {
        lease: lease(0, 5),
        entry: Entry::Finish,
        ok: false,
    });
    assert_eq!(Play::finishes(&out).len(), 1);
    let out = play.server(FromServer::Grant(grant(2, lease(1, 6))));
    assert_eq!(Play::rejected(&out), [v1::Reason::Degraded]);
    play.feed(Input::JournalHealthy(true));
    let out = play.server(FromServer::Grant(grant(3, lease(2, 7))));
    assert_eq!(Play::started(&out), [7]);
}

/// Its server may be away for longer than the process lives: unwritten, the work would be done again.
#[test]
fn what_came_while_the_journal_was_full_is_written_once_it_works_again() {
    let mut play = Play::up(1);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    play.feed(Input::Disconnected { jitter: 0 });
    let finished = Input::HandlerFinished {
        lease: lease(0, 5),
        ended: ok(),
    };
    let _ = play.session.handle(finished, play.now);
    let unwritten = Input::Journaled {
        lease: lease(0, 5),
        entry: Entry::Finish,
        ok: false,
    };
    let _ = play.session.handle(unwritten, play.now);
    let written = |out: &[Output]| {
        let finish = |o: &&Output| matches!(o, Output::Journal(JournalOp::Finish(_)));
        out.iter().filter(finish).count()
    };
    assert_eq!(written(&play.feed(Input::JournalHealthy(true))), 1);
    // Once, since it stands there now.
    assert_eq!(written(&play.feed(Input::JournalHealthy(true))), 0);
}

#[test]
fn told_again_to_leave_with_less_time_what_stops_already_is_given_less() {
    let mut play = Play::up(1);
    let slow = v1::Grant {
        grace_ms: 60_000,
        ..grant(1, lease(0, 5))
    };
    play.server(FromServer::Grant(slow));
    play.feed(Input::Drain { grace_ms: 8_000 });
    assert_eq!(Play::stopped(&play.pass(6_100)), [(5, 2_000)]);
    assert_eq!(
        Play::stopped(&play.feed(Input::Drain { grace_ms: 0 })),
        [(5, 0)]
    );
}

#[test]
fn an_attempt_that_does_not_die_after_the_session_ends_the_process() {
    let mut play = Play::up(1);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    let out = play.server(FromServer::SessionLost(v1::SessionLost::default()));
    assert_eq!(Play::exit(&out), None, "it has its time to end");
    let out = play.feed(Input::AttemptStuck(lease(0, 5)));
    assert_eq!(Play::exit(&out), Some(ExitReason::Stuck(lease(0, 5))));
}

/// It was found out under the session that was lost later: nobody says so again.
#[test]
fn an_attempt_stuck_before_its_session_is_lost_ends_the_process_too() {
    let mut play = Play::up(2);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    play.server(FromServer::Grant(grant(2, lease(1, 6))));
    play.feed(Input::AttemptStuck(lease(0, 5)));
    let out = play.feed(Input::AttemptStuck(lease(1, 6)));
    assert_eq!(Play::exit(&out), None, "under a live session it is listed");
    let ended = Ended::Stopped;
    play.feed(Input::HandlerFinished {
        lease: lease(0, 5),
        ended,
    });
    let out = play.server(FromServer::SessionLost(v1::SessionLost::default()));
    assert_eq!(Play::exit(&out), Some(ExitReason::Stuck(lease(1, 6))));
}

/// A store that was put back without its epoch being raised is found out by whoever has seen the higher one.
#[test]
fn a_grant_of_an_older_epoch_is_given_back_and_no_more_is_taken() {
    let epoch = |n: u64| n << 32;
    let mut play = Play::up(2);
    let out = play.server(FromServer::Grant(grant(1, lease(0, epoch(7) + 1))));
    assert!(Play::rejects(&out).is_empty());
    for (seq, token) in [(2, epoch(6) + 9), (3, epoch(8) + 1)] {
        let out = play.server(FromServer::Grant(grant(seq, lease(1, token))));
        let rejects = Play::rejects(&out);
        assert_eq!(rejects[0].reason(), v1::Reason::Degraded);
        assert!(
            rejects[0].detail.starts_with("SC2006"),
            "{}",
            rejects[0].detail
        );
    }
    let beats = Play::beats(&play.pass(5_000));
    assert!(beats.iter().all(|beat| beat.degraded));
}

/// The server counts from when it made the grant; one that was lost and comes again is that old.
#[test]
fn a_grant_that_comes_late_is_given_its_first_sign_no_later_than_the_server_waits() {
    let mut play = Play::up(1);
    play.pass(2_000);
    play.server(FromServer::Grant(v1::Grant {
        stall_timeout_ms: 2_000,
        granted_ms_ago: 1_500,
        ..grant(1, lease(0, 5))
    }));
    assert!(Play::stopped(&play.pass(400)).is_empty());
    play.feed(Input::HandlerCounters {
        lease: lease(0, 5),
        counters: v1::Counters::default(),
    });
    // From its first sign on it has what the job gives it.
    assert!(Play::stopped(&play.pass(1_900)).is_empty());
    assert_eq!(Play::stopped(&play.pass(200)), [(5, 1_000)]);

    let mut play = Play::up(1);
    play.pass(2_000);
    play.server(FromServer::Grant(v1::Grant {
        stall_timeout_ms: 2_000,
        granted_ms_ago: 1_500,
        ..grant(1, lease(0, 5))
    }));
    assert_eq!(Play::stopped(&play.pass(600)), [(5, 1_000)]);
}
