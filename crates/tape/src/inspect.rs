//! Looking at a tape: statistics, a readable dump, validation, dependence of outputs on inputs.

use std::io::{self, Write};

use crate::decode::Partials;
use crate::error::{Result, TapeError};
use crate::operation::{BINARY32, Operation};
use crate::reader::{Format, Tape};
use crate::record::Record;
use crate::stream::Direction;

/// Counts of a tape's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Blocks of the exchange format with zero, one and two non-zero indices. There is a block for each index from 0, used or not.
    pub by_operands: [u64; 3],
    /// Indices that were given out but belong to no value, the dummy of index 0 among them.
    pub unused: u64,
    /// Records by operation and whether it is in binary32; only those that occur. In an exchange-format tape, inputs and constants are
    /// counted as inputs, everything else as [`Operation::Partials`].
    pub by_operation: Vec<OperationCount>,
    /// Number of inputs.
    pub inputs: usize,
    /// Number of outputs.
    pub outputs: usize,
    /// Outputs with index 0: they do not depend on any input.
    pub passive_outputs: usize,
    /// Size of the tape's file.
    pub bytes: u64,
    /// The tape's format.
    pub format: Format,
}

/// How often an operation occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationCount {
    /// The operation.
    pub operation: Operation,
    /// Whether its operands are binary32.
    pub binary32: bool,
    /// How often.
    pub count: u64,
}

/// Which inputs and outputs are connected by a chain of operations, whatever the partial derivatives are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependence {
    /// For each input, whether any output depends on it.
    pub inputs: Vec<bool>,
    /// For each output, whether it depends on any input.
    pub outputs: Vec<bool>,
}

/// A set of indices.
struct IndexSet(Vec<u64>);

impl IndexSet {
    fn new(index_limit: u64) -> IndexSet {
        IndexSet(vec![0; index_limit.div_ceil(64) as usize])
    }

    fn insert(&mut self, index: u64) {
        self.0[(index / 64) as usize] |= 1 << (index % 64);
    }

    fn contains(&self, index: u64) -> bool {
        self.0[(index / 64) as usize] >> (index % 64) & 1 != 0
    }
}

impl Tape {
    /// Counts the tape's content.
    ///
    /// # Errors
    /// Damage of the tape. An incomplete tape is no error: what is there is counted.
    pub fn statistics(&self) -> Result<Statistics> {
        let mut by_operands = [0; 3];
        let mut by_code = [0_u64; 256];
        self.stream(Direction::Forward, Tape::default_decoders(), |_, run: &Vec<Record>| {
            for record in run {
                by_operands[record.operands().into_iter().filter(|operand| *operand != 0).count()] += 1;
                by_code[usize::from(record.code())] += 1;
            }
            Ok(true)
        })?;
        let absent = self.index_limit - self.records();
        by_operands[0] += absent;
        let unused = by_code[usize::from(Operation::None.code())] + absent;
        let mut by_operation = Vec::new();
        for operation in Operation::ALL.iter().filter(|operation| **operation != Operation::None) {
            for binary32 in [false, true] {
                let count = by_code[usize::from(operation.code() | if binary32 { BINARY32 } else { 0 })];
                if count > 0 {
                    by_operation.push(OperationCount { operation: *operation, binary32, count });
                }
            }
        }
        Ok(Statistics {
            by_operands,
            unused,
            by_operation,
            inputs: self.inputs.len(),
            outputs: self.outputs.len(),
            passive_outputs: self.outputs.iter().filter(|index| **index == 0).count(),
            bytes: self.bytes(),
            format: self.format(),
        })
    }

    /// Writes a readable dump, a line for each used index: its operation, the operands' indices and the partial derivatives.
    ///
    /// # Errors
    /// Damage of the tape, or [`TapeError::Io`] if `out` fails. An incomplete tape is no error: what is there is printed.
    pub fn print(&self, out: &mut dyn Write) -> Result<()> {
        let mut failure = Ok(());
        let mut next_index = 0;
        self.stream(Direction::Forward, Tape::default_decoders(), |block, run: &Vec<Record>| {
            failure = print_run(out, &mut next_index, block.first_index, run);
            Ok(failure.is_ok())
        })?;
        failure.map_err(|source| TapeError::io("print", &self.files[0].path, source))
    }

