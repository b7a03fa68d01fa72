//! `sichen import`, made of the built program.

use crate::program::{Client, command, err, out, start};

const CRON_JOB: &str = "apiVersion: batch/v1
kind: CronJob
metadata: { name: report }
spec:
  schedule: '* * * * *'
  timeZone: UTC
  suspend: true
  jobTemplate:
    spec:
      template:
        spec: { restartPolicy: Never, containers: [{ name: c, image: example/report }] }
";

#[test]
fn imported_jobs_are_applied_and_a_suspended_one_never_fires() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let words = [
        "dev",
        "--data",
        data.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
    ];
    let dev = start(&words);
    let client = Client::new(&dev.url, &data);
    let manifest = dir.path().join("cron.yaml");
    std::fs::write(&manifest, CRON_JOB).unwrap();
    let apply = format!("import kubernetes {} --apply", manifest.display());
    let first = client.ok(&apply);
    assert!(
        first.contains("report created") && first.contains("paused"),
        "{first}"
    );
    let jobs = client.json("get jobs");
    assert_eq!(jobs["items"][0]["paused"], true, "{jobs}");
    assert!(client.ok(&apply).contains("unchanged"));
    assert_eq!(client.json("runs report")["items"], serde_json::json!([]));

    // One line is refused: nothing is applied unless the others are asked for.
    let table = dir.path().join("table");
    std::fs::write(&table, "0 1 * * * /bin/true\n@reboot /bin/agent\n").unwrap();
    let apply = format!("import crontab {} --tz UTC --apply", table.display());
    assert!(client.fails(&apply, 2).contains("SC7031"));
    client.fails(&format!("{apply} --skip-refused"), 2);
    assert_eq!(client.json("get jobs")["items"][1]["name"], "true");
}

#[test]
fn what_is_printed_can_be_checked_and_says_what_was_refused() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("table");
    std::fs::write(&table, "*/5 * * * * /bin/true\n0 25 * * * x\n").unwrap();
    let table = table.to_str().unwrap();
    let output = command(&["import", "crontab", table, "--tz", "Europe/Berlin"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains("table:2: refused: times: SC1103"),
        "{}",
        err(&output)
    );
    let jobs = dir.path().join("jobs.yaml");
    std::fs::write(&jobs, out(&output)).unwrap();
    let checked = command(&["validate", jobs.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(out(&checked), "job true is valid\n");
    let output = command(&["import", "crontab", table, "-o", "json"])
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(json["documents"].as_array().unwrap().len(), 1);
    assert_eq!(json["proved"][0]["times"], 100);
    let levels: Vec<&str> = json["remarks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["level"].as_str().unwrap())
        .collect();
    assert!(
        levels.contains(&"refused") && levels.contains(&"warning"),
        "{json}"
    );
}
