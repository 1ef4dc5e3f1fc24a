//! Thin wrappers of the host's memory calls; errors are error numbers.

use std::ops::Range;

use crate::syscall::raw::{result, syscall};

/// Maps private anonymous memory at exactly `range`, replacing what was there. It counts for nothing until it is touched.
pub(super) fn map_anonymous(range: Range<u64>, protection: i32) -> Result<(), i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    map(range, protection, flags, -1, 0)
}

/// The same where nothing is mapped; else fails with EEXIST.
pub(super) fn map_where_free(range: Range<u64>, protection: i32) -> Result<(), i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let arguments = [range.start, range.end - range.start, protection as u64, flags as u64, -1i64 as u64, 0];
    // SAFETY: callers pass ranges of the shadow, which hold no Rust objects, and nothing is replaced.
    result(unsafe { syscall(libc::SYS_mmap, arguments) }).map(drop)
}

/// `mmap` with `MAP_FIXED` at exactly `range`.
pub(super) fn map(range: Range<u64>, protection: i32, flags: i32, descriptor: i32, offset: u64) -> Result<(), i32> {
    let flags = (flags & !libc::MAP_32BIT & !libc::MAP_FIXED_NOREPLACE & !libc::MAP_GROWSDOWN) | libc::MAP_FIXED;
    let arguments =
        [range.start, range.end - range.start, protection as u64, flags as u64, i64::from(descriptor) as u64, offset];
    // SAFETY: callers pass ranges of the application window or of its shadow, which hold no Rust objects.
    result(unsafe { syscall(libc::SYS_mmap, arguments) }).map(drop)
}

/// `munmap`.
pub(super) fn unmap(range: Range<u64>) -> Result<(), i32> {
    // SAFETY: as in `map`.
    result(unsafe { syscall(libc::SYS_munmap, [range.start, range.end - range.start, 0, 0, 0, 0]) }).map(drop)
}

/// `mprotect`.
pub(super) fn protect(range: Range<u64>, protection: i32) -> Result<(), i32> {
    let arguments = [range.start, range.end - range.start, protection as u64, 0, 0, 0];
    // SAFETY: as in `map`.
    result(unsafe { syscall(libc::SYS_mprotect, arguments) }).map(drop)
}

/// Moves a mapping to `target`, replacing what was there.
pub(super) fn remap(source: Range<u64>, target: u64, length: u64) -> Result<(), i32> {
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
    // SAFETY: as in `map`.
    result(unsafe { syscall(libc::SYS_mremap, [source.start, source.end - source.start, length, flags, target, 0]) })
        .map(drop)
}

/// Gives the pages of private anonymous memory back; they read as zero afterwards. Unmapped parts are skipped.
pub(super) fn discard(range: Range<u64>) {
    advise(range, libc::MADV_DONTNEED);
}

/// `madvise` for shadow memory. Unmapped parts are skipped.
pub(super) fn advise(range: Range<u64>, advice: i32) {
    if range.start < range.end {
        let arguments = [range.start, range.end - range.start, advice as u64, 0, 0, 0];
        // SAFETY: shadow memory only. ENOMEM for unmapped parts is expected: the rest has been processed all the same.
        let _ = unsafe { syscall(libc::SYS_madvise, arguments) };
    }
}
