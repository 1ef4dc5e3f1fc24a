//! Bitwise functions of three operands, reduced to operations on two.

use crate::bit_tricks;
use crate::ir::BitOperation;

use super::undone::{Circumstances, trick};
use super::{Mode, Thread};

/// Eight bytes of an operation with up to three operands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub values: [u64; 3],
    pub shadows: [u64; 3],
    pub result: u64,
}

impl Lane {
    /// The shadow of the result.
    pub(super) fn outcome<M: Mode>(
        &self,
        thread: &mut Thread<'_>,
        circumstances: Circumstances,
        operation: BitOperation,
    ) -> u64 {
        if !matches!(operation, BitOperation::Ternary(_)) || !M::are_two_numbers(&self.shadows) {
            return self.resolve::<M>(thread, circumstances, operation, WIDE_MANTISSA);
        }
        // Of three operands one number may depend on these, the other one on those.
        let half = |thread: &mut Thread<'_>, bits: u64| {
            let number = Lane {
                values: self.values.map(|value| value & bits),
                shadows: self.shadows.map(|shadow| shadow & bits),
                result: self.result & bits,
            };
            number.resolve::<M>(thread, circumstances, operation, NARROW_MANTISSAS & bits) & bits
        };
        half(thread, LOW) | half(thread, !LOW)
    }

    /// The same with the mantissas of the format in question.
    fn resolve<M: Mode>(
        &self,
        thread: &mut Thread<'_>,
        circumstances: Circumstances,
        operation: BitOperation,
        mantissas: u64,
    ) -> u64 {
        // The steps of a function of three operands have masks that nobody sees.
        let with_constant =
            circumstances.with_constant || matches!(operation, BitOperation::Ternary(_) | BitOperation::Assembled);
        let circumstances = Circumstances { with_constant, ..circumstances };
        self.steps(operation, mantissas)
            .into_iter()
            .flatten()
            .fold(None, |shadow: Option<u64>, (step, operation)| {
                let step = bit_tricks::Lane { shadow_a: shadow.unwrap_or(step.shadow_a), ..step };
                let nothing = step.shadow_a | step.shadow_b == 0;
                Some(if nothing { 0 } else { trick::<M>(thread, circumstances, &step, operation) })
            })
            .unwrap_or(0)
    }

    /// Whether an operand is active and the result can have bits of its mantissa, whatever the other active operands are. One that gives no more
    /// than a sign has derivative zero.
    fn contributes(&self, table: u8, operand: usize, mantissas: u64) -> bool {
        let others: Vec<usize> = (0..3).filter(|&k| k != operand && self.shadows[k] != 0).collect();
        let mut depends = 0;
        for choice in 0..1usize << others.len() {
            let mut values = self.values;
            for (position, &other) in others.iter().enumerate() {
                values[other] = if choice & 1 << position == 0 { 0 } else { u64::MAX };
            }
            let [of_zeros, of_ones] = [0, u64::MAX].map(|bits| {
                values[operand] = bits;
                function(table, values)
            });
            depends |= of_zeros ^ of_ones;
        }
        self.shadows[operand] != 0 && depends & mantissas & MANTISSAS != 0
    }

    /// The same as one or two operations with two operands; the second one works on the first one's result.
    ///
    /// With one active operand x, the others known, each bit of the result is x, its complement or a constant: it is kept or cleared, and then perhaps set
    /// or flipped. Two active operands are told apart by the result's value.
    fn steps(&self, operation: BitOperation, mantissas: u64) -> [Option<(bit_tricks::Lane, BitOperation)>; 2] {
        let [a, b, _] = self.values;
        let [shadow_a, shadow_b, shadow_c] = self.shadows;
        if operation == BitOperation::Assembled {
            // Whatever has happened above the mantissa: some bits are flipped now.
            let lane = bit_tricks::Lane { a, b: a ^ self.result, result: self.result, shadow_a, shadow_b: 0 };
            return [Some((lane, BitOperation::Xor)), None];
        }
        let BitOperation::Ternary(table) = operation else {
            let lane = bit_tricks::Lane { a, b, result: self.result, shadow_a, shadow_b };
            return [Some((lane, operation)), None];
        };
        let active: Vec<usize> = (0..3).filter(|&k| self.contributes(table, k, mantissas)).collect();
        let lane = |first: usize, second: usize| bit_tricks::Lane {
            a: self.values[first],
            b: self.values[second],
            result: self.result,
            shadow_a: self.shadows[first],
            shadow_b: self.shadows[second],
        };
        match active[..] {
            [x] => {
                let with = |bits: u64| {
                    let mut values = self.values;
                    values[x] = bits;
                    function(table, values)
                };
                let (of_zeros, of_ones) = (with(0), with(u64::MAX));
                let (kept, value) = (of_zeros ^ of_ones, self.values[x]);
                let first = bit_tricks::Lane {
                    a: value,
                    b: kept,
                    result: value & kept,
                    shadow_a: self.shadows[x],
                    shadow_b: 0,
                };
                let second =
                    bit_tricks::Lane { a: value & kept, b: of_zeros, result: self.result, shadow_a: 0, shadow_b: 0 };
                // If the mask spares the mantissa, one step is enough, and no number in between can be out of range.
                let masks = (kept & mantissas != mantissas || of_zeros == 0 && kept != u64::MAX)
                    .then_some((first, BitOperation::And));
                match masks {
                    Some(_) if of_zeros == 0 => [masks, None],
                    Some(_) => [masks, Some((second, BitOperation::Xor))],
                    None => {
                        let whole = bit_tricks::Lane { a: value, shadow_a: self.shadows[x], ..second };
                        [Some((whole, BitOperation::Xor)), None]
                    }
                }
            }
            [] => [None, None],
            [x, y] => [Some((lane(x, y), BitOperation::Other)), None],
            // Two of them may be one and the same value.
            _ if shadow_a == shadow_c => [Some((lane(0, 1), BitOperation::Other)), None],
            _ if shadow_b == shadow_c || shadow_a == shadow_b => [Some((lane(0, 2), BitOperation::Other)), None],
            _ => {
                // The one that the result does not resemble is left out.
                let resembles = |k: usize| (self.values[k] ^ self.result) << 1 == 0;
                let second = (0..3).find(|&k| resembles(k)).unwrap_or(0);
                let first = (second + 1) % 3;
                [Some((lane(first, second), BitOperation::Other)), None]
            }
        }
    }
}

