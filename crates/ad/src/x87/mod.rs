//! x87: numbers of 80 bits, arithmetic with them, and what their shadow is.
//!
//! The shadow register file has the x87 registers' shadow by their distance from the top of the stack: slot k is ST(k). So a push or pop moves all
//! of it by one slot ([`Effect::Rotate`](crate::ir::Effect::Rotate)). MMX register k is ST(k), too: MMX instructions set TOP to 0.
//!
//! The shadow of an x87 *register* is what a mode makes of it: an index in the first eight bytes, or a dot value in ten. The shadow of a
//! `long double` in *memory* can differ from it ([`ExtendedShadow`]).

mod extended;
mod rules;
mod session;
mod shadows;
mod software;

pub use extended::Extended;
pub use rules::{Operation, cancels, in_range, is_rounding_constant, ratio};
pub use session::Session;
pub use shadows::{ExtendedShadow, Shadow, State};
pub(crate) use shadows::{argument, set_result, set_shadow, shadow_of};
