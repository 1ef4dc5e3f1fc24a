//! From blocks to records or partial derivatives: the decoder of the native format.

use crate::form::{EncodedForm, MAX_FORMS, PREDICTED, Source, both, low_bytes, value_masks};
use crate::format::{BLOCK_HEADER_BYTES, BlockHeader, PERIOD_BYTES, checksum, get_u32, get_u64};
use crate::operation::{BINARY32, Operation};
use crate::record::{Chunk, INDEX_BITS, INDEX_MASK, Record};
use crate::run::LoopHistory;
use crate::sequence::{self, Repetition};

/// Bytes that must be readable behind a block given to the [`Decoder`], so that it can load whole words.
pub(crate) const SLACK: usize = 8;

/// One operation as the evaluator and the exchange format see it: the operands' indices and the partial derivatives.
///
/// A passive operand has index 0 and partial derivative 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Partials {
    /// Indices of the operands; 0 is passive.
    pub operands: [u64; 2],
    /// Partial derivatives with respect to the operands.
    pub partials: [f64; 2],
}

/// What is wrong with a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The block contradicts itself, at this offset from its beginning.
    Damaged { offset: usize, what: String },
    /// An operand does not precede its operation.
    Order { index: u64, operand: u64 },
}

/// A form (see [`crate::form`]) with all that follows from it.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    code: u8,
    pub(crate) operation: Operation,
    pub(crate) binary32: bool,
    pub(crate) active: [bool; 2],
    /// For each operand: its bits if the distance is stored, its bits if it is predicted.
    distance_masks: [u64; 2],
    stored: [u64; 2],
    predicted: [u64; 2],
    pub(crate) strides: [u64; 2],
    pub(crate) distance_bytes: [u8; 2],
    pub(crate) sources: [Source; 2],
    /// For each value: its bits if it is stored, its bits if it has a source.
    pub(crate) value_masks: [u64; 2],
    pub(crate) source_masks: [u64; 2],
    pub(crate) value_bytes: [u8; 2],
}

impl Form {
    /// The form of an unused slot.
    const NONE: Form = Form {
        code: 0,
        operation: Operation::None,
        binary32: false,
        active: [false; 2],
        distance_masks: [0; 2],
        stored: [0; 2],
        predicted: [0; 2],
        strides: [0; 2],
        distance_bytes: [0; 2],
        sources: [Source::NONE; 2],
        value_masks: [0; 2],
        source_masks: [0; 2],
        value_bytes: [0; 2],
    };

    fn new(bytes: &[u8]) -> Result<Form, String> {
        let encoded = EncodedForm::from_bytes(bytes).ok_or_else(|| format!("unknown form {bytes:?}"))?;
        let EncodedForm { code, class, sources, strides } = encoded;
        let operation = Operation::from_code(code).ok_or_else(|| format!("unknown operation code {code}"))?;
        let active = class.map(|class| class != 0);
        if active[1] && operation.operands() < 2 || active[0] && operation.operands() < 1 {
            return Err(format!("operation {} with too many operands", operation.name()));
        }
        let binary32 = code & BINARY32 != 0;
        let all = |condition: bool| if condition { u64::MAX } else { 0 };
        let values = value_masks(operation, binary32, usize::from(active[0]) | usize::from(active[1]) << 1);
        let stored = both(|k| if sources[k] == Source::NONE { values[k] } else { 0 });
        Ok(Form {
            code,
            operation,
            binary32: binary32 && operation.value_bytes(true) == 4,
            active,
            distance_masks: class.map(|class| if class == PREDICTED { 0 } else { low_bytes(class) }),
            stored: class.map(|class| all(class != 0 && class != PREDICTED)),
            predicted: class.map(|class| all(class == PREDICTED)),
            strides: strides.map(|stride| i64::from(stride) as u64),
            distance_bytes: class.map(|class| if class == PREDICTED { 0 } else { class }),
            sources,
            value_masks: stored,
            source_masks: both(|k| values[k] & !stored[k]),
            value_bytes: stored.map(|mask| mask.count_ones() as u8 / 8),
        })
    }

    /// The record that the encoder was given, except for what derivatives do not need.
    #[inline]
    pub(crate) fn record(&self, operands: [u64; 2], values: [u64; 2]) -> Record {
        let operand1 = operands[0] | u64::from(self.code) << INDEX_BITS;
        Record { operand1, operand2: operands[1], value1: values[0], value2: values[1] }
    }

    /// The partial derivatives.
    #[inline]
    pub(crate) fn partials(&self, operands: [u64; 2], values: [u64; 2]) -> Partials {
        let [a, b] = if self.binary32 {
            values.map(|value| f64::from(f32::from_bits(value as u32)))
        } else {
            values.map(f64::from_bits)
        };
        let partials = self.operation.partials(a, b);
        let active = |k: usize| if self.active[k] { partials[k] } else { 0.0 };
        Partials { operands, partials: [active(0), active(1)] }
    }
}

