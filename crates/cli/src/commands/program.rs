//! Running a program under the engine.

use std::ffi::OsString;
use std::path::Path;

use derivgrind_ad::declared::Declared;
use derivgrind_ad::instrument::Reporting;
use derivgrind_ad::perturb::Perturbed;
use derivgrind_ad::{Recorder, Settings, forward};
use derivgrind_engine::{NullTool, Options, Tool, loader};
use derivgrind_tape::TapeWriter;

use super::children;
use crate::arguments::{Children, Debugging};
use crate::failure::{Exit, Failure};
use crate::start::Outcome;
use crate::tape_size;

/// What is run, and how.
pub struct Way<'a> {
    /// The program and its arguments.
    pub words: &'a [OsString],
    /// What is done with programs that it executes.
    pub children: &'a Children,
    /// Switches for finding errors in derivgrind.
    pub debugging: &'a Debugging,
}

impl Way<'_> {
    /// The engine's options. `own` is the command, with its options, under which executed programs run.
    fn options(&self, own: Vec<OsString>, quiet: bool) -> Options {
        let &Debugging { bisect, lockstep, no_avx512: hide_avx512, code_cache, ref trace } = self.debugging;
        let Children { trace_children, executed } = self.children;
        Options {
            trace: if executed.is_some() { trace.as_deref().map(children::trace_of_executed) } else { trace.clone() },
            bisect,
            lockstep,
            hide_avx512,
            code_cache,
            quiet,
            executed: executed.clone(),
            children: trace_children.then(|| children::options(own, self.debugging, quiet)),
        }
    }
}

/// Records a program into a directory.
///
/// Returns only if it could not be started; an earlier recording in the directory is left alone if that is due to the program.
pub fn record(directory: &Path, way: &Way<'_>, reporting: Reporting) -> Outcome {
    let quiet = reporting.quiet;
    let loader = loader::Options { executed: way.children.executed.clone(), ..loader::Options::inherited() };
    loader::check(way.words, &loader).map_err(|error| not_started(&error.into()))?;
    let own = if way.children.executed.is_some() {
        children::recording_of_executed(directory)
    } else {
        children::remove_recordings(directory);
        directory.to_owned()
    };
    let writer = TapeWriter::create_guarded(&own)
        .map_err(|error| Failure::new(Exit::CannotCreate, format!("cannot record: {error}")))?;
    tape_size::show(&writer, quiet);
    let command = with_strictness(vec!["record".into(), children::absolute(directory).into()], reporting);
    start(way, command, quiet, Box::new(Recorder::new(writer, Settings { reporting })))
}

/// Runs a program in forward mode with so many directions. Returns only if it could not be started.
pub fn forward(way: &Way<'_>, directions: u32, declared: Option<Declared>, reporting: Reporting) -> Outcome {
    let command = vec!["forward".into(), format!("--directions={directions}").into()];
    let settings = forward::Settings { reporting, directions, declared };
    start(way, with_strictness(command, reporting), reporting.quiet, forward::tool(settings))
}

/// Runs a program without derivatives, with other values of the declared inputs. Returns only if it could not be started.
pub fn perturbed(program: &[OsString], declared: Option<Declared>, quiet: bool) -> Outcome {
    let Some(declared) = declared else { return Err(Failure::new(Exit::Usage, "`perturbed` needs --results FILE")) };
    let way = Way { words: program, children: &Children::default(), debugging: &Debugging::default() };
    start(&way, Vec::new(), quiet, Box::new(Perturbed::new(declared)))
}

/// Runs a program without derivatives. Returns only if it could not be started.
pub fn run(way: &Way<'_>, quiet: bool) -> Outcome {
    start(way, vec!["run".into()], quiet, Box::new(NullTool))
}

fn with_strictness(mut command: Vec<OsString>, reporting: Reporting) -> Vec<OsString> {
    command.extend(reporting.strict.then(|| "--strict".into()));
    command
}

fn start(way: &Way<'_>, command: Vec<OsString>, quiet: bool, tool: Box<dyn Tool>) -> Outcome {
    match derivgrind_engine::run(way.words, &way.options(command, quiet), tool) {
        Err(error) => Err(not_started(&error)),
    }
}

fn not_started(error: &derivgrind_engine::Error) -> Failure {
    let exit = u8::try_from(error.exit_code()).map_or(Exit::Internal, Exit::Engine);
    Failure::new(exit, error.to_string())
}
