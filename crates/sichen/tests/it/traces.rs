//! What a collector of OpenTelemetry gets of runs: real requests over the wire, read by the messages that the
//! project publishes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::{Span, status::StatusCode};
use prost::Message as _;
use serde_json::json;

use crate::cluster::Peers;
use crate::program::{until, until_within};
use crate::scene::{Scene, text};

/// Who collects: a socket that answers as the protocol says.
struct Collector {
    url: String,
    got: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
}

impl Collector {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let got = Arc::<Mutex<Vec<ExportTraceServiceRequest>>>::default();
        let kept = got.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = kept.clone();
                std::thread::spawn(move || while take(&stream, &kept).is_some() {});
            }
        });
        Self { url, got }
    }

    /// The spans of each trace by their ids. One that came again is the same again.
    fn traces(&self) -> BTreeMap<String, BTreeMap<String, Span>> {
        let got = self.got.lock().unwrap();
        let spans = got.iter().flat_map(|request| &request.resource_spans);
        let spans = spans
            .flat_map(|of| &of.scope_spans)
            .flat_map(|of| &of.spans);
        let mut traces = BTreeMap::<String, BTreeMap<String, Span>>::new();
        for span in spans {
            let trace = traces.entry(hex(&span.trace_id)).or_default();
            let known = trace
                .entry(hex(&span.span_id))
                .or_insert_with(|| span.clone());
            assert_eq!(known, span, "told again, and not the same");
        }
        traces
    }
}

/// Reads one request and answers it.
fn take(mut stream: &TcpStream, kept: &Mutex<Vec<ExportTraceServiceRequest>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
    assert!(
        head.contains("content-type: application/x-protobuf"),
        "{head}"
    );
    let length = head.split("content-length: ").nth(1)?;
    let length = length.lines().next()?.trim().parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    kept.lock()
        .unwrap()
        .push(ExportTraceServiceRequest::decode(body.as_slice()).unwrap());
    let answer = ExportTraceServiceResponse::default().encode_to_vec();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
        answer.len()
    );
    stream.write_all(&[head.into_bytes(), answer].concat()).ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn said(span: &Span, name: &str) -> Option<Any> {
    let attribute = span.attributes.iter().find(|of| of.key == name)?;
    attribute.value.as_ref()?.value.clone()
}

fn number(span: &Span, name: &str) -> i64 {
    match said(span, name) {
        Some(Any::IntValue(n)) => n,
        other => panic!("{name}: {other:?} in {span:?}"),
    }
}

/// A job whose attempts say under which parent they work; shard 1 fails the first time.
fn job(scene: &Scene, name: &str, waits: bool) {
    let (go, said) = (scene.path("go"), scene.path("parents"));
    let once = scene.path(&format!("{name}.once"));
    let wait = format!("while [ ! -e {} ]; do sleep 0.05; done;", text(&go));
    let wait = if waits { wait } else { String::new() };
    let script = format!(
        "echo $TRACEPARENT >> {}; {wait} if [ $SICHEN_SHARD_INDEX = 1 ] && [ ! -e {once} ]; then touch {once}; \
         exit 3; fi",
        text(&said),
        once = text(&once),
    );
    let spec = json!({
        "run": { "process": { "argv": ["/bin/sh", "-c", script] } },
        "shards": { "count": 3 },
        "retry": { "maxAttempts": 3, "backoff": { "fixed": "100ms" } },
    });
    scene.apply_spec(name, &spec);
}

/// One trace against what the server says of its run.
fn is_whole(scene: &Scene, key: &str, spans: &BTreeMap<String, Span>) {
    let run = scene.run(key);
    let roots: Vec<&Span> = spans
        .values()
        .filter(|span| span.parent_span_id.is_empty())
        .collect();
    let [root] = roots[..] else {
        panic!("{key}: {} roots", roots.len())
    };
    assert_eq!(
        said(root, "sichen.state"),
        Some(Any::StringValue("succeeded".into()))
    );
    assert_eq!(
        number(root, "sichen.run").to_string(),
        run["id"].to_string().trim_matches('"')
    );
    let mut expect = BTreeSet::new();
    for shard in scene.shards(key) {
        let attempts = shard["attempt"].as_i64().unwrap();
        expect.extend((1..=attempts).map(|attempt| (shard["no"].as_i64().unwrap(), attempt)));
    }
    let mut found = BTreeSet::new();
    for (id, span) in spans {
        assert!(
            span.start_time_unix_nano <= span.end_time_unix_nano,
            "{span:?}"
        );
        if span.span_id == root.span_id {
            continue;
        }
        assert_eq!(span.parent_span_id, root.span_id, "{span:?}");
        assert!(
            root.start_time_unix_nano <= span.start_time_unix_nano,
            "{span:?}"
        );
        assert!(
            span.end_time_unix_nano <= root.end_time_unix_nano,
            "{span:?}"
        );
        let place = (number(span, "sichen.shard"), number(span, "sichen.attempt"));
        assert!(found.insert(place), "{place:?} is there twice");
        let status = span
            .status
            .as_ref()
            .map_or(StatusCode::Unset, |status| status.code());
        if place == (1, 1) {
            assert_eq!(status, StatusCode::Error);
            assert_eq!(
                said(span, "sichen.code"),
                Some(Any::StringValue("exit-3".into()))
            );
        } else {
            assert_eq!(status, StatusCode::Unset);
            assert_eq!(
                said(span, "sichen.end"),
                Some(Any::StringValue("succeeded".into()))
            );
        }
        if place == (1, 2) {
            let first = &spans[&hex(&span.links[0].span_id)];
            assert_eq!(number(first, "sichen.attempt"), 1);
            assert!(
                first.end_time_unix_nano <= span.start_time_unix_nano,
                "{id}"
            );
        }
    }
    assert_eq!(found, expect, "{key}");
}

