//! Bitwise and integer operations on one and two bytes: real numbers have more, but programs change signs and exponents in them, of numbers in memory
//! and of those whose upper bytes are in a general register (`xor byte ptr [rdi+7], 80h`, `and ah, 7fh`).

use iced_x86::Register;

use super::bits::{has_lock, trick};
use super::{Lifter, fallback};
use crate::bit_tricks::widened;
use crate::ir::{BitOperand, BitOperation, Place, Span};
use crate::shadow;

/// A bit trick whose destination has less than four bytes.
///
/// In memory it belongs to the aligned eight bytes around it, which are looked at when it is executed. Of a register, the low two bytes are looked at.
pub(super) fn lift(lifter: &mut Lifter<'_>, operation: BitOperation, target: Span, sources: &[BitOperand]) {
    let is_known = match sources {
        [BitOperand::Span(first)] => *first == target,
        [BitOperand::Span(first), BitOperand::Immediate(_) | BitOperand::Count { .. }] => *first == target,
        // A single byte of another number says nothing.
        [BitOperand::Span(first), BitOperand::Span(_)] => *first == target && target.bytes == 2,
        _ => false,
    };
    if !is_known || has_lock(lifter) {
        return fallback::general_rule(lifter, true);
    }
    match (target.place, sources) {
        (Place::Register(_), [_, BitOperand::Immediate(value)]) if target.bytes == 1 => {
            let Some((word, high)) = low_word(lifter.instruction.op0_register()) else {
                return fallback::general_rule(lifter, true);
            };
            let value = widened(operation, *value & 0xff, 0xff, if high { 8 } else { 0 }) & 0xffff;
            trick(lifter, operation, word, &[BitOperand::Span(word), BitOperand::Immediate(value)]);
        }
        (Place::Register(_), _) if target.bytes == 1 => fallback::general_rule(lifter, true),
        (Place::Register(_), _) => trick(lifter, operation, target, sources),
        (Place::Memory { .. }, _) => trick(lifter, operation, target, sources),
    }
}

/// The low two bytes of the register of which this is one byte, and whether it is their high one.
fn low_word(register: Register) -> Option<(Span, bool)> {
    let range = shadow::of_register(register)?;
    let high = range.offset % 8 == 1;
    Some((Span::new(Place::Register(range.offset - u16::from(high)), 2), high))
}
