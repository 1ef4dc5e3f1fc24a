//! `cargo xtask bench burgers`: what each phase costs on the two-dimensional Burgers' equation.
//!
//! The program is the one of the literature on taping tools (benches/programs/burgers.cpp): its time is taken by the program
//! itself around the solver, which leaves out start-up, and once more for the whole process. Grid and step number are those
//! of the smaller published instances by default.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::Workspace;
use crate::measure::{self, Spread};

/// Exchange-format bytes for one cell update published for the Valgrind-based tool.
const PUBLISHED_DERIVGRIND_BYTES: f64 = 448.0;
/// Tape bytes for one cell update published for CoDiPack, which needs the source.
const PUBLISHED_CODIPACK_BYTES: f64 = 184.0;

const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// Size of the problem and number of repetitions.
#[derive(clap::Args)]
pub struct Options {
    /// Grid points in each direction.
    #[arg(long = "n", default_value_t = 200)]
    points: usize,
    /// Time steps.
    #[arg(long = "t", default_value_t = 100)]
    steps: usize,
    /// Repetitions of each measurement.
    #[arg(long, default_value_t = 5)]
    repetitions: usize,
    /// C++ compiler.
    #[arg(long, default_value = "g++")]
    compiler: String,
    /// Optimisation option of the compiler.
    #[arg(long, default_value = "-O3", allow_hyphen_values = true)]
    optimisation: String,
    /// Directory of the tape, best in memory.
    #[arg(long, default_value = "/dev/shm")]
    tape_directory: PathBuf,
}

/// Measurements of one phase.
#[derive(Default)]
struct Phase {
    /// Seconds inside the solver, by the program's own clock.
    solver: Vec<f64>,
    /// Seconds of the whole process.
    process: Vec<f64>,
    /// Processor seconds of the whole process.
    processor: Vec<f64>,
    /// Peak resident memory in MiB.
    memory: Vec<f64>,
}

impl Phase {
    fn add(&mut self, cost: measure::Cost) {
        self.process.push(cost.wall.as_secs_f64());
        self.processor.push(cost.processor.as_secs_f64());
        self.memory.push(cost.peak_memory as f64 / MEBIBYTE);
    }
}

/// The benchmark's program and the places where it works.
struct Bench<'a> {
    options: &'a Options,
    derivgrind: PathBuf,
    program: PathBuf,
    clock: PathBuf,
}

/// Runs the benchmark and prints its table.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    if options.repetitions == 0 || options.points < 3 {
        bail!("--repetitions has to be at least 1 and --n at least 3");
    }
    build_release(workspace)?;
    let scratch = tempfile::tempdir_in(&options.tape_directory)
        .with_context(|| format!("cannot make a directory for the tape in {}", options.tape_directory.display()))?;
    let bench = Bench {
        options,
        derivgrind: workspace.binary("derivgrind"),
        program: scratch.path().join("burgers"),
        clock: scratch.path().join("clock"),
    };
    compile(workspace, options, &bench.program)?;

    let tape = scratch.path().join("tape");
    let (mut native, mut null, mut forward, mut forward_four, mut recording, mut reverse) =
        <(Phase, Phase, Phase, Phase, Phase, Phase)>::default();
    let (seeds, seeds_four) = (scratch.path().join("seeds"), scratch.path().join("seeds-four"));
    let results = scratch.path().join("results");
    // Every input has a dot value, so that everything is active.
    for (path, line) in [(&seeds, "1\n"), (&seeds_four, "1 2 3 4\n")] {
        std::fs::write(path, line.repeat(2 * options.points.pow(2))).context("cannot write the seeds")?;
    }
    let mut tape_bytes = 0;
    for _ in 0..options.repetitions {
        bench.solve(&mut native, Command::new(&bench.program))?;
        bench.solve(&mut null, bench.tool(&["run".as_ref(), "--".as_ref(), bench.program.as_ref()]))?;
        bench.follow(&mut forward, "1", &seeds, &results)?;
        bench.follow(&mut forward_four, "4", &seeds_four, &results)?;
        remove_tape(&tape)?;
        bench.solve(
            &mut recording,
            bench.tool(&["record".as_ref(), tape.as_ref(), "--".as_ref(), bench.program.as_ref()]),
        )?;
        tape_bytes = file_size(&tape.join("dg-tape"))?;
        std::fs::write(tape.join("dg-output-bars"), "1\n").context("cannot write the output bar")?;
        let cost = measure::run(bench.tool(&["eval".as_ref(), tape.as_ref()]).stdout(Stdio::null()))?;
        reverse.add(cost);
    }
    report(
        options,
        &[
            ("native", &native),
            ("null tool", &null),
            ("forward mode", &forward),
            ("4 directions", &forward_four),
            ("recording", &recording),
            ("reverse sweep", &reverse),
        ],
        tape_bytes,
    )
}

