//! What the engine tells the comparing process, and how it is written to the stream between them.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::registers::{Loaded, Registers, WORDS};
use super::vectors::{self, Vectors};

/// A piece of a block that the engine has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Address of the block, for messages.
    pub block: u64,
    /// How many instructions, counting a repeated string instruction once.
    pub count: u64,
    /// The address that was reached.
    pub stop: u64,
    /// Flags that are defined there, as the processor has them.
    pub flags: u64,
    /// It ended at an instruction that raised a signal: a repeated string instruction may be partly done.
    pub fault: bool,
    /// The register that the instruction at `stop` loads: instrumentation may have done so, in order to look at the shadow afterwards.
    pub loaded: Option<Loaded>,
}

/// A file that is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub path: PathBuf,
    pub offset: u64,
    /// Device and inode if it is mapped shared: what is written through one mapping shows in the others.
    pub shared: Option<(u64, u64)>,
}

/// One message. Addresses are the application's; ranges of the memory calls are in whole pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The engine has executed this, and then had these registers.
    Run(Run, Registers),
    /// The application has these registers now: the engine or the kernel has done something that is not repeated natively.
    Adopt(Registers),
    /// New memory, all zero.
    Map { start: u64, length: u64, protection: u64, origin: Option<Origin> },
    /// Memory that is gone.
    Unmap { start: u64, length: u64 },
    /// Memory with another protection.
    Protect { start: u64, length: u64, protection: u64 },
    /// `mremap` with these arguments, of which the last is the outcome.
    Remap { start: u64, old_length: u64, new_length: u64, flags: u64, target: u64 },
    /// `madvise`.
    Advise { start: u64, length: u64, advice: u64 },
    /// Memory that the engine or the kernel has written.
    Write { address: u64, bytes: Vec<u8> },
    /// Please answer when all of the above has been compared.
    Wait,
    /// Nothing follows. The text says why if the program has not ended.
    End { reason: String },
}

const RUN: u64 = 1;
const ADOPT: u64 = 2;
const MAP: u64 = 3;
const UNMAP: u64 = 4;
const PROTECT: u64 = 5;
const REMAP: u64 = 6;
const ADVISE: u64 = 7;
const WRITE: u64 = 8;
const WAIT: u64 = 9;
const END: u64 = 10;

/// Most words that an event has.
const MOST_WORDS: usize = 32;

