//! `derivgrind grad`: prints the derivatives of a program's outputs, from a tape in a temporary directory or from runs in forward mode.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use derivgrind_ad::declared::Results;
use derivgrind_ad::instrument::Reporting;
use derivgrind_tape::Tape;

use crate::arguments::{Grad, Mode};
use crate::failure::{Exit, Failure};
use crate::gradient::{Gradient, Variable};
use crate::progress::Progress;
use crate::recorder::{self, Output};
use crate::repeated::{self, Way};
use crate::start::Outcome;
use crate::{messages, npy, recording};

/// Runs, evaluates, prints. The exit code is the program's, 128 and the signal's number if a signal ended it.
pub fn grad(arguments: &Grad, reporting: Reporting) -> Outcome {
    let quiet = reporting.quiet;
    let directory = recorder::temporary_directory()?;
    let output = if arguments.json { Output::StandardError } else { Output::Inherited };
    if arguments.mode == Mode::Forward {
        let (status, gradient) = by_forward_runs(directory.path(), &arguments.program.words, output, reporting)?;
        let lost = gradient.as_ref().is_some_and(|(_, lost)| *lost);
        if let Some((gradient, _)) = gradient {
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
            &format!("{inputs} inputs and {outputs} outputs: the tape is evaluated forwards, once for each input"),
        );
        recording::gradient_forwards(&tape, quiet)?
    } else {
        recording::gradient(&tape, quiet)?
    };
    explain(&tape, &gradient, quiet)?;
    print(arguments, &gradient)?;
    Ok(exit_code(status))
}

fn note_signal(status: ExitStatus, quiet: bool) {
    if let Some(signal) = status.signal() {
        messages::note(
            quiet,
            &format!("signal {signal} ended the program; the derivatives are of what it computed until then"),
        );
    }
}

/// The derivatives from one run in forward mode for each input, and whether activity was lost in one; `None` if the program could not be
/// started.
fn by_forward_runs(
    directory: &Path,
    program: &[OsString],
    output: Output,
    reporting: Reporting,
) -> Result<(ExitStatus, Option<(Gradient, bool)>), Failure> {
    let quiet = reporting.quiet;
    let first = repeated::run(directory, program, Way::Forward, &[1.0], Some(output), reporting)?;
    let Some(results) = first.results else { return Ok((first.status, None)) };
    note_signal(first.status, quiet);
    require_variables(results.inputs.len(), results.outputs.len())?;
    let mut lost = results.lost != 0;
    let mut rows = vec![vec![0.0; results.inputs.len()]; results.outputs.len()];
    let mut progress = Progress::share("running", quiet);
    for input in 0..results.inputs.len() {
        let dots = if input == 0 {
            results.outputs.clone()
        } else {
            let seeds: Vec<f64> = (0..=input).map(|seeded| f64::from(u8::from(seeded == input))).collect();
            let run = repeated::run(directory, program, Way::Forward, &seeds, None, Reporting::default())?;
            let run = run.results.filter(|run| repeats(run, &results)).ok_or_else(|| not_repeatable(input + 1))?;
            if run.lost != 0 && !lost {
                lost = true;
                messages::note(
                    quiet && !reporting.strict,
                    &format!(
                        "in the run for input {} active values met operations that are not differentiated, {} times; their results count as \
                         constants. `--mode=record` says where",
                        input + 1,
                        run.lost
                    ),
                );
            }
            run.outputs
        };
        for (row, (_, dot)) in rows.iter_mut().zip(dots) {
            row[input] = dot;
        }
        progress.set(input as u64 + 1, Some(results.inputs.len() as u64));
    }
    let variable = |(position, value): (usize, f64)| Variable { index: position as u64 + 1, value: Some(value) };
    let inputs = results.inputs.iter().map(|&(value, _)| value).enumerate().map(variable).collect();
    let outputs = results.outputs.iter().map(|&(value, _)| value).enumerate().map(variable).collect();
    Ok((first.status, Some((Gradient { inputs, outputs, rows }, lost))))
}

/// Whether a run has computed with the same values as another.
fn repeats(run: &Results, first: &Results) -> bool {
    let values = |results: &Results| -> Vec<u64> {
        let inputs = results.inputs.iter().map(|(value, _)| value.to_bits());
        inputs.chain(results.outputs.iter().map(|(value, _)| value.to_bits())).collect()
    };
    run.inputs.len() == first.inputs.len() && values(run) == values(first)
}

fn not_repeatable(input: usize) -> Failure {
    let message = format!(
        "the program does not compute the same when it is run once more (for input {input}): does it read the standard input, the time, \
         or files that it has written? Use `--mode=record`, which runs it once"
    );
    Failure::new(Exit::Unavailable, message)
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
