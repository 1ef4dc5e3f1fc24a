//! `derivgrind grad` and `demo` from the program to the printed derivatives.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{DERIVGRIND, Ended, ended, run};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A program that has been compiled in a directory of its own.
struct Program {
    directory: TempDir,
}

impl Program {
    /// Compiles the body of `main`.
    fn new(body: &str) -> Program {
        let program = Program { directory: tempfile::tempdir().unwrap() };
        let source = program.directory.path().join("program.c");
        let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../client/include");
        let text = format!(
            "#include <derivgrind.h>\n#include <math.h>\n#include <signal.h>\n#include <stdio.h>\n\
             #include <stdlib.h>\nint main(int argc, char** argv) {{ (void)argc; (void)argv; {body} }}\n"
        );
        std::fs::write(&source, text).unwrap();
        let status = Command::new("gcc")
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(headers)
            .arg(&source)
            .arg("-o")
            .arg(program.path())
            .arg("-lm")
            .status();
        assert!(status.unwrap().success());
        program
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("program")
    }

    /// `derivgrind grad` with options.
    fn grad(&self, options: &[&str]) -> Ended {
        let path = self.path();
        let line: Vec<&str> =
            [&["grad"], options, &["--", path.to_str().unwrap()]].iter().copied().flatten().copied().collect();
        run(DERIVGRIND, &line)
    }
}

const PRODUCT: &str = "double x = 3, y = -4, z; DG_INPUTF(x); DG_INPUTF(y); z = x * y; DG_OUTPUTF(z); return 0;";

#[test]
fn a_table_for_people() {
    let expected = "\
output  value
     1  -12.0

input  value  derivative
    1    3.0        -4.0
    2   -4.0         3.0
";
    assert_eq!(Program::new(PRODUCT).grad(&[]).succeeds(), expected);
}

#[test]
fn json_for_programs() {
    let ended = Program::new(PRODUCT).grad(&["--json"]);
    let parsed: Value = serde_json::from_str(ended.succeeds()).unwrap();
    assert_eq!(parsed["derivatives"], json!([[-4.0, 3.0]]));
    assert_eq!((&parsed["inputs"][1]["value"], &parsed["outputs"][0]["value"]), (&json!(-4.0), &json!(-12.0)));
    assert_eq!(ended.stdout.lines().count(), 1);
}

#[test]
fn with_json_the_standard_output_holds_nothing_else() {
    let program = Program::new(
        "double x = 2; DG_INPUTF(x); x *= x; puts(\"printed\"); fputs(\"error\\n\", stderr); DG_OUTPUTF(x); return 0;",
    );
    let table = program.grad(&[]);
    assert!(table.stdout.starts_with("printed\noutput"), "{table:?}");
    assert_eq!(table.stderr, "error\n");
    let json = program.grad(&["--json"]);
    assert!(serde_json::from_str::<Value>(&json.stdout).is_ok(), "{json:?}");
    for line in ["printed", "error"] {
        assert!(json.stderr.lines().any(|found| found == line), "{json:?}");
    }
}

#[test]
fn a_matrix_for_numpy() {
    let program = Program::new(
        "float x[3] = {1, 2, 3}; double y[20]; int i; for (i = 0; i < 3; i++) DG_INPUTF(x[i]);\
         for (i = 0; i < 20; i++) { y[i] = i * (double)x[i % 3]; DG_OUTPUTF(y[i]); } return 0;",
    );
    let file = program.directory.path().join("jacobian.npy");
    // Output 1 is 0 times an input.
    program
        .grad(&["--npy", file.to_str().unwrap()])
        .says(0, &["output 1 depends on inputs, but all its derivatives are 0"]);
    let bytes = std::fs::read(file).unwrap();
    let (header, data) = bytes.split_at(bytes.len() - 20 * 3 * 8);
    assert!(String::from_utf8_lossy(header).contains("'shape': (20, 3)"));
    for (position, value) in data.chunks_exact(8).enumerate() {
        let (output, input) = (position / 3, position % 3);
        let expected = if output % 3 == input { output as f64 } else { 0.0 };
        assert_eq!(f64::from_le_bytes(value.try_into().unwrap()), expected, "d(output {output})/d(input {input})");
    }
    program.grad(&["--npy", "/nowhere/jacobian.npy"]).says(73, &["/nowhere/jacobian.npy"]);
}

