//! How a handler fails, and what that means for the shard.

use std::fmt;

use sichen_proto::v1;

use crate::session::MAX_ERROR_BYTES;

/// What a failure means for the shard and its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Try again, by the job's retry policy.
    Retryable,
    /// The shard fails now, whatever attempts remain.
    FatalShard,
    /// The run fails now.
    FatalRun,
}

/// A failed attempt.
///
/// Every [`std::error::Error`] becomes one by `?`: retryable, with the code `error`. (For that
/// reason it does not implement the trait itself.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerError {
    code: String,
    message: String,
    severity: Severity,
}

impl HandlerError {
    /// Worth another attempt. `code` is short and stable: retry rules and counts go by it.
    pub fn retryable(code: impl Into<String>, message: impl Into<String>) -> HandlerError {
        HandlerError {
            code: code.into(),
            message: message.into(),
            severity: Severity::Retryable,
        }
    }

    /// No attempt of this shard can succeed; others of the run may.
    pub fn fatal_shard(code: impl Into<String>, message: impl Into<String>) -> HandlerError {
        HandlerError {
            code: code.into(),
            message: message.into(),
            severity: Severity::FatalShard,
        }
    }

    /// No shard of this run can succeed.
    pub fn fatal_run(code: impl Into<String>, message: impl Into<String>) -> HandlerError {
        HandlerError {
            code: code.into(),
            message: message.into(),
            severity: Severity::FatalRun,
        }
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// What it means.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.severity
    }

    pub(crate) fn to_wire(&self) -> v1::AttemptError {
        let kind = match self.severity {
            Severity::Retryable => v1::ErrorKind::Retryable,
            Severity::FatalShard => v1::ErrorKind::FatalShard,
            Severity::FatalRun => v1::ErrorKind::FatalRun,
        };
        v1::AttemptError {
            code: cut(&self.code, 128),
            message: cut(&self.message, MAX_ERROR_BYTES),
            kind: kind.into(),
        }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl<E: std::error::Error> From<E> for HandlerError {
    fn from(error: E) -> HandlerError {
        // The whole chain: the last link often says the most.
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            message.push_str(": ");
            message.push_str(&inner.to_string());
            source = inner.source();
        }
        HandlerError::retryable("error", message)
    }
}

/// The attempt was told to stop: nothing that it does from here on counts. Return it with `?`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the attempt was told to stop")]
pub struct Stopped;

/// `text`, or its longest beginning of at most `bytes` bytes that ends on a character.
fn cut(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes.min(text.len()))].to_owned()
}
