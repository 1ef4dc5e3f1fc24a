//! The recording's machinery: buffers on their way from the program's threads through the background threads into the file and back.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::JoinHandle;

use crate::encode::Encoder;
use crate::error::{Result, TapeError};
use crate::format::{Entry, HEADER_BYTES, Header, INPUT_FILE, OUTPUT_FILE, Parent, Process, TAPE_FILE, checksum};
use crate::guard;
use crate::index_list::{IndexList, lock};
use crate::record::{Buffer, Chunk, Record};
use crate::sink::{FileSink, Sink};

/// Chunks that may wait to be written. Beyond that, submitting threads wait: memory stays bounded.
const WAITING: usize = 6;
/// When so many wait, a further thread helps.
const MANY_WAITING: usize = 3;
/// Background threads at most.
const MOST_THREADS: usize = 4;
/// Directory entries to begin with. So large an allocation is a mapping of its own and grows without moving through the heap.
const ENTRIES: usize = 1 << 16;
/// Address space for the stack of a background thread. The C library takes the executable's thread-local variables out of it, and the
/// engine's are megabytes large; memory is used only as far as the stack grows.
pub(crate) const STACK: usize = 16 << 20;

/// The state of one process's recording.
pub(crate) struct Recording {
    pub(crate) process: Process,
    pub(crate) inputs: IndexList,
    pub(crate) outputs: IndexList,
    parent: Option<Parent>,
    path: PathBuf,
    sink: Box<dyn Sink>,
    next_index: AtomicU64,
    submitted: AtomicU64,
    /// Whether indices are given out and operand words are read with guards (see [`guard`]).
    guarded: bool,
    /// Operands that turned out to be pieces of indices.
    broken_operands: AtomicU64,
    /// Where the next block goes.
    end: AtomicU64,
    /// Where the directory has been put.
    directory_offset: AtomicU64,
    failed: Arc<AtomicBool>,
    failure: Mutex<Option<Failure>>,
    queue: Mutex<Queue>,
    /// Signalled when a chunk waits, or when the threads shall end.
    work: Condvar,
    /// Signalled when there is room for a chunk.
    room: Condvar,
    directory: Mutex<Vec<Entry>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    finished: Mutex<bool>,
    watcher: OnceLock<Watcher>,
}

/// Is told how large the tape has become, or that it is finished (`None`).
pub(crate) type Watcher = Box<dyn Fn(Option<u64>) + Send + Sync>;

struct Queue {
    filled: VecDeque<(Chunk, usize)>,
    free: Vec<Buffer>,
    /// Threads that are writing.
    active: usize,
    closed: bool,
}

impl Queue {
    /// Whether a thread that is not writing should begin.
    fn needs_help(&self) -> bool {
        let few = if self.active == 0 || self.closed { 1 } else { MANY_WAITING };
        self.filled.len() >= few
    }
}

/// What an `io::Error` consists of, as that type cannot be cloned.
#[derive(Clone)]
struct Failure {
    action: &'static str,
    path: PathBuf,
    code: Option<i32>,
    kind: io::ErrorKind,
    message: String,
}

impl Failure {
    fn new(action: &'static str, path: &Path, error: &io::Error) -> Failure {
        let (code, kind, message) = (error.raw_os_error(), error.kind(), error.to_string());
        Failure { action, path: path.to_owned(), code, kind, message }
    }

    fn error(&self) -> TapeError {
        let source = match self.code {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(self.kind, self.message.clone()),
        };
        TapeError::io(self.action, &self.path, source)
    }
}

/// Where a recording goes.
pub(crate) struct Sinks {
    pub(crate) tape: Box<dyn Sink>,
    pub(crate) inputs: Box<dyn Sink>,
    pub(crate) outputs: Box<dyn Sink>,
}

impl Recording {
    /// Creates the files. Indices are given out from `first_index`; `failed` tells from now on whether something has gone wrong.
    pub(crate) fn start(
        directory: &Path,
        process: Process,
        first_index: u64,
        parent: Option<Parent>,
        failed: &Arc<AtomicBool>,
        guarded: bool,
    ) -> Result<Arc<Recording>> {
        let create =
            |name| -> Result<Box<dyn Sink>> { Ok(Box::new(FileSink::create(&process.file(directory, name))?)) };
        let sinks = Sinks { tape: create(TAPE_FILE)?, inputs: create(INPUT_FILE)?, outputs: create(OUTPUT_FILE)? };
        let mut recording = Recording::new(directory, process, first_index, parent, sinks, guarded);
        let header = Header { parent, ..Header::default() };
        recording
            .sink
            .write_at(&header.to_bytes(), 0)
            .map_err(|source| TapeError::io("write", &recording.path, source))?;
        recording.failed = Arc::clone(failed);
        Ok(Arc::new(recording))
    }

