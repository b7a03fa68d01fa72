//! Dialogues with the session.

mod ends;
mod fuzz;
mod random_lives;

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use sichen_proto::v1;
use v1::server_message::Message as FromServer;
use v1::worker_message::Message as ToServer;

use super::*;

const TTL: u64 = 15_000;
const BEAT: u64 = 3_000;

fn identity(slots: u32) -> Identity {
    Identity {
        name: "w".into(),
        uid: "uid".into(),
        boot_id: "boot".into(),
        incarnation: "inc".into(),
        start: 1,
        pool: "default".into(),
        slots,
        handlers: BTreeSet::from(["work".to_owned()]),
        labels: BTreeMap::new(),
        resources: BTreeMap::new(),
        build: "test".into(),
        old_trees_dead: true,
    }
}

fn lease(no: i32, token: u64) -> Lease {
    Lease {
        run_id: 7,
        no,
        token,
    }
}

fn grant(seq: u64, lease: Lease) -> v1::Grant {
    v1::Grant {
        grant_seq: seq,
        shard: Some(lease.shard()),
        token: lease.token,
        attempt: 1,
        handler: "work".into(),
        grace_ms: 1_000,
        ..v1::Grant::default()
    }
}

fn welcome(session_id: u64) -> FromServer {
    FromServer::Welcome(v1::Welcome {
        session_id,
        session_ttl_ms: TTL,
        beat_ms: BEAT,
        ..v1::Welcome::default()
    })
}

fn ok() -> Ended {
    Ended::Succeeded {
        result: b"1".to_vec(),
        plan: None,
    }
}

fn ack(lease: Lease, verdict: v1::Verdict) -> FromServer {
    FromServer::FinishAck(v1::FinishAck {
        shard: Some(lease.shard()),
        token: lease.token,
        verdict: verdict.into(),
        detail: String::new(),
    })
}

/// A session, the time, and all that it has put out.
struct Play {
    session: Session,
    now: Boot,
    out: Vec<Output>,
}

impl Play {
    fn new(slots: u32, recovered: Vec<Recovered>) -> Play {
        let mut session = Session::new(identity(slots), recovered);
        let out = session.start();
        Play {
            session,
            now: Boot(1_000),
            out,
        }
    }

    /// Connected and welcomed as session 1.
    fn up(slots: u32) -> Play {
        let mut play = Play::new(slots, Vec::new());
        play.feed(Input::Connected);
        play.server(welcome(1));
        play.out.clear();
        play
    }

    /// Feeds one input and writes what it wants journaled, as a healthy journal would.
    fn feed(&mut self, input: Input) -> Vec<Output> {
        let mut new = self.session.handle(input, self.now);
        let mut at = 0;
        while at < new.len() {
            let entry = match &new[at] {
                Output::Journal(JournalOp::Start { lease, .. }) => Some((*lease, Entry::Start)),
                Output::Journal(JournalOp::Finish(finish)) => Some((
                    Lease::from_wire(finish.shard, finish.token).unwrap(),
                    Entry::Finish,
                )),
                _ => None,
            };
            if let Some((lease, entry)) = entry {
                new.extend(self.session.handle(
                    Input::Journaled {
                        lease,
                        entry,
                        ok: true,
                    },
                    self.now,
                ));
            }
            at += 1;
        }
        self.out.extend(new.clone());
        new
    }

    fn server(&mut self, message: FromServer) -> Vec<Output> {
        self.feed(Input::Server(message))
    }

    /// Lets time pass to `ms` from here, ticking whenever the session wants it.
    fn pass(&mut self, ms: u64) -> Vec<Output> {
        let end = self.now.plus(ms);
        let mut new = Vec::new();
        for _ in 0..10_000 {
            match self.session.next_wake() {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => break,
            }
            let out = self.feed(Input::Tick);
            new.extend(out);
        }
        self.now = end;
        new
    }

    fn beats(out: &[Output]) -> Vec<v1::Beat> {
        out.iter()
            .filter_map(|output| match output {
                Output::Send(ToServer::Beat(beat)) => Some(beat.clone()),
                _ => None,
            })
            .collect()
    }

