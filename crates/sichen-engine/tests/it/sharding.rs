//! What each layout does when workers change, the total changes, one shard is far larger, one
//! fails, or the run is run again. docs/guide/sharding.md has these claims as its table.

use std::collections::BTreeSet;

use futures::executor::block_on;
use jiff::SignedDuration;
use serde_json::{Map, Value, json};
use sichen_core::document::{Document, Request, new_run};
use sichen_core::ids::{JobUid, Occasion, RunId};
use sichen_core::lifecycle::RunState;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::{Checkpoint, Progress};
use sichen_core::port::{CheckpointVerdict, CreateVerdict, SaveCheckpoint};
use sichen_engine::control::Control;

use crate::fixture::{Cluster, document, report, start};
use crate::players::{Player, Stage};

/// A layout before and after an edit, each with the number of its shards.
struct Layout {
    name: &'static str,
    before: (Value, usize),
    after: (Value, usize),
}

fn range(to: i64, size: i64) -> Value {
    json!({ "range": { "bounds": { "literal": { "from": 0, "to": to } }, "size": size } })
}

fn items(items: &[&str]) -> Value {
    json!({ "items": { "values": items } })
}

fn layouts() -> [Layout; 3] {
    [
        Layout {
            name: "count",
            before: (json!({ "count": 4 }), 4),
            after: (json!({ "count": 7 }), 7),
        },
        Layout {
            name: "range",
            before: (range(1_000, 250), 4),
            after: (range(1_000, 100), 10),
        },
        Layout {
            name: "items",
            before: (items(&["beijing", "chengdu", "harbin", "xian"]), 4),
            after: (items(&["beijing", "xian"]), 2),
        },
    ]
}

fn spec(shards: &Value) -> Value {
    json!({
        "run": { "handler": "h" },
        "shards": shards,
        "retry": { "maxAttempts": 5, "backoff": { "fixed": "1s" } },
    })
}

/// Number and descriptor of each shard, as text.
fn descriptors(cluster: &Cluster, run: RunId) -> Vec<String> {
    let shards = cluster.shards(run);
    shards
        .iter()
        .map(|s| format!("{} {:?}", s.key.no.0, s.descriptor))
        .collect()
}

#[test]
fn workers_may_come_and_go() {
    for Layout {
        name,
        before: (shards, total),
        ..
    } in layouts()
    {
        let cluster = Cluster::new();
        let mut stage = Stage::new(&cluster, &[("a", 1), ("b", 1)], 20);
        let run = cluster.run(cluster.apply("j", spec(&shards)), "k");
        let cut = descriptors(&cluster, run);
        stage.pass_ms(5_000);
        let late = Player::start(&cluster, &stage.node, "c", 1);
        stage.players.push(late);
        let lost = stage.players[0].kill();
        assert_eq!(lost, 1, "{name}: the killed worker had a shard");
        assert_eq!(stage.until_closed(run, 300), RunState::Succeeded, "{name}");
        stage.accepted_once(run, total);
        assert!(
            stage.players[2].taken > 0,
            "{name}: the newcomer takes part"
        );
        assert_eq!(
            descriptors(&cluster, run),
            cut,
            "{name}: no shard is cut anew"
        );
    }
}

#[test]
fn an_edit_changes_the_next_run_only() {
    for Layout {
        name,
        before,
        after,
    } in layouts()
    {
        let cluster = Cluster::new();
        let mut stage = Stage::new(&cluster, &[("a", 2)], 10);
        let control = Control::new(stage.node.engine.context.clone());
        let job = cluster.apply("j", spec(&before.0));
        let run = cluster.run(job, "before");
        let cut = descriptors(&cluster, run);
        stage.pass_ms(5_000);
        block_on(control.apply("user test", &document("j", spec(&after.0)))).unwrap();
        let next = cluster.run(job, "after");
        assert_eq!(stage.until_closed(run, 300), RunState::Succeeded, "{name}");
        assert_eq!(stage.until_closed(next, 300), RunState::Succeeded, "{name}");
        assert_eq!(descriptors(&cluster, run), cut, "{name}");
        stage.accepted_once(run, before.1);
        stage.accepted_once(next, after.1);
    }
}

