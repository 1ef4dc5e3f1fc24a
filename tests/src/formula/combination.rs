//! Ways to build all formulas of a language, and what comes out of a program that is built.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::{Formula, program};
use crate::numbers::{SplitMix64, close};
use crate::recording::{self, Recording};
use crate::suite::{Obstacle, fail, skip};
use crate::{compiler, process};
use anyhow::{Context as _, Result, ensure};

/// Rounding of the few operations of a formula, and of its expected value, is some ten binary64 units (2e-16 each).
const DOUBLE_TOLERANCE: f64 = 1e-12;
/// The same for binary32 (1.2e-7 each): operand values in the partial derivatives are rounded to it.
const FLOAT_TOLERANCE: f64 = 1e-5;
/// Forward mode and a forward sweep over the tape add and multiply the same numbers; the sweep rounds a product of three factors once less. They differ by half of this at most: nine
/// rounding units, in relation to the larger of the dot value and what the largest derivative by the largest input dot could contribute, since contributions may cancel.
const DOUBLE_SWEEP_TOLERANCE: f64 = 2e-15;
/// In forward mode the dot values of binary32 variables are binary32 numbers: four of their rounding units, likewise.
const FLOAT_SWEEP_TOLERANCE: f64 = 5e-7;
/// Directions of the run with several of them: seven are computed as four, two and one.
pub const DIRECTIONS: usize = 7;

/// The languages of the tables.
#[derive(Clone, Copy, PartialEq)]
pub enum Language {
    /// C as each compiler takes it by default.
    C,
    /// C++ likewise.
    Cpp,
    /// Fortran 2008, preprocessed.
    Fortran,
}

impl Language {
    /// Compilers, the one of the short form first.
    pub fn compilers(self) -> &'static [&'static str] {
        match self {
            Self::C => &["gcc", "clang"],
            Self::Cpp => &["g++", "clang++"],
            Self::Fortran => &["gfortran"],
        }
    }

    /// What tells its formulas from those of the other languages, which have names of their own.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::C | Self::Cpp => "",
            Self::Fortran => "fortran/",
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Cpp => "cpp",
            Self::Fortran => "F90",
        }
    }
}

/// The formats of real numbers: C's `float`, `double`, `long double`, Fortran's `real(4)`, `real(8)`, `real(10)`.
#[derive(Clone, Copy, PartialEq)]
pub enum Real {
    /// binary32.
    Float,
    /// binary64.
    Double,
    /// The 80 bits of x87.
    Extended,
}

impl fmt::Display for Real {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Float => "float",
            Self::Double => "double",
            Self::Extended => "extended",
        })
    }
}

impl Real {
    /// What the compiler is told.
    fn option(self) -> &'static str {
        match self {
            Self::Float => "-DREAL_BYTES=4",
            Self::Double => "-DREAL_BYTES=8",
            Self::Extended => "-DREAL_BYTES=10",
        }
    }

    /// How far derivatives may be from the table.
    pub fn tolerance(self) -> f64 {
        match self {
            Self::Float => FLOAT_TOLERANCE,
            // Partial derivatives are recorded in binary64, whatever the format of the values.
            Self::Double | Self::Extended => DOUBLE_TOLERANCE,
        }
    }

    /// How far forward mode may be from a forward sweep over the tape.
    pub fn sweep_tolerance(self) -> f64 {
        match self {
            Self::Float => FLOAT_SWEEP_TOLERANCE,
            Self::Double | Self::Extended => DOUBLE_SWEEP_TOLERANCE,
        }
    }
}

/// A way to build all formulas of a language, and what comes out of it; each part is made when the first case asks for it.
pub struct Combination {
    language: Language,
    compiler: &'static str,
    level: &'static str,
    /// Format of the real numbers.
    pub real: Real,
    /// The formulas of the language that exist in the format.
    pub formulas: Arc<Vec<Formula>>,
    /// Further options of the compiler, behind the source.
    options: &'static [&'static str],
    /// In the place of compiler and optimisation level.
    title: Option<&'static str>,
    built: OnceLock<Result<Built, Failure>>,
    together: OnceLock<Result<Vec<Derivatives>, String>>,
    forward: OnceLock<Result<Vec<InDirections>, String>>,
    several: OnceLock<Result<Vec<InDirections>, String>>,
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

/// A program that holds all formulas.
pub struct Built {
    pub scratch: tempfile::TempDir,
    pub program: PathBuf,
    /// A line of native output for each formula.
    pub output: Vec<String>,
}

