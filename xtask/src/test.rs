//! `cargo xtask test`: everything that has to hold before a change lands.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::summary::{Summary, Verdict};
use crate::{Workspace, command, python, setup};

/// What to run.
#[derive(clap::Args)]
pub struct Options {
    /// Also run what takes long: more compilers, larger grids.
    #[arg(long)]
    full: bool,
    /// Run only tests whose name contains this text, without the checks of format, lints and documentation.
    filter: Option<String>,
}

/// A check that passes or fails as a whole.
struct Check {
    name: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

const CHECKS: &[Check] = &[
    Check { name: "format", arguments: &["fmt", "--all", "--", "--check", "-l"], environment: &[] },
    Check {
        name: "lints",
        arguments: &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
        environment: &[],
    },
    Check {
        name: "documentation",
        arguments: &["doc", "--workspace", "--no-deps", "--quiet"],
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
];

/// The package that holds the suites of whole programs.
const SUITES: &str = "derivgrind-tests";

/// A check or the unit tests take minutes at most on two cores, including compilation.
const CHECK_LIMIT: Duration = Duration::from_secs(20 * 60);
/// All suites together; each case has a shorter limit of its own.
const SUITES_LIMIT: Duration = Duration::from_secs(30 * 60);
/// The same with `--full`.
const FULL_LIMIT: Duration = Duration::from_secs(4 * 60 * 60);

fn cargo(workspace: &Workspace) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(&workspace.root);
    command
}

/// Runs everything. Returns whether nothing failed.
pub fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    let started = Instant::now();
    println!(
        "This installs the system packages that are missing, and PyTorch, TensorFlow and JAX in an environment below target/;"
    );
    println!("it builds derivgrind, and then runs:");
    if options.filter.is_none() {
        println!("- checks of format, lints and documentation,");
    }
    println!("- the unit tests of each crate,");
    println!(
        "- the suites of whole programs in tests/: gradients of formulas and of parallel programs, behaviour as without the tool,"
    );
    println!(
        "  Burgers' equation, bad input, the examples of the documentation{}.",
        if options.full { " (each in full length)" } else { "" }
    );
    setup::install_missing()?;

    let build =
        command::run(cargo(workspace).args(["build", "--release", "--workspace", "--bins", "--quiet"]), CHECK_LIMIT)?;
    if !build.success {
        bail!("derivgrind does not build; nothing was tested");
    }

    python::package(workspace)?;
    python::install_frameworks(workspace)?;

    let mut summary = Summary::default();
    if options.filter.is_none() {
        for check in CHECKS {
            let environment = check.environment.iter().copied();
            let finished = command::run(cargo(workspace).args(check.arguments).envs(environment), CHECK_LIMIT)?;
            let verdict = if finished.success { Verdict::Passed } else { Verdict::Failed };
            summary.case("checks", verdict, check.name, "see its output above");
        }
    }
    unit_tests(workspace, options, &mut summary)?;
    suites(workspace, options, &mut summary)?;
    Ok(summary.print(started.elapsed()))
}

/// Unit and documentation tests of all crates.
fn unit_tests(workspace: &Workspace, options: &Options, summary: &mut Summary) -> Result<()> {
    let mut command = cargo(workspace);
    command.args(["test", "--workspace", "--exclude", SUITES, "--no-fail-fast", "--"]).args(&options.filter);
    tested("unit tests", &mut command, CHECK_LIMIT, summary)?;
    let mut command = cargo(workspace);
    command.args(["test", "--release", "--package", SUITES, "--lib", "--"]).args(&options.filter);
    tested("unit tests", &mut command, CHECK_LIMIT, summary)
}

/// The suites of `tests/`, which report case by case through a file.
fn suites(workspace: &Workspace, options: &Options, summary: &mut Summary) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let report = directory.path().join("report");
    let mut command = cargo(workspace);
    command
        .args(["test", "--release", "--package", SUITES, "--test", "*", "--no-fail-fast", "--"])
        .args(&options.filter);
    command.env("DERIVGRIND_TEST_REPORT", &report).env("DERIVGRIND_TEST_BINARIES", &workspace.binaries);
    if options.full {
        command.env("DERIVGRIND_TEST_FULL", "1");
    }
    let before = summary.failures();
    let finished = command::run(&mut command, if options.full { FULL_LIMIT } else { SUITES_LIMIT })?;
    summary.report(&report)?;
    if !finished.success && summary.failures() == before {
        summary.case("suites", Verdict::Failed, "run", "a suite did not finish; see the output above");
    }
    Ok(())
}

/// Runs a command that prints as libtest does, and counts its cases.
fn tested(group: &str, command: &mut Command, limit: Duration, summary: &mut Summary) -> Result<()> {
    let before = summary.failures();
    let finished = command::run(command, limit)?;
    summary.libtest(group, &finished.lines);
    if !finished.success && summary.failures() == before {
        summary.case(group, Verdict::Failed, "run", "it did not compile or did not finish; see the output above");
    }
    Ok(())
}
