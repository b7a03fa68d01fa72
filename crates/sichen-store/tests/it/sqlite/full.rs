//! A disk that is full.

use std::sync::Arc;

use futures::executor::block_on;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sichen_core::ids::Occasion;
use sichen_core::layout::Descriptor;
use sichen_core::port::{CreateVerdict, Error};
use sichen_store::clock::ManualClock;
use sichen_store::sqlite::SqliteStore;

use super::child;
use crate::bench::{Bench, at, wait};
use crate::fold;

/// A limit on the size of files stands for the disk: the same calls fail at the same places. It is
/// a property of the process, so it gets one of its own, in which the signal is ignored.
#[test]
fn a_full_disk_stops_writes_and_no_reads() {
    let dir = tempfile::tempdir().unwrap();
    let name = "sqlite::full::a_server_whose_disk_fills_up";
    let output = child::start("trap '' XFSZ;", name, dir.path())
        .wait_with_output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("filled and emptied"), "{said}");
}

/// The child of the test above.
#[test]
#[ignore = "started by a_full_disk_stops_writes_and_no_reads"]
fn a_server_whose_disk_fills_up() {
    let Some(dir) = child::directory() else {
        return;
    };
    let clock = Arc::new(ManualClock::new(at(0)));
    let store = SqliteStore::open(&dir, Arc::clone(&clock) as _).unwrap();
    let b = Bench::new(Arc::new(store), clock);
    let job = b.job("many");
    let run = |n: usize| b.new_run(job, &format!("key {n}"), vec![Descriptor::Index; 5]);

    let (soft, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, 2 << 20, hard).unwrap();
    let mut written = Vec::new();
    let refused = loop {
        let n = written.len();
        let op = b.op();
        match block_on(b.store.create_runs(op.clone(), vec![], vec![run(n)])) {
            Ok(verdicts) => {
                assert!(
                    matches!(verdicts[..], [CreateVerdict::Created(..)]),
                    "{verdicts:?}"
                );
                written.push(op.id);
            }
            Err(Error::ReadOnly(_)) => break op.id,
            Err(other) => panic!("{other}"),
        }
        assert!(n < 10_000, "the disk never fills");
    };
    assert!(written.len() > 10);
    let again = block_on(
        b.store
            .create_runs(b.op(), vec![], vec![run(written.len())]),
    );
    assert!(matches!(again, Err(Error::ReadOnly(_))), "{again:?}");

    // Reads go on, and what was acknowledged is there; what was refused is not.
    let find = |n: usize| {
        let occasion = Occasion::Manual {
            key: format!("key {n}"),
        };
        wait(b.store.find_run(job, occasion))
    };
    for (n, op) in written.iter().enumerate() {
        assert!(find(n).is_some() && wait(b.store.find_op(*op)));
    }
    assert!(find(written.len()).is_none());
    assert!(!wait(b.store.find_op(refused)));
    assert_eq!(b.dump().runs.len(), written.len());

    // There is room again, and nothing has to be restarted.
    setrlimit(Resource::RLIMIT_FSIZE, soft, hard).unwrap();
    b.create(run(written.len()));
    fold::check(&b.dump());
    println!("filled and emptied");
}
