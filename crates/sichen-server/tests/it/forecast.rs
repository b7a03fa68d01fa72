//! Forecasts as they are asked for over the wire.

use sichen_server::rest::wire;

use crate::node::{Node, json, problem};

const JOB: &str = "
apiVersion: sichen/v1
kind: Job
metadata: {name: nightly}
spec:
  schedules: [{cron: '0 3 * * *'}]
  run: {handler: work}
";

#[tokio::test]
async fn a_day_is_shown_in_hours_and_other_times_as_wished() {
    let node = Node::start().await;
    let _: serde_json::Value = json(node.post("/api/v1/jobs:apply", JOB).await).await;
    let day: wire::Forecast = node.read("/api/v1/forecast").await;
    assert_eq!(day.limits.len(), 1);
    assert_eq!(
        (day.limits[0].limit.as_str(), day.limits[0].there),
        ("slots", 0)
    );
    assert_eq!(day.limits[0].parts.len(), 24);
    let names: Vec<(&str, u64)> = day.jobs.iter().map(|j| (j.job.as_str(), j.runs)).collect();
    assert_eq!(names, [("nightly", 1)]);
    let path = "/api/v1/forecast?pool=default&slots=3&from=2030-01-01T02:30:00Z\
                &to=2030-01-01T03:45:00Z&part_ms=1800000";
    let wished: wire::Forecast = node.read(path).await;
    let slots = &wished.limits[0];
    let runs: Vec<(&str, u64)> = slots
        .parts
        .iter()
        .map(|part| (part.from.as_str(), part.runs))
        .collect();
    assert_eq!(slots.there, 3);
    assert_eq!(
        runs,
        [
            ("2030-01-01T02:30:00Z", 0),
            ("2030-01-01T03:00:00Z", 1),
            ("2030-01-01T03:30:00Z", 0)
        ]
    );
}

#[tokio::test]
async fn a_time_that_can_not_be_divided_is_refused_with_what_is_wrong() {
    let node = Node::start().await;
    for (query, wrong) in [
        (
            "from=2030-01-02T00:00:00Z&to=2030-01-01T00:00:00Z",
            "is not a time of",
        ),
        (
            "from=2030-01-01T00:00:00Z&to=2030-01-01T00:00:00Z",
            "is not a time of",
        ),
        (
            "from=2030-01-01T00:00:00Z&to=2031-01-03T00:00:00Z",
            "is not a time of",
        ),
        ("part_ms=0", "part_ms=0"),
        ("part_ms=-5", "part_ms=-5"),
        ("part_ms=1000", "at least 86400"),
        ("from=yesterday", "is no instant"),
        ("pool=No%20Such", "the pool's name has"),
        ("pools=default", "unknown field"),
    ] {
        let answer = node.get(&format!("/api/v1/forecast?{query}")).await;
        let problem = problem(answer, 400).await;
        let detail = problem.detail.clone();
        assert!(detail.contains(wrong), "{query}: {detail}");
    }
    for at in ["-009999-01-02T01:59:59Z", "9999-12-30T21:59:59Z"] {
        let answer = node.get(&format!("/api/v1/forecast?from={at}")).await;
        assert!(!answer.status().is_server_error(), "{at}");
    }
}
