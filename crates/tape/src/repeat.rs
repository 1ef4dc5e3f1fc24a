//! The encoder's fast paths: records that repeat the iteration before.

use crate::encode::{Area, FormTable, UsedForm};
use crate::form::{Source, both};
use crate::record::{INDEX_MASK, Record};

/// What the fast paths work on.
pub(crate) struct Repeat<'a> {
    pub(crate) records: &'a [Record],
    pub(crate) period: usize,
    pub(crate) forms: &'a FormTable,
    /// Number of each record's form.
    pub(crate) form_of: &'a mut [u8],
    pub(crate) values: &'a mut Area,
    pub(crate) rows: &'a mut RowPlan,
}

/// What is to be done for each row of a loop. Kept from call to call for its memory.
#[derive(Default)]
pub(crate) struct RowPlan {
    columns: Vec<Column>,
    /// Column, slot and bytes of each value that is stored.
    stored: Vec<(usize, usize, u8)>,
}

/// What is expected of the same record in each iteration.
struct Column {
    form: UsedForm,
    /// How many records earlier the source of a value is.
    back: [usize; 2],
}

/// The value that a source names for the record at `position`, as the decoder knows it: 0 if it is not kept there.
#[inline(always)]
pub(crate) fn kept(records: &[Record], forms: &FormTable, form_of: &[u8], position: usize, source: Source) -> u64 {
    let place = position - source.back();
    value(&records[place], source.slot()) & kept_mask(forms, form_of, place, source.slot())
}

/// The bits of a record's value that are kept.
#[inline(always)]
fn kept_mask(forms: &FormTable, form_of: &[u8], place: usize, slot: usize) -> u64 {
    forms.used[usize::from(form_of[place])].values[slot]
}

#[inline(always)]
fn value(record: &Record, slot: usize) -> u64 {
    if slot == 0 { record.value1 } else { record.value2 }
}

impl Repeat<'_> {
    /// Encodes records that have the same form as the one a period earlier, from `position`. Returns the first that has not.
    pub(crate) fn run(&mut self, mut position: usize) -> usize {
        // A whole iteration record by record shows whether this is worth more.
        loop {
            let end = self.records.len().min(position + self.period);
            let reached = self.single(position, end);
            if reached < end || end == self.records.len() {
                return reached;
            }
            position = if self.plan_rows(end) { self.whole_rows(end) } else { end };
        }
    }

    /// Record by record.
    fn single(&mut self, position: usize, end: usize) -> usize {
        for position in position..end {
            let (record, before) = (&self.records[position], &self.records[position - self.period]);
            let number = self.form_of[position - self.period];
            let form = &self.forms.used[usize::from(number)];
            let expected =
                [before.operand1.wrapping_add(form.strides[0]), before.operand2.wrapping_add(form.strides[1])];
            let values = [record.value1 & form.values[0], record.value2 & form.values[1]];
            let wrong = both(|slot| match form.sources[slot] {
                Source::NONE => 0,
                source => values[slot] ^ kept(self.records, self.forms, self.form_of, position, source),
            });
            if !form.steady || form.differs(record, expected) | wrong[0] | wrong[1] != 0 {
                return position;
            }
            self.form_of[position] = number;
            self.values.append(values[0], form.stored[0]);
            self.values.append(values[1], form.stored[1]);
        }
        end
    }

    /// Finds out what is to be done in each row, the one before `position` being the model. Returns whether rows can be encoded that
    /// way.
    fn plan_rows(&mut self, position: usize) -> bool {
        let (period, first) = (self.period, position - self.period);
        let form = |place: usize| &self.forms.used[usize::from(self.form_of[place])];
        let RowPlan { columns, stored } = &mut *self.rows;
        columns.clear();
        stored.clear();
        for place in first..position {
            let form = form(place);
            for slot in 0..2 {
                let source = form.sources[slot];
                if form.sourced[slot] != 0 {
                    // The source must be in the same row or in the one before, and kept with the same bits.
                    let column = place - first;
                    if source.back() > column + period {
                        return false;
                    }
                    let model = if source.back() > column { place + period } else { place } - source.back();
                    if kept_mask(self.forms, self.form_of, model, source.slot()) != form.values[slot] {
                        return false;
                    }
                } else if form.stored[slot] != 0 {
                    stored.push((place - first, slot, form.stored[slot]));
                }
            }
            columns.push(Column { form: *form, back: form.sources.map(Source::back) });
        }
        true
    }

    /// Encodes whole rows from `position`. Returns the position of the first that is not as the plan wants it.
    fn whole_rows(&mut self, mut position: usize) -> usize {
        /// Records in a batch of rows: they are gone through for each column and should stay in the first-level cache.
        const BATCH: usize = 512;
        let period = self.period;
        let batch = (BATCH / period).clamp(2, 64);
        loop {
            let possible = ((self.records.len() - position) / period).min(batch);
            let mut rows = possible;
            for (number, column) in self.rows.columns.iter().enumerate() {
                rows = column.matching_rows(self.records, position + number, period, rows);
                if rows == 0 {
                    return position;
                }
            }
            for row in 0..rows {
                let first = position + row * period;
                for (column, slot, bytes) in &self.rows.stored {
                    self.values.append(value(&self.records[first + column], *slot), *bytes);
                }
                self.form_of.copy_within(first - period..first, first);
            }
            position += rows * period;
            if rows < batch {
                return position;
            }
        }
    }
}

