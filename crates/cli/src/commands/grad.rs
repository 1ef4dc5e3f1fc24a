//! `derivgrind grad`: prints the derivatives of a program's outputs, from a tape in a temporary directory or from runs in forward mode.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use derivgrind_ad::instrument::Reporting;
use derivgrind_tape::Tape;

use crate::arguments::{Grad, Mode};
use crate::failure::{Exit, Failure};
use crate::gradient::Gradient;
use crate::recorder::{self, Output};
use crate::start::Outcome;
use crate::{messages, npy, recording};

use super::forward_runs;

/// Runs, evaluates, prints. The exit code is the program's, 128 and the signal's number if a signal ended it.
pub fn grad(arguments: &Grad, reporting: Reporting) -> Outcome {
    let quiet = reporting.quiet;
    let directory = recorder::temporary_directory()?;
    if arguments.directions.is_some() && arguments.mode != Mode::Forward {
        return Err(Failure::new(Exit::Usage, "`--directions` goes with `--mode=forward`; a tape has no directions"));
    }
    let output = if arguments.json { Output::StandardError } else { Output::Inherited };
    if arguments.mode == Mode::Forward {
        let (status, runs) = forward_runs::gradient(directory.path(), arguments, output, reporting)?;
        let lost = runs.as_ref().is_some_and(|(_, lost)| *lost);
        if let Some((gradient, _)) = runs {
            print(arguments, &gradient)?;
        }
        return Ok(match exit_code(status) {
            0 if lost && reporting.strict => Exit::Lost.code(),
            code => code,
        });
    }
    let status = recorder::record(directory.path(), &arguments.program.words, output, reporting)?;
    if recording::tape_bytes(directory.path()) == 0 {
        // The recording process has said why it did not start the program.
        return Ok(exit_code(status));
    }
    note_signal(status, quiet);
    let tape = recording::open(directory.path())?;
    require_variables(tape.inputs().len(), tape.outputs().len())?;
    let gradient = if arguments.mode == Mode::Auto && tape.inputs().len() < tape.outputs().len() {
        let (inputs, outputs) = (tape.inputs().len(), tape.outputs().len());
        messages::note(
            quiet,
            &format!(
                "{inputs} input{} and {outputs} outputs: the tape is evaluated forwards, with respect to several inputs at once",
                if inputs == 1 { "" } else { "s" }
            ),
        );
        recording::gradient_forwards(&tape, quiet)?
    } else {
        recording::gradient(&tape, quiet)?
    };
    explain(&tape, &gradient, quiet)?;
    print(arguments, &gradient)?;
    Ok(exit_code(status))
}

pub(super) fn note_signal(status: ExitStatus, quiet: bool) {
    if let Some(signal) = status.signal() {
        messages::note(
            quiet,
            &format!("signal {signal} ended the program; the derivatives are of what it computed until then"),
        );
    }
}

/// Prints derivatives as the options say.
fn print(arguments: &Grad, gradient: &Gradient) -> Result<(), Failure> {
    if let Some(path) = &arguments.npy {
        write_npy(path, gradient)?;
    }
    let text = match (arguments.json, &arguments.npy) {
        (true, _) => format!("{}\n", gradient.json()),
        (false, None) => gradient.table(),
        (false, Some(_)) => String::new(),
    };
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| {
        Failure::new(Exit::InputOutput, format!("cannot write the derivatives to the standard output: {error}"))
    })
}

/// Makes sure that there is something to differentiate.
pub(super) fn require_variables(inputs: usize, outputs: usize) -> Result<(), Failure> {
    let missing = match (inputs, outputs) {
        (0, 0) => "inputs and outputs",
        (0, _) => "inputs",
        (_, 0) => "outputs",
        _ => return Ok(()),
    };
    let message = format!(
        "the program declared no {missing}, so there is nothing to differentiate; declare them with DG_INPUTF and DG_OUTPUTF \
         (#include <derivgrind.h>, compiled with `derivgrind config --cflags`)"
    );
    Err(Failure::new(Exit::Tape, message))
}

/// Tells what the zeros of an output mean.
fn explain(tape: &Tape, gradient: &Gradient, quiet: bool) -> Result<(), Failure> {
    let zeros = gradient.vanishing_rows();
    if quiet || zeros.is_empty() {
        return Ok(());
    }
    let dependent = tape.dependence().map_err(recording::unusable)?.outputs;
    let (dependent, independent): (Vec<usize>, Vec<usize>) = zeros.into_iter().partition(|output| dependent[*output]);
    recording::note_independent(&independent, quiet);
    for output in dependent {
        let number = output + 1;
        messages::note(quiet, &format!("output {number} depends on inputs, but all its derivatives are 0"));
    }
    Ok(())
}

fn write_npy(path: &Path, gradient: &Gradient) -> Result<(), Failure> {
    File::create(path)
        .and_then(|file| npy::write(BufWriter::new(file), &gradient.rows, gradient.inputs.len()))
        .map_err(|error| Failure::new(Exit::CannotCreate, format!("cannot write {}: {error}", path.display())))
}

/// As a shell reports it.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
