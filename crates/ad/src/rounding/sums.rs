//! Sums with a rounding constant, by their shadow: the index when recording, in forward mode the dot value without its sign.
//!
//! One table for all threads, of a fixed size: a sum that is not asked for soon may be forgotten, and then counts as a sum like any other.
//! A rounding has its two halves next to each other; the table is large enough for loops that compilers have split, with a thousand sums between them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::ir::Format;

/// Number of buckets.
const BUCKETS: usize = 1 << 12;
/// Words in a bucket: with the counter it is a cache line.
const WORDS: u64 = 7;
/// A word that is among so many youngest of its bucket need not be remembered anew.
const YOUNG: u64 = 3;

/// The youngest words that belong here, in a ring: so no thread ever hides another one's words.
#[repr(align(64))]
struct Bucket {
    /// How many words have come so far.
    count: AtomicU64,
    words: [AtomicU64; WORDS as usize],
}

static SUMS: [Bucket; BUCKETS] =
    [const { Bucket { count: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; WORDS as usize] } }; BUCKETS];

impl Bucket {
    /// Fibonacci hashing: the upper bits of the product depend on all of the word.
    fn of(word: u64) -> &'static Bucket {
        &SUMS[(word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BUCKETS.trailing_zeros())) as usize]
    }

    fn word(&self, position: u64) -> &AtomicU64 {
        &self.words[(position % WORDS) as usize]
    }

    fn add(&self, word: u64) {
        let count = self.count.load(Ordering::Relaxed);
        let young = count.saturating_sub(YOUNG)..count;
        if !young.into_iter().any(|position| self.word(position).load(Ordering::Relaxed) == word) {
            self.word(self.count.fetch_add(1, Ordering::Relaxed)).store(word, Ordering::Relaxed);
        }
    }
}

/// Remembers the shadow of a sum, of four or eight bytes. Of eight, the lower four are remembered by themselves, too: programs take them as an integer.
pub(crate) fn remember(word: u64) {
    for word in [Some(word), (word > LOW && word & LOW != 0).then(|| piece(word))].into_iter().flatten() {
        Bucket::of(word).add(word);
    }
}

/// Forgets all: no shadow from before means anything any more.
pub(crate) fn forget() {
    for bucket in &SUMS {
        bucket.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

/// What stands for the lower half of a word in the table, and is the shadow of no number: a word of ones where no index and no dot value has them.
fn piece(word: u64) -> u64 {
    !(word & LOW)
}

/// Whether this is the shadow of a sum.
pub(crate) fn contains(word: u64) -> bool {
    word != 0 && Bucket::of(word).words.iter().any(|other| other.load(Ordering::Relaxed) == word)
}

/// Whether there is no activity in a word of shadow but that of sums: of one, or of two with four bytes each. Any number can have the dot value of a sum: `may_be`
/// says for a format, 0 or 32 bits to be left out below, whether there may be a sum. An index is that of one variable.
pub(crate) fn only(word: u64, may_be: impl Fn(Format, u32) -> bool) -> bool {
    let is_sum = |shift: u32| {
        let half = word >> shift & LOW;
        half == 0 || contains(half) && may_be(Format::Binary32, shift) || contains(piece(half))
    };
    contains(word) && may_be(Format::Binary64, 0) || [0, 32].into_iter().all(is_sum)
}

const LOW: u64 = 0xffff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_found_whole_and_by_their_lower_half() {
        let only = |word| only(word, |_, _| true);
        let (wide, narrow) = (0x8040_1234_5678_9abc, 0x4200_1234);
        assert!(!contains(wide) && !contains(0) && !only(wide));
        remember(wide);
        remember(narrow);
        assert!(contains(wide) && !contains(wide & LOW) && !contains(wide >> 32) && !contains(wide + 1));
        assert!(only(wide & LOW) && !only(wide & !LOW));
        assert!(only(0) && only(wide) && only(narrow | narrow << 32) && only(narrow << 32));
        assert!(!only(narrow | (narrow + 1) << 32) && !contains(0));
        let small = |word| super::only(word, |_, _| false);
        assert!(small(0) && !small(wide) && !small(narrow) && small(wide & LOW));
    }

    #[test]
    fn a_thousand_sums_are_remembered_whatever_comes_between_them() {
        let word = |k: u64| 0x8040_0000_0010_0000 + k;
        for start in (0..20_000).step_by(1000) {
            for k in start..start + 1000 {
                remember(word(k));
                remember(1.0f64.to_bits());
            }
            assert!((start..start + 1000).all(|k| contains(word(k))), "{start}");
        }
        assert!(!contains(word(0)));
    }
}
