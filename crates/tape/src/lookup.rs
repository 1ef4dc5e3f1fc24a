//! Single records: what a tape says about given indices.

use crate::error::Result;
use crate::reader::Tape;
use crate::record::Record;
use crate::stream::Loader;

impl Tape {
    /// The records of some indices, in the order given; `None` for an index that has no record. Only the blocks that hold them are read.
    ///
    /// # Errors
    /// Damage of one of these blocks.
    pub fn records_at(&self, indices: &[u64]) -> Result<Vec<Option<Record>>> {
        let mut order: Vec<usize> = (0..indices.len()).collect();
        order.sort_unstable_by_key(|position| indices[*position]);
        let mut found = vec![None; indices.len()];
        let (mut loader, mut run) = (Loader::new(), Vec::<Record>::new());
        let mut rest = &order[..];
        while let Some(first) = rest.first() {
            let index = indices[*first];
            let after = self.blocks.partition_point(|block| block.entry.first_index <= index);
            let block = after.checked_sub(1).map(|position| &self.blocks[position]);
            let Some(block) = block.filter(|block| index < block.entry.index_limit()) else {
                rest = &rest[1..];
                continue;
            };
            loader.load(self, block, &mut run)?;
            let inside = rest.partition_point(|position| indices[*position] < block.entry.index_limit());
            for position in &rest[..inside] {
                let record = run.get((indices[*position] - block.entry.first_index) as usize);
                found[*position] = record.copied();
            }
            rest = &rest[inside..];
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Chunk, Record, Tape, TapeWriter};

    #[test]
    fn records_are_found_in_any_order_and_in_any_block() {
        let directory = tempfile::tempdir().unwrap();
        let writer = TapeWriter::create(directory.path()).unwrap();
        for number in 0..3 {
            let mut chunk = writer.take_chunk();
            let start = chunk.start();
            // The second chunk is abandoned in the middle.
            let used = if number == 1 { Chunk::RECORDS / 2 } else { Chunk::RECORDS };
            let first_index = chunk.first_index();
            for (index, record) in (first_index..).zip(chunk.as_mut_slice()).take(used).skip(start) {
                *record = match index % 2 {
                    0 => Record::output(index - 1, index as f64),
                    _ => Record::input_with_value(index as f64),
                };
            }
            writer.submit(chunk, used);
        }
        writer.finish().unwrap();
        let tape = Tape::open(directory.path()).unwrap();
        let run = Chunk::RECORDS as u64;
        let found = tape.records_at(&[2 * run + 1, 1, run - 2, 2 * run + 1, 2 * run - 1, 3 * run, u64::MAX]).unwrap();
        let values: Vec<Option<f64>> =
            found.iter().map(|record| record.and_then(|record| record.declared_value())).collect();
        let value = |index: u64| Some(index as f64);
        assert_eq!(values, [value(2 * run + 1), value(1), value(run - 2), value(2 * run + 1), None, None, None]);
        assert_eq!(found[2].unwrap().operands(), [run - 3, 0]);
        assert!(found[4].is_none() && found[5].is_none() && found[6].is_none());
    }

    #[test]
    fn an_unknown_value_is_no_value() {
        assert_eq!(Record::input().declared_value(), None);
        assert_eq!(Record::input_with_value(2.5).declared_value(), Some(2.5));
        assert!(Record::output(0, f64::NAN).declared_value().unwrap().is_nan());
        assert_eq!(Record::default().declared_value(), None);
    }
}
