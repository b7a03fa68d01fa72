//! Claims about what is made of a collector's answers, and of one that does not answer.

use jiff::Timestamp;
use reqwest::header::HeaderValue;
use sichen_core::ids::{JobUid, RunId};
use sichen_core::trace::{SpanId, TraceId};

use super::*;

fn spans(n: usize) -> Vec<Span> {
    let trace = TraceId::of(
        JobUid("018f0000-0000-7000-8000-000000000001".parse().unwrap()),
        RunId(1),
    );
    let span = |n| Span {
        trace,
        id: SpanId::of_round(RunId(1), n),
        parent: None,
        follows: None,
        name: "a/b".to_owned(),
        from: Timestamp::UNIX_EPOCH,
        to: Timestamp::UNIX_EPOCH,
        says: Vec::new(),
        marks: Vec::new(),
        unmarked: 0,
        failed: Some("ü".repeat(1_000)),
    };
    (0..n).map(|n| span(u32::try_from(n).unwrap())).collect()
}

fn exporter(url: &str) -> (Exporter, Arc<Meter>) {
    let collector = Collector {
        url: url.parse().unwrap(),
        headers: HeaderMap::new(),
        trusted: Vec::new(),
        timeout: Duration::from_secs(1),
        resource: Vec::new(),
    };
    let (exporter, meter) = (Exporter::new(collector).unwrap(), Arc::<Meter>::default());
    exporter.counts_with(meter.clone());
    (exporter, meter)
}

/// The value of a line of the meter's.
fn told(meter: &Meter, name: &str) -> u64 {
    let mut registry = prometheus_client::registry::Registry::default();
    meter.register(&mut registry);
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
fn an_answer_says_what_becomes_of_a_batch() {
    let check = |status: u16, after: Option<&'static str>, body: &[u8]| {
        let mut headers = HeaderMap::new();
        headers.extend(after.map(|text| (RETRY_AFTER, HeaderValue::from_static(text))));
        judge(StatusCode::from_u16(status).unwrap(), &headers, body)
    };
    let taken = |but, why: &str| Tried::Taken {
        but,
        why: why.to_owned(),
    };
    assert_eq!(check(200, None, b""), taken(0, ""));
    // A body that is no message, of who only answers that it is well.
    assert_eq!(check(200, None, b"{}"), taken(0, ""));
    let partly = otlp::Answer {
        partial_success: Some(otlp::PartialSuccess {
            rejected_spans: 3,
            error_message: "old".to_owned(),
        }),
    };
    assert_eq!(check(202, None, &partly.encode_to_vec()), taken(3, "old"));
    for status in [429, 502, 503, 504] {
        let wait = |tried| match tried {
            Tried::Later { wait, .. } => wait,
            other => panic!("{status}: {other:?}"),
        };
        assert_eq!(
            wait(check(status, Some("7"), b"")),
            Some(Duration::from_secs(7))
        );
        assert_eq!(
            wait(check(status, Some("Wed, 21 Oct 2026 07:28:00 GMT"), b"")),
            None
        );
    }
    for status in [301, 400, 401, 404, 413, 500] {
        assert!(
            matches!(check(status, None, b""), Tried::Refused(_)),
            "{status}"
        );
    }
}

/// Whoever hands spans over is never kept waiting, and what is given up is counted.
#[tokio::test]
async fn spans_that_nobody_takes_are_given_up_and_counted() {
    // Nobody listens on a port that was just given back.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/traces", free.local_addr().unwrap());
    drop(free);
    let (mut exporter, meter) = exporter(&url);
    exporter.max_age = Duration::from_millis(700);
    assert!(exporter.take(spans(MAX_WAITING - 1)));
    assert!(!exporter.take(spans(2)), "a run's spans all or none");
    assert!(exporter.take(spans(1)));
    let failed = "trace_spans_dropped_total{reason=\"failed\"}";
    let some = async {
        while told(&meter, failed) < 2 * MAX_BATCH as u64 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = exporter.run() => {}
        () = some => {}
    }
    assert_eq!(told(&meter, "trace_spans_sent_total"), 0);
    let tries = told(&meter, "trace_exports_failed_total");
    assert!(tries >= 4, "{tries}: each batch was tried again");
    assert!(exporter.take(spans(MAX_BATCH)), "there is room again");
    // A stop does not wait for who does not answer.
    let ended = tokio::time::timeout(AT_STOP + Duration::from_secs(10), exporter.end());
    ended.await.unwrap();
    assert!(told(&meter, failed) >= MAX_WAITING as u64);
}

#[test]
fn a_long_reason_is_shortened_between_characters() {
    let body = form::body(&[("service.name".to_owned(), "s".to_owned())], &spans(1));
    let request = otlp::Request::decode(body.as_slice()).unwrap();
    let span = &request.resource_spans[0].scope_spans[0].spans[0];
    let status = span.status.as_ref().unwrap();
    assert_eq!((status.code, status.message.len()), (2, 1_024));
    assert_eq!(
        (
            span.trace_id.len(),
            span.span_id.len(),
            span.parent_span_id.len()
        ),
        (16, 8, 0)
    );
}
