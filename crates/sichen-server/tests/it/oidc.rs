//! Logging in by a provider, who is driven by hand and lies as told.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::{Client, Response, Url, redirect};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING as ES256, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sichen_core::access::Role;
use sichen_server::oidc::mapping::Mapping;
use sichen_server::oidc::{Oidc, Rule, Settings, check_address};
use sichen_server::rest::wire::{Logins, Me, User, Users};
use sichen_store::clock::{Clock as _, SystemClock};

use crate::node::{Node, json as body_of, problem};

const SECRET: &str = "a secret with: signs";

/// What the provider says and does next.
struct Said {
    issuer: String,
    key: EcdsaKeyPair,
    kid: String,
    /// What it answers for a code, beside what is always so.
    claims: Value,
    /// By which it knows what was asked.
    challenge: String,
    nonce: String,
    userinfo: Value,
    /// Codes that were exchanged.
    codes: Vec<String>,
    keys_asked: u32,
    moves_to: Option<String>,
    iss_told: bool,
}

type Shared = Arc<Mutex<Said>>;

fn key() -> EcdsaKeyPair {
    let chance = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ES256, &chance).unwrap();
    EcdsaKeyPair::from_pkcs8(&ES256, document.as_ref(), &chance).unwrap()
}

fn packed(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

async fn describe(State(said): State<Shared>) -> Json<Value> {
    let said = said.lock().unwrap();
    let at = &said.issuer;
    Json(json!({
        "issuer": at, "authorization_endpoint": format!("{at}/auth?tenant=1"),
        "token_endpoint": format!("{at}/token"), "jwks_uri": format!("{at}/keys"),
        "userinfo_endpoint": format!("{at}/me"),
        "authorization_response_iss_parameter_supported": said.iss_told,
    }))
}

async fn keys(State(said): State<Shared>) -> Json<Value> {
    let mut said = said.lock().unwrap();
    said.keys_asked += 1;
    let point = said.key.public_key().as_ref();
    let (x, y) = (packed(&point[1..33]), packed(&point[33..]));
    Json(json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": said.kid, "x": x, "y": y}]}))
}

async fn token(
    State(said): State<Shared>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, HeaderMap, Json<Value>) {
    let mut said = said.lock().unwrap();
    let mut more = HeaderMap::new();
    if let Some(place) = &said.moves_to {
        more.insert("location", place.parse().unwrap());
        return (StatusCode::TEMPORARY_REDIRECT, more, Json(json!({})));
    }
    let fields = Url::parse(&format!("http://x/?{body}")).unwrap();
    let field = |name: &str| {
        let found = fields.query_pairs().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.into_owned())
            .unwrap_or_default()
    };
    let (code, verifier) = (field("code"), field("code_verifier"));
    let shown = STANDARD.encode("sichen:a+secret+with%3A+signs");
    let proven = packed(&Sha256::digest(verifier.as_bytes())) == said.challenge;
    let known = headers["authorization"] == format!("Basic {shown}").as_str();
    let fits = field("redirect_uri").ends_with("/api/v1/login/oidc/callback");
    if !proven || !known || !fits || said.codes.contains(&code) {
        let refused = json!({"error": "invalid_grant", "error_description": "<b>no</b>"});
        return (StatusCode::BAD_REQUEST, more, Json(refused));
    }
    said.codes.push(code);
    let now = SystemClock.now().as_second();
    let mut claims = json!({
        "iss": said.issuer, "aud": "sichen", "sub": "17", "nonce": said.nonce, "exp": now + 60, "iat": now,
        "preferred_username": "Alice", "groups": ["ops"],
    });
    for (name, value) in said.claims.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    let head = json!({"alg": "ES256", "kid": said.kid});
    let part = |value: &Value| packed(value.to_string().as_bytes());
    let message = format!("{}.{}", part(&head), part(&claims));
    let signature = said
        .key
        .sign(&SystemRandom::new(), message.as_bytes())
        .unwrap();
    let id_token = format!("{message}.{}", packed(signature.as_ref()));
    (
        StatusCode::OK,
        more,
        Json(json!({"id_token": id_token, "access_token": "t", "token_type": "Bearer"})),
    )
}

async fn me(State(said): State<Shared>, headers: HeaderMap) -> Json<Value> {
    assert_eq!(headers["authorization"], "Bearer t");
    Json(said.lock().unwrap().userinfo.clone())
}

struct Scene {
    node: Node,
    said: Shared,
    browser: Client,
    /// Ends with this.
    _serving: tokio::task::JoinSet<()>,
}

/// A browser that was sent to the provider.
struct Away {
    kept: String,
    state: String,
}

impl Scene {
    async fn new() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let said = Arc::new(Mutex::new(Said {
            issuer: issuer.clone(),
            key: key(),
            kid: "1".to_owned(),
            claims: json!({}),
            challenge: String::new(),
            nonce: String::new(),
            userinfo: json!({}),
            codes: Vec::new(),
            keys_asked: 0,
            moves_to: None,
            iss_told: false,
        }));
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(describe))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .route("/me", get(me))
            .with_state(said.clone());
        let mut serving = tokio::task::JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        let node = Node::with_oidc(|address| oidc(&issuer, address)).await;
        let browser = Client::builder().redirect(redirect::Policy::none());
        Self {
            node,
            said,
            _serving: serving,
            browser: browser.build().unwrap(),
        }
    }

    async fn get(&self, path: &str, cookies: &str) -> Response {
        let url = format!("http://{}/api/v1{path}", self.node.address);
        let request = self.browser.get(url).header("cookie", cookies);
        // As a browser tells of who comes back from another site.
        request
            .header("sec-fetch-site", "cross-site")
            .send()
            .await
            .unwrap()
    }

    /// Sends a browser away; the provider is told what it was asked.
    async fn leave(&self) -> Away {
        let answer = self.get("/login/oidc", "").await;
        assert_eq!(answer.status(), 303);
        let to = Url::parse(answer.headers()["location"].to_str().unwrap()).unwrap();
        let asked = |name: &str| {
            let found = to.query_pairs().find(|(key, _)| key == name);
            found
                .map(|(_, value)| value.into_owned())
                .unwrap_or_else(|| panic!("{name} in {to}"))
        };
        assert_eq!(asked("tenant"), "1", "what stood in its address stays");
        assert_eq!(asked("response_type"), "code");
        assert_eq!(asked("code_challenge_method"), "S256");
        assert_eq!(asked("scope"), "openid groups");
        let set = cookies(&answer);
        let kept = set
            .iter()
            .find(|set| set.starts_with("sichen-away="))
            .unwrap();
        assert!(
            kept.contains("HttpOnly; SameSite=Lax") && kept.contains("Max-Age=600"),
            "{kept}"
        );
        let kept = kept.split(';').next().unwrap().to_owned();
        let mut said = self.said.lock().unwrap();
        said.challenge = asked("code_challenge");
        said.nonce = asked("nonce");
        Away {
            kept,
            state: asked("state"),
        }
    }

    async fn back(&self, away: &Away, code: &str) -> Response {
        let path = format!("/login/oidc/callback?code={code}&state={}", away.state);
        self.get(&path, &away.kept).await
    }

    /// Logs in with what the provider says; the cookie or the code of the error.
    async fn log_in(&self, claims: Value, code: &str) -> Result<String, String> {
        let away = self.leave().await;
        self.said.lock().unwrap().claims = claims;
        outcome(&self.back(&away, code).await)
    }

    async fn asks(&self, cookie: &str) -> Response {
        self.get("/me", cookie).await
    }
}

