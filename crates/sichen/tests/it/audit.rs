//! `sichen audit` and the planned times that `sichen verify` judges, made of the built program.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::program::{Client, start, until};

const JOB: &str = r#"
apiVersion: sichen/v1
kind: Job
metadata: { name: tick }
spec:
  run: { handler: echo }
  schedules: [{ cron: "*/3 * * * * *" }]
  overlap: allow
"#;

/// The planned runs among the rows of an export, with their place in it.
fn planned(lines: &[Value]) -> Vec<usize> {
    let is_planned = |line: &Value| {
        let occasion = line["occasion"].as_str().unwrap_or("");
        line["row"] == "run" && occasion.starts_with("p/")
    };
    (0..lines.len())
        .filter(|n| is_planned(&lines[*n]))
        .collect()
}

#[test]
fn an_audit_tells_a_deleted_an_added_and_a_moved_record() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let words = [
        "dev",
        "--data",
        data.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
    ];
    let mut dev = start(&words);
    let client = Client::new(&dev.url, &data);
    let file = dir.path().join("job.yaml");
    std::fs::write(&file, JOB).unwrap();
    client.ok(&format!("apply -f {}", file.display()));
    until("six planned runs", || {
        client.json("runs tick")["items"]
            .as_array()
            .is_some_and(|runs| runs.len() >= 6)
    });
    // Another revision, and a pause, in the same history.
    std::fs::write(&file, JOB.replace("*/3", "*/2")).unwrap();
    client.ok(&format!("apply -f {}", file.display()));
    client.ok("pause tick");
    client.ok("resume tick");

    let live = client.json("audit tick");
    assert_eq!(live["outcome"], "ok", "{live}");
    // What has not come is cut off, and no difference.
    let ahead = client.json("audit tick --to 2100-01-01T00:00:00Z");
    assert_eq!(ahead["outcome"], "ok", "{ahead}");
    assert!(ahead["jobs"][0]["to"].as_str() < Some("2100"), "{ahead}");
    let export = dir.path().join("export.jsonl");
    std::fs::write(&export, client.ok("export")).unwrap();
    dev.signal(Signal::SIGTERM);
    assert_eq!(dev.ended().code(), Some(0));

    let of_file = format!("audit tick --file {}", export.display());
    let whole = client.json(&of_file);
    assert!(whole["jobs"][0]["with_run"].as_u64() >= Some(6), "{whole}");
    let of_data = client.ok(&format!("audit --all --data {}", data.display()));
    assert!(of_data.contains("COMPLETE"), "{of_data}");
    // The checker, which asks the same evaluator, leaves no planned time undecided.
    let verdict = client.json(&format!("verify --data {} --quiescent", data.display()));
    let undecided: Vec<&Value> = verdict["undecided"].as_array().unwrap().iter().collect();
    assert!(
        undecided
            .iter()
            .all(|u| u["invariant"] != "I2" && u["invariant"] != "I3"),
        "{verdict}"
    );

    let text = std::fs::read_to_string(&export).unwrap();
    let mut lines: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let runs = planned(&lines);
    let at = |line: &Value| line["occasion"].as_str().unwrap().to_owned();
    let deleted = at(&lines[runs[0]]);
    let moved = at(&lines[runs[2]]);
    let mut added = lines[runs[4]].clone();
    let beside = at(&added);
    // `p/MICROSECONDS/RERUN`, a second later.
    let later = |occasion: &str| {
        let us: i64 = occasion.split('/').nth(1).unwrap().parse().unwrap();
        format!("p/{}/0", us + 1_000_000)
    };
    added["id"] = 999.into();
    added["occasion"] = later(&beside).into();
    lines[runs[2]]["occasion"] = later(&moved).into();
    lines.push(added);
    lines.remove(runs[0]);
    let tampered: Vec<String> = lines.iter().map(ToString::to_string).collect();
    std::fs::write(&export, tampered.join("\n")).unwrap();
    let found = client.fails_json(&of_file, 1);
    let kinds: Vec<&str> = found["jobs"][0]["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["missing", "moved", "extra"], "{deleted}: {found}");
    assert_eq!(found["finding_count"], 3);
    assert_eq!(found["jobs"][0]["findings"][2]["run"], 999);
    let tock = format!("audit tock --file {}", export.display());
    assert!(client.fails(&tock, 3).contains("SC5001"));
    // An export that was broken off at once is none of nothing.
    let empty = client.fails("audit --all --file /dev/null", 2);
    assert!(empty.contains("no event and no row"), "{empty}");
    let endless = client.fails("audit --all --file /dev/zero", 2);
    assert!(endless.contains("more than 8388608 bytes"), "{endless}");
    let endless = client.fails("verify --file /dev/zero", 2);
    assert!(endless.contains("more than 8388608 bytes"), "{endless}");
    let endless = client.fails("config check /dev/zero", 2);
    assert!(endless.contains("longer than 1048576 bytes"), "{endless}");
}
