//! From records to blocks: the encoder of the native format.
//!
//! A block stores, for each record, the number of its *form*, and then only what the form leaves open. Programs spend their time in
//! loops, so a form can say that an operand's index is that of the record one *period* earlier plus a *stride*, and that an operand
//! value is one that is in the block already: a loop invariant, or a value used by several operations. In a loop on a regular grid
//! nothing is left open but the values that really are new; and as the sequence of forms then repeats with the same period, it costs
//! next to nothing, too.
//!
//! Only such operand values count in the first place that the partial derivatives with respect to active operands need.
//!
//! The encoder decides what the period is at each place, and writes that down; the decoder knows nothing of the search.

use crate::form::{EncodedForm, MAX_FORMS, PREDICTED, Source, both, value_masks};
use crate::format::{BLOCK_HEADER_BYTES, BlockHeader, PERIOD_BYTES, checksum, get_u64, put_u32};
use crate::guard;
use crate::operation::{BINARY32, Operation};
use crate::period::PeriodFinder;
use crate::record::{CODE_MASK, Chunk, INDEX_BITS, INDEX_MASK, Record};
use crate::repeat::{Repeat, RowPlan, kept};
use crate::sequence;

/// What an operation code demands of the encoder.
#[derive(Clone, Copy)]
pub(crate) struct Demand {
    /// Removes the operands that the operation does not have.
    pub(crate) masks: [u64; 2],
    /// Bits of the operand words that must agree with those one period earlier, for a record to be a repetition.
    compared: [u64; 2],
    /// The bits of the two values that are kept, by which operands are active (bit 0 the first, bit 1 the second).
    values: [[u64; 2]; 4],
}

/// How records are to be read: as a recorder writes them.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    demands: &'static [Demand; 256],
    /// Whether operand words have guards (see [`guard`]).
    guarded: bool,
}

impl Reading {
    pub(crate) fn new(guarded: bool) -> Reading {
        Reading { demands: if guarded { &GUARDED_DEMANDS } else { &DEMANDS }, guarded }
    }

    fn demand(self, record: &Record) -> &'static Demand {
        &self.demands[usize::from(record.code())]
    }

    /// The operands' indices: 0 for what the operation does not have, and for words that are broken.
    #[inline]
    pub(crate) fn operands(self, record: &Record) -> [u64; 2] {
        let masks = self.demand(record).masks;
        let words = [record.operand1, record.operand2];
        let broken = if self.guarded { guard::broken(record) } else { [false; 2] };
        both(|k| if broken[k] { 0 } else { words[k] & masks[k] })
    }

    /// How many of a record's words are pieces of indices: those of which [`Reading::operands`] has made zero.
    #[inline]
    fn broken(self, record: &Record, operands: [u64; 2]) -> u64 {
        let (masks, words) = (self.demand(record).masks, guard::operand_words(record));
        (0..2).filter(|&k| masks[k] != 0 && words[k] != 0 && operands[k] == 0).count() as u64
    }
}

/// [`Demand`]s of all codes. A code that names no operation keeps its operands, so that the reader can report it.
static DEMANDS: [Demand; 256] = demands(INDEX_MASK, INDEX_MASK, INDEX_MASK);
/// The same with guards. Words are compared with their tags: an index that has lost its tag is not the one that was expected.
static GUARDED_DEMANDS: [Demand; 256] = demands(guard::WIDE_LIMIT - 1, guard::NARROW_LIMIT - 1, u64::MAX);

/// `wide` and `narrow` are the bits of an operand's word that hold the index, if it is binary64 and if it is binary32; `word` are those that matter.
const fn demands(wide: u64, narrow: u64, word: u64) -> [Demand; 256] {
    const CODE: u64 = CODE_MASK << INDEX_BITS;
    let mut demands = [Demand { masks: [wide; 2], compared: [word | CODE, word], values: [[0; 2]; 4] }; 256];
    let mut code = 0;
    while code < 256 {
        if let Some(operation) = Operation::from_code(code as u8) {
            let operands = operation.operands();
            let index = if code as u8 & BINARY32 != 0 { narrow } else { wide };
            demands[code].masks = [if operands > 0 { index } else { 0 }, if operands > 1 { index } else { 0 }];
            demands[code].compared = [if operands > 0 { word } else { 0 } | CODE, if operands > 1 { word } else { 0 }];
            let mut active = 0;
            while active < 4 {
                demands[code].values[active] = value_masks(operation, code as u8 & BINARY32 != 0, active);
                active += 1;
            }
        }
        code += 1;
    }
    demands
}

