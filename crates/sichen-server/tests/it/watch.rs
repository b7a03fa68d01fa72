//! The log as it grows: who watches it, from where on, and how many may.

use std::time::Duration;

use reqwest::{Response, StatusCode};
use sichen_server::STOP_GRACE_SECONDS;
use sichen_server::rest::MAX_WATCHERS;
use sichen_server::rest::wire::{Event, Overview};

use crate::node::{Node, ON_REQUEST, PATIENCE, problem, until};

/// One server-sent event: its number and its data.
type Sent = (String, String);

/// Reads on until something has come of which `is_wanted` holds: all that came.
async fn heard(watch: &mut Response, is_wanted: impl Fn(&Sent) -> bool) -> Vec<Sent> {
    let mut text = String::new();
    let reading = async {
        loop {
            let chunk = watch.chunk().await.unwrap();
            text.push_str(std::str::from_utf8(&chunk.expect("it goes on")).unwrap());
            let sent = sent_in(&text);
            if sent.iter().any(&is_wanted) {
                return sent;
            }
        }
    };
    let heard = tokio::time::timeout(PATIENCE, reading).await;
    heard.expect("news within the patience")
}

fn sent_in(text: &str) -> Vec<Sent> {
    let blocks = text.split_inclusive("\n\n").filter(|b| b.ends_with("\n\n"));
    let sent = blocks.filter_map(|block| {
        let line = |name: &str| {
            let mut lines = block.lines();
            let found = lines.find_map(|line| line.strip_prefix(name));
            found.map(|rest| rest.trim().to_owned())
        };
        Some((line("id:")?, line("data:")?))
    });
    sent.collect()
}

async fn watch(node: &Node, after: Option<&str>) -> Response {
    let url = format!("http://{}/api/v1/watch", node.address);
    let request = node.client.get(url).bearer_auth(&node.token);
    let request = match after {
        Some(id) => request.header("last-event-id", id),
        None => request,
    };
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    answer
}

/// What was sent of jobs and runs: number and kind.
fn kinds(sent: &[Sent]) -> Vec<(String, String)> {
    let events = sent.iter().filter_map(|(id, data)| {
        let event: Event = serde_json::from_str(data).ok()?;
        assert_eq!(event.seq.to_string(), *id);
        let is_ours = event.entity == "job" || event.entity == "run";
        is_ours.then(|| (id.clone(), event.kind))
    });
    events.collect()
}

fn says(kind: &'static str) -> impl Fn(&Sent) -> bool {
    move |(_, data)| data.contains(&format!("\"kind\":\"{kind}\""))
}

#[tokio::test]
async fn a_watcher_hears_what_happens_and_goes_on_where_it_stopped() {
    let node = Node::start().await;
    let mut first = watch(&node, None).await;
    let begin = heard(&mut first, |_| true).await.remove(0);
    let applied = node.post("/api/v1/jobs:apply", ON_REQUEST).await;
    assert!(applied.status().is_success());
    let told = kinds(&heard(&mut first, says("job_applied")).await);
    let (known, kind) = told.last().unwrap();
    assert_eq!(kind, "job_applied");
    drop(first);
    // What happens while nobody watches is not lost to one who says what it knows.
    let run = r#"{"key": "missed"}"#;
    node.post("/api/v1/jobs/default/on-request/runs", run).await;
    let mut again = watch(&node, Some(known)).await;
    let later = kinds(&heard(&mut again, says("run_created")).await);
    assert_eq!(later.len(), 1, "{later:?}");
    // From the same place as the first one, all of it, in the log's words.
    let mut whole = watch(&node, Some(&begin.0)).await;
    let all = kinds(&heard(&mut whole, says("run_created")).await);
    assert_eq!(all, [told, later].concat());
    drop((again, whole));
    node.stop().await;
}

#[tokio::test]
async fn watchers_have_a_limit_and_one_that_leaves_makes_room() {
    let node = Node::start().await;
    let mut watching = Vec::new();
    for _ in 0..MAX_WATCHERS {
        watching.push(watch(&node, None).await);
    }
    let refused = node.get("/api/v1/watch").await;
    assert_eq!(problem(refused, 503).await.code, "SC5034");
    let wrong = node.get("/api/v1/watch?after=soon").await;
    assert_eq!(problem(wrong, 503).await.code, "SC5034");
    watching.pop();
    until("there is room again", || async {
        node.get("/api/v1/watch").await.status() == StatusCode::OK
    })
    .await;
    drop(watching);
    until("a wrong number is told", || async {
        let wrong = node.get("/api/v1/watch?after=soon").await;
        wrong.status() == StatusCode::BAD_REQUEST
    })
    .await;
    node.stop().await;
}

#[tokio::test]
async fn watchers_do_not_hold_a_stop_up() {
    let node = Node::start().await;
    let mut watching = watch(&node, None).await;
    heard(&mut watching, |_| true).await;
    let stop = tokio::time::timeout(Duration::from_secs(STOP_GRACE_SECONDS), node.stop());
    stop.await.expect("the watcher was let go");
    while let Ok(Some(_)) = watching.chunk().await {}
}

#[tokio::test]
async fn the_overview_counts_what_the_listings_list() {
    let node = Node::start().await;
    let told: Overview = node.read("/api/v1/overview").await;
    assert_eq!((told.jobs.live, told.runs.scheduled), (0, 0));
    assert_eq!(told.load.len(), 12);
    assert!(told.ended_all);
    node.post("/api/v1/jobs:apply", ON_REQUEST).await;
    let run = r#"{"key": "once"}"#;
    node.post("/api/v1/jobs/default/on-request/runs", run).await;
    let told: Overview = node.read("/api/v1/overview").await;
    assert_eq!((told.jobs.live, told.runs.scheduled), (1, 1));
    let jobs = async |query: &str| {
        let page: serde_json::Value = node.read(&format!("/api/v1/jobs?{query}")).await;
        page["items"].as_array().unwrap().len()
    };
    assert_eq!(jobs("state=live").await, 1);
    assert_eq!(jobs("state=paused").await, 0);
    assert_eq!(jobs("search=REQUEST").await, 1);
    assert_eq!(jobs("search=default/on-").await, 1);
    assert_eq!(jobs("search=else").await, 0);
    let wrong = node.get("/api/v1/jobs?state=asleep").await;
    assert_eq!(problem(wrong, 400).await.code, "SC5021");
    node.stop().await;
}
