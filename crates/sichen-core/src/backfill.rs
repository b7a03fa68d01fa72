//! Backfills: runs requested for a past range of a job's planned instants.
//!
//! A backfill goes through its range piece by piece. For each instant [`judge`] says what becomes of
//! it, from the instant's newest run and its record; [`step`] takes as many of them as the backfill
//! may start now. The duty, the dry run and the tests call the same two functions.
//!
//! # Invariants
//! - An instant is looked at only once its job's high-water mark has passed it; the rest of the
//!   range waits.
//! - The [`Place`] moves past an instant only with what became of it, in one transaction: a crash
//!   neither repeats nor loses one.
//! - A backfill never has more open runs by its own doing than its parallelism.
//! - One whose runs are checked ([`check`]) is finished only when their checks are over too.
//!
//! # Not here
//! Which instants a job had ([`past`]); writing runs (the stores); who pays for whose slots
//! ([`crate::dispatch`]).

pub mod check;
pub mod past;

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::event::Kind;
use crate::ids::{BackfillId, JobUid, Revision, RunId};
use crate::lifecycle::{RunState, words};
use crate::model::QueueFull;
use crate::port::NewRun;
use check::{Checks, Verify};

/// Open runs that one backfill may have at once.
pub const MAX_PARALLELISM: u32 = 1_000;
/// Runs that one backfill may start in a minute, if it has a rate.
pub const MAX_RATE: u32 = 60_000;
/// Backfills of one job that are not over.
pub const MAX_OPEN_BACKFILLS: usize = 100;
/// The longest idempotency key of a backfill, in bytes.
pub const MAX_BACKFILL_KEY: usize = 128;
/// The longest text that says why a backfill was started, in bytes.
pub const MAX_BACKFILL_REASON: usize = 1_024;
/// Instants looked at in one step of a backfill.
pub const MAX_STEP: usize = 500;

/// How much of a minute's rate may be used at once.
const BURST: SignedDuration = SignedDuration::from_secs(1);

words! {
    /// A backfill's state.
    State {
        /// Goes through its range, or waits for the mark, for room or for its runs.
        Running = "running",
        /// Starts nothing until it is resumed.
        Paused = "paused",
        /// All of its range is done, its runs have closed and their checks are over.
        Finished = "finished",
        /// Given up; what it had started goes on.
        Cancelled = "cancelled",
    }
}

impl Turn {
    /// The event that tells of it.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Turn::Pause => Kind::BackfillPaused,
            Turn::Resume => Kind::BackfillResumed,
            Turn::Cancel => Kind::BackfillCancelled,
        }
    }
}

impl State {
    /// Whether nothing more happens to it.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, State::Finished | State::Cancelled)
    }
}

words! {
    /// Which instants of the range run.
    Mode {
        /// Those that have no run.
        OnlyMissing = "only_missing",
        /// Those whose newest run failed, wholly or in part: the same run is retried.
        OnlyFailed = "only_failed",
        /// All: those that have run get a rerun.
        All = "all",
    }
}

words! {
    /// Where a backfill begins.
    Order {
        /// At the oldest instant.
        Oldest = "oldest",
        /// At the newest instant that is decided; what the mark passes later comes after that.
        Newest = "newest",
    }
}

words! {
    /// What a person may do to a backfill.
    Turn {
        /// Start nothing more for now.
        Pause = "pause",
        /// Go on.
        Resume = "resume",
        /// Give up.
        Cancel = "cancel",
    }
}

/// What a person asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The first instant that may run.
    pub from: Timestamp,
    /// The end of the range, not included.
    pub to: Timestamp,
    /// Which instants run.
    pub mode: Mode,
    /// Where it begins.
    pub order: Order,
    /// Open runs at once, 1 to [`MAX_PARALLELISM`].
    pub parallelism: u32,
    /// Starts a minute, 1 to [`MAX_RATE`]; `None`: no limit.
    pub rate: Option<u32>,
    /// Whether and how its runs are checked.
    pub verify: Option<Verify>,
    /// Why, in words.
    pub reason: String,
}

/// How far a backfill has come: `[from, settled)` and `[cursor, top)` are done. For
/// [`Order::Oldest`] the second is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Everything before it is done.
    pub settled: Timestamp,
    /// Going down, everything from here to `top` is done.
    pub cursor: Timestamp,
    /// Where the present way down began.
    pub top: Timestamp,
}

impl Place {
    /// Nothing is done.
    #[must_use]
    pub fn at(from: Timestamp) -> Self {
        Self {
            settled: from,
            cursor: from,
            top: from,
        }
    }
}

/// What became of the instants that a backfill has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs written for instants that had none.
    pub created: u64,
    /// Those of them whose instant had been skipped.
    pub filled: u64,
    /// Runs retried.
    pub reopened: u64,
    /// Reruns written.
    pub reruns: u64,
    /// Instants left as they are.
    pub left: u64,
}

