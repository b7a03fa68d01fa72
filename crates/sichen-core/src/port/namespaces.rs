//! What namespaces may have.

use super::{Answer, Op, Page};
use crate::model::{Namespace, NamespaceChange, NamespaceUse};
use crate::name::Name;

/// What namespaces may have. A part of [`Store`](super::Store).
pub trait NamespaceStore: Send + Sync + 'static {
    /// Sets what a namespace may have; as it is then. If nothing changes, nothing is written.
    fn set_namespace(&self, op: Op, name: Name, change: NamespaceChange) -> Answer<'_, Namespace>;
    /// Namespaces of which something was set, by name; with what each has of what is limited.
    fn list_namespaces(&self, page: Page<Name>) -> Answer<'_, Vec<(Namespace, NamespaceUse)>>;
}
