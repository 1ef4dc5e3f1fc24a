//! Numbers in general registers of which bytes are replaced: a mask takes one of them out, or upper bits, and others are put in.
//!
//! What this means, and why it has to be remembered, is said in [`crate::instrument::groups`], for numbers in memory. Here a number is known by its value and its shadow.

use std::collections::VecDeque;

use super::{Lane, NARROW, WIDE};
use crate::ir::BitOperation;

/// Numbers that a thread remembers, in all directions.
const REMEMBERED: usize = 64;

/// Eight bytes in a register, or four.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    layer: usize,
    /// The value before the first bits were taken out.
    pub original: u64,
    /// The value now.
    pub value: u64,
    /// The shadow before the first bits were taken out.
    pub shadow: u64,
    /// The shadow if that of each byte is what came with it.
    pub moved: u64,
    /// The shadow now.
    pub shown: u64,
    /// Ones in what has been replaced.
    pub replaced: u64,
    /// Ones in what has come with the first active bits or behind them.
    pub copied: u64,
    /// Ones in what has been taken out.
    hole: u64,
    /// Where it has been counted that what is left is no number.
    pub counted: Option<u64>,
}

/// What has been put into a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filler {
    /// Ones where it can be.
    pub hole: u64,
    pub bits: u64,
    /// Also where nothing has been left of the value.
    pub whole_shadow: u64,
}

impl Filler {
    /// The same for each byte that bits have come into.
    pub fn bytes(&self) -> impl Iterator<Item = Filler> + use<> {
        let &Filler { hole, bits, whole_shadow } = self;
        let places = (0..8).map(move |byte| hole & 0xff << (8 * byte)).filter(|&hole| hole != 0);
        places.map(move |hole| Filler { hole, bits: bits & hole, whole_shadow })
    }

    /// Bytes of the hole that nothing has come into: others will come later. What comes in two steps leaves the highest byte zero, which constants do not; `is_number` tells whether it is a number with a zero
    /// in the lower one.
    pub fn rest(&self, is_number: impl FnOnce() -> bool) -> u64 {
        let came = self.bits | self.whole_shadow;
        let empty = |byte: u32| {
            let byte = 0xff << (8 * byte);
            if self.hole & byte == byte && came & byte == 0 { byte } else { 0 }
        };
        let rest = (0..8).map(empty).fold(0, |rest, byte| rest | byte);
        let highest = 0xff << (56 - self.hole.leading_zeros() / 8 * 8);
        if rest == self.hole || rest != 0 && rest & highest == 0 && is_number() { 0 } else { rest }
    }

    pub fn shadow(&self) -> u64 {
        self.whole_shadow & self.hole
    }
}

/// The numbers that a thread remembers, the newest one first.
#[derive(Debug, Default)]
pub(crate) struct Numbers(VecDeque<Number>);

impl Numbers {
    pub const fn new() -> Numbers {
        Numbers(VecDeque::new())
    }

    /// The number that a mask takes bits out of, as it was before, and these bits.
    pub fn taken(&self, layer: usize, lane: &Lane, operation: BitOperation) -> Option<(Number, u64)> {
        let (value, shadow, hole) = lane.hole(operation)?;
        let is_same = |number: &&Number| {
            (number.layer, number.value, number.shown, number.hole) == (layer, value, shadow, 0)
                && number.copied & hole == 0
        };
        let new = Number {
            layer,
            original: value,
            value,
            shadow,
            moved: shadow,
            shown: shadow,
            replaced: 0,
            copied: 0,
            hole: 0,
            counted: None,
        };
        Some((self.0.iter().find(is_same).copied().unwrap_or(new), hole))
    }

    /// The number that bits are put into where others have been taken out, as it is then but for its shadow.
    pub fn filled(&mut self, layer: usize, lane: &Lane, operation: BitOperation) -> Option<(Number, Filler)> {
        if !matches!(operation, BitOperation::Or | BitOperation::Merge | BitOperation::Xor | BitOperation::Other) {
            return None;
        }
        let operands = [(lane.a, lane.shadow_a, lane.b, lane.shadow_b), (lane.b, lane.shadow_b, lane.a, lane.shadow_a)];
        operands.into_iter().find_map(|(rest, shown, bits, shadow)| {
            let fits = |number: &&Number| {
                number.hole != 0
                    && (number.layer, number.value, number.shown) == (layer, rest, shown)
                    && bits & !number.hole == 0
                    // Of what has been taken out of the number itself there can be more than has been left of the value.
                    && shadow & !number.hole & !number.shadow == 0
                    && lane.result == rest | bits
            };
            let found = self.0.iter().position(|number| fits(&number))?;
            // A loss is taken back once.
            let counted = self.0[found].counted.take();
            let number = Number { counted, ..self.0[found] };
            let filler = Filler { hole: number.hole, bits, whole_shadow: shadow };
            let replaced = number.replaced | number.hole;
            Some((Number { value: lane.result, replaced, hole: 0, ..number }, filler))
        })
    }

    pub fn remember(&mut self, number: Number) {
        self.0.truncate(REMEMBERED - 1);
        self.0.push_front(number);
    }
}

