//! Placement, and shadow in lockstep with data.

use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use super::*;

/// Tests share one address space: they take turns. Two shadow layers are in use.
pub(crate) fn address_space() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    static INIT: Once = Once::new();
    let guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    INIT.call_once(|| {
        init(2).unwrap();
        let _ = crate::TOOL.set(Box::new(crate::NullTool));
        let _ = crate::cache::init(crate::cache::DEFAULT_BYTES, None, true);
    });
    guard
}

const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
const ANONYMOUS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

fn map_anonymous(length: u64) -> u64 {
    map(0, length, READ_WRITE, ANONYMOUS, -1, 0).unwrap()
}

/// The same with nothing to both sides: pages of shadow are not shared.
fn map_alone(length: u64) -> u64 {
    let start = map_anonymous(length + 2 * PAGE) + PAGE;
    unmap(start - PAGE, PAGE).unwrap();
    unmap(start + length, PAGE).unwrap();
    start
}

/// The word of layer `layer` that belongs to an application address.
fn shadow_word(address: u64, layer: u64) -> *mut u64 {
    (address + (layer + 1) * SHADOW_STRIDE) as *mut u64
}

fn set_shadow(address: u64, value: u64) {
    for layer in 0..2 {
        // SAFETY: the tests ask for mapped memory only.
        unsafe { shadow_word(address, layer).write(value + layer) };
    }
}

fn shadow(address: u64) -> [u64; 2] {
    // SAFETY: the tests ask for mapped memory only.
    [0, 1].map(|layer| unsafe { shadow_word(address, layer).read() })
}

/// Whether any page of the range is mapped in the host.
fn host_has(start: u64, length: u64) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| {
        let (first, last) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
        let (first, last) = (u64::from_str_radix(first, 16).unwrap(), u64::from_str_radix(last, 16).unwrap());
        first < start + length && start < last
    })
}

#[test]
fn anonymous_memory_lies_high_and_file_mappings_lie_near() {
    let _lock = address_space();
    let heap = map_anonymous(0x3000);
    assert!((1 << 41..APP_END).contains(&heap));
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    use std::os::fd::AsRawFd;
    let mapped = map(0, 0x1000, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0).unwrap();
    assert!((0x2000_0000..0x7fff_0000).contains(&mapped));
    assert!(is_constant(mapped..mapped + 8));
    assert!(!is_constant(heap..heap + 8));
    protect(mapped, 0x1000, READ_WRITE).unwrap();
    protect(mapped, 0x1000, libc::PROT_READ).unwrap();
    assert!(!is_constant(mapped..mapped + 8), "it may have been written in between");
    let low = map(0, 0x1000, READ_WRITE, ANONYMOUS | libc::MAP_32BIT, -1, 0).unwrap();
    assert!(low + 0x1000 <= 1 << 31);
    for (start, length) in [(heap, 0x3000), (mapped, 0x1000), (low, 0x1000)] {
        unmap(start, length).unwrap();
    }
}

#[test]
fn hints_and_fixed_addresses() {
    let _lock = address_space();
    let wanted = 0x3_0000_0000;
    assert_eq!(map(wanted + 5, 0x2000, READ_WRITE, ANONYMOUS, -1, 0), Ok(wanted));
    assert_ne!(map(wanted, 0x1000, READ_WRITE, ANONYMOUS, -1, 0), Ok(wanted), "the hint is taken");
    let no_replace = ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    assert_eq!(map(wanted + 0x1000, 0x1000, READ_WRITE, no_replace, -1, 0), Err(libc::EEXIST));
    let fixed = ANONYMOUS | libc::MAP_FIXED;
    assert_eq!(map(APP_TOP, 0x1000, READ_WRITE, fixed, -1, 0), Err(libc::ENOMEM));
    assert_eq!(map(APP_TOP - 0x1000, 0x2000, READ_WRITE, fixed, -1, 0), Err(libc::ENOMEM));
    assert_eq!(map(wanted, 0, READ_WRITE, fixed, -1, 0), Err(libc::EINVAL));
    assert_eq!(map(0, 1 << 46, READ_WRITE, ANONYMOUS, -1, 0), Err(libc::ENOMEM));
    let beyond = map(1 << 45, 0x1000, READ_WRITE, ANONYMOUS, -1, 0).unwrap();
    assert!(beyond < APP_END, "a hint outside of the window is not followed");
    unmap(beyond, 0x1000).unwrap();
    unmap(wanted, 0x2000).unwrap();
    assert_eq!(mapping_at(wanted), None);
}

