//! Interval map of the application's mappings: pure data, no system calls.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::PAGE;
use super::growth::ROOM;

/// Access that the application asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Protection {
    /// Loads are permitted.
    pub read: bool,
    /// Stores are permitted.
    pub write: bool,
    /// Instruction fetches are permitted.
    pub execute: bool,
}

impl Protection {
    /// From the `prot` argument of `mmap` and `mprotect`.
    pub fn from_bits(bits: i32) -> Self {
        Protection {
            read: bits & libc::PROT_READ != 0,
            write: bits & libc::PROT_WRITE != 0,
            execute: bits & libc::PROT_EXEC != 0,
        }
    }

    /// Whether the processor lets the application load from here: executable and writable pages are readable on amd64.
    pub fn readable(self) -> bool {
        self.read || self.write || self.execute
    }

    /// What the host mapping gets. Application code is never executed in place, so it needs no execute permission, but the
    /// translator has to read it.
    pub fn host_bits(self) -> i32 {
        let mut bits = libc::PROT_NONE;
        if self.read || self.execute {
            bits |= libc::PROT_READ;
        }
        if self.write {
            bits |= libc::PROT_WRITE;
        }
        bits
    }
}

/// The file behind a mapping.
#[derive(Debug, PartialEq, Eq)]
pub struct FileOrigin {
    /// Path as the kernel names it in `/proc/self/fd`.
    pub path: Box<Path>,
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

/// What a mapping was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anonymous memory.
    Anonymous,
    /// A file, with the offset that belongs to the mapping's start.
    File {
        /// The file.
        origin: Arc<FileOrigin>,
        /// Offset of the mapping's first byte in the file.
        offset: u64,
    },
    /// The main thread's stack.
    Stack,
    /// The `brk` heap.
    Brk,
    /// A System V shared memory segment, with its identifier.
    SharedSegment {
        /// As returned by `shmget`.
        identifier: i32,
        /// Where `shmat` put it: pieces that remain of a partly unmapped segment keep it.
        attached_at: u64,
    },
}

impl Kind {
    /// The kind of the part that begins `bytes` later.
    pub(super) fn advanced(&self, bytes: u64) -> Kind {
        match self {
            Kind::File { origin, offset } => Kind::File { origin: origin.clone(), offset: offset + bytes },
            other => other.clone(),
        }
    }
}

/// A range of application memory with the same attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind.
    pub end: u64,
    /// Access that the application asked for.
    pub protection: Protection,
    /// Whether stores are visible to other mappings of the same object (`MAP_SHARED`).
    pub shared: bool,
    /// Whether stores have been permitted at some time since it was mapped.
    pub was_writable: bool,
    /// Whether a forked child finds zeros there (`MADV_WIPEONFORK`).
    pub wiped: bool,
    /// Whether an access below makes it longer (`MAP_GROWSDOWN`).
    pub grows_down: bool,
    /// What is mapped.
    pub kind: Kind,
}

impl Mapping {
    /// A private mapping.
    pub fn private(range: Range<u64>, protection: Protection, kind: Kind) -> Mapping {
        let Range { start, end } = range;
        let was_writable = protection.write;
        Mapping { start, end, protection, shared: false, was_writable, wiped: false, grows_down: false, kind }
    }

    /// Whether the program can never have stored anything there: a private file mapping that it cannot and could not write.
    pub fn is_constant(&self) -> bool {
        !self.shared && !self.was_writable && matches!(self.kind, Kind::File { .. })
    }

    fn slice(&self, range: Range<u64>) -> Mapping {
        Mapping {
            start: range.start,
            end: range.end,
            protection: self.protection,
            shared: self.shared,
            was_writable: self.was_writable,
            wiped: self.wiped,
            grows_down: self.grows_down,
            kind: self.kind.advanced(range.start - self.start),
        }
    }

    fn continues_as(&self, next: &Mapping) -> bool {
        self.end == next.start
            && self.protection == next.protection
            && self.shared == next.shared
            && self.was_writable == next.was_writable
            && self.wiped == next.wiped
            && self.grows_down == next.grows_down
            && self.kind.advanced(self.end - self.start) == next.kind
    }
}

/// All mappings, ordered, free of overlap; neighbours with equal attributes are merged.
#[derive(Debug, Default)]
pub struct IntervalMap {
    by_start: BTreeMap<u64, Mapping>,
}

impl IntervalMap {
    /// An empty map.
    pub const fn new() -> Self {
        IntervalMap { by_start: BTreeMap::new() }
    }

