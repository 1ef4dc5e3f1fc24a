//! The code cache: translated blocks, the links between them, and their invalidation.

mod region;
mod signals;

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::context::{self, Context, LOOKUP_ENTRIES, LookupTable};
use crate::memory::{guard, user};
use crate::thread;
use crate::tool::Version;
use crate::translate::{self, Block, Exit, ExitKind, Recovery};
pub(crate) use signals::divert;
pub use signals::{recover, request_exit};

use region::Region;

/// Bytes reserved for translated code. Only what is used costs memory; all of it can be reached with 32-bit displacements.
const REGION_BYTES: usize = 1 << 30;

const PAGE: u64 = 4096;

type Key = (u64, Version);

/// A translated block in the cache.
pub(crate) struct CachedBlock {
    key: Key,
    /// Code cache address and length.
    code: u64,
    length: u64,
    /// Application bytes it was made from.
    source: (u64, u64),
    exits: std::ops::Range<u64>,
    recovery: Vec<Recovery>,
    vector_scratch: Vec<u8>,
    lookup: Option<translate::LookupSite>,
    /// Exits of other blocks (and of this one) that go here directly.
    incoming: Vec<u64>,
    /// The application bytes themselves, if they can change without notice.
    volatile: Option<Box<[u8]>>,
    /// Whether it may still be found; stale code stays where it is, since another thread could be inside.
    valid: bool,
}

impl CachedBlock {
    /// Whether the application bytes are still those that it was made from.
    fn is_current(&self) -> bool {
        let Some(then) = &self.volatile else { return true };
        let mut now = vec![0; then.len()];
        user::read_bytes(self.source.0, &mut now).is_ok() && **then == *now
    }
}

/// All translated code of the process.
pub(crate) struct Cache {
    region: Region,
    blocks: Vec<CachedBlock>,
    by_key: FxHashMap<Key, usize>,
    /// Application page → blocks made from bytes in it.
    by_page: FxHashMap<u64, Vec<usize>>,
    exits: Vec<Exit>,
    /// Addresses that always lead back to the dispatcher in this version.
    unlinked: FxHashSet<Key>,
    /// How many blocks are given to the tool; the others are copied without instrumentation (a debugging aid).
    bisect: Option<u64>,
    linking: bool,
    /// Inlined look-ups that lead to the dispatcher because of a signal: displacement and where it belongs.
    diverted: Vec<(u64, u64)>,
    /// Counts flushes: code cache addresses from before one mean nothing after it.
    generation: u64,
}

/// The number in `context.exit` when a fault, not an exit of a block, has ended the run of cached code.
pub(crate) const EXIT_SIGNAL: u64 = u64::MAX;

static CACHE: OnceLock<Mutex<Cache>> = OnceLock::new();

/// A locked cache. While a thread holds or awaits the lock its signal handlers keep away from it.
///
/// The mark in the context outlives the lock: fields are dropped in order.
pub(crate) struct Locked(MutexGuard<'static, Cache>, InCache);

/// The mark in the calling thread's context.
struct InCache;

impl InCache {
    fn new() -> InCache {
        // SAFETY: the context of the calling thread; the mark is only used by this thread and its signal handlers.
        unsafe { (*context::current()).in_cache.fetch_add(1, Ordering::SeqCst) };
        InCache
    }
}

impl Drop for InCache {
    fn drop(&mut self) {
        // SAFETY: as in `new`.
        unsafe { (*context::current()).in_cache.fetch_sub(1, Ordering::SeqCst) };
    }
}

impl std::ops::Deref for Locked {
    type Target = Cache;
    fn deref(&self) -> &Cache {
        &self.0
    }
}

impl std::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Cache {
        &mut self.0
    }
}

/// Makes the cache and the trampolines.
///
/// # Errors
/// If the memory cannot be reserved; the text says what the system answered.
pub(crate) fn init(bisect: Option<u64>, linking: bool) -> Result<(), String> {
    let mut region = Region::new(REGION_BYTES)?;
    let trampolines = translate::trampolines::install(region.address());
    region.append(&trampolines).expect("the region is larger than the trampolines");
    let cache = Cache {
        region,
        blocks: Vec::new(),
        by_key: FxHashMap::default(),
        by_page: FxHashMap::default(),
        exits: Vec::new(),
        unlinked: FxHashSet::default(),
        bisect,
        linking,
        diverted: Vec::with_capacity(signals::DIVERSIONS),
        generation: 0,
    };
    CACHE.set(Mutex::new(cache)).map_err(|_| "the engine runs once in a process".to_owned())
}

