//! A server that is killed.

use std::io::{BufRead, BufReader};
use std::sync::Arc;

use sichen_core::ids::Occasion;
use sichen_core::layout::Descriptor;
use sichen_core::name::JobName;
use sichen_core::port::CreateVerdict;
use sichen_store::clock::ManualClock;
use sichen_store::sqlite::SqliteStore;

use super::child;
use crate::bench::{Bench, at, name, wait};
use crate::fold;

const WRITERS: usize = 6;

fn open(dir: &std::path::Path) -> Bench {
    let clock = Arc::new(ManualClock::new(at(0)));
    let store = SqliteStore::open(dir, Arc::clone(&clock) as _).expect("it opens");
    Bench::new(Arc::new(store), clock)
}

#[test]
fn what_a_killed_server_acknowledged_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = child::start(
        "",
        "sqlite::crash::a_server_that_writes_until_it_is_killed",
        dir.path(),
    );
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut acknowledged = Vec::new();
    let key = |line: String| line.strip_prefix("ack ").map(str::to_owned);
    while acknowledged.len() < 300 {
        let line = lines
            .next()
            .expect("the server writes until it is killed")
            .unwrap();
        acknowledged.extend(key(line));
    }
    server.kill().unwrap();
    // What it said before it died was said, too; its last line may be cut off.
    acknowledged.extend(
        lines
            .map_while(Result::ok)
            .filter_map(key)
            .filter(|k| k.ends_with('.')),
    );
    server.wait().unwrap();

    let b = open(dir.path());
    let job = JobName {
        namespace: name("default"),
        name: name("many"),
    };
    let job = wait(b.store.get_job(job)).expect("the job").uid;
    for key in &acknowledged {
        let occasion = Occasion::Manual { key: key.clone() };
        assert!(
            wait(b.store.find_run(job, occasion)).is_some(),
            "{key} was acknowledged"
        );
    }
    fold::check(&b.dump());
    b.create(b.new_run(job, "after", vec![Descriptor::Whole]));
}

/// The child of the test above.
#[test]
#[ignore = "started by what_a_killed_server_acknowledged_is_there"]
fn a_server_that_writes_until_it_is_killed() {
    let Some(dir) = child::directory() else {
        return;
    };
    let b = open(&dir);
    let job = b.job("many");
    let (store, template) = (
        Arc::clone(&b.store),
        b.new_run(job, "", vec![Descriptor::Whole]),
    );
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, template) = (Arc::clone(&store), template.clone());
            scope.spawn(move || {
                // Bounded, should nobody ever kill it.
                for n in 0..20_000u128 {
                    let key = format!("{writer}-{n}.");
                    let run = sichen_core::port::NewRun {
                        occasion: Occasion::Manual { key: key.clone() },
                        ..template.clone()
                    };
                    let id = uuid::Uuid::from_u128(((writer as u128 + 1) << 64) + n);
                    let op = sichen_core::port::Op {
                        id: sichen_core::ids::OpId(id),
                        actor: "child".to_owned(),
                        hold: None,
                    };
                    let made = wait(store.create_runs(op, vec![], vec![run]));
                    assert!(matches!(made[..], [CreateVerdict::Created(..)]), "{made:?}");
                    println!("ack {key}");
                }
            });
        }
    });
}
