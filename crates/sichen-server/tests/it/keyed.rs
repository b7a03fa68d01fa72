//! Requests that come again with their key.

use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use sichen_server::rest::wire::{Event, EventPage, Job, MadeToken, Problem};

use crate::node::{Node, ON_REQUEST, json as body_of, problem};

const PAUSE: &str = "/api/v1/jobs/default/on-request/pause";
const RESUME: &str = "/api/v1/jobs/default/on-request/resume";
const RUNS: &str = "/api/v1/jobs/default/on-request/runs";

/// What sends requests with keys.
struct Sender<'n> {
    node: &'n Node,
    token: String,
}

impl Sender<'_> {
    async fn post(&self, path: &str, key: &str, body: impl Into<String>) -> Response {
        let url = format!("http://{}{path}", self.node.address);
        let request = self.node.client.post(url).bearer_auth(&self.token);
        let request = request.header("idempotency-key", key).body(body.into());
        request.send().await.unwrap()
    }

    /// The answer as bytes: its status, kind and body.
    async fn bytes(&self, path: &str, key: &str, body: &str) -> (StatusCode, String, String) {
        let answer = self.post(path, key, body).await;
        let kind = answer.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        (answer.status(), kind, answer.text().await.unwrap())
    }
}

async fn started() -> Node {
    let node = Node::start().await;
    body_of::<Value>(node.post("/api/v1/jobs:apply", ON_REQUEST).await).await;
    node
}

fn owner(node: &Node) -> Sender<'_> {
    let token = node.token.clone();
    Sender { node, token }
}

async fn paused(node: &Node) -> bool {
    let job: Job = node.read("/api/v1/jobs/default/on-request").await;
    job.paused
}

async fn events(node: &Node, kind: &str) -> Vec<Event> {
    let page: EventPage = node.read("/api/v1/events?limit=1000").await;
    page.items.into_iter().filter(|e| e.kind == kind).collect()
}

#[tokio::test]
async fn a_request_that_comes_again_is_answered_as_it_was_and_done_once() {
    let node = started().await;
    let owner = owner(&node);
    let first = owner.bytes(PAUSE, "p1", "").await;
    assert_eq!(first.0, 200, "{first:?}");
    assert!(paused(&node).await);
    // Somebody resumes it; the repeat of the pause is no pause of now.
    body_of::<Value>(owner.post(RESUME, "r1", "").await).await;
    let again = owner.post(PAUSE, "p1", "").await;
    assert_eq!(again.headers()["sichen-repeated"], "true");
    assert_eq!(again.headers()["cache-control"], "no-store");
    assert_eq!(owner.bytes(PAUSE, "p1", "").await, first);
    assert!(!paused(&node).await);
    assert_eq!(events(&node, "job_paused").await.len(), 1);
    // A start too, though it has a name of its own.
    let first = owner.bytes(RUNS, "s1", "{}").await;
    assert_eq!(first.0, 201);
    assert_eq!(owner.bytes(RUNS, "s1", "{}").await, first);
    assert_eq!(events(&node, "run_created").await.len(), 1);
    // What was refused may be asked again, when it has become possible.
    let early = owner
        .bytes("/api/v1/jobs/default/later/pause", "e1", "")
        .await;
    assert_eq!(early.0, 404);
    let later = ON_REQUEST.replace("on-request", "later");
    body_of::<Value>(owner.post("/api/v1/jobs:apply", "a1", later).await).await;
    let again = owner
        .bytes("/api/v1/jobs/default/later/pause", "e1", "")
        .await;
    assert_eq!(again.0, 200, "{again:?}");
    node.stop().await;
}

#[tokio::test]
async fn a_key_with_another_request_is_refused_and_does_nothing() {
    let node = started().await;
    let owner = owner(&node);
    let asked = json!({"name": "ci", "roles": [{"namespace": "*", "role": "operator"}]});
    let made = node.post("/api/v1/tokens", asked.to_string()).await;
    let token = body_of::<MadeToken>(made).await.secret;
    let other = Sender { node: &node, token };
    body_of::<Value>(owner.post(PAUSE, "k", "").await).await;
    for (path, body) in [
        (RESUME, ""),
        (PAUSE, " "),
        ("/api/v1/jobs/default/on-request/pause?x=1", ""),
        (RUNS, "{}"),
    ] {
        let refused = problem(owner.post(path, "k", body).await, 409).await;
        assert_eq!(refused.code, "SC5036", "{path} {body:?}");
    }
    assert!(paused(&node).await);
    assert_eq!(events(&node, "run_created").await.len(), 0);
    // Another caller's keys are others, whatever they say.
    body_of::<Value>(other.post(RESUME, "k", "").await).await;
    assert!(!paused(&node).await);
    for (key, code) in [("", "SC5013"), ("x".repeat(129).as_str(), "SC5013")] {
        assert_eq!(
            problem(owner.post(PAUSE, key, "").await, 400).await.code,
            code
        );
    }
    node.stop().await;
}

