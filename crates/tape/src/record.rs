//! The in-memory record, as the recorder's machine code writes it, and the buffers that hold records.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use crate::decode::Partials;
use crate::operation::{BINARY32, Operation};

/// The bits of an operand word that hold the index; the top byte is the operation code, or to be ignored.
pub const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;

/// Number of bits of an index.
pub const INDEX_BITS: u32 = 56;

/// The bits of the first operand word's top byte that hold the operation code. The highest bit is free for a tag.
pub(crate) const CODE_MASK: u64 = 0x7f;

/// One operation: 32 bytes, little-endian.
///
/// The record at position `p` of a chunk belongs to index `first_index + p`. Words that an operation does not use may hold anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct Record {
    /// First operand's index in the low 56 bits; operation code in the lower seven bits of the top byte. If the recording is [guarded](crate::guard), with a tag,
    /// which has the highest bit.
    pub operand1: u64,
    /// Second operand's index in the low 56 bits. The top byte is ignored unless the recording is guarded.
    pub operand2: u64,
    /// First operand's value: binary64 bits, or binary32 bits in the low half with the upper half undefined.
    pub value1: u64,
    /// Second operand's value, likewise.
    pub value2: u64,
}

impl Record {
    /// Size of a record.
    pub const BYTES: usize = size_of::<Record>();
    /// Offset of the first operand's index.
    pub const OPERAND1: usize = std::mem::offset_of!(Record, operand1);
    /// Offset of the operation code's byte.
    pub const OPERATION: usize = Record::OPERAND1 + 7;
    /// Offset of the second operand's index.
    pub const OPERAND2: usize = std::mem::offset_of!(Record, operand2);
    /// Offset of the first operand's value.
    pub const VALUE1: usize = std::mem::offset_of!(Record, value1);
    /// Offset of the second operand's value.
    pub const VALUE2: usize = std::mem::offset_of!(Record, value2);

    /// A record with binary64 values.
    pub const fn binary64(operation: Operation, operands: [u64; 2], values: [f64; 2]) -> Record {
        Record {
            operand1: (operands[0] & INDEX_MASK) | ((operation.code() as u64) << INDEX_BITS),
            operand2: operands[1] & INDEX_MASK,
            value1: values[0].to_bits(),
            value2: values[1].to_bits(),
        }
    }

    /// A record with binary32 values.
    pub const fn binary32(operation: Operation, operands: [u64; 2], values: [f32; 2]) -> Record {
        Record {
            operand1: (operands[0] & INDEX_MASK) | (((operation.code() | BINARY32) as u64) << INDEX_BITS),
            operand2: operands[1] & INDEX_MASK,
            value1: values[0].to_bits() as u64,
            value2: values[1].to_bits() as u64,
        }
    }

    /// The value of an input or output that nobody knows: a NaN that no arithmetic produces.
    pub const UNKNOWN_VALUE: f64 = f64::from_bits(0x7ff8_4447_0000_0000);

    /// The record of a declared input whose value is not known.
    pub const fn input() -> Record {
        Record::input_with_value(Record::UNKNOWN_VALUE)
    }

    /// The record of a declared input.
    pub const fn input_with_value(value: f64) -> Record {
        Record::binary64(Operation::Input, [0, 0], [value, 0.0])
    }

    /// The record of a declared output: a copy of the variable with this index and value.
    pub const fn output(index: u64, value: f64) -> Record {
        Record::binary64(Operation::Output, [index, 0], [value, 0.0])
    }

    /// The value of the variable that an input's or output's record declares, if it is known.
    pub fn declared_value(&self) -> Option<f64> {
        const INPUT: u8 = Operation::Input.code();
        const OUTPUT: u8 = Operation::Output.code();
        let known = matches!(self.code(), INPUT | OUTPUT) && self.value1 != Record::UNKNOWN_VALUE.to_bits();
        known.then(|| f64::from_bits(self.value1))
    }

    /// The operation code, with [`BINARY32`].
    #[inline]
    pub const fn code(&self) -> u8 {
        (self.operand1 >> INDEX_BITS & CODE_MASK) as u8
    }

    /// The operands with the partial derivatives. An operation that the record's code does not name has none.
    pub fn partials(&self) -> Partials {
        let Some(operation) = Operation::from_code(self.code()) else { return Partials::default() };
        let value = |bits: u64| match operation.value_bytes(self.code() & BINARY32 != 0) {
            4 => f64::from(f32::from_bits(bits as u32)),
            _ => f64::from_bits(bits),
        };
        let partials = operation.partials(value(self.value1), value(self.value2));
        let [first, second] = self.operands();
        let operands =
            [if operation.operands() > 0 { first } else { 0 }, if operation.operands() > 1 { second } else { 0 }];
        Partials { operands, partials: [0, 1].map(|k| if operands[k] != 0 { partials[k] } else { 0.0 }) }
    }

