//! One schedule of a job: a rule, a zone, and the bounds within which it holds.
//!
//! # Invariants
//! - A schedule that exists can fire, at least before its bounds are applied: an expression that
//!   never matches, an unknown zone or an empty period is refused when it is built.
//! - `next` and `prev` are strict and honour the bounds; `count` agrees with walking.
//!
//! # Not here
//! Several schedules together (`super::union`), what to do with what was missed (`super::due`).

use std::sync::Arc;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::calendar::{self, Calendar, MAX_DAYS, MAX_OFF_RUN, Use, day_start, first_instant};
use super::cron::{self, Cron, Dialect, Fold, Gap};
use super::days::Days;
use super::follow::{Follow, Wait};
use super::tally::Tally;
use super::zone;

/// The longest period and delay: about a hundred years.
pub const MAX_PERIOD: SignedDuration = SignedDuration::from_hours(100 * 366 * 24);

/// Years after which each date has had each of its weekdays: if none of them counts, only a date that a
/// calendar lists can.
const CYCLE: i16 = 400;

/// Days beyond which no time can roll: the longest stretch off and one to spare on either side.
const ROLL_REACH: i64 = MAX_OFF_RUN as i64 + 2;

/// Why a schedule was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Cron(#[from] cron::Error),
    #[error("SC1120 unknown time zone `{0}`; write an IANA name such as `Asia/Shanghai`")]
    Zone(String),
    #[error(
        "SC1121 a period of {0:#} is refused; it is whole seconds, at least 1 s and at most 100 years"
    )]
    Period(SignedDuration),
    #[error("SC1122 the schedule ends ({end}) before it starts ({start})")]
    Bounds { start: Timestamp, end: Timestamp },
    #[error(
        "SC1117 the expression names the zone `{in_text}` and the schedule `{beside}`; keep one of them"
    )]
    TwoZones { in_text: String, beside: String },
    #[error("SC1128 the longest wait ({max:#}) is shorter than the first one ({min:#})")]
    Waits {
        min: SignedDuration,
        max: SignedDuration,
    },
    #[error(transparent)]
    Calendar(#[from] calendar::Error),
    #[error(
        "SC1124 only an expression with fixed times, at most {max} a day, can roll to another day; use working-days or days-off",
        max = calendar::MAX_ROLLED_TIMES
    )]
    Rolled,
}

/// What makes the instants.
#[derive(Debug, Clone)]
pub enum Rule {
    /// Matches of an expression.
    Cron(Cron),
    /// A grid in elapsed time: `anchor` plus every multiple of `period`, in both directions.
    Every {
        period: SignedDuration,
        anchor: Timestamp,
    },
    /// Once.
    At(Timestamp),
    /// Some time after the last run has ended. It has no instants of its own: the job's
    /// [`Chain`](super::follow::Chain) has the next one, and hands it over as [`super::DueInput::pending`].
    Follows(Wait),
}

/// One schedule of a job.
#[derive(Debug, Clone)]
pub struct Schedule {
    rule: Rule,
    zone: TimeZone,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
    days: Option<Days>,
}

impl Schedule {
    /// An expression in a zone. `hash` spreads `H`: see [`super::hash_of_key`].
    ///
    /// `@every` counts from `anchor`, which must be stored with the job.
    ///
    /// # Errors
    /// A mistake in the expression, one that never matches, an unknown zone, or two zones.
    pub fn cron(
        text: &str,
        dialect: Dialect,
        zone: &str,
        hash: Option<u64>,
        anchor: Timestamp,
    ) -> Result<Schedule, Error> {
        let cron = Cron::parse_for_job(text, dialect, hash)?;
        let named = match cron.zone() {
            Some(in_text) if zone != in_text && zone != "UTC" => {
                return Err(Error::TwoZones {
                    in_text: in_text.into(),
                    beside: zone.into(),
                });
            }
            Some(in_text) => in_text,
            None => zone,
        };
        let zone = zone_by_name(named)?;
        if let Some(period) = cron.every() {
            return Schedule::every(period, anchor).map(|every| Schedule { zone, ..every });
        }
        Ok(Schedule {
            rule: Rule::Cron(cron),
            zone,
            start: None,
            end: None,
            days: None,
        })
    }

