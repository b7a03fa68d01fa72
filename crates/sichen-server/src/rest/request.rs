//! What requests carry: segments, queries, bodies, pages, instants, runs' keys.
//!
//! # Not here
//! Documents ([`crate::document`]).

use axum::body::Bytes;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sichen_core::ids::{Occasion, RunId, ShardKey};
use sichen_core::name::JobName;
use sichen_core::port::{MAX_BATCH, MAX_PAGE, Page};
use sichen_core::trace::TraceId;
use utoipa::IntoParams;

use super::Api;
use super::answer::Failed;

/// Rows of a page if the request does not say.
const DEFAULT_LIMIT: u32 = 100;

/// Segments of the path, percent-decoded.
pub(super) struct Segments<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Segments<T> {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(segments)) => Ok(Self(segments)),
            Err(error) => Err(Failed::bad(format!("SC5021: the address: {error}"))),
        }
    }
}

/// The query of the address.
pub(super) struct Params<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failed> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(query)) => Ok(Self(query)),
            Err(error) => Err(Failed::bad(format!("SC5021: {error}"))),
        }
    }
}

/// Which page is wanted.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Paging {
    /// `next` of the page before.
    pub after: Option<String>,
    /// Rows of a page, 1 to 1,000; 100 if left out.
    pub limit: Option<u32>,
}

impl Paging {
    /// The page, whose cursor `read` understands.
    pub(super) fn page<K>(&self, read: impl Fn(&str) -> Option<K>) -> Result<Page<K>, Failed> {
        let cursor = |text: &String| {
            read(text).ok_or_else(|| {
                let text = shortened(text);
                Failed::bad(format!(
                    "SC5021: after={text:?} is no `next` of this listing"
                ))
            })
        };
        let after = self.after.as_ref().map(cursor).transpose()?;
        let limit = limit(self.limit, "limit", DEFAULT_LIMIT)?;
        Ok(Page { after, limit })
    }
}

/// A number of rows, 1 to [`MAX_PAGE`].
pub(super) fn limit(given: Option<u32>, name: &str, default: u32) -> Result<u32, Failed> {
    match given {
        None => Ok(default),
        Some(n) if (1..=MAX_PAGE).contains(&n) => Ok(n),
        Some(n) => Err(Failed::bad(format!(
            "SC5021: {name}={n} is outside 1 to {MAX_PAGE}"
        ))),
    }
}

/// Where the next page begins: after the last of `items`, if the page is full.
pub(super) fn next<T>(items: &[T], limit: u32, key: impl Fn(&T) -> String) -> Option<String> {
    let full = u32::try_from(items.len()).is_ok_and(|n| n >= limit);
    items.last().filter(|_| full).map(key)
}

/// The JSON in a body; its default if the body is empty.
pub(super) fn json<T: DeserializeOwned + Default>(body: &Bytes) -> Result<T, Failed> {
    match body.trim_ascii().first() {
        None => return Ok(T::default()),
        Some(b'{') => {}
        // Derived code would take a list as the fields in their order.
        Some(_) => {
            return Err(Failed::bad(
                "SC5020: the body is not what is expected: a JSON object (`{…}`)",
            ));
        }
    }
    serde_json::from_slice(body)
        .map_err(|error| Failed::bad(format!("SC5020: the body is not what is expected: {error}")))
}

/// The idempotency key of a request: of its body, or of the header `Idempotency-Key`.
pub(super) fn idempotency_key(
    given: Option<&str>,
    headers: Option<&HeaderMap>,
) -> Result<Option<String>, Failed> {
    let said = |headers: &HeaderMap| headers.get_all("idempotency-key").iter().count();
    if headers.is_some_and(|headers| said(headers) > 1) {
        return Err(Failed::bad(
            "SC5022: the header `Idempotency-Key` is there more than once; send it once",
        ));
    }
    let header = headers.and_then(|headers| headers.get("idempotency-key"));
    let header = header.map(|value| value.to_str()).transpose();
    let header = header.map_err(|_| {
        Failed::bad("SC5022: the header `Idempotency-Key` takes visible ASCII; send `key` instead")
    })?;
    match (given, header) {
        (Some(key), _) if key.contains('\0') => Err(Failed::bad(
            "SC5022: `key` has a NUL character; take it out",
        )),
        (key, header) => Ok(key.or(header).map(str::to_owned)),
    }
}

