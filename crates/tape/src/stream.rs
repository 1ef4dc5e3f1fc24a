//! Streaming a tape's blocks through memory, forwards or from the end, decoded by threads that work ahead of the consumer.

use std::sync::{OnceLock, mpsc};
use std::thread;

use crate::decode::{Decoder, Flaw, Form, Partials, SLACK};
use crate::error::{Result, TapeError};
use crate::exchange;
use crate::format::{BlockHeader, Entry};
use crate::operation::Operation;
use crate::queue::STACK;
use crate::reader::{BlockRef, Format, Tape};
use crate::record::Record;
use crate::run::{Content, Part, Run};

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

/// What a block can be decoded to.
pub(crate) trait Decoded: Default + Send {
    /// Decodes a native block; `memory` is as for [`Decoder::decode`] and may be taken in exchange for other memory.
    fn native(&mut self, decoder: &mut Decoder, memory: &mut Vec<u8>) -> Result<BlockHeader, Flaw>;
    /// Takes the content of the exchange format, whose first block has the given index.
    fn exchange(&mut self, first_index: u64, memory: &[u8]) -> Result<(), Flaw>;
}

impl Decoded for Vec<Partials> {
    fn native(&mut self, decoder: &mut Decoder, memory: &mut Vec<u8>) -> Result<BlockHeader, Flaw> {
        decoder.decode(memory, self, Form::partials)
    }

    fn exchange(&mut self, first_index: u64, memory: &[u8]) -> Result<(), Flaw> {
        self.clear();
        exchange::decode(first_index, memory, |_, block| self.push(block))
    }
}

impl Decoded for Vec<Record> {
    fn native(&mut self, decoder: &mut Decoder, memory: &mut Vec<u8>) -> Result<BlockHeader, Flaw> {
        decoder.decode(memory, self, Form::record)
    }

    fn exchange(&mut self, first_index: u64, memory: &[u8]) -> Result<(), Flaw> {
        self.clear();
        exchange::decode(first_index, memory, |index, block| {
            self.push(match block.operands {
                [0, 0] if index == 0 => Record::default(),
                // The format does not tell inputs from constants.
                [0, 0] => Record::input(),
                operands => Record::binary64(Operation::Partials, operands, block.partials),
            });
        })
    }
}

impl Decoded for Run {
    fn native(&mut self, decoder: &mut Decoder, memory: &mut Vec<u8>) -> Result<BlockHeader, Flaw> {
        let header = decoder.decode_run(memory, self)?;
        std::mem::swap(&mut self.memory, memory);
        Ok(header)
    }

    fn exchange(&mut self, first_index: u64, memory: &[u8]) -> Result<(), Flaw> {
        self.first_index = first_index;
        self.parts.clear();
        self.records.exchange(first_index, memory)?;
        self.parts.push(Part { position: 0, content: Content::Records(0..self.records.len()) });
        Ok(())
    }
}

impl Loader {
    pub(crate) fn new() -> Loader {
        Loader { decoder: Decoder::new(), memory: Vec::new() }
    }

    /// Reads and decodes a block; `out` becomes its content.
    pub(crate) fn load(&mut self, tape: &Tape, block: &BlockRef, out: &mut impl Decoded) -> Result<()> {
        let file = &tape.files[block.file];
        let entry = &block.entry;
        self.memory.resize(entry.bytes as usize + SLACK, 0);
        file.read(&mut self.memory[..entry.bytes as usize], entry.offset)?;
        let decoded = match file.format {
            Format::Native => out.native(&mut self.decoder, &mut self.memory).and_then(|header| {
                // The directory has its own copy of these numbers, which the block's checksum does not cover.
                let consistent = (header.first_index, header.records) == (entry.first_index, entry.records);
                let what = || "the block's header contradicts the directory".to_owned();
                if consistent { Ok(()) } else { Err(Flaw::Damaged { offset: 8, what: what() }) }
            }),
            Format::Exchange => out.exchange(entry.first_index, &self.memory[..entry.bytes as usize]),
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
    /// How many decoding threads to use by default. It is found out once: that reads files, which takes longer than the sweep over a short tape.
    pub(crate) fn default_decoders() -> usize {
        static DECODERS: OnceLock<usize> = OnceLock::new();
        let count = || thread::available_parallelism().map_or(1, |found| (found.get() - 1).clamp(1, MOST_DECODERS));
        *DECODERS.get_or_init(count)
    }

    /// Calls `each` with each block's place and content, in the given direction, until it returns `false`.
    pub(crate) fn stream<T: Decoded>(
        &self,
        direction: Direction,
        decoders: usize,
        mut each: impl FnMut(&Entry, &T) -> Result<bool>,
    ) -> Result<()> {
        let count = self.blocks.len();
        let nth = |position: usize| match direction {
            Direction::Forward => &self.blocks[position],
            Direction::Backward => &self.blocks[count - 1 - position],
        };
        if decoders == 0 || count < FEW_BLOCKS {
            let mut loader = Loader::new();
            let mut content = T::default();
            for position in 0..count {
                loader.load(self, nth(position), &mut content)?;
                if !each(&nth(position).entry, &content)? {
                    break;
                }
            }
            return Ok(());
        }
        thread::scope(|scope| {
            let mut lines = Vec::with_capacity(decoders);
            for first in 0..decoders {
                let (full, filled) = mpsc::sync_channel::<Result<T>>(AHEAD);
                let (empty, emptied) = mpsc::channel::<T>();
                for _ in 0..AHEAD + 2 {
                    // The receiver exists.
                    let _ = empty.send(T::default());
                }
                let decode = move || {
                    let mut loader = Loader::new();
                    for position in (first..count).step_by(decoders) {
                        // The consumer has gone if there is nothing to receive or nobody to send to.
                        let Ok(mut content) = emptied.recv() else { return };
                        let result = loader.load(self, nth(position), &mut content).map(|()| content);
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
                let content = filled.recv().unwrap_or_else(|_| {
                    let source = std::io::Error::other("a decoding thread has panicked");
                    Err(TapeError::io("read", &self.files[0].path, source))
                })?;
                if !each(&nth(position).entry, &content)? {
                    break;
                }
                // The decoder may have finished.
                let _ = empty.send(content);
            }
            Ok(())
        })
    }
}
