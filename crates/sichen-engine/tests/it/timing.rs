//! Schedules that fire.

use futures::executor::block_on;
use serde_json::json;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::port::{Page, RunFilter};

use sichen_core::ids::JobUid;
use sichen_core::name::JobName;
use sichen_core::port::ApplyJob;
use sichen_engine::context::IdSource;
use sichen_engine::control::Control;

use crate::fixture::{Cluster, Node, document, report, start};

fn runs(cluster: &Cluster) -> Vec<String> {
    let page = Page {
        after: None,
        limit: 100,
    };
    let runs = block_on(cluster.store.list_runs(RunFilter::default(), page)).unwrap();
    let mut keys: Vec<String> = runs
        .iter()
        .map(|r| r.occasion.planned_at().unwrap().to_string())
        .collect();
    keys.sort();
    keys
}

fn tick(cluster: &Cluster, node: &Node, seconds: i64) -> sichen_engine::trigger::Pass {
    cluster.pass(seconds);
    node.coordinate(cluster);
    node.trigger(cluster)
}

#[test]
fn each_planned_instant_becomes_one_run() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let spec = json!({
        "run": { "handler": "h" }, "schedules": [{ "cron": "*/5 * * * *" }], "overlap": "allow",
    });
    cluster.apply("j", spec);
    assert_eq!(
        tick(&cluster, &node, 1).runs,
        0,
        "creation never looks backwards"
    );
    let next = node.trigger(&cluster).next;
    assert_eq!(next, None, "five minutes are beyond the horizon");
    let pass = tick(&cluster, &node, 298);
    assert_eq!(
        pass.next.unwrap(),
        start() + jiff::SignedDuration::from_mins(5)
    );
    assert_eq!(tick(&cluster, &node, 1).runs, 1, "at the very instant");
    assert_eq!(node.trigger(&cluster).runs, 0, "and once only");
    assert_eq!(tick(&cluster, &node, 300).runs, 1);
    assert_eq!(
        runs(&cluster),
        ["2026-03-01T00:05:00Z", "2026-03-01T00:10:00Z"]
    );
}

#[test]
fn an_active_run_blocks_the_next_and_the_skip_names_it() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let spec = json!({ "run": { "handler": "h" }, "schedules": [{ "every": "1m" }] });
    let job = cluster.apply("j", spec);
    assert_eq!(tick(&cluster, &node, 60).runs, 1);
    let pass = tick(&cluster, &node, 60);
    assert_eq!((pass.runs, pass.skipped), (0, 1));
    let blocker = block_on(cluster.store.list_runs(
        RunFilter::default(),
        Page {
            after: None,
            limit: 1,
        },
    ))
    .unwrap()
    .pop()
    .unwrap();
    let decisions = block_on(cluster.store.list_decisions(job, start(), 10)).unwrap();
    assert_eq!(decisions.len(), 1);
    assert_eq!(decisions[0].reason, "overlap");
    assert_eq!(decisions[0].reference, blocker.id.to_string());
    // The blocker ends; the next instant runs again.
    let session = node.worker(&cluster, "w1", 1);
    assert_eq!(node.dispatch(&cluster), 1);
    let work = node.grants(session).pop().unwrap();
    node.report(
        &cluster,
        report(work.shard.key, work.shard.token, Ending::Succeeded),
    );
    assert_eq!(tick(&cluster, &node, 60).runs, 1);
}

/// A job that fires each second and was down for a year is decided at once.
#[test]
fn a_year_of_missed_instants_is_one_decision() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let spec = json!({ "run": { "handler": "h" }, "schedules": [{ "cron": "* * * * * *" }] });
    let job = cluster.apply("j", spec);
    let year = 365 * 24 * 3600;
    let pass = tick(&cluster, &node, year);
    assert_eq!(pass.runs, 1, "the latest");
    let decisions = block_on(cluster.store.list_decisions(job, start(), 100)).unwrap();
    // One row for what was missed, and one for each of the last seconds that were on time.
    assert!(decisions.len() <= 16, "{} rows", decisions.len());
    let skipped: u64 = decisions.iter().map(|d| d.count).sum();
    assert_eq!(
        skipped + pass.runs as u64,
        year as u64,
        "every instant is decided, none twice"
    );
}

/// A document that can't be read stops its own job and no other.
#[test]
fn an_unreadable_document_stops_no_neighbour() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let minute = Some(start() + jiff::SignedDuration::from_mins(1));
    let broken = ApplyJob {
        name: JobName::new("default", "broken").unwrap(),
        new_uid: JobUid(cluster.ids.uuid()),
        expected_ver: None,
        document: "{".to_owned(),
        high_water: start(),
        next_due: minute,
        closing: None,
    };
    block_on(cluster.store.apply_job(cluster.op(), broken)).unwrap();
    let spec = json!({ "run": { "handler": "h" }, "schedules": [{ "every": "1m" }] });
    cluster.apply("sound", spec);
    assert_eq!(tick(&cluster, &node, 60).runs, 1);
}

/// What a pause left out is recorded by the revision that was paused, also if it is edited before
/// it is resumed.
#[test]
fn editing_a_paused_job_decides_what_was_paused_by_the_old_revision() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let control = Control::new(node.engine.context.clone());
    let spec =
        |every: &str| json!({ "run": { "handler": "h" }, "schedules": [{ "every": every }] });
    let name = JobName::new("default", "j").unwrap();
    let applied = block_on(control.apply("user", &document("j", spec("1m")))).unwrap();
    block_on(control.set_paused("user", &name, true)).unwrap();
    cluster.pass(180);
    block_on(control.apply("user", &document("j", spec("1h")))).unwrap();
    cluster.pass(60);
    block_on(control.set_paused("user", &name, false)).unwrap();
    let decisions = block_on(cluster.store.list_decisions(applied.uid, start(), 10)).unwrap();
    let paused: u64 = decisions.iter().map(|d| d.count).sum();
    assert!(
        decisions.iter().all(|d| d.reason == "paused"),
        "{decisions:?}"
    );
    assert_eq!(
        paused, 3,
        "three minutes of the old rule, none of the new one's hours"
    );
}
