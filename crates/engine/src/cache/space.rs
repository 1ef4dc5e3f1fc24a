//! One of the two spaces of the code cache: code, with the blocks and exits that it belongs to.

use std::any::Any;

use super::Key;
use super::region::Region;
use crate::context::Gpr;
use crate::memory::user;
use crate::tool::{VERSIONS, Version};
use crate::translate::{Exit, ExitKind, LookupSite, Pending, Recovery, Translation};

/// Distance of the exit numbers of the two spaces. More exits than that do not fit into a space.
const EXIT_NUMBERS: u64 = 1 << 30;

/// A translated block in the cache.
pub(super) struct CachedBlock {
    pub key: Key,
    /// Code cache address and length.
    pub code: u64,
    pub length: u64,
    /// Bytes of the checked entry that the code begins with; 0 if indirect branches cannot come here.
    pub entry: u64,
    /// Application bytes it was made from.
    pub source: (u64, u64),
    pub exits: std::ops::Range<u64>,
    pub recovery: Vec<Recovery>,
    pub vector_scratch: Vec<u8>,
    pub pending: Vec<Pending>,
    pub lookup: Option<LookupSite>,
    /// Exits of other blocks (and of this one) that go here directly.
    pub incoming: Vec<u64>,
    /// The application bytes themselves, if they can change without notice.
    pub volatile: Option<Box<[u8]>>,
    /// Whether it may still be found; stale code stays where it is, since another thread could be inside.
    pub valid: bool,
}

impl CachedBlock {
    /// Where the application's code begins.
    pub fn body(&self) -> u64 {
        self.code + self.entry
    }

    /// How the application's state is kept at `pc` in its code.
    pub fn recovery_at(&self, pc: u64) -> Option<Recovery> {
        let offset = (pc - self.code) as u32;
        let entry = self.recovery.partition_point(|entry| entry.offset <= offset);
        entry.checked_sub(1).map(|number| self.recovery[number])
    }

    /// Whether `pc` is in the checked entry, before the first register has its own value back.
    pub fn is_arriving(&self, pc: u64) -> bool {
        pc < self.body() && self.recovery_at(pc).is_some_and(|entry| entry.spilled & 1 << Gpr::Rax as u16 != 0)
    }

    /// Whether the application bytes are still those that it was made from.
    pub fn is_current(&self) -> bool {
        let Some(then) = &self.volatile else { return true };
        let mut now = vec![0; then.len()];
        user::read_bytes(self.source.0, &mut now).is_ok() && **then == *now
    }
}

/// A half of the cache.
pub(super) struct Space {
    pub region: Region,
    pub blocks: Vec<CachedBlock>,
    exits: Vec<Exit>,
    /// Number of the first exit.
    first_exit: u64,
    /// What helpers of this code refer to.
    kept: Vec<Box<dyn Any + Send>>,
    /// Bytes of code that is not valid any more.
    stale: u64,
}

impl Space {
    pub fn new(region: Region, index: usize) -> Space {
        let first_exit = index as u64 * EXIT_NUMBERS;
        let exits = indirect_exits();
        Space { region, blocks: Vec::new(), exits, first_exit, kept: Vec::new(), stale: 0 }
    }

    /// Which space an exit belongs to.
    pub fn of_exit(number: u64) -> usize {
        (number / EXIT_NUMBERS) as usize
    }

    /// The number that the next exit gets.
    pub fn next_exit(&self) -> u64 {
        self.first_exit + self.exits.len() as u64
    }

    /// The exit with this number.
    pub fn exit(&self, number: u64) -> Exit {
        self.exits[(number - self.first_exit) as usize]
    }

    /// Adds a translation that was made for the next address and exit number. Returns the block's number, or `None` if it does not fit.
    pub fn add(
        &mut self,
        key: Key,
        source: (u64, u64),
        translation: Translation,
        volatile: Option<Box<[u8]>>,
    ) -> Option<usize> {
        let first_exit = self.next_exit();
        let code = self.region.append(&translation.code)?;
        self.exits.extend(&translation.exits);
        self.kept.extend(translation.kept);
        self.blocks.push(CachedBlock {
            key,
            code,
            length: translation.code.len() as u64,
            entry: translation.entry,
            source,
            exits: first_exit..self.next_exit(),
            recovery: translation.recovery,
            vector_scratch: translation.vector_scratch,
            pending: translation.pending,
            lookup: translation.lookup,
            incoming: Vec::new(),
            volatile,
            valid: true,
        });
        Some(self.blocks.len() - 1)
    }

    /// The block with code at this address.
    pub fn block_at(&self, code: u64) -> Option<usize> {
        // The region is filled from its start, so blocks are in the order of their code.
        let number = self.blocks.partition_point(|block| block.code <= code).checked_sub(1)?;
        let block = &self.blocks[number];
        (code < block.code + block.length).then_some(number)
    }

    /// Lets a direct exit go to `code`.
    pub fn link(&self, number: u64, code: u64) {
        if let ExitKind::Branch { patch, .. } = self.exit(number).kind {
            self.region.patch_displacement(patch, code);
        }
    }

    /// Lets a direct exit go through the dispatcher again.
    pub fn unlink(&self, number: u64) {
        self.link(number, self.exit(number).stub);
    }

    /// Lets all direct exits of a block go through the dispatcher again.
    pub fn unlink_exits(&self, block: usize) {
        self.blocks[block].exits.clone().for_each(|number| self.unlink(number));
    }

    /// A block is not to be found any more. Returns the exits that lead to it, or `None` if it is so already.
    pub fn retire_block(&mut self, number: usize) -> Option<Vec<u64>> {
        let block = &mut self.blocks[number];
        let valid = std::mem::replace(&mut block.valid, false);
        valid.then(|| {
            self.stale += block.length;
            std::mem::take(&mut block.incoming)
        })
    }

    /// Bytes of code that is not valid any more.
    pub fn stale(&self) -> u64 {
        self.stale
    }

    /// Forgets everything. No thread may be inside.
    pub fn clear(&mut self) {
        self.region.clear();
        self.blocks.clear();
        self.exits = indirect_exits();
        self.kept.clear();
        self.stale = 0;
    }
}

/// The exit of the search routine for indirect branches of a version.
pub(super) fn indirect_exit(space: usize, version: Version) -> u64 {
    space as u64 * EXIT_NUMBERS + u64::from(version.0)
}

/// The first exits of a space: those of its search routines.
fn indirect_exits() -> Vec<Exit> {
    (0..VERSIONS).map(|n| Exit { version: Version(n as u8), kind: ExitKind::Indirect, stub: 0 }).collect()
}
