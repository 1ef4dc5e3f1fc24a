//! Slow paths of recording that cached code calls.

use derivgrind_engine::context::Context;
use derivgrind_engine::translate::HelperNext;

use crate::instrument::{Thread, lost_at};
use crate::shadow::INDEX_BITS;

use super::errors;
use super::state::TapeThread;

/// A record cannot be written as it stands: the chunk is full, an operand's index is above the chunk's, recording is disabled, or the
/// tape has failed. Mends it, or makes the operands passive.
pub(super) fn slow_record(context: &mut Context, _: u64) -> HelperNext {
    let rip = context.rip;
    let mut thread = Thread::new(context);
    let operands = thread.tape_fields().slow.map(|operand| operand & INDEX_BITS);
    let highest = operands.into_iter().max().unwrap_or(0);
    if thread.make_room(highest) {
        return HelperNext::Resume;
    }
    if thread.tape_fields().cursor != thread.tape_fields().end {
        // There is room, so an operand's index is above all that exist: what looked like an index is none.
        lost_at(rip);
    }
    thread.tape_fields().slow = [0, 0];
    HelperNext::Resume
}

/// A binary32 value cannot hold the index that it should get.
pub(super) fn narrow_overflow(context: &mut Context, _: u64) -> HelperNext {
    errors::narrow_overflow();
    lost_at(context.rip);
    HelperNext::Resume
}
