//! The protocol of term, lease, token and incarnation in miniature, for exhaustive checking.
//!
//! Two servers, two workers (one of which may be started again under its name), one shard of two
//! items, the user's own store, a network that loses, repeats and reorders. The store is one
//! atomic referee, as the design has it; everything else may be late, frozen, killed or doubled.
//! [`Model::actions`] and [`Model::step`] are plain functions: the tests hand them to a model
//! checker, which tries every order within [`Bounds`].
//!
//! # Invariants
//! - A message, once sent, stays deliverable: that is loss (never delivered), repetition and
//!   reordering in one.
//! - There is no clock. What time allows is an action: a session may expire only once its worker
//!   can no longer believe in it (self-fenced, dead), or is frozen and believes nothing.
//! - A step that breaks a promise sets [`State::broken`], which ends the path.
//!
//! # Not here
//! The real rules (`sichen-core`); this restates them so that a mistake in either shows as a
//! difference. Each [`Flaw`] leaves one rule out and must be found.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Items in the shard; a checkpoint is the number of items reliably done.
pub const ITEMS: u8 = 2;

/// How far the exploration goes. Each is an inclusive maximum.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Terms of the duty (changes of its owner).
    pub terms: u8,
    /// Grants of the shard.
    pub grants: u8,
    /// Freezes, over all workers.
    pub freezes: u8,
    /// Crashes, over all workers.
    pub crashes: u8,
}

/// One rule left out, to show that the properties notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A worker's session is known by its name, so a restarted process inherits the old one.
    NoIncarnation,
    /// Reaping marks the attempt lost and leaves the token as it was.
    ReapKeepsToken,
    /// A duty's write does not check the term.
    TermUnchecked,
    /// A repeated finish is applied again.
    FinishNotIdempotent,
    /// An attempt starts from Sichen's copy of the checkpoint, without `fence.open`.
    StartFromDisplay,
    /// A checkpoint is taken as it comes, even if an older one arrives late.
    CheckpointMovesBack,
    /// A checkpoint is accepted whatever its token.
    CheckpointUnfenced,
    /// The user's store commits whatever the token.
    UserStoreUnfenced,
}

/// The promise a step broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    /// A write under an older term was applied.
    OldTermLanded,
    /// A write under an older token was applied by Sichen.
    OldTokenLanded,
    /// A write under an older token was applied by the user's store after a newer `fence.open`.
    OldTokenLandedAtUser,
    /// Two processes worked under one token.
    TokenShared,
    /// A result was accepted twice.
    ResultTwice,
    /// An attempt ended twice (lost, then finished).
    EndedTwice,
    /// An acknowledged checkpoint went missing.
    CheckpointLost,
    /// An item was counted twice in the user's store.
    ItemTwice,
    /// The shard succeeded with an item not counted.
    ItemMissing,
}

/// What a run of the checker came across; a run that never saw these proved nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    ServerTakeover,
    OldTermRefused,
    OldTokenRefused,
    OldTokenRefusedByUser,
    CheckpointUnderExpiredSessionRefused,
    FinishAfterExpiryAccepted,
    FinishAnsweredDuplicate,
    ResumedFromCheckpoint,
    OldHolderCommittedBeforeOpen,
    SecondIncarnationWorked,
    FrozenWorkerWentOn,
}

const SIGHTS: usize = 11;

/// Counts how often each [`Sight`] was seen. Kept beside the states, so that it costs none.
#[derive(Debug, Default)]
pub struct Seen([AtomicU64; SIGHTS]);

