//! Workers' slots: what sessions hold, against what they registered with (I22).
//!
//! Events are added up in the order of the log. Grants of one session are written under its lock, so
//! their order there is that of their commits in every store; an end that a grant has counted on was
//! committed before it, and stands before it.
//!
//! # Not here
//! Labels and resources, which the log does not have.

use std::collections::BTreeMap;

use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::{SessionId, ShardKey};

use super::Checker;
use crate::data::Fields;
use crate::fold::Broken;
use crate::verdict::{Invariant, Step};

/// What sessions hold as the log has it.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Of those whose registration is in the log.
    sessions: BTreeMap<SessionId, Session>,
    holders: BTreeMap<ShardKey, SessionId>,
}

#[derive(Debug)]
struct Session {
    slots: u64,
    held: u64,
    /// Whether it was told of: once says it all.
    told: bool,
}

impl Slots {
    /// Why the session has no room for this.
    fn give(&mut self, key: ShardKey, session: SessionId) -> Option<String> {
        self.free(key);
        let of = self.sessions.get_mut(&session)?;
        of.held += 1;
        self.holders.insert(key, session);
        let (held, slots) = (of.held, of.slots);
        let over = held > slots && !of.told;
        of.told |= over;
        over.then(|| format!("session {session} holds {held} shards in {slots} slots"))
    }

    fn free(&mut self, key: ShardKey) {
        let holder = self.holders.remove(&key);
        if let Some(of) = holder.and_then(|session| self.sessions.get_mut(&session)) {
            of.held = of.held.saturating_sub(1);
        }
    }
}

impl Checker {
    /// Adds an event up, in the order of the log.
    pub(super) fn count_slots(&mut self, event: &Event) {
        let wrong = match (&event.entity, event.kind) {
            (Entity::Session(id), Kind::SessionRegistered) => {
                let slots = Fields::of(event).ok().and_then(|data| data.slots);
                if let Some(slots) = slots {
                    let session = Session {
                        slots,
                        held: 0,
                        told: false,
                    };
                    self.slots.sessions.insert(*id, session);
                }
                None
            }
            (Entity::Shard(key), Kind::AttemptGranted) => {
                let session = Fields::of(event).ok().and_then(|data| data.session);
                session.and_then(|id| self.slots.give(*key, SessionId(id)))
            }
            (Entity::Shard(key), Kind::AttemptEnded) => {
                self.slots.free(*key);
                None
            }
            _ => None,
        };
        if let Some(text) = wrong {
            let broken = Broken(Invariant::I22, text);
            self.report(event.entity.clone(), broken, vec![Step::of(event)]);
        }
    }
}
