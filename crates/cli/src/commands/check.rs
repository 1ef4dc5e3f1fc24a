//! `derivgrind check`: compares derivatives with difference quotients of runs with perturbed inputs.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitStatus;

use derivgrind_ad::declared::Results;
use derivgrind_ad::instrument::{EXIT_LOST, Reporting};
use derivgrind_tape::Tape;

use crate::difference::{self, Comparison, Verdict};
use crate::failure::{Exit, Failure};
use crate::gradient::{aligned, number};
use crate::progress::Progress;
use crate::recorder::{self, Output};
use crate::repeated::{self, Way};
use crate::start::Outcome;
use crate::{messages, recording};

use super::grad::{exit_code, require_variables};

/// Up to so many inputs are perturbed one by one; more of them together, in random directions.
const SINGLE_INPUTS: usize = 16;
/// Number of random directions.
const DIRECTIONS: usize = 8;
/// A table of more lines has the worst output of each direction only.
const LINES: usize = 64;

/// A direction in which inputs are perturbed.
struct Direction {
    name: String,
    /// What one unit of `t` changes each input by.
    change: Vec<f64>,
    /// Derivatives are shown for this many units.
    unit: f64,
}

/// Records, runs with perturbed inputs, compares, prints a table. The exit code is 0 if nothing differs.
pub fn check(program: &[OsString], reporting: Reporting) -> Outcome {
    let quiet = reporting.quiet;
    let directory = recorder::temporary_directory()?;
    let place = directory.path();
    let status = recorder::record(place, program, Output::StandardError, reporting)?;
    if recording::tape_bytes(place) == 0 {
        // The recording process has said why it did not start the program.
        return Ok(exit_code(status));
    }
    let tape = recording::open(place)?;
    require_variables(tape.inputs().len(), tape.outputs().len())?;
    let (own_status, base) = perturbed_run(place, program, &[])?;
    require_same(&base, &tape)?;
    let directions = directions(&base);
    let mut progress = Progress::share("checking", quiet);
    let mut lines = Vec::new();
    // The recording, and the run that shows that the program can be run again.
    let mut runs = 2;
    let middle: Vec<f64> = base.output_values().collect();
    for (done, direction) in directions.iter().enumerate() {
        let changed = base.inputs.iter().zip(&direction.change).filter(|(_, change)| **change != 0.0);
        let step = difference::step(changed.map(|(&(_, size), _)| size));
        let derivatives = tape.sweep().forward(std::slice::from_ref(&direction.change)).map_err(recording::unusable)?;
        let found = difference::judge(&derivatives[0], &middle, step, |t| {
            runs += 1;
            let seeds: Vec<f64> = direction.change.iter().map(|change| t * change).collect();
            let (_, run) = perturbed_run(place, program, &seeds)?;
            if run.outputs.len() == middle.len() {
                return Ok(run.output_values().collect());
            }
            let message = "the program declares other outputs when its inputs change a little";
            Err(Failure::new(Exit::Unavailable, message))
        })?;
        lines.extend(found.into_iter().enumerate().map(|(output, comparison)| Line {
            direction: done,
            output,
            comparison,
        }));
        progress.set(done as u64 + 1, Some(directions.len() as u64));
    }
    drop(progress);
    print(&directions, &lines)?;
    // With `--strict` the recording has another exit code than the program if activity was lost.
    let lost = reporting.strict && status != own_status && status.code() == Some(EXIT_LOST);
    Ok(conclude(&lines, runs, lost, quiet))
}

/// A line of the table.
struct Line {
    direction: usize,
    output: usize,
    comparison: Comparison,
}

impl Line {
    /// How bad it is: by verdict, then by the deviation in units of the uncertainty.
    fn badness(&self) -> (Verdict, f64) {
        let Comparison { derivative, quotient, uncertainty, verdict, .. } = self.comparison;
        (verdict, (derivative - quotient).abs() / uncertainty.max(f64::MIN_POSITIVE))
    }
}