    fn hellos(out: &[Output]) -> Vec<v1::Hello> {
        out.iter()
            .filter_map(|output| match output {
                Output::Send(ToServer::Hello(hello)) => Some(hello.clone()),
                _ => None,
            })
            .collect()
    }

    fn rejects(out: &[Output]) -> Vec<v1::Reject> {
        out.iter()
            .filter_map(|output| match output {
                Output::Send(ToServer::Reject(reject)) => Some(reject.clone()),
                _ => None,
            })
            .collect()
    }

    fn finishes(out: &[Output]) -> Vec<v1::Finish> {
        out.iter()
            .filter_map(|output| match output {
                Output::Send(ToServer::Finish(finish)) => Some(finish.clone()),
                _ => None,
            })
            .collect()
    }

    fn started(out: &[Output]) -> Vec<u64> {
        out.iter()
            .filter_map(|output| match output {
                Output::StartAttempt(grant) => Some(grant.token),
                _ => None,
            })
            .collect()
    }

    fn stopped(out: &[Output]) -> Vec<(u64, u64)> {
        out.iter()
            .filter_map(|output| match output {
                Output::StopAttempt {
                    lease, grace_ms, ..
                } => Some((lease.token, *grace_ms)),
                _ => None,
            })
            .collect()
    }

    fn rejected(out: &[Output]) -> Vec<v1::Reason> {
        out.iter()
            .filter_map(|output| match output {
                Output::Send(ToServer::Reject(reject)) => Some(reject.reason()),
                _ => None,
            })
            .collect()
    }

    fn exit(out: &[Output]) -> Option<ExitReason> {
        out.iter().find_map(|output| match output {
            Output::Exit(reason) => Some(reason.clone()),
            _ => None,
        })
    }
}

#[test]
fn a_grant_is_journaled_then_accepted_then_started() {
    let mut play = Play::up(1);
    let out = play.server(FromServer::Grant(grant(1, lease(0, 5))));
    let kinds: Vec<&str> = out
        .iter()
        .map(|output| match output {
            Output::Journal(JournalOp::Start { .. }) => "journal",
            Output::Send(ToServer::Accept(_)) => "accept",
            Output::StartAttempt(_) => "start",
            _ => "other",
        })
        .collect();
    assert_eq!(kinds, ["journal", "accept", "start"]);
}

#[test]
fn a_result_is_journaled_before_it_is_reported() {
    let mut play = Play::up(1);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    let out = play.session.handle(
        Input::HandlerFinished {
            lease: lease(0, 5),
            ended: ok(),
        },
        play.now,
    );
    assert!(Play::finishes(&out).is_empty());
    assert!(matches!(
        out.first(),
        Some(Output::Journal(JournalOp::Finish(_)))
    ));
    let out = play.feed(Input::Journaled {
        lease: lease(0, 5),
        entry: Entry::Finish,
        ok: true,
    });
    assert_eq!(Play::finishes(&out).len(), 1);
}

#[test]
fn a_report_is_sent_until_the_verdict_is_definite() {
    let mut play = Play::up(1);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    let first = Play::finishes(&play.feed(Input::HandlerFinished {
        lease: lease(0, 5),
        ended: ok(),
    }));
    play.server(ack(lease(0, 5), v1::Verdict::RetryLater));
    let again = Play::finishes(&play.pass(500));
    assert_eq!(again, first);
    // The answer is lost with the stream: it is sent on the next one, with the same digest.
    play.feed(Input::Disconnected { jitter: 0 });
    play.feed(Input::Connected);
    let resent = Play::finishes(&play.server(welcome(1)));
    assert_eq!(resent, first);
    play.server(ack(lease(0, 5), v1::Verdict::Duplicate));
    assert_eq!(play.session.unreported().count(), 0);
    assert!(matches!(
        play.out.last(),
        Some(Output::Journal(JournalOp::Forget { .. }))
    ));
}

