//! Expected against recorded: what is missing, what is too much, what stands in the wrong place.
//!
//! # Invariants
//! - Every difference is one finding. A record that stands at most [`MAX_MOVE_US`] from an instant
//!   that has none, and not farther than half the way to its neighbours, has been moved; farther off
//!   it is one missing and one too much. So it is where the record has been moved out of the range.
//! - A range is judged by its ends and its count, without a list of what it holds.
//!
//! # Not here
//! Where the records come from (the history checker's `audit`).

use std::collections::BTreeMap;
use std::iter::Peekable;

use crate::calendar::Kept;
use crate::timetable::Timetable;

/// How far a record may stand from its instant and still be told as moved, in microseconds.
pub const MAX_MOVE_US: i64 = 60_000_000;
/// Findings kept for one job; the rest is counted.
pub const MAX_FINDINGS: usize = 1_000;
/// Instants looked at for one job; a longer range is cut there and says so.
pub const MAX_INSTANTS: u64 = 50_000_000;

/// Instants without a record that are kept to be told apart from moved ones; the rest is counted.
const MAX_HOLES: usize = 100_000;

const SECOND: i64 = 1_000_000;

/// A stretch of time that one revision of a job decided, `(after, through]` in microseconds.
#[derive(Debug, Clone)]
pub struct Segment {
    pub after_us: i64,
    pub through_us: i64,
    pub revision: u32,
    /// The revision's schedules, or why they are not known.
    pub timetables: Result<Vec<Timetable>, String>,
}

/// A run at a planned instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fired {
    pub at_us: i64,
    /// The run's number.
    pub run: u64,
    /// The revision that it uses.
    pub revision: u32,
}

/// A record that instants were not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// First and last instant.
    pub from_us: i64,
    pub to_us: i64,
    pub count: u64,
    pub reason: String,
}

/// The reason that stands at a clock change instead of at a planned instant.
const GAP: &str = "gap";
/// The reason that stands for a run which old age has removed, beside what was decided before it.
const REMOVED: &str = "removed";

/// Which record a finding is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The run of this number.
    Run(u64),
    /// A decision of this reason.
    Decision(String),
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// A planned instant has neither run nor decision.
    Missing { at_us: i64, revision: u32 },
    /// A record stands where the schedule has nothing.
    Extra { at_us: i64, record: Record },
    /// A record stands beside its instant.
    Moved {
        planned_us: i64,
        recorded_us: i64,
        record: Record,
    },
    /// A range says another count than the schedule has instants in it.
    Miscounted {
        from_us: i64,
        to_us: i64,
        reason: String,
        recorded: u64,
        expected: u64,
    },
    /// Local times that a clock change left out, and no record of it.
    GapUnrecorded { at_us: i64, count: u64 },
    /// An instant that should have been decided by now.
    Undecided { at_us: i64 },
}

impl Finding {
    /// Where it is, in microseconds since 1970.
    #[must_use]
    pub fn at_us(&self) -> i64 {
        match self {
            Finding::Missing { at_us, .. }
            | Finding::Extra { at_us, .. }
            | Finding::GapUnrecorded { at_us, .. }
            | Finding::Undecided { at_us } => *at_us,
            Finding::Moved { planned_us, .. } => *planned_us,
            Finding::Miscounted { from_us, .. } => *from_us,
        }
    }
}

/// All that is known of one job.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// Oldest first, without overlap.
    pub segments: Vec<Segment>,
    /// The schedules that decide what comes after the last segment; `None` if nothing does.
    pub present: Option<Segment>,
    /// Other revisions than those of segments, for runs that were asked for.
    pub revisions: BTreeMap<u32, Vec<Timetable>>,
    pub fired: Vec<Fired>,
    pub decided: Vec<Decided>,
}

/// The outcome of an audit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Planned instants compared.
    pub expected: u64,
    /// Of those, how many have a run and how many a decision.
    pub with_run: u64,
    pub with_decision: u64,
    /// Oldest first, at most [`MAX_FINDINGS`].
    pub findings: Vec<Finding>,
    /// All of them.
    pub finding_count: u64,
    /// Stretches that could not be judged, and why.
    pub unjudged: Vec<(i64, i64, String)>,
}

impl Ledger {
    /// Compares within `(after, through]`, in microseconds.
    #[must_use]
    pub fn audit(&self, after_us: i64, through_us: i64) -> Report {
        let mut audit = Audit::new(self, after_us, through_us);
        for segment in &self.segments {
            audit.segment(segment);
        }
        audit.outside();
        audit.undecided();
        audit.report()
    }
}

