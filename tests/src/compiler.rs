//! Compiles test programs with the compilers of the system.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process;
use crate::suite::{Obstacle, skip};

/// Where a command lies, if it is installed.
pub fn find(command: &str) -> Option<PathBuf> {
    let directories = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];
    directories.iter().map(|directory| Path::new(directory).join(command)).find(|path| path.is_file())
}

/// Where a command lies.
///
/// # Errors
/// A reason to skip the case if it is not installed.
pub fn need(command: &str) -> Result<PathBuf, Obstacle> {
    find(command).map_or_else(|| skip(format!("{command} is not installed")), Ok)
}

/// Directory of our own test programs.
pub fn programs() -> PathBuf {
    crate::root().join("tests/programs")
}

/// Options that make the client request headers available.
pub fn header_options() -> Vec<String> {
    vec![format!("-I{}", crate::root().join("crates/client/include").display())]
}

/// Whether the processor has what `x86-64-v4` stands for.
pub fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// Compiles `source` to `output` with a compiler of the system and additional options. All paths are absolute: the compiler runs beside `output`, where
/// gfortran leaves the modules that it compiles.
///
/// # Errors
/// A reason to skip if the compiler is missing, a failure with the compiler's messages if it does not compile.
pub fn compile(compiler: &str, source: &Path, output: &Path, options: &[&str]) -> Result<(), Obstacle> {
    let mut command = Command::new(need(compiler)?);
    command.args(header_options()).arg("-o").arg(output).arg(source).args(options);
    if let Some(directory) = output.parent() {
        command.current_dir(directory);
    }
    let finished = process::run(&mut command)?;
    finished.successful(&format!("{compiler} {}", source.display()))?;
    Ok(())
}

/// A directory for what a suite builds, removed at its end; with `DERIVGRIND_TEST_KEEP` in the environment it stays, and its name is
/// printed.
///
/// # Errors
/// If it cannot be made.
pub fn scratch(suite: &str) -> Result<tempfile::TempDir> {
    let keep = std::env::var_os("DERIVGRIND_TEST_KEEP").is_some();
    let mut builder = tempfile::Builder::new();
    let directory = builder.prefix(&format!("derivgrind-{suite}-")).disable_cleanup(keep).tempdir();
    let directory = directory.context("cannot make a temporary directory")?;
    if keep {
        eprintln!("kept: {}", directory.path().display());
    }
    Ok(directory)
}
