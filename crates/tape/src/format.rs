//! The native file format's fixed parts: file header, block header, directory, file names. `docs/tape-format.md` describes them to the
//! byte.

use std::path::{Path, PathBuf};

use crate::error::TapeError;
use crate::form::EncodedForm;

/// First bytes of a tape in the native format. An exchange-format tape starts with a block of zeros.
pub(crate) const MAGIC: [u8; 8] = *b"\x89dgtape\n";
/// Version of the native format.
pub(crate) const VERSION: u32 = 1;
/// First bytes of each block.
pub(crate) const BLOCK_MAGIC: [u8; 8] = *b"dgblock\n";
/// Size of the file header; the first block follows.
pub(crate) const HEADER_BYTES: usize = 128;
/// Size of a block's header.
pub(crate) const BLOCK_HEADER_BYTES: usize = 48;
/// Size of a change of the period: position and new period.
pub(crate) const PERIOD_BYTES: usize = 8;
/// Size of a directory entry.
pub(crate) const ENTRY_BYTES: usize = 24;

/// Which process of a recording a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Process {
    /// The process that was started: `dg-tape`.
    Main,
    /// A process that `fork` created, with its process id: `dg-tape.<pid>`.
    Forked(u32),
}

impl Process {
    /// The path of one of the recording's files, for this process.
    pub(crate) fn file(self, directory: &Path, name: &str) -> PathBuf {
        match self {
            Process::Main => directory.join(name),
            Process::Forked(pid) => directory.join(format!("{name}.{pid}")),
        }
    }
}

/// Name of the tape.
pub(crate) const TAPE_FILE: &str = "dg-tape";
/// Name of the list of inputs.
pub(crate) const INPUT_FILE: &str = "dg-input-indices";
/// Name of the list of outputs.
pub(crate) const OUTPUT_FILE: &str = "dg-output-indices";

/// Where a forked process's recording branches off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    /// The process that called `fork`.
    pub process: Process,
    /// Indices below this one that the own tape does not hold are the parent's.
    pub index_limit: u64,
    /// How many of the parent's inputs had been declared.
    pub inputs: u64,
    /// How many of the parent's outputs had been declared.
    pub outputs: u64,
}

/// The file header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Header {
    /// Whether the recording came to its end; what follows is valid only then (except `parent`).
    pub complete: bool,
    /// Where the blocks end and the directory begins.
    pub directory_offset: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of records in all blocks.
    pub records: u64,
    /// One more than the greatest index on this tape.
    pub index_limit: u64,
    /// Checksum of the directory.
    pub directory_checksum: u64,
    /// Where this recording branches off, in a forked process.
    pub parent: Option<Parent>,
}

impl Header {
    /// The bytes in the file.
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        put_u32(&mut bytes, 8, VERSION);
        put_u32(&mut bytes, 12, u32::from(self.complete));
        put_u64(&mut bytes, 16, self.directory_offset);
        put_u64(&mut bytes, 24, self.blocks);
        put_u64(&mut bytes, 32, self.records);
        put_u64(&mut bytes, 40, self.index_limit);
        put_u64(&mut bytes, 48, self.directory_checksum);
        if let Some(parent) = self.parent {
            let (kind, pid) = match parent.process {
                Process::Main => (1, 0),
                Process::Forked(pid) => (2, pid),
            };
            put_u32(&mut bytes, 56, kind);
            put_u32(&mut bytes, 60, pid);
            put_u64(&mut bytes, 64, parent.index_limit);
            put_u64(&mut bytes, 72, parent.inputs);
            put_u64(&mut bytes, 80, parent.outputs);
        }
        bytes
    }

    /// Reads a header whose magic has been recognised.
    pub(crate) fn from_bytes(bytes: &[u8; HEADER_BYTES], path: &Path) -> Result<Header, TapeError> {
        let found = get_u32(bytes, 8);
        if found != VERSION {
            return Err(TapeError::Version { path: path.to_owned(), found, supported: VERSION });
        }
        let process = match (get_u32(bytes, 56), get_u32(bytes, 60)) {
            (0, _) => None,
            (1, _) => Some(Process::Main),
            (2, pid) => Some(Process::Forked(pid)),
            (kind, _) => {
                let what = format!("unknown kind {kind} of parent process");
                return Err(TapeError::Damaged { path: path.to_owned(), offset: 56, what });
            }
        };
        Ok(Header {
            complete: get_u32(bytes, 12) == 1,
            directory_offset: get_u64(bytes, 16),
            blocks: get_u64(bytes, 24),
            records: get_u64(bytes, 32),
            index_limit: get_u64(bytes, 40),
            directory_checksum: get_u64(bytes, 48),
            parent: process.map(|process| Parent {
                process,
                index_limit: get_u64(bytes, 64),
                inputs: get_u64(bytes, 72),
                outputs: get_u64(bytes, 80),
            }),
        })
    }
}

/// A block's place in the file and its indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Offset of the block's header in the file.
    pub offset: u64,
    /// Index of the first record.
    pub first_index: u64,
    /// Number of records.
    pub records: u32,
    /// Size with header and padding.
    pub bytes: u32,
}

impl Entry {
    /// One more than the last index.
    pub(crate) fn index_limit(&self) -> u64 {
        self.first_index + u64::from(self.records)
    }

