//! Command lines: what is ours and what the program's, messages and exit codes.

mod common;

use std::path::Path;

use common::{DERIVGRIND, DERIVGRIND_CONFIG, TAPE_EVALUATION, run};

#[test]
fn help_and_version() {
    for command in [DERIVGRIND, DERIVGRIND_CONFIG, TAPE_EVALUATION] {
        let help = run(command, &["--help"]);
        assert!(help.succeeds().contains("Usage:"), "{help:?}");
        let version = run(command, &["--version"]);
        assert!(version.succeeds().contains(env!("CARGO_PKG_VERSION")), "{version:?}");
    }
}

#[test]
fn usage_errors() {
    run(DERIVGRIND, &[""; 0]).says(2, &["command"]);
    run(DERIVGRIND, &["--frobnicate", "prog"]).says(2, &["--frobnicate"]);
    run(DERIVGRIND, &["record"]).says(2, &["DIR"]);
    run(DERIVGRIND, &["record", "dir"]).says(2, &["PROGRAM"]);
    run(DERIVGRIND, &["run", "--bisect", "many", "prog"]).says(2, &["many"]);
    run(DERIVGRIND, &["tape", "frobnicate"]).says(2, &["frobnicate"]);
    run(TAPE_EVALUATION, &[""; 0]).says(2, &["DIR"]);
    run(TAPE_EVALUATION, &["dir", "--stats", "--print"]).says(2, &["--stats", "--print"]);
    run(DERIVGRIND_CONFIG, &["--cflags", "--incdir"]).says(2, &["--incdir"]);
}

#[test]
fn a_program_without_a_command_runs_in_forward_mode() {
    for line in [&["true", "--help"][..], &["forward", "--", "true", "--help"], &["--", "true", "--help"]] {
        run(DERIVGRIND, line).succeeds();
    }
}

#[test]
fn configuration_leads_to_the_headers() {
    let directory = run(DERIVGRIND, &["config", "--incdir"]).succeeds().trim().to_owned();
    assert!(Path::new(&directory).join("derivgrind.h").is_file());
    assert!(Path::new(&directory).join("valgrind/derivgrind.h").is_file());
    assert_eq!(run(DERIVGRIND_CONFIG, &["--cflags"]).succeeds(), format!("-I{directory}\n"));
    let commands = run(DERIVGRIND_CONFIG, &["--bindir"]).succeeds().trim().to_owned();
    assert_eq!(Path::new(&commands).join("derivgrind"), Path::new(DERIVGRIND).canonicalize().unwrap());
}

/// A copy of the commands under another prefix finds the headers of that prefix.
#[test]
fn configuration_of_an_installed_copy() {
    // On the file system of the command, for a link: a copy that is being written cannot be run when another test forks meanwhile.
    let prefix = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let root = prefix.path().canonicalize().unwrap();
    for directory in ["bin", "include"] {
        std::fs::create_dir(root.join(directory)).unwrap();
    }
    std::fs::hard_link(DERIVGRIND_CONFIG, root.join("bin/derivgrind-config")).unwrap();
    std::fs::write(root.join("include/derivgrind.h"), "").unwrap();
    let command = root.join("bin/derivgrind-config");
    let found = run(command.to_str().unwrap(), &["--incdir"]);
    assert_eq!(found.succeeds().trim(), root.join("include").to_str().unwrap());
}
