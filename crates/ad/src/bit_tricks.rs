//! Real-number operations in the disguise of integer and bitwise ones.
//!
//! Negation flips a sign bit, the absolute value clears it, `copysign` and blends combine masks, `ldexp` and `frexp` add to or replace an
//! exponent. One rule covers them: **if the result has the same mantissa as an active operand, the derivative is the ratio of result to
//! operand**, which is ±2^k. It is applied to the values of operands and result when the instruction has been executed. A result that
//! keeps nothing of the operand's mantissa (a sign, an exponent, a masked-out lane) has derivative zero. Anything else is lost, and counted.
//!
//! One thing comes before the rule: bytes that are put together (`or`) or kept (`and` with a mask of whole bytes) in a general register are
//! moved, and so is each byte of their shadow, even where it is only a part of an index.
//!
//! A number whose exponent field is zero (the first half of `frexp` by masks) counts as if the leading bit were there and the exponent were
//! 0: then the ratios of both steps multiply to what they should.

mod bytes;
mod values;

use crate::ir::{BitOperation, Format};
use crate::shadow::{NARROW_TAG, WIDE_MARK, narrow_index};

/// One eight-byte lane of an operation. An operation on four bytes has zeros in the upper halves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// Value of the first operand.
    pub a: u64,
    /// Value of the second operand, 0 if there is none. Of shifts by one number of bits for all elements, that number [`in_both_halves`].
    pub b: u64,
    /// Value of the result.
    pub result: u64,
    /// Shadow of the first operand.
    pub shadow_a: u64,
    /// Shadow of the second operand.
    pub shadow_b: u64,
}

/// A number of bits as operand of a shift: whether a lane is one number or two, it sees the count.
pub fn in_both_halves(count: u64) -> u64 {
    count.min(u32::MAX.into()) * (1 << 32 | 1)
}

/// An operand of a few bytes as one of a longer operation that does nothing to the others: its bytes begin at bit `shift`, and `bytes` has ones in all of their
/// bits.
pub fn widened(operation: BitOperation, value: u64, bytes: u64, shift: u32) -> u64 {
    let others = if operation == BitOperation::And { !(bytes << shift) } else { 0 };
    value << shift | others
}

/// What becomes of one real number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// The result does not depend on any active operand, or has derivative zero.
    Passive,
    /// The result is an active operand, unchanged: it keeps this index.
    Same(u64),
    /// The result is an active operand times a power of two.
    Scaled {
        /// The operand's index.
        index: u64,
        /// The factor.
        ratio: f64,
    },
    /// Not a real operation: derivative information is lost.
    Lost,
}

/// What becomes of a lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LaneOutcome {
    /// It is a binary64 value.
    Wide(Outcome),
    /// It is two binary32 values, low half first.
    Narrow([Outcome; 2]),
}

/// Layout of a format.
struct Layout {
    mantissa: u64,
    sign: u64,
    mantissa_bits: u32,
    exponent_mask: u64,
}

const WIDE: Layout = Layout { mantissa: (1 << 52) - 1, sign: 1 << 63, mantissa_bits: 52, exponent_mask: 0x7ff };
const NARROW: Layout = Layout { mantissa: (1 << 23) - 1, sign: 1 << 31, mantissa_bits: 23, exponent_mask: 0xff };

impl Layout {
    fn is(&self, format: Format) -> bool {
        self.mantissa_bits == if format == Format::Binary64 { 52 } else { 23 }
    }

    fn exponent(&self, bits: u64) -> u64 {
        bits >> self.mantissa_bits & self.exponent_mask
    }

    /// `result / operand` if that is ±2^k with identical mantissa bits. With `masks`, an exponent field of zero stands for exponent 0.
    fn ratio(&self, operand: u64, result: u64, masks: bool) -> Option<f64> {
        let sign = if (operand ^ result) & self.sign == 0 { 1.0 } else { -1.0 };
        if (operand ^ result) & !self.sign == 0 {
            return Some(sign);
        }
        let exponent = |bits| match self.exponent(bits) {
            0 if masks => self.exponent_mask / 2,
            exponent => exponent,
        };
        let (before, after) = (exponent(operand), exponent(result));
        let special = [0, self.exponent_mask].into_iter().any(|field| before == field || after == field);
        if special || (operand ^ result) & self.mantissa != 0 {
            return None;
        }
        let power = after as i32 - before as i32;
        // Such a factor does not occur in meaningful programs, and binary64 could not hold all of them.
        (-1022..=1023).contains(&power).then(|| sign * f64::from_bits(((power + 1023) as u64) << 52))
    }
}

