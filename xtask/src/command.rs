//! Runs commands: shown before they start, their output passed on and searched at once, ended when they take too long.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// What a finished command leaves.
pub struct Finished {
    /// Whether it exited with status 0 and in time.
    pub success: bool,
    /// Its standard output, line by line.
    pub lines: Vec<String>,
}

/// Command line for display, without the directory of the program.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let words = std::iter::once(program.file_name().unwrap_or(program.as_os_str())).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Runs `command` and passes its standard output through. After `limit` its whole process group is killed, so that a test that
/// hangs costs its own result and not the run.
pub fn run(command: &mut Command, limit: Duration) -> Result<Finished> {
    println!("\n$ {}", shown(command));
    std::io::stdout().flush().context("cannot write to standard output")?;
    let started = Instant::now();
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start `{}`", shown(command)))?;
    let output = child.stdout.take().context("the child's standard output is not a pipe")?;

    let (sender, receiver) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n') {
            let Ok(line) = line else { break };
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    let mut lines = Vec::new();
    let mut in_time = true;
    loop {
        match receiver.recv_timeout(limit.saturating_sub(started.elapsed())) {
            Ok(line) => {
                println!("{line}");
                lines.push(line);
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                println!("xtask: killed after {} s", limit.as_secs());
                in_time = false;
                kill_group(&child);
                break;
            }
        }
    }
    let status = child.wait().with_context(|| format!("cannot wait for `{}`", shown(command)))?;
    drop(receiver);
    if in_time {
        // A grandchild that outlives the command may still hold the pipe; then the reader ends with it.
        let _ = reader.join();
    }
    println!("({status}, {:.1} s)", started.elapsed().as_secs_f64());
    Ok(Finished { success: status.success() && in_time, lines })
}

/// Kills a child that leads its own process group, with all its descendants in it.
fn kill_group(child: &Child) {
    // SAFETY: kill takes two integers; the group is the child's own because it was started with process_group(0) and is not
    // yet waited for, so the number cannot have been given to another process.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
}
