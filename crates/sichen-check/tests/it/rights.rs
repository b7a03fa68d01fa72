//! Faults of who may do what and when: before its time, without the right to, after it was over.
//!
//! # Not here
//! The list of faults, and that each is named ([`crate::faults`]).

use jiff::SignedDuration;
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::Occasion;
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::{RunState, StopCause};

use crate::faults::{at_ver, data, find, set_data};
use crate::history::{History, Rng};

/// Writes an event of `entity` before the one at `n`, and renumbers what follows; `change` makes it.
fn insert_before(h: &mut History, n: usize, entity: &Entity, change: impl Fn(&mut Event)) {
    let later = h.dump.events[n..].iter();
    let next = later
        .filter(|e| e.entity == *entity && e.ver > 0)
        .map(|e| e.ver)
        .min();
    let last = h
        .dump
        .events
        .iter()
        .filter(|e| e.entity == *entity)
        .map(|e| e.ver)
        .max();
    let ver = next.unwrap_or_else(|| last.unwrap_or(0) + 1);
    let of = |e: &&mut Event| e.entity == *entity && e.ver >= ver;
    h.dump.events.iter_mut().filter(of).for_each(|e| e.ver += 1);
    match entity {
        Entity::Job(uid) => h
            .dump
            .jobs
            .iter_mut()
            .filter(|j| j.uid == *uid)
            .for_each(|j| j.ver += 1),
        Entity::Run(id) => h
            .dump
            .runs
            .iter_mut()
            .filter(|r| r.id == *id)
            .for_each(|r| r.ver += 1),
        _ => {}
    }
    let mut event = h.dump.events[n].clone();
    event.entity = entity.clone();
    (event.ver, event.duty, event.attempt, event.token) = (ver, None, None, None);
    event.data = "{}".to_owned();
    change(&mut event);
    h.dump.events.insert(n, event);
}

pub fn come_early(h: &mut History, rng: &mut Rng) -> bool {
    let Some(n) = find(h, rng, |e| e.kind == Kind::RunCreated) else {
        return false;
    };
    let event = &mut h.dump.events[n];
    let key = data(event, "occasion").as_str().expect("a key").to_owned();
    let Some(Occasion::Planned { at, .. }) = Occasion::parse(&key) else {
        return false;
    };
    event.at = at - SignedDuration::from_mins(1);
    true
}

pub fn use_old_revision(h: &mut History, rng: &mut Rng) -> bool {
    let Some(n) = find(h, rng, |e| e.kind == Kind::RunCreated) else {
        return false;
    };
    set_data(&mut h.dump.events[n], "revision", 7.into());
    true
}

pub fn take_as_released(h: &mut History, rng: &mut Rng) -> bool {
    let Some(n) = find(h, rng, |e| e.kind == Kind::DutyAcquired) else {
        return false;
    };
    h.dump.events[n].cause = "released".to_owned();
    true
}

fn is_takeover(e: &Event) -> bool {
    e.kind == Kind::DutyAcquired && e.cause == "expired"
}

/// The lease of who had it runs for another second.
pub fn take_too_early(h: &mut History, rng: &mut Rng) -> bool {
    let Some(n) = find(h, rng, is_takeover) else {
        return false;
    };
    let event = &mut h.dump.events[n];
    let end = event.at + SignedDuration::from_secs(1);
    set_data(event, "lease_end", end.as_microsecond().into());
    true
}

/// A node from which a duty was taken as from a dead one takes another, ten seconds later.
pub fn take_after_death(h: &mut History, rng: &mut Rng) -> bool {
    let Some(n) = find(h, rng, |e| is_takeover(e) && e.ver == 2) else {
        return false;
    };
    let mut event = h.dump.events[n].clone();
    let last = h.dump.events.last().expect("at least that one");
    event.seq = last.seq + 1;
    event.at = last.at + SignedDuration::from_secs(10);
    event.entity = Entity::Duty("janitor".to_owned());
    (event.ver, event.cause) = (1, "first".to_owned());
    event.data = r#"{"node":1,"term":1}"#.to_owned();
    h.dump.events.push(event);
    true
}

pub fn grant_to_the_dead(h: &mut History, rng: &mut Rng) -> bool {
    let Some(over) = find(h, rng, |e| e.kind == Kind::SessionEnded) else {
        return false;
    };
    let Entity::Session(dead) = h.dump.events[over].entity else {
        return false;
    };
    // A checkpoint under it would be another fault.
    let ends_next = |e: &Event| {
        at_ver(h, &e.entity, e.ver + 1).is_some_and(|n| h.dump.events[n].kind == Kind::AttemptEnded)
    };
    let from = h.dump.events[over].seq;
    let pick = |e: &Event| e.kind == Kind::AttemptGranted && e.seq > from && ends_next(e);
    let Some(n) = find(h, rng, pick) else {
        return false;
    };
    set_data(&mut h.dump.events[n], "session", dead.0.into());
    true
}

pub fn overlap_ranges(h: &mut History, rng: &mut Rng) -> bool {
    let n = rng.below(h.dump.shards.len());
    let shard = &mut h.dump.shards[n];
    let Descriptor::Range { from, .. } = &mut shard.descriptor else {
        return false;
    };
    *from -= 1;
    shard.key.no.0 > 0
}

pub fn fire_while_paused(h: &mut History, rng: &mut Rng) -> bool {
    let fires = |e: &Event| {
        e.kind == Kind::ScheduleAdvanced
            && data(e, "runs")
                .as_array()
                .is_some_and(|runs| !runs.is_empty())
    };
    let Some(n) = find(h, rng, fires) else {
        return false;
    };
    let entity = h.dump.events[n].entity.clone();
    insert_before(h, n, &entity, |e| {
        (e.kind, e.to) = (Kind::JobPaused, "paused".to_owned());
    });
    true
}

pub fn grant_after_stop(h: &mut History, rng: &mut Rng) -> bool {
    let n = rng.below(h.dump.runs.len());
    let run = &h.dump.runs[n];
    if run.round > 1 || run.stop.is_some() {
        return false;
    }
    let (id, state) = (run.id, RunState::Running.word());
    let of = |e: &Event| matches!(&e.entity, Entity::Shard(key) if key.run == id);
    let granted = |e: &Event| e.kind == Kind::AttemptGranted && of(e);
    let Some(last) = h.dump.events.iter().rposition(granted) else {
        return false;
    };
    let at = h.dump.events[last].at;
    h.dump.runs[n].stop = Some((StopCause::Cancel, at));
    let started = at_ver(h, &Entity::Run(id), 2).is_some_and(|n| n < last);
    insert_before(h, last, &Entity::Run(id), |e| {
        (e.from, e.to) = (state.to_owned(), state.to_owned());
        (e.kind, e.cause) = (Kind::StopRequested, "cancel".to_owned());
    });
    started
}

pub fn decide_after_deletion(h: &mut History, rng: &mut Rng) -> bool {
    let Some(n) = find(h, rng, |e| e.kind == Kind::ScheduleAdvanced) else {
        return false;
    };
    let entity = h.dump.events[n].entity.clone();
    insert_before(h, n, &entity, |e| {
        (e.kind, e.to) = (Kind::JobDeleted, "deleted".to_owned());
    });
    true
}