/// An instant without a record, and how near its neighbours are.
#[derive(Debug)]
struct Hole {
    at_us: i64,
    revision: u32,
    room_us: i64,
}

struct Audit<'a> {
    ledger: &'a Ledger,
    after_us: i64,
    through_us: i64,
    /// Runs by instant, and decisions of one instant; not yet matched ones stay.
    fired: BTreeMap<i64, Vec<&'a Fired>>,
    single: BTreeMap<i64, Vec<&'a Decided>>,
    /// Runs just outside the range, into which an instant of it may have been moved.
    beside: Vec<&'a Fired>,
    /// By their begin; those before `next` have begun, those of `open` may hold an instant.
    ranges: Vec<Range<'a>>,
    next: usize,
    open: Vec<usize>,
    gaps: BTreeMap<(i64, u64), u64>,
    holes: Vec<Hole>,
    /// Records whose instant another one stands for already.
    again: Vec<(i64, Record)>,
    judged: Vec<(i64, i64)>,
    findings: Vec<Finding>,
    report: Report,
}

struct Range<'a> {
    decided: &'a Decided,
    counted: u64,
    /// First and last instant in it.
    ends: Option<(i64, i64)>,
}

impl<'a> Audit<'a> {
    fn new(ledger: &'a Ledger, after_us: i64, through_us: i64) -> Audit<'a> {
        let within = |at: i64| after_us < at && at <= through_us;
        let mut audit = Audit {
            ledger,
            after_us,
            through_us,
            fired: BTreeMap::new(),
            single: BTreeMap::new(),
            beside: Vec::new(),
            ranges: Vec::new(),
            next: 0,
            open: Vec::new(),
            gaps: BTreeMap::new(),
            holes: Vec::new(),
            again: Vec::new(),
            judged: Vec::new(),
            findings: Vec::new(),
            report: Report::default(),
        };
        let earliest = after_us.saturating_sub(MAX_MOVE_US);
        let latest = through_us.saturating_add(MAX_MOVE_US);
        for fired in &ledger.fired {
            if within(fired.at_us) {
                audit.fired.entry(fired.at_us).or_default().push(fired);
            } else if (earliest..=latest).contains(&fired.at_us) {
                audit.beside.push(fired);
            }
        }
        for decided in &ledger.decided {
            let Decided { from_us, to_us, .. } = *decided;
            if to_us <= after_us || from_us > through_us {
                continue;
            }
            if decided.reason == GAP {
                *audit.gaps.entry((from_us, decided.count)).or_default() += 1;
            } else if from_us == to_us {
                audit.single.entry(from_us).or_default().push(decided);
            } else {
                audit.ranges.push(Range {
                    decided,
                    counted: 0,
                    ends: None,
                });
            }
        }
        audit.ranges.sort_by_key(|range| range.decided.from_us);
        audit
    }

    /// Goes through the instants of a segment.
    fn segment(&mut self, segment: &Segment) {
        let after = segment.after_us.max(self.after_us);
        let through = segment.through_us.min(self.through_us);
        if after >= through {
            return;
        }
        let timetables = match &segment.timetables {
            Ok(timetables) => timetables,
            Err(why) => {
                let why = format!("revision {}: {why}", segment.revision);
                self.report.unjudged.push((after, through, why));
                return;
            }
        };
        let (first, last) = (after.div_euclid(SECOND), through.div_euclid(SECOND));
        let mut before = None;
        for at in union(timetables, first, last) {
            if self.report.expected == MAX_INSTANTS {
                let why = format!("more than {MAX_INSTANTS} instants; audit a shorter time");
                self.report.unjudged.push((at * SECOND - 1, through, why));
                self.judged.push((after, at * SECOND - 1));
                return;
            }
            self.instant(at * SECOND, segment.revision, before);
            before = Some(at * SECOND);
        }
        for (at, count) in timetables.iter().flat_map(|t| t.left_out(first, last)) {
            self.gap(at * SECOND, count);
        }
        self.judged.push((after, through));
    }

    fn instant(&mut self, at: i64, revision: u32, before: Option<i64>) {
        self.report.expected += 1;
        let room = before.map_or(i64::MAX, |before| at - before);
        if let Some(hole) = self.holes.last_mut()
            && Some(hole.at_us) == before
        {
            hole.room_us = hole.room_us.min(room);
        }
        let in_range = self.covering(at);
        let mut single = self.single.remove(&at).unwrap_or_default();
        single.retain(|decided| decided.reason != REMOVED || !in_range);
        let fired = self.fired.remove(&at).unwrap_or_default();
        let runs = fired
            .iter()
            .skip(1)
            .map(|twice| (at, Record::Run(twice.run)));
        self.again.extend(runs);
        let kept = usize::from(!in_range);
        for twice in single.iter().skip(kept).filter(|d| d.reason != REMOVED) {
            let record = Record::Decision(twice.reason.clone());
            self.again.push((at, record));
        }
        // A run beside a decision was asked for later.
        if !fired.is_empty() {
            self.report.with_run += 1;
        } else if in_range || !single.is_empty() {
            self.report.with_decision += 1;
        } else if self.holes.len() < MAX_HOLES {
            self.holes.push(Hole {
                at_us: at,
                revision,
                room_us: room,
            });
        } else {
            self.report.finding_count += 1;
        }
    }

    /// Counts an instant in the ranges that hold it.
    fn covering(&mut self, at: i64) -> bool {
        while self
            .ranges
            .get(self.next)
            .is_some_and(|r| r.decided.from_us <= at)
        {
            self.open.push(self.next);
            self.next += 1;
        }
        let ranges = &mut self.ranges;
        self.open.retain(|n| at <= ranges[*n].decided.to_us);
        for n in &self.open {
            let range = &mut ranges[*n];
            range.counted += 1;
            range.ends = Some((range.ends.map_or(at, |(first, _)| first), at));
        }
        !self.open.is_empty()
    }

    fn gap(&mut self, at_us: i64, count: u64) {
        match self.gaps.get_mut(&(at_us, count)) {
            Some(left) if *left > 0 => *left -= 1,
            _ => self.findings.push(Finding::GapUnrecorded { at_us, count }),
        }
    }

    /// Whether the whole of `[from, to]` was judged.
    fn was_judged(&self, from: i64, to: i64) -> bool {
        let mut next = from;
        for (after, through) in &self.judged {
            if *after < next && next <= *through {
                if to <= *through {
                    return true;
                }
                next = *through + 1;
            }
        }
        false
    }

    /// What is left of the records has no instant.
    fn outside(&mut self) {
        let mut extra = std::mem::take(&mut self.again);
        for fired in std::mem::take(&mut self.fired).into_values().flatten() {
            let at = fired.at_us;
            // Where a revision has no schedules, whoever starts its runs says what they stand for.
            let asked = self.plans_nothing(fired.revision)
                || (!self.judged_by(at, fired.revision) && self.has(fired.revision, at));
            let unknown = !self.was_judged(at, at) && !self.knows(fired.revision);
            if !asked && !unknown {
                extra.push((at, Record::Run(fired.run)));
            }
        }
        for fired in std::mem::take(&mut self.beside) {
            let known = self.knows(fired.revision) && !self.plans_nothing(fired.revision);
            if known && !self.has(fired.revision, fired.at_us) {
                extra.push((fired.at_us, Record::Run(fired.run)));
            }
        }
        for (at, decided) in std::mem::take(&mut self.single) {
            if self.was_judged(at, at) {
                let records = decided.iter().map(|d| Record::Decision(d.reason.clone()));
                extra.extend(records.map(|record| (at, record)));
            }
        }
        for ((at_us, _), left) in std::mem::take(&mut self.gaps) {
            if left > 0 && self.was_judged(at_us, at_us) {
                extra.push((at_us, Record::Decision(GAP.into())));
            }
        }
        for range in std::mem::take(&mut self.ranges) {
            self.range(&range, &mut extra);
        }
        extra.sort_by_key(|(at, _)| *at);
        self.pair(extra);
    }

    fn range(&mut self, range: &Range<'_>, extra: &mut Vec<(i64, Record)>) {
        let Decided {
            from_us,
            to_us,
            count,
            ref reason,
        } = *range.decided;
        if !self.was_judged(from_us, to_us) {
            return;
        }
        let (first, last) = range.ends.unzip();
        let odd: Vec<(i64, Option<i64>)> = [(from_us, first), (to_us, last)]
            .into_iter()
            .filter(|(end, instant)| Some(*end) != *instant)
            .collect();
        let record = || Record::Decision(reason.clone());
        for (end, instant) in &odd {
            match instant.filter(|at| (end - at).abs() <= MAX_MOVE_US) {
                // It counts right and ends wrong: its end was moved outwards.
                Some(planned_us) if range.counted == count => {
                    self.findings.push(Finding::Moved {
                        planned_us,
                        recorded_us: *end,
                        record: record(),
                    });
                }
                _ => extra.push((*end, record())),
            }
        }
        // An end that was moved inwards is counted, but no instant is.
        if range.counted != count && range.counted + odd.len() as u64 != count {
            self.findings.push(Finding::Miscounted {
                from_us,
                to_us,
                reason: reason.clone(),
                recorded: count,
                expected: range.counted,
            });
        }
    }

    /// Joins a record without an instant to an instant without a record where one is the other,
    /// moved.
    fn pair(&mut self, extra: Vec<(i64, Record)>) {
        let mut holes: BTreeMap<i64, Hole> = std::mem::take(&mut self.holes)
            .into_iter()
            .map(|hole| (hole.at_us, hole))
            .collect();
        for (at, record) in extra {
            let near = holes.range(at - MAX_MOVE_US..=at + MAX_MOVE_US);
            let near = near
                .filter(|(_, hole)| (hole.at_us - at).abs() <= hole.room_us / 2)
                .min_by_key(|(_, hole)| (hole.at_us - at).abs())
                .map(|(planned, _)| *planned);
            match near {
                Some(planned_us) => {
                    holes.remove(&planned_us);
                    self.findings.push(Finding::Moved {
                        planned_us,
                        recorded_us: at,
                        record,
                    });
                }
                None if self.after_us < at && at <= self.through_us => {
                    self.findings.push(Finding::Extra { at_us: at, record });
                }
                // Outside of what is asked for.
                None => {}
            }
        }
        let missing = holes.into_values().map(|hole| Finding::Missing {
            at_us: hole.at_us,
            revision: hole.revision,
        });
        self.findings.extend(missing);
    }

    /// Whether the instant belongs to a segment of this revision, so that its trigger wrote the run.
    fn judged_by(&self, at: i64, revision: u32) -> bool {
        let mut segments = self.ledger.segments.iter();
        segments.any(|s| s.revision == revision && s.after_us < at && at <= s.through_us)
    }

    fn knows(&self, revision: u32) -> bool {
        self.ledger.revisions.contains_key(&revision)
    }

    /// Whether it is known that a revision has no schedule.
    fn plans_nothing(&self, revision: u32) -> bool {
        let timetables = self.ledger.revisions.get(&revision);
        timetables.is_some_and(Vec::is_empty)
    }

    /// Whether a revision's schedules name an instant.
    fn has(&self, revision: u32, at: i64) -> bool {
        let second = at.div_euclid(SECOND);
        let timetables = self.ledger.revisions.get(&revision);
        at % SECOND == 0
            && timetables.is_some_and(|all| union(all, second - 1, second).next().is_some())
    }

    /// Instants after the last segment that nobody has decided.
    fn undecided(&mut self) {
        let Some(present) = &self.ledger.present else {
            return;
        };
        let after = present.after_us.max(self.after_us);
        if after >= self.through_us {
            return;
        }
        match &present.timetables {
            Ok(timetables) => {
                let (first, last) = (after.div_euclid(SECOND), self.through_us.div_euclid(SECOND));
                for at in union(timetables, first, last) {
                    self.report.finding_count += u64::from(self.findings.len() >= MAX_FINDINGS);
                    if self.findings.len() < MAX_FINDINGS {
                        self.findings
                            .push(Finding::Undecided { at_us: at * SECOND });
                    }
                }
            }
            Err(why) => {
                let why = format!("revision {}: {why}", present.revision);
                self.report.unjudged.push((after, self.through_us, why));
            }
        }
    }

    fn report(mut self) -> Report {
        self.findings.sort_by_key(Finding::at_us);
        self.report.finding_count += self.findings.len() as u64;
        self.findings.truncate(MAX_FINDINGS);
        self.report.findings = self.findings;
        self.report
    }
}

/// The instants of several timetables as one row, each once.
pub fn union(timetables: &[Timetable], after: i64, through: i64) -> Union<'_> {
    let each = timetables
        .iter()
        .map(|t| t.instants(after, through).peekable());
    Union {
        each: each.collect(),
    }
}

/// See [`union`].
#[derive(Debug)]
pub struct Union<'a> {
    each: Vec<Peekable<Kept<'a>>>,
}

impl Iterator for Union<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let next = self
            .each
            .iter_mut()
            .filter_map(|one| one.peek().copied())
            .min()?;
        for one in &mut self.each {
            one.next_if_eq(&next);
        }
        Some(next)
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
