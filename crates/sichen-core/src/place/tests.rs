//! Claims about placement.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::Strategy as By;
use super::blame::{Blame, HALF_LIFE, MAX_MARKS};
use super::*;
use crate::dispatch::fair::{Flow, Shares};
use crate::dispatch::queue::Lane;
use crate::dispatch::{Placement, Ready, ReadyRun, plan};
use crate::ids::{JobUid, RunId, ShardKey, Token};
use crate::name::Name;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn job(n: u64) -> JobUid {
    JobUid(uuid::Uuid::from_u128(u128::from(n)))
}

fn run(id: u64, shards: i32, terms: Terms) -> ReadyRun {
    let ready = |no| Ready {
        key: ShardKey::new(RunId(id), no),
        token: Token(0),
    };
    ReadyRun {
        run: RunId(id),
        flow: Arc::new(Flow {
            namespace: Name::new("n").unwrap(),
            lane: Lane::Live,
            job: job(id),
        }),
        priority: 0,
        since: NOW,
        handler: "h".into(),
        keys: terms.keyed(job(id), "{}"),
        terms: Some(Arc::new(terms)),
        preempts: false,
        yields: false,
        room: u32::MAX,
        most_of_job: u32::MAX,
        head: (0..shards).map(ready).collect(),
    }
}

fn amounts(text: &[(&str, u64)]) -> Resources {
    Resources::new(text.iter().map(|(name, n)| ((*name).to_owned(), *n)))
}

fn worker(id: u64, slots: u32, labels: &[(&str, &str)], resources: &[(&str, u64)]) -> Candidate {
    let labels = labels
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    Candidate {
        session: SessionId(id),
        worker: hash_of(format!("w{id}").as_bytes()),
        handlers: vec!["h".into()],
        slots,
        held: 0,
        offer: Arc::new(Offer::new(labels.collect(), amounts(resources))),
        busy: 0,
    }
}

fn wanted(label: &str, values: &[&str]) -> Wanted {
    Wanted {
        label: label.to_owned(),
        values: values.iter().map(|v| (*v).to_owned()).collect(),
    }
}

fn by(strategy: By) -> Terms {
    Terms {
        strategy,
        ..Terms::default()
    }
}

fn planned(runs: &[ReadyRun], workers: &[Candidate], shares: &mut Shares) -> Vec<Placement> {
    plan(runs, workers, 500, shares, NOW)
}

fn to(runs: &[ReadyRun], workers: &[Candidate]) -> Vec<u64> {
    let plan = planned(runs, workers, &mut Shares::default());
    plan.iter().map(|p| p.session.0).collect()
}

#[test]
fn what_is_required_rules_out_and_what_is_preferred_or_avoided_only_orders() {
    let workers = [
        worker(1, 1, &[("zone", "b")], &[]),
        worker(2, 1, &[("zone", "a"), ("spot", "yes")], &[]),
        worker(3, 1, &[("zone", "a"), ("disk", "ssd")], &[]),
        worker(4, 1, &[("zone", "a")], &[]),
    ];
    let terms = Terms {
        require: vec![wanted("zone", &["a", "c"])],
        prefer: vec![wanted("disk", &["ssd"])],
        avoid: vec![wanted("spot", &["yes"])],
        ..Terms::default()
    };
    assert_eq!(to(&[run(1, 9, terms)], &workers), [3, 4, 2]);
}

#[test]
fn a_shard_whose_filter_nobody_meets_waits_and_blocks_nobody() {
    let workers = [worker(1, 4, &[("zone", "a")], &[("cpu", 2_000)])];
    let nowhere = Terms {
        require: vec![wanted("zone", &["b"])],
        ..Terms::default()
    };
    let too_large = Terms {
        needs: amounts(&[("cpu", 3_000)]),
        ..Terms::default()
    };
    let mut first = run(1, 3, nowhere);
    first.priority = 9;
    let plan = planned(
        &[first, run(2, 3, too_large), run(3, 2, Terms::default())],
        &workers,
        &mut Shares::default(),
    );
    let runs: Vec<u64> = plan.iter().map(|p| p.key.run.0).collect();
    assert_eq!(runs, [3, 3]);
}

