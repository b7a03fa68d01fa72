//! How much of a limit will be wanted, and when that is more than there is: reckoned from what is planned
//! and from how long runs took before.
//!
//! What is *wanted* at an instant is what would be in use if nothing ever waited. Where it is more than
//! there is, the rest is left over and worked off as soon as less is wanted: that is how far the limit is
//! *behind*.
//!
//! # Invariants
//! - The same arguments give the same forecast; no order among the runs matters.
//! - Work is neither lost nor made: what is left over at the end of one part is there at the next one's
//!   beginning.
//!
//! # Not here
//! When runs are planned ([`crate::schedule`]), what they take and what there is (the store).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// Planned runs that one forecast reckons with.
pub const MAX_RUNS: usize = 20_000;
/// Parts into which one forecast is divided.
pub const MAX_PARTS: usize = 1_000;
/// Spans named in which more is wanted than there is.
pub const MAX_SPANS: usize = 100;
/// Jobs named for each of those.
pub const MAX_NAMED: usize = 3;

/// A run that is expected, as far as one limit is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Its job's number, as the caller counts them.
    pub job: u32,
    /// When it would begin.
    pub at: Timestamp,
    /// How long it would take; nothing is wanted by one without a length.
    pub length: SignedDuration,
    /// What it wants of the limit meanwhile.
    pub wants: u32,
}

/// The time that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its beginning.
    pub from: Timestamp,
    /// Its end, which is after the beginning.
    pub to: Timestamp,
    /// The length of its parts, the last of which may be shorter; more than none.
    pub part: SignedDuration,
}

/// How it stands with a limit in one part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its beginning.
    pub from: Timestamp,
    /// Runs that begin in it.
    pub runs: u64,
    /// The most that is wanted at once.
    pub wanted: u64,
    /// How much of what there is will be in use, in thousandths; none where there is nothing.
    pub used: u64,
    /// How long all that there is will take, at the end of the part, for what is left over by then.
    pub behind: SignedDuration,
}

/// A span in which more is wanted than there is, and until what was left over is worked off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overbooked {
    /// From when on more is wanted than there is.
    pub from: Timestamp,
    /// When what was left over has been worked off; `None` if that is not before the end.
    pub until: Option<Timestamp>,
    /// The most that is wanted at once.
    pub wanted: u64,
    /// The jobs whose runs want most meanwhile, first the one that wants most.
    pub jobs: Vec<u32>,
}

/// What is to be expected of one limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Part by part; together they are the window.
    pub parts: Vec<Part>,
    /// When too much is wanted, in order; the first [`MAX_SPANS`].
    pub overbooked: Vec<Overbooked>,
}

/// What is to be expected in `window` of a limit of which there are `there` units.
///
/// Of a window of more than [`MAX_PARTS`] parts the first are told. Runs that began before the window
/// count for what they still want in it.
#[must_use]
pub fn forecast(there: u32, expected: &[Expected], window: Window) -> Forecast {
    let mut steps = steps(expected, window.from).into_iter().peekable();
    let mut level = Level::of(there);
    let mut parts = Vec::new();
    let mut from = micros(window.from);
    let end = micros(window.to);
    let mut begins: Vec<i64> = expected.iter().map(|run| micros(run.at)).collect();
    begins.sort_unstable();
    let length = i64::try_from(window.part.as_micros())
        .unwrap_or(i64::MAX)
        .max(1);
    while from < end && parts.len() < MAX_PARTS {
        let to = from.saturating_add(length).min(end);
        let (mut at, mut wanted, mut used) = (from, 0, 0);
        while at < to {
            while let Some((_, by)) = steps.next_if(|(when, _)| *when <= at) {
                level.wanted += by;
            }
            wanted = wanted.max(level.wanted);
            let next = steps.peek().map_or(to, |(when, _)| to.min(*when));
            used += level.pass(at, next);
            at = next;
        }
        parts.push(Part {
            from: stamp(from),
            runs: count(&begins, from, to),
            wanted: unsigned(wanted),
            used: level.thousandths(used, to - from),
            behind: level.behind(),
        });
        from = to;
    }
    Forecast {
        parts,
        overbooked: level.spans(expected, from),
    }
}

/// Unit-microseconds: what is wanted of a limit, and for how long.
type Work = i128;

/// How it stands at an instant.
#[derive(Debug)]
struct Level {
    there: Work,
    wanted: Work,
    /// What was wanted and not there.
    over: Work,
    spans: Vec<Overbooked>,
}

