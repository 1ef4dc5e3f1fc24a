//! Random C programs, whose derivatives the generator knows: operations on real numbers in all spellings, alone and in loops that compilers make vectors of.
//!
//! The program of a seed is built by each compiler at several levels. It has to print what it prints natively under recording and in forward mode, and both have
//! to find its Jacobian. A derivative that is lost needs a note, and may be lost at all only where an operation of the program is listed as one that can be.
//!
//! `DERIVGRIND_RANDOM_SEED` is the first seed, `DERIVGRIND_RANDOM_SEEDS` their number.

mod format;
mod generate;
mod number;
mod operations;
mod rules;

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result};
use derivgrind_tests::numbers::close;
use derivgrind_tests::recording::tool;
use derivgrind_tests::suite::{Obstacle, Outcome, Suite, fail, skip};
use derivgrind_tests::{compiler, full, process};
use generate::Program;
use number::INPUTS;
use operations::Lost;

/// Seeds of the short form and of the full one.
const SEEDS: (u64, u64) = (40, 60);
/// Ways to build a program. In the short form each seed takes two of them.
const BUILDS: &[(&str, &str)] = &[
    ("gcc", "-O0"),
    ("clang", "-O2"),
    ("gcc", "-O2"),
    ("clang", "-O3 -march=haswell"),
    ("gcc", "-O3"),
    ("clang", "-O0"),
    ("gcc", "-O3 -march=haswell"),
    ("clang", "-O3"),
    ("gcc", "-O3 -march=x86-64-v4"),
    ("clang", "-O1"),
    ("gcc", "-O1"),
    ("clang", "-Os"),
    ("gcc", "-Os"),
    ("clang", "-O3 -march=x86-64-v4"),
    ("gcc", "-Ofast"),
    ("clang", "-Ofast"),
];
/// In functions with binary32 variables, in relation to the sum of contributions: partial derivatives have the relative errors of their operands, see [`number`].
const FLOAT_TOLERANCE: f64 = 1e-4;
/// In functions without.
const TOLERANCE: f64 = 1e-9;
/// Exit code of `--strict` if a derivative has been lost.
const LOST: i32 = 3;

fn main() -> ExitCode {
    let setting = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = setting("DERIVGRIND_RANDOM_SEED").unwrap_or(1);
    let seeds = setting("DERIVGRIND_RANDOM_SEEDS").unwrap_or(if full() { SEEDS.1 } else { SEEDS.0 });
    let mut suite = Suite::new("random-programs");
    for seed in first..first + seeds {
        let program = Arc::new(OnceLock::new());
        let builds = BUILDS.iter().cycle().skip(2 * seed as usize).take(if full() { BUILDS.len() } else { 2 });
        for &(compiler, options) in builds {
            let program = Arc::clone(&program);
            let name = format!("{seed}/{compiler}{}", options.replace(" -march=", "-"));
            suite.case(name, move || build_and_compare(program.get_or_init(|| Program::draw(seed)), compiler, options));
        }
    }
    suite.run()
}

/// The program in a scratch directory.
struct Built {
    scratch: tempfile::TempDir,
    /// What it prints natively.
    output: String,
    optimised: bool,
}

/// What came of a run: the program's output, derivatives for each output and input, and whether some were lost.
struct Jacobian {
    output: String,
    rows: Vec<Vec<f64>>,
    lost: bool,
}

fn build_and_compare(program: &Program, compiler: &str, options: &str) -> Outcome {
    if options.contains("x86-64-v4") && !compiler::has_avx512() {
        return skip("the processor has no AVX-512");
    }
    let scratch = compiler::scratch("random")?;
    let source = scratch.path().join("program.c");
    std::fs::write(&source, &program.source).context("cannot write the program")?;
    let optimised = options != "-O0";
    let options: Vec<&str> = options.split(' ').chain(["-w", "-fno-strict-aliasing", "-lm"]).collect();
    compiler::compile(compiler, &source, &scratch.path().join("program"), &options)?;
    let built = Built { output: natively(&scratch)?, scratch, optimised };
    check_values(program, &built)?;
    let mut wrong = Vec::new();
    for mode in ["record", "forward"] {
        compare(program, &built, mode, &mut wrong)?;
    }
    if wrong.is_empty() { Ok(()) } else { fail(wrong.join("\n")) }
}

