//! Memory operands: of the context, of the application, and of its shadow.

use iced_x86::{Code, Instruction, MemoryOperand, OpKind, Register};

use super::registers::{RegisterSet, general};
use crate::context;

/// `fs:[context + offset]`
pub fn context_memory(offset: usize) -> MemoryOperand {
    context_indexed(offset, Register::None, 1)
}

/// `fs:[context + offset + index * scale]`
pub fn context_indexed(offset: usize, index: Register, scale: u32) -> MemoryOperand {
    let displacement = context::fs_offset() + offset as i64;
    MemoryOperand::new(Register::None, index, scale, displacement, 8, false, Register::FS)
}

/// Plain memory without a segment prefix.
pub fn memory(base: Register, displacement: i64) -> MemoryOperand {
    let size = if displacement == 0 { 0 } else { 8 };
    MemoryOperand::new(base, Register::None, 1, displacement, size, false, Register::None)
}

/// How an explicit memory operand of an application instruction is reached from cached code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// With the same registers; rip-relative ones as an absolute 32-bit address.
    Direct,
    /// Through a register that holds this constant instead of the base.
    Constant(u64),
    /// Through a register that holds a segment base (its offset in the context) plus the operand's own base.
    Segment(usize),
}

/// Whether the instruction has an explicit memory operand.
pub(super) fn has_memory(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory)
}

pub(super) fn reach(instruction: &Instruction) -> Reach {
    match instruction.segment_prefix() {
        // `lea` takes no notice of the segment.
        _ if instruction.mnemonic() == iced_x86::Mnemonic::Lea && !instruction.is_ip_rel_memory_operand() => {
            Reach::Direct
        }
        Register::FS => Reach::Segment(std::mem::offset_of!(context::Context, fs_base)),
        Register::GS => Reach::Segment(std::mem::offset_of!(context::Context, gs_base)),
        _ if instruction.is_ip_rel_memory_operand() => {
            let address = instruction.ip_rel_memory_address();
            if i32::try_from(address as i64).is_ok() { Reach::Direct } else { Reach::Constant(address) }
        }
        _ if has_absolute_address(instruction)
            && i32::try_from(instruction.memory_displacement64() as i64).is_err() =>
        {
            Reach::Constant(instruction.memory_displacement64())
        }
        _ => Reach::Direct,
    }
}

/// Whether the address of the memory operand is in the instruction, without any register or segment. Only `mov al/ax/eax/rax, [address]`
/// and its reverse have room for one that does not fit into 32 bits.
pub(super) fn has_absolute_address(instruction: &Instruction) -> bool {
    instruction.memory_base() == Register::None
        && instruction.memory_index() == Register::None
        && !matches!(instruction.segment_prefix(), Register::FS | Register::GS)
}

/// The instruction's memory operand, its base replaced by `base` if that is given (then its own base is contained in it).
pub(super) fn operand_with(
    instruction: &Instruction,
    base: Option<Register>,
    extra: i64,
    segment: Register,
) -> MemoryOperand {
    let whole_address_in_base = instruction.is_ip_rel_memory_operand()
        || base.is_some() && reach(instruction) == Reach::Constant(instruction.memory_displacement64());
    let (own_base, displacement) = if whole_address_in_base {
        match base {
            Some(_) => (Register::None, 0),
            None => (Register::None, instruction.ip_rel_memory_address() as i64),
        }
    } else {
        let displacement = instruction.memory_displacement64() as i64;
        (instruction.memory_base(), displacement)
    };
    let base = base.unwrap_or(own_base);
    let displacement = displacement.wrapping_add(extra);
    // 32-bit address registers keep 32-bit address arithmetic; the displacement then has 4 bytes.
    let narrow = is_32bit(own_base) || is_32bit(instruction.memory_index());
    let size = match (narrow, displacement) {
        (_, 0) if base != Register::None => 0,
        (true, _) => 4,
        (false, _) => 8,
    };
    let displacement = if narrow { i64::from(displacement as i32) } else { displacement };
    MemoryOperand::new(
        base,
        instruction.memory_index(),
        instruction.memory_index_scale(),
        displacement,
        size,
        false,
        segment,
    )
}

