//! Rows to values, and numbers and instants to what a database keeps: the same for every dialect.
//!
//! # Invariants
//! - Rows are read by position, in the order of the schema; a word or number that does not make
//!   sense is [`Error::Corrupt`], never a guess.
//! - A dialect says only how one cell is read ([`Cells`]) and where its own columns stand.
//!
//! # Not here
//! Which rows: the statements.

use jiff::{SignedDuration, Timestamp};
use sichen_core::access::{AccessToken, Bounds, Grants, NewAccessToken, Purpose};
use sichen_core::alert::notice::Notice;
use sichen_core::backfill::check::{Check, CheckState, Checks, Verify};
use sichen_core::backfill::{
    self, Backfill, Counts, Facts, LastRun, Mode, Order, Outcomes, Place, Record, Wanted,
};
use sichen_core::capacity::{Bucket, Limits, Per, Rate, Uses};
use sichen_core::dispatch::preempt::Recalled;
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::{
    BackfillId, JobUid, NodeId, Occasion, OpId, Revision, RunId, SessionId, ShardKey, Term, Token,
};
use sichen_core::keys::{KeptAnswer, KeptKey};
use sichen_core::lifecycle::run::Counters;
use sichen_core::lifecycle::{AttemptEnd, RunState, ShardState, StopCause, WaitsFor};
use sichen_core::model::{
    Appearance, Capacity, Checkpoint, Counting, Decision, Duty, DutyKey, Failure, Hold, Job,
    Namespace, Node, Period, Progress, Run, RunTerms, Session, Shard, Waiter, Waits,
    WorkerIdentity,
};
use sichen_core::name::{JobName, Name};
use sichen_core::place::Offer;
use sichen_core::port::Error;
use sichen_core::restore::{Restore, TAKEN_AS_DONE};
use uuid::Uuid;

type Result<T> = std::result::Result<T, Error>;

