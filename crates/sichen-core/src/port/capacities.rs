//! Named capacities: what is held of them, and who waits.

use super::{Answer, ApplyCapacity, CapacityDeleted, CapacityVerdict, Op, Page};
use crate::model::{Hold, Standing, Waiter};
use crate::name::Name;

/// Named capacities: what is held of them, and who waits. A part of [`Store`](super::Store).
pub trait CapacityStore: Send + Sync + 'static {
    /// Creates a capacity or changes it, if `expected` is its version. What is held stays held.
    fn apply_capacity(&self, op: Op, apply: ApplyCapacity) -> Answer<'_, CapacityVerdict>;
    /// Deletes a capacity that nothing uses any more.
    fn delete_capacity(&self, op: Op, name: Name) -> Answer<'_, CapacityDeleted>;
    /// How these capacities stand, by name; those that do not exist are left out.
    fn get_capacities(&self, names: Vec<Name>) -> Answer<'_, Vec<Standing>>;
    /// How all capacities stand, by name.
    fn list_capacities(&self, page: Page<Name>) -> Answer<'_, Vec<Standing>>;
    /// What is held of a capacity, oldest first, at most `limit`.
    fn list_holds(&self, capacity: Name, limit: u32) -> Answer<'_, Vec<Hold>>;
    /// Open runs that use a capacity and have ready shards, by run, at most `limit`.
    fn list_waiters(&self, capacity: Name, limit: u32) -> Answer<'_, Vec<Waiter>>;
}