fn is_32bit(register: Register) -> bool {
    register.is_gpr32()
}

/// Rewrites `instruction` to use `operand` in place of its explicit memory operand.
pub fn replace_memory(instruction: &Instruction, operand: MemoryOperand) -> Instruction {
    let mut copy = *instruction;
    copy.set_memory_base(operand.base);
    copy.set_memory_index(operand.index);
    copy.set_memory_index_scale(operand.scale);
    copy.set_memory_displacement64(operand.displacement as u64);
    copy.set_memory_displ_size(operand.displ_size);
    copy.set_segment_prefix(operand.segment_prefix);
    copy
}

/// A general register that the instruction does not touch, to hold part of an address.
pub(super) fn untouched_general(used: RegisterSet) -> Register {
    general(used.free_general().next().expect("no instruction uses all general registers"))
}

/// If the instruction overwrites a whole general register that its address does not need, that register: it can hold part of the
/// address until then.
pub(super) fn overwritten_destination(instruction: &Instruction) -> Option<Register> {
    let destination = match instruction.code() {
        Code::Mov_r64_rm64
        | Code::Movsxd_r64_rm32
        | Code::Movzx_r64_rm16
        | Code::Movzx_r64_rm8
        | Code::Mov_r32_rm32
        | Code::Movzx_r32_rm8
        | Code::Movzx_r32_rm16 => instruction.op0_register().full_register(),
        _ => return None,
    };
    let free = destination != instruction.memory_base().full_register()
        && destination != instruction.memory_index().full_register()
        && destination != Register::RSP;
    free.then_some(destination)
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Encoder};

    use super::*;

    /// `instruction` with `operand`, encoded and decoded.
    fn replaced(instruction: &Instruction, operand: MemoryOperand) -> Instruction {
        let mut encoder = Encoder::new(64);
        encoder.encode(&replace_memory(instruction, operand), 0x1000).expect("it can be encoded");
        Decoder::with_ip(64, &encoder.take_buffer(), 0x1000, DecoderOptions::NONE).decode()
    }

    #[test]
    fn evex_encodings_keep_mask_broadcast_and_rounding_with_another_operand() {
        // vaddpd zmm17{k3}{z}, zmm18, [rdi+8]{1to8}
        let broadcast = [0x62, 0xe1, 0xed, 0xd3, 0x58, 0x4f, 0x01];
        let instruction = Decoder::new(64, &broadcast, DecoderOptions::NONE).decode();
        assert_eq!(instruction.memory_displacement64(), 8);
        for (operand, displacement) in [
            (operand_with(&instruction, None, 0, Register::GS), 8u64),
            (operand_with(&instruction, None, 1024, Register::GS), 1032),
            (operand_with(&instruction, Some(Register::R9), 3, Register::None), 11),
        ] {
            let copy = replaced(&instruction, operand);
            assert_eq!(copy.code(), instruction.code());
            assert_eq!((copy.op_mask(), copy.zeroing_masking(), copy.is_broadcast()), (Register::K3, true, true));
            assert_eq!((copy.op0_register(), copy.op1_register()), (Register::ZMM17, Register::ZMM18));
            assert_eq!((copy.memory_displacement64(), copy.segment_prefix()), (displacement, operand.segment_prefix));
        }
    }

    #[test]
    fn gathers_keep_their_vector_of_indices() {
        // vgatherdpd zmm1{k1}, [rdi+ymm2*8+64]
        let gather = [0x62, 0xf2, 0xfd, 0x49, 0x92, 0x4c, 0xd7, 0x08];
        let instruction = Decoder::new(64, &gather, DecoderOptions::NONE).decode();
        let copy = replaced(&instruction, operand_with(&instruction, Some(Register::R15), 0, Register::GS));
        assert_eq!(
            (copy.memory_base(), copy.memory_index(), copy.memory_index_scale()),
            (Register::R15, Register::YMM2, 8)
        );
        assert_eq!((copy.memory_displacement64(), copy.op_mask()), (64, Register::K1));
    }
}
