//! Instructions with random operands for any encodable opcode.

use iced_x86::{Code, EncodingKind, FlowControl, Instruction, OpCodeOperandKind, OpKind, Register, RoundingControl};

use crate::Random;

/// An instruction of this form with random operands, in memory or not where there is a choice. Memory operands are
/// `[rbx + displacement]`, and lie in [`Machine::data`](crate::Machine::data). `None` for forms with operands that make no sense in a test
/// (control registers, branch targets, far pointers).
pub fn instruction(code: Code, in_memory: bool, random: &mut Random) -> Option<Instruction> {
    let info = code.op_code();
    if !info.is_instruction() || !info.mode64() || info.must_be_cpl0() || code.flow_control() != FlowControl::Next {
        return None;
    }
    let mut instruction = Instruction::default();
    instruction.set_code(code);
    for (operand, &kind) in info.op_kinds().iter().enumerate() {
        set_operand(&mut instruction, operand as u32, kind, in_memory, random)?;
    }
    if info.encoding() == EncodingKind::EVEX {
        set_attributes(&mut instruction, random);
    }
    Some(instruction)
}

/// Mask, broadcast and rounding of an EVEX encoding.
fn set_attributes(instruction: &mut Instruction, random: &mut Random) {
    let info = instruction.code().op_code();
    let memory = (0..instruction.op_count()).find(|&operand| instruction.op_kind(operand) == OpKind::Memory);
    if info.can_use_op_mask_register() && (info.require_op_mask_register() || random.below(3) > 0) {
        instruction.set_op_mask(Register::K1 + random.below(7) as u32);
        let zeroing = info.can_use_zeroing_masking() && memory != Some(0);
        instruction.set_zeroing_masking(zeroing && random.below(2) == 0);
    }
    if info.can_broadcast() && memory.is_some() {
        instruction.set_is_broadcast(random.below(2) == 0);
    }
    if memory.is_none() && info.can_use_rounding_control() && random.below(2) == 0 {
        instruction.set_rounding_control(RoundingControl::RoundUp);
    } else if memory.is_none() && info.can_suppress_all_exceptions() {
        instruction.set_suppress_all_exceptions(random.below(2) == 0);
    }
}

/// [`instruction`] with memory operands half of the time.
pub fn random_instruction(code: Code, random: &mut Random) -> Option<Instruction> {
    let in_memory = random.below(2) == 0;
    instruction(code, in_memory, random)
}

/// Largest element of an index register of gathers, so that it stays within the data.
pub const INDEX_LIMIT: u64 = 48;

