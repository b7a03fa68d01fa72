//! Jobs over the API: applied, refused, paused, deleted.

use reqwest::Method;
use sichen_core::schedule::cron::{Cron, Dialect, Language};
use sichen_server::rest::wire::{
    Applied, AppliedDocument, Change, DecisionPage, DeletedJob, Job, JobPage, JobRevision, Members,
    NextInstants, Run, StartedRun, Validated,
};

use crate::node::{Node, ON_REQUEST, json, problem};

const JOB: &str = "/api/v1/jobs/default/on-request";

#[tokio::test]
async fn an_apply_tells_what_it_did() {
    let node = Node::start().await;
    let both = format!(
        "{ON_REQUEST}---{}",
        ON_REQUEST.replace("on-request", "other")
    );
    let validated: Validated = json(node.post("/api/v1/jobs:validate", &*both).await).await;
    assert_eq!(validated.documents.len(), 2);
    let jobs: JobPage = node.read("/api/v1/jobs").await;
    assert_eq!(jobs.items, [], "validating writes nothing");

    let first: Applied = json(node.post("/api/v1/jobs:apply", &*both).await).await;
    let changes = |applied: &Applied| {
        let documents = applied.documents.iter();
        documents
            .map(|d| (d.change, d.revision))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        changes(&first),
        [(Change::Created, 1), (Change::Created, 1)]
    );
    let changed = both.replacen("spec:", "spec:\n  priority: 7", 1);
    let second: Applied = json(node.post("/api/v1/jobs:apply", changed).await).await;
    assert_eq!(
        changes(&second),
        [(Change::Updated, 2), (Change::Unchanged, 1)]
    );
    assert_eq!(first.documents[0].uid, second.documents[0].uid);

    let job: Job = node.read(JOB).await;
    assert_eq!(job.document.unwrap()["spec"]["priority"], 7);
    let first: JobPage = node.read("/api/v1/jobs?limit=1").await;
    let next = first.next.unwrap();
    let next = next.replace('/', "%2F");
    let second: JobPage = node
        .read(&format!("/api/v1/jobs?limit=1&after={next}"))
        .await;
    let names = (first.items[0].name.as_str(), second.items[0].name.as_str());
    assert_eq!(names, ("on-request", "other"));
    node.stop().await;
}

#[tokio::test]
async fn a_document_with_problems_changes_nothing_and_all_are_told() {
    let node = Node::start().await;
    let bad = ON_REQUEST.replace("name: on-request", "nam: x");
    let bad = bad.replace("handler: work", "handler: 5");
    let text = format!("{ON_REQUEST}---{bad}");
    for route in ["/api/v1/jobs:apply", "/api/v1/jobs:validate"] {
        let told = problem(node.post(route, &*text).await, 400).await;
        assert_eq!(told.code, "SC5002");
        let places: Vec<_> = told
            .problems
            .iter()
            .map(|p| (p.line.unwrap(), p.path.as_str()))
            .collect();
        assert_eq!(places, [(10, "metadata.nam"), (12, "spec.run.handler")]);
    }
    let jobs: JobPage = node.read("/api/v1/jobs").await;
    assert_eq!(jobs.items, []);
    node.stop().await;
}

/// API-001.
#[tokio::test]
async fn api_001_half_a_definition_is_refused() {
    let node = Node::start().await;
    let head = "apiVersion: sichen/v1\nkind: Job\nmetadata: {name: j}\n";
    let nested = format!("{head}spec: {}{}", "[".repeat(100), "]".repeat(100));
    let cases = [
        "",
        "null",
        "[]",
        "\"x\"",
        "{\"apiVersion\": \"sichen/v1\", \"kind\"",
        "{}",
        head,
        &format!("{head}spec:"),
        &format!("{head}spec: {{}}"),
        &format!("{head}spec: {{timeZone: Asia/Shanghai}}"),
        &format!("{head}spec: {{schedules: [{{}}], run: {{handler: h}}}}"),
        &format!("{head}spec: {{schedules: [{{cron: ''}}], run: {{handler: h}}}}"),
        &format!(
            "{head}spec: {{schedules: [{{cron: '* * * * *', every: 1m}}], run: {{handler: h}}}}"
        ),
        &format!("{head}spec: {{schedules:, run: {{handler: h}}}}"),
        &nested,
    ];
    for case in cases {
        let told = problem(node.post("/api/v1/jobs:apply", case).await, 400).await;
        assert!(!told.problems.is_empty(), "{case}: {told:?}");
        assert!(
            told.problems[0].message.starts_with("SC1"),
            "{case}: {told:?}"
        );
    }
    let jobs: JobPage = node.read("/api/v1/jobs").await;
    assert_eq!(jobs.items, []);
    node.stop().await;
}