#[test]
fn traces_are_whole_though_a_server_dies_in_mid_run() {
    let collector = Collector::new();
    let Some(mut peers) = Peers::new(2, &["--traces-endpoint", &collector.url]) else {
        return;
    };
    peers.all_share(&[0, 1]);
    let worker = peers.worker("w1", 16);
    let name = |n: usize| format!("early{n}");
    let late = |n: usize| format!("late{n}");
    for n in 0..4 {
        job(&peers.nodes[0], &name(n), false);
        job(&peers.nodes[0], &late(n), true);
    }
    for n in 0..4 {
        peers.nodes[n % 2]
            .client
            .ok(&format!("run {} --key k", name(n)));
    }
    let key = |name: String| format!("{name}:manual:k");
    for n in 0..4 {
        peers.nodes[0].settles(&key(name(n)), "succeeded");
    }
    for n in 0..4 {
        peers.nodes[n % 2]
            .client
            .ok(&format!("run {} --key k", late(n)));
    }
    for n in 0..4 {
        until("a run is in the midst of it", || {
            peers.nodes[0].run(&key(late(n)))["state"] == "running"
        });
    }
    peers.kill(0);
    peers.nodes[0].go();
    let left = &peers.nodes[1];
    let all: Vec<String> = (0..4).flat_map(|n| [key(name(n)), key(late(n))]).collect();
    for key in &all {
        left.settles(key, "succeeded");
    }
    until_within(Duration::from_secs(60), "every run is told", || {
        let traces = collector.traces();
        all.iter()
            .all(|key| traces.contains_key(left.run(key)["trace_id"].as_str().unwrap()))
    });
    let traces = collector.traces();
    assert_eq!(traces.len(), all.len(), "and nothing else");
    for key in &all {
        is_whole(
            left,
            key,
            &traces[left.run(key)["trace_id"].as_str().unwrap()],
        );
    }
    // What each process had for its parent is the span of its attempt.
    let heard = std::fs::read_to_string(peers.nodes[0].path("parents")).unwrap();
    let heard: BTreeSet<String> = heard.lines().map(str::to_owned).collect();
    let attempts = traces.iter().flat_map(|(trace, spans)| {
        let attempts = spans
            .iter()
            .filter(|(_, span)| !span.parent_span_id.is_empty());
        attempts.map(move |(id, _)| format!("00-{trace}-{id}-01"))
    });
    assert_eq!(heard, attempts.collect());
    drop(worker);
    left.history_is_accepted();
}

/// A value of `/metrics`.
fn metric(scene: &Scene, name: &str) -> u64 {
    let text = scene.ask("GET", "/metrics", "").body;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name} in {text}"))
        .trim()
        .parse()
        .unwrap()
}

/// How long 15 runs take, one behind the other.
fn fifteen(scene: &Scene) -> Duration {
    let worker = scene.worker("w1", &scene.server.url, 4);
    scene.apply(
        "quick",
        &json!({ "handler": "sleep" }),
        &json!({ "ms": 1 }),
        1,
    );
    scene.client.ok("run quick --key first");
    scene.settles("quick:manual:first", "succeeded");
    let begun = Instant::now();
    for n in 0..15 {
        let body = json!({ "key": n.to_string() }).to_string();
        let answer = scene.ask("POST", "/api/v1/jobs/default/quick/runs", &body);
        assert_eq!(answer.status, 201, "{:?}", answer.body);
    }
    for n in 0..15 {
        scene.settles(&format!("quick:manual:{n}"), "succeeded");
    }
    drop(worker);
    begun.elapsed()
}

#[test]
fn a_collector_that_is_dead_slows_nothing_and_is_counted() {
    let scene = |more: &[&str]| Scene::on(tempfile::tempdir().unwrap(), None, more, Vec::new());
    let without = fifteen(&scene(&[]));
    // It takes connections and answers nothing.
    let hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", hole.local_addr().unwrap());
    let mut silent = scene(&["--traces-endpoint", &url]);
    let with = fifteen(&silent);
    assert!(
        with < without * 2 + Duration::from_secs(2),
        "{with:?} against {without:?}"
    );
    until_within(
        Duration::from_secs(60),
        "that it does not answer is counted",
        || metric(&silent, "sichen_trace_exports_failed_total") > 0,
    );
    assert_eq!(metric(&silent, "sichen_trace_spans_sent_total"), 0);
    assert_eq!(silent.ready().0, 200);
    let begun = Instant::now();
    silent.server.signal(Signal::SIGTERM);
    assert!(silent.server.ended().success());
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_share_of_none_tells_nothing_and_says_so_to_processes() {
    let collector = Collector::new();
    let words = ["--traces-endpoint", &collector.url, "--traces-ratio", "0"];
    let scene = Scene::on(tempfile::tempdir().unwrap(), None, &words, Vec::new());
    let worker = scene.worker("w1", &scene.server.url, 4);
    job(&scene, "quiet", false);
    scene.client.ok("run quiet --key k");
    scene.settles("quiet:manual:k", "succeeded");
    let heard = std::fs::read_to_string(scene.path("parents")).unwrap();
    assert_eq!(heard.lines().count(), 4);
    assert!(heard.lines().all(|line| line.ends_with("-00")), "{heard}");
    drop(worker);
}
