//! Streaming a tape's blocks through memory, forwards or from the end, decoded by threads that work ahead of the consumer.

use std::sync::mpsc;
use std::thread;

use crate::decode::{Decoder, Flaw, Form, Partials, SLACK};
use crate::error::{Result, TapeError};
use crate::exchange;
use crate::operation::Operation;
use crate::queue::STACK;
use crate::reader::{BlockRef, Format, Tape};
use crate::record::{Chunk, Record};

/// Runs that each decoding thread may be ahead.
const AHEAD: usize = 2;
/// Tapes with fewer blocks are not worth a thread.
const FEW_BLOCKS: usize = 4;
/// Decoding threads unless stated otherwise; more than these are faster than any sweep consumes.
const MOST_DECODERS: usize = 3;

/// The direction of a pass over the tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// A thread's tools for reading blocks.
pub(crate) struct Loader {
    decoder: Decoder,
    memory: Vec<u8>,
}

/// What blocks can be decoded to.
pub(crate) trait Item: Copy + Default + Send {
    /// Decodes a native block; see [`Decoder::decode`].
    fn native(decoder: &mut Decoder, memory: &[u8], out: &mut Vec<Self>) -> Result<(), Flaw>;
    /// The item for a block of the exchange format.
    fn exchange(index: u64, block: Partials) -> Self;
}

impl Item for Partials {
    fn native(decoder: &mut Decoder, memory: &[u8], out: &mut Vec<Self>) -> Result<(), Flaw> {
        decoder.decode(memory, out, Form::partials)?;
        Ok(())
    }

    fn exchange(_: u64, block: Partials) -> Self {
        block
    }
}

impl Item for Record {
    fn native(decoder: &mut Decoder, memory: &[u8], out: &mut Vec<Self>) -> Result<(), Flaw> {
        decoder.decode(memory, out, Form::record)?;
        Ok(())
    }

    fn exchange(index: u64, block: Partials) -> Self {
        match block.operands {
            [0, 0] if index == 0 => Record::default(),
            // The format does not tell inputs from constants.
            [0, 0] => Record::input(),
            operands => Record::binary64(Operation::Partials, operands, block.partials),
        }
    }
}

impl Loader {
    pub(crate) fn new() -> Loader {
        Loader { decoder: Decoder::new(), memory: Vec::new() }
    }

    /// Reads and decodes a block; `out` becomes its content.
    pub(crate) fn load<T: Item>(&mut self, tape: &Tape, block: &BlockRef, out: &mut Vec<T>) -> Result<()> {
        let file = &tape.files[block.file];
        let entry = &block.entry;
        self.memory.resize(entry.bytes as usize + SLACK, 0);
        file.read(&mut self.memory[..entry.bytes as usize], entry.offset)?;
        let decoded = match file.format {
            Format::Native => T::native(&mut self.decoder, &self.memory, out).and_then(|()| {
                // The directory has its own copy of the index, which the block's checksum does not cover.
                let consistent = out.len() == entry.records as usize
                    && crate::format::BlockHeader::from_bytes(&self.memory)
                        .is_some_and(|header| header.first_index == entry.first_index);
                let what = || "the block's header contradicts the directory".to_owned();
                if consistent { Ok(()) } else { Err(Flaw::Damaged { offset: 8, what: what() }) }
            }),
            Format::Exchange => {
                let mut index = entry.first_index;
                out.clear();
                exchange::decode(entry.first_index, &self.memory[..entry.bytes as usize], |block| {
                    out.push(T::exchange(index, block));
                    index += 1;
                })
            }
        };
        decoded.map_err(|flaw| match flaw {
            Flaw::Damaged { offset, what } => {
                TapeError::Damaged { path: file.path.clone(), offset: entry.offset + offset as u64, what }
            }
            Flaw::Order { index, operand } => {
                let what = "does not precede it";
                TapeError::Order { path: file.path.clone(), index, operand, what }
            }
        })
    }
}

impl Tape {
    /// How many decoding threads to use by default.
    pub(crate) fn default_decoders() -> usize {
        thread::available_parallelism().map_or(1, |processors| (processors.get() - 1).clamp(1, MOST_DECODERS))
    }

    /// Calls `each` with the first index and the partial derivatives of each block, from the tape's beginning, until it returns `false`.
    pub(crate) fn stream_forward(&self, each: impl FnMut(u64, &[Partials]) -> Result<bool>) -> Result<()> {
        self.stream(Direction::Forward, Tape::default_decoders(), each)
    }

    /// Calls `each` with the first index and the content of each block, in the given direction, until it returns `false`.
    pub(crate) fn stream<T: Item>(
        &self,
        direction: Direction,
        decoders: usize,
        mut each: impl FnMut(u64, &[T]) -> Result<bool>,
    ) -> Result<()> {
        let count = self.blocks.len();
        let nth = |position: usize| match direction {
            Direction::Forward => &self.blocks[position],
            Direction::Backward => &self.blocks[count - 1 - position],
        };
        if decoders == 0 || count < FEW_BLOCKS {
            let mut loader = Loader::new();
            let mut run = Vec::with_capacity(Chunk::RECORDS);
            for position in 0..count {
                loader.load(self, nth(position), &mut run)?;
                if !each(nth(position).entry.first_index, &run)? {
                    break;
                }
            }
            return Ok(());
        }
        thread::scope(|scope| {
            let mut lines = Vec::with_capacity(decoders);
            for first in 0..decoders {
                let (full, filled) = mpsc::sync_channel::<Result<Vec<T>>>(AHEAD);
                let (empty, emptied) = mpsc::channel::<Vec<T>>();
                for _ in 0..AHEAD + 2 {
                    // The receiver exists.
                    let _ = empty.send(Vec::with_capacity(Chunk::RECORDS));
                }
                let decode = move || {
                    let mut loader = Loader::new();
                    for position in (first..count).step_by(decoders) {
                        // The consumer has gone if there is nothing to receive or nobody to send to.
                        let Ok(mut run) = emptied.recv() else { return };
                        let result = loader.load(self, nth(position), &mut run).map(|()| run);
                        let failed = result.is_err();
                        if full.send(result).is_err() || failed {
                            return;
                        }
                    }
                };
                let builder = thread::Builder::new().name("tape-decoder".into()).stack_size(STACK);
                let started = builder.spawn_scoped(scope, decode);
                started.map_err(|source| TapeError::io("start a thread to read", &self.files[0].path, source))?;
                lines.push((filled, empty));
            }
            for position in 0..count {
                let (filled, empty) = &lines[position % decoders];
                let run = filled.recv().unwrap_or_else(|_| {
                    let source = std::io::Error::other("a decoding thread has panicked");
                    Err(TapeError::io("read", &self.files[0].path, source))
                })?;
                if !each(nth(position).entry.first_index, &run)? {
                    break;
                }
                // The decoder may have finished.
                let _ = empty.send(run);
            }
            Ok(())
        })
    }
}
