//! The growing tape of a program that is being recorded in this process, as a line on the terminal.
//!
//! This is done without the progress bars of the other commands: it happens beside the program, which may fork at any moment, so nothing
//! may be allocated, and which may give descriptor 2 another meaning, so the terminal gets a descriptor of its own.

use std::fs::File;
use std::io::{self, Cursor, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use derivgrind_tape::TapeWriter;

/// A recording that takes less time than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two updates, in milliseconds.
const INTERVAL: u64 = 200;

/// Shows the size of the tape, if the standard error stream is a terminal.
pub fn show(tape: &TapeWriter, quiet: bool) {
    let stderr = io::stderr();
    if quiet || !stderr.is_terminal() {
        return;
    }
    // Close-on-exec, so that the engine keeps it from the program.
    let Ok(terminal) = stderr.as_fd().try_clone_to_owned() else { return };
    let (terminal, begin, next) = (File::from(terminal), Instant::now(), AtomicU64::new(PATIENCE.as_millis() as u64));
    let terminal = move |text: &[u8]| {
        // A terminal that is gone is no reason to stop.
        let _ = (&terminal).write_all(text);
    };
    tape.watch(move |bytes| {
        let now = begin.elapsed().as_millis() as u64;
        let due = next.load(Ordering::Relaxed);
        let Some(bytes) = bytes else {
            if due > PATIENCE.as_millis() as u64 {
                terminal(b"\r\x1b[K");
            }
            return;
        };
        // Of several background threads one updates the line.
        if now < due || next.compare_exchange(due, now + INTERVAL, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let mut line = Cursor::new([0u8; 64]);
        let (megabytes, seconds) = (bytes / 1_000_000, now / 1000);
        let _ = write!(line, "\rderivgrind: recording, {megabytes} MB in {seconds} s\x1b[K");
        let length = line.position() as usize;
        terminal(&line.into_inner()[..length]);
    });
}
