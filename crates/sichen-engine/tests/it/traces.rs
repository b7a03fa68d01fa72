//! What is told of a run as a trace, by which node, and how often.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::executor::block_on;
use jiff::SignedDuration;
use serde_json::json;
use sichen_core::ids::{RunId, SessionId};
use sichen_core::lifecycle::RunState;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::{Checkpoint, Progress};
use sichen_core::port::SaveCheckpoint;
use sichen_core::trace::span::{Span, Value};
use sichen_core::trace::{Ratio, SpanId, TraceId};
use sichen_engine::tracer::{LAG, LOOK_BACK, MAX_BEHIND, Sink, Tracer, Tracing};
use tokio_util::sync::CancellationToken;

use crate::fixture::{Cluster, Node, hello, report, start};

/// Keeps what it takes, while it has room.
#[derive(Debug, Default)]
struct Kept {
    spans: Mutex<Vec<Span>>,
    is_full: Mutex<bool>,
}

impl Sink for Kept {
    fn take(&self, spans: Vec<Span>) -> bool {
        if *self.is_full.lock().unwrap() {
            return false;
        }
        self.spans.lock().unwrap().extend(spans);
        true
    }
}

impl Kept {
    fn taken(&self) -> Vec<Span> {
        std::mem::take(&mut self.spans.lock().unwrap())
    }
}

fn tracer(node: &Node, ratio: Ratio) -> (Tracer, Arc<Kept>) {
    let kept = Arc::<Kept>::default();
    let sink = kept.clone();
    let (context, coordinator) = (node.engine.context.clone(), node.engine.coordinator.clone());
    let tracing = Tracing { sink, ratio };
    (Tracer::new(context, coordinator, Some(tracing)), kept)
}

fn look(tracer: &Tracer, cluster: &Cluster) {
    let stop = CancellationToken::new();
    while block_on(tracer.run_once(cluster.now(), &stop)).is_some() {}
}

/// Lets what has ended come of age, while the node lives on.
fn age(cluster: &Cluster, node: &Node) {
    cluster.pass(LAG.as_secs());
    node.coordinate(cluster);
}

fn said<'a>(span: &'a Span, name: &str) -> Option<&'a Value> {
    span.says
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, value)| value)
}

fn text(span: &Span, name: &str) -> String {
    match said(span, name) {
        Some(Value::Text(text)) => text.clone(),
        other => panic!("{name}: {other:?}"),
    }
}

/// Whole: one root, parents that are there, times in order, no id twice.
fn is_whole(spans: &[Span]) {
    let ids: BTreeMap<SpanId, &Span> = spans.iter().map(|span| (span.id, span)).collect();
    assert_eq!(ids.len(), spans.len(), "an id is there twice: {spans:#?}");
    let roots = spans.iter().filter(|span| span.parent.is_none());
    assert_eq!(roots.count(), 1);
    for span in spans {
        assert!(span.from <= span.to, "{span:#?}");
        if let Some(parent) = span.parent {
            let parent = ids[&parent];
            assert_eq!(parent.trace, span.trace);
            assert!(parent.from <= span.from, "{span:#?} in {parent:#?}");
        }
        for mark in &span.marks {
            assert!(
                span.from <= mark.at && mark.at <= span.to,
                "{mark:?} in {span:#?}"
            );
        }
    }
}

