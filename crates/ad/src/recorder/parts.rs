//! Numbers of which a part becomes a constant: see [`crate::instrument`]'s parts.
//!
//! An index of which one byte has become zero can be another one's. So the number's shadow gets a mark that an index does not have: who uses the number finds
//! that there is none, and the user is told. If the part was in a place that only held a number once, nobody does.

use derivgrind_engine::context::Context;
use derivgrind_engine::memory::user;
use derivgrind_engine::translate::HelperNext;

use super::Recording;
use super::descending::{self, Mark};
use super::rescaled::{self, Number};
use crate::bit_tricks::{Lane, index_and_factor};
use crate::instrument::undone::{is_changed_piece, origin_of_piece, piece_is_back};
use crate::instrument::{
    Mode, Site, Stored, Thread, memory_address, operand_address, read_shadow, read_value, shadow_address, site,
    write_shadow,
};
use crate::ir::{BitOperation, Place, Span};
use crate::shadow::{NARROW_TAG, WIDE_TAG, narrow_index};

/// Above the index of a binary64 number: zero, but for a `long double` in memory, of whose exponent these are the upper bits.
const ABOVE_WIDE: u64 = 0x7 << 59;
/// What is there if it is no number any more.
const WIDE_SPOILED: u64 = 1 << 59;
/// In place of the tag in the shadow of a binary32 number that is none any more.
const NARROW_SPOILED: u64 = NARROW_TAG >> 1;

/// `payload` is the site with the span that is going to be passive, and is made so here.
pub(super) fn spoil(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `instrument::parts` pairs this helper with its site.
    let Site { what: part, instruction } = unsafe { site::<Span>(payload) };
    let operand = operand_address(instruction, context).unwrap_or(0);
    let mut thread = Thread::new(context);
    match part.place {
        Place::Register(offset) => {
            let register = Span::new(Place::Register(offset / 8 * 8), 8);
            let word = read_shadow(&thread, 0, register, 0)[0];
            if let Found::Spoiled(spoiled) = spoiled(word, u32::from(offset % 8), part.bytes) {
                write_shadow(&mut thread, 0, register, 0, &[spoiled]);
            }
        }
        Place::Memory { base, offset } => {
            let address = memory_address(thread.context(), base, operand).wrapping_add_signed(offset.into());
            spoil_in_memory(&mut thread, address, part.bytes);
        }
    }
    write_shadow(&mut thread, 0, *part, operand, &[0]);
    HelperNext::Resume
}

/// One or two bytes of memory become constants.
pub(super) fn replace_by_constant(thread: &mut Thread<'_>, address: u64, bytes: u16) {
    spoil_in_memory(thread, address, bytes);
    shadow_address::write(address, &[0; 2][..usize::from(bytes)]);
}

fn spoil_in_memory(thread: &mut Thread<'_>, address: u64, bytes: u16) {
    descending::stored(thread, address);
    // Numbers mostly lie at multiples of their size.
    let starts = std::iter::once(address % 8).chain((0..8).filter(|&before| before != address % 8));
    for before in starts {
        let start = address.wrapping_sub(before);
        let mut shadow = [0; 8];
        shadow_address::read(start, &mut shadow);
        let word = u64::from_le_bytes(shadow);
        if before != address % 8 && index_and_factor(word).is_none_or(|(index, _)| index == 0) {
            continue;
        }
        match spoiled(word, before as u32, bytes) {
            Found::Nothing => {}
            Found::Broken => break,
            Found::Spoiled(spoiled) => {
                // No other one: that may be another thread's.
                let changed = (word ^ spoiled).trailing_zeros() / 8;
                let byte = |word: u64| word.to_le_bytes()[changed as usize];
                let first = if word & WIDE_TAG == WIDE_TAG { 0 } else { changed / 4 * 4 };
                let at = |byte: u32| start.wrapping_add(byte.into());
                let mark = Mark { number: at(first), changed: at(changed), before: byte(word), now: byte(spoiled) };
                shadow_address::write(mark.changed, &[mark.now]);
                descending::remember(thread, mark, address);
                break;
            }
        }
    }
}