impl Counts {
    /// Instants passed.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.created + self.reopened + self.reruns + self.left
    }
}

/// What became of a backfill's runs; a retried one counts anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Not closed.
    pub open: u32,
    /// Succeeded.
    pub succeeded: u64,
    /// Failed or partial.
    pub failed: u64,
    /// Cancelled.
    pub cancelled: u64,
}

/// A backfill's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backfill {
    /// Identity.
    pub id: BackfillId,
    /// Its job.
    pub job: JobUid,
    /// The idempotency key of the request, unique within the job.
    pub key: String,
    /// Who asked.
    pub actor: String,
    /// What was asked for.
    pub wanted: Wanted,
    /// Version of the row; counts of outcomes do not raise it.
    pub ver: u32,
    /// State.
    pub state: State,
    /// How far it has come.
    pub place: Place,
    /// With a rate: from when on the next start is due.
    pub next_at: Option<Timestamp>,
    /// What became of its instants.
    pub counts: Counts,
    /// What became of its runs.
    pub runs: Outcomes,
    /// What became of the checks of its runs.
    pub checks: Checks,
    /// From when on the next check is due.
    pub next_check_at: Option<Timestamp>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
    /// Why it is paused, or over before its end.
    pub cause: String,
}

/// The newest run of an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRun {
    /// Which.
    pub id: RunId,
    /// 0, or the number of a rerun.
    pub rerun: u32,
    /// State.
    pub state: RunState,
    /// Round.
    pub round: u32,
}

/// What is recorded of an instant beside its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// It was decided not to run.
    Skipped,
    /// Another instant's run stands for it.
    Covered,
    /// It has run, and old age has removed a run of it.
    Removed,
}

/// What a backfill sees of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The instant.
    pub at: Timestamp,
    /// Its newest run.
    pub run: Option<LastRun>,
    /// What else is recorded.
    pub record: Option<Record>,
}

/// What becomes of an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It gets its run, rerun 0.
    Create,
    /// It gets the rerun of this number.
    Rerun(u32),
    /// This run is retried, if it is still in that round.
    Reopen(RunId, u32),
    /// It is left as it is.
    Leave(Why),
}

words! {
    /// Why an instant is left as it is.
    Why {
        /// It has a run.
        HasRun = "has_run",
        /// It has no run that failed.
        NotFailed = "not_failed",
        /// Its run is not closed.
        Open = "open",
        /// Another instant's run stands for it.
        Covered = "covered",
        /// It has run, and its history was removed; or it was taken as done after a restore.
        Removed = "removed",
    }
}

impl Action {
    /// The word that stands for it in the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Action::Create => "create",
            Action::Rerun(_) => "rerun",
            Action::Reopen(..) => "reopen",
            Action::Leave(_) => "leave",
        }
    }

    /// Whether a run starts.
    #[must_use]
    pub fn starts(self) -> bool {
        !matches!(self, Action::Leave(_))
    }
}

/// What becomes of an instant under `mode`.
#[must_use]
pub fn judge(mode: Mode, facts: &Facts) -> Action {
    // Whatever number its runs had is not to be given again: their fences may remember it.
    if facts.record == Some(Record::Removed) {
        return Action::Leave(Why::Removed);
    }
    match (mode, facts.run) {
        (Mode::OnlyFailed, None) => Action::Leave(Why::NotFailed),
        (Mode::OnlyFailed, Some(run)) => match run.state {
            RunState::Failed | RunState::Partial => Action::Reopen(run.id, run.round),
            RunState::Scheduled | RunState::Running => Action::Leave(Why::Open),
            RunState::Succeeded | RunState::Cancelled => Action::Leave(Why::NotFailed),
        },
        (Mode::OnlyMissing, Some(_)) => Action::Leave(Why::HasRun),
        (Mode::All, Some(run)) if run.state.is_closed() => Action::Rerun(run.rerun + 1),
        (Mode::All, Some(_)) => Action::Leave(Why::Open),
        (Mode::OnlyMissing | Mode::All, None) if facts.record == Some(Record::Covered) => {
            Action::Leave(Why::Covered)
        }
        (Mode::OnlyMissing | Mode::All, None) => Action::Create,
    }
}

/// Where a backfill is to look next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// At the instants in `[from, below)`, oldest first.
    Up { from: Timestamp, below: Timestamp },
    /// At the instants in `[from, below)`, newest first.
    Down { from: Timestamp, below: Timestamp },
    /// Nowhere until the mark has moved.
    Wait,
    /// Nowhere: all of the range is done.
    Done,
}

