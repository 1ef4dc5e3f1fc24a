//! Numbers in memory of which single bytes are replaced, one or two at a time.
//!
//! A constant over the bytes with a number's sign and exponent makes it ±2^k times what it was; its derivative is scaled alike. But programs also copy numbers byte by
//! byte, in any order, and put other data where there were numbers. Then the new bytes' shadow goes with them, and nothing tells a constant from a byte of a number, or of its
//! shadow, that is not active by itself.
//!
//! So it is remembered what has been replaced in the last groups of four aligned bytes: the upper half of a binary64 number, a binary32 number, or sign and exponent of an 80-bit one.
//! As long as these are constants over the upper two bytes only, or what has been loaded from there and changed, the number has been changed. If another active byte comes, or one over the byte below these, numbers are copied or overwritten: then the
//! shadow is that of the bytes, as if there had never been anything else. What is a number is not known; data that look like one keep the derivative of a number that was there.

use std::collections::VecDeque;

use derivgrind_engine::memory::user;

use super::{MOST_LAYERS, Replaced, layers, shadow_address};

/// Groups that a thread remembers.
const REMEMBERED: usize = 32;
/// The upper two bytes of a group: sign and exponent of a number that ends there.
const UPPER: u8 = 0b1100;
/// All bytes of a group: it has been copied or overwritten.
const ALL: u8 = 0b1111;

/// Four aligned bytes, and what a mode wants to know of them besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<Known> {
    pub address: u64,
    /// Their value before the first one was replaced.
    pub original: u32,
    /// Their value now.
    pub value: u32,
    /// Bit k: byte k has been replaced.
    pub replaced: u8,
    /// The same for bytes that have come with the first active one or behind it.
    pub copied: u8,
    /// The same for upper bytes that have come and were there already: see [`Group::keep`].
    kept: u8,
    /// The shadow of the next four bytes before any of them was replaced, if they are remembered.
    pub behind: Option<[u32; MOST_LAYERS]>,
    pub shadows: [Shadows; MOST_LAYERS],
    pub known: Known,
}

/// The shadow of such a group in a layer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shadows {
    /// Before the first byte was replaced.
    pub original: u32,
    /// If the shadow of each byte is what came with it.
    pub moved: u32,
    /// Now.
    pub shown: u32,
}

/// Bytes that have come into a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub address: u64,
    /// Ones in these bytes.
    pub bytes: u32,
    /// What was in the group.
    before: u32,
    /// The shadow of these bytes in each layer.
    pub shadows: [u32; MOST_LAYERS],
}

/// The groups that a thread remembers, the newest one first.
#[derive(Debug, Default)]
pub(crate) struct Groups<Known>(VecDeque<Group<Known>>);

impl Replaced {
    /// What that is for the one or two groups that the bytes are in.
    pub fn steps(&self) -> impl Iterator<Item = Step> + use<> {
        let Replaced { address, bytes, before, shadows } = *self;
        let (first, within) = (address & !3, address % 4);
        let bytes = u64::from(u32::MAX) >> (32 - 8 * u32::from(bytes)) << (8 * within);
        let step = move |half: usize| {
            let shift = 32 * half;
            Step {
                address: first + 4 * half as u64,
                bytes: (bytes >> shift) as u32,
                before: before[half],
                shadows: shadows.map(|shadow| (u64::from(shadow) << (8 * within) >> shift) as u32),
            }
        };
        (0..2).map(step).filter(|step| step.bytes != 0)
    }
}

impl Step {
    /// Whether the value of these bytes has changed to that in `value`.
    pub fn changes(&self, value: u32) -> bool {
        (self.before ^ value) & self.bytes != 0
    }

    /// Bit k: byte k is one of them.
    fn places(&self) -> u8 {
        (0..4).filter(|byte| self.bytes >> (8 * byte) & 0xff != 0).fold(0, |places, byte| places | 1 << byte)
    }
}

impl<Known: Copy + Default> Groups<Known> {
    pub const fn new() -> Groups<Known> {
        Groups(VecDeque::new())
    }

