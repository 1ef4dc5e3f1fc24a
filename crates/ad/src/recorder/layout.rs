//! The recorder's part of the per-thread context: the shadow register file, then these fields.

use std::mem::offset_of;

use derivgrind_engine::context::{Context, TOOL_BYTES};
use iced_x86::MemoryOperand;

use crate::shadow;

/// What cached code and helpers share, behind the shadow register file.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Fields {
    /// Address of the next record in the thread's chunk.
    pub cursor: u64,
    /// Address behind the chunk's last record; equal to `cursor` if the thread has no chunk, or must not record.
    pub end: u64,
    /// `cursor / 32 + wide_bias` is the index of the next record, with the tag of a binary64 index.
    pub wide_bias: u64,
    /// The same without a tag, for binary32.
    pub narrow_bias: u64,
    /// Operand indices on their way to and from the slow path.
    pub slow: [u64; 2],
    /// Blocks in the active version until the shadow registers are looked at.
    pub countdown: u32,
    /// What `countdown` starts from.
    pub patience: u32,
    /// The `DG_DISABLE` counter.
    pub disabled: u64,
    /// A `Box<derivgrind_tape::Chunk>`, or null.
    pub chunk: u64,
    /// Where its records begin.
    pub chunk_start: u64,
    /// The index that the thread's last `NEW_INDEX` request gave out, and the value it named.
    pub last_index: u64,
    /// The value as binary64 bits.
    pub last_value: u64,
    /// Operands of a bit trick, between the helpers before and after the instruction.
    pub bit_values: [[u64; 4]; 2],
    /// Their shadows.
    pub bit_shadows: [[u64; 4]; 2],
    /// Address of the memory operand of that bit trick.
    pub bit_address: u64,
}

/// Offset of the fields in the tool's part.
pub(super) const FIELDS: usize = (shadow::FILE_BYTES as usize).next_multiple_of(64);

const _: () = assert!(FIELDS + size_of::<Fields>() <= TOOL_BYTES);

/// A field as an operand of cached code; `offset` from `offset_of!(Fields, ..)`.
pub(super) fn field(offset: usize) -> MemoryOperand {
    derivgrind_engine::translate::context_memory(offset_of!(Context, tool) + FIELDS + offset)
}

/// A place in the shadow register file as an operand of cached code.
pub(super) fn file(offset: u16) -> MemoryOperand {
    derivgrind_engine::translate::context_memory(offset_of!(Context, tool) + usize::from(offset))
}
