//! A calendar that changes while jobs use it: nothing is decided twice or left out, also where a
//! node dies between the calendar's change and the jobs' edits.

use futures::executor::block_on;
use jiff::Timestamp;
use serde_json::{Value, json};
use sichen_check::audit::Records;
use sichen_core::document::CalendarDocument;
use sichen_core::event::Kind;
use sichen_core::ids::{JobUid, Revision};
use sichen_core::name::JobName;
use sichen_core::port::{CalendarVerdict, Page, RunFilter};
use sichen_engine::control::{Change, Control, Error};

use crate::fixture::{Cluster, Node, document, start};

/// A Sunday is off by this, unless the dates say otherwise.
fn calendar(name: &str, spec: Value) -> CalendarDocument {
    serde_json::from_value(json!({
        "apiVersion": "sichen/v1", "kind": "Calendar", "metadata": { "name": name }, "spec": spec,
    }))
    .unwrap()
}

fn each_minute(calendars: Value) -> Value {
    json!({
        "run": { "handler": "h" }, "overlap": "allow",
        "schedules": [{ "cron": "* * * * *", "calendars": calendars }],
    })
}

/// Fires until nothing more is due, and keeps the node's lease alive.
fn fire(cluster: &Cluster, node: &Node, minutes: i64) {
    for _ in 0..minutes {
        cluster.pass(60);
        node.coordinate(cluster);
        let now = cluster.now();
        while node.trigger(cluster).next.is_some_and(|next| next <= now) {}
    }
}

/// Minutes after the start at which there are runs, with the revision of each.
fn runs(cluster: &Cluster) -> Vec<(i64, Revision)> {
    let page = Page {
        after: None,
        limit: 1_000,
    };
    let runs = block_on(cluster.store.list_runs(RunFilter::default(), page)).unwrap();
    let minute = |at: Timestamp| (at.as_second() - start().as_second()) / 60;
    let mut found: Vec<_> = runs
        .iter()
        .map(|run| (minute(run.occasion.planned_at().unwrap()), run.revision))
        .collect();
    found.sort_unstable();
    found
}

/// Every instant of the job's revisions has its run or record, by the second evaluator.
fn audit(cluster: &Cluster, job: JobUid) {
    let records = Records::of(&block_on(cluster.store.dump()).unwrap());
    let audited = records.audit(job, None, None, None).unwrap();
    assert!(audited.report.findings.is_empty(), "{:?}", audited.report);
    assert!(audited.report.unjudged.is_empty(), "{:?}", audited.report);
}

/// A calendar, a job by it, and the calendar's change without that of the job: so far a node came
/// that died. The Sunday on which all this happens is off, and then worked.
fn half_done(cluster: &Cluster, node: &Node) -> (Control, JobUid, CalendarDocument) {
    node.coordinate(cluster);
    let control = Control::new(node.engine.context.clone());
    let old = calendar("c", json!({}));
    let applied = block_on(control.apply_calendar("user", &old)).unwrap();
    assert_eq!((applied.version, applied.change), (1, Change::Created));
    let spec = each_minute(json!([{ "name": "c", "use": "working-days" }]));
    let job = block_on(control.apply("user", &document("j", spec))).unwrap();
    fire(cluster, node, 3);
    let new = calendar("c", json!({ "workingDays": ["2026-03-01"] }));
    let text = serde_json::to_string(&new).unwrap();
    let name = JobName::new("default", "c").unwrap();
    let written = cluster
        .store
        .apply_calendar(cluster.op(), name, text, Some(1));
    assert_eq!(block_on(written).unwrap(), CalendarVerdict::Updated(2));
    // The job goes by its own version for as long as nobody brings it over.
    fire(cluster, node, 2);
    assert_eq!(runs(cluster), []);
    (control, job.uid, new)
}

