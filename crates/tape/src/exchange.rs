//! The exchange format: 32-byte blocks of two indices and two partial derivatives, block `i` for index `i`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::decode::{Flaw, Partials};
use crate::error::{Result, TapeError};
use crate::format::{Entry, INPUT_FILE, OUTPUT_FILE, TAPE_FILE, get_u64};
use crate::operation::Operation;
use crate::reader::{Format, Tape, TapeFile};
use crate::record::{Chunk, Record};
use crate::stream::Direction;
use crate::writer::TapeWriter;

/// Size of a block.
pub const BLOCK_BYTES: usize = 32;

/// Divides an exchange-format tape into runs that are read at once. `start` is the file's beginning.
pub(crate) fn entries(file: &TapeFile, start: &[u8]) -> Result<Vec<Entry>> {
    let not_a_tape = |what: String| Err(TapeError::NotATape { path: file.path.clone(), what });
    if file.bytes == 0 {
        return not_a_tape("it is empty".to_owned());
    }
    if start.iter().take(BLOCK_BYTES).any(|byte| *byte != 0) {
        return not_a_tape("it starts neither with the native format's magic nor with a block of zeros".to_owned());
    }
    let surplus = file.bytes % BLOCK_BYTES as u64;
    if surplus != 0 {
        return Err(TapeError::Damaged {
            path: file.path.clone(),
            offset: file.bytes - surplus,
            what: format!("the last block of the exchange format has {surplus} bytes instead of {BLOCK_BYTES}"),
        });
    }
    let blocks = file.bytes / BLOCK_BYTES as u64;
    let run = Chunk::RECORDS as u64;
    let entry = |first_index: u64| {
        let records = run.min(blocks - first_index) as u32;
        Entry { offset: first_index * BLOCK_BYTES as u64, first_index, records, bytes: records * BLOCK_BYTES as u32 }
    };
    Ok((0..blocks).step_by(Chunk::RECORDS).map(entry).collect())
}

/// Reads a run of blocks; every operand precedes its operation.
pub(crate) fn decode(
    first_index: u64,
    memory: &[u8],
    mut each: impl FnMut(u64, Partials),
) -> std::result::Result<(), Flaw> {
    for (position, block) in memory.chunks_exact(BLOCK_BYTES).enumerate() {
        let index = first_index + position as u64;
        let operands = [get_u64(block, 0), get_u64(block, 8)];
        if let Some(operand) = operands.into_iter().find(|operand| *operand != 0 && *operand >= index) {
            return Err(Flaw::Order { index, operand });
        }
        let partial = |k: usize| if operands[k] == 0 { 0.0 } else { f64::from_bits(get_u64(block, 16 + 8 * k)) };
        each(index, Partials { operands, partials: [partial(0), partial(1)] });
    }
    Ok(())
}

