//! File descriptors: ours are moved out of the application's way and kept from being closed.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};

use super::{Arguments, Outcome};
use crate::context::Context;

/// Where ours begin, if the limit on open files allows.
const WANTED: u64 = 1000;
/// Distance to be kept from a lower limit.
const ROOM: u64 = 24;

/// Descriptors that belong to derivgrind, in ascending order.
static PROTECTED: RwLock<Vec<u32>> = RwLock::new(Vec::new());

/// Moves a descriptor of derivgrind to a high number and protects it from the application: to the application it is not open.
///
/// # Errors
/// If no further descriptor can be opened.
pub fn protect_descriptor(descriptor: OwnedFd) -> io::Result<OwnedFd> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    let least = WANTED.min(limit.saturating_sub(ROOM));
    // SAFETY: duplicates a descriptor that we own.
    let moved = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least as libc::c_int) };
    if moved < 0 {
        return Err(io::Error::last_os_error());
    }
    keep_descriptor(moved);
    // SAFETY: the duplicate is new and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(moved) })
}

/// Protects a descriptor of derivgrind, wherever it is, until [`release_descriptor`].
pub fn keep_descriptor(descriptor: RawFd) {
    let mut list = PROTECTED.write().unwrap_or_else(PoisonError::into_inner);
    if let (Ok(number), Err(place)) = (u32::try_from(descriptor), list.binary_search(&(descriptor as u32))) {
        list.insert(place, number);
    }
}

/// Ends the protection of a descriptor that is about to be closed.
pub fn release_descriptor(descriptor: RawFd) {
    let mut list = PROTECTED.write().unwrap_or_else(PoisonError::into_inner);
    list.retain(|&other| other != descriptor as u32);
}

/// Standard descriptors that were closed when the process started: bit n for descriptor n.
static INHERITED_CLOSED: AtomicU32 = AtomicU32::new(0);

extern "C" fn remember_closed() {
    let closed = (0..3).filter(|&descriptor| flags(descriptor).is_none());
    INHERITED_CLOSED.store(closed.fold(0, |set, descriptor| set | 1 << descriptor), Ordering::Relaxed);
}

// The dynamic linker calls this before `main`, and so before Rust's runtime opens /dev/null in the place of closed ones.
#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER_CLOSED: extern "C" fn() = remember_closed;

/// Gives the application the descriptors that the process was started with, and keeps what derivgrind has opened since then.
pub(crate) fn take_over() {
    for descriptor in 0..3 {
        if INHERITED_CLOSED.load(Ordering::Relaxed) & 1 << descriptor != 0 {
            // SAFETY: nobody of ours uses what Rust's runtime has put there.
            unsafe { libc::close(descriptor) };
        }
    }
    // What is inherited never has the flag that closes it at `execve`; all that we open has it.
    for descriptor in open_descriptors().into_iter().filter(|&descriptor| is_closed_at_exec(descriptor)) {
        keep_descriptor(descriptor);
    }
}

/// Protects what `action`, which is a part of the tool, opens, and no longer what it closes.
pub(crate) fn keep_opened_by(action: impl FnOnce()) {
    let before = open_descriptors();
    action();
    let after = open_descriptors();
    for descriptor in after.iter().filter(|descriptor| !before.contains(descriptor)) {
        keep_descriptor(*descriptor);
    }
    for descriptor in before.iter().filter(|descriptor| !after.contains(descriptor)) {
        release_descriptor(*descriptor);
    }
}

fn open_descriptors() -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let listed: Vec<RawFd> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    // Without the one that was open for the listing itself.
    listed.into_iter().filter(|&descriptor| flags(descriptor).is_some()).collect()
}

fn flags(descriptor: RawFd) -> Option<i32> {
    // SAFETY: asks for flags only.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
    (flags >= 0).then_some(flags)
}

fn is_closed_at_exec(descriptor: RawFd) -> bool {
    flags(descriptor).is_some_and(|flags| flags & libc::FD_CLOEXEC != 0)
}

/// To be held across `fork`.
pub(super) fn lock_for_fork() -> impl Sized {
    PROTECTED.write().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a descriptor belongs to derivgrind.
pub(crate) fn is_protected(descriptor: u64) -> bool {
    PROTECTED.read().unwrap_or_else(PoisonError::into_inner).binary_search(&(descriptor as u32)).is_ok()
}

/// `close`.
pub(super) fn close(_: &mut Context, arguments: Arguments) -> Outcome {
    if is_protected(arguments[0]) { Outcome::error(libc::EBADF) } else { Outcome::Pass(libc::SYS_close, arguments) }
}

/// `dup2`.
pub(super) fn dup2(_: &mut Context, arguments: Arguments) -> Outcome {
    duplicate(libc::SYS_dup2, arguments)
}

/// `dup3`.
pub(super) fn dup3(_: &mut Context, arguments: Arguments) -> Outcome {
    duplicate(libc::SYS_dup3, arguments)
}

fn duplicate(number: i64, arguments: Arguments) -> Outcome {
    if is_protected(arguments[0]) || is_protected(arguments[1]) {
        return Outcome::error(libc::EBADF);
    }
    Outcome::Pass(number, arguments)
}

/// `close_range`: the ranges between ours.
pub(super) fn close_range(context: &mut Context, arguments: Arguments) -> Outcome {
    let (first, last) = (arguments[0] as u32, arguments[1] as u32);
    let list = PROTECTED.read().unwrap_or_else(PoisonError::into_inner).clone();
    if first > last || list.iter().all(|descriptor| !(first..=last).contains(descriptor)) {
        return Outcome::Pass(libc::SYS_close_range, arguments);
    }
    let mut outcome = Outcome::Value(0);
    for (start, end) in gaps(first, last, &list) {
        let mut part = arguments;
        (part[0], part[1]) = (start.into(), end.into());
        outcome = super::pass(context, libc::SYS_close_range, part);
        if outcome != Outcome::Value(0) {
            break;
        }
    }
    outcome
}

/// The parts of `first..=last` that contain none of `holes` (in ascending order).
fn gaps(first: u32, last: u32, holes: &[u32]) -> Vec<(u32, u32)> {
    let mut parts = Vec::new();
    let mut start = Some(first);
    for &hole in holes.iter().filter(|hole| (first..=last).contains(hole)) {
        if let Some(from) = start
            && from < hole
        {
            parts.push((from, hole - 1));
        }
        start = hole.checked_add(1);
    }
    if let Some(from) = start
        && from <= last
    {
        parts.push((from, last));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_around_our_descriptors() {
        assert_eq!(gaps(3, u32::MAX, &[1000, 1001, 1005]), [(3, 999), (1002, 1004), (1006, u32::MAX)]);
        assert_eq!(gaps(1000, 1001, &[1000, 1001]), []);
        assert_eq!(gaps(5, u32::MAX, &[2, u32::MAX]), [(5, u32::MAX - 1)]);
    }

    #[test]
    fn a_protected_descriptor_is_high_and_cannot_be_closed() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let kept = protect_descriptor(file.into()).unwrap();
        assert!(kept.as_raw_fd() >= 100);
        assert!(is_protected(kept.as_raw_fd() as u64));
        assert!(!is_protected(0));
    }
}
