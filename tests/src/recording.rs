//! Records programs and evaluates their tapes through the command line, as a user does.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::process::{self, Finished};

/// A recording directory and how its program ended.
pub struct Recording {
    directory: PathBuf,
    /// What the recorded program did.
    pub finished: Finished,
}

impl Recording {
    /// What a program has recorded into `directory` that was run by other means.
    pub fn existing(directory: PathBuf, finished: Finished) -> Self {
        Self { directory, finished }
    }

    /// Records `program` with `arguments` into `directory`.
    ///
    /// # Errors
    /// If the tool cannot be started or is not done after `limit`.
    pub fn make<Argument: AsRef<OsStr>>(
        directory: &Path,
        program: &Path,
        arguments: &[Argument],
        limit: Duration,
    ) -> Result<Self> {
        Self::make_with(&[], directory, program, arguments, limit)
    }

    /// The same with options of `derivgrind record`.
    ///
    /// # Errors
    /// As [`Recording::make`].
    pub fn make_with<Argument: AsRef<OsStr>>(
        options: &[&str],
        directory: &Path,
        program: &Path,
        arguments: &[Argument],
        limit: Duration,
    ) -> Result<Self> {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let mut command = tool(directory);
        command.args(["--quiet", "record"]).args(options).arg(directory).arg("--").arg(program).args(arguments);
        let finished = process::run_with(&mut command, &[], limit)?;
        Ok(Self { directory: directory.to_owned(), finished })
    }

    /// Number of declared inputs.
    ///
    /// # Errors
    /// If the index file is missing or malformed.
    pub fn inputs(&self) -> Result<usize> {
        Ok(numbers(&self.directory.join("dg-input-indices"))?.len())
    }

    /// Number of declared outputs.
    ///
    /// # Errors
    /// If the index file is missing or malformed.
    pub fn outputs(&self) -> Result<usize> {
        Ok(numbers(&self.directory.join("dg-output-indices"))?.len())
    }

    /// Reverse sweep: a bar value for each output gives one for each input.
    ///
    /// # Errors
    /// If the evaluator fails or leaves no well-formed result.
    pub fn reverse(&self, output_bars: &[f64]) -> Result<Vec<f64>> {
        self.sweep("dg-output-bars", output_bars, &[], "dg-input-bars")
    }

    /// Forward sweep: a dot value for each input gives one for each output.
    ///
    /// # Errors
    /// If the evaluator fails or leaves no well-formed result.
    pub fn forward(&self, input_dots: &[f64]) -> Result<Vec<f64>> {
        self.sweep("dg-input-dots", input_dots, &["--forward"], "dg-output-dots")
    }

    fn sweep(&self, seeds: &str, values: &[f64], options: &[&str], result: &str) -> Result<Vec<f64>> {
        write_numbers(&self.directory.join(seeds), values)?;
        let result = self.directory.join(result);
        if result.exists() {
            std::fs::remove_file(&result).with_context(|| format!("cannot remove {}", result.display()))?;
        }
        let mut command = tool(&self.directory);
        command.args(["--quiet", "eval"]).arg(&self.directory).args(options);
        process::run(&mut command)?.successful("derivgrind eval")?;
        numbers(&result)
    }
}

/// Runs `program` in forward mode, with a dot value for each declared input. Returns how it ended and the outputs' dot values.
///
/// # Errors
/// If the tool cannot be started, is not done after `limit`, or leaves no well-formed result.
pub fn forward_mode<Argument: AsRef<OsStr>>(
    directory: &Path,
    program: &Path,
    arguments: &[Argument],
    input_dots: &[f64],
    limit: Duration,
) -> Result<(Finished, Vec<f64>)> {
    let (finished, outputs) = in_directions(directory, program, arguments, &[input_dots.to_vec()], limit)?;
    Ok((finished, outputs.into_iter().flatten().collect()))
}

/// Runs `program` in forward mode in several directions at once; `input_dots` has for each of them a dot value for each declared input. Returns how it
/// ended and for each output its dot values in all directions.
///
/// # Errors
/// If the tool cannot be started, is not done after `limit`, or leaves no well-formed result.
pub fn in_directions<Argument: AsRef<OsStr>>(
    directory: &Path,
    program: &Path,
    arguments: &[Argument],
    input_dots: &[Vec<f64>],
    limit: Duration,
) -> Result<(Finished, Vec<Vec<f64>>)> {
    let scratch = crate::compiler::scratch("forward")?;
    let (seeds, results) = (scratch.path().join("seeds"), scratch.path().join("results"));
    let mut text = String::new();
    for input in 0..input_dots.first().map_or(0, Vec::len) {
        let dots: Vec<String> = input_dots.iter().map(|dots| format!("{:e}", dots[input])).collect();
        writeln!(text, "{}", dots.join(" ")).context("cannot format a number")?;
    }
    std::fs::write(&seeds, text).with_context(|| format!("cannot write {}", seeds.display()))?;
    let mut command = tool(directory);
    command.args(["--quiet", "forward", "--directions", &input_dots.len().to_string()]);
    command.arg("--seeds").arg(&seeds).arg("--results").arg(&results);
    command.arg("--").arg(program).args(arguments);
    let finished = process::run_with(&mut command, &[], limit)?;
    let declared = std::fs::read_to_string(&results).with_context(|| format!("no results: {finished}"))?;
    let outputs = declared.lines().filter_map(|line| line.strip_prefix("output "));
    let dots = |line: &str| -> Option<Vec<f64>> { line.split(' ').skip(1).map(|dot| dot.parse().ok()).collect() };
    let dots: Option<Vec<_>> = outputs.map(dots).collect();
    let dots = dots.filter(|dots| dots.iter().all(|dots| dots.len() == input_dots.len()));
    Ok((finished, dots.context("malformed results")?))
}

/// The `derivgrind` command in a fixed environment, started in `directory`.
pub fn tool(directory: &Path) -> Command {
    process::command(crate::derivgrind(), directory)
}

/// Reads a file of one number a line.
///
/// # Errors
/// If it cannot be read or a line is no number.
pub fn numbers(path: &Path) -> Result<Vec<f64>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let parse = |line: &str| line.trim().parse().with_context(|| format!("{}: not a number: {line:?}", path.display()));
    text.lines().map(parse).collect()
}

/// Writes one number a line, so that reading back gives the same doubles.
///
/// # Errors
/// If the file cannot be written, or a number is not finite.
pub fn write_numbers(path: &Path, values: &[f64]) -> Result<()> {
    ensure!(values.iter().all(|value| value.is_finite()), "a seed is not finite");
    let mut text = String::new();
    for value in values {
        writeln!(text, "{value:e}").context("cannot format a number")?;
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
