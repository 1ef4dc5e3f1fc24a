//! Numbers in general registers of which bytes are replaced, in forward mode: see [`crate::bit_tricks::holes`] and [`super::replaced`].

use std::cell::RefCell;

use super::bits;
use super::replaced::{Change, Upper};
use crate::bit_tricks::Lane;
use crate::bit_tricks::holes::{Number, Numbers};
use crate::instrument::not_lost_at;
use crate::ir::BitOperation;

/// Stands for a shadow of which nothing is left: what is put in would not be seen.
const HARDLY_ANYTHING: u64 = 1;

/// What the lane of a bit trick does not say of itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Circumstances {
    pub layer: usize,
    /// Whether differentiation is.
    pub suspended: bool,
    /// Where losses count.
    pub address: u64,
}

thread_local! {
    static NUMBERS: RefCell<Numbers> = const { RefCell::new(Numbers::new()) };
}

/// The shadow of the result if bytes are taken out of a number or put in, with zeros where derivative information is lost, and these bits. Where it is not known yet that all of it is
/// lost, there is something nevertheless.
pub(super) fn dot(lane: &Lane, operation: BitOperation, at: Circumstances) -> Option<(u64, u64)> {
    NUMBERS.with_borrow_mut(|numbers| {
        if let Some((number, hole)) = numbers.taken(at.layer, lane, operation) {
            let moved = number.moved & !hole;
            let rest = if moved == 0 { HARDLY_ANYTHING } else { moved };
            // Other masks than those of bytes can leave a number, or something that is none whatever comes.
            let is_bytes = hole.to_le_bytes().into_iter().all(|byte| byte == 0 || byte == 0xff);
            let (shown, lost) = match bits::by_itself(lane, operation, at.suspended) {
                _ if is_bytes => (rest, 0),
                (0, lost) => (rest, lost),
                found => found,
            };
            let counted = (lost != 0).then_some(at.address);
            let mut number = number.with_hole(hole, lane.result).with_shadow(moved, shown);
            number.counted = counted;
            numbers.remember(number);
            return Some((shown, lost));
        }
        put(numbers, lane, operation, at)
    })
}

fn put(numbers: &mut Numbers, lane: &Lane, operation: BitOperation, at: Circumstances) -> Option<(u64, u64)> {
    let (mut number, filler) = numbers.filled(at.layer, lane, operation)?;
    number.moved |= filler.whole_shadow;
    // A dot value is scaled whatever bits of the mantissa become.
    let rest = filler.rest(|| true);
    if rest != 0 {
        let shown = if number.moved == 0 { HARDLY_ANYTHING } else { number.moved };
        if filler.shadow() != 0 && filler.shadow() != number.shadow & filler.hole {
            number.copied |= filler.hole & !rest;
        }
        let lost = if number.counted.is_none() { u64::MAX } else { 0 };
        number.counted.get_or_insert(at.address);
        numbers.remember(number.without(rest).with_shadow(number.moved, shown));
        return Some((shown, lost));
    }
    if let Some(address) = number.counted.take() {
        not_lost_at(address);
    }
    let (changed, out_of_range) = shadow_if_changed(&number);
    // What has been taken out before, changed, and put back has the dot value that constants would leave: all of them, or each byte by itself if nothing was known of the other one.
    let is_own = number.shadow != 0
        && filler.bytes().all(|byte| {
            let (alone, _) = shadow_if_changed(&number.with_only(&byte));
            [0, changed, alone].iter().any(|shadow| byte.shadow() == shadow & byte.hole)
        });
    let is_changed = number.copied == 0 && (filler.shadow() == 0 || is_own);
    if !is_changed {
        number.copied |= filler.hole;
    }
    let (shown, lost) = if at.suspended || !is_changed { (number.moved, false) } else { (changed, out_of_range) };
    if lost {
        return Some((0, u64::MAX));
    }
    number.shown = shown;
    numbers.remember(number);
    Some((shown, 0))
}

/// The shadow if what has been put in are constants, and whether a dot value is out of range.
fn shadow_if_changed(number: &Number) -> (u64, bool) {
    let half = |shift: u32, upper: Upper| {
        let group = |bits: u64| (bits >> shift) as u32;
        let bytes = group(number.replaced).to_le_bytes();
        let replaced = (0..4).filter(|&byte| bytes[byte] != 0).fold(0, |places, byte| places | 1 << byte);
        let change = Change {
            original: group(number.original),
            value: group(number.value),
            replaced,
            dot: group(number.shadow),
        };
        let (shown, lost) = change.shadow(group(number.moved), std::iter::once(upper));
        (u64::from(shown) << shift, lost)
    };
    let [(low, low_lost), (high, high_lost)] =
        [half(0, Upper::lower((number.shadow >> 32) as u32)), half(32, Upper::WIDE)];
    (low | high, low_lost || high_lost)
}
#[cfg(test)]
mod tests {
    use super::*;
    use BitOperation::{Merge, Or, Take};

    /// Takes bytes out of a number and puts others in, with a shadow of their own.
    fn replace([value, shadow]: [u64; 2], hole: u64, [byte, dot]: [u64; 2]) -> [u64; 2] {
        let rest = Lane { a: value, b: !hole, result: value & !hole, shadow_a: shadow, shadow_b: 0 };
        let (left, lost) = super::dot(&rest, Take, Circumstances::default()).unwrap();
        assert!(lost == 0 && left != 0, "what is put in is seen");
        let whole = Lane { a: byte, b: rest.result, result: rest.result | byte, shadow_a: dot, shadow_b: left };
        let (shadow, lost) = super::dot(&whole, if dot == 0 { Or } else { Merge }, Circumstances::default()).unwrap();
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
