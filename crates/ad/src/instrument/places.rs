//! From places of the IR to operands of cached code.

use derivgrind_engine::memory;
use derivgrind_engine::translate::{Emitter, Layered};
use iced_x86::{Code, Instruction, MemoryOperand, OpKind, Register};

use crate::ir::{Address, Place, Span};

use super::layout::{file, layers};

/// The shadow of a place in the first layer, as seen by instruction `index`.
pub(crate) fn shadow_of(emitter: &mut Emitter<'_>, index: usize, place: Place) -> MemoryOperand {
    match place {
        Place::Register(offset) => file(0, offset),
        Place::Memory { base, offset } => in_memory(emitter, index, base, offset, true),
    }
}

/// The shadow of a place in all layers. In memory there is one at a time, and it is valid until the instruction is executed or a helper is called.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shadow {
    /// Offset in the shadow register files.
    Register(u16),
    /// In memory.
    Memory(Layered),
}

impl Shadow {
    /// As seen by instruction `index`.
    pub fn of(emitter: &mut Emitter<'_>, index: usize, place: Place) -> Shadow {
        match place {
            Place::Register(offset) => Shadow::Register(offset),
            Place::Memory { base, offset } => {
                let first = in_memory(emitter, index, base, offset, true);
                let operand = in_memory(emitter, index, base, offset, false);
                Shadow::Memory(emitter.layered(operand, first))
            }
        }
    }

    /// Some bytes further on.
    pub fn advanced(self, bytes: u16) -> Shadow {
        match self {
            Shadow::Register(offset) => Shadow::Register(offset + bytes),
            Shadow::Memory(memory) => Shadow::Memory(memory.advanced(bytes.into())),
        }
    }

    /// In one layer.
    pub fn in_layer(&self, emitter: &Emitter<'_>, layer: usize) -> MemoryOperand {
        match self {
            Shadow::Register(offset) => file(layer, *offset),
            Shadow::Memory(memory) => emitter.in_layer(memory, layer),
        }
    }
}

/// The value at a memory place.
pub(crate) fn value_in_memory(emitter: &mut Emitter<'_>, index: usize, base: Address, offset: i16) -> MemoryOperand {
    in_memory(emitter, index, base, offset, false)
}

fn in_memory(emitter: &mut Emitter<'_>, index: usize, base: Address, offset: i16, shadow: bool) -> MemoryOperand {
    let offset = i64::from(offset);
    let register = match base {
        Address::Operand if shadow => return emitter.shadow_memory(index, offset),
        Address::Operand => return emitter.application_memory(index, offset),
        Address::Stack => Register::RSP,
        Address::Frame => Register::RBP,
        Address::StringSource => Register::RSI,
        Address::StringDestination => Register::RDI,
    };
    let segment = if shadow { Register::GS } else { Register::None };
    let size = if offset == 0 { 0 } else { 8 };
    MemoryOperand::new(register, Register::None, 1, offset, size, false, segment)
}

/// Makes the memory operand of instruction `index` reachable, if it has one: before code that branches, so that it is on all ways.
pub(crate) fn reach_memory(emitter: &mut Emitter<'_>, index: usize) {
    let instruction = &emitter.block().instructions()[index];
    if (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory) {
        emitter.application_memory(index, 0);
    }
}

/// Cuts a span into pieces that a general register can move, in order: offset and size.
pub(super) fn pieces(bytes: u16) -> impl Iterator<Item = (u16, u16)> {
    pieces_of(bytes, 8)
}

/// Cuts a span into pieces of at most `widest` bytes that one register can move, in order: offset and size.
pub(super) fn pieces_of(bytes: u16, widest: u16) -> impl Iterator<Item = (u16, u16)> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let rest = bytes - offset;
        let size = [32, 16, 8, 4, 2, 1].into_iter().find(|&size| size <= rest.min(widest))?;
        let piece = (offset, size);
        offset += size;
        Some(piece)
    })
}

/// `mov register, memory` of so many bytes; shorter ones are extended with zeros. `register` is a 64-bit one.
pub(crate) fn load(emitter: &mut Emitter<'_>, register: Register, memory: MemoryOperand, bytes: u16) {
    let narrow = narrow(register, 4);
    let (code, register) = match bytes {
        1 => (Code::Movzx_r32_rm8, narrow),
        2 => (Code::Movzx_r32_rm16, narrow),
        4 => (Code::Mov_r32_rm32, narrow),
        _ => (Code::Mov_r64_rm64, register),
    };
    emitter.asm().push2m(code, register, memory);
}

/// `mov memory, register` of so many bytes.
pub(crate) fn store(emitter: &mut Emitter<'_>, memory: MemoryOperand, register: Register, bytes: u16) {
    let code = match bytes {
        1 => Code::Mov_rm8_r8,
        2 => Code::Mov_rm16_r16,
        4 => Code::Mov_rm32_r32,
        _ => Code::Mov_rm64_r64,
    };
    let instruction = Instruction::with2(code, memory, narrow(register, bytes));
    emitter.asm().push(&instruction.expect("mov takes memory and register"));
}

/// `mov memory, 0` of so many bytes.
pub(super) fn store_zero(emitter: &mut Emitter<'_>, memory: MemoryOperand, bytes: u16) {
    let code = match bytes {
        1 => Code::Mov_rm8_imm8,
        2 => Code::Mov_rm16_imm16,
        4 => Code::Mov_rm32_imm32,
        _ => Code::Mov_rm64_imm32,
    };
    emitter.asm().push(&Instruction::with2(code, memory, 0).expect("mov takes memory and constant"));
}

/// Makes a span passive.
pub(super) fn clear(emitter: &mut Emitter<'_>, index: usize, span: Span) {
    let shadow = Shadow::of(emitter, index, span.place);
    for layer in layers() {
        for (offset, size) in pieces(span.bytes) {
            let memory = shadow.advanced(offset).in_layer(emitter, layer);
            store_zero(emitter, memory, size);
        }
    }
}

/// The part of a 64-bit general register with so many bytes.
pub(super) fn narrow(register: Register, bytes: u16) -> Register {
    let number = register.number() as u32;
    match bytes {
        1 if number < 4 => Register::AL + number,
        1 => Register::SPL + (number - 4),
        2 => Register::AX + number,
        4 => Register::EAX + number,
        _ => register,
    }
}

/// Whether a span is certainly passive because it lies in memory that the program cannot have written: constants of an
/// executable or library.
pub(super) fn is_constant(instruction: &Instruction, span: Span) -> bool {
    constant_address(instruction, span).is_some()
}

/// The address of a span that [`is_constant`].
pub(crate) fn constant_address(instruction: &Instruction, span: Span) -> Option<u64> {
    let Place::Memory { base: Address::Operand, offset } = span.place else { return None };
    let address = if instruction.is_ip_rel_memory_operand() {
        instruction.ip_rel_memory_address()
    } else if instruction.memory_base() == Register::None && instruction.memory_index() == Register::None {
        instruction.memory_displacement64()
    } else {
        return None;
    };
    if instruction.has_segment_prefix() {
        return None;
    }
    let start = address.wrapping_add_signed(offset.into());
    memory::is_constant(start..start.wrapping_add(span.bytes.into())).then_some(start)
}
