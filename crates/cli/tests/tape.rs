//! `derivgrind tape` and the options of `tape-evaluation` that look into a tape.

mod common;

use common::{DERIVGRIND, Recording, TAPE_EVALUATION, run};

fn tape(command: &str, recording: &Recording) -> common::Ended {
    run(DERIVGRIND, &["tape", command, recording.argument()])
}

#[test]
fn block_counts_by_number_of_indices() {
    let recording = Recording::product();
    let counts = run(TAPE_EVALUATION, &[recording.argument(), "--stats"]);
    assert_eq!(counts.succeeds(), "3 1 1\n");
}

#[test]
fn statistics_name_the_operations() {
    let recording = Recording::product();
    let statistics = tape("stats", &recording);
    for word in ["2", "inputs", "output"] {
        assert!(statistics.succeeds().contains(word), "{statistics:?}");
    }
}

#[test]
fn a_check_finds_an_operand_behind_its_operation() {
    let recording = Recording::product();
    assert_eq!(tape("check", &recording).succeeds(), "valid: 4 indices, 2 inputs, 1 outputs\n");
    let mut exchange = recording.read("dg-tape");
    // The first operand of the product, block 3, becomes the output's copy, block 4.
    exchange[3 * 32] = 4;
    recording.write("dg-tape", exchange);
    tape("check", &recording).says(65, &["dg-tape", "4"]);
}

#[test]
fn a_dump_has_a_line_for_each_index() {
    let recording = Recording::product();
    let dump = tape("print", &recording);
    let lines: Vec<&str> = dump.succeeds().lines().collect();
    let product = lines.iter().find(|line| line.trim_start().starts_with('3')).expect("a line for index 3");
    for word in ["1", "2", "-4", "3"] {
        assert!(product.contains(word), "{product}");
    }
    assert_eq!(run(TAPE_EVALUATION, &[recording.argument(), "--print"]).succeeds(), dump.stdout);
}

#[test]
fn import_and_export_give_the_same_bytes() {
    let recording = Recording::product();
    let exchange = recording.read("dg-tape");
    tape("import", &recording).succeeds();
    assert_ne!(recording.read("dg-tape"), exchange, "the native format is another");
    recording.write("dg-output-bars", "1\n");
    recording.evaluate().succeeds();
    assert_eq!(recording.numbers("dg-input-bars"), [-4.0, 3.0]);
    tape("export", &recording).succeeds();
    assert_eq!(recording.read("dg-tape"), exchange);
}

#[test]
fn export_to_a_file_leaves_the_tape_alone() {
    let recording = Recording::product();
    let exchange = recording.read("dg-tape");
    tape("import", &recording).succeeds();
    let native = recording.read("dg-tape");
    let file = recording.file("exported");
    run(DERIVGRIND, &["tape", "export", recording.argument(), "--output", file.to_str().unwrap()]).succeeds();
    assert_eq!(recording.read("exported"), exchange);
    assert_eq!(recording.read("dg-tape"), native);
}

#[test]
fn import_to_another_directory() {
    let recording = Recording::product();
    let exchange = recording.read("dg-tape");
    let target = Recording::product();
    run(DERIVGRIND, &["tape", "import", recording.argument(), "--output", target.argument()]).succeeds();
    assert_eq!(recording.read("dg-tape"), exchange);
    target.write("dg-output-bars", "1\n");
    target.evaluate().succeeds();
    assert_eq!(target.numbers("dg-input-bars"), [-4.0, 3.0]);
}

#[test]
fn what_is_no_recording() {
    let directory = tempfile::tempdir().unwrap();
    for command in ["stats", "print", "export", "import"] {
        let path = directory.path().to_str().unwrap();
        run(DERIVGRIND, &["tape", command, path]).says(65, &[path]);
    }
}
