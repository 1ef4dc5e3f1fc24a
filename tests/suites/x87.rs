//! x87 and MMX: derivatives of `tests/programs/x87.c` and `x87.f90` in recording and forward mode against difference quotients of the native program in
//! `long double`; with `float` and `double` on x87, too.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, Result};
use derivgrind_tests::numbers::{SplitMix64, close, dot, magnitude};
use derivgrind_tests::recording::{self, Recording};
use derivgrind_tests::suite::{Outcome, Suite, fail};
use derivgrind_tests::{compiler, full, process};

const LIMIT: Duration = Duration::from_secs(120);
/// Truncation (third derivative times the squared step, 2^-40) and rounding (2^-64 by the step, 2^-20) of the difference quotients.
const DIFFERENCE_TOLERANCE: f64 = 1e-9;

/// Formulas that round active values to `float`, and so their dot values.
const ROUNDED_TO_SINGLE: [&str; 3] = ["precisions", "variables", "arrays"];

/// A type on x87.
#[derive(Clone, Copy)]
struct Real {
    name: &'static str,
    options: &'static [&'static str],
    /// Largest relative error of a derivative that is computed with values of this type.
    tolerance: f64,
}

const EXTENDED: Real = Real { name: "long-double", options: &[], tolerance: DIFFERENCE_TOLERANCE };
const DOUBLE: Real =
    Real { name: "double", options: &["-DREAL=double", "-mfpmath=387"], tolerance: DIFFERENCE_TOLERANCE };
const SINGLE: Real = Real { name: "float", options: &["-DREAL=float", "-mfpmath=387"], tolerance: 1e-5 };

fn main() -> ExitCode {
    let mut suite = Suite::new("x87");
    let reference: Arc<OnceLock<Vec<Line>>> = Arc::default();
    let mut combinations = vec![
        ("gcc", vec!["-O0"], EXTENDED),
        ("gcc", vec!["-O3"], EXTENDED),
        ("gcc", vec!["-O3"], DOUBLE),
        ("gcc", vec!["-O0"], SINGLE),
        ("clang", vec!["-O2"], EXTENDED),
    ];
    if full() {
        combinations.extend([
            ("gcc", vec!["-O2"], EXTENDED),
            ("gcc", vec!["-O3", "-march=native"], EXTENDED),
            ("gcc", vec!["-O2", "-static"], EXTENDED),
            ("gcc", vec!["-O0"], DOUBLE),
            ("gcc", vec!["-O3"], SINGLE),
            ("clang", vec!["-O0"], EXTENDED),
            ("clang", vec!["-O3", "-march=native"], EXTENDED),
        ]);
    }
    for (compiler, options, real) in combinations {
        let name = format!("{compiler}{}/{}", options.concat(), real.name);
        let program = Arc::new(Program { compiler, options, real, reference: Arc::clone(&reference) });
        let cases: [(&str, Check); 3] = [("recording", recorded), ("forward", forward), ("requests", requests)];
        for (mode, check) in cases {
            let program = Arc::clone(&program);
            suite.case(format!("{name}/{mode}"), move || check(&program));
        }
    }
    for options in [vec!["-O0"], vec!["-O3"]] {
        let cases: [(&str, Check); 2] = [("recording", recorded), ("forward", forward)];
        for (mode, check) in cases {
            let (name, options) = (format!("gfortran{}/real10/{mode}", options.concat()), options.clone());
            let program = Program { compiler: "gfortran", options, real: EXTENDED, reference: Arc::default() };
            suite.case(name, move || check(&program));
        }
    }
    let program = Program { compiler: "gcc", options: vec!["-O2"], real: EXTENDED, reference };
    suite.case("gcc-O2/long-double/directions", move || directions(&program));
    suite.run()
}

/// One aspect of a program.
type Check = fn(&Program) -> Outcome;

/// What the program prints for a formula.
#[derive(Clone, Debug)]
struct Line {
    name: String,
    numbers: Vec<f64>,
}

