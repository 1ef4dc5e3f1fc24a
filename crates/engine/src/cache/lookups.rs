//! The look-up tables of indirect branches, one for each thread and version.
//!
//! An entry is made under the cache's lock, by the thread that the table belongs to, for a block that is valid then. So what is removed when a
//! block is forgotten is complete: nobody can put an entry back for it.

use std::sync::atomic::Ordering;

use super::Key;
use crate::context::{Context, LOOKUP_ENTRIES, LookupTable};
use crate::thread;

/// From so many keys on, looking at all entries is quicker.
const MANY: usize = LOOKUP_ENTRIES;

/// Enters the translation of `key` into the thread's table. The cache must be locked.
pub(super) fn remember(context: &Context, key: Key, code: u64) {
    let (address, version) = key;
    let table = &context.lookup[usize::from(version.0)];
    let slot = LookupTable::slot(address);
    // The key last: until it is there, the old key finds the old code or, at worst, misses.
    table.negated[slot].store(0, Ordering::Release);
    table.code[slot].store(code, Ordering::Release);
    table.negated[slot].store(address.wrapping_neg(), Ordering::Release);
}

/// Removes the entries for `keys` from the tables of all threads. The cache must be locked.
pub(super) fn remove(keys: &[Key]) {
    if keys.is_empty() {
        return;
    }
    thread::for_each(|context| {
        // SAFETY: registered contexts are alive while the registry is locked, and the tables are atomic.
        let lookup = unsafe { &(*context).lookup };
        if keys.len() > MANY {
            lookup.iter().flat_map(|table| &table.negated).for_each(clear);
            return;
        }
        for &(address, version) in keys {
            let entry = &lookup[usize::from(version.0)].negated[LookupTable::slot(address)];
            if entry.load(Ordering::Relaxed) == address.wrapping_neg() {
                entry.store(0, Ordering::Release);
            }
        }
    });
}

/// (A load first: pages of tables that were never written to stay shared.)
fn clear(entry: &std::sync::atomic::AtomicU64) {
    if entry.load(Ordering::Relaxed) != 0 {
        entry.store(0, Ordering::Release);
    }
}
