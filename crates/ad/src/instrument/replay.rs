//! Data movement that depends on data: the instruction is run once more with shadow in place of its data operands.

use derivgrind_engine::memory::SHADOW_STRIDE;
use derivgrind_engine::translate::{Emitter, registers, replace_memory};
use iced_x86::{Code, Instruction, InstructionInfoFactory, MemoryOperand, OpAccess, OpKind, Register};

use crate::ir::{Address, Place, Span};
use crate::shadow;

use super::layout::file;
use super::places::{load, narrow, store};

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
    let mut copy = instruction;
    let mut scratch = Scratch::default();
    for operand in 0..instruction.op_count() {
        let is_data = data & (1 << operand) != 0;
        match instruction.op_kind(operand) {
            OpKind::Register => {
                let register = instruction.op_register(operand);
                if is_data {
                    let substitute = scratch.substitute(emitter, register);
                    load_shadow(emitter, register, substitute);
                    copy.set_op_register(operand, substitute);
                } else if is_written(&instruction, operand) {
                    // The mask of a gather: it must be there for the instruction itself afterwards.
                    let substitute = scratch.substitute(emitter, register);
                    copy_register(emitter, substitute, register);
                    copy.set_op_register(operand, substitute);
                }
            }
            OpKind::Memory if is_data => {
                let memory = emitter.shadow_memory(index, 0);
                copy = replace_memory(&copy, memory);
            }
            OpKind::Memory => {
                let memory = emitter.application_memory(index, 0);
                copy = replace_memory(&copy, memory);
            }
            _ => {}
        }
    }
    emitter.asm().push(&copy);
    if let (Place::Register(offset), OpKind::Register) = (target.place, instruction.op0_kind()) {
        store_shadow(emitter, offset, copy.op0_register(), target.bytes);
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

fn load_shadow(emitter: &mut Emitter<'_>, register: Register, substitute: Register) {
    let Some(range) = shadow::of_register(register) else { return };
    let memory = file(range.offset);
    if register.is_gpr() {
        load(emitter, substitute.full_register(), memory, range.bytes);
    } else {
        emitter.asm().push2m(vector_load(substitute), substitute, memory);
    }
}

fn store_shadow(emitter: &mut Emitter<'_>, offset: u16, register: Register, bytes: u16) {
    let memory = file(offset);
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
    load_shadow(emitter, data, substitute);
    emitter.put_aside(Register::RDI);
    let stride = emitter.scratch(0);
    emitter.asm().constant(stride, SHADOW_STRIDE);
    let moved = MemoryOperand::new(Register::RDI, stride, 1, 0, 0, false, Register::None);
    emitter.asm().lea(Register::RDI, moved);
    let mut copy = *instruction;
    copy.set_op1_register(substitute);
    copy.set_op2_register(mask);
    emitter.asm().push(&copy);
    emitter.bring_back(Register::RDI);
}
