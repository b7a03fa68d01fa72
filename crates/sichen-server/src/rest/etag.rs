//! Entity tags of jobs: which revision an answer shows, and which one a change goes by.
//!
//! # Invariants
//! - A tag names the job and its revision, so that an edit changes it and a run does not.
//! - A condition that is not understood refuses the request; it is never passed over.
//!
//! # Not here
//! Judging a condition ([`Precondition`]).

use axum::http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use sichen_core::ids::{JobUid, Revision};
use sichen_engine::control::Precondition;

use super::answer::Failed;

/// The header of an answer that shows a revision of a job.
pub(super) fn header(uid: JobUid, revision: Revision) -> [(HeaderName, HeaderValue); 1] {
    let tag = format!("\"{uid}.{revision}\"");
    // Digits, letters, dashes: always a header's value.
    let tag = HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"\""));
    [(ETAG, tag)]
}

/// The condition of a request that changes a job.
pub(super) fn condition(headers: &HeaderMap) -> Result<Precondition, Failed> {
    let [one, none] = [IF_MATCH, IF_NONE_MATCH].map(|name| said(headers, &name));
    match (one?, none?) {
        (None, None) => Ok(Precondition::None),
        (Some("*"), None) => Ok(Precondition::Present),
        (None, Some("*")) => Ok(Precondition::Missing),
        (Some(tag), None) => match revision(tag) {
            Some((uid, revision)) => Ok(Precondition::Revision(uid, revision)),
            None => Err(not_understood(
                "`If-Match` takes one `ETag` of a job, or `*`",
            )),
        },
        (_, Some(_)) => Err(not_understood(
            "`If-None-Match` takes `*` here, and no `If-Match` beside it",
        )),
    }
}

fn said<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Failed> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => match value.to_str() {
            Ok(text) => Ok(Some(text.trim())),
            Err(_) => Err(not_understood("it takes visible ASCII")),
        },
        (Some(_), Some(_)) => Err(not_understood("give it once")),
    }
}

/// What a tag names. `W/` before it is passed over: what is compared is the revision, not bytes.
fn revision(tag: &str) -> Option<(JobUid, Revision)> {
    let tag = tag.strip_prefix("W/").unwrap_or(tag);
    let tag = tag.strip_prefix('"')?.strip_suffix('"')?;
    let (uid, revision) = tag.split_once('.')?;
    Some((JobUid(uid.parse().ok()?), Revision(revision.parse().ok()?)))
}

fn not_understood(what: &str) -> Failed {
    Failed::bad(format!("SC5005: the condition is not understood: {what}"))
}

#[cfg(test)]
mod tests;
