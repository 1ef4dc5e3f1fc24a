//! Opening a recording: files, directory of blocks, lists of inputs and outputs.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::error::{Result, TapeError};
use crate::exchange;
use crate::format::{
    BLOCK_HEADER_BYTES, BLOCK_MAGIC, BlockHeader, ENTRY_BYTES, Entry, HEADER_BYTES, Header, INPUT_FILE, MAGIC,
    OUTPUT_FILE, Process, TAPE_FILE, checksum,
};
use crate::index_list;

/// A recording that has been opened for evaluation.
///
/// Only the directory of its blocks is in memory; their content is read as needed.
#[derive(Debug)]
pub struct Tape {
    pub(crate) directory: PathBuf,
    pub(crate) process: Process,
    /// The tape's file, then the parent's, the grandparent's, ... in a forked process.
    pub(crate) files: Vec<TapeFile>,
    /// In the order of indices, without overlaps.
    pub(crate) blocks: Vec<BlockRef>,
    pub(crate) index_limit: u64,
    pub(crate) inputs: Vec<u64>,
    pub(crate) outputs: Vec<u64>,
    /// Which file is incomplete, and why.
    pub(crate) incomplete: Option<(PathBuf, String)>,
    /// Set when the whole tape has been found valid.
    pub(crate) valid: OnceLock<()>,
}

/// One file with blocks.
#[derive(Debug)]
pub(crate) struct TapeFile {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) bytes: u64,
    pub(crate) format: Format,
}

/// The format of a tape file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The compact format that the recorder writes.
    Native,
    /// 32-byte blocks of two indices and two partial derivatives.
    Exchange,
}

/// A block in one of the files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockRef {
    pub(crate) file: usize,
    pub(crate) entry: Entry,
}

impl Tape {
    /// Opens the recording of the process that was started.
    ///
    /// The tape may be in the native or in the exchange format.
    ///
    /// # Errors
    /// A missing, foreign, incomplete or damaged file; see [`TapeError`].
    pub fn open(directory: &Path) -> Result<Tape> {
        Tape::open_process(directory, Process::Main)
    }

    /// Opens the recording of one of the processes.
    ///
    /// # Errors
    /// As for [`open`](Self::open). For a forked process the recording of its parent must be complete, too.
    pub fn open_process(directory: &Path, process: Process) -> Result<Tape> {
        let tape = Tape::salvage(directory, process)?;
        tape.require_complete()?;
        Ok(tape)
    }

    /// Opens a recording even if it is incomplete, with as much of it as can be read. Such a tape can be looked at and exported, but
    /// not evaluated.
    ///
    /// # Errors
    /// A missing or foreign file, or damage other than a missing end.
    pub fn salvage(directory: &Path, process: Process) -> Result<Tape> {
        match fs::metadata(directory) {
            Ok(metadata) if !metadata.is_dir() => return Err(TapeError::NotADirectory { path: directory.to_owned() }),
            Ok(_) => {}
            Err(source) => return Err(TapeError::io("open the directory", directory, source)),
        }
        let mut tape = Tape {
            directory: directory.to_owned(),
            process,
            files: Vec::new(),
            blocks: Vec::new(),
            index_limit: 1,
            inputs: Vec::new(),
            outputs: Vec::new(),
            incomplete: None,
            valid: OnceLock::new(),
        };
        let mut member = process;
        // Limits of what a member contributes: all of the process itself, less and less of its ancestors.
        let (mut indices, mut inputs, mut outputs) = (u64::MAX, usize::MAX, usize::MAX);
        loop {
            let header = tape.add_file(member, indices)?;
            let declared = |name, limit: usize| -> Result<Vec<u64>> {
                let mut list = index_list::read(&member.file(directory, name))?;
                list.truncate(limit);
                Ok(list)
            };
            let (parent_inputs, parent_outputs) =
                header.parent.map_or((0, 0), |parent| (parent.inputs, parent.outputs));
            // A forked process counts its ancestors' declarations before its own.
            let own =
                |limit: usize, ancestors: u64| limit.saturating_sub(usize::try_from(ancestors).unwrap_or(usize::MAX));
            tape.inputs.splice(0..0, declared(INPUT_FILE, own(inputs, parent_inputs))?);
            tape.outputs.splice(0..0, declared(OUTPUT_FILE, own(outputs, parent_outputs))?);
            let Some(parent) = header.parent else { break };
            if tape.files.len() > 64 {
                let what = "too long a chain of parent processes".to_owned();
                return Err(TapeError::Damaged { path: member.file(directory, TAPE_FILE), offset: 56, what });
            }
            indices = indices.min(parent.index_limit);
            inputs = usize::try_from(parent.inputs).unwrap_or(usize::MAX);
            outputs = usize::try_from(parent.outputs).unwrap_or(usize::MAX);
            member = parent.process;
        }
        tape.blocks.sort_by_key(|block| block.entry.first_index);
        tape.check_overlaps()?;
        tape.index_limit = tape.blocks.last().map_or(1, |block| block.entry.index_limit()).max(1);
        if tape.incomplete.is_none() {
            tape.check_list(&tape.inputs, INPUT_FILE)?;
            tape.check_list(&tape.outputs, OUTPUT_FILE)?;
        }
        Ok(tape)
    }

