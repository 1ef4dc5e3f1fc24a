//! The active version: shadow moves as the data does, operations are differentiated. The suspended version: results of operations are passive.

use std::mem::offset_of;

use derivgrind_engine::tool::Version;
use derivgrind_engine::translate::{Block, Condition, Emitter, registers};
use iced_x86::{Code, FlowControl, Instruction, OpKind};

use crate::analysis::passivity::Assumptions;
use crate::analysis::{RegisterSet, Step, liveness, passivity};
use crate::ir::{Effect, Ir, Mask, Place, Span};
use crate::shadow;

use super::layout::{Fields, field, kept, layers};
use super::places::{Shadow, clear, is_constant, load, pieces, pieces_of, store};
use super::replay::Replay;
use super::{
    Mode, Restoring, SUSPENDED, atomic, bits, helpers, loads, masked, parts, replaced, strings, transfers, x87,
};

/// So many operations in a block make up for saving and restoring more registers.
const SEVERAL: usize = 6;

/// Emits the block.
pub(super) fn emit<M: Mode>(block: &Block, ir: &Ir, version: Version, emitter: &mut Emitter<'_>) {
    let instructions = block.instructions();
    let constant = |index: u16, span: Span| is_constant(&instructions[usize::from(index)], span);
    let assumptions = Assumptions { assumed: RegisterSet::NONE, constant: &constant };
    let mut steps = passivity::remaining(&liveness::observable(&ir.operations), &assumptions);
    if version == SUSPENDED {
        steps.iter_mut().for_each(suspend);
    } else if block.flags_live_before(0) == 0 {
        emit_countdown(emitter);
    }
    let vectors = (0..steps.len()).map(|first| vectors_needed::<M>(&steps[first..])).max().unwrap_or(0);
    let generals = steps.iter().map(generals_needed::<M>).max().unwrap_or(0);
    if vectors > 0 && emitter.can_borrow_avx512() && !steps.iter().any(is_replay) {
        emitter.borrow_avx512();
        emitter.reserve_with_layers(generals, 0);
    } else {
        let arithmetic = steps.iter().filter(|step| matches!(step.operation.effect, Effect::Real { .. })).count();
        let spare = if arithmetic >= SEVERAL { M::SPARE_VECTORS } else { 0 };
        let vectors = (vectors + spare).min(block.used().free_vector().count()).min(Emitter::MOST_VECTORS);
        emitter.reserve_with_layers(generals, vectors);
    }
    let mut carried = M::Carried::default();
    let mut steps = &steps[..];
    for (index, instruction) in instructions.iter().enumerate() {
        emitter.begin(index);
        let mut executed = false;
        let count = steps.partition_point(|step| usize::from(step.operation.instruction) <= index);
        let (mut own, rest) = steps.split_at(count);
        steps = rest;
        if !stays(instruction) || own.iter().any(|step| step.operation.mask.is_some()) {
            M::settle(emitter, &mut carried);
        }
        if own.iter().any(|step| step.operation.mask.is_some()) {
            // Masks take the carried registers.
            carried = M::Carried::default();
            if let Some(mask) = own.iter().find_map(expanded_mask) {
                masked::expand(emitter, mask);
            }
        }
        executed |= loads::first(emitter, index, own.iter().map(|step| &step.operation));
        while let Some(step) = own.first() {
            let mut done = 1;
            if step.operation.after && !executed {
                execute(emitter, index);
                executed = true;
            }
            if looks_at_file(step) {
                M::settle(emitter, &mut carried);
                if step.operation.mask.is_some() {
                    // These use scratch registers.
                    carried = M::Carried::default();
                }
            }
            match step.operation.effect {
                _ if !executed
                    && own.len() == 1
                    && let Some(store) = replacing::<M>(instruction, step) =>
                {
                    // A helper may look at any of them, and takes their registers.
                    M::settle(emitter, &mut carried);
                    let restoring = restoring::<M>(&mut carried);
                    replaced::emit::<M>(emitter, index, store, restoring);
                    executed = true;
                }
                Effect::Real { .. } | Effect::Convert { .. } => {
                    done = M::arithmetic(emitter, index, own, &mut carried).max(1);
                }
                Effect::Clear { target } => {
                    M::overwrite(emitter, &mut carried, target);
                    match step.operation.mask {
                        None if parts::is_part::<M>(instruction, target) => {
                            let restoring = restoring::<M>(&mut carried);
                            parts::clear::<M>(emitter, index, target, restoring);
                        }
                        None => clear(emitter, index, target),
                        Some(mask) => done = clear_elements(emitter, index, own, mask),
                    }
                }
                Effect::Copy { target, source, bytes } if let Some(mask) = step.operation.mask => {
                    masked::copy(emitter, index, Span::new(target, bytes), source, mask);
                }
                Effect::Copy { target, source, bytes }
                    if parts::is_part::<M>(instruction, Span::new(target, bytes)) =>
                {
                    M::look_at(emitter, &mut carried, Span::new(source, bytes));
                    M::overwrite(emitter, &mut carried, Span::new(target, bytes));
                    let restoring = restoring::<M>(&mut carried);
                    parts::copy::<M>(emitter, index, Span::new(target, bytes), source, restoring);
                }
                Effect::Copy { target, source, bytes } => {
                    copy::<M>(emitter, index, target, source, bytes, &mut carried);
                    keep_value(emitter, target, source);
                }
                Effect::BitTrick { operation, target, a, b, c } => {
                    M::overwrite(emitter, &mut carried, target);
                    let restoring = match replaced::is_store::<M>(instruction, target) {
                        // Two helpers may be called.
                        true => {
                            carried = M::Carried::default();
                            None
                        }
                        false => restoring::<M>(&mut carried),
                    };
                    let (mask, of_part) = (step.operation.mask, step.operation.of_part);
                    let trick = bits::Trick { operation, target, a, b, c, mask, of_part };
                    bits::emit::<M>(emitter, index, trick, restoring);
                    executed = true;
                }
                Effect::Lost { source } => {
                    let restoring = restoring::<M>(&mut carried);
                    lost(emitter, index, source, restoring);
                }
                effect @ (Effect::X87 { .. }
                | Effect::X87Move { .. }
                | Effect::Rotate { .. }
                | Effect::Stack { .. }
                | Effect::Select { .. }) => emit_x87::<M>(emitter, index, &effect, &mut carried),
                _ => {
                    // These use the carried registers, or call helpers.
                    carried = M::Carried::default();
                    executed |= emit_effect::<M>(emitter, index, step);
                }
            }
            own = &own[done..];
        }
        if !executed {
            execute(emitter, index);
        }
    }
    M::settle(emitter, &mut carried);
}

