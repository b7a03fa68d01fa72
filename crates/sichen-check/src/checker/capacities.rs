//! Capacities: what grants take and ends give back, against the limits in force (I32, I33) and the rows
//! of what is held.
//!
//! Events are added up in the order of the log. Grants of one capacity are written under its lock, so
//! their order there is that of their commits in every store; an end that a grant has counted on was
//! committed before it, and stands before it.
//!
//! # Not here
//! The moves of shards ([`crate::fold::shard`]).

use std::collections::BTreeMap;

use jiff::Timestamp;
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::{ShardKey, Token};
use sichen_core::lifecycle::ShardState;
use sichen_core::model::{Hold, Shard};
use sichen_core::name::Name;

use super::Checker;
use crate::data::{Fields, Rate};
use crate::fold::Broken;
use crate::verdict::{Invariant, Sight, Step};

/// What one attempt holds, by capacity.
type Uses = BTreeMap<String, u64>;

#[derive(Debug, Default)]
struct Limits {
    units: Option<u64>,
    rate: Option<Rate>,
    /// Points above what the rate has brought since, and when: see [`Held::rate`].
    excess: i128,
    at: Option<Timestamp>,
}

/// What is held as the log has it.
#[derive(Debug, Default)]
pub(super) struct Held {
    limits: BTreeMap<String, Limits>,
    running: BTreeMap<ShardKey, (Token, Uses)>,
    /// Of attempts that nobody has confirmed dead, with the instant from which on they count no more.
    lingering: BTreeMap<(ShardKey, Token), (Timestamp, Uses)>,
    used: BTreeMap<String, u64>,
    /// The rows, and the running shards among the rows.
    rows: Vec<Hold>,
    shards: BTreeMap<ShardKey, Token>,
    last: Option<Timestamp>,
}

impl Held {
    fn take(&mut self, uses: &Uses) {
        for (name, units) in uses {
            *self.used.entry(name.clone()).or_default() += units;
        }
    }

    fn give(&mut self, uses: &Uses) {
        for (name, units) in uses {
            let used = self.used.entry(name.clone()).or_default();
            *used = used.saturating_sub(*units);
        }
    }

    /// What lingered until `now` counts no more.
    fn expire(&mut self, now: Timestamp) {
        let over: Vec<(ShardKey, Token)> = self
            .lingering
            .iter()
            .filter(|(_, (until, _))| *until <= now)
            .map(|(key, _)| *key)
            .collect();
        for key in over {
            if let Some((_, uses)) = self.lingering.remove(&key) {
                self.give(&uses);
            }
        }
    }

    /// A grant takes tokens: in no stretch of time may more be taken than the rate brings in it and one
    /// burst. What was taken above what came since falls with time and must stay within the burst.
    fn rate(&mut self, name: &str, tokens: u64, at: Timestamp) -> Option<String> {
        let limits = self.limits.get_mut(name)?;
        let rate = limits.rate?;
        let since = limits.at.map_or(0, |before| {
            at.as_microsecond().saturating_sub(before.as_microsecond())
        });
        let brought = i128::from(since) * i128::from(rate.count);
        limits.excess = (limits.excess - brought).max(0);
        limits.excess += i128::from(tokens) * i128::from(rate.per_us);
        limits.at = Some(at);
        let burst = i128::from(rate.burst) * i128::from(rate.per_us);
        (limits.excess > burst).then(|| {
            format!(
                "more of {name} was taken at {at} than {} tokens every {} µs and a burst of {}",
                rate.count, rate.per_us, rate.burst
            )
        })
    }

    fn units(&self, name: &str) -> Option<String> {
        let limit = self.limits.get(name)?.units?;
        let used = self.used.get(name).copied().unwrap_or(0);
        (used > limit).then(|| format!("{used} of {name} are held where the limit is {limit}"))
    }
}

