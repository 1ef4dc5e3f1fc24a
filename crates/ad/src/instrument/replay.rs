//! Data movement that depends on data: the instruction is run once more with shadow in place of its data operands.

use derivgrind_engine::memory::SHADOW_STRIDE;
use derivgrind_engine::translate::{Emitter, registers, replace_memory};
use iced_x86::{Code, Instruction, InstructionInfoFactory, MemoryOperand, OpAccess, OpKind, Register};

use crate::ir::{Address, Place, Span};
use crate::lift::is_write;
use crate::lift::without_signs;
use crate::shadow;

use super::layout::{file, layers};
use super::masked::Elements;
use super::places::{Shadow, load, narrow, store};

/// A second run on shadow.
pub(super) struct Replay<'v> {
    /// Bit k is set if operand k is data; the others keep their meaning.
    pub data: u8,
    pub target: Span,
    /// Vector registers that take the places of the instruction's.
    pub vectors: &'v [Register],
    /// Where the shadow of a register that is written goes, an offset in the shadow register file.
    pub result: Option<u16>,
}

impl<'v> Replay<'v> {
    /// One that writes what the instruction writes.
    pub(super) fn new(data: u8, target: Span, vectors: &'v [Register]) -> Replay<'v> {
        let result = target.register().map(|range| range.offset);
        Replay { data, target, vectors, result }
    }

    /// How many vector registers it takes.
    pub(super) fn vectors_needed(instruction: &Instruction, data: u8) -> usize {
        (0..instruction.op_count())
            .filter(|&operand| instruction.op_kind(operand) == OpKind::Register)
            .filter(|&operand| instruction.op_register(operand).is_vector_register())
            .filter(|&operand| data & (1 << operand) != 0 || is_written(instruction, operand))
            .count()
    }

    /// Emits it, before the instruction itself.
    pub(super) fn emit(&self, emitter: &mut Emitter<'_>, index: usize) {
        // `cmov` reads flags, shifts change them.
        emitter.restore_flags();
        let instruction = emitter.block().instructions()[index];
        if matches!(self.target.place, Place::Memory { base: Address::StringDestination, .. }) {
            masked_byte_store(emitter, &instruction, self.vectors[0]);
            return;
        }
        let changes_flags = instruction.rflags_modified() != 0;
        if changes_flags {
            emitter.save_flags(index);
        }
        let shadow = (0..instruction.op_count())
            .any(|operand| instruction.op_kind(operand) == OpKind::Memory && self.data & (1 << operand) != 0)
            .then(|| MemoryShadow::of(emitter, index, &instruction));
        for layer in layers() {
            self.emit_layer(emitter, index, layer, shadow.as_ref());
        }
    }

    /// The second run on one layer.
    fn emit_layer(&self, emitter: &mut Emitter<'_>, index: usize, layer: usize, shadow: Option<&MemoryShadow>) {
        let instruction = emitter.block().instructions()[index];
        let mut copy = instruction;
        copy.set_code(without_signs(instruction.code()));
        let mut scratch = Scratch { general: 0, vectors: self.vectors.iter() };
        for operand in 0..instruction.op_count() {
            let is_data = self.data & (1 << operand) != 0;
            match instruction.op_kind(operand) {
                OpKind::Register => {
                    let register = instruction.op_register(operand);
                    if is_data {
                        let substitute = scratch.substitute(emitter, register);
                        load_shadow(emitter, layer, register, substitute);
                        copy.set_op_register(operand, substitute);
                    } else if is_written(&instruction, operand) {
                        // The mask of a gather: it must be there for the instruction itself afterwards. A selector that is overwritten.
                        let substitute = scratch.substitute(emitter, register);
                        copy_register(emitter, substitute, register);
                        copy.set_op_register(operand, substitute);
                    }
                }
                OpKind::Memory => {
                    let memory = match shadow {
                        Some(shadow) if is_data => shadow.in_layer(emitter, layer),
                        _ => emitter.application_memory(index, 0),
                    };
                    copy = replace_memory(&copy, memory);
                }
                _ => {}
            }
        }
        // Elements of an overwritten selector are no shadow: they must not stay in the result.
        let merges = self.data & 1 == 0 && !instruction.zeroing_masking() && reads_destination(&instruction);
        let merges = merges && instruction.has_op_mask();
        if merges {
            copy.set_zeroing_masking(true);
        }
        let cleared = clears_mask(&instruction).then(|| instruction.op_mask());
        if let Some(mask) = cleared {
            emitter.put_mask_aside(mask);
        }
        emitter.asm().push(&copy);
        emitter.bring_mask_back();
        if let (Some(offset), OpKind::Register) = (self.result, instruction.op0_kind()) {
            if merges {
                store_elements(emitter, layer, offset, &copy, self.target.bytes);
            } else {
                store_shadow(emitter, layer, offset, copy.op0_register(), self.target.bytes);
            }
        }
    }
}

/// Stores the elements that the instruction's mask selects.
fn store_elements(emitter: &mut Emitter<'_>, layer: usize, offset: u16, copy: &Instruction, bytes: u16) {
    let element = copy.code().op_code().memory_size().info().element_size() as u8;
    let elements = Elements { bytes, element, mask: Some(copy.op_mask().number() as u8) };
    let xmm = registers::xmm(copy.op0_register().number());
    elements.store(emitter, file(layer, offset), xmm);
}

/// Whether the first operand is read, other than for elements that a mask keeps.
fn reads_destination(instruction: &Instruction) -> bool {
    let mut all = *instruction;
    all.set_op_mask(Register::None);
    let mut factory = InstructionInfoFactory::new();
    matches!(factory.info(&all).op_access(0), OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

/// Gathers and scatters clear the mask as they go.
fn clears_mask(instruction: &Instruction) -> bool {
    instruction.has_op_mask() && instruction.memory_index().is_vector_register()
}

/// The shadow of the instruction's memory operand, which may have a vector of indices.
enum MemoryShadow {
    Scalar(Shadow),
    /// The application's operand, and its shadow in the first layer.
    Gathered(MemoryOperand, MemoryOperand),
}

impl MemoryShadow {
    fn of(emitter: &mut Emitter<'_>, index: usize, instruction: &Instruction) -> MemoryShadow {
        if instruction.memory_index().is_vector_register() {
            return MemoryShadow::Gathered(emitter.application_memory(index, 0), emitter.shadow_memory(index, 0));
        }
        MemoryShadow::Scalar(Shadow::of(emitter, index, Place::Memory { base: Address::Operand, offset: 0 }))
    }

    fn in_layer(&self, emitter: &mut Emitter<'_>, layer: usize) -> MemoryOperand {
        match *self {
            MemoryShadow::Scalar(shadow) => shadow.in_layer(emitter, layer),
            MemoryShadow::Gathered(_, first) if layer == 0 => first,
            MemoryShadow::Gathered(operand, first) => {
                // The index register is taken: the distance goes to the base.
                let base = MemoryOperand::new(operand.base, Register::None, 1, 0, 0, false, Register::None);
                let address = emitter.address_in_layer(base, layer);
                let size = if operand.displacement == 0 { 0 } else { 8 };
                MemoryOperand { base: address, displ_size: size, segment_prefix: Register::None, ..first }
            }
        }
    }
}

/// Hands out scratch registers like the ones to be replaced.
struct Scratch<'v> {
    general: usize,
    vectors: std::slice::Iter<'v, Register>,
}

impl Scratch<'_> {
    fn substitute(&mut self, emitter: &Emitter<'_>, register: Register) -> Register {
        if register.is_gpr() {
            self.general += 1;
            return narrow(emitter.scratch(self.general - 1), register.size() as u16);
        }
        let number = self.vectors.next().expect("as many as `vectors_needed` says").number();
        if register.is_zmm() {
            registers::zmm(number)
        } else if register.is_ymm() {
            registers::ymm(number)
        } else {
            registers::xmm(number)
        }
    }
}

fn load_shadow(emitter: &mut Emitter<'_>, layer: usize, register: Register, substitute: Register) {
    let Some(range) = shadow::of_register(register) else { return };
    let memory = file(layer, range.offset);
    if register.is_gpr() {
        load(emitter, substitute.full_register(), memory, range.bytes);
    } else {
        emitter.asm().push2m(vector_load(substitute), substitute, memory);
    }
}

fn store_shadow(emitter: &mut Emitter<'_>, layer: usize, offset: u16, register: Register, bytes: u16) {
    let memory = file(layer, offset);
    if register.is_gpr() {
        store(emitter, memory, register.full_register(), bytes.min(8));
        return;
    }
    let code = match (register.is_ymm(), registers::has_avx()) {
        _ if register.is_zmm() => Code::EVEX_Vmovups_zmmm512_k1z_zmm,
        (true, _) => Code::VEX_Vmovups_ymmm256_ymm,
        (false, true) => Code::VEX_Vmovups_xmmm128_xmm,
        (false, false) => Code::Movups_xmmm128_xmm,
    };
    emitter.asm().push(&Instruction::with2(code, memory, register).expect("move takes memory and register"));
}

fn copy_register(emitter: &mut Emitter<'_>, to: Register, from: Register) {
    if to.is_gpr() {
        emitter.asm().push2(Code::Mov_r64_rm64, to.full_register(), from.full_register());
    } else if from.number() >= 16 || from.is_zmm() {
        let (to, from) = (registers::zmm(to.number()), registers::zmm(from.number()));
        emitter.asm().push2(Code::EVEX_Vmovups_zmm_k1z_zmmm512, to, from);
    } else {
        emitter.asm().push2(vector_load(to), to, from);
    }
}

fn vector_load(register: Register) -> Code {
    match (register.is_ymm(), registers::has_avx()) {
        _ if register.is_zmm() => Code::EVEX_Vmovups_zmm_k1z_zmmm512,
        (true, _) => Code::VEX_Vmovups_ymm_ymmm256,
        (false, true) => Code::VEX_Vmovups_xmm_xmmm128,
        (false, false) => Code::Movups_xmm_xmmm128,
    }
}

fn is_written(instruction: &Instruction, operand: u32) -> bool {
    let mut factory = InstructionInfoFactory::new();
    is_write(factory.info(instruction).op_access(operand))
}

/// `maskmovdqu`: the destination is implied by RDI.
fn masked_byte_store(emitter: &mut Emitter<'_>, instruction: &Instruction, substitute: Register) {
    let (data, mask) = (instruction.op1_register(), instruction.op2_register());
    // RAX may be a scratch register already.
    let distance = Register::RAX;
    let taken = !emitter.is_scratch(distance);
    emitter.put_aside(Register::RDI);
    if taken {
        emitter.put_aside(distance);
    }
    emitter.asm().constant(distance, SHADOW_STRIDE);
    let mut copy = *instruction;
    copy.set_op1_register(substitute);
    copy.set_op2_register(mask);
    for layer in layers() {
        load_shadow(emitter, layer, data, substitute);
        // One layer further on.
        let moved = MemoryOperand::new(Register::RDI, distance, 1, 0, 0, false, Register::None);
        emitter.asm().lea(Register::RDI, moved);
        emitter.asm().push(&copy);
    }
    if taken {
        emitter.bring_back(distance);
    }
    emitter.bring_back(Register::RDI);
    emitter.load_distances();
}
