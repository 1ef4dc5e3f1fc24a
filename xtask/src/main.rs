//! Set-up, test and benchmark commands: `cargo xtask --help`.

mod bench;
mod bench_calls;
mod bench_passive;
mod command;
mod measure;
mod python;
mod setup;
mod soak;
mod summary;
mod test;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", about = "Set-up, test and benchmark commands of derivgrind")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install the system packages that the tests and benchmarks use, where they are missing.
    Setup,
    /// Build the commands, the Fortran library and the Python package in `target/release`.
    Build,
    /// Install what is missing, build, and run every check and test.
    Test(test::Options),
    /// Run the soak test: threads, signals, children and generated code together, from random seeds.
    Soak(soak::Options),
    /// Measure speed and memory.
    Bench {
        #[command(subcommand)]
        benchmark: Benchmark,
    },
}

#[derive(Subcommand)]
enum Benchmark {
    /// The two-dimensional Burgers' equation: cost of each phase as a ratio to the native run.
    Burgers(bench::Options),
    /// Calls of library functions from Python: latency with and without gradient, as ratios to a native call.
    Calls,
    /// Programs without active values: cost of the null tool, recording and forward mode as ratios to native.
    Passive(bench_passive::Options),
}

/// Places that every task needs.
struct Workspace {
    /// Root of the checkout.
    root: PathBuf,
    /// Directory of the release binaries.
    binaries: PathBuf,
}

impl Workspace {
    fn locate() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent directory")?.to_owned();
        let own = std::env::current_exe().context("cannot find the path of xtask itself")?;
        let binaries = own.parent().context("xtask has no directory")?.to_owned();
        Ok(Self { root, binaries })
    }

    /// Path of a release binary.
    fn binary(&self, name: &str) -> PathBuf {
        self.binaries.join(name)
    }
}

/// Builds all that users need.
fn build(workspace: &Workspace) -> Result<()> {
    let status = Command::new(env!("CARGO")).current_dir(&workspace.root).args(["build", "--release"]).status()?;
    if !status.success() {
        bail!("derivgrind does not build");
    }
    python::package(workspace)?;
    // This builds the library. Without a Fortran compiler it says so.
    let fortran = Command::new(workspace.binary("derivgrind")).args(["config", "--libdir"]).status()?;
    if !fortran.success() {
        println!("There is no Fortran library now; `derivgrind config --libdir` builds it when there is a compiler.");
    }
    Ok(())
}

fn main() -> ExitCode {
    let task = Arguments::parse().task;
    let outcome = Workspace::locate().and_then(|workspace| match task {
        Task::Setup => setup::install_missing().map(|()| true),
        Task::Build => build(&workspace).map(|()| true),
        Task::Test(options) => test::run(&workspace, &options),
        Task::Soak(options) => soak::run(&workspace, &options),
        Task::Bench { benchmark: Benchmark::Burgers(options) } => bench::run(&workspace, &options).map(|()| true),
        Task::Bench { benchmark: Benchmark::Passive(options) } => {
            bench_passive::run(&workspace, &options).map(|()| true)
        }
        Task::Bench { benchmark: Benchmark::Calls } => bench_calls::run(&workspace).map(|()| true),
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
