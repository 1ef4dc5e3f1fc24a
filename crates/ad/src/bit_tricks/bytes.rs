//! Bytes of numbers, and of their shadow, that are taken apart and put together in general registers.

use super::pending::{UPPER_HALF, is_upper_half};
use super::{Lane, Layout, NARROW, in_both_halves};
use crate::ir::BitOperation;
use crate::shadow::narrow_index;

/// The exponent field of binary32 numbers from 0.5 to 1, which `frexp` sets.
pub(super) const HALF_EXPONENT: u64 = 0x3f00_0000;

impl Lane {
    /// The shadow of the result if each of its bytes is a byte of one operand, to which the other one contributes neither value nor shadow. `is_number` tells whether four
    /// bytes of shadow can be that of a binary32 number.
    pub fn moved(&self, operation: BitOperation, is_number: impl Fn(u64) -> bool) -> Option<u64> {
        match operation {
            BitOperation::And | BitOperation::Take => self.kept(),
            BitOperation::Merge => self.merged(is_number),
            BitOperation::Lower | BitOperation::Raise => self.shifted(operation),
            BitOperation::Turn => self.turned(),
            _ => None,
        }
    }

    /// The shadow of bytes that a shift by a number of whole bytes, which is in a register, moves. Behind them come zeros, or copies of a sign.
    fn shifted(&self, operation: BitOperation) -> Option<u64> {
        let count = self.b & u64::from(u32::MAX);
        let by_bytes = count != 0 && count.is_multiple_of(8) && count < 64;
        if !by_bytes || self.b != in_both_halves(count) || self.shadow_b != 0 {
            return None;
        }
        if operation == BitOperation::Lower {
            let shifted = [self.a >> count, (self.a as i64 >> count) as u64];
            return shifted.contains(&self.result).then_some(self.shadow_a >> count);
        }
        // Of eight bytes, or of four.
        let width = if self.a >> 32 == 0 && self.result >> 32 == 0 { u64::from(u32::MAX) } else { u64::MAX };
        (self.result == self.a << count & width).then_some(self.shadow_a << count)
    }

    /// The shadow of halves that change places, in four bytes or in eight.
    fn turned(&self) -> Option<u64> {
        let turned = |number: u64, width: u32| match width {
            32 => (number as u32).rotate_left(16).into(),
            _ => number.rotate_left(32),
        };
        let width = [32, 64].into_iter().find(|width| self.b == in_both_halves(u64::from(width / 2)))?;
        let is_turned = self.shadow_b == 0 && self.result == turned(self.a, width);
        is_turned.then(|| turned(self.shadow_a, width))
    }

    /// An operand and its shadow, and the other one, if that is passive and a mask of whole bytes.
    fn masked(&self) -> Option<(u64, u64, u64)> {
        let is_mask = |mask: u64| mask.to_le_bytes().into_iter().all(|byte| byte == 0 || byte == 0xff);
        [(self.a, self.shadow_a, self.b, self.shadow_b), (self.b, self.shadow_b, self.a, self.shadow_a)]
            .into_iter()
            .find(|&(_, _, mask, shadow_of_mask)| shadow_of_mask == 0 && is_mask(mask))
            .map(|(bits, shadow, mask, _)| (bits, shadow, mask))
    }

    /// The shadow of an operand, if the mask clears only such bytes as were zero and passive.
    fn kept(&self) -> Option<u64> {
        let (bits, shadow, mask) = self.masked()?;
        ((bits | shadow) & !mask == 0).then_some(shadow)
    }

    /// The shadow that is left if a mask keeps some bytes of the other operand and no number: code that puts numbers together from their bytes takes them
    /// out in this way. What keeps both bytes that have the exponent, and not all of the number, is a truncation.
    pub fn taken_apart(&self, operation: BitOperation) -> Option<u64> {
        let (_, shadow, mask) = self.masked()?;
        let kept = |byte: usize| mask.to_le_bytes()[byte] != 0;
        let keeps_some = ![0, u64::MAX].contains(&mask);
        // The highest byte of a binary64 number or the upper of two binary32 numbers, and of the lower one.
        let truncates = |highest: usize| kept(highest) && kept(highest - 1) && !(0..highest).all(kept);
        (operation == BitOperation::Take && keeps_some && !truncates(7) && !truncates(3)).then_some(shadow & mask)
    }

    /// The shadow of a number of which a mask in a general register clears one byte, and which byte that is. Compilers do so before they put another one there. (The lowest
    /// one they can write without a mask.)
    pub fn cleared_byte(&self, operation: BitOperation) -> Option<(u64, u32)> {
        const UPPER: u64 = !0 << 32;
        let is_half = (self.a | self.b | self.result | self.shadow_a | self.shadow_b) & UPPER == 0;
        let ([a, b], masks) = ([self.a, self.b], if is_half { UPPER } else { 0 });
        let (_, shadow, mask) = Lane { a: a | masks, b: b | masks, ..*self }.masked()?;
        let bit = (!mask).trailing_zeros();
        (operation == BitOperation::Take && bit != 0 && !mask == 0xff << bit.min(56)).then_some((shadow, bit / 8))
    }