/// Decodes blocks. It allocates on creation only (and for loops, see [`crate::run`]).
pub(crate) struct Decoder {
    pub(crate) forms: Box<[Form; MAX_FORMS]>,
    /// The number of each record's form, and the repetitions in that.
    pub(crate) sequence: Vec<u8>,
    pub(crate) repetitions: Vec<Repetition>,
    /// Operands and values of the records so far: those to come refer to them.
    pub(crate) operands: Box<[[u64; 2]]>,
    pub(crate) values: Box<[[u64; 2]]>,
    /// How far back the block's forms look for values.
    pub(crate) reach: usize,
    pub(crate) loops: LoopHistory,
}

/// How far a block has been decoded.
pub(crate) struct Cursor {
    pub(crate) header: BlockHeader,
    /// The record to be decoded next.
    pub(crate) position: usize,
    /// The period at this position.
    pub(crate) period: usize,
    /// Offsets of the next distance and value in the block.
    operand: usize,
    pub(crate) value: usize,
    /// Offset of the next change of the period.
    change: usize,
    /// Offsets of the block's parts behind the forms.
    sequence_at: usize,
    operands_at: usize,
    values_at: usize,
    pub(crate) values_end: usize,
}

impl Cursor {
    /// The next change of the period: position and new period.
    fn next_change(&self, memory: &[u8]) -> Option<(usize, usize)> {
        // 32-bit numbers fit.
        let number = |offset| get_u32(memory, self.change + offset) as usize;
        (self.change < self.sequence_at).then(|| (number(0), number(4)))
    }

    /// Brings the period up to date. Returns the position up to which it holds.
    pub(crate) fn settle(&mut self, memory: &[u8]) -> Result<usize, Flaw> {
        while let Some((from, period)) = self.next_change(memory) {
            if from > self.position {
                return Ok(from.min(self.header.records as usize));
            }
            if period > self.position {
                return Err(damaged(self.change, "a period begins before the block"));
            }
            self.period = period;
            self.change += PERIOD_BYTES;
        }
        Ok(self.header.records as usize)
    }

    /// Checks that everything has been used.
    pub(crate) fn finish(self) -> Result<BlockHeader, Flaw> {
        if (self.operand, self.value) == (self.values_at, self.values_end) {
            Ok(self.header)
        } else {
            Err(damaged(self.operands_at, "distances or values are left over"))
        }
    }
}

impl Decoder {
    pub(crate) fn new() -> Decoder {
        Decoder {
            forms: Box::new([Form::NONE; MAX_FORMS]),
            sequence: Vec::with_capacity(Chunk::RECORDS),
            repetitions: Vec::new(),
            operands: vec![[0; 2]; Chunk::RECORDS].into_boxed_slice(),
            values: vec![[0; 2]; Chunk::RECORDS].into_boxed_slice(),
            reach: 0,
            loops: LoopHistory::default(),
        }
    }

    /// Decodes a block: `memory` is the block, of the size that its header says, and [`SLACK`] further bytes of any content. `out` becomes
    /// what `item` makes of each record's form, operands and values, in the order of indices; all operands precede their operation.
    #[inline]
    pub(crate) fn decode<T: Copy + Default>(
        &mut self,
        memory: &[u8],
        out: &mut Vec<T>,
        item: impl Fn(&Form, [u64; 2], [u64; 2]) -> T,
    ) -> Result<BlockHeader, Flaw> {
        let mut cursor = self.begin(memory)?;
        let records = cursor.header.records as usize;
        out.clear();
        out.reserve(records);
        self.advance(memory, &mut cursor, records, |form, operands, values| out.push(item(form, operands, values)))?;
        cursor.finish()
    }

    /// Opens a block: forms and their sequence.
    pub(crate) fn begin(&mut self, memory: &[u8]) -> Result<Cursor, Flaw> {
        let header = self.open(memory)?;
        let mut ends = [BLOCK_HEADER_BYTES; 6];
        for (part, size) in header.parts().into_iter().enumerate() {
            ends[part + 1] = ends[part] + size as usize;
        }
        let [_, change, sequence_at, operands_at, values_at, values_end] = ends;
        let Decoder { sequence, repetitions, .. } = self;
        let encoded = &memory[sequence_at..operands_at];
        if sequence::decode(encoded, header.records as usize, sequence, repetitions).is_none() {
            return Err(damaged(sequence_at, "the sequence of forms is nonsense"));
        }
        if sequence.iter().max().is_some_and(|number| u32::from(*number) >= header.forms) {
            return Err(damaged(sequence_at, "a form is missing"));
        }
        let used = &self.forms[..header.forms as usize];
        self.reach = used.iter().flat_map(|form| form.sources).map(Source::back).max().unwrap_or(0);
        self.loops.clear();
        Ok(Cursor {
            header,
            position: 0,
            period: 0,
            operand: operands_at,
            value: values_at,
            change,
            sequence_at,
            operands_at,
            values_at,
            values_end,
        })
    }