    /// The group that bytes have come into, as it was before: one that is remembered as it is, or another one.
    pub fn take(&mut self, step: &Step) -> Group<Known> {
        let shown: [u32; MOST_LAYERS] = std::array::from_fn(|layer| match layers().contains(&layer) {
            true => shadow_of(layer, step.address),
            false => 0,
        });
        let known = self.0.iter().position(|group| group.address == step.address);
        let known = known.and_then(|position| self.0.remove(position));
        let is_same =
            |group: &Group<Known>| group.value == step.before && group.shadows.map(|shadows| shadows.shown) == shown;
        // A byte of a copied number that is replaced once more is one of another number, or of this one as a whole.
        let is_new = |group: &Group<Known>| group.replaced == ALL || group.copied & step.places() != 0;
        let known = known.filter(|group| is_same(group) && !is_new(group));
        let mut group = known.unwrap_or_else(|| Group::new(step.address, step.before, shown));
        let next = self.0.iter().find(|next| next.address == step.address + 4);
        group.behind = next.map(|next| next.shadows.map(|shadows| shadows.original));
        group
    }

    /// The group at an address, if it is remembered and nobody else has written there since.
    pub fn at(&mut self, address: u64) -> Option<&mut Group<Known>> {
        self.0.iter_mut().find(|group| group.address == address).filter(|group| group.is_current())
    }

    pub fn remember(&mut self, group: Group<Known>) {
        self.0.truncate(REMEMBERED - 1);
        self.0.push_front(group);
    }
}

impl<Known: Copy + Default> Group<Known> {
    fn new(address: u64, value: u32, shown: [u32; MOST_LAYERS]) -> Group<Known> {
        let shadows = shown.map(|shown| Shadows { original: shown, moved: shown, shown });
        let known = Known::default();
        Group { address, original: value, value, replaced: 0, copied: 0, kept: 0, behind: None, shadows, known }
    }

    /// Whether nobody else has written there since.
    fn is_current(&self) -> bool {
        let is_shown = |layer: usize| shadow_of(layer, self.address) == self.shadows[layer].shown;
        user::read::<u32>(self.address).is_ok_and(|value| value == self.value) && layers().all(is_shown)
    }

    /// Takes note of active upper bytes that are there already, with their shadow, if these are such: of the number itself, or of another one that is like it so far. They change nothing.
    pub fn keep(&mut self, step: &Step, value: u32) -> bool {
        let are_there = step.shadows != [0; MOST_LAYERS]
            && !self.is_overwritten()
            && step.places() & !UPPER == 0
            && !step.changes(value)
            && layers().all(|layer| self.shadows[layer].shown & step.bytes == step.shadows[layer]);
        if are_there {
            self.kept |= step.places();
        }
        are_there
    }

    /// Whether other bytes have come than constants over the upper two.
    pub fn is_overwritten(&self) -> bool {
        self.copied != 0 || self.replaced & !UPPER != 0
    }

    /// Bytes have come, and this is the value of the group.
    pub fn put(&mut self, step: &Step, value: u32) {
        self.value = value;
        self.replaced |= step.places();
        if self.copied != 0 || step.shadows != [0; MOST_LAYERS] {
            self.copied |= step.places();
        }
        // Those that were there already have been a part of it.
        if self.is_overwritten() {
            self.replaced |= self.kept;
        }
        if self.copied != 0 {
            self.copied |= self.kept;
        }
        for (shadows, new) in self.shadows.iter_mut().zip(step.shadows) {
            shadows.moved = shadows.moved & !step.bytes | new;
        }
    }

    /// As if nothing else had been replaced.
    pub fn with_only(mut self, step: &Step) -> Group<Known> {
        self.value = self.original & !step.bytes | self.value & step.bytes;
        self.replaced = step.places();
        for shadows in &mut self.shadows {
            shadows.moved = shadows.original;
        }
        self
    }

    /// Bit k: byte k has been replaced by an active one.
    pub fn active(&self) -> u8 {
        let has_shadow = |byte: u8| layers().any(|layer| self.shadows[layer].moved >> (8 * byte) & 0xff != 0);
        (0..4)
            .filter(|&byte| self.replaced >> byte & 1 != 0 && has_shadow(byte))
            .fold(0, |bytes, byte| bytes | 1 << byte)
    }

    /// Gives the group this shadow.
    pub fn show(&mut self, layer: usize, shown: u32) {
        let before = std::mem::replace(&mut self.shadows[layer].shown, shown);
        // No other bytes: they may be another thread's.
        for byte in (0..4).filter(|byte| (before ^ shown) >> (8 * byte) & 0xff != 0) {
            shadow_address::write_layer(layer, self.address + byte, &[(shown >> (8 * byte)) as u8]);
        }
    }
}

/// The shadow of four bytes.
pub(crate) fn shadow_of(layer: usize, address: u64) -> u32 {
    let mut shadow = [0; 4];
    shadow_address::read_layer(layer, address, &mut shadow);
    u32::from_le_bytes(shadow)
}
