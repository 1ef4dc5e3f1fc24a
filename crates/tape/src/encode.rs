//! From records to blocks: the encoder of the native format.
//!
//! A block stores, for each record, the number of its *form* and then only what the form leaves open. A form is an operation code with
//! the class of each operand: passive, predicted, or given by its distance in 1 to 7 bytes. Distances (own index minus operand's
//! index) are predicted to be those of the last time that the same sequence of operations came by, which holds in most loops. Of the
//! operand values, those are stored that the partial derivatives with respect to active operands need.

use crate::format::{BLOCK_HEADER_BYTES, BlockHeader, checksum};
use crate::operation::{BINARY32, Operation};
use crate::record::{Chunk, INDEX_MASK, Record};

/// Class of an operand whose distance is the predicted one. Smaller classes are the number of bytes of the distance; 0 is a passive
/// operand.
pub(crate) const PREDICTED: u8 = 8;

/// Forms in a block; their numbers have one byte.
pub(crate) const MAX_FORMS: usize = 256;

/// Bytes of a form in a block.
pub(crate) const FORM_BYTES: usize = 4;

/// What an operation code demands of the encoder.
#[derive(Clone, Copy)]
struct Demand {
    /// Removes the operands that the operation does not have.
    masks: [u64; 2],
    /// Bytes of the two values, by which operands are active (bit 0 the first, bit 1 the second).
    value_bytes: [[u8; 2]; 4],
}

/// [`Demand`]s of all codes. A code that names no operation keeps its operands, so that the reader can report it.
static DEMANDS: [Demand; 256] = {
    let mut demands = [Demand { masks: [INDEX_MASK; 2], value_bytes: [[0; 2]; 4] }; 256];
    let mut code = 0;
    while code < 256 {
        if let Some(operation) = Operation::from_code(code as u8) {
            let operands = operation.operands();
            demands[code] = Demand {
                masks: [if operands > 0 { INDEX_MASK } else { 0 }, if operands > 1 { INDEX_MASK } else { 0 }],
                value_bytes: value_bytes(operation, code as u8 & BINARY32 != 0),
            };
        }
        code += 1;
    }
    demands
};

/// Bytes of the two values, by which operands are active.
pub(crate) const fn value_bytes(operation: Operation, binary32: bool) -> [[u8; 2]; 4] {
    let bytes = operation.value_bytes(binary32);
    let mut table = [[0; 2]; 4];
    let mut active = 0;
    while active < 4 {
        let needed = operation.needed(active & 1 != 0, active & 2 != 0);
        table[active] = [
            if needed & crate::operation::FIRST != 0 { bytes } else { 0 },
            if needed & crate::operation::SECOND != 0 { bytes } else { 0 },
        ];
        active += 1;
    }
    table
}

/// Predicts operand distances. Encoder and decoder keep the same predictor, which a block starts empty.
pub(crate) struct Predictor {
    /// The last distances after each of the recent histories of operations.
    distances: Box<[[u64; 2]; Predictor::ENTRIES]>,
    /// Hash of the last operations and of which of their operands were active.
    history: u32,
}

impl Predictor {
    const ENTRIES: usize = 1024;
    const HISTORY_SHIFT: u32 = 22;

    pub(crate) fn new() -> Predictor {
        Predictor { distances: Box::new([[0; 2]; Self::ENTRIES]), history: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.distances.fill([0; 2]);
        self.history = 0;
    }

    /// Takes the next operation into account (`signature`: code and active operands) and returns the place of its predicted
    /// distances, which are to be replaced by the real ones.
    #[inline(always)]
    pub(crate) fn predict(&mut self, signature: u32) -> &mut [u64; 2] {
        // The shift makes the history forget: an operation has left the hash after 32 / 6 further ones.
        self.history = (self.history << 6) ^ signature.wrapping_mul(0x9e37_79b1) >> 7;
        let slot = self.history.wrapping_mul(0x85eb_ca6b) >> Self::HISTORY_SHIFT;
        &mut self.distances[slot as usize % Self::ENTRIES]
    }
}

/// Code and active operands of a form or record, as the [`Predictor`] takes them.
#[inline(always)]
pub(crate) fn signature(code: u8, first_active: bool, second_active: bool) -> u32 {
    u32::from(code) << 2 | u32::from(second_active) << 1 | u32::from(first_active)
}

/// Encodes chunks. It allocates on creation only.
pub(crate) struct Encoder {
    predictor: Predictor,
    /// Number of a form plus one by operation code and operand classes; 0 if the block does not have the form.
    numbers: Box<[u16]>,
    /// The block's forms.
    forms: Vec<[u8; FORM_BYTES]>,
    form_of: Box<[u8]>,
    operands: Box<[u8]>,
    values: Box<[u8]>,
    block: Vec<u8>,
}

/// How many bytes an encoded block can have: with every record in a form that leaves everything open.
const MAX_BLOCK_BYTES: usize = BLOCK_HEADER_BYTES + FORM_BYTES * MAX_FORMS + Chunk::RECORDS * (1 + 2 * 7 + 2 * 8) + 8;

impl Encoder {
    /// An encoder for blocks of up to [`Chunk::RECORDS`] records.
    pub(crate) fn new() -> Encoder {
        // Distances and values are stored as whole words whose surplus is overwritten by the next: hence the slack.
        let slack = 16;
        Encoder {
            predictor: Predictor::new(),
            numbers: vec![0; 1 << 16].into_boxed_slice(),
            forms: Vec::with_capacity(MAX_FORMS),
            form_of: vec![0; Chunk::RECORDS].into_boxed_slice(),
            operands: vec![0; 14 * Chunk::RECORDS + slack].into_boxed_slice(),
            values: vec![0; 16 * Chunk::RECORDS + slack].into_boxed_slice(),
            block: Vec::with_capacity(MAX_BLOCK_BYTES),
        }
    }

