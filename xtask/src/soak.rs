//! `cargo xtask soak`: the soak test alone, for as long as one likes.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::{Workspace, bench, command};

/// For how long, and from where on.
#[derive(clap::Args)]
pub struct Options {
    /// Time for all cases together.
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// The first seed; each case goes on from there.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Only cases with this text in their name.
    filter: Option<String>,
}

/// Compilation, and the last runs.
const EXTRA: Duration = Duration::from_secs(30 * 60);

/// Runs the test. Returns whether it has passed.
pub fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    if !(options.minutes > 0.0 && options.minutes < 1e6) {
        bail!("--minutes has to be a positive number");
    }
    bench::build_release(workspace)?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(&workspace.root);
    cargo.args(["test", "--release", "--package", "derivgrind-tests", "--test", "soak", "--"]).args(&options.filter);
    cargo.env("DERIVGRIND_TEST_BINARIES", &workspace.binaries);
    cargo.env("DERIVGRIND_SOAK_MINUTES", options.minutes.to_string());
    cargo.env("DERIVGRIND_SOAK_SEED", options.seed.to_string());
    let limit = Duration::from_secs_f64(60.0 * options.minutes) + EXTRA;
    Ok(command::run(&mut cargo, limit)?.success)
}
