//! Claims about the watermark.

use proptest::prelude::*;

use super::*;

proptest! {
    /// Begins and finishes in any mixture: the mark is always the end of the longest prefix of
    /// finished batches, never beyond a gap, and reaches the end when all are finished.
    #[test]
    fn the_mark_never_passes_a_gap(order in proptest::collection::vec(any::<prop::sample::Index>(), 0..60),
                                   window in 1..8usize) {
        let total = order.len();
        let mut mark = Watermark::new();
        let (mut tickets, mut pending, mut finished, mut reached) = (Vec::new(), Vec::new(), vec![false; total], 0);
        for pick in &order {
            while pending.len() < window && tickets.len() < total {
                pending.push(tickets.len());
                tickets.push(mark.begin(tickets.len() + 1));
            }
            let batch = pending.swap_remove(pick.index(pending.len()));
            finished[batch] = true;
            let moved = mark.finish(tickets[batch]);
            let prefix = finished.iter().take_while(|done| **done).count();
            prop_assert_eq!(moved, (prefix > reached).then_some(prefix));
            prop_assert_eq!(mark.finish(tickets[batch]), None);
            reached = prefix;
        }
        prop_assert_eq!(reached, total);
        prop_assert_eq!(mark.open(), 0);
    }
}
