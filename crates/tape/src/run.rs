//! Blocks as sweeps need them: loops stay loops.
//!
//! Where the forms of a block repeat with the period, and nothing but values is left open, each record of an iteration differs from
//! that of the iteration before by its values, and its operands move on by a constant. Such a part is not decoded record by record: its *columns* (one for each
//! record of an iteration) say once what the operation is, where the operands are, and where in the block its values lie in
//! the first iteration and how far apart they are in the following. A sweep goes through rows and columns and takes values
//! directly from the block.

use std::ops::Range;

use crate::decode::{Cursor, Decoder, Flaw, Form, Partials, SLACK, damaged};
use crate::form::{Source, both};
use crate::format::{BlockHeader, get_u64};
use crate::operation::Operation;
use crate::record::INDEX_MASK;
use crate::sequence::Repetition;

/// A decoded block.
#[derive(Default)]
pub(crate) struct Run {
    /// Index of the first record.
    pub(crate) first_index: u64,
    /// The parts of the block, in the order of indices.
    pub(crate) parts: Vec<Part>,
    /// Records of the parts that are no loops.
    pub(crate) records: Vec<Partials>,
    /// Columns of the parts that are loops.
    pub(crate) columns: Vec<Column>,
    /// The encoded block, behind it constants.
    pub(crate) memory: Vec<u8>,
}

/// A part of a block.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Position of the first record in the block.
    pub(crate) position: usize,
    pub(crate) content: Content,
}

/// What a part consists of.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Single records, a range of [`Run::records`].
    Records(Range<usize>),
    /// A loop: a number of rows of some columns, a range of [`Run::columns`].
    Loop { rows: usize, columns: Range<usize> },
}

/// The same record in each iteration of a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// Indices of the operands in the first row; 0 for a passive operand.
    operands: [u64; 2],
    /// How far they move on from row to row.
    strides: [u64; 2],
    /// Where the factors of the partial derivatives are.
    places: [Place; 2],
    rule: Rule,
}

/// What the words at a column's places are.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// The partial derivatives.
    Partials,
    /// The operand values, in binary64.
    Binary64(Operation),
    /// The operand values, in binary32.
    Binary32(Operation),
}

/// Where a word is: in the first row, and how much further in each following one.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    offset: u32,
    stride: u32,
}

impl Place {
    /// The place of a constant, which is put behind `memory`.
    fn constant(memory: &mut Vec<u8>, word: u64) -> Place {
        memory.extend_from_slice(&word.to_le_bytes());
        Place { offset: (memory.len() - 8) as u32, stride: 0 }
    }

    #[inline(always)]
    fn load(self, memory: &[u8], row: usize) -> u64 {
        get_u64(memory, self.offset as usize + row * self.stride as usize)
    }
}

impl Column {
    /// The operands' indices in a row; 0 for a passive operand.
    #[inline(always)]
    pub(crate) fn operands(&self, row: usize) -> [u64; 2] {
        both(|k| self.operands[k].wrapping_add(self.strides[k].wrapping_mul(row as u64)))
    }

    /// The partial derivatives in a row; that of a passive operand is meaningless.
    #[inline(always)]
    pub(crate) fn partials(&self, memory: &[u8], row: usize) -> [f64; 2] {
        let words = both(|k| self.places[k].load(memory, row));
        match self.rule {
            Rule::Partials => words.map(f64::from_bits),
            Rule::Binary64(operation) => operation.partials(f64::from_bits(words[0]), f64::from_bits(words[1])),
            Rule::Binary32(operation) => {
                let [a, b] = words.map(|word| f64::from(f32::from_bits(word as u32)));
                operation.partials(a, b)
            }
        }
    }
}

/// What the decoder remembers of loops: records behind them may refer to records in them.
#[derive(Default)]
pub(crate) struct LoopHistory {
    loops: Vec<PastLoop>,
    columns: Vec<PastColumn>,
    /// Everything from this position on is in [`Decoder::operands`] and [`Decoder::values`].
    known_from: usize,
}