    /// The mapping that holds `address`.
    pub fn at(&self, address: u64) -> Option<&Mapping> {
        self.by_start.range(..=address).next_back().map(|(_, mapping)| mapping).filter(|mapping| address < mapping.end)
    }

    /// The mapping below `address` and the one above, if nothing is mapped there.
    pub fn around(&self, address: u64) -> (Option<&Mapping>, Option<&Mapping>) {
        let below = self.by_start.range(..=address).next_back().map(|(_, mapping)| mapping);
        (below, self.by_start.range(address..).next().map(|(_, mapping)| mapping))
    }

    /// Mappings that share an address with `range`, in order.
    pub fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = &Mapping> {
        let first = self.at(range.start).map_or(range.start, |mapping| mapping.start);
        self.by_start.range(first..range.end.max(first)).map(|(_, mapping)| mapping)
    }

    /// All mappings in order.
    pub fn iter(&self) -> impl Iterator<Item = &Mapping> {
        self.by_start.values()
    }

    /// Whether nothing is mapped in `range`.
    pub fn is_free(&self, range: Range<u64>) -> bool {
        self.overlapping(range).next().is_none()
    }

    /// Whether all of `range` is mapped.
    pub fn is_covered(&self, range: Range<u64>) -> bool {
        let mut reached = range.start;
        for mapping in self.overlapping(range.clone()) {
            if mapping.start > reached {
                return false;
            }
            reached = mapping.end;
        }
        reached >= range.end
    }

    /// Takes `range` out and returns what was there, cut to the range.
    pub fn remove(&mut self, range: Range<u64>) -> Vec<Mapping> {
        let touched: Vec<u64> = self.overlapping(range.clone()).map(|mapping| mapping.start).collect();
        let mut removed = Vec::with_capacity(touched.len());
        for start in touched {
            let Some(mapping) = self.by_start.remove(&start) else {
                continue;
            };
            let cut = mapping.start.max(range.start)..mapping.end.min(range.end);
            if mapping.start < cut.start {
                self.by_start.insert(mapping.start, mapping.slice(mapping.start..cut.start));
            }
            if cut.end < mapping.end {
                self.by_start.insert(cut.end, mapping.slice(cut.end..mapping.end));
            }
            removed.push(mapping.slice(cut));
        }
        removed
    }

    /// Adds a mapping; its range must be free.
    pub fn insert(&mut self, mapping: Mapping) {
        debug_assert!(self.is_free(mapping.start..mapping.end));
        let mut merged = mapping;
        if let Some((_, before)) = self.by_start.range(..merged.start).next_back()
            && before.continues_as(&merged)
        {
            let (start, kind) = (before.start, before.kind.clone());
            merged.start = start;
            merged.kind = kind;
        }
        if let Some(after) = self.by_start.get(&merged.end)
            && merged.continues_as(after)
        {
            let end = after.end;
            self.by_start.remove(&merged.end);
            merged.end = end;
        }
        self.by_start.insert(merged.start, merged);
    }

    /// Changes the protection of all that is mapped in `range`; returns the previous state of the parts that changed.
    pub fn protect(&mut self, range: Range<u64>, protection: Protection) -> Vec<Mapping> {
        let before = self.remove(range);
        for mapping in &before {
            let was_writable = mapping.was_writable || protection.write;
            self.insert(Mapping { protection, was_writable, ..mapping.clone() });
        }
        before.into_iter().filter(|mapping| mapping.protection != protection).collect()
    }

    /// Says whether a forked child finds zeros in all that is mapped in `range`.
    pub fn set_wiped(&mut self, range: Range<u64>, wiped: bool) {
        for mapping in self.remove(range) {
            self.insert(Mapping { wiped, ..mapping });
        }
    }

    /// The lowest free range of `length` bytes in `window` that leaves room to mappings that grow, and whose start is a multiple of `alignment` (a power of two).
    pub fn lowest_gap(&self, window: Range<u64>, length: u64, alignment: u64) -> Option<u64> {
        let mut candidate = window.start.next_multiple_of(alignment);
        for mapping in self.overlapping(window.clone()) {
            let room = if mapping.grows_down { ROOM } else { 0 };
            if candidate.checked_add(length)?.checked_add(room)? <= mapping.start {
                break;
            }
            candidate = candidate.max(mapping.end.next_multiple_of(alignment));
        }
        (candidate.checked_add(length)? <= window.end).then_some(candidate)
    }