/// Each input by itself, or random signs for all.
fn directions(base: &Results) -> Vec<Direction> {
    let size = |value: f64| if value == 0.0 || !value.is_finite() { 1.0 } else { value.abs() };
    let inputs = &base.inputs;
    if inputs.len() <= SINGLE_INPUTS {
        let single = |input: usize| {
            let unit = size(inputs[input].0);
            let change = (0..inputs.len()).map(|other| if other == input { unit } else { 0.0 }).collect();
            Direction { name: format!("{}", input + 1), change, unit }
        };
        return (0..inputs.len()).map(single).collect();
    }
    let mut state = 1u64;
    let mut sign = || {
        // A multiplicative congruential generator (L'Ecuyer 1999, table 4, modulus 2^64); the highest bit is its best.
        state = state.wrapping_mul(2862933555777941757).wrapping_add(3037000493);
        if state >> 63 == 0 { 1.0 } else { -1.0 }
    };
    (0..DIRECTIONS)
        .map(|direction| Direction {
            name: format!("random {}", direction + 1),
            change: inputs.iter().map(|&(value, _)| sign() * size(value)).collect(),
            unit: 1.0,
        })
        .collect()
}

/// How a run with changed inputs ended, and its declared variables.
fn perturbed_run(directory: &Path, program: &[OsString], seeds: &[f64]) -> Result<(ExitStatus, Results), Failure> {
    let seeds: Vec<Vec<f64>> = seeds.iter().map(|&seed| vec![seed]).collect();
    let run = repeated::run(directory, program, Way::Perturbed, &seeds, None, Reporting::default())?;
    let results = run.results.ok_or_else(|| {
        Failure::new(
            Exit::Unavailable,
            format!("the program did not get to its end with inputs changed a little ({})", run.status),
        )
    })?;
    Ok((run.status, results))
}

/// A program that computes something else when it is run again cannot be checked.
fn require_same(base: &Results, tape: &Tape) -> Result<(), Failure> {
    let recorded = recording::values(tape, tape.outputs())?;
    let values = base.output_values();
    let same = base.inputs.len() == tape.inputs().len()
        && base.outputs.len() == tape.outputs().len()
        && values
            .zip(recorded)
            .all(|(value, recorded)| recorded.is_none_or(|recorded| recorded.to_bits() == value.to_bits()));
    if same {
        return Ok(());
    }
    let message = "the program computes something else when it is run again with the same inputs (does it read the standard input, the time, \
                   random numbers?), so that there are no difference quotients";
    Err(Failure::new(Exit::Unavailable, message))
}

fn print(directions: &[Direction], lines: &[Line]) -> Result<(), Failure> {
    let worst_only = lines.len() > LINES;
    let mut table = vec![
        ["input", "output", "derivative", "quotient", "uncertainty", "step", "verdict"].map(str::to_owned).to_vec(),
    ];
    let worse =
        |line: &&Line, other: &&Line| line.badness().partial_cmp(&other.badness()).unwrap_or(std::cmp::Ordering::Equal);
    let shown: Vec<&Line> = if worst_only {
        (0..directions.len())
            .filter_map(|direction| lines.iter().filter(|line| line.direction == direction).max_by(worse))
            .collect()
    } else {
        lines.iter().collect()
    };
    for Line { direction, output, comparison } in shown {
        let Direction { name, unit, .. } = &directions[*direction];
        let Comparison { derivative, quotient, uncertainty, step, verdict, .. } = *comparison;
        table.push(vec![
            name.clone(),
            (output + 1).to_string(),
            number(derivative / unit),
            number(quotient / unit),
            format!("{:.0e}", uncertainty / unit),
            format!("{:.0e}", step * unit),
            verdict.text().to_owned(),
        ]);
    }
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(aligned(&table).as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::new(Exit::InputOutput, format!("cannot write to the standard output: {error}")))
}

/// Says what comes of it, and returns the exit code.
fn conclude(lines: &[Line], runs: usize, lost: bool, quiet: bool) -> u8 {
    let count = |verdict| lines.iter().filter(|line| line.comparison.verdict == verdict).count();
    let [agree, kinks, unclear, differ] =
        [Verdict::Agrees, Verdict::Kink, Verdict::Unclear, Verdict::Differs].map(count);
    let mut parts = vec![format!("{agree} of {} derivatives agree with the difference quotient", lines.len())];
    if kinks > 0 {
        parts.push(format!("{kinks} at a kink, where both slopes are right"));
    }
    if unclear > 0 {
        parts.push(format!("{unclear} unclear because the quotient is inaccurate"));
    }
    if differ > 0 {
        parts.push(format!("{differ} DIFFER"));
    }
    messages::note(quiet, &format!("{} ({runs} runs of the program)", parts.join(", ")));
    if differ > 0 {
        Exit::Wrong.code()
    } else if lost {
        Exit::Lost.code()
    } else {
        0
    }
}
