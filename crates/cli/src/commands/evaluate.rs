//! `derivgrind eval`: from a file of bar or dot values to another.

use std::path::Path;

use crate::recording;
use crate::start::Outcome;

/// Evaluates the tape in `directory`.
pub fn evaluate(directory: &Path, forward: bool, quiet: bool) -> Outcome {
    recording::evaluate_files(directory, forward, quiet)?;
    Ok(0)
}
