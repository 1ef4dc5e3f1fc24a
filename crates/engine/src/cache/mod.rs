//! The code cache: translated blocks, the links between them, and their invalidation.

mod lookup;
mod region;
mod signals;
mod space;
mod turnover;

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::context;
use crate::memory::guard;
use crate::tool::Version;
use crate::translate::{self, Block, Exit, ExitKind};
pub(crate) use lookup::{SETS, Set, WAYS, first_level, second_level};
pub(crate) use signals::divert;
pub use signals::{recover, request_exit};
pub(crate) use turnover::{code_for, is_inside, leave, start_over};

use lookup::Lookup;
use region::Region;
use space::Space;

/// Bytes reserved for translated code if nothing else is said. Only what is used costs memory.
pub const DEFAULT_BYTES: usize = 1 << 30;
/// Least and greatest size of the cache in bytes. Half of it has to hold the longest block: with a single direction or none that takes some
/// kilobytes. All of it has to be reached with 32-bit displacements.
pub const POSSIBLE_BYTES: std::ops::RangeInclusive<usize> = 1 << 16..=1 << 30;

const PAGE: u64 = 4096;

/// A block's address and version.
type Key = (u64, Version);

/// All translated code of the process.
pub(crate) struct Cache {
    /// In turn one is filled, and the other one left by the threads that are still inside: see [`turnover`].
    spaces: [Space; 2],
    /// Counts from 1 how often a space has been begun; its parity says which one is being filled.
    generation: u64,
    /// Valid blocks, all in the space that is being filled.
    by_key: FxHashMap<Key, usize>,
    /// Application page → blocks made from bytes in it.
    by_page: FxHashMap<u64, Vec<usize>>,
    /// Addresses that always lead back to the dispatcher in this version.
    unlinked: FxHashSet<Key>,
    /// How many blocks are given to the tool; the others are copied without instrumentation (a debugging aid).
    bisect: Option<u64>,
    /// Blocks translated so far.
    translated: u64,
    linking: bool,
    /// The tables of indirect branches.
    lookup: Lookup,
    /// Indirect branches that lead to the dispatcher because of a signal: displacement and the tables that they look into.
    diverted: Vec<(u64, Set)>,
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

/// Makes the cache, of so many bytes, and the trampolines.
///
/// # Errors
/// If the memory cannot be reserved; the text says what the system answered.
pub(crate) fn init(bytes: usize, bisect: Option<u64>, linking: bool) -> Result<(), String> {
    lookup::init()?;
    let mut region = Region::new(bytes.clamp(*POSSIBLE_BYTES.start(), *POSSIBLE_BYTES.end()))?;
    let trampolines = translate::trampolines::install(region.address());
    region.append(&trampolines).expect("the region is larger than the trampolines");
    let [even, odd] = region.halves();
    let cache = Cache {
        spaces: [Space::new(even, 0), Space::new(odd, 1)],
        generation: 1,
        by_key: FxHashMap::default(),
        by_page: FxHashMap::default(),
        unlinked: FxHashSet::default(),
        bisect,
        translated: 0,
        linking,
        lookup: Lookup::default(),
        diverted: Vec::with_capacity(signals::DIVERSIONS),
    };
    CACHE.set(Mutex::new(cache)).map_err(|_| "the engine runs once in a process".to_owned())
}

/// Locks the cache.
pub(crate) fn lock() -> Locked {
    let mark = InCache::new();
    let mutex = CACHE.get().expect("the cache is made before the application starts");
    Locked(mutex.lock().unwrap_or_else(PoisonError::into_inner), mark)
}

/// Locks the cache, if there is one already.
pub(crate) fn lock_if_made() -> Option<Locked> {
    CACHE.get().map(|_| lock())
}

/// A translation does not fit into what is left of a space.
struct Full {
    /// Bytes of the translation.
    needed: usize,
}

impl Cache {
    /// The space that is being filled.
    fn space(&self) -> &Space {
        &self.spaces[self.filled()]
    }

    fn space_mut(&mut self) -> &mut Space {
        let filled = self.filled();
        &mut self.spaces[filled]
    }

    fn filled(&self) -> usize {
        (self.generation % 2) as usize
    }

    /// The code for a key, translated if need be. The second value says whether it may be linked. If an indirect branch has led here, further ones find
    /// it then.
    fn find_or_translate(&mut self, key: Key, indirect: bool) -> Result<(u64, bool), Full> {
        let volatile = guard::is_volatile(key.0);
        let linkable = self.linking && !volatile && !self.unlinked.contains(&key);
        let checked = indirect && linkable;
        let known = self.by_key.get(&key).copied();
        let useful = known.filter(|&number| {
            let block = &self.space().blocks[number];
            (!volatile || block.is_current()) && (!checked || block.entry != 0)
        });
        let number = match useful {
            Some(number) => number,
            None => {
                known.inspect(|&number| self.forget(&[number]));
                self.translate(key, checked)?
            }
        };
        let (code, body) = (self.space().blocks[number].code, self.space().blocks[number].body());
        if checked {
            self.lookup.enter(key.0, Set::of(self.filled(), key.1), code);
        }
        Ok((body, linkable))
    }

