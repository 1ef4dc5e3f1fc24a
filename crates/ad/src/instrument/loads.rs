//! Loads read data before shadow.
//!
//! Stores write shadow before data. So a thread that finds another thread's value finds its shadow, too: the processor keeps loads in order, and
//! stores. (The other way round, a thread that waits for a value would now and then take it with the shadow of what was there before.)

use derivgrind_engine::thread;
use derivgrind_engine::translate::Emitter;
use iced_x86::{Instruction, OpKind, Register};

use crate::ir::{Address, Effect, Operation, Place};

/// Emits a load before its shadow is looked at, and returns whether the instruction is one.
pub(super) fn first<'a>(
    emitter: &mut Emitter<'_>,
    index: usize,
    operations: impl Iterator<Item = &'a Operation>,
) -> bool {
    let instruction = emitter.block().instructions()[index];
    if !is_load(&instruction, operations) {
        return false;
    }
    let loaded = instruction.op0_register().full_register();
    let address = [instruction.memory_base(), instruction.memory_index()];
    if address.iter().all(|used| used.full_register() != loaded) {
        emitter.copy(index);
        return true;
    }
    // The address is gone afterwards. Keeping it costs something, which a program with one thread need not pay. (With a segment register, data are
    // the thread's own.)
    if thread::several() && !instruction.has_segment_prefix() && loaded != Register::RSP {
        emitter.copy_keeping_address(index, loaded);
        return true;
    }
    false
}

/// Whether the instruction does nothing but load a register.
fn is_load<'a>(instruction: &Instruction, operations: impl Iterator<Item = &'a Operation>) -> bool {
    let loads = instruction.op_count() == 2
        && instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Memory
        && instruction.rflags_read() | instruction.rflags_modified() == 0;
    if !loads {
        return false;
    }
    let mut from_memory = false;
    for operation in operations {
        match &operation.effect {
            _ if operation.mask.is_some() => return false,
            Effect::Copy {
                target: Place::Register(_), source: Place::Memory { base: Address::Operand, .. }, ..
            } => from_memory = true,
            Effect::Clear { target } if !target.place.is_memory() => {}
            _ => return false,
        }
    }
    from_memory
}