    /// Encodes as many of the records as one block can hold (all of them unless they have more than [`MAX_FORMS`] forms), beginning
    /// with the one of `first_index`. Returns their number and the block.
    pub(crate) fn encode(&mut self, first_index: u64, records: &[Record]) -> (usize, &[u8]) {
        let records = &records[..records.len().min(Chunk::RECORDS)];
        self.predictor.clear();
        for [code, first, second, _] in self.forms.drain(..) {
            self.numbers[form_key(code, first, second)] = 0;
        }
        let (mut operand_end, mut value_end) = (0, 0);
        let mut count = 0;
        for (record, form_of) in records.iter().zip(self.form_of.iter_mut()) {
            let index = first_index + count as u64;
            let code = record.code();
            let demand = &DEMANDS[usize::from(code)];
            let operands = [record.operand1 & demand.masks[0], record.operand2 & demand.masks[1]];
            let active = [operands[0] != 0, operands[1] != 0];
            let distances =
                std::array::from_fn(|k| if active[k] { index.wrapping_sub(operands[k]) & INDEX_MASK } else { 0 });
            let predicted = self.predictor.predict(signature(code, active[0], active[1]));
            let explicit: [u8; 2] = std::array::from_fn(|k| {
                if active[k] && predicted[k] != distances[k] {
                    (71 - (distances[k] | 1).leading_zeros()) as u8 / 8
                } else {
                    0
                }
            });
            let class: [u8; 2] =
                std::array::from_fn(
                    |k| {
                        if active[k] && predicted[k] == distances[k] { PREDICTED } else { explicit[k] }
                    },
                );
            *predicted = distances;

            let number = &mut self.numbers[form_key(code, class[0], class[1])];
            if *number == 0 {
                if self.forms.len() == MAX_FORMS {
                    break;
                }
                self.forms.push([code, class[0], class[1], 0]);
                *number = self.forms.len() as u16;
            }
            *form_of = (*number - 1) as u8;

            let value_bytes = demand.value_bytes[usize::from(active[0]) | usize::from(active[1]) << 1];
            operand_end = append(&mut self.operands, operand_end, distances[0], explicit[0]);
            operand_end = append(&mut self.operands, operand_end, distances[1], explicit[1]);
            value_end = append(&mut self.values, value_end, record.value1, value_bytes[0]);
            value_end = append(&mut self.values, value_end, record.value2, value_bytes[1]);
            count += 1;
        }

        self.block.clear();
        self.block.resize(BLOCK_HEADER_BYTES, 0);
        self.block.extend_from_slice(self.forms.as_flattened());
        self.block.extend_from_slice(&self.form_of[..count]);
        self.block.extend_from_slice(&self.operands[..operand_end]);
        self.block.extend_from_slice(&self.values[..value_end]);
        self.block.resize(self.block.len().next_multiple_of(8), 0);
        let header = BlockHeader {
            first_index,
            records: count as u32,
            forms: self.forms.len() as u32,
            operand_bytes: operand_end as u32,
            value_bytes: value_end as u32,
            checksum: checksum(&self.block[BLOCK_HEADER_BYTES..]),
        };
        self.block[..BLOCK_HEADER_BYTES].copy_from_slice(&header.to_bytes());
        (count, &self.block)
    }
}

/// Position of a form in [`Encoder::numbers`].
#[inline(always)]
fn form_key(code: u8, first: u8, second: u8) -> usize {
    usize::from(code) << 8 | usize::from(first) << 4 | usize::from(second)
}

/// Stores `word` at `end` and returns the end of its first `bytes` bytes; what lies behind is surplus.
#[inline(always)]
fn append(area: &mut [u8], end: usize, word: u64, bytes: u8) -> usize {
    area[end..end + 8].copy_from_slice(&word.to_le_bytes());
    end + usize::from(bytes)
}
