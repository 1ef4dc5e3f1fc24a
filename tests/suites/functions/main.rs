//! Math functions through the libraries of the system: each function of the table in each format, linked dynamically and statically; variants for
//! vectors, called by name and by compilers; copies in other libraries; Fortran's intrinsics and C++'s templates.
//!
//! The expected derivatives are difference quotients of the program's own binary64 variant, run natively. Values, `errno`, exception flags and the
//! rounding mode have to be as in the native run.

mod copies;
mod languages;
mod program;
mod scalar;
mod vector;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result, ensure};
use derivgrind_tests::numbers::{SplitMix64, close};
use derivgrind_tests::process;
use derivgrind_tests::recording::{self, Recording};
use derivgrind_tests::suite::{Obstacle, Outcome, Suite, fail};

/// What a combination is made of.
pub struct Plan {
    /// First part of the names of its cases.
    pub name: String,
    /// Whether it computes in binary32.
    pub narrow: bool,
    /// Builds the program; the names of its cases are known before.
    pub build: Box<dyn Fn() -> Result<program::Built, Obstacle> + Send + Sync>,
    /// The program's cases.
    pub cases: Vec<String>,
}

fn main() -> ExitCode {
    let mut suite = Suite::new("functions");
    let plans = [scalar::plans(), vector::plans(), copies::plans(), languages::plans()].into_iter().flatten();
    for plan in plans {
        let cases = plan.cases.clone();
        let runs = Arc::new(Runs { plan, built: OnceLock::new(), found: OnceLock::new(), rounded: OnceLock::new() });
        for (index, case) in cases.iter().enumerate() {
            let same = Arc::clone(&runs);
            suite.case(format!("{}/{case}", runs.plan.name), move || derivatives(&same, index));
        }
        let same = Arc::clone(&runs);
        suite.case(format!("{}-rounding-upward", runs.plan.name), move || rounding_mode(&same));
    }
    suite.run()
}

/// The program of a plan, and what came out of it.
struct Runs {
    plan: Plan,
    built: OnceLock<Result<program::Built, String>>,
    found: OnceLock<Result<Found, String>>,
    rounded: OnceLock<Result<(), String>>,
}

/// Output and derivatives of all cases.
struct Found {
    cases: Vec<Case>,
    native: Vec<String>,
    recorded: Vec<String>,
    forward: Vec<String>,
}

struct Case {
    name: String,
    inputs: usize,
    /// Difference quotients: for each output those for each input.
    quotients: Vec<Vec<f64>>,
    /// Seeds.
    dots: Vec<f64>,
    bars: Vec<f64>,
    /// Results: of a reverse sweep, of a forward sweep, of forward mode.
    input_bars: Vec<f64>,
    output_dots: Vec<f64>,
    forward_dots: Vec<f64>,
}

impl Runs {
    fn found(&self) -> Result<&Found, Obstacle> {
        let built = self.built.get_or_init(|| (self.plan.build)().map_err(text_of)).as_ref();
        let built = built.map_err(|reason| match reason.strip_prefix("skip: ") {
            Some(reason) => Obstacle::Skip(reason.to_owned()),
            None => Obstacle::Failure(reason.clone()),
        })?;
        let found = self.found.get_or_init(|| find(built).map_err(|error| format!("{error:#}")));
        found.as_ref().map_err(|error| Obstacle::Failure(error.clone()))
    }
}

fn text_of(obstacle: Obstacle) -> String {
    match obstacle {
        Obstacle::Skip(reason) => format!("skip: {reason}"),
        Obstacle::Failure(message) => message,
    }
}

