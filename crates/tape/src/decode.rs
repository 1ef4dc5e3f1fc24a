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
mod tests {
    use super::*;
    use crate::encode::Encoder;
    use crate::run::{Content, Run};
    use proptest::prelude::*;

    fn round_trip(first_index: u64, records: &[Record]) -> Vec<Record> {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        let mut decoded = Vec::new();
        let mut rest = records;
        while !rest.is_empty() {
            let (count, block) = encoder.encode(first_index + decoded.len() as u64, rest);
            let mut memory = block.to_vec();
            memory.extend_from_slice(&[0xff; SLACK]);
            let mut run = Vec::new();
            let header = decoder.decode(&memory, &mut run, Form::record).unwrap();
            decoded.append(&mut run);
            assert_eq!((header.records as usize, header.bytes() as usize), (count, block.len()));
            rest = &rest[count..];
        }
        decoded
    }

    #[test]
    fn everything_that_derivatives_need_comes_back() {
        let records = [
            Record::binary64(Operation::Div, [999, 1000], [1.0, 2.0]),
            Record::binary32(Operation::Mul, [1, 0], [3.0, 4.0]),
            Record::binary64(Operation::Partials, [1000, 0], [f64::NAN, 2.0]),
            Record { operand2: 0xff << INDEX_BITS, ..Record::binary64(Operation::Sqrt, [700, 0], [2.0, 0.0]) },
            Record::binary64(Operation::None, [5, 6], [1.0, 1.0]),
        ];
        let expected = [
            records[0],
            Record { value1: 0, ..records[1] },
            Record { value2: 0, ..records[2] },
            Record { operand2: 0, ..records[3] },
            Record::default(),
        ];
        assert_eq!(round_trip(1001, &records), expected);
    }

    #[test]
    fn a_block_with_too_many_forms_is_split() {
        let codes = Operation::ALL.iter().filter(|operation| operation.operands() == 2);
        let distances = (0..7).map(|bytes| 1_u64 << (8 * bytes));
        let distances: Vec<u64> = distances.chain([0]).collect();
        let index = 1 << 50;
        let mut records = Vec::new();
        for operation in codes {
            for first in &distances {
                for second in &distances {
                    let next = index + records.len() as u64;
                    let operand = |distance| if distance == 0 { 0 } else { next - distance };
                    let operands = [operand(*first), operand(*second)];
                    records.push(Record::binary64(*operation, operands, [0.0; 2]));
                }
            }
        }
        let operands = |records: &[Record]| records.iter().map(Record::operands).collect::<Vec<_>>();
        assert_eq!(operands(&round_trip(index, &records)), operands(&records));
    }

    #[test]
    fn loops_cost_little_more_than_their_values() {
        let mut records = Vec::new();
        for index in 100_u64.. {
            match index % 4 {
                0 => records.push(Record::binary64(Operation::Mul, [index - 77, 0], [0.0, 0.25])),
                1 => records.push(Record::binary64(Operation::Add, [index - 1, index - 90], [0.0; 2])),
                2 => records.push(Record::binary64(Operation::Sub, [index - 1, index - 2], [0.0; 2])),
                _ => records.push(Record::binary64(Operation::Sqrt, [index - 1, 0], [index as f64, 0.0])),
            }
            if records.len() == Chunk::RECORDS {
                break;
            }
        }
        let bytes = Encoder::new().encode(100, &records).1.len();
        // Of four records one has a value that is new.
        assert!(bytes < Chunk::RECORDS * 2 + 300, "{bytes}");
    }

    #[test]
    fn operands_that_do_not_precede_are_reported() {
        for operand in [10, 11, 1 << 40] {
            let mut memory =
                Encoder::new().encode(10, &[Record::binary64(Operation::Copy, [operand, 0], [0.0; 2])]).1.to_vec();
            memory.resize(memory.len() + SLACK, 0);
            let result = Decoder::new().decode(&memory, &mut Vec::new(), Form::record);
            assert_eq!(result, Err(Flaw::Order { index: 10, operand }));
        }
    }