/// What the encoder has to know of a form that it has used.
#[derive(Clone, Copy, Default)]
pub(crate) struct UsedForm {
    /// Whether nothing is left open but values, so that the next period's record may have the same form.
    pub(crate) steady: bool,
    /// As in [`Demand`].
    pub(crate) compared: [u64; 2],
    /// Which operands are active.
    pub(crate) active: [bool; 2],
    /// How far the operands move on.
    pub(crate) strides: [u64; 2],
    /// Bits of the values that are kept.
    pub(crate) values: [u64; 2],
    /// Bits of the values that must agree with their source.
    pub(crate) sourced: [u64; 2],
    pub(crate) sources: [Source; 2],
    /// Bytes of the values that are stored.
    pub(crate) stored: [u8; 2],
}

/// Encodes chunks. It allocates on creation only.
pub(crate) struct Encoder {
    reading: Reading,
    /// Operands that turned out to be no indices.
    broken: u64,
    periods: PeriodFinder,
    forms: FormTable,
    /// Number of each record's form.
    form_of: Box<[u8]>,
    rows: RowPlan,
    operands: Area,
    values: Area,
    block: Vec<u8>,
}

/// How many bytes an encoded block can have: with every record in a form that leaves everything open.
const MAX_BLOCK_BYTES: usize = BLOCK_HEADER_BYTES
    + EncodedForm::BYTES * MAX_FORMS
    + PERIOD_BYTES * PeriodFinder::MAX_CHANGES
    + Chunk::RECORDS * (1 + 2 * 7 + 2 * 8)
    + 64;

impl Encoder {
    /// An encoder for blocks of up to [`Chunk::RECORDS`] records, whose operand words have guards or not.
    pub(crate) fn new(guarded: bool) -> Encoder {
        Encoder {
            reading: Reading::new(guarded),
            broken: 0,
            periods: PeriodFinder::new(),
            forms: FormTable::new(),
            form_of: vec![0; Chunk::RECORDS].into_boxed_slice(),
            rows: RowPlan::default(),
            operands: Area::new(14 * Chunk::RECORDS),
            values: Area::new(16 * Chunk::RECORDS),
            block: Vec::with_capacity(MAX_BLOCK_BYTES),
        }
    }

    /// Encodes as many of the records as one block can hold (all of them unless they have more than [`MAX_FORMS`] forms), beginning
    /// with the one of `first_index`. Returns their number and the block.
    pub(crate) fn encode(&mut self, first_index: u64, records: &[Record]) -> (usize, &[u8]) {
        let records = &records[..records.len().min(Chunk::RECORDS)];
        self.periods.clear();
        self.forms.clear();
        self.operands.end = 0;
        self.values.end = 0;
        let mut count = 0;
        while count < records.len() {
            count = self.repeat(records, count);
            if count == records.len() || !self.describe(first_index, records, count) {
                break;
            }
            count += 1;
        }
        (count, self.assemble(first_index, count))
    }

    /// How many operands have turned out to be no indices since the last call. They are encoded as passive.
    pub(crate) fn take_broken(&mut self) -> u64 {
        std::mem::take(&mut self.broken)
    }

    /// Encodes records that have the same form as the one a period earlier, from `position`. Returns the first that has not.
    #[inline]
    fn repeat(&mut self, records: &[Record], position: usize) -> usize {
        let period = self.periods.current();
        if period == 0 || self.periods.is_searching() {
            return position;
        }
        let Encoder { forms, form_of, values, rows, .. } = self;
        Repeat { records, period, forms, form_of, values, rows }.run(position)
    }

