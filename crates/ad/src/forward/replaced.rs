//! Numbers in memory of which single bytes are replaced, one or two at a time.
//!
//! A constant over the byte with a number's sign and the upper bits of its exponent makes it ±2^k times what it was; its dot value is scaled alike. But programs also copy numbers byte by
//! byte, in any order, and put other data where there were numbers. Then the new bytes' shadow goes with them, and nothing tells a constant from a byte of a number, or of its dot
//! value, that is not active by itself.
//!
//! So it is remembered what has been replaced in the last groups of four aligned bytes: the upper half of a binary64 number, a binary32 number, or sign and exponent of an 80-bit one.
//! As long as these are constants over the upper two bytes only, the number has been changed. If an active byte comes, or one over the byte below these, numbers are copied or overwritten: then the
//! shadow is that of the bytes, as if there had never been anything else. What is a number is not known; data that look like one keep the dot value of a number that was there.

use std::cell::RefCell;
use std::collections::VecDeque;

use derivgrind_engine::memory::user;

use super::upper_bytes::{self, Part};
use crate::instrument::{MOST_LAYERS, Replaced, Thread, layers, lost_at, not_lost_at, shadow_address};

/// Groups that a thread remembers.
const REMEMBERED: usize = 16;
/// All bytes of a group: it has been copied or overwritten.
const ALL: u8 = 0b1111;

/// Four aligned bytes.
#[derive(Clone, Copy, Debug)]
struct Group {
    address: u64,
    /// Their value before the first one was replaced.
    original: u32,
    /// Their value now.
    value: u32,
    /// Bit k: byte k has been replaced.
    replaced: u8,
    /// The same for bytes that have come with the first active one or behind it.
    copied: u8,
    /// Where it has been counted that the dot value is lost.
    counted: Option<u64>,
    /// The shadow of the next four bytes before any of them was replaced, if they are remembered.
    behind: Option<[u32; MOST_LAYERS]>,
    dots: [Dots; MOST_LAYERS],
}

/// The shadow of such a group in a layer.
#[derive(Clone, Copy, Debug, Default)]
struct Dots {
    /// Before the first byte was replaced.
    original: u32,
    /// If the shadow of each byte is what came with it.
    moved: u32,
    /// Now.
    shown: u32,
}

thread_local! {
    /// The newest one first.
    static GROUPS: RefCell<VecDeque<Group>> = const { RefCell::new(VecDeque::new()) };
}

/// Gives bytes that have been replaced, and the number that they are a part of, their dot values.
pub(super) fn replace(thread: &mut Thread<'_>, replaced: &Replaced) {
    let (first, within) = (replaced.address & !3, replaced.address % 4);
    let bytes = u64::from(u32::MAX) >> (32 - 8 * u32::from(replaced.bytes)) << (8 * within);
    GROUPS.with_borrow_mut(|groups| {
        for (half, shift) in [0, 32].into_iter().enumerate().filter(|(_, shift)| bytes >> shift != 0) {
            let step = Step {
                address: first + 4 * half as u64,
                bytes: (bytes >> shift) as u32,
                before: replaced.before[half],
                dots: replaced.shadows.map(|shadow| (u64::from(shadow) << (8 * within) >> shift) as u32),
            };
            step.take(thread, groups);
        }
    });
}

/// Bytes that have come into a group.
struct Step {
    address: u64,
    /// Ones in these bytes.
    bytes: u32,
    /// What was in the group.
    before: u32,
    /// The shadow of these bytes in each layer.
    dots: [u32; MOST_LAYERS],
}