/// Found by simulation (seed 3325): the repeat of a grant crossed the verdict on its result.
#[test]
fn a_grant_sent_again_after_its_verdict_starts_nothing() {
    let mut play = Play::up(1);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    play.feed(Input::HandlerFinished {
        lease: lease(0, 5),
        ended: ok(),
    });
    play.server(ack(lease(0, 5), v1::Verdict::Accepted));
    let out = play.server(FromServer::Grant(grant(1, lease(0, 5))));
    assert!(Play::started(&out).is_empty());
    let out = play.server(FromServer::Grant(grant(2, lease(1, 1))));
    assert_eq!(Play::started(&out).len(), 1, "a new grant starts");
}

#[test]
fn a_stale_report_is_dropped_with_a_reason() {
    let mut play = Play::up(1);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    play.feed(Input::HandlerFinished {
        lease: lease(0, 5),
        ended: ok(),
    });
    let out = play.server(ack(lease(0, 5), v1::Verdict::Stale));
    assert!(
        out.iter()
            .any(|o| matches!(o, Output::Note(Note::Dropped { .. })))
    );
    assert_eq!(play.session.unreported().count(), 0);
}

#[test]
fn an_ended_attempt_without_a_verdict_is_still_listed_as_held() {
    let mut play = Play::up(2);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    play.feed(Input::HandlerFinished {
        lease: lease(0, 5),
        ended: ok(),
    });
    let beats = Play::beats(&play.pass(BEAT));
    assert_eq!(beats[0].running.len(), 1);
    assert_eq!(beats[0].highest_grant_seen, 1);
}

#[test]
fn a_grant_that_was_overtaken_by_a_later_one_is_run_all_the_same() {
    let mut play = Play::up(5);
    let beat = |play: &mut Play| {
        let beats = Play::beats(&play.pass(BEAT));
        let last = beats.last().unwrap().clone();
        play.server(FromServer::BeatAck(v1::BeatAck {
            seq: last.seq,
            session_valid_for_ms: TTL,
            stop: Vec::new(),
        }));
        last.running.len()
    };
    play.server(FromServer::Grant(grant(2, lease(1, 6))));
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    assert_eq!(beat(&mut play), 2);
    // Of one that two beats did not list the server has disposed.
    play.server(FromServer::Grant(grant(4, lease(3, 8))));
    assert_eq!((beat(&mut play), beat(&mut play)), (3, 3));
    play.server(FromServer::Grant(grant(3, lease(2, 7))));
    assert_eq!(beat(&mut play), 3);
}

#[test]
fn more_grants_than_slots_are_given_back() {
    let mut play = Play::up(1);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    let out = play.server(FromServer::Grant(grant(2, lease(1, 6))));
    assert_eq!(Play::rejected(&out), [v1::Reason::Full]);
}

#[test]
fn an_unknown_handler_is_given_back() {
    let mut play = Play::up(1);
    let out = play.server(FromServer::Grant(v1::Grant {
        handler: "other".into(),
        ..grant(1, lease(0, 5))
    }));
    assert_eq!(Play::rejected(&out), [v1::Reason::NoHandler]);
}

#[test]
fn nothing_runs_when_the_session_can_have_expired() {
    let mut play = Play::up(1);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    let valid_until = play.session.valid_until().unwrap();
    // Counted from the Hello at 1,000: 15,000 less 10 % and 500 ms.
    assert_eq!(valid_until, Boot(1_000 + TTL - TTL / 10 - 500));
    play.feed(Input::Disconnected { jitter: 0 });
    let out = play.pass(TTL);
    let (token, grace) = Play::stopped(&out)[0];
    assert_eq!(token, 5);
    assert!(grace <= 2_000, "the grace ends with the session");
    assert_eq!(play.session.session_id(), None);
}

