//! Properties over random lives of a session.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// One step of a random life, kept small so that collisions are common.
#[derive(Debug, Clone)]
enum Step {
    Connect,
    Disconnect,
    Welcome(u64),
    WelcomeRight,
    AckNewestBeat,
    Grant { no: i32, token: u64 },
    Cancel { no: i32, token: u64, reason: i32 },
    FinishAck { no: i32, token: u64, verdict: i32 },
    Lost,
    Moved,
    Pass(u64),
    Finish { pick: usize, how: u8 },
    Checkpoint { pick: usize, flush: bool },
    JournalFails(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let no = 0..3i32;
    let token = 1..6u64;
    prop_oneof![
        3 => Just(Step::Connect),
        1 => Just(Step::Disconnect),
        1 => (1..3u64).prop_map(Step::Welcome),
        4 => Just(Step::WelcomeRight),
        4 => Just(Step::AckNewestBeat),
        8 => (no.clone(), token.clone()).prop_map(|(no, token)| Step::Grant { no, token }),
        1 => (no.clone(), token.clone(), 0..13i32).prop_map(|(no, token, reason)| Step::Cancel { no, token, reason }),
        4 => (no, token, 0..6i32).prop_map(|(no, token, verdict)| Step::FinishAck { no, token, verdict }),
        1 => Just(Step::Lost),
        1 => Just(Step::Moved),
        6 => (0..6_000u64).prop_map(Step::Pass),
        5 => (any::<usize>(), 0..3u8).prop_map(|(pick, how)| Step::Finish { pick, how }),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(pick, flush)| Step::Checkpoint { pick, flush }),
        1 => any::<bool>().prop_map(Step::JournalFails),
    ]
}

/// What the world around the session sees, checked at each output.
#[derive(Default)]
struct World {
    open: bool,
    greeted: bool,
    journal_fails: bool,
    /// Running attempts, and by when each was told to be dead.
    running: BTreeMap<Lease, Option<Boot>>,
    ever_started: BTreeSet<Lease>,
    journaled: BTreeSet<Lease>,
    resumes: Option<u64>,
    newest_beat: u64,
    seq: u64,
    checkpoint_seq: u64,
}

impl World {
    fn see(&mut self, output: &Output, session: &Session, now: Boot) -> Option<Input> {
        match output {
            Output::Send(message) => {
                assert!(self.open, "sent on a closed stream: {message:?}");
                match message {
                    ToServer::Hello(hello) => {
                        assert!(!self.greeted, "a second Hello on one stream");
                        self.greeted = true;
                        self.resumes = hello.resume_session;
                        if hello.resume_session.is_none() {
                            assert!(
                                self.running.is_empty(),
                                "a new session while old work lives"
                            );
                        }
                    }
                    ToServer::Finish(finish) => {
                        let lease = Lease::from_wire(finish.shard, finish.token).unwrap();
                        assert!(
                            self.journaled.contains(&lease),
                            "reported before it was journaled"
                        );
                    }
                    ToServer::Beat(beat) => {
                        assert!(self.greeted);
                        self.newest_beat = beat.seq;
                        for lease in session.running().chain(session.unreported()) {
                            assert!(
                                beat.running.iter().any(|held| held.token == lease.token),
                                "{lease} not listed"
                            );
                        }
                    }
                    _ => assert!(self.greeted, "something before the Hello"),
                }
                None
            }
            Output::CloseStream => {
                self.open = false;
                self.greeted = false;
                None
            }
            Output::StartAttempt(grant) => {
                let lease = Lease::from_wire(grant.shard, grant.token).unwrap();
                assert!(self.ever_started.insert(lease), "{lease} started twice");
                let twin = self
                    .running
                    .keys()
                    .find(|other| other.shard() == lease.shard());
                assert_eq!(twin, None, "two attempts of one shard");
                self.running.insert(lease, None);
                assert!(self.running.len() <= 2, "more attempts than slots");
                None
            }
            Output::StopAttempt {
                lease, grace_ms, ..
            } => {
                let by = self.running.get_mut(lease).expect("stopped what runs");
                let new = now.plus(*grace_ms);
                *by = Some(by.map_or(new, |old| old.min(new)));
                None
            }
            Output::Journal(JournalOp::Start { lease, .. }) => Some(Input::Journaled {
                lease: *lease,
                entry: Entry::Start,
                ok: !self.journal_fails,
            }),
            Output::Journal(JournalOp::Finish(finish)) => {
                let lease = Lease::from_wire(finish.shard, finish.token).unwrap();
                self.journaled.insert(lease);
                Some(Input::Journaled {
                    lease,
                    entry: Entry::Finish,
                    ok: !self.journal_fails,
                })
            }
            _ => None,
        }
    }

    fn feed(&mut self, session: &mut Session, input: Input, now: Boot) {
        let mut queue = vec![input];
        while !queue.is_empty() {
            let out = session.handle(queue.remove(0), now);
            for output in &out {
                if let Some(answer) = self.see(output, session, now) {
                    queue.push(answer);
                }
            }
        }
        // Self-fencing: whatever still runs is covered by a valid session or told to be dead by now.
        for (lease, by) in &self.running {
            let covered = session.valid_until().is_some_and(|until| now < until);
            assert!(
                covered || by.is_some(),
                "{lease} runs without a session and was not told to stop"
            );
        }
    }

