//! Numbers in general registers of which bytes are replaced, when recording: see [`crate::bit_tricks::holes`].
//!
//! What is put in can be a constant, or what has been taken out of the number itself and changed: then it has the shadow that has been taken out, or none if that is zero or counts as lost.
//! If the number becomes ±2^k times what it was, it gets the index of that. Of all others, the shadow is that of the bytes.

use std::cell::RefCell;

use super::{by_bytes, parts};
use crate::bit_tricks::Lane;
use crate::bit_tricks::holes::{Filler, Number, Numbers};
use crate::instrument::Thread;
use crate::instrument::undone::{Remembered, piece_is_back};
use crate::ir::BitOperation;

thread_local! {
    static NUMBERS: RefCell<Remembered<Numbers>> = const { RefCell::new(Remembered::new(Numbers::new())) };
}

/// The shadow of the result if bytes are taken out of a number or put in, with ones where it is lost.
pub(super) fn shadow(thread: &mut Thread<'_>, lane: &Lane, operation: BitOperation) -> Option<(u64, u64)> {
    NUMBERS.with_borrow_mut(|remembered| {
        let numbers = remembered.current();
        if let Some((number, hole)) = numbers.taken(0, lane, operation) {
            let shadow = match by_bytes(thread, &with_moved(lane, &number), operation) {
                // It is seen to be no number, and that is told if it is used.
                (0, _) => parts::spoiled_without(number.shadow, hole),
                (moved, _) => moved,
            };
            numbers.remember(number.with_hole(hole, lane.result).with_shadow(shadow, shadow));
            return Some((shadow, 0));
        }
        let (number, filler) = numbers.filled(0, lane, operation)?;
        Some(put(thread, numbers, lane, operation, (number, filler)))
    })
}

fn put(
    thread: &mut Thread<'_>,
    numbers: &mut Numbers,
    lane: &Lane,
    operation: BitOperation,
    (mut number, filler): (Number, Filler),
) -> (u64, u64) {
    let moved = with_moved(lane, &number);
    let rest = filler.rest(|| number.is_like_before());
    if rest != 0 {
        let (shadow, _) = by_bytes(thread, &moved, operation);
        let shown = parts::spoiled_without(number.shadow, rest);
        numbers.remember(number.without(rest).with_shadow(if shadow == 0 { shown } else { shadow }, shown));
        return (shown, 0);
    }
    // It can have been taken out when another byte was missing already.
    let own = [number.shadow, parts::spoiled_without(number.shadow, 0)];
    let is_own = own.iter().any(|shadow| filler.shadow() == shadow & filler.hole);
    let is_changed = number.copied == 0 && (filler.shadow() == 0 || is_own) && number.is_replaced_above();
    if is_changed {
        let whole = Lane { a: number.original, b: 0, result: number.value, shadow_a: number.shadow, shadow_b: 0 };
        let (shown, lost) = match number.value == number.original {
            true => (number.shadow, 0),
            false => by_bytes(thread, &whole, BitOperation::Other),
        };
        if lost == 0 && shown != 0 {
            taken_back(&number, &filler);
            let (moved, _) = by_bytes(thread, &moved, operation);
            numbers.remember(number.with_shadow(moved, shown));
            return (shown, 0);
        }
        if is_own && filler.shadow() != 0 {
            // Its bytes would be those of the number before.
            return (0, lost);
        }
    }
    if filler.shadow() != 0 {
        number.copied |= filler.hole;
    }
    let (moved, lost) = by_bytes(thread, &moved, operation);
    numbers.remember(number.with_shadow(moved, moved));
    (moved, lost)
}

/// The lane as it is if each byte of the number has the shadow that came with it.
fn with_moved(lane: &Lane, number: &Number) -> Lane {
    match lane.shadow_a == number.shown {
        true => Lane { shadow_a: number.moved, ..*lane },
        false => Lane { shadow_b: number.moved, ..*lane },
    }
}

/// What has been done to the bits before they were put back is no loss.
fn taken_back(number: &Number, filler: &Filler) {
    let shift = filler.hole.trailing_zeros() / 8 * 8;
    let [from, to, shadow] = [number.original, filler.bits, filler.whole_shadow].map(|bits| bits >> shift);
    let bytes = if (filler.whole_shadow | filler.hole) >> shift > 0xff { 2 } else { 1 };
    piece_is_back(from, to, shadow, bytes);
}
