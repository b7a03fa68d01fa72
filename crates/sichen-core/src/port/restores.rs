//! Restores: a store that went back, and what people decide about it.

use super::{Answer, Op};
use crate::restore;
use crate::restore::{Decided, Restore};

/// Restores: a store that went back, and what people decide about it. A part of [`Store`](super::Store).
pub trait RestoreStore: Send + Sync + 'static {
    /// The restore that is not decided yet, if there is one; see [`crate::restore`].
    fn get_restore(&self) -> Answer<'_, Option<Restore>>;
    /// Notes that the store went back: raises its epoch above its own and `known`, leaves numbers out,
    /// takes all duties away, and lets nobody claim one until [`Subject::Rest`](crate::restore::Subject)
    /// is decided.
    fn begin_restore(&self, op: Op, known: u32) -> Answer<'_, Restore>;
    /// Records a decision and carries it out.
    fn decide_restore(&self, op: Op, decided: Decided) -> Answer<'_, restore::Verdict>;
}
