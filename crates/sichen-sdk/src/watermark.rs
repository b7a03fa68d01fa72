//! How far a shard is reliably complete when its batches are worked on in parallel.

use std::collections::BTreeMap;

/// Advances only over the contiguous prefix of finished batches.
///
/// Batches are begun in the order of their positions and may finish in any order. The mark is the
/// position of the last batch before the first one that is not finished, so a checkpoint of it
/// covers nothing that may still fail.
///
/// ```ignore
/// let mut mark = Watermark::new();
/// let first = mark.begin(100);
/// let second = mark.begin(200);
/// assert_eq!(mark.finish(second), None);
/// assert_eq!(mark.finish(first), Some(200));
/// ```
#[derive(Debug, Clone)]
pub struct Watermark<P> {
    next: u64,
    /// Begun and not yet covered by the mark: position, and whether it is finished.
    open: BTreeMap<u64, (P, bool)>,
}

/// One begun batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

impl<P> Default for Watermark<P> {
    fn default() -> Self {
        Watermark {
            next: 0,
            open: BTreeMap::new(),
        }
    }
}

impl<P> Watermark<P> {
    /// Nothing begun.
    #[must_use]
    pub fn new() -> Watermark<P> {
        Watermark::default()
    }

    /// Begins the batch that ends at `position`. The order of the calls is the order of the input.
    pub fn begin(&mut self, position: P) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.open.insert(ticket.0, (position, false));
        ticket
    }

    /// The batch is reliably complete. Returns the new mark if that moved it.
    ///
    /// Finishing a batch twice changes nothing.
    pub fn finish(&mut self, ticket: Ticket) -> Option<P> {
        self.open.get_mut(&ticket.0)?.1 = true;
        let mut mark = None;
        while let Some(first) = self.open.first_entry() {
            if !first.get().1 {
                break;
            }
            mark = Some(first.remove().0);
        }
        mark
    }

    /// Batches begun and not covered by the mark. Bound this to bound the work that a takeover
    /// repeats.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests;
