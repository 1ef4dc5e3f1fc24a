//! The Burgers solver of benches/programs: output as natively, and a gradient that agrees with a forward sweep over the tape, with
//! forward mode and with central differences of the native program.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use derivgrind_tests::numbers::{SplitMix64, close, dot, magnitude};
use derivgrind_tests::recording::{self, Recording};
use derivgrind_tests::suite::{Outcome, Suite, fail};
use derivgrind_tests::{compiler, derivgrind, full, process, root};

/// Random directions of the sweeps.
const DIRECTIONS: u64 = 5;
/// Reverse and forward sweep sum the same products in another order.
const SWEEP_TOLERANCE: f64 = 1e-12;
/// Truncation (third derivative times the squared size) and rounding (1e-16 by the size) of the difference are below 1e-8.
const DIFFERENCE_TOLERANCE: f64 = 1e-6;
/// Size of the perturbation for central differences.
const SIZE: f64 = 1e-5;
/// A recording of the large grid writes gigabytes.
const LIMIT: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    let mut suite = Suite::new("burgers");
    for compiler in ["g++", "clang++"] {
        for level in ["-O0", "-O2", "-O3"] {
            suite.case(format!("{compiler}{level}/20x20x10"), move || check(compiler, level, 20, 10));
            if full() || level == "-O3" {
                suite.case(format!("{compiler}{level}/200x200x100"), move || check(compiler, level, 200, 100));
            }
        }
    }
    suite.case("check", against_difference_quotients);
    for directions in [1, 4] {
        suite.case(format!("other-processors/{directions}"), move || as_on_other_processors(directions));
    }
    suite.run()
}

/// `derivgrind check` finds nothing wrong.
fn against_difference_quotients() -> Outcome {
    let scratch = compiler::scratch("burgers")?;
    let program = scratch.path().join("burgers");
    compiler::compile("g++", &root().join("benches/programs/burgers.cpp"), &program, &["-O3", "-std=c++14"])?;
    let mut command = process::command(derivgrind(), scratch.path());
    let finished = process::run(command.args(["check", "--"]).arg(&program).args(["20", "10"]))?;
    if finished.status.success() { Ok(()) } else { fail(format!("{finished}")) }
}

/// Forward mode gives the same dot values, to the last bit, where registers that only AVX-512 has are not used.
fn as_on_other_processors(directions: usize) -> Outcome {
    let scratch = compiler::scratch("burgers")?;
    let program = scratch.path().join("burgers");
    compiler::compile("g++", &root().join("benches/programs/burgers.cpp"), &program, &["-O3", "-std=c++14"])?;
    let mut generator = SplitMix64(7);
    let line = |generator: &mut SplitMix64| (0..directions).map(|_| format!("{:e} ", generator.number())).collect();
    let lines: Vec<String> = (0..2 * 20 * 20).map(|_| line(&mut generator)).collect();
    let [seeds, results] = ["seeds", "results"].map(|name| scratch.path().join(name));
    std::fs::write(&seeds, lines.join("\n")).context("cannot write the seeds")?;
    let run = |environment: &[(&str, &str)]| -> Result<(process::Finished, String)> {
        let mut command = process::command(derivgrind(), scratch.path());
        command.args(["forward", "--directions", &directions.to_string(), "--seeds"]).arg(&seeds);
        command.arg("--results").arg(&results).arg("--").arg(&program).args(["20", "10"]);
        let finished = process::run(command.envs(environment.iter().copied()))?;
        Ok((finished, std::fs::read_to_string(&results).context("there are no results")?))
    };
    let (here, there) = (run(&[])?, run(&[("DERIVGRIND_NOTHING_LENT", "1")])?);
    let output = here.1.lines().find(|line| line.starts_with("output")).unwrap_or_default();
    let complete = here.0.status.success() && output.split_whitespace().count() == directions + 2;
    if complete && here == there { Ok(()) } else { fail(format!("{} {}; {} {}", here.0, here.1, there.0, there.1)) }
}

fn check(compiler: &str, level: &str, points: usize, steps: usize) -> Outcome {
    let cells = points * points;
    let scratch = compiler::scratch("burgers")?;
    let program = scratch.path().join("burgers");
    compiler::compile(compiler, &root().join("benches/programs/burgers.cpp"), &program, &[level, "-std=c++14"])?;
    let solver = Solver { program, directory: scratch.path().to_owned(), points, steps };

    let native = process::run(&mut solver.command(&[]))?.successful("native run")?;
    let recorded = Recording::make(&scratch.path().join("tape"), &solver.program, &solver.arguments(&[]), LIMIT)?;
    if recorded.finished != native {
        return fail(format!("natively: {native}; recording: {}", recorded.finished));
    }
    if (recorded.inputs()?, recorded.outputs()?) != (2 * cells, 1) {
        return fail(format!("{} inputs and {} outputs were recorded", recorded.inputs()?, recorded.outputs()?));
    }
    let gradient = recorded.reverse(&[1.0])?;
    let scale = magnitude(&gradient);
    for seed in 1..=DIRECTIONS {
        let mut generator = SplitMix64(seed);
        let direction: Vec<f64> = (0..2 * cells).map(|_| generator.number()).collect();
        let reverse = dot(&gradient, &direction);
        let forward = recorded.forward(&direction)?;
        if !close(forward[0], reverse, scale, SWEEP_TOLERANCE) {
            return fail(format!("direction {seed}: forward sweep {:e}, reverse sweep {reverse:e}", forward[0]));
        }
        let (finished, dots) =
            recording::forward_mode(&solver.directory, &solver.program, &solver.arguments(&[]), &direction, LIMIT)?;
        if finished != native {
            return fail(format!("natively: {native}; in forward mode: {finished}"));
        }
        if dots.len() != 1 || !close(dots[0], forward[0], scale, SWEEP_TOLERANCE) {
            return fail(format!("direction {seed}: forward sweep {:e}, forward mode {dots:?}", forward[0]));
        }
        let difference = (solver.perturbed(seed, SIZE)? - solver.perturbed(seed, -SIZE)?) / (2.0 * SIZE);
        if !close(reverse, difference, scale, DIFFERENCE_TOLERANCE) {
            return fail(format!("direction {seed}: reverse sweep {reverse:e}, central difference {difference:e}"));
        }
    }
    Ok(())
}

/// The program with its problem size.
struct Solver {
    program: PathBuf,
    directory: PathBuf,
    points: usize,
    steps: usize,
}

impl Solver {
    fn arguments(&self, more: &[String]) -> Vec<String> {
        [&[self.points.to_string(), self.steps.to_string()], more].concat()
    }

    fn command(&self, more: &[String]) -> std::process::Command {
        let mut command = process::command(&self.program, &self.directory);
        command.args(self.arguments(more));
        command
    }

    /// The norm after a perturbation of the initial state.
    fn perturbed(&self, seed: u64, size: f64) -> Result<f64> {
        let finished =
            process::run(&mut self.command(&[seed.to_string(), format!("{size:e}")]))?.successful("native run")?;
        finished.text().trim().parse().context("the program printed no number")
    }
}
