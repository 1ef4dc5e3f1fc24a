//! Intercepted math functions: recorded as one operation.

use derivgrind_engine::context::Context;
use derivgrind_tape::Operation;

use crate::ir::Format;
use crate::math::Width;
use crate::math::intercept::{Recorder, function_entered};

use super::PLAIN;
use super::state::Thread;
use super::summary;

struct Tape;

impl Recorder for Tape {
    fn record(&self, context: &mut Context, width: Width, operands: [u64; 2], partials: [f64; 2]) -> u64 {
        let format = match width {
            Width::Binary32 => Format::Binary32,
            Width::Binary64 => Format::Binary64,
        };
        Thread::new(context).record(Operation::Partials, format, operands, partials)
    }

    fn interrupted(&self, address: u64) {
        summary::lost_at(address);
    }
}

/// The function `name` is being entered in the active version. Returns whether it has been run.
pub(super) fn call(context: &mut Context, name: &str) -> bool {
    function_entered(context, name, PLAIN, &Tape)
}
