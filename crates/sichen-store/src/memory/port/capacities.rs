//! Named capacities: what is held of them, and who waits.

use sichen_core::model::{Hold, Standing, Waiter};
use sichen_core::name::Name;
use sichen_core::port::{
    Answer, ApplyCapacity, CapacityDeleted, CapacityStore, CapacityVerdict, Op, Page,
};

use super::super::{MemoryStore, capacities};

impl CapacityStore for MemoryStore {
    fn apply_capacity(&self, op: Op, apply: ApplyCapacity) -> Answer<'_, CapacityVerdict> {
        self.write(op, move |tx| capacities::apply(tx, apply))
    }
    fn delete_capacity(&self, op: Op, name: Name) -> Answer<'_, CapacityDeleted> {
        self.write(op, move |tx| capacities::delete(tx, name))
    }
    fn get_capacities(&self, names: Vec<Name>) -> Answer<'_, Vec<Standing>> {
        bounded!(names);
        self.read(move |s, now| capacities::get(s, &names, now))
    }
    fn list_capacities(&self, page: Page<Name>) -> Answer<'_, Vec<Standing>> {
        self.read(move |s, now| capacities::list(s, &page, now))
    }
    fn list_holds(&self, capacity: Name, limit: u32) -> Answer<'_, Vec<Hold>> {
        self.read(move |s, now| capacities::holds(s, &capacity, now, limit as usize))
    }
    fn list_waiters(&self, capacity: Name, limit: u32) -> Answer<'_, Vec<Waiter>> {
        self.read(move |s, now| capacities::waiters(s, &capacity, now, limit as usize))
    }
}