fn set_operand(
    instruction: &mut Instruction,
    operand: u32,
    kind: OpCodeOperandKind,
    memory: bool,
    random: &mut Random,
) -> Option<()> {
    use OpCodeOperandKind::*;
    let general = |first: Register, random: &mut Random| {
        // Neither RSP nor RBX, which has the address of memory operands.
        let numbers = [0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        first + numbers[random.below(numbers.len() as u64) as usize]
    };
    let byte = |random: &mut Random| {
        let registers = [
            Register::AL,
            Register::CL,
            Register::DL,
            Register::SIL,
            Register::R8L,
            Register::R15L,
            Register::AH,
            Register::DH,
        ];
        registers[random.below(8) as usize]
    };
    let evex = instruction.code().encoding() == EncodingKind::EVEX;
    let vector = |first: Register, random: &mut Random| first + random.below(if evex { 32 } else { 16 }) as u32;
    let mask = |random: &mut Random| Register::K0 + random.below(8) as u32;
    let mmx = |random: &mut Random| Register::MM0 + random.below(8) as u32;
    let register = match kind {
        mem | mem_offs => return set_memory(instruction, operand, random),
        mem_vsib32x | mem_vsib64x => return set_indexed(instruction, operand, Register::XMM0, random),
        mem_vsib32y | mem_vsib64y => return set_indexed(instruction, operand, Register::YMM0, random),
        mem_vsib32z | mem_vsib64z => return set_indexed(instruction, operand, Register::ZMM0, random),
        st0 => Register::ST0,
        sti_opcode => Register::ST1 + random.below(5) as u32,
        r8_or_mem | r16_or_mem | r32_or_mem | r32_or_mem_mpx | r64_or_mem | r64_or_mem_mpx | mm_or_mem | xmm_or_mem
        | ymm_or_mem | zmm_or_mem | k_or_mem
            if memory =>
        {
            return set_memory(instruction, operand, random);
        }
        r8_or_mem | r8_reg | r8_opcode => byte(random),
        r16_or_mem | r16_reg | r16_reg_mem | r16_rm | r16_opcode => general(Register::AX, random),
        r32_or_mem | r32_or_mem_mpx | r32_reg | r32_reg_mem | r32_rm | r32_opcode | r32_vvvv => {
            general(Register::EAX, random)
        }
        r64_or_mem | r64_or_mem_mpx | r64_reg | r64_reg_mem | r64_rm | r64_opcode | r64_vvvv => {
            general(Register::RAX, random)
        }
        mm_or_mem | mm_reg | mm_rm => mmx(random),
        xmm_or_mem | xmm_reg | xmm_rm | xmm_vvvv | xmm_is4 => vector(Register::XMM0, random),
        ymm_or_mem | ymm_reg | ymm_rm | ymm_vvvv | ymm_is4 => vector(Register::YMM0, random),
        zmm_or_mem | zmm_reg | zmm_rm | zmm_vvvv => vector(Register::ZMM0, random),
        k_or_mem | k_reg | k_rm | k_vvvv => mask(random),
        al => Register::AL,
        cl => Register::CL,
        ax => Register::AX,
        dx => Register::DX,
        eax => Register::EAX,
        rax => Register::RAX,
        imm8 | imm8_const_1 => {
            instruction.try_set_op_kind(operand, OpKind::Immediate8).ok()?;
            // Byte shifts and selections are as frequent as anything else.
            let value = if random.below(2) == 0 { random.below(17) } else { random.below(256) };
            instruction.set_immediate8(if kind == imm8_const_1 { 1 } else { value as u8 });
            return Some(());
        }
        imm16 => {
            instruction.try_set_op_kind(operand, OpKind::Immediate16).ok()?;
            instruction.set_immediate16(random.bits() as u16);
            return Some(());
        }
        imm32 => {
            instruction.try_set_op_kind(operand, OpKind::Immediate32).ok()?;
            instruction.set_immediate32(random.bits() as u32);
            return Some(());
        }
        imm64 => {
            instruction.try_set_op_kind(operand, OpKind::Immediate64).ok()?;
            instruction.set_immediate64(random.bits());
            return Some(());
        }
        imm8sex16 | imm8sex32 | imm8sex64 | imm32sex64 => {
            let kind = match kind {
                imm8sex16 => OpKind::Immediate8to16,
                imm8sex32 => OpKind::Immediate8to32,
                imm8sex64 => OpKind::Immediate8to64,
                _ => OpKind::Immediate32to64,
            };
            instruction.try_set_op_kind(operand, kind).ok()?;
            instruction.set_immediate_i64(operand, i64::from(random.bits() as i8));
            return Some(());
        }
        seg_rSI | seg_rDI | es_rDI => {
            let kind = match kind {
                seg_rSI => OpKind::MemorySegRSI,
                seg_rDI => OpKind::MemorySegRDI,
                _ => OpKind::MemoryESRDI,
            };
            instruction.try_set_op_kind(operand, kind).ok()?;
            return Some(());
        }
        _ => return Option::None,
    };
    let gathers = instruction.is_vsib();
    let register = if gathers
        && [instruction.op0_register(), instruction.memory_index()].map(number).contains(&number(register))
    {
        // The mask of a gather is a third register.
        let first = register - register.number() as u32;
        let taken = [instruction.op0_register(), instruction.memory_index()].map(number);
        first + (0..16).find(|candidate| !taken.contains(&(*candidate as usize)))?
    } else {
        register
    };
    instruction.try_set_op_kind(operand, OpKind::Register).ok()?;
    instruction.try_set_op_register(operand, register).ok()?;
    Some(())
}

fn number(register: Register) -> usize {
    register.number()
}

/// A memory operand with a vector of indices. Neither the destination nor the mask may be the index register.
fn set_indexed(instruction: &mut Instruction, operand: u32, first: Register, random: &mut Random) -> Option<()> {
    set_memory(instruction, operand, random)?;
    let taken = instruction.op0_register();
    let free: Vec<u32> = (0..16).filter(|&number| taken.number() != number as usize).collect();
    instruction.set_memory_index(first + random.pick(&free));
    instruction.set_memory_index_scale(random.pick(&[1, 2, 4, 8]));
    Some(())
}

fn set_memory(instruction: &mut Instruction, operand: u32, random: &mut Random) -> Option<()> {
    instruction.try_set_op_kind(operand, OpKind::Memory).ok()?;
    instruction.set_memory_base(Register::RBX);
    instruction.set_memory_displacement64(64 * random.below(3));
    instruction.set_memory_displ_size(1);
    Some(())
}
