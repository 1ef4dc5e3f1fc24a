//! The headers in each language standard and with both compilers: no warning, and no effect outside the tool.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const WARNINGS: &[&str] = &[
    "-Wall",
    "-Wextra",
    "-pedantic",
    "-Werror",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Wcast-qual",
    "-Wdouble-promotion",
    "-Wpointer-arith",
    "-Wundef",
];
const C_STANDARDS: &[&str] = &["c89", "c99", "c11", "c17", "c2x", "gnu89", "gnu17"];
const CPP_STANDARDS: &[&str] = &["c++98", "c++11", "c++14", "c++17", "c++20", "c++2b"];
const OPTIMISATIONS: &[&str] = &["-O0", "-O3"];

/// What the program prints natively: each request returns its default, no variable changes.
const NATIVE_OUTPUT: &str = "\
inputf 0
walked 2
arrays 0
input 0
get_index 0
i 7
set_index 0
new_index 0
new_index_noactivityanalysis 0
created 9
index_to_file 0
set_dotvalue 0
get_dotvalue 0
direction 0
disable 0
mode 0
flags 0
output 0
outputf 0
1.5 8 0.25 3 10 11
";

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn run(command: &mut Command) -> Output {
    match command.output() {
        Ok(output) => output,
        Err(error) => panic!("{command:?}: {error}"),
    }
}

/// Runs a compiler on sources in `tests/c` and fails on the slightest warning.
fn compile(compiler: &str, options: &[&str], sources: &[&str], output: &Path) {
    let result = run(Command::new(compiler)
        .current_dir(directory("tests/c"))
        .args(WARNINGS)
        .args(options)
        .arg("-I")
        .arg(directory("include"))
        .args(sources)
        .arg("-o")
        .arg(output));
    assert!(result.status.success(), "{compiler} {options:?}:\n{}", String::from_utf8_lossy(&result.stderr));
}

fn every_standard(compiler: &str, language: &str, standards: &[&str]) {
    let temporary = tempfile::tempdir().unwrap();
    let program = temporary.path().join("program");
    for standard in standards {
        for optimisation in OPTIMISATIONS {
            let standard = format!("-std={standard}");
            let options = ["-x", language, &standard, optimisation];
            compile(compiler, &options, &["all_macros.c", "other_unit.c"], &program);
            let result = run(&mut Command::new(&program));
            assert!(result.status.success(), "{compiler} {options:?}: {}", result.status);
            assert_eq!(String::from_utf8_lossy(&result.stdout), NATIVE_OUTPUT, "{compiler} {options:?}");
        }
    }
}

#[test]
fn gcc_c() {
    every_standard("gcc", "c", C_STANDARDS);
}

#[test]
fn clang_c() {
    every_standard("clang", "c", C_STANDARDS);
}

#[test]
fn gcc_cpp() {
    every_standard("g++", "c++", CPP_STANDARDS);
}

#[test]
fn clang_cpp() {
    every_standard("clang++", "c++", CPP_STANDARDS);
}

/// The number of places where the bytes occur in a file.
fn occurrences(file: &Path, bytes: &[u8]) -> usize {
    std::fs::read(file).unwrap().windows(bytes.len()).filter(|window| window == &bytes).count()
}

/// The tool looks for these very bytes, whatever the assembler syntax of the compilation.
#[test]
fn exact_bytes() {
    const AMD64: &[u8] = b"\x48\xc1\xc7\x03\x48\xc1\xc7\x0d\x48\xc1\xc7\x3d\x48\xc1\xc7\x33\x48\x87\xdb";
    const X86: &[u8] = b"\xc1\xc7\x03\xc1\xc7\x0d\xc1\xc7\x1d\xc1\xc7\x13\x87\xdb";
    let temporary = tempfile::tempdir().unwrap();
    let object = temporary.path().join("object.o");
    for compiler in ["gcc", "clang"] {
        for (option, bytes) in [("-m64", AMD64), ("-m32", X86), ("-masm=att", AMD64), ("-masm=intel", AMD64)] {
            compile(compiler, &[option, "-c", "-O2", "-ffreestanding"], &["other_unit.c"], &object);
            // Input: new index, set index, to file. Output: get index, new index, to file. And the question for Valgrind.
            assert_eq!(occurrences(&object, bytes), 7, "{compiler} {option}");
        }
    }
}
