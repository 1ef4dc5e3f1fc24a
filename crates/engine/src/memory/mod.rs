//! The application's address space: which address belongs to what, where new mappings go, and their shadow.
//!
//! All application memory lies below [`APP_END`]. Every mapping made through this module gets its shadow in the same step, and
//! loses it in the same step, so that an access to mapped application memory never finds its shadow missing.

mod calls;
pub(crate) mod growth;
pub(crate) mod guard;
mod host;
mod map;
mod place;
mod shadow;
pub mod user;

use std::ops::Range;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use calls::map_stack;
pub(crate) use calls::wipe_in_child;
pub use calls::{advise, attach_segment, change_break, detach_segment, map, protect, remap, set_break_start, unmap};
use map::IntervalMap;
pub use map::{FileOrigin, Kind, Mapping, Protection, pages_up};

/// First address behind application memory.
pub const APP_END: u64 = 1 << 43;
/// First address behind what the application can map. The engine keeps tables between here and [`APP_END`], where cached code reaches them by a
/// displacement from the base of GS.
pub const APP_TOP: u64 = APP_END - (1 << 31);
/// Distance from application memory to the first shadow layer, and from each layer to the next.
///
/// Not a power of two: AMD processors predict the way of the first-level cache from a hash of address bits 12 to 27 (Lipp et al., "Take A Way",
/// 2020). Data and shadow whose addresses agree in these would turn each other out of the cache in turn, which makes programs several times slower.
/// And no multiple of the page size: else a datum and its shadow in all layers would compete for the same set of that cache, which has eight ways. The nine
/// of them lie seven cache lines from each other, modulo a page.
pub const SHADOW_STRIDE: u64 = APP_END + 0x2_b1c0;
/// Lowest address that can be mapped (the usual `vm.mmap_min_addr`).
pub const APP_START: u64 = 0x10000;
/// Size of a page.
pub const PAGE: u64 = 4096;
/// Highest number of shadow layers. They end at 9/8 of 2^46; the kernel maps derivgrind itself at two thirds of the address space, 4/3 of 2^46, and above.
pub const MOST_LAYERS: u32 = 8;

/// Why the address space cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// More layers asked for than fit below derivgrind itself.
    #[error("{0} shadow layers do not fit into the address space; at most {MOST_LAYERS} do")]
    TooManyLayers(u32),
    /// `/proc/self/maps` cannot be read.
    #[error("cannot read /proc/self/maps ({0}); is /proc mounted?")]
    NoMaps(#[source] std::io::Error),
    /// Something of derivgrind itself lies where the program or its shadow belongs.
    #[error(
        "derivgrind itself has {what} mapped at {start:#x}..{end:#x}, which must be free for the program and its shadow; \
         start it without personality flags that change the memory layout (setarch -L), and not as a static non-PIE build"
    )]
    Occupied {
        /// First address of the obstacle.
        start: u64,
        /// First address behind it.
        end: u64,
        /// Its name in `/proc/self/maps`.
        what: String,
    },
}

/// All that the memory lock protects.
struct State {
    map: IntervalMap,
    /// Bounds of the `brk` heap in bytes, not rounded: what the `brk` call returns.
    heap: Range<u64>,
    /// Most bytes that the application may have mapped (its own RLIMIT_AS).
    size_limit: u64,
    /// Largest size in bytes of a mapping that grows (its own RLIMIT_STACK, if it has set one).
    stack_limit: Option<u64>,
    /// Where the search for anonymous memory begins: everything below in that region is in use.
    anonymous_hint: u64,
    /// The same for the region within reach of absolute 32-bit displacements.
    near_hint: u64,
    /// Pages that are write-protected because code has been translated from them.
    guards: guard::Guards,
}

static STATE: Mutex<State> = Mutex::new(State {
    map: IntervalMap::new(),
    heap: place::HEAP.start..place::HEAP.start,
    size_limit: u64::MAX,
    stack_limit: None,
    anonymous_hint: place::ANONYMOUS.start,
    near_hint: place::NEAR.start,
    guards: guard::Guards::new(),
});