impl Number {
    /// Whether nothing but bits of sign and exponent and just below has been replaced.
    pub fn is_replaced_above(&self) -> bool {
        let is_half = (self.original | self.value | self.shadow) >> 32 == 0;
        self.replaced & if is_half { 0xffff } else { 0xffff_ffff_ffff } == 0
    }

    /// Whether the mantissa is what it was.
    pub fn is_like_before(&self) -> bool {
        let layout = if (self.original | self.value) >> 32 == 0 { NARROW } else { WIDE };
        (self.original ^ self.value) & layout.mantissa == 0
    }

    /// These bytes are still to come.
    pub fn without(self, rest: u64) -> Number {
        Number { replaced: self.replaced & !rest, hole: rest, ..self }
    }

    /// As if nothing else had been replaced.
    pub fn with_only(self, filler: &Filler) -> Number {
        let value = self.original & !filler.hole | filler.bits;
        Number { value, moved: self.shadow, replaced: filler.hole, ..self }
    }

    /// Bits have been taken out, and this is what is left.
    pub fn with_hole(self, hole: u64, value: u64) -> Number {
        Number { value, hole, ..self }
    }

    /// This is the shadow if that of each byte is what came with it, and the shadow now.
    pub fn with_shadow(self, moved: u64, shown: u64) -> Number {
        Number { moved, shown, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BitOperation::{Or, Take};

    const SHADOW: u64 = 0x8000_4000_0000_1234;

    fn number() -> u64 {
        3.06f64.to_bits()
    }

    /// The number with a hole, remembered, and what is left of it.
    fn with_hole(hole: u64) -> (Numbers, u64) {
        let mut numbers = Numbers::new();
        let rest = number() & !hole;
        let lane = Lane { a: number(), b: !hole, result: rest, shadow_a: SHADOW, shadow_b: 0 };
        let (taken, found) = numbers.taken(0, &lane, Take).unwrap();
        assert_eq!((found, taken.original, taken.shadow), (hole, number(), SHADOW));
        numbers.remember(taken.with_hole(hole, rest).with_shadow(SHADOW & !hole, SHADOW & !hole));
        (numbers, rest)
    }

    fn fill(
        numbers: &mut Numbers,
        layer: usize,
        rest: u64,
        hole: u64,
        [bits, shadow]: [u64; 2],
    ) -> Option<(Number, Filler)> {
        let lane = Lane { a: bits, b: rest, result: bits | rest, shadow_a: shadow, shadow_b: SHADOW & !hole };
        numbers.filled(layer, &lane, Or)
    }

    #[test]
    fn what_is_put_into_a_hole_is_seen() {
        const HOLE: u64 = 0xff << 48;
        let (mut numbers, rest) = with_hole(HOLE);
        let (filled, filler) = fill(&mut numbers, 0, rest, HOLE, [0x18 << 48, 0]).unwrap();
        assert_eq!((f64::from_bits(filled.value), filled.replaced, filler.shadow()), (6.12, HOLE, 0));
        assert!(filled.is_replaced_above() && filled.is_like_before());
        assert!(fill(&mut numbers, 0, rest, HOLE, [0x118 << 48, 0]).is_none(), "beside the hole");
        assert!(fill(&mut numbers, 1, rest, HOLE, [0x18 << 48, 0]).is_none(), "another layer");
        // What has been taken out of the number itself can have more of its shadow.
        let (_, filler) = fill(&mut numbers, 0, rest, HOLE, [0x18 << 48, SHADOW & 0xffff << 48]).unwrap();
        assert_eq!(filler.shadow(), 0);
    }

    #[test]
    fn two_bytes_can_come_one_after_the_other() {
        const HOLE: u64 = 0xffff << 48;
        let rest = |bits: u64, is_number| Filler { hole: HOLE, bits, whole_shadow: 0 }.rest(|| is_number);
        assert_eq!(rest(0x18 << 48, true), 0xff << 56);
        assert_eq!([rest(0x40 << 56, false), rest(0x40 << 56, true)], [0xff << 48, 0]);
        assert_eq!([rest(0x4018 << 48, false), rest(0, true)], [0, 0]);
    }

    #[test]
    fn masks_that_leave_a_number_make_no_hole() {
        let hole = |value: u64, shadow, mask: u64| {
            let lane = Lane { a: value, b: mask, result: value & mask, shadow_a: shadow, shadow_b: 0 };
            lane.hole(Take).map(|(_, _, hole)| hole)
        };
        for hole_of_it in [0xff << 56, 0xff << 8, 0xffff << 48, 0x1fff << 51] {
            assert_eq!(hole(number(), SHADOW, !hole_of_it), Some(hole_of_it));
        }
        for mask in [!(1 << 63), (1 << 52) - 1, !(0x7ff << 52), u64::MAX, 0xff, !0xff] {
            assert_eq!(hole(number(), SHADOW, mask), None, "{mask:#x}");
        }
        let (half, index) = (3.06f32.to_bits().into(), 0x4000_1234);
        assert_eq!(hole(half, index, 0xffff), Some(0xffff << 16));
        // Also of the upper half of a binary64 number.
        for mask in [0x7fff_ffff, 0x807f_ffff, 0x800f_ffff, 0xf_ffff] {
            assert_eq!(hole(half, index, mask), None, "{mask:#x}");
        }
    }
}
