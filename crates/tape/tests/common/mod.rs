//! What the tests have in common: a recorder, random tapes.

#![allow(dead_code, reason = "each test uses its own part of this")]

use std::cell::RefCell;
use std::ops::Range;
use std::path::PathBuf;

use derivgrind_tape::{Chunk, Operation, Record, Tape, TapeWriter};
use proptest::prelude::*;

/// Records one operation after the other, as a single-threaded program does.
pub struct Recorder {
    pub writer: TapeWriter,
    directory: PathBuf,
    current: RefCell<Option<(Chunk, usize)>>,
}

impl Recorder {
    pub fn new() -> Recorder {
        let directory = tempfile::tempdir().unwrap().keep();
        let writer = TapeWriter::create(&directory).unwrap();
        Recorder { writer, directory, current: RefCell::new(None) }
    }

    /// Appends a record and returns its index.
    pub fn push(&self, record: Record) -> u64 {
        let mut current = self.current.borrow_mut();
        if current.as_ref().is_some_and(|(_, used)| *used == Chunk::RECORDS) {
            let (chunk, used) = current.take().unwrap();
            self.writer.submit(chunk, used);
        }
        let (chunk, used) = current.get_or_insert_with(|| {
            let chunk = self.writer.take_chunk();
            let start = chunk.start();
            (chunk, start)
        });
        chunk.as_mut_slice()[*used] = record;
        *used += 1;
        chunk.first_index() + *used as u64 - 1
    }

    pub fn input(&self) -> u64 {
        let index = self.push(Record::input());
        self.declare_input(index);
        index
    }

    pub fn output(&self, operand: u64) {
        let index = self.push(Record::binary64(Operation::Output, [operand, 0], [0.0; 2]));
        self.declare_output(index);
    }

    pub fn declare_input(&self, index: u64) {
        self.writer.declare_input(index);
    }

    pub fn declare_output(&self, index: u64) {
        self.writer.declare_output(index);
    }

    /// Hands in what is in the current chunk.
    pub fn flush(&self) {
        if let Some((chunk, used)) = self.current.borrow_mut().take() {
            self.writer.submit(chunk, used);
        }
    }

    /// Completes the tape and opens it.
    pub fn finish(&self) -> Tape {
        self.flush();
        self.writer.finish().unwrap();
        Tape::open(&self.directory).unwrap()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A tape described by numbers, so that it can be shrunk.
#[derive(Clone, Debug)]
pub struct RandomTape {
    operations: Vec<(u8, bool, u32, u32, f64, f64)>,
}

impl RandomTape {
    /// The records from index 1.
    fn records(&self) -> impl Iterator<Item = Record> + '_ {
        (1_u64..).zip(&self.operations).map(|(index, (operation, binary32, first, second, a, b))| {
            let operation = Operation::ALL[1 + *operation as usize % (Operation::ALL.len() - 1)];
            // Near operands are as frequent as far ones, and passive ones occur.
            let operand = |choice: u32| match choice % 5 {
                0 => 0,
                1 | 2 => index - 1 - u64::from(choice / 5) % index.min(4),
                _ => u64::from(choice / 5) % index,
            };
            let operands = [operand(*first), operand(*second)];
            if *binary32 && operation != Operation::Partials {
                Record::binary32(operation, operands, [*a as f32, *b as f32])
            } else {
                Record::binary64(operation, operands, [*a, *b])
            }
        })
    }

    /// Records the tape and returns the records from index 0.
    pub fn record(&self, recorder: &Recorder) -> Vec<Record> {
        let mut records = vec![Record::default()];
        for record in self.records() {
            let index = recorder.push(record);
            assert_eq!(index as usize, records.len());
            records.push(record);
        }
        records
    }

    /// Every seventh index is an input.
    pub fn inputs(&self) -> Vec<u64> {
        (1..=self.operations.len() as u64).step_by(7).collect()
    }

    /// Some of the last indices are outputs.
    pub fn outputs(&self) -> Vec<u64> {
        (1..=self.operations.len() as u64).rev().step_by(3).take(5).collect()
    }
}

/// Tapes of all operations, with values for which derivatives neither vanish nor overflow.
pub fn random_tape(size: Range<usize>) -> impl Strategy<Value = RandomTape> {
    let operation = (any::<u8>(), any::<bool>(), any::<u32>(), any::<u32>(), 0.75..1.5, 0.75..1.5);
    prop::collection::vec(operation, size).prop_map(|operations| RandomTape { operations })
}
