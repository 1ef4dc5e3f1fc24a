//! Gradients of programs with threads: OpenMP with libgomp and libomp, the threads of C++, pthreads. Each must be that of the serial program, in
//! every run and with any number of threads, and every tape must be in order.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result, ensure};
use derivgrind_tests::numbers::{SplitMix64, close};
use derivgrind_tests::recording::{self, Recording, tool};
use derivgrind_tests::suite::{Obstacle, Suite, fail};
use derivgrind_tests::{compiler, full, process};

/// Numbers of threads.
const THREADS: [u32; 4] = [1, 2, 4, 8];
/// Sums are in another order in each run: some hundred terms are rounded differently, by 1e-16 each. A term that has got lost, or a wrong one, is
/// larger than 1e-4.
const TOLERANCE: f64 = 1e-10;

/// A program, and how its parallel and serial form are built and called.
struct Program {
    name: &'static str,
    source: &'static str,
    compiler: &'static str,
    options: &'static [&'static str],
    /// What makes it parallel.
    parallel: &'static [&'static str],
    /// A second source in C, for client requests.
    marks: bool,
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "openmp-gcc-O0",
        source: "openmp.c",
        compiler: "gcc",
        options: &["-O0", "-lm"],
        parallel: &["-fopenmp"],
        marks: false,
    },
    Program {
        name: "openmp-gcc-O3",
        source: "openmp.c",
        compiler: "gcc",
        options: &["-O3", "-march=haswell", "-lm"],
        parallel: &["-fopenmp"],
        marks: false,
    },
    Program {
        name: "openmp-clang-O2",
        source: "openmp.c",
        compiler: "clang",
        options: &["-O2", "-lm"],
        parallel: &["-fopenmp=libomp"],
        marks: false,
    },
    Program {
        name: "openmp-gfortran-O2",
        source: "openmp.f90",
        compiler: "gfortran",
        options: &["-O2"],
        parallel: &["-fopenmp"],
        marks: true,
    },
    Program {
        name: "threads-g++-O0",
        source: "threads.cpp",
        compiler: "g++",
        options: &["-O0", "-pthread"],
        parallel: &[],
        marks: false,
    },
    Program {
        name: "threads-clang++-O2",
        source: "threads.cpp",
        compiler: "clang++",
        options: &["-O2", "-pthread"],
        parallel: &[],
        marks: false,
    },
];

fn main() -> ExitCode {
    let mut suite = Suite::new("parallel");
    for program in PROGRAMS {
        let built = Arc::new(OnceLock::new());
        for threads in THREADS {
            for (mode, check) in
                [("record", recorded as Check), ("small-cache", in_a_small_cache), ("forward", in_forward_mode)]
            {
                let built = Arc::clone(&built);
                suite.case(format!("{}/{mode}/{threads}", program.name), move || {
                    let built: &Result<Built, Failure> = built.get_or_init(|| Built::new(program).map_err(Failure::of));
                    let built = built.as_ref().map_err(|failure| failure.clone().into_obstacle())?;
                    for run in 1..=runs() {
                        if let Err(error) = check(built, threads) {
                            return fail(format!("run {run}: {error:#}"));
                        }
                    }
                    Ok(())
                });
            }
        }
    }
    suite.run()
}

type Check = fn(&Built, u32) -> Result<()>;

/// How often each case is run.
fn runs() -> usize {
    if full() { 100 } else { 3 }
}

/// Why a program could not be built, in a form that each of its cases can repeat.
#[derive(Clone)]
enum Failure {
    Skip(String),
    Failure(String),
}

impl Failure {
    fn of(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::Skip(reason) => Self::Skip(reason),
            Obstacle::Failure(message) => Self::Failure(message),
        }
    }

    fn into_obstacle(self) -> Obstacle {
        match self {
            Self::Skip(reason) => Obstacle::Skip(reason),
            Self::Failure(message) => Obstacle::Failure(message),
        }
    }
}

/// A built program with what its serial form computes.
struct Built {
    scratch: tempfile::TempDir,
    program: PathBuf,
    /// A bar value for each output, all different, so that each output's contribution shows.
    output_bars: Vec<f64>,
    /// The serial program's gradient.
    input_bars: Vec<f64>,
    input_dots: Vec<f64>,
    /// The serial program's forward sweep.
    output_dots: Vec<f64>,
}