/// Locks the cache.
pub(crate) fn lock() -> Locked {
    let mark = InCache::new();
    let mutex = CACHE.get().expect("the cache is made before the application starts");
    Locked(mutex.lock().unwrap_or_else(PoisonError::into_inner), mark)
}

impl Cache {
    /// The code for `address`, translated if need be. The second value says whether it may be linked and looked up.
    pub(crate) fn find_or_translate(&mut self, address: u64, version: Version) -> (u64, bool) {
        let key = (address, version);
        let volatile = guard::is_volatile(address);
        let linkable = self.linking && !volatile && !self.unlinked.contains(&key);
        if let Some(&block) = self.by_key.get(&key) {
            if !volatile || self.blocks[block].is_current() {
                return (self.blocks[block].code, linkable);
            }
            self.forget(block);
        }
        (self.translate(key), linkable)
    }

    fn translate(&mut self, key: Key) -> u64 {
        let (address, version) = key;
        let tool = crate::tool();
        let block = Block::decode(address, tool.scratch(version));
        if block.uses_avx512() && translate::trampolines::widen() {
            // What has been translated so far takes no care of the wider registers.
            self.forget_all();
        }
        let source = block.range();
        let instrumented = self.bisect.is_none_or(|limit| (self.blocks.len() as u64) < limit);
        let first_exit = self.exits.len() as u64;
        let volatile = guard::is_volatile(address).then(|| block.all_bytes().into());
        let translation = translate::translate(tool, &block, version, self.region.address(), first_exit, instrumented);
        let Some(code) = self.region.append(&translation.code) else {
            self.flush();
            return self.translate(key);
        };
        let number = self.blocks.len();
        self.exits.extend(&translation.exits);
        self.blocks.push(CachedBlock {
            key,
            code,
            length: translation.code.len() as u64,
            source,
            exits: first_exit..self.exits.len() as u64,
            recovery: translation.recovery,
            vector_scratch: translation.vector_scratch,
            lookup: translation.lookup,
            incoming: Vec::new(),
            volatile,
            valid: true,
        });
        self.by_key.insert(key, number);
        for page in pages(source.0, source.1) {
            self.by_page.entry(page).or_default().push(number);
        }
        code
    }

    /// Forgets everything. Only possible while no other thread runs application code.
    fn flush(&mut self) {
        if thread::count() > 1 {
            crate::fatal(
                "the code cache is full (1 GiB of translated code) while several threads run; \
                 start the program with fewer threads or without large generated code",
            );
        }
        self.region.clear(translate::trampolines::get().end);
        self.blocks.clear();
        self.by_key.clear();
        self.by_page.clear();
        self.exits.clear();
        self.diverted.clear();
        self.generation += 1;
        clear_lookups(0, u64::MAX);
    }

    /// The exit with this number.
    pub(crate) fn exit(&self, number: u64) -> Exit {
        self.exits[number as usize]
    }

    /// Lets exit `number` go to the block for `target` directly.
    pub(crate) fn link(&mut self, number: u64, target: u64, version: Version) {
        let Some(&block) = self.by_key.get(&(target, version)) else {
            return;
        };
        let ExitKind::Branch { patch, .. } = self.exits[number as usize].kind else {
            return;
        };
        self.region.patch_displacement(patch, self.blocks[block].code);
        self.blocks[block].incoming.push(number);
    }

    /// Lets all direct exits of `block` go through the dispatcher again.
    fn unlink_exits(&mut self, block: usize) {
        for number in self.blocks[block].exits.clone() {
            let exit = self.exits[number as usize];
            if let ExitKind::Branch { patch, .. } = exit.kind {
                self.region.patch_displacement(patch, exit.stub);
            }
        }
    }

