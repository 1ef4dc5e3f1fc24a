//! `derivgrind grad`: records a program into a temporary directory and prints the derivatives of its outputs.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use derivgrind_tape::Tape;

use crate::arguments::Grad;
use crate::failure::{Exit, Failure};
use crate::gradient::Gradient;
use crate::recorder::{self, Output};
use crate::start::Outcome;
use crate::{messages, npy, recording};

/// Records, evaluates, prints. The exit code is the program's, 128 and the signal's number if a signal ended it.
pub fn grad(arguments: &Grad, quiet: bool) -> Outcome {
    let directory = recorder::temporary_directory()?;
    let output = if arguments.json { Output::StandardError } else { Output::Inherited };
    let status = recorder::record(directory.path(), &arguments.program.words, output, quiet)?;
    if recording::tape_bytes(directory.path()) == 0 {
        // The recording process has said why it did not start the program.
        return Ok(exit_code(status));
    }
    if let Some(signal) = status.signal() {
        messages::note(
            quiet,
            &format!("signal {signal} ended the program; the derivatives are of what it computed until then"),
        );
    }
    let tape = recording::open(directory.path())?;
    require_variables(&tape)?;
    let gradient = recording::gradient(&tape, quiet)?;
    explain(&tape, &gradient, quiet)?;
    if let Some(path) = &arguments.npy {
        write_npy(path, &gradient)?;
    }
    let text = match (arguments.json, &arguments.npy) {
        (true, _) => format!("{}\n", gradient.json()),
        (false, None) => gradient.table(),
        (false, Some(_)) => String::new(),
    };
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| {
        Failure::new(Exit::InputOutput, format!("cannot write the derivatives to the standard output: {error}"))
    })?;
    Ok(exit_code(status))
}

/// Makes sure that there is something to differentiate.
fn require_variables(tape: &Tape) -> Result<(), Failure> {
    let missing = match (tape.inputs().is_empty(), tape.outputs().is_empty()) {
        (true, true) => "inputs and outputs",
        (true, false) => "inputs",
        (false, true) => "outputs",
        (false, false) => return Ok(()),
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
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
