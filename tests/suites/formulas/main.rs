//! Gradients of formula programs: reverse sweep, forward sweep, forward mode and output, for each combination of language, compiler,
//! optimisation level and precision.
//!
//! All formulas of a combination are in one program and one recording. Each output has its own bar value, so that a
//! contribution that ends up in another formula's inputs shows. If the whole program fails under the tool, each formula is
//! recorded by itself, so that the failure is put down to the right ones.

mod arithmetic;
mod classes;
mod control;
mod functions;
mod memory;
mod program;
mod table;
mod wide;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result, ensure};
use derivgrind_tests::numbers::{SplitMix64, close, dot, magnitude};
use derivgrind_tests::recording::{self, Recording};
use derivgrind_tests::suite::{Obstacle, Outcome, Suite, fail, skip};
use derivgrind_tests::{compiler, full, process};
use table::Formula;

/// Rounding of the few operations of a formula, and of its expected value, is some ten binary64 units (2e-16 each).
const DOUBLE_TOLERANCE: f64 = 1e-12;
/// The same for binary32 (1.2e-7 each): operand values in the partial derivatives are rounded to it.
const FLOAT_TOLERANCE: f64 = 1e-5;
/// Forward mode and a forward sweep over the tape add and multiply the same numbers; the sweep rounds a product of three factors once less.
const DOUBLE_SWEEP_TOLERANCE: f64 = 1e-14;
/// In forward mode the dot values of binary32 variables are binary32 numbers.
const FLOAT_SWEEP_TOLERANCE: f64 = 2e-6;
/// A five-point difference quotient with steps of 2^-10 has a truncation error of f⁗' h⁴/30, below 1e-8 for each formula.
const DIFFERENCE_TOLERANCE: f64 = 1e-7;
/// Step of the difference quotient: with inputs of few bits the perturbed ones and their squares still are binary32 numbers.
const STEP: f64 = 1.0 / 1024.0;

/// Optimisation with AVX2 and FMA.
const HASWELL: &str = "-O3 -march=haswell";
/// Optimisation with AVX-512, whole registers of it.
const AVX512: &str = "-O3 -march=x86-64-v4 -mprefer-vector-width=512";

fn main() -> ExitCode {
    let mut suite = Suite::new("formulas");
    let (c, cpp) = (Arc::new(table::c()), Arc::new(table::cpp()));
    for (language, formulas) in [(Language::C, &c), (Language::Cpp, &cpp)] {
        let reference = Combination::new(language, language.compilers()[0], "-O0", Real::Double, formulas);
        for index in 0..formulas.len() {
            let reference = Arc::clone(&reference);
            let same = Arc::clone(&reference);
            suite.case(format!("table/{}", formulas[index].name), move || difference_quotient(&reference, index));
            suite.case(format!("check/{}", formulas[index].name), move || checked(&same, index));
        }
        for combination in combinations(language, formulas) {
            for index in 0..formulas.len() {
                let combination = Arc::clone(&combination);
                let same = Arc::clone(&combination);
                suite.case(format!("{}/{}", combination.name(), formulas[index].name), move || {
                    derivatives(&combination, index)
                });
                suite.case(format!("forward/{}/{}", same.name(), formulas[index].name), move || {
                    forward_mode(&same, index)
                });
            }
        }
    }
    suite.run()
}

#[derive(Clone, Copy, PartialEq)]
enum Language {
    C,
    Cpp,
}