#[test]
fn shadow_comes_zero_and_goes_with_its_memory() {
    let _lock = address_space();
    let start = map_alone(0x4000);
    assert_eq!(shadow(start + 0x2000), [0, 0]);
    set_shadow(start + 0x2000, 7);
    set_shadow(start + 0x3000, 8);
    map(start + 0x2000, 0x1000, READ_WRITE, ANONYMOUS | libc::MAP_FIXED, -1, 0).unwrap();
    assert_eq!(shadow(start + 0x2000), [0, 0], "mapped over");
    assert_eq!(shadow(start + 0x3000), [8, 9], "beside what was mapped over");
    for offset in [0, 0xff8, 0x1ff8, 0x2000] {
        set_shadow(start + offset, 7);
    }
    unmap(start, 0x2000).unwrap();
    for layer in 0..3 {
        // The last page of the gap is shared with what follows.
        assert!(!host_has(start + layer * SHADOW_STRIDE, 0x1000));
        assert!(host_has(start + 0x2000 + layer * SHADOW_STRIDE, 0x2000));
    }
    assert_eq!(shadow(start + 0x2000), [7, 8], "beside what was unmapped");
    map(start, 0x2000, READ_WRITE, ANONYMOUS | libc::MAP_FIXED, -1, 0).unwrap();
    assert_eq!([0, 0xff8, 0x1ff8].map(|offset| shadow(start + offset)), [[0; 2]; 3], "unmapped and mapped again");
    assert_eq!(shadow(start + 0x2000), [7, 8], "beside what was mapped");
    unmap(start, 0x4000).unwrap();
    assert!(!host_has(start + SHADOW_STRIDE, 0x4000));
}

#[test]
fn a_child_finds_no_shadow_where_its_memory_is_wiped() {
    let _lock = address_space();
    let start = map_alone(0x6000);
    let words = |from: u64, to: u64| (start + from..start + to).step_by(0x7f8);
    words(0, 0x6000).for_each(|at| set_shadow(at, 7));
    advise(start + 0x1000, 0x4000, libc::MADV_WIPEONFORK).unwrap();
    advise(start + 0x4000, 0x1000, libc::MADV_KEEPONFORK).unwrap();
    // SAFETY: the child reads and writes memory of its own, and ends without running anything of the parent's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        super::wipe_in_child();
        let right = words(0, 0x6000).all(|at| {
            let wiped = (start + 0x1000..start + 0x4000).contains(&at);
            shadow(at) == if wiped { [0, 0] } else { [7, 8] }
        });
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
    assert!(words(0, 0x6000).all(|at| shadow(at) == [7, 8]), "in the parent");
    unmap(start, 0x6000).unwrap();
}

#[test]
fn each_of_many_neighbours_has_its_own_shadow() {
    let _lock = address_space();
    const PAGES: u64 = 12;
    let start = map_alone(PAGES * PAGE);
    let mut mapped = [true; PAGES as usize];
    let last = |page: u64| start + page * PAGE + PAGE - 8;
    // Unmapped and mapped one by one in a mixed order, with a mark at both ends of each page.
    for step in 0..60 {
        let page = step * 5 % PAGES;
        let at = start + page * PAGE;
        let is_mapped = &mut mapped[page as usize];
        if *is_mapped {
            unmap(at, PAGE).unwrap();
        } else {
            map(at, PAGE, READ_WRITE, ANONYMOUS | libc::MAP_FIXED, -1, 0).unwrap();
            assert_eq!((shadow(at), shadow(last(page))), ([0, 0], [0, 0]), "fresh");
            set_shadow(at, page + 1);
            set_shadow(last(page), page + 1);
        }
        *is_mapped = !*is_mapped;
        for page in (0..PAGES).filter(|&page| mapped[page as usize] && step >= 2 * PAGES) {
            let expected = [page + 1, page + 2];
            assert_eq!((shadow(start + page * PAGE), shadow(last(page))), (expected, expected), "page {page}");
        }
    }
    unmap(start, PAGES * PAGE).unwrap();
    assert!(!host_has(start + SHADOW_STRIDE, PAGES * PAGE), "nothing is left");
}

#[test]
fn a_moved_mapping_takes_its_shadow_along() {
    let _lock = address_space();
    let start = map_alone(0x3000);
    let wall = start + 0x3000;
    map(wall, 0x1000, READ_WRITE, ANONYMOUS | libc::MAP_FIXED, -1, 0).unwrap();
    set_shadow(start, 50);
    set_shadow(start + 0x1008, 5);
    set_shadow(start + 0x2ff8, 60);
    user::write(start + 0x1008, 77u64).unwrap();
    assert_eq!(remap(start, 0x3000, 0x8000, 0, 0), Err(libc::ENOMEM), "no room and not allowed to move");
    let moved = remap(start, 0x3000, 0x8000, libc::MREMAP_MAYMOVE, 0).unwrap();
    assert_ne!(moved, start);
    assert_eq!(user::read(moved + 0x1008), Ok(77u64));
    assert_eq!(shadow(moved + 0x1008), [5, 6]);
    assert_eq!([0, 0x2ff8].map(|offset| shadow(moved + offset)), [[50, 51], [60, 61]], "its ends");
    assert_eq!(shadow(moved + 0x7000), [0, 0]);
    assert_eq!(mapping_at(start), None);
    assert!(!host_has(start + SHADOW_STRIDE, 0x2000));
    // Growing in place keeps it, shrinking drops the rest.
    unmap(wall, 0x1000).unwrap();
    let grown = remap(moved, 0x8000, 0x9000, 0, 0).unwrap();
    assert_eq!((grown, shadow(moved + 0x1008), shadow(moved + 0x8000)), (moved, [5, 6], [0, 0]));
    assert_eq!(remap(moved, 0x9000, 0x2000, 0, 0), Ok(moved));
    assert!(!host_has(moved + 0x2000, 0x7000) && !host_has(moved + 0x3000 + SHADOW_STRIDE, 0x6000));
    unmap(moved, 0x2000).unwrap();
}

