//! Questions for the time. Natively they are answered by the kernel's vDSO without a system call; the application does not see it,
//! but the host's libc does.

use super::{Arguments, Outcome};
use crate::context::Context;
use crate::memory::{clear_shadow, user};

/// Writes a result of two words and clears its shadow.
fn store(address: u64, words: [u64; 2]) -> Outcome {
    if user::write(address, words).is_err() {
        return Outcome::error(libc::EFAULT);
    }
    clear_shadow(address, size_of::<[u64; 2]>() as u64);
    Outcome::Value(0)
}

/// `clock_gettime`.
pub(super) fn clock_gettime(_: &mut Context, arguments: Arguments) -> Outcome {
    let [clock, address, ..] = arguments;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the structure given.
    if unsafe { libc::clock_gettime(clock as libc::clockid_t, &mut time) } != 0 {
        // The kernel knows the error, and its order of checks.
        return Outcome::Pass(libc::SYS_clock_gettime, arguments);
    }
    store(address, [time.tv_sec as u64, time.tv_nsec as u64])
}

/// `gettimeofday`; who wants the time zone, too, asks the kernel.
pub(super) fn gettimeofday(_: &mut Context, arguments: Arguments) -> Outcome {
    let [address, zone, ..] = arguments;
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: fills the structure given.
    if address == 0 || zone != 0 || unsafe { libc::gettimeofday(&mut time, std::ptr::null_mut()) } != 0 {
        return Outcome::Pass(libc::SYS_gettimeofday, arguments);
    }
    store(address, [time.tv_sec as u64, time.tv_usec as u64])
}