    /// Makes sure that each arrival at `address` in this version comes to the dispatcher.
    pub(crate) fn never_link(&mut self, address: u64, version: Version) {
        if self.unlinked.insert((address, version)) {
            if let Some(&block) = self.by_key.get(&(address, version)) {
                self.forget(block);
            }
            clear_lookups(address, address + 1);
        }
    }

    fn forget(&mut self, number: usize) {
        let block = &mut self.blocks[number];
        if !block.valid {
            return;
        }
        block.valid = false;
        let key = block.key;
        for exit in std::mem::take(&mut block.incoming) {
            let exit = self.exits[exit as usize];
            if let ExitKind::Branch { patch, target } = exit.kind
                && (target, exit.version) == key
            {
                self.region.patch_displacement(patch, exit.stub);
            }
        }
        self.by_key.remove(&key);
    }

    fn forget_all(&mut self) {
        for number in 0..self.blocks.len() {
            self.forget(number);
        }
        clear_lookups(0, u64::MAX);
    }

    fn invalidate(&mut self, start: u64, end: u64) {
        let mut stale = Vec::new();
        if pages(start, end).size_hint().0 > self.by_page.len() {
            stale.extend((0..self.blocks.len()).filter(|&number| overlaps(self.blocks[number].source, (start, end))));
            self.by_page.retain(|&page, _| page + PAGE <= start || page >= end);
        } else {
            for page in pages(start, end) {
                if let Some(numbers) = self.by_page.remove(&page) {
                    stale.extend(numbers);
                }
            }
        }
        if stale.is_empty() {
            return;
        }
        let mut kept = Vec::new();
        for number in stale {
            if overlaps(self.blocks[number].source, (start, end)) {
                self.forget(number);
            } else {
                kept.push(number);
            }
        }
        for number in kept {
            let source = self.blocks[number].source;
            for page in pages(source.0, source.1).filter(|page| page + PAGE > start && *page < end) {
                self.by_page.entry(page).or_default().push(number);
            }
        }
        // A block that begins before the range can reach into it.
        clear_lookups(start.saturating_sub(PAGE), end);
    }

    /// Number of flushes so far.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    fn block_at(&self, code: u64) -> Option<usize> {
        // The region is filled from its start, so blocks are in the order of their code.
        let number = self.blocks.partition_point(|block| block.code <= code).checked_sub(1)?;
        let block = &self.blocks[number];
        (code < block.code + block.length).then_some(number)
    }
}

/// Forgets everything, while the program still has one thread: the tool translates differently for several.
pub(crate) fn start_over() {
    lock().flush();
}

/// Forgets all translations of application bytes in `start..end`.
pub fn invalidate(start: u64, end: u64) {
    if CACHE.get().is_some() {
        lock().invalidate(start, end);
    }
}

/// Enters the translation of `address` into a thread's look-up table.
pub(crate) fn remember(context: &Context, version: Version, address: u64, code: u64) {
    let table = &context.lookup[usize::from(version.0)];
    let slot = LookupTable::slot(address);
    // The key last: until it is there, the old key finds the old code or, at worst, misses.
    table.negated[slot].store(0, Ordering::Release);
    table.code[slot].store(code, Ordering::Release);
    table.negated[slot].store(address.wrapping_neg(), Ordering::Release);
}

/// Removes all look-up entries, of all threads, for addresses in `start..end`.
fn clear_lookups(start: u64, end: u64) {
    thread::for_each(|context| {
        // SAFETY: registered contexts are alive while the registry is locked, and the tables are atomic.
        let lookup = unsafe { &(*context).lookup };
        for table in lookup {
            for slot in 0..LOOKUP_ENTRIES {
                let address = table.negated[slot].load(Ordering::Relaxed).wrapping_neg();
                if address != 0 && (start..end).contains(&address) {
                    table.negated[slot].store(0, Ordering::Release);
                }
            }
        }
    });
}

fn pages(start: u64, end: u64) -> impl Iterator<Item = u64> {
    (start / PAGE..end.div_ceil(PAGE)).map(|page| page * PAGE)
}

fn overlaps(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 < b.1 && b.0 < a.1
}