    /// Opens a member's tape file and adds its blocks that begin below `index_limit` and are not there already.
    fn add_file(&mut self, process: Process, index_limit: u64) -> Result<Header> {
        let path = process.file(&self.directory, TAPE_FILE);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(TapeError::NoTape { directory: self.directory.clone(), file: path });
            }
            Err(source) => return Err(TapeError::io("open", &path, source)),
        };
        let metadata = file.metadata().map_err(|source| TapeError::io("examine", &path, source))?;
        if !metadata.is_file() {
            return Err(TapeError::NotATape { path, what: "it is not a regular file".to_owned() });
        }
        let mut tape_file = TapeFile { path, file, bytes: metadata.len(), format: Format::Native };
        let mut start = [0; HEADER_BYTES];
        let have = tape_file.bytes.min(HEADER_BYTES as u64) as usize;
        tape_file.read(&mut start[..have], 0)?;
        let (header, entries) = if start[..8] == MAGIC {
            tape_file.native(&start, &mut self.incomplete)?
        } else {
            tape_file.format = Format::Exchange;
            (Header { complete: true, ..Header::default() }, exchange::entries(&tape_file, &start[..have])?)
        };
        let position = self.files.len();
        self.files.push(tape_file);
        // What a forked process holds itself replaces what its parent has in the same place: both continued the same chunk.
        self.blocks.sort_by_key(|block| block.entry.first_index);
        let own = self.blocks.clone();
        for entry in entries.into_iter().filter(|entry| entry.first_index < index_limit) {
            let before = own.partition_point(|block| block.entry.first_index <= entry.first_index);
            let covered = before > 0 && own[before - 1].entry.index_limit() > entry.first_index;
            if !covered {
                self.blocks.push(BlockRef { file: position, entry });
            }
        }
        Ok(header)
    }

    fn check_overlaps(&self) -> Result<()> {
        for pair in self.blocks.windows(2) {
            if pair[0].entry.index_limit() > pair[1].entry.first_index {
                return Err(TapeError::Damaged {
                    path: self.files[pair[1].file].path.clone(),
                    offset: pair[1].entry.offset,
                    what: format!("index {} occurs twice", pair[1].entry.first_index),
                });
            }
        }
        Ok(())
    }

    fn check_list(&self, indices: &[u64], name: &str) -> Result<()> {
        match indices.iter().position(|index| *index >= self.index_limit) {
            None => Ok(()),
            Some(position) => Err(TapeError::Line {
                path: self.file(name),
                line: position + 1,
                what: format!("index {} is not on the tape, which ends at {}", indices[position], self.index_limit - 1),
            }),
        }
    }

    /// The recording's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of one of the recording's files, by its name in the main process (`dg-output-bars`). The names of a forked process's
    /// files end in its process id.
    pub fn file(&self, name: &str) -> PathBuf {
        self.process.file(&self.directory, name)
    }

    /// Which of the recording's processes this is.
    pub fn process(&self) -> Process {
        self.process
    }

    /// The format of the tape's file.
    pub fn format(&self) -> Format {
        self.files[0].format
    }

    /// Indices of the inputs, in the order of declaration.
    pub fn inputs(&self) -> &[u64] {
        &self.inputs
    }

    /// Indices of the outputs, in the order of declaration. Index 0 is a passive output: its derivatives are 0.
    pub fn outputs(&self) -> &[u64] {
        &self.outputs
    }

    /// One more than the greatest index.
    pub fn index_limit(&self) -> u64 {
        self.index_limit
    }

    /// Size of the tape's file.
    pub fn bytes(&self) -> u64 {
        self.files[0].bytes
    }

    /// Checks that the recording came to its end: a tape that [`salvage`](Self::salvage) has opened need not be complete.
    ///
    /// # Errors
    /// [`TapeError::Incomplete`] with the reason.
    pub fn require_complete(&self) -> Result<()> {
        match &self.incomplete {
            None => Ok(()),
            Some((path, reason)) => Err(TapeError::Incomplete { path: path.clone(), reason: reason.clone() }),
        }
    }

    /// Number of records in all blocks, with unused ones.
    pub fn records(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.entry.records)).sum()
    }
}

