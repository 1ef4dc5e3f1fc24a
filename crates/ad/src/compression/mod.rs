//! Functions that compress: what goes through them becomes passive, and that is counted as lost.
//!
//! Compressed data refer to bytes that have occurred before, of whatever number they were; decompression then puts numbers together from bytes
//! of several others. The values are right, but shadow that is moved along with these bytes would be put together in the same way: derivatives that
//! belong to nothing, and no instruction that could tell. So a compressor with active input runs to its return in the version
//! `plain`, in which stores make memory passive. What is decompressed later is passive by itself.
//!
//! `table` says which functions these are and where they find their input.

mod table;

use std::collections::HashMap;
use std::sync::LazyLock;

use derivgrind_engine::context::{Context, Gpr};
use derivgrind_engine::{Version, dispatcher, memory, memory::user};

use crate::instrument::lost_in_compression;
use crate::math::intercept::{Differentiator, forget_caller_saved};

pub use table::{COMPRESSORS, Compressor, Input, Length};

/// The registers of arguments of class INTEGER (System V ABI).
const ARGUMENTS: [Gpr; 6] = [Gpr::Rdi, Gpr::Rsi, Gpr::Rdx, Gpr::Rcx, Gpr::R8, Gpr::R9];

/// Position of the function with this symbol in [`COMPRESSORS`].
pub fn id(name: &str) -> Option<usize> {
    static BY_NAME: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
        COMPRESSORS.iter().enumerate().map(|(position, compressor)| (compressor.name, position)).collect()
    });
    BY_NAME.get(name).copied()
}

/// The tool's `function_entered`: `context` stands at the first instruction of the function.
///
/// If its input has active bytes, this runs the function to its return in the version `plain` and returns `true`. Otherwise it does nothing
/// and returns `false`.
pub fn function_entered<D: Differentiator>(
    context: &mut Context,
    compressor: &Compressor,
    plain: Version,
    mode: &D,
) -> bool {
    let Some((start, length)) = input(context, compressor.input).filter(|&(_, length)| length != 0) else {
        return false;
    };
    if memory::shadowed_bytes(start, length) == 0 {
        return false;
    }
    let address = context.rip;
    lost_in_compression(address);
    if !dispatcher::run_to_return(context, plain) {
        mode.interrupted(address);
    }
    forget_caller_saved(context);
    true
}

/// Address and length of the input; `None` if the arguments point to nothing, which is the function's own business.
fn input(context: &Context, input: Input) -> Option<(u64, u64)> {
    let argument = |number: usize| context.reg(ARGUMENTS[number]);
    match input {
        Input::Arguments { start, length } => Some((argument(start), read_length(length, argument)?)),
        Input::Stream { at, start, length } => {
            let fields = argument(at);
            let field = |offset: usize| user::read::<u64>(fields.wrapping_add(offset as u64)).ok();
            Some((field(start)?, read_length(length, |offset| field(offset).unwrap_or(0))?))
        }
        Input::Position { at } => {
            let buffer = argument(at);
            let [start, size, position] = [0, 8, 16].map(|offset| user::read::<u64>(buffer.wrapping_add(offset)).ok());
            Some((start?.wrapping_add(position?), size?.saturating_sub(position?)))
        }
        Input::Pointers { start, length } => {
            Some((user::read(argument(start)).ok()?, user::read(argument(length)).ok()?))
        }
    }
}

fn read_length(length: Length, at: impl Fn(usize) -> u64) -> Option<u64> {
    match length {
        // A negative length is an error that the function answers.
        Length::Int(number) => u64::try_from(at(number) as i32).ok(),
        Length::UnsignedInt(number) => Some(at(number) & u64::from(u32::MAX)),
        Length::Size(number) => Some(at(number)),
        Length::IntAt(number) => u64::try_from(user::read::<u32>(at(number)).ok()? as i32).ok(),
    }
}

#[cfg(test)]
mod tests {
    use derivgrind_engine::context;

    use super::*;

    #[test]
    fn names_are_found_once() {
        for (position, compressor) in COMPRESSORS.iter().enumerate() {
            assert_eq!(id(compressor.name), Some(position));
        }
        assert_eq!(id("LZ4_decompress_safe"), None);
    }

    #[test]
    fn the_input_is_found_in_arguments() {
        // SAFETY: this thread's own context, which runs no application code.
        let context = unsafe { &mut *context::current() };
        let mut set = |values: [u64; 6]| {
            for (register, value) in ARGUMENTS.into_iter().zip(values) {
                context.set_reg(register, value);
            }
        };
        set([0x1000, 2, 0xffff_ffff_0000_0007, 4, 5, 6]);
        assert_eq!(input(context, Input::Arguments { start: 0, length: Length::Int(2) }), Some((0x1000, 7)));
        assert_eq!(input(context, Input::Arguments { start: 0, length: Length::Size(5) }), Some((0x1000, 6)));
        context.set_reg(ARGUMENTS[2], -1i64 as u64);
        assert_eq!(input(context, Input::Arguments { start: 0, length: Length::Int(2) }), None);
    }
}