    /// The operands' indices.
    #[inline]
    pub const fn operands(&self) -> [u64; 2] {
        [self.operand1 & INDEX_MASK, self.operand2 & INDEX_MASK]
    }
}

/// Page-aligned memory for the records of one chunk.
pub(crate) struct Buffer {
    records: NonNull<Record>,
}

// SAFETY: a Buffer owns its memory, which is plain data.
unsafe impl Send for Buffer {}

impl Buffer {
    const LAYOUT: Layout = match Layout::from_size_align(Chunk::RECORDS * Record::BYTES, 4096) {
        Ok(layout) => layout,
        Err(_) => panic!("the size of a chunk does not overflow"),
    };

    /// A new buffer of None records.
    pub(crate) fn new() -> Buffer {
        // SAFETY: the layout has a size other than zero.
        let memory = unsafe { alloc_zeroed(Self::LAYOUT) };
        match NonNull::new(memory.cast()) {
            Some(records) => Buffer { records },
            None => handle_alloc_error(Self::LAYOUT),
        }
    }

    /// The records.
    pub(crate) fn as_slice(&self) -> &[Record] {
        // SAFETY: the memory was allocated for this many records and zeroed; a Record is valid with any content.
        unsafe { std::slice::from_raw_parts(self.records.as_ptr(), Chunk::RECORDS) }
    }

    /// The records.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [Record] {
        // SAFETY: as above, and the buffer is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.records.as_ptr(), Chunk::RECORDS) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.records.as_ptr().cast(), Self::LAYOUT) };
    }
}

/// A run of consecutive indices with the buffer for their records. It is filled by one thread at a time.
pub struct Chunk {
    pub(crate) first_index: u64,
    pub(crate) capacity: usize,
    pub(crate) start: usize,
    pub(crate) buffer: Buffer,
}

impl Chunk {
    /// Records that a chunk's memory holds, and indices in a chunk unless fewer were asked for.
    ///
    /// 512 KiB of records: small enough to stay in the second-level cache between the recording thread, the writing thread and back,
    /// large enough for a loop body of a thousand operations to be recognised as one.
    pub const RECORDS: usize = 16384;

    /// The index that belongs to the first record.
    #[inline]
    pub fn first_index(&self) -> u64 {
        self.first_index
    }

    /// Indices in this chunk; records from this position on must not be filled.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Position of the first record to be filled: 1 where position 0 is the dummy of an index that is not given out, the passive index 0 or
    /// one that is skipped ([`guard`](crate::guard)); else 0.
    #[inline]
    pub fn start(&self) -> usize {
        self.start
    }

    /// The [`Chunk::RECORDS`] records, page-aligned. They stay where they are when the `Chunk` is moved.
    ///
    /// Their content is undefined in a recycled chunk; what is written below the `used` of
    /// [`TapeWriter::submit`](crate::TapeWriter::submit) counts.
    #[inline]
    pub fn records(&mut self) -> *mut Record {
        self.buffer.records.as_ptr()
    }

    /// The [`capacity`](Self::capacity) records as a slice.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Record] {
        &mut self.buffer.as_mut_slice()[..self.capacity]
    }
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = formatter.debug_struct("Chunk");
        fields.field("first_index", &self.first_index).field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_the_one_that_machine_code_writes() {
        assert_eq!(
            [Record::BYTES, Record::OPERAND1, Record::OPERATION, Record::OPERAND2, Record::VALUE1, Record::VALUE2],
            [32, 0, 7, 8, 16, 24]
        );
        let record = Record::binary32(Operation::Mul, [0x0012_3456_789a_bcde, u64::MAX], [1.0, 2.0]);
        assert_eq!(record.operand1.to_le_bytes(), [0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0x46]);
        assert_eq!(record.operands(), [0x0012_3456_789a_bcde, INDEX_MASK]);
        assert_eq!(record.code(), Operation::Mul.code() | BINARY32);
    }

    #[test]
    fn chunks_are_page_aligned() {
        let mut chunk = Chunk { first_index: 0, capacity: Chunk::RECORDS, start: 1, buffer: Buffer::new() };
        assert_eq!(chunk.records() as usize % 4096, 0);
        assert_eq!(chunk.start(), 1);
    }
}
