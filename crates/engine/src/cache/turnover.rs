//! Code cache space is used again.
//!
//! The cache has two spaces. When the one that is being filled is full, the other one is emptied and filled next; that begins a new *generation*.
//! Code cache addresses of one generation mean nothing in another, so
//! - a space is emptied only when no thread is inside: each thread tells in its context ([`Context::inside`]) the generation whose code it runs. That
//!   includes helpers, which go on in the middle of a block;
//! - at the turn of a generation everything that leads from block to block is cut: links go to the dispatcher, look-up tables are emptied, and the next
//!   generation has others. So a thread is out at the latest after the two blocks that it is in and about to enter. New links and entries are made only
//!   within the present generation.
//!
//! A thread that finds the cache full while others are still in the other space waits for them without the lock, which they need in order
//! to leave.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Cache, Full, Key, lock};
use crate::context::Context;
use crate::thread;

/// A space is left early if so many bytes, and more than half of it, belong to code that is not valid any more: programs that generate code all the
/// time would else fill all memory that the cache may take.
const STALE_BYTES: u64 = 2 << 20;

/// How long a thread waits, at a time, for others to leave a space.
const PAUSE: Duration = Duration::from_micros(50);

/// The code for the thread's next block. From now on the thread is inside the present generation, until [`leave`].
///
/// The exit that led here is linked to the block, or the block is entered in the look-up tables.
pub(crate) fn code_for(context: &mut Context) -> u64 {
    // A helper runs other code: it leaves the block that it belongs to, or a full cache would wait for this thread itself.
    leave(context);
    let key = (context.rip, context.version);
    let (exit, generation) = std::mem::take(&mut context.link_from);
    let looked_up = std::mem::take(&mut context.fill_lookup);
    loop {
        let mut cache = lock();
        match cache.find_or_translate(key, looked_up) {
            Ok((code, linkable)) => {
                if linkable && generation == cache.generation {
                    cache.link(exit, key);
                }
                context.inside.store(cache.generation, Ordering::Relaxed);
                return code;
            }
            Err(full) => cache.make_room(&full, key),
        }
    }
}

/// The thread does not go on in the code that it has left.
pub(crate) fn leave(context: &Context) {
    context.inside.store(0, Ordering::Release);
}

/// Whether the code that the thread has left to call a helper is still there. It is not if the helper has run other code.
pub(crate) fn is_inside(context: &Context) -> bool {
    context.inside.load(Ordering::Relaxed) != 0
}

/// Forgets everything, while the program still has one thread: the tool translates differently for several.
pub(crate) fn start_over() {
    let mut cache = lock();
    if !cache.turn_over() {
        cache.forget_all();
    }
}

impl super::Locked {
    /// Turns to the other space, or, if there are threads in it, gives the lock back for a while. The caller tries again.
    fn make_room(mut self, full: &Full, key: Key) {
        if full.needed as u64 > self.space().region.size() {
            crate::fatal(&format!(
                "the translation of the code at {:#x} takes {} bytes, more than half of the code cache; give it more with --code-cache",
                key.0, full.needed
            ));
        }
        if !self.turn_over() {
            drop(self);
            std::thread::sleep(PAUSE);
        }
    }
}

impl Cache {
    /// Whether it would be better to start with an empty space.
    pub(super) fn is_mostly_stale(&self) -> bool {
        let (stale, used) = (self.space().stale(), self.space().region.used());
        stale > STALE_BYTES && stale > used / 2
    }

    /// Begins a new generation in the other space. Returns `false`, and changes nothing, while a thread is in there.
    pub(super) fn turn_over(&mut self) -> bool {
        let mut occupied = false;
        thread::for_each(|context| {
            // SAFETY: registered contexts are alive while the registry is locked, and the field is atomic.
            let inside = unsafe { (*context).inside.load(Ordering::Acquire) };
            occupied |= inside != 0 && inside != self.generation;
        });
        if occupied {
            return false;
        }
        let space = self.space();
        for number in 0..space.blocks.len() {
            space.unlink_exits(number);
            self.hide(number);
        }
        self.by_key.clear();
        self.by_page.clear();
        self.generation += 1;
        let filled = self.filled();
        self.spaces[filled].clear();
        let region = &self.spaces[filled].region;
        self.diverted.retain(|&(displacement, _)| !region.contains(displacement));
        true
    }
}
