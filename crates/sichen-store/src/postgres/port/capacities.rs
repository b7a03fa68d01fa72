//! Named capacities: what is held of them, and who waits.

use sichen_core::model::{Hold, Standing, Waiter};
use sichen_core::name::Name;
use sichen_core::port::{
    Answer, ApplyCapacity, CapacityDeleted, CapacityStore, CapacityVerdict, Op, Page,
};

use super::super::{PostgresStore, capacities, kept, sql};

impl CapacityStore for PostgresStore {
    fn apply_capacity(&self, op: Op, apply: ApplyCapacity) -> Answer<'_, CapacityVerdict> {
        write!(self, Some(op), [apply], |tx| {
            tx.take_turn(kept::Turn::Capacity, apply.name.as_str())
                .await?;
            let names = vec![apply.name.to_string()];
            tx.all(sql::LOCK_CAPACITIES, [names], |_| Ok(())).await?;
            tx.tell_time().await?;
            capacities::apply(tx, apply).await
        })
    }
    fn delete_capacity(&self, op: Op, name: Name) -> Answer<'_, CapacityDeleted> {
        write!(self, Some(op), [name], |tx| {
            tx.all(sql::LOCK_CAPACITY, [name.as_str()], |_| Ok(()))
                .await?;
            tx.tell_time().await?;
            capacities::delete(tx, &name).await
        })
    }
    fn get_capacities(&self, names: Vec<Name>) -> Answer<'_, Vec<Standing>> {
        bounded!(names);
        read!(self, [names], |read| capacities::get(read, &names).await)
    }
    fn list_capacities(&self, page: Page<Name>) -> Answer<'_, Vec<Standing>> {
        read!(self, [page], |read| capacities::list(read, &page).await)
    }
    fn list_holds(&self, capacity: Name, limit: u32) -> Answer<'_, Vec<Hold>> {
        read!(self, [capacity], |read| capacities::holds(
            read, &capacity, limit
        )
        .await)
    }
    fn list_waiters(&self, capacity: Name, limit: u32) -> Answer<'_, Vec<Waiter>> {
        read!(self, [capacity], |read| capacities::waiters(
            read, &capacity, limit
        )
        .await)
    }
}
