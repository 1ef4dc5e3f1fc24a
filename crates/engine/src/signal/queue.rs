//! Signals on their way from the host's handler to the application.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

/// What the kernel reports about a fault, beside the signal information.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultDetail {
    /// Page-fault error code.
    pub error: u64,
    /// Exception vector.
    pub trap: u64,
    /// Faulting address (CR2).
    pub address: u64,
}

/// Size of `siginfo_t`.
pub const SIGINFO_BYTES: usize = 128;

/// A signal that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// Signal number.
    pub signal: i32,
    /// `siginfo_t` as the kernel gave it.
    pub information: [u8; SIGINFO_BYTES],
    /// For a fault of the application's own instruction.
    pub fault: Option<FaultDetail>,
}

impl Arrived {
    /// `si_code`.
    pub fn code(&self) -> i32 {
        i32::from_ne_bytes([self.information[8], self.information[9], self.information[10], self.information[11]])
    }

    /// The signal information of a fault at `address`.
    pub fn fault(signal: i32, code: i32, address: u64, detail: FaultDetail) -> Arrived {
        let mut information = [0u8; SIGINFO_BYTES];
        information[0..4].copy_from_slice(&signal.to_ne_bytes());
        information[8..12].copy_from_slice(&code.to_ne_bytes());
        information[16..24].copy_from_slice(&address.to_ne_bytes());
        Arrived { signal, information, fault: Some(detail) }
    }
}

/// After each signal the handler blocks all further ones until delivery, so that few are ever waiting here.
const CAPACITY: u32 = 16;

/// Ring between a thread and the signal handlers that interrupt it.
pub struct Queue {
    entries: UnsafeCell<[Arrived; CAPACITY as usize]>,
    /// Not zero while a signal waits. Looked at right before each system call.
    waiting: AtomicU32,
    /// Counts what was taken; changed by the thread.
    taken: AtomicU32,
    /// Counts what was added; changed by handlers, and by the thread for faults that the engine finds itself.
    added: AtomicU32,
}

impl Queue {
    /// An empty queue.
    pub fn new() -> Queue {
        let empty = Arrived { signal: 0, information: [0; SIGINFO_BYTES], fault: None };
        Queue {
            entries: UnsafeCell::new([empty; CAPACITY as usize]),
            waiting: AtomicU32::new(0),
            taken: AtomicU32::new(0),
            added: AtomicU32::new(0),
        }
    }

    /// Not zero while a signal waits.
    pub fn waiting(&self) -> &AtomicU32 {
        &self.waiting
    }

    /// Whether a signal waits.
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) != 0
    }

    /// Adds a signal; `false` if the queue is full. Called by the owning thread with signals blocked or by a handler that interrupts
    /// it.
    pub fn push(&self, arrived: Arrived) -> bool {
        let added = self.added.load(Ordering::Relaxed);
        if added.wrapping_sub(self.taken.load(Ordering::Relaxed)) == CAPACITY {
            return false;
        }
        // SAFETY: only the owning thread and its handlers come here; handlers do not interrupt each other, and the thread does not read an
        // entry that has not been added.
        unsafe { self.entries.get().cast::<Arrived>().add((added % CAPACITY) as usize).write(arrived) };
        compiler_fence(Ordering::SeqCst);
        self.added.store(added.wrapping_add(1), Ordering::SeqCst);
        self.waiting.store(1, Ordering::SeqCst);
        true
    }

    /// Takes the oldest signal. Called by the owning thread only.
    pub fn pop(&self) -> Option<Arrived> {
        let taken = self.taken.load(Ordering::Relaxed);
        if taken == self.added.load(Ordering::SeqCst) {
            return None;
        }
        // SAFETY: this entry has been added and not been taken, so no handler writes it.
        let arrived = unsafe { self.entries.get().cast::<Arrived>().add((taken % CAPACITY) as usize).read() };
        self.taken.store(taken.wrapping_add(1), Ordering::SeqCst);
        self.waiting.store(0, Ordering::SeqCst);
        if self.added.load(Ordering::SeqCst) != taken.wrapping_add(1) {
            // More are waiting, or a handler came between the last two steps.
            self.waiting.store(1, Ordering::SeqCst);
        }
        Some(arrived)
    }
}

impl Default for Queue {
    fn default() -> Self {
        Queue::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(signal: i32) -> Arrived {
        Arrived::fault(signal, 1, 0, FaultDetail::default())
    }

    #[test]
    fn signals_come_out_in_order_and_a_full_queue_refuses() {
        let queue = Queue::new();
        for round in 0..3 {
            assert!(!queue.is_waiting());
            for signal in 0..CAPACITY as i32 {
                assert!(queue.push(numbered(signal + round)));
            }
            assert!(!queue.push(numbered(0)));
            for signal in 0..CAPACITY as i32 {
                assert!(queue.is_waiting());
                assert_eq!(queue.pop().map(|arrived| arrived.signal), Some(signal + round));
            }
            assert!(queue.pop().is_none());
        }
    }
}
