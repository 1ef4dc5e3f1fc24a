//! The tool's part of the per-thread context: the shadow register file, then fields that both modes have, then the mode's own.

use std::mem::offset_of;

use derivgrind_engine::context::{Context, TOOL_BYTES};
use iced_x86::MemoryOperand;

use crate::shadow;

/// What cached code and helpers share, behind the shadow register file.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Fields {
    /// Blocks in the active version until the shadow registers are looked at.
    pub countdown: u32,
    /// What `countdown` starts from.
    pub patience: u32,
    /// The `DG_DISABLE` counter.
    pub disabled: u64,
    /// Operands of a bit trick, between the helpers before and after the instruction.
    pub bit_values: [[u64; 4]; 2],
    /// Their shadows.
    pub bit_shadows: [[u64; 4]; 2],
    /// Address of the memory operand of that bit trick.
    pub bit_address: u64,
}

/// Offset of the fields in the tool's part.
pub(super) const FIELDS: usize = (shadow::FILE_BYTES as usize).next_multiple_of(64);
/// Offset of the mode's own fields in the tool's part.
pub(crate) const MODE_FIELDS: usize = (FIELDS + size_of::<Fields>()).next_multiple_of(64);

const _: () = assert!(MODE_FIELDS <= TOOL_BYTES);
const _: () = assert!(offset_of!(Context, tool).is_multiple_of(64) && FIELDS.is_multiple_of(64));

/// A field as an operand of cached code; `offset` from `offset_of!(Fields, ..)`.
pub(super) fn field(offset: usize) -> MemoryOperand {
    derivgrind_engine::translate::context_memory(offset_of!(Context, tool) + FIELDS + offset)
}

/// A place in the shadow register file as an operand of cached code.
pub(crate) fn file(offset: u16) -> MemoryOperand {
    derivgrind_engine::translate::context_memory(offset_of!(Context, tool) + usize::from(offset))
}