#[test]
fn discarded_memory_becomes_passive() {
    let _lock = address_space();
    let start = map_anonymous(0x3000);
    for page in 0..3 {
        set_shadow(start + page * 0x1000, 3);
    }
    advise(start + 0x1000, 0x1000, libc::MADV_DONTNEED).unwrap();
    assert_eq!([0, 0x1000, 0x2000].map(|offset| shadow(start + offset)[0]), [3, 0, 3]);
    unmap(start, 0x3000).unwrap();
}

#[test]
fn clearing_respects_byte_bounds_small_and_large() {
    let _lock = address_space();
    const LENGTH: u64 = 1 << 20;
    let start = map_anonymous(LENGTH);
    for (from, to) in
        [(0x1003, 0x1015), (0x1003, 0x3016), (0x1018, 0x1038), (0x1000, 0x1024), (0x1003, LENGTH - 0x1ffd)]
    {
        for address in (start..start + LENGTH).step_by(8) {
            set_shadow(address, u64::MAX - 1);
        }
        clear_shadow(start + from, to - from);
        for layer in [1, 2] {
            // SAFETY: both layers are mapped.
            let bytes =
                unsafe { std::slice::from_raw_parts((start + layer * SHADOW_STRIDE) as *const u8, LENGTH as usize) };
            for (offset, &byte) in bytes.iter().enumerate() {
                assert_eq!(byte == 0, (from..to).contains(&(offset as u64)), "byte {offset:#x} of layer {layer}");
            }
        }
    }
    unmap(start, LENGTH).unwrap();
}

#[test]
fn the_heap_grows_and_shrinks() {
    let _lock = address_space();
    let start = heap().start;
    assert_eq!(change_break(0), start);
    assert_eq!(change_break(start + 0x1801), start + 0x1801);
    assert!(user::write(start + 0x1fff, 1u8).is_ok());
    set_shadow(start + 0x1000, 9);
    assert_eq!(change_break(start + 0x800), start + 0x800);
    assert_eq!(mapping_at(start + 0x1000), None);
    assert_eq!(change_break(start + 0x2000), start + 0x2000);
    assert_eq!(shadow(start + 0x1000), [0, 0], "given back and taken again");
    assert_eq!(change_break(start - 1), start + 0x2000, "below its start");
    assert_eq!(change_break(start), start);
}

#[test]
fn the_applications_own_limit_counts_its_own_memory_only() {
    let _lock = address_space();
    let total: u64 = mappings().iter().map(|mapping| mapping.end - mapping.start).sum();
    set_size_limit(total + 0x3000);
    let start = map_anonymous(0x2000);
    assert_eq!(map(0, 0x2000, READ_WRITE, ANONYMOUS, -1, 0), Err(libc::ENOMEM));
    set_size_limit(u64::MAX);
    unmap(start, 0x2000).unwrap();
}

#[test]
fn a_mapping_that_grows_does_so_with_its_shadow() {
    let _lock = address_space();
    let start = map(0, PAGE, READ_WRITE, ANONYMOUS | libc::MAP_GROWSDOWN, -1, 0).unwrap();
    let beside = map_anonymous(PAGE);
    assert!(beside > start || beside < start - 8 * PAGE, "room is kept");
    let lowest = start - 3 * PAGE;
    assert!(growth::grow_for_access(lowest + 5));
    assert_eq!(mapping_at(lowest).map(|mapping| mapping.start..mapping.end), Some(lowest..start + PAGE));
    assert_eq!(shadow(lowest), [0, 0]);
    set_shadow(lowest, 7);
    assert!(growth::grow_for_engine(lowest - 8) && !growth::grow_for_engine(lowest), "it is mapped already");
    assert_eq!(shadow(lowest), [7, 8]);
    unmap(lowest - PAGE, 5 * PAGE).unwrap();
    assert!(!growth::grow_for_access(lowest), "nothing is left to grow");
    assert!(!host_has(lowest + SHADOW_STRIDE + PAGE, PAGE));
    unmap(beside, PAGE).unwrap();
}
