//! Claims about who collects traces.

use std::collections::BTreeMap;

use sichen_core::ids::{JobUid, RunId};
use sichen_core::trace::TraceId;

use super::*;

impl Variables for BTreeMap<&str, &str> {
    fn get(&self, name: &str) -> Option<String> {
        BTreeMap::get(self, name).map(|value| (*value).to_owned())
    }
}

fn endpoint(variables: &[(&'static str, &'static str)]) -> Option<String> {
    let variables: BTreeMap<_, _> = variables.iter().copied().collect();
    said(&variables).traces_endpoint
}

#[test]
fn the_variables_of_opentelemetry_name_the_collector() {
    const ALL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
    let check = |variables: &[(&'static str, &'static str)], expect: Option<&str>| {
        assert_eq!(endpoint(variables).as_deref(), expect, "{variables:?}");
    };
    check(&[], None);
    check(&[(ALL, "http://c:4318")], Some("http://c:4318/v1/traces"));
    check(
        &[(ALL, "https://c/otlp/")],
        Some("https://c/otlp/v1/traces"),
    );
    check(
        &[(ALL, "http://c"), (TRACES, "http://t/x")],
        Some("http://t/x"),
    );
    check(
        &[(ALL, "http://c"), (PROTOCOL, "http/protobuf")],
        Some("http://c/v1/traces"),
    );
    // What is said for all programs and can't be followed keeps no server from starting.
    check(&[(ALL, "http://c:4317"), (PROTOCOL, "grpc")], None);
    check(&[(ALL, "nowhere")], None);
    check(&[(ALL, "http://c"), ("OTEL_SDK_DISABLED", "true")], None);
    check(&[(ALL, "http://c"), ("OTEL_TRACES_EXPORTER", "none")], None);
}

#[test]
fn an_address_without_a_path_has_that_of_the_protocol() {
    let config = |endpoint: &str| ServerConfig {
        traces_endpoint: Some(endpoint.to_owned()),
        ..ServerConfig::default()
    };
    let url = |endpoint: &str| {
        let none = BTreeMap::<&str, &str>::new();
        let traces = traces(&config(endpoint), &none).unwrap().unwrap();
        traces.collector.url.to_string()
    };
    assert_eq!(url("http://c:4318"), "http://c:4318/v1/traces");
    assert_eq!(url("https://c/api/otlp"), "https://c/api/otlp");
    for wrong in ["c:4318", "ftp://c", "http://", ""] {
        let said = problems(&config(wrong));
        assert!(said[0].contains("traces_endpoint"), "{wrong}: {said:?}");
    }
    let ratio = ServerConfig {
        traces_ratio: Some(1.5),
        traces_ca: Some("ca.pem".into()),
        ..ServerConfig::default()
    };
    let said = problems(&ratio).join("\n");
    assert!(said.contains("traces_ratio: 1.5"), "{said}");
    assert!(said.contains("traces_ca: give traces_endpoint"), "{said}");
}

#[test]
fn headers_and_shares_are_read_and_shown_nowhere() {
    let variables: BTreeMap<_, _> = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20s3cret,x-team=a%2Cb",
        ),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0"),
        ("OTEL_SERVICE_NAME", "nightly"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=prod,service.name=x",
        ),
    ]
    .into_iter()
    .collect();
    let told = traces(&said(&variables), &variables).unwrap().unwrap();
    let shown = format!("{told:?}");
    assert!(
        !shown.contains("s3cret") && !shown.contains("//c"),
        "{shown}"
    );
    let Collector {
        headers,
        timeout,
        resource,
        ..
    } = told.collector;
    assert_eq!(headers["authorization"], "Bearer s3cret");
    assert_eq!(headers["x-team"], "a,b");
    assert_eq!(timeout, Duration::from_millis(2_500));
    let of = |key: &str| {
        resource
            .iter()
            .filter(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("service.name"), ["nightly"]);
    assert_eq!(of("deployment.environment.name"), ["prod"]);
    assert!(
        !told
            .ratio
            .takes(TraceId::of(JobUid(uuid::Uuid::from_u128(1)), RunId(1)))
    );

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("headers");
    let file = ServerConfig {
        traces_endpoint: Some("http://c".to_owned()),
        traces_headers: Some(path.clone()),
        ..ServerConfig::default()
    };
    let none = BTreeMap::<&str, &str>::new();
    std::fs::write(&path, "# ours\nAuthorization: Basic c2VjcmV0\n\n").unwrap();
    let told = traces(&file, &none).unwrap().unwrap();
    assert_eq!(told.collector.headers["authorization"], "Basic c2VjcmV0");
    std::fs::write(&path, "Authorization: a\nno colon s3cret\n").unwrap();
    let refused = traces(&file, &none).unwrap_err().to_string();
    assert!(
        refused.contains("SC7008") && refused.contains(":2:"),
        "{refused}"
    );
    assert!(!refused.contains("s3cret"), "{refused}");
}
