//! Backfills: asked for, shown beforehand, listed, paused, resumed, cancelled.

use jiff::{SignedDuration, Timestamp};
use sichen_core::backfill::check::{Check, CheckState};
use sichen_core::backfill::{
    Action, Backfill, Facts, Look, MAX_BACKFILL_KEY, MAX_OPEN_BACKFILLS, NewBackfill, NewVerdict,
    Order, Place, Turn, TurnVerdict, Wanted, judge, look, problems,
};
use sichen_core::document::Problem;
use sichen_core::ids::{BackfillId, JobUid, RunId};
use sichen_core::model::Job;
use sichen_core::name::JobName;
use sichen_core::port::{MAX_BATCH, Page};

use super::{Control, Error};
use crate::backfill::{instants, past};

/// What a backfill would do, a page of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// All instants of the range.
    pub instants: u64,
    /// Those of them that wait until the job's high-water mark has passed them.
    pub waiting: u64,
    /// The next instants and what becomes of them, in the order in which they would be taken.
    pub items: Vec<(Facts, Action)>,
    /// The last instant of the page, if there are more.
    pub next: Option<Timestamp>,
}

impl Control {
    /// Asks for a backfill, or finds the one that this key has asked for already. Says whether it
    /// is new.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Invalid`] with every problem; [`Error::Refused`] if the key was
    /// used for something else, or the job has too many; the store's.
    pub async fn start_backfill(
        &self,
        actor: &str,
        name: &JobName,
        key: String,
        wanted: Wanted,
    ) -> Result<(Backfill, bool), Error> {
        let mut wrong = problems(&wanted);
        if !(1..=MAX_BACKFILL_KEY).contains(&key.len()) {
            let message = format!(
                "SC5013: has {} bytes; 1 to {MAX_BACKFILL_KEY} are allowed",
                key.len()
            );
            wrong.push(("key", message));
        }
        check(wrong)?;
        let job = self.job(name).await?;
        self.range(&job, &wanted).await?;
        if let Some(verify) = &wanted.verify {
            let with = JobName {
                namespace: name.namespace.clone(),
                name: verify.job.clone(),
            };
            if self.context.store.get_job(with.clone()).await?.is_none() {
                let message = format!("SC5044: there is no job {with} that could check its runs");
                check(vec![("verify.job", message)])?;
            }
        }
        let new = NewBackfill {
            job: job.uid,
            key,
            wanted,
        };
        let store = &*self.context.store;
        let (id, created) = match store.create_backfill(self.context.op(actor), new).await? {
            NewVerdict::Created(id) => (id, true),
            NewVerdict::Exists(id) => (id, false),
            NewVerdict::OtherRequest(id) => {
                return Err(Error::Refused(format!(
                    "SC5043: backfill {id} of job {name} was asked for with this key and is another; \
                     use another key"
                )));
            }
            NewVerdict::TooMany => {
                return Err(Error::Refused(format!(
                    "SC5042: job {name} has {MAX_OPEN_BACKFILLS} backfills that are not over; wait \
                     for one of them, or cancel it"
                )));
            }
            NewVerdict::NoJob => return Err(no_job(name)),
        };
        Ok((self.backfill(id).await?, created))
    }

    /// What a backfill over `wanted` would do now: the page after `after`. Nothing is written.
    ///
    /// # Errors
    /// As [`Control::start_backfill`].
    pub async fn preview_backfill(
        &self,
        name: &JobName,
        wanted: &Wanted,
        after: Option<Timestamp>,
        limit: u32,
    ) -> Result<Preview, Error> {
        check(problems(wanted))?;
        let job = self.job(name).await?;
        let past = self.range(&job, wanted).await?;
        let looked = look(wanted, Place::at(wanted.from), job.high_water);
        let decided = match looked {
            Look::Up { from, below } | Look::Down { from, below } => past.count(from, below),
            Look::Wait | Look::Done => 0,
        };
        let all = past.count(wanted.from, wanted.to);
        let rest = match (looked, after) {
            // `after` comes from the request: whatever it is, the page lies in the range.
            (Look::Up { from, below }, Some(after)) => {
                let next = after.checked_add(SignedDuration::from_micros(1));
                let from = next.unwrap_or(below).max(from).min(below);
                Look::Up { from, below }
            }
            (Look::Down { from, below }, Some(after)) => {
                let below = after.min(below).max(from);
                Look::Down { from, below }
            }
            (looked, _) => looked,
        };
        let size = (limit as usize).clamp(1, MAX_BATCH);
        let (instants, whole) = instants(&past, rest, size);
        let next = instants.last().copied().filter(|_| !whole);
        let facts = match instants.is_empty() {
            true => Vec::new(),
            false => self.context.store.list_instants(job.uid, instants).await?,
        };
        let items = facts.into_iter();
        Ok(Preview {
            instants: all,
            waiting: all.saturating_sub(decided),
            items: items
                .map(|facts| (facts, judge(wanted.mode, &facts)))
                .collect(),
            next,
        })
    }