fn oidc(issuer: &str, address: SocketAddr) -> Oidc {
    let rule = |value: &str, namespace: &str, role| Rule {
        fits: Some(("groups".to_owned(), value.to_owned())),
        namespace: namespace.to_owned(),
        role,
    };
    let settings = Settings {
        name: "Example".to_owned(),
        issuer: issuer.to_owned(),
        client: "sichen".to_owned(),
        secret: Some(SECRET.to_owned()),
        console: check_address(&format!("http://{address}")).unwrap(),
        scopes: vec!["groups".to_owned()],
        roots: None,
        mapping: Mapping {
            user: "preferred_username".to_owned(),
            rules: vec![
                rule("ops", "payments", Role::Operator),
                rule("admins", "*", Role::Admin),
            ],
        },
    };
    Oidc::new(settings).unwrap()
}

fn cookies(answer: &Response) -> Vec<String> {
    let set = answer.headers().get_all("set-cookie").iter();
    set.map(|set| set.to_str().unwrap().to_owned()).collect()
}

fn outcome(answer: &Response) -> Result<String, String> {
    assert_eq!(answer.status(), 303);
    let set = cookies(answer);
    let gone = set.iter().any(|set| set.starts_with("sichen-away=;"));
    assert!(gone, "what it kept is taken away: {set:?}");
    let to = answer.headers()["location"].to_str().unwrap();
    match to.strip_prefix("/#refused=") {
        Some(code) => {
            assert!(set.iter().all(|set| !set.contains("scs_")), "{set:?}");
            Err(code.to_owned())
        }
        None => {
            assert_eq!(to, "/#in");
            let login = set
                .iter()
                .find(|set| set.starts_with("sichen-login=scs_"))
                .unwrap();
            assert!(login.contains("HttpOnly; SameSite=Strict"), "{login}");
            Ok(login.split(';').next().unwrap().to_owned())
        }
    }
}

