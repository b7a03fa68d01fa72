//! A blocked key keeps nothing else from being written.

use std::cell::RefCell;
use std::collections::BTreeSet;

use futures::executor::block_on;
use jiff::{SignedDuration, Timestamp};
use sichen_core::port::{Answer, Error};

use super::{Blocked, MAX_FOUND, told};

/// A store of numbers whose tens are their keys; some keys are held by another program.
#[derive(Default)]
struct Store {
    held: RefCell<BTreeSet<u32>>,
    spoilt: RefCell<BTreeSet<u32>>,
    calls: RefCell<Vec<Vec<u32>>>,
}

impl Store {
    fn write(&self, items: Vec<u32>) -> Answer<'static, Vec<u32>> {
        self.calls.borrow_mut().push(items.clone());
        let held = items.iter().any(|n| self.held.borrow().contains(&(n / 10)));
        let spoilt = items
            .iter()
            .any(|n| self.spoilt.borrow().contains(&(n / 10)));
        let answer = if held {
            Err(Error::Busy("held".into()))
        } else if spoilt {
            Err(Error::Corrupt("spoilt".into()))
        } else {
            Ok(items)
        };
        Box::pin(std::future::ready(answer))
    }

    fn calls(&self) -> Vec<Vec<u32>> {
        self.calls.take()
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}

fn write(blocked: &Blocked<u32>, store: &Store, items: &[u32], now: i64) -> Vec<Option<u32>> {
    let call = |items| store.write(items);
    block_on(blocked.write(items, |n| n / 10, || told(at(now)), call)).unwrap()
}

#[test]
fn what_is_not_blocked_goes_in_one_batch() {
    let (blocked, store) = (Blocked::default(), Store::default());
    assert_eq!(
        write(&blocked, &store, &[31, 10, 32], 0),
        [Some(31), Some(10), Some(32)]
    );
    assert_eq!(store.calls(), [vec![31, 10, 32]]);
}

#[test]
fn a_key_without_sense_keeps_only_its_own() {
    let (blocked, store) = (Blocked::default(), Store::default());
    // More than may be held: these cost no wait.
    let spoilt: Vec<u32> = (0..10).collect();
    store.spoilt.borrow_mut().extend(&spoilt);
    let items: Vec<u32> = (0..12).map(|key| key * 10).collect();
    let written = write(&blocked, &store, &items, 0);
    assert_eq!(written[..10], [None; 10]);
    assert_eq!(written[10..], [Some(100), Some(110)]);
    store.calls();
    assert_eq!(write(&blocked, &store, &[0, 100], 1), [None, Some(100)]);
    assert_eq!(store.calls(), [vec![100]], "it is left alone for a while");
}

#[test]
fn a_blocked_key_keeps_only_its_own_and_is_then_left_alone() {
    let (blocked, store) = (Blocked::default(), Store::default());
    store.held.borrow_mut().insert(2);
    let items = [10, 20, 30, 21];
    let written = [Some(10), None, Some(30), None];
    assert_eq!(write(&blocked, &store, &items, 0), written);
    assert_eq!(
        store.calls(),
        [vec![10, 20, 30, 21], vec![10], vec![20, 21], vec![30]]
    );
    assert!(blocked.is_paused(2, at(1)) && !blocked.is_paused(3, at(1)));
    assert_eq!(blocked.next(at(1)), Some(at(2)));
    // Nobody waits for it while it is paused; after that it is tried behind the others.
    assert_eq!(write(&blocked, &store, &items, 1), written);
    assert_eq!(store.calls(), [[10, 30]]);
    assert_eq!(write(&blocked, &store, &items, 2), written);
    assert_eq!(store.calls(), [[10, 30], [20, 21]]);
    assert!(blocked.is_paused(2, at(5)), "longer each time");
    store.held.borrow_mut().clear();
    assert_eq!(
        write(&blocked, &store, &items, 6),
        [Some(10), Some(20), Some(30), Some(21)]
    );
    store.calls();
    write(&blocked, &store, &items, 7);
    assert_eq!(store.calls(), [items], "as if nothing had been");
}

#[test]
fn few_blocked_keys_are_looked_for_at_once() {
    let (blocked, store) = (Blocked::default(), Store::default());
    store.held.borrow_mut().extend(0..9);
    let items: Vec<u32> = (0..10).map(|n| n * 10).collect();
    let (mut now, mut calls) = (0, 0);
    while write(&blocked, &store, &items, now).last() != Some(&Some(90)) {
        let few = store.calls().len();
        assert!(few <= 1 + MAX_FOUND as usize, "{few} waits for a lock");
        calls += few;
        now += 1;
        assert!(now < 60);
    }
    assert!(calls > 0);
}

#[test]
fn the_time_is_asked_for_only_where_something_is_blocked() {
    let (blocked, store) = (Blocked::default(), Store::default());
    let asked = RefCell::new(0);
    let write = |items: &[u32], now| {
        let clock = || {
            *asked.borrow_mut() += 1;
            told(at(now))
        };
        let call = |items| store.write(items);
        block_on(blocked.write(items, |n| n / 10, clock, call)).unwrap()
    };
    write(&[10, 20], 0);
    assert_eq!(asked.take(), 0);
    store.held.borrow_mut().insert(2);
    assert_eq!(write(&[10, 20], 100), [Some(10), None]);
    assert_eq!(asked.take(), 1);
    assert!(blocked.is_paused(2, at(101)) && !blocked.is_paused(2, at(102)));
    // Others do not ask because of it; its own pause ends by the same clock.
    store.held.borrow_mut().clear();
    assert_eq!(write(&[10], 101), [Some(10)]);
    assert_eq!(asked.take(), 0);
    assert_eq!(write(&[20], 102), [Some(20)]);
    assert_eq!(asked.take(), 1);
}

#[test]
fn another_error_is_the_callers() {
    let blocked = Blocked::<u32>::default();
    let call = |_| -> Answer<'static, Vec<u32>> {
        Box::pin(std::future::ready(Err(Error::Unavailable("gone".into()))))
    };
    let failed = block_on(blocked.write(&[1], |n| *n, || told(at(0)), call));
    assert!(matches!(failed, Err(Error::Unavailable(_))));
}