#[tokio::test]
async fn many_at_once_with_one_key_have_one_effect_and_one_answer() {
    let node = started().await;
    let owner = owner(&node);
    let body = json!({"name": "once", "roles": [{"namespace": "*", "role": "viewer"}]}).to_string();
    let sent = (0..20).map(|_| owner.bytes("/api/v1/tokens", "t1", &body));
    let answers = futures_of(sent).await;
    for answer in &answers {
        assert_eq!(*answer, answers[0]);
    }
    assert_eq!(answers[0].0, 201, "{:?}", answers[0]);
    assert_eq!(events(&node, "access_token_created").await.len(), 1);
    // The secret of the repeats opens what the first one's does, and the log has it nowhere.
    let made: MadeToken = serde_json::from_str(&answers[0].2).unwrap();
    let me = node
        .client
        .get(format!("http://{}/api/v1/me", node.address));
    let me = me.bearer_auth(&made.secret).send().await.unwrap();
    assert_eq!(me.status(), 200);
    let revoked = format!("/api/v1/tokens/{}", "once");
    body_of::<Value>(node.send(reqwest::Method::DELETE, &revoked, "").await).await;
    // Made anew under its name by another request, the first one's repeat has no secret to give.
    body_of::<Value>(owner.post("/api/v1/tokens", "t2", body.clone()).await).await;
    let late = problem(owner.post("/api/v1/tokens", "t1", body).await, 409).await;
    assert_eq!(late.code, "SC6005");
    node.stop().await;
}

async fn futures_of<T>(sent: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    futures::future::join_all(sent).await
}

#[tokio::test]
async fn what_only_asks_needs_no_key_and_passes_one_over() {
    let node = started().await;
    let owner = owner(&node);
    for name in ["one", "two"] {
        let document = ON_REQUEST.replace("on-request", name);
        let answer: Value = body_of(owner.post("/api/v1/jobs:validate", "v", document).await).await;
        assert_eq!(answer["documents"][0]["name"], name, "{answer}");
    }
    node.stop().await;
}

/// Every described POST takes a key, or says why it needs none.
#[test]
fn every_post_says_whether_it_takes_a_key() {
    let openapi = serde_json::to_value(sichen_server::rest::openapi()).unwrap();
    let mut silent = Vec::new();
    let mut taking = 0;
    for (path, item) in openapi["paths"].as_object().unwrap() {
        let Some(post) = item.get("post") else {
            continue;
        };
        let parameters = post["parameters"].as_array().into_iter().flatten();
        let takes = parameters
            .filter(|p| p["name"] == "Idempotency-Key")
            .count();
        let asks = post["description"].as_str().unwrap_or_default();
        let asks = asks.contains("needs no `Idempotency-Key`");
        taking += takes;
        if takes + usize::from(asks) != 1 {
            silent.push(path);
        }
    }
    assert!(silent.is_empty() && taking > 15, "{taking} {silent:?}");
}

/// A long answer is not kept: it is made anew, and nothing is done again.
#[tokio::test]
async fn an_answer_too_long_to_be_kept_is_made_anew() {
    let node = started().await;
    let owner = owner(&node);
    let job = |n: usize| ON_REQUEST.replace("on-request", &format!("job-{n}"));
    let many: Vec<String> = (0..300).map(job).collect();
    let many = many.join("---");
    let first = owner.bytes("/api/v1/jobs:apply", "a", &many).await;
    assert_eq!(first.0, 200);
    assert!(first.2.len() > 32_768, "{}", first.2.len());
    // One of them is changed since: the repeat does not change it back.
    let changed = job(7).replace("work", "other");
    body_of::<Value>(owner.post("/api/v1/jobs:apply", "b", changed).await).await;
    let again = owner.bytes("/api/v1/jobs:apply", "a", &many).await;
    let answer: Value = serde_json::from_str(&again.2).unwrap();
    assert_eq!(
        (again.0, &answer["documents"][7]["revision"]),
        (first.0, &json!(2))
    );
    assert_eq!(answer["documents"][7]["change"], "unchanged");
    let job: Job = node.read("/api/v1/jobs/default/job-7").await;
    assert_eq!(job.revision, 2);
    let refused: Problem = problem(owner.post("/api/v1/jobs:apply", "a", "x").await, 409).await;
    assert_eq!(refused.code, "SC5036");
    node.stop().await;
}