    /// Starts the background threads. Until then what is submitted waits; [`finish`](Self::finish) writes what has not been written.
    pub(crate) fn start_threads_now(self: &Arc<Self>) -> Result<()> {
        self.start_threads().map_err(|source| TapeError::io("start a thread to write", &self.path, source))
    }

    /// The buffers that wait to be used again.
    pub(crate) fn take_buffers(&self) -> Vec<Buffer> {
        std::mem::take(&mut lock(&self.queue).free)
    }

    /// Hands over buffers to be used.
    pub(crate) fn give_buffers(&self, buffers: Vec<Buffer>) {
        lock(&self.queue).free.extend(buffers);
    }

    /// A recording that drops everything because of `error`.
    pub(crate) fn broken(
        directory: &Path,
        process: Process,
        parent: Parent,
        error: &TapeError,
        failed: &Arc<AtomicBool>,
    ) -> Arc<Recording> {
        struct Nowhere;
        impl Sink for Nowhere {
            fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
                Ok(())
            }
        }
        let sinks = Sinks { tape: Box::new(Nowhere), inputs: Box::new(Nowhere), outputs: Box::new(Nowhere) };
        let mut recording = Recording::new(directory, process, parent.index_limit, Some(parent), sinks, false);
        recording.failed = Arc::clone(failed);
        match error {
            TapeError::Io { action, path, source } => recording.fail(Failure::new(action, path, source)),
            other => recording.fail(Failure::new("write", &recording.path, &io::Error::other(other.to_string()))),
        }
        Arc::new(recording)
    }

    pub(crate) fn new(
        directory: &Path,
        process: Process,
        first_index: u64,
        parent: Option<Parent>,
        sinks: Sinks,
        guarded: bool,
    ) -> Recording {
        Recording {
            process,
            inputs: IndexList::new(sinks.inputs),
            outputs: IndexList::new(sinks.outputs),
            parent,
            path: process.file(directory, TAPE_FILE),
            sink: sinks.tape,
            next_index: AtomicU64::new(first_index),
            submitted: AtomicU64::new(0),
            guarded,
            broken_operands: AtomicU64::new(0),
            end: AtomicU64::new(HEADER_BYTES as u64),
            directory_offset: AtomicU64::new(HEADER_BYTES as u64),
            failed: Arc::default(),
            failure: Mutex::new(None),
            queue: Mutex::new(Queue {
                filled: VecDeque::with_capacity(WAITING + 1),
                free: Vec::with_capacity(4 * WAITING),
                active: 0,
                closed: false,
            }),
            work: Condvar::new(),
            room: Condvar::new(),
            directory: Mutex::new(Vec::with_capacity(ENTRIES)),
            threads: Mutex::new(Vec::new()),
            finished: Mutex::new(false),
            watcher: OnceLock::new(),
        }
    }

    pub(crate) fn watch(&self, watcher: Watcher) {
        let _ = self.watcher.set(watcher);
    }

    fn tell(&self, bytes: Option<u64>) {
        if let Some(watcher) = self.watcher.get() {
            watcher(bytes);
        }
    }

    /// Starts the background threads, with all signals blocked: signals are for the program's threads.
    pub(crate) fn start_threads(self: &Arc<Self>) -> io::Result<()> {
        let count = std::thread::available_parallelism().map_or(1, |processors| processors.get().min(MOST_THREADS));
        let _blocked = SignalsBlocked::new();
        for _ in 0..count {
            let recording = Arc::clone(self);
            let thread = std::thread::Builder::new().name("derivgrind-tape".into()).stack_size(STACK);
            let live = move || {
                let _guard = PanicGuard(&recording);
                recording.write_chunks();
            };
            lock(&self.threads).push(thread.spawn(live)?);
        }
        Ok(())
    }

    pub(crate) fn take_chunk(&self, capacity: usize) -> Chunk {
        let first_index = self.next_index.fetch_add(capacity as u64, Ordering::Relaxed);
        let recycled = lock(&self.queue).free.pop();
        let mut chunk = Chunk { first_index, capacity, start: 0, buffer: recycled.unwrap_or_else(Buffer::new) };
        if self.guarded {
            chunk.capacity = guard::until_skipped(first_index, capacity);
            if first_index >= guard::WIDE_LIMIT - capacity as u64 {
                let reason = io::Error::other("a recording has room for 2^46 operations");
                self.fail(Failure::new("write", &self.path, &reason));
            }
        }
        if first_index == 0 || self.guarded && guard::is_skipped(first_index) {
            chunk.start = 1;
            chunk.as_mut_slice()[0] = Record::default();
        }
        chunk
    }

    pub(crate) fn submit(&self, chunk: Chunk, used: usize) {
        self.submitted.fetch_add(used as u64, Ordering::Relaxed);

        let mut queue = lock(&self.queue);
        while queue.filled.len() >= WAITING && !queue.closed && !self.failed.load(Ordering::Relaxed) {
            queue = self.room.wait(queue).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        if queue.closed || used == 0 || self.failed.load(Ordering::Relaxed) {
            queue.free.push(chunk.buffer);
        } else {
            queue.filled.push_back((chunk, used));
            let help = queue.needs_help();
            drop(queue);
            if help {
                self.work.notify_one();
            }
        }
    }

    /// Starts the background threads if there are none yet and chunks pile up.
    pub(crate) fn start_threads_if_needed(self: &Arc<Self>) {
        let busy = {
            let queue = lock(&self.queue);
            queue.filled.len() >= MANY_WAITING && !queue.closed
        };
        if busy
            && lock(&self.threads).is_empty()
            && let Err(error) = self.start_threads()
        {
            self.fail(Failure::new("start a thread to write", &self.path, &error));
        }
    }

    /// A background thread's life. One thread keeps up with most programs; the others help when chunks pile up.
    fn write_chunks(&self) {
        let mut encoder = Encoder::new(self.guarded);
        let mut queue = lock(&self.queue);
        loop {
            if queue.needs_help() {
                queue.active += 1;
                while let Some((chunk, used)) = queue.filled.pop_front() {
                    drop(queue);
                    self.room.notify_one();
                    self.write_chunk(&mut encoder, &chunk, used);
                    self.broken_operands.fetch_add(encoder.take_broken(), Ordering::Relaxed);
                    queue = lock(&self.queue);
                    queue.free.push(chunk.buffer);
                    if queue.active > 1 && !queue.closed && queue.filled.len() < MANY_WAITING {
                        break;
                    }
                }
                queue.active -= 1;
            } else if queue.closed {
                return;
            } else {
                queue = self.work.wait(queue).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
        }
    }

    fn write_chunk(&self, encoder: &mut Encoder, chunk: &Chunk, used: usize) {
        let mut records = &chunk.buffer.as_slice()[..used];
        let mut first_index = chunk.first_index;
        while !records.is_empty() && !self.failed.load(Ordering::Relaxed) {
            let (count, block) = encoder.encode(first_index, records);
            let offset = self.end.fetch_add(block.len() as u64, Ordering::Relaxed);
            if let Err(error) = self.sink.write_at(block, offset) {
                self.fail(Failure::new("write", &self.path, &error));
                return;
            }
            lock(&self.directory).push(Entry { offset, first_index, records: count as u32, bytes: block.len() as u32 });
            self.tell(Some(self.bytes_written()));
            records = &records[count..];
            first_index += count as u64;
        }
    }

    /// Keeps the first failure; from now on everything is dropped.
    fn fail(&self, failure: Failure) {
        lock(&self.failure).get_or_insert(failure);
        self.failed.store(true, Ordering::Release);
        self.room.notify_all();
    }

    /// Operands that turned out to be pieces of indices in what has been written since the last call.
    pub(crate) fn take_broken_operands(&self) -> u64 {
        self.broken_operands.swap(0, Ordering::Relaxed)
    }

    /// Whether it was begun with guards.
    pub(crate) fn is_guarded(&self) -> bool {
        self.guarded
    }

    pub(crate) fn error(&self) -> Option<TapeError> {
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.failure).as_ref().map(Failure::error)
    }

    /// Ends the background threads when everything submitted is written.
    pub(crate) fn stop(&self) {
        lock(&self.queue).closed = true;
        self.work.notify_all();
        self.room.notify_all();
        let threads = std::mem::take(&mut *lock(&self.threads));
        if threads.is_empty() && !lock(&self.queue).filled.is_empty() {
            // There were so few records that no thread was started.
            self.write_chunks();
        }
        for thread in threads {
            // A panic has been noted by its guard.
            let _ = thread.join();
        }
    }

    pub(crate) fn finish(&self) -> Result<()> {
        let mut finished = lock(&self.finished);
        if !*finished {
            self.stop();
            self.tell(None);
            for (list, name) in [(&self.inputs, INPUT_FILE), (&self.outputs, OUTPUT_FILE)] {
                if let Err(error) = list.flush() {
                    self.fail(Failure::new("write", &self.path.with_file_name(name), &error));
                }
            }
            if !self.failed.load(Ordering::Relaxed)
                && let Err(error) = self.complete()
            {
                self.fail(Failure::new("write", &self.path, &error));
            }
            *finished = true;
        }
        self.error().map_or(Ok(()), Err)
    }

    /// Takes back [`finish`](Self::finish): marks the tape as incomplete and starts the background threads again.
    pub(crate) fn resume(self: &Arc<Self>) -> Result<()> {
        let mut finished = lock(&self.finished);
        if !*finished || self.failed.load(Ordering::Relaxed) {
            return self.error().map_or(Ok(()), Err);
        }
        let header = Header { parent: self.parent, ..Header::default() };
        // The next blocks overwrite the directory.
        self.end.store(self.directory_offset.load(Ordering::Relaxed), Ordering::Relaxed);
        let written = self.sink.write_at(&header.to_bytes(), 0);
        lock(&self.queue).closed = false;
        if let Err(error) = written.and_then(|()| self.start_threads()) {
            self.fail(Failure::new("write", &self.path, &error));
        }
        *finished = false;
        self.error().map_or(Ok(()), Err)
    }

    /// Writes the directory, then the header that declares the tape complete.
    fn complete(&self) -> io::Result<()> {
        let mut directory = lock(&self.directory);
        directory.sort_unstable_by_key(|entry| entry.first_index);
        let bytes: Vec<u8> = directory.iter().flat_map(|entry| entry.to_bytes()).collect();
        let offset = self.end.load(Ordering::Relaxed);
        self.directory_offset.store(offset, Ordering::Relaxed);
        self.sink.write_at(&bytes, offset)?;
        self.end.store(offset + bytes.len() as u64, Ordering::Relaxed);
        let header = Header {
            complete: true,
            directory_offset: offset,
            blocks: directory.len() as u64,
            records: directory.iter().map(|entry| u64::from(entry.records)).sum(),
            index_limit: directory.last().map_or(0, Entry::index_limit),
            directory_checksum: checksum(&bytes),
            parent: self.parent,
        };
        self.sink.write_at(&header.to_bytes(), 0)
    }

    pub(crate) fn next_index(&self) -> u64 {
        self.next_index.load(Ordering::Relaxed)
    }

    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes_written(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    pub(crate) fn parent_inputs(&self) -> u64 {
        self.parent.map_or(0, |parent| parent.inputs)
    }

    pub(crate) fn parent_outputs(&self) -> u64 {
        self.parent.map_or(0, |parent| parent.outputs)
    }

    pub(crate) fn descriptors(&self) -> [i32; 3] {
        [self.sink.descriptor(), self.inputs.descriptor(), self.outputs.descriptor()]
    }

    /// In a forked child: closes its copies of the parent's descriptors. The recording must not be used any more.
    pub(crate) fn close_descriptors(&self) {
        for descriptor in self.descriptors().into_iter().filter(|descriptor| *descriptor >= 0) {
            // SAFETY: the owner of the descriptor is this recording, which the child leaks and never uses again.
            drop(unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(descriptor) });
        }
    }
}

