//! What namespaces may have: shown and set.

use sichen_core::dispatch::fair::MAX_WEIGHT;
use sichen_core::document::Problem;
use sichen_core::model::{MAX_QUEUED_RUNS, Namespace, NamespaceChange, NamespaceUse};
use sichen_core::name::Name;
use sichen_core::port::Page;

use super::{Control, Error};

impl Control {
    /// Namespaces of which something was set, with what they have of what is limited.
    ///
    /// # Errors
    /// The store's.
    pub async fn namespaces(
        &self,
        page: Page<Name>,
    ) -> Result<Vec<(Namespace, NamespaceUse)>, Error> {
        Ok(self.context.store.list_namespaces(page).await?)
    }

    /// What a namespace may have, set or not.
    ///
    /// # Errors
    /// The store's.
    pub async fn namespace(&self, name: &Name) -> Result<(Namespace, NamespaceUse), Error> {
        let mut after = None;
        loop {
            let limit = sichen_core::port::MAX_PAGE;
            let page = self.namespaces(Page { after, limit }).await?;
            let full = page.len() == limit as usize;
            after = page.last().map(|(last, _)| last.name.clone());
            let past = after.as_ref().is_some_and(|last| last >= name);
            if let Some(found) = page.into_iter().find(|(n, _)| n.name == *name) {
                return Ok(found);
            }
            if past || !full {
                return Ok((Namespace::plain(name.clone()), NamespaceUse::default()));
            }
        }
    }

    /// Sets what a namespace may have.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a weight or a limit out of range; the store's.
    pub async fn set_namespace(
        &self,
        actor: &str,
        name: &Name,
        change: NamespaceChange,
    ) -> Result<Namespace, Error> {
        if change
            .weight
            .is_some_and(|w| !(1..=MAX_WEIGHT).contains(&w))
        {
            return Err(Error::Invalid(vec![Problem {
                path: "weight".to_owned(),
                message: format!("a weight is a number from 1 to {MAX_WEIGHT}"),
            }]));
        }
        let most = change.max_queued.flatten();
        if most.is_some_and(|most| most > MAX_QUEUED_RUNS) {
            return Err(Error::Invalid(vec![Problem {
                path: "max_queued".to_owned(),
                message: format!(
                    "the limit of queued runs is a number from 0 to {MAX_QUEUED_RUNS}, or none"
                ),
            }]));
        }
        let (op, store) = (self.context.op(actor), &self.context.store);
        Ok(store.set_namespace(op, name.clone(), change).await?)
    }
}