impl Level {
    fn of(there: u32) -> Self {
        Self {
            there: there.into(),
            wanted: 0,
            over: 0,
            spans: Vec::new(),
        }
    }

    /// Lets time go by in which what is wanted stays the same; what was used of the limit in it.
    fn pass(&mut self, from: i64, to: i64) -> Work {
        let time = Work::from(to - from);
        let short = self.wanted - self.there;
        if short > 0 {
            if self.over == 0 && self.spans.len() < MAX_SPANS {
                self.spans.push(Overbooked {
                    from: stamp(from),
                    until: None,
                    wanted: 0,
                    jobs: Vec::new(),
                });
            }
            if let Some(span) = self.spans.last_mut().filter(|span| span.until.is_none()) {
                span.wanted = span.wanted.max(unsigned(self.wanted));
            }
            self.over += short * time;
            return self.there * time;
        }
        let worked_off = self.over.min(-short * time);
        self.over -= worked_off;
        if worked_off > 0 && self.over == 0 {
            // Rounded up, so that a span has ended when it says so.
            let took = i64::try_from(worked_off.div_euclid(-short)).unwrap_or(to - from);
            let whole = worked_off.rem_euclid(-short) == 0;
            let even = from + took + i64::from(!whole);
            if let Some(span) = self.spans.last_mut().filter(|span| span.until.is_none()) {
                span.until = Some(stamp(even));
            }
        }
        self.wanted * time + worked_off
    }

    fn behind(&self) -> SignedDuration {
        let micros = self.over.checked_div(self.there);
        // Where there is nothing, it takes for ever.
        let micros = micros.unwrap_or(if self.over > 0 { Work::MAX } else { 0 });
        let micros = i64::try_from(micros).unwrap_or(i64::MAX);
        SignedDuration::from_micros(micros)
    }

    fn thousandths(&self, used: Work, time: i64) -> u64 {
        let all = self.there * Work::from(time);
        unsigned((used * 1_000).checked_div(all).unwrap_or(0))
    }

    /// The spans, with the jobs that want most in each; those that are still open count until `end`.
    fn spans(mut self, expected: &[Expected], end: i64) -> Vec<Overbooked> {
        for span in &mut self.spans {
            let until = span.until.map_or(end, micros);
            span.jobs = most_wanting(expected, micros(span.from), until);
        }
        self.spans
    }
}

/// When what is wanted changes, and by how much, in order; what is over by `from` is left out.
fn steps(expected: &[Expected], from: Timestamp) -> Vec<(i64, Work)> {
    let from = micros(from);
    let runs = expected
        .iter()
        .map(|run| (run, micros(run.at), end_of(run)));
    let lasting = runs.filter(|(_, begin, end)| end > begin && *end > from);
    let mut steps: Vec<(i64, Work)> = lasting
        .flat_map(|(run, begin, end)| {
            let wants = Work::from(run.wants);
            [(begin.max(from), wants), (end, -wants)]
        })
        .collect();
    // Ends before beginnings: what one gives back another may have.
    steps.sort_unstable();
    steps
}

/// How many of `begins`, which are in order, lie between two instants.
fn count(begins: &[i64], from: i64, to: i64) -> u64 {
    let before = |at: i64| begins.partition_point(|begin| *begin < at);
    u64::try_from(before(to) - before(from)).unwrap_or(u64::MAX)
}

/// The jobs whose runs want most between two instants.
fn most_wanting(expected: &[Expected], from: i64, to: i64) -> Vec<u32> {
    let mut wants: BTreeMap<u32, Work> = BTreeMap::new();
    for run in expected {
        let inside = end_of(run).min(to) - micros(run.at).max(from);
        if inside > 0 {
            *wants.entry(run.job).or_default() += Work::from(inside) * Work::from(run.wants);
        }
    }
    let mut jobs: Vec<(Work, u32)> = wants.into_iter().map(|(job, work)| (-work, job)).collect();
    jobs.sort_unstable();
    jobs.truncate(MAX_NAMED);
    jobs.into_iter().map(|(_, job)| job).collect()
}

fn end_of(run: &Expected) -> i64 {
    let length = i64::try_from(run.length.as_micros()).unwrap_or(i64::MAX);
    micros(run.at).saturating_add(length)
}

fn micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}

fn stamp(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX)
}

fn unsigned(work: Work) -> u64 {
    u64::try_from(work.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