impl Built {
    fn new(what: &Program) -> Result<Self, Obstacle> {
        let scratch = compiler::scratch("parallel")?;
        let sources = compiler::programs().join("parallel");
        let marks = scratch.path().join("marks.o");
        if what.marks {
            compiler::compile("gcc", &sources.join("marks.c"), &marks, &["-c", "-O1"])?;
        }
        let build = |name: &str, more: &[&str]| {
            let output = scratch.path().join(name);
            let mut options = [what.options, more].concat();
            if what.marks {
                options.push(marks.to_str().unwrap_or_default());
            }
            compiler::compile(what.compiler, &sources.join(what.source), &output, &options)?;
            Ok::<_, Obstacle>(output)
        };
        let program = build("parallel", what.parallel)?;
        // Programs that start threads by themselves have a serial form of their own.
        let (serial, argument) =
            if what.parallel.is_empty() { (program.clone(), "0") } else { (build("serial", &[])?, "1") };
        let recording = record(&[], &scratch.path().join("serial-tape"), &serial, argument)?;
        let (inputs, outputs) = (recording.inputs()?, recording.outputs()?);
        let output_bars: Vec<f64> = (0..outputs).map(|output| 1.0 + output as f64 / 8.0).collect();
        let input_bars = recording.reverse(&output_bars)?;
        let mut generator = SplitMix64(1);
        // Numbers of few bits: sums of them are binary32 numbers.
        let input_dots: Vec<f64> = (0..inputs).map(|_| (64.0 * generator.number()).round() / 64.0).collect();
        let output_dots = recording.forward(&input_dots)?;
        if input_bars.iter().chain(&output_dots).any(|number| *number == 0.0 || !number.is_finite()) {
            return fail(format!("the serial program's derivatives say nothing: {input_bars:?}, {output_dots:?}"));
        }
        Ok(Self { scratch, program, output_bars, input_bars, input_dots, output_dots })
    }
}

fn record(options: &[&str], directory: &Path, program: &Path, threads: &str) -> Result<Recording> {
    let recording = Recording::make_with(options, directory, program, &[threads], process::TIME_LIMIT)?;
    let finished = recording.finished.clone().successful("under derivgrind record")?;
    ensure!(finished.text() == "done\n", "{finished}");
    Ok(recording)
}

/// Records a run: its tape is in order, and its reverse sweep gives the serial gradient.
fn recorded(built: &Built, threads: u32) -> Result<()> {
    recorded_with(&[], built, threads)
}

/// The same while code is translated over and over, since the code cache is too small.
fn in_a_small_cache(built: &Built, threads: u32) -> Result<()> {
    recorded_with(&["--code-cache=128K"], built, threads)
}

fn recorded_with(options: &[&str], built: &Built, threads: u32) -> Result<()> {
    // Cases run at the same time.
    let scratch = tempfile::tempdir_in(built.scratch.path())?;
    let directory = scratch.path().join("tape");
    let recording = record(options, &directory, &built.program, &threads.to_string())?;
    let mut check = tool(&directory);
    check.args(["tape", "check"]).arg(&directory);
    process::run(&mut check)?.successful("derivgrind tape check")?;
    compare("input", &recording.reverse(&built.output_bars)?, &built.input_bars)
}

/// Runs it in forward mode: the outputs' dot values are those of the serial program's tape.
fn in_forward_mode(built: &Built, threads: u32) -> Result<()> {
    let arguments = [threads.to_string()];
    let (finished, dots) = recording::forward_mode(
        built.scratch.path(),
        &built.program,
        &arguments,
        &built.input_dots,
        process::TIME_LIMIT,
    )?;
    let finished = finished.successful("under derivgrind forward")?;
    ensure!(finished.text() == "done\n", "{finished}");
    compare("output", &dots, &built.output_dots)
}

fn compare(of: &str, found: &[f64], serial: &[f64]) -> Result<()> {
    ensure!(found.len() == serial.len(), "{} {of}s instead of {}", found.len(), serial.len());
    let different = (0..serial.len()).find(|&k| !close(found[k], serial[k], 0.0, TOLERANCE));
    let position = different.map(|k| format!("{of} {}: {:e}, in the serial program {:e}", k + 1, found[k], serial[k]));
    position.map_or(Ok(()), |message| Err(anyhow::anyhow!(message)).context("a derivative depends on the run"))
}