/// Where a backfill over `wanted` that has come to `place` is to look next.
#[must_use]
pub fn look(wanted: &Wanted, place: Place, mark: Timestamp) -> Look {
    // Marks are whole microseconds; the instant at the mark is decided.
    let decided = mark.checked_add(SignedDuration::from_micros(1));
    let reach = decided.map_or(wanted.to, |decided| decided.min(wanted.to));
    let (from, below) = match wanted.order {
        Order::Oldest => (place.settled, reach),
        Order::Newest if place.settled < place.cursor => (place.settled, place.cursor),
        Order::Newest => (place.top, reach),
    };
    match (from < below, wanted.order) {
        (true, Order::Oldest) => Look::Up { from, below },
        (true, Order::Newest) => Look::Down { from, below },
        (false, _) if from >= wanted.to => Look::Done,
        (false, _) => Look::Wait,
    }
}

/// What one step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Instants that start a run, in the order they were looked at.
    pub starts: Vec<(Timestamp, Action)>,
    /// Instants left as they are.
    pub left: u64,
    /// How far the backfill has come with it.
    pub place: Place,
    /// From when on the next start is due, if it has a rate.
    pub next_at: Option<Timestamp>,
    /// Why it went no farther.
    pub rest: Rest,
}

/// Why a step went no farther.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It has seen all it was shown: there may be more to do at once.
    Seen,
    /// As many runs as may be are open.
    Room,
    /// The rate allows the next start at this instant.
    Rate(Timestamp),
}

/// Takes the instants `facts`, which were looked at as [`look`] said, as far as `backfill` may start
/// runs now. `whole`: they are all that the look had.
#[must_use]
pub fn step(backfill: &Backfill, look: Look, facts: &[Facts], whole: bool, now: Timestamp) -> Step {
    let wanted = &backfill.wanted;
    let mut room = wanted.parallelism.saturating_sub(backfill.runs.open);
    let mut step = Step {
        starts: Vec::new(),
        left: 0,
        place: backfill.place,
        next_at: backfill.next_at,
        rest: Rest::Seen,
    };
    let (from, below, down) = match look {
        Look::Up { from, below } => (from, below, false),
        Look::Down { from, below } => (from, below, true),
        Look::Wait | Look::Done => return step,
    };
    if down && step.place.settled == step.place.cursor {
        // A new way down begins where the last one had begun.
        step.place = Place {
            settled: from,
            cursor: below,
            top: below,
        };
    }
    for facts in facts {
        let action = judge(wanted.mode, facts);
        if action.starts() {
            if room == 0 {
                step.rest = Rest::Room;
                return step;
            }
            match allowed(wanted.rate, step.next_at, now) {
                Ok(next_at) => step.next_at = next_at,
                Err(at) => {
                    step.rest = Rest::Rate(at);
                    return step;
                }
            }
            room -= 1;
            step.starts.push((facts.at, action));
        } else {
            step.left += 1;
        }
        step.place = passed(step.place, facts.at, down);
    }
    if whole {
        step.place = if down {
            Place::at(step.place.top)
        } else {
            Place::at(below)
        };
    }
    step
}

/// The place once the instant `at` is done.
fn passed(place: Place, at: Timestamp, down: bool) -> Place {
    if down {
        Place {
            cursor: at,
            ..place
        }
    } else {
        let next = at.checked_add(SignedDuration::from_micros(1));
        Place::at(next.unwrap_or(at))
    }
}

/// Whether one more run may start at `now`, and from when on the one after it is due; else when this
/// one may. A start that is at most a second ahead of its turn may go.
///
/// # Errors
/// When the next one may start.
pub fn allowed(
    rate: Option<u32>,
    next_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<Option<Timestamp>, Timestamp> {
    let Some(rate) = rate else { return Ok(None) };
    let gap = SignedDuration::from_mins(1) / i32::try_from(rate.max(1)).unwrap_or(i32::MAX);
    let due = next_at.map_or(now, |at| at.max(now));
    // Without the burst of a slow rate: there one start is more than it.
    let early = if gap < BURST {
        BURST
    } else {
        SignedDuration::ZERO
    };
    let may_at = due.checked_sub(early).unwrap_or(due);
    if may_at > now {
        return Err(may_at);
    }
    Ok(due.checked_add(gap).ok())
}

/// What is wrong with what is asked for, by field.
#[must_use]
pub fn problems(wanted: &Wanted) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if wanted.from >= wanted.to {
        let message = format!(
            "SC5040: {} is not after {}; the range is from `from` up to `to`, itself left out",
            wanted.to, wanted.from
        );
        found.push(("to", message));
    }
    if !(1..=MAX_PARALLELISM).contains(&wanted.parallelism) {
        let given = wanted.parallelism;
        let message = format!("SC5040: {given} is outside 1 to {MAX_PARALLELISM}");
        found.push(("parallelism", message));
    }
    let rates = [
        ("rate", wanted.rate),
        ("verify.rate", wanted.verify.as_ref().map(|v| v.rate)),
    ];
    for (field, rate) in rates {
        if let Some(rate) = rate.filter(|rate| !(1..=MAX_RATE).contains(rate)) {
            let message = format!("SC5040: {rate} starts a minute is outside 1 to {MAX_RATE}");
            found.push((field, message));
        }
    }
    if wanted.reason.len() > MAX_BACKFILL_REASON {
        let given = wanted.reason.len();
        let message = format!("SC5040: {given} bytes; at most {MAX_BACKFILL_REASON} are kept");
        found.push(("reason", message));
    }
    found
}