#[test]
fn an_answered_beat_renews_from_when_it_was_sent() {
    let mut play = Play::up(1);
    play.pass(BEAT);
    let sent = Boot(1_000 + BEAT);
    play.now = sent.plus(900);
    play.server(FromServer::BeatAck(v1::BeatAck {
        seq: 1,
        session_valid_for_ms: TTL,
        stop: vec![],
    }));
    assert_eq!(
        play.session.valid_until(),
        Some(sent.plus(TTL - TTL / 10 - 500))
    );
    // The same answer again, or one to no beat, renews nothing.
    play.now = play.now.plus(1_000);
    play.server(FromServer::BeatAck(v1::BeatAck {
        seq: 1,
        session_valid_for_ms: TTL,
        stop: vec![],
    }));
    play.server(FromServer::BeatAck(v1::BeatAck {
        seq: 9,
        session_valid_for_ms: TTL,
        stop: vec![],
    }));
    assert_eq!(
        play.session.valid_until(),
        Some(sent.plus(TTL - TTL / 10 - 500))
    );
}

#[test]
fn a_lost_session_is_followed_by_a_new_one_only_when_all_work_is_dead() {
    let mut play = Play::up(2);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    play.server(FromServer::Grant(grant(2, lease(1, 6))));
    let out = play.server(FromServer::SessionLost(v1::SessionLost {
        reason: "expired".into(),
    }));
    assert_eq!(Play::stopped(&out), [(5, 0), (6, 0)]);
    assert!(Play::hellos(&play.feed(Input::Connected)).is_empty());
    play.feed(Input::HandlerFinished {
        lease: lease(0, 5),
        ended: Ended::Stopped,
    });
    let out = play.feed(Input::HandlerFinished {
        lease: lease(1, 6),
        ended: ok(),
    });
    let hello = Play::hellos(&out).remove(0);
    assert_eq!((hello.resume_session, hello.registration), (None, 2));
    assert_eq!(hello.incarnation, "inc");
    // One was killed, the other managed to finish: both are handed in.
    let kinds: Vec<bool> = hello
        .journal
        .iter()
        .map(|entry| matches!(entry.state, Some(v1::journaled_attempt::State::Finished(_))))
        .collect();
    assert_eq!(kinds, [true, false]);
}

#[test]
fn a_broken_stream_is_resumed_without_stopping_anything() {
    let mut play = Play::up(1);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    let out = play.feed(Input::Disconnected { jitter: 500 });
    assert!(matches!(out[0], Output::Reconnect { after_ms: 75, .. }));
    let hello = Play::hellos(&play.feed(Input::Connected)).remove(0);
    assert_eq!((hello.resume_session, hello.registration), (Some(1), 1));
    assert_eq!((hello.running.len(), hello.highest_grant_seen), (1, 1));
    let out = play.server(welcome(1));
    assert!(Play::stopped(&out).is_empty());
    assert_eq!(play.session.running().count(), 1);
}

/// A server that is down for most of a session is found again in time, however often it was asked
/// in vain; without a session it is asked more gently.
#[test]
fn a_restarted_server_is_found_before_the_session_ends() {
    let mut play = Play::up(1);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    let waits = |out: &[Output]| -> Vec<u64> {
        let waits = out.iter().filter_map(|output| match output {
            Output::Reconnect { after_ms, .. } => Some(*after_ms),
            _ => None,
        });
        waits.collect()
    };
    let mut longest = 0;
    let mut asked_at = play.now;
    while play.session.valid_until().is_some() {
        let wait = waits(&play.feed(Input::Disconnected { jitter: 1_000 }))[0];
        longest = longest.max(wait);
        asked_at = play.now;
        play.pass(wait.max(1));
    }
    assert!(longest <= 1_500, "{longest} ms between two looks");
    assert!(asked_at.0 > 5_000, "it was looked for until the end");
    for _ in 0..9 {
        longest = waits(&play.feed(Input::Disconnected { jitter: 1_000 }))[0];
    }
    assert_eq!(longest, 5_000);
}

#[test]
fn a_resume_answered_by_another_session_loses_the_work() {
    let mut play = Play::up(1);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    play.feed(Input::Disconnected { jitter: 0 });
    play.feed(Input::Connected);
    let out = play.server(welcome(2));
    assert_eq!(Play::stopped(&out), [(5, 0)]);
}

