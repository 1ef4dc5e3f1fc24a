//! Counts of places where an active value met an operation that is not differentiated.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Lost activity by instruction address.
#[derive(Default)]
pub(super) struct Lost {
    counts: Mutex<BTreeMap<u64, u64>>,
    narrow: AtomicBool,
}

impl Lost {
    /// Activity is lost at this instruction.
    pub fn count(&self, address: u64) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(address).or_default() += 1;
    }

    /// A binary32 result needs an index that its shadow cannot hold.
    pub fn narrow_exhausted(&self, address: u64) {
        self.narrow.store(true, Ordering::Relaxed);
        self.count(address);
    }

    /// Whether there are no indices left for binary32 values.
    pub fn is_narrow_exhausted(&self) -> bool {
        self.narrow.load(Ordering::Relaxed)
    }

    /// Address and count of each place, the most frequent first.
    pub fn places(&self) -> Vec<(u64, u64)> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut places: Vec<(u64, u64)> = counts.iter().map(|(address, count)| (*address, *count)).collect();
        places.sort_by_key(|(address, count)| (std::cmp::Reverse(*count), *address));
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_listed_by_frequency() {
        let lost = Lost::default();
        for address in [30, 10, 20, 20] {
            lost.count(address);
        }
        assert_eq!(lost.places(), [(20, 2), (10, 1), (30, 1)]);
        assert!(!lost.is_narrow_exhausted());
        lost.narrow_exhausted(10);
        assert!(lost.is_narrow_exhausted());
    }
}
