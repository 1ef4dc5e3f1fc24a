//! Integer operations on the upper bytes of a number, in a register of their own.
//!
//! Sign and exponent of an 80-bit number lie behind the significand, so that programs have them in a *word* of their own, in the low 16 bits of a general register or in
//! memory. Code that takes numbers apart (`ieee754.h`, FDLIBM's `SET_HIGH_WORD`, Cephes, compilers at -O0) has the upper four, two or one bytes of binary64 and binary32 numbers there. The shadow has
//! the same part of the dot value. The rule of [`crate::bit_tricks`] is applied to these parts alone: an operation that flips the number's sign or adds to its exponent does the same to
//! the dot value's. A number whose exponent is masked out counts as if it were that of 1, as there.
//!
//! Nothing marks such parts. They are recognized by exponents that numbers have, the program's and the dot value, and by a shadow that has nothing above them; a dot value
//! of binary64 or two of binary32 would have to be below 2^-133. A sum does to each format's exponent what it does to another one's, so that it does not matter which part it is; where it
//! does, that one is taken under which nothing is lost. Bytes behind an 80-bit number's word pad it to 16, and their shadow can be left from another
//! variable that was there: so what is no operation on numbers of the other formats is looked at once more, without these bytes. (Then one in a thousand words of a
//! significand looks like sign and exponent.)

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::bit_tricks::Lane;
use crate::ir::BitOperation;

/// A part of a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    sign: u64,
    exponent: u64,
    mantissa: u64,
    /// The exponent of 1.
    one: u64,
    /// Exponents are within this distance from it.
    range: u64,
    /// The shadow above the part may have no meaning.
    padded: bool,
}

/// Exponents of binary64 and binary32 numbers in [`Part`]s.
const WIDE_RANGE: u64 = 1 << 7;
const NARROW_RANGE: u64 = 1 << 5;
/// Integers below this share of the exponent of 1 are exponents without their bias.
const SMALL: u64 = 4;

impl Part {
    /// Sign and exponent of an 80-bit number.
    pub(super) const WORD: Part =
        Part { sign: 0x8000, exponent: 0x7fff, mantissa: 0, one: 0x3fff, range: 1 << 11, padded: false };
    /// The same with anything behind it.
    const PADDED_WORD: Part = Part { range: 1 << 9, padded: true, ..Part::WORD };
    /// The upper two bytes of a binary64 number.
    pub(super) const WIDE_WORD: Part =
        Part { exponent: 0x7ff0, mantissa: 0xf, one: 0x3ff0, range: WIDE_RANGE << 4, ..Part::WORD };
    /// The upper two bytes of a binary32 number.
    pub(super) const NARROW_WORD: Part =
        Part { exponent: 0x7f80, mantissa: 0x7f, one: 0x3f80, range: NARROW_RANGE << 7, ..Part::WORD };
    /// The upper four bytes of a binary64 number.
    const WIDE_HALF: Part = Part {
        sign: 1 << 31,
        exponent: 0x7ff << 20,
        mantissa: (1 << 20) - 1,
        one: 0x3ff << 20,
        range: WIDE_RANGE << 20,
        padded: false,
    };
    /// The highest byte of a number: exponents from 2^-26 to 2^26 in binary32, 2^-208 to 2^208 in binary64.
    const BYTE: Part = Part { sign: 0x80, exponent: 0x7f, mantissa: 0, one: 0x3f, range: 6, padded: false };

