//! Whether live workers offer what jobs need, said before somebody waits for it in vain.
//!
//! # Invariants
//! - It warns and forbids nothing: the worker may be started later.
//!
//! # Not here
//! Why a run waits (`sichen explain`, which the server answers).

use sichen_core::document::{Document, PROCESS_HANDLER, RunSpec};
use sichen_core::place::{Resources, Wanted, quantity};
use sichen_server::rest::wire::{Worker, Workers};

use crate::client::{Client, Query};
use crate::names;
use crate::output;

/// Reasons for which a run waits until somebody does something.
pub const BLOCKED: [&str; 8] = [
    "restore",
    "no_worker",
    "no_handler",
    "no_label",
    "too_large",
    "no_owner",
    "absent",
    "draining",
];

/// Remarks what no live worker offers of what `documents` need. Nothing is said if that can't be
/// found out: it is beside the answer.
pub async fn warn(client: &Client, documents: &[Document]) {
    let workers = client.get::<Workers>(&["workers"], Query::new()).await;
    let Ok(workers) = workers else { return };
    for document in documents {
        if let Some(text) = missing(document, &workers.items) {
            let name = &document.metadata;
            let name = names::shown(&name.namespace, &name.name);
            output::remark(&format!("warning: job {name}: {text}"));
        }
    }
}

/// What a job needs and no worker that takes work offers, with what to do.
pub fn missing(document: &Document, workers: &[Worker]) -> Option<String> {
    let pool = &document.spec.pool;
    let serving = |w: &&Worker| w.pool == *pool && !w.draining;
    let serving: Vec<&Worker> = workers.iter().filter(serving).collect();
    if serving.is_empty() {
        let mut pools: Vec<&str> = workers.iter().map(|w| w.pool.as_str()).collect();
        pools.sort_unstable();
        pools.dedup();
        let others = match pools.is_empty() {
            true => String::new(),
            false => format!(" (there are workers in: {})", pools.join(", ")),
        };
        return Some(format!(
            "no worker serves its pool {pool}{others}, so nothing of it runs until \
             `sichen worker --pool {pool} --config FILE` is started"
        ));
    }
    let handler = match &document.spec.run {
        RunSpec::Handler(name) => name.as_str(),
        RunSpec::Process(_) => PROCESS_HANDLER,
    };
    let source = document.data_source().map(|s| format!("data-source/{s}"));
    let needs = std::iter::once(handler).chain(source.as_deref());
    let offered = |need: &str| serving.iter().any(|w| w.handlers.iter().any(|h| h == need));
    match needs.into_iter().find(|need| !offered(need)) {
        Some(missing) => {
            let program = match &document.spec.run {
                RunSpec::Process(process) => process.argv.first().map(String::as_str),
                RunSpec::Handler(_) => None,
            };
            Some(not_offered(missing, program, pool, &serving))
        }
        None => not_placed(document, handler, &serving),
    }
}

/// What a job's placement asks for and no worker that offers its handler has.
fn not_placed(document: &Document, handler: &str, serving: &[&Worker]) -> Option<String> {
    let terms = document.placement()?;
    let able = serving
        .iter()
        .filter(|w| w.handlers.iter().any(|h| h == handler));
    let able: Vec<&&Worker> = able.collect();
    let nobody = |wanted: &&Wanted| !able.iter().any(|w| wanted.is_in(&w.labels));
    let until = "so nothing of it runs until one does";
    if let Some(wanted) = terms.require.iter().find(nobody) {
        let mut labels: Vec<String> = able.iter().flat_map(|w| w.labels.keys().cloned()).collect();
        labels.sort_unstable();
        labels.dedup();
        let near = match names::near(&wanted.label, &labels).first() {
            Some(near) if **near != wanted.label => format!("; did you mean the label {near}?"),
            _ => String::new(),
        };
        return Some(format!(
            "no worker that offers {handler} has the label {wanted}, {until}{near}"
        ));
    }
    let total = |w: &Worker| {
        let amounts = w.resources.iter().map(|(name, text)| {
            let amount = quantity::parse(text).unwrap_or(0);
            (name.clone(), amount)
        });
        Resources::new(amounts).with_kinds()
    };
    let has_all =
        |w: &&&Worker| terms.is_met_by(&w.labels) && total(w).lacks(&terms.needs).is_none();
    if able.iter().any(has_all) {
        return None;
    }
    let needs = &terms.needs;
    Some(match needs.is_empty() {
        true => {
            let wanted: Vec<String> = terms.require.iter().map(ToString::to_string).collect();
            format!(
                "no one worker that offers {handler} has all of {}, {until}",
                wanted.join(" and ")
            )
        }
        false => format!(
            "no worker that it may run on has so much: {needs}, {until}; workers list theirs under \
             `resources` in their configuration"
        ),
    })
}

fn not_offered(missing: &str, program: Option<&str>, pool: &str, serving: &[&Worker]) -> String {
    let mut offered: Vec<String> = serving.iter().flat_map(|w| w.handlers.clone()).collect();
    offered.sort_unstable();
    offered.dedup();
    let near = match names::near(missing, &offered).first() {
        _ if missing == PROCESS_HANDLER => String::new(),
        Some(near) => format!("did you mean {near}? "),
        None => String::new(),
    };
    let (what, how) = match missing.strip_prefix("data-source/") {
        Some(source) => (
            format!("the data source {source}"),
            "name it under `data_sources` in a worker's configuration",
        ),
        None if missing == PROCESS_HANDLER => (
            format!(
                "to run programs that jobs name themselves (`run: process`), here {}",
                program.unwrap_or("one")
            ),
            "list it under `allow_programs` in a worker's configuration",
        ),
        None => (
            format!("the handler {missing}"),
            "start a worker that offers it, such as by `processes` in its configuration",
        ),
    };
    format!(
        "no worker of the pool {pool} offers {what}, so nothing of it runs until one does; \
         {near}on offer: {}; {how}",
        offered.join(", ")
    )
}

#[cfg(test)]
#[path = "offers_tests.rs"]
mod tests;
