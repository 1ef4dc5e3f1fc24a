//! Derivatives from tapes: by hand, against a dense reference, forwards against backwards.

mod common;

use common::{Recorder, random_tape};
use derivgrind_tape::{Operation, Process, Record, Tape, TapeError};
use proptest::prelude::*;

#[test]
fn product_of_the_paper() {
    // x1 = 3, x2 = -4, y = x1 x2, as in the paper's figure.
    let recorder = Recorder::new();
    let x1 = recorder.input();
    let x2 = recorder.input();
    let product = recorder.push(Record::binary64(Operation::Mul, [x1, x2], [3.0, -4.0]));
    recorder.output(product);
    let tape = recorder.finish();
    assert_eq!(tape.inputs(), [1, 2]);
    assert_eq!(tape.outputs(), [4]);
    assert_eq!(tape.reverse(&[[1.0]]).unwrap(), [[-4.0, 3.0]]);
    assert_eq!(tape.forward(&[[1.0, 10.0]]).unwrap(), [[26.0]]);
    let statistics = tape.statistics().unwrap();
    assert_eq!(statistics.by_operands, [3, 1, 1]);
}

#[test]
fn every_operation_propagates_its_rule() {
    let (a, b) = (1.75, 0.6875);
    for operation in Operation::ALL.iter().filter(|operation| operation.operands() > 0) {
        for binary32 in [false, true] {
            for active in [[true, true], [true, false], [false, true]] {
                let recorder = Recorder::new();
                let inputs = [recorder.input(), recorder.input()];
                let operands = [0, 1].map(|k| if active[k] { inputs[k] } else { 0 });
                // A code of binary32 on `Partials` does not change that its values are binary64.
                let record = if binary32 && *operation != Operation::Partials {
                    Record::binary32(*operation, operands, [a as f32, b as f32])
                } else {
                    Record::binary64(*operation, operands, [a, b])
                };
                let index = recorder.push(record);
                recorder.output(index);
                let tape = recorder.finish();
                let rule = operation.partials(a, b);
                let used = [active[0], active[1] && operation.operands() == 2];
                let expected = [0, 1].map(|k| if used[k] { rule[k] } else { 0.0 });
                assert_eq!(tape.reverse(&[[1.0]]).unwrap(), [expected], "{record:?}");
                assert_eq!(tape.forward(&[[1.0, 0.0], [0.0, 1.0]]).unwrap(), [[expected[0]], [expected[1]]]);
            }
        }
    }
}

#[test]
fn values_without_influence_do_not_poison_the_gradient() {
    let recorder = Recorder::new();
    let x = recorder.input();
    // sqrt(0) is computed, but multiplied by 0, and the result is only added in.
    let root = recorder.push(Record::binary64(Operation::Sqrt, [x, 0], [0.0, 0.0]));
    let nothing = recorder.push(Record::binary64(Operation::Mul, [root, 0], [0.0, 0.0]));
    let unused = recorder.push(Record::binary64(Operation::Div, [0, x], [1.0, 0.0]));
    let sum = recorder.push(Record::binary64(Operation::Add, [nothing, x], [0.0, 0.0]));
    recorder.output(sum);
    let tape = recorder.finish();
    assert_eq!(tape.reverse(&[[1.0]]).unwrap(), [[1.0]]);
    assert!(unused > 0);
    // What really is infinite stays so.
    let recorder = Recorder::new();
    let x = recorder.input();
    let root = recorder.push(Record::binary64(Operation::Sqrt, [x, 0], [0.0, 0.0]));
    recorder.output(root);
    let tape = recorder.finish();
    assert_eq!(tape.reverse(&[[1.0]]).unwrap(), [[f64::INFINITY]]);
    assert_eq!(tape.forward(&[[1.0], [0.0]]).unwrap(), [[f64::INFINITY], [0.0]]);
}