/// Whether an instruction is run once more on shadow, on registers that its own encoding reaches.
fn is_replay(step: &Step) -> bool {
    matches!(step.operation.effect, Effect::Replay { .. })
}

/// Whether an instruction cannot leave the block, but for a fault.
fn stays(instruction: &Instruction) -> bool {
    let ordinary = |operand| {
        matches!(instruction.op_kind(operand), OpKind::Register | OpKind::Memory | OpKind::Immediate8)
            && (instruction.op_kind(operand) != OpKind::Register
                || instruction.op_register(operand).is_vector_register()
                || instruction.op_register(operand).is_gpr())
    };
    let some = instruction.op_count() != 0 && (0..instruction.op_count()).all(ordinary);
    some && instruction.flow_control() == FlowControl::Next && !instruction.has_lock_prefix()
}

/// Whether an effect is emitted in a way that goes by the shadow register file, not by what is carried.
fn looks_at_file(step: &Step) -> bool {
    match step.operation.effect {
        Effect::Real { .. } | Effect::Convert { .. } => false,
        // A copy does where the mode cannot do it.
        Effect::Copy { .. } | Effect::Clear { .. } => step.operation.mask.is_some(),
        _ => true,
    }
}

/// Emits the instruction itself, unless it transfers control.
fn execute(emitter: &mut Emitter<'_>, index: usize) {
    let instruction = &emitter.block().instructions()[index];
    if instruction.rflags_read() | instruction.rflags_modified() != 0 {
        emitter.restore_flags();
    }
    if index < emitter.block().body_len() {
        emitter.copy(index);
    }
}