fn lines(text: &str) -> Result<Vec<Line>> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next().context("an empty line")?.to_owned();
        let numbers = words.map(str::parse).collect::<Result<_, _>>().with_context(|| format!("{line:?}"))?;
        Ok(Line { name, numbers })
    };
    text.lines().map(line).collect()
}

struct Program {
    compiler: &'static str,
    options: Vec<&'static str>,
    real: Real,
    reference: Arc<OnceLock<Vec<Line>>>,
}

impl Program {
    fn compiled(&self, directory: &Path) -> Result<PathBuf, derivgrind_tests::suite::Obstacle> {
        let program = directory.join("x87");
        self.compile(&program, self.compiler, &[&self.options[..], self.real.options].concat())?;
        Ok(program)
    }

    fn compile(&self, program: &Path, compiler: &str, options: &[&str]) -> Outcome {
        let sources = compiler::programs();
        if self.compiler != "gfortran" {
            return compiler::compile(compiler, &sources.join("x87.c"), program, &[options, &["-lm"]].concat());
        }
        let requests = sources.join("x87_fortran.c");
        let requests = requests.to_string_lossy();
        let options = [options, &[&*requests]].concat();
        compiler::compile("gfortran", &sources.join("x87.f90"), program, &options)
    }

    /// Value and gradient of each formula in `long double`.
    fn reference(&self, directory: &Path) -> Result<&[Line], derivgrind_tests::suite::Obstacle> {
        if let Some(reference) = self.reference.get() {
            return Ok(reference);
        }
        let program = directory.join("reference");
        self.compile(&program, "gcc", &["-O1"])?;
        let finished = process::run(process::command(&program, directory).arg("--reference"))?;
        let reference = lines(&finished.successful("native run")?.text())?;
        Ok(self.reference.get_or_init(|| reference))
    }

    /// The value and gradient of a formula.
    fn gradient(&self, directory: &Path, name: &str) -> Result<[f64; 2], derivgrind_tests::suite::Obstacle> {
        let line = self.reference(directory)?.iter().find(|line| line.name == name);
        let Some(Line { numbers, .. }) = line else { return fail(format!("{name}: no reference")) };
        match numbers[..] {
            [_, first, second] => Ok([first, second]),
            _ => fail(format!("{name}: malformed reference")),
        }
    }

    /// Largest relative difference between forward mode and a forward sweep over a tape.
    fn sweep_tolerance(&self, name: &str) -> f64 {
        match self.real.name {
            "float" => 1e-5,
            _ if ROUNDED_TO_SINGLE.contains(&name) => 1e-6,
            _ => 1e-13,
        }
    }

    /// Largest relative difference between forward mode and difference quotients.
    fn tolerance(&self, name: &str) -> f64 {
        self.real.tolerance.max(self.sweep_tolerance(name))
    }
}

fn report(wrong: &[String]) -> Outcome {
    if wrong.is_empty() { Ok(()) } else { fail(wrong.join("; ")) }
}

/// Output as natively, and the gradient of a reverse sweep.
fn recorded(program: &Program) -> Outcome {
    let scratch = compiler::scratch("x87")?;
    let executable = program.compiled(scratch.path())?;
    let native = process::run(&mut process::command(&executable, scratch.path()))?.successful("native run")?;
    let recording = Recording::make(&scratch.path().join("tape"), &executable, &[] as &[&str], LIMIT)?;
    if recording.finished != native {
        return fail(format!("natively: {native}; recording: {}", recording.finished));
    }
    let formulas = lines(&native.text())?;
    let gradient = recording.reverse(&vec![1.0; formulas.len()])?;
    let mut wrong = Vec::new();
    for (Line { name, .. }, found) in formulas.iter().zip(gradient.chunks(2)) {
        let expected = program.gradient(scratch.path(), name)?;
        let agrees = |k: usize| close(found[k], expected[k], magnitude(&expected), program.real.tolerance);
        if !(agrees(0) && agrees(1)) {
            wrong.push(format!("{name}: {found:?}, expected {expected:?}"));
        }
    }
    report(&wrong)
}

