//! Recordings on disk, as the commands need them: all access to `derivgrind-tape` for reading is here.

use std::path::Path;

use derivgrind_tape::{Record, Tape, TapeError, values as number_files};

use crate::failure::{Exit, Failure};
use crate::gradient::{Gradient, Variable};
use crate::messages;
use crate::progress::Progress;

/// Jacobian rows that are seeded together: each takes a vector as long as there are outputs.
const GROUP: usize = 64;

/// What an evaluation goes by.
struct Sweep {
    /// File with the numbers that it starts from.
    seeds: &'static str,
    /// File for its results.
    results: &'static str,
    /// What the seeds are, for messages.
    value: &'static str,
    /// What they belong to, for messages.
    variables: &'static str,
}

const REVERSE: Sweep =
    Sweep { seeds: "dg-output-bars", results: "dg-input-bars", value: "bar value", variables: "outputs" };
const FORWARD: Sweep =
    Sweep { seeds: "dg-input-dots", results: "dg-output-dots", value: "dot value", variables: "inputs" };

/// Opens a complete recording.
///
/// # Errors
/// With [`Exit::Tape`], whatever is wrong with it.
pub fn open(directory: &Path) -> Result<Tape, Failure> {
    Tape::open(directory).map_err(unusable)
}

/// Size of the tape by now, 0 if there is none.
pub fn tape_bytes(directory: &Path) -> u64 {
    std::fs::metadata(directory.join("dg-tape")).map_or(0, |metadata| metadata.len())
}

/// Evaluates a tape from the file of bar or dot values in its directory, and writes the results to another.
///
/// # Errors
/// With [`Exit::Tape`] or [`Exit::Seeds`], whatever is wrong with the recording or the values; [`Exit::InputOutput`] if the results
/// cannot be written.
pub fn evaluate_files(directory: &Path, forward: bool, quiet: bool) -> Result<(), Failure> {
    let tape = open(directory)?;
    note_independent(&independent_outputs(&tape)?, quiet);
    let (files, count) = if forward { (FORWARD, tape.inputs().len()) } else { (REVERSE, tape.outputs().len()) };
    let seeds = number_files::read(&tape.file(files.seeds), count, files.value, files.variables)
        .map_err(|error| Failure::new(Exit::Seeds, error.to_string()))?;
    let mut progress = Progress::share("evaluating", quiet);
    let sweep = tape.sweep().progress(|share| progress.set(share.done, Some(share.total)));
    let results = if forward { sweep.forward(&[seeds]) } else { sweep.reverse(&[seeds]) };
    let results = results.map_err(unusable)?.swap_remove(0);
    number_files::write(&tape.file(files.results), &results)
        .map_err(|error| Failure::new(Exit::InputOutput, error.to_string()))
}

/// The derivatives of all outputs with respect to all inputs.
///
/// # Errors
/// With [`Exit::Tape`], whatever is wrong with the recording.
pub fn gradient(tape: &Tape, quiet: bool) -> Result<Gradient, Failure> {
    let outputs = tape.outputs().len();
    let groups = outputs.div_ceil(GROUP) as u64;
    let mut progress = Progress::share("evaluating", quiet);
    let mut rows = Vec::with_capacity(outputs);
    for (group, first) in (0..).zip((0..outputs).step_by(GROUP)) {
        let unit_vectors: Vec<Vec<f64>> = (first..outputs.min(first + GROUP))
            .map(|seeded| (0..outputs).map(|output| f64::from(u8::from(output == seeded))).collect())
            .collect();
        let sweep =
            tape.sweep().progress(|share| progress.set(group * share.total + share.done, Some(groups * share.total)));
        rows.extend(sweep.reverse(&unit_vectors).map_err(unusable)?);
    }
    Ok(Gradient { inputs: variables(tape, tape.inputs())?, outputs: variables(tape, tape.outputs())?, rows })
}

/// The same, from forward sweeps: one for each input.
///
/// # Errors
/// With [`Exit::Tape`], whatever is wrong with the recording.
pub fn gradient_forwards(tape: &Tape, quiet: bool) -> Result<Gradient, Failure> {
    let (inputs, outputs) = (tape.inputs().len(), tape.outputs().len());
    let mut progress = Progress::share("evaluating", quiet);
    let mut rows = vec![vec![0.0; inputs]; outputs];
    for first in (0..inputs).step_by(GROUP) {
        let seeded: Vec<usize> = (first..inputs.min(first + GROUP)).collect();
        let unit_vectors: Vec<Vec<f64>> = seeded
            .iter()
            .map(|&seeded| (0..inputs).map(|input| f64::from(u8::from(input == seeded))).collect())
            .collect();
        let columns = tape.sweep().forward(&unit_vectors).map_err(unusable)?;
        for (input, column) in seeded.into_iter().zip(columns) {
            for (row, derivative) in rows.iter_mut().zip(column) {
                row[input] = derivative;
            }
        }
        progress.set(first as u64, Some(inputs as u64));
    }
    Ok(Gradient { inputs: variables(tape, tape.inputs())?, outputs: variables(tape, tape.outputs())?, rows })
}

/// Inputs or outputs with what the tape knows of them.
fn variables(tape: &Tape, indices: &[u64]) -> Result<Vec<Variable>, Failure> {
    let records = tape.records_at(indices).map_err(unusable)?;
    let value = |record: Option<Record>| record.and_then(|record| record.declared_value());
    Ok(indices.iter().zip(records).map(|(index, record)| Variable { index: *index, value: value(record) }).collect())
}

/// The values of declared variables, as far as the tape knows them.
///
/// # Errors
/// With [`Exit::Tape`], whatever is wrong with the recording.
pub fn values(tape: &Tape, indices: &[u64]) -> Result<Vec<Option<f64>>, Failure> {
    Ok(variables(tape, indices)?.into_iter().map(|variable| variable.value).collect())
}

/// Positions of the outputs that were declared without being active: no input has an influence on them.
///
/// # Errors
/// With [`Exit::Tape`], whatever is wrong with the recording.
pub fn independent_outputs(tape: &Tape) -> Result<Vec<usize>, Failure> {
    let mut inputs = tape.inputs().to_vec();
    inputs.sort_unstable();
    let records = tape.records_at(tape.outputs()).map_err(unusable)?;
    let active = |index: &u64, record: Option<Record>| {
        record.is_some_and(|record| record.operands() != [0, 0]) || inputs.binary_search(index).is_ok()
    };
    let outputs = tape.outputs().iter().zip(records).enumerate();
    Ok(outputs.filter(|(_, (index, record))| !active(index, *record)).map(|(position, _)| position).collect())
}

/// Says which outputs (given by position) no input has an influence on.
pub fn note_independent(outputs: &[usize], quiet: bool) {
    const NAMED: usize = 5;
    let mut names: Vec<String> = outputs.iter().take(NAMED).map(|position| (position + 1).to_string()).collect();
    if outputs.len() > NAMED {
        names.push(format!("{} more", outputs.len() - NAMED));
    }
    let Some(last) = names.pop() else { return };
    let message = match names.is_empty() {
        true => format!("output {last} does not depend on any input: its derivatives are 0"),
        false => {
            format!("outputs {} and {last} do not depend on any input: their derivatives are 0", names.join(", "))
        }
    };
    messages::note(quiet, &message);
}

/// The failure for something that is wrong with a recording.
pub fn unusable(error: TapeError) -> Failure {
    let exit = match error {
        TapeError::Memory { .. } => Exit::System,
        _ => Exit::Tape,
    };
    Failure::new(exit, error.to_string())
}
