//! Data movement that depends on data: the instruction is run once more with shadow in place of its data operands.

use derivgrind_engine::memory::SHADOW_STRIDE;
use derivgrind_engine::translate::{Emitter, registers, replace_memory};
use iced_x86::{Code, Instruction, InstructionInfoFactory, MemoryOperand, OpAccess, OpKind, Register};

use crate::ir::{Address, Place, Span};
use crate::shadow;

use super::layout::{file, layers};
use super::places::{Shadow, load, narrow, store};

/// Emits the second run, before the instruction itself. Bit k of `data` is set if operand k is data; the others keep their meaning.
pub(super) fn emit(emitter: &mut Emitter<'_>, index: usize, data: u8, target: Span) {
    // `cmov` reads flags, shifts change them.
    emitter.restore_flags();
    let instruction = emitter.block().instructions()[index];
    if matches!(target.place, Place::Memory { base: Address::StringDestination, .. }) {
        masked_byte_store(emitter, &instruction);
        return;
    }
    let changes_flags = instruction.rflags_modified() != 0;
    if changes_flags {
        emitter.save_flags(index);
    }
    let shadow = (0..instruction.op_count())
        .any(|operand| instruction.op_kind(operand) == OpKind::Memory && data & (1 << operand) != 0)
        .then(|| MemoryShadow::of(emitter, index, &instruction));
    for layer in layers() {
        emit_layer(emitter, index, data, target, layer, shadow.as_ref());
    }
}

/// The second run on one layer.
fn emit_layer(
    emitter: &mut Emitter<'_>,
    index: usize,
    data: u8,
    target: Span,
    layer: usize,
    shadow: Option<&MemoryShadow>,
) {
    let instruction = emitter.block().instructions()[index];
    let mut copy = instruction;
    let mut scratch = Scratch::default();
    for operand in 0..instruction.op_count() {
        let is_data = data & (1 << operand) != 0;
        match instruction.op_kind(operand) {
            OpKind::Register => {
                let register = instruction.op_register(operand);
                if is_data {
                    let substitute = scratch.substitute(emitter, register);
                    load_shadow(emitter, layer, register, substitute);
                    copy.set_op_register(operand, substitute);
                } else if is_written(&instruction, operand) {
                    // The mask of a gather: it must be there for the instruction itself afterwards.
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
    emitter.asm().push(&copy);
    if let (Place::Register(offset), OpKind::Register) = (target.place, instruction.op0_kind()) {
        store_shadow(emitter, layer, offset, copy.op0_register(), target.bytes);
    }
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
#[derive(Default)]
struct Scratch {
    general: usize,
    vector: usize,
}

impl Scratch {
    fn substitute(&mut self, emitter: &Emitter<'_>, register: Register) -> Register {
        if register.is_gpr() {
            self.general += 1;
            narrow(emitter.scratch(self.general - 1), register.size() as u16)
        } else {
            self.vector += 1;
            let xmm = emitter.scratch_vector(self.vector - 1);
            if register.is_ymm() { registers::ymm(xmm.number()) } else { xmm }
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
        (true, _) => Code::VEX_Vmovups_ymmm256_ymm,
        (false, true) => Code::VEX_Vmovups_xmmm128_xmm,
        (false, false) => Code::Movups_xmmm128_xmm,
    };
    emitter.asm().push(&Instruction::with2(code, memory, register).expect("move takes memory and register"));
}

fn copy_register(emitter: &mut Emitter<'_>, to: Register, from: Register) {
    if to.is_gpr() {
        emitter.asm().push2(Code::Mov_r64_rm64, to.full_register(), from.full_register());
    } else {
        emitter.asm().push2(vector_load(to), to, from);
    }
}

fn vector_load(register: Register) -> Code {
    match (register.is_ymm(), registers::has_avx()) {
        (true, _) => Code::VEX_Vmovups_ymm_ymmm256,
        (false, true) => Code::VEX_Vmovups_xmm_xmmm128,
        (false, false) => Code::Movups_xmm_xmmm128,
    }
}

fn is_written(instruction: &Instruction, operand: u32) -> bool {
    let mut factory = InstructionInfoFactory::new();
    !matches!(
        factory.info(instruction).op_access(operand),
        OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
    )
}

/// `maskmovdqu`: the destination is implied by RDI.
fn masked_byte_store(emitter: &mut Emitter<'_>, instruction: &Instruction) {
    let (data, mask) = (instruction.op1_register(), instruction.op2_register());
    let substitute = emitter.scratch_vector(0);
    emitter.put_aside(Register::RDI);
    let distance = emitter.scratch(0);
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
    emitter.bring_back(Register::RDI);
}
