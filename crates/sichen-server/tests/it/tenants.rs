//! One tenant before another's things: what an administrator of one namespace reads, counts and is told
//! of the others.

use reqwest::{Method, StatusCode};
use serde_json::Value;
use sichen_server::rest::wire::{Explanation, StartedRun};

use crate::node::{PATIENCE, json as body_of, problem};
use crate::permissions::{DOCUMENTS, World};

/// An administrator of `reports` with a job and a run there, beside all that is in `payments`.
async fn neighbour(world: &World) -> String {
    let token = world.token("elsewhere", &[("reports", "admin")]).await;
    let reports = DOCUMENTS.replace("payments", "reports");
    let applied = world
        .send(&Method::POST, "/api/v1/jobs:apply", &token, &reports)
        .await;
    assert_eq!(applied.status(), StatusCode::OK);
    let path = "/api/v1/jobs/reports/settle/runs";
    let started = world
        .send(&Method::POST, path, &token, r#"{"key":"own"}"#)
        .await;
    body_of::<StartedRun>(started).await;
    token
}

/// SEC-004: every page of every listing, to its end, and the numbers and cursors beside the rows.
#[tokio::test]
async fn no_page_count_or_cursor_of_a_listing_tells_of_another_tenant() {
    let world = World::new().await;
    let token = neighbour(&world).await;
    for (path, rows) in [
        ("/jobs", 1),
        ("/jobs?search=settle", 1),
        ("/jobs?search=payments", 0),
        ("/calendars", 1),
        ("/runs", 1),
        ("/runs?state=scheduled", 1),
        ("/dead-letters", 0),
        ("/events", 3),
        ("/changes", 3),
        ("/tokens", 1),
    ] {
        let (mut found, mut next) = (0, None::<String>);
        for page in 0.. {
            assert!(page < 100, "{path} has an end");
            let mut address = format!(
                "/api/v1{path}{}limit=1",
                if path.contains('?') { '&' } else { '?' }
            );
            if let Some(next) = &next {
                address.push_str(&format!("&after={next}"));
            }
            let answer = world.send(&Method::GET, &address, &token, "").await;
            assert_eq!(answer.status(), StatusCode::OK, "{address}");
            let text = answer.text().await.unwrap();
            assert!(!text.contains("payments"), "{address}: {text}");
            let read: Value = serde_json::from_str(&text).unwrap();
            found += read["items"].as_array().unwrap().len();
            let after = match &read["next"] {
                Value::Null => None,
                Value::String(next) => Some(next.clone()),
                next => Some(next.to_string()),
            };
            // The log has no last page: at its end one goes on from where one is.
            if after.is_none() || after == next {
                break;
            }
            next = after;
        }
        assert!(
            found >= rows && (rows != 0 || found == 0),
            "{path}: {found} rows"
        );
    }
    for path in [
        "/export",
        "/overview",
        "/workers",
        "/members",
        "/namespaces",
        "/capacities",
        "/capacities/db",
    ] {
        let answer = world
            .send(&Method::GET, &format!("/api/v1{path}"), &token, "")
            .await;
        let refused = problem(answer, 403).await;
        assert!(!refused.detail.contains("payments"), "{path}: {refused:?}");
    }
    let metrics = world.send(&Method::GET, "/metrics", &token, "").await;
    problem(metrics, 403).await;
    world.node.stop().await;
}

/// SEC-004: a feed from the log's beginning on has nothing of what came before, between or after that is others'.
#[tokio::test]
async fn a_feed_has_nothing_of_another_tenant() {
    let world = World::new().await;
    let token = neighbour(&world).await;
    let mut feed = world
        .send(&Method::GET, "/api/v1/watch?after=0", &token, "")
        .await;
    assert_eq!(feed.status(), StatusCode::OK);
    let path = "/api/v1/jobs/payments/settle/runs";
    body_of::<StartedRun>(world.node.post(path, r#"{"key":"meanwhile"}"#).await).await;
    let path = "/api/v1/jobs/reports/settle/runs";
    let last = world
        .send(&Method::POST, path, &token, r#"{"key":"last"}"#)
        .await;
    let last: StartedRun = body_of(last).await;
    let mut text = String::new();
    let wanted = format!("\"entity\":\"run\",\"id\":\"{}\"", last.id);
    let reading = async {
        while !text.contains(&wanted) && !text.contains(&format!("\"run\":{}", last.id)) {
            let chunk = feed.chunk().await.unwrap().expect("it goes on");
            text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    };
    let heard = tokio::time::timeout(PATIENCE, reading).await;
    assert!(heard.is_ok(), "its own run is told: {text}");
    assert!(
        !text.contains("payments") && !text.contains("meanwhile"),
        "{text}"
    );
    drop(feed);
    world.node.stop().await;
}

/// SEC-004: of a body with things of both namespaces nothing is done, and a copy under another name is a thing of
/// the copier's.
#[tokio::test]
async fn nothing_of_a_body_is_done_that_reaches_into_another_tenant() {
    let world = World::new().await;
    let token = neighbour(&world).await;
    let before: Value = world.node.read("/api/v1/events?limit=1000").await;
    let paused = DOCUMENTS.replace("0 3 1 1 *", "* * * * *");
    let own = paused.replace("payments", "reports");
    for body in [
        paused.clone(),
        format!("{own}---\n{paused}"),
        format!("{paused}---\n{own}"),
    ] {
        let answer = world
            .send(&Method::POST, "/api/v1/jobs:apply", &token, &body)
            .await;
        assert_eq!(problem(answer, 403).await.code, "SC6002");
    }
    let batch = r#"{"runs":[{"key":"a"},{"key":"b"}]}"#;
    for (path, body) in [
        ("/jobs/payments/settle/runs:batch", batch),
        ("/jobs/payments/settle/runs", r#"{"key":"k"}"#),
        ("/jobs/payments/settle/pause", ""),
        ("/runs/payments%2Fsettle:manual:k/cancel", ""),
        ("/runs/payments%2Fsettle:manual:k/retry", ""),
    ] {
        let answer = world
            .send(&Method::POST, &format!("/api/v1{path}"), &token, body)
            .await;
        assert_eq!(problem(answer, 404).await.code, "SC5001", "{path}");
    }
    let after: Value = world.node.read("/api/v1/events?limit=1000").await;
    assert_eq!(after, before, "nothing was carried out");
    world.node.stop().await;
}

/// SEC-004: what a run waits for is told, and not which run of another tenant has it.
#[tokio::test]
async fn an_explanation_names_no_run_of_another_tenant() {
    let world = World::new().await;
    let capacity =
        "apiVersion: sichen/v1\nkind: Capacity\nmetadata: {name: db}\nspec: {units: 1}\n";
    let user = |namespace: &str| {
        format!(
            "apiVersion: sichen/v1\nkind: Job\nmetadata: {{name: uses-db, namespace: {namespace}}}\n\
             spec:\n  run: {{handler: work}}\n  uses: {{db: 1}}\n"
        )
    };
    let documents = [capacity.to_owned(), user("payments"), user("reports")].join("---\n");
    body_of::<Value>(world.node.post("/api/v1/jobs:apply", documents).await).await;
    let worker = crate::worker_tokens::Idle::join(&world.node).await;
    let start = async |namespace: &str| {
        let path = format!("/api/v1/jobs/{namespace}/uses-db/runs");
        body_of::<StartedRun>(world.node.post(&path, r#"{"key":"k"}"#).await)
            .await
            .id
    };
    let theirs = start("payments").await;
    crate::node::until("the other tenant's run has it", || async {
        let run: Value = world.node.read(&format!("/api/v1/runs/{theirs}")).await;
        run["state"] == "running"
    })
    .await;
    let own = start("reports").await;
    let token = world.token("elsewhere", &[("reports", "admin")]).await;
    let path = format!("/api/v1/runs/{own}/explain");
    let told = async |token: &str, path: &str| {
        let answer = world.send(&Method::GET, path, token, "").await;
        let told: Explanation = body_of(answer).await;
        told.reasons
            .iter()
            .map(|why| format!("{} {}\n", why.word, why.text))
            .collect::<String>()
    };
    let mark = format!("shard {theirs}/0");
    for path in [path.clone(), format!("{path}?shard=0")] {
        let all = told(&world.node.token, &path).await;
        assert!(all.contains(&mark), "who sees all is told: {all}");
        let few = told(&token, &path).await;
        assert!(
            few.contains("capacity db: needs 1, 0 of 1 free (1 held)"),
            "{few}"
        );
        assert!(!few.contains(&mark) && !few.contains("payments"), "{few}");
    }
    drop(worker);
    world.node.stop().await;
}
