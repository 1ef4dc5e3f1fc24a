//! What each command does.

mod check;
mod config;
mod demo;
mod evaluate;
mod grad;
mod program;
mod tape;

use std::ffi::OsString;

use crate::arguments::{self, Command, Derivgrind, DerivgrindConfig, TapeEvaluation};
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
    match line.command {
        None if line.program.is_empty() => {
            Err(Failure::new(Exit::Usage, "name a command or a program to run; `derivgrind --help` lists the commands"))
        }
        None => match line.record {
            Some(directory) => program::record(&directory, &line.program, &line.debugging, quiet),
            None => program::forward(&line.program, &line.debugging, None, quiet),
        },
        Some(Command::Record { directory, program, debugging }) => {
            program::record(&directory, &program.words, &debugging, quiet)
        }
        Some(Command::Forward { program, followed, debugging }) => {
            program::forward(&program.words, &debugging, repeated::declared(&followed)?, quiet)
        }
        Some(Command::Perturbed { program, followed }) => {
            program::perturbed(&program.words, repeated::declared(&followed)?, quiet)
        }
        Some(Command::Check { program }) => check::check(&program.words, quiet),
        Some(Command::Eval { directory, forward }) => evaluate::evaluate(&directory, forward, quiet),
        Some(Command::Grad(grad)) => grad::grad(&grad, quiet),
        Some(Command::Tape(command)) => tape::tape(&command),
        Some(Command::Run { program, debugging }) => program::run(&program.words, &debugging, quiet),
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