    /// A number and its shadow of which a mask in a general register clears one byte but the lowest, or some of the bits of the upper two, and a mask of what is cleared. (Not if these are
    /// sign, exponent, or both: what is left is a number by itself.)
    pub fn hole(&self, operation: BitOperation) -> Option<(u64, u64, u64)> {
        let is_half = (self.a | self.b | self.result | self.shadow_a | self.shadow_b) >> 32 == 0;
        let (above, upper) = if is_half { (!0 << 32, 0xffff << 16) } else { (0, 0xffff << 48) };
        let [a, b] = [self.a | above, self.b | above];
        let (bits, shadow, mask) = match (self.shadow_a, self.shadow_b) {
            (shadow, 0) => (a, shadow, b),
            (0, shadow) => (b, shadow, a),
            _ => return None,
        };
        let hole = !mask;
        let is_byte = hole > 0xff && hole == 0xff << (hole.trailing_zeros() / 8 * 8);
        // Of the number, or of the upper one of two.
        let in_half = if is_half { hole } else { hole >> 32 };
        let leaves_number = |layout: &Layout| {
            let exponent = layout.exponent_mask << layout.mantissa_bits;
            [layout.sign, exponent, layout.sign | exponent].contains(&in_half)
        };
        let is_upper = hole != 0 && hole & !upper == 0 && ![NARROW, UPPER_HALF].iter().any(leaves_number);
        (operation == BitOperation::Take && (is_byte || is_upper)).then_some((bits & !above, shadow, hole))
    }

    /// Whether these bits of the result, with this shadow, have been put together: none of the operands has all of them.
    pub fn is_assembled(&self, shadow: u64, bits: u64) -> bool {
        let operands = [(self.a, self.shadow_a), (self.b, self.shadow_b)];
        operands.into_iter().all(|(value, own)| ((value ^ self.result) | (own ^ shadow)) & bits != 0)
    }

    /// The shadow of two operands whose bytes do not meet.
    fn merged(&self, is_number: impl Fn(u64) -> bool) -> Option<u64> {
        let occupied = |value: u64, shadow: u64| (value | shadow).to_le_bytes().map(|byte| byte != 0);
        let (a, b) = (occupied(self.a, self.shadow_a), occupied(self.b, self.shadow_b));
        let disjoint = a.into_iter().zip(b).all(|(a, b)| !(a && b));
        (disjoint && !self.sets_exponent(is_number)).then_some(self.shadow_a | self.shadow_b)
    }

    /// Whether a passive operand has bits beside the highest two bytes of the other one, which is a whole number or the upper half of one.
    pub fn changes_number(&self) -> bool {
        let changes = |shadow: u64, other: u64, shadow_of_other: u64| {
            [0, 32].into_iter().any(|shift| {
                let [shadow, other, shadow_of_other] =
                    [shadow, other, shadow_of_other].map(|bits| bits >> shift & u64::from(u32::MAX));
                let is_number = shadow != 0 && (narrow_index(shadow).is_some() || is_upper_half(shadow));
                is_number && shadow_of_other == 0 && other >> 16 != 0
            })
        };
        changes(self.shadow_a, self.b, self.shadow_b) || changes(self.shadow_b, self.a, self.shadow_a)
    }

