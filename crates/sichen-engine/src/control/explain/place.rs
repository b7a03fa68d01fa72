//! What keeps a shard from the workers that offer its handler, in words: labels and resources.
//!
//! # Not here
//! Which of them is the reason (`sichen_core::dispatch::why`).

use std::collections::BTreeSet;

use sichen_core::dispatch::why::{Left, Worker};
use sichen_core::model::Session;
use sichen_core::name::{Name, nearest};
use sichen_core::place::{Resources, Terms, quantity};
use sichen_core::port::{Error, MAX_BATCH, Store};

use crate::dispatch::terms;
use crate::documents::Documents;

/// Workers of which an explanation reads what they hold; beyond them it goes by slots alone.
const MAX_READ: usize = 200;
/// Labels or workers that it names.
const NAMED: usize = 8;

/// What the shards that each session holds take of its resources; nothing if `terms` ask for none.
pub(super) async fn uses(
    store: &dyn Store,
    documents: &Documents,
    terms_of_run: Option<&Terms>,
    sessions: &[(Session, u32)],
) -> Result<Vec<Resources>, Error> {
    let mut uses = vec![Resources::default(); sessions.len()];
    if terms_of_run.is_none_or(|terms| terms.needs.is_empty()) {
        return Ok(uses);
    }
    let has_some =
        |(session, held): &(Session, u32)| *held > 0 && !session.offer.resources.is_empty();
    let read = sessions
        .iter()
        .enumerate()
        .filter(|(_, session)| has_some(session));
    for (n, (session, _)) in read.take(MAX_READ) {
        let held = store.list_leases(session.id).await?;
        for part in held.chunks(MAX_BATCH) {
            let keys = part.iter().map(|shard| shard.key).collect();
            for facts in store.get_shards(keys).await? {
                let (job, revision) = (facts.run.job, facts.run.revision);
                let document = documents.find(store, job, revision).await?;
                if let Some(terms) = document.and_then(|d| terms(&d, facts.shard.key)) {
                    uses[n].add(&terms.needs);
                }
            }
        }
    }
    Ok(uses)
}

/// No worker has the labels: which, and what there is instead.
pub(super) fn no_label(left: &Left<'_>, terms: &Terms, pool: &Name) -> (String, String) {
    let able = &left.able;
    let wanted: Vec<String> = terms.require.iter().map(ToString::to_string).collect();
    let ends = format!("a worker of the pool with {}", wanted.join(" and "));
    let nobodys = terms
        .require
        .iter()
        .find(|wanted| !able.iter().any(|worker| wanted.is_in(&worker.offer.labels)));
    let Some(missing) = nobodys else {
        let all = wanted.join(" and ");
        return (
            format!("no one worker of the pool {pool} has all of {all}"),
            ends,
        );
    };
    let values = able
        .iter()
        .filter_map(|w| w.offer.labels.get(&missing.label));
    let values: BTreeSet<&str> = values.map(String::as_str).collect();
    let instead = if values.is_empty() {
        let names = able.iter().flat_map(|w| w.offer.labels.keys());
        let names: BTreeSet<&str> = names.map(String::as_str).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let meant = nearest(&missing.label, &names);
        let meant = meant.map_or(String::new(), |name| format!("did you mean `{name}`? "));
        match names.is_empty() {
            true => "none of them has a label; set `labels` in a worker's configuration".to_owned(),
            false => format!("{meant}their labels: {}", cut(&names)),
        }
    } else {
        let values: Vec<&str> = values.into_iter().collect();
        format!("there is {}: {}", missing.label, cut(&values))
    };
    (
        format!("no worker of the pool {pool} has the label {missing}; {instead}"),
        ends,
    )
}

/// None has so much of a resource at all.
pub(super) fn too_large(left: &Left<'_>, terms: &Terms) -> (String, String) {
    let most = |name: &str| left.labelled.iter().map(|w| w.offer.total().of(name)).max();
    short(
        terms,
        most,
        "the most that a worker has is",
        &left.labelled,
        |w| w.offer.total().clone(),
    )
}

/// None of those with a slot has so much left.
pub(super) fn resources(left: &Left<'_>, terms: &Terms) -> (String, String) {
    let rest = |w: &Worker| {
        let mut rest = w.offer.total().clone();
        rest.take(&w.used);
        rest
    };
    let most = |name: &str| left.with_slot.iter().map(|w| rest(w).of(name)).max();
    short(
        terms,
        most,
        "the most that is free on one is",
        &left.with_slot,
        rest,
    )
}

fn short(
    terms: &Terms,
    most: impl Fn(&str) -> Option<u64>,
    there_is: &str,
    workers: &[&Worker],
    has: impl Fn(&Worker) -> Resources,
) -> (String, String) {
    let lacking = terms
        .needs
        .iter()
        .find(|(name, n)| most(name).unwrap_or(0) < *n);
    match lacking {
        Some((name, n)) => {
            let (needs, most) = (quantity::text(name, n), most(name).unwrap_or(0));
            let most = match most {
                0 => "none".to_owned(),
                most => quantity::text(name, most),
            };
            (
                format!("an attempt takes {name} {needs}; {there_is} {most}"),
                format!("a worker with {name} {needs} free"),
            )
        }
        None => {
            let first = workers.iter().take(NAMED).map(|w| {
                let has = has(w);
                match has.is_empty() {
                    true => "nothing".to_owned(),
                    false => has.to_string(),
                }
            });
            let first: Vec<String> = first.collect();
            (
                format!(
                    "an attempt takes {} together; on its workers there is {}",
                    terms.needs,
                    first.join("; ")
                ),
                format!("a worker with {} free", terms.needs),
            )
        }
    }
}

fn cut(names: &[&str]) -> String {
    let first = names.iter().take(NAMED).copied().collect::<Vec<_>>();
    match names.len().saturating_sub(first.len()) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
