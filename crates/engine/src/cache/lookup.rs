//! Where indirect branches find the translation of their target.
//!
//! *First level:* a table for each version, from the low 16 bits of an application address to code. Cached code jumps straight through it
//! ([`first_level`]). What it finds is a block's *checked entry*, which compares the address (in RAX) with its own; if they differ, or if the entry is empty,
//! the *search routine* of the version goes on (`translate::trampolines`).
//!
//! *Second level:* [`WAYS`] pairs of address and checked entry for each hash of an address. If none matches, the thread leaves for the dispatcher.
//!
//! The tables belong to all threads. An entry that another thread changes meanwhile is found out by the check, so that they need no lock for reading.
//! Entries are made and removed under the cache's lock. Each space of the cache has tables of its own, so that code of one generation never finds code of
//! another. They lie below the base of GS, where cached code reaches them by a displacement.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use iced_x86::{MemoryOperand, Register};

use crate::memory::{self, APP_END, SHADOW_STRIDE};
use crate::tool::{VERSIONS, Version};
use crate::translate::trampolines::{self, Search};

/// Entries of a table.
const ENTRIES: usize = 1 << 16;
const TABLE_BYTES: u64 = ENTRIES as u64 * 8;
/// How many addresses with the same hash the second level holds.
pub(crate) const WAYS: usize = 4;
/// Tables of a set: the first level, one whose entries all lead to the dispatcher, and two for each way of the second level.
const TABLES: u64 = 2 + 2 * WAYS as u64;
/// Number of sets: one for each version in each space of the cache.
pub(crate) const SETS: usize = 2 * VERSIONS;
/// Where the tables are: behind all that the application can map.
const PLACE: Range<u64> = APP_END - (1 << 30)..APP_END - (1 << 30) + SETS as u64 * TABLES * TABLE_BYTES;
const _: () = assert!(PLACE.start >= memory::APP_TOP && SHADOW_STRIDE - PLACE.start < 1 << 31);

/// The tables of one version in one space of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Set(usize);

impl Set {
    /// The set of a version in the space with this number.
    pub fn of(space: usize, version: Version) -> Set {
        Set(space * VERSIONS + usize::from(version.0))
    }

    /// All sets in order, with the exits of their search routines.
    pub fn all() -> [(Set, u64); SETS] {
        std::array::from_fn(|number| {
            let (space, version) = (number / VERSIONS, Version((number % VERSIONS) as u8));
            (Set(number), super::space::indirect_exit(space, version))
        })
    }

    /// Its place in [`Set::all`].
    pub fn number(self) -> usize {
        self.0
    }
}

/// A table of a set.
#[derive(Clone, Copy)]
enum Table {
    First,
    /// For branches of a block that has to be left: each entry is that of the way to the dispatcher.
    Leaving,
    /// Two's complement of the application address, or 0 for none.
    Negated(usize),
    /// The checked entry of its translation.
    Code(usize),
}

impl Table {
    fn address(self, set: Set) -> u64 {
        let number = match self {
            Table::First => 0,
            Table::Leaving => 1,
            Table::Negated(way) => 2 + 2 * way as u64,
            Table::Code(way) => 3 + 2 * way as u64,
        };
        PLACE.start + (set.0 as u64 * TABLES + number) * TABLE_BYTES
    }

    fn displacement(self, set: Set) -> i32 {
        self.address(set).wrapping_sub(SHADOW_STRIDE) as i64 as i32
    }

    /// The operand `gs:[register * 8 + table]`.
    fn operand(self, set: Set, slot: Register) -> MemoryOperand {
        MemoryOperand::new(Register::None, slot, 8, self.displacement(set).into(), 8, false, Register::GS)
    }

    fn entry(self, set: Set, slot: usize) -> &'static AtomicU64 {
        assert!(slot < ENTRIES);
        // SAFETY: `init` has mapped all tables; they stay, and are only accessed atomically.
        unsafe { AtomicU64::from_ptr((self.address(set) + 8 * slot as u64) as *mut u64) }
    }
}

