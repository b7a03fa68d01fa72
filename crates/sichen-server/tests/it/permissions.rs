//! The reviewed table of who may do what, against a running server: every described route, every kind
//! of caller.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use sichen_server::rest::wire::{Clock, MadeToken, Me, StartedRun, Token, Tokens, User};

use crate::node::{Node, json as body_of, problem, until};

const TABLE: &str = include_str!("../../../../docs/permissions.md");

pub const DOCUMENTS: &str = "
apiVersion: sichen/v1
kind: Calendar
metadata: {name: cn, namespace: payments}
spec: {daysOff: ['2027-01-01']}
---
apiVersion: sichen/v1
kind: Job
metadata: {name: settle, namespace: payments}
spec:
  timeZone: UTC
  schedules: [{cron: '0 3 1 1 *'}]
  run: {handler: work}
";

/// One for all namespaces, so not among what an editor of one may apply.
const CAPACITY: &str = "
apiVersion: sichen/v1
kind: Capacity
metadata: {name: db}
spec: {units: 4}
";

/// Roles from the lowest to the highest.
const ROLES: [&str; 4] = ["viewer", "operator", "editor", "admin"];

#[derive(Debug)]
struct Row {
    least: usize,
    place: String,
}

fn table() -> BTreeMap<String, Row> {
    let lines = TABLE.lines().filter_map(|line| line.strip_prefix("| `"));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let route = cells[0].trim_matches('`').to_owned();
            let least = ROLES.iter().position(|role| *role == cells[1]);
            let least = least.unwrap_or_else(|| panic!("{line}"));
            let place = cells[2].to_owned();
            (route, Row { least, place })
        })
        .collect()
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
enum Who {
    /// Nobody who is believed.
    Nobody,
    /// With a role in the namespace of all things here.
    Here(usize),
    /// With a role in all namespaces.
    All(usize),
    /// An administrator of another namespace.
    Elsewhere,
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Unbelieved,
    Forbidden,
    Missing,
    Passed,
}

fn expected(row: &Row, who: Who) -> Vec<Answer> {
    let enough = |role: usize| match role >= row.least {
        true => vec![Answer::Passed],
        false => vec![Answer::Forbidden],
    };
    match (who, row.place.as_str()) {
        (_, "open") => vec![Answer::Passed],
        (Who::Nobody, _) => vec![Answer::Unbelieved],
        (_, "anyone") => vec![Answer::Passed],
        (Who::All(role), _) => enough(role),
        (Who::Here(_) | Who::Elsewhere, "cluster") => vec![Answer::Forbidden],
        (Who::Here(role), "object" | "rows" | "body") => enough(role),
        (Who::Elsewhere, "object") => vec![Answer::Missing],
        (Who::Elsewhere, "rows") => vec![Answer::Passed],
        (Who::Elsewhere, "body") => vec![Answer::Forbidden, Answer::Missing],
        (_, other) => panic!("{other:?} is no place"),
    }
}

/// A node with something of everything in the namespace `payments`.
pub struct World {
    pub node: Node,
    run: u64,
    backfill: u64,
}

