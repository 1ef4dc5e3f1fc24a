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
    recording.evaluate().says(SEEDS, &["dg-output-bars", "1"]);
    run(DERIVGRIND, &["eval", recording.argument(), "--forward"]).says(SEEDS, &["dg-input-dots", "2"]);
    assert!(!recording.file("dg-input-bars").exists());
}

#[test]
fn wrong_number_of_seeds() {
    let recording = Recording::product();
    recording.write("dg-output-bars", "1\n2\n");
    recording.evaluate().says(SEEDS, &["dg-output-bars, line 2", "too many", "1 output"]);
    recording.write("dg-output-bars", "");
    recording.evaluate().says(SEEDS, &["0 numbers", "1 output"]);
    recording.write("dg-input-dots", "1\n");
    let ended = run(DERIVGRIND, &["eval", recording.argument(), "--forward"]);
    ended.says(SEEDS, &["1 number", "2 inputs"]);
}

#[test]
fn seeds_that_are_no_numbers() {
    let recording = Recording::product();
    for text in ["one\n", "1,5\n", "1 2\n", "0x10\n", "\u{ff}\n"] {
        recording.write("dg-output-bars", text);
        recording.evaluate().says(SEEDS, &["dg-output-bars", "line 1"]);
    }
    recording.write("dg-input-dots", "1\nx\n");
    run(DERIVGRIND, &["eval", recording.argument(), "--forward"]).says(SEEDS, &["dg-input-dots", "line 2"]);
    recording.write("dg-output-bars", b"\xff\xfe\n");
    recording.evaluate().says(SEEDS, &["dg-output-bars"]);
}

#[test]
fn truncated_tapes() {
    for removed in [1, 8, 31, 32, 64, 160] {
        let recording = Recording::product();
        recording.write("dg-output-bars", "1\n");
        let tape = recording.read("dg-tape");
        recording.write("dg-tape", &tape[..tape.len() - removed]);
        recording.evaluate().says(TAPE, &[recording.argument()]);
    }
}

#[test]
fn what_is_no_tape() {
    let recording = Recording::product();
    recording.write("dg-output-bars", "1\n");
    let mut text = "This is a text file and no tape. ".repeat(20).into_bytes();
    text.truncate(160);
    recording.write("dg-tape", text);
    recording.evaluate().says(TAPE, &["dg-tape"]);
    std::fs::remove_file(recording.file("dg-tape")).unwrap();
    recording.evaluate().says(TAPE, &["dg-tape"]);
    std::fs::create_dir(recording.file("dg-tape")).unwrap();
    recording.evaluate().says(TAPE, &["dg-tape"]);
}

#[test]
fn what_is_no_directory() {
    let recording = Recording::product();
    let missing = recording.file("missing");
    run(DERIVGRIND, &["eval", missing.to_str().unwrap()]).says(TAPE, &["missing"]);
    run(DERIVGRIND, &["eval", recording.file("dg-tape").to_str().unwrap()]).says(TAPE, &["dg-tape"]);
    run(TAPE_EVALUATION, &[missing.to_str().unwrap()]).says(TAPE, &["missing"]);
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
        recording.evaluate().says(TAPE, &["dg-tape"]);
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
        recording.evaluate().says(TAPE, &[file]);
    }
    let recording = Recording::product();
    recording.write("dg-output-bars", "1\n");
    std::fs::remove_file(recording.file("dg-input-indices")).unwrap();
    recording.evaluate().says(TAPE, &["dg-input-indices"]);
}

#[test]
fn outputs_that_do_not_depend_on_any_input() {
    let passive = |count: usize| {
        let blocks = (0..count + 2).map(|_| Block([0, 0], [0.0, 0.0])).collect::<Vec<_>>();
        let outputs: Vec<u64> = (2..).take(count).collect();
        let recording = Recording::new(&blocks, &[1], &outputs);
        recording.write("dg-output-bars", "1\n".repeat(count));
        recording
    };
    for (count, words) in [
        (1, "output 1 does not depend on any input"),
        (2, "outputs 1 and 2 do not depend on any input"),
        (9, "outputs 1, 2, 3, 4, 5 and 4 more do not depend on any input"),
    ] {
        let recording = passive(count);
        recording.evaluate().says(0, &[words]);
        assert_eq!(recording.numbers("dg-input-bars"), [0.0]);
        run(DERIVGRIND, &["--quiet", "eval", recording.argument()]).succeeds();
    }
    // An input that is an output as well is not passive.
    let recording = Recording::new(&[Block([0, 0], [0.0, 0.0]), Block([0, 0], [0.0, 0.0])], &[1], &[1, 0]);
    recording.write("dg-output-bars", "2\n7\n");
    recording.evaluate().says(0, &["output 2 does not depend on any input"]);
    assert_eq!(recording.numbers("dg-input-bars"), [2.0]);
}

#[test]
fn results_that_cannot_be_written() {
    let recording = Recording::product();
    recording.write("dg-output-bars", "1\n");
    std::fs::create_dir(recording.file("dg-input-bars")).unwrap();
    recording.evaluate().says(74, &["dg-input-bars"]);
}