struct PastLoop {
    position: usize,
    rows: usize,
    columns: Range<usize>,
}

struct PastColumn {
    operands: [u64; 2],
    strides: [u64; 2],
    places: [Place; 2],
    masks: [u64; 2],
}

impl LoopHistory {
    pub(crate) fn clear(&mut self) {
        self.loops.clear();
        self.columns.clear();
        self.known_from = 0;
    }
}

/// Where a value of a column comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// It is not kept.
    Nothing,
    /// It is stored with a column, so many rows earlier.
    Stored { column: usize, slot: usize, rows: usize },
    /// It is the same in each row: a value of a column, so many rows earlier or at any time.
    Invariant { column: usize, slot: usize, rows: usize },
}

impl Origin {
    /// How many rows earlier the value is found.
    fn rows(&self) -> usize {
        match self {
            Origin::Nothing => 0,
            Origin::Stored { rows, .. } | Origin::Invariant { rows, .. } => *rows,
        }
    }
}

/// The layout of a loop's rows in the block.
struct Layout {
    /// Number of rows.
    rows: usize,
    /// Bytes of values in a row.
    stride: usize,
    /// Where the two values of each column lie in a row, if they are stored.
    offsets: Vec<[usize; 2]>,
}

/// Follows the sources of a column's value. `known` are the origins of the columns before it. `None` if they lead nowhere in as many
/// `steps` as remain.
fn follow<'a>(
    form: impl Fn(usize) -> &'a Form,
    period: usize,
    known: &[[Origin; 2]],
    column: usize,
    slot: usize,
    steps: &mut usize,
) -> Option<Origin> {
    let mask = |column: usize, slot: usize| form(column).value_masks[slot] | form(column).source_masks[slot];
    let wanted = mask(column, slot);
    if wanted == 0 {
        return Some(Origin::Nothing);
    }
    let (mut column, mut slot, mut rows) = (column, slot, 0);
    // Where the walk was before, moved up at powers of two: it meets a walk in a circle (Brent's algorithm).
    let (mut earlier, mut walked) = ((column, slot, rows), 0_usize);
    loop {
        *steps = steps.checked_sub(1)?;
        if mask(column, slot) != wanted || rows > MOST_ROWS_BACK {
            return None;
        }
        match known.get(column).map(|origins| origins[slot]) {
            Some(Origin::Stored { column, slot, rows: further }) => {
                return Some(Origin::Stored { column, slot, rows: rows + further });
            }
            Some(Origin::Invariant { column, slot, rows: further }) => {
                return Some(Origin::Invariant { column, slot, rows: rows + further });
            }
            Some(Origin::Nothing) => return None,
            None => {}
        }
        let source = form(column).sources[slot];
        if source == Source::NONE {
            return Some(Origin::Stored { column, slot, rows });
        }
        if walked > 0 && (column, slot) == (earlier.0, earlier.1) {
            // A value that comes from itself one row earlier does not change.
            return (rows - earlier.2 == 1).then_some(Origin::Invariant { column, slot, rows });
        }
        if walked.is_power_of_two() {
            earlier = (column, slot, rows);
        }
        walked += 1;
        let up = source.back().saturating_sub(column).div_ceil(period);
        (column, slot, rows) = (column + up * period - source.back(), source.slot(), rows + up);
    }
}

/// Shorter repetitions are decoded record by record.
const SHORTEST_LOOP: usize = 48;
/// Loops with fewer rows likewise.
const FEWEST_ROWS: usize = 4;
/// Values from more rows back are not followed.
const MOST_ROWS_BACK: usize = 3;