/// What follows whoever brought the job over at minute 5.
fn is_whole(cluster: &Cluster, node: &Node, job: JobUid) {
    fire(cluster, node, 3);
    let expected: Vec<_> = [6, 7, 8].map(|minute| (minute, Revision(2))).to_vec();
    assert_eq!(
        runs(cluster),
        expected,
        "nothing before the edit, all after it"
    );
    let dump = block_on(cluster.store.dump()).unwrap();
    let edits = dump.events.iter().filter(|e| e.kind == Kind::JobApplied);
    let causes: Vec<_> = edits.map(|e| e.cause.as_str()).collect();
    assert_eq!(causes, ["", "calendar c 1 -> 2"]);
    audit(cluster, job);
}

#[test]
fn the_janitor_brings_over_what_an_apply_has_left() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    let (_, job, _) = half_done(&cluster, &node);
    block_on(node.engine.janitor.run_once(cluster.now())).unwrap();
    is_whole(&cluster, &node, job);
    block_on(node.engine.janitor.run_once(cluster.now())).unwrap();
    let row = block_on(cluster.store.get_job_by_uid(job))
        .unwrap()
        .unwrap();
    assert_eq!(row.revision, Revision(2), "once is enough");
}

#[test]
fn the_next_apply_of_the_calendar_brings_them_over_as_well() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    let (control, job, new) = half_done(&cluster, &node);
    let applied = block_on(control.apply_calendar("user", &new)).unwrap();
    assert_eq!((applied.version, applied.change), (2, Change::Unchanged));
    let name = JobName::new("default", "j").unwrap();
    assert_eq!(applied.jobs, [(name, Revision(2))]);
    is_whole(&cluster, &node, job);
}

#[test]
fn a_comparison_names_the_times_that_move_and_writes_nothing() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    let (control, ..) = half_done(&cluster, &node);
    let before = block_on(cluster.store.dump()).unwrap();
    let monday_off = calendar("c", json!({ "daysOff": ["2026-03-02"] }));
    let changes = block_on(control.compare_calendar(&monday_off)).unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].new, []);
    assert_eq!(changes[0].gone[0].to_string(), "2026-03-02T00:00:00Z");
    assert!(changes[0].more, "a whole day of minutes");
    assert_eq!(block_on(cluster.store.dump()).unwrap(), before);
}

#[test]
fn a_calendar_that_a_job_could_not_go_by_is_refused_and_changes_nothing() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let control = Control::new(node.engine.context.clone());
    let week = |days: &[&str]| json!({ "weekend": days });
    let first = calendar("a", week(&["saturday", "sunday"]));
    block_on(control.apply_calendar("user", &first)).unwrap();
    let second = calendar("b", week(&["friday"]));
    block_on(control.apply_calendar("user", &second)).unwrap();
    let spec = json!({
        "run": { "handler": "h" },
        "schedules": [{ "cron": "0 9 * * *", "calendars": [
            { "name": "a", "use": "roll-forward" }, { "name": "b", "use": "working-days" },
        ] }],
    });
    block_on(control.apply("user", &document("j", spec))).unwrap();
    let never = calendar(
        "b",
        week(&["monday", "tuesday", "wednesday", "thursday", "friday"]),
    );
    let refused = block_on(control.apply_calendar("user", &never));
    let Err(Error::Invalid(problems)) = refused else {
        panic!("{refused:?}")
    };
    assert!(problems[0].message.contains("job j"), "{problems:?}");
    let name = JobName::new("default", "b").unwrap();
    let kept = block_on(control.calendar(&name, None)).unwrap();
    assert_eq!(kept.version, 1);
}

#[test]
fn an_unknown_calendar_is_refused_with_the_name_that_is_near() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let control = Control::new(node.engine.context.clone());
    let known = calendar("cn-holidays", json!({}));
    block_on(control.apply_calendar("user", &known)).unwrap();
    let spec = each_minute(json!([{ "name": "cn-holiday", "use": "working-days" }]));
    let refused = block_on(control.apply("user", &document("j", spec)));
    let Err(Error::Invalid(problems)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(problems[0].path, "spec.schedules[0].calendars[0].name");
    assert!(
        problems[0].message.contains("did you mean `cn-holidays`"),
        "{problems:?}"
    );
}
