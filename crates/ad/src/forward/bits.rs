//! Dot values of bit tricks, by the rule of [`crate::bit_tricks`]: the operand's dot value times the ratio of result to operand.
//!
//! Nothing tells the dot value of one binary64 number from those of two binary32 ones. So both readings are tried on the *values*. If only
//! one of them makes the operation a real one, it is taken. If both do, they mostly agree bit for bit (changes of sign, masks); if not, the
//! number is taken for a binary64 one, unless its dot value would be so small (below 2^-1022 · 2^-20) that it is rather the lower one of two. What is misread then:
//! two binary32 numbers of which the instruction scales the upper one by 2^8k and leaves the lower one alone; and a binary64 number whose dot value ends in 32
//! zeros and whose lower half is changed (a truncation): it keeps its dot value, and no loss is counted.

use crate::bit_tricks::{Lane, Outcome};
use crate::instrument::Thread;
use crate::ir::BitOperation;

use super::{holes, rounding, upper_bytes};

/// Stand-in for an index: the first operand.
const FIRST: u64 = 1;
/// Stand-in for an index: the second operand.
const SECOND: u64 = 2;

/// The dot value of the result, in the same eight bytes, with zeros where derivative information is lost, and these bits.
pub(super) fn dot(thread: &mut Thread<'_>, layer: usize, lane: &Lane, operation: BitOperation) -> (u64, u64) {
    let suspended = thread.fields().disabled != 0;
    let at = holes::Circumstances { layer, suspended, address: thread.context().rip };
    holes::dot(lane, operation, at).unwrap_or_else(|| by_itself(lane, operation, suspended))
}

/// The same if nothing is known of what has been done before.
pub(super) fn by_itself(lane: &Lane, operation: BitOperation, suspended: bool) -> (u64, u64) {
    if let Some(shadow) = lane.moved(operation, |_| true).or_else(|| lane.taken_apart(operation)) {
        return (shadow, 0);
    }
    // Bits of a number as an integer: nothing of the result is a real operation.
    let nothing = (operation == BitOperation::FromInteger).then_some((0, true));
    let short = nothing.or_else(|| upper_bytes::of_short_parts(lane, operation, suspended));
    let of_whole = |(dot, lost): (u64, bool)| (dot, if lost { u64::MAX } else { 0 });
    let (dot, lost) = short.map(of_whole).unwrap_or_else(|| match read(lane, operation, suspended) {
        (dot, 0) => (dot, 0),
        lost => upper_bytes::of_uncertain_parts(lane, operation, suspended).map_or(lost, of_whole),
    });
    if lost != 0 {
        let operands = [(lane.shadow_a, lane.a), (lane.shadow_b, lane.b)];
        if operands.into_iter().all(|(dots, values)| rounding::is_only_sums(dots, values)) {
            return (0, 0);
        }
    }
    (dot, lost)
}

/// The dot value, and where derivative information is lost.
fn read(lane: &Lane, operation: BitOperation, suspended: bool) -> (u64, u64) {
    let wide = wide(lane, operation, suspended);
    let (narrow, chosen) = narrow(lane, operation, suspended);
    let has_upper = (lane.shadow_a | lane.shadow_b) >> 32 != 0;
    match (wide, narrow) {
        // Halves that were chosen as they are, perhaps from different operands, can look like a power of two times one whole operand. The reverse
        // does not happen: a factor changes the upper half.
        (Some((dot, scaled)), [low, high]) if (has_upper || low.is_none() || high.is_none()) && !(scaled && chosen) => {
            (dot, 0)
        }
        (_, halves) => {
            let both = |of: fn(Option<u32>) -> u32| u64::from(of(halves[0])) | u64::from(of(halves[1])) << 32;
            (both(|dot| dot.unwrap_or(0)), both(|dot| if dot.is_none() { u32::MAX } else { 0 }))
        }
    }
}

/// The lane as one binary64 number, and whether it is not simply an operand; `None` if that is lost.
fn wide(lane: &Lane, operation: BitOperation, suspended: bool) -> Option<(u64, bool)> {
    let dots = [lane.shadow_a, lane.shadow_b];
    let [shadow_a, shadow_b] = stand_ins(dots);
    if operation.is_shift() && lane.b >> 32 != lane.b & u64::from(u32::MAX) {
        // Each half has its own number of bits.
        return None;
    }
    match (Lane { shadow_a, shadow_b, ..*lane }).wide(operation) {
        Outcome::Passive => Some((0, false)),
        Outcome::Same(operand) => Some((chosen(dots, operand), false)),
        // That is rather the dot value of the lower one of two.
        Outcome::Scaled { index, .. } if chosen(dots, index) >> 32 == 0 => None,
        Outcome::Scaled { .. } if suspended => Some((0, true)),
        Outcome::Scaled { index, ratio } => Some(((f64::from_bits(chosen(dots, index)) * ratio).to_bits(), true)),
        Outcome::Lost => None,
    }
}