impl Step {
    fn take(&self, thread: &mut Thread<'_>, groups: &mut VecDeque<Group>) {
        let shown: [u32; MOST_LAYERS] = std::array::from_fn(|layer| match layers().contains(&layer) {
            true => shadow_of(layer, self.address),
            false => 0,
        });
        let known = groups.iter().position(|group| group.address == self.address);
        let known = known.and_then(|position| groups.remove(position));
        let is_same = |group: &Group| group.value == self.before && group.dots.map(|dots| dots.shown) == shown;
        // A byte of a copied number that is replaced once more is one of another number, or of this one as a whole.
        let is_new = |group: &Group| group.copied & self.places() != 0;
        let known = known.filter(|group| is_same(group) && !is_new(group));
        let mut group = known.unwrap_or_else(|| Group::new(self.address, self.before, shown));
        let Ok(value) = user::read::<u32>(self.address) else { return };
        group.put(self, value);
        group.behind =
            groups.iter().find(|next| next.address == self.address + 4).map(|next| next.dots.map(|dots| dots.original));
        group.show(thread);
        // The integer bit of an 80-bit number: without it, what is behind it is none.
        if self.address % 16 == 4
            && let Some(next) = groups.iter_mut().find(|next| next.address == self.address + 4)
            && next.is_current()
        {
            next.show(thread);
        }
        if group.replaced != ALL {
            groups.truncate(REMEMBERED - 1);
            groups.push_front(group);
        }
    }

    /// Bit k: byte k is one of them.
    fn places(&self) -> u8 {
        (0..4).filter(|byte| self.bytes >> (8 * byte) & 0xff != 0).fold(0, |places, byte| places | 1 << byte)
    }
}

impl Group {
    fn new(address: u64, value: u32, shown: [u32; MOST_LAYERS]) -> Group {
        let dots = shown.map(|shown| Dots { original: shown, moved: shown, shown });
        Group { address, original: value, value, replaced: 0, copied: 0, counted: None, behind: None, dots }
    }

    /// Whether nobody else has written there since.
    fn is_current(&self) -> bool {
        let is_shown = |layer: usize| shadow_of(layer, self.address) == self.dots[layer].shown;
        user::read::<u32>(self.address).is_ok_and(|value| value == self.value) && layers().all(is_shown)
    }

    fn put(&mut self, step: &Step, value: u32) {
        self.value = value;
        self.replaced |= step.places();
        if self.copied != 0 || step.dots != [0; MOST_LAYERS] {
            self.copied |= step.places();
        }
        for (dots, new) in self.dots.iter_mut().zip(step.dots) {
            dots.moved = dots.moved & !step.bytes | new;
        }
    }

    /// Gives the group its shadow, and counts a loss or takes it back.
    fn show(&mut self, thread: &mut Thread<'_>) {
        let suspended = thread.fields().disabled != 0;
        let mut lost = false;
        for layer in layers() {
            let Group { original, value, replaced, copied, .. } = *self;
            let parts = self.parts(layer).into_iter().flatten().filter(|_| !suspended && copied == 0);
            let dots = &mut self.dots[layer];
            let change = Change { original, value, replaced, dot: dots.original };
            let (shown, out_of_range) = change.shadow(dots.moved, parts);
            let before = std::mem::replace(&mut dots.shown, shown);
            lost |= out_of_range;
            // No other bytes: they may be another thread's.
            for byte in (0..4).filter(|byte| (before ^ shown) >> (8 * byte) & 0xff != 0) {
                shadow_address::write_layer(layer, self.address + byte, &[(shown >> (8 * byte)) as u8]);
            }
        }
        match (lost, self.counted) {
            (true, None) => {
                let address = thread.context().rip;
                lost_at(address);
                self.counted = Some(address);
            }
            (false, Some(address)) => {
                not_lost_at(address);
                self.counted = None;
            }
            _ => {}
        }
    }

    /// Whether it is the upper half of an 80-bit number's significand: behind it are sign and exponent of a dot value, and nothing.
    fn is_significand(&self, layer: usize) -> bool {
        let [next, last] = [4, 8].map(|distance| shadow_of(layer, self.address + distance));
        let next = self.behind.map_or(next, |behind| behind[layer]);
        Part::WORD.is_dot(u64::from(next) | u64::from(last) << 32)
    }