impl Language {
    /// Compilers, the one of the short form first.
    fn compilers(self) -> [&'static str; 2] {
        match self {
            Self::C => ["gcc", "clang"],
            Self::Cpp => ["g++", "clang++"],
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Cpp => "cpp",
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Real {
    Float,
    Double,
}

impl Real {
    fn name(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Double => "double",
        }
    }

    fn tolerance(self) -> f64 {
        match self {
            Self::Float => FLOAT_TOLERANCE,
            Self::Double => DOUBLE_TOLERANCE,
        }
    }
}

impl Real {
    /// How far forward mode may be from a forward sweep over the tape.
    fn sweep_tolerance(self) -> f64 {
        match self {
            Self::Float => FLOAT_SWEEP_TOLERANCE,
            Self::Double => DOUBLE_SWEEP_TOLERANCE,
        }
    }
}

fn combinations(language: Language, formulas: &Arc<Vec<Formula>>) -> Vec<Arc<Combination>> {
    let (compilers, levels): (&[_], &[_]) = if full() {
        (&language.compilers(), &["-O0", "-O1", "-O2", "-O3", "-Os", HASWELL, AVX512])
    } else {
        (&language.compilers()[..1], &["-O0", "-O3", HASWELL, AVX512])
    };
    let mut all = Vec::new();
    for &compiler in compilers {
        for level in levels {
            for real in [Real::Double, Real::Float] {
                all.push(Combination::new(language, compiler, level, real, formulas));
            }
        }
    }
    all
}

/// A way to build all formulas of a language, and what comes out of it; each part is made when the first case asks for it.
struct Combination {
    language: Language,
    compiler: &'static str,
    level: &'static str,
    real: Real,
    formulas: Arc<Vec<Formula>>,
    built: OnceLock<Result<Built, Failure>>,
    together: OnceLock<Result<Vec<Derivatives>, String>>,
    forward: OnceLock<Result<Vec<(String, f64)>, String>>,
}

/// Whether the processor has what `x86-64-v4` stands for.
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// Why a program could not be built, in a form that each of its cases can repeat.
#[derive(Clone)]
enum Failure {
    Skip(String),
    Failure(String),
}

impl From<Failure> for Obstacle {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Skip(reason) => Self::Skip(reason),
            Failure::Failure(message) => Self::Failure(message),
        }
    }
}

struct Built {
    scratch: tempfile::TempDir,
    program: PathBuf,
    /// A line of native output for each formula.
    output: Vec<String>,
}

/// What the tool computed for one formula.
#[derive(Clone)]
struct Derivatives {
    /// The line that the program printed.
    line: String,
    /// Input bars for an output bar of 1.
    gradient: Vec<f64>,
    /// Input dots that were given.
    dots: Vec<f64>,
    /// Output dot that came.
    dot: f64,
}

impl Combination {
    fn new(
        language: Language,
        compiler: &'static str,
        level: &'static str,
        real: Real,
        formulas: &Arc<Vec<Formula>>,
    ) -> Arc<Self> {
        let formulas = Arc::clone(formulas);
        Arc::new(Self {
            language,
            compiler,
            level,
            real,
            formulas,
            built: OnceLock::new(),
            together: OnceLock::new(),
            forward: OnceLock::new(),
        })
    }

    fn name(&self) -> String {
        format!(
            "{}{}/{}",
            self.compiler,
            self.level.replace(" -march=", "-").replace(" -mprefer-vector-width=512", ""),
            self.real.name()
        )
    }

    fn built(&self) -> Result<&Built, Obstacle> {
        let build = || {
            self.build().map_err(|obstacle| match obstacle {
                Obstacle::Skip(reason) => Failure::Skip(reason),
                Obstacle::Failure(message) => Failure::Failure(message),
            })
        };
        self.built.get_or_init(build).as_ref().map_err(|failure| failure.clone().into())
    }

    fn build(&self) -> Result<Built, Obstacle> {
        if self.level == AVX512 && !has_avx512() {
            return skip("the processor has no AVX-512");
        }
        let scratch = compiler::scratch("formulas")?;
        let source = scratch.path().join("formulas").with_extension(self.language.suffix());
        std::fs::write(&source, program::source(&self.formulas, self.language == Language::Cpp))?;
        let program = scratch.path().join("formulas");
        let mut options: Vec<&str> = self.level.split(' ').chain(["-Wno-unused-result", "-lm"]).collect();
        if self.real == Real::Float {
            options.push("-DSINGLE");
        }
        compiler::compile(self.compiler, &source, &program, &options)?;
        let native = process::run(&mut process::command(&program, scratch.path()))?.successful("native run")?;
        let output: Vec<String> = native.text().lines().map(str::to_owned).collect();
        if output.len() != self.formulas.len() {
            return fail(format!("{} formulas, but {} lines of native output", self.formulas.len(), output.len()));
        }
        Ok(Built { scratch, program, output })
    }

    /// Derivatives of one formula, from the recording of all of them if there is one.
    fn derivatives(&self, built: &Built, index: usize) -> Result<Derivatives> {
        let together = self
            .together
            .get_or_init(|| self.record(built, "all", &self.formulas, &[]).map_err(|error| format!("{error:#}")));
        match together {
            Ok(all) => Ok(all[index].clone()),
            Err(_) => self.alone(built, index),
        }
    }