/// The lane as two binary32 numbers, and whether each of them is an operand or passive.
fn narrow(lane: &Lane, operation: BitOperation, suspended: bool) -> ([Option<u32>; 2], bool) {
    if is_wide_shift(lane, operation) {
        return ([None; 2], false);
    }
    let dots = [0, 32].map(|shift| [lane.shadow_a, lane.shadow_b].map(|shadow| shadow >> shift & u64::from(u32::MAX)));
    let [low, high] = dots.map(stand_ins);
    let lane = Lane { shadow_a: low[0] | high[0] << 32, shadow_b: low[1] | high[1] << 32, ..*lane };
    let outcomes = lane.narrow(operation);
    let unchanged = outcomes.iter().all(|outcome| matches!(outcome, Outcome::Same(_) | Outcome::Passive));
    let numbers = [0, 1].map(|half| match outcomes[half] {
        Outcome::Passive => Some(0),
        Outcome::Same(operand) => Some(chosen(dots[half], operand) as u32),
        Outcome::Scaled { .. } if suspended => Some(0),
        Outcome::Scaled { index, ratio } => {
            let dot = f32::from_bits(chosen(dots[half], index) as u32);
            Some(((f64::from(dot) * ratio) as f32).to_bits())
        }
        Outcome::Lost => None,
    });
    (numbers, unchanged)
}

/// Whether bits have gone from one half to the other, so that this is no operation on two numbers.
fn is_wide_shift(lane: &Lane, operation: BitOperation) -> bool {
    if !operation.is_shift() {
        return false;
    }
    let low = |bits: u64| bits & u64::from(u32::MAX);
    let count = low(lane.b);
    let by_itself = |from: u32| {
        let [number, result] = [lane.a, lane.result].map(|bits| low(bits >> from));
        shifted(number, 32, count, operation).contains(&result)
    };
    let together = lane.b >> 32 == count && shifted(lane.a, 64, count, operation).contains(&lane.result);
    together && !(by_itself(0) && by_itself(32))
}

/// A number of 32 or 64 bits, shifted with zeros and with copies of its sign, or rotated in either direction.
fn shifted(number: u64, width: u32, count: u64, operation: BitOperation) -> [u64; 2] {
    let ones = u64::MAX >> (64 - width);
    let least = count.min(64) as u32;
    let (rotation, back) = (count as u32 % width, (width - count as u32 % width) % width);
    let results = match operation {
        BitOperation::ShiftLeft | BitOperation::Raise => [number.checked_shl(least).unwrap_or(0); 2],
        BitOperation::ShiftRight | BitOperation::Lower => {
            let signed = (number << (64 - width)) as i64 >> (64 - width);
            [number.checked_shr(least).unwrap_or(0), (signed >> least.min(63)) as u64]
        }
        _ => [(rotation, back), (back, rotation)].map(|(left, right)| number << left | number >> right),
    };
    results.map(|result| result & ones)
}

/// Equal dot values have equal stand-ins, as one index: then it does not matter which operand the result is.
fn stand_ins([a, b]: [u64; 2]) -> [u64; 2] {
    let first = if a == 0 { 0 } else { FIRST };
    let second = match b {
        0 => 0,
        b if b == a => FIRST,
        _ => SECOND,
    };
    [first, second]
}

