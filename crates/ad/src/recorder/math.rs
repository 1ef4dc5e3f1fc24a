//! Intercepted math functions: recorded as one operation.

use derivgrind_engine::context::Context;
use derivgrind_tape::Operation;

use crate::instrument::{Thread, lost_in_call};
use crate::ir::Format;
use crate::math::Width;
use crate::math::intercept::Recorder;

use super::Recording;
use super::state::TapeThread;

impl Recorder for Recording {
    fn record(&self, context: &mut Context, width: Width, operands: [u64; 2], partials: [f64; 2]) -> u64 {
        let format = match width {
            Width::Binary32 => Format::Binary32,
            // Wide indices both.
            Width::Binary64 | Width::Extended => Format::Binary64,
        };
        Thread::new(context).record(Operation::Partials, format, operands, partials)
    }

    fn interrupted(&self, address: u64) {
        lost_in_call(address);
    }
}
