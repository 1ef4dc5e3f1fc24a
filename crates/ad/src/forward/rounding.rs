//! Rounding constants in additions: see [`crate::rounding`].
//!
//! Vector code looks whether an operand is large enough for one at all, which is rare. If so a helper decides, lane by lane.

use std::cell::RefCell;
use std::mem::offset_of;
use std::rc::Rc;

use derivgrind_engine::context::Context;
use derivgrind_engine::memory::user;
use derivgrind_engine::translate::{Condition, Emitter, HelperNext};
use iced_x86::{Code, Instruction};

use crate::instrument::{
    MOST_LAYERS, Thread, WORDS, constant_address, layers, operand_address, read_shadow, read_value,
};
use crate::ir::{Format, Place, RealOperation, Span};
use crate::rounding::{cancels, concerns, has_value, pattern, sums};

use super::bundle::Bundle;
use super::codes::{Encoding, Op, Source, Width};
use super::constants::{Constants, by_format, constant};
use super::held;
use super::real::Group;
use super::registers::Registers;
use super::vector::Scratch::{T, V};
use super::vector::{MASK, Scratch, Vector};

/// What the helper knows about the group. These live as long as the process: cached code refers to them.
struct Site {
    format: Format,
    subtracts: bool,
    lanes: usize,
    operands: [Place; 2],
    instruction: Instruction,
}

/// Behind the code that computes the dot values of a sum or difference: makes those of roundings zero.
pub(super) fn emit(vector: &mut Vector<'_, '_>, index: usize, group: &Group, result: Scratch) {
    let Some(suspects) = suspects(vector, index, group) else { return };
    let number = vector.keep_only(result);
    emit_test(vector, index, group, &suspects);
    let (held, unsaved) = (vector.registers().held(), vector.registers().unsaved());
    let emitter = vector.emitter();
    let resume = emitter.asm().label();
    let site = site(emitter, index, group);
    let group = *group;
    let cold = emitter.cold(move |emitter| {
        held::store(emitter, &unsaved);
        emitter.set_pending(&[]);
        emitter.call_helper_here(choose, site);
        // The helper leaves nothing in scratch registers: the result is computed once more, the others are loaded.
        let mut registers = Registers::default();
        let mut vector = group.vector(emitter, &mut registers, index, Bundle::single(0));
        let result = group.compute(&mut vector);
        vector.update(Op::And, result, kept());
        vector.move_into(number, result);
        held::load(emitter, &held);
        emitter.asm().jump(resume);
    });
    emitter.asm().jump_if(Condition::NotEqual, cold);
    emitter.asm().bind(resume);
}

/// Emits a group for several directions. The operands' values are looked at once, before anything is computed.
pub(super) fn emit_directions(emitter: &mut Emitter<'_>, registers: &mut Registers, index: usize, group: &Group) {
    let mut vector = group.vector(emitter, registers, index, Bundle::single(0));
    let suspects = if concerns(group.operation()) { suspects(&mut vector, index, group) } else { None };
    let Some(suspects) = suspects else {
        group.emit_directions(emitter, registers, index, None);
        return;
    };
    // What makes the operand reachable must not be on one of the two ways only.
    vector.emitter().application_memory(index, 0);
    emit_test(&mut vector, index, group, &suspects);
    let unsaved = registers.unsaved();
    let resume = emitter.asm().label();
    let site = site(emitter, index, group);
    // What the other way leaves in registers is known when it has been emitted.
    let held = Rc::new(RefCell::new(Vec::new()));
    let (held_there, group) = (Rc::clone(&held), *group);
    let cold = emitter.cold(move |emitter| {
        held::store(emitter, &unsaved);
        emitter.set_pending(&[]);
        emitter.call_helper_here(choose, site);
        let mut registers = Registers::default();
        group.emit_directions(emitter, &mut registers, index, Some(kept()));
        held::save_all(emitter, &mut registers);
        held::load(emitter, &held_there.take());
        emitter.asm().jump(resume);
    });
    emitter.asm().jump_if(Condition::NotEqual, cold);
    group.emit_directions(emitter, registers, index, None);
    emitter.asm().bind(resume);
    *held.borrow_mut() = registers.held();
}

/// The mask that the helper leaves.
fn kept() -> Source {
    Source::Memory(constant(offset_of!(Constants, kept), 0))
}

/// The helper's payload: a [`Site`].
fn site(emitter: &mut Emitter<'_>, index: usize, group: &Group) -> u64 {
    let instruction = emitter.block().instructions()[index];
    let operands = group.both_operands().unwrap_or([group.target(); 2]);
    let subtracts = group.operation() == RealOperation::Sub;
    emitter.keep(Site { format: group.format(), subtracts, lanes: group.count, operands, instruction })
}

/// The operands whose values have to be looked at; `None` if there are none.
fn suspects(vector: &mut Vector<'_, '_>, index: usize, group: &Group) -> Option<Vec<Place>> {
    let operands = group.both_operands()?;
    // Without SSE4.2 there is no cheap test; processors without it are older than compilers that use such constants in vector code.
    if !vector.can_test() {
        return None;
    }
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
    (!values.is_empty()).then_some(values)
}