#[test]
fn a_run_that_was_taken_over_is_told_whole() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let (tracer, kept) = tracer(&node, Ratio::ALL);
    let first = node.worker(&cluster, "w1", 2);
    let job = cluster.apply(
        "pay/j",
        json!({ "run": { "handler": "h" }, "shards": { "count": 2 } }),
    );
    let run = cluster.run(job, "k");
    cluster.pass(1);
    node.dispatch(&cluster);
    let mut old = node.grants(first);
    old.sort_by_key(|work| work.shard.key);
    let save = SaveCheckpoint {
        key: old[0].shard.key,
        token: old[0].shard.token,
        session: first,
        checkpoint: Some(Checkpoint {
            seq: 1,
            position: "p".to_owned(),
        }),
        progress: Progress::default(),
        idle: SignedDuration::ZERO,
    };
    block_on(node.engine.sessions.checkpoint("worker w1", vec![save])).unwrap();
    let done = |work: &sichen_engine::work::Work| {
        report(work.shard.key, work.shard.token, Ending::Succeeded)
    };
    node.report(&cluster, done(&old[1]));
    // Its worker falls silent, and another takes it over.
    for _ in 0..5 {
        cluster.pass(4);
        node.coordinate(&cluster);
    }
    assert_eq!(node.reap(&cluster), 1);
    let second = node.worker(&cluster, "w2", 1);
    cluster.pass(10);
    node.coordinate(&cluster);
    node.dispatch(&cluster);
    let new = node.grants(second).pop().unwrap();
    node.report(&cluster, done(&old[0]));
    cluster.pass(2);
    node.coordinate(&cluster);
    look(&tracer, &cluster);
    assert_eq!(kept.taken(), [], "what is open is not told");
    node.report(&cluster, done(&new));
    assert_eq!(cluster.get(run).state, RunState::Succeeded);
    look(&tracer, &cluster);
    assert_eq!(kept.taken(), [], "what has just ended may not all be there");
    age(&cluster, &node);
    look(&tracer, &cluster);
    let spans = kept.taken();
    is_whole(&spans);
    assert_eq!(spans.len(), 4, "{spans:#?}");
    let root = &spans[0];
    assert_eq!(root.trace, TraceId::of(job, run));
    assert_eq!(
        (text(root, "sichen.namespace"), text(root, "sichen.job")),
        ("pay".into(), "j".into())
    );
    assert_eq!(text(root, "sichen.state"), "succeeded");
    assert_eq!(root.from, start());
    assert_eq!(Some(root.to), cluster.get(run).ended_at);
    assert_eq!(root.failed, None);
    // The late report of the first worker is on the run.
    assert!(
        root.marks.iter().any(|mark| mark.name == "report_refused"),
        "{root:#?}"
    );
    let of = |work: &sichen_engine::work::Work| {
        let id = SpanId::of(work.shard.key, work.shard.token);
        let parent = work.traceparent();
        let span = spans.iter().find(|span| span.id == id).unwrap();
        let hex: String = id
            .bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(parent, format!("00-{}-{hex}-01", span.trace));
        span
    };
    let (lost, other, again) = (of(&old[0]), of(&old[1]), of(&new));
    assert_eq!(text(lost, "sichen.end"), "lost");
    assert_eq!(text(lost, "sichen.worker"), "w1");
    assert!(lost.failed.is_some());
    assert_eq!(lost.marks.len(), 1, "its checkpoint");
    assert_eq!(text(other, "sichen.end"), "succeeded");
    assert_eq!((other.follows, other.failed.clone()), (None, None));
    assert_eq!(again.follows, Some(lost.id));
    assert_eq!(said(again, "sichen.is_takeover"), Some(&Value::Flag(true)));
    assert_eq!(said(again, "sichen.attempt"), Some(&Value::Number(2)));
    assert_eq!(text(again, "sichen.worker"), "w2");
    assert!(again.from >= lost.to);
    // Nothing is told twice.
    cluster.pass(1);
    look(&tracer, &cluster);
    assert_eq!(kept.taken(), []);
}

/// Runs `n` runs of one shard that succeed.
fn some(cluster: &Cluster, node: &Node, session: SessionId, name: &str, n: usize) -> Vec<RunId> {
    let job = cluster.apply(name, json!({ "run": { "handler": "h" } }));
    let runs: Vec<RunId> = (0..n).map(|i| cluster.run(job, &i.to_string())).collect();
    node.dispatch(cluster);
    for work in node.grants(session) {
        node.report(
            cluster,
            report(work.shard.key, work.shard.token, Ending::Succeeded),
        );
    }
    for run in &runs {
        assert_eq!(cluster.get(*run).state, RunState::Succeeded);
    }
    runs
}

/// A value of the node's meter.
fn counted(node: &Node, name: &str) -> u64 {
    let mut registry = prometheus_client::registry::Registry::default();
    node.engine.context.meter.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::prometheus_text::encode(&mut text, &registry).unwrap();
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name} ")));
    value
        .unwrap_or_else(|| panic!("{name} in {text}"))
        .parse()
        .unwrap()
}

