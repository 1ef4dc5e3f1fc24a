use super::*;
use crate::shadow::{WIDE_MARK, WIDE_TAG, of_narrow, wide_index};
use BitOperation::{And, AndNot, Lower, Merge, Or, Other, Rotate, Select, ShiftLeft, ShiftRight, Take, Turn, Xor};

const SIGN: u64 = 1 << 63;
const INDEX: u64 = 77;

impl Lane {
    fn by_mark(&self, operation: BitOperation) -> LaneOutcome {
        self.outcome(operation, |word| word & WIDE_MARK != 0)
    }
}

fn wide(operation: BitOperation, active: f64, other: u64, result: u64) -> Outcome {
    let lane = Lane { a: active.to_bits(), b: other, result, shadow_a: INDEX | WIDE_TAG, shadow_b: 0 };
    without_tag(lane.by_mark(operation))
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
    assert_eq!(lane(0, 2.5).by_mark(AndNot), LaneOutcome::Wide(Outcome::Same(INDEX | WIDE_TAG)));
    assert_eq!(lane(u64::MAX, 2.5).by_mark(AndNot), LaneOutcome::Wide(Outcome::Passive));
    assert_eq!(without_tag(lane(SIGN, -2.5).by_mark(AndNot)), scaled(-1.0));
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
        lane.by_mark(Select)
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
    assert_eq!(counted.by_mark(ShiftLeft), LaneOutcome::Wide(Outcome::Lost));
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
    assert_eq!(lane(pair).by_mark(Rotate), LaneOutcome::Narrow([Outcome::Lost; 2]));
    let turned = LaneOutcome::Narrow([Outcome::Same(of_narrow(4)), Outcome::Same(of_narrow(3))]);
    assert_eq!(lane(pair).by_mark(Turn), turned);
    let moved = LaneOutcome::Narrow([Outcome::Same(of_narrow(4)), Outcome::Passive]);
    assert_eq!(lane(pair >> 32).by_mark(Lower), moved);
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
        lane.by_mark(Or)
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
    assert_eq!(lane.by_mark(Xor), LaneOutcome::Narrow([negated, Outcome::Same(second)]));
    // Packing by `or`: each half comes from one operand.
    let lane =
        Lane { a: pack(1.0, 0.0), b: pack(0.0, 5.0), result: pack(1.0, 5.0), shadow_a: first, shadow_b: second << 32 };
    assert_eq!(lane.by_mark(Or), LaneOutcome::Narrow([Outcome::Same(first), Outcome::Same(second)]));
}

#[test]
fn an_index_without_tag_belongs_to_a_single_beside_a_passive_one() {
    // The conjugate of a complex number with passive imaginary part.
    let value = u64::from(2.5f32.to_bits()) | u64::from(1.5f32.to_bits()) << 32;
    let lane = Lane { a: value, b: SIGN, result: value ^ SIGN, shadow_a: of_narrow(INDEX), shadow_b: 0 };
    assert_eq!(lane.by_mark(Xor), LaneOutcome::Narrow([Outcome::Same(of_narrow(INDEX)), Outcome::Passive]));
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
        let LaneOutcome::Narrow([low, high]) = lane.by_mark(Merge) else { return None };
        so_far = (lane.result, word(low)? | word(high)? << 32);
    }
    Some(so_far.1)
}

