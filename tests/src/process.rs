//! Runs a process to its end with a time limit and keeps everything that can be seen of it from outside.

use std::ffi::OsStr;
use std::fmt;
use std::io::{Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// What is left to a case that needs more time than this is its failure.
pub const TIME_LIMIT: Duration = Duration::from_secs(120);

/// A finished process as seen from outside.
#[derive(Clone, PartialEq, Eq)]
pub struct Finished {
    /// Everything written to standard output.
    pub stdout: Vec<u8>,
    /// Everything written to standard error.
    pub stderr: Vec<u8>,
    /// Exit code or signal.
    pub status: ExitStatus,
}

impl Finished {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// `self` if the exit code is 0.
    ///
    /// # Errors
    /// Names `what` with its status and standard error otherwise.
    pub fn successful(self, what: &str) -> Result<Self> {
        if !self.status.success() {
            bail!("{what}: {self}");
        }
        Ok(self)
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => write!(formatter, "exit code {code}")?,
            (None, Some(signal)) => write!(formatter, "killed by signal {signal}")?,
            (None, None) => write!(formatter, "{}", self.status)?,
        }
        write!(formatter, "; stdout: {}; stderr: {}", excerpt(&self.stdout), excerpt(&self.stderr))
    }
}

/// At most some hundred bytes of `bytes`, quoted.
pub fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 600;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
    let rest = if bytes.len() > SHOWN { format!("... ({} bytes)", bytes.len()) } else { String::new() };
    format!("{text:?}{rest}")
}

/// Set for a suite, its runs of the tool use no registers that only AVX-512 has.
const NOTHING_LENT: &str = "DERIVGRIND_NOTHING_LENT";

/// A command in a fixed environment: only `PATH`, `HOME`, `LANG` and `TZ` are set, so that a run looks the same everywhere. What comes from packages is found
/// before what has been put on the machine by hand.
pub fn command(program: impl AsRef<OsStr>, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs([("PATH", "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin"), ("LANG", "C"), ("TZ", "UTC")]);
    command.env("HOME", directory).current_dir(directory);
    if let Some(value) = std::env::var_os(NOTHING_LENT) {
        command.env(NOTHING_LENT, value);
    }
    command
}

/// Runs `command` with `input` on its standard input.
///
/// # Errors
/// If it cannot be started, or is not done after `limit`; then its process group is killed.
pub fn run_with(command: &mut Command, input: &[u8], limit: Duration) -> Result<Finished> {
    let shown = format!("{command:?}");
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {shown}"))?;
    let mut stdin = child.stdin.take().context("no pipe to standard input")?;
    let stdout = child.stdout.take().context("no pipe from standard output")?;
    let stderr = child.stderr.take().context("no pipe from standard error")?;
    std::thread::scope(|scope| {
        // A program may end without reading its input; the broken pipe is then no error.
        scope.spawn(move || drop(stdin.write_all(input)));
        let stdout = scope.spawn(move || read_all(stdout));
        let stderr = scope.spawn(move || read_all(stderr));
        let status = wait(&mut child, limit);
        // A descendant left behind would keep the pipes open.
        kill_group(&child);
        let (stdout, stderr) = (stdout.join(), stderr.join());
        let (Ok(stdout), Ok(stderr)) = (stdout, stderr) else { bail!("cannot read the output of {shown}") };
        let Some(status) = status? else {
            bail!(
                "{shown} was not done after {} s; stdout: {}; stderr: {}",
                limit.as_secs(),
                excerpt(&stdout),
                excerpt(&stderr)
            );
        };
        Ok(Finished { stdout, stderr, status })
    })
}

/// [`run_with`] an empty standard input and the usual limit.
pub fn run(command: &mut Command) -> Result<Finished> {
    run_with(command, &[], TIME_LIMIT)
}

fn read_all(mut pipe: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = pipe.read_to_end(&mut bytes);
    bytes
}

/// Waits until the child ends or `limit` is over (`None`).
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let started = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a child")? {
            return Ok(Some(status));
        }
        if started.elapsed() >= limit {
            kill_group(child);
            child.wait().context("cannot wait for a killed child")?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// Kills what is left of the process group that the child leads or led.
fn kill_group(child: &Child) {
    // SAFETY: kill takes two integers. The group has the child's number and was made by process_group(0); while it has members
    // the kernel gives its number to no other process, and without members the call fails.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_status_and_signal_are_kept() {
        let shell =
            |script: &str| run_with(Command::new("sh").args(["-c", script]), b"in", TIME_LIMIT).expect("sh runs");
        let finished = shell("cat; echo err >&2; exit 3");
        assert_eq!(
            (finished.stdout.as_slice(), finished.stderr.as_slice(), finished.status.code()),
            (&b"in"[..], &b"err\n"[..], Some(3))
        );
        assert_eq!(shell("kill -SEGV $$").status.signal(), Some(libc::SIGSEGV));
    }

    #[test]
    fn a_process_that_hangs_is_killed_with_its_children() {
        let started = Instant::now();
        let result =
            run_with(Command::new("sh").args(["-c", "sleep 100 & sleep 100"]), &[], Duration::from_millis(200));
        assert!(result.is_err());
        assert!(started.elapsed() < Duration::from_secs(20));
    }
}
