//! Slow paths that cached code calls.

use derivgrind_engine::context::Context;
use derivgrind_engine::translate::HelperNext;

use super::passive::FIRST_PATIENCE;
use super::{PASSIVE, Thread, lost_at};

/// Longest time in the active version before the shadow registers are looked at, in blocks.
const LONGEST_PATIENCE: u32 = 4096;

/// An active value meets an operation that is not differentiated.
pub(super) fn lost(context: &mut Context, _: u64) -> HelperNext {
    lost_at(context.rip);
    HelperNext::Resume
}

/// Leaves for the passive version if all shadow registers are passive.
pub(super) fn try_passive(context: &mut Context, _: u64) -> HelperNext {
    let mut thread = Thread::new(context);
    let active = thread.has_active_registers();
    let fields = thread.fields();
    fields.patience = if active { (2 * fields.patience).min(LONGEST_PATIENCE) } else { FIRST_PATIENCE };
    fields.countdown = fields.patience;
    if active {
        return HelperNext::Resume;
    }
    context.version = PASSIVE;
    HelperNext::Leave
}
