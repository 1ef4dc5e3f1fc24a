//! The writer, used inside the recorded process: hands out chunks of indices and brings filled chunks into the file.
//!
//! Threads of the program fill chunks without any synchronisation and submit them; background threads encode and write them. The
//! number of buffers is bounded: a program that records faster than the disk writes waits in [`TapeWriter::submit`].
//!
//! An error (a full disk) never disturbs the program: from then on records are dropped, the tape stays marked as incomplete, and
//! [`TapeWriter::finish`] returns the error.

use std::fs;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::{Result, TapeError};
use crate::format::{INPUT_FILE, OUTPUT_FILE, Parent, Process, TAPE_FILE};
use crate::index_list::lock;
use crate::queue::Recording;
use crate::record::Chunk;

/// Writes the tape of one process.
///
/// All methods take `&self` and may be called from several threads at once, except where stated.
pub struct TapeWriter {
    /// Owned as by `Arc::into_raw`. A forked child replaces it and leaks the parent's: locks in there may be held by threads that do
    /// not exist in the child.
    recording: AtomicPtr<Recording>,
    /// Threads that are inside one of the methods, and may use a recording that has just been replaced.
    users: AtomicUsize,
    /// Whether the recording has failed. It is asked for each operation and therefore not behind the pointer.
    failed: Arc<AtomicBool>,
    directory: Mutex<PathBuf>,
}

/// The recording, which is not given up while this lives.
struct InUse<'a> {
    recording: &'a Recording,
    users: &'a AtomicUsize,
}

impl InUse<'_> {
    /// Another owner of it, for threads that it starts.
    fn shared(&self) -> Arc<Recording> {
        let recording = std::ptr::from_ref(self.recording);
        // SAFETY: the pointer comes from Arc::into_raw, and its count is not given up while this lives; this takes a second one.
        unsafe {
            Arc::increment_strong_count(recording);
            Arc::from_raw(recording)
        }
    }
}

