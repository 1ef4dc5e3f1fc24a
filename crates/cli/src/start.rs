//! The start of each command.
//!
//! The commands define the C function `main` instead of leaving it to Rust's run-time system, because that changes what a program
//! inherits: it ignores SIGPIPE, opens closed standard streams, and installs signal handlers. The program that is run in this
//! process shall find everything as it would without the tool. Our own output profits as well: writing to a closed pipe
//! (`derivgrind tape print DIR | head`) ends the command quietly.

use std::ffi::{OsString, c_int};
use std::panic::catch_unwind;

use crate::failure::{Exit, Failure};
use crate::messages;

/// What a command returns: the exit code, or what went wrong.
pub type Outcome = Result<u8, Failure>;

/// Runs a command with this process's arguments and ends the process.
pub fn run(command: fn(Vec<OsString>) -> Outcome) -> c_int {
    let code = match catch_unwind(|| command(std::env::args_os().collect())) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => {
            messages::error(&failure.message);
            failure.exit.code()
        }
        Err(_) => {
            messages::error("internal error; please report it with the message above");
            Exit::Internal.code()
        }
    };
    // Unlike a return from `main`, this flushes the standard output.
    std::process::exit(code.into())
}
