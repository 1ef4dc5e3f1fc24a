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
pub(crate) mod holes;
mod pending;
mod values;

use crate::ir::{BitOperation, Format};
use crate::shadow::narrow_index;

pub(crate) use pending::index_and_factor;

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
    if operation.is_shift() {
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
    if matches!(operation, BitOperation::ShiftRight | BitOperation::Lower) {
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
    /// Applies the rule to a lane of eight bytes whose shadow holds indices. They keep their tag in the outcome. `is_wide` tells whether a word of shadow is that of a
    /// binary64 number.
    pub fn outcome(&self, operation: BitOperation, is_wide: impl Fn(u64) -> bool) -> LaneOutcome {
        let tagged = [self.shadow_a, self.shadow_b].into_iter().any(is_wide);
        if operation == BitOperation::FromInteger {
            // Bits of a number as an integer: nothing of the result is a real operation.
            let lost = |shadow: u64| if shadow == 0 { Outcome::Passive } else { Outcome::Lost };
            let half = |shift: u32| lost(self.shadow_a >> shift & u64::from(u32::MAX));
            return if tagged { LaneOutcome::Wide(Outcome::Lost) } else { LaneOutcome::Narrow([0, 32].map(half)) };
        }
        let masks = matches!(operation, BitOperation::And | BitOperation::Take);
        let is_operation = tagged && masks || self.changes_number();
        let moved = self.moved(operation, |half| narrow_index(half).is_some()).filter(|_| !is_operation);
        if let Some(shadow) = moved.or_else(|| self.taken_apart(operation)) {
            let half = |index: u64| if index == 0 { Outcome::Passive } else { Outcome::Same(index) };
            return LaneOutcome::Narrow([half(shadow & u64::from(u32::MAX)), half(shadow >> 32)]);
        }
        // A binary64 value's index has the tag. (An index that a client request has set without saying the size gets its tag there, see
        // `recorder::requests`.)
        if tagged && !self.has_upper_half(operation) {
            LaneOutcome::Wide(self.wide(operation))
        } else {
            let [low, high] = [0, 32].map(|shift| self.index_half(operation, shift));
            LaneOutcome::Narrow([low, if self.has_rest_above(high) { Outcome::Passive } else { high }])
        }
    }

    /// Whether what is lost in the upper half is only what a conversion to binary32 has left of a binary64 number there, beside its result.
    fn has_rest_above(&self, high: Outcome) -> bool {
        let [low_a, low_b] = self.halves(0).map(|operand| operand.index);
        let is_number = |half: u64| half != 0 && narrow_index(half).is_some();
        let is_rest = |operand: Operand| operand.index == 0 || pending::is_upper_half(operand.index);
        high == Outcome::Lost && (is_number(low_a) || is_number(low_b)) && self.halves(32).into_iter().all(is_rest)
    }

    /// The operation, or if it is a sum of numbers that have no bits in common, the bitwise one that it is then. What is put together has shadow in both.
    pub fn bitwise(&self, operation: BitOperation) -> BitOperation {
        let width = if (self.a | self.result) >> 32 == 0 { u64::from(u32::MAX) } else { u64::MAX };
        let is_union = self.a & self.b & width == 0 && self.result == (self.a | self.b) & width;
        match operation {
            BitOperation::Sum if is_union && self.shadow_a != 0 && self.shadow_b != 0 => BitOperation::Merge,
            BitOperation::Sum if is_union => BitOperation::Or,
            BitOperation::Sum => BitOperation::Other,
            operation => operation,
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
        [0, 32].map(|shift| self.rule(operation, shift))
    }

    /// Whether there is no more of a binary64 number than its upper half: before the operation, or behind a mask in a general register.
    fn has_upper_half(&self, operation: BitOperation) -> bool {
        let is_upper = |shadow: u64| shadow << 32 == 0;
        let is_mask = |bits: u64, shadow: u64| shadow == 0 && bits << 32 == 0;
        match operation {
            // Bits go from one half to the other.
            shift if shift.is_shift() => false,
            BitOperation::Take if is_mask(self.b, self.shadow_b) || is_mask(self.a, self.shadow_a) => true,
            _ => is_upper(self.shadow_a) && is_upper(self.shadow_b),
        }
    }

    /// The rule for the half that starts at this bit, if its shadow holds indices with their tag. Of pieces of indices, upper halves can be computed with, others
    /// be moved.
    fn index_half(&self, operation: BitOperation, shift: u32) -> Outcome {
        let [a, b] = self.halves(shift);
        if narrow_index(a.index).is_some() && narrow_index(b.index).is_some() {
            return self.rule(operation, shift);
        }
        let result = self.half(shift).result;
        let masks = matches!(operation, BitOperation::And | BitOperation::Take | BitOperation::AndNot);
        if [a, b].into_iter().all(|operand| operand.index == 0 || pending::is_upper_half(operand.index)) {
            return match number(&pending::UPPER_HALF, operation, a, b, result) {
                Outcome::Scaled { index, ratio } => pending::scaled(index, ratio).map_or(Outcome::Lost, Outcome::Same),
                outcome => outcome,
            };
        }
        // A mask that changes nothing now would change other mantissas.
        let is_moved = |piece: Operand| piece.value == result && !masks;
        let is_cleared = |other: Operand| masks && operation != BitOperation::AndNot && other.value == 0;
        match (a.index, b.index) {
            (_, 0) if is_cleared(b) => Outcome::Passive,
            (0, _) if is_cleared(a) => Outcome::Passive,
            (piece, 0) if is_moved(a) => Outcome::Same(piece),
            (0, piece) if is_moved(b) => Outcome::Same(piece),
            _ => Outcome::Lost,
        }
    }

    /// The half that starts at this bit, as a lane of four bytes.
    pub fn half(&self, shift: u32) -> Lane {
        let half = |bits: u64| bits >> shift & u64::from(u32::MAX);
        Lane {
            a: half(self.a),
            b: half(self.b),
            result: half(self.result),
            shadow_a: half(self.shadow_a),
            shadow_b: half(self.shadow_b),
        }
    }

    /// The rule for a 4-byte number in the half that starts at this bit.
    fn rule(&self, operation: BitOperation, shift: u32) -> Outcome {
        let [a, b] = self.halves(shift);
        number(&NARROW, operation, a, b, self.half(shift).result)
    }

    /// The operands' halves that start at this bit.
    fn halves(&self, shift: u32) -> [Operand; 2] {
        let Lane { a, b, shadow_a, shadow_b, .. } = self.half(shift);
        [Operand { value: a, index: shadow_a }, Operand { value: b, index: shadow_b }]
    }
}

#[cfg(test)]
mod tests;
