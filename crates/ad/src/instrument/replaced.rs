//! One or two bytes of memory that are replaced: they can be a part of a real number, of which the mode wants to see what it was and what it becomes
//! ([`Mode::REPLACED`]).
//!
//! The mode is asked if anything is active about it: the bytes that come, those that were there, or others of the aligned four that they are among. So it sees each step in which a
//! number is put together from bytes, or becomes a constant, also where a byte of its shadow is zero.

use derivgrind_engine::context::Context;
use derivgrind_engine::memory::user;
use derivgrind_engine::translate::{Condition, Emitter, HelperNext, Label};
use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::bits::{memory_address, operand_address, payload_for, read_shadow, site};
use super::layout::{MOST_LAYERS, layers};
use super::places::{Shadow, reach_memory, value_in_memory};
use super::{Mode, Restoring, Site, Thread};
use crate::ir::{Address, Place, Span};

/// One or two bytes that have been replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaced {
    /// Address of the first one.
    pub address: u64,
    /// How many.
    pub bytes: u16,
    /// What was in the aligned four bytes that the first one is among, and in the next four.
    pub before: [u32; 2],
    /// The shadow that comes with the new bytes, in each layer.
    pub shadows: [u16; MOST_LAYERS],
}

/// What the mode does then: it gives memory its shadow.
pub(crate) type Replacing = fn(&mut Thread<'_>, &Replaced);

/// Where bytes go, and where they come from if they are no constants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Store {
    pub target: Span,
    pub source: Option<Place>,
}

/// Whether an instruction replaces such bytes in memory, and they are this span. What is below the stack pointer is no number any more.
pub(super) fn is_store<M: Mode>(instruction: &Instruction, target: Span) -> bool {
    M::REPLACED.is_some()
        && target.bytes <= 2
        && matches!(target.place, Place::Memory { base, .. } if base != Address::Stack)
        && instruction.op_count() != 0
        && instruction.memory_size().size() == usize::from(target.bytes)
}

/// Emits an instruction that is such a store. Its shadow goes with it. One scratch register is used.
pub(super) fn emit<M: Mode>(emitter: &mut Emitter<'_>, index: usize, what: Store, restoring: Option<Restoring>) {
    let Store { target, source } = what;
    let Place::Memory { base, offset } = target.place else { return };
    let payload = payload_for(emitter, index, what);
    reach_memory(emitter, index);
    let operand = value_in_memory(emitter, index, base, offset);
    emitter.save_flags(index);
    let join = emitter.asm().label();
    let cold = emitter.cold(move |emitter| {
        emitter.restore_flags();
        emitter.call_helper_here(before, payload);
        emitter.copy(index);
        emitter.call_helper_here(after::<M>, payload);
        if let Some(restoring) = restoring {
            restoring(emitter);
        }
        emitter.asm().jump(join);
    });
    if let Some(source) = source {
        any_active(emitter, index, Span::new(source, target.bytes), cold);
    }
    // This one comes before the other four: if there is no such memory, the fault is at this address.
    any_active(emitter, index, target, cold);
    let address = emitter.scratch(0);
    emitter.asm().lea(address, operand);
    let align = Instruction::with2(Code::And_rm64_imm8, address, -4).expect("and takes register and constant");
    emitter.asm().push(&align);
    let around = |segment| MemoryOperand::new(address, Register::None, 1, 0, 0, false, segment);
    let layered = emitter.layered(around(Register::None), around(Register::GS));
    for layer in layers() {
        let memory = emitter.in_layer(&layered, layer);
        jump_if_active(emitter, memory, 4, cold);
    }
    emitter.restore_flags();
    emitter.copy(index);
    emitter.asm().bind(join);
}

/// Jumps if one or two bytes are active in any layer.
fn any_active(emitter: &mut Emitter<'_>, index: usize, span: Span, to: Label) {
    let shadow = Shadow::of(emitter, index, span.place);
    for layer in layers() {
        let memory = shadow.in_layer(emitter, layer);
        jump_if_active(emitter, memory, span.bytes, to);
    }
}

fn jump_if_active(emitter: &mut Emitter<'_>, memory: MemoryOperand, bytes: u16, to: Label) {
    let compare = match bytes {
        1 => Code::Cmp_rm8_imm8,
        2 => Code::Cmp_rm16_imm8,
        _ => Code::Cmp_rm32_imm8,
    };
    emitter.asm().push(&Instruction::with2(compare, memory, 0).expect("cmp takes memory and constant"));
    emitter.asm().jump_if(Condition::NotEqual, to);
}

fn before(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `emit` pairs this helper with its site.
    let Site { what: Store { target, source }, instruction } = unsafe { site::<Store>(payload) };
    let operand = operand_address(instruction, context).unwrap_or(0);
    let mut thread = Thread::new(context);
    let Place::Memory { base, offset } = target.place else { return HelperNext::Resume };
    let address = memory_address(thread.context(), base, operand).wrapping_add_signed(offset.into());
    let first = address & !3;
    thread.fields().bit_address = address;
    // What cannot be read raises its fault in the instruction itself; the next four bytes need not be there.
    let halves = [first, first.wrapping_add(4)].map(|half| user::read::<u32>(half).unwrap_or(0));
    thread.fields().bit_values[0][..2].copy_from_slice(&halves.map(u64::from));
    for layer in layers() {
        let shadow =
            source.map_or(0, |source| read_shadow(&thread, layer, Span::new(source, target.bytes), operand)[0]);
        thread.fields().bit_shadows[layer][0][0] = shadow;
    }
    HelperNext::Resume
}

fn after<M: Mode>(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `emit` pairs this helper with its site.
    let Site { what: Store { target, .. }, .. } = unsafe { site::<Store>(payload) };
    let mut thread = Thread::new(context);
    let fields = thread.fields();
    let replaced = Replaced {
        address: fields.bit_address,
        bytes: target.bytes,
        before: [0, 1].map(|half| fields.bit_values[0][half] as u32),
        shadows: fields.bit_shadows.map(|shadows| shadows[0][0] as u16),
    };
    if let Some(replacing) = M::REPLACED {
        replacing(&mut thread, &replaced);
    }
    HelperNext::Resume
}
