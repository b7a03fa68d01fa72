//! A server that nobody works for.

use serde_json::json;

use crate::program::{Client, command, started, until};
use crate::scene::text;

/// SCALE-004: what a server says while no worker is there grows with the time, not with the planned times that
/// find their queues full: three days of 100 jobs a minute and one a second (690,000 planned times) stay below
/// 100 MB.
#[test]
fn a_server_without_workers_says_little_of_each_planned_time() {
    const MOST_BYTES_EACH: u64 = 100_000_000 / 690_000;
    let dir = tempfile::tempdir().unwrap();
    let (data, log) = (dir.path().join("data"), dir.path().join("log"));
    let mut server = command(&["server", "--listen", "127.0.0.1:0", "--data"]);
    server
        .arg(&data)
        .stderr(std::fs::File::create(&log).unwrap());
    let server = started(server);
    let client = Client::new(&server.url, &data);
    let names: Vec<String> = (0..5).map(|n| format!("each-second-{n}")).collect();
    for name in &names {
        let job = json!({
            "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": name },
            "spec": {
                "run": { "handler": "noop" }, "schedules": [{ "every": "1s" }],
                "overlap": { "queue": { "limit": 1 } },
            },
        });
        let file = dir.path().join("job.json");
        std::fs::write(&file, job.to_string()).unwrap();
        client.ok(&format!("apply -f {}", text(&file)));
    }
    let skipped = || {
        let counts = names.iter().map(|name| {
            let described = client.json(&format!("describe job {name}"));
            let records = described["decisions"].as_array().cloned();
            let counts = records.unwrap_or_default();
            counts
                .iter()
                .filter_map(|one| one["count"].as_u64())
                .sum::<u64>()
        });
        counts.sum::<u64>()
    };
    let said = || std::fs::metadata(&log).unwrap().len();
    until("the queues are full", || skipped() >= 5);
    let (from, before) = (skipped(), said());
    until("many find them full", || skipped() >= from + 30);
    let (grown, instants) = (said() - before, skipped() - from);
    let runs = client.json("runs --limit 500");
    let told = std::fs::read_to_string(&log).unwrap();
    assert_eq!(runs["items"].as_array().unwrap().len(), 10, "two of each");
    assert!(
        grown <= instants * MOST_BYTES_EACH,
        "{grown} bytes of {instants}: {told}"
    );
}
