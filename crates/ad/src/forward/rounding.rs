//! Additions of rounding constants: see [`crate::rounding`].
//!
//! Vector code looks whether an operand is large enough for one at all, which is rare. If so a helper decides, lane by lane.

use std::mem::offset_of;

use derivgrind_engine::context::Context;
use derivgrind_engine::memory::user;
use derivgrind_engine::translate::{Condition, HelperNext};
use iced_x86::Instruction;

use crate::instrument::{Thread, constant_address, operand_address, read_shadow, read_value};
use crate::ir::{Format, Place, Span};
use crate::rounding::{has_value, pattern};

use super::constants::{Constants, by_format, constant};
use super::real::Group;
use super::registers::Registers;
use super::vector::Scratch::{T, V};
use super::vector::{Op, Scratch, Source, Vector};

/// What the helper knows about the group. These live as long as the process: cached code refers to them.
struct Site {
    format: Format,
    lanes: usize,
    operands: [Place; 2],
    instruction: Instruction,
}

/// Behind the code that computes the dot values of a sum or difference: makes those zero that belong to roundings.
pub(super) fn emit(vector: &mut Vector<'_, '_>, index: usize, group: &Group, result: Scratch) {
    let Some(operands) = group.both_operands() else { return };
    // Without SSE4.2 there is no cheap test; processors without it are older than compilers that use such constants in vector code.
    if !vector.can_test() {
        return;
    }
    let format = group.format();
    let instruction = vector.emitter().block().instructions()[index];
    // If one operand is known to be passive, only that one can be such a constant; and if it is a constant, it can be looked at now.
    let any_passive = group.passive_operands() != [false, false];
    let passive = group.passive_operands().map(|passive| passive || !any_passive);
    let values: Vec<Place> = operands
        .into_iter()
        .zip(passive)
        .filter(|&(place, passive)| passive && has_value(place) && !is_no_rounding(&instruction, place, group))
        .map(|(place, _)| place)
        .collect();
    let Some((&first, others)) = values.split_first() else { return };
    let number = vector.keep_only(result);
    vector.emitter().save_flags(index);
    let magnitudes = Source::Memory(constant(offset_of!(Constants, magnitudes), by_format(format)));
    let threshold = Source::Memory(constant(offset_of!(Constants, thresholds), by_format(format)));
    let mut value = vector.value(first, T);
    for &other in others {
        // The union of the bits is at least as large as each of them.
        let other = vector.value(other, V);
        vector.op(Op::Or, T, value, other);
        value = vector.source(T);
    }
    vector.op(Op::And, T, value, magnitudes);
    // As integers: as numbers, a union of bits could be NaN, which raises an exception.
    let bits = vector.source(T);
    vector.op(Op::GreaterBits, V, threshold, bits);
    vector.test_all_ones(V);
    vector.release(T);
    vector.release(V);
    let held = vector.held();
    let emitter = vector.emitter();
    let resume = emitter.asm().label();
    let site: &'static Site = Box::leak(Box::new(Site { format, lanes: group.count, operands, instruction }));
    let group = *group;
    let cold = emitter.cold(move |emitter| {
        emitter.call_helper_here(choose, std::ptr::from_ref(site) as u64);
        // The helper leaves nothing in scratch registers: the result is computed once more, the others are loaded.
        let mut registers = Registers::default();
        let mut vector = group.vector(emitter, &mut registers, index);
        let result = group.compute(&mut vector);
        vector.update(Op::And, result, Source::Memory(constant(offset_of!(Constants, kept), 0)));
        vector.move_into(number, result);
        for (number, range) in held {
            vector.reload(number, range);
        }
        emitter.asm().jump(resume);
    });
    emitter.asm().jump_if(Condition::AboveOrEqual, cold);
    emitter.asm().bind(resume);
}

/// Whether an operand is in memory that nothing writes, and no lane of it is a rounding constant.
fn is_no_rounding(instruction: &Instruction, place: Place, group: &Group) -> bool {
    let bytes = usize::from(group.format().bytes());
    let span = Span::new(place, (group.count * bytes) as u16);
    let Some(address) = constant_address(instruction, span) else { return false };
    let mut values = vec![0; group.count * bytes];
    if user::read_bytes(address, &mut values).is_err() {
        return false;
    }
    let pattern = pattern(group.format());
    values.chunks_exact(bytes).all(|value| {
        let mut bits = [0; 8];
        bits[..bytes].copy_from_slice(value);
        !pattern.matches(u64::from_le_bytes(bits))
    })
}

/// Fills the mask: zeros in the lanes in which one operand is passive and a rounding constant.
fn choose(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `emit` pairs this helper with its site, and sites are never freed.
    let site = unsafe { &*(payload as *const Site) };
    let pattern = pattern(site.format);
    let address = operand_address(&site.instruction, context).unwrap_or(0);
    let mut thread = Thread::new(context);
    let bytes = usize::from(site.format.bytes());
    let spans = site.operands.map(|place| Span::new(place, (site.lanes * bytes) as u16));
    let values = spans.map(|span| read_value(&thread, span, address));
    let dots = spans.map(|span| read_shadow(&thread, span, address));
    let mut kept = [0xff; 32];
    for lane in 0..site.lanes {
        let of =
            |words: &[u64; 4]| words[lane * bytes / 8] >> (8 * (lane * bytes % 8)) & (u64::MAX >> (64 - 8 * bytes));
        let is_rounding = |k: usize| of(&dots[k]) == 0 && of(&dots[1 - k]) != 0 && pattern.matches(of(&values[k]));
        if is_rounding(0) || is_rounding(1) {
            kept[lane * bytes..(lane + 1) * bytes].fill(0);
        }
    }
    Constants::of(&mut thread).kept = kept;
    HelperNext::Resume
}
