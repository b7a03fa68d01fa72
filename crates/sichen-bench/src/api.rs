//! A client of the API, as a program that starts runs would have one.
//!
//! # Not here
//! What is asked for and how fast ([`crate::load`]).

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::clock::instant;

/// Runs in one request of [`Api::start_many`].
pub const BATCH: usize = 1_000;

/// One run to be started.
#[derive(Clone, Debug)]
pub struct Start {
    /// The idempotency key.
    pub key: String,
    /// Handed to the handler: when its lateness counts from, in microseconds since 1970.
    pub from_us: Option<i64>,
    /// Not to start before, in microseconds since 1970.
    pub not_before_us: Option<i64>,
}

impl Start {
    /// A run that is due now and whose lateness is not measured.
    #[must_use]
    pub fn now(key: String) -> Self {
        Self {
            key,
            from_us: None,
            not_before_us: None,
        }
    }

    fn body(&self) -> Value {
        let mut body = json!({ "key": self.key });
        if let Some(from) = self.from_us {
            body["parameters"] = json!({ "from_us": from });
        }
        if let Some(at) = self.not_before_us {
            body["not_before"] = json!(instant(at));
        }
        body
    }
}

/// The API of one server.
#[derive(Clone, Debug)]
pub struct Api {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Api {
    /// The API at `url`.
    #[must_use]
    pub fn new(url: &str, token: &str) -> Self {
        // Loopback and plain, but the client wants to know how it would encrypt; a second call finds it set.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            http: reqwest::Client::new(),
            url: url.to_owned(),
            token: token.to_owned(),
        }
    }

    async fn post(&self, path: &str, body: String) -> Result<Value> {
        let request = self.http.post(format!("{}/api/v1{path}", self.url));
        let sent = request
            .bearer_auth(&self.token)
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await;
        let answer = sent.with_context(|| format!("POST {path}"))?;
        let status = answer.status();
        let text = answer.text().await?;
        if !status.is_success() {
            bail!("POST {path}: {status}: {text}");
        }
        Ok(serde_json::from_str(&text)?)
    }

    /// Applies documents, JSON or YAML.
    ///
    /// # Errors
    /// If the server refuses them.
    pub async fn apply(&self, documents: String) -> Result<()> {
        self.post("/jobs:apply", documents).await.map(drop)
    }

    /// Starts one run and waits until it is committed.
    ///
    /// # Errors
    /// If the server refuses it.
    pub async fn start(&self, job: &str, run: &Start) -> Result<()> {
        self.start_in("default", job, run).await
    }

    /// [`Api::start`] of a job in `namespace`.
    ///
    /// # Errors
    /// If the server refuses it.
    pub async fn start_in(&self, namespace: &str, job: &str, run: &Start) -> Result<()> {
        let path = format!("/jobs/{namespace}/{job}/runs");
        self.post(&path, run.body().to_string()).await.map(drop)
    }

    /// Starts at most [`BATCH`] runs and waits until they are committed.
    ///
    /// # Errors
    /// If the server refuses any of them.
    pub async fn start_many(&self, job: &str, runs: &[Start]) -> Result<()> {
        let runs: Vec<Value> = runs.iter().map(Start::body).collect();
        let path = format!("/jobs/default/{job}/runs:batch");
        let answer = self
            .post(&path, json!({ "runs": runs }).to_string())
            .await?;
        let verdicts = answer["runs"].as_array().map_or(&[][..], Vec::as_slice);
        let refused = verdicts.iter().find(|v| v["id"].is_null());
        match refused {
            None if verdicts.len() == runs.len() => Ok(()),
            None => bail!("{} answers for {} runs", verdicts.len(), runs.len()),
            Some(refused) => bail!("a run was refused: {refused}"),
        }
    }
}
