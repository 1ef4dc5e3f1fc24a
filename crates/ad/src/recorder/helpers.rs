//! Slow paths that cached code calls.

use derivgrind_engine::context::Context;
use derivgrind_engine::translate::HelperNext;

use crate::shadow::{INDEX_BITS, TEMPORARY};

use super::passive::FIRST_PATIENCE;
use super::state::Thread;
use super::{PASSIVE, summary};

/// Longest time in the active version before the shadow registers are looked at, in blocks.
const LONGEST_PATIENCE: u32 = 4096;

/// A record cannot be written as it stands: the chunk is full, an operand's index is above the chunk's, recording is disabled, or the
/// tape has failed. Mends it, or makes the operands passive.
pub(super) fn slow_record(context: &mut Context, _: u64) -> HelperNext {
    let rip = context.rip;
    let mut thread = Thread::new(context);
    let operands = thread.fields().slow.map(|operand| operand & INDEX_BITS);
    let highest = operands.into_iter().max().unwrap_or(0);
    if thread.make_room(highest) {
        return HelperNext::Resume;
    }
    if thread.fields().cursor != thread.fields().end {
        // There is room, so an operand's index is above all that exist: what looked like an index is none.
        summary::lost_at(rip);
    }
    thread.fields().slow = [0, 0];
    HelperNext::Resume
}

/// A binary32 value cannot hold the index that it should get.
pub(super) fn narrow_overflow(_: &mut Context, _: u64) -> HelperNext {
    summary::narrow_overflow();
    HelperNext::Resume
}

/// An active value meets an operation that is not differentiated.
pub(super) fn lost(context: &mut Context, _: u64) -> HelperNext {
    summary::lost_at(context.rip);
    HelperNext::Resume
}

/// Leaves for the passive version if all shadow registers are passive.
pub(super) fn try_passive(context: &mut Context, _: u64) -> HelperNext {
    let mut thread = Thread::new(context);
    let active = thread.shadow_file(0, usize::from(TEMPORARY)).iter().any(|&byte| byte != 0);
    let fields = thread.fields();
    fields.patience = if active { (2 * fields.patience).min(LONGEST_PATIENCE) } else { FIRST_PATIENCE };
    fields.countdown = fields.patience;
    if active {
        return HelperNext::Resume;
    }
    context.version = PASSIVE;
    HelperNext::Leave
}
