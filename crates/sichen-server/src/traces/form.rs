//! Spans as OTLP writes them.
//!
//! # Not here
//! What spans there are (`sichen_core::trace::span`); sending them ([`super`]).

use jiff::Timestamp;
use prost::Message as _;
use sichen_core::trace::span::{self, Mark, Span};

use super::otlp;

/// `SPAN_KIND_INTERNAL`: the processes that attempts start make spans of their own.
const INTERNAL: i32 = 1;
/// `STATUS_CODE_ERROR`.
const ERROR: i32 = 2;
/// The longest reason of a failure that is told, in bytes.
const MAX_REASON: usize = 1_024;
/// Of the trace flags the one that says sampled.
const SAMPLED: u32 = 1;

/// The body of a request with these spans of `resource`.
pub fn body(resource: &[(String, String)], spans: &[Span]) -> Vec<u8> {
    let scope = otlp::Scope {
        name: "sichen".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let attributes = resource.iter().map(|(key, value)| otlp::KeyValue {
        key: key.clone(),
        value: Some(value_of(&span::Value::Text(value.clone()))),
    });
    let request = otlp::Request {
        resource_spans: vec![otlp::ResourceSpans {
            resource: Some(otlp::Resource {
                attributes: attributes.collect(),
            }),
            scope_spans: vec![otlp::ScopeSpans {
                scope: Some(scope),
                spans: spans.iter().map(of).collect(),
            }],
        }],
    };
    request.encode_to_vec()
}

fn of(span: &Span) -> otlp::Span {
    let trace = span.trace.bytes().to_vec();
    let link = |id: sichen_core::trace::SpanId| otlp::Link {
        trace_id: trace.clone(),
        span_id: id.bytes().to_vec(),
    };
    otlp::Span {
        span_id: span.id.bytes().to_vec(),
        parent_span_id: span.parent.map_or_else(Vec::new, |id| id.bytes().to_vec()),
        name: span.name.clone(),
        kind: INTERNAL,
        start_time_unix_nano: nanos(span.from),
        end_time_unix_nano: nanos(span.to),
        attributes: says(&span.says),
        events: span.marks.iter().map(event).collect(),
        dropped_events_count: span.unmarked,
        links: span.follows.map(link).into_iter().collect(),
        status: span.failed.as_ref().map(|why| otlp::Status {
            message: shortened(why),
            code: ERROR,
        }),
        flags: SAMPLED,
        trace_id: trace,
    }
}

fn event(mark: &Mark) -> otlp::Event {
    otlp::Event {
        time_unix_nano: nanos(mark.at),
        name: mark.name.to_owned(),
        attributes: says(&mark.says),
    }
}

fn says(says: &span::Says) -> Vec<otlp::KeyValue> {
    let said = says.iter().map(|(key, value)| otlp::KeyValue {
        key: (*key).to_owned(),
        value: Some(value_of(value)),
    });
    said.collect()
}

fn value_of(value: &span::Value) -> otlp::AnyValue {
    let value = match value {
        span::Value::Text(text) => otlp::Value::Text(text.clone()),
        span::Value::Number(number) => otlp::Value::Number(*number),
        span::Value::Flag(flag) => otlp::Value::Flag(*flag),
    };
    otlp::AnyValue { value: Some(value) }
}

/// What lies before 1970 is at its begin: the protocol knows nothing earlier.
fn nanos(at: Timestamp) -> u64 {
    u64::try_from(at.as_nanosecond()).unwrap_or(0)
}

fn shortened(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_REASON);
    text[..end].to_owned()
}