    /// Encodes the record at `position`, whatever it is. Returns `false` if its form is one too many for the block.
    fn describe(&mut self, first_index: u64, records: &[Record], position: usize) -> bool {
        let record = &records[position];
        let index = first_index + position as u64;
        let code = record.code();
        let demand = self.reading.demand(record);
        let operands = self.reading.operands(record);
        self.broken += self.reading.broken(record, operands);
        let active = operands.map(|operand| operand != 0);
        let distances = operands.map(|operand| if operand == 0 { 0 } else { index.wrapping_sub(operand) & INDEX_MASK });
        let period = self.periods.search(self.reading, records, position, code, distances);

        let strides = both(|k| if active[k] { self.stride(records, position, period, k) } else { None });
        let repeats = period > 0
            && records[position - period].code() == code
            && (0..2).all(|k| strides[k].is_some() || !active[k]);
        let class = both(|k| match (active[k], strides[k]) {
            (false, _) => 0,
            (true, Some(_)) => PREDICTED,
            (true, None) => significant_bytes(distances[k]),
        });
        let needed = demand.values[usize::from(active[0]) | usize::from(active[1]) << 1];
        let values = [record.value1 & needed[0], record.value2 & needed[1]];
        let sources = if repeats { self.sources(records, position, needed, values) } else { [Source::NONE; 2] };
        let form = EncodedForm { code, class, sources, strides: strides.map(Option::unwrap_or_default) };
        let Some(number) = self.forms.number(form, demand, needed, repeats) else {
            return false;
        };
        if !repeats {
            self.periods.missed(position);
        }
        self.form_of[position] = number;
        let stored = self.forms.used[usize::from(number)].stored;
        for k in 0..2 {
            self.operands.append(distances[k], if strides[k].is_some() { 0 } else { class[k] });
            self.values.append(values[k], stored[k]);
        }
        true
    }

    /// How far an operand has moved on in a period, if that is predictable.
    #[inline]
    fn stride(&self, records: &[Record], position: usize, period: usize, operand: usize) -> Option<i32> {
        /// Unusual strides are not worth a form when there are so many already.
        const FORMS_FOR_STRIDES: usize = MAX_FORMS - 64;
        let stride = predictable_stride(self.reading, records, position, period, operand)?;
        let usual = stride == period as i64 || stride == 0;
        (usual || self.forms.encoded.len() < FORMS_FOR_STRIDES).then(|| i32::try_from(stride).ok())?
    }

    /// Where in the block the needed values of a record are that repeats the one a period earlier.
    ///
    /// When that one was in its turn a repetition, what it had from a source is looked up there again and nothing is searched:
    /// coincidences die out, and the search is made once for each operation of a loop.
    fn sources(&self, records: &[Record], position: usize, needed: [u64; 2], values: [u64; 2]) -> [Source; 2] {
        /// Records before this one that are searched for the same value, if the period is not shorter.
        const SEARCHED: usize = 48;
        let period = self.periods.current();
        let before = &self.forms.used[usize::from(self.form_of[position - period])];
        let holds = |source: Source, value: u64| kept(records, &self.forms, &self.form_of, position, source) == value;
        both(|k| {
            if needed[k] == 0 {
                return Source::NONE;
            }
            if before.steady {
                let kept = before.sources[k];
                return if kept != Source::NONE && holds(kept, values[k]) { kept } else { Source::NONE };
            }
            let invariant = Source::new(period, k);
            if holds(invariant, values[k]) {
                return invariant;
            }
            // A zero is likely to be found by chance.
            if values[k] == 0 {
                return Source::NONE;
            }
            for back in 1..=SEARCHED.min(position).min(period) {
                let record = &records[position - back];
                for (slot, word) in [record.value1, record.value2].into_iter().enumerate() {
                    if word & needed[k] == values[k] && holds(Source::new(back, slot), values[k]) {
                        return Source::new(back, slot);
                    }
                }
            }
            Source::NONE
        })
    }

    /// Puts the block's parts together.
    fn assemble(&mut self, first_index: u64, count: usize) -> &[u8] {
        self.block.clear();
        self.block.resize(BLOCK_HEADER_BYTES, 0);
        for form in &self.forms.encoded {
            self.block.extend_from_slice(&form.to_bytes());
        }
        let periods = self.periods.changes(count);
        for (position, period) in periods {
            let mut bytes = [0; PERIOD_BYTES];
            put_u32(&mut bytes, 0, *position);
            put_u32(&mut bytes, 4, *period);
            self.block.extend_from_slice(&bytes);
        }
        let sequence_at = self.block.len();
        sequence::encode(&self.form_of[..count], periods, &mut self.block);
        let sequence_bytes = self.block.len() - sequence_at;
        self.block.extend_from_slice(self.operands.bytes());
        self.block.extend_from_slice(self.values.bytes());
        self.block.resize(self.block.len().next_multiple_of(8), 0);
        let header = BlockHeader {
            first_index,
            records: count as u32,
            forms: self.forms.encoded.len() as u32,
            periods: periods.len() as u32,
            sequence_bytes: sequence_bytes as u32,
            operand_bytes: self.operands.end as u32,
            value_bytes: self.values.end as u32,
            checksum: checksum(&self.block[BLOCK_HEADER_BYTES..]),
        };
        self.block[..BLOCK_HEADER_BYTES].copy_from_slice(&header.to_bytes());
        &self.block
    }
}

