//! Numbers in memory of which bytes are replaced, one or two at a time, when recording.
//!
//! A constant over a number's sign and exponent makes it ±2^k times what it was, and it gets the index of that, or a factor beside its own. What is such a constant, and what a byte of
//! another number, [`crate::instrument::groups`] says. Of all others, the shadow is that of the bytes, with the marks of [`super::parts`].

use std::cell::RefCell;

use derivgrind_engine::memory::user;

use super::parts::{self, Piece};
use super::{Recording, is_wide};
use crate::bit_tricks::Lane;
use crate::instrument::groups::{Group, Groups, Step, shadow_of};
use crate::instrument::undone::Remembered;
use crate::instrument::{Mode, Replaced, Thread, shadow_address};
use crate::ir::BitOperation;

/// Whether a group's shadow is that of a changed number, not that of the bytes.
type IsScaled = bool;

thread_local! {
    static GROUPS: RefCell<Remembered<Groups<IsScaled>>> = const { RefCell::new(Remembered::new(Groups::new())) };
}

/// Gives bytes that have been replaced, and the number that they are a part of, their shadow.
pub(super) fn replace(thread: &mut Thread<'_>, replaced: &Replaced) {
    GROUPS.with_borrow_mut(|remembered| {
        let groups = remembered.current();
        let mut steps = replaced.steps();
        let taken = [steps.next(), steps.next()].map(|step| step.and_then(|step| take(groups, &step)));
        if let [Some(Taken { group, is_there: true, .. }), None] = taken {
            return groups.remember(group);
        }
        let active = (replaced.shadows[0] != 0).then(|| piece(replaced));
        if active.is_some_and(|(piece, before)| parts::scale(thread, &piece, before)) {
            // It is another number now.
            return;
        }
        let alone = match taken {
            [Some(Taken { group, .. }), None] if !group.is_overwritten() => Some(group),
            _ => None,
        };
        if let Some(mut group) = alone
            && let Some(shadow) = scaled(thread, &group)
        {
            group.show(0, shadow);
            group.known = true;
            return groups.remember(group);
        }
        for Taken { mut group, before, .. } in taken.into_iter().flatten().filter(|taken| taken.group.known) {
            group.show(0, before);
        }
        match active {
            Some((piece, before)) => parts::copy(thread, &piece, before),
            // Zeros over zeros are bytes of copies mostly, but not if they change the number.
            None if alone.is_none() && shadow_of_bytes(replaced) == 0 => {}
            None => parts::replace_by_constant(thread, replaced.address, replaced.bytes),
        }
        for Taken { mut group, .. } in taken.into_iter().flatten() {
            group.shadows[0].shown = shadow_of(0, group.address);
            group.known = false;
            groups.remember(group);
        }
    });
}

/// A group that bytes have come into.
#[derive(Clone, Copy)]
struct Taken {
    /// With these bytes; or as it was, if they were there already.
    group: Group<IsScaled>,
    is_there: bool,
    /// Its shadow if all that had come before went with their bytes.
    before: u32,
}

fn take(groups: &mut Groups<IsScaled>, step: &Step) -> Option<Taken> {
    let mut group = groups.take(step);
    let before = group.shadows[0].moved;
    let value = user::read::<u32>(step.address).ok()?;
    let is_there = group.keep(step, value);
    if !is_there {
        group.put(step, value);
    }
    Some(Taken { group, is_there, before })
}

/// The shadow of a group of which constants have replaced sign and exponent, if it is that of a number.
fn scaled(thread: &mut Thread<'_>, group: &Group<IsScaled>) -> Option<u32> {
    let shadow = group.shadows[0].original;
    let is_lower_half = group.address.is_multiple_of(8)
        && is_wide(u64::from(shadow) | u64::from(shadow_of(0, group.address + 4)) << 32);
    if shadow == 0 || is_lower_half {
        return None;
    }
    let lane =
        Lane { a: group.original.into(), b: 0, result: group.value.into(), shadow_a: shadow.into(), shadow_b: 0 };
    match Recording::trick(thread, 0, &lane, BitOperation::Other) {
        (0, _) => None,
        (scaled, 0) => Some(scaled as u32),
        _ => None,
    }
}

fn shadow_of_bytes(replaced: &Replaced) -> u16 {
    let mut shadow = [0; 2];
    shadow_address::read(replaced.address, &mut shadow[..usize::from(replaced.bytes)]);
    u16::from_le_bytes(shadow)
}

/// Active bytes that have come, and what was in the aligned eight bytes before that the first one is among.
fn piece(replaced: &Replaced) -> (Piece, u64) {
    let &Replaced { address, bytes, before, shadows: [shadow, ..] } = replaced;
    let mut value = [0; 8];
    for (byte, address) in value.iter_mut().zip(address..address.saturating_add(bytes.into())) {
        *byte = user::read(address).unwrap_or(0);
    }
    let piece = Piece { address, bytes, value: u64::from_le_bytes(value), shadow: shadow.into() };
    let [first, second] = before.map(u64::from);
    // Nothing has come into the lower half if it is not among the groups.
    let before = match address % 8 {
        0..4 => first | second << 32,
        _ => u64::from(user::read::<u32>(address & !7).unwrap_or(0)) | first << 32,
    };
    (piece, before)
}