/// An operand of one real number: its value, the other operand's value, and its index (0: passive).
#[derive(Clone, Copy)]
struct Operand {
    value: u64,
    index: u64,
}

/// Applies the rule to one number.
fn number(layout: &Layout, operation: BitOperation, a: Operand, b: Operand, result: u64) -> Outcome {
    if matches!(operation, BitOperation::ShiftRight | BitOperation::ShiftLeft | BitOperation::Rotate) {
        return shift(layout, operation, a, b, result);
    }
    if operation == BitOperation::Select {
        return selection(a, b, result);
    }
    if matches!(operation, BitOperation::Choice(format) | BitOperation::Mantissa(format) if !layout.is(format)) {
        // Half of a binary64 number, or two numbers as one.
        return if a.index | b.index == 0 { Outcome::Passive } else { Outcome::Lost };
    }
    match (a.index != 0, b.index != 0) {
        (true, _) | (_, true) if matches!(operation, BitOperation::Scale(_)) => {
            values::scaled(layout, operation, a, b.value)
        }
        (true, false) if matches!(operation, BitOperation::Choice(_)) => values::chosen(layout, a, b.value, result),
        (false, true) if matches!(operation, BitOperation::Choice(_)) => values::chosen(layout, b, a.value, result),
        (false, false) => Outcome::Passive,
        (true, false) => one_active(layout, mask_of_first(operation, b.value), a, result),
        (false, true) => one_active(layout, mask_of_second(operation, a.value), b, result),
        (true, true) if matches!(operation, BitOperation::Choice(_)) => values::chosen_of_two(layout, a, b, result),
        (true, true) => both_active(layout, a, b, result),
    }
}

/// What a passive operand does to the bits of the active one.
#[derive(Clone, Copy)]
enum Mask {
    /// Bits that are set here are kept, others cleared.
    Keep(u64),
    /// Bits that are set here are set or flipped, others kept.
    Change(u64),
    Unknown,
}

fn mask_of_first(operation: BitOperation, other: u64) -> Mask {
    match operation {
        // `!a & b` keeps the same bits of `a`, though flipped.
        BitOperation::And | BitOperation::Take | BitOperation::AndNot => Mask::Keep(other),
        BitOperation::Or | BitOperation::Merge | BitOperation::Xor => Mask::Change(other),
        _ => Mask::Unknown,
    }
}

fn mask_of_second(operation: BitOperation, other: u64) -> Mask {
    match operation {
        BitOperation::AndNot => Mask::Keep(!other),
        _ => mask_of_first(operation, other),
    }
}

fn one_active(layout: &Layout, mask: Mask, operand: Operand, result: u64) -> Outcome {
    let all = layout.sign | (layout.sign - 1);
    let masks = matches!(mask, Mask::Keep(_) | Mask::Change(_));
    match mask {
        Mask::Keep(kept) => match kept & layout.mantissa {
            // The sign, the exponent or nothing is taken from the operand.
            0 => return Outcome::Passive,
            bits if bits == layout.mantissa => {}
            // Truncation: a step function.
            _ => return Outcome::Lost,
        },
        Mask::Change(changed) if changed & all == 0 => return Outcome::Same(operand.index),
        Mask::Change(changed) if changed & layout.mantissa != 0 => return Outcome::Lost,
        Mask::Change(_) | Mask::Unknown => {}
    }
    by_value(layout, operand, result, masks)
}