/// A backfill to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBackfill {
    /// The job; must be live.
    pub job: JobUid,
    /// The idempotency key.
    pub key: String,
    /// What is asked for.
    pub wanted: Wanted,
}

/// What became of a [`NewBackfill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewVerdict {
    /// Written now.
    Created(BackfillId),
    /// The same was asked for before.
    Exists(BackfillId),
    /// The key was used for something else.
    OtherRequest(BackfillId),
    /// The job has [`MAX_OPEN_BACKFILLS`] that are not over.
    TooMany,
    /// There is no such job any more.
    NoJob,
}

/// A start of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// The run of an instant, or a rerun of it.
    Write(Box<NewRun>),
    /// The retry of a run that is still in this round.
    Reopen(RunId, u32),
}

/// One step of a backfill, already decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advance {
    /// Which.
    pub id: BackfillId,
    /// The version it was computed from.
    pub ver: u32,
    /// The job's revision that its runs use.
    pub revision: Revision,
    /// How far it has come.
    pub place: Place,
    /// From when on the next start is due.
    pub next_at: Option<Timestamp>,
    /// Instants left as they are.
    pub left: u64,
    /// Runs to start, as many as there is room for.
    pub starts: Vec<Start>,
    /// All of the range is done, no run is open, and no check is due or open.
    pub finish: bool,
}

impl Advance {
    /// How many runs it would queue, if none of them is there.
    #[must_use]
    pub fn queues(&self) -> u32 {
        let writes = self.starts.iter().filter(|start| match start {
            Start::Write(new) => new.queues(),
            Start::Reopen(..) => false,
        });
        u32::try_from(writes.count()).unwrap_or(u32::MAX)
    }

    /// Whether the step may be written on `backfill`, whose job has this revision now (`None`: it is
    /// deleted). Every store asks this under its lock.
    #[must_use]
    pub fn holds(&self, backfill: &Backfill, revision: Option<Revision>) -> bool {
        let open = backfill.runs.open;
        let room = backfill.wanted.parallelism.saturating_sub(open) as usize;
        backfill.state == State::Running
            && backfill.ver == self.ver
            && revision == Some(self.revision)
            && self.starts.len() <= room
            && !(self.finish && (open > 0 || backfill.checks.pending() > 0))
    }

    /// The state that it leads to, and the event that tells of it.
    #[must_use]
    pub fn leads_to(&self) -> (State, Kind) {
        if self.finish {
            (State::Finished, Kind::BackfillFinished)
        } else {
            (State::Running, Kind::BackfillAdvanced)
        }
    }
}

/// What became of an [`Advance`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdvanceVerdict {
    /// Written; so many runs started. A start whose instant had its run by then counts as left.
    Advanced(u32),
    /// The backfill, its room or the job's revision are others by now: decide anew. Nothing was
    /// written.
    Conflict,
    /// The namespace has no room for so many more queued runs. Nothing was written.
    Full(QueueFull),
    /// The caller no longer owns the job's partition. Nothing was written.
    OldTerm,
}

/// What became of a [`Turn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnVerdict {
    /// Done.
    Done,
    /// It was so already.
    Already,
    /// It is over.
    Over(State),
    /// No such backfill.
    Missing,
    /// The caller no longer owns the job's partition (turns taken by a duty).
    OldTerm,
}

/// What `turn` makes of a backfill in `state`.
///
/// # Errors
/// The verdict where nothing changes.
pub fn turned(state: State, turn: Turn) -> Result<State, TurnVerdict> {
    match (state, turn) {
        (State::Running, Turn::Pause) => Ok(State::Paused),
        (State::Paused, Turn::Resume) => Ok(State::Running),
        (State::Running | State::Paused, Turn::Cancel) => Ok(State::Cancelled),
        (State::Running, Turn::Resume)
        | (State::Paused, Turn::Pause)
        | (State::Cancelled, Turn::Cancel) => Err(TurnVerdict::Already),
        (State::Finished | State::Cancelled, _) => Err(TurnVerdict::Over(state)),
    }
}

#[cfg(test)]
mod tests;