fn chosen([a, b]: [u64; 2], stand_in: u64) -> u64 {
    if stand_in == SECOND { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bit_tricks::in_both_halves;
    use BitOperation::{And, AndNot, Or, Other, ShiftLeft, ShiftRight, Xor};

    const SIGN: u64 = 1 << 63;

    fn pair(low: f32, high: f32) -> u64 {
        u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32
    }

    fn of_doubles(operation: BitOperation, value: f64, other: u64, result: u64, dot: f64) -> (u64, u64) {
        let lane = Lane { a: value.to_bits(), b: other, result, shadow_a: dot.to_bits(), shadow_b: 0 };
        read(&lane, operation, false)
    }

    #[test]
    fn signs_of_doubles() {
        for dot in [1.0, -0.3, 1e-300, 3.0e10] {
            for value in [2.5, -2.5, 0.1] {
                let negated = of_doubles(Xor, value, SIGN, (-value).to_bits(), dot);
                assert_eq!(negated, ((-dot).to_bits(), 0));
                let absolute = of_doubles(And, value, !SIGN, value.abs().to_bits(), dot);
                assert_eq!(absolute, ((dot * value.signum()).to_bits(), 0));
            }
        }
    }

    #[test]
    fn floats_that_are_chosen_from_two_operands_are_no_scaled_double() {
        // As doubles, the result is 2^25 times the second operand.
        let lane = Lane {
            a: pair(0.5625, 2.25),
            b: pair(1.5, -0.75),
            result: pair(1.5, 2.25),
            shadow_a: pair(0.0, 3.0),
            shadow_b: pair(1.0, 0.5),
        };
        assert!(matches!(Lane { shadow_a: 0, shadow_b: SECOND, ..lane }.wide(Other), Outcome::Scaled { .. }));
        assert_eq!(read(&lane, Other, false), (pair(1.0, 3.0), 0));
    }

    #[test]
    fn lower_floats_beside_others_that_nobody_uses_are_no_scaled_double() {
        // Selection in the lowest lane of a register. As doubles, the result is 2^-1013 times the second operand.
        let lane = Lane {
            a: pair(0.0, f32::from_bits(0x3f79_b4a0)),
            b: pair(-1.125, 1.656_25),
            result: pair(-1.125, f32::from_bits(0x0084_0000)),
            shadow_a: pair(0.0, 0.37),
            shadow_b: pair(1.0, 0.0),
        };
        assert!(matches!(Lane { shadow_a: FIRST, shadow_b: SECOND, ..lane }.wide(AndNot), Outcome::Scaled { .. }));
        assert_eq!(read(&lane, AndNot, false), (pair(1.0, 0.0), !0 << 32));
    }

    #[test]
    fn powers_of_two_of_doubles() {
        for power in [1i64, 8, -3, 16] {
            let (value, summand) = (1.1f64, (power as u64) << 52);
            let result = value.to_bits().wrapping_add(summand);
            let (dot, lost) = of_doubles(Other, value, summand, result, 0.7);
            assert_eq!((f64::from_bits(dot), lost), (0.7 * 2f64.powi(power as i32), 0), "{power}");
        }
    }

    #[test]
    fn pairs_of_singles() {
        let signs = 1 << 31 | SIGN;
        let value = pair(1.5, -2.25);
        let lane = Lane { a: value, b: signs, result: value ^ signs, shadow_a: pair(0.3, 7.0), shadow_b: 0 };
        assert_eq!(read(&lane, Xor, false), (pair(-0.3, -7.0), 0));
        let mask = 0xffff_ffff_0000_0000;
        let lane = Lane { b: mask, result: value & mask, ..lane };
        assert_eq!(read(&lane, And, false), (pair(0.0, 7.0), 0));
        // The conjugate of a complex number with passive imaginary part.
        let lane = Lane { b: SIGN, result: value ^ SIGN, shadow_a: pair(0.3, 0.0), ..lane };
        assert_eq!(read(&lane, Xor, false), (pair(0.3, 0.0), 0));
    }

    #[test]
    fn a_blend_takes_the_dot_value_of_the_operand_that_it_takes() {
        let (a, b) = (1.7f64.to_bits(), 0);
        let lane = Lane { a, b, result: a, shadow_a: 4.0f64.to_bits(), shadow_b: 5.0f64.to_bits() };
        assert_eq!(read(&lane, Or, false), (4.0f64.to_bits(), 0));
    }

    #[test]
    fn while_suspended_results_are_passive_and_moves_are_not() {
        let lane =
            Lane { a: 2.5f64.to_bits(), b: SIGN, result: (-2.5f64).to_bits(), shadow_a: 1.0f64.to_bits(), shadow_b: 0 };
        assert_eq!(read(&lane, Xor, true).0, 0);
        let lane = Lane { b: 0, result: lane.a, ..lane };
        assert_eq!(read(&lane, Xor, true).0, 1.0f64.to_bits());
    }

    #[test]
    fn bits_that_a_shift_brings_from_one_half_to_the_other_are_lost() {
        let value = 1.3f64.to_bits();
        for (operation, count, result) in
            [(ShiftRight, 36, value >> 36), (ShiftRight, 33, value >> 33), (ShiftLeft, 36, value << 36)]
        {
            let count = in_both_halves(count);
            let lane = Lane { a: value, b: count, result, shadow_a: 1f64.to_bits(), shadow_b: 0 };
            assert_eq!(read(&lane, operation, false), (0, u64::MAX), "{operation:?} {count:#x}");
        }
        let lane = Lane { a: pair(1.5, 2.5), b: in_both_halves(23), shadow_a: pair(0.5, 0.25), ..Lane::default() };
        let exponents = pair(1.5, 2.5) >> 23 & (0x1ff << 32 | 0x1ff);
        assert_eq!(read(&Lane { result: exponents, ..lane }, ShiftRight, false), (0, 0));
    }

    #[test]
    fn other_operations_are_lost() {
        let (dot, lost) = of_doubles(Other, 2.5, 3, 2.5f64.to_bits() + 3, 0.7);
        assert!(lost != 0, "{dot:#x}");
    }
}