#[test]
fn bytes_put_together_carry_their_part_of_the_index() {
    for index in [5, 0x1234, 0x0056_0034, 0x3f00_0001] {
        for value in [1.5f64, -0.75, 0.0, 3.7e-200] {
            assert_eq!(assembled(value.to_bits(), index | WIDE_TAG, 8), Some(index | WIDE_TAG), "{value} {index:#x}");
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
    let lane = |shadow_a: u64| Lane {
        a: mantissa,
        b: bytes::HALF_EXPONENT,
        result: mantissa | bytes::HALF_EXPONENT,
        shadow_a,
        shadow_b: 0,
    };
    assert_eq!(lane(of_narrow(5)).moved(Merge, |_| true), None);
    assert_ne!(lane(of_narrow(5)).by_mark(Merge), LaneOutcome::Narrow([Outcome::Same(of_narrow(5)), Outcome::Passive]));
    // Of a piece of another index it is no exponent, but one of its bytes.
    assert_eq!(lane(5).by_mark(Merge), LaneOutcome::Narrow([Outcome::Same(5), Outcome::Passive]));
}

#[test]
fn masks_of_whole_bytes_keep_parts_of_an_index() {
    let lane = Lane { a: 0xc0_0000, b: 0xffff_ffff_00ff_ffff, result: 0xc0_0000, shadow_a: 0x34, shadow_b: 0 };
    assert_eq!(lane.by_mark(And), LaneOutcome::Narrow([Outcome::Same(0x34), Outcome::Passive]));
    // A byte that is cleared although it has a part of the index is no move.
    let lane = Lane { b: !0xff, ..lane };
    assert_eq!(lane.by_mark(And), LaneOutcome::Narrow([Outcome::Lost, Outcome::Passive]));
}

#[test]
fn merging_a_sign_in_a_general_register_is_negation() {
    let value = 2.5f64.to_bits();
    let lane = Lane { a: value, b: SIGN, result: value | SIGN, shadow_a: INDEX | WIDE_TAG, shadow_b: 0 };
    assert_eq!(without_tag(lane.by_mark(Merge)), scaled(-1.0));
}

/// The shadow of a result that is the upper half of a number, in a lane whose lower or upper half it is.
fn upper_half(outcome: LaneOutcome, shift: u32) -> Outcome {
    let LaneOutcome::Narrow(halves) = outcome else { panic!("{outcome:?}") };
    let [half, other] = if shift == 0 { halves } else { [halves[1], halves[0]] };
    assert_eq!(other, Outcome::Passive);
    half
}

#[test]
fn upper_halves_are_scaled() {
    let shadow = (INDEX | WIDE_TAG) >> 32;
    let top = |value: f64| value.to_bits() >> 32;
    let cases = [
        (Or, 2.5, 0, 2.5, Some(1.0)),
        (Xor, 2.5, 1 << 31, -2.5, Some(-1.0)),
        (And, -2.5, !(1 << 31), 2.5, Some(-1.0)),
        (Take, 2.5, 0x7fff_ffff, 2.5, Some(1.0)),
        (Merge, 2.5, 1 << 31, -2.5, Some(-1.0)),
        (Other, 2.5, 3 << 20, 20.0, Some(8.0)),
        // A mantissa bit: of a number that has none there yet, too.
        (Other, 2.5, 1, f64::from_bits(2.5f64.to_bits() + (1 << 32)), None),
        (Merge, 2.0, 1 << 19, 3.0, None),
        (Take, 2.5, 0xffff_f000, 2.5, None),
    ];
    for ((operation, value, b, result, ratio), shift) in cases.into_iter().flat_map(|case| [(case, 0), (case, 32)]) {
        let (a, b, result) = (top(value) << shift, b << shift, top(result) << shift);
        let lane = Lane { a, b, result, shadow_a: shadow << shift, shadow_b: 0 };
        let expected = match ratio {
            Some(ratio) => Outcome::Same(pending::scaled(shadow, ratio).unwrap()),
            None => Outcome::Lost,
        };
        assert_eq!(upper_half(lane.by_mark(operation), shift), expected, "{operation:?} {value} {shift}");
    }
    let lane = Lane { a: top(2.5), b: in_both_halves(20), result: 0x400, shadow_a: shadow, shadow_b: 0 };
    assert_eq!(upper_half(lane.by_mark(ShiftRight), 0), Outcome::Passive, "an exponent");
    // Bits of the mantissa go to another half.
    let lane =
        Lane { a: 2.5f64.to_bits(), b: in_both_halves(36), result: 0x400_4000, shadow_a: shadow << 32, shadow_b: 0 };
    assert_eq!(lane.by_mark(ShiftRight), LaneOutcome::Wide(Outcome::Lost));
}

#[test]
fn a_mask_in_a_general_register_leaves_an_upper_half() {
    let (shadow, value) = (INDEX | WIDE_TAG, -1.1f64);
    let lane =
        |mask: u64| Lane { a: value.to_bits(), b: mask, result: value.to_bits() & mask, shadow_a: shadow, shadow_b: 0 };
    let negated = pending::scaled(shadow >> 32, -1.0).unwrap();
    for (mask, expected) in [
        (0x7fff_ffff_0000_0000, Outcome::Same(negated)),
        (0xffff_ffff_0000_0000, Outcome::Same(shadow >> 32)),
        (0x7ff0_0000_0000_0000, Outcome::Passive),
        (0xffff_f000_0000_0000, Outcome::Lost),
    ] {
        assert_eq!(upper_half(lane(mask).by_mark(Take), 32), expected, "{mask:#x}");
    }
    // Its lower half is put beside it.
    let [upper, lower] = [lane(0x7fff_ffff_0000_0000), lane(0xffff_ffff)];
    let both = Lane {
        a: upper.result,
        b: lower.result,
        result: upper.result | lower.result,
        shadow_a: negated << 32,
        shadow_b: shadow & 0xffff_ffff,
    };
    assert_eq!(both.by_mark(Merge), LaneOutcome::Narrow([Outcome::Same(INDEX), Outcome::Same(negated)]));
    assert_eq!(index_and_factor(negated << 32 | INDEX), Some((INDEX, -1.0)));
}

#[test]
fn a_bit_that_is_merged_into_a_number_is_no_move() {
    // The bytes are zero in the number and in its shadow.
    let lane = Lane { a: 2f64.to_bits(), b: 1 << 51, result: 3f64.to_bits(), shadow_a: INDEX | WIDE_TAG, shadow_b: 0 };
    assert_eq!(lane.by_mark(Merge), LaneOutcome::Wide(Outcome::Lost));
    let (a, result) = (2f32.to_bits().into(), 3f32.to_bits().into());
    let lane = Lane { a, b: 1 << 22, result, shadow_a: of_narrow(INDEX), shadow_b: 0 };
    assert_eq!(lane.by_mark(Merge), LaneOutcome::Narrow([Outcome::Lost, Outcome::Passive]));
}

#[test]
fn half_an_index_moves_but_is_lost_in_computations() {
    // The lower half of an index is none, though it may be the number of one.
    let lower = Lane { a: 1, b: 0x8000_0000, result: 0x8000_0001, shadow_a: INDEX, shadow_b: 0 };
    assert_eq!(lower.by_mark(Xor), LaneOutcome::Narrow([Outcome::Lost, Outcome::Passive]));
}

#[test]
fn a_narrow_number_has_the_rest_of_a_wide_one_beside_it() {
    // As `cvtsd2ss` leaves it.
    let rest = (INDEX | WIDE_TAG) >> 32 << 32;
    let value = u64::from(1.5f32.to_bits()) | (-1.5f64).to_bits() >> 32 << 32;
    let shadow = of_narrow(INDEX + 1) | rest;
    let lane = |b, result| Lane { a: value, b, result, shadow_a: shadow, shadow_b: 0 };
    let negated = Outcome::Scaled { index: of_narrow(INDEX + 1), ratio: -1.0 };
    let outcome = |lane: Lane, operation| lane.outcome(operation, |_| false);
    let kept = LaneOutcome::Narrow([negated, Outcome::Same(rest >> 32)]);
    assert_eq!(outcome(lane(1 << 31, value ^ 1 << 31), Xor), kept);
    let mask = 0x7fff_ffff;
    assert_eq!(
        outcome(lane(mask, value & mask), And),
        LaneOutcome::Narrow([Outcome::Same(of_narrow(INDEX + 1)), Outcome::Passive])
    );
}

#[test]
fn a_sum_of_numbers_without_common_bits_is_a_bitwise_operation() {
    let sum = |a: u64, b: u64, shadow_b: u64| {
        Lane { a, b, result: a.wrapping_add(b), shadow_a: 7, shadow_b }.bitwise(BitOperation::Sum)
    };
    assert_eq!(sum(0x8012_3456, 0x3f00_0000, 0), BitOperation::Or);
    assert_eq!(sum(0x5600, 0x12, 8), BitOperation::Merge);
    assert_eq!(sum(0x3f12_3456, 0x0100_0000, 0), BitOperation::Other);
    // A constant of four bytes with copies of its sign above.
    let negative = Lane { a: 0x12_3456, b: !0 << 31, result: 0x8012_3456, shadow_a: 7, shadow_b: 0 };
    assert_eq!(negative.bitwise(BitOperation::Sum), BitOperation::Or);
    assert_eq!(negative.bitwise(BitOperation::Other), BitOperation::Other);
}
