//! The tool's part of the per-thread context: the shadow register file, then fields that both modes have, then the mode's own, and at the end the shadow
//! register files of further layers.

use std::mem::offset_of;

use derivgrind_engine::context::{Context, TOOL_BYTES};
use derivgrind_engine::memory;
use iced_x86::MemoryOperand;

use crate::shadow;

/// Highest number of shadow layers.
pub(crate) const MOST_LAYERS: usize = memory::MOST_LAYERS as usize;

/// The shadow layers that are in use, counted from 0: one in recording, in forward mode one for each direction.
pub(crate) fn layers() -> std::ops::Range<usize> {
    0..(memory::shadow_layers() as usize).max(1)
}

/// Words of the widest operand, a ZMM register.
pub(crate) const WORDS: usize = 8;

/// What cached code and helpers share, behind the shadow register file.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Fields {
    /// The value of a memory operand that has been fetched ([`crate::ir::Effect::Fetch`]).
    pub fetched: [u64; WORDS],
    /// The values of general registers that are kept ([`shadow::KEPT`]).
    pub kept: [u64; WORDS],
    /// The mask under which the present instruction writes: all ones in the bytes of elements whose bit is set, else zeros.
    pub elements: [u64; WORDS],
    /// Blocks in the active version until the shadow registers are looked at.
    pub countdown: u32,
    /// What `countdown` starts from.
    pub patience: u32,
    /// The `DG_DISABLE` counter.
    pub disabled: u64,
    /// Operands of a bit trick, between the helpers before and after the instruction.
    pub bit_values: [[u64; WORDS]; 3],
    /// Their shadows in each layer.
    pub bit_shadows: [[[u64; WORDS]; 3]; MOST_LAYERS],
    /// Address of the memory operand of that bit trick.
    pub bit_address: u64,
    /// Why parts of numbers that are stored have to be looked at: [`PIECES_CHANGED`], [`NUMBERS_CHANGED`], [`NUMBER_MARKED`].
    pub changed: u64,
    /// What the thread does to memory in one step with its shadow.
    pub atomic: super::atomic::Progress,
}

/// In [`Fields::changed`]: there are changed pieces of numbers that can be put back, see [`super::undone`].
pub(crate) const PIECES_CHANGED: u64 = 1;
/// In [`Fields::changed`]: there are numbers with another sign or exponent, which can be put together from bytes of theirs and of the number before.
pub(crate) const NUMBERS_CHANGED: u64 = 2;
/// In [`Fields::changed`]: a number in memory has been marked as none any more, since a part of it has become passive.
pub(crate) const NUMBER_MARKED: u64 = 4;

/// Offset of the fields in the tool's part.
pub(super) const FIELDS: usize = (shadow::FILE_BYTES as usize).next_multiple_of(64);
/// Offset of the mode's own fields in the tool's part.
pub(crate) const MODE_FIELDS: usize = (FIELDS + size_of::<Fields>()).next_multiple_of(64);
/// End of the mode's own fields: the shadow register files of the second and further layers begin.
pub(crate) const MODE_FIELDS_END: usize = TOOL_BYTES - (MOST_LAYERS - 1) * FILE_STRIDE;
/// From one of these to the next.
const FILE_STRIDE: usize = (shadow::FILE_BYTES as usize).next_multiple_of(64);

/// Where a layer's shadow register file begins in the tool's part.
pub(crate) const fn file_start(layer: usize) -> usize {
    match layer.checked_sub(1) {
        None => 0,
        Some(further) => MODE_FIELDS_END + further * FILE_STRIDE,
    }
}

const _: () = assert!(shadow::KEPT_BYTES as usize == 8 * WORDS);
const _: () = assert!(MODE_FIELDS <= MODE_FIELDS_END && MODE_FIELDS_END.is_multiple_of(64));
const _: () = assert!(offset_of!(Context, tool).is_multiple_of(64) && FIELDS.is_multiple_of(64));

/// A field as an operand of cached code; `offset` from `offset_of!(Fields, ..)`.
pub(super) fn field(offset: usize) -> MemoryOperand {
    derivgrind_engine::translate::context_memory(offset_of!(Context, tool) + FIELDS + offset)
}

/// The value of a fetched memory operand, some bytes further on, as an operand of cached code.
pub(crate) fn fetched(offset: u16) -> MemoryOperand {
    field(offset_of!(Fields, fetched) + usize::from(offset - shadow::OPERAND))
}

/// The value of a general register that is kept, as an operand of cached code.
pub(super) fn kept(offset: u16) -> MemoryOperand {
    field(offset_of!(Fields, kept) + usize::from(offset - shadow::KEPT))
}

/// Bytes of the expanded mask from this one on.
pub(crate) fn elements(offset: u16) -> MemoryOperand {
    field(offset_of!(Fields, elements) + usize::from(offset))
}

/// A place in a layer's shadow register file as an operand of cached code.
pub(crate) fn file(layer: usize, offset: u16) -> MemoryOperand {
    derivgrind_engine::translate::context_memory(place_in_context(layer, offset))
}

/// Offset in the context of a place in a layer's shadow register file.
pub(crate) fn place_in_context(layer: usize, offset: u16) -> usize {
    offset_of!(Context, tool) + file_start(layer) + usize::from(offset)
}
