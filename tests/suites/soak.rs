//! A program that does everything at once that makes threads, signals and generated code hard to get right (`tests/programs/soak`): for each
//! seed it has to print what it prints natively, to compute the right derivative, to leave a valid tape, and not to grow.
//!
//! `DERIVGRIND_SOAK_MINUTES` (30 in the full form) is the time for all cases together, `DERIVGRIND_SOAK_SEED` the first seed. Without them each case
//! has one seed and few rounds.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use derivgrind_tests::numbers::close;
use derivgrind_tests::recording::{Recording, numbers, tool};
use derivgrind_tests::suite::{Outcome, Suite, fail};
use derivgrind_tests::{compiler, full, process};

/// Rounds of a run in the short form, and in the long one.
const ROUNDS: (usize, usize) = (25, 400);
/// The slowest round takes a fraction of a second. On a busy machine it takes some.
const SECONDS_A_ROUND: u64 = 3;
/// Minutes of the full form.
const FULL_MINUTES: f64 = 30.0;
/// How much larger the process may be in the last third of a run than in the second, in KiB: one and a half times that the code cache may grow
/// by code that is not valid any more, before it starts anew, with what belongs to such code.
const GROWTH_KIB: f64 = 24.0 * 1024.0;
/// Derivatives are sums of up to a million terms.
const TOLERANCE: f64 = 1e-9;

/// A way to run the program.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    mode: &'static str,
    options: &'static [&'static str],
}

const WAYS: &[Way] = &[
    Way { name: "run", mode: "run", options: &[] },
    Way { name: "record", mode: "record", options: &[] },
    Way { name: "forward", mode: "forward", options: &[] },
    Way { name: "run-small-cache", mode: "run", options: &["--code-cache=64K"] },
    Way { name: "record-small-cache", mode: "record", options: &["--code-cache=128K"] },
    Way { name: "forward-small-cache", mode: "forward", options: &["--code-cache=128K"] },
];

fn main() -> ExitCode {
    let mut suite = Suite::new("soak");
    let built = Arc::new(OnceLock::new());
    for (position, &way) in WAYS.iter().enumerate() {
        let built = Arc::clone(&built);
        suite.case(way.name, move || {
            let directory: &Result<tempfile::TempDir, String> =
                built.get_or_init(|| build().map_err(|obstacle| format!("{obstacle:?}")));
            match directory {
                Ok(directory) => soak(directory.path(), way, position as u64),
                Err(message) => fail(message.clone()),
            }
        });
    }
    suite.run()
}

/// A number from the environment.
fn setting(name: &str) -> Option<f64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Builds the program with both editions of its library.
fn build() -> Result<tempfile::TempDir, derivgrind_tests::suite::Obstacle> {
    let scratch = compiler::scratch("soak")?;
    let sources = compiler::programs().join("soak");
    for edition in ["0", "1"] {
        let output = scratch.path().join(format!("plugin{edition}.so"));
        let edition = format!("-DEDITION={edition}");
        compiler::compile("gcc", &sources.join("plugin.c"), &output, &["-O1", "-fPIC", "-shared", &edition])?;
    }
    let options = ["-O2", "-pthread", "-ldl", "-lm", "-lrt"];
    compiler::compile("gcc", &sources.join("soak.c"), &scratch.path().join("soak"), &options)?;
    Ok(scratch)
}

/// Runs one seed after the other until the time is over.
fn soak(program: &Path, way: Way, position: u64) -> Outcome {
    let minutes = setting("DERIVGRIND_SOAK_MINUTES").or(full().then_some(FULL_MINUTES));
    let first = setting("DERIVGRIND_SOAK_SEED").map_or(1, |seed| seed as u64);
    let rounds = if minutes.is_some() { ROUNDS.1 } else { ROUNDS.0 };
    // Cases run at the same time, as many as there are processors.
    let together = std::thread::available_parallelism().map_or(1, usize::from).min(WAYS.len());
    let time = Duration::from_secs_f64(60.0 * minutes.unwrap_or(0.0) * together as f64 / WAYS.len() as f64);
    let started = Instant::now();
    for seed in (first..).map(|seed| 1000 * seed + position) {
        if let Err(error) = run(program, way, seed, rounds) {
            return fail(format!("{error:#}; to repeat it: {}", command_line(way, seed, rounds)));
        }
        if started.elapsed() >= time {
            break;
        }
    }
    Ok(())
}