impl UsedForm {
    /// Bits in which a record's operands and operation differ from what is expected; not zero either if an active operand has become
    /// index 0.
    #[inline(always)]
    fn differs(&self, record: &Record, expected: [u64; 2]) -> u64 {
        let [first, second] = differences(record, expected, self.compared);
        let vanished = |word: u64, active: bool| u64::from(active && word & INDEX_MASK == 0);
        first | second | vanished(record.operand1, self.active[0]) | vanished(record.operand2, self.active[1])
    }
}

/// The compared bits in which the operand words are not what is expected.
#[inline(always)]
fn differences(record: &Record, expected: [u64; 2], compared: [u64; 2]) -> [u64; 2] {
    [(record.operand1 ^ expected[0]) & compared[0], (record.operand2 ^ expected[1]) & compared[1]]
}

impl Column {
    /// In how many rows, at most `rows`, the record is what is expected, the first row's being at `position`.
    #[inline]
    fn matching_rows(&self, records: &[Record], position: usize, period: usize, rows: usize) -> usize {
        if self.form.sourced == [0; 2] {
            self.matching::<false>(records, position, period, rows)
        } else {
            self.matching::<true>(records, position, period, rows)
        }
    }

    #[inline(always)]
    fn matching<const SOURCED: bool>(&self, records: &[Record], position: usize, period: usize, rows: usize) -> usize {
        /// Rows whose differences are looked at together.
        const GROUP: usize = 4;
        let form = &self.form;
        let before = &records[position - period];
        let rows = rows.min(self.rows_until_zero(before));
        let mut expected = [before.operand1, before.operand2];
        let differences_in = |row: usize, expected: &mut [u64; 2]| {
            let place = position + row * period;
            let record = &records[place];
            *expected = both(|k| expected[k].wrapping_add(form.strides[k]));
            let mut different = differences(record, *expected, form.compared);
            if SOURCED {
                for slot in 0..2 {
                    let source = &records[place - self.back[slot]];
                    let wrong = value(record, slot) ^ value(source, form.sources[slot].slot());
                    different[slot] |= wrong & form.sourced[slot];
                }
            }
            different
        };
        let mut row = 0;
        while row + GROUP <= rows {
            let mut next = expected;
            let mut different = [0; 2];
            for k in 0..GROUP {
                let found = differences_in(row + k, &mut next);
                different = both(|k| different[k] | found[k]);
            }
            if different[0] | different[1] != 0 {
                break;
            }
            expected = next;
            row += GROUP;
        }
        while row < rows && differences_in(row, &mut expected) == [0; 2] {
            row += 1;
        }
        row
    }

    /// In how many rows after the one of `before` no active operand arrives at index 0.
    fn rows_until_zero(&self, before: &Record) -> usize {
        let rows = both(|k| {
            let stride = self.form.strides[k] as i64;
            let index = [before.operand1, before.operand2][k] & INDEX_MASK;
            match self.form.active[k] && stride < 0 {
                true => index.saturating_sub(1) / stride.unsigned_abs(),
                false => u64::MAX,
            }
        });
        usize::try_from(rows[0].min(rows[1])).unwrap_or(usize::MAX)
    }
}
