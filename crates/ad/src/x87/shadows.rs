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

/// The program's x87 registers and control word, as `fxsave` stores them (Intel SDM volume 1, table 10-2).
#[repr(align(16))]
pub struct State([u8; 512]);

const CONTROL: usize = 0;
const STATUS: usize = 2;
const REGISTERS: usize = 32;

impl State {
    /// That of the program; no [`Session`](super::Session) may have touched the unit.
    pub fn of(context: &Context) -> State {
        let mut state = State([0; 512]);
        if context.complete_image != 0 {
            state.0.copy_from_slice(&context.vector_state[..512]);
        } else {
            // SAFETY: stores 512 bytes to an aligned buffer of that size; the x87 registers are the application's, since engine code uses none.
            unsafe { asm!("fxsave64 [{}]", in(reg) &raw mut state.0, options(nostack, preserves_flags)) };
        }
        state
    }

    /// The value of ST(`number`), whose shadow is in slot `number`. What an empty register holds has no meaning.
    pub fn value(&self, number: usize) -> Extended {
        let bytes = &self.0[REGISTERS + 16 * (number % 8)..][..Extended::BYTES];
        Extended::from_bytes(bytes.try_into().expect("ten bytes"))
    }

    /// The control word.
    pub fn control(&self) -> u16 {
        self.word(CONTROL)
    }

    /// Number of the physical register that is ST(0).
    pub fn top(&self) -> usize {
        usize::from(self.word(STATUS) >> 11 & 7)
    }

    /// The low eight bytes of physical register `number`, which is an MMX register.
    pub fn mmx(&self, number: usize) -> u64 {
        self.value(number + 8 - self.top()).significand
    }

    fn word(&self, offset: usize) -> u16 {
        u16::from_le_bytes([self.0[offset], self.0[offset + 1]])
    }
}

/// The shadow of ST(`number`) in one layer.
pub(crate) fn shadow_of(thread: &Thread<'_>, layer: usize, number: usize) -> Shadow {
    thread.shadow_file(layer, x87(number as u16), Extended::BYTES).try_into().expect("ten bytes")
}

/// Sets the shadow of ST(`number`) in one layer, as of a result that a function returns: ST(0), and ST(1) for the imaginary part.
pub(crate) fn set_shadow(thread: &mut Thread<'_>, layer: usize, number: usize, shadow: Shadow) {
    thread.shadow_file_mut(layer, x87(number as u16), Extended::BYTES).copy_from_slice(&shadow);
}