    /// A fixed rate. The grid is `anchor` plus multiples of `period`; both are cut to whole seconds.
    ///
    /// # Errors
    /// A period below a second, beyond [`MAX_PERIOD`], or with a fraction of a second.
    pub fn every(period: SignedDuration, anchor: Timestamp) -> Result<Schedule, Error> {
        check_period(period)?;
        let anchor = zone::instant(zone::floor(anchor));
        Ok(Schedule {
            rule: Rule::Every { period, anchor },
            zone: TimeZone::UTC,
            start: None,
            end: None,
            days: None,
        })
    }

    /// One instant, cut to a whole second.
    pub fn at(instant: Timestamp) -> Schedule {
        let instant = zone::instant(zone::floor(instant));
        Schedule {
            rule: Rule::At(instant),
            zone: TimeZone::UTC,
            start: None,
            end: None,
            days: None,
        }
    }

    /// A fixed delay after the last run.
    ///
    /// # Errors
    /// As [`Schedule::every`].
    pub fn after(delay: SignedDuration) -> Result<Schedule, Error> {
        check_period(delay)?;
        Ok(Schedule {
            rule: Rule::Follows(Wait::Delay(delay)),
            zone: TimeZone::UTC,
            start: None,
            end: None,
            days: None,
        })
    }

    /// Always one run: a new one at once after the last. After failures in a row it waits `min`,
    /// twice that and so on, at most `max`.
    ///
    /// # Errors
    /// As [`Schedule::every`] for both; a `max` below `min`.
    pub fn continuous(min: SignedDuration, max: SignedDuration) -> Result<Schedule, Error> {
        check_period(max)?;
        if max < min {
            return Err(Error::Waits { min, max });
        }
        let rule = Rule::Follows(Wait::Continuous { min, max });
        Schedule::after(min).map(|after| Schedule { rule, ..after })
    }

    /// The same with another policy for clock changes; without effect on rules other than cron.
    #[must_use]
    pub fn with_policy(mut self, gap: Gap, fold: Fold) -> Schedule {
        if let Rule::Cron(cron) = self.rule {
            self.rule = Rule::Cron(cron.with_gap(gap).with_fold(fold));
        }
        self
    }

    /// The same within `[start, end)`.
    ///
    /// # Errors
    /// An end that is not after the start.
    pub fn within(
        mut self,
        start: Option<Timestamp>,
        end: Option<Timestamp>,
    ) -> Result<Schedule, Error> {
        if let (Some(start), Some(end)) = (start, end)
            && end <= start
        {
            return Err(Error::Bounds { start, end });
        }
        (self.start, self.end) = (start, end);
        Ok(self)
    }

    /// The same on the days of a calendar only, or rolled to them.
    ///
    /// # Errors
    /// A calendar that is refused, or rolling of what follows elapsed time or is too frequent.
    pub fn on(self, calendar: Arc<Calendar>, usage: Use) -> Result<Schedule, Error> {
        calendar.check()?;
        self.on_days(Days::new(vec![(calendar, usage)])?)
    }

    /// The same on the days that several calendars let through together, or rolled to them.
    ///
    /// # Errors
    /// Rolling of what follows elapsed time or is too frequent.
    pub fn on_days(mut self, days: Days) -> Result<Schedule, Error> {
        if days.roll().is_some() && !self.can_roll() {
            return Err(Error::Rolled);
        }
        self.days = Some(days);
        Ok(self)
    }

    /// Whether its times are fixed and few enough to move to another day.
    #[must_use]
    pub fn can_roll(&self) -> bool {
        match &self.rule {
            Rule::Cron(cron) => {
                cron.class() == cron::Class::Fixed
                    && cron.times_per_day() <= calendar::MAX_ROLLED_TIMES
            }
            _ => false,
        }
    }

    /// The same with its civil times shown in a zone.
    ///
    /// # Errors
    /// An unknown zone.
    pub fn shown_in(mut self, zone: &str) -> Result<Schedule, Error> {
        self.zone = zone_by_name(zone)?;
        Ok(self)
    }

    /// The same in a zone as a job knows it: see [`super::zones`].
    #[must_use]
    pub(crate) fn in_zone(self, zone: TimeZone) -> Schedule {
        Schedule { zone, ..self }
    }

    /// Whether its instants depend on its zone.
    #[must_use]
    pub(crate) fn goes_by_the_wall_clock(&self) -> bool {
        let utc = self.zone.iana_name().is_none_or(|name| name == "UTC");
        !utc && matches!(self.rule, Rule::Cron(_))
    }

    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Whether an instant lies within its bounds.
    pub(super) fn holds_at(&self, at: Timestamp) -> bool {
        self.start.is_none_or(|start| at >= start) && self.end.is_none_or(|end| at < end)
    }

