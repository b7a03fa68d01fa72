//! Jobs of other schedulers as documents: what the program that started the server can read.
//!
//! # Invariants
//! - Nothing is written: the answer is a text that can be looked at and then applied.
//!
//! # Not here
//! Reading the sources (the program, which hands its [`Importer`] in: what proves the times belongs to
//! no server).

use std::fmt;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{Answer, Failed};
use super::request::Params;
use super::{Api, wire};

/// A source that is to be read.
#[derive(Clone, Debug)]
pub struct Source {
    /// `crontab`, `system-crontab` or `kubernetes`.
    pub kind: String,
    /// Its text.
    pub text: String,
    /// The zone of the machine that it comes from, where it says none.
    pub time_zone: Option<String>,
    /// The namespace of the jobs.
    pub namespace: String,
    /// The pool whose workers run them.
    pub pool: Option<String>,
}

type Read = dyn Fn(&Source) -> Result<wire::Imported, String> + Send + Sync;

/// What reads sources; that of [`Default`] reads none.
#[derive(Clone, Default)]
pub struct Importer(Option<Arc<Read>>);

impl Importer {
    /// One that reads by `read`, whose error says why a text can't be read at all.
    pub fn new(
        read: impl Fn(&Source) -> Result<wire::Imported, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(read)))
    }
}

impl fmt::Debug for Importer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Importer")
    }
}

/// What the body is.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct From {
    /// `crontab` (of a user), `system-crontab` (with a user in each entry) or `kubernetes` (manifests).
    from: String,
    /// The zone of the machine that it comes from, where it says none.
    time_zone: Option<String>,
    /// The namespace of the jobs; `default` if left out.
    namespace: Option<String>,
    /// The pool whose workers run them.
    pool: Option<String>,
}

/// Reads the jobs of another scheduler and writes nothing.
///
/// The answer has the documents as text, and what there is to say about each line: `refused` (not
/// imported), `warning` (imported, with a difference), `note`. The next times of every job are compared
/// with those of its source.
#[utoipa::path(
    post,
    path = "/jobs:import",
    tag = "jobs",
    params(From),
    request_body(content = String, content_type = "text/plain", description = "A crontab, or manifests in YAML or JSON"),
    responses(
        (status = 200, body = wire::Imported),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn import(
    State(api): State<Api>,
    Params(from): Params<From>,
    body: Bytes,
) -> Answer<wire::Imported> {
    let Some(read) = api.0.about.importer.0.clone() else {
        let text = "SC5021: this server reads no jobs of other schedulers; `sichen import` does";
        return Err(Failed::bad(text));
    };
    let text = String::from_utf8(body.to_vec())
        .map_err(|error| Failed::bad(format!("SC7005: the text is not UTF-8: {error}")))?;
    let source = Source {
        kind: from.from,
        text,
        time_zone: from.time_zone.filter(|zone| !zone.is_empty()),
        namespace: from.namespace.unwrap_or_else(|| "default".to_owned()),
        pool: from.pool.filter(|pool| !pool.is_empty()),
    };
    // Times are worked out twice for each job: not for a thread that answers others.
    let told = tokio::task::spawn_blocking(move || read(&source)).await;
    let told = told.map_err(|_| Failed::bad("SC7032: the text can't be read"))?;
    Ok(Json(told.map_err(Failed::bad)?))
}
