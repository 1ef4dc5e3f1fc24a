//! The native format as `docs/tape-format.md` describes it: a tape put together by hand.

use std::fs;

use derivgrind_tape::{Format, Operation, Process, Record, Tape, TapeError};

/// Little-endian numbers one after the other.
macro_rules! bytes {
    ($($number:expr),* $(,)?) => { [$($number.to_le_bytes().as_slice()),*].concat() };
}

/// As in the section on the checksum.
fn checksum(bytes: &[u8]) -> u64 {
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let words: Vec<u64> = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let mut hashes = [1, 2, 3, 4];
    for (position, word) in words.iter().enumerate() {
        let lane = if position / 4 < words.len() / 4 { position % 4 } else { 0 };
        hashes[lane] = step(hashes[lane], *word);
    }
    hashes.iter().fold(bytes.len() as u64, |sum, hash| step(sum, *hash))
}

fn block(first_index: u64, counts: [u32; 6], content: &[u8]) -> Vec<u8> {
    let mut content = content.to_vec();
    content.resize(content.len().next_multiple_of(8), 0);
    let mut block = b"dgblock\n".to_vec();
    block.extend(first_index.to_le_bytes());
    counts.iter().for_each(|count| block.extend(count.to_le_bytes()));
    block.extend(checksum(&content).to_le_bytes());
    block.extend(content);
    block
}