impl Decoder {
    /// Decodes a block for a sweep. `memory` is as for [`Decoder::decode`]; constants are put behind it.
    pub(crate) fn decode_run(&mut self, memory: &mut Vec<u8>, run: &mut Run) -> Result<BlockHeader, Flaw> {
        run.parts.clear();
        run.records.clear();
        run.columns.clear();
        let mut cursor = self.begin(memory)?;
        run.first_index = cursor.header.first_index;
        memory.truncate(cursor.header.bytes() as usize + SLACK);
        for number in 0..self.repetitions.len() {
            let repetition = self.repetitions[number];
            if repetition.length >= SHORTEST_LOOP.max(FEWEST_ROWS * repetition.back)
                && repetition.start >= cursor.position
            {
                self.advance_run(memory, &mut cursor, repetition.start, run)?;
                self.decode_loop(memory, &mut cursor, repetition, run)?;
            }
        }
        let records = cursor.header.records as usize;
        self.advance_run(memory, &mut cursor, records, run)?;
        cursor.finish()
    }

    /// Decodes records up to `limit`, one by one.
    fn advance_run(&mut self, memory: &[u8], cursor: &mut Cursor, limit: usize, run: &mut Run) -> Result<(), Flaw> {
        let (position, start) = (cursor.position, run.records.len());
        let records = &mut run.records;
        self.advance(memory, cursor, limit, |form, operands, values| records.push(form.partials(operands, values)))?;
        if run.records.len() > start {
            run.parts.push(Part { position, content: Content::Records(start..run.records.len()) });
        }
        Ok(())
    }

    /// Decodes a loop at the cursor, if the repetition is one.
    fn decode_loop(
        &mut self,
        memory: &mut Vec<u8>,
        cursor: &mut Cursor,
        repetition: Repetition,
        run: &mut Run,
    ) -> Result<(), Flaw> {
        let end = cursor.settle(memory)?.min(repetition.start + repetition.length);
        let (start, period) = (cursor.position, cursor.period);
        if period != repetition.back || end < start {
            return Ok(());
        }
        let Some(origins) = self.origins(start, period) else { return Ok(()) };
        // The first rows are decoded one by one: values come from them.
        let leading = origins.iter().flatten().map(Origin::rows).max().unwrap_or(0).max(1);
        let rows = ((end - start) / period).saturating_sub(leading);
        if rows < 2 || leading > 2 * MOST_ROWS_BACK {
            return Ok(());
        }
        self.advance_run(memory, cursor, start + leading * period, run)?;

        let layout = self.layout(cursor, rows);
        if cursor.value + rows * layout.stride > cursor.values_end {
            return Err(damaged(cursor.value, "values run over the end"));
        }
        let (first_column, first_past) = (run.columns.len(), self.loops.columns.len());
        for (number, origins) in origins.iter().enumerate() {
            let column = self.column(memory, cursor, &layout, number, origins)?;
            run.columns.push(column);
        }
        let columns = first_column..run.columns.len();
        run.parts.push(Part { position: cursor.position, content: Content::Loop { rows, columns } });
        let columns = first_past..self.loops.columns.len();
        self.loops.loops.push(PastLoop { position: cursor.position, rows, columns });

        // What follows refers to the last records as a rule.
        let recalled = period.max(self.reach).div_ceil(period).min(rows);
        self.recall(memory, self.loops.loops.len() - 1, rows - recalled);
        if recalled < rows {
            self.loops.known_from = cursor.position + (rows - recalled) * period;
        }
        cursor.position += rows * period;
        cursor.value += rows * layout.stride;
        Ok(())
    }

    /// The layout of a loop's rows, the first of which is at the cursor.
    fn layout(&self, cursor: &Cursor, rows: usize) -> Layout {
        let mut stride = 0;
        let numbers = &self.sequence[cursor.position..cursor.position + cursor.period];
        let offset = |number: &u8| {
            let [first, second] = self.forms[usize::from(*number)].value_bytes.map(usize::from);
            let offset = stride;
            stride += first + second;
            [offset, offset + first]
        };
        let offsets = numbers.iter().map(offset).collect();
        Layout { rows, stride, offsets }
    }

