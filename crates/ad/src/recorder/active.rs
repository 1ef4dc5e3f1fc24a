//! The active version: shadow moves as the data does, operations are recorded.

use std::mem::offset_of;

use derivgrind_engine::translate::{Block, Condition, Emitter};
use iced_x86::{Code, Instruction};

use crate::analysis::passivity::Assumptions;
use crate::analysis::{RegisterSet, Step, liveness, passivity};
use crate::ir::{Effect, Format, Ir, Place, Span};

use super::layout::{Fields, field};
use super::places::{clear, is_constant, load, pieces, shadow_of, store};
use super::{ACTIVE_SCRATCH, bits, helpers, real, replay, strings, transfers};

/// Emits the block.
pub(super) fn emit(block: &Block, ir: &Ir, emitter: &mut Emitter<'_>) {
    let instructions = block.instructions();
    let constant = |index: u16, span: Span| is_constant(&instructions[usize::from(index)], span);
    let assumptions = Assumptions { assumed: RegisterSet::NONE, constant: &constant };
    let steps = passivity::remaining(&liveness::observable(&ir.operations), &assumptions);
    if block.flags_live_before(0) == 0 {
        emit_countdown(emitter);
    }
    emitter.reserve(ACTIVE_SCRATCH.general, steps.iter().map(vectors_needed).max().unwrap_or(0));
    let mut cursor_loaded = false;
    let mut steps = steps.iter().peekable();
    for (index, instruction) in instructions.iter().enumerate() {
        emitter.begin(index);
        let mut executed = false;
        while let Some(step) = steps.next_if(|step| usize::from(step.operation.instruction) == index) {
            executed |= emit_effect(emitter, index, step, cursor_loaded);
            cursor_loaded = match step.operation.effect {
                Effect::Real { .. } => true,
                Effect::Clear { .. } | Effect::Copy { .. } => cursor_loaded,
                // These use the cursor's register, or call helpers that move the cursor.
                _ => false,
            };
        }
        if instruction.rflags_read() | instruction.rflags_modified() != 0 {
            emitter.restore_flags();
        }
        if index < block.body_len() && !executed {
            emitter.copy(index);
        }
    }
}

/// Scratch vector registers that an effect takes: saving and restoring them in each block would cost more than many effects do.
fn vectors_needed(step: &Step) -> usize {
    match step.operation.effect {
        Effect::Replay { .. } => ACTIVE_SCRATCH.vector,
        Effect::Real { format, a, b, .. } => {
            std::iter::once(a).chain(b).map(|place| real::vectors_for(format, place)).max().unwrap_or(0)
        }
        _ => 0,
    }
}

/// Once in a while the shadow registers are looked at: if all are zero, the passive version takes over.
fn emit_countdown(emitter: &mut Emitter<'_>) {
    let countdown = Instruction::with2(Code::Sub_rm32_imm8, field(offset_of!(Fields, countdown)), 1);
    emitter.asm().push(&countdown.expect("sub takes memory and constant"));
    emitter.call_helper_if(Condition::Sign, helpers::try_passive, 0);
}

/// Emits an effect before its instruction. Returns whether the instruction itself has been emitted with it.
fn emit_effect(emitter: &mut Emitter<'_>, index: usize, step: &Step, cursor_loaded: bool) -> bool {
    match step.operation.effect {
        Effect::Clear { target } => clear(emitter, index, target),
        Effect::Copy { target, source, bytes } => copy(emitter, index, target, source, bytes),
        Effect::Convert { to, target, source } => convert(emitter, index, to, target, source),
        Effect::Real { operation, format, target, a, b } => {
            let operands = [Some(a), b].map(|place| place.map(|place| real::Operand { place, active: true }));
            let lane = real::Lane { operation, format, target, operands };
            real::emit(emitter, index, &lane.with_passive(step.passive), cursor_loaded);
        }
        Effect::BitTrick { operation, target, a, b } => {
            bits::emit(emitter, index, bits::Trick { operation, target, a, b });
            return true;
        }
        Effect::Replay { data, target, .. } => replay::emit(emitter, index, data, target),
        Effect::RepeatedMove { .. } => {
            emitter.restore_flags();
            strings::repeated_move(emitter, index);
        }
        Effect::RepeatedStore { .. } => {
            emitter.restore_flags();
            strings::repeated_clear(emitter, index);
        }
        Effect::CompareExchange { destination, source, accumulator } => {
            bits::emit_exchange(emitter, index, bits::Exchange { destination, source, accumulator });
            return true;
        }
        Effect::State { transfer } => emitter.call_helper(transfers::helper(transfer), 0),
        Effect::Lost { source } => lost(emitter, index, source),
    }
    false
}

/// Copies shadow in pieces of a general register. Lanes are written one by one, and a vector load of what was just written in parts would
/// wait for all of them to reach the cache.
fn copy(emitter: &mut Emitter<'_>, index: usize, target: Place, source: Place, bytes: u16) {
    let mut parts: Vec<_> = pieces(bytes).collect();
    let overlap = Span::new(target, bytes).overlaps(Span::new(source, bytes));
    if overlap && is_above(target, source) {
        parts.reverse();
    }
    let register = emitter.scratch(0);
    for (offset, size) in parts {
        let from = shadow_of(emitter, index, source.advanced(offset));
        let to = shadow_of(emitter, index, target.advanced(offset));
        load(emitter, register, from, size);
        store(emitter, to, register, size);
    }
}

fn is_above(a: Place, b: Place) -> bool {
    match (a, b) {
        (Place::Register(a), Place::Register(b)) => a > b,
        (Place::Memory { offset: a, .. }, Place::Memory { offset: b, .. }) => a > b,
        _ => false,
    }
}

/// A conversion between formats has derivative 1: the index stays, its form changes.
fn convert(emitter: &mut Emitter<'_>, index: usize, to: Format, target: Place, source: Place) {
    emitter.save_flags(index);
    let (register, other) = (emitter.scratch(0), emitter.scratch(1));
    let from = shadow_of(emitter, index, source);
    let target = shadow_of(emitter, index, target);
    match to {
        Format::Binary64 => {
            load(emitter, register, from, 4);
            real::tag(emitter, register, other);
            store(emitter, target, register, 8);
        }
        Format::Binary32 => {
            load(emitter, register, from, 8);
            real::untag(emitter, register);
            real::check_narrow(emitter, register);
            store(emitter, target, register, 4);
        }
    }
}

fn lost(emitter: &mut Emitter<'_>, index: usize, source: Span) {
    emitter.save_flags(index);
    any_active(emitter, index, &[source]);
    emitter.call_helper_if(Condition::NotEqual, helpers::lost, 0);
}

/// Sets ZF if all of the spans are passive. Uses the first scratch register; the application's flags must be saved.
pub(super) fn any_active(emitter: &mut Emitter<'_>, index: usize, spans: &[Span]) {
    let register = emitter.scratch(0);
    let parts: Vec<(Place, u16)> = spans
        .iter()
        .flat_map(|span| pieces(span.bytes).map(|(offset, size)| (span.place.advanced(offset), size)))
        .collect();
    for (n, &(place, size)) in parts.iter().enumerate() {
        let memory = shadow_of(emitter, index, place);
        match (n, size) {
            (0, _) => load(emitter, register, memory, size),
            (_, 8) => emitter.asm().push2m(Code::Or_r64_rm64, register, memory),
            _ => {
                let other = emitter.scratch(1);
                load(emitter, other, memory, size);
                emitter.asm().push2(Code::Or_r64_rm64, register, other);
            }
        }
    }
    emitter.asm().push2(Code::Test_rm64_r64, register, register);
}