    /// The instants of `job` that a range may need.
    async fn range(
        &self,
        job: &Job,
        wanted: &Wanted,
    ) -> Result<sichen_core::backfill::past::Past, Error> {
        let past = past(&*self.context.store, &self.documents, job, wanted).await?;
        past.map_err(|why| Error::Refused(format!("SC5040: the range can't be backfilled: {why}")))
    }

    /// A backfill.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the store's.
    pub async fn backfill(&self, id: BackfillId) -> Result<Backfill, Error> {
        let found = self.context.store.get_backfill(id).await?;
        found.ok_or_else(|| no_backfill(id))
    }

    /// How many instants of a backfill's range are still to be done, as the job's schedules are now.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Refused`]; the store's.
    pub async fn remaining(&self, backfill: &Backfill) -> Result<u64, Error> {
        let wanted = &backfill.wanted;
        let job = self.job_by_uid(backfill.job).await?;
        let past = self.range(&job, wanted).await?;
        let place = backfill.place;
        let between = match wanted.order {
            Order::Oldest => 0,
            Order::Newest => past.count(place.settled, place.cursor),
        };
        Ok(between + past.count(place.top, wanted.to))
    }

    /// A job's backfills, newest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn backfills(
        &self,
        job: JobUid,
        page: Page<BackfillId>,
    ) -> Result<Vec<Backfill>, Error> {
        Ok(self.context.store.list_backfills(job, page).await?)
    }

    /// The checks of a backfill's runs, or those in `state`, by run and round.
    ///
    /// # Errors
    /// The store's.
    pub async fn checks(
        &self,
        id: BackfillId,
        state: Option<CheckState>,
        page: Page<(RunId, u32)>,
    ) -> Result<Vec<Check>, Error> {
        Ok(self.context.store.list_checks(id, state, page).await?)
    }

    /// Pauses, resumes or cancels a backfill; whether that changed it. Its open runs go on.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Refused`] if it is over; the store's.
    pub async fn turn_backfill(
        &self,
        actor: &str,
        id: BackfillId,
        turn: Turn,
    ) -> Result<bool, Error> {
        let op = self.context.op(actor);
        let cause = "asked for".to_owned();
        let store = &*self.context.store;
        match store.turn_backfill(op, None, id, turn, cause).await? {
            TurnVerdict::Done => Ok(true),
            TurnVerdict::Already => Ok(false),
            TurnVerdict::Over(state) => Err(Error::Refused(format!(
                "SC5041: backfill {id} is {state}; start another one"
            ))),
            TurnVerdict::Missing | TurnVerdict::OldTerm => Err(no_backfill(id)),
        }
    }
}

fn check(wrong: Vec<(&'static str, String)>) -> Result<(), Error> {
    if wrong.is_empty() {
        return Ok(());
    }
    let problem = |(path, message): (&str, String)| Problem {
        path: path.to_owned(),
        message,
    };
    Err(Error::Invalid(wrong.into_iter().map(problem).collect()))
}

fn no_job(name: &JobName) -> Error {
    Error::NotFound {
        what: "job",
        name: name.to_string(),
    }
}

fn no_backfill(id: BackfillId) -> Error {
    Error::NotFound {
        what: "backfill",
        name: id.to_string(),
    }
}