fn natively(scratch: &tempfile::TempDir) -> Result<String> {
    let mut command = process::command(scratch.path().join("program"), scratch.path());
    Ok(process::run(&mut command)?.successful("native run")?.text())
}

/// Whether the generator is right about the program's values; what follows would mean nothing otherwise.
fn check_values(program: &Program, built: &Built) -> Outcome {
    let mut lines = built.output.lines();
    for (number, function) in program.functions.iter().enumerate() {
        let line = lines.next().context("a line is missing")?;
        let value: f64 = line.split(' ').nth(1).context("a value is missing")?.parse().context("no number")?;
        if !close(value, function.result.value, function.result.value.abs() + 1.0, tolerance(function)) {
            return fail(format!(
                "the generator takes f{number} for {:e}, natively it is {value:e}",
                function.result.value
            ));
        }
    }
    Ok(())
}

fn tolerance(function: &generate::Function) -> f64 {
    if function.rounds_to_float { FLOAT_TOLERANCE } else { TOLERANCE }
}

/// Compares the Jacobian that a mode finds with the generator's, and notes what is wrong.
fn compare(program: &Program, built: &Built, mode: &str, wrong: &mut Vec<String>) -> Result<(), Obstacle> {
    let jacobian = run(built, mode, None)?;
    if jacobian.output != built.output {
        wrong.push(format!("{mode}: other output than natively"));
    }
    for (number, function) in program.functions.iter().enumerate() {
        let row = jacobian.rows.get(number).context("an output is missing")?;
        if is_right(function, row) {
            continue;
        }
        // Whether it is this function that has lost something shows when it runs alone.
        let alone = run(built, mode, Some(number))?;
        let row = alone.rows.first().context("the output is missing")?;
        let may_be_lost = match function.lost {
            Lost::Nowhere => false,
            Lost::Unoptimised => !built.optimised,
            Lost::Anywhere => true,
        };
        if is_right(function, row) || alone.lost && may_be_lost {
            continue;
        }
        let how = if alone.lost { "lost, with a note" } else { "without a note" };
        wrong.push(format!("{mode}: f{number} has {row:?}, expected {:?}: {how}", function.result.gradient));
    }
    Ok(())
}

fn is_right(function: &generate::Function, row: &[f64]) -> bool {
    row.len() == INPUTS
        && row
            .iter()
            .zip(&function.result.gradient)
            .all(|(&found, &expected)| close(found, expected, function.result.scale, tolerance(function)))
}

/// Runs the program, or one of its functions, in a mode.
fn run(built: &Built, mode: &str, function: Option<usize>) -> Result<Jacobian> {
    let mut command = tool(built.scratch.path());
    command.args(["grad", "--strict", "--json", "--mode", mode, "--"]).arg(built.scratch.path().join("program"));
    command.args(function.map(|number| number.to_string()));
    let finished = process::run(&mut command)?;
    let lost = finished.status.code() == Some(LOST);
    let finished = if lost { finished } else { finished.successful("derivgrind grad")? };
    let text = finished.text();
    let printed: serde_json::Value = serde_json::from_str(&text).with_context(|| format!("no JSON: {finished}"))?;
    let rows = printed["derivatives"].as_array().context("no derivatives")?;
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(f64::NAN);
    let rows = rows.iter().map(|row| row.as_array().into_iter().flatten().map(number).collect()).collect();
    let is_output = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit());
    let output = finished.errors().lines().filter(is_output).map(|line| format!("{line}\n")).collect();
    Ok(Jacobian { output, rows, lost })
}