/// Number of shadow layers, beside the lock because clearing shadow needs nothing else.
static LAYERS: AtomicU32 = AtomicU32::new(0);

/// Signal handlers never take this lock, so no signals need to be blocked while it is held; a panic while it is held leaves a
/// consistent map.
fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps other threads from changing the map, so that a forked child inherits it in a consistent state and unlocked.
pub struct ForkGuard(#[allow(dead_code, reason = "held for its drop")] MutexGuard<'static, State>);

/// To be held across `fork`.
pub fn lock_for_fork() -> ForkGuard {
    ForkGuard(state())
}

/// Sets the number of shadow layers and checks that application memory and its shadow have nothing in their way. Nothing is mapped yet.
///
/// # Errors
/// When derivgrind's own mappings lie in the way, or `/proc/self/maps` cannot be read.
pub fn init(shadow_layers: u32) -> Result<(), MemoryError> {
    if shadow_layers > MOST_LAYERS {
        return Err(MemoryError::TooManyLayers(shadow_layers));
    }
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(MemoryError::NoMaps)?;
    let end = APP_END + u64::from(shadow_layers) * SHADOW_STRIDE;
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let Some((first, last)) = fields.next().and_then(|range| range.split_once('-')) else {
            continue;
        };
        let bounds = u64::from_str_radix(first, 16).ok().zip(u64::from_str_radix(last, 16).ok());
        if let Some((start, finish)) = bounds
            && start < end
        {
            let what = fields.nth(4).unwrap_or("anonymous memory").to_owned();
            return Err(MemoryError::Occupied { start, end: finish, what });
        }
    }
    LAYERS.store(shadow_layers, Ordering::Relaxed);
    Ok(())
}

/// Maps memory of the engine's own between [`APP_TOP`] and [`APP_END`]. The error is the system's number.
pub(crate) fn map_for_engine(range: Range<u64>) -> Result<(), i32> {
    debug_assert!(APP_TOP <= range.start && range.end <= APP_END);
    host::map_where_free(range, libc::PROT_READ | libc::PROT_WRITE)
}

/// Number of shadow layers given to [`init`].
pub fn shadow_layers() -> u32 {
    LAYERS.load(Ordering::Relaxed)
}

/// The mapping that holds an application address.
pub fn mapping_at(address: u64) -> Option<Mapping> {
    state().map.at(address).cloned()
}

/// All mappings of the application, in order.
pub fn mappings() -> Vec<Mapping> {
    state().map.iter().cloned().collect()
}

/// Bounds of the `brk` heap, in bytes.
pub fn heap() -> Range<u64> {
    state().heap.clone()
}

/// End of the contiguous bytes from `address` on that can be read and executed; `None` if the first cannot.
///
/// For the translator: if the program can write to the code there, it is guarded, and translations are invalidated when it does.
pub fn executable_until(address: u64) -> Option<u64> {
    let mut state = state();
    let end = state.map.executable_until(address)?;
    state.guard(address);
    Some(end)
}

/// Whether `range` lies in private file mappings that have never been writable: the program cannot have stored anything there.
pub fn is_constant(range: Range<u64>) -> bool {
    let state = state();
    state.map.is_covered(range.clone()) && state.map.overlapping(range).all(Mapping::is_constant)
}

/// Makes the shadow of `length` bytes from `start` zero, in all layers. Unmapped parts are skipped.
pub fn clear_shadow(start: u64, length: u64) {
    crate::lockstep::written(start, length);
    let layers = shadow_layers();
    if layers == 0 || length == 0 || start >= APP_END {
        return;
    }
    shadow::clear(start..start.saturating_add(length).min(APP_END), layers);
}

