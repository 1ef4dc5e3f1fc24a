//! Failures of a recording, told when they happen.

use std::sync::atomic::{AtomicBool, Ordering};

use derivgrind_engine::report;
use derivgrind_tape::TapeError;

use crate::shadow::NARROW_LIMIT;

/// A binary32 value should have got an index that does not fit into its shadow.
pub(super) fn narrow_overflow() {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        report(&format!(
            "binary32 values cannot have indices of {NARROW_LIMIT} and above; from here on they are passive and the gradient is \
             WRONG. Record a shorter run, or compute in binary64."
        ));
    }
}

/// The tape cannot be written.
pub(super) fn tape_error(error: &TapeError) {
    report(&format!("{error}; the tape is incomplete"));
}