    /// Whether a half could as well be a binary32 number of which one operand has the mantissa and the other, passive one a sign or an exponent:
    /// then it is not clear whether bytes are put together or a number is scaled.
    fn sets_exponent(&self, is_number: impl Fn(u64) -> bool) -> bool {
        let half = |bits: u64, shift: u32| bits >> shift & u64::from(u32::MAX);
        let sets = |number: u64, other: u64, shadow: u64, other_shadow: u64| {
            let changed = other & !NARROW.mantissa;
            let is_scale = changed == NARROW.sign || changed & !NARROW.sign == HALF_EXPONENT;
            let may_be_number = shadow != 0 && is_number(shadow) && NARROW.exponent(number) == 0;
            may_be_number && other_shadow == 0 && other == changed && is_scale
        };
        // Below the upper half of a binary64 number there is no binary32 one.
        let is_lower = [self.shadow_a, self.shadow_b].into_iter().any(|shadow| is_upper_half(shadow >> 32));
        [0, 32].into_iter().skip(usize::from(is_lower)).any(|shift| {
            let [a, b, shadow_a, shadow_b] =
                [self.a, self.b, self.shadow_a, self.shadow_b].map(|bits| half(bits, shift));
            sets(a, b, shadow_a, shadow_b) || sets(b, a, shadow_b, shadow_a)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHADOW: u64 = 0x4009_1234_5678_9abc;

    #[test]
    fn shifts_by_whole_bytes_move_them() {
        let moved = |operation, a: u64, count: u64, result| {
            let lane = Lane { a, b: in_both_halves(count), result, shadow_a: SHADOW, shadow_b: 0 };
            lane.moved(operation, |_| true)
        };
        let number = 0xc008_1234_5678_9abc;
        for (operation, count, result, shadow) in [
            (BitOperation::Lower, 32, number >> 32, Some(SHADOW >> 32)),
            (BitOperation::Lower, 16, (number as i64 >> 16) as u64, Some(SHADOW >> 16)),
            (BitOperation::Lower, 12, number >> 12, None),
            (BitOperation::Raise, 40, number << 40, Some(SHADOW << 40)),
            // In vectors, which may have narrower elements, and exponents there.
            (BitOperation::ShiftLeft, 48, number << 48, None),
            (BitOperation::ShiftRight, 32, number >> 32, None),
        ] {
            assert_eq!(moved(operation, number, count, result), shadow, "{operation:?} {count}");
        }
        assert_eq!(moved(BitOperation::Raise, 0xff34, 24, 0x3400_0000), Some(SHADOW << 24));
    }

    #[test]
    fn halves_that_change_places_take_their_shadow_along() {
        let lane =
            |a: u64, count, result, shadow_a| Lane { a, b: in_both_halves(count), result, shadow_a, shadow_b: 0 };
        let moved = |lane: Lane| lane.moved(BitOperation::Turn, |_| true);
        assert_eq!(moved(lane(0x1234_5678, 16, 0x5678_1234, 0x4000_0007)), Some(0x7_4000));
        assert_eq!(moved(lane(0x1234_5678, 32, 0x1234_5678 << 32, SHADOW)), Some(SHADOW.rotate_left(32)));
        assert_eq!(moved(lane(0, 32, 0, SHADOW)), Some(SHADOW.rotate_left(32)));
        assert_eq!(moved(lane(0x1234_5678, 8, 0x3456_7812, 0x4000_0007)), None);
    }

    #[test]
    fn what_one_operand_has_is_not_put_together() {
        const LOW: u64 = 0xffff_ffff;
        const HIGH: u64 = LOW << 32;
        let assembled = |a: u64, shadow_a: u64, b: u64, shadow_b: u64| {
            let lane = Lane { a, b, result: a | b, shadow_a, shadow_b };
            [LOW, HIGH, LOW | HIGH].map(|bits| lane.is_assembled(shadow_a | shadow_b, bits))
        };
        assert_eq!(assembled(0x12_3456, 0x1234, 0xbf00_0000, 0x4000_0000), [true, false, true]);
        assert_eq!(assembled(0xbf12_3456, 0x4000_1234, 0x8000_0000, 0), [false; 3]);
        assert_eq!(assembled(0x80_0000, 0, 0xbf12_3456 << 32 | 0x7f, 0x4000_1234 << 32), [true, false, true]);
        assert_eq!(assembled(0x12_3456, 0x1234, 0x3ff << 52, 0x8000_4000 << 32), [false, false, true]);
    }

    #[test]
    fn one_byte_is_cleared_for_another_one() {
        let number = 0x4008_1234_5678_9abc;
        let cleared = |number: u64, mask: u64, shadow: u64| {
            Lane { a: number, b: mask, result: number & mask, shadow_a: shadow, shadow_b: 0 }
                .cleared_byte(BitOperation::Take)
        };
        for byte in 1..8 {
            assert_eq!(cleared(number, !(0xff << (8 * byte)), SHADOW), Some((SHADOW, byte)));
        }
        assert_eq!(cleared(0x1234_5678, 0xff00_ffff, 0x4000_1234), Some((0x4000_1234, 2)));
        // A byte whose neighbours have come already, and are zero.
        assert_eq!(cleared(0x0700_0000_0000, !(0xff << 40), 0x45), Some((0x45, 5)));
        for mask in [!0xff, !0xffff_0000, !0xfff0, 0, u64::MAX, 0xff00_ffff] {
            assert_eq!(cleared(number, mask, SHADOW), None, "{mask:#x}");
        }
    }

    #[test]
    fn bytes_are_taken_out_of_numbers_that_are_not_truncated() {
        let taken = |mask: u64| {
            let number = 0x4008_1234_5678_9abc;
            let on_the_right = Lane { a: number, b: mask, result: number & mask, shadow_a: SHADOW, shadow_b: 0 };
            let on_the_left = Lane { a: mask, b: number, shadow_a: 0, shadow_b: SHADOW, ..on_the_right };
            let [taken, other] = [on_the_right, on_the_left].map(|lane| lane.taken_apart(BitOperation::Take));
            assert_eq!(taken, other, "{mask:#x}");
            taken
        };
        for mask in [0xff, 0xff00, 0xff_0000, 0xff00_0000, 0x0000_ffff_ffff_ffff, 0xff << 56, 0x00ff_00ff_00ff_00ff] {
            assert_eq!(taken(mask), Some(SHADOW & mask), "{mask:#x}");
        }
        for mask in [0xffff_ff00, 0xffff_0000, 0xffff << 48, !0xff, 0x7fff] {
            assert_eq!(taken(mask), None, "{mask:#x}");
        }
    }
}
