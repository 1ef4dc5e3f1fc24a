//! Recording in a child process, for commands that go on when the program has ended.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use derivgrind_ad::instrument::Reporting;
use tempfile::TempDir;

use crate::failure::{Exit, Failure};

/// Where the program's standard output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Where ours goes.
    Inherited,
    /// To the standard error stream, because ours is for programs.
    StandardError,
}

/// A directory for a recording that nobody wants to keep.
///
/// # Errors
/// If it cannot be made.
pub fn temporary_directory() -> Result<TempDir, Failure> {
    tempfile::Builder::new().prefix("derivgrind-").tempdir().map_err(|error| {
        let place = std::env::temp_dir();
        let message =
            format!("cannot make a temporary directory in {}: {error}; set TMPDIR to another place", place.display());
        Failure::new(Exit::CannotCreate, message)
    })
}

/// Records a program in a process of its own, which shows how the tape grows, and returns how the program ended.
///
/// # Errors
/// If the process cannot be started or waited for.
pub fn record(
    directory: &Path,
    program: &[OsString],
    output: Output,
    reporting: Reporting,
) -> Result<ExitStatus, Failure> {
    let mut command = record_command(directory, program, reporting)?;
    if output == Output::StandardError {
        let stream = io::stderr().as_fd().try_clone_to_owned().map_err(not_started)?;
        command.stdout(Stdio::from(stream));
    }
    let mut child = command.spawn().map_err(not_started)?;
    let _signals = IgnoredSignals::begin();
    child.wait().map_err(|error| Failure::new(Exit::InputOutput, format!("cannot wait for the program: {error}")))
}

/// Records a program in a process of its own, and keeps what it printed.
///
/// # Errors
/// If the process cannot be started or waited for.
pub fn record_captured(directory: &Path, program: &[OsString]) -> Result<std::process::Output, Failure> {
    record_command(directory, program, Reporting::default())?.output().map_err(not_started)
}

/// `derivgrind record` of this very executable.
fn record_command(directory: &Path, program: &[OsString], reporting: Reporting) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe().map_err(not_started)?);
    command.args(options(reporting)).arg("record").arg(directory).arg("--").args(program);
    Ok(command)
}

/// Options in front of a command of ours.
pub fn options(reporting: Reporting) -> impl Iterator<Item = &'static str> {
    [reporting.quiet.then_some("--quiet"), reporting.strict.then_some("--strict")].into_iter().flatten()
}

fn not_started(error: io::Error) -> Failure {
    Failure::new(Exit::InputOutput, format!("cannot start the recording process: {error}"))
}

/// While it lives, the keys that interrupt the program do not end this process: it still has to clean up and to report.
struct IgnoredSignals([libc::sighandler_t; 2]);

impl IgnoredSignals {
    const SIGNALS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

    fn begin() -> IgnoredSignals {
        // SAFETY: changes how two signals are handled and nothing else; the child has been started already and keeps its own.
        IgnoredSignals(Self::SIGNALS.map(|signal| unsafe { libc::signal(signal, libc::SIG_IGN) }))
    }
}

impl Drop for IgnoredSignals {
    fn drop(&mut self) {
        for (signal, handler) in Self::SIGNALS.into_iter().zip(self.0) {
            // SAFETY: puts back what `begin` found.
            unsafe { libc::signal(signal, handler) };
        }
    }
}
