//! Arrays between pages that must not be accessed, so that a function that writes out of bounds is caught.
//!
//! The array ends where the page behind it begins, up to the alignment of 16 bytes that `malloc` gives. What little room there is on the page
//! before it, and behind it, is filled with a pattern that is checked after the call.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::memory::{PAGE, SharedMemory, Word};

/// Bytes on each side that must not be accessed.
const GUARD: usize = 16 * PAGE;
/// What the room around an array is filled with.
const PATTERN: u8 = 0xa7;
/// Alignment of arrays.
const ALIGNMENT: usize = 16;

/// Room for an array.
#[derive(Debug)]
pub(crate) struct Guarded {
    region: NonNull<u8>,
    /// Bytes between the guards.
    room: usize,
    /// Bytes of the array.
    bytes: usize,
}

/// On which side of an array something was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    Behind,
}

impl Guarded {
    /// Room for an array of so many bytes.
    pub(crate) fn new(bytes: usize) -> io::Result<Guarded> {
        let room = Self::room_for(bytes);
        let (protection, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new mapping at an address that the kernel chooses, of which the middle is made accessible.
        let region = unsafe {
            let region = libc::mmap(std::ptr::null_mut(), room + 2 * GUARD, protection, flags, -1, 0);
            if region == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            if libc::mprotect(region.byte_add(GUARD), room, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                let error = io::Error::last_os_error();
                libc::munmap(region, room + 2 * GUARD);
                return Err(error);
            }
            region
        };
        let region = NonNull::new(region.cast()).ok_or_else(|| io::Error::other("memory at address 0"))?;
        Ok(Guarded { region, room, bytes })
    }

    /// Uses the room for another array, if that has a size that fits.
    pub(crate) fn reuse(&mut self, bytes: usize) -> bool {
        let fits = Self::room_for(bytes) == self.room;
        if fits {
            self.bytes = bytes;
        }
        fits
    }

    fn room_for(bytes: usize) -> usize {
        bytes.max(1).next_multiple_of(PAGE)
    }

    /// Where the array begins between the guards.
    fn offset(&self) -> usize {
        self.room - self.bytes.next_multiple_of(ALIGNMENT).min(self.room)
    }

    /// The accessible part.
    fn inside(&mut self) -> &mut [u8] {
        // SAFETY: the accessible part of this value's own mapping.
        unsafe { std::slice::from_raw_parts_mut(self.region.as_ptr().add(GUARD), self.room) }
    }

    /// The array.
    pub(crate) fn array(&mut self) -> &mut [u8] {
        let (offset, bytes) = (self.offset(), self.bytes);
        &mut self.inside()[offset..offset + bytes]
    }

    /// Its address.
    pub(crate) fn address(&mut self) -> u64 {
        self.array().as_ptr().addr() as u64
    }

    /// Fills the room around the array, before the call of a function.
    pub(crate) fn arm(&mut self, argument: usize) {
        let (offset, bytes) = (self.offset(), self.bytes);
        let inside = self.inside();
        inside[..offset].fill(PATTERN);
        inside[offset + bytes..].fill(PATTERN);
        if let Some(known) = REGIONS.get(argument) {
            let start = self.region.as_ptr().addr() as u64;
            known[0].store(start, Ordering::Relaxed);
            known[1].store(start + (GUARD + self.room) as u64, Ordering::Relaxed);
        }
    }

    /// Where something else than the pattern is around the array.
    pub(crate) fn damage(&mut self) -> Option<Side> {
        let (offset, bytes) = (self.offset(), self.bytes);
        let inside = self.inside();
        let damaged = |part: &[u8]| part.iter().any(|&byte| byte != PATTERN);
        if damaged(&inside[..offset]) {
            Some(Side::Before)
        } else {
            damaged(&inside[offset + bytes..]).then_some(Side::Behind)
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        unsafe { libc::munmap(self.region.as_ptr().cast(), self.room + 2 * GUARD) };
    }
}

/// For each argument where its lower guard begins, and its upper one: for the signal handler.
static REGIONS: [[AtomicU64; 2]; 128] = [const { [const { AtomicU64::new(0) }; 2] }; 128];
/// The first page of the shared memory.
static WORDS: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

/// From now on a fault is described in the first page of the shared memory, before it ends the process.
pub(crate) fn watch_faults(memory: &SharedMemory) {
    WORDS.store(std::ptr::from_ref(memory.word(Word::Argument)).cast_mut(), Ordering::Relaxed);
    // SAFETY: an action with a handler that is safe to run in a signal, on a stack of its own because the fault may be an overflow
    // of the stack. That memory is never freed.
    unsafe {
        let stack = Box::leak(vec![0_u8; 16 * PAGE].into_boxed_slice());
        let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
        libc::sigaltstack(&stack, std::ptr::null_mut());
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Notes the fault. The handler is reset, so that the same access ends the process then.
extern "C" fn handler(_: libc::c_int, information: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes valid information; for these signals it has an address.
    let address = unsafe { (*information).si_addr() } as u64;
    let words = WORDS.load(Ordering::Relaxed);
    let store = |word: Word, value: u64| {
        // SAFETY: the first page of the shared memory stays mapped as long as the process lives.
        unsafe { (*words.add(word as usize)).store(value, Ordering::Relaxed) };
    };
    store(Word::Address, address);
    for (argument, region) in (1..).zip(&REGIONS) {
        let [lower, upper] = [&region[0], &region[1]].map(|start| start.load(Ordering::Relaxed));
        for (start, behind) in [(lower, 0), (upper, 1)] {
            if start != 0 && (start..start + GUARD as u64).contains(&address) {
                store(Word::Argument, argument);
                store(Word::Behind, behind);
            }
        }
    }
}

/// Forgets the arguments of the call before.
pub(crate) fn forget_regions() {
    for region in &REGIONS {
        if region[0].load(Ordering::Relaxed) == 0 {
            break;
        }
        region.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_beside_the_array_are_found() {
        for bytes in [0, 1, 8, 12, 24, 4096, 5000] {
            let mut guarded = Guarded::new(bytes).unwrap();
            assert_eq!(guarded.array().len(), bytes);
            assert_eq!(guarded.address() % ALIGNMENT as u64, 0);
            guarded.arm(usize::MAX);
            guarded.array().fill(1);
            assert_eq!(guarded.damage(), None);
            let offset = guarded.offset();
            if offset > 0 {
                guarded.inside()[offset - 1] = 1;
                assert_eq!(guarded.damage(), Some(Side::Before), "{bytes}");
                guarded.arm(usize::MAX);
            }
            if !bytes.is_multiple_of(ALIGNMENT) {
                guarded.inside()[offset + bytes] = 1;
                assert_eq!(guarded.damage(), Some(Side::Behind), "{bytes}");
            }
        }
    }
}