#[test]
fn strategies_choose_as_their_names_say() {
    let four = || {
        (1..=4)
            .map(|id| worker(id, 4, &[], &[]))
            .collect::<Vec<_>>()
    };
    let mut workers = four();
    workers[2].held = 2;
    let shards = |strategy| [run(1, 5, by(strategy))];
    assert_eq!(to(&shards(By::LeastLoaded), &workers), [1, 2, 4, 1, 2]);
    assert_eq!(to(&shards(By::Binpack), &workers), [3, 3, 1, 1, 1]);
    assert_eq!(to(&shards(By::RoundRobin), &workers), [1, 2, 3, 4, 1]);
    assert_eq!(to(&shards(By::Spread), &workers), [1, 2, 4, 3, 1]);
    // The turn goes on where the last plan left it; what a run holds is kept apart from too.
    let mut shares = Shares::default();
    let runs = shards(By::RoundRobin);
    planned(&runs, &workers[..2], &mut shares);
    let next = planned(&runs, &workers[..3], &mut shares)[0].session;
    assert_eq!(next, SessionId(2));
    let runs = shards(By::Spread);
    for no in [7, 8] {
        let key = ShardKey::new(RunId(1), no);
        shares.granted(key, SessionId(1), runs[0].flow.clone(), NOW);
    }
    let next = planned(&runs, &four()[..2], &mut shares);
    let to: Vec<u64> = next.iter().map(|p| p.session.0).collect();
    assert_eq!(to, [2, 2, 1, 2, 1]);
}

#[test]
fn what_is_held_of_resources_is_counted_until_it_ends() {
    let workers = [worker(1, 9, &[], &[("cpu", 4_000), ("gpu/a100", 1_000)])];
    let terms = |needs| Terms {
        needs: amounts(needs).with_kinds(),
        ..Terms::default()
    };
    let cpu = run(1, 9, terms(&[("cpu", 1_500)]));
    let mut shares = Shares::default();
    let plan = planned(std::slice::from_ref(&cpu), &workers, &mut shares);
    assert_eq!(plan.len(), 2);
    for placed in &plan {
        let terms = cpu.terms.as_ref().unwrap();
        shares.granted(placed.key, placed.session, cpu.flow.clone(), NOW);
        shares.places.granted(placed.key, placed.session, terms);
    }
    assert_eq!(
        planned(std::slice::from_ref(&cpu), &workers, &mut shares),
        []
    );
    shares.ended(plan[0].key, NOW);
    assert_eq!(
        planned(std::slice::from_ref(&cpu), &workers, &mut shares).len(),
        1
    );
    // Any kind serves who asks for the whole, and a kind that is taken is taken from the whole.
    let mut shares = Shares::default();
    let any = run(2, 9, terms(&[("gpu", 1_000)]));
    let a100 = run(3, 9, terms(&[("gpu/a100", 1_000)]));
    assert_eq!(
        planned(std::slice::from_ref(&a100), &workers, &mut shares).len(),
        1
    );
    assert_eq!(planned(&[any, a100], &workers, &mut shares).len(), 1);
}

#[test]
fn of_a_worker_whose_uses_are_not_known_nothing_is_given_that_asks_for_resources() {
    let workers = [worker(1, 9, &[], &[("cpu", 4_000)])];
    let mut shares = Shares::default();
    let left = BTreeMap::from([(SessionId(1), 2)]);
    assert_eq!(shares.sessions(&left, NOW), [SessionId(1)]);
    let asks = Terms {
        needs: amounts(&[("cpu", 1_000)]),
        ..Terms::default()
    };
    let runs = [run(1, 1, asks), run(2, 1, Terms::default())];
    assert_eq!(shares.places.asks_of(), []);
    let plan = planned(&runs, &workers, &mut shares);
    assert_eq!(plan.len(), 1);
    assert_eq!(plan[0].key.run, RunId(2));
    assert_eq!(shares.places.asks_of(), [SessionId(1)]);
    shares.holds(SessionId(1), Vec::new(), NOW);
    assert_eq!(planned(&runs, &workers, &mut shares).len(), 2);
}

