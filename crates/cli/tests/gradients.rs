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
        Program::with("", body)
    }

    /// The same with definitions before it.
    fn with(definitions: &str, body: &str) -> Program {
        let program = Program { directory: tempfile::tempdir().unwrap() };
        let source = program.directory.path().join("program.c");
        let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../client/include");
        let text = format!(
            "#define _GNU_SOURCE\n#include <derivgrind.h>\n#include <fenv.h>\n#include <math.h>\n#include <pthread.h>\n#include <signal.h>\n#include <stdio.h>\n\
             #include <stdlib.h>\n#include <sys/wait.h>\n#include <time.h>\n#include <unistd.h>\n{definitions}\nint main(int argc, char** argv) {{ (void)argc; (void)argv; {body} }}\n"
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

impl Program {
    /// `derivgrind check`.
    fn check(&self) -> Ended {
        run(DERIVGRIND, &["check", "--", self.path().to_str().unwrap()])
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

/// The Rust interface: this test runs itself, in this very executable, under derivgrind.
#[test]
fn a_rust_program() {
    if derivgrind_client::mode() == derivgrind_client::Mode::Recording {
        return rust_program_that_is_recorded();
    }
    let executable = std::env::current_exe().unwrap();
    let line = ["grad", "--json", "--", executable.to_str().unwrap(), "--exact", "a_rust_program"];
    let ended = run(DERIVGRIND, &line);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let parsed: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(parsed["derivatives"], json!([[-1.0, 0.0, 0.25], [0.0, 3.0, 0.0]]));
    assert_eq!(parsed["inputs"][2]["value"], json!(-2.0));
}

fn rust_program_that_is_recorded() {
    use derivgrind_client::{disable, input, inputs, output, outputs};
    let (mut x, mut y) = ([0.5_f64, 1.5], -2.0_f32);
    inputs(&mut x);
    input(&mut y);
    let product = x[0] * f64::from(y);
    output(&(product / 2.0));
    // Before differentiation is disabled, and the sum afterwards, whatever the compiler thinks of the order.
    let square = std::hint::black_box(x[1] * x[1]);
    let constant = std::hint::black_box({
        let _disabled = disable();
        std::hint::black_box(x[0] * x[1])
    });
    outputs(&[square + constant]);
}

#[test]
fn forward_runs_give_the_same_table() {
    let program = Program::new(
        "double x = 1.3, y = 0.7; float z = 2.5f; DG_INPUTF(x); DG_INPUTF(y); DG_INPUTF(z); puts(\"once\");\
         double r = x * y / z, s = fmax(x, y) * pow(x, y) - fabs(y - x); DG_OUTPUTF(r); DG_OUTPUTF(s); return 3;",
    );
    let [recorded, forward] = ["--mode=record", "--mode=forward"].map(|mode| {
        let ended = program.grad(&["--json", mode]);
        assert_eq!(ended.code, Some(3), "{ended:?}");
        assert_eq!(ended.stderr.matches("once").count(), 1, "{ended:?}");
        serde_json::from_str::<Value>(&ended.stdout).unwrap()
    });
    for (row, other) in [0, 1].into_iter().flat_map(|row| [0, 1, 2].map(|input| (row, input))) {
        let entry = |table: &Value| table["derivatives"][row][other].as_f64().unwrap();
        // One operation on the binary32 input's dot value rounds to 2^-24.
        let tolerance = if other == 2 { 1e-7 } else { 1e-14 };
        assert!((entry(&recorded) - entry(&forward)).abs() <= tolerance, "{recorded} {forward}");
    }
    assert_eq!(recorded["inputs"][1]["value"], forward["inputs"][1]["value"]);
    assert_eq!(recorded["outputs"][1]["value"], forward["outputs"][1]["value"]);
}

#[test]
fn several_inputs_share_a_run() {
    let program = Program::new(
        "double x[11], r = 0, s = 1; int i; for (i = 0; i < 11; i++) { x[i] = 1 + 0.25 * i; DG_INPUTF(x[i]); }\
         for (i = 0; i < 11; i++) { r += sin(x[i]) * x[(i + 3) % 11]; s *= fabs(x[i] - 2.1) / 0.7; }\
         r /= sqrt(s); DG_OUTPUTF(r); DG_OUTPUTF(s); return 0;",
    );
    let one_by_one = program.grad(&["--mode=forward", "--directions=1"]);
    one_by_one.says(0, &["11 runs, one for each input"]);
    // With any number of directions the same numbers come out, to the last bit.
    for (directions, message) in [
        ("--directions=2", "6 runs for 11 inputs, with up to 2 of them in each"),
        ("--directions=3", "4 runs for 11 inputs, with up to 3 of them in each"),
        ("--directions=5", "3 runs for 11 inputs, with up to 5 of them in each"),
        ("--directions=6", "2 runs for 11 inputs, with up to 6 of them in each"),
        ("--directions=8", "2 runs for 11 inputs, with up to 8 of them in each"),
    ] {
        let ended = program.grad(&["--mode=forward", directions]);
        ended.says(0, &[message]);
        assert_eq!(ended.stdout, one_by_one.stdout, "{directions}");
    }
    program.grad(&["--mode=forward"]).says(0, &["3 runs for 11 inputs, with up to 4 of them in each"]);
    program.grad(&["--directions=2"]).says(2, &["--mode=forward"]);
}

#[test]
fn a_program_that_cannot_be_repeated_has_no_forward_runs() {
    let program = Program::new(
        "double x = 1, y = 2; FILE* f = fopen(argv[0], \"r\"); (void)f; DG_INPUTF(x); DG_INPUTF(y);\
         struct timespec t; clock_gettime(CLOCK_REALTIME, &t); x *= y + (double)t.tv_nsec; DG_OUTPUTF(x); return 0;",
    );
    program.grad(&["--mode=forward", "--directions=1"]).says(69, &["does not compute the same", "--mode=record"]);
    program.grad(&["--mode=forward"]).says(0, &["one run", "all 2 inputs"]);
}

#[test]
fn few_inputs_and_many_outputs_are_evaluated_forwards() {
    let program = Program::new(
        "double x = 3, y; int i; DG_INPUTF(x); for (i = 0; i < 4; i++) { y = i * x; DG_OUTPUTF(y); } return 0;",
    );
    let ended = program.grad(&[]);
    ended.says(0, &["1 input and 4 outputs"]);
    assert!(ended.stdout.ends_with("    1    3.0          0.0          1.0          2.0          3.0\n"), "{ended:?}");
    assert_eq!(program.grad(&["--mode=record"]).stdout, ended.stdout);
}

#[test]
fn right_derivatives_pass_the_check() {
    let program = Program::new(
        "double x = 1.3, y = 0.0, r; float z = 2.5f; DG_INPUTF(x); DG_INPUTF(y); DG_INPUTF(z);\
         r = sqrt(x) * exp(y) / z + log(x + y); DG_OUTPUTF(r); return 0;",
    );
    let ended = program.check();
    ended.says(0, &["3 of 3 derivatives agree"]);
    assert_eq!(ended.stdout.matches("agrees").count(), 3, "{ended:?}");
}

/// The library's division of complex numbers scales them by 2^52, which is also what libraries round with.
#[test]
fn complex_division_in_the_library() {
    for part in ["1.0", "1.5", "3.0", "0.75"] {
        Program::new(&format!(
            "double x = -0.75, y; _Complex double z; DG_INPUTF(x); z = 1 / __builtin_complex({part}, x);\
             y = __real__ z + 2 * __imag__ z; DG_OUTPUTF(y); return 0;"
        ))
        .check()
        .says(0, &["1 of 1 derivatives agree"]);
    }
}

#[test]
fn more_inputs_are_checked_in_random_directions() {
    let program = Program::new(
        "double x[100], r = 0; int i; for (i = 0; i < 100; i++) { x[i] = 0.1 * i; DG_INPUTF(x[i]); }\
         for (i = 0; i < 99; i++) r += x[i] * x[i + 1] * sin(x[i]); DG_OUTPUTF(r); return 0;",
    );
    program.check().says(0, &["8 of 8 derivatives agree"]);
}

/// The program declares a wrong partial derivative: it says that the square's is three times the number.
#[test]
fn a_wrong_derivative_is_found() {
    let program = Program::new(
        "double x = 1.5, y, z, wrong = 3 * x, none = 0; unsigned long long i, passive = 0, j = 0; DG_INPUTF(x);\
         DG_DISABLE(1, 0); y = x * x; DG_DISABLE(0, 1); DG_GET_INDEX(&x, &i);\
         DG_NEW_INDEX(&i, &passive, &wrong, &none, &j, &y); DG_SET_INDEX(&y, &j); z = y + x; DG_OUTPUTF(z); return 0;",
    );
    let ended = program.check();
    ended.says(1, &["1 DIFFER"]);
    assert!(ended.stdout.contains("DIFFERS"), "{ended:?}");
}

/// The test hook makes one rule wrong, in recording and in forward mode alike.
#[test]
fn a_wrong_rule_is_found() {
    let program = Program::new(
        "double x = 1.5, y = 2.5, z; DG_INPUTF(x); DG_INPUTF(y); z = x / y + x * y; DG_OUTPUTF(z); return 0;",
    );
    let wrong = |rule: &str, options: &[&str]| {
        let mut command = Command::new(DERIVGRIND);
        command.env("DERIVGRIND_WRONG_RULE", rule).args(options).arg("--").arg(program.path());
        ended(command.output().unwrap())
    };
    wrong("div:mul", &["check"]).says(1, &["2 DIFFER"]);
    wrong("sqrt:negate", &["check"]).says(0, &["2 of 2 derivatives agree"]);
    wrong("div:pow", &["check"]).says(0, &["ignored", "2 of 2 derivatives agree"]);

    let right = program.grad(&["--mode=record"]).stdout;
    assert_eq!(program.grad(&["--mode=forward"]).stdout, right);
    let recorded = wrong("div:mul", &["grad", "--mode=record"]);
    assert_ne!(recorded.stdout, right);
    assert_eq!(wrong("div:mul", &["grad", "--mode=forward"]).stdout, recorded.stdout);
}

/// Rounding to binary32 between binary64 inputs and outputs is noise, which the program is asked about; a wrong derivative shows nevertheless.
#[test]
fn the_check_follows_the_noise_of_the_program() {
    let program = Program::new(
        "double x = 1.5, y = -0.75, z; float f; DG_INPUTF(x); DG_INPUTF(y); f = (float)x; z = f / y; DG_OUTPUTF(z); return 0;",
    );
    program.check().says(0, &["2 of 2 derivatives agree"]);
    let mut command = Command::new(DERIVGRIND);
    command.args(["check", "--"]).arg(program.path()).env("DERIVGRIND_WRONG_RULE", "div:mul");
    ended(command.output().unwrap()).says(1, &["2 DIFFER"]);
}

#[test]
fn the_demonstration_s_program_passes_the_check() {
    let directory = tempfile::tempdir().unwrap();
    let [manifest, program] = [Path::new(env!("CARGO_MANIFEST_DIR")), &directory.path().join("demo")];
    let mut compiler = Command::new("gcc");
    compiler.args(["-O2", "-o"]).arg(program).arg(manifest.join("src/commands/demo.c")).arg("-I");
    assert!(compiler.arg(manifest.join("../client/include")).arg("-lm").status().unwrap().success());
    let ended = run(DERIVGRIND, &["check", "--", program.to_str().unwrap()]);
    assert!(ended.code == Some(0) && ended.stderr.contains("4 of 4 derivatives agree"), "{ended:?}");
}

#[test]
fn a_kink_is_no_error() {
    let program = Program::new("double x = 0, y; DG_INPUTF(x); y = fabs(x); DG_OUTPUTF(y); return 0;");
    program.check().says(0, &["1 at a kink"]);
}

#[test]
fn dot_values_are_set_and_read_by_requests() {
    let program = Program::new(
        "double x = 4, dx = 1, y, dy = 7; float f = 2, df = 3, g; unsigned long long index = 5; DG_SET_DOTVALUE(&x, &dx, 8);\
         DG_SET_DOTVALUE(&f, &df, 4); y = x * x * x; DG_GET_DOTVALUE(&y, &dy, 8); printf(\"%g\\n\", dy);\
         g = f * f; DG_GET_DOTVALUE(&g, &df, 4); printf(\"%g %c\\n\", df, (int)DG_GET_MODE);\
         DG_DISABLE(1, 0); y = x * x; DG_GET_DOTVALUE(&y, &dy, 8); printf(\"%g\\n\", dy);\
         y = x; DG_DISABLE(0, 1); y = y * x; DG_GET_DOTVALUE(&y, &dy, 8); printf(\"%g\\n\", dy);\
         DG_GET_INDEX(&y, &index); printf(\"%d\\n\", (int)index); return 0;",
    );
    let path = program.path();
    let ended = run(DERIVGRIND, &["forward", "--", path.to_str().unwrap()]);
    assert_eq!(ended.succeeds(), "48\n12 d\n0\n8\n5\n");
}

#[test]
fn dot_values_in_threads_handlers_and_children() {
    let program = Program::with(
        "static volatile double input = 1.5; static double results[4];\
         static void handler(int number) { double y = input * number; (void)y; }\
         static void* work(void* argument) { long k = (long)argument; double y = input; int i;\
           for (i = 0; i < 1000; i++) { y += sin(y) * 0.001; if (i % 100 == 0) raise(SIGUSR1); }\
           results[k] = y * (double)k; return 0; }",
        "double dot = 1, y = 1.5, y_dot = 1, z; pthread_t threads[4]; long k; int i; signal(SIGUSR1, handler);\
         DG_SET_DOTVALUE(&input, &dot, 8);\
         for (k = 0; k < 4; k++) pthread_create(threads + k, 0, work, (void*)k);\
         for (k = 0; k < 4; k++) pthread_join(threads[k], 0);\
         for (i = 0; i < 1000; i++) { y_dot += cos(y) * y_dot * 0.001; y += sin(y) * 0.001; }\
         for (k = 0; k < 4; k++) { DG_GET_DOTVALUE(&results[k], &dot, 8); printf(\"%d\\n\", fabs(dot - (double)k * y_dot) < 1e-12); }\
         fflush(stdout);\
         if (fork() == 0) { z = results[1] * results[1]; DG_GET_DOTVALUE(&z, &dot, 8);\
           printf(\"%d\\n\", fabs(dot - 2 * y * y_dot) < 1e-12); fflush(stdout); _exit(0); }\
         wait(0); return 0;",
    );
    let path = program.path();
    assert_eq!(run(DERIVGRIND, &["forward", "--", path.to_str().unwrap()]).succeeds(), "1\n1\n1\n1\n1\n");
}

/// A program with unmasked exceptions is not ended by operations that it does not know of, and its exception flags stay clear.
#[test]
fn passive_values_raise_no_exceptions_in_forward_mode() {
    let program = Program::new(
        "volatile double a = 4, zero = 0, infinite = INFINITY, b; volatile float f[3] = {2, 1, 4}; double dot = 1; float sum = 0; int i;\
         feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW); DG_SET_DOTVALUE(&a, &dot, 8);\
         b = a * a / (a + zero) + sqrt(zero) + 1 / infinite; b = b > infinite ? infinite : b;\
         for (i = 0; i < 3; i++) sum += f[i] * (float)b / f[2 - i];\
         DG_GET_DOTVALUE(&b, &dot, 8); printf(\"%g %g %d\\n\", (double)sum, dot, fetestexcept(FE_ALL_EXCEPT & ~FE_INEXACT)); return 0;",
    );
    let path = program.path();
    assert_eq!(run(DERIVGRIND, &["forward", "--", path.to_str().unwrap()]).succeeds(), "14 1 0\n");
}

/// A recorded program's children record beside it, and a new recording removes theirs.
#[test]
fn executed_programs_have_recordings_of_their_own() {
    let program = Program::new(
        "if (argc > 1) { execl(argv[0], argv[0], (char *)0); return 1; } \
         double x = 3, y; DG_INPUTF(x); y = x * x * x; DG_OUTPUTF(y); return 0;",
    );
    let (path, tape) = (program.path(), program.directory.path().join("tape"));
    for _ in 0..2 {
        let status = Command::new(DERIVGRIND)
            .args(["--quiet", "record", "--trace-children"])
            .args([tape.as_os_str(), "--".as_ref(), path.as_os_str(), "again".as_ref()])
            .status();
        assert!(status.unwrap().success());
        let executed = std::fs::read_dir(&tape).unwrap().map(|entry| entry.unwrap().path());
        let executed: Vec<PathBuf> = executed.filter(|path| path.is_dir()).collect();
        assert_eq!(executed.len(), 1, "{executed:?}");
        std::fs::write(executed[0].join("dg-output-bars"), "1\n").unwrap();
        run(DERIVGRIND, &["eval", executed[0].to_str().unwrap()]).succeeds();
        assert_eq!(std::fs::read_to_string(executed[0].join("dg-input-bars")).unwrap().trim(), "27.0");
        std::fs::remove_file(executed[0].join("dg-output-bars")).unwrap();
    }
}

/// Arguments of type `long double` are in memory. When the loader has found the function for its first call, all registers are passive.
#[test]
fn first_call_of_a_function_whose_argument_is_in_memory() {
    let program = Program::new(
        "volatile double x = 0.875; double y, z; DG_INPUTF(x);
         y = sinl(x); z = hypotl(x, 3) * cosl(x); DG_OUTPUTF(y); DG_OUTPUTF(z); return 0;",
    );
    let (x, root) = (0.875f64, 0.875f64.hypot(3.0));
    let expected = [x.cos(), x / root * x.cos() - root * x.sin()];
    for mode in ["record", "forward"] {
        let ended = program.grad(&["--json", "--mode", mode]);
        assert_eq!(ended.stderr, "", "{mode}");
        let found: Value = serde_json::from_str(&ended.stdout).unwrap();
        for (output, expected) in expected.into_iter().enumerate() {
            let found = found["derivatives"][output][0].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-14, "{mode}: {found} instead of {expected}");
        }
    }
}

/// On many processors code without AVX is a hundred times slower while upper halves of registers are in use, even if there are zeros in them. The processor tells
/// whether they are (XGETBV with 1 in ECX, Intel SDM volume 1, chapter 13.2).
#[test]
fn code_without_avx_finds_upper_halves_unused() {
    const TELLS: u32 = 1 << 2;
    // SAFETY: cpuid is available on every amd64 processor.
    #[allow(unused_unsafe)]
    let tells = is_x86_feature_detected!("avx") && unsafe { std::arch::x86_64::__cpuid_count(0xd, 1) }.eax & TELLS != 0;
    if !tells {
        return;
    }
    let program = Program::with(
        "static unsigned upper_in_use(void) { unsigned low, high; __asm__ volatile(\"xgetbv\" : \"=a\"(low), \"=d\"(high) : \"c\"(1)); return low >> 2 & 1; }",
        "double x = 2, one = 1, y = 0; unsigned used = 0; DG_INPUTF(x); DERIVGRIND_SET_DOTVALUE(&x, &one, sizeof x);
         __asm__ volatile(\"vzeroupper\");
         for (int i = 0; i < 100; i++) { y = y * 0.5 + x * i; used += upper_in_use(); }
         DG_OUTPUTF(y); printf(\"%u\\n\", used); return 0;",
    );
    let path = program.path();
    let path = path.to_str().unwrap();
    assert_eq!(run(path, &[""; 0]).succeeds(), "0\n");
    let tape = program.directory.path().join("tape");
    for options in [&["run"][..], &["record", tape.to_str().unwrap()], &["forward"], &["forward", "--directions=4"]] {
        let line: Vec<&str> = options.iter().copied().chain(["--", path]).collect();
        assert_eq!(run(DERIVGRIND, &line).succeeds(), "0\n", "{options:?}");
    }
}