    /// What a sweep sees of records, and how many of them are in loops.
    fn sweep_view(first_index: u64, records: &[Record]) -> (Vec<Partials>, usize) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        let (mut seen, mut in_loops) = (Vec::new(), 0);
        while seen.len() < records.len() {
            let (_, block) = encoder.encode(first_index + seen.len() as u64, &records[seen.len()..]);
            let mut memory = [block, &[0xff; SLACK]].concat();
            let mut run = Run::default();
            decoder.decode_run(&mut memory, &mut run).unwrap();
            for part in &run.parts {
                match &part.content {
                    Content::Records(range) => seen.extend_from_slice(&run.records[range.clone()]),
                    Content::Loop { rows, columns } => {
                        let columns = &run.columns[columns.clone()];
                        in_loops += rows * columns.len();
                        for (row, column) in (0..*rows).flat_map(|row| columns.iter().map(move |column| (row, column)))
                        {
                            let (operands, partials) = (column.operands(row), column.partials(&memory, row));
                            let partials = both(|k| if operands[k] != 0 { partials[k] } else { 0.0 });
                            seen.push(Partials { operands, partials });
                        }
                    }
                }
            }
        }
        (seen, in_loops)
    }

    #[test]
    fn loops_stay_loops() {
        let mut records = Vec::new();
        for index in 100..100 + Chunk::RECORDS as u64 {
            let value = index as f64;
            records.push(match index % 5 {
                0 => Record::binary64(Operation::Mul, [index - 77, index - 3], [value, 0.25]),
                1 => Record::binary32(Operation::Div, [index - 1, index - 90], [value as f32, 3.0]),
                2 => Record::binary64(Operation::Mul, [0, index - 2], [value - 2.0, 1.0]),
                3 => Record::binary64(Operation::Partials, [index - 1, index - 2], [value, value]),
                _ => Record::binary64(Operation::Div, [index - 1, 0], [0.0, 7.0]),
            });
        }
        let (seen, in_loops) = sweep_view(100, &records);
        assert!(in_loops > Chunk::RECORDS - 100, "{in_loops}");
        assert!(seen.iter().zip(&records).all(|(seen, record)| *seen == record.partials()));
    }

    /// What must come back of a record.
    fn essence(record: &Record) -> Record {
        let operation = Operation::from_code(record.code()).unwrap();
        let operands = record.operands();
        let operands = [0, 1].map(|k| if k < usize::from(operation.operands()) { operands[k] } else { 0 });
        let active = usize::from(operands[0] != 0) | usize::from(operands[1] != 0) << 1;
        let masks = value_masks(operation, record.code() & BINARY32 != 0, active);
        Record {
            operand1: operands[0] | u64::from(record.code()) << INDEX_BITS,
            operand2: operands[1],
            value1: record.value1 & masks[0],
            value2: record.value2 & masks[1],
        }
    }

    /// An operation in a loop: code, distances, and where its values come from.
    #[derive(Clone, Debug)]
    struct Step {
        code: u8,
        distances: [u16; 2],
        /// How much the distances change from one iteration to the next.
        drift: [i8; 2],
        values: [u8; 2],
    }

    fn step() -> impl Strategy<Value = Step> {
        let code = (0..Operation::ALL.len() as u8, any::<bool>());
        let drift = || prop_oneof![Just(0_i8), any::<i8>()];
        (code, any::<[u16; 2]>(), [drift(), drift()], any::<[u8; 2]>()).prop_map(
            |((code, binary32), distances, drift, values)| Step {
                code: if binary32 { code | BINARY32 } else { code },
                distances,
                drift,
                values,
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        /// Loops with invariants, values that several operations share, and disturbances.
        #[test]
        fn loops_come_back(
            loops in prop::collection::vec((prop::collection::vec(step(), 1..12), 1_usize..200), 1..8),
            disturbed in 2_u64..300,
            first_index in prop_oneof![Just(0_u64), Just(1 << 20), Just(1 << 40)],
        ) {
            let mut records = Vec::new();
            let mut state = 1_u64;
            for (body, iterations) in &loops {
                for iteration in 0..*iterations as i64 {
                    // A value that is new in each iteration and used more than once.
                    let shared = (records.len() as f64).to_bits();
                    for step in body {
                        let index = first_index + records.len() as u64;
                        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                        let disturbance = if (state >> 33).is_multiple_of(disturbed) { state >> 60 } else { 0 };
                        let operand = |k: usize| match u64::from(step.distances[k] % 1000) {
                            0..300 => 0,
                            distance => {
                                let distance = distance - 299 + disturbance;
                                let drift = i64::from(step.drift[k]) * iteration;
                                let distance = distance.saturating_add_signed(drift).max(1);
                                index.saturating_sub(distance)
                            }
                        };
                        let value = |kind: u8| match kind % 4 {
                            0 => 0.5_f64.to_bits(),
                            1 => shared,
                            2 => state,
                            _ => 0,
                        };
                        records.push(Record {
                            operand1: operand(0) | u64::from(step.code) << INDEX_BITS,
                            operand2: operand(1) | 0x80 << INDEX_BITS,
                            value1: value(step.values[0]),
                            value2: value(step.values[1]),
                        });
                    }
                }
            }
            let expected: Vec<Record> = records.iter().map(essence).collect();
            let decoded = round_trip(first_index, &records);
            for (position, (decoded, expected)) in decoded.iter().zip(&expected).enumerate() {
                prop_assert_eq!(decoded, expected, "at {}", position);
            }
            prop_assert_eq!(decoded.len(), expected.len());
            let (partials, _) = sweep_view(first_index, &records);
            let bits = |block: Partials| (block.operands, block.partials.map(f64::to_bits));
            for (position, (block, record)) in partials.iter().zip(&expected).enumerate() {
                prop_assert_eq!(bits(*block), bits(record.partials()), "at {}", position);
            }
            prop_assert_eq!(partials.len(), expected.len());
        }
    }

    #[test]
    fn damage_is_found() {
        let records: Vec<Record> =
            (1..50_u64).map(|index| Record::binary64(Operation::Mul, [index - 1, index / 2], [1.5, 2.5])).collect();
        let mut memory = Encoder::new().encode(1, &records).1.to_vec();
        memory.resize(memory.len() + SLACK, 0);
        let mut decoder = Decoder::new();
        assert!(decoder.decode(&memory, &mut Vec::new(), Form::record).is_ok());
        // The first index is the directory's to check.
        for byte in (0..memory.len() - SLACK).filter(|byte| !(8..16).contains(byte)) {
            let mut damaged = memory.clone();
            damaged[byte] ^= 1;
            assert!(decoder.decode(&damaged, &mut Vec::new(), Form::record).is_err(), "byte {byte}");
        }
        assert!(decoder.decode(&memory[..60], &mut Vec::new(), Form::record).is_err());
    }
}
