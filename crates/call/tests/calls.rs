//! Calls of a small C library, natively and recorded, and everything that can go wrong with them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use derivgrind_call::prototype::Scalar;
use derivgrind_call::{ArrayValue, CallError, Mode, Outcome, Patience, Session, Tools, Value};
use tempfile::TempDir;

const SOURCE: &str = r#"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double scalars(double x, int n, float y) { return n * x * x + sin(y); }
float single(const float *a, long n) { float s = 0; for (long i = 0; i < n; i++) s += (float)i * a[i] * a[i]; return s; }
double many(double a, double b, double c, double d, double e, double f, double g, double h, double i, const double *p, double j) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + i * j * p[0];
}
void outputs(const double *x, double *y, int n) { for (int i = 0; i < n; i++) y[i] = x[i] * x[(i + 1) % n]; }
void in_place(double *x, int n) { for (int i = 0; i < n; i++) x[i] *= x[i]; }
static double kept = 1;
double keeps(double x) { double y = kept * x; kept = x; return y; }
double lost(double x) { char text[40]; snprintf(text, sizeof text, "%.17g", x); return strtod(text, NULL); }
int is_null(const double *p) { return p == NULL; }
void writes_behind(double *x, int n) { x[n] = 1; }
void writes_far_behind(double *x, int n) { x[n + 1000] = 1; }
void writes_before(double *x, int n) { (void)n; x[-1] = 1; }
double reads_far(const double *x, int n) { return x[n + 2000]; }
void crashes(void) { *(volatile int *)8 = 1; }
void aborts(void) { abort(); }
void leaves(int code) { exit(code); }
void loops(void) { for (;;) { volatile int i = 0; (void)i; } }
void recurses(volatile char *p) { volatile char room[10000]; room[0] = *p; recurses(room); room[1] = 0; }
int divides(int x) { return 1000 / x; }
void asks(char *answer) { answer[0] = (char)getchar(); }
"#;

/// A session with the library.
struct Fixture {
    directory: TempDir,
    session: Session,
}

fn tools() -> Tools {
    let worker = PathBuf::from(env!("CARGO_BIN_EXE_derivgrind-worker"));
    let directory = worker.parent().unwrap();
    Tools::in_directory(directory)
        .expect("the command derivgrind is missing; build it first: cargo build --workspace --bins")
}

impl Fixture {
    fn new(mode: Mode) -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("functions.c");
        std::fs::write(&source, SOURCE).unwrap();
        let library = directory.path().join("libfunctions.so");
        let mut compiler = Command::new("gcc");
        compiler.args(["-O2", "-w", "-shared", "-fPIC"]).arg(&source).arg("-o").arg(&library).arg("-lm");
        assert!(compiler.status().unwrap().success());
        Fixture { session: Session::new(tools(), &library, mode), directory }
    }

    fn call(
        &mut self,
        symbol: &str,
        result: Option<Scalar>,
        arguments: &mut [Value<'_>],
    ) -> Result<Outcome, CallError> {
        self.limited(symbol, result, arguments, None)
    }

    fn limited(
        &mut self,
        symbol: &str,
        result: Option<Scalar>,
        arguments: &mut [Value<'_>],
        timeout: Option<Duration>,
    ) -> Result<Outcome, CallError> {
        let record = !self.directory.path().join("native").exists();
        self.session.call(symbol, result, arguments, record, &mut Patience { timeout, give_up: &mut || false })
    }

    fn native() -> Fixture {
        let fixture = Fixture::new(Mode::Native);
        std::fs::write(fixture.directory.path().join("native"), "").unwrap();
        fixture
    }
}

fn bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn numbers(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// An array that the function reads.
fn constant(source: &[u8], size: usize) -> Value<'_> {
    Value::Array(ArrayValue {
        size,
        count: source.len() / size,
        source: Some(source),
        target: None,
        input: true,
        output: false,
        name: "x",
    })
}

/// One that it writes.
fn written(target: &mut [u8]) -> Value<'_> {
    Value::Array(ArrayValue {
        size: 8,
        count: target.len() / 8,
        source: None,
        target: Some(target),
        input: false,
        output: true,
        name: "y",
    })
}

fn reverse(outcome: &Outcome, bars: &[f64]) -> Vec<f64> {
    outcome.tape.as_ref().unwrap().reverse(&[bars]).unwrap().swap_remove(0)
}