    /// What one formula prints in forward mode and its output's dot value, for the input dots of the recording.
    fn in_forward_mode(&self, built: &Built, index: usize) -> Result<(String, f64)> {
        let together = self
            .forward
            .get_or_init(|| self.run_forward(built, &self.formulas, &[]).map_err(|error| format!("{error:#}")));
        if let Ok(all) = together {
            return Ok(all[index].clone());
        }
        let formula = &self.formulas[index];
        let alone = self.run_forward(built, std::slice::from_ref(formula), &[formula.name])?;
        alone.into_iter().next().context("no formula was run")
    }

    /// Runs the program in forward mode, with the input dots that a recording of `formulas` is evaluated with.
    fn run_forward(&self, built: &Built, formulas: &[Formula], arguments: &[&str]) -> Result<Vec<(String, f64)>> {
        let directory = built.scratch.path();
        let dots = input_dots(formulas);
        let (finished, dots) =
            recording::forward_mode(directory, &built.program, arguments, &dots, process::TIME_LIMIT)?;
        let finished = finished.successful("under derivgrind forward")?;
        let lines: Vec<String> = finished.text().lines().map(str::to_owned).collect();
        ensure!(
            (lines.len(), dots.len()) == (formulas.len(), formulas.len()),
            "{} lines and {} dot values instead of {}: {finished}",
            lines.len(),
            dots.len(),
            formulas.len()
        );
        Ok(lines.into_iter().zip(dots).collect())
    }

    /// Derivatives of one formula from a recording of its own.
    fn alone(&self, built: &Built, index: usize) -> Result<Derivatives> {
        let formula = &self.formulas[index];
        let alone = self.record(built, formula.name, std::slice::from_ref(formula), &[formula.name])?;
        alone.into_iter().next().context("no formula was recorded")
    }

    /// Records the program with `arguments`, which select `formulas`.
    fn record(&self, built: &Built, name: &str, formulas: &[Formula], arguments: &[&str]) -> Result<Vec<Derivatives>> {
        let directory = built.scratch.path().join(format!("recording-{name}"));
        let recording = Recording::make(&directory, &built.program, arguments, process::TIME_LIMIT)?;
        let finished = recording.finished.clone().successful("under derivgrind record")?;
        let text = finished.text();
        let lines: Vec<&str> = text.lines().collect();
        ensure!(
            lines.len() == formulas.len(),
            "{} lines of output instead of {}: {finished}",
            lines.len(),
            formulas.len()
        );

        let inputs: usize = formulas.iter().map(|formula| formula.inputs.len()).sum();
        ensure!(recording.inputs()? == inputs, "{} inputs were recorded instead of {inputs}", recording.inputs()?);
        ensure!(
            recording.outputs()? == formulas.len(),
            "{} outputs were recorded instead of {}",
            recording.outputs()?,
            formulas.len()
        );
        let weights: Vec<f64> = (0..formulas.len()).map(|index| 1.0 + index as f64 / 8.0).collect();
        let bars = recording.reverse(&weights)?;
        let dots = input_dots(formulas);
        let output_dots = recording.forward(&dots)?;
        ensure!(bars.len() == inputs, "{} input bars instead of {inputs}", bars.len());
        ensure!(output_dots.len() == formulas.len(), "{} output dots instead of {}", output_dots.len(), formulas.len());

        let mut first = 0;
        let mut all = Vec::new();
        for (index, formula) in formulas.iter().enumerate() {
            let range = first..first + formula.inputs.len();
            first = range.end;
            all.push(Derivatives {
                line: lines[index].to_owned(),
                gradient: bars[range.clone()].iter().map(|bar| bar / weights[index]).collect(),
                dots: dots[range].to_vec(),
                dot: output_dots[index],
            });
        }
        Ok(all)
    }
}

/// A dot value for each input, the same in each run.
fn input_dots(formulas: &[Formula]) -> Vec<f64> {
    let inputs: usize = formulas.iter().map(|formula| formula.inputs.len()).sum();
    let mut generator = SplitMix64(1);
    // Numbers of few bits: where a formula in binary64 computes in binary32 for a while, dot values do so, too, and are not rounded.
    (0..inputs).map(|_| (64.0 * generator.number()).round() / 64.0 + 1.0 / 64.0).collect()
}

