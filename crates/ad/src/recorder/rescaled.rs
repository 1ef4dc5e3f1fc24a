//! Numbers that bit tricks have made of other ones by changing sign or exponent, and that programs may put together from bytes of both.
//!
//! The two numbers have the same lower bytes. A program that copies the new one byte by byte gets some of them from where the old one is, if its compiler knows that they are
//! equal, and so the copy has bytes of the shadow of both: mostly those of the old one's index, as indices that are recorded soon after each other differ in their lowest bytes
//! only. But a number with that index has the old one's value. So what has its index and the new one's value is the new one.

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::instrument::undone::Remembered;
use crate::instrument::{NUMBERS_CHANGED, Thread};
use crate::ir::Format;

/// So many numbers does a thread remember: loops that compilers have split change all elements of an array before they copy them.
const REMEMBERED: usize = 256;

/// A number and its shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub value: u64,
    pub shadow: u64,
}

/// A bit trick that has changed a number's sign or exponent.
#[derive(Clone, Copy, Debug)]
struct Change {
    format: Format,
    before: Number,
    /// From which earlier changes have made that.
    origin: Number,
    now: Number,
}

thread_local! {
    /// The newest one first.
    static CHANGES: RefCell<Remembered<VecDeque<Change>>> = const { RefCell::new(Remembered::new(VecDeque::new())) };
}

/// A bit trick has made one number of the other.
pub(super) fn remember(thread: &mut Thread<'_>, format: Format, before: Number, now: Number) {
    thread.fields().changed |= NUMBERS_CHANGED;
    CHANGES.with_borrow_mut(|changes| add(changes.current(), format, before, now));
}

/// The shadow of eight bytes that have been put together from bytes with this shadow, if that is complete with those in which `part` has ones.
///
/// It is not with bytes that have no sign or exponent: where one number is copied over another one from the lowest byte up, the value is still that one's.
pub(super) fn settled(assembled: Number, part: u64) -> u64 {
    CHANGES.with_borrow_mut(|changes| made_of(changes.current(), assembled, part))
}

fn add(changes: &mut VecDeque<Change>, format: Format, before: Number, now: Number) {
    let earlier = changes.iter().find(|change| change.now == before);
    let origin = earlier.map_or(before, |earlier| earlier.origin);
    changes.truncate(REMEMBERED - 1);
    changes.push_front(Change { format, before, origin, now });
}

fn made_of(changes: &VecDeque<Change>, assembled: Number, part: u64) -> u64 {
    let find = |format: Format, number: Number, part: u64| {
        let is_mixed = |with: Number| with.shadow == number.shadow && (with.value ^ number.value) & part != 0;
        let is_it = |change: &&Change| {
            (change.format, change.now.value) == (format, number.value)
                && (is_mixed(change.before) || is_mixed(change.origin))
        };
        changes.iter().find(is_it).map(|change| change.now.shadow)
    };
    if let Some(shadow) = find(Format::Binary64, assembled, part) {
        return shadow;
    }
    [0, 32].into_iter().fold(assembled.shadow, |whole, shift| {
        let half = |bits: u64| bits >> shift & u64::from(u32::MAX);
        let number = Number { value: half(assembled.value), shadow: half(assembled.shadow) };
        match find(Format::Binary32, number, half(part)) {
            Some(shadow) => whole ^ (number.shadow ^ shadow) << shift,
            None => whole,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shadow::{of_narrow, of_wide};

    /// The byte with the sign.
    const TOP: u64 = 0xff << 56;

    fn wide(value: f64, index: u64) -> Number {
        Number { value: value.to_bits(), shadow: of_wide(index) }
    }

    fn narrow(value: f32, index: u64) -> Number {
        Number { value: value.to_bits().into(), shadow: of_narrow(index) }
    }

    /// The upper bytes of a number beside the lower ones of another one, value and shadow.
    fn mixed(upper: Number, lower: Number, bytes: u32) -> Number {
        let mix = |upper: u64, lower: u64| upper & !((1 << (8 * bytes)) - 1) | lower & ((1 << (8 * bytes)) - 1);
        Number { value: mix(upper.value, lower.value), shadow: mix(upper.shadow, lower.shadow) }
    }

    #[test]
    fn what_has_the_value_of_the_new_number_gets_its_shadow() {
        let mut changes = VecDeque::new();
        let (old, new) = (wide(1.7, 0x1_0234), wide(-1.7, 0x1_0567));
        add(&mut changes, Format::Binary64, old, new);
        for bytes in 4..8 {
            assert_eq!(made_of(&changes, mixed(new, old, bytes), TOP), new.shadow, "{bytes}");
            assert_eq!(made_of(&changes, mixed(new, old, bytes), !TOP), old.shadow, "still being copied");
        }
        assert_eq!(made_of(&changes, old, u64::MAX), old.shadow);
        assert_eq!(made_of(&changes, new, u64::MAX), new.shadow);
        let (old, new) = (narrow(0.3, 0x1_0234), narrow(1.2, 0x1_0567));
        add(&mut changes, Format::Binary32, old, new);
        let pair = |low: Number, high: Number| Number {
            value: low.value | high.value << 32,
            shadow: low.shadow | high.shadow << 32,
        };
        let other = narrow(0.3, 0x99);
        let copy = mixed(new, old, 2);
        assert_eq!(made_of(&changes, pair(copy, other), u64::MAX), new.shadow | other.shadow << 32);
        assert_eq!(made_of(&changes, pair(other, copy), u64::MAX), other.shadow | new.shadow << 32);
        assert_eq!(made_of(&changes, pair(old, other), u64::MAX), old.shadow | other.shadow << 32);
    }

    #[test]
    fn a_number_that_is_changed_and_changed_back_is_told_from_itself() {
        let mut changes = VecDeque::new();
        let [first, second, third] = [wide(1.7, 0x1_0234), wide(-1.7, 0x1_0567), wide(1.7, 0x1_0568)];
        add(&mut changes, Format::Binary64, first, second);
        add(&mut changes, Format::Binary64, second, third);
        assert_eq!(made_of(&changes, first, u64::MAX), first.shadow);
        assert_eq!(made_of(&changes, mixed(third, second, 7), u64::MAX), third.shadow);
        let fourth = wide(3.4, 0x1_0569);
        add(&mut changes, Format::Binary64, third, fourth);
        assert_eq!(made_of(&changes, mixed(fourth, first, 6), u64::MAX), fourth.shadow, "through all of them");
    }
}