/// What brings carried registers back behind a helper that may be called; without that they are given up.
fn restoring<M: Mode>(carried: &mut M::Carried) -> Option<Restoring> {
    let restoring = M::restoring(carried);
    if restoring.is_none() {
        *carried = M::Carried::default();
    }
    restoring
}

/// The step if it replaces one or two bytes in memory that can be a part of a number.
fn replacing<M: Mode>(instruction: &Instruction, step: &Step) -> Option<replaced::Store> {
    let store = match step.operation.effect {
        _ if step.operation.mask.is_some() => return None,
        Effect::Clear { target } => replaced::Store { target, source: None },
        Effect::Copy { target, source, bytes } => {
            replaced::Store { target: Span::new(target, bytes), source: Some(source) }
        }
        _ => return None,
    };
    replaced::is_store::<M>(instruction, store.target).then_some(store)
}

/// While differentiation is suspended, the results of operations are passive; values that are moved keep their shadow.
fn suspend(step: &mut Step) {
    if let (Effect::Real { .. } | Effect::X87 { .. }, Some(target)) =
        (step.operation.effect, step.operation.effect.target())
    {
        step.operation.effect = Effect::Clear { target };
    }
}

/// Scratch general registers that an effect takes.
fn generals_needed<M: Mode>(step: &Step) -> usize {
    match step.operation.effect {
        Effect::Real { .. } | Effect::Convert { .. } => M::ARITHMETIC_GENERAL,
        Effect::Copy { .. } => 1,
        Effect::Clear { target } => usize::from(M::REPLACED.is_some() && target.place.is_memory() && target.bytes <= 2),
        Effect::X87Move { .. } => 3,
        Effect::X87 { .. } => M::ARITHMETIC_GENERAL.max(2),
        Effect::Rotate { .. } | Effect::Stack { .. } | Effect::Select { .. } => 2,
        Effect::BitTrick { .. } | Effect::Lost { .. } => 2,
        Effect::CompareExchange { .. } | Effect::Update { .. } => 2,
        Effect::Replay { .. } => M::SCRATCH.general,
        _ => 0,
    }
}

/// Scratch vector registers that an effect takes: saving and restoring them in each block would cost more than many effects do.
fn vectors_needed<M: Mode>(steps: &[Step]) -> usize {
    match steps[0].operation.effect {
        Effect::Replay { .. } => M::SCRATCH.vector,
        Effect::Real { .. } | Effect::Convert { .. } | Effect::Copy { .. } => {
            M::vectors_needed(steps).max(usize::from(steps[0].operation.mask.is_some()))
        }
        Effect::Fetch { .. } => 1,
        _ => usize::from(steps[0].operation.mask.is_some()),
    }
}

/// The mask of a step, if it is needed in its expanded form.
fn expanded_mask(step: &Step) -> Option<Mask> {
    let mask = step.operation.mask?;
    match step.operation.effect {
        Effect::Real { .. } | Effect::Convert { .. } | Effect::BitTrick { .. } => Some(mask),
        Effect::Clear { target } if target.bytes == u16::from(mask.element) => Some(mask),
        _ => None,
    }
}

