//! Memory that a session shares with its worker: a file in `/dev/shm`, mapped by both. It begins with a page of words that the worker leaves even
//! when it dies; arrays follow.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// The shared memory.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    file: File,
    whole: Mapping,
    /// The first page once more, which stays where it is when the memory grows.
    words: Mapping,
}

/// The beginning of a file, mapped.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping can be used by any thread; access goes through `&mut SharedMemory` or atomics.
unsafe impl Send for Mapping {}

/// Words of the first page: where an access to memory has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// Number of the argument beside which an access failed, from 1; 0 for another access.
    Argument = 0,
    /// 1 if it was behind the argument's end.
    Behind = 1,
    /// Address of the access that failed.
    Address = 2,
}

impl SharedMemory {
    /// Makes the file.
    pub(crate) fn create(path: &Path) -> io::Result<SharedMemory> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        file.set_len(PAGE as u64)?;
        Self::of(file)
    }

    /// Opens the file that the other side has made.
    pub(crate) fn open(path: &Path) -> io::Result<SharedMemory> {
        Self::of(OpenOptions::new().read(true).write(true).open(path)?)
    }

    fn of(file: File) -> io::Result<SharedMemory> {
        Ok(SharedMemory { whole: Mapping::of(&file, PAGE)?, words: Mapping::of(&file, PAGE)?, file })
    }

    /// Makes room: the session's side.
    pub(crate) fn grow(&mut self, bytes: usize) -> io::Result<()> {
        if bytes > self.len() {
            let bytes = bytes.max(2 * self.len()).next_multiple_of(PAGE);
            self.file.set_len(bytes as u64)?;
            self.follow(bytes)?;
        }
        Ok(())
    }

    /// Maps as much as the other side has.
    pub(crate) fn follow(&mut self, bytes: usize) -> io::Result<()> {
        if bytes > self.len() {
            self.whole = Mapping::of(&self.file, bytes)?;
        }
        Ok(())
    }

    /// Its size.
    pub(crate) fn len(&self) -> usize {
        self.whole.bytes
    }

    /// A part of it, or `None` if there is no such part.
    pub(crate) fn part(&mut self, offset: u64, bytes: usize) -> Option<&mut [u8]> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(bytes)?;
        // SAFETY: within the mapping. The other side does not use it meanwhile: requests and answers take turns.
        (end <= self.len())
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.whole.start.as_ptr().add(offset), bytes) })
    }

    /// A word of the first page.
    pub(crate) fn word(&self, word: Word) -> &AtomicU64 {
        // SAFETY: the first page is always mapped, and only accessed by words.
        unsafe { &*self.words.start.as_ptr().cast::<AtomicU64>().add(word as usize) }
    }

    /// Sets all words to 0.
    pub(crate) fn clear_words(&self) {
        for word in [Word::Argument, Word::Behind, Word::Address] {
            self.word(word).store(0, Ordering::Relaxed);
        }
    }
}

impl Mapping {
    fn of(file: &File, bytes: usize) -> io::Result<Mapping> {
        let (protection, descriptor) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, descriptor, 0) };
        match NonNull::new(start.cast()) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED.cast() => Ok(Mapping { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nobody has a part of it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_see_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("memory");
        let mut ours = SharedMemory::create(&path).unwrap();
        let mut theirs = SharedMemory::open(&path).unwrap();
        ours.grow(100_000).unwrap();
        ours.part(PAGE as u64, 3).unwrap().copy_from_slice(b"abc");
        assert_eq!(theirs.part(PAGE as u64, 3), None);
        theirs.follow(ours.len()).unwrap();
        assert_eq!(theirs.part(PAGE as u64, 3).unwrap(), b"abc");
        theirs.word(Word::Behind).store(7, Ordering::Relaxed);
        assert_eq!(ours.word(Word::Behind).load(Ordering::Relaxed), 7);
        assert_eq!(ours.part(u64::MAX, 1), None);
        assert_eq!(ours.part(0, usize::MAX), None);
    }
}