impl World {
    pub async fn new() -> Self {
        let node = Node::start().await;
        body_of::<serde_json::Value>(node.post("/api/v1/jobs:apply", DOCUMENTS).await).await;
        let path = "/api/v1/jobs/payments/settle/runs";
        let run: StartedRun = body_of(node.post(path, r#"{"key":"k"}"#).await).await;
        let path = "/api/v1/jobs/payments/settle/backfills";
        let asked =
            json!({"key": "k", "from": "2020-01-01T00:00:00Z", "to": "2020-02-01T00:00:00Z"});
        let backfill: serde_json::Value = body_of(node.post(path, asked.to_string()).await).await;
        let alice =
            json!({"name": "alice", "roles": [{"namespace": "payments", "role": "viewer"}]});
        body_of::<User>(node.post("/api/v1/users", alice.to_string()).await).await;
        Self {
            node,
            run: run.id,
            backfill: backfill["id"].as_u64().unwrap(),
        }
    }

    pub async fn token(&self, name: &str, roles: &[(&str, &str)]) -> String {
        let roles: Vec<_> = roles
            .iter()
            .map(|(namespace, role)| json!({"namespace": namespace, "role": role}))
            .collect();
        let asked = json!({"name": name, "roles": roles});
        let made = self.node.post("/api/v1/tokens", asked.to_string()).await;
        body_of::<MadeToken>(made).await.secret
    }

    /// A token that has expired, one that was taken back, one for workers.
    async fn unbelieved(&self) -> Vec<(Who, String)> {
        let clock: Clock = self.node.read("/api/v1/clock").await;
        let now: jiff::Timestamp = clock.now.parse().unwrap();
        let at = (now + jiff::SignedDuration::from_millis(700)).to_string();
        let asked = json!({
            "name": "expired", "expires_at": at, "roles": [{"namespace": "*", "role": "admin"}],
        });
        let made = self.node.post("/api/v1/tokens", asked.to_string()).await;
        let expired = body_of::<MadeToken>(made).await.secret;
        until("the token expires", || async {
            self.send(&Method::GET, "/api/v1/me", &expired, "")
                .await
                .status()
                == 401
        })
        .await;
        let revoked = self.token("revoked", &[("*", "admin")]).await;
        let path = "/api/v1/tokens/revoked";
        body_of::<Token>(self.node.send(Method::DELETE, path, "").await).await;
        let asked = json!({"name": "gpu", "pool": "gpu"});
        let made = self.node.post("/api/v1/tokens", asked.to_string()).await;
        let join = body_of::<MadeToken>(made).await.secret;
        vec![
            (Who::Nobody, String::new()),
            (Who::Nobody, expired),
            (Who::Nobody, revoked),
            (Who::Nobody, join),
            (Who::Nobody, self.node.join_token()),
        ]
    }

    pub async fn send(
        &self,
        method: &Method,
        path: &str,
        token: &str,
        body: &str,
    ) -> reqwest::Response {
        let url = format!("http://{}{path}", self.node.address);
        let mut request = self.node.client.request(method.clone(), url);
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        request.body(body.to_owned()).send().await.unwrap()
    }

    fn path(&self, route: &str) -> String {
        let id = match route.starts_with("/backfills") {
            true => self.backfill,
            false => self.run,
        };
        let name = match route.split('/').nth(1) {
            Some("calendars") => "cn",
            Some("capacities") => "db",
            _ => "settle",
        };
        let path = route
            .replace("{namespace}", "payments")
            .replace("{name}", name)
            .replace("{revision}", "1")
            .replace("{id}", &id.to_string())
            .replace("{no}", "0")
            .replace("{attempt}", "1")
            .replace("{token}", "victim")
            .replace("{user}", "alice")
            .replace("{session}", "1");
        format!("/api/v1{path}")
    }

    /// What a route is sent, so that it has something to do.
    fn body(route: &str) -> &'static str {
        match route {
            "POST /jobs:apply" | "POST /jobs:validate" | "POST /calendars:compare" => DOCUMENTS,
            "POST /tokens" => {
                r#"{"name":"made","roles":[{"namespace":"payments","role":"viewer"}]}"#
            }
            // Nothing that could be a login: that would be answered by whether it is one.
            "POST /login" => "?",
            "POST /users" => {
                r#"{"name":"made","roles":[{"namespace":"payments","role":"viewer"}]}"#
            }
            "POST /users/{user}/roles" => r#"{"roles":[{"namespace":"payments","role":"viewer"}]}"#,
            "POST /users/{user}/password" => r#"{"password":null}"#,
            "POST /jobs/{namespace}/{name}/runs" => r#"{"key":"other"}"#,
            "POST /jobs/{namespace}/{name}/runs:batch" => r#"{"runs":[{"key":"other"}]}"#,
            "POST /jobs/{namespace}/{name}/backfills"
            | "POST /jobs/{namespace}/{name}/backfills/preview" => {
                r#"{"key":"k","from":"2020-01-01T00:00:00Z","to":"2020-02-01T00:00:00Z"}"#
            }
            "POST /capacities/{name}/resize" => r#"{"units":5}"#,
            "POST /runs/{id}/discard" => r#"{"by":"me","reason":"a test"}"#,
            _ => "",
        }
    }

    /// What a request before this one may have taken away is there again.
    async fn restore(&self, route: &str) {
        match route.split_once(' ').unwrap() {
            (_, path) if path.starts_with("/capacities/") => {
                let applied = self.node.post("/api/v1/jobs:apply", CAPACITY).await;
                body_of::<serde_json::Value>(applied).await;
            }
            ("DELETE", path) if !path.starts_with("/tokens") => {
                let applied = self.node.post("/api/v1/jobs:apply", DOCUMENTS).await;
                body_of::<serde_json::Value>(applied).await;
            }
            ("DELETE" | "POST", path) if path.starts_with("/tokens") => {
                self.node
                    .send(Method::DELETE, "/api/v1/tokens/made", "")
                    .await;
                self.node
                    .send(Method::DELETE, "/api/v1/tokens/victim", "")
                    .await;
                self.token("victim", &[("payments", "viewer")]).await;
            }
            _ => {}
        }
    }

    async fn ask(&self, route: &str, token: &str) -> Answer {
        self.restore(route).await;
        let (method, short) = route.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let path = self.path(short);
        let head = match method == Method::GET {
            true => Some(self.send(&Method::HEAD, &path, token, "").await.status()),
            false => None,
        };
        let answer = self.send(&method, &path, token, Self::body(route)).await;
        let status = answer.status();
        assert!(
            head.is_none_or(|head| head == status),
            "HEAD {path}: {head:?}"
        );
        let status = status.as_u16();
        match status {
            401 => Answer::Unbelieved,
            403 => {
                assert_eq!(problem(answer, 403).await.code, "SC6002", "{route}");
                Answer::Forbidden
            }
            404 => {
                let code = problem(answer, 404).await.code;
                match code == "SC5001" {
                    true => Answer::Missing,
                    false => Answer::Passed,
                }
            }
            500.. => panic!("{route}: {status}"),
            _ => {
                // One that is read to its end is over on the server too.
                if !route.ends_with("/watch") {
                    answer.text().await.unwrap();
                }
                Answer::Passed
            }
        }
    }
}

/// Every described route, as the table writes it.
fn described() -> Vec<String> {
    let openapi = serde_json::to_value(sichen_server::rest::openapi()).unwrap();
    let mut routes = Vec::new();
    for (path, item) in openapi["paths"].as_object().unwrap() {
        let short = path.strip_prefix("/api/v1").unwrap();
        for method in item.as_object().unwrap().keys() {
            routes.push(format!("{} {short}", method.to_uppercase()));
        }
    }
    routes.sort();
    routes
}

#[test]
fn the_reviewed_table_has_every_route_and_no_other() {
    let listed: Vec<String> = table().into_keys().collect();
    assert_eq!(listed, described());
}

/// SEC-002, SEC-004: expired, revoked and other purposes' tokens too, and an administrator of another namespace.
#[tokio::test]
async fn every_route_answers_every_caller_as_the_reviewed_table_says() {
    let world = World::new().await;
    let mut callers = world.unbelieved().await;
    for (i, role) in ROLES.iter().enumerate() {
        let here = world
            .token(&format!("here-{role}"), &[("payments", role)])
            .await;
        let all = world.token(&format!("all-{role}"), &[("*", role)]).await;
        callers.push((Who::Here(i), here));
        callers.push((Who::All(i), all));
    }
    let other = world.token("elsewhere", &[("reports", "admin")]).await;
    callers.push((Who::Elsewhere, other));
    let mut wrong = Vec::new();
    for (route, row) in table() {
        for (who, token) in &callers {
            let answer = world.ask(&route, token).await;
            // An output that nobody wrote is not there for those who may see it either.
            let absent = route.ends_with("/output") && answer == Answer::Missing;
            let expected = expected(&row, *who);
            let fits = expected.contains(&answer) || absent && expected == [Answer::Passed];
            if !fits {
                wrong.push(format!("{route} by {who:?}: {answer:?}, not {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    world.node.stop().await;
}

/// SEC-004: by number, by key and by filter.
#[tokio::test]
async fn what_is_in_another_namespace_is_answered_as_what_is_not_there() {
    let world = World::new().await;
    let token = world.token("elsewhere", &[("reports", "admin")]).await;
    let run = world.run;
    for (there, not_there) in [
        (
            "/jobs/payments/settle".to_owned(),
            "/jobs/payments/no-such-job".to_owned(),
        ),
        (
            "/calendars/payments/cn".to_owned(),
            "/calendars/payments/none".to_owned(),
        ),
        (format!("/runs/{run}"), "/runs/999999".to_owned()),
        (
            "/runs/payments%2Fsettle:manual:k".to_owned(),
            "/runs/payments%2Fsettle:manual:none".to_owned(),
        ),
        (
            format!("/backfills/{}", world.backfill),
            "/backfills/999999".to_owned(),
        ),
        (
            "/runs?job=payments/settle".to_owned(),
            "/runs?job=payments/none".to_owned(),
        ),
        (
            "/dead-letters?job=payments/settle".to_owned(),
            "/dead-letters?job=payments/none".to_owned(),
        ),
    ] {
        let ask = async |path: &str| {
            let path = format!("/api/v1{path}");
            let answer = world.send(&Method::GET, &path, &token, "").await;
            problem(answer, 404).await
        };
        let (seen, missing) = (ask(&there).await, ask(&not_there).await);
        assert_eq!(seen.code, missing.code, "{there}");
        // The words are the same but for what was asked for.
        let plain = |text: &str| {
            let cut = text.rsplit_once(['"']).map_or(text, |(head, _)| head);
            cut.split('"').next().unwrap().to_owned()
        };
        assert_eq!(plain(&seen.detail), plain(&missing.detail), "{there}");
    }
    world.node.stop().await;
}

#[tokio::test]
async fn listings_have_nothing_of_other_namespaces() {
    let world = World::new().await;
    let reports = DOCUMENTS.replace("payments", "reports");
    let editor = world.token("elsewhere", &[("reports", "editor")]).await;
    let path = "/api/v1/jobs:apply";
    let applied = world.send(&Method::POST, path, &editor, &reports).await;
    assert_eq!(applied.status(), 200);
    for path in [
        "/jobs",
        "/jobs?limit=1",
        "/jobs?search=settle",
        "/calendars",
        "/runs",
        "/events",
    ] {
        let answer = world
            .send(&Method::GET, &format!("/api/v1{path}"), &editor, "")
            .await;
        let text = answer.text().await.unwrap();
        assert!(!text.contains("payments"), "{path}: {text}");
        assert!(
            path == "/runs" || text.contains("reports") || path == "/events",
            "{path}: {text}"
        );
    }
    let events = world
        .send(&Method::GET, "/api/v1/events", &editor, "")
        .await;
    let events: serde_json::Value = body_of(events).await;
    let events = events["items"].as_array().unwrap();
    assert!(!events.is_empty());
    for event in events {
        // Its own apply alone: who did it is in the event.
        assert_eq!(event["actor"], "token elsewhere", "{event}");
    }
    world.node.stop().await;
}

/// SEC-004: what one may depend on is what one sees.
#[tokio::test]
async fn a_job_can_not_go_by_a_calendar_that_its_editor_does_not_see() {
    let world = World::new().await;
    let editor = world.token("elsewhere", &[("reports", "editor")]).await;
    for calendar in ["payments/cn", "payments/none"] {
        let job = format!(
            "
apiVersion: sichen/v1
kind: Job
metadata: {{name: spy, namespace: reports}}
spec:
  timeZone: UTC
  schedules: [{{cron: '0 3 * * *', calendars: [{{name: {calendar}, use: working-days}}]}}]
  run: {{handler: work}}
"
        );
        let path = "/api/v1/jobs:apply";
        let answer = world.send(&Method::POST, path, &editor, &job).await;
        let refused = problem(answer, 400).await;
        assert!(
            refused.detail.contains("SC1044") || refused.code == "SC5002",
            "{refused:?}"
        );
        let words = serde_json::to_string(&refused.problems).unwrap();
        assert!(
            words.contains(&format!(
                "there is no calendar `{calendar}`; apply it first"
            )),
            "{words}"
        );
    }
    world.node.stop().await;
}

#[tokio::test]
async fn nobody_gives_a_right_that_he_has_not() {
    let world = World::new().await;
    let admin = world
        .token("payments-admin", &[("payments", "admin")])
        .await;
    let editor = world
        .token("all-editor", &[("*", "editor"), ("payments", "admin")])
        .await;
    let ask = async |token: &str, asked: serde_json::Value| {
        let path = "/api/v1/tokens";
        let answer = world
            .send(&Method::POST, path, token, &asked.to_string())
            .await;
        answer.status().as_u16()
    };
    let roles = |namespace: &str, role: &str| json!([{"namespace": namespace, "role": role}]);
    let mine = json!({"name": "mine", "roles": roles("payments", "operator")});
    assert_eq!(ask(&admin, mine).await, 201);
    for (i, token) in [&admin, &editor].into_iter().enumerate() {
        for asked in [
            json!({"name": "more", "roles": roles("*", "viewer")}),
            json!({"name": "more", "roles": roles("reports", "viewer")}),
            json!({"name": "more", "pool": "default"}),
        ] {
            assert_eq!(ask(token, asked.clone()).await, 403, "{i} {asked}");
        }
    }
    let listed = world.send(&Method::GET, "/api/v1/tokens", &admin, "").await;
    let listed: Tokens = body_of(listed).await;
    let names: Vec<&str> = listed.items.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["mine", "payments-admin"]);
    let path = "/api/v1/tokens/all-editor";
    let other = world.send(&Method::DELETE, path, &admin, "").await;
    problem(other, 404).await;
    world.node.stop().await;
}

/// SEC-008: of tokens.
#[tokio::test]
async fn a_secret_is_shown_once_and_its_use_is_noted() {
    let world = World::new().await;
    let secret = world.token("ci", &[("payments", "operator")]).await;
    assert!(secret.starts_with("sct_") && secret.len() == 68, "{secret}");
    let digest = Sha256::digest(secret.as_bytes());
    let digest: String = digest.iter().map(|b| format!("{b:02x}")).collect();
    let me = world.send(&Method::GET, "/api/v1/me", &secret, "").await;
    let me: Me = body_of(me).await;
    assert_eq!(me.actor, "token ci");
    let listed: Tokens = world.node.read("/api/v1/tokens").await;
    assert!(listed.items[0].used_at.is_some(), "{listed:?}");
    assert_eq!(listed.items[0].created_by, "user api");
    for path in ["/tokens", "/events", "/export"] {
        let text = world
            .node
            .get(&format!("/api/v1{path}"))
            .await
            .text()
            .await
            .unwrap();
        assert!(!text.contains(&secret[4..]), "{path} has the secret");
        assert!(!text.contains(&digest), "{path} has its digest");
    }
    world.node.stop().await;
}

#[tokio::test]
async fn who_started_a_run_and_who_gave_the_right_is_in_the_log() {
    let world = World::new().await;
    let secret = world.token("ci", &[("payments", "operator")]).await;
    let path = "/api/v1/jobs/payments/settle/runs";
    let started = world
        .send(&Method::POST, path, &secret, r#"{"key":"audit"}"#)
        .await;
    let started: StartedRun = body_of(started).await;
    let path = format!("/api/v1/runs/{}/events", started.id);
    let events: serde_json::Value = world.node.read(&path).await;
    assert_eq!(events["items"][0]["actor"], "token ci");
    let revoked = world
        .node
        .send(Method::DELETE, "/api/v1/tokens/ci", "")
        .await;
    assert_eq!(body_of::<Token>(revoked).await.state, "revoked");
    let events: serde_json::Value = world.node.read("/api/v1/events?limit=1000").await;
    let events = events["items"].as_array().unwrap();
    let of_token: Vec<_> = events
        .iter()
        .filter(|e| e["entity"] == "access_token")
        .collect();
    assert_eq!(of_token[0]["kind"], "access_token_created");
    assert_eq!(of_token[0]["actor"], "user api");
    assert_eq!(of_token[0]["data"]["grants"], "payments=operator");
    assert_eq!(of_token[1]["kind"], "access_token_revoked");
    world.node.stop().await;
}

#[tokio::test]
async fn a_cookie_and_a_token_in_the_address_open_nothing() {
    let world = World::new().await;
    let token = &world.node.token;
    let url = format!("http://{}/api/v1/jobs", world.node.address);
    let client = &world.node.client;
    for request in [
        client
            .get(&url)
            .header("cookie", format!("token={token}; sichen.token={token}")),
        client.get(format!("{url}?token={token}&access_token={token}")),
        client.get(&url).header("x-api-key", token),
        client
            .post(format!("{url}:apply"))
            .header("origin", "http://evil.example"),
    ] {
        problem(request.send().await.unwrap(), 401).await;
    }
    let answer = world.node.get("/api/v1/jobs").await;
    assert!(answer.headers().get("set-cookie").is_none());
    let crossing = answer.headers().get("access-control-allow-origin");
    assert!(crossing.is_none(), "no other site's script reads an answer");
    world.node.stop().await;
}
