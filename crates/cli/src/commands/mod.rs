//! What each command does.

mod check;
mod children;
mod config;
mod demo;
mod evaluate;
mod forward_runs;
mod grad;
mod program;
mod tape;

use std::ffi::OsString;

use derivgrind_ad::instrument::Reporting;

use crate::arguments::{self, Command, Derivgrind, DerivgrindConfig, Strictness, TapeEvaluation};
use crate::failure::{Exit, Failure};
use crate::repeated;
use crate::start::Outcome;

/// The `derivgrind` command.
///
/// # Errors
/// What went wrong, with the exit code. If a program was started this does not return: the process ends as the program does.
pub fn derivgrind(arguments: Vec<OsString>) -> Outcome {
    let Some(line) = arguments::parse::<Derivgrind>(arguments::delimit_program(arguments))? else {
        return Ok(0);
    };
    let quiet = line.quiet;
    let reporting = |own: Strictness| Reporting { quiet, strict: own.strict || line.strictness.strict };
    let plain = reporting(Strictness::default());
    if let Some(option) = line.misplaced() {
        return Err(Failure::new(
            Exit::Usage,
            format!(
                "`{option}` stands behind the command, if it has that option: `derivgrind forward {option} ... -- PROGRAM`"
            ),
        ));
    }
    match line.command {
        None if line.program.is_empty() => {
            Err(Failure::new(Exit::Usage, "name a command or a program to run; `derivgrind --help` lists the commands"))
        }
        None => {
            let way = program::Way { words: &line.program, children: &line.children, debugging: &line.debugging };
            match line.record {
                Some(directory) => program::record(&directory, &way, plain),
                None => program::forward(&way, line.directions.unwrap_or(1), None, plain),
            }
        }
        Some(Command::Record { directory, program, strictness, children, debugging }) => {
            let way = program::Way { words: &program.words, children: &children, debugging: &debugging };
            program::record(&directory, &way, reporting(strictness))
        }
        Some(Command::Forward { directions, program, strictness, followed, children, debugging }) => {
            let declared = repeated::declared(&followed)?;
            let way = program::Way { words: &program.words, children: &children, debugging: &debugging };
            program::forward(&way, directions, declared, reporting(strictness))
        }
        Some(Command::Perturbed { program, followed }) => {
            program::perturbed(&program.words, repeated::declared(&followed)?, quiet)
        }
        Some(Command::Check { program, strictness }) => check::check(&program.words, reporting(strictness)),
        Some(Command::Eval { directory, forward }) => evaluate::evaluate(&directory, forward, quiet),
        Some(Command::Grad(grad)) => grad::grad(&grad, reporting(grad.strictness)),
        Some(Command::Tape(command)) => tape::tape(&command),
        Some(Command::Run { program, children, debugging }) => {
            let way = program::Way { words: &program.words, children: &children, debugging: &debugging };
            program::run(&way, quiet)
        }
        Some(Command::Demo) => demo::demo(),
        Some(Command::Config(what)) => config::config(&what),
    }
}

/// The `tape-evaluation` command.
///
/// # Errors
/// What went wrong, with the exit code.
pub fn tape_evaluation(arguments: Vec<OsString>) -> Outcome {
    let Some(line) = arguments::parse::<TapeEvaluation>(arguments)? else {
        return Ok(0);
    };
    if line.stats {
        tape::block_counts(&line.directory)
    } else if line.print {
        tape::print(&line.directory)
    } else {
        evaluate::evaluate(&line.directory, line.forward, false)
    }
}

/// The `derivgrind-config` command.
///
/// # Errors
/// What went wrong, with the exit code.
pub fn derivgrind_config(arguments: Vec<OsString>) -> Outcome {
    match arguments::parse::<DerivgrindConfig>(arguments)? {
        Some(line) => config::config(&line.what),
        None => Ok(0),
    }
}
