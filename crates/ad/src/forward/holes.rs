//! Numbers in general registers of which single bytes are replaced: a mask takes one of them out, or the upper two, and others are put in.
//!
//! What this means, and why it has to be remembered, is said in [`super::replaced`], for numbers in memory. Here a number is known by its value and its shadow.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::replaced::{Change, Upper};
use crate::bit_tricks::Lane;
use crate::ir::BitOperation;

/// Numbers that a thread remembers, in all directions.
const REMEMBERED: usize = 64;
/// Stands for a shadow of which nothing is left: what is put in would not be seen.
const HARDLY_ANYTHING: u64 = 1;

/// Eight bytes in a register, or four.
#[derive(Clone, Copy, Debug)]
struct Number {
    /// The value before the first byte was taken out.
    original: u64,
    /// The value now.
    value: u64,
    /// The shadow before the first byte was taken out.
    dot: u64,
    /// The shadow if that of each byte is what came with it.
    moved: u64,
    /// The shadow now.
    shown: u64,
    /// Ones in bytes that have been replaced.
    replaced: u64,
    /// Ones in those that have come with the first active one or behind it.
    copied: u64,
    /// Ones in bytes that have been taken out.
    hole: u64,
}

thread_local! {
    /// The newest one first.
    static NUMBERS: RefCell<VecDeque<Number>> = const { RefCell::new(VecDeque::new()) };
}

/// The shadow of the result if bytes are taken out of a number or put in, with zeros where derivative information is lost, and these bits.
pub(super) fn dot(lane: &Lane, operation: BitOperation, suspended: bool) -> Option<(u64, u64)> {
    NUMBERS.with_borrow_mut(|numbers| match operation {
        BitOperation::Take => Some((taken(numbers, lane, operation)?, 0)),
        BitOperation::Or | BitOperation::Merge | BitOperation::Xor | BitOperation::Other => {
            put(numbers, lane, suspended)
        }
        _ => None,
    })
}

fn taken(numbers: &mut VecDeque<Number>, lane: &Lane, operation: BitOperation) -> Option<u64> {
    let (value, shadow, hole) = lane.hole(operation)?;
    let is_same =
        |number: &&Number| (number.value, number.shown, number.hole) == (value, shadow, 0) && number.copied & hole == 0;
    let known = numbers.iter().find(is_same).copied();
    let number = known.unwrap_or(Number {
        original: value,
        value,
        dot: shadow,
        moved: shadow,
        shown: shadow,
        replaced: 0,
        copied: 0,
        hole: 0,
    });
    let moved = number.moved & !hole;
    let shown = if moved == 0 { HARDLY_ANYTHING } else { moved };
    remember(numbers, Number { value: lane.result, moved, shown, hole, ..number });
    Some(shown)
}

fn put(numbers: &mut VecDeque<Number>, lane: &Lane, suspended: bool) -> Option<(u64, u64)> {
    let operands = [(lane.a, lane.shadow_a, lane.b, lane.shadow_b), (lane.b, lane.shadow_b, lane.a, lane.shadow_a)];
    let (mut number, byte, dot) = operands.into_iter().find_map(|(value, shadow, byte, dot)| {
        let fits = |number: &&Number| {
            number.hole != 0
                && (number.value, number.shown) == (value, shadow)
                && (byte | dot) & !number.hole == 0
                && lane.result == value | byte
        };
        Some((*numbers.iter().find(fits)?, byte, dot))
    })?;
    let hole = std::mem::take(&mut number.hole);
    number.value |= byte;
    number.moved |= dot;
    number.replaced |= hole;
    if number.copied != 0 || dot != 0 {
        number.copied |= hole;
    }
    let (shown, lost) = if suspended || number.copied != 0 { (number.moved, false) } else { number.shadow() };
    if lost {
        return Some((0, u64::MAX));
    }
    number.shown = shown;
    remember(numbers, number);
    Some((shown, 0))
}

fn remember(numbers: &mut VecDeque<Number>, number: Number) {
    numbers.truncate(REMEMBERED - 1);
    numbers.push_front(number);
}

impl Number {
    /// The shadow if what has been put in are constants, and whether a dot value is out of range.
    fn shadow(&self) -> (u64, bool) {
        let half = |shift: u32, upper: Upper| {
            let group = |bits: u64| (bits >> shift) as u32;
            let bytes = group(self.replaced).to_le_bytes();
            let replaced = (0..4).filter(|&byte| bytes[byte] != 0).fold(0, |places, byte| places | 1 << byte);
            let change =
                Change { original: group(self.original), value: group(self.value), replaced, dot: group(self.dot) };
            let (shown, lost) = change.shadow(group(self.moved), std::iter::once(upper));
            (u64::from(shown) << shift, lost)
        };
        let [(low, low_lost), (high, high_lost)] =
            [half(0, Upper::lower((self.dot >> 32) as u32)), half(32, Upper::WIDE)];
        (low | high, low_lost || high_lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BitOperation::{Merge, Or, Take};

    /// Takes bytes out of a number and puts others in, with a shadow of their own.
    fn replace([value, shadow]: [u64; 2], hole: u64, [byte, dot]: [u64; 2]) -> [u64; 2] {
        let rest = Lane { a: value, b: !hole, result: value & !hole, shadow_a: shadow, shadow_b: 0 };
        let (left, lost) = super::dot(&rest, Take, false).unwrap();
        assert!(lost == 0 && left != 0, "what is put in is seen");
        let whole = Lane { a: byte, b: rest.result, result: rest.result | byte, shadow_a: dot, shadow_b: left };
        let (shadow, lost) = super::dot(&whole, if dot == 0 { Or } else { Merge }, false).unwrap();
        assert_eq!(lost, 0);
        [whole.result, shadow]
    }

    /// The same with the byte of another number.
    fn replace_byte(number: [u64; 2], other: [u64; 2], byte: u32) -> [u64; 2] {
        let mask = 0xff << (8 * byte);
        replace(number, mask, other.map(|bits| bits & mask))
    }

    #[test]
    fn constants_over_sign_and_exponent_scale() {
        for dot in [0.7f64, 2.0, 1.0, -3.0] {
            let scaled = |hole, constant: u64| {
                let [value, shadow] = replace([3.1f64, dot].map(f64::to_bits), hole, [constant, 0]);
                (f64::from_bits(value), f64::from_bits(shadow) / dot)
            };
            assert_eq!(scaled(0xff << 56, 0xc0 << 56), (-3.1, -1.0));
            assert_eq!(scaled(0xffff << 48, 0xc028 << 48), (-12.4, -4.0));
            assert_eq!(scaled(0xff << 48, 0x18 << 48), (6.2, 2.0));
        }
        for dot in [0.7f32, 2.0, 1.0, -3.0] {
            let number = [3.1f32, dot].map(|number| u64::from(number.to_bits()));
            let [value, shadow] = replace(number, 0xff << 24, [0xc0 << 24, 0]);
            assert_eq!([value, shadow].map(|bits| f32::from_bits(bits as u32)), [-3.1, -dot]);
        }
    }

    #[test]
    fn bytes_that_are_copied_bring_their_shadow() {
        let numbers = [[3.1f64, 2.0], [-0.7, 0.3], [1.5, 1.0], [8.0, 0.0]].map(|number| number.map(f64::to_bits));
        for old in &numbers[..3] {
            for new in numbers {
                let descending = (1..8).rev().fold(*old, |number, byte| replace_byte(number, new, byte));
                let kept = |new: u64, old: u64| new & !0xff | old & 0xff;
                assert_eq!(descending, [kept(new[0], old[0]), kept(new[1], old[1])]);
            }
        }
    }
}
