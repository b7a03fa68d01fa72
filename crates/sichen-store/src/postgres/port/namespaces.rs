//! What namespaces may have.

use sichen_core::model::{Namespace, NamespaceChange, NamespaceUse};
use sichen_core::name::Name;
use sichen_core::port::{Answer, NamespaceStore, Op, Page};

use super::super::{PostgresStore, kept, namespaces};

impl NamespaceStore for PostgresStore {
    fn set_namespace(&self, op: Op, name: Name, change: NamespaceChange) -> Answer<'_, Namespace> {
        write!(self, Some(op), [name], |tx| {
            // One turn for all: whether any has a limit is noted in one row, by a statement that sees
            // only those that were committed before it.
            tx.take_turn(kept::Turn::Namespace, "").await?;
            tx.tell_time().await?;
            namespaces::set(tx, name, &change).await
        })
    }
    fn list_namespaces(&self, page: Page<Name>) -> Answer<'_, Vec<(Namespace, NamespaceUse)>> {
        read!(self, [page], |read| namespaces::list(read, &page).await)
    }
}
