//! `derivgrind eval` and `tape-evaluation` on handmade tapes, good and bad.

mod common;

use common::{Block, DERIVGRIND, Recording, TAPE_EVALUATION, run};

const TAPE: i32 = 65;
const SEEDS: i32 = 66;

#[test]
fn reverse() {
    for command in [&[DERIVGRIND, "eval"][..], &[TAPE_EVALUATION]] {
        let recording = Recording::product();
        recording.write("dg-output-bars", "2.5\n");
        let arguments: Vec<&str> = command[1..].iter().copied().chain([recording.argument()]).collect();
        run(command[0], &arguments).succeeds();
        assert_eq!(recording.numbers("dg-input-bars"), [-10.0, 7.5]);
    }
}

#[test]
fn forward() {
    for command in [&[DERIVGRIND, "eval"][..], &[TAPE_EVALUATION]] {
        let recording = Recording::product();
        recording.write("dg-input-dots", "1\n0.5\n");
        let arguments: Vec<&str> = command[1..].iter().copied().chain([recording.argument(), "--forward"]).collect();
        run(command[0], &arguments).succeeds();
        assert_eq!(recording.numbers("dg-output-dots"), [-2.5]);
    }
}

#[test]
fn numbers_are_written_so_that_the_same_are_read() {
    for seed in ["0.1", "1e-310", "-1.7976931348623157e308", "3e-5", "123456789012345678"] {
        let recording = Recording::new(
            &[Block([0, 0], [0.0, 0.0]), Block([0, 0], [0.0, 0.0]), Block([1, 0], [1.0, 0.0])],
            &[1],
            &[2],
        );
        recording.write("dg-output-bars", seed);
        recording.evaluate().succeeds();
        assert_eq!(recording.numbers("dg-input-bars"), [seed.parse::<f64>().unwrap()]);
    }
}

#[test]
fn seeds_may_have_blanks_and_any_spelling() {
    for text in ["  1.0e0 \n", "1", "+1\n", "1.\r\n"] {
        let recording = Recording::product();
        recording.write("dg-output-bars", text);
        recording.evaluate().succeeds();
        assert_eq!(recording.numbers("dg-input-bars"), [-4.0, 3.0], "{text:?}");
    }
}

#[test]
fn missing_seeds() {
    let recording = Recording::product();
    recording.evaluate().fails(SEEDS, &["dg-output-bars", "1"]);
    run(DERIVGRIND, &["eval", recording.argument(), "--forward"]).fails(SEEDS, &["dg-input-dots", "2"]);
    assert!(!recording.file("dg-input-bars").exists());
}

#[test]
fn wrong_number_of_seeds() {
    let recording = Recording::product();
    recording.write("dg-output-bars", "1\n2\n");
    recording.evaluate().fails(SEEDS, &["dg-output-bars, line 2", "too many", "1 output"]);
    recording.write("dg-output-bars", "");
    recording.evaluate().fails(SEEDS, &["0 numbers", "1 output"]);
    recording.write("dg-input-dots", "1\n");
    let ended = run(DERIVGRIND, &["eval", recording.argument(), "--forward"]);
    ended.fails(SEEDS, &["1 number", "2 inputs"]);
}

#[test]
fn seeds_that_are_no_numbers() {
    let recording = Recording::product();
    for text in ["one\n", "1,5\n", "1 2\n", "0x10\n", "\u{ff}\n"] {
        recording.write("dg-output-bars", text);
        recording.evaluate().fails(SEEDS, &["dg-output-bars", "line 1"]);
    }
    recording.write("dg-input-dots", "1\nx\n");
    run(DERIVGRIND, &["eval", recording.argument(), "--forward"]).fails(SEEDS, &["dg-input-dots", "line 2"]);
    recording.write("dg-output-bars", b"\xff\xfe\n");
    recording.evaluate().fails(SEEDS, &["dg-output-bars"]);
}

#[test]
fn truncated_tapes() {
    for removed in [1, 8, 31, 32, 64, 160] {
        let recording = Recording::product();
        recording.write("dg-output-bars", "1\n");
        let tape = recording.read("dg-tape");
        recording.write("dg-tape", &tape[..tape.len() - removed]);
        recording.evaluate().fails(TAPE, &[recording.argument()]);
    }
}

#[test]
fn what_is_no_tape() {
    let recording = Recording::product();
    recording.write("dg-output-bars", "1\n");
    let mut text = "This is a text file and no tape. ".repeat(20).into_bytes();
    text.truncate(160);
    recording.write("dg-tape", text);
    recording.evaluate().fails(TAPE, &["dg-tape"]);
    std::fs::remove_file(recording.file("dg-tape")).unwrap();
    recording.evaluate().fails(TAPE, &["dg-tape"]);
    std::fs::create_dir(recording.file("dg-tape")).unwrap();
    recording.evaluate().fails(TAPE, &["dg-tape"]);
}

#[test]
fn what_is_no_directory() {
    let recording = Recording::product();
    let missing = recording.file("missing");
    run(DERIVGRIND, &["eval", missing.to_str().unwrap()]).fails(TAPE, &["missing"]);
    run(DERIVGRIND, &["eval", recording.file("dg-tape").to_str().unwrap()]).fails(TAPE, &["dg-tape"]);
    run(TAPE_EVALUATION, &[missing.to_str().unwrap()]).fails(TAPE, &["missing"]);
}

#[test]
fn operands_that_do_not_precede_their_operation() {
    for operand in [2, 3, u64::MAX] {
        let recording = Recording::new(
            &[Block([0, 0], [0.0, 0.0]), Block([0, 0], [0.0, 0.0]), Block([operand, 0], [1.0, 0.0])],
            &[1],
            &[2],
        );
        recording.write("dg-output-bars", "1\n");
        recording.evaluate().fails(TAPE, &["dg-tape"]);
    }
}

#[test]
fn index_files_that_do_not_fit() {
    for (file, text) in [
        ("dg-input-indices", "1\n99\n"),
        ("dg-output-indices", "5\n"),
        ("dg-output-indices", "four\n"),
        ("dg-input-indices", "-1\n2\n"),
    ] {
        let recording = Recording::product();
        recording.write("dg-output-bars", "1\n");
        recording.write(file, text);
        recording.evaluate().fails(TAPE, &[file]);
    }
    let recording = Recording::product();
    recording.write("dg-output-bars", "1\n");
    std::fs::remove_file(recording.file("dg-input-indices")).unwrap();
    recording.evaluate().fails(TAPE, &["dg-input-indices"]);
}

#[test]
fn a_passive_output_has_derivative_zero() {
    let recording =
        Recording::new(&[Block([0, 0], [0.0, 0.0]), Block([0, 0], [0.0, 0.0]), Block([0, 0], [0.0, 0.0])], &[1], &[2]);
    recording.write("dg-output-bars", "1\n");
    recording.evaluate().succeeds();
    assert_eq!(recording.numbers("dg-input-bars"), [0.0]);
}

#[test]
fn results_that_cannot_be_written() {
    let recording = Recording::product();
    recording.write("dg-output-bars", "1\n");
    std::fs::create_dir(recording.file("dg-input-bars")).unwrap();
    recording.evaluate().fails(74, &["dg-input-bars"]);
}