impl Seen {
    fn note(&self, sight: Sight) {
        self.0[sight as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often `sight` was seen so far, in any path.
    pub fn count(&self, sight: Sight) -> u64 {
        self.0[sight as usize].load(Ordering::Relaxed)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Msg {
    Grant {
        session: u8,
        token: u8,
        checkpoint: u8,
    },
    Checkpoint {
        session: u8,
        token: u8,
        position: u8,
    },
    Finish {
        token: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plan {
    Grant { term: u8, token: u8, session: u8 },
    Reap { term: u8, token: u8, session: u8 },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Server {
    /// The term it believes it holds; 0 for none.
    pub term: u8,
    /// What it decided from a read, not yet written.
    pub plan: Option<Plan>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShardState {
    Ready,
    Running,
    Succeeded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    pub state: ShardState,
    pub token: u8,
    /// Session of the holder while running.
    pub session: u8,
    pub checkpoint: u8,
    pub grants: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    pub process: u8,
    pub alive: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    NotStarted,
    Up,
    Frozen,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The grant is here; the user's store has not been opened yet.
    Granted { checkpoint: u8 },
    /// Items below `position` are done.
    Between { position: u8 },
    /// The batch at `position` is read and will be committed.
    BatchRead { position: u8 },
    /// The outcome is in the journal and being reported.
    Finished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Work {
    pub token: u8,
    pub phase: Phase,
}

/// One operating system process of a worker. Process 0 is worker A, 1 is worker B, 2 is worker A
/// started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub health: Health,
    pub session: Option<u8>,
    /// Highest token it took a grant for; a grant at or below it is a repetition.
    pub seen: u8,
    pub work: Option<Work>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub term: u8,
    pub servers: [Server; 2],
    pub shard: Shard,
    pub sessions: Vec<Session>,
    pub processes: [Process; 3],
    pub net: BTreeSet<Msg>,
    /// The user's store: highest token opened, items committed, how often each was counted.
    pub user_token: u8,
    pub user_position: u8,
    pub counted: [u8; ITEMS as usize],
    pub freezes: u8,
    pub crashes: u8,
    /// Ghosts: what was promised so far.
    pub acked_checkpoint: u8,
    pub results: u8,
    pub lost_tokens: u16,
    pub worked: [u8; 12],
    pub broken: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    TakeDuty(u8),
    PlanGrant { server: u8, session: u8 },
    PlanReap(u8),
    Commit(u8),
    Deliver(Msg),
    Start,
    Register(u8),
    Open(u8),
    Read(u8),
    Write(u8),
    SendCheckpoint(u8),
    Complete(u8),
    Freeze(u8),
    Thaw(u8),
    Crash(u8),
    SelfFence(u8),
    Expire(u8),
}

/// The protocol, with or without one flaw.
#[derive(Debug)]
pub struct Model {
    pub bounds: Bounds,
    pub flaw: Option<Flaw>,
    pub seen: Seen,
}

fn same_worker(a: u8, b: u8) -> bool {
    a % 2 == b % 2
}

impl Model {
    pub fn new(bounds: Bounds, flaw: Option<Flaw>) -> Self {
        Self {
            bounds,
            flaw,
            seen: Seen::default(),
        }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Server 0 owns the duty under term 1; nobody is registered yet.
    pub fn initial(&self) -> State {
        let process = |health| Process {
            health,
            session: None,
            seen: 0,
            work: None,
        };
        State {
            term: 1,
            servers: [
                Server {
                    term: 1,
                    plan: None,
                },
                Server::default(),
            ],
            shard: Shard {
                state: ShardState::Ready,
                token: 0,
                session: 0,
                checkpoint: 0,
                grants: 0,
            },
            sessions: Vec::new(),
            processes: [
                process(Health::Up),
                process(Health::Up),
                process(Health::NotStarted),
            ],
            net: BTreeSet::new(),
            user_token: 0,
            user_position: 0,
            counted: [0; ITEMS as usize],
            freezes: 0,
            crashes: 0,
            acked_checkpoint: 0,
            results: 0,
            lost_tokens: 0,
            worked: [0; 12],
            broken: None,
        }
    }

    /// Everything that may happen next, in a fixed order.
    pub fn actions(&self, s: &State, out: &mut Vec<Action>) {
        if s.broken.is_some() {
            return;
        }
        for (i, server) in (0u8..).zip(&s.servers) {
            if server.term != s.term && s.term < self.bounds.terms {
                out.push(Action::TakeDuty(i));
            }
            match server.plan {
                Some(_) => out.push(Action::Commit(i)),
                None if server.term > 0 => self.plans(s, i, out),
                None => {}
            }
        }
        out.extend(s.net.iter().map(|msg| Action::Deliver(*msg)));
        if s.processes[2].health == Health::NotStarted
            && matches!(s.processes[0].health, Health::Dead | Health::Frozen)
        {
            out.push(Action::Start);
        }
        for (i, p) in (0u8..).zip(&s.processes) {
            self.process_actions(s, i, p, out);
        }
        for (i, session) in (0u8..).zip(&s.sessions) {
            if session.alive && self.may_expire(s, i) {
                out.push(Action::Expire(i));
            }
        }
    }

    fn plans(&self, s: &State, server: u8, out: &mut Vec<Action>) {
        match s.shard.state {
            ShardState::Ready if s.shard.grants < self.bounds.grants => {
                for (i, session) in (0u8..).zip(&s.sessions) {
                    if session.alive {
                        out.push(Action::PlanGrant { server, session: i });
                    }
                }
            }
            ShardState::Running if !s.sessions[usize::from(s.shard.session)].alive => {
                out.push(Action::PlanReap(server));
            }
            _ => {}
        }
    }

    fn process_actions(&self, s: &State, i: u8, p: &Process, out: &mut Vec<Action>) {
        match p.health {
            Health::NotStarted | Health::Dead => return,
            Health::Frozen => {
                out.push(Action::Thaw(i));
                return;
            }
            Health::Up => {}
        }
        if s.freezes < self.bounds.freezes && p.work.is_some() {
            out.push(Action::Freeze(i));
        }
        if s.crashes < self.bounds.crashes && p.session.is_some() {
            out.push(Action::Crash(i));
        }
        // A superseded process stops; each other registers once, or again after SESSION_LOST.
        let superseded = i == 0 && s.processes[2].health != Health::NotStarted;
        let registered = s.sessions.iter().filter(|x| x.process == i).count();
        match p.session {
            None if !superseded && registered < 1 => out.push(Action::Register(i)),
            None => {}
            Some(_) if p.work.is_some() => out.push(Action::SelfFence(i)),
            Some(_) => {}
        }
        match p.work.map(|w| w.phase) {
            Some(Phase::Granted { .. }) => out.push(Action::Open(i)),
            Some(Phase::Between { position }) => {
                if position < ITEMS {
                    out.push(Action::Read(i));
                } else {
                    out.push(Action::Complete(i));
                }
                if position > 0 {
                    out.push(Action::SendCheckpoint(i));
                }
            }
            Some(Phase::BatchRead { .. }) => out.push(Action::Write(i)),
            Some(Phase::Finished) | None => {}
        }
    }

    /// A beating worker keeps its session. A frozen one cannot, a dead one will not, and a
    /// self-fenced one has stopped all its work first.
    fn may_expire(&self, s: &State, session: u8) -> bool {
        !(0u8..)
            .zip(&s.processes)
            .any(|(_, p)| p.health == Health::Up && p.session == Some(session))
    }

    /// The state after `action`, or none where it changes nothing.
    pub fn step(&self, last: &State, action: Action) -> Option<State> {
        let mut s = last.clone();
        match action {
            Action::TakeDuty(i) => {
                s.term += 1;
                s.servers[usize::from(i)] = Server {
                    term: s.term,
                    plan: s.servers[usize::from(i)].plan,
                };
            }
            Action::PlanGrant { server, session } => {
                let term = s.servers[usize::from(server)].term;
                s.servers[usize::from(server)].plan = Some(Plan::Grant {
                    term,
                    token: s.shard.token,
                    session,
                });
            }
            Action::PlanReap(server) => {
                let term = s.servers[usize::from(server)].term;
                let session = s.shard.session;
                s.servers[usize::from(server)].plan = Some(Plan::Reap {
                    term,
                    token: s.shard.token,
                    session,
                });
            }
            Action::Commit(i) => self.commit(&mut s, usize::from(i)),
            Action::Deliver(msg) => self.deliver(&mut s, msg),
            Action::Start => s.processes[2].health = Health::Up,
            Action::Register(i) => self.register(&mut s, i),
            Action::Open(i) => self.open(&mut s, usize::from(i)),
            Action::Read(i) => {
                let work = s.processes[usize::from(i)].work.as_mut()?;
                let Phase::Between { position } = work.phase else {
                    return None;
                };
                work.phase = Phase::BatchRead { position };
            }
            Action::Write(i) => self.write(&mut s, usize::from(i)),
            Action::SendCheckpoint(i) => {
                let p = s.processes[usize::from(i)];
                let (session, work) = (p.session?, p.work?);
                let Phase::Between { position } = work.phase else {
                    return None;
                };
                s.net.insert(Msg::Checkpoint {
                    session,
                    token: work.token,
                    position,
                });
            }
            Action::Complete(i) => {
                let work = s.processes[usize::from(i)].work.as_mut()?;
                work.phase = Phase::Finished;
                let token = work.token;
                s.net.insert(Msg::Finish { token });
            }
            Action::Freeze(i) => {
                s.freezes += 1;
                s.processes[usize::from(i)].health = Health::Frozen;
            }
            Action::Thaw(i) => {
                let p = &mut s.processes[usize::from(i)];
                p.health = Health::Up;
                if p.session
                    .is_some_and(|x| !last.sessions[usize::from(x)].alive)
                {
                    self.seen.note(Sight::FrozenWorkerWentOn);
                }
            }
            Action::Crash(i) => {
                s.crashes += 1;
                let p = &mut s.processes[usize::from(i)];
                *p = Process {
                    health: Health::Dead,
                    session: None,
                    seen: 0,
                    work: None,
                };
            }
            Action::SelfFence(i) => {
                let p = &mut s.processes[usize::from(i)];
                p.work = None;
                p.session = None;
            }
            Action::Expire(session) => s.sessions[usize::from(session)].alive = false,
        }
        (s != *last).then_some(s)
    }

    fn commit(&self, s: &mut State, server: usize) {
        let Some(plan) = s.servers[server].plan.take() else {
            return;
        };
        let (Plan::Grant {
            term,
            token,
            session,
        }
        | Plan::Reap {
            term,
            token,
            session,
        }) = plan;
        let old = term < s.term;
        if old && !self.has(Flaw::TermUnchecked) {
            // It learns from the refusal that the duty has moved.
            if s.servers[server].term == term {
                s.servers[server].term = 0;
            }
            self.seen.note(Sight::OldTermRefused);
            return;
        }
        let holds = token == s.shard.token;
        let alive = s.sessions[usize::from(session)].alive;
        match plan {
            Plan::Grant { .. } if holds && s.shard.state == ShardState::Ready && alive => {
                if s.term > 1 {
                    self.seen.note(Sight::ServerTakeover);
                }
                s.shard.state = ShardState::Running;
                s.shard.token += 1;
                s.shard.session = session;
                s.shard.grants += 1;
                if s.shard.grants > 1 && s.shard.checkpoint > 0 {
                    self.seen.note(Sight::ResumedFromCheckpoint);
                }
                s.net.insert(Msg::Grant {
                    session,
                    token: s.shard.token,
                    checkpoint: s.shard.checkpoint,
                });
            }
            Plan::Reap { .. } if holds && s.shard.state == ShardState::Running && !alive => {
                s.lost_tokens |= 1 << s.shard.token;
                s.shard.state = ShardState::Ready;
                if !self.has(Flaw::ReapKeepsToken) {
                    s.shard.token += 1;
                }
            }
            Plan::Grant { .. } | Plan::Reap { .. } => return,
        }
        if old {
            s.broken = Some(Broken::OldTermLanded);
        }
    }

    fn deliver(&self, s: &mut State, msg: Msg) {
        match msg {
            Msg::Grant {
                session,
                token,
                checkpoint,
            } => self.deliver_grant(s, session, token, checkpoint),
            Msg::Checkpoint {
                session,
                token,
                position,
            } => {
                let current = token == s.shard.token && s.shard.state == ShardState::Running;
                let alive = s.sessions[usize::from(session)].alive;
                if !(current || self.has(Flaw::CheckpointUnfenced)) {
                    return self.seen.note(Sight::OldTokenRefused);
                }
                if !alive && !self.has(Flaw::CheckpointUnfenced) {
                    return self.seen.note(Sight::CheckpointUnderExpiredSessionRefused);
                }
                if position <= s.shard.checkpoint && !self.has(Flaw::CheckpointMovesBack) {
                    return;
                }
                s.shard.checkpoint = position;
                if !current {
                    s.broken = Some(Broken::OldTokenLanded);
                } else if position < s.acked_checkpoint {
                    s.broken = Some(Broken::CheckpointLost);
                }
                s.acked_checkpoint = s.acked_checkpoint.max(position);
            }
            Msg::Finish { token } => {
                if token != s.shard.token {
                    return self.seen.note(Sight::OldTokenRefused);
                }
                if s.shard.state == ShardState::Succeeded && !self.has(Flaw::FinishNotIdempotent) {
                    return self.seen.note(Sight::FinishAnsweredDuplicate);
                }
                if !s.sessions[usize::from(s.shard.session)].alive {
                    self.seen.note(Sight::FinishAfterExpiryAccepted);
                }
                s.shard.state = ShardState::Succeeded;
                s.results += 1;
                if s.lost_tokens & (1 << token) != 0 {
                    s.broken = Some(Broken::EndedTwice);
                } else if s.results > 1 {
                    s.broken = Some(Broken::ResultTwice);
                } else if s.counted.contains(&0) {
                    s.broken = Some(Broken::ItemMissing);
                }
            }
        }
    }

    fn deliver_grant(&self, s: &mut State, session: u8, token: u8, checkpoint: u8) {
        for (i, p) in s.processes.iter_mut().enumerate() {
            let for_me = p.health == Health::Up && p.session == Some(session);
            if for_me && token > p.seen && p.work.is_none() {
                p.seen = token;
                p.work = Some(Work {
                    token,
                    phase: Phase::Granted { checkpoint },
                });
                s.worked[usize::from(token)] |= 1 << i;
                if i == 2 {
                    self.seen.note(Sight::SecondIncarnationWorked);
                }
                if s.worked[usize::from(token)].count_ones() > 1 {
                    s.broken = Some(Broken::TokenShared);
                }
            }
        }
    }

    fn register(&self, s: &mut State, i: u8) {
        if self.has(Flaw::NoIncarnation) {
            let old = s
                .sessions
                .iter()
                .position(|x| x.alive && same_worker(x.process, i));
            if let Some(old) = old {
                s.processes[usize::from(i)].session = u8::try_from(old).ok();
                return;
            }
        }
        // Its journal says that the former process's tree is dead: those leases end at once.
        for session in &mut s.sessions {
            let former = session.process != i && same_worker(session.process, i);
            if former && s.processes[usize::from(session.process)].health == Health::Dead {
                session.alive = false;
            }
        }
        s.processes[usize::from(i)].session = u8::try_from(s.sessions.len()).ok();
        s.sessions.push(Session {
            process: i,
            alive: true,
        });
    }

    fn open(&self, s: &mut State, i: usize) {
        let Some(work) = s.processes[i].work.as_mut() else {
            return;
        };
        let Phase::Granted { checkpoint } = work.phase else {
            return;
        };
        if self.has(Flaw::StartFromDisplay) {
            work.phase = Phase::Between {
                position: checkpoint,
            };
            return;
        }
        if work.token < s.user_token {
            s.processes[i].work = None;
            return self.seen.note(Sight::OldTokenRefusedByUser);
        }
        s.user_token = work.token;
        if s.user_position > s.shard.checkpoint && work.token == s.shard.token {
            self.seen.note(Sight::OldHolderCommittedBeforeOpen);
        }
        work.phase = Phase::Between {
            position: s.user_position,
        };
    }

    fn write(&self, s: &mut State, i: usize) {
        let Some(work) = s.processes[i].work.as_mut() else {
            return;
        };
        let Phase::BatchRead { position } = work.phase else {
            return;
        };
        if work.token < s.user_token {
            if self.has(Flaw::UserStoreUnfenced) {
                s.broken = Some(Broken::OldTokenLandedAtUser);
                return;
            }
            s.processes[i].work = None;
            return self.seen.note(Sight::OldTokenRefusedByUser);
        }
        // Without fence.open, the first write is what raises the token.
        s.user_token = work.token;
        s.user_position = position + 1;
        s.counted[usize::from(position)] += 1;
        work.phase = Phase::Between {
            position: position + 1,
        };
        if s.counted[usize::from(position)] > 1 {
            s.broken = Some(Broken::ItemTwice);
        }
    }
}

/// Nobody will ever work on the shard again: its lease is kept alive by a process that does not
/// hold it, and the grant was used up by one that is gone.
pub fn stranded(s: &State) -> bool {
    if s.shard.state != ShardState::Running {
        return false;
    }
    let session = s.shard.session;
    let used_up = s.worked[usize::from(s.shard.token)];
    used_up != 0
        && s.sessions[usize::from(session)].alive
        && s.processes
            .iter()
            .any(|p| p.health == Health::Up && p.session == Some(session))
        && (0..3usize)
            .filter(|i| used_up & (1 << i) != 0)
            .all(|i| s.processes[i].health == Health::Dead)
}
