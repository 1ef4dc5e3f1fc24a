//! Operations of AVX-512 that scale a number or choose one: they are told from the values of their operands.

use crate::ir::{BitOperation, Format};

use super::{Layout, Operand, Outcome, by_value};

/// `a` times 2 to the power of `exponent`, rounded down: a step function of the latter.
pub(super) fn scaled(layout: &Layout, operation: BitOperation, a: Operand, exponent: u64) -> Outcome {
    let (format, exponent) = if layout.is(Format::Binary64) {
        (Format::Binary64, f64::from_bits(exponent))
    } else {
        (Format::Binary32, f64::from(f32::from_bits(exponent as u32)))
    };
    let exponent = exponent.floor();
    if operation != BitOperation::Scale(format) || !layout.is(format) {
        Outcome::Lost
    } else if a.index == 0 {
        Outcome::Passive
    } else if (-1022.0..=1023.0).contains(&exponent) {
        match f64::from_bits(((exponent as i64 + 1023) as u64) << 52) {
            1.0 => Outcome::Same(a.index),
            ratio => Outcome::Scaled { index: a.index, ratio },
        }
    } else if exponent < 0.0 {
        // No number but the largest ones is left with more than a last bit.
        Outcome::Passive
    } else {
        Outcome::Lost
    }
}

/// One of two operands, of which one is active.
pub(super) fn chosen(layout: &Layout, active: Operand, passive: u64, result: u64) -> Outcome {
    let magnitude = |bits: u64| bits & !layout.sign;
    match magnitude(result) {
        bits if bits == magnitude(active.value) => by_value(layout, active, result, false),
        bits if bits == magnitude(passive) => Outcome::Passive,
        _ => Outcome::Lost,
    }
}

/// One of two operands, both active.
pub(super) fn chosen_of_two(layout: &Layout, a: Operand, b: Operand, result: u64) -> Outcome {
    let magnitude = |bits: u64| bits & !layout.sign;
    let of = |operand: Operand| {
        (magnitude(operand.value) == magnitude(result)).then(|| by_value(layout, operand, result, false))
    };
    match (of(a), of(b)) {
        (Some(outcome), None) | (None, Some(outcome)) => outcome,
        (Some(first), Some(second)) if first == second => first,
        _ => Outcome::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NARROW, WIDE};
    use super::*;

    fn active(value: f64) -> Operand {
        Operand { value: value.to_bits(), index: 7 }
    }

    #[test]
    fn scales_are_powers_of_two_also_of_zero() {
        let scale = |value: f64, exponent: f64| {
            scaled(&WIDE, BitOperation::Scale(Format::Binary64), active(value), exponent.to_bits())
        };
        assert_eq!(scale(1.5, 3.0), Outcome::Scaled { index: 7, ratio: 8.0 });
        assert_eq!(scale(0.0, -1.5), Outcome::Scaled { index: 7, ratio: 0.25 });
        assert_eq!(scale(1.5, 0.7), Outcome::Same(7));
        assert_eq!(scale(1.5, -2000.0), Outcome::Passive);
        assert_eq!(scale(1e-300, 2000.0), Outcome::Lost);
        assert_eq!(scale(1.5, f64::NAN), Outcome::Lost);
        // Half of a binary64 number is none.
        let half = Operand { value: 0x3fc0_0000, index: 7 };
        assert_eq!(scaled(&NARROW, BitOperation::Scale(Format::Binary64), half, 0), Outcome::Lost);
    }

    #[test]
    fn the_operand_that_the_result_resembles_is_the_one_that_was_chosen() {
        let choice = |a: f64, b: f64, result: f64| chosen(&WIDE, active(a), b.to_bits(), result.to_bits());
        assert_eq!(choice(1.5, 2.5, 1.5), Outcome::Same(7));
        assert_eq!(choice(1.5, 2.5, -1.5), Outcome::Scaled { index: 7, ratio: -1.0 });
        assert_eq!(choice(1.5, -2.5, 2.5), Outcome::Passive);
        assert_eq!(choice(1.5, 2.5, 0.0), Outcome::Lost);
        let both = |a: f64, b: f64, result: f64| {
            chosen_of_two(&WIDE, active(a), Operand { index: 8, ..active(b) }, result.to_bits())
        };
        assert_eq!(both(0.0, 2.5, -0.0), Outcome::Scaled { index: 7, ratio: -1.0 });
        assert_eq!(both(2.0, 4.0, 4.0), Outcome::Same(8));
        assert_eq!(both(1.5, -1.5, 1.5), Outcome::Lost);
    }
}