/// Clears the elements of the first of `steps`, or of several of them that are lanes of one register. Returns how many.
fn clear_elements(emitter: &mut Emitter<'_>, index: usize, steps: &[Step], mask: Mask) -> usize {
    let Effect::Clear { target } = steps[0].operation.effect else { return 1 };
    let lane = |number: u16| {
        let target = Span::new(target.place.advanced(number * target.bytes), target.bytes);
        (Effect::Clear { target }, Some(mask.advanced(number)))
    };
    let found = |step: &Step| (step.operation.effect, step.operation.mask);
    let count = (0..steps.len()).take_while(|&number| found(&steps[number]) == lane(number as u16)).count();
    let scratch = emitter.scratch_vector(0);
    let single = target.bytes == u16::from(mask.element);
    if single && (mask.bit != 0 || count == 1) {
        masked::clear_element(emitter, index, target, mask);
        return 1;
    }
    let bytes = if single { target.bytes * count as u16 } else { target.bytes };
    masked::clear(emitter, index, Span::new(target.place, bytes), mask, scratch);
    if single { count } else { 1 }
}

/// Once in a while the shadow registers are looked at: if all are zero, the passive version takes over.
fn emit_countdown(emitter: &mut Emitter<'_>) {
    let countdown = Instruction::with2(Code::Sub_rm32_imm8, field(offset_of!(Fields, countdown)), 1);
    emitter.asm().push(&countdown.expect("sub takes memory and constant"));
    emitter.call_helper_if(Condition::Sign, helpers::try_passive, 0);
}

/// Emits an x87 effect.
fn emit_x87<M: Mode>(emitter: &mut Emitter<'_>, index: usize, effect: &Effect, carried: &mut M::Carried) {
    let registers = Span::new(Place::Register(shadow::X87), shadow::X87_BYTES);
    M::overwrite(emitter, carried, effect.target().unwrap_or(registers));
    match *effect {
        Effect::X87 { operation, target, a, b } => {
            let restoring = restoring::<M>(carried);
            x87::emit_real::<M>(emitter, index, x87::X87Real { operation, target, a, b }, restoring);
        }
        Effect::X87Move { target, source } => {
            let restoring = restoring::<M>(carried);
            x87::emit_move::<M>(emitter, index, x87::X87Move { target, source }, restoring);
        }
        Effect::Stack { change } => {
            let restoring = restoring::<M>(carried);
            x87::emit_stack::<M>(emitter, index, change, restoring);
        }
        Effect::Rotate { by } => x87::emit_rotate::<M>(emitter, by),
        Effect::Select { condition, target, source } => x87::emit_select(emitter, index, condition, target, source),
        _ => {}
    }
}

/// Emits another effect before its instruction. Returns whether the instruction itself has been emitted with it.
fn emit_effect<M: Mode>(emitter: &mut Emitter<'_>, index: usize, step: &Step) -> bool {
    match step.operation.effect {
        Effect::Replay { data, target, .. } => {
            let vectors: Vec<_> = (0..emitter.scratch_vectors()).map(|k| emitter.scratch_vector(k)).collect();
            Replay::new(data, target, &vectors).emit(emitter, index);
        }
        Effect::Fetch { target, source, element } => {
            let fetch = masked::Fetch { target, source, element, mask: step.operation.mask };
            fetch.emit(emitter, index, step.passive[0]);
        }
        Effect::RepeatedMove { .. } => {
            emitter.restore_flags();
            strings::repeated_move(emitter, index);
        }
        Effect::RepeatedStore { .. } => {
            emitter.restore_flags();
            strings::repeated_clear(emitter, index);
        }
        Effect::CompareExchange { destination, source, accumulator } => {
            atomic::emit_exchange(emitter, index, atomic::Exchange { destination, source, accumulator });
            return true;
        }
        Effect::Update { memory, becomes, previous } => {
            atomic::emit_update::<M>(emitter, index, atomic::Update { memory, becomes, previous });
            return true;
        }
        Effect::State { transfer } => {
            let (helper, payload) = transfers::helper::<M>(transfer);
            emitter.call_helper(helper, payload);
        }
        // These are emitted in the loop above.
        Effect::Clear { .. }
        | Effect::Copy { .. }
        | Effect::Convert { .. }
        | Effect::Real { .. }
        | Effect::BitTrick { .. }
        | Effect::X87 { .. }
        | Effect::X87Move { .. }
        | Effect::Rotate { .. }
        | Effect::Stack { .. }
        | Effect::Select { .. }
        | Effect::Lost { .. } => {}
    }
    false
}

