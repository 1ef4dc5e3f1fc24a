//! Sets of bytes of the shadow register file.

use crate::shadow::{FILE_BYTES, Range, X87, X87_BYTES};

const WORDS: usize = FILE_BYTES as usize / 64;
/// The words of the x87 registers.
const X87_WORDS: [usize; 2] = [X87 as usize / 64, X87 as usize / 64 + 1];
const _: () = assert!(X87.is_multiple_of(64) && X87_BYTES == 128);

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

    /// Moves what is in the set of ST(k) to ST(k + by), counted modulo 8.
    pub fn rotate_x87(&mut self, by: i8) {
        let [low, high] = X87_WORDS;
        let bits = u128::from(self.0[low]) | u128::from(self.0[high]) << 64;
        let rotated = bits.rotate_left(16 * by.rem_euclid(8) as u32);
        (self.0[low], self.0[high]) = (rotated as u64, (rotated >> 64) as u64);
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
    fn x87_registers_rotate() {
        use crate::shadow::x87;
        let range = |number, bytes| Range { offset: x87(number), bytes };
        let mut set = RegisterSet::NONE;
        set.insert(range(7, 8));
        set.insert(range(2, 10));
        set.rotate_x87(1);
        assert!(set.contains(range(0, 8)) && set.contains(range(3, 10)) && !set.intersects(range(7, 16)));
        set.rotate_x87(-2);
        assert!(set.contains(range(6, 8)) && set.contains(range(1, 10)) && !set.intersects(range(0, 16)));
        assert!(!set.intersects(Range { offset: 0, bytes: X87 }));
    }

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