/// A number as a database keeps it; what is above its greatest is kept as that.
pub(crate) fn int(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

pub(crate) fn opt_int(n: Option<u64>) -> Option<i64> {
    n.map(int)
}

/// The last microsecond that is read again: the library's last second has no whole ones after it.
const LAST_MICRO: i64 = 253_402_207_200_000_000;

/// An instant as a database keeps it: microseconds since 1970.
pub(crate) fn at(t: Timestamp) -> i64 {
    t.as_microsecond().min(LAST_MICRO)
}

pub(crate) fn opt_at(t: Option<Timestamp>) -> Option<i64> {
    t.map(at)
}

/// A length of time as a database keeps it: microseconds, at least one.
pub(crate) fn opt_micros(length: Option<SignedDuration>) -> Option<i64> {
    let micros = |length: SignedDuration| i64::try_from(length.as_micros()).unwrap_or(i64::MAX);
    length.map(|length| micros(length).max(1))
}

/// An instant before which nothing may happen: rounded up.
pub(crate) fn not_before(t: Timestamp) -> i64 {
    let micros = t.as_microsecond();
    let below = Timestamp::from_microsecond(micros).is_ok_and(|floor| floor < t);
    micros.saturating_add(i64::from(below)).min(LAST_MICRO)
}

/// Of a capacity: units held, by how many, and when the first of them counts no more.
pub(crate) type Held = (u64, u32, Option<Timestamp>);

/// A job's row with what the port does not show.
#[derive(Clone, Debug)]
pub(crate) struct JobRow {
    pub job: Job,
    pub deleted: bool,
}

/// A shard's row with what the port does not show.
#[derive(Clone, Debug)]
pub(crate) struct ShardRow {
    pub shard: Shard,
    pub last_end: Option<AttemptEnd>,
}

/// A duty's row with its version.
#[derive(Clone, Debug)]
pub(crate) struct DutyRow {
    pub duty: Duty,
    pub ver: u32,
}

/// One row of a result, cell by cell, as a dialect reads it.
pub(crate) trait Cells: Copy {
    /// Where the columns stand that were added to `run` after the first schema: behind those that
    /// only this dialect has.
    const RUN_LATE: usize;
    /// The same of `shard`.
    const SHARD_LATE: usize;

    fn is_null(self, i: usize) -> Result<bool>;
    fn text(&self, i: usize) -> Result<&str>;
    fn int(self, i: usize) -> Result<i64>;
    fn flag(self, i: usize) -> Result<bool>;
    fn uuid(self, i: usize) -> Result<Uuid>;
    /// What to say of a cell that is no `what`.
    fn bad(self, i: usize, what: &str) -> Error;
}

/// One row of a result.
#[derive(Clone, Copy)]
pub(crate) struct Row<C>(pub C);

impl<C: Cells> Row<C> {
    fn bad(self, i: usize, what: &str) -> Error {
        self.0.bad(i, what)
    }
    fn parsed<T>(self, i: usize, what: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T> {
        parse(self.0.text(i)?).ok_or_else(|| self.bad(i, what))
    }
    pub fn maybe<T>(self, i: usize, f: impl Fn(Self, usize) -> Result<T>) -> Result<Option<T>> {
        let null = self.0.is_null(i)?;
        if null { Ok(None) } else { f(self, i).map(Some) }
    }

    pub fn text(self, i: usize) -> Result<String> {
        self.0.text(i).map(str::to_owned)
    }
    pub fn int(self, i: usize) -> Result<i64> {
        self.0.int(i)
    }
    pub fn u64(self, i: usize) -> Result<u64> {
        u64::try_from(self.int(i)?).map_err(|_| self.bad(i, "number from 0"))
    }
    pub fn opt_u64(self, i: usize) -> Result<Option<u64>> {
        self.maybe(i, Self::u64)
    }
    pub fn u32(self, i: usize) -> Result<u32> {
        u32::try_from(self.int(i)?).map_err(|_| self.bad(i, "number below 2^32"))
    }
    pub fn i32(self, i: usize) -> Result<i32> {
        i32::try_from(self.int(i)?).map_err(|_| self.bad(i, "number below 2^31"))
    }
    pub fn flag(self, i: usize) -> Result<bool> {
        self.0.flag(i)
    }
    pub fn at(self, i: usize) -> Result<Timestamp> {
        Timestamp::from_microsecond(self.int(i)?).map_err(|_| self.bad(i, "instant"))
    }
    pub fn micros(self, i: usize) -> Result<SignedDuration> {
        Ok(SignedDuration::from_micros(self.int(i)?))
    }
    pub fn opt_at(self, i: usize) -> Result<Option<Timestamp>> {
        self.maybe(i, Self::at)
    }
    pub fn uuid(self, i: usize) -> Result<Uuid> {
        self.0.uuid(i)
    }
    pub fn name(self, i: usize) -> Result<Name> {
        self.parsed(i, "name", |s| Name::new(s).ok())
    }
    pub fn job_name(self, i: usize) -> Result<JobName> {
        Ok(JobName {
            namespace: self.name(i)?,
            name: self.name(i + 1)?,
        })
    }
    pub fn run_state(self, i: usize) -> Result<RunState> {
        self.parsed(i, "run state", RunState::parse)
    }
    pub fn shard_state(self, i: usize) -> Result<ShardState> {
        self.parsed(i, "shard state", ShardState::parse)
    }

    pub fn namespace(self) -> Result<Namespace> {
        Ok(Namespace {
            name: self.name(0)?,
            ver: self.u32(1)?,
            weight: self.u32(2)?,
            max_running: self.maybe(3, Self::u32)?,
            max_queued: self.maybe(4, Self::u32)?,
        })
    }

    pub fn node(self) -> Result<Node> {
        Ok(Node {
            id: NodeId(self.u64(0)?),
            address: self.text(1)?,
            expires_at: self.at(2)?,
        })
    }

    pub fn duty(self) -> Result<DutyRow> {
        let duty = Duty {
            key: self.parsed(0, "duty key", DutyKey::parse)?,
            term: Term(self.u64(1)?),
            node: self.opt_u64(2)?.map(NodeId),
        };
        Ok(DutyRow {
            duty,
            ver: self.u32(3)?,
        })
    }

    pub fn job(self) -> Result<JobRow> {
        let job = Job {
            uid: JobUid(self.uuid(0)?),
            name: self.job_name(1)?,
            revision: Revision(self.u32(3)?),
            ver: self.u32(4)?,
            document: self.text(5)?,
            paused: self.flag(6)?,
            high_water: self.at(7)?,
            next_due: self.opt_at(8)?,
            chain: self.maybe(14, |r, i| {
                r.parsed(i, "chain", |text| serde_json::from_str(text).ok())
            })?,
            zones: self.maybe(15, |r, i| {
                r.parsed(i, "zones", |text| serde_json::from_str(text).ok())
            })?,
            counting: self.parsed(16, "counting", Counting::parse)?,
            active_runs: self.u32(9)?,
            waiting_runs: self.u32(13)?,
            created_at: self.at(10)?,
        };
        Ok(JobRow {
            job,
            deleted: self.opt_at(11)?.is_some(),
        })
    }

    /// A revision's job, number and document.
    pub fn revision(self) -> Result<(JobUid, Revision, String)> {
        Ok((JobUid(self.uuid(0)?), Revision(self.u32(1)?), self.text(2)?))
    }

    /// A decision whose first column is `i`.
    pub fn decision(self, i: usize) -> Result<Decision> {
        Ok(Decision {
            from: self.at(i)?,
            to: self.at(i + 1)?,
            count: self.u64(i + 2)?,
            reason: self.text(i + 3)?,
            reference: self.text(i + 4)?,
            filled: self.u64(i + 5)?,
            filled_by: self.opt_u64(i + 6)?.map(RunId),
        })
    }

    pub fn run(self) -> Result<Run> {
        let late = C::RUN_LATE;
        let period = match (self.opt_at(6)?, self.opt_at(7)?) {
            (Some(start), Some(end)) => Some(Period { start, end }),
            _ => None,
        };
        let stop = match (
            self.maybe(23, |r, i| r.parsed(i, "stop cause", StopCause::parse))?,
            self.opt_at(24)?,
        ) {
            (Some(cause), Some(at)) => Some((cause, at)),
            _ => None,
        };
        let waits = match self.maybe(late + 1, |r, i| r.parsed(i, "wait", WaitsFor::parse))? {
            Some(what) => Some(Waits {
                what,
                most: self.u32(late + 2)?,
            }),
            None => None,
        };
        let nominal = |text: &str| serde_json::from_str(text).ok();
        let rank = self.i32(10)?;
        Ok(Run {
            id: RunId(self.u64(0)?),
            job: JobUid(self.uuid(1)?),
            job_name: self.job_name(2)?,
            occasion: self.parsed(4, "occasion", Occasion::parse)?,
            revision: Revision(self.u32(5)?),
            period,
            nominal: self.maybe(late, |r, i| r.parsed(i, "nominal time", nominal))?,
            terms: RunTerms {
                pool: self.name(8)?,
                handler: self.text(9)?,
                priority: RunTerms::priority_of(rank),
                parallelism: self.u32(11)?,
                parameters: self.text(12)?,
                counts_must_match: self.flag(13)?,
                deadline: self.opt_at(14)?,
                start_by: self.opt_at(late + 6)?,
                uses: self
                    .maybe(late + 11, |r, i| r.parsed(i, "set of uses", Uses::parse))?
                    .unwrap_or_default(),
            },
            backfill: self.opt_u64(late + 7)?.map(BackfillId),
            waits,
            ready_at: self.opt_at(late + 3)?,
            dead_by: self.opt_at(late + 4)?,
            state: self.run_state(15)?,
            round: self.u32(16)?,
            ver: self.u32(17)?,
            counters: Counters {
                total: self.u32(18)?,
                open: self.u32(19)?,
                succeeded: self.u32(20)?,
                failed: self.u32(21)?,
                cancelled: self.u32(22)?,
            },
            failures: self.u32(late + 10)?,
            stop,
            stop_detail: self.text(late + 5)?,
            reason: self.text(25)?,
            digest: self.text(26)?,
            created_at: self.at(27)?,
            started_at: self.opt_at(28)?,
            ended_at: self.opt_at(29)?,
        })
    }

    /// A capacity, and whether it is deleted.
    pub fn capacity(self) -> Result<(Capacity, bool)> {
        let rate = match (self.maybe(6, Self::u32)?, self.maybe(8, Self::u32)?) {
            (Some(count), Some(burst)) => {
                let per = Per::of_micros(self.int(7)?).ok_or_else(|| self.bad(7, "period"))?;
                Some(Rate { count, per, burst })
            }
            _ => None,
        };
        let capacity = Capacity {
            name: self.name(0)?,
            ver: self.u32(1)?,
            document: self.text(3)?,
            limits: Limits {
                units: self.maybe(5, Self::u32)?,
                rate,
            },
            bucket: Bucket {
                level: self.int(9)?,
                at: self.at(10)?,
            },
            changed_at: self.at(4)?,
        };
        Ok((capacity, self.flag(2)?))
    }

    pub fn hold(self) -> Result<Hold> {
        Ok(Hold {
            key: ShardKey::new(RunId(self.u64(0)?), self.i32(1)?),
            token: Token(self.u64(2)?),
            capacity: self.name(3)?,
            units: self.u32(4)?,
            session: SessionId(self.u64(5)?),
            since: self.at(6)?,
            until: self.opt_at(7)?,
        })
    }

    /// A shard that was asked to give its slot up.
    pub fn recalled(self) -> Result<Recalled> {
        Ok(Recalled {
            key: ShardKey::new(RunId(self.u64(0)?), self.i32(1)?),
            token: Token(self.u64(2)?),
            by: RunId(self.u64(3)?),
            priority: self.i32(4)?,
            at: self.at(5)?,
        })
    }

    /// What is held of a capacity.
    pub fn held(self) -> Result<(Name, Held)> {
        Ok((self.name(0)?, (self.u64(1)?, self.u32(2)?, self.opt_at(3)?)))
    }

    pub fn waiter(self) -> Result<Waiter> {
        Ok(Waiter {
            run: RunId(self.u64(0)?),
            job_name: self.job_name(1)?,
            pool: self.name(3)?,
            units: self.u32(4)?,
            since: self.at(5)?,
        })
    }

    pub fn backfill(self) -> Result<Backfill> {
        Ok(Backfill {
            id: BackfillId(self.u64(0)?),
            job: JobUid(self.uuid(1)?),
            key: self.text(2)?,
            actor: self.text(3)?,
            wanted: Wanted {
                from: self.at(4)?,
                to: self.at(5)?,
                mode: self.parsed(6, "mode", Mode::parse)?,
                order: self.parsed(7, "order", Order::parse)?,
                parallelism: self.u32(8)?,
                rate: self.maybe(9, Self::u32)?,
                verify: match self.maybe(30, Self::name)? {
                    Some(job) => Some(Verify {
                        job,
                        rate: self.u32(31)?,
                    }),
                    None => None,
                },
                reason: self.text(10)?,
            },
            ver: self.u32(11)?,
            state: self.parsed(12, "backfill state", backfill::State::parse)?,
            place: Place {
                settled: self.at(13)?,
                cursor: self.at(14)?,
                top: self.at(15)?,
            },
            next_at: self.opt_at(16)?,
            counts: Counts {
                created: self.u64(17)?,
                filled: self.u64(18)?,
                reopened: self.u64(19)?,
                reruns: self.u64(20)?,
                left: self.u64(21)?,
            },
            runs: Outcomes {
                open: self.u32(22)?,
                succeeded: self.u64(23)?,
                failed: self.u64(24)?,
                cancelled: self.u64(25)?,
            },
            checks: Checks {
                due: self.u64(33)?,
                open: self.u32(34)?,
                agree: self.u64(35)?,
                differ: self.u64(36)?,
                uncounted: self.u64(37)?,
            },
            next_check_at: self.opt_at(32)?,
            created_at: self.at(26)?,
            ended_at: self.opt_at(27)?,
            cause: self.text(28)?,
        })
    }

    pub fn check(self) -> Result<Check> {
        let counts = match (self.opt_u64(5)?, self.opt_u64(6)?) {
            (Some(found), Some(expected)) => Some((found, expected)),
            _ => None,
        };
        Ok(Check {
            run: RunId(self.u64(0)?),
            round: self.u32(1)?,
            backfill: BackfillId(self.u64(2)?),
            state: self.parsed(3, "state of a check", CheckState::parse)?,
            by: self.opt_u64(4)?.map(RunId),
            counts,
            why: self.text(7)?,
            at: self.at(8)?,
        })
    }

    /// A token.
    pub fn access_token(self) -> Result<AccessToken> {
        let purpose = match self.0.text(1)? {
            "api" => Grants::parse(self.0.text(3)?)
                .map(Purpose::Api)
                .map_err(|_| self.bad(3, "list of roles"))?,
            "join" => {
                let handlers = serde_json::from_str(self.0.text(5)?);
                let handlers = handlers.map_err(|_| self.bad(5, "list of handlers"))?;
                let bounds = Bounds::new(self.name(4)?, handlers);
                let bounds = bounds.map_err(|_| self.bad(5, "list of handlers"))?;
                let workers = serde_json::from_str(self.0.text(12)?);
                let workers = workers.map_err(|_| self.bad(12, "list of workers"))?;
                let bounds = bounds.of_workers(workers);
                Purpose::Join(bounds.map_err(|_| self.bad(12, "list of workers"))?)
            }
            _ => return Err(self.bad(1, "kind of a token")),
        };
        Ok(AccessToken {
            asked: NewAccessToken {
                name: self.name(0)?,
                purpose,
                digest: self.text(2)?,
                expires_at: self.opt_at(6)?,
            },
            created_at: self.at(7)?,
            created_by: self.text(8)?,
            revoked_at: self.opt_at(9)?,
            used_at: self.opt_at(10)?,
            ver: self.u32(11)?,
        })
    }

    /// A restore that is not decided.
    pub fn restore(self) -> Result<Option<Restore>> {
        let (Some(at), Some(mark)) = (self.opt_at(1)?, self.opt_at(2)?) else {
            return Ok(None);
        };
        Ok(Some(Restore {
            epoch: self.u32(0)?,
            at,
            mark,
            newest: self.u64(3)?,
        }))
    }

    /// An instant with what a backfill sees of it.
    pub fn instant(self) -> Result<Facts> {
        let at = self.at(0)?;
        let last = |first: usize, rerun: u32| -> Result<LastRun> {
            Ok(LastRun {
                id: RunId(self.u64(first)?),
                rerun,
                state: self.run_state(first + 1)?,
                round: self.u32(first + 2)?,
            })
        };
        let run = match (self.opt_u64(1)?, self.opt_u64(4)?) {
            (_, Some(_)) => Some(last(4, self.u32(7)?)?),
            (Some(_), None) => Some(last(1, 0)?),
            (None, None) => None,
        };
        let holds = self.opt_at(8)?.is_some_and(|from| from <= at);
        let record = match (self.flag(10)?, holds) {
            (true, _) => Some(Record::Removed),
            (false, true) if self.text(9)? == TAKEN_AS_DONE => Some(Record::Removed),
            (false, true) if self.text(9)? == "coalesced" => Some(Record::Covered),
            (false, true) => Some(Record::Skipped),
            (false, false) => None,
        };
        Ok(Facts { at, run, record })
    }

    pub fn shard(self) -> Result<ShardRow> {
        let late = C::SHARD_LATE;
        let failure = match self.maybe(21, Self::text)? {
            Some(code) => Some(Failure {
                code,
                message: self.text(22)?,
            }),
            None => None,
        };
        let shard = Shard {
            key: ShardKey::new(RunId(self.u64(0)?), self.i32(1)?),
            descriptor: self.parsed(3, "descriptor", |s| serde_json::from_str(s).ok())?,
            state: self.shard_state(4)?,
            ver: self.u32(5)?,
            token: Token(self.u64(6)?),
            attempt: self.u32(7)?,
            used: self.u32(8)?,
            takeovers: self.u32(9)?,
            ready_at: self.at(10)?,
            session: self.opt_u64(11)?.map(SessionId),
            grant_seq: self.u64(12)?,
            timeout_at: self.opt_at(13)?,
            attempt_until: self.opt_at(late)?,
            stall: self.maybe(late + 1, Self::micros)?,
            digest: self.text(14)?,
            checkpoint: Checkpoint {
                seq: self.u64(15)?,
                position: self.text(16)?,
            },
            progress: Progress {
                done: self.u64(17)?,
                expected: self.opt_u64(18)?,
                rate_milli: self.u64(19)?,
                waiting_on: self.text(20)?,
            },
            failure,
            started_at: self.opt_at(23)?,
            ended_at: self.opt_at(24)?,
            discarded_at: self.opt_at(late + 2)?,
        };
        let last_end = self.maybe(25, |r, i| r.parsed(i, "attempt end", AttemptEnd::parse))?;
        Ok(ShardRow { shard, last_end })
    }

    /// A session and the count behind its own columns.
    #[cfg(feature = "postgres")]
    pub fn counted_session(self) -> Result<(Session, u32)> {
        Ok((self.session()?, self.u32(18)?))
    }

    pub fn notice(self) -> Result<Notice> {
        Ok(Notice {
            id: self.uuid(0)?,
            receiver: self.text(1)?,
            body: self.text(2)?,
            created_at: self.at(3)?,
            due_at: self.at(4)?,
            tries: self.u32(5)?,
        })
    }

    pub fn kept_key(self) -> Result<KeptKey> {
        let status = self.maybe(8, Self::u32)?;
        let answer = match (status, self.maybe(9, Self::text)?) {
            (Some(status), Some(kind)) => Some(KeptAnswer {
                status: u16::try_from(status).map_err(|_| self.bad(8, "status"))?,
                kind,
                body: self.maybe(10, Self::text)?,
            }),
            _ => None,
        };
        Ok(KeptKey {
            author: self.text(0)?,
            request: self.text(1)?,
            seed: self.uuid(2)?,
            holder: self.uuid(3)?,
            node: self.opt_u64(4)?.map(NodeId),
            at: self.at(5)?,
            held_at: self.at(6)?,
            done: self.maybe(7, Self::u32)?,
            answer,
        })
    }

    pub fn session(self) -> Result<Session> {
        let ended = match (self.opt_at(13)?, self.maybe(14, Self::text)?) {
            (Some(at), Some(cause)) => Some((at, cause)),
            _ => None,
        };
        let offer = self.maybe(17, |row, i| row.parsed(i, "offer", Offer::parse))?;
        Ok(Session {
            id: SessionId(self.u64(0)?),
            ver: self.u32(1)?,
            worker: WorkerIdentity {
                name: self.name(2)?,
                uid: self.text(3)?,
                boot_id: self.text(4)?,
                incarnation: self.text(5)?,
            },
            appearance: self.appearance(15)?,
            pool: self.name(6)?,
            slots: self.u32(7)?,
            handlers: self.parsed(8, "list of handlers", |s| serde_json::from_str(s).ok())?,
            offer: offer.unwrap_or_default(),
            draining: self.flag(9)?,
            grant_seq: self.u64(10)?,
            registered_at: self.at(11)?,
            expires_at: self.at(12)?,
            ended,
        })
    }

    /// The appearance in two columns from `i` on.
    pub fn appearance(self, i: usize) -> Result<Appearance> {
        Ok(Appearance {
            start: self.u64(i)?,
            registration: self.u64(i + 1)?,
        })
    }

    pub fn event(self) -> Result<Event> {
        let kind = self.text(1)?;
        let entity = self.parsed(2, "entity", |id| Entity::parse(&kind, id))?;
        let duty = match (self.maybe(8, Self::text)?, self.opt_u64(9)?) {
            (Some(key), Some(term)) => Some((key, Term(term))),
            _ => None,
        };
        Ok(Event {
            seq: self.u64(0)?,
            entity,
            ver: self.u32(4)?,
            at: self.at(5)?,
            op: OpId(self.uuid(6)?),
            actor: self.text(7)?,
            duty,
            kind: self.parsed(10, "kind", Kind::parse)?,
            from: self.text(11)?,
            to: self.text(12)?,
            attempt: self.maybe(13, Self::u32)?,
            token: self.opt_u64(14)?.map(Token),
            cause: self.text(15)?,
            data: self.text(16)?,
        })
    }
}