/// What is kept of a general register has its value beside it.
fn keep_value(emitter: &mut Emitter<'_>, target: Place, source: Place) {
    let (Place::Register(target @ shadow::KEPT..), Place::Register(source)) = (target, source) else { return };
    store(emitter, kept(target), registers::general(usize::from(source / 8)), 8);
}

/// Copies shadow in pieces as large as the mode has them. A load of what was just written in smaller pieces would wait for all of
/// them to reach the cache.
fn copy<M: Mode>(
    emitter: &mut Emitter<'_>,
    index: usize,
    target: Place,
    source: Place,
    bytes: u16,
    carried: &mut M::Carried,
) {
    let mut parts: Vec<_> = pieces_of(bytes, M::COPY_BYTES).collect();
    let overlap = Span::new(target, bytes).overlaps(Span::new(source, bytes));
    if overlap && is_above(target, source) {
        parts.reverse();
    }
    let register = emitter.scratch(0);
    for (offset, size) in parts {
        let (target, source) = (target.advanced(offset), source.advanced(offset));
        if M::copy(emitter, index, target, source, size, carried) {
            continue;
        }
        M::look_at(emitter, carried, Span::new(source, size));
        M::overwrite(emitter, carried, Span::new(target, size));
        let from = Shadow::of(emitter, index, source);
        let to = Shadow::of(emitter, index, target);
        for layer in layers() {
            load(emitter, register, from.in_layer(emitter, layer), size);
            store(emitter, to.in_layer(emitter, layer), register, size);
        }
    }
}

fn is_above(a: Place, b: Place) -> bool {
    match (a, b) {
        (Place::Register(a), Place::Register(b)) => a > b,
        (Place::Memory { offset: a, .. }, Place::Memory { offset: b, .. }) => a > b,
        _ => false,
    }
}

fn lost(emitter: &mut Emitter<'_>, index: usize, source: Span, restoring: Option<Restoring>) {
    emitter.save_flags(index);
    any_active(emitter, index, &[source]);
    let resume = emitter.asm().label();
    let cold = emitter.cold(move |emitter| {
        emitter.call_helper_here(helpers::lost, 0);
        if let Some(restoring) = restoring {
            restoring(emitter);
        }
        emitter.asm().jump(resume);
    });
    emitter.asm().jump_if(Condition::NotEqual, cold);
    emitter.asm().bind(resume);
}

/// Sets ZF if all of the spans are passive, in all layers. Uses the first scratch register; the application's flags must be saved.
pub(crate) fn any_active(emitter: &mut Emitter<'_>, index: usize, spans: &[Span]) {
    let register = emitter.scratch(0);
    let mut first = true;
    for span in spans {
        let shadow = Shadow::of(emitter, index, span.place);
        for layer in layers() {
            for (offset, size) in pieces(span.bytes) {
                let memory = shadow.advanced(offset).in_layer(emitter, layer);
                match size {
                    _ if first => load(emitter, register, memory, size),
                    8 => emitter.asm().push2m(Code::Or_r64_rm64, register, memory),
                    _ => {
                        let other = emitter.scratch(1);
                        load(emitter, other, memory, size);
                        emitter.asm().push2(Code::Or_r64_rm64, register, other);
                    }
                }
                first = false;
            }
        }
    }
    emitter.asm().push2(Code::Test_rm64_r64, register, register);
}