    fn pick(&self, pick: usize) -> Option<Lease> {
        let all: Vec<Lease> = self.running.keys().copied().collect();
        (!all.is_empty()).then(|| all[pick % all.len()])
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_dialogue_breaks_the_session(steps in proptest::collection::vec(step(), 1..120)) {
        let mut session = Session::new(identity(2), Vec::new());
        let mut world = World::default();
        let mut now = Boot(1_000);
        let _ = session.start();
        for step in steps {
            let input = match step {
                Step::Connect if !world.open => {
                    world.open = true;
                    world.greeted = false;
                    Input::Connected
                }
                Step::Connect => Input::Tick,
                Step::Disconnect if world.open => {
                    world.open = false;
                    world.greeted = false;
                    Input::Disconnected { jitter: 500 }
                }
                Step::Disconnect => Input::Tick,
                Step::Pass(ms) => {
                    let end = now.plus(ms);
                    for _ in 0..1_000 {
                        match session.next_wake() {
                            Some(at) if at <= end => now = now.max(at),
                            _ => break,
                        }
                        world.feed(&mut session, Input::Tick, now);
                    }
                    // What was told to be dead by a time is dead by then.
                    let dead: Vec<Lease> = world.running.iter()
                        .filter(|(_, by)| by.is_some_and(|by| by <= end)).map(|(l, _)| *l).collect();
                    now = end;
                    for lease in dead {
                        world.running.remove(&lease);
                        world.feed(&mut session, Input::HandlerFinished { lease, ended: Ended::Stopped }, now);
                    }
                    Input::Tick
                }
                Step::Finish { pick, how } => match world.pick(pick) {
                    Some(lease) => {
                        world.running.remove(&lease);
                        let ended = match how {
                            0 => ok(),
                            1 => Ended::Failed(v1::AttemptError::default()),
                            _ => Ended::Stopped,
                        };
                        Input::HandlerFinished { lease, ended }
                    }
                    None => Input::Tick,
                },
                Step::Checkpoint { pick, flush } => match world.pick(pick) {
                    Some(lease) => {
                        world.checkpoint_seq += 1;
                        let checkpoint = v1::Checkpoint { seq: world.checkpoint_seq, position: vec![], counters: None };
                        Input::HandlerCheckpoint { lease, checkpoint, flush }
                    }
                    None => Input::Tick,
                },
                Step::JournalFails(fails) => {
                    world.journal_fails = fails;
                    Input::JournalHealthy(!fails)
                }
                // The rest comes from a server, and only over an open stream.
                _ if !world.open => Input::Tick,
                Step::Welcome(id) => Input::Server(welcome(id)),
                Step::WelcomeRight => Input::Server(welcome(world.resumes.unwrap_or(9))),
                Step::AckNewestBeat => Input::Server(FromServer::BeatAck(v1::BeatAck {
                    seq: world.newest_beat, session_valid_for_ms: TTL, stop: vec![],
                })),
                Step::Grant { no, token } => {
                    // A server never grants a token twice to a session that has ended it.
                    if world.ever_started.contains(&lease(no, token)) {
                        Input::Tick
                    } else {
                        world.seq += 1;
                        Input::Server(FromServer::Grant(grant(world.seq, lease(no, token))))
                    }
                }
                Step::Cancel { no, token, reason } => Input::Server(FromServer::Cancel(v1::Cancel {
                    shard: Some(lease(no, token).shard()), token, reason, grace_ms: 300,
                })),
                Step::FinishAck { no, token, verdict } => Input::Server(FromServer::FinishAck(v1::FinishAck {
                    shard: Some(lease(no, token).shard()), token, verdict, detail: String::new(),
                })),
                Step::Lost => Input::Server(FromServer::SessionLost(v1::SessionLost::default())),
                Step::Moved => Input::Server(FromServer::Moved(v1::Moved::default())),
            };
            world.feed(&mut session, input, now);
        }
        // Heal: a right server answers everything, and nothing stays open.
        world.journal_fails = false;
        world.feed(&mut session, Input::JournalHealthy(true), now);
        while let Some(lease) = world.pick(0) {
            world.running.remove(&lease);
            world.feed(&mut session, Input::HandlerFinished { lease, ended: ok() }, now);
        }
        for _ in 0..6 {
            if !world.open {
                world.open = true;
                world.feed(&mut session, Input::Connected, now);
            }
            world.feed(&mut session, Input::Server(welcome(world.resumes.unwrap_or(10))), now);
        }
        let open: Vec<Lease> = session.unreported().collect();
        for lease in open {
            world.feed(&mut session, Input::Server(ack(lease, v1::Verdict::Accepted)), now);
        }
        prop_assert_eq!(session.unreported().count(), 0);
        prop_assert!(session.session_id().is_some());
    }
}