#[test]
fn a_worker_on_which_a_job_keeps_failing_comes_last_for_it_and_for_no_other() {
    let workers = [worker(1, 9, &[], &[]), worker(2, 9, &[], &[])];
    let mut shares = Shares::default();
    shares.places.meet(&workers);
    let ends = |shares: &mut Shares, id: u64, failed: bool| {
        let (key, flow) = (
            ShardKey::new(RunId(id), 0),
            run(id, 1, by(By::LeastLoaded)).flow,
        );
        shares.granted(key, SessionId(1), flow, NOW);
        shares.judged(key, failed, NOW);
        shares.ended(key, NOW);
    };
    let first = |shares: &mut Shares, id| {
        let mut one = run(id, 1, Terms::default());
        one.terms = None;
        planned(&[one], &workers, shares)[0].session.0
    };
    ends(&mut shares, 1, true);
    assert_eq!(first(&mut shares, 1), 1, "one failure is no habit");
    ends(&mut shares, 1, true);
    assert_eq!((first(&mut shares, 1), first(&mut shares, 2)), (2, 1));
    // It is the only one: then it is good enough.
    let runs = [run(1, 1, Terms::default())];
    assert_eq!(planned(&runs, &workers[..1], &mut shares).len(), 1);
    ends(&mut shares, 1, false);
    assert_eq!(first(&mut shares, 1), 1);
}

#[test]
fn what_is_held_against_a_worker_fades_and_is_bounded() {
    let mut blame = Blame::default();
    for _ in 0..100 {
        blame.failed(job(1), 7, NOW);
    }
    assert_eq!(blame.level(job(1), 7, NOW), 3);
    let later = |n: i32| NOW + HALF_LIFE * n;
    assert_eq!(blame.level(job(1), 7, later(1)), 1);
    assert_eq!(blame.level(job(1), 7, later(2)), 0);
    let levels = (0..900).map(|s| blame.level(job(1), 7, NOW + SignedDuration::from_secs(s)));
    assert!(levels.rev().is_sorted());
    for n in 0..MAX_MARKS as u64 + 9 {
        blame.failed(job(2), n, later(100));
    }
    assert!(!blame.has(job(1)) && blame.has(job(2)));
    assert_eq!(blame.len(), MAX_MARKS);
}

#[test]
fn quantities_are_read_and_written_alike() {
    let read = quantity::parse;
    for (text, amount) in [
        ("2", 2_000),
        ("0.5", 500),
        ("500m", 500),
        ("4Gi", 4_294_967_296_000),
        ("1.5k", 1_500_000),
        ("100M", 100_000_000_000),
    ] {
        assert_eq!(read(text), Some(amount), "{text}");
        assert_eq!(read(&quantity::text("cpu", amount)), Some(amount));
        assert_eq!(read(&quantity::text("memory", amount)), Some(amount));
    }
    for bad in [
        "",
        "0",
        "-1",
        "1.2345",
        "Gi",
        "1e3",
        "99999999999999999Ti",
        "1 000",
        "0.4m",
    ] {
        assert_eq!(read(bad), None, "{bad}");
    }
    assert_eq!(quantity::text("memory", 4_294_967_296_000), "4Gi");
    assert_eq!(quantity::text("memory", 1_610_612_736_000), "1.5Gi");
    assert_eq!(quantity::text("cpu", 1_500), "1.5");
    let offer = Offer::new(
        BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
        amounts(&[("gpu/a100", 2_000)]),
    );
    assert_eq!(Offer::parse(&offer.text().unwrap()), Some(offer.clone()));
    assert_eq!(offer.total().of("gpu"), 2_000);
    assert_eq!(Offer::default().text(), None);
}