/// The shadow of a number, of eight or four bytes, without these bits: of no number.
pub(super) fn spoiled_without(shadow: u64, hole: u64) -> u64 {
    let rest = shadow & !hole;
    if shadow >> 32 != 0 {
        rest | WIDE_SPOILED
    } else if shadow & WIDE_TAG >> 32 & !NARROW_TAG != 0 {
        rest | WIDE_SPOILED >> 32
    } else {
        rest & !NARROW_TAG | NARROW_SPOILED
    }
}

/// Eight bytes of shadow without one of them.
pub(super) fn without_byte(word: u64, byte: u32) -> u64 {
    without(word, byte, 1)
}

/// Eight bytes of shadow without `count` of them, which are the shadow of no number then.
fn without(word: u64, byte: u32, count: u16) -> u64 {
    let left = match spoiled(word, byte, count) {
        Found::Spoiled(marked) => marked,
        Found::Nothing | Found::Broken => word,
    };
    left & !(((1 << (8 * count)) - 1) << (8 * byte))
}

/// `payload` is the site with the [`Stored`] part, which is about to be stored.
pub(super) fn put_back(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `instrument::parts` pairs this helper with its site.
    let Site { what: Stored { target, source }, instruction } = unsafe { site::<Stored>(payload) };
    let operand = operand_address(instruction, context).unwrap_or(0);
    let mut thread = Thread::new(context);
    let from = Span::new(*source, target.bytes);
    let (value, shadow) = (read_value(&thread, from, operand)[0], read_shadow(&thread, 0, from, operand)[0]);
    let Place::Memory { base, offset } = target.place else {
        write_shadow(&mut thread, 0, *target, operand, &[shadow]);
        return HelperNext::Resume;
    };
    let address = memory_address(thread.context(), base, operand).wrapping_add_signed(offset.into());
    let piece = Piece { address, bytes: target.bytes, value, shadow };
    let before = user::read::<u64>(address & !7).unwrap_or(0);
    if !scale(&mut thread, &piece, before) {
        copy(&mut thread, &piece, before);
    }
    HelperNext::Resume
}

/// One or two active bytes that are stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub address: u64,
    pub bytes: u16,
    /// What comes.
    pub value: u64,
    pub shadow: u64,
}

/// A piece of a number comes, which can complete a copy of it; `before` is what was in the aligned eight bytes that its first one is among.
pub(super) fn copy(thread: &mut Thread<'_>, piece: &Piece, before: u64) {
    descending::stored(thread, piece.address);
    shadow_address::write(piece.address, &piece.shadow.to_le_bytes()[..usize::from(piece.bytes)]);
    complete(piece, before);
}

/// Aligned eight bytes of memory.
struct Around {
    start: u64,
    /// Where a piece of them begins, in bits.
    shift: u32,
    /// Ones in the bits of the piece.
    part: u64,
    /// The value with the piece.
    value: u64,
    shadow: u64,
}

impl Around {
    /// Those of which `piece` is a part, if it is, and `before` the value before.
    fn of(piece: &Piece, before: u64) -> Option<Around> {
        let (start, within) = (piece.address & !7, piece.address % 8);
        if within + u64::from(piece.bytes) > 8 {
            return None;
        }
        let mut shadow = [0; 8];
        shadow_address::read(start, &mut shadow);
        let shift = 8 * within as u32;
        let part = ((1u64 << (8 * piece.bytes)) - 1) << shift;
        let value = before & !part | piece.value << shift & part;
        Some(Around { start, shift, part, value, shadow: u64::from_le_bytes(shadow) })
    }
}