/// A shift or rotation of `a` by `b` bits, which rotations and general registers take modulo the width. It is no real operation, unless it does nothing; but
/// what remains of `a` may be no more than its sign and exponent, or nothing.
fn shift(layout: &Layout, operation: BitOperation, a: Operand, b: Operand, result: u64) -> Outcome {
    let all = layout.sign | (layout.sign - 1);
    if a.index == 0 {
        return if b.index == 0 { Outcome::Passive } else { Outcome::Lost };
    }
    if b.value == 0 {
        return Outcome::Same(a.index);
    }
    if operation == BitOperation::ShiftRight {
        let high = layout.mantissa_bits;
        let logical = a.value >> high;
        let sign_extended = logical | if a.value & layout.sign == 0 { 0 } else { all & !(all >> high) };
        let remains = |shifted: u64| (0..64 - high).any(|more| result == shifted >> more);
        if remains(logical) || remains(sign_extended) || result == all {
            return Outcome::Passive;
        }
    }
    // The result can be the operand by chance: equal numbers in both halves that change places.
    if result == 0 && a.value != 0 { Outcome::Passive } else { Outcome::Lost }
}

/// The operand that is the result; the second if both are.
fn selection(a: Operand, b: Operand, result: u64) -> Outcome {
    match [b, a].into_iter().find(|operand| operand.value == result) {
        Some(Operand { index: 0, .. }) => Outcome::Passive,
        Some(Operand { index, .. }) => Outcome::Same(index),
        None => Outcome::Lost,
    }
}

fn by_value(layout: &Layout, operand: Operand, result: u64, masks: bool) -> Outcome {
    match layout.ratio(operand.value, result, masks) {
        Some(1.0) => Outcome::Same(operand.index),
        Some(ratio) => Outcome::Scaled { index: operand.index, ratio },
        // Zero, as a masked-out value is.
        None if result & !layout.sign == 0 => Outcome::Passive,
        None => Outcome::Lost,
    }
}

/// Both operands are active: the result is taken for the one that it is a power of two times. It is a lost case if it could be
/// either, unless they have the same index.
fn both_active(layout: &Layout, a: Operand, b: Operand, result: u64) -> Outcome {
    let (of_a, of_b) = (by_value(layout, a, result, false), by_value(layout, b, result, false));
    match (of_a, of_b) {
        (first, second) if first == second => first,
        // `or` and `xor` with an active zero (a masked-out lane that kept its index) give the other operand.
        (first, Outcome::Lost | Outcome::Passive) if b.value & !layout.sign == 0 => first,
        (Outcome::Lost | Outcome::Passive, second) if a.value & !layout.sign == 0 => second,
        (Outcome::Lost, second @ (Outcome::Same(_) | Outcome::Scaled { .. })) => second,
        (first @ (Outcome::Same(_) | Outcome::Scaled { .. }), Outcome::Lost) => first,
        _ => Outcome::Lost,
    }
}

impl Lane {
    /// Applies the rule to a lane of eight bytes whose shadow holds indices. They keep their tag in the outcome.
    pub fn outcome(&self, operation: BitOperation) -> LaneOutcome {
        let tagged = (self.shadow_a | self.shadow_b) & WIDE_MARK != 0;
        let masks = matches!(operation, BitOperation::And | BitOperation::Take);
        let moved = self.moved(operation).filter(|_| !tagged || !masks);
        if let Some(shadow) = moved.or_else(|| self.taken_apart(operation)) {
            let half = |index: u64| if index == 0 { Outcome::Passive } else { Outcome::Same(index) };
            return LaneOutcome::Narrow([half(shadow & u64::from(u32::MAX)), half(shadow >> 32)]);
        }
        // A binary64 value's index has the tag. (An index that a client request has set without saying the size gets its tag there, see
        // `recorder::requests`.)
        if tagged {
            LaneOutcome::Wide(self.wide(operation))
        } else {
            LaneOutcome::Narrow([0, 32].map(|shift| self.index_half(operation, shift)))
        }
    }

    /// The outcome if the lane is a binary64 value; the operands' shadows are indices without tags, or any other numbers that stand for them.
    pub fn wide(&self, operation: BitOperation) -> Outcome {
        let operand = |value, index| Operand { value, index };
        let (a, b) = (operand(self.a, self.shadow_a), operand(self.b, self.shadow_b));
        number(&WIDE, operation, a, b, self.result)
    }

    /// The outcome if the lane is two binary32 values.
    pub fn narrow(&self, operation: BitOperation) -> [Outcome; 2] {
        [0, 32].map(|shift| self.half(operation, shift))
    }

