//! Names as people type them: `job` or `namespace/job`, runs by key or number.
//!
//! # Invariants
//! - A name means exactly one job: a prefix is never completed, near names are only listed.
//!
//! # Not here
//! What a name may consist of (`sichen_core::name`).

use sichen_core::name::JobName;

use crate::failure::Failure;

/// The most names offered when one is not known.
const MAX_NEAR: usize = 5;

/// Reads `job` or `namespace/job`.
pub fn job(text: &str) -> Result<JobName, Failure> {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    JobName::new(namespace, name)
        .map_err(|error| Failure::usage(format!("SC1001: the job name {text:?} {error}")))
}

/// How a job is shown.
pub fn shown(namespace: &str, name: &str) -> String {
    if namespace == "default" {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

/// Those of `known` that may have been meant by `wanted`, the nearest first.
pub fn near<'a>(wanted: &str, known: &'a [String]) -> Vec<&'a str> {
    let mut ranked: Vec<(usize, &str)> = known
        .iter()
        .filter_map(|name| {
            let distance = distance(wanted, name);
            let close = distance <= 1 + wanted.len() / 4;
            // A letter or two are a part of nearly every name.
            let holds = |long: &str, short: &str| short.len() >= 2 && long.contains(short);
            let part = holds(name, wanted) || name.len() >= 3 && holds(wanted, name);
            (close || part).then_some((distance, &**name))
        })
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().take(MAX_NEAR).map(|r| r.1).collect()
}

/// Single-character changes from one to the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let change = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests;