impl Checker {
    /// Adds an event up, in the order of the log.
    pub(super) fn count_held(&mut self, event: &Event) {
        let counted = matches!(
            event.kind,
            Kind::CapacityApplied
                | Kind::CapacityDeleted
                | Kind::AttemptGranted
                | Kind::AttemptEnded
        );
        if !counted {
            return;
        }
        let Ok(data) = Fields::of(event) else {
            return;
        };
        match (&event.entity, event.kind) {
            (Entity::Capacity(name), Kind::CapacityApplied) => {
                let limits = Limits {
                    units: data.units,
                    rate: data.rate,
                    excess: 0,
                    at: None,
                };
                self.held.limits.insert(name.to_string(), limits);
            }
            (Entity::Capacity(name), _) => drop(self.held.limits.remove(name.as_str())),
            (Entity::Shard(key), Kind::AttemptGranted) if !data.uses.is_empty() => {
                self.granted(*key, event, data.uses);
            }
            (Entity::Shard(key), Kind::AttemptEnded) => {
                let Some((token, uses)) = self.held.running.remove(key) else {
                    return;
                };
                match data.held_until {
                    None => self.held.give(&uses),
                    Some(until) => {
                        self.held.lingering.insert((*key, token), (until, uses));
                    }
                }
            }
            _ => {}
        }
        self.held.last = self.held.last.max(Some(event.at));
    }

    fn granted(&mut self, key: ShardKey, event: &Event, uses: Uses) {
        self.saw(Sight::Held);
        self.held.expire(event.at);
        let token = event.token.unwrap_or_default();
        self.held.take(&uses);
        let mut wrong = Vec::new();
        for (name, tokens) in &uses {
            let units = self.held.units(name);
            wrong.extend(units.map(|text| Broken(Invariant::I32, text)));
            let rate = self.held.rate(name, *tokens, event.at);
            wrong.extend(rate.map(|text| Broken(Invariant::I33, text)));
        }
        if let Some((_, former)) = self.held.running.insert(key, (token, uses)) {
            self.held.give(&former);
        }
        for broken in wrong {
            self.report(Entity::Shard(key), broken, vec![Step::of(event)]);
        }
    }

    pub(super) fn hold_row(&mut self, hold: &Hold) {
        self.held.rows.push(hold.clone());
    }

    pub(super) fn note_held_shard(&mut self, shard: &Shard) {
        if shard.state == ShardState::Running {
            self.held.shards.insert(shard.key, shard.token);
        }
    }

    /// What is held is what running attempts use, or was used by one that nobody has confirmed dead.
    pub(super) fn judge_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        let mut rows: BTreeMap<(ShardKey, Token), Uses> = BTreeMap::new();
        let mut leaked = Vec::new();
        for hold in &held.rows {
            let of = rows.entry((hold.key, hold.token)).or_default();
            of.insert(hold.capacity.to_string(), u64::from(hold.units));
            let running = held.shards.get(&hold.key) == Some(&hold.token);
            if hold.until.is_none() && !running {
                leaked.push((hold.key, told(hold, "its attempt does not run")));
            } else if running && !self.options.partial {
                let used = held.running.get(&hold.key);
                let used = used.filter(|(token, _)| *token == hold.token);
                let used = used.and_then(|(_, uses)| uses.get(hold.capacity.as_str()));
                if used != Some(&u64::from(hold.units)) {
                    leaked.push((hold.key, told(hold, "its grant does not say so")));
                }
            }
        }
        for (key, (token, uses)) in &held.running {
            if held.shards.get(key) == Some(token) && rows.get(&(*key, *token)) != Some(uses) {
                leaked.push((
                    *key,
                    "its attempt runs, and what it uses is not held".to_owned(),
                ));
            }
        }
        for ((key, token), (until, _)) in &held.lingering {
            let counts = held.last.is_some_and(|last| *until > last);
            if counts && !rows.contains_key(&(*key, *token)) {
                let text = format!("what its lost attempt held is free before {until}");
                leaked.push((*key, text));
            }
        }
        for (key, text) in leaked {
            self.report(Entity::Shard(key), Broken(Invariant::I32, text), Vec::new());
        }
    }
}

fn told(hold: &Hold, why: &str) -> String {
    let Hold {
        capacity, units, ..
    } = hold;
    let capacity: &Name = capacity;
    format!(
        "{units} of {capacity} are held under token {}, and {why}",
        hold.token
    )
}