#[tokio::test]
async fn whom_the_provider_knows_is_let_in_with_the_roles_that_it_says() {
    let scene = Scene::new().await;
    let ways: Logins = body_of(scene.get("/login", "").await).await;
    assert_eq!(ways.provider.as_deref(), Some("Example"));
    let cookie = scene.log_in(json!({}), "c1").await.unwrap();
    let told: Me = body_of(scene.asks(&cookie).await).await;
    assert_eq!(told.actor, "user alice");
    assert_eq!(told.roles.len(), 1);
    assert_eq!(
        (
            told.roles[0].namespace.as_str(),
            told.roles[0].role.as_str()
        ),
        ("payments", "operator")
    );
    // It says otherwise the next time.
    let cookie = scene
        .log_in(json!({"groups": ["admins"]}), "c2")
        .await
        .unwrap();
    let told: Me = body_of(scene.asks(&cookie).await).await;
    assert_eq!(
        (
            told.roles[0].namespace.as_str(),
            told.roles[0].role.as_str()
        ),
        ("*", "admin")
    );
    let users: Users = scene.node.read("/api/v1/users").await;
    assert_eq!(users.items.len(), 1);
    let provider = scene.said.lock().unwrap().issuer.clone();
    assert_eq!(users.items[0].provider.as_deref(), Some(provider.as_str()));
    assert!(!users.items[0].has_password);
    // Its roles and its judgement are not changed here, but he can be shut out.
    for (path, body) in [
        ("password", json!({"password": "correct horse battery"})),
        (
            "roles",
            json!({"roles": [{"namespace": "*", "role": "admin"}]}),
        ),
    ] {
        let path = format!("/api/v1/users/alice/{path}");
        let refused = problem(scene.node.post(&path, body.to_string()).await, 409).await;
        assert_eq!(refused.code, "SC6045");
    }
    body_of::<User>(scene.node.post("/api/v1/users/alice/disable", "").await).await;
    assert_eq!(scene.asks(&cookie).await.status(), 401);
    assert_eq!(
        scene.log_in(json!({}), "c3").await,
        Err("SC6031".to_owned())
    );
    scene.node.stop().await;
}

#[tokio::test]
async fn what_a_provider_lies_about_logs_nobody_in() {
    let scene = Scene::new().await;
    let now = SystemClock.now().as_second();
    for (i, (claims, code)) in [
        (json!({"nonce": "another"}), "SC6042"),
        (json!({"iss": "https://other.example"}), "SC6042"),
        (json!({"aud": "other"}), "SC6042"),
        (json!({"exp": now - 120}), "SC6042"),
        (json!({"nbf": now + 600}), "SC6042"),
        (json!({"sub": null}), "SC6042"),
        (json!({"groups": ["others"]}), "SC6043"),
        (json!({"preferred_username": "api"}), "SC6043"),
        (json!({"preferred_username": "@"}), "SC6043"),
    ]
    .into_iter()
    .enumerate()
    {
        let done = scene.log_in(claims.clone(), &format!("c{i}")).await;
        assert_eq!(done, Err(code.to_owned()), "{claims}");
    }
    let users: Users = scene.node.read("/api/v1/users").await;
    assert!(users.items.is_empty(), "nobody was made");
    scene.node.stop().await;
}