#[test]
fn keys_are_the_shard_the_job_or_a_parameter() {
    let keyed = |key, parameters| {
        let terms = Terms {
            key,
            ..by(By::ConsistentHash)
        };
        terms.keyed(job(1), parameters)
    };
    let shards = keyed(Key::Shard, "{}");
    assert_ne!(shards.of(0), shards.of(1));
    assert_eq!(keyed(Key::Job, "{}").of(0), keyed(Key::Job, "{}").of(9));
    let customer = || Key::Parameter("customer".to_owned());
    let one = keyed(customer(), r#"{"customer": "acme"}"#);
    // Of the same value the same, whichever job has it and wherever in a list it stands.
    let of_other = Terms {
        key: customer(),
        ..by(By::ConsistentHash)
    }
    .keyed(job(2), r#"{"customer": ["zeta", "acme"]}"#);
    assert_eq!(one.of(5), of_other.of(1));
    assert_ne!(of_other.of(0), of_other.of(1));
    assert_eq!(keyed(customer(), "{}"), keyed(Key::Job, "{}"));
    // A release that gives other numbers moves everything to other workers.
    assert_eq!(hash_of(b"acme"), 1_372_038_925_648_144_367);
}

fn home(workers: &[Candidate], key: u64) -> u64 {
    let mut one = run(1, 1, by(By::ConsistentHash));
    one.keys = Keyed::Same(key);
    to(&[one], workers)[0]
}

proptest! {
    /// Who is not the one that came or went keeps what it had.
    #[test]
    fn a_worker_that_comes_or_goes_moves_only_its_share(
        ids in prop::collection::btree_set(1_u64..200, 2..24),
        at in any::<prop::sample::Index>(),
        keys in prop::collection::vec(any::<u64>(), 1..60),
    ) {
        let all: Vec<Candidate> = ids.iter().map(|id| worker(*id, 8, &[], &[])).collect();
        let gone = at.index(all.len());
        let mut left = all.clone();
        let gone = left.remove(gone).session.0;
        for key in keys {
            let (with, without) = (home(&all, key), home(&left, key));
            prop_assert!(with == gone || with == without, "{key} moved from {with} to {without}");
        }
    }

    #[test]
    fn bounded_load_is_never_exceeded_and_no_free_worker_is_left_waiting(
        workers in prop::collection::vec((1_u32..9, 0_u32..9), 1..12),
        shards in 1_i32..60,
        same in any::<bool>(),
    ) {
        let workers: Vec<Candidate> = workers.iter().zip(1..)
            .map(|((slots, held), id)| Candidate { held: *held.min(slots), ..worker(id, *slots, &[], &[]) })
            .collect();
        let mut one = run(1, shards, by(By::ConsistentHash));
        if same {
            one.keys = Keyed::Same(7);
        }
        let plan = planned(&[one], &workers, &mut Shares::default());
        let free: u32 = workers.iter().map(|w| w.slots - w.held).sum();
        prop_assert_eq!(plan.len(), usize::try_from(shards).unwrap().min(free as usize));
        let mut held: BTreeMap<u64, (u32, u32)> =
            workers.iter().map(|w| (w.session.0, (w.held, w.slots))).collect();
        for placed in plan {
            let open = || held.values().filter(|(held, slots)| held < slots);
            let (sum, slots) = open().fold((0, 0), |(h, s), (held, slots)| (h + held, s + slots));
            let (mine, own) = held[&placed.session.0];
            // Before rounding up: less than one shard above five fourths of its part.
            prop_assert!(4 * u64::from(mine) * u64::from(slots) < 5 * u64::from(sum + 1) * u64::from(own));
            held.insert(placed.session.0, (mine + 1, own));
        }
    }

    #[test]
    fn no_plan_breaks_a_filter_or_gives_more_than_there_is(
        workers in prop::collection::vec((0_u32..5, 0_usize..3, 0_u64..6, 0_u64..3), 0..8),
        runs in prop::collection::vec((0_usize..5, 0_usize..4, 0_u64..4, 0_u64..3, 0_i32..8), 1..8),
    ) {
        let zones = ["a", "b", "c"];
        let workers: Vec<Candidate> = workers.iter().zip(1..).map(|((slots, zone, cpu, gpu), id)| {
            let resources = [("cpu", *cpu * 1_000), ("gpu/t4", *gpu * 1_000)];
            worker(id, *slots, &[("zone", zones[*zone])], &resources)
        }).collect();
        let strategies = [
            By::LeastLoaded, By::RoundRobin, By::ConsistentHash,
            By::Binpack, By::Spread,
        ];
        let runs: Vec<ReadyRun> = runs.iter().zip(1..).map(|((strategy, zone, cpu, gpu, n), id)| {
            let require = zones.get(*zone).map(|zone| wanted("zone", &[zone]));
            run(id, *n, Terms {
                require: require.into_iter().collect(),
                needs: amounts(&[("cpu", *cpu * 1_000), ("gpu", *gpu * 1_000)]),
                ..by(strategies[*strategy])
            })
        }).collect();
        let plan = planned(&runs, &workers, &mut Shares::default());
        let of = |id: u64| &runs[usize::try_from(id).unwrap() - 1];
        let mut used: BTreeMap<SessionId, (u32, Resources)> = BTreeMap::new();
        for placed in &plan {
            let terms = of(placed.key.run.0).terms.as_ref().unwrap();
            let worker = workers.iter().find(|w| w.session == placed.session).unwrap();
            prop_assert!(terms.is_met_by(&worker.offer.labels));
            let (held, sum) = used.entry(placed.session).or_default();
            *held += 1;
            sum.add(&terms.needs);
            prop_assert!(*held <= worker.slots);
            prop_assert_eq!(worker.offer.total().lacks(sum), None);
        }
        // What is left over fits nobody.
        let placed: BTreeSet<ShardKey> = plan.iter().map(|p| p.key).collect();
        for run in &runs {
            if run.head.iter().all(|ready| placed.contains(&ready.key)) {
                continue;
            }
            let terms = run.terms.as_ref().unwrap();
            for worker in &workers {
                let (held, sum) = used.get(&worker.session).cloned().unwrap_or_default();
                let fits = worker.suits("h", Some(terms))
                    && held < worker.slots
                    && worker.offer.total().lacks_beside(&sum, &terms.needs).is_none();
                prop_assert!(!fits, "{} could take a shard of {}", worker.session, run.run);
            }
        }
    }
}

#[test]
fn a_broadcast_shard_goes_to_its_own_worker_alone() {
    let terms = Terms {
        strategy: By::Broadcast,
        ..Terms::default()
    };
    let to = r#"{"sichen_workers": ["w1", "w2", "w3"]}"#;
    let one = |no: i32| ReadyRun {
        keys: terms.keyed(job(7), to),
        head: vec![Ready {
            key: ShardKey::new(RunId(7), no),
            token: Token(0),
        }],
        ..run(7, 1, terms.clone())
    };
    // The second has no slot, and the third is not there.
    let workers = [
        worker(1, 5, &[], &[]),
        worker(2, 0, &[], &[]),
        worker(4, 5, &[], &[]),
    ];
    let runs = [one(2), one(1), one(0)];
    let planned = plan(&runs, &workers, 100, &mut Shares::default(), NOW);
    let made: Vec<(i32, SessionId)> = planned.iter().map(|p| (p.key.no.0, p.session)).collect();
    assert_eq!(made, [(0, SessionId(1))]);
}
