//! Marks by which a whole operand index is told from one that has been put together from pieces.
//!
//! A recorder keeps the indices of real numbers beside their bytes and moves them as the program moves these, byte by byte. A program that replaces a part
//! of a number by something else, or by nothing, does the same to its index, and no instruction tells that the result is none. Two guards make it visible when the
//! number is used:
//! - No index that is given out is a multiple of 2^16. So one whose low bytes have been replaced by zeros is none.
//! - An operand's index has a tag in its upper bytes: [`NARROW_TAG`] if it is binary32, [`WIDE_TAG`] else. So one whose upper bytes have been replaced is
//!   none. There is something beside each of the bytes that hold a number's sign and exponent.

use crate::operation::BINARY32;
use crate::record::{CODE_MASK, INDEX_BITS, Record};

/// Set in an operand word of a record without [`BINARY32`], together with the operand's index.
pub const WIDE_TAG: u64 = 1 << 63 | WIDE_LIMIT;

/// Indices of binary64 operands are below this.
pub const WIDE_LIMIT: u64 = 1 << 46;

/// Set in an operand word of a record with [`BINARY32`], together with the operand's index.
pub const NARROW_TAG: u64 = 1 << 30;

/// Indices of binary32 operands are below this.
pub const NARROW_LIMIT: u64 = NARROW_TAG;

/// Multiples of this are not given out.
const SPACING: u64 = 1 << 16;

/// Whether the index is one that is not given out.
pub fn is_skipped(index: u64) -> bool {
    index.is_multiple_of(SPACING)
}

/// How many of `count` indices from `first` on come before the next one that is not given out; `first` itself may be such a one.
pub(crate) fn until_skipped(first: u64, count: usize) -> usize {
    count.min((SPACING - first % SPACING) as usize)
}

/// Which of a record's operand words are no index, and not zero either.
pub(crate) fn broken(record: &Record) -> [bool; 2] {
    let tag = if record.code() & BINARY32 != 0 { NARROW_TAG } else { WIDE_TAG };
    operand_words(record).map(|word| word != 0 && !is_index(word, tag))
}

/// A record's operand words with their tags: what the code leaves of them.
#[inline]
pub(crate) fn operand_words(record: &Record) -> [u64; 2] {
    [record.operand1 & !(CODE_MASK << INDEX_BITS), record.operand2]
}

/// Whether a word is an index with this tag and nothing else above it. Indices are below a tag's lowest bit.
pub fn is_index(word: u64, tag: u64) -> bool {
    let limit = tag & tag.wrapping_neg();
    word & !(limit - 1) == tag && !is_skipped(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;

    #[test]
    fn pieces_of_indices_are_none() {
        let index = 0x0012_3456 | NARROW_TAG;
        assert!(is_index(index, NARROW_TAG));
        for piece in [index & 0xffff_0000, index & 0xffff, index & 0x00ff_ffff, index << 32 | index, index | 1 << 31] {
            assert!(!is_index(piece, NARROW_TAG), "{piece:x}");
        }
        let index = 0x0012_3456_789a | WIDE_TAG;
        assert!(is_index(index, WIDE_TAG));
        for piece in [index & !0xffff_ffff, index & 0xffff_ffff, index & !0xffff, index << 1, index & !(0xff << 56)] {
            assert!(!is_index(piece, WIDE_TAG), "{piece:x}");
        }
    }

    #[test]
    fn operands_are_judged_by_their_format() {
        let narrow = |first, second| broken(&Record::binary32(Operation::Mul, [first, second], [0.0; 2]));
        assert_eq!(narrow(5 | NARROW_TAG, 0), [false; 2]);
        assert_eq!(narrow(5, 0x10000 | NARROW_TAG), [true; 2]);
        let wide = |operand1: u64, operand2| {
            let record = Record::binary64(Operation::Mul, [0; 2], [0.0; 2]);
            broken(&Record { operand1: record.operand1 | operand1, operand2, ..record })
        };
        assert_eq!(wide(5 | WIDE_TAG, 7 | WIDE_TAG), [false; 2]);
        assert_eq!(wide(0, 0), [false; 2]);
        assert_eq!(wide(1 << 32 | WIDE_TAG, WIDE_TAG), [true; 2]);
        assert_eq!(wide(5, 1 << 47 | 7 | WIDE_TAG), [true; 2]);
        let no_mark = |index: u64| index | WIDE_LIMIT;
        assert_eq!(wide(no_mark(5), 7 | WIDE_TAG), [true, false]);
        assert_eq!(wide(5 | WIDE_TAG, no_mark(7)), [false, true]);
    }

    #[test]
    fn runs_of_indices_end_before_one_that_is_skipped() {
        assert_eq!(until_skipped(0, 16384), 16384);
        assert_eq!(until_skipped(65535, 16384), 1);
        assert_eq!(until_skipped(65530, 16384), 6);
        assert_eq!(until_skipped(65536, 100), 100);
    }
}
