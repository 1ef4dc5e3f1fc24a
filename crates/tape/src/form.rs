//! Forms: what a block says about a record by a number.

use crate::operation::{FIRST, Operation, SECOND};

/// Class of an operand that is as far away as in the record one period earlier. Smaller classes are the number of bytes that give the
/// distance; 0 is a passive operand.
pub(crate) const PREDICTED: u8 = 8;

/// Forms in a block; their numbers have one byte.
pub(crate) const MAX_FORMS: usize = 256;

/// Where in the block an operand value is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Source(u16);

impl Source {
    /// Nowhere: it is stored.
    pub(crate) const NONE: Source = Source(0);

    /// It is the first (0) or second (1) value of the record `back` earlier; `back` is at least 1.
    pub(crate) const fn new(back: usize, slot: usize) -> Source {
        Source((back << 1 | slot) as u16)
    }

    /// How many records earlier; 0 if there is no source.
    #[inline(always)]
    pub(crate) const fn back(self) -> usize {
        self.0 as usize >> 1
    }

    /// Which of that record's values.
    #[inline(always)]
    pub(crate) const fn slot(self) -> usize {
        self.0 as usize & 1
    }
}

/// A form as blocks hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EncodedForm {
    /// Operation code, with the bit for binary32.
    pub code: u8,
    /// Classes of the operands.
    pub class: [u8; 2],
    /// Sources of the values.
    pub sources: [Source; 2],
}

impl EncodedForm {
    /// Size in a block.
    pub(crate) const BYTES: usize = 8;

    /// The bytes in a block.
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let [first, second] = self.sources.map(|source| source.0.to_le_bytes());
        [self.code, self.class[0], self.class[1], 0, first[0], first[1], second[0], second[1]]
    }

    /// Reads a form; `None` if it is not possible.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<EncodedForm> {
        let [code, first, second, 0, a, b, c, d] = *bytes else { return None };
        let sources = [Source(u16::from_le_bytes([a, b])), Source(u16::from_le_bytes([c, d]))];
        // A record cannot be its own source.
        let possible = first.max(second) <= PREDICTED && sources.iter().all(|source| source.0 != 1);
        possible.then_some(EncodedForm { code, class: [first, second], sources })
    }
}

/// The bits of the two values of a record that are kept, given which operands are active (bit 0 the first, bit 1 the second).
pub(crate) const fn value_masks(operation: Operation, binary32: bool, active: usize) -> [u64; 2] {
    let needed = operation.needed(active & 1 != 0, active & 2 != 0);
    let mask = low_bytes(operation.value_bytes(binary32));
    [if needed & FIRST != 0 { mask } else { 0 }, if needed & SECOND != 0 { mask } else { 0 }]
}

/// A word with its lowest `count` bytes set.
pub(crate) const fn low_bytes(count: u8) -> u64 {
    if count == 0 { 0 } else { u64::MAX >> (64 - 8 * count as u32) }
}

/// Both values of something that is said of the first and the second operand.
///
/// `array::map` would do, but is not always inlined into the loops over records.
#[inline(always)]
pub(crate) fn both<T>(mut each: impl FnMut(usize) -> T) -> [T; 2] {
    [each(0), each(1)]
}