/// What the tool computed for one formula.
#[derive(Clone)]
pub struct Derivatives {
    /// The line that the program printed.
    pub line: String,
    /// Input bars for an output bar of 1.
    pub gradient: Vec<f64>,
    /// Input dots that were given.
    pub dots: Vec<f64>,
    /// Output dot that came.
    pub dot: f64,
}

/// What came of one formula in forward mode.
#[derive(Clone)]
pub struct InDirections {
    /// The line that the program printed.
    pub line: String,
    /// Dot values of its inputs and of its output, for each direction.
    pub dots: Vec<(Vec<f64>, f64)>,
}

impl Combination {
    /// A way to build formulas, with a compiler and options for optimisation.
    pub fn new(
        language: Language,
        compiler: &'static str,
        level: &'static str,
        real: Real,
        formulas: &Arc<Vec<Formula>>,
    ) -> Arc<Self> {
        let formulas = match real {
            Real::Extended => Arc::new(formulas.iter().filter(|formula| formula.extended).cloned().collect()),
            _ => Arc::clone(formulas),
        };
        let options: &[&str] = if language == Language::Fortran { &[] } else { &["-fopenmp", "-pthread", "-latomic"] };
        Arc::new(Self {
            language,
            compiler,
            level,
            real,
            formulas,
            options,
            title: None,
            built: OnceLock::new(),
            together: OnceLock::new(),
            forward: OnceLock::new(),
            several: OnceLock::new(),
        })
    }

    /// Whether a line of output is as the native program's. Libraries choose code by the processor, which looks different under derivgrind (it
    /// hides what it does not differentiate): their numbers may differ by rounding.
    pub fn same_output(&self, line: &str, native: &str) -> bool {
        let number = |line: &str| line.split(' ').nth(1).and_then(|number| number.parse::<f64>().ok());
        match (self.title, number(line), number(native)) {
            (Some(_), Some(value), Some(expected)) => close(value, expected, expected.abs(), DOUBLE_TOLERANCE),
            _ => line == native,
        }
    }