/// How many bytes from `start` on have shadow, in units of aligned words of four bytes, one of which is not zero in the first layer.
pub fn shadowed_bytes(start: u64, length: u64) -> u64 {
    if shadow_layers() == 0 || start >= APP_END {
        return 0;
    }
    let end = start.saturating_add(length).min(APP_END);
    let mut chunk = [0; 1024];
    let (mut at, mut bytes) = (start, 0);
    while at < end {
        // Not across a page boundary: the next page may have no shadow.
        let size = (PAGE - at % PAGE).min(end - at).min(chunk.len() as u64 - at % 4);
        let part = &mut chunk[..size as usize];
        user::read_shadow(at, part);
        if part.iter().any(|&byte| byte != 0) {
            let (head, rest) = part.split_at(part.len().min((at.wrapping_neg() % 4) as usize));
            let words = std::iter::once(head).chain(rest.chunks(4));
            bytes += words.filter(|word| word.iter().any(|&byte| byte != 0)).map(|word| word.len() as u64).sum::<u64>();
        }
        at += size;
    }
    bytes
}

/// The application address whose shadow is at `address`; an application address is returned unchanged, anything else as `None`.
pub fn application_address(address: u64) -> Option<u64> {
    let end = APP_END + u64::from(shadow_layers()) * SHADOW_STRIDE;
    (address < end).then_some(address % SHADOW_STRIDE)
}

/// Sets the application's own limit of its address space (RLIMIT_AS) in bytes. Derivgrind's memory does not count.
pub fn set_size_limit(bytes: u64) {
    state().size_limit = bytes;
}

/// Sets the application's own limit of a growing mapping (RLIMIT_STACK) in bytes.
pub fn set_stack_limit(bytes: u64) {
    state().stack_limit = Some(bytes);
}

/// Where a fault at `pc` continues, if that is in one of this module's routines that may meet unmapped memory.
pub(crate) fn fault_continuation(pc: u64) -> Option<u64> {
    user::fault_continuation(pc).or_else(|| shadow::fault_continuation(pc))
}

/// Identifies the file behind a descriptor.
fn file_origin(descriptor: RawFd) -> Option<Arc<FileOrigin>> {
    // SAFETY: all-zero bytes are a valid `stat`, which the call fills.
    let status = unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        if libc::fstat(descriptor, &mut status) != 0 {
            return None;
        }
        status
    };
    let path = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).unwrap_or_default();
    Some(Arc::new(FileOrigin { path: path.into_boxed_path(), device: status.st_dev, inode: status.st_ino }))
}

/// Side effects of a change. They take place when this is dropped; it must be declared before the lock of the memory is taken.
///
/// The code cache is locked meanwhile: nobody translates or looks for code between a change and its effects. Otherwise a thread could map and run new
/// code where another one has just unmapped some, and meet the old translation.
struct Aftermath {
    cache: Option<crate::cache::Locked>,
    /// Parts that are gone or not as they were before.
    gone: Vec<Mapping>,
    /// Parts that are still there with another protection.
    changed: Vec<Mapping>,
    /// New mappings of executable files.
    appeared: Vec<Mapping>,
    /// Code whose content may have changed.
    stale: Vec<Range<u64>>,
}

impl Aftermath {
    fn new() -> Aftermath {
        Aftermath {
            cache: crate::cache::lock_if_made(),
            gone: Vec::new(),
            changed: Vec::new(),
            appeared: Vec::new(),
            stale: Vec::new(),
        }
    }
}

impl Drop for Aftermath {
    /// Tells the code cache and the symbol hooks.
    fn drop(&mut self) {
        if let Some(cache) = &mut self.cache {
            for mapping in self.gone.iter().chain(&self.changed).filter(|mapping| mapping.protection.execute) {
                cache.invalidate(mapping.start, mapping.end);
            }
            for range in &self.stale {
                cache.invalidate(range.start, range.end);
            }
        }
        for mapping in self.gone.iter().filter(|mapping| mapping.protection.execute) {
            if matches!(mapping.kind, Kind::File { .. }) {
                crate::hooks::unmapped(mapping.start, mapping.end);
            }
        }
        // Reading a file's symbols takes time, and until this thread goes on nobody knows of the mapping.
        drop(self.cache.take());
        for mapping in &self.appeared {
            if let Kind::File { origin, offset } = &mapping.kind {
                let path: &Path = &origin.path;
                crate::hooks::object_mapped(path, mapping.start, *offset, mapping.end - mapping.start);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