#[test]
fn scalars_of_each_class() {
    let mut fixture = Fixture::new(Mode::Recording);
    for x in [2.0, 3.0] {
        let mut arguments = [Value::Double(x), Value::Integer(5), Value::Float(0.5)];
        let outcome = fixture.call("scalars", Some(Scalar::Double), &mut arguments).unwrap();
        assert_eq!(f64::from_bits(outcome.bits), 5.0 * x * x + 0.5_f64.sin());
        assert_eq!(reverse(&outcome, &[2.0]), [20.0 * x, 2.0 * 0.5_f64.cos()]);
        assert_eq!(outcome.tape.as_ref().unwrap().forward(&[[1.0, 0.0]]).unwrap(), [[10.0 * x]]);
        assert_eq!(outcome.notes, "");
    }
}

#[test]
fn arguments_on_the_stack() {
    let mut fixture = Fixture::new(Mode::Recording);
    let array = bytes(&[3.0]);
    let mut arguments: Vec<Value<'_>> = (1..=9).map(|number| Value::Double(f64::from(number))).collect();
    arguments.push(constant(&array, 8));
    arguments.push(Value::Double(10.0));
    let outcome = fixture.call("many", Some(Scalar::Double), &mut arguments).unwrap();
    assert_eq!(f64::from_bits(outcome.bits), 204.0 + 270.0);
    assert_eq!(reverse(&outcome, &[1.0]), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 30.0, 90.0, 27.0]);
}

#[test]
fn arrays_in_single_precision() {
    let mut fixture = Fixture::new(Mode::Recording);
    let array: Vec<u8> = [1.0_f32, 2.0, 3.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let outcome = fixture.call("single", Some(Scalar::Float), &mut [constant(&array, 4), Value::Integer(3)]).unwrap();
    assert_eq!(f32::from_bits(outcome.bits as u32), 22.0);
    assert_eq!(reverse(&outcome, &[1.0]), [0.0, 4.0, 12.0]);
}

#[test]
fn arrays_of_results() {
    for mut fixture in [Fixture::new(Mode::Recording), Fixture::native()] {
        for values in [vec![1.0, 2.0, 3.0], vec![5.0; 3], (0..1000).map(f64::from).collect()] {
            let (array, mut target) = (bytes(&values), vec![0; 8 * values.len()]);
            let mut arguments = [constant(&array, 8), written(&mut target), Value::Integer(values.len() as u64)];
            let outcome = fixture.call("outputs", None, &mut arguments).unwrap();
            let next = |k: usize| values[(k + 1) % values.len()];
            let expected: Vec<f64> = values.iter().enumerate().map(|(k, value)| value * next(k)).collect();
            assert_eq!(numbers(&target), expected);
            if outcome.tape.is_some() {
                let mut bars = vec![0.0; values.len()];
                bars[1] = 1.0;
                let gradient = reverse(&outcome, &bars);
                assert_eq!((gradient[0], gradient[1], gradient[2]), (0.0, values[2], values[1]));
            }
        }
    }
}

#[test]
fn an_array_that_is_changed_is_input_and_output() {
    let mut fixture = Fixture::new(Mode::Recording);
    let (source, mut target) = (bytes(&[2.0, -3.0]), vec![0; 16]);
    let array = ArrayValue {
        size: 8,
        count: 2,
        source: Some(&source),
        target: Some(&mut target),
        input: true,
        output: true,
        name: "x",
    };
    let outcome = fixture.call("in_place", None, &mut [Value::Array(array), Value::Integer(2)]).unwrap();
    assert_eq!(reverse(&outcome, &[1.0, 10.0]), [4.0, -60.0]);
    assert_eq!(numbers(&target), [4.0, 9.0]);
}

/// What a call has left behind is a constant in the next one.
#[test]
fn calls_do_not_depend_on_each_other() {
    let mut fixture = Fixture::new(Mode::Recording);
    for (x, derivative) in [(3.0, 1.0), (4.0, 3.0), (5.0, 4.0)] {
        let outcome = fixture.call("keeps", Some(Scalar::Double), &mut [Value::Double(x)]).unwrap();
        assert_eq!(reverse(&outcome, &[1.0]), [derivative]);
        assert_eq!(outcome.tape.unwrap().inputs(), [1]);
    }
}

#[test]
fn null_pointers_are_passed() {
    let mut fixture = Fixture::native();
    let integer = Some(Scalar::Integer { bytes: 4, signed: true });
    assert_eq!(fixture.call("is_null", integer, &mut [Value::Null]).unwrap().bits, 1);
}

#[test]
fn the_standard_input_is_empty() {
    let mut fixture = Fixture::native();
    let mut answer = vec![0; 8];
    fixture.call("asks", None, &mut [written(&mut answer)]).unwrap();
    assert_eq!(answer[0], 0xff, "end of file");
}

#[test]
fn a_missing_library_or_function_is_named() {
    let mut session = Session::new(tools(), Path::new("/nowhere/libmissing.so"), Mode::Native);
    let mut patience = Patience { timeout: None, give_up: &mut || false };
    let error = session.find("f", &mut patience).unwrap_err();
    assert!(matches!(&error, CallError::Load(text) if text.contains("/nowhere/libmissing.so")), "{error}");
    let mut fixture = Fixture::native();
    let error = fixture.session.find("missing_function", &mut patience).unwrap_err();
    assert!(matches!(&error, CallError::Load(text) if text.contains("missing_function")), "{error}");
    fixture.session.find("scalars", &mut patience).unwrap();
}

/// A function that does not return as it should, its result's fate, and what the error has to name.
type Failing = (&'static str, fn(&mut [u8; 24]) -> Vec<Value<'_>>, &'static [&'static str]);

