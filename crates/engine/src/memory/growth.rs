//! Mappings that grow (`MAP_GROWSDOWN`): an access below one makes it longer, as far as the application's limits and its neighbours allow.
//!
//! The host's mappings do not grow by themselves, since the shadow has to grow with them: what faults there is tried again.

use std::sync::atomic::{AtomicBool, Ordering};

use super::map::Mapping;
use super::{APP_START, PAGE, State, host, shadow, shadow_layers, state};

/// What stays free between a growing mapping and accessible memory below: the kernel's default (`stack_guard_gap`, 256 pages).
const GAP: u64 = 256 * PAGE;
/// What is left free below a growing mapping when addresses are chosen: the usual RLIMIT_STACK and the gap.
pub(super) const ROOM: u64 = (8 << 20) + GAP;

/// Why a lock-step comparison ends.
const REASON: &str = "a mapping of the program grows";

/// Whether there is or was a growing mapping: without any, faults need not be looked at.
static ANY: AtomicBool = AtomicBool::new(false);

/// To be called when a growing mapping is made.
pub(super) fn expect() {
    ANY.store(true, Ordering::Relaxed);
}

impl State {
    /// Whether a range that ends at `end` leaves the gap below a growing mapping.
    pub(super) fn keeps_gap(&self, end: u64) -> bool {
        let (_, above) = self.map.around(end);
        !above.is_some_and(|above| above.grows_down && above.start - end < GAP)
    }

    /// Makes the mapping above `address`, where nothing is mapped, longer so that it holds the address.
    fn grow(&mut self, address: u64) -> Result<(), i32> {
        let start = address & !(PAGE - 1);
        let (below, above) = self.map.around(address);
        let above = above.filter(|above| above.grows_down && start >= APP_START).ok_or(libc::EFAULT)?.clone();
        let too_close = |below: &Mapping| {
            let harmless = below.grows_down || !below.protection.readable();
            !harmless && start - below.end < GAP
        };
        let limit = self.stack_limit.unwrap_or_else(host_stack_limit);
        let added = start..above.start;
        if below.is_some_and(too_close) || above.end - start > limit || !self.within_limit(added.end - added.start) {
            return Err(libc::ENOMEM);
        }
        // Shadow first: the program's other threads may be at these addresses already, and go on as soon as there is memory. The kernel accounts for
        // it as for a stack that it lets grow: without a limit, an address far below is refused all the same.
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mapped = shadow::map(added.clone(), shadow_layers())
            .and_then(|()| host::map(added.clone(), above.protection.host_bits(), flags, -1, 0));
        if let Err(error) = mapped {
            shadow::unmap(added.clone(), shadow_layers(), self.neighbours(&added));
            return Err(error);
        }
        let wiped = above.wiped;
        self.map.insert(Mapping { start: added.start, end: added.end, ..above });
        if wiped {
            host::advise(added.clone(), libc::MADV_WIPEONFORK);
            shadow::advise(added, shadow_layers(), libc::MADV_WIPEONFORK);
        }
        Ok(())
    }
}

fn host_stack_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Stack).current.unwrap_or(u64::MAX)
}

/// Makes the mapping above `address` hold it, if there is such a one: whether it was mapped already, and whether it has become so.
fn look(address: u64) -> (bool, bool) {
    if !ANY.load(Ordering::Relaxed) {
        return (false, false);
    }
    let mut state = state();
    let mapped = state.map.at(address).is_some();
    let grown = !mapped && state.grow(address).is_ok();
    drop(state);
    if grown {
        crate::lockstep::end(REASON);
    }
    (mapped, grown)
}

/// To be called when an access to `address` has found nothing mapped: whether it can be tried again.
pub(crate) fn grow_for_access(address: u64) -> bool {
    let (mapped, grown) = look(address);
    // Another thread may have been here between the fault and now.
    mapped || grown
}

/// To be called when an access of the engine or the kernel to `address` has failed: whether a mapping has grown, so that it can be tried again.
pub(crate) fn grow_for_engine(address: u64) -> bool {
    look(address).1
}

/// The same for the arguments of a system call, some of which are addresses.
pub(crate) fn grow_for_call(arguments: &[u64; 6]) -> bool {
    // Each of them.
    arguments.iter().filter(|&&argument| grow_for_engine(argument)).count() > 0
}
