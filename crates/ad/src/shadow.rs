//! Layout of shadow data: the per-thread shadow register file and the index format.
//!
//! The shadow register file holds one byte for each byte of every register that can carry real numbers, at a fixed offset. It lies at the
//! start of the tool's part of the per-thread context. Shadow memory needs no layout of its own: it is application memory, moved.

use derivgrind_tape::guard;
use iced_x86::Register;

/// Set in the 8-byte shadow of a binary64 value beside its index: [`WIDE_MARK`] and a bit below it.
pub const WIDE_TAG: u64 = guard::WIDE_TAG;

/// Tells the 8-byte shadow of a binary64 value from the indices of two binary32 values.
pub const WIDE_MARK: u64 = 1 << 63;

const _: () = assert!(WIDE_TAG & WIDE_MARK != 0);

/// The 8-byte shadow of a binary64 value with this index.
pub fn of_wide(index: u64) -> u64 {
    if index == 0 { 0 } else { index | WIDE_TAG }
}

/// The index in the 8-byte shadow of a binary64 value; `None` if these are pieces of other indices.
pub fn wide_index(word: u64) -> Option<u64> {
    match word {
        0 => Some(0),
        _ => guard::is_index(word, WIDE_TAG).then_some(word & !WIDE_TAG),
    }
}

/// Set in the 4-byte shadow of a binary32 value beside its index. So there is something beside each of its upper bytes, which hold sign and exponent.
pub const NARROW_TAG: u64 = guard::NARROW_TAG;

/// Indices of binary32 values are below this: their shadow has four bytes, and no bit in common with that of a binary64 value's upper half.
pub const NARROW_LIMIT: u64 = guard::NARROW_LIMIT;

/// The 4-byte shadow of a binary32 value with this index.
pub fn of_narrow(index: u64) -> u64 {
    if index == 0 { 0 } else { index | NARROW_TAG }
}

/// The index in the 4-byte shadow of a binary32 value; `None` if these are pieces of other indices.
pub fn narrow_index(word: u64) -> Option<u64> {
    match word {
        0 => Some(0),
        _ => guard::is_index(word, NARROW_TAG).then_some(word & (NARROW_LIMIT - 1)),
    }
}

/// Offset of the general registers' shadow, 8 bytes each, by hardware number.
pub const GENERAL: u16 = 0;
/// Offset of the vector registers' shadow, [`VECTOR_BYTES`] each, by hardware number.
pub const VECTOR: u16 = 128;
/// Bytes of a vector register's shadow: room for a ZMM register.
pub const VECTOR_BYTES: u16 = 64;
/// Bytes of a vector register that have to be looked after while the program does not use AVX-512.
pub const NARROW_VECTOR: u16 = 32;
/// Offset of the x87 and MMX registers' shadow, 16 bytes each, of which ten are used: ST(0) to ST(7), wherever the top of the stack is.
pub const X87: u16 = VECTOR + 32 * VECTOR_BYTES;
/// Bytes of all of it.
pub const X87_BYTES: u16 = 8 * 16;
/// Offset of the mask registers' shadow, 8 bytes each.
pub const MASK: u16 = X87 + X87_BYTES;
/// Offset of the temporaries that operations of a single instruction use among themselves; they belong to no register.
pub const TEMPORARY: u16 = MASK + 8 * 8;
/// Bytes of the temporaries.
pub const TEMPORARY_BYTES: u16 = 256;
/// Offset of the shadow of a memory operand that is read under a mask, or one element of it for all lanes, [`VECTOR_BYTES`] long. Its value is
/// put aside, too. It belongs to a single instruction as the temporaries do.
pub const OPERAND: u16 = TEMPORARY + TEMPORARY_BYTES;
/// Offset of general registers as they have been earlier in a block, 8 bytes each: their values are kept beside their shadow.
pub const KEPT: u16 = OPERAND + VECTOR_BYTES;
/// Bytes of all of them.
pub const KEPT_BYTES: u16 = 64;
/// Bytes of the whole shadow register file.
pub const FILE_BYTES: u16 = KEPT + KEPT_BYTES;

/// A range of the shadow register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// First byte.
    pub offset: u16,
    /// Number of bytes.
    pub bytes: u16,
}

impl Range {
    /// Whether they have bytes in common.
    pub fn overlaps(self, other: Range) -> bool {
        self.offset < other.offset + other.bytes && other.offset < self.offset + self.bytes
    }

    /// Whether it has all bytes of the other one.
    pub fn contains(self, other: Range) -> bool {
        self.offset <= other.offset && other.offset + other.bytes <= self.offset + self.bytes
    }
}

/// Where the shadow of a register lies, or `None` for a register that cannot carry real numbers (segment registers, flags, RIP ...).
pub fn of_register(register: Register) -> Option<Range> {
    let number = register.full_register().number() as u16;
    let bytes = register.size() as u16;
    let offset = if register.is_gpr() {
        let high_byte = matches!(register, Register::AH | Register::CH | Register::DH | Register::BH);
        GENERAL + 8 * number + u16::from(high_byte)
    } else if register.is_vector_register() {
        VECTOR + VECTOR_BYTES * number
    } else if register.is_mm() || register.is_st() {
        X87 + 16 * number
    } else if register.is_k() {
        MASK + 8 * number
    } else {
        return None;
    };
    Some(Range { offset, bytes })
}

/// Offset of a vector register's shadow, by hardware number.
pub const fn vector(number: u16) -> u16 {
    VECTOR + VECTOR_BYTES * number
}

/// Offset of the shadow of ST(`number`), and of MMX register `number` while TOP is 0.
pub const fn x87(number: u16) -> u16 {
    X87 + 16 * (number % 8)
}

/// Offset of a general register's shadow, by hardware number.
pub const fn general(number: u16) -> u16 {
    GENERAL + 8 * number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_of_one_full_register_share_shadow() {
        let offset = |register| of_register(register).map(|range| (range.offset, range.bytes));
        assert_eq!(offset(Register::BL), Some((24, 1)));
        assert_eq!(offset(Register::BH), Some((25, 1)));
        assert_eq!(offset(Register::EBX), Some((24, 4)));
        assert_eq!(offset(Register::DIL), Some((56, 1)));
        assert_eq!(offset(Register::R15), Some((120, 8)));
        assert_eq!(offset(Register::XMM1), Some((192, 16)));
        assert_eq!(offset(Register::ZMM1), Some((192, 64)));
        assert_eq!(offset(Register::RIP), None);
        assert_eq!(offset(Register::FS), None);
    }

    #[test]
    fn the_file_is_aligned_for_vector_copies() {
        assert_eq!([VECTOR % 64, X87 % 64, TEMPORARY % 64, FILE_BYTES % 64], [0; 4]);
    }
}