/// A job of two segments.
pub(super) fn job_name((namespace, name): (String, String)) -> Result<JobName, Failed> {
    let bad = |part: &str, error| {
        let part = shortened(part);
        Failed::bad(format!("SC1001: the name {part:?} {error}"))
    };
    sichen_core::name::Name::new(&namespace).map_err(|e| bad(&namespace, e))?;
    JobName::new(&namespace, &name).map_err(|e| bad(&name, e))
}

/// A job as it is shown: `name`, or `namespace/name`.
pub(super) fn shown_job(text: &str) -> Result<JobName, Failed> {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    job_name((namespace.to_owned(), name.to_owned()))
}

/// The shards of a run that a request names, if it does.
pub(super) fn shards(run: RunId, named: Option<Vec<i32>>) -> Result<Option<Vec<ShardKey>>, Failed> {
    let Some(numbers) = named else {
        return Ok(None);
    };
    if numbers.is_empty() || numbers.len() > MAX_BATCH {
        return Err(Failed::bad(format!(
            "SC5021: shards: {} given; give 1 to {MAX_BATCH}, or leave it out for all",
            numbers.len()
        )));
    }
    let keys = numbers.iter().map(|no| ShardKey::new(run, *no));
    Ok(Some(keys.collect()))
}

/// An instant with its offset.
pub(super) fn instant(name: &str, text: &str) -> Result<Timestamp, Failed> {
    // In a query, `+` that was not encoded has become a blank.
    let text = text.replace(' ', "+");
    text.parse().map_err(|_| {
        let text = shortened(&text);
        Failed::bad(format!(
            "SC5021: {name}: {text:?} is no instant; write it like 2026-08-30T00:00:00+08:00"
        ))
    })
}

/// The run of a number, a shown key, or a trace id.
pub(super) async fn run_id(api: &Api, text: &str) -> Result<RunId, Failed> {
    if let Some(trace) = TraceId::parse(text) {
        let found = api.store().get_run(trace.run()).await?;
        let found = found.filter(|(run, _)| TraceId::of(run.job, run.id) == trace);
        return match found {
            Some((run, _)) => Ok(run.id),
            None => Err(Failed::not_found("run with the trace id", shortened(text))),
        };
    }
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return match text.parse() {
            Ok(n) if n <= i64::MAX.unsigned_abs() => Ok(RunId(n)),
            Ok(_) | Err(_) => Err(Failed::not_found("run", shortened(text))),
        };
    }
    let Some((job, rest)) = text.split_once(':') else {
        let text = shortened(text);
        return Err(Failed::bad(format!(
            "SC5021: {text:?} is no run; give its number, its key such as \
             `job:2026-08-30T00:00:00+08:00` or `job:manual:KEY`, or its trace id"
        )));
    };
    let occasion = occasion(rest)?;
    let job = api.0.control.job(&shown_job(job)?).await?;
    let found = api.store().find_run(job.uid, occasion).await?;
    found.ok_or_else(|| Failed::not_found("run", shortened(text)))
}

/// What follows the job in a run's key.
fn occasion(text: &str) -> Result<Occasion, Failed> {
    if let Some(key) = text.strip_prefix("manual:") {
        // Which no store can look for, and no run has.
        if key.contains('\0') {
            return Err(Failed::bad(
                "SC5022: `key` has a NUL character; take it out",
            ));
        }
        let key = key.to_owned();
        return Ok(Occasion::Manual { key });
    }
    let (at, rerun) = match text.split_once('#') {
        None => (text, 0),
        Some((at, number)) => {
            let rerun = number.parse::<u32>().ok().and_then(|n| n.checked_sub(1));
            let rerun = rerun.ok_or_else(|| {
                let number = shortened(number);
                Failed::bad(format!("SC5021: #{number} is no number of a rerun"))
            })?;
            (at, rerun)
        }
    };
    let at = instant("the run's key", at)?;
    Ok(Occasion::Planned { at, rerun })
}

/// Foreign text for a message, not too long.
pub(super) fn shortened(text: &str) -> String {
    const LONGEST: usize = 200;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
