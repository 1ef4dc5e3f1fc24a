//! `derivgrind demo`: the whole way from a C program to its gradient, compared with the analytic one.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output as Finished};

use tempfile::TempDir;

use crate::failure::{Exit, Failure};
use crate::gradient::{Gradient, number};
use crate::recorder;
use crate::recording;
use crate::start::Outcome;

/// The program that is differentiated. [`root_mean_square`] is the same in Rust.
const SOURCE: &str = include_str!("demo.c");

/// Names and values of its inputs.
const PARAMETERS: [(&str, f64); 4] = [("amplitude", 1.5), ("damping", 0.3), ("frequency", 2.0), ("phase", 0.5)];

/// Largest relative error of a derivative: some hundred rounding errors of the program's sums.
const TOLERANCE: f64 = 1e-12;

/// Runs the demonstration and says what it does. Exit code 1 if a derivative is wrong.
pub fn demo() -> Outcome {
    let directory = recorder::temporary_directory()?;
    let program = build(&directory)?;
    println!("\n2. Run it as it is");
    let native = run_natively(&program)?;
    println!("\n3. Record it: each operation on real numbers that depends on an input goes to the tape");
    let tape = record(&directory, &program, &native)?;
    println!("\n4. Evaluate the tape backwards: one sweep for the derivatives with respect to all inputs");
    let gradient = recording::gradient(&recording::open(&tape)?, false)?;
    println!("\n5. Compare with the analytic gradient\n");
    compare(&gradient)
}

/// Writes and compiles the program.
fn build(directory: &TempDir) -> Result<OsString, Failure> {
    let path = |name: &str| directory.path().join(name);
    write(&path("derivgrind.h"), derivgrind_client::HEADER)?;
    write(&path("demo.c"), SOURCE)?;
    println!("1. Compile this C program, which names its inputs and outputs with DG_INPUTF and DG_OUTPUTF\n");
    for line in SOURCE.lines() {
        println!("   | {line}");
    }
    let compiler = std::env::var_os("CC").unwrap_or_else(|| OsString::from("cc"));
    let program = path("demo");
    let mut command = Command::new(&compiler);
    command.args(["-O2", "-o"]).arg(&program).arg(path("demo.c")).arg("-I").arg(directory.path()).arg("-lm");
    show(&command);
    let finished = command.output().map_err(|error| {
        let message =
            format!("cannot run the C compiler {}: {error}; install one, or name it in CC", compiler.display());
        Failure::new(Exit::Unavailable, message)
    })?;
    succeed(&finished, "the C compiler failed")?;
    Ok(program.into_os_string())
}

fn run_natively(program: &OsString) -> Result<Vec<u8>, Failure> {
    let mut command = Command::new(program);
    show(&command);
    let finished = command
        .output()
        .map_err(|error| Failure::new(Exit::Internal, format!("cannot run the compiled program: {error}")))?;
    succeed(&finished, "the compiled program failed")?;
    print!("   {}", String::from_utf8_lossy(&finished.stdout));
    Ok(finished.stdout)
}

/// Records the program and makes sure that it printed the same.
fn record(directory: &TempDir, program: &OsString, native: &[u8]) -> Result<PathBuf, Failure> {
    let tape = directory.path().join("tape");
    println!("   $ derivgrind record {} -- {}", tape.display(), program.display());
    let finished = recorder::record_captured(&tape, std::slice::from_ref(program))?;
    succeed(&finished, "recording failed")?;
    print!("   {}", String::from_utf8_lossy(&finished.stdout));
    if finished.stdout != native {
        return Err(Failure::new(Exit::Wrong, "the recorded program printed something else than the native one"));
    }
    let statistics = recording::open(&tape)?.statistics().map_err(recording::unusable)?;
    let operations: u64 = statistics.by_operation.iter().map(|counted| counted.count).sum();
    println!(
        "   The program printed the same. The tape has {operations} entries in {} bytes, {} inputs and {} output.",
        statistics.bytes, statistics.inputs, statistics.outputs
    );
    Ok(tape)
}

/// Prints both gradients. Exit code 1 if they differ.
fn compare(gradient: &Gradient) -> Outcome {
    let parameters = PARAMETERS.map(|(_, value)| value);
    let (_, analytic) = root_mean_square(parameters);
    let [row] = &gradient.rows[..] else {
        return Err(Failure::new(
            Exit::Wrong,
            format!("expected one output on the tape, found {}", gradient.rows.len()),
        ));
    };
    if row.len() != analytic.len() {
        return Err(Failure::new(
            Exit::Wrong,
            format!("expected {} inputs on the tape, found {}", analytic.len(), row.len()),
        ));
    }
    println!("   {:<10} {:>6} {:>22} {:>22} {:>14}", "input", "value", "derivgrind", "analytic", "relative error");
    let mut worst: f64 = 0.0;
    for (((name, value), derivative), expected) in PARAMETERS.iter().zip(row).zip(analytic) {
        let error = ((derivative - expected) / expected).abs();
        let (found, expected) = (number(*derivative), number(expected));
        println!("   {name:<10} {value:>6} {found:>22} {expected:>22} {error:>14.1e}");
        // A derivative that is no number is wrong, too.
        worst = if error <= worst { worst } else { error };
    }
    if worst <= TOLERANCE {
        println!("\nThe largest relative error is {worst:.1e}: the derivatives are exact up to rounding.");
        Ok(0)
    } else {
        Err(Failure::new(Exit::Wrong, format!("the largest relative error is {worst:.1e}, more than {TOLERANCE:.0e}")))
    }
}

/// The program's function and its gradient.
fn root_mean_square([amplitude, damping, frequency, phase]: [f64; 4]) -> (f64, [f64; 4]) {
    const SAMPLES: u32 = 100;
    let mut sum = 0.0;
    let mut half_gradient = [0.0; 4];
    for sample in 0..SAMPLES {
        let t = 0.05 * f64::from(sample);
        let envelope = (-damping * t).exp();
        let (sin, cos) = (frequency * t + phase).sin_cos();
        let deflection = amplitude * envelope * sin;
        let partials = [envelope * sin, -t * deflection, amplitude * envelope * cos * t, amplitude * envelope * cos];
        sum += deflection * deflection;
        for (total, partial) in half_gradient.iter_mut().zip(partials) {
            *total += deflection * partial;
        }
    }
    let samples = f64::from(SAMPLES);
    let result = (sum / samples).sqrt();
    (result, half_gradient.map(|total| total / (samples * result)))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text)
        .map_err(|error| Failure::new(Exit::CannotCreate, format!("cannot write {}: {error}", path.display())))
}

/// Prints a command as one would type it.
fn show(command: &Command) {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| word.display().to_string()).collect();
    println!("   $ {}", words.join(" "));
}

fn succeed(finished: &Finished, otherwise: &str) -> Result<(), Failure> {
    if finished.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&finished.stderr);
    Err(Failure::new(Exit::Unavailable, format!("{otherwise} ({}):\n{errors}", finished.status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn analytic_gradient_agrees_with_difference_quotients() {
        let point = PARAMETERS.map(|(_, value)| value);
        let (_, gradient) = root_mean_square(point);
        for (position, derivative) in gradient.into_iter().enumerate() {
            let at = |step: f64| {
                let mut shifted = point;
                shifted[position] += step;
                root_mean_square(shifted).0
            };
            let quotient = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((derivative - quotient).abs() < 1e-9, "{position}: {derivative} {quotient}");
            assert!(derivative.abs() > 1e-3, "the relative error of a vanishing derivative means nothing");
        }
    }
}