impl TapeFile {
    /// Fills `bytes` from `offset`.
    pub(crate) fn read(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(bytes, offset).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                let what = "the file has been shortened".to_owned();
                TapeError::Damaged { path: self.path.clone(), offset, what }
            }
            _ => TapeError::io("read", &self.path, source),
        })
    }

    fn damaged(&self, offset: u64, what: impl Into<String>) -> TapeError {
        TapeError::Damaged { path: self.path.clone(), offset, what: what.into() }
    }

    /// Reads the directory of a native tape; if it has none, finds its blocks.
    fn native(
        &self,
        start: &[u8; HEADER_BYTES],
        incomplete: &mut Option<(PathBuf, String)>,
    ) -> Result<(Header, Vec<Entry>)> {
        if self.bytes < HEADER_BYTES as u64 {
            return Err(self.damaged(self.bytes, "the file ends within its header"));
        }
        let header = Header::from_bytes(start, &self.path)?;
        if !header.complete {
            let reason =
                "the recorded program was killed, is still running, or its tape could not be written (disk full?)";
            incomplete.get_or_insert((self.path.clone(), reason.to_owned()));
            return Ok((header, self.find_blocks()?));
        }
        let size = header.blocks.checked_mul(ENTRY_BYTES as u64);
        let end = size.and_then(|size| size.checked_add(header.directory_offset));
        match end {
            Some(end) if end == self.bytes => {}
            Some(end) if end > self.bytes => {
                let reason = format!("it has been cut off after {} of {end} bytes", self.bytes);
                incomplete.get_or_insert((self.path.clone(), reason));
                return Ok((header, self.find_blocks()?));
            }
            _ => {
                return Err(
                    self.damaged(16, format!("the directory does not end at the end of the file, byte {}", self.bytes))
                );
            }
        }
        let mut bytes = vec![0; (self.bytes - header.directory_offset) as usize];
        self.read(&mut bytes, header.directory_offset)?;
        if checksum(&bytes) != header.directory_checksum {
            return Err(self.damaged(header.directory_offset, "the directory's checksum is wrong"));
        }
        let entries: Vec<Entry> = bytes.chunks_exact(ENTRY_BYTES).map(Entry::from_bytes).collect();
        for (position, entry) in entries.iter().enumerate() {
            let end = entry.offset.checked_add(entry.bytes.into());
            let fits = end.is_some_and(|end| end <= header.directory_offset)
                && entry.first_index.checked_add(entry.records.into()).is_some_and(|limit| limit <= header.index_limit);
            if !fits {
                let offset = header.directory_offset + (position * ENTRY_BYTES) as u64;
                return Err(self.damaged(offset, "a directory entry points out of the tape"));
            }
        }
        Ok((header, entries))
    }

    /// Looks for whole blocks in a file without a directory. Blocks start at multiples of 8 bytes; parts between them may never have been written.
    fn find_blocks(&self) -> Result<Vec<Entry>> {
        const WINDOW: usize = 1 << 20;
        let mut entries = Vec::new();
        let mut window = vec![0; WINDOW];
        let mut offset = HEADER_BYTES as u64;
        while offset + BLOCK_HEADER_BYTES as u64 <= self.bytes {
            let length = (self.bytes - offset).min(WINDOW as u64) as usize;
            self.read(&mut window[..length], offset)?;
            let whole = length - length % 8;
            let Some(at) = (0..whole).step_by(8).find(|at| window[*at..*at + 8] == BLOCK_MAGIC) else {
                offset += whole.max(8) as u64;
                continue;
            };
            offset += at as u64;
            match self.block_at(offset)? {
                Some(entry) => {
                    offset += u64::from(entry.bytes);
                    entries.push(entry);
                }
                None => offset += 8,
            }
        }
        Ok(entries)
    }

    /// The block at `offset`, if there is an undamaged one.
    fn block_at(&self, offset: u64) -> Result<Option<Entry>> {
        let mut start = [0; BLOCK_HEADER_BYTES];
        if offset + BLOCK_HEADER_BYTES as u64 > self.bytes {
            return Ok(None);
        }
        self.read(&mut start, offset)?;
        let Some(header) = BlockHeader::from_bytes(&start) else { return Ok(None) };
        let bytes = header.bytes();
        if bytes > self.bytes - offset
            || bytes > u64::from(u32::MAX)
            || header.first_index.checked_add(header.records.into()).is_none()
        {
            return Ok(None);
        }
        let mut content = vec![0; bytes as usize - BLOCK_HEADER_BYTES];
        self.read(&mut content, offset + BLOCK_HEADER_BYTES as u64)?;
        let valid = checksum(&content) == header.checksum;
        Ok(valid.then_some(Entry {
            offset,
            first_index: header.first_index,
            records: header.records,
            bytes: bytes as u32,
        }))
    }
}
