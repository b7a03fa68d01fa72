//! What is said of a text that is no YAML: the parser's finding, and the form that was meant.
//!
//! # Invariants
//! - It guesses words only, never a meaning: nothing of such a text is used.
//!
//! # Not here
//! Texts that are YAML and no document ([`super::shape`]).

use super::{Problem, tree};

/// What the parser could not read in `text`.
pub(super) fn problem(text: &str, error: &serde_saphyr::Error) -> Problem {
    use serde_saphyr::Error;
    let place = error.location().map(|l| (l.line(), l.column()));
    let place = place.filter(|(line, _)| *line > 0);
    let found = error.to_string();
    let found = found.lines().next().unwrap_or(&found).to_owned();
    let limit = matches!(error.without_snippet(), Error::Budget { .. });
    let limit = limit || found.starts_with("alias") && found.contains("exceeded");
    let (line, column) = place.unzip();
    let found = match place {
        // The place stands before the message already.
        Some((line, column)) => found.replace(&format!(" at line {line}, column {column}"), ""),
        None => found,
    };
    let found = shortened(&found);
    let message = if limit {
        format!(
            "SC1035: the text is too much to read: {found}; the limits are {} levels, {} values and \
             {} documents",
            tree::MAX_DEPTH,
            tree::MAX_NODES,
            tree::MAX_DOCUMENTS,
        )
    } else {
        let meant = line.and_then(|line| meant(text, &found, line));
        let meant = meant.map_or(String::new(), |meant| format!("; {meant}"));
        format!("SC1030: this can't be read as YAML or JSON: {found}{meant}")
    };
    Problem {
        line,
        column,
        path: String::new(),
        message,
    }
}

/// What to write instead, if that can be told from what was found in the `line`.
fn meant(text: &str, found: &str, line: u64) -> Option<String> {
    let has = |parts: &[&str]| parts.iter().any(|part| found.contains(part));
    if has(&["tab"]) {
        return Some("write spaces in place of the tab: YAML is indented by spaces alone".into());
    }
    if has(&["document start"]) && text.trim_start().starts_with(['{', '[']) {
        let text = "nothing may follow the document's closing bracket; a line `---` begins another";
        return Some(text.into());
    }
    if has(&["expected key", "'-' indicator", "document start"]) {
        return indentation(text, line);
    }
    if has(&["mapping values are not allowed"]) {
        return Some(second_value(text, line));
    }
    if has(&["alias", "anchor", "unexpected character", "unsupported tag"]) {
        return Some("quote a text that begins with a sign: cron: \"*/5 * * * *\"".to_owned());
    }
    if has(&["unclosed quote"]) {
        return Some("the quote that is opened there is never closed".into());
    }
    if has(&["bracket", "',' or"]) {
        return Some("each `{` and `[` needs its own `}` and `]`, and commas between".into());
    }
    None
}

/// Lines with something in them, up to and with `last`: number, indentation, what they hold.
fn held(text: &str, last: u64) -> Vec<(u64, usize, &str)> {
    let lines = (1..=last).zip(text.lines());
    let lines = lines.map(|(n, line)| (n, line.len() - line.trim_start().len(), line.trim()));
    lines
        .filter(|(_, _, line)| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

/// How far the `line` may be indented, if it is indented otherwise.
fn indentation(text: &str, line: u64) -> Option<String> {
    let mut lines = held(text, line);
    let (number, indent, _) = lines.pop().filter(|(number, ..)| *number == line)?;
    // Blocks that are open above it: where each begins, and in which line.
    let mut open: Vec<(usize, u64)> = Vec::new();
    for (n, at, held) in lines {
        if held.starts_with("---") {
            open.clear();
            continue;
        }
        open.retain(|(other, _)| *other <= at);
        if open.last().is_none_or(|(other, _)| *other < at) {
            open.push((at, n));
        }
        let mut at = at;
        let mut rest = held;
        // A field right behind a dash begins a block of its own.
        for _ in 0..tree::MAX_DEPTH {
            let Some(inner) = rest.strip_prefix("- ") else {
                break;
            };
            at += rest.len() - inner.trim_start().len();
            rest = inner.trim_start();
            if rest.contains(": ") || rest.ends_with(':') {
                open.push((at, n));
            }
        }
    }
    if open.is_empty() {
        return None;
    }
    let known: Vec<String> = open
        .iter()
        .map(|(at, n)| format!("{at} (as line {n})"))
        .collect();
    let fits = open.iter().any(|(at, _)| *at == indent);
    Some(if fits {
        format!(
            "line {number} does not go on what stands above it; entries of a list all begin with \
             `- `, fields never do"
        )
    } else {
        format!(
            "line {number} is indented by {}, which fits no block above it; those open there are \
             indented by {}",
            spaces(indent),
            known.join(", ")
        )
    })
}

fn spaces(n: usize) -> String {
    match n {
        1 => "1 space".to_owned(),
        n => format!("{n} spaces"),
    }
}

/// Why a `: ` stands where no field can begin.
fn second_value(text: &str, line: u64) -> String {
    let mut lines = held(text, line);
    let this = lines.pop();
    match (this, lines.pop()) {
        (Some((_, indent, _)), Some((n, above, held))) if indent > above => {
            if held.ends_with(':') {
                "quote a text that has `: ` in it: title: \"x: y\"".to_owned()
            } else if held.contains(": ") {
                format!(
                    "line {n} has its value already: indent this line by {} as that one, or end \
                     that one with its `:`",
                    spaces(above)
                )
            } else {
                format!("line {n} has no `:` at its end")
            }
        }
        (Some(_) | None, _) => "quote a text that has `: ` in it: title: \"x: y\"".to_owned(),
    }
}

/// Foreign text for a message, not too long.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
