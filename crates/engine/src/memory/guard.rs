//! Code that the program can write to: pages from which code has been translated are write-protected in the host, so that a write
//! to them is noticed and the translations are dropped.
//!
//! A page is guarded when the translator reads it and released at the first write. The application never sees the difference: the
//! fault is taken by the engine, and the instruction is executed again.
//!
//! Some pages cannot be guarded for long: those whose own code writes to them, and those that hold code and data that is written
//! all the time, such as a stack with trampolines. They become *volatile*: their code is executed instruction by instruction, each of which is
//! compared with what it was translated from.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::map::{Kind, Mapping};
use super::{Aftermath, PAGE, State, host, state};

/// How often a page is released before it becomes volatile. A release costs as much as some ten thousand instructions, but makes code run
/// at full speed until the next one; compilers that add code to a page in use stay below this.
const PATIENCE: u32 = 1000;
/// Longest instruction.
const LONGEST_INSTRUCTION: u64 = 15;

/// Whether there is any volatile page, so that programs without need not look.
static ANY_VOLATILE: AtomicBool = AtomicBool::new(false);

/// What is known about pages with code that the program can change.
#[derive(Debug, Default)]
pub(super) struct Guards {
    /// Pairs of a page that is write-protected and the page of code that changes with it. They differ if the same memory is mapped
    /// twice, once for writing and once for execution.
    pairs: BTreeSet<(u64, u64)>,
    /// How often a write has released a page of code.
    releases: BTreeMap<u64, u32>,
    volatile: BTreeSet<u64>,
}

impl Guards {
    pub(super) const fn new() -> Guards {
        Guards { pairs: BTreeSet::new(), releases: BTreeMap::new(), volatile: BTreeSet::new() }
    }

    fn within(&self, range: &Range<u64>) -> Vec<(u64, u64)> {
        let first = range.start & !(PAGE - 1);
        self.pairs.range((first, 0)..(range.end, 0)).copied().collect()
    }

    /// A write by the instruction at `writer` has released a page of code.
    fn count_release(&mut self, code: u64, writer: u64) {
        let count = self.releases.entry(code).or_default();
        *count += 1;
        let by_itself =
            (code..code + PAGE).contains(&writer) || (code..code + PAGE).contains(&(writer + LONGEST_INSTRUCTION));
        if by_itself || *count >= PATIENCE {
            self.volatile.insert(code);
            ANY_VOLATILE.store(true, Ordering::Relaxed);
        }
    }

    /// The pages in `range` are about to become something else.
    fn forget(&mut self, range: &Range<u64>) {
        self.releases.retain(|page, _| !range.contains(page));
        self.volatile.retain(|page| !range.contains(page));
    }
}

impl State {
    /// Guards the code at `address`, as far as a block reaches from there.
    pub(super) fn guard(&mut self, address: u64) {
        // A block is shorter than a page.
        let first = address & !(PAGE - 1);
        for code in [first, first + PAGE] {
            let Some(mapping) = self.map.at(code).filter(|mapping| mapping.protection.execute) else { break };
            let mapping = mapping.clone();
            if self.guards.volatile.contains(&code) {
                continue;
            }
            if mapping.protection.write {
                self.guard_page(code, code);
            }
            if mapping.shared {
                for writable in self.aliases(&mapping, code) {
                    self.guard_page(writable, code);
                }
            }
        }
    }

    fn guard_page(&mut self, written: u64, code: u64) {
        let Some(protection) = self.map.at(written).map(|mapping| mapping.protection) else { return };
        if self.guards.pairs.insert((written, code)) {
            // Without the protection a change of the code would go unnoticed; there is nothing else to be done about a failure.
            let _ = host::protect(written..written + PAGE, protection.host_bits() & !libc::PROT_WRITE);
        }
    }