const FAILING: &[Failing] = &[
    ("writes_behind", |y| vec![written(y), Value::Integer(3)], &["behind the end of y", "3 elements"]),
    ("aborts", |_| vec![], &["SIGABRT"]),
    ("leaves", |_| vec![Value::Integer(3)], &["exit(3)"]),
    ("crashes", |_| vec![], &["SIGSEGV", "0x8"]),
    ("divides", |_| vec![Value::Integer(0)], &["SIGFPE"]),
    ("recurses", |y| vec![written(y)], &["SIGSEGV"]),
    ("writes_far_behind", |y| vec![written(y), Value::Integer(3)], &["behind the end of y"]),
    ("writes_before", |y| vec![written(y), Value::Integer(3)], &["before the beginning of y"]),
    ("reads_far", |y| vec![written(y), Value::Integer(3)], &["behind the end of y"]),
];

/// Each is an error that tells what happened, and the next call works.
fn all_fail(mut fixture: Fixture, failing: &[Failing]) {
    for (symbol, arguments, parts) in failing {
        let mut memory = [0; 24];
        let error = fixture.call(symbol, None, &mut arguments(&mut memory)).unwrap_err();
        let text = error.to_string();
        assert!(parts.iter().chain(&[*symbol]).all(|part| text.contains(part)), "{symbol}: {error:?} {text}");
        let outcome = fixture.call("keeps", Some(Scalar::Double), &mut [Value::Double(7.0)]).unwrap();
        assert_eq!(f64::from_bits(outcome.bits), 7.0, "{symbol}");
    }
}

#[test]
fn whatever_the_library_does_the_caller_lives_on() {
    all_fail(Fixture::native(), FAILING);
}

/// The same under the tool, where a process takes longer to start.
#[test]
fn whatever_the_library_does_while_recording_the_caller_lives_on() {
    all_fail(Fixture::new(Mode::Recording), &FAILING[..4]);
}

#[test]
fn endless_loops_are_stopped() {
    let mut fixture = Fixture::native();
    let error = fixture.limited("loops", None, &mut [], Some(Duration::from_millis(500))).unwrap_err().to_string();
    assert!(["loops", "0.5 s", "timeout"].iter().all(|part| error.contains(part)), "{error}");
    assert_eq!(fixture.call("keeps", Some(Scalar::Double), &mut [Value::Double(7.0)]).unwrap().bits, 7.0_f64.to_bits());
}

#[test]
fn what_is_not_differentiated_is_told() {
    let mut fixture = Fixture::new(Mode::Recording);
    let outcome =
        fixture.call("scalars", Some(Scalar::Double), &mut [Value::Double(1.0), Value::Integer(1), Value::Float(1.0)]);
    assert_eq!(outcome.unwrap().notes, "");
    let outcome = fixture.call("lost", Some(Scalar::Double), &mut [Value::Double(1.5)]).unwrap();
    assert_eq!(f64::from_bits(outcome.bits), 1.5);
    assert_eq!(reverse(&outcome, &[1.0]), [0.0]);
}

#[test]
fn a_caller_that_does_not_want_to_wait_gives_up() {
    let mut fixture = Fixture::native();
    let mut times = 0;
    let mut give_up = || {
        times += 1;
        times > 2
    };
    let patience = &mut Patience { timeout: None, give_up: &mut give_up };
    let error = fixture.session.call("loops", None, &mut [], false, patience).unwrap_err();
    assert!(matches!(error, CallError::Interrupted), "{error}");
}