    /// Parts that are known by their shadow.
    const SHORT: [&'static Part; 4] = [&Part::BYTE, &Part::WORD, &Part::WIDE_WORD, &Part::NARROW_WORD];
    /// Parts that could be other numbers, or parts of them.
    const UNCERTAIN: [&'static Part; 2] = [&Part::WIDE_HALF, &Part::PADDED_WORD];

    /// The least exponent field that is plausible.
    pub(super) const fn smallest(&self) -> u64 {
        self.one - self.range
    }

    const fn bits(&self) -> u64 {
        self.sign | (self.sign - 1)
    }

    /// What an operation does to a lane, if that is such a part.
    fn of(lane: &Lane, operation: BitOperation, part: &'static Part) -> Option<Change> {
        let highest = lane.shadow_a.max(lane.shadow_b);
        if !part.padded && highest > part.bits() {
            return None;
        }
        let operand = |value: u64, shadow: u64| Operand { value: value & part.bits(), dot: shadow & part.bits() };
        let (a, b) = (operand(lane.a, lane.shadow_a), operand(lane.b, lane.shadow_b));
        if !(part.is_plausible(a) && part.is_plausible(b)) {
            return None;
        }
        let (kept_of_a, kept_of_b) = match operation {
            BitOperation::And | BitOperation::Take => (lane.b, lane.a),
            BitOperation::AndNot => (lane.b, !lane.a),
            _ => (u64::MAX, u64::MAX),
        };
        let outcome = match (a.dot != 0, b.dot != 0) {
            (false, false) => return None,
            (true, true) => part.both(operation, a, b, lane.result),
            (true, false) => part.one(operation, a, kept_of_a, lane),
            (false, true) => part.one(operation, b, kept_of_b, lane),
        };
        let behind = (lane.shadow_a | lane.shadow_b) & !part.bits() & kept_of_a;
        let above = [lane.a & kept_of_a, lane.b & kept_of_b, lane.a | lane.b];
        if behind != 0 && above.into_iter().all(|above| (above ^ lane.result) & !part.bits() != 0) {
            return None;
        }
        Some(Change { outcome, result: lane.result & part.bits(), behind, part })
    }

    fn is_plausible(&self, operand: Operand) -> bool {
        let near = |bits: u64| (bits & self.exponent).abs_diff(self.one) <= self.range;
        operand.dot == 0 || near(operand.dot) && (near(operand.value) || operand.value & self.exponent == 0)
    }

    /// An operation of one active operand, of which the other one keeps these bits, with a passive one.
    fn one(&self, operation: BitOperation, operand: Operand, kept: u64, lane: &Lane) -> Outcome {
        let result = lane.result & self.bits();
        let [field, before] = [result, operand.value].map(|bits| bits & self.exponent);
        let flips = (operand.value ^ result) & self.sign != 0;
        let shift = lane.b & u64::from(u32::MAX);
        match operation {
            BitOperation::And | BitOperation::Take | BitOperation::AndNot => {
                match [self.exponent, self.mantissa].map(|bits| kept & bits) {
                    [0, mantissa] if mantissa == self.mantissa && kept & (self.sign | mantissa) != 0 => {
                        return Outcome::Scaled(operand);
                    }
                    [exponent, mantissa] if exponent == self.exponent && mantissa == self.mantissa => {}
                    // A sign or an exponent by itself, or nothing.
                    [exponent, 0] if exponent == 0 || exponent == self.exponent => return Outcome::Passive,
                    _ => return Outcome::Lost,
                }
            }
            BitOperation::ShiftLeft | BitOperation::Raise | BitOperation::Rotate => return Outcome::Lost,
            _ if result == operand.value => {}
            // The sign bit, for a comparison, or what is behind it; or the exponent with it.
            BitOperation::ShiftRight | BitOperation::Lower if self.is_shifted_out(shift) => return Outcome::Passive,
            BitOperation::ShiftRight | BitOperation::Lower => return Outcome::Lost,
            BitOperation::Other if self.is_small(lane.result) => return Outcome::Passive,
            // A complement, of which the sign is taken.
            BitOperation::Other if result == !operand.value & self.bits() => return Outcome::Scaled(operand),
            // A sum changes the sign or the exponent, or both of them if it leaves a long mantissa alone whatever it is.
            BitOperation::Other if flips && field != before && !self.is_beside_mantissa(lane) => return Outcome::Lost,
            _ => {}
        }
        let is_number = field == 0 || field.abs_diff(self.one) <= self.range;
        let same_mantissa = (result ^ operand.value) & self.mantissa == 0;
        if is_number && same_mantissa { Outcome::Scaled(operand) } else { Outcome::Lost }
    }

    /// Whether the passive operand of a sum has no bit in common with a mantissa of which there is so much that this is no chance.
    fn is_beside_mantissa(&self, lane: &Lane) -> bool {
        const LONG: u32 = 16;
        let summand = if lane.shadow_a == 0 { lane.a } else { lane.b };
        self.mantissa.count_ones() >= LONG && summand & self.mantissa == 0
    }

    /// Whether nothing of the mantissa, or no more than the sign, is left behind a shift to the right.
    fn is_shifted_out(&self, shift: u64) -> bool {
        let mantissa = u64::from(self.mantissa.count_ones());
        self.bits() >> shift.min(63) <= 1 || self.mantissa != 0 && shift >= mantissa
    }

    /// Whether an integer of one, two, four or eight bytes is near zero.
    fn is_small(&self, integer: u64) -> bool {
        let small = self.one.next_power_of_two() / SMALL;
        let largest = [u64::MAX, u64::from(u32::MAX), u64::from(u16::MAX), u64::from(u8::MAX)];
        let is_negative = |&largest: &u64| largest >= self.bits() && integer <= largest && integer > largest - small;
        integer < small || largest.iter().any(is_negative)
    }

    /// An operation of two active operands: one gives the exponent, the other a sign.
    fn both(&self, operation: BitOperation, a: Operand, b: Operand, result: u64) -> Outcome {
        let field = |bits: u64| bits & self.exponent;
        let gives = |operand: Operand, other: Operand| {
            let joins =
                matches!(operation, BitOperation::Or | BitOperation::Merge | BitOperation::Xor | BitOperation::Other);
            joins && field(other.value) == 0 && field(operand.value) == field(result)
        };
        if gives(a, b) || a == b && a.value == result & self.bits() {
            Outcome::Scaled(a)
        } else if gives(b, a) {
            Outcome::Scaled(b)
        } else {
            Outcome::Lost
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    /// Nothing of the exponent remains, or the result is an integer.
    Passive,
    /// The result is this one with another sign or exponent.
    Scaled(Operand),
    Lost,
}

/// The part of a number and that of its dot value, 0 if that is zero.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Operand {
    value: u64,
    dot: u64,
}

/// What becomes of a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    outcome: Outcome,
    result: u64,
    /// The shadow behind it.
    behind: u64,
    part: &'static Part,
}

impl Change {
    /// The shadow of the result, and whether derivative information is lost. While differentiation is suspended only moves keep their dot value.
    pub fn shadow(&self, suspended: bool) -> (u64, bool) {
        match self.outcome {
            Outcome::Passive => (0, false),
            Outcome::Lost => (0, true),
            Outcome::Scaled(operand) if operand.value == self.result => (operand.dot | self.behind, false),
            Outcome::Scaled(_) if suspended => (0, false),
            Outcome::Scaled(operand) => self.scaled(operand).map_or((0, true), |dot| (dot | self.behind, false)),
        }
    }

    /// Whether the number is still there, but for its exponent.
    fn masks_exponent(&self) -> bool {
        let exponent = self.part.exponent;
        matches!(self.outcome, Outcome::Scaled(operand) if operand.value & exponent != 0 && self.result & exponent == 0)
    }

    /// The dot value of the result; `None` if it is out of range.
    fn scaled(&self, operand: Operand) -> Option<u64> {
        let Part { sign, exponent, mantissa, one, .. } = *self.part;
        let field = |bits: u64| if bits & exponent == 0 { one } else { bits & exponent };
        let sum = (operand.dot & exponent) + field(self.result);
        let new = sum.checked_sub(field(operand.value)).filter(|new| (1..exponent).contains(new))?;
        Some((operand.dot ^ operand.value ^ self.result) & sign | new | operand.dot & mantissa)
    }
}

/// The dot value of an operation on parts that are known by their shadow, and whether it is lost; `None` if they are not.
pub(super) fn of_short_parts(lane: &Lane, operation: BitOperation, suspended: bool) -> Option<(u64, bool)> {
    first(&Part::SHORT, lane, operation, suspended)
}

/// The same for parts that could be other numbers: to be asked if the operation is none on those.
pub(super) fn of_uncertain_parts(lane: &Lane, operation: BitOperation, suspended: bool) -> Option<(u64, bool)> {
    first(&Part::UNCERTAIN, lane, operation, suspended).filter(|(_, lost)| !lost)
}

/// What becomes of the first part of which nothing is lost, or of the first one.
fn first(parts: &[&'static Part], lane: &Lane, operation: BitOperation, suspended: bool) -> Option<(u64, bool)> {
    let masked = MASKED.with_borrow(|masked| known(masked, lane));
    let parts = masked.as_ref().map_or(parts, std::slice::from_ref);
    let changes = parts.iter().filter_map(|part| Part::of(lane, operation, part));
    let mut found = changes.map(|change| (change, change.shadow(suspended))).collect::<Vec<_>>();
    let chosen = found.iter().position(|(_, (_, lost))| !lost).unwrap_or(0);
    let (change, (dot, lost)) = (chosen < found.len()).then(|| found.swap_remove(chosen))?;
    if !lost && change.masks_exponent() {
        MASKED.with_borrow_mut(|masked| {
            masked.truncate(REMEMBERED - 1);
            masked.push_front(Masked { value: change.result, dot, part: change.part });
        });
    }
    Some((dot, lost))
}

/// Parts without their exponent that a thread remembers.
const REMEMBERED: usize = 16;

/// A part of which the exponent has been masked out: its value and its dot value do not tell any more which one it is.
struct Masked {
    value: u64,
    dot: u64,
    part: &'static Part,
}

thread_local! {
    /// The newest one first.
    static MASKED: RefCell<VecDeque<Masked>> = const { RefCell::new(VecDeque::new()) };
}

/// What becomes of the part of a dot value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replaced {
    /// It is this.
    Scaled(u64),
    /// There is no number any more, or none before, or one that does not look like one.
    Nothing,
    /// It is out of range.
    Lost,
}

impl Part {
    /// Whether this can be the part of a dot value, with nothing behind it.
    pub(super) fn is_dot(&self, dot: u64) -> bool {
        dot <= self.bits() && (dot & self.exponent).abs_diff(self.one) <= self.range
    }

    /// What becomes of a dot value's part if constants are put in place of the number's: sign and exponent change, and what is left of the mantissa counts. `smallest` is the least
    /// exponent field of a number.
    pub(super) fn replaced(&self, before: u64, after: u64, dot: u64, smallest: u64) -> Replaced {
        let Part { sign, exponent, mantissa, .. } = *self;
        let [old, new, of_dot] = [before, after, dot].map(|bits| bits & exponent);
        let is_number = (smallest..exponent).contains(&new) && (1..exponent).contains(&old);
        // A dot value that gets too small vanishes.
        let Some(field) = (of_dot + new).checked_sub(old).filter(|&field| field != 0) else { return Replaced::Nothing };
        match (is_number && of_dot != 0, field < exponent) {
            (false, _) => Replaced::Nothing,
            (true, false) => Replaced::Lost,
            (true, true) => Replaced::Scaled((dot ^ before ^ after) & sign | field | dot & mantissa),
        }
    }
}

/// The part that an operand is, if its exponent has been masked out.
fn known(masked: &VecDeque<Masked>, lane: &Lane) -> Option<&'static Part> {
    let operands = [(lane.a, lane.shadow_a), (lane.b, lane.shadow_b)];
    masked.iter().find(|masked| operands.contains(&(masked.value, masked.dot))).map(|masked| masked.part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use BitOperation::{And, Merge, Or, Other, ShiftRight, Xor};

    const SIGN: u64 = Part::WORD.sign;
    const EXPONENT: u64 = Part::WORD.exponent;
    const BIAS: u64 = Part::WORD.one;
    /// Sign and exponent of -1.5, 5 and a dot value of 3.
    const NUMBER: u64 = 0xbfff;
    const FIVE: u64 = 0x4001;
    const DOT: u64 = 0x4000;

    fn read(part: &'static Part, lane: &Lane, operation: BitOperation) -> Option<(u64, bool)> {
        Part::of(lane, operation, part).map(|change| change.shadow(false))
    }

    fn of(operation: BitOperation, value: u64, other: u64, result: u64) -> Option<(u64, bool)> {
        read(&Part::WORD, &Lane { a: value, b: other, result, shadow_a: DOT, shadow_b: 0 }, operation)
    }

    #[test]
    fn signs_and_exponents() {
        assert_eq!(of(Xor, NUMBER, SIGN, NUMBER ^ SIGN), Some((DOT | SIGN, false)));
        assert_eq!(of(And, NUMBER, EXPONENT, NUMBER & EXPONENT), Some((DOT | SIGN, false)));
        assert_eq!(of(And, FIVE, !SIGN, FIVE), Some((DOT, false)));
        assert_eq!(of(Or, FIVE, SIGN, FIVE | SIGN), Some((DOT | SIGN, false)));
        assert_eq!(of(Other, FIVE, 3, FIVE + 3), Some((DOT + 3, false)));
        assert_eq!(of(Other, FIVE, SIGN, FIVE + SIGN), Some((DOT | SIGN, false)));
        // With anything above the word, in the bytes that pad the number.
        let above = 0x1234_5678_9abc_0000;
        assert_eq!(of(Other, above | FIVE, 3, above | (FIVE + 3)), Some((DOT + 3, false)));
    }

    #[test]
    fn a_fraction_is_made_in_two_steps() {
        for value in [FIVE, FIVE | SIGN] {
            let sign = value & SIGN;
            let (dot, lost) = of(And, value, SIGN, sign).unwrap();
            assert_eq!((dot, lost), (DOT - 2, false));
            let lane = Lane { a: sign, b: BIAS, result: sign | BIAS, shadow_a: dot, shadow_b: 0 };
            assert_eq!(read(&Part::WORD, &lane, Or), Some((DOT - 2, false)));
        }
    }

    #[test]
    fn a_sign_that_is_given_to_another_number_has_no_derivative() {
        let (sign, lost) = of(And, NUMBER, SIGN, SIGN).unwrap();
        assert!(!lost);
        for operation in [Or, Merge, Xor] {
            let lane = Lane { a: FIVE, b: SIGN, result: FIVE | SIGN, shadow_a: DOT + 1, shadow_b: sign };
            assert_eq!(read(&Part::WORD, &lane, operation), Some(((DOT + 1) | SIGN, false)));
        }
    }

    #[test]
    fn integers_are_passive_and_other_operations_are_lost() {
        assert_eq!(of(ShiftRight, NUMBER, 15 << 32 | 15, 1), Some((0, false)));
        assert_eq!(of(Other, FIVE, BIAS.wrapping_neg(), 2), Some((0, false)));
        assert_eq!(of(Other, BIAS - 3, BIAS.wrapping_neg(), (-3i64) as u64), Some((0, false)));
        assert_eq!(of(Other, BIAS - 3, BIAS.wrapping_neg(), 0xffff_fffd), Some((0, false)));
        assert_eq!(of(Other, FIVE, 0x3000, FIVE + 0x3000), Some((0, true)));
        assert_eq!(of(And, FIVE, 0, 0), Some((0, false)));
        assert_eq!(of(And, FIVE, 0xff, FIVE & 0xff), Some((0, true)));
    }

    #[test]
    fn words_of_other_numbers_are_left_to_the_general_rule() {
        let lane = Lane { a: 0x1234, b: 1, result: 0x1235, shadow_a: DOT, shadow_b: 0 };
        assert_eq!(read(&Part::WORD, &lane, Other), None);
        let [value, result, dot] = [1.5f64, -1.5, 1.0].map(f64::to_bits);
        let lane = Lane { a: value, b: 1 << 63, result, shadow_a: dot, shadow_b: 0 };
        assert_eq!(read(&Part::WORD, &lane, Xor), None);
    }

    #[test]
    fn what_is_left_behind_the_number_is_left_alone() {
        let above = 0x4008_1234_5678_0000;
        let lane = Lane { a: FIVE, b: SIGN, result: FIVE | SIGN, shadow_a: above | DOT, shadow_b: 0 };
        assert_eq!(read(&Part::WORD, &lane, Xor), None);
        assert_eq!(read(&Part::PADDED_WORD, &lane, Xor), Some((above | DOT | SIGN, false)));
        let lane = Lane { b: SIGN, result: 0, ..lane };
        assert_eq!(read(&Part::PADDED_WORD, &lane, And), Some((DOT - 2, false)));
    }

    /// A negated bit field: `~v >> 7 << 7 | v & 0x7f`.
    #[test]
    fn the_highest_byte() {
        let lane =
            |value: u64, other: u64, result: u64| Lane { a: value, b: other, result, shadow_a: 0x40, shadow_b: 0 };
        assert_eq!(read(&Part::BYTE, &lane(0xbf, 0x80, 0x3f), Xor), Some((0xc0, false)));
        assert_eq!(read(&Part::BYTE, &lane(0xbf, 0x7f, 0x3f), And), Some((0xc0, false)));
        assert_eq!(read(&Part::BYTE, &lane(0x3f, 0, 0xffff_ffc0), Other), Some((0xc1, false)));
        assert_eq!(read(&Part::BYTE, &lane(0x3f, 7, 0), ShiftRight), Some((0, false)));
        // Another exponent; a byte of a mantissa.
        assert_eq!(read(&Part::BYTE, &lane(0x3f, 1, 0x40), Other), Some((0x41, false)));
        assert_eq!(read(&Part::BYTE, &lane(0x81, 0x80, 0x01), Xor), None);
        assert_eq!(read(&Part::WORD, &lane(0x3f, 0x80, 0xbf), Xor), None);
    }

    /// A negative binary64 number and one of binary32, whose exponents are changed.
    #[test]
    fn upper_bytes_of_other_formats() {
        let (value, dot) = ((-1.5f64).to_bits(), 0.7f64.to_bits());
        let upper = |value: f64, dot: f64, shift: u32| (value.to_bits() >> shift, dot.to_bits() >> shift);
        for (shift, bits) in [(48, 0xffffu64), (32, 0xffff_ffff)] {
            let lane = |result: u64| Lane { a: value >> shift, b: 0, result, shadow_a: dot >> shift, shadow_b: 0 };
            let found = |lane: &Lane, operation| {
                of_short_parts(lane, operation, false).or_else(|| of_uncertain_parts(lane, operation, false))
            };
            let (doubled, dots) = upper(-12.0, 5.6, shift);
            assert_eq!(found(&lane(doubled), Other), Some((dots, false)));
            // The mantissa with its sign, and then the exponent of 1/2.
            let mask = 0x800f_ffff_ffff_ffff >> shift;
            let (halved, dots) = upper(-0.75, 0.35, shift);
            let masked = Lane { b: mask, ..lane(value >> shift & mask) };
            let (shadow, lost) = found(&masked, And).unwrap();
            assert!(!lost);
            let set =
                Lane { a: masked.result, b: halved & !mask & bits, result: halved, shadow_a: shadow, shadow_b: 0 };
            assert_eq!(found(&set, Or), Some((dots, false)));
            // The exponent by itself, and a mantissa.
            let mask = 0x7ff0_0000_0000_0000 >> shift;
            assert_eq!(found(&Lane { b: mask, ..lane(value >> shift & mask) }, And), Some((0, false)));
            assert!(found(&lane((value >> shift) + 1), Other).is_none_or(|(_, lost)| lost || shift == 48));
        }
        let [value, scaled, dot, expected] = [1.75f32, 14.0, 0.3, 2.4].map(|number| u64::from(number.to_bits() >> 16));
        let lane = Lane { a: value, b: 0x180, result: scaled, shadow_a: dot, shadow_b: 0 };
        assert_eq!(of_short_parts(&lane, Other, false), Some((expected, false)));
    }

    /// `sub eax, 7ff00000h` doubles a number and changes its sign.
    #[test]
    fn a_sum_that_changes_sign_and_exponent_leaves_a_mantissa_alone() {
        let upper = |number: f64| number.to_bits() >> 32;
        for value in [7.0, -7.0, 0.3] {
            let lane = |summand: u64, result: u64| {
                let lane = Lane { a: upper(value), b: summand, result, shadow_a: upper(4.0), shadow_b: 0 };
                of_uncertain_parts(&lane, Other, false)
            };
            assert_eq!(lane(0x7ff0_0000, upper(-2.0 * value)), Some((upper(-8.0), false)));
            assert_eq!(lane(0x7ff0_0001, upper(-2.0 * value)), None, "it changes the mantissa of others");
        }
        // Of a few bits it can be chance.
        assert_eq!(of(Other, FIVE, SIGN + 1, FIVE + SIGN + 1), Some((0, true)));
    }

    #[test]
    fn a_number_without_exponent_stays_of_its_format() {
        // -2, of which only the sign is left without the exponent, with a dot value of 1; then the exponent of 4.
        for upper in [|number: f64| number.to_bits() >> 48, |number: f64| u64::from((number as f32).to_bits() >> 16)] {
            let infinity = upper(f64::INFINITY);
            let keeps =
                Lane { a: upper(-2.0), b: !infinity & 0xffff, result: 0x8000, shadow_a: upper(1.0), shadow_b: 0 };
            let (dot, lost) = of_short_parts(&keeps, And, false).unwrap();
            assert!(!lost);
            let sets = Lane { a: upper(4.0), b: 0x8000, result: upper(-4.0), shadow_a: 0, shadow_b: dot };
            assert_eq!(of_short_parts(&sets, Or, false), Some((upper(2.0), false)));
        }
    }

    #[test]
    fn while_suspended_only_moves_keep_their_dot_value() {
        let lane = Lane { a: FIVE, b: SIGN, result: FIVE | SIGN, shadow_a: DOT, shadow_b: 0 };
        assert_eq!(Part::of(&lane, Or, &Part::WORD).map(|change| change.shadow(true)), Some((0, false)));
        let same = Lane { b: 0, result: FIVE, ..lane };
        assert_eq!(Part::of(&same, Or, &Part::WORD).map(|change| change.shadow(true)), Some((DOT, false)));
    }
}
