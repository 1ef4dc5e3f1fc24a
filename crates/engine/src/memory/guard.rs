//! Code that the program can write to: pages from which code has been translated are write-protected in the host, so that a write
//! to them is noticed and the translations are dropped.
//!
//! A page is guarded when the translator reads it and released at the first write. The application never sees the difference: the
//! fault is taken by the engine, and the instruction is executed again.

use std::collections::BTreeSet;
use std::ops::Range;

use super::map::{Kind, Mapping};
use super::{Aftermath, PAGE, State, host, state};

/// Pairs of a page that is write-protected and the page of code that changes with it. They differ if the same memory is mapped
/// twice, once for writing and once for execution.
#[derive(Debug, Default)]
pub(super) struct Guards(BTreeSet<(u64, u64)>);

impl Guards {
    pub(super) const fn new() -> Guards {
        Guards(BTreeSet::new())
    }

    fn within(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, u64)> + use<> {
        let first = range.start & !(PAGE - 1);
        self.0.range((first, 0)..(range.end, 0)).copied().collect::<Vec<_>>().into_iter()
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
        if self.guards.0.insert((written, code)) {
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

    /// Releases the guards of the pages in `range`. What was translated from them goes to `aftermath`. Returns whether there were any.
    pub(super) fn release_guards(&mut self, range: Range<u64>, aftermath: &mut Aftermath) -> bool {
        let mut any = false;
        for (written, code) in self.guards.within(&range) {
            self.guards.0.remove(&(written, code));
            if let Some(mapping) = self.map.at(written) {
                let _ = host::protect(written..written + PAGE, mapping.protection.host_bits());
            }
            aftermath.stale.push(code..code + PAGE);
            any = true;
        }
        any
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

/// To be called when a write to `address` has faulted: whether it can be tried again, because a guard or nothing of the application's own
/// was in its way.
pub(crate) fn release_for_write(address: u64) -> bool {
    let mut aftermath = Aftermath::default();
    let mut state = state();
    let released = state.release_guards(address..address + 1, &mut aftermath);
    // Another thread may have released it between the fault and now.
    released || state.map.at(address).is_some_and(|mapping| mapping.protection.write)
}

/// Releases the guards in `range`, for a write by the engine or the kernel. Returns whether there were any.
pub(crate) fn release(range: Range<u64>) -> bool {
    let mut aftermath = Aftermath::default();
    state().release_guards(range, &mut aftermath)
}
