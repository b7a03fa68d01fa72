//! Claims about dead letters and their retry in bulk, made of the built program.

use serde_json::Value;

use crate::program::{Client, out, start, until};

const JOBS: &str = r#"
apiVersion: sichen/v1
kind: Job
metadata: { name: outage }
spec:
  run: { handler: fail }
  parameters: { attempts: 1, message: no luck }
  shards: { count: 3 }
  retry: { maxAttempts: 1 }
---
apiVersion: sichen/v1
kind: Job
metadata: { name: hopeless }
spec:
  run: { handler: fail }
  retry: { maxAttempts: 1 }
"#;

fn items(answer: &Value) -> Vec<Value> {
    answer["items"].as_array().unwrap().clone()
}

#[test]
fn dead_letters_are_listed_planned_and_retried_in_bulk() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let words = ["dev", "--listen", "127.0.0.1:0", "--data"];
    let process = start(&[&words[..], &[data.to_str().unwrap()]].concat());
    let c = Client::new(&process.url, &data);
    let jobs = dir.path().join("jobs.yaml");
    std::fs::write(&jobs, JOBS).unwrap();
    c.ok(&format!("apply -f {}", jobs.display()));
    for words in ["hopeless --key k", "outage --key k1", "outage --key k2"] {
        let run = c.run(&format!("run {words} --wait"));
        assert_eq!(run.status.code(), Some(1), "{}", out(&run));
    }

    let all = c.json("dead-letters");
    let keys: Vec<Value> = items(&all).iter().map(|l| l["key"].clone()).collect();
    let [k2, k1] = ["outage:manual:k2", "outage:manual:k1"];
    assert_eq!(keys, [k2, k2, k2, k1, k1, k1, "hopeless:manual:k"]);
    let page = c.json("dead-letters outage --limit 4");
    let rest = page["next"].as_str().unwrap().to_owned();
    let rest = c.json(&format!("dead-letters outage --after {rest}"));
    assert_eq!((items(&page).len(), items(&rest).len()), (4, 2));
    let shown = c.ok("dead-letters --code asked-to-fail");
    assert!(shown.contains("no luck"), "{shown}");
    assert!(c.ok("dead-letters -o yaml").contains("asked-to-fail"));
    assert!(c.fails("dead-letters outag", 3).contains("did you mean"));

    // A dry run shows the plan and changes nothing.
    let plan = c.json("dead-letters retry outage --dry-run");
    for (item, key) in items(&plan).iter().zip([k2, k1]) {
        assert_eq!((&item["key"], &item["failed"]), (&key.into(), &3.into()));
        assert_eq!(item["verdict"], "planned");
    }
    let by_code = c.json("dead-letters retry --code asked-to-fail --limit 1 --dry-run");
    assert_eq!(items(&by_code)[0]["shards"], serde_json::json!([0, 1, 2]));
    assert_eq!(by_code["more"], true);
    assert_eq!(c.json("dead-letters"), all);

    // Nobody is there to be asked.
    assert!(c.fails("dead-letters retry outage", 2).contains("--yes"));
    let none = c.json("dead-letters retry --code other --yes");
    assert_eq!(items(&none).len(), 0);
    assert_eq!(c.json("dead-letters"), all);

    let done = c.json("dead-letters retry outage --yes");
    assert_eq!(items(&done).len(), 2);
    assert!(items(&done).iter().all(|item| item["verdict"] == "retried"));
    for key in [k2, k1] {
        until(&format!("{key} succeeds"), || {
            let run = &c.json(&format!("describe run {key}"))["run"];
            assert_eq!(run["round"], 2, "{run}");
            run["state"] == "succeeded"
        });
    }
    assert_eq!(items(&c.json("dead-letters")).len(), 1);
    // Discarded with a reason, it is off the list and no retry finds it; named, it comes back.
    let discard = "dead-letters discard --reason unpaid --by kim";
    let planned = c.json(&format!("{discard} --dry-run"));
    assert_eq!(items(&planned)[0]["verdict"], "planned");
    assert!(c.fails("dead-letters discard", 2).contains("--reason"));
    let done = c.json(&format!("{discard} --yes"));
    assert_eq!(items(&done)[0]["verdict"], "discarded");
    assert_eq!(items(&c.json("dead-letters")).len(), 0);
    assert!(c.fails("retry hopeless:manual:k", 4).contains("SC5012"));
    let again = c.fails(&format!("{discard} --run hopeless:manual:k --yes"), 4);
    assert!(again.contains("no dead letter"), "{again}");
    let life = c.ok("trace hopeless:manual:k");
    assert!(life.contains("by kim: unpaid"), "{life}");
    assert!(c.ok("shards hopeless:manual:k").contains("discarded"));
    c.ok("retry hopeless:manual:k --shard 0");
    until("it has failed again", || {
        let left = items(&c.json("dead-letters hopeless"));
        left.first().is_some_and(|l| l["shard"]["attempt"] == 2)
    });
    // What has no remedy fails again and is a dead letter again.
    c.ok("dead-letters retry --yes");
    until("it has failed again", || {
        let left = items(&c.json("dead-letters hopeless"));
        left.first().is_some_and(|l| l["shard"]["attempt"] == 3)
    });
    let run = "--run hopeless:manual:k --shard 0";
    c.ok(&format!("{discard} {run} --yes"));
    assert_eq!(items(&c.json("dead-letters")).len(), 0);
    c.ok("verify");
}
