//! Forms: what a block says about a record by a number.

use crate::format::get_u32;
use crate::operation::{FIRST, Operation, SECOND};

/// Class of an operand whose index is that of the record one period earlier plus the form's stride. Smaller classes are the number of
/// bytes that give the distance; 0 is a passive operand.
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
    /// How far predicted operands move on in a period.
    pub strides: [i32; 2],
}

impl EncodedForm {
    /// Size in a block.
    pub(crate) const BYTES: usize = 16;

    /// The bytes in a block.
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&[self.code, self.class[0], self.class[1], 0]);
        for k in 0..2 {
            bytes[4 + 2 * k..6 + 2 * k].copy_from_slice(&self.sources[k].0.to_le_bytes());
            bytes[8 + 4 * k..12 + 4 * k].copy_from_slice(&self.strides[k].to_le_bytes());
        }
        bytes
    }

    /// Reads a form; `None` if it is not possible.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<EncodedForm> {
        let [code, first, second, 0, ..] = *bytes else { return None };
        let sources = both(|k| Source((get_u32(bytes, 4) >> (16 * k)) as u16));
        let strides = both(|k| get_u32(bytes, 8 + 4 * k) as i32);
        // A record cannot be its own source.
        let possible = first.max(second) <= PREDICTED && sources.iter().all(|source| source.0 != 1);
        possible.then_some(EncodedForm { code, class: [first, second], sources, strides })
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
