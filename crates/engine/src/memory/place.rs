//! Where new mappings go.

use std::ops::Range;
use std::os::fd::RawFd;

use super::growth::ROOM;
use super::{APP_END, State};
use crate::memory::map::Protection;

/// Within reach of absolute 32-bit displacements: ELF images and small files.
pub(super) const NEAR: Range<u64> = 0x2000_0000..0x7fff_0000;
/// The `brk` heap.
pub(super) const HEAP: Range<u64> = 1 << 40..1 << 41;
/// Anonymous and large mappings.
pub(super) const ANONYMOUS: Range<u64> = 1 << 41..STACK_TOP - (2 << 30);
/// End of the main thread's stack.
pub(super) const STACK_TOP: u64 = APP_END - (1 << 32);
/// What `MAP_32BIT` means: the first two gigabytes.
const LOW: Range<u64> = 0x1000_0000..0x8000_0000;
/// Files below this size go near without a look at their content.
const SMALL: u64 = 64 << 20;
/// Mappings from this size on are aligned to it, so that the kernel can use huge pages.
const HUGE_PAGE: u64 = 2 << 20;

/// What is to be placed.
pub(super) struct Request {
    pub length: u64,
    pub protection: Protection,
    pub flags: i32,
    /// File to be mapped, if any.
    pub descriptor: Option<RawFd>,
}

impl Request {
    /// Whether code is likely to refer to this mapping by rip-relative operands.
    fn belongs_near(&self) -> bool {
        match self.descriptor {
            Some(descriptor) => self.length < SMALL || is_elf(descriptor),
            // A dynamic linker reserves room for an image with special alignment by an inaccessible anonymous mapping. Thread
            // stacks and allocators reserve in this way, too, but mark it or ask for more.
            None => {
                !self.protection.readable()
                    && self.length < SMALL
                    && self.flags & (libc::MAP_STACK | libc::MAP_NORESERVE) == 0
            }
        }
    }
}

fn is_elf(descriptor: RawFd) -> bool {
    let mut magic = [0u8; 4];
    // SAFETY: the buffer has the length given.
    let got = unsafe { libc::pread(descriptor, magic.as_mut_ptr().cast(), magic.len(), 0) };
    got == 4 && magic == *b"\x7fELF"
}

impl State {
    /// Finds room for a mapping without a fixed address.
    pub(super) fn place(&mut self, request: &Request) -> Option<u64> {
        let room = if request.flags & libc::MAP_GROWSDOWN != 0 { ROOM } else { 0 };
        self.find_room(request, request.length.checked_add(room)?).map(|start| start + room)
    }

    fn find_room(&mut self, request: &Request, length: u64) -> Option<u64> {
        if request.flags & libc::MAP_32BIT != 0 {
            return self.map.lowest_gap(LOW, length, super::PAGE);
        }
        if request.belongs_near()
            && let Some(address) = self.place_near(length)
        {
            return Some(address);
        }
        self.place_anonymous(length)
    }

    fn place_near(&mut self, length: u64) -> Option<u64> {
        let found = self.map.lowest_gap(self.near_hint..NEAR.end, length, super::PAGE)?;
        if found == self.near_hint {
            self.near_hint = found + length;
        }
        Some(found)
    }

    fn place_anonymous(&mut self, length: u64) -> Option<u64> {
        let alignment = if length >= HUGE_PAGE { HUGE_PAGE } else { super::PAGE };
        let found = self.map.lowest_gap(self.anonymous_hint..ANONYMOUS.end, length, alignment)?;
        if found == self.anonymous_hint {
            self.anonymous_hint = found + length;
        }
        Some(found)
    }

    /// Tells the searches that `range` has become free.
    pub(super) fn freed(&mut self, range: &Range<u64>) {
        if NEAR.contains(&range.start) {
            self.near_hint = self.near_hint.min(range.start);
        } else if ANONYMOUS.contains(&range.start) {
            self.anonymous_hint = self.anonymous_hint.min(range.start);
        }
    }
}