impl Event {
    /// The form on the stream: tag, number of words, number of bytes; the words; the bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (tag, words, bytes): (u64, Vec<u64>, &[u8]) = match self {
            Event::Run(run, registers) => {
                let mut words =
                    vec![run.block, run.count, run.stop, run.flags, run.fault.into(), Loaded::to_word(run.loaded)];
                words.extend(registers.words());
                (RUN, words, registers.vectors.bytes())
            }
            Event::Adopt(registers) => (ADOPT, registers.words().to_vec(), registers.vectors.bytes()),
            Event::Map { start, length, protection, origin } => {
                let offset = origin.as_ref().map_or(0, |origin| origin.offset);
                let path = origin.as_ref().map_or(&[][..], |origin| origin.path.as_os_str().as_bytes());
                let shared = origin.as_ref().and_then(|origin| origin.shared);
                let (device, inode) = shared.unwrap_or_default();
                (MAP, vec![*start, *length, *protection, offset, shared.is_some().into(), device, inode], path)
            }
            Event::Unmap { start, length } => (UNMAP, vec![*start, *length], &[]),
            Event::Protect { start, length, protection } => (PROTECT, vec![*start, *length, *protection], &[]),
            Event::Remap { start, old_length, new_length, flags, target } => {
                (REMAP, vec![*start, *old_length, *new_length, *flags, *target], &[])
            }
            Event::Advise { start, length, advice } => (ADVISE, vec![*start, *length, *advice], &[]),
            Event::Write { address, bytes } => (WRITE, vec![*address], bytes),
            Event::Wait => (WAIT, Vec::new(), &[]),
            Event::End { reason } => (END, Vec::new(), reason.as_bytes()),
        };
        let header = [tag, words.len() as u64, bytes.len() as u64];
        let mut encoded: Vec<u8> = header.iter().chain(&words).flat_map(|word| word.to_le_bytes()).collect();
        encoded.extend_from_slice(bytes);
        encoded
    }

    /// The next event on a stream; `None` at its end.
    pub(super) fn read(stream: &mut impl Read) -> io::Result<Option<Event>> {
        let mut header = [0; 24];
        match stream.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let [tag, count, length] = words_of(&header)[..] else { return Err(malformed()) };
        let count = usize::try_from(count).ok().filter(|&count| count <= MOST_WORDS).ok_or_else(malformed)?;
        let mut words = [0; 8 * MOST_WORDS];
        stream.read_exact(&mut words[..8 * count])?;
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| malformed())?];
        stream.read_exact(&mut bytes)?;
        Event::decode(tag, &words_of(&words[..8 * count]), bytes).map(Some).ok_or_else(malformed)
    }

    fn decode(tag: u64, words: &[u64], bytes: Vec<u8>) -> Option<Event> {
        Some(match (tag, words) {
            (RUN, &[block, count, stop, flags, fault, loaded, ref rest @ ..]) => {
                let run = Run { block, count, stop, flags, fault: fault != 0, loaded: Loaded::from_word(loaded) };
                Event::Run(run, registers(rest, &bytes)?)
            }
            (ADOPT, rest) => Event::Adopt(registers(rest, &bytes)?),
            (MAP, &[start, length, protection, offset, is_shared, device, inode]) => {
                let path = PathBuf::from(OsStr::from_bytes(&bytes));
                let shared = (is_shared != 0).then_some((device, inode));
                let origin = (!bytes.is_empty()).then_some(Origin { path, offset, shared });
                Event::Map { start, length, protection, origin }
            }
            (UNMAP, &[start, length]) => Event::Unmap { start, length },
            (PROTECT, &[start, length, protection]) => Event::Protect { start, length, protection },
            (REMAP, &[start, old_length, new_length, flags, target]) => {
                Event::Remap { start, old_length, new_length, flags, target }
            }
            (ADVISE, &[start, length, advice]) => Event::Advise { start, length, advice },
            (WRITE, &[address]) => Event::Write { address, bytes },
            (WAIT, []) => Event::Wait,
            (END, []) => Event::End { reason: String::from_utf8(bytes).ok()? },
            _ => return None,
        })
    }
}

fn registers(words: &[u64], vectors: &[u8]) -> Option<Registers> {
    let words: &[u64; WORDS] = words.try_into().ok()?;
    (vectors.len() == vectors::image_bytes()).then(|| Registers::from_words(words, Vectors::from_bytes(vectors)))
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    bytes.chunks(8).map(word).collect()
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "malformed message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_the_stream() {
        let registers = Registers::from_words(&std::array::from_fn(|n| 7 * n as u64), Vectors::normalised(&[]));
        let run = Run { block: 1, count: 2, stop: 3, flags: 4, fault: true, loaded: Some(Loaded::Vector(17)) };
        let origin = Some(Origin { path: "/lib/x".into(), offset: 0x3000, shared: Some((0, 9)) });
        let events = [
            Event::Run(run, registers.clone()),
            Event::Adopt(registers),
            Event::Map { start: 1, length: 2, protection: 3, origin },
            Event::Map { start: 1, length: 2, protection: 3, origin: None },
            Event::Unmap { start: 1, length: 2 },
            Event::Protect { start: 1, length: 2, protection: 3 },
            Event::Remap { start: 1, old_length: 2, new_length: 3, flags: 4, target: 5 },
            Event::Advise { start: 1, length: 2, advice: 3 },
            Event::Write { address: 1, bytes: vec![1, 2, 3] },
            Event::Wait,
            Event::End { reason: "the program starts a thread".to_owned() },
        ];
        let stream: Vec<u8> = events.iter().flat_map(Event::encode).collect();
        let mut rest = &stream[..];
        for event in events {
            assert_eq!(Event::read(&mut rest).unwrap(), Some(event));
        }
        assert_eq!(Event::read(&mut rest).unwrap(), None);
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(Event::read(&mut &[0xff; 64][..]).is_err());
        let mut cut = Event::Unmap { start: 1, length: 2 }.encode();
        cut.pop();
        assert!(Event::read(&mut &cut[..]).is_err());
    }
}
