//! Recordings on disk, as the commands need them: all access to `derivgrind-tape` for reading is here.

use std::path::Path;

use derivgrind_tape::{Tape, TapeError, values};

use crate::failure::{Exit, Failure};
use crate::gradient::{Gradient, Variable};
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
    let (files, count) = if forward { (FORWARD, tape.inputs().len()) } else { (REVERSE, tape.outputs().len()) };
    let seeds = values::read(&tape.file(files.seeds), count, files.value, files.variables)
        .map_err(|error| Failure::new(Exit::Seeds, error.to_string()))?;
    let mut progress = Progress::share("evaluating", quiet);
    let sweep = tape.sweep().progress(|share| progress.set(share.done, Some(share.total)));
    let results = if forward { sweep.forward(&[seeds]) } else { sweep.reverse(&[seeds]) };
    let results = results.map_err(unusable)?.swap_remove(0);
    values::write(&tape.file(files.results), &results)
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
    let variables = |indices: &[u64]| indices.iter().map(|index| Variable { index: *index, value: None }).collect();
    Ok(Gradient { inputs: variables(tape.inputs()), outputs: variables(tape.outputs()), rows })
}

/// The failure for something that is wrong with a recording.
pub fn unusable(error: TapeError) -> Failure {
    let exit = match error {
        TapeError::Memory { .. } => Exit::System,
        _ => Exit::Tape,
    };
    Failure::new(exit, error.to_string())
}