/// The case of forward mode: output as natively, dot value as in a forward sweep over the tape and as in the table.
fn forward_mode(combination: &Combination, index: usize) -> Outcome {
    let built = combination.built()?;
    let formula = &combination.formulas[index];
    let (line, dot_value) = combination.in_forward_mode(built, index)?;
    if line != built.output[index] {
        return fail(format!("printed {line:?}, natively {:?}", built.output[index]));
    }
    let recorded = combination.derivatives(built, index)?;
    let gradient = (formula.gradient)(formula.inputs);
    let scale = magnitude(&gradient) * magnitude(&recorded.dots);
    let expected = dot(&gradient, &recorded.dots);
    if !close(dot_value, expected, scale, combination.real.tolerance()) {
        return fail(format!("the output's dot value is {dot_value:e}, expected {expected:e}"));
    }
    if !close(dot_value, recorded.dot, scale, combination.real.sweep_tolerance()) {
        return fail(format!(
            "the output's dot value is {dot_value:e}, in a forward sweep over the tape {:e}",
            recorded.dot
        ));
    }
    Ok(())
}

/// The case: output as natively, gradient as in the table in both directions.
///
/// A reverse sweep over the common recording blames the formula whose input received a contribution; the one that made it shows by its
/// forward sweep. So if the forward sweep is right and the reverse sweep is not, the formula's own recording decides.
fn derivatives(combination: &Combination, index: usize) -> Outcome {
    let built = combination.built()?;
    let formula = &combination.formulas[index];
    let found = combination.derivatives(built, index)?;
    if found.line != built.output[index] {
        return fail(format!("printed {:?}, natively {:?}", found.line, built.output[index]));
    }
    let tolerance = combination.real.tolerance();
    check_forward(formula, &found, tolerance)?;
    if check_reverse(formula, &found, tolerance).is_ok() {
        return Ok(());
    }
    let alone = combination.alone(built, index)?;
    check_forward(formula, &alone, tolerance)?;
    check_reverse(formula, &alone, tolerance)
}

fn check_forward(formula: &Formula, found: &Derivatives, tolerance: f64) -> Outcome {
    let gradient = (formula.gradient)(formula.inputs);
    let expected = dot(&gradient, &found.dots);
    if !close(found.dot, expected, magnitude(&gradient) * magnitude(&found.dots), tolerance) {
        return fail(format!("forward sweep: output dot is {:e}, expected {expected:e}", found.dot));
    }
    Ok(())
}

fn check_reverse(formula: &Formula, found: &Derivatives, tolerance: f64) -> Outcome {
    let gradient = (formula.gradient)(formula.inputs);
    let scale = magnitude(&gradient);
    for (input, (&value, &expected)) in found.gradient.iter().zip(&gradient).enumerate() {
        if !close(value, expected, scale, tolerance) {
            return fail(format!("reverse sweep: derivative for input {input} is {value:e}, expected {expected:e}"));
        }
    }
    Ok(())
}

/// `derivgrind check` finds nothing wrong.
fn checked(combination: &Combination, index: usize) -> Outcome {
    let built = combination.built()?;
    let mut command = recording::tool(built.scratch.path());
    command.arg("check").arg("--").arg(&built.program).arg(combination.formulas[index].name);
    let finished = process::run(&mut command)?.successful("derivgrind check")?;
    if !finished.text().contains("agrees") {
        return fail(format!("no derivative agrees: {finished}"));
    }
    Ok(())
}

/// Checks the table itself: its gradient against difference quotients of the native program.
fn difference_quotient(combination: &Combination, index: usize) -> Outcome {
    let built = combination.built()?;
    let formula = &combination.formulas[index];
    let value = |input: usize, steps: f64| -> Result<f64> {
        let mut inputs = formula.inputs.to_vec();
        inputs[input] += steps * STEP;
        let mut command = process::command(&built.program, built.scratch.path());
        command.arg(formula.name).args(inputs.iter().map(|value| format!("{value:e}")));
        let text = process::run(&mut command)?.successful("native run")?.text();
        text.split_whitespace().nth(1).context("no value was printed")?.parse().context("no number was printed")
    };
    let expected = (formula.gradient)(formula.inputs);
    if expected.len() != formula.inputs.len() {
        return fail("the gradient's length differs from the number of inputs");
    }
    let scale = magnitude(&expected);
    for (input, &expected) in expected.iter().enumerate() {
        let outer = value(input, 2.0)? - value(input, -2.0)?;
        let inner = value(input, 1.0)? - value(input, -1.0)?;
        let quotient = (8.0 * inner - outer) / (12.0 * STEP);
        if !close(quotient, expected, scale, DIFFERENCE_TOLERANCE) {
            return fail(format!(
                "the table says {expected:e} for input {input}, the difference quotient is {quotient:e}"
            ));
        }
    }
    Ok(())
}