    /// Translates a block, with a checked entry or without, and returns its number.
    fn translate(&mut self, key: Key, checked: bool) -> Result<usize, Full> {
        let (address, version) = key;
        let tool = crate::tool();
        let block = Block::decode(address, tool.scratch(version));
        if block.uses_avx512() && translate::trampolines::widen() {
            // What has been translated so far takes no care of the wider registers.
            self.forget_all();
        }
        if self.is_mostly_stale() {
            // If a thread is still in the other space there will be another occasion.
            self.turn_over();
        }
        let source = block.range();
        let instrumented = self.bisect.is_none_or(|limit| self.translated < limit);
        let volatile = guard::is_volatile(address).then(|| block.all_bytes().into());
        let set = Set::of(self.filled(), version);
        self.lookup.prepare(set);
        let space = self.space_mut();
        let place = translate::Place { base: space.region.address(), first_exit: space.next_exit(), set, checked };
        let translation = translate::translate(tool, &block, version, place, instrumented);
        let needed = translation.code.len();
        let number = space.add(key, source, translation, volatile).ok_or(Full { needed })?;
        self.translated += 1;
        self.by_key.insert(key, number);
        for page in pages(source.0, source.1) {
            self.by_page.entry(page).or_default().push(number);
        }
        Ok(number)
    }

    /// The exit with this number, which the calling thread has just taken.
    pub(crate) fn exit(&self, number: u64) -> Exit {
        self.spaces[Space::of_exit(number)].exit(number)
    }

    /// Lets exit `number`, of the space that is being filled, go to the block for `key` directly.
    fn link(&mut self, number: u64, key: Key) {
        let Some(&block) = self.by_key.get(&key) else {
            return;
        };
        let space = self.space_mut();
        space.link(number, space.blocks[block].body());
        space.blocks[block].incoming.push(number);
    }

    /// Makes sure that each arrival at `address` in this version comes to the dispatcher.
    pub(crate) fn never_link(&mut self, address: u64, version: Version) {
        let key = (address, version);
        if self.unlinked.insert(key)
            && let Some(&block) = self.by_key.get(&key)
        {
            self.forget(&[block]);
        }
    }

    /// The blocks with these numbers are not used any more: nothing leads to them, and they are not found.
    fn forget(&mut self, numbers: &[usize]) {
        for &number in numbers {
            let Some(incoming) = self.space_mut().retire_block(number) else { continue };
            self.hide(number);
            let space = self.space();
            let key = space.blocks[number].key;
            for number in incoming {
                let exit = space.exit(number);
                if let ExitKind::Branch { target, .. } = exit.kind
                    && (target, exit.version) == key
                {
                    space.unlink(number);
                }
            }
            self.by_key.remove(&key);
        }
    }

    /// Indirect branches do not find this block any more.
    fn hide(&self, number: usize) {
        let block = &self.space().blocks[number];
        if block.entry != 0 {
            self.lookup.remove(block.key.0, Set::of(self.filled(), block.key.1), block.code);
        }
    }

    fn forget_all(&mut self) {
        let all: Vec<usize> = (0..self.space().blocks.len()).collect();
        self.forget(&all);
    }

    /// The application bytes in `start..end` have changed or gone: forgets what was made from them.
    pub(crate) fn invalidate(&mut self, start: u64, end: u64) {
        let mut stale = Vec::new();
        if pages(start, end).size_hint().0 > self.by_page.len() {
            let blocks = &self.space().blocks;
            stale.extend((0..blocks.len()).filter(|&number| overlaps(blocks[number].source, (start, end))));
            self.by_page.retain(|&page, _| page + PAGE <= start || page >= end);
        } else {
            for page in pages(start, end) {
                if let Some(numbers) = self.by_page.remove(&page) {
                    stale.extend(numbers);
                }
            }
        }
        let (stale, kept): (Vec<usize>, Vec<usize>) =
            stale.into_iter().partition(|&number| overlaps(self.space().blocks[number].source, (start, end)));
        self.forget(&stale);
        for number in kept {
            let source = self.space().blocks[number].source;
            for page in pages(source.0, source.1).filter(|page| page + PAGE > start && *page < end) {
                self.by_page.entry(page).or_default().push(number);
            }
        }
    }

    /// The space and number of the block with code at this address.
    fn block_at(&self, code: u64) -> Option<(usize, usize)> {
        self.spaces.iter().enumerate().find_map(|(space, it)| it.block_at(code).map(|number| (space, number)))
    }
}

fn pages(start: u64, end: u64) -> impl Iterator<Item = u64> {
    (start / PAGE..end.div_ceil(PAGE)).map(|page| page * PAGE)
}

fn overlaps(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 < b.1 && b.0 < a.1
}
