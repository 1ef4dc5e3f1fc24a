//! Additions of rounding constants: see [`crate::rounding`].
//!
//! Vector code looks whether an operand is large enough for one at all, which is rare. If so a helper decides, lane by lane.

use std::mem::offset_of;

use derivgrind_engine::context::Context;
use derivgrind_engine::translate::{Condition, Emitter, HelperNext};
use iced_x86::Instruction;

use crate::instrument::{Thread, operand_address, read_shadow, read_value};
use crate::ir::{Format, Place, Span};
use crate::rounding::{has_value, pattern};

use super::constants::{Constants, by_format, constant};
use super::real::Group;
use super::vector::Scratch::{A, T, V};
use super::vector::{Op, Source};

/// What the helper knows about the group. These live as long as the process: cached code refers to them.
struct Site {
    format: Format,
    lanes: usize,
    operands: [Place; 2],
    instruction: Instruction,
}

/// Behind the code that computes the dot values of a sum or difference in [`A`]: makes those zero that belong to roundings.
pub(super) fn emit(emitter: &mut Emitter<'_>, index: usize, group: &Group) {
    let Some(operands) = group.both_operands() else { return };
    // Without SSE4.1 there is no cheap test; processors without it are older than compilers that use such constants in vector code.
    if !is_x86_feature_detected!("sse4.1") {
        return;
    }
    let values: Vec<Place> = operands.into_iter().filter(|&place| has_value(place)).collect();
    let Some((&first, others)) = values.split_first() else { return };
    emitter.save_flags(index);
    let format = group.format();
    let magnitudes = Source::Memory(constant(offset_of!(Constants, magnitudes), by_format(format)));
    let threshold = Source::Memory(constant(offset_of!(Constants, thresholds), by_format(format)));
    let mut vector = group.vector(emitter, index);
    let value = vector.value(first, T);
    vector.op(Op::And, T, value, magnitudes);
    for &other in others {
        let value = vector.value(other, V);
        vector.op(Op::And, V, value, magnitudes);
        // The union of the bits is at least as large as each of them.
        let other = vector.source(V);
        vector.update(Op::Or, T, other);
    }
    vector.update(Op::Less, T, threshold);
    vector.test_all_ones(T);
    let resume = emitter.asm().label();
    let instruction = emitter.block().instructions()[index];
    let site: &'static Site = Box::leak(Box::new(Site { format, lanes: group.count, operands, instruction }));
    let group = *group;
    let cold = emitter.cold(move |emitter| {
        emitter.call_helper_here(choose, std::ptr::from_ref(site) as u64);
        let mut vector = group.vector(emitter, index);
        group.compute(&mut vector);
        vector.update(Op::And, A, Source::Memory(constant(offset_of!(Constants, kept), 0)));
        emitter.asm().jump(resume);
    });
    emitter.asm().jump_if(Condition::AboveOrEqual, cold);
    emitter.asm().bind(resume);
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