    /// A column of a loop whose first row is at the cursor. It is put into the history, too, and constants behind `memory`.
    fn column(
        &mut self,
        memory: &mut Vec<u8>,
        cursor: &Cursor,
        layout: &Layout,
        number: usize,
        origins: &[Origin; 2],
    ) -> Result<Column, Flaw> {
        let form = &self.forms[usize::from(self.sequence[cursor.position + number])];
        let row_before = cursor.position - cursor.period;
        let before = self.operands[row_before + number];
        let strides = both(|k| if form.active[k] { form.strides[k] } else { 0 });
        let operands = both(|k| if form.active[k] { before[k].wrapping_add(strides[k]) } else { 0 });
        // Operand and index are linear in the row: what holds in the first and in the last one holds between them.
        for row in [0, layout.rows - 1] {
            let index = cursor.header.first_index + (cursor.position + row * cursor.period + number) as u64;
            let of_row = both(|k| operands[k].wrapping_add(strides[k].wrapping_mul(row as u64)));
            for (active, operand) in form.active.into_iter().zip(of_row) {
                if active && (operand == 0 || operand >= index) {
                    return Err(Flaw::Order { index, operand: operand & INDEX_MASK });
                }
            }
        }
        let places = both(|k| match origins[k] {
            Origin::Nothing => Place::constant(memory, 0),
            Origin::Invariant { column, slot, .. } => Place::constant(memory, self.values[row_before + column][slot]),
            Origin::Stored { column, slot, rows } => Place {
                offset: (cursor.value + layout.offsets[column][slot] - rows * layout.stride) as u32,
                stride: layout.stride as u32,
            },
        });
        let invariant = !origins.iter().any(|origin| matches!(origin, Origin::Stored { .. }));
        let (rule, factors) = match (form.operation, form.binary32) {
            _ if invariant => {
                let values = both(|k| places[k].load(memory, 0));
                let partials = form.partials([0; 2], values).partials;
                (Rule::Partials, both(|k| Place::constant(memory, partials[k].to_bits())))
            }
            (Operation::Mul, false) => (Rule::Partials, [places[1], places[0]]),
            (Operation::Partials, _) => (Rule::Partials, places),
            (operation, false) => (Rule::Binary64(operation), places),
            (operation, true) => (Rule::Binary32(operation), places),
        };
        let masks = both(|k| form.value_masks[k] | form.source_masks[k]);
        self.loops.columns.push(PastColumn { operands, strides, places, masks });
        Ok(Column { operands, strides, places: factors, rule })
    }

    /// Where the values of a loop's columns come from; `None` if it is no loop after all.
    fn origins(&self, start: usize, period: usize) -> Option<Vec<[Origin; 2]>> {
        let form = |column: usize| &self.forms[usize::from(self.sequence[start + column])];
        if !(0..period).all(|column| form(column).distance_bytes == [0; 2]) {
            return None;
        }
        let mut steps = 1000 + 16 * period;
        let mut origins: Vec<[Origin; 2]> = Vec::with_capacity(period);
        for column in 0..period {
            let mut found = [Origin::Nothing; 2];
            for (slot, found) in found.iter_mut().enumerate() {
                *found = follow(form, period, &origins, column, slot, &mut steps)?;
            }
            origins.push(found);
        }
        Some(origins)
    }

    /// Makes sure that everything from `position` on is in `operands` and `values`.
    #[inline]
    pub(crate) fn remember(&mut self, memory: &[u8], position: usize) {
        if position < self.loops.known_from {
            for number in 0..self.loops.loops.len() {
                self.recall(memory, number, 0);
            }
            self.loops.known_from = 0;
        }
    }

    /// Puts the records of a loop into `operands` and `values`, from a row on.
    fn recall(&mut self, memory: &[u8], number: usize, first_row: usize) {
        let PastLoop { position, rows, columns } = &self.loops.loops[number];
        let columns = &self.loops.columns[columns.clone()];
        for row in first_row..*rows {
            for (number, column) in columns.iter().enumerate() {
                let position = position + row * columns.len() + number;
                let moved = |k: usize| column.strides[k].wrapping_mul(row as u64);
                self.operands[position] = both(|k| column.operands[k].wrapping_add(moved(k)));
                self.values[position] = both(|k| column.places[k].load(memory, row) & column.masks[k]);
            }
        }
    }
}
