//! Slow paths of recording that cached code calls.

use derivgrind_engine::context::Context;
use derivgrind_engine::translate::HelperNext;

use crate::instrument::{Thread, lost_at};
use crate::shadow::{NARROW_LIMIT, narrow_index, of_narrow, of_wide, wide_index};

use super::errors;
use super::state::TapeThread;

/// A record cannot be written as it stands: the chunk is full, an operand's index is above the chunk's or a factor waits beside it, recording is disabled, or the
/// tape has failed. Mends it, or makes the operands passive.
///
/// The operation is on binary64 numbers.
pub(super) fn slow_record(context: &mut Context, _: u64) -> HelperNext {
    let mut thread = Thread::new(context);
    let settled = thread.tape_fields().slow.map(|operand| thread.settle(operand).map_or(operand, of_wide));
    thread.tape_fields().slow = settled;
    mend(context, |operand| wide_index(operand).unwrap_or(u64::MAX));
    HelperNext::Resume
}

/// The same for binary32 numbers, whose indices can have become too large, too.
pub(super) fn slow_narrow_record(context: &mut Context, _: u64) -> HelperNext {
    mend(context, |operand| narrow_index(operand).unwrap_or(u64::MAX));
    let mut thread = Thread::new(context);
    if thread.tape_fields().slow != [0; 2] && thread.next_index() >= NARROW_LIMIT {
        thread.tape_fields().slow = [0; 2];
        errors::narrow_overflow();
        lost_at(context.rip);
    }
    HelperNext::Resume
}

/// `index` is that of an operand word, or more than any.
fn mend(context: &mut Context, index: fn(u64) -> u64) {
    let rip = context.rip;
    let mut thread = Thread::new(context);
    let operands = thread.tape_fields().slow.map(index);
    let highest = operands.into_iter().max().unwrap_or(0);
    if thread.make_room(highest) {
        return;
    }
    if thread.tape_fields().cursor != thread.tape_fields().end {
        // There is room, so an operand's index is above all that exist: what looked like an index is none.
        lost_at(rip);
    }
    thread.tape_fields().slow = [0, 0];
}

/// A number becomes a binary32 one whose shadow is not simply that of an index below the limit. Leaves the new shadow in place of the old one: 0 if the index is too
/// large, or there is none.
pub(super) fn not_narrow(context: &mut Context, _: u64) -> HelperNext {
    let mut thread = Thread::new(context);
    let index = thread.tape_fields().slow[0];
    let index = thread.settle(index);
    let narrow = index.filter(|&index| index < NARROW_LIMIT);
    thread.tape_fields().slow[0] = narrow.map_or(0, of_narrow);
    if narrow.is_none() {
        lost_at(context.rip);
    }
    if narrow.is_none() && index.is_some() {
        errors::narrow_overflow();
    }
    HelperNext::Resume
}
