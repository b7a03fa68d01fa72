//! How many placements one core decides: plans of 500 shards over 200 sessions, by strategy, with labels
//! and resources and without, and of 1,000 jobs that each place their shards otherwise.
//!
//! `cargo run --release -p sichen-core --example placement` prints JSON and fails below 200,000 decisions a
//! second of any strategy. Fairness is part of what is measured: it is asked before each.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measuring tool"
)]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sichen_core::dispatch::fair::{Flow, Shares};
use sichen_core::dispatch::queue::Lane;
use sichen_core::dispatch::{Ready, ReadyRun, plan};
use sichen_core::ids::{JobUid, RunId, SessionId, ShardKey, Token};
use sichen_core::name::Name;
use sichen_core::place::{Candidate, Offer, Resources, Strategy, Terms, Wanted, hash_of};

const SESSIONS: u64 = 200;
const BATCH: usize = 500;
const LEAST: u32 = 200_000;
const ZONES: [&str; 4] = ["a", "b", "c", "d"];

fn candidates() -> Vec<Candidate> {
    let candidate = |id: u64| {
        let zone = ZONES[usize::try_from(id % 4).unwrap_or(0)];
        let labels = [("zone".to_owned(), zone.to_owned())];
        let amounts = [("cpu", 64_000), ("memory", 256 << 30)];
        let resources = Resources::new(amounts.map(|(name, n)| (name.to_owned(), n)));
        Candidate {
            session: SessionId(id),
            worker: hash_of(format!("worker-{id}").as_bytes()),
            handlers: vec!["settle".to_owned()],
            slots: 100,
            held: u32::try_from(id % 40).unwrap_or(0),
            offer: Arc::new(Offer::new(labels.into(), resources)),
            busy: 0,
        }
    };
    (1..=SESSIONS).map(candidate).collect()
}

fn runs(terms: &[Option<Arc<Terms>>], namespace: &Name) -> Vec<ReadyRun> {
    let each = BATCH.div_ceil(terms.len());
    let run = |(n, terms): (usize, &Option<Arc<Terms>>)| {
        let job = JobUid(uuid::Uuid::from_u128(n as u128));
        let run = RunId(n as u64);
        let head = (0..i32::try_from(each).unwrap_or(1)).map(|no| Ready {
            key: ShardKey::new(run, no),
            token: Token(0),
        });
        ReadyRun {
            run,
            flow: Arc::new(Flow {
                namespace: namespace.clone(),
                lane: Lane::Live,
                job,
            }),
            priority: 0,
            since: Timestamp::UNIX_EPOCH,
            handler: "settle".into(),
            keys: terms
                .as_ref()
                .map_or(sichen_core::place::Keyed::Same(0), |t| t.keyed(job, "{}")),
            terms: terms.clone(),
            preempts: false,
            yields: false,
            room: u32::MAX,
            most_of_job: u32::MAX,
            head: head.collect(),
        }
    };
    terms.iter().enumerate().map(run).collect()
}

/// Decisions a second.
fn measure(terms: &[Option<Arc<Terms>>], namespace: &Name) -> f64 {
    let (candidates, runs) = (candidates(), runs(terms, namespace));
    let mut shares = Shares::default();
    let (mut decided, mut took) = (0_u32, Duration::ZERO);
    while took < Duration::from_secs(1) {
        let began = Instant::now();
        let planned = plan(
            &runs,
            &candidates,
            BATCH,
            &mut shares,
            Timestamp::UNIX_EPOCH,
        );
        took += began.elapsed();
        decided += u32::try_from(planned.len()).unwrap_or(0);
    }
    f64::from(decided) / took.as_secs_f64()
}

fn main() -> ExitCode {
    let Ok(namespace) = Name::new("default") else {
        return ExitCode::FAILURE;
    };
    let wanted = |zone: &str| Wanted {
        label: "zone".to_owned(),
        values: vec![zone.to_owned()],
    };
    let filtered = |strategy, zone: &str, cpu: u64| {
        Some(Arc::new(Terms {
            strategy,
            require: vec![wanted(zone)],
            needs: Resources::new([("cpu".to_owned(), cpu)]),
            ..Terms::default()
        }))
    };
    let by = |strategy| {
        Some(Arc::new(Terms {
            strategy,
            ..Terms::default()
        }))
    };
    let strategies = [
        ("least loaded", Strategy::LeastLoaded),
        ("round robin", Strategy::RoundRobin),
        ("consistent hash", Strategy::ConsistentHash),
        ("binpack", Strategy::Binpack),
        ("spread", Strategy::Spread),
    ];
    let mut figures = serde_json::Map::new();
    let mut slow = false;
    let mut note = |name: String, terms: &[Option<Arc<Terms>>], judged: bool| {
        let rate = measure(terms, &namespace);
        slow |= judged && rate < f64::from(LEAST);
        figures.insert(name, serde_json::json!(rate.round()));
    };
    note("no placement".to_owned(), &[None], true);
    for (name, strategy) in strategies {
        note(name.to_owned(), &[by(strategy)], true);
        let name = format!("{name}, label and cpu");
        note(name, &[filtered(strategy, "a", 100)], true);
    }
    let many = (0..1_000).map(|n| filtered(strategies[n % 5].1, ZONES[n % 4], 1 + n as u64));
    note(
        "1,000 jobs, each otherwise".to_owned(),
        &many.collect::<Vec<_>>(),
        false,
    );
    println!("{:#}", serde_json::Value::Object(figures));
    if slow {
        println!("below {LEAST} a second");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
