//! The writer, used inside the recorded process: hands out chunks of indices and brings filled chunks into the file.
//!
//! Threads of the program fill chunks without any synchronisation and submit them; background threads encode and write them. The
//! number of buffers is bounded: a program that records faster than the disk writes waits in [`TapeWriter::submit`].
//!
//! An error (a full disk) never disturbs the program: from then on records are dropped, the tape stays marked as incomplete, and
//! [`TapeWriter::finish`] returns the error.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::error::{Result, TapeError};
use crate::format::{INPUT_FILE, OUTPUT_FILE, Parent, Process, TAPE_FILE};
use crate::queue::Recording;
use crate::record::{Chunk, Record};

/// Writes the tape of one process.
///
/// All methods take `&self` and may be called from several threads at once, except where stated.
pub struct TapeWriter {
    /// Owned as by `Arc::into_raw`. A forked child replaces it and leaks the parent's: locks in there may be held by threads that do
    /// not exist in the child.
    recording: AtomicPtr<Recording>,
    directory: PathBuf,
}

impl TapeWriter {
    /// Starts a recording in `directory`, which is created if it is missing. A recording that is there already is replaced.
    ///
    /// # Errors
    /// [`TapeError::NotADirectory`] if something else has this name; [`TapeError::Io`] if the directory or its files cannot be
    /// created or written, or if no thread can be started.
    pub fn create(directory: &Path) -> Result<TapeWriter> {
        match fs::metadata(directory) {
            Ok(metadata) if !metadata.is_dir() => {
                return Err(TapeError::NotADirectory { path: directory.to_owned() });
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(directory)
                    .map_err(|source| TapeError::io("create the directory", directory, source))?;
            }
            Err(source) => return Err(TapeError::io("look up", directory, source)),
        }
        // The program may change its working directory before it forks.
        let directory = fs::canonicalize(directory).map_err(|source| TapeError::io("look up", directory, source))?;
        remove_forked_tapes(&directory)?;
        let recording = Recording::start(&directory, Process::Main, 0, None)?;
        Ok(TapeWriter { recording: AtomicPtr::new(Arc::into_raw(recording).cast_mut()), directory })
    }

    fn recording(&self) -> &Recording {
        // SAFETY: the pointer comes from Arc::into_raw and its count is given up only in `drop`. `fork_child` replaces it, but leaks
        // the old one.
        unsafe { &*self.recording.load(Ordering::Acquire) }
    }

    /// Lets `watcher` know how many bytes the tape has, whenever that has changed, and `None` when it is finished. It is called on a background
    /// thread and must not allocate memory: a process that the program forks at that moment would inherit a locked allocator. Only the
    /// first watcher counts, and forked processes have none.
    pub fn watch(&self, watcher: impl Fn(Option<u64>) + Send + Sync + 'static) {
        self.recording().watch(Box::new(watcher));
    }

    /// The recording's directory, as an absolute path.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The next run of indices, with a buffer for their records. The first chunk starts with index 0, whose record (all zero) is
    /// filled in already; see [`Chunk::start`].
    pub fn take_chunk(&self) -> Chunk {
        self.take_chunk_of(Chunk::RECORDS)
    }

    /// As [`take_chunk`](Self::take_chunk), with only so many indices (at least 2, at most [`Chunk::RECORDS`]): for a thread that often
    /// abandons its chunks, because it goes on with results of other threads. Abandoned indices cost little, but there are only 2^31 of
    /// them for binary32 values.
    pub fn take_chunk_of(&self, capacity: usize) -> Chunk {
        let mut chunk = self.recording().take_chunk(capacity.clamp(2, Chunk::RECORDS));
        if chunk.first_index == 0 {
            chunk.as_mut_slice()[0] = Record::default();
        }
        chunk
    }

    /// Hands in a chunk to be written. Its first `used` records count (including the dummy of index 0), the rest of its indices is
    /// abandoned.
    ///
    /// A chunk that is dropped instead is missing on the tape. So before [`finish`](Self::finish) the chunks of *all* threads must be
    /// submitted, also those of threads that are still running or waiting.
    pub fn submit(&self, chunk: Chunk, used: usize) {
        let used = used.min(chunk.capacity);
        self.recording().submit(chunk, used);
    }

    /// Appends an index to the list of inputs.
    pub fn declare_input(&self, index: u64) {
        self.recording().inputs.declare(index);
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
        let recording = self.recording.load(Ordering::Acquire);
        // SAFETY: the pointer comes from Arc::into_raw, and its count is not given up before `drop`; this takes a second one.
        let recording = unsafe {
            Arc::increment_strong_count(recording);
            Arc::from_raw(recording)
        };
        recording.resume()
    }

    /// The error that has stopped the recording, if any.
    pub fn error(&self) -> Option<TapeError> {
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
        let old = self.recording();
        let parent = Parent {
            process: old.process,
            index_limit: old.next_index(),
            inputs: old.parent_inputs() + old.inputs.declared(),
            outputs: old.parent_outputs() + old.outputs.declared(),
        };
        old.close_descriptors();
        let (recording, result) =
            match Recording::start(&self.directory, Process::Forked(pid), parent.index_limit, Some(parent)) {
                Ok(recording) => (recording, Ok(())),
                Err(error) => (Recording::broken(&self.directory, Process::Forked(pid), parent, &error), Err(error)),
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