impl Bench<'_> {
    /// The tool with its own messages silenced.
    fn tool(&self, arguments: &[&std::ffi::OsStr]) -> Command {
        let mut command = Command::new(&self.derivgrind);
        command.arg("--quiet").args(arguments);
        command
    }

    /// Runs the solver in forward mode with so many directions.
    fn follow(&self, phase: &mut Phase, directions: &str, seeds: &Path, results: &Path) -> Result<()> {
        let mut command = self.tool(&["forward".as_ref(), "--directions".as_ref(), directions.as_ref()]);
        command.arg("--seeds").arg(seeds).arg("--results").arg(results).arg("--").arg(&self.program);
        self.solve(phase, command)
    }

    /// Runs the solver once and adds its cost to `phase`.
    fn solve(&self, phase: &mut Phase, mut command: Command) -> Result<()> {
        command.args([self.options.points.to_string(), self.options.steps.to_string()]);
        command.env("BURGERS_CLOCK", &self.clock).stdout(Stdio::null());
        let cost = measure::run(&mut command)?;
        let clock =
            std::fs::read_to_string(&self.clock).with_context(|| format!("cannot read {}", self.clock.display()))?;
        phase
            .solver
            .push(clock.trim().parse().with_context(|| format!("the program's own time is no number: {clock:?}"))?);
        phase.add(cost);
        Ok(())
    }
}

/// Builds the commands.
pub fn build_release(workspace: &Workspace) -> Result<()> {
    let status =
        Command::new(env!("CARGO")).current_dir(&workspace.root).args(["build", "--release", "--quiet"]).status()?;
    if !status.success() {
        bail!("derivgrind does not build");
    }
    Ok(())
}

fn compile(workspace: &Workspace, options: &Options, program: &Path) -> Result<()> {
    let source = workspace.root.join("benches/programs/burgers.cpp");
    let headers = workspace.root.join("crates/client/include");
    let status = Command::new(&options.compiler)
        .arg(&options.optimisation)
        .arg("-I")
        .arg(headers)
        .arg(source)
        .arg("-o")
        .arg(program)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!("{} failed on burgers.cpp ({status})", options.compiler),
        Err(error) => bail!("cannot start the compiler {}: {error}", options.compiler),
    }
}

/// Removes a tape, if it is there.
pub fn remove_tape(tape: &Path) -> Result<()> {
    match std::fs::remove_dir_all(tape) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", tape.display()))
        }
        _ => Ok(()),
    }
}

fn file_size(path: &Path) -> Result<u64> {
    Ok(std::fs::metadata(path).with_context(|| format!("the recording left no {}", path.display()))?.len())
}

/// One line of a table: median, extremes, and the median as a ratio to `native`.
fn line(name: &str, values: &[f64], native: Spread) -> Option<String> {
    let Spread { minimum, median, maximum } = Spread::of(values)?;
    Some(format!("  {name:<15}{median:>12.4}{minimum:>12.4}{maximum:>12.4}{:>10.2}", median / native.median))
}

fn report(options: &Options, phases: &[(&str, &Phase)], tape_bytes: u64) -> Result<()> {
    println!(
        "Burgers' equation, {n} x {n} grid, {t} steps, {compiler} {optimisation}, {repetitions} repetitions, tape in {tape}",
        n = options.points,
        t = options.steps,
        compiler = options.compiler,
        optimisation = options.optimisation,
        repetitions = options.repetitions,
        tape = options.tape_directory.display()
    );
    type Values = fn(&Phase) -> &[f64];
    let tables: [(&str, Values); 4] = [
        // The reverse sweep has no solver of its own: its whole process is set against the native solver, as is usual.
        ("solver, by its own clock [s]", |phase| if phase.solver.is_empty() { &phase.process } else { &phase.solver }),
        ("whole process [s]", |phase| &phase.process),
        ("whole process, processor time of all threads [s]", |phase| &phase.processor),
        ("peak resident memory [MiB]", |phase| &phase.memory),
    ];
    for (title, values) in tables {
        let native = phases.first().and_then(|(_, phase)| Spread::of(values(phase))).context("no native run")?;
        println!("\n{title}\n{:<17}{:>12}{:>12}{:>12}{:>10}", "", "median", "minimum", "maximum", "ratio");
        for line in phases.iter().filter_map(|(name, phase)| line(name, values(phase), native)) {
            println!("{line}");
        }
    }
    let updates = (options.points - 2).pow(2) as f64 * options.steps as f64;
    let bytes = tape_bytes as f64 / updates;
    println!("\ntape: {tape_bytes} bytes, {bytes:.1} for each update of a cell:");
    println!(
        "  {:.2} times the {PUBLISHED_DERIVGRIND_BYTES} published for the Valgrind-based tool,",
        bytes / PUBLISHED_DERIVGRIND_BYTES
    );
    println!("  {:.2} times the {PUBLISHED_CODIPACK_BYTES} published for CoDiPack.", bytes / PUBLISHED_CODIPACK_BYTES);
    Ok(())
}