    /// End of the contiguous readable bytes from `address` on that can be executed; `None` if not even the first can.
    pub fn executable_until(&self, address: u64) -> Option<u64> {
        let mut reached = address;
        for mapping in self.overlapping(address..u64::MAX) {
            if mapping.start > reached || !mapping.protection.execute {
                break;
            }
            reached = mapping.end;
        }
        (reached > address).then_some(reached)
    }

    /// Total of the mapped bytes.
    pub fn total(&self) -> u64 {
        self.iter().map(|mapping| mapping.end - mapping.start).sum()
    }
}

/// Rounds up to whole pages; `None` on overflow.
pub fn pages_up(bytes: u64) -> Option<u64> {
    bytes.checked_add(PAGE - 1).map(|sum| sum & !(PAGE - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anonymous(range: Range<u64>) -> Mapping {
        Mapping::private(range, Protection::from_bits(libc::PROT_READ), Kind::Anonymous)
    }

    fn file(range: Range<u64>, offset: u64) -> Mapping {
        let origin = Arc::new(FileOrigin { path: Path::new("/lib/x").into(), device: 1, inode: 2 });
        Mapping { kind: Kind::File { origin, offset }, ..anonymous(range) }
    }

    #[test]
    fn removing_the_middle_leaves_both_ends_with_their_file_offsets() {
        let mut map = IntervalMap::new();
        map.insert(file(0x1000..0x5000, 0x8000));
        let removed = map.remove(0x2000..0x3000);
        assert_eq!(removed, [file(0x2000..0x3000, 0x9000)]);
        let rest: Vec<Mapping> = map.iter().cloned().collect();
        assert_eq!(rest, [file(0x1000..0x2000, 0x8000), file(0x3000..0x5000, 0xa000)]);
    }

    #[test]
    fn neighbours_merge_only_when_they_continue_each_other() {
        let mut map = IntervalMap::new();
        map.insert(anonymous(0x1000..0x2000));
        map.insert(anonymous(0x3000..0x4000));
        map.insert(anonymous(0x2000..0x3000));
        map.insert(file(0x4000..0x5000, 0));
        map.insert(file(0x5000..0x6000, 0x7000));
        map.insert(file(0x6000..0x7000, 0x8000));
        let ranges: Vec<(u64, u64)> = map.iter().map(|m| (m.start, m.end)).collect();
        assert_eq!(ranges, [(0x1000, 0x4000), (0x4000, 0x5000), (0x5000, 0x7000)]);
    }

    #[test]
    fn gaps_are_found_between_mappings_and_respect_alignment() {
        let mut map = IntervalMap::new();
        map.insert(anonymous(0x1000..0x2000));
        map.insert(anonymous(0x4000..0x5000));
        assert_eq!(map.lowest_gap(0x1000..0x10000, 0x2000, 0x1000), Some(0x2000));
        assert_eq!(map.lowest_gap(0x1000..0x10000, 0x3000, 0x1000), Some(0x5000));
        assert_eq!(map.lowest_gap(0x1000..0x10000, 0x1000, 0x8000), Some(0x8000));
        assert_eq!(map.lowest_gap(0x1000..0x6000, 0x3000, 0x1000), None);
    }

    #[test]
    fn executable_range_ends_where_permission_or_contiguity_ends() {
        let mut map = IntervalMap::new();
        let text = Protection::from_bits(libc::PROT_READ | libc::PROT_EXEC);
        map.insert(Mapping { protection: text, ..anonymous(0x1000..0x2000) });
        map.insert(Mapping { protection: text, ..file(0x2000..0x3000, 0) });
        map.insert(anonymous(0x3000..0x4000));
        map.insert(Mapping { protection: text, ..anonymous(0x5000..0x6000) });
        assert_eq!(map.executable_until(0x1800), Some(0x3000));
        assert_eq!(map.executable_until(0x3000), None);
        assert_eq!(map.executable_until(0x4000), None);
        assert_eq!(map.executable_until(0x5000), Some(0x6000));
    }

    #[test]
    fn protection_changes_report_only_what_differed() {
        let mut map = IntervalMap::new();
        map.insert(anonymous(0x1000..0x3000));
        let changed = map.protect(0x2000..0x3000, Protection::from_bits(libc::PROT_READ));
        assert!(changed.is_empty());
        let none = Protection::default();
        let changed = map.protect(0x2000..0x3000, none);
        assert_eq!(changed, [anonymous(0x2000..0x3000)]);
        assert!(map.is_covered(0x1000..0x3000));
        assert!(!map.is_covered(0x1000..0x4000));
    }
}