    /// The days it keeps to, if it has calendars.
    pub fn days(&self) -> Option<&Days> {
        self.days.as_ref()
    }

    /// The first planned instant strictly after `after`.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = match self.start {
            // The start itself counts.
            Some(start) if start > after => {
                Timestamp::from_nanosecond(start.as_nanosecond() - 1).ok()?
            }
            _ => after,
        };
        self.next_unbounded(after)
            .filter(|at| self.end.is_none_or(|end| *at < end))
    }

    /// The last planned instant strictly before `before`.
    pub fn prev(&self, before: Timestamp) -> Option<Timestamp> {
        let before = self.end.map_or(before, |end| end.min(before));
        self.prev_unbounded(before)
            .filter(|at| self.start.is_none_or(|start| *at >= start))
    }

    /// The last instant of the rule strictly before `before`, whatever the bounds: where the period
    /// of a first run begins.
    pub fn prev_unbounded(&self, before: Timestamp) -> Option<Timestamp> {
        match &self.days {
            None => self.rule_prev(before),
            Some(days) if days.roll().is_some() => {
                let mut date = self.zone.to_datetime(before).date();
                for day in 1..=MAX_DAYS {
                    let found = self.rolled_on(date, days);
                    if let Some(at) = found.into_iter().rev().find(|at| *at < before) {
                        return Some(at);
                    }
                    date = date.checked_sub(1.day()).ok()?;
                    if day % MAX_OFF_RUN == 0 {
                        // Nothing rolls further than this from the rule's own last date.
                        let near = date.checked_add(ROLL_REACH.days()).ok()?;
                        let own = self.named_date(near, false)?;
                        date = date.min(own.checked_add(ROLL_REACH.days()).ok()?);
                    }
                }
                None
            }
            Some(days) => {
                let (mut before, mut first) = (before, None);
                for _ in 0..MAX_DAYS {
                    let at = self.rule_prev(before)?;
                    let date = self.zone.to_datetime(at).date();
                    if days.none_beyond(date, true) {
                        return None;
                    }
                    if days.keeps(date) {
                        return Some(at);
                    }
                    before = day_start(date, &self.zone)?.min(at);
                    if *first.get_or_insert(date.year()) - date.year() > CYCLE {
                        let listed = days.listed(date, false)?.tomorrow().ok()?;
                        before = day_start(listed, &self.zone)?.min(before);
                        first = None;
                    }
                }
                None
            }
        }
    }

    fn rule_prev(&self, before: Timestamp) -> Option<Timestamp> {
        match &self.rule {
            Rule::Cron(cron) => cron.prev(before, &self.zone),
            Rule::Every { period, anchor } => {
                let steps =
                    (zone::ceil(before) - anchor.as_second() - 1).div_euclid(period.as_secs());
                grid(*anchor, *period, steps)
            }
            Rule::At(instant) => (*instant < before).then_some(*instant),
            Rule::Follows(_) => None,
        }
    }

    fn next_unbounded(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.days {
            None => self.rule_next(after),
            Some(days) if days.roll().is_some() => {
                let mut date = self.zone.to_datetime(after).date();
                for day in 1..=MAX_DAYS {
                    let found = self.rolled_on(date, days);
                    if let Some(at) = found.into_iter().find(|at| *at > after) {
                        return Some(at);
                    }
                    date = date.checked_add(1.day()).ok()?;
                    if day % MAX_OFF_RUN == 0 {
                        // Nothing rolls further than this from the rule's own next date.
                        let near = date.checked_sub(ROLL_REACH.days()).ok()?;
                        let own = self.named_date(near, true)?;
                        date = date.max(own.checked_sub(ROLL_REACH.days()).ok()?);
                    }
                }
                None
            }
            Some(days) => {
                let (mut after, mut first) = (after, None);
                for _ in 0..MAX_DAYS {
                    let at = self.rule_next(after)?;
                    let date = self.zone.to_datetime(at).date();
                    if days.none_beyond(date, false) {
                        return None;
                    }
                    if days.keeps(date) {
                        return Some(at);
                    }
                    let just_before = |date: Date| {
                        let start = day_start(date, &self.zone)?;
                        start.checked_sub(SignedDuration::from_nanos(1)).ok()
                    };
                    after = just_before(date.tomorrow().ok()?)?.max(at);
                    if date.year() - *first.get_or_insert(date.year()) > CYCLE {
                        after = just_before(days.listed(date, true)?)?.max(after);
                        first = None;
                    }
                }
                None
            }
        }
    }

    /// The planned instants of a date, its own and those rolled onto it, in order.
    fn rolled_on(&self, date: Date, days: &Days) -> Vec<Timestamp> {
        if !days.keeps(date) {
            return Vec::new();
        }
        let mut found = self.rule_on(date);
        let Rule::Cron(cron) = &self.rule else {
            return found;
        };
        for other in days.rolled_onto(date) {
            let times = cron.times_on(other).into_iter();
            found
                .extend(times.filter_map(|time| first_instant(date.to_datetime(time), &self.zone)));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The nearest date that the rule names, from `date` on or up to it.
    fn named_date(&self, date: Date, forward: bool) -> Option<Date> {
        match &self.rule {
            Rule::Cron(cron) => cron.named_date(date, forward),
            _ => None,
        }
    }

    /// The rule's own instants on a local date.
    fn rule_on(&self, date: Date) -> Vec<Timestamp> {
        if let Rule::Cron(cron) = &self.rule
            && !cron.may_touch(date)
        {
            return Vec::new();
        }
        let bounds = |date: Date| day_start(date, &self.zone);
        let (Some(start), Some(end)) = (
            bounds(date),
            date.checked_add(1.day()).ok().and_then(bounds),
        ) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        let mut at = zone::instant(start.as_second() - 1);
        while let Some(next) = self.rule_next(at).filter(|next| *next < end) {
            found.push(next);
            at = next;
        }
        found
    }

    pub(super) fn rule_next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.rule {
            Rule::Cron(cron) => cron.next(after, &self.zone),
            Rule::Every { period, anchor } => {
                let steps =
                    (zone::floor(after) - anchor.as_second()).div_euclid(period.as_secs()) + 1;
                grid(*anchor, *period, steps)
            }
            Rule::At(instant) => (*instant > after).then_some(*instant),
            Rule::Follows(_) => None,
        }
    }

    /// How many planned instants lie in `(after, through]`, by arithmetic.
    pub fn count(&self, after: Timestamp, through: Timestamp) -> u64 {
        let (Some(first), Some(beyond)) =
            (self.next(after), through.as_nanosecond().checked_add(1))
        else {
            return 0;
        };
        let Some(last) = Timestamp::from_nanosecond(beyond)
            .ok()
            .and_then(|beyond| self.prev(beyond))
        else {
            return 0;
        };
        if first > last {
            return 0;
        }
        match &self.days {
            None => self.rule_count(first, last),
            Some(days) if days.roll().is_some() => {
                let mut count = 1;
                let mut at = first;
                while let Some(next) = self.next(at).filter(|next| *next <= last) {
                    count += 1;
                    at = next;
                }
                count
            }
            Some(days) => self.count_kept(first, last, days),
        }
    }

    /// Counts stretch by stretch of days that are kept.
    fn count_kept(&self, first: Timestamp, last: Timestamp, days: &Days) -> u64 {
        let end = self.zone.to_datetime(last).date();
        let mut date = self.zone.to_datetime(first).date();
        let mut count = 0;
        let mut open: Option<Timestamp> = None;
        loop {
            let keeps = days.keeps(date);
            let start = day_start(date, &self.zone).unwrap_or(first).max(first);
            match (keeps, open) {
                (true, None) => open = Some(start),
                (false, Some(from)) => {
                    count += self.rule_count(from, zone::instant(start.as_second() - 1));
                    open = None;
                }
                _ => {}
            }
            match date.checked_add(1.day()) {
                Ok(next) if date < end => date = next,
                _ => break,
            }
        }
        count + open.map_or(0, |from| self.rule_count(from, last))
    }

    /// The rule's own instants from one second through another.
    pub(super) fn rule_count(&self, first: Timestamp, last: Timestamp) -> u64 {
        match &self.rule {
            Rule::Cron(cron) => cron.count(zone::instant(first.as_second() - 1), last, &self.zone),
            Rule::Every { period, anchor } => {
                let upto = |second: i64| (second - anchor.as_second()).div_euclid(period.as_secs());
                (upto(last.as_second()) - upto(first.as_second() - 1)).unsigned_abs()
            }
            Rule::At(instant) => u64::from(first <= *instant && *instant <= last),
            Rule::Follows(_) => 0,
        }
    }

    /// Marks the planned instants of the seconds `[from, to)`, which lie within the tally's day.
    pub(super) fn mark(&self, from: i64, to: i64, tally: &mut Tally) {
        let from = self.start.map_or(from, |start| zone::ceil(start).max(from));
        let to = self.end.map_or(to, |end| zone::ceil(end).min(to));
        match &self.days {
            _ if from >= to => {}
            None => self.rule_mark(from, to, tally),
            Some(days) if days.roll().is_some() => {
                let mut at = zone::instant(from - 1);
                while let Some(next) = self.next(at).filter(|next| next.as_second() < to) {
                    tally.set(next.as_second());
                    at = next;
                }
            }
            Some(days) => {
                // A UTC day touches at most a few local dates.
                let mut date = self.zone.to_datetime(zone::instant(from)).date();
                let mut at = from;
                while at < to {
                    let Ok(tomorrow) = date.checked_add(1.day()) else {
                        return;
                    };
                    let end = day_start(tomorrow, &self.zone)
                        .map_or(to, |start| start.as_second().min(to));
                    if days.keeps(date) {
                        self.rule_mark(at, end, tally);
                    }
                    (at, date) = (end.max(at), tomorrow);
                }
            }
        }
    }

    fn rule_mark(&self, from: i64, to: i64, tally: &mut Tally) {
        match &self.rule {
            Rule::Cron(cron) => cron.mark(from, to, &self.zone, tally),
            Rule::Every { period, anchor } => {
                let past = (from - anchor.as_second()).rem_euclid(period.as_secs());
                let mut at = if past == 0 {
                    from
                } else {
                    from + period.as_secs() - past
                };
                while at < to {
                    tally.set(at);
                    at += period.as_secs();
                }
            }
            Rule::At(instant) if (from..to).contains(&instant.as_second()) => {
                tally.set(instant.as_second())
            }
            Rule::At(_) | Rule::Follows(_) => {}
        }
    }

    /// What the job's chain needs of a schedule that follows its runs; `None` for other rules.
    pub fn follow(&self) -> Option<Follow> {
        match self.rule {
            Rule::Follows(wait) => Some(Follow {
                wait,
                start: self.start,
                end: self.end,
            }),
            _ => None,
        }
    }

    /// Clock changes in `(after, through]` at which fixed times fall out, and how many: see
    /// [`Cron::left_out`].
    pub fn left_out(
        &self,
        after: Timestamp,
        through: Timestamp,
        limit: usize,
    ) -> Vec<(Timestamp, u64)> {
        let Rule::Cron(cron) = &self.rule else {
            return Vec::new();
        };
        let mut found = cron.left_out(after, through, &self.zone, limit);
        found.retain(|(at, _)| self.holds_at(*at));
        found
    }

    /// The wall-clock time that stands for a planned instant of this schedule.
    pub fn nominal(&self, planned: Timestamp) -> DateTime {
        let moved = self.days.as_ref().is_some_and(|days| days.roll().is_some())
            && self.rule_next(zone::instant(zone::floor(planned) - 1)) != Some(planned);
        match &self.rule {
            // It came here from another day, not by a clock change.
            _ if moved => self.zone.to_datetime(planned),
            Rule::Cron(cron) => cron.nominal(planned, &self.zone),
            _ => self.zone.to_datetime(planned),
        }
    }
}

fn grid(anchor: Timestamp, period: SignedDuration, steps: i64) -> Option<Timestamp> {
    let at = steps
        .checked_mul(period.as_secs())?
        .checked_add(anchor.as_second())?;
    (zone::FIRST..=zone::LAST)
        .contains(&at)
        .then(|| zone::instant(at))
}

fn check_period(period: SignedDuration) -> Result<(), Error> {
    let fits = period >= SignedDuration::from_secs(1)
        && period <= MAX_PERIOD
        && period.subsec_nanos() == 0;
    if fits {
        Ok(())
    } else {
        Err(Error::Period(period))
    }
}

/// A zone of the built-in database.
///
/// # Errors
/// [`Error::Zone`]; nothing ever falls back to UTC.
pub fn zone_by_name(name: &str) -> Result<TimeZone, Error> {
    TimeZone::get(name).map_err(|_| Error::Zone(name.to_owned()))
}