    /// What the group can be a part of.
    fn parts(&self, layer: usize) -> [Option<Upper>; 2] {
        let lower = Some(Upper::lower(shadow_of(layer, self.address + 4)));
        match self.address % 16 {
            4 if self.is_significand(layer) => [None; 2],
            4 | 12 => [Some(Upper::WIDE), None],
            8 if has_significand(layer, self.address) => [lower, Some(Upper::EXTENDED)],
            _ => [lower, None],
        }
    }
}

/// Bytes of a group that constants have taken the place of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// The group before.
    pub original: u32,
    /// The group now.
    pub value: u32,
    /// Bit k: byte k has been replaced.
    pub replaced: u8,
    /// The shadow before.
    pub dot: u32,
}

impl Change {
    /// The shadow of the group, which is `moved` but for sign and exponent of what it can be; and whether a dot value is out of range.
    pub fn shadow(&self, moved: u32, parts: impl Iterator<Item = Upper>) -> (u32, bool) {
        parts.fold((moved, false), |(shown, lost), upper| match upper.dot(self) {
            upper_bytes::Replaced::Scaled(dot) => {
                (shown & !(0xffff << upper.shift) | (dot as u32) << upper.shift, lost)
            }
            upper_bytes::Replaced::Nothing => (shown, lost),
            upper_bytes::Replaced::Lost => (shown, lost || upper.certain),
        })
    }
}

/// The two bytes of a group that have a number's sign and exponent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Upper {
    part: &'static Part,
    smallest: u64,
    /// Where they are in the group.
    shift: u32,
    /// Bit k: byte k is one of them.
    bytes: u8,
    /// The byte below them, or those behind: if they are replaced as well, it is no change of the number.
    others: u8,
    /// Whether it can be nothing else, so that a dot value out of range is a loss.
    certain: bool,
}

impl Upper {
    /// Of a binary64 number; or of a binary32 one, of which the highest byte is changed in the same way. It can have smaller numbers.
    pub(super) const WIDE: Upper = Upper { part: &Part::WIDE_WORD, ..Upper::NARROW };
    const NARROW: Upper = Upper {
        part: &Part::NARROW_WORD,
        smallest: Part::NARROW_WORD.smallest(),
        shift: 16,
        bytes: 0b1100,
        others: 0b10,
        certain: true,
    };
    /// Of a binary32 number or, if something active is behind it, the lower half of another one.
    pub(super) fn lower(behind: u32) -> Upper {
        Upper { certain: behind == 0, ..Upper::NARROW }
    }

    /// Of an 80-bit number.
    const EXTENDED: Upper = Upper {
        part: &Part::WORD,
        smallest: Part::WORD.smallest(),
        shift: 0,
        bytes: 0b11,
        others: 0b1100,
        certain: true,
    };

    /// Its dot value if such bytes of the group have been replaced.
    fn dot(&self, change: &Change) -> upper_bytes::Replaced {
        if change.replaced & self.bytes == 0 || change.replaced & self.others != 0 {
            return upper_bytes::Replaced::Nothing;
        }
        let upper = |group: u32| u64::from(group >> self.shift & 0xffff);
        self.part.replaced(upper(change.original), upper(change.value), upper(change.dot), self.smallest)
    }
}

/// Whether the eight bytes before sign and exponent of an 80-bit number are its significand, and its dot value has one.
fn has_significand(layer: usize, address: u64) -> bool {
    let start = address.wrapping_sub(8);
    let mut dot = [0; 8];
    shadow_address::read_layer(layer, start, &mut dot);
    let value = user::read::<u64>(start).unwrap_or(0);
    [value, u64::from_le_bytes(dot)].into_iter().all(|significand| significand >> 63 != 0)
}

fn shadow_of(layer: usize, address: u64) -> u32 {
    let mut shadow = [0; 4];
    shadow_address::read_layer(layer, address, &mut shadow);
    u32::from_le_bytes(shadow)
}