/// Lets the recording fail if its thread panics: the program must not wait for a thread that has gone.
struct PanicGuard<'a>(&'a Recording);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(Failure::new("write", &self.0.path, &io::Error::other("the writing thread has panicked")));
        }
    }
}

/// Blocks all signals of the calling thread while it lives; threads started meanwhile inherit that.
struct SignalsBlocked {
    before: libc::sigset_t,
}

impl SignalsBlocked {
    fn new() -> SignalsBlocked {
        // SAFETY: sigset_t is plain data, filled in by the calls below; the calls get valid pointers.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut before = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            SignalsBlocked { before }
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: `before` is the mask that was in force.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Operation;
    use crate::record::Record;

    /// A disk with room for a number of bytes.
    struct SmallDisk {
        room: u64,
        end: AtomicU64,
    }

    impl Sink for SmallDisk {
        fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            let end = offset + bytes.len() as u64;
            if end > self.room {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            self.end.fetch_max(end, Ordering::Relaxed);
            Ok(())
        }
    }

    fn record_chunks(room: u64, chunks: usize) -> Arc<Recording> {
        let disk = |room| Box::new(SmallDisk { room, end: AtomicU64::new(0) });
        let sinks = Sinks { tape: disk(room), inputs: disk(1 << 20), outputs: disk(1 << 20) };
        let recording = Arc::new(Recording::new(Path::new("/small"), Process::Main, 0, None, sinks, false));
        recording.start_threads().unwrap();
        for _ in 0..chunks {
            let mut chunk = recording.take_chunk(Chunk::RECORDS);
            let first_index = chunk.first_index();
            for (index, record) in (first_index..).zip(chunk.as_mut_slice()) {
                *record = Record::binary64(Operation::Mul, [index.saturating_sub(1), 0], [0.0, index as f64]);
            }
            recording.submit(chunk, Chunk::RECORDS);
        }
        recording
    }

    #[test]
    fn a_full_disk_is_reported_and_recording_goes_on() {
        let recording = record_chunks(1_000_000, 100);
        assert_eq!(recording.submitted(), 100 * Chunk::RECORDS as u64);
        let message = recording.finish().unwrap_err().to_string();
        assert!(message.contains("/small/dg-tape: No space left on device"), "{message}");
        assert_eq!(recording.error().unwrap().to_string(), message);
        // After the end nothing can go wrong any more.
        let chunk = recording.take_chunk(Chunk::RECORDS);
        recording.submit(chunk, 1);
    }

    #[test]
    fn a_panic_in_the_background_does_not_stop_the_program() {
        struct Trap;
        impl Sink for Trap {
            fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
                panic!("a trap for the writing thread");
            }
        }
        let sinks = Sinks { tape: Box::new(Trap), inputs: Box::new(Trap), outputs: Box::new(Trap) };
        let recording = Arc::new(Recording::new(Path::new("/trap"), Process::Main, 0, None, sinks, false));
        recording.start_threads().unwrap();
        for _ in 0..50 {
            let chunk = recording.take_chunk(Chunk::RECORDS);
            recording.submit(chunk, Chunk::RECORDS);
        }
        recording.stop();
        assert!(recording.error().unwrap().to_string().contains("panicked"));
    }

