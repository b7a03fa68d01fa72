//! Reading job documents: YAML or JSON, one or more in a text, every problem with its place.
//!
//! # Not here
//! What a document means (`sichen_core::document`).

use sichen_core::document::{Document, check};

/// A document without problems.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The document.
    pub document: Document,
    /// The line at which it begins, from 1.
    pub line: u64,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1, if it is known.
    pub line: Option<u64>,
    /// Column in characters, from 1, if it is known.
    pub column: Option<u64>,
    /// Where in the document; empty for the text as a whole.
    pub path: String,
    /// What is wrong and what to write instead, with its code.
    pub message: String,
}

/// Reads bytes that should be UTF-8.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(bytes: &[u8]) -> Result<Vec<Read>, Vec<Problem>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => read(text),
        Err(error) => Err(vec![Problem {
            line: None,
            column: None,
            path: String::new(),
            message: format!("SC1030: the text is not UTF-8: {error}"),
        }]),
    }
}

/// Reads all documents of `text`.
///
/// # Errors
/// Every problem of every document.
pub fn read(text: &str) -> Result<Vec<Read>, Vec<Problem>> {
    let documents: Vec<serde_saphyr::Spanned<Document>> = serde_saphyr::from_multiple(text)
        .map_err(|error| {
            vec![Problem {
                line: error.location().map(|l| l.line()),
                column: error.location().map(|l| l.column()),
                path: String::new(),
                message: format!("SC1030: {}", error.without_snippet()),
            }]
        })?;
    let mut problems = Vec::new();
    for document in &documents {
        for problem in check(&document.value) {
            problems.push(Problem {
                line: None,
                column: None,
                path: problem.path,
                message: problem.message,
            });
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let read = documents.into_iter().map(|spanned| Read {
        line: spanned.referenced.line(),
        document: spanned.value,
    });
    Ok(read.collect())
}