/// Nobody comes by a name to what another has.
#[tokio::test]
async fn a_name_that_is_another_s_opens_nothing() {
    let scene = Scene::new().await;
    let root = json!({"name": "root", "roles": [{"namespace": "*", "role": "admin"}]});
    body_of::<User>(scene.node.post("/api/v1/users", root.to_string()).await).await;
    let claims = json!({"preferred_username": "root", "groups": ["ops"]});
    assert_eq!(scene.log_in(claims, "c1").await, Err("SC6044".to_owned()));
    scene.log_in(json!({}), "c2").await.unwrap();
    let claims = json!({"sub": "18", "groups": ["admins"]});
    assert_eq!(scene.log_in(claims, "c3").await, Err("SC6044".to_owned()));
    let users: Users = scene.node.read("/api/v1/users").await;
    let roles: Vec<&str> = users
        .items
        .iter()
        .map(|user| user.roles[0].role.as_str())
        .collect();
    assert_eq!(roles, ["operator", "admin"], "as they were");
    scene.node.stop().await;
}

/// A code that was meant for another browser, one that comes twice, and one that was never asked for.
#[tokio::test]
async fn a_code_is_good_in_the_browser_that_asked_and_once() {
    let scene = Scene::new().await;
    let unasked = Err("SC6040".to_owned());
    let victim = scene.leave().await;
    let path = format!("/login/oidc/callback?code=c0&state={}", victim.state);
    assert_eq!(
        outcome(&scene.get(&path, "").await),
        unasked,
        "another browser"
    );
    let thief = scene.leave().await;
    let stolen = Away {
        kept: thief.kept.clone(),
        state: victim.state.clone(),
    };
    assert_eq!(
        outcome(&scene.back(&stolen, "c0").await),
        unasked,
        "another's number"
    );
    let path = "/login/oidc/callback?code=c0";
    assert_eq!(
        outcome(&scene.get(path, &thief.kept).await),
        unasked,
        "no number"
    );
    for kept in [
        "sichen-away=",
        "sichen-away=a.b.c",
        "sichen-away=..",
        "other=1",
    ] {
        let path = format!("/login/oidc/callback?code=c0&state={}", thief.state);
        assert_eq!(outcome(&scene.get(&path, kept).await), unasked, "{kept}");
    }
    // A stolen code, with the thief's own numbers: the proof of possession is another's.
    let asked_by_victim = scene.leave().await;
    let challenge = scene.said.lock().unwrap().challenge.clone();
    let thief = scene.leave().await;
    scene.said.lock().unwrap().challenge = challenge;
    let refused = Err("SC6041".to_owned());
    assert_eq!(outcome(&scene.back(&thief, "c1").await), refused);
    drop(asked_by_victim);
    // Once.
    let away = scene.leave().await;
    outcome(&scene.back(&away, "c2").await).unwrap();
    scene.said.lock().unwrap().codes.clear();
    assert_eq!(
        outcome(&scene.back(&away, "c2").await),
        unasked,
        "it comes back once"
    );
    let away = scene.leave().await;
    scene.said.lock().unwrap().codes.push("c3".to_owned());
    assert_eq!(
        outcome(&scene.back(&away, "c3").await),
        refused,
        "a code of before"
    );
    scene.node.stop().await;
}

