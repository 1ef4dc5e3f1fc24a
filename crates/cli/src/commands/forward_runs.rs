//! The derivatives of a program from runs in forward mode, each with respect to as many inputs as it has directions.

use std::path::Path;
use std::process::ExitStatus;

use derivgrind_ad::declared::Results;
use derivgrind_ad::instrument::Reporting;

use crate::arguments::Grad;
use crate::failure::{Exit, Failure};
use crate::gradient::{Gradient, Variable};
use crate::messages;
use crate::progress::Progress;
use crate::recorder::Output;
use crate::repeated::{self, Way};

use super::grad::{note_signal, require_variables};

/// Directions of a run, unless the user says otherwise: of the first one, which has to be made before it is known how many inputs there are, and at most
/// of further ones. In four directions a program computes at the least cost for each of them: with eight, dot values take more vector registers than
/// there are, and shadow takes more of the cache.
const DIRECTIONS: u32 = 4;

/// The derivatives, and whether activity was lost in a run; `None` if the program could not be started.
///
/// # Errors
/// If the program declares nothing, cannot be run again, or computes something else then.
pub(super) fn gradient(
    directory: &Path,
    arguments: &Grad,
    output: Output,
    reporting: Reporting,
) -> Result<(ExitStatus, Option<(Gradient, bool)>), Failure> {
    let (program, quiet) = (&arguments.program.words, reporting.quiet);
    let directions = arguments.directions.unwrap_or(DIRECTIONS);
    let (way, seeds) = (Way::Forward(directions), unit_vectors(0, directions));
    let first = repeated::run(directory, program, way, &seeds, Some(output), reporting)?;
    let Some(results) = first.results else { return Ok((first.status, None)) };
    note_signal(first.status, quiet);
    let inputs = results.inputs.len();
    require_variables(inputs, results.outputs.len())?;
    let mut lost = results.lost != 0;
    let mut rows = vec![vec![0.0; inputs]; results.outputs.len()];
    let mut set_columns = |from: usize, outputs: &[(f64, Vec<f64>)]| {
        for (row, (_, dots)) in rows.iter_mut().zip(outputs) {
            row[from..].iter_mut().zip(dots).for_each(|(derivative, dot)| *derivative = *dot);
        }
    };
    set_columns(0, &results.outputs);
    let mut done = inputs.min(directions as usize);
    let further = further_runs(inputs - done, directions);
    note_runs(inputs, done, &further, quiet);
    let mut progress = Progress::share("running", quiet);
    for directions in further {
        progress.set(done as u64, Some(inputs as u64));
        let (way, seeds) = (Way::Forward(directions), unit_vectors(done, directions));
        let run = repeated::run(directory, program, way, &seeds, None, Reporting::default())?;
        let run = run.results.filter(|run| repeats(run, &results)).ok_or_else(|| not_repeatable(done + 1))?;
        if run.lost != 0 && !lost {
            lost = true;
            note_lost(&run, done + 1, reporting);
        }
        set_columns(done, &run.outputs);
        done += directions as usize;
    }
    drop(progress);
    let variable = |(position, value): (usize, f64)| Variable { index: position as u64 + 1, value: Some(value) };
    let outputs = results.output_values().enumerate().map(variable).collect();
    let inputs = results.inputs.iter().map(|&(value, _)| value).enumerate().map(variable).collect();
    Ok((first.status, Some((Gradient { inputs, outputs, rows }, lost))))
}

/// A line for each input up to the last one that is seeded: input `first + k` in direction k.
fn unit_vectors(first: usize, directions: u32) -> Vec<Vec<f64>> {
    let directions = directions as usize;
    let seeds = |input: usize| (0..directions).map(|k| f64::from(u8::from(first + k == input))).collect();
    (0..first + directions).map(seeds).collect()
}

/// How many directions each of the runs for the remaining inputs has: as few runs as possible, and these alike.
fn further_runs(remaining: usize, most: u32) -> Vec<u32> {
    let runs = remaining.div_ceil(most as usize);
    (0..runs).map(|run| ((run + 1) * remaining / runs - run * remaining / runs) as u32).collect()
}

fn note_runs(inputs: usize, first: usize, further: &[u32], quiet: bool) {
    if inputs == 1 {
        return;
    }
    let most = further.iter().map(|&directions| directions as usize).chain([first]).max().unwrap_or(first);
    let message = match (further.len(), most) {
        (0, _) => format!("one run differentiates with respect to all {inputs} inputs"),
        (runs, 1) => format!("{} runs, one for each input", runs + 1),
        (runs, most) => format!("{} runs for {inputs} inputs, with up to {most} of them in each", runs + 1),
    };
    messages::note(quiet, &message);
}

fn note_lost(run: &Results, first: usize, reporting: Reporting) {
    let operations = if run.lost == 1 { "operation that is" } else { "operations that are" };
    messages::note(
        reporting.quiet && !reporting.strict,
        &format!(
            "in the run for inputs from {first} on, active values met {} {operations} not differentiated; their results count as constants. \
             `--mode=record` says where",
            run.lost
        ),
    );
}

/// Whether a run has computed with the same values as another.
fn repeats(run: &Results, first: &Results) -> bool {
    let values = |results: &Results| -> Vec<u64> {
        let inputs = results.inputs.iter().map(|(value, _)| value.to_bits());
        inputs.chain(results.output_values().map(f64::to_bits)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_few_runs_as_possible() {
        assert!(further_runs(0, 8).is_empty());
        assert_eq!(further_runs(8, 8), [8]);
        assert_eq!(further_runs(9, 8), [4, 5]);
        assert_eq!(further_runs(3, 1), [1, 1, 1]);
        for remaining in 1..100 {
            let runs = further_runs(remaining, 8);
            assert_eq!(runs.iter().sum::<u32>() as usize, remaining);
            assert!(runs.iter().all(|run| (1..=8).contains(run)));
        }
    }

    #[test]
    fn each_direction_has_one_input() {
        assert_eq!(unit_vectors(0, 2), [[1.0, 0.0], [0.0, 1.0]]);
        assert_eq!(unit_vectors(2, 1), [[0.0], [0.0], [1.0]]);
    }
}