impl Deref for InUse<'_> {
    type Target = Recording;

    fn deref(&self) -> &Recording {
        self.recording
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.users.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TapeWriter {
    /// Starts a recording in `directory`, which is created if it is missing. A recording that is there already is replaced.
    ///
    /// # Errors
    /// [`TapeError::NotADirectory`] if something else has this name; [`TapeError::Io`] if the directory or its files cannot be
    /// created or written, or if no thread can be started.
    pub fn create(directory: &Path) -> Result<TapeWriter> {
        TapeWriter::with_guards(directory, false)
    }

    /// As [`create`](Self::create), for a recorder whose operand words have guards: see [`guard`](crate::guard).
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub fn create_guarded(directory: &Path) -> Result<TapeWriter> {
        TapeWriter::with_guards(directory, true)
    }

    fn with_guards(directory: &Path, guarded: bool) -> Result<TapeWriter> {
        let directory = prepare(directory)?;
        let failed = Arc::default();
        let recording = Recording::start(&directory, Process::Main, 0, None, &failed, guarded)?;
        recording.start_threads_now()?;
        let recording = AtomicPtr::new(Arc::into_raw(recording).cast_mut());
        Ok(TapeWriter { recording, users: AtomicUsize::new(0), failed, directory: Mutex::new(directory) })
    }

    fn recording(&self) -> InUse<'_> {
        self.users.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the pointer comes from Arc::into_raw. Its count is given up in `drop`, and in `restart` when the pointer has been replaced
        // and nobody is left who was counted before. `fork_child` replaces it, too, but leaks the old one.
        let recording = unsafe { &*self.recording.load(Ordering::SeqCst) };
        InUse { recording, users: &self.users }
    }

    /// Completes the recording and begins another, in another `directory`, whose indices count from the beginning again. Chunks must have been
    /// submitted before, all that belong to the old recording; the recorder must not use old indices again.
    ///
    /// # Errors
    /// As for [`create`](Self::create); the old recording goes on then. An error of the old recording is returned, too, when the new one has begun.
    pub fn restart(&self, directory: &Path) -> Result<()> {
        let directory = prepare(directory)?;
        let guarded = self.recording().is_guarded();
        let recording = Recording::start(&directory, Process::Main, 0, None, &self.failed, guarded)?;
        let finished = self.finish();
        recording.give_buffers(self.recording().take_buffers());
        self.failed.store(false, Ordering::Release);
        let old = self.recording.swap(Arc::into_raw(recording).cast_mut(), Ordering::SeqCst);
        *lock(&self.directory) = directory;
        // Whoever comes from now on uses the new one.
        while self.users.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
        // SAFETY: the count that `create` or the last `restart` has put aside with Arc::into_raw; nobody uses the pointer any more.
        drop(unsafe { Arc::from_raw(old) });
        finished
    }

    /// Lets `watcher` know how many bytes the tape has, whenever that has changed, and `None` when it is finished. It is called on a background
    /// thread and must not allocate memory: a process that the program forks at that moment would inherit a locked allocator. Only the
    /// first watcher counts, and forked processes have none.
    pub fn watch(&self, watcher: impl Fn(Option<u64>) + Send + Sync + 'static) {
        self.recording().watch(Box::new(watcher));
    }

    /// The recording's directory, as an absolute path.
    pub fn directory(&self) -> PathBuf {
        lock(&self.directory).clone()
    }

    /// The next run of indices, with a buffer for their records. The first chunk starts with index 0, whose record (all zero) is
    /// filled in already; see [`Chunk::start`].
    pub fn take_chunk(&self) -> Chunk {
        self.take_chunk_of(Chunk::RECORDS)
    }

    /// As [`take_chunk`](Self::take_chunk), with only so many indices (at least 2, at most [`Chunk::RECORDS`]): for a thread that often
    /// abandons its chunks, because it goes on with results of other threads. Abandoned indices cost little, but there are only 2^30 of
    /// them for binary32 values.
    pub fn take_chunk_of(&self, capacity: usize) -> Chunk {
        self.recording().take_chunk(capacity.clamp(2, Chunk::RECORDS))
    }

    /// Hands in a chunk to be written. Its first `used` records count (including the dummy of index 0), the rest of its indices is
    /// abandoned.
    ///
    /// A chunk that is dropped instead is missing on the tape. So before [`finish`](Self::finish) the chunks of *all* threads must be
    /// submitted, also those of threads that are still running or waiting.
    pub fn submit(&self, chunk: Chunk, used: usize) {
        let used = used.min(chunk.capacity);
        let recording = self.recording();
        recording.submit(chunk, used);
        recording.shared().start_threads_if_needed();
    }

    /// How many operands turned out to be pieces of indices in what has been written since the last call, and were taken for passive; complete after
    /// [`finish`](Self::finish). Only a [guarded](Self::create_guarded) recording looks for them. An operation that repeats one before is not counted again.
    pub fn take_broken_operands(&self) -> u64 {
        self.recording().take_broken_operands()
    }

    /// Appends an index to the list of inputs.
    pub fn declare_input(&self, index: u64) {
        self.recording().inputs.declare(index);
    }

    /// Appends indices to the list of inputs, in order.
    pub fn declare_inputs(&self, indices: &[u64]) {
        self.recording().inputs.declare_all(indices);
    }

    /// Appends indices to the list of outputs, in order. See [`declare_output`](Self::declare_output).
    pub fn declare_outputs(&self, indices: &[u64]) {
        self.recording().outputs.declare_all(indices);
    }

    /// Appends an index to the list of outputs. Index 0, a passive variable, is allowed: its derivatives are 0.
    pub fn declare_output(&self, index: u64) {
        self.recording().outputs.declare(index);
    }

    /// Writes what has been submitted, completes the files and marks the tape as complete. Further calls do nothing more; what is
    /// submitted afterwards is dropped.
    ///
    /// # Errors
    /// The first error since [`create`](Self::create), as [`error`](Self::error) returns it. The tape is marked as incomplete then.
    pub fn finish(&self) -> Result<()> {
        self.recording().finish()
    }

    /// Takes back [`finish`](Self::finish), for a program that goes on after all (an `execve` that has failed): the tape is incomplete
    /// again, and what is submitted is written, until the next `finish`.
    ///
    /// It must not be called while other threads call `finish` or `fork_child`.
    ///
    /// # Errors
    /// The first error since [`create`](Self::create), or one that occurs now.
    pub fn resume(&self) -> Result<()> {
        self.recording().shared().resume()
    }

    /// The error that has stopped the recording, if any.
    pub fn error(&self) -> Option<TapeError> {
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        self.recording().error()
    }

    /// Bytes in the tape file by now.
    pub fn bytes_written(&self) -> u64 {
        self.recording().bytes_written()
    }

    /// Indices whose records have been submitted by now.
    pub fn indices(&self) -> u64 {
        self.recording().submitted()
    }

    /// The file descriptors that the recording uses, so that they can be kept from the program. They are close-on-exec and as high as
    /// the limit on open files allows.
    pub fn descriptors(&self) -> [i32; 3] {
        self.recording().descriptors()
    }

    /// To be called in the child after `fork`, on its only thread, before anything else is done with the writer.
    ///
    /// The child goes on in files of its own, `dg-tape.<pid>` and likewise. They continue the parent's: an index that the child's
    /// tape does not hold is looked up in the parent's tape, and inputs and outputs that were declared before the fork count for
    /// both. Chunks that the calling thread holds stay valid and are written by both processes. Chunks that the parent's other threads
    /// held or that were waiting to be written are the parent's business.
    ///
    /// # Errors
    /// As for [`create`](Self::create). The writer then drops all records, as after any other error.
    pub fn fork_child(&self, pid: u32) -> Result<()> {
        // Those of the parent's other threads do not count here.
        self.users.store(0, Ordering::SeqCst);
        let old = self.recording();
        let parent = Parent {
            process: old.process,
            index_limit: old.next_index(),
            inputs: old.parent_inputs() + old.inputs.declared(),
            outputs: old.parent_outputs() + old.outputs.declared(),
        };
        old.close_descriptors();
        self.failed.store(false, Ordering::Release);
        let directory = self.directory();
        let process = Process::Forked(pid);
        let started =
            Recording::start(&directory, process, parent.index_limit, Some(parent), &self.failed, old.is_guarded())
                .and_then(|recording| recording.start_threads_now().map(|()| recording));
        let (recording, result) = match started {
            Ok(recording) => (recording, Ok(())),
            Err(error) => (Recording::broken(&directory, process, parent, &error, &self.failed), Err(error)),
        };
        self.recording.store(Arc::into_raw(recording).cast_mut(), Ordering::Release);
        result
    }
}