    /// Formulas that call a library, in binary64, with the compiler's options for it. `title` is part of the cases' names.
    pub fn of_library(
        language: Language,
        title: &'static str,
        options: &'static [&'static str],
        formulas: Vec<Formula>,
    ) -> Arc<Self> {
        Arc::new(Self {
            language,
            compiler: language.compilers()[0],
            level: "-O2",
            real: Real::Double,
            formulas: Arc::new(formulas),
            options,
            title: Some(title),
            built: OnceLock::new(),
            together: OnceLock::new(),
            forward: OnceLock::new(),
            several: OnceLock::new(),
        })
    }

    /// How far derivatives of a formula may be from the table.
    pub fn tolerance(&self, formula: &Formula) -> f64 {
        self.real.tolerance().max(formula.error)
    }

    /// How far forward mode may be from a forward sweep over the tape: rounding of the formula's operations.
    pub fn sweep_tolerance(&self, formula: &Formula) -> f64 {
        match self.title {
            None => self.real.sweep_tolerance() * f64::from(formula.terms).sqrt(),
            // Algorithms of many operations.
            Some(_) => DOUBLE_TOLERANCE.max(formula.error),
        }
    }

    /// The part of a case's name.
    pub fn name(&self) -> String {
        if let Some(title) = self.title {
            return title.to_owned();
        }
        let level = self.level.replace(" -march=", "-").replace(" -mprefer-vector-width=512", "");
        format!("{}{level}/{}", self.compiler, self.real)
    }

    /// The program.
    pub fn built(&self) -> Result<&Built, Obstacle> {
        let build = || {
            self.build().map_err(|obstacle| match obstacle {
                Obstacle::Skip(reason) => Failure::Skip(reason),
                Obstacle::Failure(message) => Failure::Failure(message),
            })
        };
        self.built.get_or_init(build).as_ref().map_err(|failure| failure.clone().into())
    }

    fn build(&self) -> Result<Built, Obstacle> {
        if self.level.contains("x86-64-v4") && !compiler::has_avx512() {
            return skip("the processor has no AVX-512");
        }
        let scratch = compiler::scratch("formulas")?;
        let source = scratch.path().join("formulas").with_extension(self.language.suffix());
        std::fs::write(&source, program::source(&self.formulas, self.language))?;
        let program = scratch.path().join("formulas");
        let mut options: Vec<&str> = self.level.split(' ').chain([self.real.option(), "-Wno-unused-result"]).collect();
        let driver = scratch.path().join("driver.c");
        let (driver_name, modules) = (driver.display().to_string(), format!("-J{}", scratch.path().display()));
        if self.language == Language::Fortran {
            std::fs::write(&driver, program::driver(&self.formulas))?;
            options.extend([driver_name.as_str(), modules.as_str(), "-ffree-line-length-none", "-w"]);
        }
        options.extend(self.options);
        options.push("-lm");
        compiler::compile(self.compiler, &source, &program, &options)?;
        let native = process::run(&mut process::command(&program, scratch.path()))?.successful("native run")?;
        let output: Vec<String> = native.text().lines().map(str::to_owned).collect();
        if output.len() != self.formulas.len() {
            return fail(format!("{} formulas, but {} lines of native output", self.formulas.len(), output.len()));
        }
        Ok(Built { scratch, program, output })
    }

    /// Derivatives of one formula, from the recording of all of them if there is one.
    pub fn derivatives(&self, built: &Built, index: usize) -> Result<Derivatives> {
        let together = self
            .together
            .get_or_init(|| self.record(built, "all", &self.formulas, &[]).map_err(|error| format!("{error:#}")));
        match together {
            Ok(all) => Ok(all[index].clone()),
            Err(_) => self.alone(built, index),
        }
    }

    /// One formula in forward mode, in the direction of the recording.
    pub fn in_forward_mode(&self, built: &Built, index: usize) -> Result<InDirections> {
        self.in_directions(&self.forward, built, index, 1)
    }

    /// One formula in `DIRECTIONS` directions at once, of which the first one is that of the recording.
    pub fn in_several_directions(&self, built: &Built, index: usize) -> Result<InDirections> {
        self.in_directions(&self.several, built, index, DIRECTIONS)
    }

    /// Runs all formulas together in forward mode, or if that fails, one by itself.
    fn in_directions(
        &self,
        together: &OnceLock<Result<Vec<InDirections>, String>>,
        built: &Built,
        index: usize,
        directions: usize,
    ) -> Result<InDirections> {
        let run = |formulas: &[Formula], arguments: &[&str]| self.run_forward(built, formulas, arguments, directions);
        let together = together.get_or_init(|| run(&self.formulas, &[]).map_err(|error| format!("{error:#}")));
        if let Ok(all) = together {
            return Ok(all[index].clone());
        }
        let formula = &self.formulas[index];
        let alone = run(std::slice::from_ref(formula), &[formula.name])?;
        alone.into_iter().next().context("no formula was run")
    }

    /// Runs the program in forward mode. The first direction's input dots are those that a recording of `formulas` is evaluated with.
    fn run_forward(
        &self,
        built: &Built,
        formulas: &[Formula],
        arguments: &[&str],
        directions: usize,
    ) -> Result<Vec<InDirections>> {
        let directory = built.scratch.path();
        let dots: Vec<_> = (0..directions).map(|direction| input_dots(formulas, direction)).collect();
        let (finished, outputs) =
            recording::in_directions(directory, &built.program, arguments, &dots, process::TIME_LIMIT)?;
        let finished = finished.successful("under derivgrind forward")?;
        let lines: Vec<String> = finished.text().lines().map(str::to_owned).collect();
        ensure!(
            (lines.len(), outputs.len()) == (formulas.len(), formulas.len()),
            "{} lines and {} outputs instead of {}: {finished}",
            lines.len(),
            outputs.len(),
            formulas.len()
        );
        let mut first = 0;
        let mut all = Vec::new();
        for ((formula, line), output) in formulas.iter().zip(lines).zip(outputs) {
            let range = first..first + formula.inputs.len();
            first = range.end;
            let dots = dots.iter().map(|dots| dots[range.clone()].to_vec()).zip(output).collect();
            all.push(InDirections { line, dots });
        }
        Ok(all)
    }

    /// Derivatives of one formula from a recording of its own.
    pub fn alone(&self, built: &Built, index: usize) -> Result<Derivatives> {
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
        let dots = input_dots(formulas, 0);
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

/// A dot value for each input in a direction, the same in each run. In every other direction those of every other formula are zero.
fn input_dots(formulas: &[Formula], direction: usize) -> Vec<f64> {
    let mut generator = SplitMix64(1 + direction as u64);
    // Numbers of few bits: where a formula in binary64 computes in binary32 for a while, dot values do so, too, and are not rounded. None is zero: what
    // formulas are about can depend on which inputs are active.
    let mut number = || {
        let number = (64.0 * generator.number()).round() / 64.0 + 1.0 / 64.0;
        if number == 0.0 { 1.5 } else { number }
    };
    let zero = |position: usize| direction % 2 == 1 && position % 2 == 1;
    let all = formulas.iter().enumerate().flat_map(|(position, formula)| vec![zero(position); formula.inputs.len()]);
    all.map(|zero| if zero { 0.0 } else { number() }).collect()
}
