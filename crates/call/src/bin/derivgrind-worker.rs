//! Calls functions of a library for a session (see the crate `derivgrind-call`); not for users.

use std::io::IsTerminal as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    if std::io::stdin().is_terminal() {
        eprintln!("derivgrind-worker is started by derivgrind's Python module; it is of no use by itself");
        return ExitCode::from(2);
    }
    match derivgrind_call::worker::serve() {
        // As at the end of a C program: exit handlers of the library run.
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("derivgrind-worker: {error}");
            ExitCode::from(70)
        }
    }
}
