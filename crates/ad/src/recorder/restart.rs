//! Several recordings in one run: a program that calls the same function again and again has each call on a tape of its own.
//!
//! Between recordings everything is passive, so that what a call has left in memory counts as a constant in the next one, and no old index is
//! taken for a new one.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use derivgrind_engine::memory::{self, user};
use derivgrind_engine::syscall::{keep_descriptor, release_descriptor};

use crate::instrument::{Thread, summary, undone};
use crate::rounding::sums;

use super::{state, tape};

/// The answer if all went well.
const DONE: u64 = 1;
/// The answer if the tape cannot be written.
const FAILED: u64 = 2;
/// Longest path that is accepted (the kernel's `PATH_MAX`).
const LONGEST_PATH: usize = 4096;

/// `START_RECORDING(address of the zero-terminated path of a directory)`: the recording before, if there is one, is completed.
pub(super) fn start(_: &mut Thread<'_>, arguments: &[u64; 6]) -> Result<u64, user::Fault> {
    let Some(path) = user::read_string(arguments[1], LONGEST_PATH)? else { return Err(user::Fault(arguments[1])) };
    let directory = PathBuf::from(OsString::from_vec(path.into_bytes()));
    state::hand_in();
    make_passive();
    summary::take();
    let old = tape().descriptors();
    let restarted = tape().restart(&directory);
    // The program must not close them.
    old.into_iter().for_each(release_descriptor);
    tape().descriptors().into_iter().filter(|descriptor| *descriptor >= 0).for_each(keep_descriptor);
    match restarted {
        Ok(()) => Ok(DONE),
        Err(error) => {
            derivgrind_engine::report(&format!("client request START_RECORDING: {error}"));
            Ok(FAILED)
        }
    }
}

/// `FINISH_RECORDING(address of a buffer, its size)`: the buffer gets a zero-terminated text, what was not differentiated or what went wrong, cut
/// off if it is too long.
pub(super) fn finish(_: &mut Thread<'_>, arguments: &[u64; 6]) -> Result<u64, user::Fault> {
    let [_, buffer, size, ..] = *arguments;
    state::hand_in();
    let finished = state::complete();
    make_passive();
    let (answer, text) = match finished {
        Ok(()) => (DONE, summary::take().unwrap_or_default()),
        Err(error) => (FAILED, error.to_string()),
    };
    if let Some(room) = size.checked_sub(1) {
        let mut bytes = text.into_bytes();
        bytes.truncate(usize::try_from(room).unwrap_or(usize::MAX));
        bytes.push(0);
        user::write_bytes(buffer, &bytes)?;
    }
    Ok(answer)
}

/// Makes all memory and the registers of all threads passive. What is known of indices does not hold for those of the next recording.
fn make_passive() {
    state::clear_registers();
    memory::clear_shadow(memory::APP_START, memory::APP_END - memory::APP_START);
    sums::forget();
    undone::forget();
}