#[test]
fn superseded_stops_everything_and_leaves() {
    let mut play = Play::up(1);
    play.server(FromServer::Grant(grant(1, lease(0, 5))));
    let out = play.server(FromServer::Superseded(v1::Superseded::default()));
    assert_eq!(Play::stopped(&out), [(5, 0)]);
    assert_eq!(Play::exit(&out), None);
    let out = play.feed(Input::HandlerFinished {
        lease: lease(0, 5),
        ended: ok(),
    });
    assert_eq!(Play::exit(&out), Some(ExitReason::Superseded));
    assert!(Play::finishes(&play.out).is_empty());
}

#[test]
fn a_recovered_result_is_handed_in_with_the_first_hello() {
    let finish = v1::Finish {
        shard: Some(lease(0, 5).shard()),
        token: 5,
        ..v1::Finish::default()
    };
    let dead = Recovered::RunningDead { lease: lease(1, 6) };
    let mut play = Play::new(1, vec![Recovered::Finished(finish), dead]);
    let hello = Play::hellos(&play.feed(Input::Connected)).remove(0);
    assert_eq!(hello.journal.len(), 2);
    let verdicts = vec![v1::FinishAck {
        shard: Some(lease(0, 5).shard()),
        token: 5,
        verdict: v1::Verdict::Accepted.into(),
        detail: String::new(),
    }];
    let FromServer::Welcome(base) = welcome(1) else {
        unreachable!()
    };
    let out = play.server(FromServer::Welcome(v1::Welcome {
        journal_verdicts: verdicts,
        ..base
    }));
    let forgotten = out
        .iter()
        .filter(|o| matches!(o, Output::Journal(JournalOp::Forget { .. })))
        .count();
    assert_eq!(forgotten, 2);
    assert!(
        Play::finishes(&play.out).is_empty(),
        "handed in once, not sent again"
    );
}

#[test]
fn a_hello_can_be_sent_however_much_there_is_to_hand_in() {
    let big = |token| {
        Recovered::Finished(v1::Finish {
            shard: Some(lease(0, token).shard()),
            token,
            result: vec![7; 1_000_000],
            ..v1::Finish::default()
        })
    };
    let mut play = Play::new(1, (1..=40).map(big).collect());
    let hello = Play::hellos(&play.feed(Input::Connected)).remove(0);
    assert!(hello.encoded_len() < sichen_proto::MAX_MESSAGE_BYTES / 2 + 100_000);
    let handed = hello.journal.len();
    assert!(handed > 10);
    // The others follow as reports. (The server gave no verdicts: all are reported.)
    assert_eq!(Play::finishes(&play.server(welcome(1))).len(), 40);
}

/// 600 positions of 64 KiB are more than a message may have.
#[test]
fn a_worker_that_lost_all_its_slots_with_long_positions_can_register_again() {
    let mut play = Play::up(600);
    for no in 0..600 {
        let lease = lease(no, 5);
        let seq = u64::from(no.cast_unsigned()) + 1;
        play.server(FromServer::Grant(grant(seq, lease)));
        play.feed(Input::HandlerCheckpoint {
            lease,
            checkpoint: v1::Checkpoint {
                seq: 1,
                position: vec![b'p'; MAX_POSITION_BYTES],
                counters: None,
            },
            flush: false,
        });
    }
    play.server(FromServer::SessionLost(v1::SessionLost::default()));
    for no in 0..600 {
        play.feed(Input::HandlerFinished {
            lease: lease(no, 5),
            ended: Ended::Stopped,
        });
    }
    let hello = Play::hellos(&play.feed(Input::Connected)).remove(0);
    assert_eq!(hello.journal.len(), 600);
    assert!(hello.encoded_len() < 100_000, "{}", hello.encoded_len());
}

#[test]
fn what_is_not_proved_dead_is_not_handed_in_as_dead() {
    let finish = v1::Finish {
        shard: Some(lease(0, 5).shard()),
        token: 5,
        ..v1::Finish::default()
    };
    let dead = Recovered::RunningDead { lease: lease(1, 6) };
    let recovered = vec![Recovered::Finished(finish), dead];
    for old_trees_dead in [true, false] {
        let identity = Identity {
            old_trees_dead,
            ..identity(1)
        };
        let mut session = Session::new(identity, recovered.clone());
        let first = session.start();
        let forgotten = first
            .iter()
            .any(|out| matches!(out, Output::Journal(JournalOp::Forget { lease: l, .. }) if *l == lease(1, 6)));
        assert_eq!(forgotten, !old_trees_dead);
        let hello = Play::hellos(&session.handle(Input::Connected, Boot(1))).remove(0);
        assert_eq!(hello.old_trees_dead, old_trees_dead);
        assert_eq!(hello.journal.len(), 1 + usize::from(old_trees_dead));
    }
}

