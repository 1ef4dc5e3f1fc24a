//! Where the operands of an instruction lie in a [`Machine`].

use std::mem::offset_of;
use std::ops::Range;

use derivgrind_native::{Machine, Pointer};
use iced_x86::{Instruction, InstructionInfoFactory, OpKind, Register};

/// The bytes of an explicit operand.
pub fn operand(instruction: &Instruction, operand: u32) -> Option<Range<usize>> {
    match instruction.op_kind(operand) {
        OpKind::Register => register(instruction.op_register(operand)),
        OpKind::Memory if instruction.is_vsib() => None,
        OpKind::Memory => {
            let within = match instruction.memory_base() {
                Register::None => instruction.memory_displacement64() - crate::client::BASE,
                _ => instruction.memory_displacement64(),
            };
            let start = Pointer::Operand.offset() + within as usize;
            Some(start..start + instruction.memory_size().size())
        }
        OpKind::MemorySegRSI => Some(string(Pointer::Source, instruction)),
        OpKind::MemorySegRDI | OpKind::MemoryESRDI => Some(string(Pointer::Destination, instruction)),
        _ => None,
    }
}

fn string(pointer: Pointer, instruction: &Instruction) -> Range<usize> {
    let start = pointer.offset();
    let repetitions = if repeats(instruction) { MOST_REPETITIONS } else { 1 };
    start..start + repetitions * instruction.memory_size().size()
}

/// How often a string instruction repeats itself at most.
pub const MOST_REPETITIONS: usize = 7;

/// Whether an instruction repeats itself as often as RCX says.
pub fn repeats(instruction: &Instruction) -> bool {
    instruction.has_rep_prefix() || instruction.has_repne_prefix()
}

/// The bytes of a register.
pub fn register(register: Register) -> Option<Range<usize>> {
    let number = register.full_register().number();
    let start = if register.is_gpr() {
        let high = matches!(register, Register::AH | Register::CH | Register::DH | Register::BH);
        offset_of!(Machine, general) + 8 * number + usize::from(high)
    } else if register.is_vector_register() {
        offset_of!(Machine, vector) + 64 * number
    } else if register.is_mm() {
        offset_of!(Machine, mmx) + 8 * number
    } else if register.is_st() {
        offset_of!(Machine, x87) + 16 * number
    } else if register.is_k() {
        offset_of!(Machine, masks) + 8 * number
    } else {
        return None;
    };
    Some(start..start + register.size())
}

/// The operands that an instruction reads.
pub fn read(instruction: &Instruction) -> Vec<Range<usize>> {
    use iced_x86::OpAccess::{CondRead, Read, ReadCondWrite, ReadWrite};
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    let is_read = |operand: &u32| matches!(info.op_access(*operand), Read | CondRead | ReadWrite | ReadCondWrite);
    (0..instruction.op_count()).filter(is_read).filter_map(|k| operand(instruction, k)).collect()
}

/// The registers that an instruction reads, also such as are no operands of it.
pub fn read_registers(instruction: &Instruction) -> Vec<Range<usize>> {
    use iced_x86::OpAccess::{CondRead, Read, ReadCondWrite, ReadWrite};
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(instruction).used_registers();
    let is_read = |access| matches!(access, Read | CondRead | ReadWrite | ReadCondWrite);
    used.iter().filter(|used| is_read(used.access())).filter_map(|used| register(used.register())).collect()
}

/// What an instruction writes, as iced's tables say.
pub fn written(instruction: &Instruction) -> Vec<Range<usize>> {
    use iced_x86::OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    let is_write = |access| matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite);
    let registers = info.used_registers().iter().filter(|used| is_write(used.access()));
    let operands = (0..instruction.op_count()).filter(|&operand| is_write(info.op_access(operand)));
    registers
        .filter_map(|used| register(used.register()))
        .chain(operands.filter_map(|operand| self::operand(instruction, operand)))
        .collect()
}

/// The pointers that the instruction goes by; the registers of the others are as good as any.
pub fn needed(instruction: &Instruction) -> Vec<Pointer> {
    let kinds = || (0..instruction.op_count()).map(|operand| instruction.op_kind(operand));
    let any = |wanted: &[OpKind]| kinds().any(|kind| wanted.contains(&kind));
    let mut needed = vec![Pointer::Stack];
    if any(&[OpKind::Memory]) {
        needed.push(Pointer::Operand);
    }
    if any(&[OpKind::MemorySegRSI]) {
        needed.push(Pointer::Source);
    }
    if any(&[OpKind::MemorySegRDI, OpKind::MemoryESRDI]) {
        needed.push(Pointer::Destination);
    }
    if instruction.is_stack_instruction() {
        needed.push(Pointer::Frame);
    }
    needed
}

/// What can hold data: memory and registers, without flags and control words.
pub fn data(registers: derivgrind_native::Registers) -> Vec<Range<usize>> {
    use derivgrind_native::Registers;
    let vectors = offset_of!(Machine, vector);
    let before_vectors = 0..offset_of!(Machine, vector);
    let mut ranges = Vec::from([before_vectors]);
    match registers {
        Registers::Wide => ranges.push(vectors..offset_of!(Machine, x87)),
        _ => ranges.extend((0..16).map(|number| vectors + 64 * number..vectors + 64 * number + 32)),
    }
    if registers == Registers::Mmx {
        ranges.push(offset_of!(Machine, mmx)..offset_of!(Machine, environment));
    }
    ranges
}

/// A name for people.
pub fn name(offset: usize) -> String {
    let parts = [
        (offset_of!(Machine, environment), usize::MAX, "control"),
        (offset_of!(Machine, mmx), 8, "mm"),
        (offset_of!(Machine, x87), 16, "st"),
        (offset_of!(Machine, masks), 8, "k"),
        (offset_of!(Machine, vector), 64, "vector register "),
        (offset_of!(Machine, general), 8, "general register "),
        (0, usize::MAX, "memory"),
    ];
    let Some((start, size, name)) = parts.into_iter().find(|(start, ..)| *start <= offset) else {
        return String::new();
    };
    let within = offset - start;
    if size == usize::MAX { format!("{name}+{within}") } else { format!("{name}{}+{}", within / size, within % size) }
}