impl Drop for TapeWriter {
    /// Stops the background threads. Without [`TapeWriter::finish`] the tape stays marked as incomplete.
    fn drop(&mut self) {
        // SAFETY: this gives back the count that `create` or `fork_child` put aside with Arc::into_raw.
        let recording = unsafe { Arc::from_raw(self.recording.load(Ordering::Acquire)) };
        recording.stop();
    }
}

/// Makes the directory, or clears what an earlier recording has left in it, and returns its absolute path: the program may change its
/// working directory before it forks.
fn prepare(directory: &Path) -> Result<PathBuf> {
    match fs::metadata(directory) {
        Ok(metadata) if !metadata.is_dir() => {
            return Err(TapeError::NotADirectory { path: directory.to_owned() });
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(directory).map_err(|source| TapeError::io("create the directory", directory, source))?;
        }
        Err(source) => return Err(TapeError::io("look up", directory, source)),
    }
    let directory = fs::canonicalize(directory).map_err(|source| TapeError::io("look up", directory, source))?;
    remove_forked_tapes(&directory)?;
    Ok(directory)
}

/// Removes what forked processes of an earlier recording have left.
fn remove_forked_tapes(directory: &Path) -> Result<()> {
    let entries = fs::read_dir(directory).map_err(|source| TapeError::io("read the directory", directory, source))?;
    for entry in entries {
        let entry = entry.map_err(|source| TapeError::io("read the directory", directory, source))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let of_process = |kind: &str| {
            let pid = name.strip_prefix(kind).and_then(|rest| rest.strip_prefix('.'));
            pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|digit| digit.is_ascii_digit()))
        };
        if [TAPE_FILE, INPUT_FILE, OUTPUT_FILE].into_iter().any(of_process) {
            fs::remove_file(entry.path()).map_err(|source| TapeError::io("remove", &entry.path(), source))?;
        }
    }
    Ok(())
}