/// A tape of the given blocks (first index, number of records, bytes), in the order in which they lie in the file.
fn tape(blocks: &[(u64, u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = vec![0; 128];
    let mut entries = Vec::new();
    for (first_index, records, block) in blocks {
        entries.push((*first_index, *records, file.len() as u64, block.len() as u32));
        file.extend(block);
        // Bytes that belong to no block.
        file.extend([0xee; 8]);
    }
    entries.sort_unstable();
    let directory: Vec<u8> = entries
        .iter()
        .flat_map(|(first_index, records, offset, bytes)| bytes!(*offset, *first_index, *records, *bytes))
        .collect();
    let limit = entries.last().map_or(0, |(first_index, records, ..)| first_index + u64::from(*records));
    let records: u64 = entries.iter().map(|(_, records, ..)| u64::from(*records)).sum();
    let numbers = bytes!(1_u32, 1_u32, file.len() as u64, entries.len() as u64, records, limit, checksum(&directory));
    file[..8].copy_from_slice(b"\x89dgtape\n");
    file[8..8 + numbers.len()].copy_from_slice(&numbers);
    file.extend(directory);
    file
}

#[test]
fn a_tape_made_by_hand_means_what_the_description_says() {
    // Indices 0 to 3: the dummy and inputs with values 2, 3 and 4; the third is binary32.
    let forms = [
        bytes!(0_u8, 0_u8, 0_u8, 0_u8, 0_u16, 0_u16, 0_i32, 0_i32),
        bytes!(1_u8, 0_u8, 0_u8, 0_u8, 0_u16, 0_u16, 0_i32, 0_i32),
        bytes!(0x41_u8, 0_u8, 0_u8, 0_u8, 0_u16, 0_u16, 0_i32, 0_i32),
    ]
    .concat();
    let sequence = [4, 0, 1, 1, 2];
    let values = bytes!(2.0_f64, 3.0_f64, 4.0_f32);
    let content = [forms.as_slice(), &sequence, &values].concat();
    let inputs = block(0, [4, 3, 0, sequence.len() as u32, 0, values.len() as u32], &content);

    // Indices 300 to 313: a product, then six iterations of an add and a mul, then the output.
    let forms = [
        // 0: mul of inputs 1 (distance 299, two bytes) and 2 (distance 298); both values stored.
        bytes!(6_u8, 2_u8, 2_u8, 0_u8, 0_u16, 0_u16, 0_i32, 0_i32),
        // 1: add of the record before and input 1, by distances.
        bytes!(4_u8, 1_u8, 2_u8, 0_u8, 0_u16, 0_u16, 0_i32, 0_i32),
        // 2: mul of the record before and a passive one, whose value is stored.
        bytes!(6_u8, 1_u8, 0_u8, 0_u8, 0_u16, 0_u16, 0_i32, 0_i32),
        // 3: add as one period earlier, the first operand moving on with the loop, the second always the same.
        bytes!(4_u8, 8_u8, 8_u8, 0_u8, 0_u16, 0_u16, 2_i32, 0_i32),
        // 4: mul as one period earlier, whose second value is the first value four records earlier, of the product.
        bytes!(6_u8, 8_u8, 0_u8, 0_u8, 0_u16, 8_u16, 2_i32, 0_i32),
        // 5: the same, but the second value is that of one period earlier.
        bytes!(6_u8, 8_u8, 0_u8, 0_u8, 0_u16, 5_u16, 2_i32, 0_i32),
        // 6: output; its value is stored.
        bytes!(2_u8, 1_u8, 0_u8, 0_u8, 0_u16, 0_u16, 0_i32, 0_i32),
    ]
    .concat();
    let periods = bytes!(3_u32, 2_u32);
    // Positions: 0 mul, 1 add, 2 mul, 3 add', 4 mul' (source), then (add', mul'') four times, output.
    let sequence = [7, 0, 1, 2, 3, 4, 3, 5, 6, 2, 1, 6];
    let distances = bytes!(299_u16, 298_u16, 1_u8, 300_u16, 1_u8, 1_u8);
    let values = bytes!(2.0_f64, 3.0_f64, 0.5_f64, 99.0_f64);
    let content = [forms.as_slice(), &periods, &sequence, &distances, &values].concat();
    let counts = [14, 7, 1, sequence.len() as u32, distances.len() as u32, values.len() as u32];
    let operations = block(300, counts, &content);

    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("dg-tape"), tape(&[(300, 14, operations), (0, 4, inputs)])).unwrap();
    fs::write(directory.path().join("dg-input-indices"), "1\n2\n3\n").unwrap();
    fs::write(directory.path().join("dg-output-indices"), "313\n").unwrap();
    let tape = Tape::open(directory.path()).unwrap();
    assert_eq!(tape.format(), Format::Native);
    tape.validate().unwrap();

    // What the records are, one by one.
    let mul = |index: u64, factor| Record::binary64(Operation::Mul, [index - 1, 0], [0.0, factor]);
    let add = |index: u64| Record::binary64(Operation::Add, [index - 1, 1], [0.0; 2]);
    let mut expected =
        vec![Record::binary64(Operation::Mul, [1, 2], [2.0, 3.0]), add(301), mul(302, 0.5), add(303), mul(304, 2.0)];
    (305..313).step_by(2).for_each(|index| expected.extend([add(index), mul(index + 1, 2.0)]));
    expected.push(Record::output(312, 99.0));
    let indices: Vec<u64> = (300..314).collect();
    let found: Vec<Record> = tape.records_at(&indices).unwrap().into_iter().flatten().collect();
    assert_eq!(found, expected);
    let inputs: Vec<Record> = tape.records_at(&[1, 2, 3]).unwrap().into_iter().flatten().collect();
    assert_eq!(inputs[..2], [Record::input_with_value(2.0), Record::input_with_value(3.0)]);
    assert_eq!(inputs[2].value1, u64::from(4.0_f32.to_bits()));

    // y = x1 x2; y = (y + x1) / 2; five times y = 2 (y + x1)
    let power = 2.0_f64.powi(5);
    let by_product = 0.5 * power;
    let by_x1 = 3.0 * by_product + by_product + (1..=5).map(|k| 2.0_f64.powi(k)).sum::<f64>();
    assert_eq!(tape.reverse(&[[1.0]]).unwrap(), [[by_x1, 2.0 * by_product, 0.0]]);

    // The same file, not marked as complete.
    let mut file = fs::read(directory.path().join("dg-tape")).unwrap();
    file[12] = 0;
    fs::write(directory.path().join("dg-tape"), &file).unwrap();
    assert!(matches!(Tape::open(directory.path()), Err(TapeError::Incomplete { .. })));
    let salvaged = Tape::salvage(directory.path(), Process::Main).unwrap();
    assert_eq!(salvaged.records_at(&[312]).unwrap(), [Some(mul(312, 2.0))]);
}