#[test]
fn the_times_of_each_ended_run_are_counted_once() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.node("n1"), cluster.node("n2"));
    one.coordinate(&cluster);
    let of = |node: &Node| {
        let (context, coordinator) = (node.engine.context.clone(), node.engine.coordinator.clone());
        Tracer::new(context, coordinator, None)
    };
    let (first, second) = (of(&one), of(&two));
    look(&first, &cluster);
    cluster.pass(1);
    let session = one.worker(&cluster, "w1", 100);
    some(&cluster, &one, session, "early", 3);
    age(&cluster, &one);
    look(&first, &cluster);
    look(&first, &cluster);
    let lengths = "run_duration_seconds_count{state=\"succeeded\"}";
    assert_eq!(counted(&one, lengths), 3);
    assert_eq!(counted(&one, "start_latency_seconds_count"), 3);
    assert_eq!(
        counted(&one, "planned_to_settled_seconds_count"),
        0,
        "nobody planned them"
    );
    // The other takes over, and what was counted is not counted again.
    for _ in 0..4 {
        cluster.pass(3);
        two.coordinate(&cluster);
        look(&second, &cluster);
    }
    assert!(counted(&two, "duties_taken_total") > 64);
    let session = two.worker(&cluster, "w2", 100);
    some(&cluster, &two, session, "late", 2);
    age(&cluster, &two);
    look(&second, &cluster);
    look(&first, &cluster);
    assert_eq!((counted(&one, lengths), counted(&two, lengths)), (3, 2));
}

fn told(spans: &[Span]) -> BTreeSet<TraceId> {
    spans.iter().map(|span| span.trace).collect()
}

#[test]
fn a_successor_tells_what_a_dead_node_may_not_have_told_and_the_same_of_it() {
    let cluster = Cluster::new();
    let one = cluster.node("n1");
    one.coordinate(&cluster);
    let (first, by_first) = tracer(&one, Ratio::ALL);
    let session = one.worker(&cluster, "w1", 100);
    some(&cluster, &one, session, "early", 3);
    age(&cluster, &one);
    look(&first, &cluster);
    let early = by_first.taken();
    assert_eq!(told(&early).len(), 3);
    // These end, and their node dies before it has told them.
    some(&cluster, &one, session, "late", 4);
    let two = cluster.node("n2");
    let (second, by_second) = tracer(&two, Ratio::ALL);
    for _ in 0..3 {
        cluster.pass(3);
        two.coordinate(&cluster);
        look(&second, &cluster);
    }
    let after = by_second.taken();
    assert_eq!(
        told(&after).len(),
        7,
        "all of them, and those of a moment before again"
    );
    let again: Vec<&Span> = after
        .iter()
        .filter(|span| told(&early).contains(&span.trace))
        .collect();
    assert!(again.into_iter().eq(early.iter()), "the same spans");
    // What lies farther back is told no more.
    let three = cluster.node("n3");
    let (third, by_third) = tracer(&three, Ratio::ALL);
    cluster.pass(LOOK_BACK.as_secs() + 10);
    three.coordinate(&cluster);
    look(&third, &cluster);
    assert_eq!(by_third.taken(), []);
}

#[test]
fn nodes_share_the_runs_and_a_share_of_them_is_told() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.node("n1"), cluster.node("n2"));
    for _ in 0..12 {
        one.coordinate(&cluster);
        two.coordinate(&cluster);
        cluster.pass(1);
    }
    let half = Ratio::new(0.5).unwrap();
    let ((first, by_first), (second, by_second)) = (tracer(&one, half), tracer(&two, half));
    // Who owns the pool hands out; partitions are of jobs.
    let pool = sichen_core::model::DutyKey::Pool(crate::fixture::pool());
    let owner = [&one, &two]
        .into_iter()
        .find(|node| node.engine.coordinator.owns(&pool));
    let owner = owner.unwrap_or(&one);
    let session = owner.worker(&cluster, "w1", 100);
    let mut runs = Vec::new();
    for n in 0..8 {
        runs.extend(some(&cluster, owner, session, &format!("j{n}"), 10));
    }
    cluster.pass(LAG.as_secs());
    one.coordinate(&cluster);
    two.coordinate(&cluster);
    look(&first, &cluster);
    look(&second, &cluster);
    let (a, b) = (by_first.taken(), by_second.taken());
    let (a, b) = (told(&a), told(&b));
    assert!(a.is_disjoint(&b));
    assert!(
        !a.is_empty() && !b.is_empty(),
        "{} and {}",
        a.len(),
        b.len()
    );
    let expect = runs
        .iter()
        .map(|run| TraceId::of(cluster.get(*run).job, *run));
    let expect: BTreeSet<TraceId> = expect.filter(|id| half.takes(*id)).collect();
    assert_eq!(a.union(&b).copied().collect::<BTreeSet<_>>(), expect);
    assert!((30..=50).contains(&expect.len()), "{} of 80", expect.len());
}

