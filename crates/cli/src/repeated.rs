//! Runs of a program that follow its declared variables without a tape: in forward mode, or with perturbed inputs.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use derivgrind_ad::declared::{Declared, Results};
use derivgrind_ad::instrument::Reporting;

use crate::arguments::Followed;
use crate::failure::{Exit, Failure};
use crate::recorder::{self, Output};

/// What the options of a run say.
///
/// # Errors
/// If the file of seeds cannot be read.
pub fn declared(options: &Followed) -> Result<Option<Declared>, Failure> {
    let Some(results) = options.results.clone() else { return Ok(None) };
    let seeds = match &options.seeds {
        None => Vec::new(),
        Some(path) => {
            let unusable = |what: &str| Failure::new(Exit::Seeds, format!("{}: {what}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|error| unusable(&error.to_string()))?;
            let number = |word: &str| word.parse().map_err(|_| unusable(&format!("not a number: {word}")));
            let seeds = |line: &str| line.split_whitespace().map(number).collect::<Result<Vec<f64>, _>>();
            text.lines().map(seeds).collect::<Result<_, _>>()?
        }
    };
    Ok(Some(Declared { seeds, results }))
}

/// How a program is run once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Seeds are dot values in so many directions.
    Forward(u32),
    /// Seeds are added to the inputs.
    Perturbed,
}

/// A finished run.
pub struct Run {
    /// How the program ended.
    pub status: ExitStatus,
    /// Its declared variables; `None` if it did not get to its end.
    pub results: Option<Results>,
}

/// Runs a program with seeds for its declared inputs, for each input a number for each direction. `output` is `None` if its streams shall not be
/// seen, nor what `reporting` says.
///
/// # Errors
/// If files cannot be written in `directory` or the process cannot be started.
pub fn run(
    directory: &Path,
    program: &[OsString],
    way: Way,
    seeds: &[Vec<f64>],
    output: Option<Output>,
    reporting: Reporting,
) -> Result<Run, Failure> {
    let (seeds_file, results_file) = (directory.join("seeds"), directory.join("results"));
    let mut text = String::new();
    for seeds in seeds {
        let words: Vec<String> = seeds.iter().map(|seed| format!("{seed:e}")).collect();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", words.join(" "));
    }
    let not_run =
        |error: io::Error| Failure::new(Exit::InputOutput, format!("cannot run the program once more: {error}"));
    std::fs::write(&seeds_file, text).map_err(not_run)?;
    if results_file.exists() {
        std::fs::remove_file(&results_file).map_err(not_run)?;
    }
    let mut command = Command::new(std::env::current_exe().map_err(not_run)?);
    command.args(recorder::options(reporting));
    match way {
        Way::Forward(directions) => command.arg("forward").arg(format!("--directions={directions}")),
        Way::Perturbed => command.arg("perturbed"),
    };
    command.arg("--seeds").arg(&seeds_file).arg("--results").arg(&results_file).arg("--").args(program);
    match output {
        Some(Output::Inherited) => {}
        Some(Output::StandardError) => {
            let stream = io::stderr().as_fd().try_clone_to_owned().map_err(not_run)?;
            command.stdout(Stdio::from(stream));
        }
        None => {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
    }
    let status = command.status().map_err(not_run)?;
    let results = std::fs::read_to_string(&results_file).ok().and_then(|text| Results::parse(&text));
    Ok(Run { status, results })
}