impl Partials {
    /// The block in the exchange format.
    pub fn to_bytes(self) -> [u8; BLOCK_BYTES] {
        let mut bytes = [0; BLOCK_BYTES];
        let words = [self.operands[0], self.operands[1], self.partials[0].to_bits(), self.partials[1].to_bits()];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

impl Tape {
    /// Writes the tape in the exchange format. If `target` is a directory, `dg-tape` and the lists of inputs and outputs are written
    /// there, else `target` is the tape's file. The recording's own directory is allowed: its tape is replaced when the new one is
    /// complete.
    ///
    /// # Errors
    /// Damage of the tape, or a file that cannot be written.
    pub fn export(&self, target: &Path) -> Result<()> {
        if !target.is_dir() {
            return self.export_file(target);
        }
        for (name, indices) in [(INPUT_FILE, self.inputs()), (OUTPUT_FILE, self.outputs())] {
            let text: String = indices.iter().map(|index| format!("{index}\n")).collect();
            replace(&target.join(name), |file| file.write_all(text.as_bytes()))?;
        }
        self.export_file(&target.join(TAPE_FILE))
    }

    /// Writes the tape's file in the exchange format.
    fn export_file(&self, target: &Path) -> Result<()> {
        let mut failure = None;
        let written = replace(target, |file| {
            let mut next_index = 0;
            let mut write = |file: &mut BufWriter<File>, first_index: u64, run: &[Partials]| -> io::Result<()> {
                for _ in next_index..first_index {
                    file.write_all(&[0; BLOCK_BYTES])?;
                }
                next_index = first_index + run.len() as u64;
                run.iter().try_for_each(|block| file.write_all(&block.to_bytes()))
            };
            let mut result = Ok(());
            let streamed = self.stream(Direction::Forward, Tape::default_decoders(), |block, run: &Vec<Partials>| {
                result = write(file, block.first_index, run);
                Ok(result.is_ok())
            });
            if let Err(error) = streamed {
                failure = Some(error);
                return Err(io::Error::other("the tape is damaged"));
            }
            result?;
            // A recording without any index still has the dummy.
            if self.blocks.is_empty() { write(file, 0, &[Partials::default()]) } else { Ok(()) }
        });
        match failure {
            Some(error) => Err(error),
            None => written,
        }
    }
}

/// Writes a file under another name and gives it its own when it is complete.
fn replace(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let create = || {
        let mut file = BufWriter::with_capacity(1 << 18, File::create(&part)?);
        write(&mut file)?;
        file.flush()
    };
    let result = create().and_then(|()| fs::rename(&part, path));
    result.map_err(|source| {
        // Best effort: there is nothing more to say than the first error.
        let _ = fs::remove_file(&part);
        TapeError::io("write", path, source)
    })
}

/// Converts the recording in the directory `source`, in the exchange format, into a native one in the directory `target`, which may
/// be the same.
///
/// A block without operands becomes an input if its index is in the list of inputs, else a constant.
///
/// # Errors
/// Whatever is wrong with the source; a target that cannot be written.
pub fn import(source: &Path, target: &Path) -> Result<()> {
    let tape = Tape::open(source)?;
    if tape.format() == Format::Native {
        let what = "it is in the native format already".to_owned();
        return Err(TapeError::NotATape { path: source.join(TAPE_FILE), what });
    }
    let work = Workplace::new(target)?;
    let writer = TapeWriter::create(&work.0)?;
    tape.inputs().iter().for_each(|index| writer.declare_input(*index));
    tape.outputs().iter().for_each(|index| writer.declare_output(*index));
    let mut inputs = tape.inputs().to_vec();
    inputs.sort_unstable();
    tape.stream(Direction::Forward, Tape::default_decoders(), |block, run: &Vec<Partials>| {
        let first_index = block.first_index;
        let mut chunk = writer.take_chunk();
        // Runs of the exchange format are as long as chunks and in the same order.
        debug_assert_eq!(chunk.first_index(), first_index);
        for ((index, record), block) in (first_index..).zip(chunk.as_mut_slice()).zip(run) {
            *record = match block.operands {
                [0, 0] if index == 0 => Record::default(),
                [0, 0] if inputs.binary_search(&index).is_ok() => Record::input(),
                _ => Record::binary64(Operation::Partials, block.operands, block.partials),
            };
        }
        writer.submit(chunk, run.len());
        Ok(true)
    })?;
    writer.finish()?;
    for name in [INPUT_FILE, OUTPUT_FILE, TAPE_FILE] {
        let place = target.join(name);
        fs::rename(work.0.join(name), &place).map_err(|source| TapeError::io("write", &place, source))?;
    }
    Ok(())
}

/// A directory to write to until all is complete.
struct Workplace(PathBuf);

impl Workplace {
    fn new(target: &Path) -> Result<Workplace> {
        fs::create_dir_all(target).map_err(|source| TapeError::io("create the directory", target, source))?;
        let path = target.join(format!("dg-import.{}", std::process::id()));
        fs::create_dir(&path).map_err(|source| TapeError::io("create the directory", &path, source))?;
        Ok(Workplace(path))
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        // Best effort: at worst an empty directory remains.
        let _ = fs::remove_dir_all(&self.0);
    }
}
