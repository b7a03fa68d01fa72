//! What namespaces may have.

use super::{Answer, Op, Page};
use crate::model::{Namespace, NamespaceChange};
use crate::name::Name;

/// What namespaces may have. A part of [`Store`](super::Store).
pub trait NamespaceStore: Send + Sync + 'static {
    /// Sets what a namespace may have; as it is then. If nothing changes, nothing is written.
    fn set_namespace(&self, op: Op, name: Name, change: NamespaceChange) -> Answer<'_, Namespace>;
    /// Namespaces of which something was set, by name; with how many of its shards run, if that is
    /// limited.
    fn list_namespaces(&self, page: Page<Name>) -> Answer<'_, Vec<(Namespace, Option<u32>)>>;
}