/// Dot values of random directions in forward mode, against the gradient of the recording.
fn forward(program: &Program) -> Outcome {
    let scratch = compiler::scratch("x87")?;
    let executable = program.compiled(scratch.path())?;
    let recording = Recording::make(&scratch.path().join("tape"), &executable, &[] as &[&str], LIMIT)?;
    let formulas = lines(&recording.finished.text())?;
    let gradient = recording.reverse(&vec![1.0; formulas.len()])?;
    let mut generator = SplitMix64(1);
    let seeds: Vec<f64> = (0..gradient.len()).map(|_| f64::from(generator.number() as f32)).collect();
    let (finished, dots) = recording::forward_mode(scratch.path(), &executable, &[] as &[&str], &seeds, LIMIT)?;
    if finished != recording.finished {
        return fail(format!("recording: {}; forward mode: {finished}", recording.finished));
    }
    let mut wrong = Vec::new();
    for (k, Line { name, .. }) in formulas.iter().enumerate() {
        let (gradient, direction) = (&gradient[2 * k..2 * k + 2], &seeds[2 * k..2 * k + 2]);
        let expected = dot(gradient, direction);
        let scale = magnitude(gradient) * magnitude(direction);
        let agrees = close(dots[k], expected, scale, program.sweep_tolerance(name));
        if !agrees {
            wrong.push(format!("{name}: dot value {}, by the tape {expected}", dots[k]));
        }
    }
    report(&wrong)
}

/// Both derivatives of each formula from one run, with a direction for each input.
fn directions(program: &Program) -> Outcome {
    let scratch = compiler::scratch("x87")?;
    let executable = program.compiled(scratch.path())?;
    let mut wrong = Vec::new();
    for Line { name, .. } in program.reference(scratch.path())? {
        let mut command: Command = recording::tool(scratch.path());
        command.args(["--quiet", "grad", "--mode=forward", "--directions=2", "--"]).arg(&executable).arg(name);
        let table = process::run(&mut command)?.successful("derivgrind grad")?.text();
        let derivative = |row: &str| row.split_whitespace().nth(2).and_then(|word| word.parse::<f64>().ok());
        let found: Vec<f64> = table.lines().rev().take(2).filter_map(derivative).collect();
        let expected = program.gradient(scratch.path(), name)?;
        let [second, first] = found[..] else { return fail(format!("{name}: no derivatives in {table}")) };
        let agrees = |found, k: usize| close(found, expected[k], magnitude(&expected), program.tolerance(name));
        let right = agrees(first, 0) && agrees(second, 1);
        if !right {
            wrong.push(format!("{name}: {first} and {second}, expected {expected:?}"));
        }
    }
    report(&wrong)
}

/// Dot values by client requests, and that nothing is lost.
fn requests(program: &Program) -> Outcome {
    let scratch = compiler::scratch("x87")?;
    let executable = program.compiled(scratch.path())?;
    let run = |name: &[&str]| -> Result<process::Finished> {
        let mut command: Command = recording::tool(scratch.path());
        command.arg("forward").arg("--").arg(&executable).args(name);
        process::run(&mut command)
    };
    let finished = run(&["--dot"])?.successful("forward mode")?;
    let mut wrong = Vec::new();
    for Line { name, numbers } in lines(&finished.text())? {
        let [first, second] = program.gradient(scratch.path(), &name)?;
        let (found, expected) = (numbers.get(1).copied().unwrap_or(f64::NAN), first + second);
        let tolerance = program.tolerance(&name);
        if !close(found, expected, magnitude(&[first, second]), tolerance) {
            wrong.push(format!("{name}: dot value {found}, expected {expected}"));
        }
    }
    if String::from_utf8_lossy(&finished.stderr).contains("not differentiated") {
        wrong.push(format!("losses are told: {finished}"));
    }
    report(&wrong)
}
