//! The memory that holds translated code.

use std::sync::atomic::{AtomicI32, Ordering};

/// What huge pages are aligned to.
const HUGE_PAGE: usize = 2 << 20;

/// An area of executable memory that is filled from its start.
pub(super) struct Region {
    start: u64,
    end: u64,
    next: u64,
}

impl Region {
    /// Reserves `length` bytes wherever the system likes: above the application window, whose addresses are never chosen by
    /// the system.
    pub(super) fn new(length: usize) -> Result<Region, String> {
        // SAFETY: a fresh private mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            let error = std::io::Error::last_os_error();
            return Err(format!("cannot reserve {length} bytes of executable memory for the code cache: {error}"));
        }
        let (mut start, end) = (address as u64, address as u64 + length as u64);
        if length >= 4 * HUGE_PAGE {
            // Translated code is spread over more pages than the program's own: programs with much code run up to a third faster with huge ones.
            start = start.next_multiple_of(HUGE_PAGE as u64);
            // SAFETY: advice on the mapping just made; a system without huge pages refuses it, which changes nothing.
            unsafe { libc::madvise(address, length, libc::MADV_HUGEPAGE) };
        }
        Ok(Region { start, end, next: start })
    }

    /// Divides what is still free into two regions of the same size.
    pub(super) fn halves(&self) -> [Region; 2] {
        let middle = (self.next + (self.end - self.next) / 2).next_multiple_of(16);
        [(self.next, middle), (middle, self.end)].map(|(start, end)| Region { start, end, next: start })
    }

    /// Where the next code will be put.
    pub(super) fn address(&self) -> u64 {
        self.next
    }

    /// Whether an address lies in this region.
    pub(super) fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> u64 {
        self.next - self.start
    }

    /// Bytes in all.
    pub(super) fn size(&self) -> u64 {
        self.end - self.start
    }

    /// Appends code; `None` if it does not fit.
    pub(super) fn append(&mut self, code: &[u8]) -> Option<u64> {
        let at = self.next;
        if code.len() as u64 > self.end.saturating_sub(at) {
            return None;
        }
        // SAFETY: `at..at + len` lies in this region, behind everything that can be in execution.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), at as *mut u8, code.len()) };
        self.next = (at + code.len() as u64).next_multiple_of(16);
        Some(at)
    }

    /// Forgets everything. No thread may be in execution here.
    pub(super) fn clear(&mut self) {
        self.next = self.start;
    }

    /// Changes the aligned 32-bit displacement at `at` to lead to `target`.
    pub(super) fn patch_displacement(&self, at: u64, target: u64) {
        debug_assert!(self.contains(at) && at.is_multiple_of(4));
        self.patch(at, target.wrapping_sub(at + 4) as i32);
    }

    /// Changes the aligned 32-bit displacement at `at`.
    pub(super) fn patch(&self, at: u64, displacement: i32) {
        debug_assert!((self.start..self.end).contains(&at) && at.is_multiple_of(4));
        // SAFETY: an aligned displacement inside this region. One aligned store: other threads see the old or the new target, and
        // both lead to code that is never overwritten while they run.
        unsafe { AtomicI32::from_ptr(at as *mut i32) }.store(displacement, Ordering::Release);
    }
}
