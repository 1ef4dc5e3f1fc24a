//! Sets of bytes of the shadow register file.

use crate::shadow::{FILE_BYTES, Range};

const WORDS: usize = FILE_BYTES as usize / 64;

/// A set of bytes of the shadow register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterSet([u64; WORDS]);

impl RegisterSet {
    /// No byte.
    pub const NONE: RegisterSet = RegisterSet([0; WORDS]);
    /// All bytes.
    pub const ALL: RegisterSet = RegisterSet([u64::MAX; WORDS]);

    /// The words that a range touches, with the bits that belong to it.
    fn words(range: Range) -> impl Iterator<Item = (usize, u64)> {
        let (start, end) = (usize::from(range.offset), usize::from(range.offset + range.bytes));
        (start / 64..end.div_ceil(64)).map(move |word| {
            let (from, to) = (start.max(word * 64) - word * 64, end.min(word * 64 + 64) - word * 64);
            let mask = if to - from == 64 { u64::MAX } else { ((1 << (to - from)) - 1) << from };
            (word, mask)
        })
    }

    /// Adds a range.
    pub fn insert(&mut self, range: Range) {
        for (word, mask) in Self::words(range) {
            self.0[word] |= mask;
        }
    }

    /// Removes a range.
    pub fn remove(&mut self, range: Range) {
        for (word, mask) in Self::words(range) {
            self.0[word] &= !mask;
        }
    }

    /// Whether all bytes of a range are in the set.
    pub fn contains(&self, range: Range) -> bool {
        Self::words(range).all(|(word, mask)| self.0[word] & mask == mask)
    }

    /// Whether any byte of a range is in the set.
    pub fn intersects(&self, range: Range) -> bool {
        Self::words(range).any(|(word, mask)| self.0[word] & mask != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_across_words() {
        let mut set = RegisterSet::NONE;
        let range = |offset, bytes| Range { offset, bytes };
        set.insert(range(60, 8));
        assert!(set.contains(range(60, 8)) && set.contains(range(63, 2)));
        assert!(!set.contains(range(59, 2)) && set.intersects(range(59, 2)));
        set.remove(range(64, 64));
        assert!(set.contains(range(60, 4)) && !set.intersects(range(64, 64)));
        set.insert(range(0, 192));
        assert!(set.contains(range(0, 192)) && !set.contains(range(0, 193)));
    }
}