/// The displacement from the base of GS of a set's first level. To be indexed with the low 16 bits of an address.
pub(crate) fn first_level(set: Set) -> i32 {
    Table::First.displacement(set)
}

/// Operands of one way of the second level: negated addresses and code, indexed with [`second_slot`].
pub(crate) fn second_level(set: Set, way: usize, slot: Register) -> [MemoryOperand; 2] {
    [Table::Negated(way).operand(set, slot), Table::Code(way).operand(set, slot)]
}

fn first_slot(address: u64) -> usize {
    usize::from(address as u16)
}

/// The hash of an address in the second level. All of its low 32 bits count. (The search routine computes the same with instructions that leave
/// the flags alone.)
fn second_slot(address: u64) -> usize {
    let low = address as u32;
    usize::from(low.wrapping_add(low.swap_bytes()) as u16)
}

/// Maps the tables.
///
/// # Errors
/// If they cannot be mapped; the text says what the system answered.
pub(super) fn init() -> Result<(), String> {
    memory::map_for_engine(PLACE).map_err(|error| {
        let error = std::io::Error::from_raw_os_error(error);
        format!("cannot map the tables of indirect branches at {:#x}: {error}", PLACE.start)
    })
}

/// The tables, as the holder of the cache's lock sees them.
#[derive(Default)]
pub(super) struct Lookup {
    /// Sets whose first level is in order.
    prepared: [bool; SETS],
    /// Sets whose table of ways to the dispatcher is in order.
    leaving_prepared: [bool; SETS],
    /// Which way of the second level is overwritten next.
    turn: usize,
}

impl Lookup {
    /// To be called before code that looks into this set is executed.
    pub fn prepare(&mut self, set: Set) {
        if !std::mem::replace(&mut self.prepared[set.0], true) {
            fill(Table::First, set, trampolines::search(set).start);
        }
    }

    /// The displacement that makes a branch which looks into this set lead to the dispatcher. For use in signal handlers.
    pub fn leaving(&mut self, set: Set) -> i32 {
        if !std::mem::replace(&mut self.leaving_prepared[set.0], true) {
            fill(Table::Leaving, set, trampolines::search(set).leave);
        }
        Table::Leaving.displacement(set)
    }

    /// Enters the checked entry of the translation of `address`.
    pub fn enter(&mut self, address: u64, set: Set, code: u64) {
        Table::First.entry(set, first_slot(address)).store(code, Ordering::Release);
        let slot = second_slot(address);
        let key = address.wrapping_neg();
        let holds =
            |wanted: u64| (0..WAYS).find(|&way| Table::Negated(way).entry(set, slot).load(Ordering::Relaxed) == wanted);
        let way = holds(key).or_else(|| holds(0)).unwrap_or_else(|| {
            self.turn = (self.turn + 1) % WAYS;
            self.turn
        });
        Table::Code(way).entry(set, slot).store(code, Ordering::Release);
        Table::Negated(way).entry(set, slot).store(key, Ordering::Release);
    }

    /// Removes it.
    pub fn remove(&self, address: u64, set: Set, code: u64) {
        let first = Table::First.entry(set, first_slot(address));
        if first.load(Ordering::Relaxed) == code {
            first.store(trampolines::search(set).start, Ordering::Release);
        }
        for way in 0..WAYS {
            let negated = Table::Negated(way).entry(set, second_slot(address));
            if negated.load(Ordering::Relaxed) == address.wrapping_neg() {
                negated.store(0, Ordering::Release);
            }
        }
    }
}

fn fill(table: Table, set: Set, code: u64) {
    (0..ENTRIES).for_each(|slot| table.entry(set, slot).store(code, Ordering::Release));
}

/// The search routine that is at `pc`, if one is: another way to the dispatcher has to be found from there.
pub(super) fn searching_at(pc: u64) -> Option<&'static Search> {
    trampolines::get().searches.iter().find(|search| (search.start..search.end).contains(&pc))
}
