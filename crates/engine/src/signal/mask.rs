//! The host's signal mask of the calling thread.

use super::action::{SYNCHRONOUS, Set};
use crate::syscall::raw::syscall;

/// Sets the mask to what the application wants; signals that the processor raises stay unblocked.
pub(crate) fn set_host(mask: Set) {
    set_exactly(mask & !SYNCHRONOUS);
}

/// Sets the mask, with nothing excepted; returns the previous one.
pub(crate) fn set_exactly(mask: Set) -> Set {
    let mut previous: Set = 0;
    let arguments =
        [libc::SIG_SETMASK as u64, &raw const mask as u64, &raw mut previous as u64, size_of::<Set>() as u64, 0, 0];
    // SAFETY: both pointers are valid.
    unsafe { syscall(libc::SYS_rt_sigprocmask, arguments) };
    previous
}

/// Keeps asynchronous signals from the calling thread until it is dropped.
pub(crate) struct BlockAll(Set);

impl BlockAll {
    /// Blocks them.
    pub(crate) fn new() -> BlockAll {
        BlockAll(set_exactly(!SYNCHRONOUS))
    }

    /// The mask to which the drop returns.
    pub(crate) fn previous(&self) -> Set {
        self.0
    }
}

impl Drop for BlockAll {
    fn drop(&mut self) {
        set_exactly(self.0);
    }
}