#[test]
fn what_does_not_fit_and_what_is_too_far_behind_is_counted_and_not_told_later() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let (tracer, kept) = tracer(&node, Ratio::ALL);
    *kept.is_full.lock().unwrap() = true;
    let session = node.worker(&cluster, "w1", 100);
    some(&cluster, &node, session, "full", 3);
    age(&cluster, &node);
    look(&tracer, &cluster);
    *kept.is_full.lock().unwrap() = false;
    let dropped = |reason: &str| {
        counted(
            &node,
            &format!("trace_spans_dropped_total{{reason=\"{reason}\"}}"),
        )
    };
    assert_eq!(dropped("queue_full"), 6);
    some(&cluster, &node, session, "old", 2);
    // The loop stood still for long.
    cluster.pass(MAX_BEHIND.as_secs() + LAG.as_secs() + 1);
    for _ in 0..3 {
        cluster.pass(1);
        node.coordinate(&cluster);
    }
    look(&tracer, &cluster);
    assert_eq!(kept.taken(), []);
    // A lease that was lost meanwhile begins anew, and looks no farther back than that.
    assert!(matches!(dropped("behind"), 0 | 2));
    let session = node.worker(&cluster, "w2", 100);
    some(&cluster, &node, session, "new", 1);
    age(&cluster, &node);
    look(&tracer, &cluster);
    assert_eq!(told(&kept.taken()).len(), 1);
}

#[test]
fn a_round_that_was_reopened_is_a_span_under_the_first() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let (tracer, kept) = tracer(&node, Ratio::ALL);
    let spec = json!({ "run": { "handler": "h" }, "retry": { "maxAttempts": 1 } });
    let job = cluster.apply("j", spec);
    let session = node.register(&cluster, hello("w", "first", 1));
    let ends = |ending: Ending| {
        node.dispatch(&cluster);
        let work = node.grants(session).pop().unwrap();
        let mut report = report(work.shard.key, work.shard.token, ending);
        report.failure = (ending != Ending::Succeeded).then(|| sichen_core::model::Failure {
            code: "exit-1".to_owned(),
            message: "it broke".to_owned(),
        });
        node.report(&cluster, report);
    };
    let reopen = |run: RunId| {
        let now = cluster.now();
        block_on(cluster.store.reopen_run(cluster.op(), run, None, now)).unwrap();
    };
    // Reopened at once: nobody has told the first round yet.
    let quick = cluster.run(job, "quick");
    ends(Ending::Failed);
    assert_eq!(cluster.get(quick).state, RunState::Failed);
    reopen(quick);
    ends(Ending::Succeeded);
    age(&cluster, &node);
    look(&tracer, &cluster);
    let spans = kept.taken();
    is_whole(&spans);
    assert_eq!(spans.len(), 4, "{spans:#?}");
    // Reopened when the first round was told already.
    let slow = cluster.run(job, "slow");
    ends(Ending::Failed);
    age(&cluster, &node);
    look(&tracer, &cluster);
    let first = kept.taken();
    is_whole(&first);
    assert_eq!(first.len(), 2);
    assert_eq!(text(&first[1], "sichen.code"), "exit-1");
    assert_eq!(first[1].failed.as_deref(), Some("it broke"));
    assert!(first[0].failed.is_some());
    for _ in 0..20 {
        cluster.pass(4);
        node.coordinate(&cluster);
        node.beat(session, &[], 10);
    }
    reopen(slow);
    ends(Ending::Succeeded);
    age(&cluster, &node);
    look(&tracer, &cluster);
    let second = kept.taken();
    assert_eq!(second.len(), 2, "{second:#?}");
    assert_eq!(second[0].parent, Some(first[0].id));
    assert_eq!(said(&second[0], "sichen.round"), Some(&Value::Number(2)));
    assert_eq!(second[1].parent, Some(second[0].id));
    assert_eq!(second[0].trace, first[0].trace);
    is_whole(&[first, second].concat());
}
