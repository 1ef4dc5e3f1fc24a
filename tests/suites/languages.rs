//! Client requests from each language: arrays in C, several recordings in one run, Fortran.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Result;
use derivgrind_tests::process::Finished;
use derivgrind_tests::recording::{self, Recording, numbers, tool};
use derivgrind_tests::suite::{Outcome, Suite, fail, skip};
use derivgrind_tests::{compiler, process};

const LIMIT: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let mut suite = Suite::new("languages");
    for real in ["double", "float", "long double"] {
        for count in [1, 3, 1000, 100_003] {
            suite.case(format!("arrays/{real}/{count}"), move || arrays(real, count));
        }
    }
    suite.case("several-recordings", several_recordings);
    for level in ["-O0", "-O3"] {
        suite.case(format!("fortran{level}/kinds-and-strides"), move || fortran_kinds(level));
        suite.case(format!("fortran{level}/dot-values"), move || fortran_dot_values(level));
    }
    suite.case("fortran/32-bit", fortran_32_bit);
    suite.case("fortran/without-compiler", fortran_without_compiler);
    suite.run()
}

fn expect(what: &str, came: &[f64], expected: &[f64]) -> Outcome {
    if came != expected {
        return fail(format!("{what}: {came:?} instead of {expected:?}"));
    }
    Ok(())
}

/// `y0 = Σ (i mod 5) x_i²`, `y1 = x_0 x_(n-1)` with small whole numbers, whose derivatives are exact.
fn arrays(real: &str, count: usize) -> Outcome {
    let scratch = compiler::scratch("languages")?;
    let program = scratch.path().join("arrays");
    let definition = format!("-DREAL={real}");
    compiler::compile("gcc", &compiler::programs().join("arrays.c"), &program, &["-O2", &definition])?;
    let arguments = [count.to_string()];
    let native = process::run(process::command(&program, scratch.path()).args(&arguments))?.successful("native run")?;
    let recording = Recording::make(&scratch.path().join("tape"), &program, &arguments, LIMIT)?;
    if recording.finished != native {
        return fail(format!("natively: {native}; recording: {}", recording.finished));
    }
    let x: Vec<f64> = (0..count).map(|i| (i % 7) as f64 - 2.0).collect();
    let first: Vec<f64> = x.iter().enumerate().map(|(i, x)| 2.0 * (i % 5) as f64 * x).collect();
    let mut second = vec![0.0; count];
    second[0] += x[count - 1];
    second[count - 1] += x[0];
    expect("first output", &recording.reverse(&[1.0, 0.0])?, &first)?;
    expect("second output", &recording.reverse(&[0.0, 1.0])?, &second)?;
    let dots: Vec<f64> = (0..count).map(|i| (i % 3) as f64).collect();
    // Sums of products of whole numbers below 2^24 are exact in each format.
    let expected = [&first, &second].map(|row| row.iter().zip(&dots).map(|(a, b)| a * b).sum::<f64>());
    expect("forward sweep", &recording.forward(&dots)?, &expected)?;
    let (finished, forward) = recording::forward_mode(scratch.path(), &program, &arguments, &dots, LIMIT)?;
    if finished != native {
        return fail(format!("natively: {native}; in forward mode: {finished}"));
    }
    expect("forward mode", &forward, &expected)
}

/// Each recording counts its indices from 1, and what a call has left in memory is constant in the next one.
fn several_recordings() -> Outcome {
    let scratch = compiler::scratch("languages")?;
    let program = scratch.path().join("several");
    compiler::compile("gcc", &compiler::programs().join("several_recordings.c"), &program, &["-O2"])?;
    let arguments = [scratch.path().as_os_str()];
    let recording = Recording::make(&scratch.path().join("main"), &program, &arguments, LIMIT)?;
    recording.finished.clone().successful("several_recordings")?;
    // kept * x0 * x1 with kept = 1, 3, 4 and x0 = 3, 4, 5.
    for (name, gradient) in [("first", [3.0, 3.0]), ("second", [9.0, 12.0]), ("third", [12.0, 20.0])] {
        let directory = scratch.path().join(name);
        expect(name, &numbers(&directory.join("dg-input-indices"))?, &[1.0, 2.0])?;
        recording::write_numbers(&directory.join("dg-output-bars"), &[1.0])?;
        let eval = process::run(tool(scratch.path()).arg("eval").arg(&directory))?.successful("derivgrind eval")?;
        if !eval.text().is_empty() {
            return fail(format!("{name}: {eval}"));
        }
        expect(name, &numbers(&directory.join("dg-input-bars"))?, &gradient)?;
    }
    Ok(())
}