/// API-002.
#[tokio::test]
async fn api_002_misspelt_misplaced_and_mistyped_fields_are_refused() {
    let node = Node::start().await;
    for (lines, words) in [
        ("timezon: UTC", "`timeZone`"),
        ("time_zone: UTC", "`timeZone`"),
        ("TimeZone: UTC", "`timeZone`"),
        ("retry: {max_attempts: 3}", "`maxAttempts`"),
        ("retry: {maxAttempt: 3}", "`maxAttempts`"),
        ("timeZone: 8", "quotes"),
        ("parallelism: '3'", "whole number"),
    ] {
        let text = ON_REQUEST.replace("spec:", &format!("spec:\n  {lines}"));
        let told = problem(node.post("/api/v1/jobs:apply", text).await, 400).await;
        assert_eq!(told.problems.len(), 1, "{told:?}");
        assert!(told.problems[0].message.contains(words), "{told:?}");
    }
    let misplaced = format!("{ON_REQUEST}timeZone: UTC\n");
    let told = problem(node.post("/api/v1/jobs:apply", misplaced).await, 400).await;
    assert_eq!(told.problems[0].path, "timeZone");
    node.stop().await;
}

/// CRON-008, UI-007: the times and the words of an expression are those of the rules that plan it.
#[tokio::test]
async fn a_cron_expression_is_explained_by_the_rules_that_plan_it() {
    let node = Node::start().await;
    let stepped = "schedules: [{cron: '0 9 */2 * 1'}]\n  timeZone: UTC";
    let text = ON_REQUEST.replace("spec:", &format!("spec:\n  {stepped}"));
    let _: Applied = json(node.post("/api/v1/jobs:apply", text).await).await;
    let next: NextInstants = node.read(&format!("{JOB}/next?count=20")).await;
    assert_eq!(next.items.len(), 20);
    for at in &next.items {
        let at: jiff::Timestamp = at.parse().unwrap();
        let date = jiff::tz::TimeZone::UTC.to_datetime(at).date();
        let monday = date.weekday() == jiff::civil::Weekday::Monday;
        assert!(monday && date.day() % 2 == 1, "{date}");
    }
    let cron = Cron::parse("0 9 */2 * 1", Dialect::Crontab, None).unwrap();
    let [words] = &next.cron[..] else {
        panic!("{next:?}")
    };
    assert_eq!(
        (&*words.en, &*words.zh),
        (
            &*cron.explain(Language::English),
            &*cron.explain(Language::Chinese)
        )
    );
    node.stop().await;
}