/// More than any outbox holds, and no spinning while they wait.
#[test]
fn results_and_checkpoints_go_out_no_faster_than_they_are_answered() {
    const MANY: i32 = 3_000;
    let finished = |no| {
        Recovered::Finished(v1::Finish {
            shard: Some(lease(no, 5).shard()),
            token: 5,
            ..v1::Finish::default()
        })
    };
    let mut play = Play::new(3_000, (0..MANY).map(finished).collect());
    play.feed(Input::Connected);
    let mut open = Play::finishes(&play.server(welcome(1)));
    let mut sent = 0;
    while let Some(finish) = open.pop() {
        assert!(open.len() < 256);
        assert!(play.session.next_wake().unwrap() > play.now, "it spins");
        sent += 1;
        let lease = Lease::from_wire(finish.shard, finish.token).unwrap();
        let out = play.server(ack(lease, v1::Verdict::Accepted));
        open.extend(Play::finishes(&out));
    }
    assert_eq!((sent, play.session.unreported().count()), (MANY, 0));

    let mut awaited: Vec<v1::CheckpointReport> = Vec::new();
    for no in 0..MANY {
        let seq = u64::try_from(no).unwrap() + 1;
        play.server(FromServer::Grant(grant(seq, lease(no, 7))));
        let checkpoint = v1::Checkpoint {
            seq: 1,
            position: b"x".to_vec(),
            counters: None,
        };
        let out = play.feed(Input::HandlerCheckpoint {
            lease: lease(no, 7),
            checkpoint,
            flush: false,
        });
        awaited.extend(checkpoints(&out));
    }
    let mut sent = 0;
    while let Some(report) = awaited.pop() {
        assert!(awaited.len() < 256);
        assert!(play.session.next_wake().unwrap() > play.now, "it spins");
        sent += 1;
        let out = play.server(FromServer::CheckpointAck(v1::CheckpointAck {
            shard: report.shard,
            token: report.token,
            seq: 1,
            verdict: v1::Verdict::Accepted.into(),
        }));
        awaited.extend(checkpoints(&out));
    }
    assert_eq!(sent, MANY);
}

fn checkpoints(out: &[Output]) -> Vec<v1::CheckpointReport> {
    out.iter()
        .filter_map(|output| match output {
            Output::Send(ToServer::Checkpoint(report)) => Some(report.clone()),
            _ => None,
        })
        .collect()
}

#[test]
fn a_refused_first_hello_leaves_and_a_later_one_keeps_trying() {
    let refused = || {
        FromServer::Refused(v1::Refused {
            code: "bad-join-token".into(),
            message: String::new(),
        })
    };
    let mut fresh = Play::new(1, Vec::new());
    fresh.feed(Input::Connected);
    assert!(matches!(
        Play::exit(&fresh.server(refused())),
        Some(ExitReason::Refused { .. })
    ));
    let mut old = Play::up(1);
    old.feed(Input::Disconnected { jitter: 0 });
    old.feed(Input::Connected);
    assert_eq!(Play::exit(&old.server(refused())), None);
}

#[test]
fn two_servers_that_name_each_other_are_not_asked_at_full_speed() {
    let mut play = Play::up(1);
    let moved = || {
        FromServer::Moved(v1::Moved {
            address: "http://b".into(),
        })
    };
    let mut waits = Vec::new();
    for _ in 0..4 {
        let out = play.server(moved());
        waits.extend(out.iter().filter_map(|output| match output {
            Output::Reconnect { after_ms, .. } => Some(*after_ms),
            _ => None,
        }));
        play.feed(Input::Connected);
    }
    assert_eq!(waits, [0, 100, 200, 400]);
}