#[test]
fn intermediate_repeated_and_passive_variables_can_be_declared() {
    let recorder = Recorder::new();
    let x = recorder.input();
    let square = recorder.push(Record::binary64(Operation::Mul, [x, x], [3.0, 3.0]));
    recorder.declare_input(square);
    recorder.declare_input(x);
    recorder.declare_input(0);
    let cube = recorder.push(Record::binary64(Operation::Mul, [square, x], [9.0, 3.0]));
    recorder.declare_output(cube);
    recorder.declare_output(square);
    recorder.declare_output(0);
    recorder.declare_output(cube);
    let tape = recorder.finish();
    let bars = tape.reverse(&[[1.0, 0.0, 5.0, 0.0], [0.5, 1.0, 5.0, 0.5]]).unwrap();
    assert_eq!(bars, [[27.0, 3.0, 27.0, 0.0], [33.0, 4.0, 33.0, 0.0]]);
    let dots = tape.forward(&[[1.0, 0.0, 0.0, 7.0], [0.0, 1.0, 0.0, 7.0]]).unwrap();
    assert_eq!(dots, [[27.0, 6.0, 0.0, 27.0], [3.0, 1.0, 0.0, 3.0]]);
    let dependence = tape.dependence().unwrap();
    assert_eq!(dependence.outputs, [true, true, false, true]);
    assert_eq!(dependence.inputs, [true, true, true, false]);
    assert_eq!(tape.statistics().unwrap().passive_outputs, 1);
}

#[test]
fn dependence_follows_operations_not_values() {
    let recorder = Recorder::new();
    let x = recorder.input();
    let y = recorder.input();
    let constant = recorder.push(Record::binary64(Operation::Partials, [0, 0], [0.0; 2]));
    let times_zero = recorder.push(Record::binary64(Operation::Mul, [x, 0], [3.0, 0.0]));
    recorder.output(times_zero);
    recorder.output(constant);
    let tape = recorder.finish();
    let dependence = tape.dependence().unwrap();
    assert_eq!(dependence.outputs, [true, false]);
    assert_eq!(dependence.inputs, [true, false]);
    assert!(y > 0);
}

#[test]
fn wrong_numbers_of_seeds_are_refused() {
    let recorder = Recorder::new();
    let x = recorder.input();
    recorder.output(x);
    let tape = recorder.finish();
    let message = tape.reverse(&[vec![1.0], vec![1.0, 2.0]]).unwrap_err().to_string();
    assert!(message.starts_with("2 bar values given, but the recording has 1 outputs"), "{message}");
    assert!(matches!(tape.forward(&[[]]), Err(TapeError::Seeds { found: 0, expected: 1, .. })));
    assert!(tape.reverse(&[[0.0; 1]; 0]).unwrap().is_empty());
}

#[test]
fn text_files_go_in_and_out() {
    let recorder = Recorder::new();
    let x = recorder.input();
    let square = recorder.push(Record::binary64(Operation::Mul, [x, x], [0.1, 0.1]));
    recorder.output(square);
    let tape = recorder.finish();
    let directory = tape.directory();
    assert!(matches!(tape.sweep().reverse_files(), Err(TapeError::NoValues { .. })));
    std::fs::write(directory.join("dg-output-bars"), "1.5\n").unwrap();
    std::fs::write(directory.join("dg-input-dots"), "1e-300\n").unwrap();
    tape.sweep().reverse_files().unwrap();
    tape.sweep().forward_files().unwrap();
    let read = |name| std::fs::read_to_string(directory.join(name)).unwrap().trim().parse::<f64>().unwrap();
    assert_eq!(read("dg-input-bars"), 1.5 * 0.1 + 1.5 * 0.1);
    assert_eq!(read("dg-output-dots"), 0.1 * 1e-300 + 0.1 * 1e-300);
}

