//! The times that a schedule's calendars take away or move: for people who ask why.
//!
//! # Invariants
//! - Bounded like a search: at most so many are told, and at most [`MAX_DAYS`] days looked at.
//!
//! # Not here
//! The planned times themselves ([`super::rule`]).

use jiff::Timestamp;

use super::calendar::{MAX_DAYS, day_start, first_instant};
use super::days::Why;
use super::rule::Schedule;
use super::zone;

/// A time that a calendar leaves out or moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Displaced<'a> {
    /// The rule's own instant.
    pub own: Timestamp,
    /// How many of that date there are like it, itself included; each is told where times move.
    pub count: u64,
    /// Where it goes; `None` if it does not run.
    pub to: Option<Timestamp>,
    /// Why.
    pub why: Why<'a>,
}

impl Schedule {
    /// The rule's own instants in `(after, through]` that its calendars leave out or move, oldest
    /// first, at most `limit`: of a day that is left out the first, of a day whose times move each.
    pub fn displaced(
        &self,
        after: Timestamp,
        through: Timestamp,
        limit: usize,
    ) -> Vec<Displaced<'_>> {
        let Some(days) = self.days() else {
            return Vec::new();
        };
        let (mut found, mut at) = (Vec::new(), after);
        for _ in 0..MAX_DAYS {
            let next = self.rule_next(at).filter(|own| *own <= through);
            let Some(own) = next.filter(|_| found.len() < limit) else {
                break;
            };
            let date = self.zone().to_datetime(own).date();
            let tomorrow = date.tomorrow().ok();
            let start = tomorrow.and_then(|day| day_start(day, self.zone()));
            let last = start.map_or(own, |start| zone::instant(start.as_second() - 1).max(own));
            let Some(why) = days.why_not(date) else {
                // The rest of a day that counts has nothing to tell.
                at = last;
                continue;
            };
            if days.roll().is_none() {
                if self.holds_at(own) {
                    let count = self.rule_count(own, last.min(through));
                    let to = None;
                    found.push(Displaced {
                        own,
                        count,
                        to,
                        why,
                    });
                }
                at = last;
                continue;
            }
            let time = self.nominal(own).time();
            let to = days.rolled_to(date);
            let to = to.and_then(|day| first_instant(day.to_datetime(time), self.zone()));
            let to = to.filter(|to| self.holds_at(*to));
            if to.is_some() || self.holds_at(own) {
                let count = 1;
                found.push(Displaced {
                    own,
                    count,
                    to,
                    why,
                });
            }
            at = own;
        }
        found
    }
}
