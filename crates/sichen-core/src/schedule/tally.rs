//! The planned seconds of one UTC day as bits: how several schedules are counted together.
//!
//! Marking costs the same whether a schedule fires once a minute or each second of it, so a year of
//! seconds is counted in milliseconds.
//!
//! # Not here
//! Which seconds those are (`super::rule`).

const DAY: i64 = 86_400;

/// One UTC day.
pub(super) struct Tally {
    start: i64,
    words: [u64; (DAY / 64) as usize],
}

impl Tally {
    /// The empty day that holds a second.
    pub(super) fn of_day_with(second: i64) -> Tally {
        Tally {
            start: second - second.rem_euclid(DAY),
            words: [0; (DAY / 64) as usize],
        }
    }

    pub(super) fn end(&self) -> i64 {
        self.start + DAY
    }

    /// Marks a second of the day.
    pub(super) fn set(&mut self, second: i64) {
        self.mark(second, 1);
    }

    /// Marks the seconds `from + n` for each bit `n` of `mask`; all of them lie within the day.
    pub(super) fn mark(&mut self, from: i64, mask: u64) {
        let (mut at, mut mask) = (from - self.start, mask);
        if at < 0 {
            mask = mask
                .checked_shr(at.unsigned_abs().min(64) as u32)
                .unwrap_or(0);
            at = 0;
        }
        let (word, bit) = ((at / 64) as usize, (at % 64) as u32);
        if let Some(low) = self.words.get_mut(word) {
            *low |= mask << bit;
        }
        if let (Some(high), true) = (self.words.get_mut(word + 1), bit > 0) {
            *high |= mask >> (64 - bit);
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.words
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum()
    }
}