#[tokio::test]
async fn no_answer_of_the_provider_leads_anywhere_else() {
    let scene = Scene::new().await;
    let away = scene.leave().await;
    let path = format!(
        "/login/oidc/callback?error=access_denied&error_description=%3Cb%3E&state={}",
        away.state
    );
    assert_eq!(
        outcome(&scene.get(&path, &away.kept).await),
        Err("SC6041".to_owned())
    );
    // Redirects are not followed: the code would go with them.
    let elsewhere = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = format!("http://{}/token", elsewhere.local_addr().unwrap());
    scene.said.lock().unwrap().moves_to = Some(place);
    assert_eq!(
        scene.log_in(json!({}), "c1").await,
        Err("SC6039".to_owned())
    );
    let asked = tokio::time::timeout(std::time::Duration::from_millis(50), elsewhere.accept());
    assert!(asked.await.is_err(), "nobody asked there");
    scene.said.lock().unwrap().moves_to = None;
    for (iss, done) in [("https%3A%2F%2Fevil.example", false), ("", false)] {
        let away = scene.leave().await;
        let path = format!(
            "/login/oidc/callback?code=c2&state={}&iss={iss}",
            away.state
        );
        let found = outcome(&scene.get(&path, &away.kept).await);
        assert_eq!(found.is_ok(), done, "{iss}: another provider's answer");
    }
    let away = scene.leave().await;
    let more = "&redirect=https%3A%2F%2Fevil.example&next=%2F%2Fevil.example";
    let path = format!("/login/oidc/callback?code=c9&state={}{more}", away.state);
    outcome(&scene.get(&path, &away.kept).await).unwrap();
    scene.node.stop().await;
}

#[tokio::test]
async fn a_provider_may_change_its_keys_and_is_not_asked_for_them_at_every_lie() {
    let scene = Scene::new().await;
    scene.log_in(json!({}), "c1").await.unwrap();
    {
        let mut said = scene.said.lock().unwrap();
        said.key = key();
        said.kid = "2".to_owned();
    }
    scene.log_in(json!({}), "c2").await.unwrap();
    assert_eq!(scene.said.lock().unwrap().keys_asked, 2);
    // Keys that there are not: no more questions than one each half minute.
    scene.said.lock().unwrap().kid = "3".to_owned();
    for i in 3..6 {
        let done = scene.log_in(json!({}), &format!("c{i}")).await;
        assert_eq!(done, Err("SC6042".to_owned()));
    }
    assert_eq!(scene.said.lock().unwrap().keys_asked, 2);
    scene.node.stop().await;
}

#[tokio::test]
async fn what_the_token_leaves_out_is_asked_of_the_provider_and_is_of_the_same_person() {
    let scene = Scene::new().await;
    let without = json!({"groups": null, "preferred_username": null});
    for (more, done) in [
        (
            json!({"sub": "17", "groups": ["ops"], "preferred_username": "alice"}),
            Ok(()),
        ),
        (
            json!({"sub": "18", "groups": ["admins"], "preferred_username": "alice"}),
            Err("SC6042"),
        ),
        (
            json!({"groups": ["admins"], "preferred_username": "alice"}),
            Err("SC6042"),
        ),
        (json!({}), Err("SC6043")),
    ] {
        scene.said.lock().unwrap().userinfo = more.clone();
        let code = format!("c{more}").replace(['{', '}', '"', '[', ']', ',', ':'], "");
        let found = scene.log_in(without.clone(), &code).await;
        assert_eq!(found.map(drop), done.map_err(str::to_owned), "{more}");
    }
    scene.node.stop().await;
}

#[tokio::test]
async fn a_provider_that_names_another_issuer_or_leaves_tls_is_asked_nothing() {
    let scene = Scene::new().await;
    let issuer = scene.said.lock().unwrap().issuer.clone();
    scene.said.lock().unwrap().issuer = format!("{issuer}/other");
    let answer = scene.get("/login/oidc", "").await;
    assert_eq!(outcome(&answer), Err("SC6039".to_owned()));
    scene.node.stop().await;
    let node = Node::start().await;
    let browser = Client::builder()
        .redirect(redirect::Policy::none())
        .build()
        .unwrap();
    for path in ["/login/oidc", "/login/oidc/callback?code=1&state=2"] {
        let url = format!("http://{}/api/v1{path}", node.address);
        let answer = browser.get(url).send().await.unwrap();
        assert_eq!(
            answer.headers()["location"],
            "/#refused=SC6039",
            "there is none"
        );
    }
    for (address, good) in [
        ("https://login.example/realms/a", true),
        ("http://127.0.0.1:1", true),
        ("http://[::1]:1", true),
        ("http://localhost", true),
        ("http://login.example", false),
        ("http://127.0.0.1.evil.example", false),
        ("https://user:pass@login.example", false),
        ("https://login.example/?a=1", false),
        ("login.example", false),
        ("file:///etc/passwd", false),
    ] {
        assert_eq!(check_address(address).is_ok(), good, "{address}");
    }
    node.stop().await;
}
