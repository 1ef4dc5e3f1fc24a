//! Running a program under the engine.

use std::ffi::OsString;
use std::path::Path;

use crate::arguments::Debugging;
use crate::failure::{Exit, Failure};
use crate::start::Outcome;

/// Records a program. Returns only if it could not be started.
pub fn record(_directory: &Path, _program: &[OsString], _debugging: &Debugging, _quiet: bool) -> Outcome {
    Err(Failure::new(Exit::Unavailable, "this build has no engine: programs cannot be recorded"))
}

/// Runs a program without derivatives. Returns only if it could not be started.
pub fn run(_program: &[OsString], _debugging: &Debugging, _quiet: bool) -> Outcome {
    Err(Failure::new(Exit::Unavailable, "this build has no engine: programs cannot be run"))
}

/// Forward mode is asked for, explicitly or by naming a program without `--record`.
pub fn no_forward_mode(program: &[OsString]) -> Failure {
    let words: Vec<String> = program.iter().map(|word| word.display().to_string()).collect();
    let words = words.join(" ");
    Failure::new(
        Exit::Unavailable,
        format!(
            "cannot run {words}: this version has no forward mode\n  \
             for all derivatives of its outputs: derivgrind grad -- {words}\n  \
             for dot values: derivgrind record DIR -- {words}, then derivgrind eval DIR --forward"
        ),
    )
}
