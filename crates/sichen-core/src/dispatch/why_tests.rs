//! Claims about reasons.

use super::*;
use crate::place::Wanted;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn cpu(n: u64) -> Resources {
    Resources::new([("cpu".to_owned(), n)])
}

fn offer(labelled: bool, n: u64) -> Arc<Offer> {
    let zone = ("zone".to_owned(), "a".to_owned());
    let labels = labelled.then_some(zone).into_iter().collect();
    Arc::new(Offer::new(labels, cpu(n)))
}

struct Scene {
    facts: Facts,
    ready_at: Timestamp,
    retries: bool,
}

impl Scene {
    /// A shard that could run at once.
    fn free() -> Self {
        let worker = Worker {
            number: 1,
            handlers: vec!["h".to_owned()],
            slots: 2,
            held: 1,
            draining: false,
            offer: offer(true, 4),
            used: cpu(1),
        };
        Self {
            facts: Facts {
                stopping: false,
                waits: None,
                running: (0, 1),
                job: Some((0, 1)),
                namespace: Some((0, 1)),
                capacity: false,
                restore: false,
                owned: true,
                workers: vec![worker],
                now: NOW,
            },
            ready_at: NOW,
            retries: false,
        }
    }

    /// Makes the condition of `reason` hold, as far as others leave it something to hold of.
    fn with(mut self, reason: Reason) -> Self {
        let later = NOW + jiff::SignedDuration::from_secs(1);
        let facts = &mut self.facts;
        match reason {
            Reason::Stopping => facts.stopping = true,
            Reason::Queued => facts.waits = Some(WaitsFor::Queue),
            Reason::Replacing => facts.waits = Some(WaitsFor::Replaced),
            Reason::Backoff => (self.ready_at, self.retries) = (later, true),
            Reason::NotYet => self.ready_at = later,
            Reason::Restore => facts.restore = true,
            Reason::NoWorker => facts.workers.clear(),
            Reason::NoOwner => facts.owned = false,
            Reason::Absent => facts.workers.iter_mut().for_each(|w| w.number = 2),
            Reason::Parallelism => facts.running = (1, 1),
            Reason::Job => facts.job = Some((1, 1)),
            Reason::Namespace => facts.namespace = Some((1, 1)),
            Reason::NoHandler => facts.workers.iter_mut().for_each(|w| w.handlers.clear()),
            Reason::NoLabel => self.change(|w| w.offer = offer(false, w.offer.total().of("cpu"))),
            Reason::TooLarge => {
                self.change(|w| w.offer = offer(!w.offer.labels.is_empty(), 1));
            }
            Reason::Resources => self.change(|w| w.used = cpu(3)),
            Reason::Draining => facts.workers.iter_mut().for_each(|w| w.draining = true),
            Reason::Capacity => facts.capacity = true,
            Reason::NoSlot => facts.workers.iter_mut().for_each(|w| w.held = w.slots),
            Reason::Dispatching => {}
        }
        self
    }

    fn change(&mut self, change: impl Fn(&mut Worker)) {
        self.facts.workers.iter_mut().for_each(change);
    }

    fn why(&self) -> Reason {
        let wanted = Wanted {
            label: "zone".to_owned(),
            values: vec!["a".to_owned()],
        };
        let terms = Terms {
            require: vec![wanted],
            needs: cpu(2),
            ..Terms::default()
        };
        let shard = Waiting {
            ready_at: self.ready_at,
            retries: self.retries,
            handler: "h",
            terms: Some(&terms),
            worker: Some(1),
        };
        why(&shard, &self.facts)
    }
}

#[test]
fn each_condition_alone_is_the_reason() {
    for reason in Reason::ALL {
        assert_eq!(Scene::free().with(reason).why(), reason);
    }
}

/// Of any two conditions the first in order is named; without it the other one is, so that what is
/// named is what must end first.
#[test]
fn taking_the_named_condition_away_names_the_next_and_taking_another_away_changes_nothing() {
    for (n, first) in Reason::ALL.into_iter().enumerate() {
        for second in Reason::ALL.into_iter().skip(n + 1) {
            let both = Scene::free().with(second).with(first);
            let turns = [Reason::Queued, Reason::Replacing];
            if turns.contains(&first) && turns.contains(&second) {
                continue; // A run waits for one thing.
            }
            let named = if (first, second) == (Reason::Backoff, Reason::NotYet) {
                Reason::Backoff
            } else {
                first
            };
            assert_eq!(both.why(), named, "{first:?} before {second:?}");
            assert_eq!(Scene::free().with(second).why(), second);
        }
    }
}

#[test]
fn words_and_order_are_those_of_the_list() {
    assert!(Reason::ALL.is_sorted());
    let words: std::collections::BTreeSet<&str> = Reason::ALL.iter().map(|r| r.word()).collect();
    assert_eq!(words.len(), Reason::ALL.len());
}

#[test]
fn a_worker_that_can_take_it_counts_whatever_the_others_are() {
    let mut scene = Scene::free().with(Reason::NoSlot);
    let mut other = scene.facts.workers[0].clone();
    (other.draining, other.held) = (true, 0);
    scene.facts.workers.push(other.clone());
    assert_eq!(scene.why(), Reason::NoSlot);
    other.draining = false;
    scene.facts.workers.push(other);
    assert_eq!(scene.why(), Reason::Dispatching);
}
