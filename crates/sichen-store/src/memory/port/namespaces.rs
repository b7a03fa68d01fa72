//! What namespaces may have.

use sichen_core::model::{Namespace, NamespaceChange, NamespaceUse};
use sichen_core::name::Name;
use sichen_core::port::{Answer, NamespaceStore, Op, Page};

use super::super::{MemoryStore, namespaces};

impl NamespaceStore for MemoryStore {
    fn set_namespace(&self, op: Op, name: Name, change: NamespaceChange) -> Answer<'_, Namespace> {
        self.write(op, move |tx| namespaces::set(tx, name, &change))
    }
    fn list_namespaces(&self, page: Page<Name>) -> Answer<'_, Vec<(Namespace, NamespaceUse)>> {
        self.read(move |s, _| namespaces::list(s, &page))
    }
}
