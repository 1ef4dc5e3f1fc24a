//! x87 in forward mode: dot values are 80-bit numbers beside 80-bit numbers.

use derivgrind_engine::context::Context;
use derivgrind_engine::translate::Emitter;

use crate::instrument::{
    Shadow as Shadows, Thread, X87Call, X87Move, layers, load, lost_at, read_shadow, store, write_shadow,
};
use crate::ir::{X87Format, X87Operand};
use crate::rounding::sums;
use crate::x87::{Extended, ExtendedShadow, Session, Shadow};

use super::{DotValues, significands};

impl ExtendedShadow for DotValues {
    /// A dot value has the same form everywhere.
    fn loaded(_: &mut Context, _: Extended, shadow: Shadow) -> Shadow {
        shadow
    }

    fn stored(_: &mut Context, _: Extended, shadow: Shadow) -> Shadow {
        shadow
    }
}

/// Computes the dot values of an operation's result.
pub(super) fn compute(thread: &mut Thread<'_>, call: &X87Call) {
    let suspended = thread.fields().disabled != 0;
    let partials = call.partials(thread);
    let target = X87Operand { place: call.target, format: X87Format::Extended };
    for layer in layers() {
        let operand =
            |operand: Option<X87Operand>| operand.map_or(Extended::ZERO, |a| dot(thread, layer, a, call.address));
        let dots = call.operands.map(operand);
        let rounding = call.rounding(thread, dots.map(Extended::is_zero));
        let dot = if suspended || rounding.is_some_and(|(sum, undoes)| undoes && sums::contains(dots[sum].significand))
        {
            Extended::ZERO
        } else {
            if let Some((sum, _)) = rounding {
                sums::remember(dots[sum].significand);
            }
            let [first, second] = [0, 1].map(|k| term(&call.session, dots[k], partials[k]));
            call.session.add(first, second)
        };
        set_dot(thread, layer, target, call.address, dot);
    }
}

/// A dot value of zero contributes zero, whatever the partial derivative is.
fn term(session: &Session, dot: Extended, partial: Extended) -> Extended {
    if dot.is_zero() { Extended::ZERO } else { session.multiply(dot, partial) }
}

/// A load or store in another format.
pub(super) fn convert(thread: &mut Thread<'_>, X87Move { target, source }: X87Move, address: u64) {
    for layer in layers() {
        let dot = dot(thread, layer, source, address);
        set_dot(thread, layer, target, address, dot);
    }
}

/// Emits a load or store in the same format.
pub(super) fn emit_copy(emitter: &mut Emitter<'_>, index: usize, X87Move { target, source }: X87Move) -> bool {
    if source.format != target.format {
        return false;
    }
    significands::emit(emitter, index);
    let register = emitter.scratch(0);
    let from = Shadows::of(emitter, index, source.place);
    let to = Shadows::of(emitter, index, target.place);
    for layer in layers() {
        for (offset, bytes) in [(0, 8), (8, 2)] {
            load(emitter, register, from.advanced(offset).in_layer(emitter, layer), bytes);
            store(emitter, to.advanced(offset).in_layer(emitter, layer), register, bytes);
        }
    }
    true
}

/// The dot value of an operand, widened.
fn dot(thread: &Thread<'_>, layer: usize, operand: X87Operand, address: u64) -> Extended {
    let Some(span) = operand.real() else { return Extended::ZERO };
    let [low, high, ..] = read_shadow(thread, layer, span, address);
    match operand.format {
        X87Format::Binary32 => Extended::from_f32(f32::from_bits(low as u32)),
        X87Format::Binary64 => Extended::from_f64(f64::from_bits(low)),
        _ => whole(Extended { significand: low, high: high as u16 }).unwrap_or_else(|| {
            lost_at(thread.context().rip);
            Extended::ZERO
        }),
    }
}

/// The dot value in the shadow of an 80-bit number; none if it is incomplete. The program may have computed with the bytes in memory that hold the number's sign and exponent, or may
/// have moved the others without them; then there is nothing in theirs, and the number counts as a constant. A dot value that really is so small is taken for one of these.
pub(super) fn whole(dot: Extended) -> Option<Extended> {
    match (dot.significand, dot.high & 0x7fff) {
        (0, 0) => Some(Extended::ZERO),
        (_, 0) => None,
        _ => Some(dot),
    }
}

/// Gives a register or memory a dot value, rounded to its format. Zero is passive, whatever its sign is.
fn set_dot(thread: &mut Thread<'_>, layer: usize, target: X87Operand, address: u64, dot: Extended) {
    let words = match target.format {
        X87Format::Binary32 => [u64::from((dot.to_f32() + 0.0).to_bits()), 0],
        X87Format::Binary64 => [(dot.to_f64() + 0.0).to_bits(), 0],
        _ if dot.is_zero() => [0, 0],
        _ => [dot.significand, dot.high.into()],
    };
    write_shadow(thread, layer, target.span(), address, &[words[0], words[1], 0, 0]);
}