/// How far an operand has moved on in a period: as far as the record itself, not at all, or as far as in the period before; `None` if
/// neither is the case, or if the record one period earlier is another operation or has a passive operand.
#[inline]
pub(crate) fn predictable_stride(
    reading: Reading,
    records: &[Record],
    position: usize,
    period: usize,
    operand: usize,
) -> Option<i64> {
    if period == 0 {
        return None;
    }
    let code = records[position].code();
    let index = |position: usize| {
        let record = &records[position];
        let index = reading.operands(record)[operand];
        (record.code() == code && index != 0).then_some(index as i64)
    };
    let before = index(position - period)?;
    let stride = index(position)? - before;
    let as_usual = stride == period as i64 || stride == 0;
    let as_before =
        || position >= 2 * period && index(position - 2 * period).is_some_and(|first| before - first == stride);
    (as_usual || as_before()).then_some(stride)
}

/// How many bytes a distance takes: at least 1.
#[inline]
fn significant_bytes(distance: u64) -> u8 {
    (71 - (distance | 1).leading_zeros()) as u8 / 8
}

/// Bytes that are appended one word's beginning after the other.
pub(crate) struct Area {
    memory: Box<[u8]>,
    end: usize,
}

impl Area {
    /// Whole words are stored, whose surplus is overwritten by the next one: hence the slack.
    fn new(capacity: usize) -> Area {
        Area { memory: vec![0; capacity + 8].into_boxed_slice(), end: 0 }
    }

    /// Appends the lowest `bytes` bytes of a word.
    #[inline(always)]
    pub(crate) fn append(&mut self, word: u64, bytes: u8) {
        self.memory[self.end..self.end + 8].copy_from_slice(&word.to_le_bytes());
        self.end += usize::from(bytes);
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[..self.end]
    }
}

/// The forms of a block, by number and by content.
pub(crate) struct FormTable {
    encoded: Vec<EncodedForm>,
    pub(crate) used: Box<[UsedForm; MAX_FORMS]>,
    /// Open addressing: a form's number plus one, or 0 for none.
    slots: Box<[u16; FormTable::SLOTS]>,
}

impl FormTable {
    const SLOTS: usize = 4 * MAX_FORMS;

    fn new() -> FormTable {
        FormTable {
            encoded: Vec::with_capacity(MAX_FORMS),
            used: Box::new([UsedForm::default(); MAX_FORMS]),
            slots: Box::new([0; Self::SLOTS]),
        }
    }

    fn clear(&mut self) {
        self.encoded.clear();
        self.slots.fill(0);
    }

    /// The number of a form, which is added if it is new; `None` if it does not fit in.
    #[inline]
    fn number(&mut self, form: EncodedForm, demand: &Demand, needed: [u64; 2], steady: bool) -> Option<u8> {
        let [low, high] = both(|k| get_u64(&form.to_bytes(), 8 * k));
        let hash = (low ^ high.rotate_left(23)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut slot = (hash >> 48) as usize % Self::SLOTS;
        while self.slots[slot] != 0 {
            let number = usize::from(self.slots[slot] - 1);
            if self.encoded[number] == form {
                return Some(number as u8);
            }
            slot = (slot + 1) % Self::SLOTS;
        }
        let number = self.encoded.len();
        if number == MAX_FORMS {
            return None;
        }
        self.slots[slot] = number as u16 + 1;
        self.encoded.push(form);
        let sourced = both(|k| if form.sources[k] == Source::NONE { 0 } else { needed[k] });
        self.used[number] = UsedForm {
            steady,
            compared: demand.compared,
            active: form.class.map(|class| class != 0),
            strides: form.strides.map(|stride| i64::from(stride) as u64),
            values: needed,
            sourced,
            sources: form.sources,
            stored: both(|k| if sourced[k] != 0 { 0 } else { needed[k].count_ones() as u8 / 8 }),
        };
        Some(number as u8)
    }
}
