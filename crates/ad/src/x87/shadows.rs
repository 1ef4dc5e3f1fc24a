//! Shadow of x87 registers and of `long double` variables, for helpers: reading and setting it.

use std::arch::asm;

use derivgrind_engine::context::Context;
use derivgrind_engine::memory::user;

use super::Extended;
use crate::instrument::{Thread, shadow_address};
use crate::shadow::x87;

/// The shadow of a number of 80 bits.
pub type Shadow = [u8; Extended::BYTES];

/// What a mode stores in the shadow of a `long double` in memory, given that of the register that it is stored from, and the reverse.
///
/// Both see the number's value. So a mode can notice that a program has changed sign or exponent in memory, which are in other bytes than the
/// shadow that counts.
pub trait ExtendedShadow {
    /// The shadow of a register that `value` is loaded to from memory that has this shadow.
    fn loaded(context: &mut Context, value: Extended, shadow: Shadow) -> Shadow;

    /// The shadow of memory that `value` is stored to from a register that has this shadow.
    fn stored(context: &mut Context, value: Extended, shadow: Shadow) -> Shadow;
}

/// Value and shadow, in one layer, of the `long double` at an application address, such as an argument on the stack (on entry of a function the first
/// one is at RSP + 8, each takes 16 bytes). The shadow is that of a register to which it would be loaded; all zero is passive.
pub(crate) fn argument<S: ExtendedShadow>(thread: &mut Thread<'_>, layer: usize, address: u64) -> (Extended, Shadow) {
    let value = user::read(address).map_or(Extended::NAN, Extended::from_bytes);
    let mut shadow = Shadow::default();
    shadow_address::read_layer(layer, address, &mut shadow);
    if shadow == Shadow::default() {
        return (value, shadow);
    }
    (value, S::loaded(thread.context_mut(), value, shadow))
}

/// Gives the `long double` at an application address, which has its value already, a shadow in one layer: that of a register from which it would be
/// stored.
pub(crate) fn set_result<S: ExtendedShadow>(thread: &mut Thread<'_>, layer: usize, address: u64, shadow: Shadow) {
    let Ok(value) = user::read(address).map(Extended::from_bytes) else { return };
    let shadow = S::stored(thread.context_mut(), value, shadow);
    shadow_address::write_layer(layer, address, &shadow);
}

/// The values of ST(0) to ST(7), whose shadow is in slots 0 to 7. What empty registers hold has no meaning.
pub fn values(context: &Context) -> [Extended; 8] {
    let image = image(context);
    std::array::from_fn(|number| {
        let bytes = &image[REGISTERS + 16 * number..][..Extended::BYTES];
        Extended::from_bytes(bytes.try_into().expect("ten bytes"))
    })
}

/// The low eight bytes of physical register `number`, which is an MMX register.
pub fn mmx_value(context: &Context, number: usize) -> u64 {
    values(context)[(number + 8 - top(context)) % 8].significand
}

/// Number of the physical register that is ST(0).
pub fn top(context: &Context) -> usize {
    let image = image(context);
    usize::from(u16::from_le_bytes([image[STATUS], image[STATUS + 1]]) >> 11 & 7)
}

/// Offsets of the status word and of the registers in an FXSAVE image (Intel SDM volume 1, table 10-2).
const STATUS: usize = 2;
const REGISTERS: usize = 32;

fn image(context: &Context) -> [u8; 160] {
    #[repr(align(16))]
    struct Image([u8; 512]);
    let mut part = [0; 160];
    if context.complete_image != 0 {
        part.copy_from_slice(&context.vector_state[..160]);
        return part;
    }
    let mut image = Image([0; 512]);
    // SAFETY: stores 512 bytes to an aligned buffer of that size; the x87 registers are the application's, since engine code uses none.
    unsafe { asm!("fxsave64 [{}]", in(reg) &raw mut image.0, options(nostack, preserves_flags)) };
    part.copy_from_slice(&image.0[..160]);
    part
}

/// The shadow of ST(`number`) in one layer.
pub(crate) fn shadow_of(thread: &Thread<'_>, layer: usize, number: usize) -> Shadow {
    thread.shadow_file(layer, x87(number as u16), Extended::BYTES).try_into().expect("ten bytes")
}

/// Sets the shadow of ST(`number`) in one layer, as of a result that a function returns: ST(0), and ST(1) for the imaginary part.
pub(crate) fn set_shadow(thread: &mut Thread<'_>, layer: usize, number: usize, shadow: Shadow) {
    thread.shadow_file_mut(layer, x87(number as u16), Extended::BYTES).copy_from_slice(&shadow);
}