    /// Checks the whole tape: every block can be decoded, and every operand, input and output is an index that has a record before the
    /// operation that uses it.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<()> {
        self.require_complete()?;
        if self.valid.get().is_some() {
            return Ok(());
        }
        let mut present = IndexSet::new(self.index_limit);
        let path = &self.files[0].path;
        let what = "has no record: the thread that made it was not recorded to its end";
        self.stream(Direction::Forward, Tape::default_decoders(), |block, run: &Vec<Record>| {
            for (index, record) in (block.first_index..).zip(run) {
                let missing =
                    record.operands().into_iter().find(|operand| *operand != 0 && !present.contains(*operand));
                if let Some(operand) = missing {
                    return Err(TapeError::Order { path: path.clone(), index, operand, what });
                }
                if record.code() != Operation::None.code() {
                    present.insert(index);
                }
            }
            Ok(true)
        })?;
        for (list, name) in [(&self.inputs, "dg-input-indices"), (&self.outputs, "dg-output-indices")] {
            if let Some(position) = list.iter().position(|index| *index != 0 && !present.contains(*index)) {
                let what = format!("index {} has no record on the tape", list[position]);
                return Err(TapeError::Line { path: self.file(name), line: position + 1, what });
            }
        }
        self.valid.get_or_init(|| ());
        Ok(())
    }

    /// The error for a sweep that has met an operand which is not on the tape.
    pub(crate) fn missing_index(&self) -> TapeError {
        self.validate().err().unwrap_or_else(|| TapeError::Damaged {
            path: self.files[0].path.clone(),
            offset: 0,
            what: "the tape has changed while it was being read".to_owned(),
        })
    }

    /// Finds out which inputs have an influence on any output, and which outputs depend on any input. This takes two passes over the
    /// tape and one bit of memory for each index.
    ///
    /// # Errors
    /// Damage of the tape, or that it is incomplete.
    pub fn dependence(&self) -> Result<Dependence> {
        self.require_complete()?;
        let mark = |marked: &mut IndexSet, indices: &[u64]| indices.iter().for_each(|index| marked.insert(*index));
        let marks = |marked: &IndexSet, indices: &[u64]| {
            indices.iter().map(|index| *index != 0 && marked.contains(*index)).collect::<Vec<bool>>()
        };
        let decoders = Tape::default_decoders();

        let mut active = IndexSet::new(self.index_limit);
        mark(&mut active, &self.inputs);
        self.stream(Direction::Forward, decoders, |block, run: &Vec<Partials>| {
            for (index, record) in (block.first_index..).zip(run) {
                if record.operands.into_iter().any(|operand| operand != 0 && active.contains(operand)) {
                    active.insert(index);
                }
            }
            Ok(true)
        })?;
        let outputs = marks(&active, &self.outputs);
        drop(active);

        let mut useful = IndexSet::new(self.index_limit);
        mark(&mut useful, &self.outputs);
        self.stream(Direction::Backward, decoders, |block, run: &Vec<Partials>| {
            for (position, record) in run.iter().enumerate().rev() {
                if useful.contains(block.first_index + position as u64) {
                    record.operands.into_iter().for_each(|operand| useful.insert(operand));
                }
            }
            Ok(true)
        })?;
        Ok(Dependence { inputs: marks(&useful, &self.inputs), outputs })
    }
}

/// Prints the records of a run.
fn print_run(out: &mut dyn Write, next_index: &mut u64, first_index: u64, run: &[Record]) -> io::Result<()> {
    if *next_index < first_index {
        writeln!(out, "{next_index:>12}  ... {} not used", first_index - 1)?;
    }
    *next_index = first_index + run.len() as u64;
    for (index, record) in (first_index..).zip(run) {
        // The decoder has let only known operations pass.
        let Some(operation) = Operation::from_code(record.code()) else { continue };
        if operation == Operation::None {
            continue;
        }
        let binary32 = record.code() & BINARY32 != 0;
        let name = if binary32 { format!("{}/32", operation.name()) } else { operation.name().to_owned() };
        write!(out, "{index:>12}  {name:<16}")?;
        let partials = record.partials();
        for (operand, partial) in record.operands().into_iter().zip(partials.partials) {
            if operand != 0 {
                write!(out, "  d/d[{operand}] = {partial:?}")?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}
