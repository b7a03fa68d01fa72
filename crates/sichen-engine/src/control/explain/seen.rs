//! What of others an explanation tells to whom.
//!
//! # Not here
//! Who sees which namespace (`sichen-server`).

use sichen_core::name::Name;
use sichen_core::port::{Error, Store};

use super::Facts;

/// Whether whoever asks sees a namespace.
pub type Sees<'a> = &'a (dyn Fn(&Name) -> bool + Send + Sync);

/// Leaves holders out that are runs of namespaces which `sees` denies: how much is held is told, and not by
/// whom.
pub(super) async fn hide_holders(
    store: &dyn Store,
    facts: &mut Facts,
    sees: Sees<'_>,
) -> Result<(), Error> {
    let mut seen = Vec::with_capacity(facts.holds.len());
    for hold in std::mem::take(&mut facts.holds) {
        let holder = store.get_run(hold.key.run).await?;
        let denied = holder.is_some_and(|(run, _)| !sees(&run.job_name.namespace));
        if !denied {
            seen.push(hold);
        }
    }
    facts.holds = seen;
    Ok(())
}