    /// The rule for the half that starts at this bit, if its shadow holds indices with their tag. Pieces of indices can be moved but not computed with.
    fn index_half(&self, operation: BitOperation, shift: u32) -> Outcome {
        let [a, b] = self.halves(shift);
        if narrow_index(a.index).is_some() && narrow_index(b.index).is_some() {
            return self.half(operation, shift);
        }
        let result = self.result >> shift & u64::from(u32::MAX);
        // A mask that changes nothing now would change other mantissas.
        let masks = matches!(operation, BitOperation::And | BitOperation::Take | BitOperation::AndNot);
        let is_moved = |piece: Operand| piece.value == result && (piece.index >= NARROW_TAG || !masks);
        match (a.index, b.index) {
            (piece, 0) if is_moved(a) => Outcome::Same(piece),
            (0, piece) if is_moved(b) => Outcome::Same(piece),
            _ => Outcome::Lost,
        }
    }

    /// The rule for a 4-byte number in the half that starts at this bit.
    fn half(&self, operation: BitOperation, shift: u32) -> Outcome {
        let [a, b] = self.halves(shift);
        number(&NARROW, operation, a, b, self.result >> shift & u64::from(u32::MAX))
    }

    /// The operands' halves that start at this bit.
    fn halves(&self, shift: u32) -> [Operand; 2] {
        let half = |bits: u64| bits >> shift & u64::from(u32::MAX);
        let operand = |value, shadow| Operand { value: half(value), index: half(shadow) };
        [operand(self.a, self.shadow_a), operand(self.b, self.shadow_b)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shadow::{WIDE_TAG, of_narrow, wide_index};
    use BitOperation::{And, AndNot, Merge, Or, Other, Rotate, Select, ShiftLeft, ShiftRight, Xor};

    const SIGN: u64 = 1 << 63;
    const INDEX: u64 = 77;

    fn wide(operation: BitOperation, active: f64, other: u64, result: u64) -> Outcome {
        let lane = Lane { a: active.to_bits(), b: other, result, shadow_a: INDEX | WIDE_TAG, shadow_b: 0 };
        without_tag(lane.outcome(operation))
    }

    fn without_tag(outcome: LaneOutcome) -> Outcome {
        match outcome {
            LaneOutcome::Wide(Outcome::Same(word)) => Outcome::Same(wide_index(word).expect("an index")),
            LaneOutcome::Wide(Outcome::Scaled { index, ratio }) => {
                Outcome::Scaled { index: wide_index(index).expect("an index"), ratio }
            }
            LaneOutcome::Wide(outcome) => outcome,
            narrow => panic!("{narrow:?}"),
        }
    }

    fn scaled(ratio: f64) -> Outcome {
        Outcome::Scaled { index: INDEX, ratio }
    }

    #[test]
    fn negation_is_minus_one_also_for_zero() {
        for value in [1.5, -0.25, 0.0, -0.0, f64::INFINITY, 5e-324] {
            assert_eq!(wide(Xor, value, SIGN, (-value).to_bits()), scaled(-1.0), "{value}");
        }
    }

    #[test]
    fn absolute_value_depends_on_the_sign() {
        let absolute = |value: f64| wide(And, value, !SIGN, value.abs().to_bits());
        assert_eq!(absolute(3.0), Outcome::Same(INDEX));
        assert_eq!(absolute(-3.0), scaled(-1.0));
        assert_eq!(absolute(-0.0), scaled(-1.0));
    }

    #[test]
    fn masks_of_ones_keep_and_masks_of_zeros_clear() {
        for value in [0.0f64, 1.0, -7.25] {
            assert_eq!(wide(And, value, u64::MAX, value.to_bits()), Outcome::Same(INDEX));
            assert_eq!(wide(And, value, 0, 0), Outcome::Passive);
            assert_eq!(wide(Or, value, 0, value.to_bits()), Outcome::Same(INDEX));
        }
    }

    #[test]
    fn inverted_masks_select_the_second_operand() {
        let lane = |mask: u64, value: f64| Lane {
            a: mask,
            b: value.to_bits(),
            result: !mask & value.to_bits(),
            shadow_a: 0,
            shadow_b: INDEX | WIDE_TAG,
        };
        assert_eq!(lane(0, 2.5).outcome(AndNot), LaneOutcome::Wide(Outcome::Same(INDEX | WIDE_TAG)));
        assert_eq!(lane(u64::MAX, 2.5).outcome(AndNot), LaneOutcome::Wide(Outcome::Passive));
        assert_eq!(without_tag(lane(SIGN, -2.5).outcome(AndNot)), scaled(-1.0));
        // The sign of the first operand, inverted.
        assert_eq!(wide(AndNot, 0.0, SIGN, SIGN), Outcome::Passive);
    }

    #[test]
    fn the_sign_alone_has_derivative_zero_and_setting_it_is_minus_one() {
        let (magnitude, sign) = (2.5f64, -3.0f64);
        assert_eq!(wide(And, sign, SIGN, SIGN), Outcome::Passive);
        assert_eq!(wide(Or, magnitude, SIGN, (-magnitude).to_bits()), scaled(-1.0));
        assert_eq!(wide(Or, -magnitude, SIGN, (-magnitude).to_bits()), Outcome::Same(INDEX));
    }

    #[test]
    fn adding_to_the_exponent_scales() {
        let result = 1.75f64.to_bits() + (5 << 52);
        assert_eq!(f64::from_bits(result), 56.0);
        assert_eq!(wide(Other, 1.75, 5 << 52, result), scaled(32.0));
        assert_eq!(wide(Other, -1.0, 0, (-1.0f64).to_bits() - (3 << 52)), scaled(0.125));
    }

    #[test]
    fn frexp_by_masks_is_exact_for_all_mantissas() {
        let half = 0.5f64.to_bits();
        for value in [8.0f64, 10.0, -3.0, 1.0, 0.1] {
            let cleared = value.to_bits() & !(0x7ff << 52);
            let factor = |outcome| match outcome {
                Outcome::Same(INDEX) => 1.0,
                Outcome::Scaled { index: INDEX, ratio } => ratio,
                other => panic!("{value}: {other:?}"),
            };
            let first = factor(wide(And, value, !(0x7ff << 52), cleared));
            let fraction = cleared | half;
            let second = factor(wide(Or, f64::from_bits(cleared), half, fraction));
            assert_eq!(first * second, f64::from_bits(fraction) / value, "{value}");
        }
    }

    #[test]
    fn an_exponent_by_shift_or_mask_is_passive() {
        let bits = (-6.5f64).to_bits();
        assert_eq!(wide(ShiftRight, -6.5, 52, bits >> 52), Outcome::Passive);
        assert_eq!(wide(ShiftRight, 0.0, 52, 0), Outcome::Passive);
        assert_eq!(wide(ShiftRight, -6.5, 63, bits >> 63), Outcome::Passive);
        assert_eq!(wide(ShiftRight, -6.5, 63, u64::MAX), Outcome::Passive);
        assert_eq!(wide(And, -6.5, 0x7ff << 52, bits & (0x7ff << 52)), Outcome::Passive);
    }

    #[test]
    fn an_integer_minimum_is_one_of_its_operands() {
        let of = |a: f64, b: f64, result: f64| {
            let [a, b, result] = [a, b, result].map(f64::to_bits);
            let lane = Lane { a, b, result, shadow_a: 5 | WIDE_TAG, shadow_b: 6 | WIDE_TAG };
            lane.outcome(Select)
        };
        // Both are powers of two: each is the other one, scaled.
        assert_eq!(of(2.0, 4.0, 2.0), LaneOutcome::Wide(Outcome::Same(5 | WIDE_TAG)));
        assert_eq!(of(2.0, 4.0, 4.0), LaneOutcome::Wide(Outcome::Same(6 | WIDE_TAG)));
        assert_eq!(of(2.0, 4.0, 3.0), LaneOutcome::Wide(Outcome::Lost));
    }

    #[test]
    fn shifts_are_no_real_operations() {
        let bits = |value: f64| value.to_bits();
        assert_eq!(wide(ShiftLeft, 1.1, 1, bits(1.1) << 1), Outcome::Lost);
        // The mantissa is zero before and after.
        assert_eq!(wide(ShiftLeft, 1.0, 1, bits(1.0) << 1), Outcome::Lost);
        assert_eq!(wide(ShiftRight, 2.0, 1, bits(2.0) >> 1), Outcome::Lost);
        assert_eq!(wide(ShiftLeft, 0.0, 1, 0), Outcome::Lost);
        assert_eq!(wide(ShiftLeft, 1.1, 64, 0), Outcome::Passive);
        for operation in [ShiftLeft, ShiftRight, Rotate] {
            for value in [1.1, 0.0] {
                assert_eq!(wide(operation, value, 0, bits(value)), Outcome::Same(INDEX));
            }
        }
        let counted = Lane { a: 5, b: bits(1.1), result: 0, shadow_a: 0, shadow_b: INDEX | WIDE_TAG };
        assert_eq!(counted.outcome(ShiftLeft), LaneOutcome::Wide(Outcome::Lost));
    }

    #[test]
    fn equal_numbers_that_change_places_are_not_taken_for_each_other() {
        let pair = 0x4020_0000_4020_0000;
        let lane = |result| Lane {
            a: pair,
            b: in_both_halves(32),
            result,
            shadow_a: of_narrow(3) | of_narrow(4) << 32,
            shadow_b: 0,
        };
        assert_eq!(lane(pair).outcome(Rotate), LaneOutcome::Narrow([Outcome::Lost; 2]));
        assert_eq!(lane(pair >> 32).outcome(ShiftRight), LaneOutcome::Narrow([Outcome::Lost, Outcome::Passive]));
    }

    #[test]
    fn a_difference_that_is_zero_is_passive() {
        assert_eq!(wide(Other, 1.0, 1f64.to_bits(), 0), Outcome::Passive);
    }

    #[test]
    fn anything_else_is_lost() {
        let bits = 1.1f64.to_bits();
        assert_eq!(wide(And, 1.1, 0xffff_ffff_0000_0000, bits & 0xffff_ffff_0000_0000), Outcome::Lost);
        assert_eq!(wide(Xor, 1.1, 0x5555, bits ^ 0x5555), Outcome::Lost);
        assert_eq!(wide(Other, 1.1, 0, bits.wrapping_mul(3)), Outcome::Lost);
        assert_eq!(wide(ShiftRight, 1.1, 1, bits >> 1), Outcome::Lost);
    }

    #[test]
    fn of_two_active_operands_the_matching_one_is_taken() {
        let lane = |a: f64, b: f64, result: u64| {
            let lane = Lane { a: a.to_bits(), b: b.to_bits(), result, shadow_a: 5 | WIDE_TAG, shadow_b: 6 | WIDE_TAG };
            lane.outcome(Or)
        };
        assert_eq!(lane(0.0, 3.0, 3f64.to_bits()), LaneOutcome::Wide(Outcome::Same(6 | WIDE_TAG)));
        assert_eq!(lane(3.0, 0.0, 3f64.to_bits()), LaneOutcome::Wide(Outcome::Same(5 | WIDE_TAG)));
        assert_eq!(lane(1.5, 1.25, 1.5f64.to_bits() | 1.25f64.to_bits()), LaneOutcome::Wide(Outcome::Lost));
        assert_eq!(lane(1.5, 1.5, 1.5f64.to_bits()), LaneOutcome::Wide(Outcome::Lost));
    }

    #[test]
    fn two_singles_in_a_lane_are_independent() {
        let pack = |low: f32, high: f32| u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32;
        let (first, second) = (of_narrow(3), of_narrow(4));
        let indices = first | second << 32;
        let lane = Lane { a: pack(1.0, -2.0), b: 1 << 31, result: pack(-1.0, -2.0), shadow_a: indices, shadow_b: 0 };
        let negated = Outcome::Scaled { index: first, ratio: -1.0 };
        assert_eq!(lane.outcome(Xor), LaneOutcome::Narrow([negated, Outcome::Same(second)]));
        // Packing by `or`: each half comes from one operand.
        let lane = Lane {
            a: pack(1.0, 0.0),
            b: pack(0.0, 5.0),
            result: pack(1.0, 5.0),
            shadow_a: first,
            shadow_b: second << 32,
        };
        assert_eq!(lane.outcome(Or), LaneOutcome::Narrow([Outcome::Same(first), Outcome::Same(second)]));
    }

    #[test]
    fn an_index_without_tag_belongs_to_a_single_beside_a_passive_one() {
        // The conjugate of a complex number with passive imaginary part.
        let value = u64::from(2.5f32.to_bits()) | u64::from(1.5f32.to_bits()) << 32;
        let lane = Lane { a: value, b: SIGN, result: value ^ SIGN, shadow_a: of_narrow(INDEX), shadow_b: 0 };
        assert_eq!(lane.outcome(Xor), LaneOutcome::Narrow([Outcome::Same(of_narrow(INDEX)), Outcome::Passive]));
    }

    /// Puts a number together as compilers do, and returns the shadow of the result.
    fn assembled(value: u64, shadow: u64, bytes: u32) -> Option<u64> {
        let byte = |bits: u64, k: u32| bits & 0xff << (8 * k);
        let mut so_far = (byte(value, 0), byte(shadow, 0));
        for k in 1..bytes {
            let (b, shadow_b) = (byte(value, k), byte(shadow, k));
            let lane = Lane { a: so_far.0, b, result: so_far.0 | b, shadow_a: so_far.1, shadow_b };
            let word = |outcome| match outcome {
                Outcome::Passive => Some(0),
                Outcome::Same(bits) => Some(bits),
                Outcome::Scaled { .. } | Outcome::Lost => None,
            };
            let LaneOutcome::Narrow([low, high]) = lane.outcome(Merge) else { return None };
            so_far = (lane.result, word(low)? | word(high)? << 32);
        }
        Some(so_far.1)
    }

    #[test]
    fn bytes_put_together_carry_their_part_of_the_index() {
        for index in [5, 0x1234, 0x0056_0034, 0x3f00_0001] {
            for value in [1.5f64, -0.75, 0.0, 3.7e-200] {
                assert_eq!(
                    assembled(value.to_bits(), index | WIDE_TAG, 8),
                    Some(index | WIDE_TAG),
                    "{value} {index:#x}"
                );
            }
            for value in [1.5f32, 2.75, -1.1, 300.0] {
                let word = of_narrow(index);
                assert_eq!(assembled(value.to_bits().into(), word, 4), Some(word), "{value} {index:#x}");
            }
        }
    }

    #[test]
    fn a_byte_that_could_be_an_exponent_is_lost_rather_than_guessed() {
        let mantissa = 0x0040_0000;
        let lane = Lane {
            a: mantissa,
            b: bytes::HALF_EXPONENT,
            result: mantissa | bytes::HALF_EXPONENT,
            shadow_a: 5,
            shadow_b: 0,
        };
        assert_ne!(lane.outcome(Merge), LaneOutcome::Narrow([Outcome::Same(5), Outcome::Passive]));
    }

    #[test]
    fn masks_of_whole_bytes_keep_parts_of_an_index() {
        let lane = Lane { a: 0xc0_0000, b: 0xffff_ffff_00ff_ffff, result: 0xc0_0000, shadow_a: 0x34, shadow_b: 0 };
        assert_eq!(lane.outcome(And), LaneOutcome::Narrow([Outcome::Same(0x34), Outcome::Passive]));
        // A byte that is cleared although it has a part of the index is no move.
        let lane = Lane { b: !0xff, ..lane };
        assert_eq!(lane.outcome(And), LaneOutcome::Narrow([Outcome::Lost, Outcome::Passive]));
    }

    #[test]
    fn merging_a_sign_in_a_general_register_is_negation() {
        let value = 2.5f64.to_bits();
        let lane = Lane { a: value, b: SIGN, result: value | SIGN, shadow_a: INDEX | WIDE_TAG, shadow_b: 0 };
        assert_eq!(without_tag(lane.outcome(Merge)), scaled(-1.0));
    }

    #[test]
    fn half_an_index_moves_but_is_lost_in_computations() {
        let half = (INDEX | WIDE_TAG) >> 32;
        let lane = |result| Lane { a: 0x4000_0000, b: 0, result, shadow_a: half, shadow_b: 0 };
        assert_eq!(lane(0x4000_0000).outcome(Or), LaneOutcome::Narrow([Outcome::Same(half), Outcome::Passive]));
        assert_eq!(lane(0xc000_0000).outcome(Xor), LaneOutcome::Narrow([Outcome::Lost, Outcome::Passive]));
        // The lower half of an index is none, though it may be the number of one.
        let lower = Lane { a: 1, b: 0x8000_0000, result: 0x8000_0001, shadow_a: INDEX, shadow_b: 0 };
        assert_eq!(lower.outcome(Xor), LaneOutcome::Narrow([Outcome::Lost, Outcome::Passive]));
    }
}