    /// Decodes records up to `limit`, one by one.
    #[inline(always)]
    pub(crate) fn advance(
        &mut self,
        memory: &[u8],
        cursor: &mut Cursor,
        limit: usize,
        mut each: impl FnMut(&Form, [u64; 2], [u64; 2]),
    ) -> Result<(), Flaw> {
        while cursor.position < limit {
            let end = cursor.settle(memory)?.min(limit);
            let reach = cursor.period.max(self.reach);
            self.remember(memory, cursor.position.saturating_sub(reach));
            let period = cursor.period;
            let Cursor { operand, value, .. } = cursor;
            for position in cursor.position..end {
                let form = &self.forms[usize::from(self.sequence[position])];
                let index = cursor.header.first_index + position as u64;
                let before = self.operands[position - period];
                let distances = load_pair(memory, operand, form.distance_bytes);
                let words = load_pair(memory, value, form.value_bytes);
                let (Some(distances), Some(words)) = (distances, words) else {
                    return Err(damaged(cursor.operands_at, "distances or values run over the end"));
                };
                let operands = both(|k| {
                    (before[k].wrapping_add(form.strides[k]) & form.predicted[k])
                        | (index.wrapping_sub(distances[k] & form.distance_masks[k]) & form.stored[k])
                });
                for (active, operand) in form.active.into_iter().zip(operands) {
                    if active && (operand == 0 || operand >= index) {
                        return Err(Flaw::Order { index, operand: operand & INDEX_MASK });
                    }
                }
                let mut values = [0; 2];
                for k in 0..2 {
                    let source = form.sources[k];
                    // The difference is out of range if the source lies before the block.
                    let Some(sourced) = self.values.get(position.wrapping_sub(source.back())) else {
                        return Err(damaged(cursor.sequence_at, "a value's source is not in the block"));
                    };
                    values[k] = (words[k] & form.value_masks[k]) | (sourced[source.slot()] & form.source_masks[k]);
                }
                self.operands[position] = operands;
                self.values[position] = values;
                each(form, operands, values);
            }
            cursor.position = end;
        }
        Ok(())
    }

    /// Checks a block's header and checksum and reads its forms.
    fn open(&mut self, memory: &[u8]) -> Result<BlockHeader, Flaw> {
        let Some(header) = BlockHeader::from_bytes(memory) else {
            return Err(damaged(0, "no block begins here"));
        };
        let bytes = header.bytes();
        if bytes + SLACK as u64 > memory.len() as u64 {
            return Err(damaged(16, "the block is longer than the directory says"));
        }
        let index_limit = header.first_index.checked_add(header.records.into());
        if header.records as usize > Chunk::RECORDS
            || header.forms as usize > MAX_FORMS
            || index_limit.is_none_or(|limit| limit > 1 << INDEX_BITS)
        {
            return Err(damaged(8, "the block's header is nonsense"));
        }
        let content = &memory[BLOCK_HEADER_BYTES..bytes as usize];
        if checksum(content) != header.checksum {
            return Err(damaged(40, "the checksum is wrong"));
        }
        let forms = content[..EncodedForm::BYTES * header.forms as usize].chunks_exact(EncodedForm::BYTES);
        for (position, form) in forms.enumerate() {
            let offset = BLOCK_HEADER_BYTES + EncodedForm::BYTES * position;
            self.forms[position] = Form::new(form).map_err(|what| Flaw::Damaged { offset, what })?;
        }
        Ok(header)
    }
}

pub(crate) fn damaged(offset: usize, what: &str) -> Flaw {
    Flaw::Damaged { offset, what: what.to_owned() }
}

/// Loads two words of which the first `bytes` bytes count and are stepped over; `None` beyond the end of memory.
#[inline(always)]
fn load_pair(memory: &[u8], at: &mut usize, bytes: [u8; 2]) -> Option<[u64; 2]> {
    let first = *at;
    let second = first + usize::from(bytes[0]);
    *at = second + usize::from(bytes[1]);
    // `second` never lies before `first`, so one check serves both.
    let window = memory.get(first..second + 8)?;
    Some([get_u64(window, 0), get_u64(window, second - first)])
}

#[cfg(test)]
mod tests;