/// If the piece completes a number that has been put together from bytes of several ones, it gets the shadow of that.
fn complete(piece: &Piece, before: u64) {
    let Some(around) = Around::of(piece, before) else { return };
    let settled = rescaled::settled(Number { value: around.value, shadow: around.shadow }, around.part);
    if settled != around.shadow {
        shadow_address::write(around.start, &settled.to_le_bytes());
    }
}

/// If what comes is a changed piece of the number at its place, and the number becomes ±2^k times what it is, the number gets an index of its own; if it becomes anything else, it is
/// none any more. `false` if it is no such piece: the number has another shadow there, or another value than has been changed.
pub(super) fn scale(thread: &mut Thread<'_>, piece: &Piece, before: u64) -> bool {
    let Some(around) = Around::of(piece, before) else { return false };
    let from = before >> around.shift;
    let is_same = (around.shadow & around.part) >> around.shift == piece.shadow;
    if !is_same || !is_changed_piece(thread, from, piece.value, piece.shadow, piece.bytes) {
        return false;
    }
    let lane = Lane { a: before, b: 0, result: around.value, shadow_a: around.shadow, shadow_b: 0 };
    let new = match Recording::trick(thread, 0, &lane, BitOperation::Other) {
        (scaled, 0) => {
            piece_is_back(from, piece.value, piece.shadow, piece.bytes);
            scaled
        }
        // It is none any more: as if the piece had become a constant.
        _ => without(around.shadow, around.shift / 8, piece.bytes),
    };
    shadow_address::write(around.start, &new.to_le_bytes());
    true
}

/// The shadow of a number in a general register that is put together from its upper one or two bytes, which have been changed, and the rest of it; with ones where it is lost. It would be
/// that of the number before.
pub(super) fn merged(thread: &mut Thread<'_>, lane: &Lane) -> Option<(u64, u64)> {
    const PIECES: [(u32, u16); 4] = [(48, 2), (56, 1), (16, 2), (24, 1)];
    let operands = [(lane.a, lane.shadow_a, lane.b, lane.shadow_b), (lane.b, lane.shadow_b, lane.a, lane.shadow_a)];
    let places = operands.into_iter().flat_map(|operands| PIECES.map(|piece| (operands, piece)));
    places.into_iter().find_map(|((rest, rest_shadow, bits, shadow), (shift, bytes))| {
        let part = ((1u64 << (8 * bytes)) - 1) << shift;
        let is_beside = (rest | rest_shadow) & part == 0 && (bits | shadow) & !part == 0;
        if shadow == 0 || !is_beside || lane.result != rest | bits {
            return None;
        }
        let [to, piece] = [bits >> shift, shadow >> shift];
        let origin = origin_of_piece(to, piece, bytes)?;
        let before = rest | origin << shift & part;
        if before == lane.result {
            return None;
        }
        let whole = Lane { a: before, b: 0, result: lane.result, shadow_a: rest_shadow | shadow, shadow_b: 0 };
        match Recording::trick(thread, 0, &whole, BitOperation::Other) {
            (scaled, 0) if scaled != 0 => {
                piece_is_back(origin, to, piece, bytes);
                Some((scaled, 0))
            }
            _ => Some((0, u64::MAX)),
        }
    })
}

/// What is at a part of eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// No number.
    Nothing,
    /// A number that will look like none without the part, or does not look like one now.
    Broken,
    /// One that would look like another number: the shadow of the eight bytes in which it does not.
    Spoiled(u64),
}

