//! Numbers in memory of which constants replace sign and exponent, a byte or two at a time: their dot value is scaled as they are.
//!
//! What is such a constant, and what a byte of another number, [`crate::instrument::groups`] says.

use std::cell::RefCell;

use derivgrind_engine::memory::user;

use super::upper_bytes::{self, Part};
use crate::instrument::groups::{Group, Groups, Step, shadow_of};
use crate::instrument::{Replaced, Thread, layers, lost_at, not_lost_at, shadow_address};

/// Where it has been counted that a group's dot value is lost.
type Counted = Option<u64>;

thread_local! {
    static GROUPS: RefCell<Groups<Counted>> = const { RefCell::new(Groups::new()) };
}

/// Gives bytes that have been replaced, and the number that they are a part of, their dot values.
pub(super) fn replace(thread: &mut Thread<'_>, replaced: &Replaced) {
    GROUPS.with_borrow_mut(|groups| replaced.steps().for_each(|step| take(thread, groups, &step)));
}

fn take(thread: &mut Thread<'_>, groups: &mut Groups<Counted>, step: &Step) {
    let mut group = groups.take(step);
    let Ok(value) = user::read::<u32>(step.address) else { return };
    // What can be sign and exponent of an 80-bit number has no other bytes in the group, from which a copy would be known.
    if group.keep(step, value) && layers().all(|layer| parts(&group, layer)[1].is_none()) {
        return groups.remember(group);
    }
    let copied = group.copied;
    group.put(step, value);
    if copied == 0 && group.copied != 0 && step.changes(value) && is_scaled(groups, &group, step) {
        group.copied = 0;
    }
    show(thread, &mut group);
    // The integer bit of an 80-bit number: without it, what is behind it is none, and with active bytes there it has been copied.
    if step.address % 16 == 4
        && let Some(next) = groups.at(step.address + 4)
    {
        next.copied |= next.active();
        show(thread, next);
    }
    groups.remember(group);
}

/// Whether active bytes that have come are those of the dot value that constants would leave: they have been loaded, changed, and put back, and the dot value with them. Where nothing was
/// known of them they have come back without one.
fn is_scaled(groups: &mut Groups<Counted>, group: &Group<Counted>, step: &Step) -> bool {
    // Of an 80-bit number, which has no other bytes in this group.
    if step.address % 16 == 8 && groups.at(step.address - 4).is_some() {
        return false;
    }
    let alone = group.with_only(step);
    layers().all(|layer| {
        let is_shown = |group: &Group<Counted>| step.shadows[layer] == as_changed(group, layer).0 & step.bytes;
        let is_own = group.shadows[layer].original != 0 && (is_shown(group) || is_shown(&alone));
        step.shadows[layer] == 0 || is_own
    })
}

/// The shadow of a group if what has come are constants, and whether a dot value is out of range.
fn as_changed(group: &Group<Counted>, layer: usize) -> (u32, bool) {
    let Group { original, value, replaced, shadows, .. } = *group;
    let change = Change { original, value, replaced, dot: shadows[layer].original };
    change.shadow(shadows[layer].moved, parts(group, layer).into_iter().flatten())
}

/// Gives the group its shadow, and counts a loss or takes it back.
fn show(thread: &mut Thread<'_>, group: &mut Group<Counted>) {
    let suspended = thread.fields().disabled != 0;
    let mut lost = false;
    for layer in layers() {
        let is_changed = !suspended && group.copied == 0;
        let (shown, out_of_range) =
            if is_changed { as_changed(group, layer) } else { (group.shadows[layer].moved, false) };
        lost |= out_of_range;
        group.show(layer, shown);
    }
    match (lost, group.known) {
        (true, None) => {
            let address = thread.context().rip;
            lost_at(address);
            group.known = Some(address);
        }
        (false, Some(address)) => {
            not_lost_at(address);
            group.known = None;
        }
        _ => {}
    }
}

/// Whether it is the upper half of an 80-bit number's significand: behind it are sign and exponent of a dot value, and nothing.
fn is_significand(group: &Group<Counted>, layer: usize) -> bool {
    let [next, last] = [4, 8].map(|distance| shadow_of(layer, group.address + distance));
    let next = group.behind.map_or(next, |behind| behind[layer]);
    Part::WORD.is_dot(u64::from(next) | u64::from(last) << 32)
}

/// What the group can be a part of.
fn parts(group: &Group<Counted>, layer: usize) -> [Option<Upper>; 2] {
    let lower = Some(Upper::lower(shadow_of(layer, group.address + 4)));
    match group.address % 16 {
        4 if is_significand(group, layer) => [None; 2],
        4 | 12 => [Some(Upper::WIDE), None],
        8 if has_significand(layer, group.address) => [lower, Some(Upper::EXTENDED)],
        _ => [lower, None],
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
