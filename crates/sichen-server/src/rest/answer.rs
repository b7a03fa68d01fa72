//! What a request that is not carried out is answered with.
//!
//! # Not here
//! Refusing for want of a token, of time or of room ([`super::gate`]).

use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use sichen_core::document;
use sichen_core::port;
use sichen_engine::control;

use super::wire::{PROBLEM_JSON, Problem, ProblemAt};

/// Seconds after which a client may try again.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// A request that was not carried out.
#[derive(Debug)]
pub(crate) struct Failed(Box<Problem>);

/// The answer of a handler.
pub(super) type Answer<T> = Result<axum::Json<T>, Failed>;

impl Failed {
    /// `message` begins with its code: `SCnnnn: what happened, to what, and what to do`.
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let message = message.into();
        let (code, detail) = match message.split_once(": ") {
            Some((code, detail)) if is_code(code) => (code.to_owned(), detail.to_owned()),
            Some(_) | None => (String::new(), message),
        };
        let kind = if code.is_empty() {
            "about:blank".to_owned()
        } else {
            format!("urn:sichen:error:{code}")
        };
        Self(Box::new(Problem {
            kind,
            title: status.canonical_reason().unwrap_or("").to_owned(),
            status: status.as_u16(),
            detail,
            code,
            problems: Vec::new(),
        }))
    }

    /// The request is wrong in one way.
    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// There is no such thing.
    pub(super) fn not_found(what: &'static str, name: impl Into<String>) -> Self {
        let name = name.into();
        control::Error::NotFound { what, name }.into()
    }

    /// The request is wrong in these ways.
    pub(super) fn invalid(problems: Vec<ProblemAt>) -> Self {
        let count = problems.len();
        let first = problems.first().map_or("", |p| p.message.as_str());
        let message = match count {
            1 => format!("SC5002: the request is not valid: {first}"),
            _ => format!("SC5002: the request is not valid in {count} places; first: {first}"),
        };
        let mut failed = Self::bad(message);
        failed.0.problems = problems;
        failed
    }

    /// As a part of an answer to many.
    pub(super) fn into_problem(self) -> Problem {
        *self.0
    }

    fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

fn is_code(text: &str) -> bool {
    text.strip_prefix("SC")
        .is_some_and(|n| n.len() == 4 && n.bytes().all(|b| b.is_ascii_digit()))
}

/// A problem of a document whose place in a text is not known.
pub(super) fn unplaced(problem: document::Problem) -> ProblemAt {
    ProblemAt {
        path: problem.path,
        message: problem.message,
        ..ProblemAt::default()
    }
}

impl From<port::Error> for Failed {
    fn from(error: port::Error) -> Self {
        let status = match &error {
            port::Error::Unavailable(_)
            | port::Error::Busy(_)
            | port::Error::ReadOnly(_)
            | port::Error::Unknown { .. } => StatusCode::SERVICE_UNAVAILABLE,
            port::Error::Corrupt(_) | port::Error::TooMany(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status.is_server_error() {
            tracing::warn!(%error, "a request failed in the store");
        }
        Self::new(status, error.to_string())
    }
}

impl From<control::Error> for Failed {
    fn from(error: control::Error) -> Self {
        let text = error.to_string();
        match error {
            control::Error::NotFound { .. } | control::Error::NoRevision { .. } => {
                Self::new(StatusCode::NOT_FOUND, text)
            }
            control::Error::Invalid(problems) => {
                Self::invalid(problems.into_iter().map(unplaced).collect())
            }
            // A refusal for the form of the request, not for the state of things.
            control::Error::Refused(why) if why.starts_with("SC1") => Self::bad(why),
            control::Error::Refused(why) => Self::new(StatusCode::CONFLICT, why),
            control::Error::Changed(_) => Self::new(StatusCode::PRECONDITION_FAILED, text),
            control::Error::Full { .. } => Self::new(StatusCode::TOO_MANY_REQUESTS, text),
            control::Error::Contended(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, text),
            control::Error::Store(error) => error.into(),
        }
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = self.status();
        let body = serde_json::to_vec(&*self.0).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        match status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                drop(headers.insert(RETRY_AFTER, RETRY_SECONDS))
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response
    }
}

/// No such route.
pub(super) async fn no_route(uri: axum::http::Uri) -> Failed {
    let message = format!(
        "SC5026: there is no route {}; /api/v1/openapi.json lists them",
        uri.path()
    );
    Failed::new(StatusCode::NOT_FOUND, message)
}

/// A route that has no such method; the router adds which it has.
pub(super) async fn no_method(method: axum::http::Method, uri: axum::http::Uri) -> Failed {
    let message = format!(
        "SC5026: {} takes no {method}; the header `{ALLOW}` lists what it takes",
        uri.path()
    );
    Failed::new(StatusCode::METHOD_NOT_ALLOWED, message)
}