fn command_line(way: Way, seed: u64, rounds: usize) -> String {
    let tape = if way.mode == "record" { " TAPE" } else { "" };
    format!("derivgrind {} {}{tape} -- ./soak {seed} {rounds} MEMORY", way.mode, way.options.join(" "))
}

fn run(program: &Path, way: Way, seed: u64, rounds: usize) -> Result<()> {
    let limit = Duration::from_secs(SECONDS_A_ROUND * rounds as u64);
    let scratch = tempfile::tempdir()?;
    for name in ["soak", "plugin0.so", "plugin1.so"] {
        std::os::unix::fs::symlink(program.join(name), scratch.path().join(name))?;
    }
    let memory = scratch.path().join("memory");
    let arguments = [seed.to_string(), rounds.to_string(), memory.display().to_string()];
    let native = process::run_with(process::command("./soak", scratch.path()).args(&arguments), &[], limit)?;
    let native = native.successful("natively")?;
    let expected = derivative(&native.text())?;

    let directory = scratch.path().join("tape");
    let (seeds, results) = (scratch.path().join("seeds"), scratch.path().join("results"));
    let mut command = tool(scratch.path());
    command.args(["--quiet", way.mode]).args(way.options);
    match way.mode {
        "record" => {
            command.arg(&directory);
        }
        "forward" => {
            std::fs::write(&seeds, "1\n")?;
            command.arg("--seeds").arg(&seeds).arg("--results").arg(&results);
        }
        _ => {}
    }
    let finished = process::run_with(command.args(["--", "./soak"]).args(&arguments), &[], limit)?;
    ensure!(finished == native, "natively {native}; under derivgrind {finished}");
    stays_small(&memory)?;
    match way.mode {
        "record" => {
            let mut check = tool(scratch.path());
            process::run(check.args(["tape", "check"]).arg(&directory))?.successful("derivgrind tape check")?;
            same(&Recording::existing(directory, finished).reverse(&[1.0])?, expected)
        }
        "forward" => {
            let results = std::fs::read_to_string(&results).context("no results")?;
            let dot = results.lines().find_map(|line| line.strip_prefix("output ")?.split(' ').nth(1)?.parse().ok());
            same(&[dot.context("no dot value")?], expected)
        }
        _ => Ok(()),
    }
}

/// The derivative that the program has computed itself.
fn derivative(output: &str) -> Result<f64> {
    let line = output.lines().find_map(|line| line.strip_prefix("derivative "));
    line.context("no derivative")?.parse().context("no number")
}

fn same(found: &[f64], expected: f64) -> Result<()> {
    let [found] = found else { anyhow::bail!("{} derivatives instead of one", found.len()) };
    ensure!(close(*found, expected, 0.0, TOLERANCE), "the derivative is {found:e} instead of {expected:e}");
    Ok(())
}

/// The process has its size after a third of its rounds.
fn stays_small(memory: &Path) -> Result<()> {
    let sizes = numbers(memory)?;
    let third = sizes.len() / 3;
    let largest = |sizes: &[f64]| sizes.iter().copied().fold(0.0, f64::max);
    let (before, after) = (largest(&sizes[third..2 * third]), largest(&sizes[2 * third..]));
    ensure!(before > 0.0, "the program does not tell its size");
    ensure!(
        after <= before + GROWTH_KIB,
        "the process grows: {before} KiB in the second third of its rounds, then {after} KiB"
    );
    Ok(())
}