/// Looks for a binary64 number, or a binary32 one in one of the halves, of which the bytes from `byte` on, `count` of them, become zero. Only the number's highest byte is
/// changed: if a number is copied byte by byte, that one comes last.
fn spoiled(word: u64, byte: u32, count: u16) -> Found {
    let part = (1 << (8 * count)) - 1;
    let left = word & !(part << (8 * byte));
    if word & WIDE_TAG == WIDE_TAG {
        return match word & ABOVE_WIDE {
            0 if index_and_factor(left).is_some_and(|(index, _)| index != 0) => Found::Spoiled(word | WIDE_SPOILED),
            0 | WIDE_SPOILED => Found::Broken,
            // An exponent so far from the number's own that no factor fits.
            _ => Found::Spoiled(word & !ABOVE_WIDE),
        };
    }
    let shift = byte / 4 * 32;
    let [before, half] = [word, left].map(|word| word >> shift & u64::from(u32::MAX));
    let is_index = |half: u64| half != 0 && narrow_index(half).is_some();
    match (is_index(before), is_index(half)) {
        (false, _) => Found::Nothing,
        (true, false) => Found::Broken,
        (true, true) => Found::Spoiled(word ^ (before ^ (before & !NARROW_TAG | NARROW_SPOILED)) << shift),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shadow::{of_narrow, of_wide};

    fn after(word: u64, byte: u32) -> u64 {
        match spoiled(word, byte, 1) {
            Found::Spoiled(word) => word,
            other => panic!("{word:#x}: {other:?}"),
        }
    }

    #[test]
    fn what_is_spoiled_is_no_number_and_stays_so() {
        for index in [0x1234, 0x12_3456_789a] {
            for factor in [0, 1 << 62, 3 << 48] {
                let word = of_wide(index) | factor;
                let first = after(word, 0);
                assert_eq!((index_and_factor(first), first << 8), (None, word << 8));
                assert_eq!((spoiled(first, 1, 1), spoiled(word, 7, 1)), (Found::Broken, Found::Broken));
            }
        }
        for index in [0x1234, (1 << 30) - 1, 1 << 29 | 7 << 8] {
            let pair = of_narrow(index) | of_narrow(0x1009) << 32;
            let first = after(pair, 0);
            assert_eq!((narrow_index(first & 0xffff_ffff), first >> 32), (None, of_narrow(0x1009)), "{index:#x}");
            assert_ne!(first & 0xffff_ffff, 0);
            let second = after(pair, 5);
            assert_eq!((second & 0xffff_ffff, narrow_index(second >> 32)), (of_narrow(index), None));
        }
        assert_eq!([0, 0x1234].map(|word| spoiled(word, 0, 1)), [Found::Nothing; 2]);
    }

    #[test]
    fn bytes_that_are_put_in_one_after_the_other_make_another_number() {
        let (old, new) = (of_wide(0x12_3456_789a), of_wide(0x1234));
        let mut word = old & !0xff | new & 0xff;
        for byte in 1..8 {
            assert!(index_and_factor(word).is_none_or(|(index, _)| index != 0x1234));
            word = without_byte(word, byte) | new & 0xff << (8 * byte);
        }
        assert_eq!(word, new);
        assert_eq!(index_and_factor(without_byte(old, 2)), None);
        assert_eq!(narrow_index(without_byte(of_narrow(0x12_3456), 1)), None);
    }

    #[test]
    fn a_long_double_in_memory_gets_another_exponent() {
        for field in [0x4000u64, 0x3ffe, 0xc001] {
            let spoiled_once = after(of_wide(0x1234) | field << 47, 1);
            let exponent = spoiled_once >> 47 & 0x7fff;
            assert!(exponent.abs_diff(field & 0x7fff) > 2100, "{field:#x}");
        }
    }

    #[test]
    fn what_would_be_no_number_anyway_is_left_alone() {
        let wide = of_wide(0x12_3456);
        assert_eq!(
            [(0, 2), (4, 2), (6, 2), (7, 1)].map(|(byte, count)| spoiled(wide, byte, count)),
            [Found::Broken; 4]
        );
        let narrow = of_narrow(0x12_3456);
        assert_eq!([(0, 2), (2, 2), (3, 1)].map(|(byte, count)| spoiled(narrow, byte, count)), [Found::Broken; 3]);
    }
}