/// `derivgrind config` with an option, as words.
fn config(scratch: &Path, option: &str) -> Result<Vec<String>> {
    let finished = process::run(tool(scratch).args(["config", option]))?.successful("derivgrind config")?;
    Ok(finished.text().split_whitespace().map(str::to_owned).collect())
}

/// Compiles a Fortran program with what `derivgrind config` says.
fn fortran(scratch: &Path, name: &str, options: &[&str]) -> Result<PathBuf, derivgrind_tests::suite::Obstacle> {
    let gfortran = compiler::need("gfortran")?;
    let program = scratch.join(name);
    let mut command = Command::new(gfortran);
    command.args(options).arg(compiler::programs().join(format!("{name}.f90"))).arg("-o").arg(&program);
    command.args(config(scratch, "--fflags64")?);
    process::run(&mut command)?.successful("gfortran")?;
    Ok(program)
}

fn fortran_kinds(level: &str) -> Outcome {
    let scratch = compiler::scratch("languages")?;
    let program = fortran(scratch.path(), "kinds_and_strides", &[level])?;
    let native = process::run(&mut process::command(&program, scratch.path()))?.successful("native run")?;
    let recording = Recording::make(&scratch.path().join("tape"), &program, &[] as &[&OsStr], LIMIT)?;
    if recording.finished != native {
        return fail(format!("natively: {native}; recording: {}", recording.finished));
    }
    // section(1::2, 1:3:2) = 11, 13, 31, 33; whole = 1, 2, 3, 4; short = 2; shorts in reverse = 0.25, 0.5; long = 3; named = 5.
    let first = [22.0, 26.0, 62.0, 66.0, 0.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 6.0, 10.0];
    let second = [0.0, 0.0, 0.0, 1.0, 4.0, 0.0, 0.0, 1.0, 0.0, 0.5, 0.25, 0.0, 0.0];
    expect("first output", &recording.reverse(&[1.0, 0.0])?, &first)?;
    expect("second output", &recording.reverse(&[0.0, 1.0])?, &second)
}

fn fortran_dot_values(level: &str) -> Outcome {
    let scratch = compiler::scratch("languages")?;
    let program = fortran(scratch.path(), "dot_values", &[level])?;
    let finished =
        process::run(tool(scratch.path()).args(["forward", "--"]).arg(&program))?.successful("forward mode")?;
    let words: Vec<String> = finished.text().split_whitespace().map(str::to_owned).collect();
    if words != ["8.00", "12.00", "8.00", "12.00"] {
        return fail(format!("values and dot values: {words:?}"));
    }
    Ok(())
}

/// The library for 32-bit programs, where the compiler can make them.
fn fortran_32_bit() -> Outcome {
    let scratch = compiler::scratch("languages")?;
    let program = scratch.path().join("program");
    let gfortran = compiler::need("gfortran")?;
    let source = compiler::programs().join("kinds_and_strides.f90");
    std::fs::write(scratch.path().join("empty.f90"), "end\n")?;
    let trial = process::run(Command::new(&gfortran).args(["-m32", "empty.f90"]).current_dir(scratch.path()))?;
    let flags = process::run(tool(scratch.path()).args(["config", "--fflags32"]))?;
    if !trial.status.success() {
        // Then there is a message that says what to install.
        return match flags.errors().contains("gfortran-multilib") {
            true => skip("gfortran cannot make 32-bit programs here; the message says what to install"),
            false => fail(format!("no helpful message: {flags}")),
        };
    }
    let flags = flags.successful("derivgrind config --fflags32")?;
    let mut command = Command::new(gfortran);
    command.arg("-m32").arg(source).arg("-o").arg(&program).args(flags.text().split_whitespace());
    process::run(&mut command)?.successful("gfortran -m32")?;
    process::run(&mut process::command(&program, scratch.path()))?.successful("native run")?;
    Ok(())
}

fn fortran_without_compiler() -> Outcome {
    let scratch = compiler::scratch("languages")?;
    let finished: Finished = process::run(tool(scratch.path()).args(["config", "--fflags64"]).env("PATH", "/nowhere"))?;
    let said = finished.errors();
    if finished.status.success() || !said.contains("gfortran") || !said.contains("install") {
        return fail(format!("no helpful message: {finished}"));
    }
    Ok(())
}