#[test]
fn an_output_that_no_input_has_an_influence_on() {
    let program = Program::new("double x = 3, y = 5; DG_INPUTF(x); DG_OUTPUTF(y); x = 2 * x; DG_OUTPUTF(x); return 0;");
    let ended = program.grad(&[]);
    ended.says(0, &["output 1 does not depend on any input"]);
    assert!(ended.stdout.contains("d(output 2)"), "{ended:?}");
    program.grad(&["--quiet"]).succeeds();
}

#[test]
fn nothing_to_differentiate() {
    for (body, words) in [
        ("return 0;", "no inputs and outputs"),
        ("double x = 1; DG_INPUTF(x); return 0;", "no outputs"),
        ("double x = 1; DG_OUTPUTF(x); return 0;", "no inputs"),
    ] {
        Program::new(body).grad(&[]).says(65, &[words, "DG_INPUTF"]);
    }
}

#[test]
fn the_exit_code_is_the_programs() {
    let program = Program::new("double x = 3; DG_INPUTF(x); DG_OUTPUTF(x); exit(42);");
    let ended = program.grad(&[]);
    assert_eq!(ended.code, Some(42));
    assert!(ended.stdout.contains("1.0"), "{ended:?}");
    let program = Program::new("double x = 3; DG_INPUTF(x); DG_OUTPUTF(x); raise(SIGTERM); return 0;");
    let ended = program.grad(&[]);
    ended.says(128 + libc::SIGTERM, &["signal 15"]);
    assert!(ended.stdout.contains("1.0"), "{ended:?}");
}

#[test]
fn standard_input_and_arguments_are_the_programs() {
    let program = Program::new(
        "double x; if (scanf(\"%lf\", &x) != 1) return 1; DG_INPUTF(x); x *= atof(argv[1]); DG_OUTPUTF(x); return 0;",
    );
    let mut child = Command::new(DERIVGRIND)
        .args(["grad", "--json", "--"])
        .arg(program.path())
        .arg("2.5")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"4\n").unwrap();
    let ended = ended(child.wait_with_output().unwrap());
    let parsed: Value = serde_json::from_str(ended.succeeds()).unwrap();
    assert_eq!(parsed["derivatives"], json!([[2.5]]));
    assert_eq!(parsed["outputs"][0]["value"], json!(10.0));
}

#[test]
fn temporary_files_are_removed() {
    let place = tempfile::tempdir().unwrap();
    let program = Program::new(PRODUCT);
    let grad = |place: &Path| {
        let output = Command::new(DERIVGRIND).args(["grad", "--"]).arg(program.path()).env("TMPDIR", place).output();
        ended(output.unwrap())
    };
    grad(place.path()).succeeds();
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    grad(Path::new("/nowhere")).says(73, &["/nowhere", "TMPDIR"]);
}

#[test]
fn the_demonstration_is_right() {
    let ended = run(DERIVGRIND, &["demo"]);
    let text = ended.succeeds();
    for word in ["amplitude", "damping", "frequency", "phase", "DG_INPUTF", "exact up to rounding"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn the_demonstration_without_a_compiler() {
    let output = Command::new(DERIVGRIND).arg("demo").env("CC", "/nowhere/cc").output().unwrap();
    ended(output).says(69, &["/nowhere/cc", "CC"]);
}

/// The Rust interface: this test runs the next one, in this very executable, under derivgrind.
#[test]
fn a_rust_program() {
    let executable = std::env::current_exe().unwrap();
    let line =
        ["grad", "--json", "--", executable.to_str().unwrap(), "--exact", "--ignored", "rust_program_that_is_recorded"];
    let ended = run(DERIVGRIND, &line);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let parsed: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(parsed["derivatives"], json!([[-1.0, 0.0, 0.25], [0.0, 3.0, 0.0]]));
    assert_eq!(parsed["inputs"][2]["value"], json!(-2.0));
}

#[test]
#[ignore = "does something under derivgrind only, where another test runs it"]
fn rust_program_that_is_recorded() {
    use derivgrind_client::{Mode, disable, input, inputs, mode, output, outputs};
    assert_eq!(mode(), Mode::Recording);
    let (mut x, mut y) = ([0.5_f64, 1.5], -2.0_f32);
    inputs(&mut x);
    input(&mut y);
    let product = x[0] * f64::from(y);
    output(&(product / 2.0));
    let square = x[1] * x[1];
    let constant = {
        let _disabled = disable();
        std::hint::black_box(x[0] * x[1])
    };
    outputs(&[square + constant]);
}