#[tokio::test]
async fn a_job_is_paused_resumed_and_deleted() {
    let node = Node::start().await;
    let yearly = "schedules: [{cron: '0 0 1 1 *'}]\n  timeZone: Asia/Shanghai";
    let text = ON_REQUEST.replace("spec:", &format!("spec:\n  {yearly}"));
    let _: Applied = json(node.post("/api/v1/jobs:apply", text).await).await;
    let next: NextInstants = node.read(&format!("{JOB}/next?count=3")).await;
    assert_eq!((next.items.len(), next.paused), (3, false));
    assert!(
        next.items
            .iter()
            .all(|t| t.ends_with("-01-01T00:00:00+08:00"))
    );

    let paused: AppliedDocument = json(node.post(&format!("{JOB}/pause"), "").await).await;
    assert_eq!(paused.change, Change::Updated);
    let again: AppliedDocument = json(node.post(&format!("{JOB}/pause"), "").await).await;
    assert_eq!(again.change, Change::Unchanged);
    let job: Job = node.read(JOB).await;
    assert_eq!((job.paused, job.next_at), (true, None));
    let resumed: AppliedDocument = json(node.post(&format!("{JOB}/resume"), "").await).await;
    assert_eq!(resumed.change, Change::Updated);
    let job: Job = node.read(JOB).await;
    assert_eq!(job.next_at.as_ref(), Some(&next.items[0]));
    let decisions: DecisionPage = node.read(&format!("{JOB}/decisions")).await;
    assert_eq!(decisions.items, [], "nothing was planned meanwhile");

    let deleted: DeletedJob = json(node.send(Method::DELETE, JOB, "").await).await;
    assert_eq!(deleted.uid, job.uid);
    for (method, path) in [
        (Method::GET, JOB.to_owned()),
        (Method::DELETE, JOB.to_owned()),
        (Method::POST, format!("{JOB}/pause")),
        (Method::GET, format!("{JOB}/next")),
        (Method::GET, format!("{JOB}/decisions")),
    ] {
        let told = problem(node.send(method, &path, "").await, 404).await;
        assert_eq!(told.code, "SC5001", "{path}");
    }
    let started = node.post(&format!("{JOB}/runs"), r#"{"key": "a"}"#).await;
    assert_eq!(problem(started, 404).await.code, "SC5001");
    let members: Members = node.read("/api/v1/members").await;
    assert_eq!(members.this_node, Some(members.nodes[0].id));
    assert!(members.duties.iter().any(|d| d.key == "janitor"));
    node.stop().await;
}

/// API-004, QUEUE-008: no call deletes a run. Its job may go; the run goes on, is stopped as any other, and stays to
/// be read until retention takes it.
#[tokio::test]
async fn api_004_a_run_is_stopped_and_never_deleted() {
    let node = Node::start().await;
    let _: Applied = json(node.post("/api/v1/jobs:apply", ON_REQUEST).await).await;
    let runs = format!("{JOB}/runs");
    let started: StartedRun = json(node.post(&runs, r#"{"key": "a"}"#).await).await;
    let run = format!("/api/v1/runs/{}", started.id);
    let refused = problem(node.send(Method::DELETE, &run, "").await, 405).await;
    assert_eq!(refused.code, "SC5026", "{refused:?}");
    let _: DeletedJob = json(node.send(Method::DELETE, JOB, "").await).await;
    let open: Run = node.read(&run).await;
    assert_eq!(open.state, "scheduled");
    let stopped: Run = json(node.post(&format!("{run}/cancel"), "").await).await;
    assert_eq!(stopped.state, "cancelled");
    let refused = problem(node.send(Method::DELETE, &run, "").await, 405).await;
    assert_eq!(refused.code, "SC5026", "{refused:?}");
    let kept: Run = node.read(&run).await;
    assert_eq!(kept.state, "cancelled");
    node.stop().await;
}

#[tokio::test]
async fn requests_that_make_no_sense_are_told_why() {
    let node = Node::start().await;
    let _: Applied = json(node.post("/api/v1/jobs:apply", ON_REQUEST).await).await;
    let runs = format!("{JOB}/runs");
    let post = |body: &str| (Method::POST, runs.clone(), body.to_owned());
    let get = |path: &str| (Method::GET, format!("/api/v1{path}"), String::new());
    let cases = [
        (post("{}"), 400, "SC5022"),
        (post(""), 400, "SC5022"),
        (post("nonsense"), 400, "SC5020"),
        (post("[]"), 400, "SC5020"),
        (post(r#"{"key": "a", "keys": 1}"#), 400, "SC5020"),
        (
            post(r#"{"key": "a", "planned_at": "2026-01-01T00:00:00Z"}"#),
            400,
            "SC5022",
        ),
        (post(r#"{"planned_at": "yesterday"}"#), 400, "SC5021"),
        (
            post(r#"{"planned_at": "2026-01-01T00:00:00"}"#),
            400,
            "SC5021",
        ),
        (post(r#"{"key": ""}"#), 400, "SC5002"),
        (post("{\"key\": \"a\\u0000b\"}"), 400, "SC5022"),
        (get("/jobs?limit=0"), 400, "SC5021"),
        (get("/jobs?limit=1001"), 400, "SC5021"),
        (get("/jobs?limit=x"), 400, "SC5021"),
        (get("/jobs?limt=3"), 400, "SC5021"),
        (get("/jobs?after=x"), 400, "SC5021"),
        (get("/jobs/default/NO"), 400, "SC1001"),
        (get("/jobs/default/a%2Fb"), 400, "SC1001"),
        (get("/jobs/default/%FF"), 400, "SC5021"),
        (get("/jobs/default/on-request/next?count=0"), 400, "SC5021"),
        (
            get("/jobs/default/on-request/decisions?from=x"),
            400,
            "SC5021",
        ),
        (get("/runs?state=done"), 400, "SC5021"),
        (get("/runs?job=nothing"), 404, "SC5001"),
        (get("/runs/x"), 400, "SC5021"),
        (get("/runs/1"), 404, "SC5001"),
        (get("/runs/99999999999999999999999999"), 404, "SC5001"),
        (get("/runs/18446744073709551615"), 404, "SC5001"),
        (get("/runs/1/shards"), 404, "SC5001"),
        (get("/runs/1/events"), 404, "SC5001"),
        (get("/runs/on-request:manual:x"), 404, "SC5001"),
        (
            get("/runs/on-request:2026-01-01T00:00:00Z%230"),
            400,
            "SC5021",
        ),
        (get("/nothing"), 404, "SC5026"),
    ];
    for ((method, path, body), status, code) in cases {
        let told = problem(node.send(method, &path, body.clone()).await, status).await;
        assert_eq!(told.code, code, "{path} {body}: {told:?}");
        assert_eq!(told.kind, format!("urn:sichen:error:{code}"));
    }
    let answer = node.send(Method::PUT, "/api/v1/jobs", "").await;
    assert_eq!(answer.headers()["allow"], "GET,HEAD");
    assert_eq!(problem(answer, 405).await.code, "SC5026");
    node.stop().await;
}

/// What was applied comes back by its number, and applying it again makes it the next one.
#[tokio::test]
async fn every_revision_is_kept_and_can_be_applied_again() {
    let node = Node::start().await;
    let apply =
        async |text: String| -> Applied { json(node.post("/api/v1/jobs:apply", text).await).await };
    apply(ON_REQUEST.to_owned()).await;
    let edited = ON_REQUEST.replace("handler: work}", "handler: other}");
    let second = apply(edited.clone()).await;
    assert_eq!(second.documents[0].revision, 2);
    let same = apply(edited).await;
    assert_eq!(same.documents[0].change, Change::Unchanged);
    assert_eq!(same.documents[0].revision, 2);
    let path = |n: u32| format!("/api/v1/jobs/default/on-request/revisions/{n}");
    let first: JobRevision = node.read(&path(1)).await;
    let newest: JobRevision = node.read(&path(2)).await;
    assert_eq!((first.current, newest.current), (false, true));
    assert_eq!(first.document["spec"]["run"]["handler"], "work");
    assert_eq!(newest.document["spec"]["run"]["handler"], "other");
    let back = apply(first.document.to_string()).await;
    let done = (back.documents[0].change, back.documents[0].revision);
    assert_eq!(done, (Change::Updated, 3));
    let third: JobRevision = node.read(&path(3)).await;
    assert_eq!(third.document, first.document);
    for n in ["0", "4", "4000000000"] {
        let path = format!("/api/v1/jobs/default/on-request/revisions/{n}");
        assert_eq!(
            problem(node.get(&path).await, 404).await.code,
            "SC5001",
            "{n}"
        );
    }
    node.stop().await;
}

#[tokio::test]
async fn an_edit_that_goes_by_an_older_revision_is_refused_and_writes_nothing() {
    let node = Node::start().await;
    let apply = async |text: &str, header: &str, value: &str| {
        let url = format!("http://{}/api/v1/jobs:apply", node.address);
        let request = node.client.post(url).bearer_auth(&node.token);
        request
            .header(header, value)
            .body(text.to_owned())
            .send()
            .await
            .unwrap()
    };
    let tag = async || {
        let answer = node.get(JOB).await;
        answer.headers()["etag"].to_str().unwrap().to_owned()
    };
    let with =
        |priority: u32| ON_REQUEST.replacen("spec:", &format!("spec:\n  priority: {priority}"), 1);

    let _: Applied = json(apply(ON_REQUEST, "if-none-match", "*").await).await;
    let told = problem(apply(&with(3), "if-none-match", "*").await, 412).await;
    assert_eq!(told.code, "SC5004");
    let first = tag().await;
    let edited: Applied = json(apply(&with(4), "if-match", &first).await).await;
    assert_eq!(edited.documents[0].revision, 2);
    let told = problem(apply(&with(5), "if-match", &first).await, 412).await;
    assert!(told.detail.contains("revision 2"), "{}", told.detail);
    assert_ne!(tag().await, first);

    let both = format!(
        "{ON_REQUEST}---{}",
        ON_REQUEST.replace("on-request", "other")
    );
    let told = problem(apply(&both, "if-match", &tag().await).await, 400).await;
    assert_eq!(told.code, "SC5005");
    let job: Job = node.read(JOB).await;
    assert_eq!(
        (job.revision, &job.document.unwrap()["spec"]["priority"]),
        (2, &4.into())
    );

    let delete = async |tag: &str| {
        let url = format!("http://{}{JOB}", node.address);
        let request = node.client.delete(url).bearer_auth(&node.token);
        request.header("if-match", tag).send().await.unwrap()
    };
    problem(delete(&first).await, 412).await;
    // One of the same name that was made anew is another job.
    let second = tag().await;
    let _: DeletedJob = json(delete(&second).await).await;
    let _: Applied = json(node.post("/api/v1/jobs:apply", with(4)).await).await;
    let told = problem(apply(&with(6), "if-match", &second).await, 412).await;
    assert!(told.detail.contains("another one"), "{}", told.detail);
    node.stop().await;
}
