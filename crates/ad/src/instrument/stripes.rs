//! Locks for stretches of application memory, a fixed number of them, chosen by the address.
//!
//! They are held while an instruction of the application is executed, so they are no guards of Rust's.

use std::sync::atomic::{AtomicU32, Ordering};

/// Number of locks. More threads than a machine has are in no danger of meeting by chance.
const STRIPES: usize = 1 << 12;
/// Bytes that share a lock: operands that overlap meet at one of theirs.
const GRANULE: u64 = 64;
/// How often a lock is tried before other threads get the processor.
const PATIENCE: u32 = 64;

static LOCKS: [AtomicU32; STRIPES] = [const { AtomicU32::new(0) }; STRIPES];

/// The locks that a thread holds: none, one, or, for an operand across a boundary, two. All-zero bytes are a valid value: none.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct Stripes([u32; 2]);

/// Takes what belongs to `bytes` bytes at `address`.
pub(super) fn lock(address: u64, bytes: u64) -> Stripes {
    let of = |address: u64| {
        let granule = address / GRANULE;
        // Numbered from 1: 0 stands for none. (The multiplier spreads granules a power of two apart.)
        (granule.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as u32 % STRIPES as u32 + 1
    };
    let (first, last) = (of(address), of(address.wrapping_add(bytes.saturating_sub(1))));
    // In order, so that two threads never wait for each other.
    let mut held = if first == last { [first, 0] } else { [first.min(last), first.max(last)] };
    for stripe in held.iter_mut().filter(|stripe| **stripe != 0) {
        acquire(&LOCKS[*stripe as usize - 1]);
    }
    held.sort_unstable();
    Stripes(held)
}

fn acquire(lock: &AtomicU32) {
    let mut tries = 0;
    while lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        tries += 1;
        if tries < PATIENCE {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

impl Stripes {
    /// Whether any is held.
    pub(super) fn is_held(&self) -> bool {
        self.0 != [0, 0]
    }

    /// Gives them back.
    pub(super) fn unlock(&mut self) {
        for stripe in std::mem::take(&mut self.0).into_iter().filter(|&stripe| stripe != 0) {
            LOCKS[stripe as usize - 1].store(0, Ordering::Release);
        }
    }
}

/// In the child after `fork`: threads that held locks do not exist there.
pub(super) fn fork_child() {
    LOCKS.iter().for_each(|lock| lock.store(0, Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_operands_exclude_each_other() {
        let free = |address, bytes| {
            let mut probe = lock(address, bytes);
            probe.unlock();
        };
        let mut held = lock(0x1000, 8);
        assert!(held.is_held());
        let other = std::thread::spawn(move || free(0x1004, 8));
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(!other.is_finished());
        held.unlock();
        other.join().unwrap();
        assert!(!held.is_held());

        // Across a boundary, both sides are locked.
        let mut held = lock(0x203c, 8);
        let others: Vec<_> =
            [0x2038, 0x2040].into_iter().map(|address| std::thread::spawn(move || free(address, 4))).collect();
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(others.iter().all(|other| !other.is_finished()));
        held.unlock();
        others.into_iter().for_each(|other| other.join().unwrap());
    }
}