#[test]
fn a_large_shard_holds_up_no_other() {
    for Layout {
        name,
        before: (shards, total),
        ..
    } in layouts()
    {
        let cluster = Cluster::new();
        let mut stage = Stage::new(&cluster, &[("a", 1), ("b", 1)], 5);
        stage.slow.insert(0, SignedDuration::from_secs(200));
        let run = cluster.run(cluster.apply("j", spec(&shards)), "k");
        stage.pass_ms(30_000);
        assert_eq!(stage.accepted.len(), total - 1, "{name}: the rest is done");
        assert_eq!(
            cluster.get(run).state,
            RunState::Running,
            "{name}: and not the run"
        );
        assert_eq!(stage.until_closed(run, 200), RunState::Succeeded, "{name}");
        stage.accepted_once(run, total);
    }
}

#[test]
fn a_retry_is_the_same_shard_from_its_checkpoint() {
    for Layout {
        name,
        before: (shards, total),
        ..
    } in layouts()
    {
        let cluster = Cluster::new();
        let node = cluster.node("n1");
        node.coordinate(&cluster);
        let session = node.worker(&cluster, "w", 8);
        cluster.run(cluster.apply("j", spec(&shards)), "k");
        node.dispatch(&cluster);
        let first = node.grants(session);
        assert_eq!(first.len(), total, "{name}");
        let position = "halfway".to_owned();
        let save = SaveCheckpoint {
            key: first[1].shard.key,
            token: first[1].shard.token,
            session,
            checkpoint: Some(Checkpoint { seq: 1, position }),
            progress: Progress::default(),
            idle: jiff::SignedDuration::ZERO,
        };
        let saved = block_on(node.engine.sessions.checkpoint("worker w", vec![save])).unwrap();
        assert_eq!(saved, [CheckpointVerdict::Saved], "{name}");
        for (n, work) in first.iter().enumerate() {
            let ending = if n == 1 {
                Ending::Failed
            } else {
                Ending::Succeeded
            };
            node.report(&cluster, report(work.shard.key, work.shard.token, ending));
        }
        cluster.pass(2);
        node.coordinate(&cluster);
        node.beat(session, &[], 1_000);
        assert_eq!(node.dispatch(&cluster), 1, "{name}: the failed one alone");
        let again = node.grants(session).pop().unwrap();
        assert_eq!(again.shard.key, first[1].shard.key, "{name}");
        assert_eq!(again.shard.descriptor, first[1].shard.descriptor, "{name}");
        assert_eq!(again.shard.checkpoint.position, "halfway", "{name}");
        assert_eq!(
            again.fence_key(),
            first[1].fence_key(),
            "{name}: one fence for both"
        );
    }
}

fn planned(cluster: &Cluster, job: JobUid, rerun: u32) -> RunId {
    let row = block_on(cluster.store.get_job_by_uid(job))
        .unwrap()
        .unwrap();
    let document: Document = serde_json::from_str(&row.document).unwrap();
    let request = Request {
        job,
        revision: row.revision,
        occasion: Occasion::Planned { at: start(), rerun },
        period: None,
        parameters: Map::new(),
        digest: String::new(),
    };
    let run = new_run(&document, request, cluster.now()).unwrap();
    let verdicts = block_on(cluster.store.create_runs(cluster.op(), vec![], vec![run])).unwrap();
    match verdicts.into_iter().next() {
        Some(CreateVerdict::Created(id, _)) => id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_rerun_is_cut_anew_under_fences_of_its_own() {
    for Layout {
        name,
        before,
        after,
    } in layouts()
    {
        let cluster = Cluster::new();
        let mut stage = Stage::new(&cluster, &[("a", 2)], 1);
        let control = Control::new(stage.node.engine.context.clone());
        let job = cluster.apply("j", spec(&before.0));
        let first = planned(&cluster, job, 0);
        assert_eq!(
            stage.until_closed(first, 100),
            RunState::Succeeded,
            "{name}"
        );
        let settled = (descriptors(&cluster, first), cluster.get(first).ended_at);
        block_on(control.apply("user test", &document("j", spec(&after.0)))).unwrap();
        let rerun = planned(&cluster, job, 1);
        assert_eq!(
            stage.until_closed(rerun, 100),
            RunState::Succeeded,
            "{name}"
        );
        stage.accepted_once(rerun, after.1);
        let kept = (descriptors(&cluster, first), cluster.get(first).ended_at);
        assert_eq!(kept, settled, "{name}: the first run stays as it was");
        let keys: BTreeSet<String> = [first, rerun]
            .into_iter()
            .flat_map(|run| {
                let occasion = cluster.get(run).occasion;
                let shards = cluster.shards(run);
                shards
                    .into_iter()
                    .map(move |s| sichen_core::ids::fence_key(job, &occasion, s.key.no))
            })
            .collect();
        assert_eq!(keys.len(), before.1 + after.1, "{name}: no fence is shared");
    }
}
