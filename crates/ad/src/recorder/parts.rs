//! Numbers of which a part becomes a constant: see [`crate::instrument`]'s parts.
//!
//! An index of which one byte has become zero can be another one's. So the number's shadow gets a mark that an index does not have: who uses the number finds
//! that there is none, and the user is told. If the part was in a place that only held a number once, nobody does.

use derivgrind_engine::context::Context;
use derivgrind_engine::translate::HelperNext;

use crate::instrument::{
    Site, Thread, memory_address, operand_address, read_shadow, shadow_address, site, write_shadow,
};
use crate::ir::{Place, Span};
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
            if let Some(spoiled) = spoiled(word, u32::from(offset % 8)) {
                write_shadow(&mut thread, 0, register, 0, &[spoiled]);
            }
        }
        Place::Memory { base, offset } => {
            let address = memory_address(thread.context(), base, operand);
            let address = address.wrapping_add_signed(offset.into());
            // Numbers mostly lie at multiples of their size.
            let starts = std::iter::once(address % 8).chain((0..8).filter(|&before| before != address % 8));
            for before in starts {
                let start = address.wrapping_sub(before);
                let mut bytes = [0; 8];
                shadow_address::read(start, &mut bytes);
                if let Some(spoiled) = spoiled(u64::from_le_bytes(bytes), before as u32) {
                    shadow_address::write(start, &spoiled.to_le_bytes());
                    break;
                }
            }
        }
    }
    write_shadow(&mut thread, 0, *part, operand, &[0]);
    HelperNext::Resume
}

/// The shadow of eight bytes with the number spoiled that has a part at this byte: a binary64 number, or a binary32 one in one of the halves. Only its highest byte
/// changes: if a number is copied byte by byte, that one comes last.
fn spoiled(word: u64, byte: u32) -> Option<u64> {
    if word & WIDE_TAG == WIDE_TAG {
        return Some(match word & ABOVE_WIDE {
            0 => word | WIDE_SPOILED,
            WIDE_SPOILED => word,
            // An exponent so far from the number's own that no factor fits.
            _ => word & !ABOVE_WIDE,
        });
    }
    let shift = byte / 4 * 32;
    let half = word >> shift & u64::from(u32::MAX);
    let is_number = half != 0 && narrow_index(half).is_some();
    let spoiled = half & !NARROW_TAG | NARROW_SPOILED;
    is_number.then_some(word ^ (half ^ spoiled) << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bit_tricks::index_and_factor;
    use crate::shadow::{of_narrow, of_wide};

    #[test]
    fn what_is_spoiled_is_no_number_and_stays_so() {
        for index in [5, 0x1234, 0x12_3456_789a] {
            for factor in [0, 1 << 62, 3 << 48] {
                let word = of_wide(index) | factor;
                let spoiled_once = spoiled(word, 0).unwrap();
                assert_eq!(index_and_factor(spoiled_once), None);
                assert_eq!(spoiled(spoiled_once, 3), Some(spoiled_once));
                assert_eq!(word << 8, spoiled_once << 8);
            }
        }
        for index in [5, 0x1234, (1 << 30) - 1, 1 << 29 | 7] {
            let pair = of_narrow(index) | of_narrow(9) << 32;
            let first = spoiled(pair, 1).unwrap();
            assert_eq!((narrow_index(first & 0xffff_ffff), first >> 32), (None, of_narrow(9)), "{index:#x}");
            assert_ne!(first & 0xffff_ffff, 0);
            let second = spoiled(pair, 6).unwrap();
            assert_eq!((second & 0xffff_ffff, narrow_index(second >> 32)), (of_narrow(index), None));
        }
        assert_eq!((spoiled(0, 0), spoiled(0x1234, 0)), (None, None));
    }
}
