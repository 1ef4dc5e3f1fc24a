//! Running a program under the engine.

use std::ffi::OsString;
use std::path::Path;

use derivgrind_ad::declared::Declared;
use derivgrind_ad::instrument::Reporting;
use derivgrind_ad::perturb::Perturbed;
use derivgrind_ad::{Recorder, Settings, forward};
use derivgrind_engine::{NullTool, Options, Tool, loader};
use derivgrind_tape::TapeWriter;

use crate::arguments::Debugging;
use crate::failure::{Exit, Failure};
use crate::start::Outcome;
use crate::tape_size;

/// Records a program into a directory.
///
/// Returns only if it could not be started; an earlier recording in the directory is left alone if that is due to the program.
pub fn record(directory: &Path, program: &[OsString], debugging: &Debugging, reporting: Reporting) -> Outcome {
    let quiet = reporting.quiet;
    loader::check(program, &loader::Options::inherited()).map_err(|error| not_started(&error.into()))?;
    let writer = TapeWriter::create_guarded(directory)
        .map_err(|error| Failure::new(Exit::CannotCreate, format!("cannot record: {error}")))?;
    tape_size::show(&writer, quiet);
    start(program, debugging, quiet, Box::new(Recorder::new(writer, Settings { reporting })))
}

/// Runs a program in forward mode with so many directions. Returns only if it could not be started.
pub fn forward(
    program: &[OsString],
    directions: u32,
    debugging: &Debugging,
    declared: Option<Declared>,
    reporting: Reporting,
) -> Outcome {
    let settings = forward::Settings { reporting, directions, declared };
    start(program, debugging, reporting.quiet, forward::tool(settings))
}

/// Runs a program without derivatives, with other values of the declared inputs. Returns only if it could not be started.
pub fn perturbed(program: &[OsString], declared: Option<Declared>, quiet: bool) -> Outcome {
    let Some(declared) = declared else { return Err(Failure::new(Exit::Usage, "`perturbed` needs --results FILE")) };
    start(program, &Debugging::default(), quiet, Box::new(Perturbed::new(declared)))
}

/// Runs a program without derivatives. Returns only if it could not be started.
pub fn run(program: &[OsString], debugging: &Debugging, quiet: bool) -> Outcome {
    start(program, debugging, quiet, Box::new(NullTool))
}

fn start(program: &[OsString], debugging: &Debugging, quiet: bool, tool: Box<dyn Tool>) -> Outcome {
    let &Debugging { bisect, lockstep, no_avx512: hide_avx512, code_cache, .. } = debugging;
    let options = Options { trace: debugging.trace.clone(), bisect, lockstep, hide_avx512, code_cache, quiet };
    match derivgrind_engine::run(program, &options, tool) {
        Err(error) => Err(not_started(&error)),
    }
}

fn not_started(error: &derivgrind_engine::Error) -> Failure {
    let exit = u8::try_from(error.exit_code()).map_or(Exit::Internal, Exit::Engine);
    Failure::new(exit, error.to_string())
}