    #[test]
    fn a_guarded_recording_skips_indices_and_counts_pieces() {
        let disk = || Box::new(SmallDisk { room: u64::MAX, end: AtomicU64::new(0) });
        let sinks = Sinks { tape: disk(), inputs: disk(), outputs: disk() };
        let recording = Arc::new(Recording::new(Path::new("/guarded"), Process::Main, 0, None, sinks, true));
        let mut starts = Vec::new();
        for _ in 0..6 {
            let mut chunk = recording.take_chunk(Chunk::RECORDS - 1);
            starts.push((chunk.first_index(), chunk.start(), chunk.capacity()));
            let start = chunk.start();
            let operand = |index: u64| index | guard::WIDE_TAG;
            let record = Record::binary64(Operation::Mul, [0; 2], [0.0; 2]);
            let words = [record.operand1 | operand(5), operand(0x10000)];
            chunk.as_mut_slice()[start] = Record { operand1: words[0], operand2: words[1], ..record };
            recording.submit(chunk, start + 1);
        }
        let count = Chunk::RECORDS as u64 - 1;
        let expected = [(0, 1), (count, 0), (2 * count, 0), (3 * count, 0), (4 * count, 0), (5 * count, 0)];
        assert_eq!(starts.iter().map(|&(first, start, _)| (first, start)).collect::<Vec<_>>(), expected);
        assert_eq!(starts[4].2, 4, "the rest begins with an index that is not given out");
        recording.finish().unwrap();
        assert_eq!([recording.take_broken_operands(), recording.take_broken_operands()], [6, 0]);
    }

    #[test]
    fn buffers_are_recycled() {
        let recording = record_chunks(u64::MAX, 300);
        recording.finish().unwrap();
        let threads = 4;
        assert!(lock(&recording.queue).free.len() <= WAITING + threads + 2);
    }

    #[test]
    fn background_threads_leave_signals_alone() {
        let recording = record_chunks(u64::MAX, 1);
        // A thread has its name when it has written something.
        while recording.bytes_written() == HEADER_BYTES as u64 {
            std::thread::yield_now();
        }
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let status = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok());
        let ours: Vec<String> = status.filter(|status| status.starts_with("Name:\tderivgrind-tape\n")).collect();
        assert!(!ours.is_empty());
        for status in ours {
            let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
            let blocked = u64::from_str_radix(blocked, 16).unwrap();
            // All but those that cannot be blocked and those that the C library keeps for itself.
            let signals = (1..=64).filter(|signal| ![libc::SIGKILL, libc::SIGSTOP, 32, 33].contains(signal));
            for signal in signals {
                assert!(blocked >> (signal - 1) & 1 != 0, "signal {signal}: {blocked:x}");
            }
        }
        recording.finish().unwrap();
    }
}