    /// The bytes in the directory.
    pub(crate) fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        put_u64(&mut bytes, 0, self.offset);
        put_u64(&mut bytes, 8, self.first_index);
        put_u32(&mut bytes, 16, self.records);
        put_u32(&mut bytes, 20, self.bytes);
        bytes
    }

    /// Reads an entry.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Entry {
        Entry {
            offset: get_u64(bytes, 0),
            first_index: get_u64(bytes, 8),
            records: get_u32(bytes, 16),
            bytes: get_u32(bytes, 20),
        }
    }
}

/// A block's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    /// Index of the first record.
    pub first_index: u64,
    /// Number of records.
    pub records: u32,
    /// Number of forms.
    pub forms: u32,
    /// Number of changes of the period.
    pub periods: u32,
    /// Bytes of the sequence of forms.
    pub sequence_bytes: u32,
    /// Bytes of operand distances.
    pub operand_bytes: u32,
    /// Bytes of values.
    pub value_bytes: u32,
    /// Checksum of what follows the header.
    pub checksum: u64,
}

impl BlockHeader {
    /// The bytes in the file.
    pub(crate) fn to_bytes(self) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        bytes[..8].copy_from_slice(&BLOCK_MAGIC);
        put_u64(&mut bytes, 8, self.first_index);
        let words = [self.records, self.forms, self.periods, self.sequence_bytes, self.operand_bytes, self.value_bytes];
        for (word, position) in words.into_iter().zip((16..).step_by(4)) {
            put_u32(&mut bytes, position, word);
        }
        put_u64(&mut bytes, 40, self.checksum);
        bytes
    }

    /// Reads a block's header; `None` if the magic is not there.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<BlockHeader> {
        (bytes.len() >= BLOCK_HEADER_BYTES && bytes[..8] == BLOCK_MAGIC).then(|| BlockHeader {
            first_index: get_u64(bytes, 8),
            records: get_u32(bytes, 16),
            forms: get_u32(bytes, 20),
            periods: get_u32(bytes, 24),
            sequence_bytes: get_u32(bytes, 28),
            operand_bytes: get_u32(bytes, 32),
            value_bytes: get_u32(bytes, 36),
            checksum: get_u64(bytes, 40),
        })
    }

    /// Sizes of the parts behind the header: forms, periods, sequence of forms, distances, values.
    pub(crate) fn parts(&self) -> [u64; 5] {
        [
            EncodedForm::BYTES as u64 * u64::from(self.forms),
            PERIOD_BYTES as u64 * u64::from(self.periods),
            self.sequence_bytes.into(),
            self.operand_bytes.into(),
            self.value_bytes.into(),
        ]
    }

    /// Size of the block with header and padding.
    pub(crate) fn bytes(&self) -> u64 {
        (BLOCK_HEADER_BYTES as u64 + self.parts().iter().sum::<u64>()).next_multiple_of(8)
    }
}

/// Checksum of bytes whose number is a multiple of 8 (the rest is ignored): four interleaved multiplicative hashes of 64-bit words.
///
/// It finds torn and overwritten blocks at a tenth of the cost of writing them; it is no defence against intent.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut lanes = [1_u64, 2, 3, 4];
    let mut groups = bytes.chunks_exact(32);
    for group in &mut groups {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum = (*sum ^ get_u64(group, 8 * lane)).wrapping_mul(MULTIPLIER).rotate_left(29);
        }
    }
    for word in groups.remainder().chunks_exact(8) {
        lanes[0] = (lanes[0] ^ get_u64(word, 0)).wrapping_mul(MULTIPLIER).rotate_left(29);
    }
    lanes.into_iter().fold(bytes.len() as u64, |sum, lane| (sum ^ lane).wrapping_mul(MULTIPLIER).rotate_left(29))
}

/// Little-endian word at `offset`.
#[inline]
pub(crate) fn get_u64(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(word)
}

/// Little-endian word at `offset`.
#[inline]
pub(crate) fn get_u32(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(word)
}

/// Stores a little-endian word at `offset`.
#[inline]
pub(crate) fn put_u64(bytes: &mut [u8], offset: usize, value: u64) {
    bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
}

/// Stores a little-endian word at `offset`.
#[inline]
pub(crate) fn put_u32(bytes: &mut [u8], offset: usize, value: u32) {
    bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trip() {
        let header = Header {
            complete: true,
            directory_offset: 1,
            blocks: 2,
            records: 3,
            index_limit: 4,
            directory_checksum: 5,
            parent: Some(Parent { process: Process::Forked(77), index_limit: 6, inputs: 7, outputs: 8 }),
        };
        assert_eq!(Header::from_bytes(&header.to_bytes(), Path::new("x")).unwrap(), header);
        let plain = Header::default();
        assert_eq!(Header::from_bytes(&plain.to_bytes(), Path::new("x")).unwrap(), plain);
    }

    #[test]
    fn checksum_notices_every_bit_and_swapped_words() {
        let bytes: Vec<u8> = (0..72).map(|i| (i * 37 % 251) as u8).collect();
        let sum = checksum(&bytes);
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(checksum(&changed), sum, "bit {bit}");
        }
        let mut swapped = bytes.clone();
        swapped.swap(0, 32);
        assert_ne!(checksum(&swapped), sum);
        assert_ne!(checksum(&bytes[..64]), sum);
    }
}
