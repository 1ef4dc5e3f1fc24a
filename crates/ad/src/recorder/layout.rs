//! The recorder's own fields in the per-thread context.

use std::mem::offset_of;

use derivgrind_engine::context::Context;
use iced_x86::MemoryOperand;

use crate::instrument::{MODE_FIELDS, MODE_FIELDS_END};

/// What cached code and helpers share, behind the fields that both modes have.
#[repr(C)]
#[derive(Debug)]
pub(super) struct TapeFields {
    /// Address of the next record in the thread's chunk.
    pub cursor: u64,
    /// Address behind the chunk's last record; equal to `cursor` if the thread has no chunk, or must not record.
    pub end: u64,
    /// `cursor / 32 + wide_bias` is the index of the next record, with the tag of a binary64 index.
    pub wide_bias: u64,
    /// The same with the tag of a binary32 index.
    pub narrow_bias: u64,
    /// Operand indices on their way to and from the slow path.
    pub slow: [u64; 2],
    /// The operands' values, on their way to where a rounding is told from a sum.
    pub values: [u64; 2],
    /// The answer: not 0 for a rounding.
    pub rounds: u64,
    /// A `Box<derivgrind_tape::Chunk>`, or null.
    pub chunk: u64,
    /// Where its records begin.
    pub chunk_start: u64,
    /// How many indices the thread's next chunk should have; 0 before the first.
    pub appetite: u64,
    /// The index that the thread's last `NEW_INDEX` request gave out, and the value it named.
    pub last_index: u64,
    /// The value as binary64 bits.
    pub last_value: u64,
}

const _: () = assert!(MODE_FIELDS + size_of::<TapeFields>() <= MODE_FIELDS_END);

/// A field as an operand of cached code; `offset` from `offset_of!(TapeFields, ..)`.
pub(super) fn tape_field(offset: usize) -> MemoryOperand {
    derivgrind_engine::translate::context_memory(offset_of!(Context, tool) + MODE_FIELDS + offset)
}