fn find(built: &program::Built) -> Result<Found> {
    let mut cases = quotients(&built.reference)?;
    let mut generator = SplitMix64(7);
    let mut seed = || (64.0 * generator.number()).round() / 64.0 + 1.0 / 128.0;
    for case in &mut cases {
        case.bars = case.quotients.iter().map(|_| seed()).collect();
        case.dots = (0..case.inputs).map(|_| seed()).collect();
    }
    let directory = built.scratch.path();
    let native =
        lines(&process::run(&mut process::command(&built.program, directory))?.successful("native run")?.text());

    let recording = Recording::make::<&str>(&directory.join("tape"), &built.program, &[], process::TIME_LIMIT)?;
    let recorded = lines(&recording.finished.clone().successful("under derivgrind record")?.text());
    let dots: Vec<f64> = cases.iter().flat_map(|case| case.dots.clone()).collect();
    let bars: Vec<f64> = cases.iter().flat_map(|case| case.bars.clone()).collect();
    let (input_bars, output_dots) = (recording.reverse(&bars)?, recording.forward(&dots)?);
    let (finished, forward_dots) =
        recording::forward_mode::<&str>(directory, &built.program, &[], &dots, process::TIME_LIMIT)?;
    let forward = lines(&finished.successful("under derivgrind forward")?.text());

    let counts = (input_bars.len(), output_dots.len(), forward_dots.len());
    ensure!(counts == (dots.len(), bars.len(), bars.len()), "inputs and outputs: {counts:?}");
    let (mut inputs, mut outputs) = (0, 0);
    for case in &mut cases {
        let (next_input, next_output) = (inputs + case.dots.len(), outputs + case.bars.len());
        case.input_bars = input_bars[inputs..next_input].to_vec();
        case.output_dots = output_dots[outputs..next_output].to_vec();
        case.forward_dots = forward_dots[outputs..next_output].to_vec();
        (inputs, outputs) = (next_input, next_output);
    }
    Ok(Found { cases, native, recorded, forward })
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// The cases with their difference quotients.
fn quotients(reference: &PathBuf) -> Result<Vec<Case>> {
    let mut command = process::command(reference, reference.parent().context("a file is in a directory")?);
    let text = process::run(command.arg("quotients"))?.successful("difference quotients")?.text();
    text.lines()
        .map(|line| {
            let mut fields = line.split(' ');
            let name = fields.next().context("no name")?.to_owned();
            let [inputs, outputs] = [(); 2].map(|()| fields.next().and_then(|field| field.parse::<usize>().ok()));
            let numbers: Vec<f64> = fields.map(str::parse).collect::<Result<_, _>>().context("no numbers")?;
            let (inputs, outputs) = (inputs.context("no inputs")?, outputs.context("no outputs")?);
            ensure!(numbers.len() == inputs * outputs, "{name}: {} quotients", numbers.len());
            let quotients =
                if outputs == 0 { Vec::new() } else { numbers.chunks(inputs).map(<[f64]>::to_vec).collect() };
            Ok(Case {
                name,
                inputs,
                quotients,
                dots: Vec::new(),
                bars: Vec::new(),
                input_bars: Vec::new(),
                output_dots: Vec::new(),
                forward_dots: Vec::new(),
            })
        })
        .collect()
}

/// Truncation error of a five-point quotient with steps of 2^-10, and rounding errors divided by the step.
const DOUBLE_TOLERANCE: f64 = 1e-7;
/// Dot values of binary32 variables, and values between operations, are binary32 numbers.
const FLOAT_TOLERANCE: f64 = 1e-5;

/// The case: output as natively, derivatives as the difference quotients.
fn derivatives(runs: &Runs, index: usize) -> Outcome {
    let found = runs.found()?;
    let case = &found.cases[index];
    if case.name != runs.plan.cases[index] {
        return fail(format!("the program's case is {}", case.name));
    }
    for (mode, lines) in [("record", &found.recorded), ("forward", &found.forward)] {
        let (line, native) = (lines.get(index), found.native.get(index));
        if line != native {
            return fail(format!("derivgrind {mode}: {line:?}, natively {native:?}"));
        }
    }
    let tolerance = if runs.plan.narrow { FLOAT_TOLERANCE } else { DOUBLE_TOLERANCE };
    let scale = case.quotients.iter().flatten().fold(0.0f64, |largest, quotient| largest.max(quotient.abs()));
    for (output, row) in case.quotients.iter().enumerate() {
        let expected: f64 = row.iter().zip(&case.dots).map(|(quotient, dot)| quotient * dot).sum();
        for (what, got) in [("forward sweep", case.output_dots[output]), ("forward mode", case.forward_dots[output])] {
            if !close(got, expected, scale, tolerance) {
                return fail(format!("{what}: output {output} has dot value {got:e}, expected {expected:e}"));
            }
        }
    }
    for (input, &got) in case.input_bars.iter().enumerate() {
        let expected: f64 = case.quotients.iter().zip(&case.bars).map(|(row, bar)| row[input] * bar).sum();
        if !close(got, expected, scale, tolerance) {
            return fail(format!("reverse sweep: input {input} has bar value {got:e}, expected {expected:e}"));
        }
    }
    Ok(())
}

/// With another rounding mode the program computes the same as natively.
fn rounding_mode(runs: &Runs) -> Outcome {
    runs.found()?;
    let Some(Ok(built)) = runs.built.get() else { return fail("no program") };
    let compare = || -> Result<()> {
        let directory = built.scratch.path();
        // Some programs abort in this mode: then they do so under the tool.
        let native = process::run(process::command(&built.program, directory).arg("upward"))?;
        let recording = Recording::make(&directory.join("upward"), &built.program, &["upward"], process::TIME_LIMIT)?;
        let recorded = recording.finished;
        for (native, recorded) in native.text().lines().zip(recorded.text().lines()) {
            ensure!(native == recorded, "derivgrind record: {recorded:?}, natively {native:?}");
        }
        ensure!(native.status == recorded.status, "derivgrind record: {recorded}, natively {native}");
        Ok(())
    };
    let result = runs.rounded.get_or_init(|| compare().map_err(|error| format!("{error:#}")));
    result.clone().map_err(Obstacle::Failure)
}
