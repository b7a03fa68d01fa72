//! To whom a run is broadcast: the workers that are there when it is made.
//!
//! A run is cut once, like any other: a worker that comes later has no shard of it, and the shard of one that
//! has gone waits for it, under the same name, until the run's time is over.
//!
//! # Not here
//! That a shard goes to its worker alone (`sichen_core::place`).

use std::borrow::Cow;
use std::collections::BTreeSet;

use sichen_core::document::{Document, PROCESS_HANDLER, RunSpec};
use sichen_core::lease::has_expired;
use sichen_core::name::Name;
use sichen_core::place::MAX_BROADCAST;
use sichen_core::port::{Error, Store};

/// What stands for the worker where there is none: no worker can have this name.
const NOBODY: &str = "(nobody)";

/// `document` as a run that is made now is to have it; `None` if it is broadcast and nobody is there.
pub(crate) async fn addressed<'a>(
    store: &dyn Store,
    document: &'a Document,
) -> Result<Option<Cow<'a, Document>>, Error> {
    if !document.is_broadcast() {
        return Ok(Some(Cow::Borrowed(document)));
    }
    let workers = workers(store, document).await?;
    Ok((!workers.is_empty()).then(|| Cow::Owned(document.addressed(workers))))
}

/// The same for a run that is made in any case: one for nobody ends when its time is over.
pub(crate) async fn owed<'a>(
    store: &dyn Store,
    document: &'a Document,
) -> Result<Cow<'a, Document>, Error> {
    let found = addressed(store, document).await?;
    Ok(found.unwrap_or_else(|| Cow::Owned(document.addressed(vec![NOBODY.to_owned()]))))
}

/// The workers of the job's pool that can take a shard of it, by name.
async fn workers(store: &dyn Store, document: &Document) -> Result<Vec<String>, Error> {
    let spec = &document.spec;
    let Ok(pool) = Name::new(&spec.pool) else {
        return Ok(Vec::new());
    };
    let handler = match &spec.run {
        RunSpec::Handler(name) => name,
        RunSpec::Process(_) => PROCESS_HANDLER,
    };
    let terms = document.placement();
    let now = store.now().await?;
    let sessions = store.list_sessions(Some(pool)).await?;
    let fit = sessions
        .into_iter()
        .map(|(session, _)| session)
        .filter(|s| {
            let there = !s.draining && !has_expired(s.expires_at, now);
            there && s.offer.suits(&s.handlers, handler, terms.as_deref())
        });
    let names: BTreeSet<String> = fit.map(|s| s.worker.name.to_string()).collect();
    Ok(names.into_iter().take(MAX_BROADCAST).collect())
}