#[test]
fn progress_comes_to_its_end() {
    let recorder = Recorder::new();
    let mut index = recorder.input();
    for _ in 0..100_000 {
        index = recorder.push(Record::binary64(Operation::Negate, [index, 0], [0.0; 2]));
    }
    recorder.output(index);
    let tape = recorder.finish();
    let mut last = None;
    let seeds = vec![[1.0]; 11];
    let bars = tape
        .sweep()
        .progress(|progress| {
            assert!(last.is_none_or(|last: derivgrind_tape::Progress| last.done < progress.done));
            last = Some(progress);
        })
        .reverse(&seeds)
        .unwrap();
    assert_eq!(bars, vec![[1.0]; 11]);
    let last = last.unwrap();
    assert_eq!(last.done, last.total);
}

#[test]
fn long_tapes_do_not_depend_on_the_number_of_lanes_or_decoders() {
    let recorder = Recorder::new();
    let inputs: Vec<u64> = (0..50).map(|_| recorder.input()).collect();
    let mut recent = inputs.clone();
    let mut state = 1_u64;
    for step in 0..600_000_usize {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let other = (state >> 33) as usize % 50;
        let value = 0.9 + (state >> 40) as f64 * 1e-8;
        let operands = [recent[step % 50], recent[other]];
        recent[step % 50] = recorder.push(Record::binary64(Operation::Partials, operands, [value, 0.01]));
    }
    recent.iter().for_each(|index| recorder.output(*index));
    let tape = recorder.finish();
    let seeds: Vec<Vec<f64>> = (0..13).map(|k| (0..50).map(|j| f64::from(u8::from(j % 13 == k))).collect()).collect();
    let together = tape.reverse(&seeds).unwrap();
    for (seed, expected) in seeds.iter().zip(&together).step_by(9) {
        assert_eq!(tape.sweep().decoders(0).reverse(&[seed]).unwrap()[0], *expected);
        assert_eq!(tape.sweep().decoders(3).reverse(&[seed, seed]).unwrap()[1], *expected);
    }
    let dots = tape.forward(&seeds).unwrap();
    assert_eq!(tape.sweep().decoders(0).forward(&seeds[12..]).unwrap()[0], dots[12]);
}

/// The exchange format has no loops: sweeps go through it record by record.
#[test]
fn loops_and_single_records_give_the_same_bits() {
    let recorder = Recorder::new();
    let n = 60;
    let mut state: Vec<u64> = (0..n).map(|_| recorder.input()).collect();
    let mut values: Vec<f64> = (0..n).map(|k| 1.0 + (k as f64).sin() / 4.0).collect();
    let scale = recorder.push(Record::binary64(Operation::Mul, [state[0], 0], [values[0], 0.5]));
    for step in 0..150 {
        let (mut next, mut next_values) = (state.clone(), values.clone());
        // Forwards and backwards through the results of the step before, with a boundary that is left as it is.
        let cells: Vec<usize> = if step % 2 == 0 { (1..n - 1).collect() } else { (1..n - 1).rev().collect() };
        for k in cells {
            let (a, b) = (values[k], values[k - 1]);
            let difference = recorder.push(Record::binary64(Operation::Sub, [state[k], state[k - 1]], [a, b]));
            let ratio =
                recorder.push(Record::binary64(Operation::Div, [difference, state[k + 1]], [a - b, values[k + 1]]));
            let square = recorder.push(Record::binary32(Operation::Mul, [ratio, ratio], [0.25, 0.25]));
            let scaled = recorder.push(Record::binary64(Operation::Mul, [square, scale], [0.0625, 0.5]));
            let damped = recorder.push(Record::binary64(Operation::Mul, [scaled, 0], [0.03125, 0.125]));
            next[k] = recorder.push(Record::binary64(Operation::Sub, [state[k], damped], [a, 0.003]));
            next_values[k] = a - (a - b) * 0.01;
        }
        (state, values) = (next, next_values);
    }
    state.iter().for_each(|index| recorder.output(*index));
    let native = recorder.finish();
    assert!(native.bytes() < 8 * native.index_limit(), "no loops found: {} bytes", native.bytes());
    let directory = tempfile::tempdir().unwrap();
    native.export(directory.path()).unwrap();
    let exchange = Tape::open(directory.path()).unwrap();
    for vectors in [1, 2, 3, 6] {
        let seeds: Vec<Vec<f64>> = (0..vectors).map(|v| (0..n).map(|k| ((v * n + k) as f64).cos()).collect()).collect();
        assert_eq!(native.reverse(&seeds).unwrap(), exchange.reverse(&seeds).unwrap());
        assert_eq!(native.forward(&seeds).unwrap(), exchange.forward(&seeds).unwrap());
    }
}