/// Tests whether an operand may be a rounding constant in a lane: not if the zero flag is set.
fn emit_test(vector: &mut Vector<'_, '_>, index: usize, group: &Group, suspects: &[Place]) {
    vector.emitter().save_flags(index);
    let format = by_format(group.format());
    let magnitudes = match vector.extent() {
        Width::Scalar => Source::Memory(constant(offset_of!(Constants, low_magnitudes), format)),
        _ => vector.in_all_lanes(offset_of!(Constants, magnitudes), format),
    };
    let threshold = vector.in_all_lanes(offset_of!(Constants, thresholds), format);
    // First, since it may take a register from dot values that have to be stored, and that needs the part.
    let second = suspects.get(1).map(|&place| match vector.encoding() {
        Encoding::Evex => vector.operand_value(place, V),
        _ => vector.value(place, V),
    });
    vector.take_part(T);
    let mut value = vector.value(suspects[0], T);
    if let Some(second) = second {
        // The union of the bits is at least as large as each of them.
        vector.op(Op::Or, T, value, second);
        value = vector.source(T);
    }
    vector.op(Op::And, T, value, magnitudes);
    // As integers: as numbers, a union of bits could be NaN, which raises an exception.
    let bits = vector.source(T);
    vector.test_greater_bits(T, bits, threshold);
    vector.release(T);
    vector.release(V);
}

impl Vector<'_, '_> {
    /// Whether the processor has [`Op::GreaterBits`] and a test of all lanes in the group's width.
    fn can_test(&self) -> bool {
        if self.extent() == Width::Ymm { is_x86_feature_detected!("avx2") } else { is_x86_feature_detected!("sse4.2") }
    }

    /// Clears ZF if the bits of `a` are a larger integer than those of `b` in one of the lanes, for scalars in one of all lanes of 16 bytes. `spare` has nothing afterwards.
    fn test_greater_bits(&mut self, spare: Scratch, a: Source, b: Source) {
        if self.encoding() == Encoding::Evex {
            let mask = Source::Register(MASK);
            self.push(self.code(Op::GreaterBits.codes().0), &[mask, a, b], None);
            self.push(Code::VEX_Kortestb_kr_kr, &[mask, mask], None);
            return;
        }
        self.op(Op::GreaterBits, spare, a, b);
        let code = match (self.encoding(), self.extent()) {
            (Encoding::Legacy, _) => Code::Ptest_xmm_xmmm128,
            (_, Width::Ymm) => Code::VEX_Vptest_ymm_ymmm256,
            _ => Code::VEX_Vptest_xmm_xmmm128,
        };
        let mask = self.source(spare);
        self.push(code, &[mask, mask], None);
    }
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

/// Fills the mask: zeros in the lanes that are the second half of a rounding. One operand is passive there in all directions and a rounding constant.
fn choose(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `emit` pairs this helper with its site, which is kept as long as the code that calls this.
    let site = unsafe { &*(payload as *const Site) };
    let pattern = pattern(site.format);
    let address = operand_address(&site.instruction, context).unwrap_or(0);
    let mut thread = Thread::new(context);
    let bytes = usize::from(site.format.bytes());
    let spans = site.operands.map(|place| Span::new(place, (site.lanes * bytes) as u16));
    let values = spans.map(|span| read_value(&thread, span, address));
    let mut dots = [[[0; WORDS]; MOST_LAYERS]; 2];
    for (layer, k) in layers().flat_map(|layer| [(layer, 0), (layer, 1)]) {
        dots[k][layer] = read_shadow(&thread, layer, spans[k], address);
    }
    let mut kept = [0xff; 32];
    for lane in 0..site.lanes {
        let of =
            |words: &[u64; WORDS]| words[lane * bytes / 8] >> (8 * (lane * bytes % 8)) & (u64::MAX >> (64 - 8 * bytes));
        let is_active = |k: usize| dots[k].iter().any(|words| of(words) != 0);
        for (constant, sum) in [(0, 1), (1, 0)] {
            if is_active(constant) || !is_active(sum) || !pattern.matches(of(&values[constant])) {
                continue;
            }
            // Adding a constant changes no dot value but in its sign.
            let magnitudes = dots[sum].iter().map(|words| of(words) & pattern.magnitude()).filter(|&dot| dot != 0);
            let undoes = has_value(site.operands[sum])
                && cancels(site.format, site.subtracts, of(&values[sum]), of(&values[constant]));
            if undoes && magnitudes.clone().all(sums::contains) {
                kept[lane * bytes..(lane + 1) * bytes].fill(0);
            } else {
                magnitudes.for_each(sums::remember);
            }
        }
    }
    Constants::of(&mut thread).kept = kept;
    HelperNext::Resume
}

/// Whether there is no activity in eight bytes of dot values but that of sums with a rounding constant: a number of eight bytes or two of four, without their
/// signs, or the lower part of an 80-bit one. `values` are the numbers' own bytes.
pub(super) fn is_only_sums(dots: u64, values: u64) -> bool {
    let may_be = |format: Format, shift: u32| {
        pattern(format).is_large(values >> shift) || format == Format::Binary64 && is_significand(values)
    };
    [0, 1 << 63, 1 << 63 | 1 << 31].into_iter().any(|signs: u64| sums::only(dots & !signs, may_be))
}

/// Whether this can be the significand of a sum with 2^63 or 1.5·2^63.
fn is_significand(bits: u64) -> bool {
    /// What is added to the constant is below this.
    const SMALL: u64 = 1 << 48;
    [1 << 63, 3 << 62].into_iter().any(|constant: u64| bits.abs_diff(constant) < SMALL)
}