    /// Other pages through which the shared memory at `page` can be written.
    fn aliases(&self, mapping: &Mapping, page: u64) -> Vec<u64> {
        let place = place_in_object(mapping, page);
        self.map
            .iter()
            .filter(|other| other.shared && other.protection.write && same_object(&other.kind, &mapping.kind))
            .filter_map(|other| {
                let start = place_in_object(other, other.start);
                let distance = place.checked_sub(start)?;
                (distance < other.end - other.start).then_some(other.start + distance)
            })
            .filter(|&alias| alias != page)
            .collect()
    }

    /// Releases the guards of the pages in `range`. What was translated from them goes to `aftermath`. Returns the pages of code.
    fn release_pages(&mut self, range: &Range<u64>, aftermath: &mut Aftermath) -> Vec<u64> {
        let pairs = self.guards.within(range);
        for &(written, code) in &pairs {
            self.guards.pairs.remove(&(written, code));
            if let Some(mapping) = self.map.at(written) {
                let _ = host::protect(written..written + PAGE, mapping.protection.host_bits());
            }
            aftermath.stale.push(code..code + PAGE);
        }
        pairs.into_iter().map(|(_, code)| code).collect()
    }

    /// The pages in `range` are about to be mapped anew, unmapped or protected in another way: nothing that is known about them stays.
    pub(super) fn release_guards(&mut self, range: Range<u64>, aftermath: &mut Aftermath) {
        self.release_pages(&range, aftermath);
        self.guards.forget(&range);
    }

    /// A new way to write to shared memory: what was translated from it has to be translated again, under guard.
    pub(super) fn new_alias(&self, new: &Mapping, aftermath: &mut Aftermath) {
        if !(new.shared && new.protection.write) {
            return;
        }
        let executable = self.map.iter().filter(|other| other.shared && other.protection.execute);
        aftermath
            .stale
            .extend(executable.filter(|other| same_object(&other.kind, &new.kind)).map(|other| other.start..other.end));
    }
}

/// Whether two mappings show the same object.
fn same_object(one: &Kind, other: &Kind) -> bool {
    match (one, other) {
        (Kind::File { origin: one, .. }, Kind::File { origin: other, .. }) => {
            (one.device, one.inode) == (other.device, other.inode)
        }
        (Kind::SharedSegment { identifier: one, .. }, Kind::SharedSegment { identifier: other, .. }) => one == other,
        _ => false,
    }
}

/// Offset of an address of `mapping` in what is mapped.
fn place_in_object(mapping: &Mapping, address: u64) -> u64 {
    match &mapping.kind {
        Kind::File { offset, .. } => offset + (address - mapping.start),
        Kind::SharedSegment { attached_at, .. } => address - attached_at,
        _ => 0,
    }
}

/// To be called when a write to `address` by the instruction at `writer` has faulted: whether it can be tried again, because a guard or nothing of
/// the application's own was in its way.
pub(crate) fn release_for_write(address: u64, writer: u64) -> bool {
    let mut aftermath = Aftermath::new();
    let mut state = state();
    for code in state.release_pages(&(address..address + 1), &mut aftermath) {
        state.guards.count_release(code, writer);
    }
    // Without a guard another thread may have released it between the fault and now.
    state.map.at(address).is_some_and(|mapping| mapping.protection.write)
}

/// Releases the guards in `range`, for a write by the engine or the kernel. Returns whether there were any.
pub(crate) fn release(range: Range<u64>) -> bool {
    let mut aftermath = Aftermath::new();
    !state().release_pages(&range, &mut aftermath).is_empty()
}

/// Whether the instruction at `address` may change without notice: it must be compared before each execution with what it was
/// translated from, and alone.
pub(crate) fn is_volatile(address: u64) -> bool {
    if !ANY_VOLATILE.load(Ordering::Relaxed) {
        return false;
    }
    let volatile = &state().guards.volatile;
    [address, address + LONGEST_INSTRUCTION].iter().any(|at| volatile.contains(&(at & !(PAGE - 1))))
}
