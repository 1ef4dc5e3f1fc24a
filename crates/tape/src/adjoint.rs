//! Memory for the bar or dot values of all indices.

use std::io;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::error::{Result, TapeError};

/// One value for each index and lane, all zero at first.
///
/// Memory is taken when a value is first written, and can be given back: a reverse sweep needs only the part between the tape's
/// current position and the smallest index in use.
pub(crate) struct Adjoint<const LANES: usize> {
    values: std::ptr::NonNull<[f64; LANES]>,
    count: usize,
}

impl<const LANES: usize> Adjoint<LANES> {
    const VALUE_BYTES: usize = size_of::<[f64; LANES]>();

    /// Zeros for indices below `index_limit`.
    pub(crate) fn new(index_limit: u64) -> Result<Adjoint<LANES>> {
        let failed = |source| TapeError::Memory { indices: index_limit, lanes: LANES, source };
        let count = usize::try_from(index_limit).map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?;
        let bytes = count
            .checked_mul(Self::VALUE_BYTES)
            .filter(|bytes| *bytes > 0 && isize::try_from(*bytes).is_ok())
            .ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
        // SAFETY: a new anonymous mapping disturbs no memory in use.
        let memory = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let memory = memory.map_err(|error| failed(error.into()))?;
        // Page faults would cost more than the sweep itself. Where the kernel has no huge pages, ordinary ones do.
        // SAFETY: advice on the mapping just made.
        let _ = unsafe { rustix::mm::madvise(memory, bytes, Advice::LinuxHugepage) };
        let values = std::ptr::NonNull::new(memory.cast()).ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
        Ok(Adjoint { values, count })
    }

    /// The values.
    pub(crate) fn values(&mut self) -> &mut [[f64; LANES]] {
        // SAFETY: the mapping has room for `count` values, zero bytes are valid values, and it is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.values.as_ptr(), self.count) }
    }

    /// Gives back the memory of indices from `first` up to `limit`, as far as it consists of whole huge pages; their values become 0
    /// or stay. Returns the first index that has been given back.
    pub(crate) fn release(&mut self, first: usize, limit: usize) -> usize {
        const HUGE_PAGE: usize = 2 << 20;
        let base = self.values.as_ptr() as usize;
        let begin = (base + first * Self::VALUE_BYTES).next_multiple_of(HUGE_PAGE);
        let end = (base + limit.min(self.count) * Self::VALUE_BYTES) / HUGE_PAGE * HUGE_PAGE;
        if begin >= end {
            return limit;
        }
        // SAFETY: the range lies in the mapping; it stays readable and writable, as zeros.
        let released = unsafe { rustix::mm::madvise(begin as *mut _, end - begin, Advice::LinuxDontNeed) };
        if released.is_ok() { (begin - base) / Self::VALUE_BYTES } else { limit }
    }
}

impl<const LANES: usize> Drop for Adjoint<LANES> {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, which nothing refers to any more.
        let _ = unsafe { rustix::mm::munmap(self.values.as_ptr().cast(), self.count * Self::VALUE_BYTES) };
    }
}
