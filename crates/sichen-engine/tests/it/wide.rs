//! Runs of many shards, many at a time: no transaction takes more than its share.

use futures::executor::block_on;
use serde_json::json;
use sichen_core::event::Kind;
use sichen_core::ids::{OpId, RunId};
use sichen_core::name::JobName;
use sichen_core::port::{EventFilter, MAX_BATCH_SHARDS, Page};
use sichen_core::schedule::zones::{Taken, Zones};
use sichen_engine::control::{StartRun, Which};

use crate::fixture::Cluster;

/// Shards of a run: three of them are more than one transaction takes.
const WIDE: usize = 8_000;

/// How many runs each transaction wrote, in their order.
fn written(c: &Cluster) -> Vec<usize> {
    let page = Page {
        after: None,
        limit: 1_000,
    };
    let events = block_on(c.store.list_events(EventFilter::default(), page)).unwrap();
    let ops = events.iter().filter(|e| e.kind == Kind::RunCreated);
    let ops: Vec<OpId> = ops.map(|e| e.op).collect();
    ops.chunk_by(|a, b| a == b).map(<[_]>::len).collect()
}

#[test]
fn many_wide_runs_asked_for_at_once_take_several_transactions() {
    let c = Cluster::new();
    let node = c.node("http://a");
    node.coordinate(&c);
    const { assert!(3 * WIDE > MAX_BATCH_SHARDS && 2 * WIDE < MAX_BATCH_SHARDS) };
    c.apply(
        "wide",
        json!({ "run": { "handler": "h" }, "shards": { "count": WIDE } }),
    );
    c.apply("narrow", json!({ "run": { "handler": "h" } }));
    let wanted = |job: &str, key: usize| StartRun {
        job: JobName::new("default", job).unwrap(),
        which: Which::Manual(key.to_string()),
        parameters: serde_json::Map::new(),
        period: None,
        overlap: None,
        not_before: None,
        digest: String::new(),
    };
    let mut runs: Vec<StartRun> = (0..7).map(|key| wanted("wide", key)).collect();
    runs.insert(1, wanted("no-such", 0));
    runs.extend((0..9).map(|key| wanted("narrow", key)));
    let answers = block_on(node.engine.control.start_runs("user test", runs));
    let made: Vec<Option<RunId>> = answers
        .iter()
        .map(|a| a.as_ref().ok().map(|s| s.run))
        .collect();
    assert_eq!(made.iter().filter(|run| run.is_none()).count(), 1);
    assert_eq!(made[1], None, "verdicts stand in the order of the request");
    let ids: Vec<RunId> = made.iter().flatten().copied().collect();
    assert!(ids.is_sorted(), "{ids:?}");
    assert_eq!(written(&c), [3, 3, 10]);
}

#[test]
fn a_gap_of_wide_runs_is_caught_up_step_by_step() {
    let c = Cluster::new();
    let node = c.node("http://a");
    node.coordinate(&c);
    let policy = json!({ "policy": { "all": 100 } });
    for name in ["wide", "wide-too"] {
        c.apply(
            name,
            json!({
                "schedules": [{ "cron": "* * * * *" }],
                "run": { "handler": "h" },
                "shards": { "count": WIDE },
                "overlap": "allow",
                "catchUp": policy,
            }),
        );
    }
    c.pass(600);
    node.coordinate(&c);
    let mut passes = 0;
    while written(&c).iter().sum::<usize>() < 20 {
        let pass = node.trigger(&c);
        assert_eq!(pass.runs, 4, "each job is given its share in each pass");
        passes += 1;
    }
    assert_eq!(passes, 5);
    assert!(
        written(&c)
            .iter()
            .all(|runs| runs * WIDE < MAX_BATCH_SHARDS + 2 * WIDE)
    );
    assert_eq!(node.trigger(&c).runs, 0);
}

#[test]
fn wide_runs_that_newer_zone_data_brings_take_several_transactions() {
    let c = Cluster::new();
    let node = c.node("http://a");
    node.coordinate(&c);
    let zone = "Asia/Shanghai";
    let taken = Taken {
        offset: 8 * 3_600,
        change: None,
    };
    let zones = Zones {
        data: "2000a".to_owned(),
        taken: [(zone.to_owned(), taken)].into(),
        ..Zones::default()
    };
    for name in ["a", "b", "c", "d"] {
        let spec = json!({
            "schedules": [{ "cron": "* * * * *" }], "timeZone": zone,
            "run": { "handler": "h" },
            "shards": { "count": WIDE },
        });
        c.apply_in(name, spec, Some(zones.clone()));
    }
    c.pass(60);
    node.coordinate(&c);
    node.trigger(&c);
    assert_eq!(written(&c), [3, 1]);
}
