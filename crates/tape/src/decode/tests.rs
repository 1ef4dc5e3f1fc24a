//! Encoder and decoder against each other.

use super::*;
use crate::encode::Encoder;
use crate::guard;
use crate::run::{Content, Run};
use proptest::prelude::*;

fn round_trip(first_index: u64, records: &[Record]) -> Vec<Record> {
    let (mut encoder, mut decoder) = (Encoder::new(false), Decoder::new());
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
    let bytes = Encoder::new(false).encode(100, &records).1.len();
    // Of four records one has a value that is new.
    assert!(bytes < Chunk::RECORDS * 2 + 300, "{bytes}");
}

#[test]
fn operands_that_do_not_precede_are_reported() {
    for operand in [10, 11, 1 << 40] {
        let mut memory =
            Encoder::new(false).encode(10, &[Record::binary64(Operation::Copy, [operand, 0], [0.0; 2])]).1.to_vec();
        memory.resize(memory.len() + SLACK, 0);
        let result = Decoder::new().decode(&memory, &mut Vec::new(), Form::record);
        assert_eq!(result, Err(Flaw::Order { index: 10, operand }));
    }
}

/// In a loop, an operand that has lost its tag is not taken for the index that is expected there.
#[test]
fn pieces_of_indices_in_loops_are_passive() {
    let piece = 200;
    let narrow = Record::binary32(Operation::Mul, [0; 2], [0.0; 2]);
    let wide = Record::binary64(Operation::Mul, [0; 2], [0.0; 2]);
    let cases = [
        (narrow, guard::NARROW_TAG, guard::NARROW_TAG),
        (wide, guard::WIDE_TAG, guard::WIDE_LIMIT),
        (wide, guard::WIDE_TAG, 1 << 63),
    ];
    for ((operation, tag, lost), broken) in cases.into_iter().flat_map(|case| [(case, 0), (case, 1)]) {
        let mut records: Vec<Record> = (0..1000)
            .map(|position| {
                let operand2 = (1001 + position - 1) | tag;
                Record { operand1: operation.operand1 | 5 | tag, operand2, value1: 7, value2: position }
            })
            .collect();
        let record = &mut records[piece];
        *[&mut record.operand1, &mut record.operand2][broken] &= !lost;
        let (mut encoder, mut decoder) = (Encoder::new(true), Decoder::new());
        let (count, block) = encoder.encode(1001, &records);
        assert_eq!(count, records.len());
        let mut memory = block.to_vec();
        memory.resize(memory.len() + SLACK, 0);
        let mut decoded = Vec::new();
        decoder.decode(&memory, &mut decoded, Form::record).unwrap();
        assert_eq!(encoder.take_broken(), 1);
        for (position, record) in decoded.iter().enumerate() {
            let mut expected = [5, 1000 + position as u64];
            if position == piece {
                expected[broken] = 0;
            }
            assert_eq!(record.operands(), expected, "{position}");
        }
    }
}

/// What a sweep sees of records, and how many of them are in loops.
fn sweep_view(first_index: u64, records: &[Record]) -> (Vec<Partials>, usize) {
    let (mut encoder, mut decoder) = (Encoder::new(false), Decoder::new());
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
                    for (row, column) in (0..*rows).flat_map(|row| columns.iter().map(move |column| (row, column))) {
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
    let mut memory = Encoder::new(false).encode(1, &records).1.to_vec();
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