/// Bits of the mantissas of a binary64 number and of two binary32 numbers alike.
const MANTISSAS: u64 = WIDE_MANTISSA & NARROW_MANTISSAS;
const WIDE_MANTISSA: u64 = 0x000f_ffff_ffff_ffff;
const NARROW_MANTISSAS: u64 = 0x007f_ffff_007f_ffff;
/// The lower of two binary32 numbers.
const LOW: u64 = 0xffff_ffff;

/// The bitwise function with this truth table (Intel SDM volume 2, VPTERNLOG).
fn function(table: u8, [a, b, c]: [u64; 3]) -> u64 {
    (0..8).filter(|row| table >> row & 1 != 0).fold(0, |result, row| {
        let of = |bits: u64, position: u8| if row >> position & 1 != 0 { bits } else { !bits };
        result | of(a, 2) & of(b, 1) & of(c, 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Truth tables: `a & b | !a & c`, `!a & b`, `a ^ b ^ c`.
    const SELECT: u8 = 0xca;
    const AND_NOT: u8 = 0x0c;
    const PARITY: u8 = 0x96;

    #[test]
    fn truth_tables_are_read_as_the_processor_does() {
        let (a, b, c) = (0b1100, 0b1010, 0b0110);
        assert_eq!(function(SELECT, [a, b, c]), a & b | !a & c);
        assert_eq!(function(AND_NOT, [a, b, c]), !a & b);
        assert_eq!(function(PARITY, [a, b, c]), a ^ b ^ c);
        assert_eq!(function(0xff, [a, b, c]), u64::MAX);
    }

    #[test]
    fn an_operand_that_gives_its_sign_does_not_count() {
        let sign = 1 << 63;
        let (x, other) = (1.5f64.to_bits(), (-0.75f64).to_bits());
        // `a | b & c`, as compilers have it for copysign.
        let lane = Lane { values: [x, other, sign], shadows: [7, 8, 0], result: x | sign };
        let steps: Vec<_> = lane.steps(BitOperation::Ternary(0xf8), WIDE_MANTISSA).into_iter().flatten().collect();
        assert!(steps.iter().all(|(step, _)| step.shadow_b == 0));
        assert_eq!(steps[0].0.shadow_a, 7);
        let lane = Lane { values: [0, other, sign], shadows: [0, 8, 0], result: sign };
        assert_eq!(lane.steps(BitOperation::Ternary(0xf8), WIDE_MANTISSA), [None, None]);
    }

    /// The steps give the result that the function has.
    fn check(table: u8, values: [u64; 3], active: usize) -> Vec<BitOperation> {
        let mut shadows = [0; 3];
        shadows[active] = 7;
        let lane = Lane { values, shadows, result: function(table, values) };
        let steps: Vec<_> = lane.steps(BitOperation::Ternary(table), WIDE_MANTISSA).into_iter().flatten().collect();
        let mut value = None;
        for (step, operation) in &steps {
            assert!(value.is_none_or(|value| value == step.a));
            let result = match operation {
                BitOperation::And => step.a & step.b,
                BitOperation::Xor => step.a ^ step.b,
                other => panic!("{other:?}"),
            };
            // A step that does both has the bits of the mask in its result.
            let masks_too = steps.len() == 1 && *operation == BitOperation::Xor;
            assert_eq!((result ^ step.result) & if masks_too { WIDE_MANTISSA } else { u64::MAX }, 0);
            value = Some(step.result);
        }
        assert_eq!(value, Some(lane.result));
        steps.into_iter().map(|(_, operation)| operation).collect()
    }

    #[test]
    fn one_active_operand_is_masked_and_then_flipped() {
        use BitOperation::{And, Xor};
        let sign = 1 << 63;
        let (x, other) = (2.5f64.to_bits(), (-3.0f64).to_bits());
        // copysign: everywhere but in the sign from x.
        assert_eq!(check(SELECT, [sign, other, x], 2), [Xor]);
        // From half of the mantissa on from x.
        assert_eq!(check(SELECT, [LOW, (-0.3f64).to_bits(), x], 2), [And, Xor]);
        assert_eq!(check(AND_NOT, [sign, x, other], 1), [And]);
        assert_eq!(check(PARITY, [sign, x, 0], 1), [Xor]);
        for table in 0..=255 {
            let values = [x, other, 0x1234_5678_9abc_def0];
            for active in 0..3 {
                let mut shadows = [0; 3];
                shadows[active] = 7;
                let lane = Lane { values, shadows, result: function(table, values) };
                if lane.contributes(table, active, u64::MAX) {
                    check(table, values, active);
                }
            }
        }
    }
}