/// The Jacobian from a dense matrix of derivatives of every index with respect to the inputs.
fn dense_jacobian(records: &[Record], inputs: &[u64], outputs: &[u64]) -> Vec<Vec<f64>> {
    let mut rows = vec![vec![0.0; inputs.len()]; records.len()];
    for (index, record) in records.iter().enumerate() {
        let partials = record.partials();
        for (column, input) in inputs.iter().enumerate() {
            let own = f64::from(u8::from(*input == index as u64));
            let operand = |k: usize| partials.partials[k] * rows[partials.operands[k] as usize][column];
            rows[index][column] = own + operand(0) + operand(1);
        }
    }
    outputs.iter().map(|output| rows[*output as usize].clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sweeps_agree_with_the_dense_jacobian(tape in random_tape(1..300)) {
        let recorder = Recorder::new();
        let records = tape.record(&recorder);
        let (inputs, outputs) = (tape.inputs(), tape.outputs());
        inputs.iter().for_each(|index| recorder.declare_input(*index));
        outputs.iter().for_each(|index| recorder.declare_output(*index));
        let opened = recorder.finish();
        let jacobian = dense_jacobian(&records, &inputs, &outputs);
        let unit = |n: usize, k: usize| (0..n).map(|j| f64::from(u8::from(j == k))).collect::<Vec<f64>>();
        let scale = jacobian.iter().flatten().fold(1.0_f64, |scale, entry| scale.max(entry.abs()));
        let rows = opened.reverse(&(0..outputs.len()).map(|k| unit(outputs.len(), k)).collect::<Vec<_>>()).unwrap();
        let columns = opened.forward(&(0..inputs.len()).map(|k| unit(inputs.len(), k)).collect::<Vec<_>>()).unwrap();
        for (i, row) in jacobian.iter().enumerate() {
            for (j, entry) in row.iter().enumerate() {
                prop_assert!((rows[i][j] - entry).abs() <= 1e-12 * scale, "reverse {i} {j}: {} {entry}", rows[i][j]);
                prop_assert!((columns[j][i] - entry).abs() <= 1e-12 * scale, "forward {i} {j}: {} {entry}", columns[j][i]);
            }
        }
        // The identity that ties the two modes: w·(J v) = (wᵀ J)·v.
        let w: Vec<f64> = (0..outputs.len()).map(|k| 1.0 + k as f64 * 0.25).collect();
        let v: Vec<f64> = (0..inputs.len()).map(|k| 0.5 - k as f64 * 0.125).collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let forward = dot(&w, &opened.forward(&[&v]).unwrap()[0]);
        let reverse = dot(&opened.reverse(&[&w]).unwrap()[0], &v);
        prop_assert!((forward - reverse).abs() <= 1e-11 * scale * (w.len() * v.len()) as f64, "{forward} {reverse}");
        prop_assert!(opened.validate().is_ok());
    }
}

#[test]
fn a_recording_without_operations_can_be_evaluated() {
    let recorder = Recorder::new();
    let tape = recorder.finish();
    assert!(tape.inputs().is_empty() && tape.outputs().is_empty());
    assert_eq!(tape.reverse(&[[]]).unwrap(), [Vec::<f64>::new()]);
    assert!(Tape::open_process(tape.directory(), Process::Forked(1)).is_err());
}
